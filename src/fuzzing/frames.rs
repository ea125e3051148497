//! Target `frames`: the structural walk, the trailers, and the judgement of an end.

use crate::container::{
    BlockReader, Encoding, ReadError, Tail, TailState, reader, salvage_frame, walk_frame,
};
use crate::limits::Limits;

/// Reads the bytes as a log of every encoding, strictly and leniently.
///
/// # Panics
/// If a reader serves bytes behind the end that it judged, gives another text for the part of a file that it called good, or
/// goes on for ever.
pub fn fuzz_frames(data: &[u8]) {
    let limits = Limits { frame_content_bytes_max: 8 << 20, window_bytes_max: 8 << 20, ..Limits::DEFAULT };
    if let Ok(frame) = walk_frame(&mut { data }, 0) {
        assert!(frame.start < frame.end && frame.end <= data.len() as u64);
        let stored = usize::try_from(frame.end).expect("it lies in memory");
        let whole = salvage_frame(data.get(..stored).expect("it lies in memory"), &limits);
        assert!(whole.len() as u64 <= limits.frame_content_bytes_max.saturating_mul(2));
    }
    for encoding in Encoding::ALL {
        let (text, end) = read(encoding, data, limits);
        let Ok(tail) = end else { continue };
        assert!(tail.good_end <= tail.len && tail.len == data.len() as u64, "{encoding}: {tail:?}");
        assert!(tail.state == TailState::Corrupt || tail.durable <= tail.good_end, "{encoding}: {tail:?}");
        // What was called good is a log of its own, whole as far as it goes.
        let good =
            usize::try_from(tail.good_end).ok().and_then(|end| data.get(..end)).expect("checked above");
        let (again, end) = read(encoding, good, limits);
        assert_eq!(again, text, "{encoding}");
        let tail = end.expect("the good part reads to its end");
        assert!(matches!(tail.state, TailState::Complete | TailState::Unfinished), "{encoding}: {tail:?}");
        read_leniently(encoding, data, limits);
    }
}

fn read(encoding: Encoding, data: &[u8], limits: Limits) -> (Vec<u8>, Result<Tail, ReadError>) {
    let mut source = data;
    let mut blocks = reader(encoding, limits);
    let mut text = Vec::new();
    loop {
        match blocks.next(&mut source) {
            Ok(Some(block)) => {
                assert_eq!(block.content_start, text.len() as u64, "{encoding}: blocks follow each other");
                assert!(block.start < block.end && block.end <= data.len() as u64);
                text.extend_from_slice(block.content);
            }
            Ok(None) => return (text, Ok(blocks.tail().expect("an end is judged"))),
            Err(error) => return (text, Err(error)),
        }
    }
}

fn read_leniently(encoding: Encoding, data: &[u8], limits: Limits) {
    let mut source = data;
    let mut blocks: Box<dyn BlockReader> = reader(encoding, limits);
    // Each step moves on by at least a byte, or ends.
    let mut steps = data.len().saturating_mul(2).saturating_add(8);
    loop {
        steps = steps.checked_sub(1).expect("a lenient reader gets to the end");
        let is_served = match blocks.next(&mut source) {
            Ok(block) => block.is_some(),
            Err(ReadError::Bad { .. }) => false,
            Err(ReadError::Io(error)) => unreachable!("a slice has no input errors: {error}"),
        };
        let is_end = blocks
            .tail()
            .is_some_and(|tail| tail.state != TailState::Damaged && tail.state != TailState::Corrupt);
        if !is_served && (is_end || !matches!(blocks.skip(&mut source), Ok(Some(_)))) {
            return;
        }
    }
}
