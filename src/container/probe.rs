//! The head and the tail of a log, without its middle: what counting and listing read.
//!
//! Spec: `format-spec/01-container.md`, "Reading the two ends".

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame;
use super::indexed::{Hop, Walk, WalkStop, last_trailer};
use super::read::check_lines;
use super::source::Source;
use super::trailer::{LogId, TRAILER_LEN};
use super::zstd::Decoder;
use crate::limits::Limits;

/// Bytes that one look at the end of a file reads first: most trailers and last rows lie in one page.
pub(super) const NEAR: u64 = 4 << 10;
/// Bytes at the end of a file in which the last frame or row is searched before the forward walk has to answer.
pub(super) const FAR: u64 = 60 << 10;

/// Markers at the end of an indexed log that a look from behind steps over.
pub(super) const MARKERS: usize = 16;

/// Longest last segment that is read in one piece.
const AT_ONCE: usize = 1 << 20;

/// What the two ends of a log say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// The header line, newline included.
    pub header: Vec<u8>,
    /// What stands at the end.
    pub last: Last,
    /// Bytes before the last record that no sync is known to have covered and that were not looked at: if the power went
    /// during a large append, they may be damaged although its end is not. Else 0.
    pub unproved: u64,
}

/// The end of a log as its last bytes show it.
///
/// A look from behind can be deceived where a forward walk cannot, so every finding but [`Last::Unclear`] was proved by
/// checksums and by rows that end where they must. It serves counting and listing, never a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Last {
    /// The log has a header and no rows.
    HeaderOnly,
    /// The log ends in a row, whole and with its newline.
    Rows {
        /// The last line.
        line: Vec<u8>,
        /// Events of the whole log by the last trailer, in the indexed encoding.
        counted: Option<u64>,
    },
    /// The end is torn, damaged, unfinished, or further away than a look from behind may read.
    Unclear,
}

/// Reads both ends of a log that its caller took for `encoding`.
///
/// Reads at most 64 KiB besides the header line and the last segment (or row), whatever the log's length; in a framed log
/// whose end is not clear within those, the headers of all frames too.
///
/// # Errors
/// The fault of the header: a log without one has no identity. Everything at the end is told by [`Probe::last`].
pub fn probe(source: &mut dyn Source, encoding: Encoding, limits: Limits) -> Result<Probe, ReadError> {
    match encoding {
        Encoding::Indexed => indexed(source, limits),
        Encoding::Zstd => framed(source, limits),
        Encoding::Plain => plain(source, limits),
    }
}

/// The header line of a log, newline included.
///
/// # Errors
/// The fault of the first frame or line.
pub fn header_line(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
) -> Result<Vec<u8>, ReadError> {
    match encoding {
        Encoding::Plain => plain_header(source, limits),
        Encoding::Indexed | Encoding::Zstd => {
            let first = frame::walk(source, 0)?;
            decode(source, &mut Decoder::new(limits), &first, true, limits).map(<[u8]>::to_vec)
        }
    }
}

/// Where the header ends with its frame and its trailer, and the id of an indexed log. What lies behind depends on neither the
/// header's bytes nor their number.
///
/// # Errors
/// The fault of the header's line, frame or segment.
pub(crate) fn head(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
) -> Result<(u64, Option<LogId>), ReadError> {
    match encoding {
        Encoding::Plain => Ok((plain_header(source, limits)?.len() as u64, None)),
        Encoding::Zstd => Ok((frame::walk(source, 0)?.end, None)),
        Encoding::Indexed => {
            let (walk, header) = Walk::start(source)?;
            Ok((header.end(), Some(walk.id())))
        }
    }
}

/// Events of an indexed log by its last trailer, if the log is whole as far as a look from behind tells.
///
/// What [`probe`] proves, but for the rows that the last trailer counts: nothing is decompressed. For seeking, not for what a
/// person is told. Reads as far back as it takes to be sure that no crash damaged what lies before the end.
///
/// # Errors
/// The fault of the header's segment.
pub(crate) fn sealed_count(source: &mut dyn Source) -> Result<Option<u64>, ReadError> {
    let (walk, _) = Walk::start(source)?;
    Ok(match prove_end(source, &walk, u64::MAX) {
        Ok(End::HeaderOnly) => Some(0),
        Ok(End::Segment { counted, unproved: 0, .. }) => Some(counted),
        _ => None,
    })
}

