//! The forward walk: the only judge of where a chain of segments ends.

use std::ops::Range;

use super::Jumps;
use super::hop::Hop;
use crate::container::crc::crc32;
use crate::container::fault::{Fault, ReadError};
use crate::container::frame::{self, Frame};
use crate::container::source::Source;
use crate::container::tail::{Later, Stop, Tail, Zeros, judge};
use crate::container::trailer::{BODY_LEN_MAX, LogId, SKIPPABLE_HEADER, TRAILER_LEN, Trailer};
use crate::limits::Limits;

/// A walk along the chain, one segment a step.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    id: LogId,
    previous: Trailer,
    /// End of `previous`.
    end: u64,
    /// Present when the walk began at the head, or knows them from there: skip distances are then checked too.
    jumps: Option<Jumps>,
    durable: u64,
}

/// One good segment: its body matches the CRC, its trailer the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) trailer: Trailer,
    /// File offset of the body, and of the first byte of its trailer.
    pub(crate) body: (u64, u64),
    /// The data frame in the body; markers have none.
    pub(crate) frame: Option<Frame>,
}

impl Segment {
    /// End of the trailer.
    pub(crate) fn end(&self) -> u64 {
        self.body.1.saturating_add(TRAILER_LEN as u64)
    }
}

/// Why a walk could not take another step.
#[derive(Debug)]
pub(crate) enum WalkStop {
    /// The end of the file, right behind a trailer.
    End,
    /// What stands there is no good segment.
    Fault(Fault),
    /// Reading failed.
    Read(ReadError),
}

impl From<ReadError> for WalkStop {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Bad { fault: Fault::Shrunk, .. } | ReadError::Io(_) => Self::Read(error),
            ReadError::Bad { fault, .. } => Self::Fault(fault),
        }
    }
}

impl Walk {
    /// Starts at the head of the file; the first segment is the header's.
    ///
    /// # Errors
    /// The fault of the first segment, at its place: without it nothing can be read.
    pub(crate) fn start(source: &mut dyn Source) -> Result<(Self, Segment), ReadError> {
        let frame = frame::walk(source, 0)?;
        let stored = trailer_at(source, frame.end)?;
        let (trailer, id) =
            Trailer::parse_first(&stored).map_err(|fault| ReadError::bad(frame.end, fault))?;
        let body = (0, frame.end);
        if u64::from(trailer.body_len) != frame.end {
            let fault =
                Fault::Chain { member: "body_len", expected: frame.end, got: u64::from(trailer.body_len) };
            return Err(ReadError::bad(frame.end, fault));
        }
        check_body(source, body, &trailer)?;
        let segment = Segment { trailer, body, frame: Some(frame) };
        let mut jumps = Jumps::default();
        jumps.push(0, segment.end());
        Ok((Self { id, previous: trailer, end: segment.end(), jumps: Some(jumps), durable: 0 }, segment))
    }

    /// Starts behind the header's segment although the header itself is damaged, if its trailer still stands.
    ///
    /// For lenient reading: the first trailer says where it stands itself, since its body is all that lies before it.
    pub(crate) fn start_without_header(source: &mut dyn Source) -> Result<Option<Self>, ReadError> {
        let finder = memchr::memmem::Finder::new(&SKIPPABLE_HEADER);
        let near = source.size().min(Limits::DEFAULT.header_bytes_max);
        let bytes = source.get(0, usize::try_from(near).unwrap_or(0))?;
        let first = finder.find_iter(bytes).find_map(|at| {
            let stored = bytes.get(at..)?.first_chunk::<TRAILER_LEN>()?;
            let (trailer, id) = Trailer::parse_first(stored).ok()?;
            (u64::from(trailer.body_len) == at as u64).then_some((trailer, id, at))
        });
        Ok(first.map(|(trailer, id, at)| {
            let end = (at as u64).saturating_add(TRAILER_LEN as u64);
            Self::behind(id, trailer, end)
        }))
    }

    /// Starts behind a trailer that a hop found: `previous` ends at `end`.
    pub(crate) fn behind(id: LogId, previous: Trailer, end: u64) -> Self {
        Self { id, previous, end, jumps: None, durable: previous.durable_boundary(end).unwrap_or(0) }
    }

