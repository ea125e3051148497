//! Checksums made right again, so that a changed log gets past them to the code behind.
//!
//! Spec: `format-spec/02-frames.md` and `03-trailer.md`.

use std::ops::Range;

use crate::container::parts::{Decoder, Encoder, SKIPPABLE_HEADER, crc32, jump};
use crate::container::{Frame, TRAILER_LEN, walk_frame};
use crate::limits::Limits;

/// How much of a changed log is made right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a tool of the fuzz targets")]
pub enum Seal {
    /// Content checksums, `body_crc` and `trailer_crc`.
    Checksums,
    /// Those, and what chains trailers: `segment`, `prev_crc`, `next_seq`, `body_len`, `skip`.
    Chain,
}

/// Offsets in a trailer's payload, and the lengths of what stands there.
mod member {
    pub(super) const FLAGS: (usize, usize) = (3, 1);
    pub(super) const SEGMENT: (usize, usize) = (4, 4);
    pub(super) const EVENTS: (usize, usize) = (8, 4);
    pub(super) const PREV_CRC: (usize, usize) = (12, 4);
    pub(super) const NEXT_SEQ: (usize, usize) = (16, 8);
    pub(super) const BODY_LEN: (usize, usize) = (32, 4);
    pub(super) const UNSYNCED: (usize, usize) = (36, 4);
    pub(super) const SKIP: (usize, usize) = (40, 8);
    pub(super) const BODY_CRC: (usize, usize) = (48, 4);
    pub(super) const TRAILER_CRC: (usize, usize) = (52, 4);
}

/// Decompressed bytes of one frame that are worth a checksum.
const CONTENT_MAX: u64 = 1 << 20;

/// Walks the frames and trailers of `bytes` and makes their checksums right, up to where the structure breaks.
///
/// Returns where each record stands, trailer included: bytes behind the last are as they were.
pub fn seal_log(bytes: &mut [u8], seal: Seal) -> Vec<Range<usize>> {
    let mut chain = Chain::default();
    let mut records = Vec::new();
    let mut at = 0_usize;
    while at < bytes.len() {
        let is_marker = bytes.get(at..).is_some_and(|rest| rest.starts_with(&SKIPPABLE_HEADER));
        let mut body_end = at;
        if !is_marker {
            let Ok(frame) = walk_frame(&mut &*bytes, at as u64) else { break };
            seal_frame(bytes, &frame);
            body_end = usize::try_from(frame.end).unwrap_or(usize::MAX);
        }
        let trailer = body_end..body_end.saturating_add(TRAILER_LEN);
        let has_trailer = bytes.get(trailer.clone()).is_some_and(|t| t.starts_with(&SKIPPABLE_HEADER));
        if has_trailer {
            chain.seal(bytes, at, trailer.clone(), seal);
        } else if is_marker {
            break;
        }
        let end = if has_trailer { trailer.end } else { body_end };
        records.push(at..end);
        at = end;
    }
    records
}

/// Makes `trailer_crc` right in the 64 stored bytes of a trailer, for the log whose id begins with `id`.
pub fn seal_trailer(stored: &mut [u8], id: u32) {
    if let Some(payload) = stored.get_mut(SKIPPABLE_HEADER.len()..TRAILER_LEN) {
        let crc = crc32(id, payload.get(..member::TRAILER_CRC.0).unwrap_or_default());
        put(payload, member::TRAILER_CRC, u64::from(crc));
    }
}

/// Makes the content checksum of a frame right, if its blocks can be decompressed.
fn seal_frame(bytes: &mut [u8], frame: &Frame) {
    let range = range_of(frame);
    let Some(stored) = bytes.get(range.clone()) else { return };
    let Some(checksum) = content_of(frame, stored).map(|content| checksum_of(&content)) else { return };
    let at = range.end.saturating_sub(checksum.len())..range.end;
    if let Some(place) = bytes.get_mut(at) {
        place.copy_from_slice(&checksum);
    }
}