/// What the last trailer of an indexed log says, taken on trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Events of the log.
    pub(crate) events: u64,
    /// How many of them a sync had covered when the last append was written: no crash can have damaged those.
    pub(crate) durable_events: u64,
    /// The log's id, and the last segment of those.
    pub(super) durable: (LogId, Option<Hop>),
}

/// What the end of an indexed log claims, if that is a sealed and committed trailer: three trailers are read, and no body.
///
/// # Errors
/// The fault of the header's segment, and what reading gives.
pub(crate) fn claim(source: &mut dyn Source) -> Result<Option<Claim>, ReadError> {
    let (walk, _) = Walk::start(source)?;
    let Some(last) = last_trailer(source, walk.id())?.filter(|last| last.trailer.commit) else {
        return Ok(None);
    };
    let durable = last.durable(source, walk.id())?;
    let durable_events = durable.map_or(0, |hop| hop.trailer.next_seq);
    Ok(Some(Claim { events: last.trailer.next_seq, durable_events, durable: (walk.id(), durable) }))
}

fn indexed(source: &mut dyn Source, limits: Limits) -> Result<Probe, ReadError> {
    let (walk, first) = Walk::start(source)?;
    let mut decoder = Decoder::new(limits);
    let frame = first.frame.ok_or(ReadError::bad(0, Fault::HeaderLine))?;
    let header = decode(source, &mut decoder, &frame, true, limits)?.to_vec();
    let (last, unproved) = match prove_end(source, &walk, FAR) {
        Ok(End::HeaderOnly) => (Last::HeaderOnly, 0),
        Ok(End::Segment { frame, counted, unproved }) => {
            let lines = decode(source, &mut decoder, &frame, false, limits);
            let rows = |lines: &[u8]| Last::Rows { line: last_line(lines), counted: Some(counted) };
            let last = lines.map(|lines| if lines.is_empty() { Last::Unclear } else { rows(lines) });
            (last.or_else(unclear)?, unproved)
        }
        Ok(End::Unclear) => (Last::Unclear, 0),
        Err(error) => (unclear(error)?, 0),
    };
    Ok(Probe { header, last, unproved })
}

/// The end of an indexed log, nothing decompressed.
enum End {
    HeaderOnly,
    /// The last segment with rows is whole and chained to the one before it.
    Segment {
        frame: frame::Frame,
        /// Events of the log by the last trailer.
        counted: u64,
        /// As [`Probe::unproved`].
        unproved: u64,
    },
    Unclear,
}

/// `reach`: how many bytes before the last record are walked where no sync is known to have covered them.
fn prove_end(source: &mut dyn Source, walk: &Walk, reach: u64) -> Result<End, ReadError> {
    // One read fetches the last trailer and, mostly, the body before it.
    let near = source.size().saturating_sub(walk.end()).min(NEAR);
    source.get(source.size().saturating_sub(near), usize::try_from(near).unwrap_or(0))?;
    let Some(last) = last_trailer(source, walk.id())? else { return Ok(End::Unclear) };
    if !last.trailer.commit {
        return Ok(End::Unclear);
    }
    let counted = last.trailer.next_seq;
    let mut hop = last;
    // Each recovery leaves one marker; a log that ends with more than these is walked.
    for _ in 0..MARKERS {
        if hop.trailer.body_len > 0 {
            break;
        }
        hop = hop.previous(source, walk.id())?;
    }
    if hop.trailer.body_len == 0 {
        return Ok(End::Unclear);
    }
    if hop.trailer.segment == 0 {
        return Ok(if counted == 0 { End::HeaderOnly } else { End::Unclear });
    }
    let start = hop.trailer.body_start(hop.end).ok_or(ReadError::bad(0, Fault::Truncated))?;
    // One read fetches the body with the trailers around it; a longer one is read as it is asked for.
    let around = start.saturating_sub(TRAILER_LEN as u64)..hop.end;
    if let Ok(len @ ..=AT_ONCE) = usize::try_from(around.end.saturating_sub(around.start)) {
        source.get(around.start, len)?;
    }
    // The chain from the segment before proves the body and its CRC.
    let before = hop.previous(source, walk.id())?;
    let mut check = Walk::behind(walk.id(), before.trailer, before.end);
    let Some(frame) = check.step(source).ok().and_then(|segment| segment.frame) else {
        return Ok(End::Unclear);
    };
    debug_assert!(frame.start >= start, "the frame lies in the body");
    let durable = last.trailer.durable_boundary(last.end).unwrap_or(0);
    let unproved = match start.saturating_sub(durable) {
        0 => 0,
        gap if gap > reach => gap,
        _ if !is_chained(source, walk, last, durable)? => return Ok(End::Unclear),
        _ => 0,
    };
    Ok(End::Segment { frame, counted, unproved })
}

