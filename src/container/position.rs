//! Starting to read in the middle of a log.
//!
//! Spec: `format-spec/01-container.md`, "Seeking".

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame;
use super::framed::FramedReader;
use super::indexed::{Hop, IndexedReader, Walk, last_trailer};
use super::plain::PlainReader;
use super::read::BlockReader;
use super::source::Source;
use super::zstd::Decoder;
use crate::limits::Limits;

/// Tells the seq of a row, or `None` for a line that is none.
pub type SeqOf<'f> = &'f mut dyn FnMut(&[u8]) -> Option<u64>;

/// Returns a reader whose first block is the last one that begins at or before event `seq`, or `None` where reading from
/// the head is as good or the log's structure does not lead there.
///
/// `seq` must be above 0. Cost: O(log segments) trailers in an indexed log; in a framed one, all frame headers and the
/// first rows of O(log frames) frames; in a plain one O(log bytes) looks at a page. What lies before the block is not
/// checked.
///
/// # Errors
/// What reading gives. Damage on the way is no error: the caller then reads from the head and meets it in its place.
pub fn reader_at(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
    seq: u64,
    seq_of: SeqOf<'_>,
) -> Result<Option<Box<dyn BlockReader>>, ReadError> {
    let found = match encoding {
        Encoding::Indexed => indexed(source, limits, seq),
        Encoding::Zstd => framed(source, limits, seq, seq_of),
        Encoding::Plain => plain(source, limits, seq, seq_of),
    };
    match found {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        other => other,
    }
}

type Found = Result<Option<Box<dyn BlockReader>>, ReadError>;

fn indexed(source: &mut dyn Source, limits: Limits, seq: u64) -> Found {
    let (walk, _) = Walk::start(source)?;
    let Some(last) = last_trailer(source, walk.id())? else { return Ok(None) };
    // Behind that only a walk tells where the log ends. It needs no decompression up to the event.
    let Some(durable) = last.durable(source, walk.id())? else { return Ok(None) };
    let before = durable.before(source, walk.id(), seq)?;
    let mut walk = Walk::behind(walk.id(), before.trailer, before.end);
    let mut found = before;
    while walk.step(source).is_ok() && walk.previous().next_seq <= seq {
        found = Hop { trailer: *walk.previous(), end: walk.end() };
    }
    Ok(Some(Box::new(IndexedReader::behind(walk.id(), found, limits))))
}

fn framed(source: &mut dyn Source, limits: Limits, seq: u64, seq_of: SeqOf<'_>) -> Found {
    let mut frames = Vec::new();
    let mut at = frame::walk(source, 0)?.end;
    while at < source.size() {
        // A torn end is met again, and judged, by the reader.
        let Ok(frame) = frame::walk(source, at) else { break };
        at = frame.end;
        frames.push(frame);
    }
    let mut decoder = Decoder::new(limits);
    let mut first_seq = |index: usize| -> Result<Option<u64>, ReadError> {
        let Some(frame) = frames.get(index) else { return Ok(None) };
        let len =
            usize::try_from(frame.stored_len()).map_err(|_| ReadError::bad(frame.start, Fault::FrameData))?;
        let stored = source.get(frame.start, len)?;
        let content = decoder.decode(frame, stored).map_err(|fault| ReadError::bad(frame.start, fault))?;
        Ok(content.split(|&byte| byte == b'\n').next().and_then(&mut *seq_of))
    };
    let found = last_at_or_before(frames.len(), seq, &mut first_seq)?;
    let start = found.and_then(|index| frames.get(index)).map(|frame| frame.start);
    Ok(start.map(|start| Box::new(FramedReader::behind(start, limits)) as Box<dyn BlockReader>))
}

fn plain(source: &mut dyn Source, limits: Limits, seq: u64, seq_of: SeqOf<'_>) -> Found {
    /// A shorter stretch is read as it is.
    const CLOSE: u64 = 64 << 10;
    let Some((mut low, _)) = line_at(source, limits, 0)? else { return Ok(None) };
    let mut high = source.size();
    let mut found = None;
    while high.saturating_sub(low) > CLOSE {
        let middle = low.midpoint(high);
        // The line that holds the middle ends before the one that is looked at.
        let Some((start, _)) = line_at(source, limits, middle)? else {
            high = middle;
            continue;
        };
        let Some((end, line)) = line_at(source, limits, start)?.filter(|&(end, _)| end <= high) else {
            high = middle;
            continue;
        };
        match seq_of(&line) {
            Some(first) if first <= seq => {
                found = Some(start);
                low = end;
            }
            Some(_) => high = middle,
            None => return Ok(None),
        }
    }
    Ok(found.map(|start| Box::new(PlainReader::behind(start, limits)) as Box<dyn BlockReader>))
}

/// The end of the first line that ends behind `at`, and the bytes from `at` to its newline. `None` if no line ends there.
fn line_at(source: &mut dyn Source, limits: Limits, at: u64) -> Result<Option<(u64, Vec<u8>)>, ReadError> {
    let mut want = 4 << 10;
    loop {
        let left = source.size().saturating_sub(at);
        let take = usize::try_from(left.min(want)).unwrap_or(0);
        let bytes = source.get(at, take)?;
        if let Some(newline) = memchr::memchr(b'\n', bytes) {
            let end = at.saturating_add(newline as u64).saturating_add(1);
            return Ok(Some((end, bytes.get(..newline).unwrap_or_default().to_vec())));
        }
        if want >= left || want >= limits.row_bytes_max {
            return Ok(None);
        }
        want = want.saturating_mul(4);
    }
}

/// Index of the last of `count` items, ascending by their first seq, that begins at or before `seq`. Items without a seq
/// (frames without rows) are passed over backwards.
fn last_at_or_before(
    count: usize,
    seq: u64,
    first_seq: &mut dyn FnMut(usize) -> Result<Option<u64>, ReadError>,
) -> Result<Option<usize>, ReadError> {
    let (mut low, mut high) = (0, count);
    let mut found = None;
    while low < high {
        let middle = low.midpoint(high);
        let mut at = middle;
        let first = loop {
            match first_seq(at)? {
                None if at > low => at = at.saturating_sub(1),
                first => break first,
            }
        };
        match first {
            Some(first) if first <= seq => {
                found = Some(at);
                low = middle.saturating_add(1);
            }
            Some(_) => high = at,
            None => low = middle.saturating_add(1),
        }
    }
    Ok(found)
}