    /// As [`Walk::behind`], with what checks the skip distances that follow and makes the next ones: `jumps` of `from`.
    pub(crate) fn resumed(id: LogId, from: Hop, jumps: Jumps) -> Self {
        Self { jumps: Some(jumps), ..Self::behind(id, from.trailer, from.end) }
    }

    /// End of the last good segment.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The last good trailer.
    pub(crate) fn previous(&self) -> &Trailer {
        &self.previous
    }

    /// The seal of this file.
    pub(crate) fn id(&self) -> LogId {
        self.id
    }

    /// Where later skip distances lead, if the walk knows.
    pub(crate) fn jumps(&self) -> Option<&Jumps> {
        self.jumps.as_ref()
    }

    /// Checks the next segment and moves behind it. Nothing changes on a stop.
    pub(crate) fn step(&mut self, source: &mut dyn Source) -> Result<Segment, WalkStop> {
        if self.end >= source.size() {
            return Err(WalkStop::End);
        }
        source.hold(self.end);
        let (frame, body_end, extension) = body_extent(source, self.end)?;
        let body = (self.end, body_end);
        let stored = trailer_at(source, body_end)?;
        let trailer = Trailer::parse(&stored, self.id).map_err(WalkStop::Fault)?;
        let segment = Segment { trailer, body, frame };
        let end = segment.end();
        trailer.follows(&self.previous, self.end, end).map_err(WalkStop::Fault)?;
        if let Some(jumps) = &self.jumps {
            let expected = jumps.distance(trailer.segment, end);
            if expected != trailer.skip {
                return Err(WalkStop::Fault(Fault::Chain { member: "skip", expected, got: trailer.skip }));
            }
        }
        check_body(source, body, &trailer)?;
        if extension {
            return Err(WalkStop::Fault(Fault::Extension));
        }
        if let Some(jumps) = &mut self.jumps {
            jumps.push(trailer.segment, end);
        }
        self.durable = self.durable.max(trailer.durable_boundary(end).unwrap_or(0));
        self.previous = trailer;
        self.end = end;
        Ok(segment)
    }

    /// Judges the end at which [`Walk::step`] stopped.
    ///
    /// Searches everything behind the stop for trailers sealed with this file's log id; their bytes are hints of what
    /// had been durable, never a place to read on from.
    ///
    /// # Errors
    /// What reading gives.
    pub(crate) fn judge(&self, source: &mut dyn Source, fault: Option<Fault>) -> Result<Tail, ReadError> {
        let later = if fault.is_some() { search(source, self.id, self.end)? } else { Later::Nothing };
        let stop =
            Stop { good_end: self.end, durable: self.durable, committed: self.previous.commit, fault, later };
        judge(source, stop, Zeros::AnySector)
    }

    /// The first trailer behind the stop that is sealed with this file's log id: where a lenient reader may go on.
    pub(crate) fn next_sealed(
        &self,
        source: &mut dyn Source,
        from: u64,
    ) -> Result<Option<(Trailer, u64)>, ReadError> {
        let mut found = None;
        scan(source, self.id, from, &mut |trailer, end| {
            found = Some((trailer, end));
            false
        })?;
        Ok(found)
    }
}

/// Finds the frame of the body at `start` and the end of the body. A marker has neither.
fn body_extent(source: &mut dyn Source, start: u64) -> Result<(Option<Frame>, u64, bool), WalkStop> {
    let mut at = start;
    let mut extension = false;
    loop {
        let left = source.size().saturating_sub(at);
        let probe = source.get(at, usize::try_from(left.min(SKIPPABLE_HEADER.len() as u64)).unwrap_or(0))?;
        if probe.len() < SKIPPABLE_HEADER.len() {
            let proper = SKIPPABLE_HEADER.starts_with(probe)
                || frame::MAGIC.starts_with(probe.get(..4).unwrap_or(probe));
            return Err(WalkStop::Fault(if proper { Fault::Truncated } else { first_bytes(probe) }));
        }
        if probe == SKIPPABLE_HEADER {
            return if extension { Ok((None, at, true)) } else { Ok((None, start, false)) };
        }
        let Some(len) = frame::skippable_len(source, at) else { break };
        // Extension frames may stand before the data frame; none is defined yet.
        at = at
            .checked_add(len)
            .filter(|&end| end <= source.size())
            .ok_or(WalkStop::Fault(Fault::Truncated))?;
        extension = true;
    }
    let frame = frame::walk(source, at)?;
    Ok((Some(frame), frame.end, extension))
}