/// Whether whole segments lead from the one that ends at `durable` to the last one.
fn is_chained(source: &mut dyn Source, head: &Walk, last: Hop, durable: u64) -> Result<bool, ReadError> {
    let mut walk = match last.durable(source, head.id())? {
        Some(hop) => Walk::behind(head.id(), hop.trailer, hop.end),
        None if durable == 0 => head.clone(),
        None => return Ok(false),
    };
    while walk.end() < last.end {
        match walk.step(source) {
            Ok(_) => {}
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End | WalkStop::Fault(_)) => return Ok(false),
        }
    }
    Ok(true)
}

fn framed(source: &mut dyn Source, limits: Limits) -> Result<Probe, ReadError> {
    let mut decoder = Decoder::new(limits);
    let first = frame::walk(source, 0)?;
    let header = decode(source, &mut decoder, &first, true, limits)?.to_vec();
    let mut last = framed_tail(source, first.end, &mut decoder, limits).or_else(unclear)?;
    if last == Last::Unclear {
        last = framed_walk(source, first.end, &mut decoder, limits).or_else(unclear)?;
    }
    Ok(Probe { header, last, unproved: 0 })
}

/// Finds the last frame that is not empty by the structure of all frames, which are hopped over.
fn framed_walk(
    source: &mut dyn Source,
    header_end: u64,
    decoder: &mut Decoder,
    limits: Limits,
) -> Result<Last, ReadError> {
    let (mut at, mut before, mut last) = (header_end, None, None);
    while at < source.size() {
        let frame = frame::walk(source, at)?;
        at = frame.end;
        before = last.replace(frame);
    }
    // DSH's streaming compressor leaves an empty frame at the end of a migrated log.
    for frame in [last, before].into_iter().flatten() {
        if !frame.has_checksum {
            break;
        }
        let lines = decode(source, decoder, &frame, false, limits)?;
        if !lines.is_empty() {
            return Ok(Last::Rows { line: last_line(lines), counted: None });
        }
    }
    Ok(Last::Unclear)
}

/// The last of whole lines.
fn last_line(lines: &[u8]) -> Vec<u8> {
    let text = lines.strip_suffix(b"\n").unwrap_or(lines);
    let start = memchr::memrchr(b'\n', text).map_or(0, |newline| newline.saturating_add(1));
    lines.get(start..).unwrap_or_default().to_vec()
}