fn range_of(frame: &Frame) -> Range<usize> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    place(frame.start)..place(frame.end)
}

/// The content of a checksummed frame, whatever its checksum says.
fn content_of(frame: &Frame, stored: &[u8]) -> Option<Vec<u8>> {
    if !frame.has_checksum {
        return None;
    }
    // The same frame without its checksum: a descriptor without that bit, and four bytes less.
    let mut bare = stored.split_last_chunk::<4>()?.0.to_vec();
    *bare.get_mut(4)? &= !0b100;
    let frame = Frame { end: frame.end.saturating_sub(4), has_checksum: false, ..*frame };
    let limits =
        Limits { frame_content_bytes_max: CONTENT_MAX, window_bytes_max: CONTENT_MAX, ..Limits::DEFAULT };
    Decoder::new(limits).decode(&frame, &bare).ok().map(<[u8]>::to_vec)
}

/// The checksum that Zstandard itself puts behind such content.
fn checksum_of(content: &[u8]) -> [u8; 4] {
    let mut frame = Vec::new();
    Encoder::new(1).encode(content, &mut frame);
    *frame.last_chunk::<4>().expect("a frame ends in its checksum")
}

/// What the next trailer has to say of those before it.
#[derive(Default)]
struct Chain {
    /// The CRCs of the log start from this part of its id.
    id: u32,
    crc: u32,
    next_seq: u64,
    /// End of each trailer so far.
    ends: Vec<usize>,
}

impl Chain {
    fn seal(&mut self, bytes: &mut [u8], body_start: usize, trailer: Range<usize>, seal: Seal) {
        let segment = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        let body_crc = crc32(0, bytes.get(body_start..trailer.start).unwrap_or_default());
        let body_len = trailer.start.saturating_sub(body_start) as u64;
        self.ends.push(trailer.end);
        let Some(stored) = bytes.get_mut(trailer.clone()) else { return };
        let Some(payload) = stored.get_mut(SKIPPABLE_HEADER.len()..) else { return };
        if segment == 0 {
            let [low, high] = [0, 4].map(|at| get(payload, (member::SKIP.0.saturating_add(at), 4)));
            self.id = u32::try_from(low).unwrap_or(0);
            // The id may be anything but 0.
            if low == 0 && high == 0 && seal == Seal::Chain {
                self.id = 1;
                put(payload, member::SKIP, 1);
            }
        }
        put(payload, member::BODY_CRC, u64::from(body_crc));
        if seal == Seal::Chain {
            put(payload, member::SEGMENT, u64::from(segment));
            put(payload, member::PREV_CRC, u64::from(if segment <= 1 { 0 } else { self.crc }));
            put(payload, member::BODY_LEN, body_len);
            if segment == 0 {
                put(payload, member::FLAGS, 1);
                put(payload, member::EVENTS, 0);
                put(payload, member::UNSYNCED, 0);
            } else {
                let target = usize::try_from(jump(segment)).unwrap_or(usize::MAX);
                let distance = self.ends.get(target).map_or(0, |end| trailer.end.saturating_sub(*end));
                put(payload, member::SKIP, distance as u64);
            }
            self.next_seq = self.next_seq.wrapping_add(get(payload, member::EVENTS));
            put(payload, member::NEXT_SEQ, self.next_seq);
        }
        self.crc = crc32(self.id, payload.get(..member::TRAILER_CRC.0).unwrap_or_default());
        put(payload, member::TRAILER_CRC, u64::from(self.crc));
    }
}

