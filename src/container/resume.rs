//! Going on at the end of a log whose middle is trusted.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Going on by the end alone".

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame;
use super::framed::FramedReader;
use super::indexed::{Hop, IndexedReader, Walk, WalkStop, last_trailer};
use super::plain::PlainReader;
use super::probe::{FAR, MARKERS};
use super::read::BlockReader;
use super::source::Source;
use super::zstd::Decoder;
use crate::limits::Limits;

/// Returns a reader that stands near the end of a log, whose tail and writer are those of a walk from the head; `None`
/// where only such a walk can say how the log ends, or is as cheap.
///
/// What lies before the reader's first block was looked at as far as an append needs it, and no further:
/// - indexed: the trailers that the next skip distances lead to, O(log segments); and the CRC-32 of every byte from the
///   last durable boundary on, since a crash may have damaged those although the end landed.
/// - zstd: the headers of all frames, which are hopped over; a crash damages none but the last.
/// - plain: nothing. The block holds the lines of the last 60 KiB at least.
///
/// # Errors
/// What reading gives. Damage on the way is no error: the walk from the head then meets it in its place.
pub(crate) fn resume(source: &mut dyn Source, encoding: Encoding, limits: Limits) -> Found {
    let found = match encoding {
        Encoding::Indexed => indexed(source, limits),
        Encoding::Zstd => framed(source, limits),
        Encoding::Plain => plain(source, limits),
    };
    match found {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        found => found,
    }
}

type Found = Result<Option<Box<dyn BlockReader>>, ReadError>;

fn indexed(source: &mut dyn Source, limits: Limits) -> Found {
    let (head, _) = Walk::start(source)?;
    let Some(last) = last_trailer(source, head.id())?.filter(|last| last.trailer.commit) else {
        return Ok(None);
    };
    let mut rows = last;
    for _ in 0..MARKERS {
        if rows.trailer.body_len > 0 || rows.trailer.segment == 0 {
            break;
        }
        rows = rows.previous(source, head.id())?;
    }
    if rows.trailer.body_len == 0 || rows.trailer.segment == 0 {
        return Ok(None);
    }
    let before = rows.previous(source, head.id())?;
    let first = Hop { trailer: *head.previous(), end: head.end() };
    let durable = last.durable(source, head.id())?.unwrap_or(first);
    let from = if durable.end < before.end { durable } else { before };
    let jumps = from.jumps(source, first, head.id())?;
    let mut walk = Walk::resumed(head.id(), from, jumps);
    while walk.end() < before.end {
        match walk.step(source) {
            Ok(_) => {}
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End | WalkStop::Fault(_)) => return Ok(None),
        }
    }
    let is_reached = walk.end() == before.end && *walk.previous() == before.trailer;
    Ok(is_reached.then(|| Box::new(IndexedReader::resumed(walk, limits)) as Box<dyn BlockReader>))
}

fn framed(source: &mut dyn Source, limits: Limits) -> Found {
    let mut at = frame::walk(source, 0)?.end;
    let (mut before, mut last) = (None, None);
    while at < source.size() {
        let frame = frame::walk(source, at)?;
        at = frame.end;
        before = last.replace(frame);
    }
    // DSH's streaming compressor leaves an empty frame at the end of a migrated log: rows stand in the one before.
    let start = before.or(last);
    Ok(start.map(|frame| {
        Box::new(FramedReader::at(frame, Decoder::new(limits), false, limits)) as Box<dyn BlockReader>
    }))
}

