//! Going back: from the end of what a source holds to a place before it where a forward reader may begin.
//!
//! Spec: `format-spec/01-container.md`, "Going back".

use std::collections::{BTreeSet, VecDeque};

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame::{self, Frame};
use super::indexed::{Hop, IndexedReader, Walk, WalkStop, last_trailer};
use super::position::reader_behind;
use super::probe::NEAR;
use super::read::BlockReader;
use super::source::Source;
use super::trailer::TRAILER_LEN;
use crate::limits::Limits;

/// Bytes before the end in which zstd frames are searched by their magic before their headers are hopped over from the head.
const SEARCHED: u64 = 1 << 20;

/// Where a reader may begin so that it comes to what stands before an end.
#[derive(Debug)]
pub(crate) enum Before {
    /// With the block that starts there.
    At(u64),
    /// With the block behind that walk, which came from the head of an indexed log: one that goes on with it stops where it did.
    Behind(Box<Walk>),
    /// With the head of the log, which is in reach.
    Head,
    /// A shorter look may tell, and a walk from the head.
    Unclear,
}

/// Finds the start of a block, so that the blocks from there to the end of `source` are at most `reach` stored bytes long, or
/// the one of them that may hold rows is longer: with `reach` 0 it is one block. The source holds them then, unless they are very
/// long.
///
/// `is_tail`: the source ends with the file, whatever a crash left there; otherwise it ends where a block does. In an indexed log
/// the tail is also what no sync is known to have covered, and the blocks between there and the start are checked.
///
/// Reads `reach` bytes in one piece, and besides:
/// - indexed: in a tail the bytes, not decompressed, of appends that were never synced; of all segments if the end is torn.
/// - zstd: the longer ones of the frames in reach. Where no chain of frames with checksums leads to the end within 1 MiB, the
///   headers of all frames.
/// - plain: a line that is longer than `reach`.
///
/// # Errors
/// What reading gives. Damage on the way is no error: the walk from the head then meets it in its place.
pub(crate) fn block_before(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
    reach: u64,
    is_tail: bool,
) -> Found {
    let found = match encoding {
        Encoding::Indexed => indexed(source, reach, is_tail),
        Encoding::Zstd => framed(source, reach, is_tail),
        Encoding::Plain => plain(source, limits, reach),
    };
    match found {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(Before::Unclear),
        // There are no rows before: behind the header nothing starts.
        Ok(Before::At(start)) if start >= source.size() => Ok(Before::Head),
        Ok(Before::At(start)) => fetch(source, start).map(|()| Before::At(start)),
        Ok(Before::Behind(walk)) => fetch(source, walk.end()).map(|()| Before::Behind(walk)),
        found => found,
    }
}

/// Reads what stands from `start` on, with the trailer before it, in one piece, if it is not held by the source already.
fn fetch(source: &mut dyn Source, start: u64) -> Result<(), ReadError> {
    const AT_ONCE: u64 = 4 << 20;
    let from = start.saturating_sub(TRAILER_LEN as u64);
    let len = source.size().saturating_sub(from);
    if len <= AT_ONCE {
        source.get(from, usize::try_from(len).unwrap_or(0))?;
    }
    Ok(())
}

/// A reader whose first block is the one at `at`, if that is part of the log for all that the log's end tells: a power loss may
/// have damaged what stands before it and was not synced, although it landed itself. Only indexed logs are written so.
///
/// # Errors
/// As [`block_before`].
pub(crate) fn reader_if_reached(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
    at: u64,
) -> Result<Option<Box<dyn BlockReader>>, ReadError> {
    let reader = match encoding {
        Encoding::Indexed => indexed_if_reached(source, limits, at),
        Encoding::Zstd | Encoding::Plain => reader_behind(source, encoding, limits, at),
    };
    match reader {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        reader => reader,
    }
}