/// Looks for the one frame that ends with the file.
///
/// A payload can hold a whole frame of its own, even one that ends with the file if the outer frame has no checksum. So
/// the frame that is found must carry a checksum, and no earlier start in reach may walk over it to the same end: where
/// there are two readings, the forward walk decides.
fn framed_tail(
    source: &mut dyn Source,
    header_end: u64,
    decoder: &mut Decoder,
    limits: Limits,
) -> Result<Last, ReadError> {
    let len = source.size();
    if header_end == len {
        return Ok(Last::HeaderOnly);
    }
    let mut reach = NEAR;
    loop {
        let from = len.saturating_sub(reach).max(header_end);
        let bytes = source.get(from, usize::try_from(len.saturating_sub(from)).unwrap_or(0))?;
        let starts: Vec<u64> = memchr::memmem::find_iter(bytes, &frame::MAGIC)
            .map(|at| from.saturating_add(at as u64))
            .collect();
        let mut ends_with_file = Vec::new();
        for start in starts {
            match frame::walk(source, start) {
                Ok(frame) if frame.end == len => ends_with_file.push(frame),
                _ => {}
            }
        }
        match ends_with_file.as_slice() {
            [] if from > header_end && reach < FAR => reach = reach.saturating_mul(4).min(FAR),
            [frame] if frame.has_checksum => {
                let lines = decode(source, decoder, frame, false, limits)?;
                // DSH's streaming compressor leaves an empty frame at the end of a migrated log.
                return Ok(if lines.is_empty() {
                    Last::Unclear
                } else {
                    Last::Rows { line: last_line(lines), counted: None }
                });
            }
            _ => return Ok(Last::Unclear),
        }
    }
}

fn plain_header(source: &mut dyn Source, limits: Limits) -> Result<Vec<u8>, ReadError> {
    let len = source.size();
    let mut want = NEAR;
    loop {
        let bytes = source.get(0, usize::try_from(want.min(len)).unwrap_or(0))?;
        if let Some(line) = memchr::memchr(b'\n', bytes).and_then(|newline| bytes.get(..=newline)) {
            return Ok(line.to_vec());
        }
        if want >= len {
            return Err(ReadError::bad(0, Fault::HeaderLine));
        }
        if want >= limits.header_bytes_max {
            return Err(ReadError::bad(0, Fault::LineLimit { limit: limits.header_bytes_max }));
        }
        want = want.saturating_mul(4);
    }
}

fn plain(source: &mut dyn Source, limits: Limits) -> Result<Probe, ReadError> {
    let header = plain_header(source, limits)?;
    let len = source.size();
    let header_end = header.len() as u64;
    let mut reach = NEAR;
    let last = loop {
        if header_end == len {
            break Last::HeaderOnly;
        }
        let from = len.saturating_sub(reach).max(header_end);
        let bytes = source.get(from, usize::try_from(len.saturating_sub(from)).unwrap_or(0))?;
        let Some((b'\n', before)) = bytes.split_last() else { break Last::Unclear };
        match memchr::memrchr(b'\n', before) {
            None if from > header_end && reach < limits.row_bytes_max => reach = reach.saturating_mul(4),
            None if from > header_end => break Last::Unclear,
            newline => {
                let start = newline.map_or(0, |newline| newline.saturating_add(1));
                let line = bytes.get(start..).unwrap_or_default().to_vec();
                break Last::Rows { line, counted: None };
            }
        }
    };
    Ok(Probe { header, last, unproved: 0 })
}

fn decode<'d>(
    source: &mut dyn Source,
    decoder: &'d mut Decoder,
    frame: &frame::Frame,
    is_header: bool,
    limits: Limits,
) -> Result<&'d [u8], ReadError> {
    let len =
        usize::try_from(frame.stored_len()).map_err(|_| ReadError::bad(frame.start, Fault::FrameData))?;
    let stored = source.get(frame.start, len)?;
    let limit = if is_header { limits.header_bytes_max } else { limits.frame_content_bytes_max };
    let content =
        decoder.decode_up_to(frame, stored, limit).map_err(|fault| ReadError::bad(frame.start, fault))?;
    check_lines(is_header, content, limits).map_err(|fault| ReadError::bad(frame.start, fault))?;
    Ok(content)
}

/// Whatever is wrong with the end is the forward walk's to name; an operating system that refuses is not.
fn unclear(error: ReadError) -> Result<Last, ReadError> {
    match error {
        ReadError::Bad { .. } => Ok(Last::Unclear),
        ReadError::Io(_) => Err(error),
    }
}