fn plain(source: &mut dyn Source, limits: Limits) -> Found {
    let len = source.size();
    let mut reach = FAR;
    while let Some(from) = len.checked_sub(reach).filter(|&from| from > 0) {
        let bytes = source.get(from, usize::try_from(reach).unwrap_or(0))?;
        // Not the newline that the file ends with: a line must follow.
        let newline = memchr::memchr(b'\n', bytes.split_last().map_or(bytes, |(_, before)| before));
        if let Some(newline) = newline {
            let start = from.saturating_add(newline as u64).saturating_add(1);
            return Ok(Some(Box::new(PlainReader::behind(start, limits))));
        }
        if reach > limits.row_bytes_max {
            break;
        }
        reach = reach.saturating_mul(4);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::tail::TailState;
    use crate::container::{Batch, BlockWriter, LogId, RowMark, create, reader};

    const ROW: &[u8] = b"{\"a\":\"0123456789 0123456789 0123456789 0123456789\"}\n";

    /// A log of `appends`, each of so many segments or frames, in any mixture of synced and not.
    fn log(encoding: Encoding, appends: &[(usize, bool)]) -> (Vec<u8>, Box<dyn BlockWriter>) {
        let mut out = Vec::new();
        let id = LogId::new(7).unwrap();
        let mut writer = create(encoding, id, b"{\"type\":\"session\"}\n", 0, 3, &mut out).unwrap();
        writer.accept(true);
        for &(segments, synced) in appends {
            for index in 0..segments {
                append(&mut *writer, index + 1 == segments, &mut out);
            }
            writer.accept(synced);
        }
        (out, writer)
    }

    fn append(writer: &mut dyn BlockWriter, is_last: bool, out: &mut Vec<u8>) {
        let mark = RowMark { end: ROW.len(), events: 1, last_time: 5 };
        let batch = Batch { content: ROW, rows: &[mark] };
        match is_last {
            true => writer.stage(&batch, out),
            false => writer.stage_part(&batch, out),
        }
        .unwrap();
    }

    /// The tail and the next bytes that a reader's writer makes, read to the end.
    fn go_on(mut blocks: Box<dyn BlockReader>, mut bytes: &[u8]) -> (TailState, Vec<u8>) {
        while blocks.next(&mut bytes).unwrap().is_some() {}
        let tail = blocks.tail().unwrap();
        let mut writer = blocks.writer(tail.durable, 3);
        writer.accept(true);
        let mut out = Vec::new();
        append(&mut *writer, true, &mut out);
        (tail.state, out)
    }

    #[test]
    fn the_next_append_is_that_of_a_walk_from_the_head() {
        for encoding in Encoding::ALL {
            for count in 1..150 {
                // Every third append is not synced, every fifth is of three segments.
                let appends: Vec<(usize, bool)> =
                    (0..count).map(|n| (if n % 5 == 4 { 3 } else { 1 }, n % 3 > 0)).collect();
                let (mut bytes, mut writer) = log(encoding, &appends);
                if count % 7 == 0 {
                    writer.stage_marker(&mut bytes).unwrap();
                }
                let near = resume(&mut bytes.as_slice(), encoding, Limits::DEFAULT).unwrap();
                let Some(near) = near else {
                    assert!(encoding == Encoding::Plain && (bytes.len() as u64) < FAR, "{encoding} {count}");
                    continue;
                };
                let whole = go_on(reader(encoding, Limits::DEFAULT), &bytes);
                assert_eq!(whole.0, TailState::Complete);
                assert_eq!(go_on(near, &bytes), whole, "{encoding}, {count} appends");
            }
        }
    }

    #[test]
    fn a_plain_log_is_resumed_at_a_line() {
        let (bytes, _) = log(Encoding::Plain, &vec![(1, true); 4000]);
        let mut near = resume(&mut bytes.as_slice(), Encoding::Plain, Limits::DEFAULT).unwrap().unwrap();
        let mut source = bytes.as_slice();
        let block = near.next(&mut source).unwrap().unwrap();
        assert!(block.start > 0 && block.content.starts_with(b"{\"a\""), "{}", block.start);
        assert!(block.end - block.start < FAR);
        let whole = go_on(reader(Encoding::Plain, Limits::DEFAULT), &bytes);
        assert_eq!(go_on(near, &bytes), whole);
    }

    #[test]
    fn a_cut_or_uncommitted_indexed_log_is_left_to_the_walk() {
        let (bytes, _) = log(Encoding::Indexed, &[(1, true), (2, true), (3, true)]);
        for cut in 1..200 {
            let cut = &bytes[..bytes.len() - cut];
            let found = resume(&mut { cut }, Encoding::Indexed, Limits::DEFAULT).unwrap();
            // Only the border of the append before is an end.
            assert!(found.is_none_or(|found| go_on(found, cut).0 == TailState::Complete));
        }
    }

    #[test]
    fn whatever_byte_from_the_durable_boundary_on_is_changed_a_walk_decides() {
        let (mut bytes, mut writer) = log(Encoding::Indexed, &[(1, true), (1, true), (3, true)]);
        let from = bytes.len();
        // Nothing of these was synced.
        for _ in 0..4 {
            append(&mut *writer, true, &mut bytes);
            writer.accept(false);
        }
        for at in from..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let found = resume(&mut changed.as_slice(), Encoding::Indexed, Limits::DEFAULT).unwrap();
            let sees = |mut found: Box<dyn BlockReader>| {
                let mut source = changed.as_slice();
                while let Ok(Some(_)) = found.next(&mut source) {}
                found.tail().is_none_or(|tail| tail.state != TailState::Complete)
            };
            assert!(found.is_none_or(sees), "byte {at}");
        }
    }
}