fn indexed_if_reached(
    source: &mut dyn Source,
    limits: Limits,
    at: u64,
) -> Result<Option<Box<dyn BlockReader>>, ReadError> {
    let (head, _) = Walk::start(source)?;
    if let Some(last) = last_trailer(source, head.id())? {
        return match proved(source, &head, last, at)? {
            Before::At(start) if start == at => reader_behind(source, Encoding::Indexed, limits, at),
            _ => Ok(None),
        };
    }
    let mut walk = head;
    while walk.end() < at {
        match walk.step(source) {
            Ok(_) => {}
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End | WalkStop::Fault(_)) => return Ok(None),
        }
    }
    let is_there = walk.end() == at;
    Ok(is_there.then(|| Box::new(IndexedReader::resumed(walk, limits)) as Box<dyn BlockReader>))
}

type Found = Result<Before, ReadError>;

fn indexed(source: &mut dyn Source, reach: u64, is_tail: bool) -> Found {
    let (head, _) = Walk::start(source)?;
    let near = source.size().saturating_sub(head.end()).min(reach.max(NEAR));
    let from = source.size().saturating_sub(near);
    source.get(from, usize::try_from(near).unwrap_or(0))?;
    let Some(last) = last_trailer(source, head.id())? else {
        return if is_tail { walked(source, &head, reach) } else { Ok(Before::Unclear) };
    };
    // Only trailers that were read with the rest are followed, once there are rows.
    let is_near = |end: u64| end.checked_sub(TRAILER_LEN as u64).is_some_and(|at| at >= from);
    let mut start = last;
    loop {
        let has_rows = start.trailer.next_seq < last.trailer.next_seq;
        let goes_on = reach > 0 && start.trailer.body_start(start.end).is_some_and(is_near);
        if start.trailer.segment == 0 || (has_rows && !goes_on) {
            break;
        }
        start = match start.previous(source, head.id()) {
            // Damage that was not asked for.
            Err(ReadError::Bad { fault, .. }) if has_rows && fault != Fault::Shrunk => break,
            previous => previous?,
        };
    }
    if is_tail { proved(source, &head, last, start.end) } else { Ok(Before::At(start.end)) }
}

/// As [`indexed`], by the walk from the head, nothing decompressed: behind a torn end. A trailer that stands before one may be a
/// forgery in a payload.
fn walked(source: &mut dyn Source, head: &Walk, reach: u64) -> Found {
    let mut walk = head.clone();
    let mut places = VecDeque::from([head.clone()]);
    loop {
        match walk.step(source) {
            Ok(_) => {}
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End | WalkStop::Fault(_)) => break,
        }
        places.push_back(walk.clone());
        let holds = |place: &Walk| {
            place.previous().next_seq < walk.previous().next_seq
                && walk.end().saturating_sub(place.end()) >= reach
        };
        while places.get(1).is_some_and(holds) {
            places.pop_front();
        }
    }
    Ok(places.pop_front().map_or(Before::Head, |place| Before::Behind(Box::new(place))))
}

/// `start`, if all segments between what `last` knows to be synced and `start` are whole; else where that begins, for a reader
/// that then judges the end.
fn proved(source: &mut dyn Source, head: &Walk, last: Hop, start: u64) -> Found {
    if last.trailer.durable_boundary(last.end).is_some_and(|boundary| start <= boundary) {
        return Ok(Before::At(start));
    }
    let durable = last.durable(source, head.id())?;
    let mut walk = durable.map_or_else(|| head.clone(), |hop| Walk::behind(head.id(), hop.trailer, hop.end));
    while walk.end() < start {
        match walk.step(source) {
            Ok(_) => {}
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End | WalkStop::Fault(_)) => break,
        }
    }
    let begin = if walk.end() == start { Some(start) } else { durable.map(|hop| hop.end) };
    Ok(begin.map_or(Before::Head, Before::At))
}

fn framed(source: &mut dyn Source, reach: u64, is_tail: bool) -> Found {
    let header_end = frame::walk(source, 0)?.end;
    let size = source.size();
    let mut want = reach.max(NEAR);
    loop {
        let from = size.saturating_sub(want).max(header_end);
        if from == header_end && reach > 0 {
            return Ok(Before::Head);
        }
        match search(source, from)? {
            Chain::Frames(frames) => {
                let enough = |frame: &&Frame| is_filled(frame) && size.saturating_sub(frame.start) >= reach;
                let found = frames.iter().find(enough).or_else(|| frames.iter().rfind(|f| is_filled(f)));
                if let Some(frame) = found {
                    return Ok(Before::At(frame.start));
                }
            }
            Chain::None => {}
            Chain::Ambiguous => return Ok(Before::Unclear),
        }
        if from == header_end {
            return Ok(Before::Head);
        }
        if want >= SEARCHED {
            return hop(source, header_end, reach, is_tail);
        }
        want = want.saturating_mul(4);
    }
}