fn put(payload: &mut [u8], (at, len): (usize, usize), value: u64) {
    if let Some(place) = payload.get_mut(at..at.saturating_add(len)) {
        place.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
}

fn get(payload: &[u8], (at, len): (usize, usize)) -> u64 {
    let bytes = payload.get(at..at.saturating_add(len)).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::super::choices::Choices;
    use super::super::made::MadeLog;
    use super::*;
    use crate::container::{Encoding, Fault, ReadError, Tail, TailState, reader};

    fn indexed() -> MadeLog {
        MadeLog::new(Encoding::Indexed, &mut Choices::new(&[7; 60]))
    }

    fn read(encoding: Encoding, mut bytes: &[u8]) -> (Vec<u8>, Result<Tail, ReadError>) {
        let mut blocks = reader(encoding, Limits::DEFAULT);
        let mut text = Vec::new();
        loop {
            match blocks.next(&mut bytes) {
                Ok(Some(block)) => text.extend_from_slice(block.content),
                Ok(None) => return (text, Ok(blocks.tail().unwrap())),
                Err(error) => return (text, Err(error)),
            }
        }
    }

    #[test]
    fn sealing_a_sound_log_changes_nothing() {
        for encoding in [Encoding::Indexed, Encoding::Zstd] {
            for seal in [Seal::Checksums, Seal::Chain] {
                let log = MadeLog::new(encoding, &mut Choices::new(&[0x57; 80]));
                let mut bytes = log.bytes.clone();
                let records = seal_log(&mut bytes, seal);
                assert_eq!(bytes, log.bytes, "{encoding}, {seal:?}");
                assert_eq!(records.last().map(|record| record.end), Some(bytes.len()));
            }
        }
    }

    /// A changed byte of a frame is refused. Sealed again, nearly every log whose blocks still decompress reads to its end, with
    /// the change in its text.
    #[test]
    fn changed_content_passes_every_checksum_once_it_is_sealed() {
        for encoding in [Encoding::Indexed, Encoding::Zstd] {
            let log = MadeLog::new(encoding, &mut Choices::new(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 1, 0]));
            let first = log.appends[0].bytes.clone();
            let mut passed = 0;
            for at in first.clone() {
                let mut bytes = log.bytes.clone();
                bytes[at] ^= 1;
                let (text, end) = read(encoding, &bytes);
                // Zstandard leaves some bits of a block without a meaning; the CRC of an indexed body covers them.
                assert!(end.is_err() || text != log.text() || encoding == Encoding::Zstd, "byte {at}");
                assert!(log.text().starts_with(&text), "byte {at}");
                seal_log(&mut bytes, Seal::Chain);
                let (text, end) = read(encoding, &bytes);
                let is_whole = end.is_ok_and(|tail| tail.state == TailState::Complete);
                passed += u32::from(is_whole && text.len() >= log.text().len() && text != log.text());
            }
            assert!(passed > 20, "{encoding}: {passed} of {}", first.len());
        }
    }

    #[test]
    fn a_record_that_is_taken_out_leaves_a_chain_once_it_is_sealed() {
        let log = indexed();
        let records = seal_log(&mut log.bytes.clone(), Seal::Chain);
        assert!(records.len() > 4);
        let mut bytes = log.bytes.clone();
        bytes.drain(records[2].clone());
        let mut checked = bytes.clone();
        seal_log(&mut checked, Seal::Checksums);
        let fault = read(Encoding::Indexed, &checked).1;
        assert!(
            matches!(
                &fault,
                Ok(Tail { fault: Some(Fault::Chain { .. }), .. })
                    | Err(ReadError::Bad { fault: Fault::Chain { .. }, .. })
            ),
            "{fault:?}"
        );
        seal_log(&mut bytes, Seal::Chain);
        assert_eq!(read(Encoding::Indexed, &bytes).1.unwrap().state, TailState::Complete);
    }

    #[test]
    fn a_trailer_by_itself_is_sealed_for_any_log() {
        let log = indexed();
        let mut stored = log.bytes[log.header_end - TRAILER_LEN..log.header_end].to_vec();
        let sound = stored.clone();
        seal_trailer(&mut stored, log.id.get() as u32);
        assert_eq!(stored, sound);
        stored[20] ^= 1;
        let changed = stored.clone();
        seal_trailer(&mut stored, log.id.get() as u32);
        assert_ne!(stored, changed);
    }
}