fn first_bytes(probe: &[u8]) -> Fault {
    let mut found = [0; 4];
    for (to, from) in found.iter_mut().zip(probe) {
        *to = *from;
    }
    Fault::FrameMagic { found: u32::from_le_bytes(found) }
}

/// The 64 bytes at `at`. Fewer are a cut only if they begin a trailer.
pub(crate) fn trailer_at(source: &mut dyn Source, at: u64) -> Result<[u8; TRAILER_LEN], ReadError> {
    let left = usize::try_from(source.size().saturating_sub(at).min(TRAILER_LEN as u64)).unwrap_or(0);
    let stored = source.get(at, left)?;
    match <[u8; TRAILER_LEN]>::try_from(stored) {
        Ok(whole) => Ok(whole),
        Err(_) if stored.iter().zip(SKIPPABLE_HEADER).all(|(&a, b)| a == b) => {
            Err(ReadError::bad(at, Fault::Truncated))
        }
        Err(_) => Err(ReadError::bad(at, Fault::TrailerMagic)),
    }
}

/// Checks the body's CRC in pieces, so that a body of any size needs no buffer of its own.
fn check_body(source: &mut dyn Source, body: (u64, u64), trailer: &Trailer) -> Result<(), ReadError> {
    const PIECE: u64 = 256 << 10;
    let len = body.1.saturating_sub(body.0);
    if len > u64::from(BODY_LEN_MAX) {
        return Err(ReadError::bad(body.0, Fault::BodyLimit { len, limit: u64::from(BODY_LEN_MAX) }));
    }
    let mut computed = 0;
    let mut at = body.0;
    while at < body.1 {
        let piece = PIECE.min(body.1.saturating_sub(at));
        let bytes = source.get(at, usize::try_from(piece).unwrap_or(0))?;
        computed = crc32(computed, bytes);
        at = at.saturating_add(piece);
    }
    if computed == trailer.body_crc {
        Ok(())
    } else {
        Err(ReadError::bad(body.0, Fault::BodyCrc { stored: trailer.body_crc, computed }))
    }
}

/// Searches `[from, end of file)` for trailers of the log `id`, the furthest durable boundary among them.
fn search(source: &mut dyn Source, id: LogId, from: u64) -> Result<Later, ReadError> {
    let mut later = Later::Nothing;
    scan(source, id, from, &mut |trailer, end| {
        let boundary = trailer.durable_boundary(end).unwrap_or(0);
        later = match later {
            Later::Durable(known) => Later::Durable(known.max(boundary)),
            _ if boundary > from => Later::Durable(boundary),
            _ => Later::Intact,
        };
        true
    })?;
    Ok(later)
}

/// Calls `found` with each sealed trailer in `[from, end of file)` and its end, until it returns `false`.
fn scan(
    source: &mut dyn Source,
    id: LogId,
    from: u64,
    found: &mut dyn FnMut(Trailer, u64) -> bool,
) -> Result<(), ReadError> {
    const PIECE: u64 = 256 << 10;
    let finder = memchr::memmem::Finder::new(&SKIPPABLE_HEADER);
    let mut at = from;
    while at < source.size() {
        let piece: Range<u64> = at..at.saturating_add(PIECE).min(source.size());
        let overlap = piece.end.saturating_add(TRAILER_LEN as u64).saturating_sub(1).min(source.size());
        let bytes = source.get(at, usize::try_from(overlap.saturating_sub(at)).unwrap_or(0))?;
        let mut hits = Vec::new();
        for hit in finder.find_iter(bytes) {
            let whole = bytes.get(hit..).and_then(|rest| rest.first_chunk::<TRAILER_LEN>());
            if let Some(Ok(trailer)) = whole.map(|stored| Trailer::parse(stored, id)) {
                let end = at.saturating_add(hit as u64).saturating_add(TRAILER_LEN as u64);
                if at.saturating_add(hit as u64) < piece.end {
                    hits.push((trailer, end));
                }
            }
        }
        for (trailer, end) in hits {
            if !found(trailer, end) {
                return Ok(());
            }
        }
        at = piece.end;
    }
    Ok(())
}