/// Whether a frame may hold rows: DSH's streaming compressor leaves an empty one at the end of a migrated log.
fn is_filled(frame: &Frame) -> bool {
    frame.content_size != Some(0)
}

/// Frames that border on each other up to the end of the source.
enum Chain {
    /// From the last one back.
    Frames(Vec<Frame>),
    None,
    /// One of them lies in another.
    Ambiguous,
}

/// Finds the frames behind `from` that lead to the end.
///
/// A payload can hold a whole frame of its own, so each must have a checksum and none may lie in another: where there are two
/// readings, the walk from the head decides.
fn search(source: &mut dyn Source, from: u64) -> Result<Chain, ReadError> {
    let size = source.size();
    let bytes = source.get(from, usize::try_from(size.saturating_sub(from)).unwrap_or(0))?;
    let starts: Vec<u64> =
        memchr::memmem::find_iter(bytes, &frame::MAGIC).map(|at| from.saturating_add(at as u64)).collect();
    let mut borders = BTreeSet::from([size]);
    let mut frames: Vec<Frame> = Vec::new();
    for start in starts.into_iter().rev() {
        let frame = match frame::walk(source, start) {
            Ok(frame) if frame.has_checksum && borders.contains(&frame.end) => frame,
            Ok(_) | Err(ReadError::Bad { .. }) => continue,
            Err(error) => return Err(error),
        };
        // They come from the last one back: whatever does not end where the one before it starts, holds it.
        if frames.last().is_some_and(|later| later.start != frame.end) {
            return Ok(Chain::Ambiguous);
        }
        borders.insert(start);
        frames.push(frame);
    }
    Ok(if frames.is_empty() { Chain::None } else { Chain::Frames(frames) })
}

/// As [`framed`], by the structure of all frames.
fn hop(source: &mut dyn Source, header_end: u64, reach: u64, is_tail: bool) -> Found {
    let mut frames: VecDeque<Frame> = VecDeque::new();
    let mut at = header_end;
    while at < source.size() {
        let frame = match frame::walk(source, at) {
            Ok(frame) => frame,
            // A torn end is met again, and judged, by the reader.
            Err(ReadError::Bad { fault, .. }) if is_tail && fault != Fault::Shrunk => break,
            Err(error) => return Err(error),
        };
        at = frame.end;
        if !is_filled(&frame) {
            continue;
        }
        frames.push_back(frame);
        while frames.get(1).is_some_and(|second| at.saturating_sub(second.start) >= reach) {
            frames.pop_front();
        }
    }
    Ok(frames.front().map_or(Before::Head, |frame| Before::At(frame.start)))
}

fn plain(source: &mut dyn Source, limits: Limits, reach: u64) -> Found {
    let size = source.size();
    let mut want = reach.max(NEAR);
    loop {
        let from = size.saturating_sub(want);
        if from == 0 && reach > 0 {
            return Ok(Before::Head);
        }
        let bytes = source.get(from, usize::try_from(size.saturating_sub(from)).unwrap_or(0))?;
        // Not the newline that the source ends with: a line must follow.
        let before = bytes.split_last().map_or(bytes, |(_, before)| before);
        let far_enough = usize::try_from(want.saturating_sub(reach)).unwrap_or(0);
        // The last line that begins `reach` bytes before the end, or else the first one behind.
        let newline = before
            .get(..far_enough.min(before.len()))
            .and_then(|far| memchr::memrchr(b'\n', far))
            .or_else(|| memchr::memchr(b'\n', before));
        if let Some(newline) = newline {
            return Ok(Before::At(from.saturating_add(newline as u64).saturating_add(1)));
        }
        if from == 0 {
            return Ok(Before::Head);
        }
        if want > limits.row_bytes_max {
            return Ok(Before::Unclear);
        }
        want = want.saturating_mul(4);
    }
}
