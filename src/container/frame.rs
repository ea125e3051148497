//! The structural walk over one Zstandard frame: where it ends, decided from its own headers and nothing else.
//!
//! Spec: `format-spec/02-frames.md`.

use super::fault::{Fault, ReadError};
use super::source::Source;

/// `28 B5 2F FD`: every Zstandard data frame starts with it (RFC 8878, 3.1.1).
pub(crate) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames start with `5X 2A 4D 18`, X any half byte (RFC 8878, 3.1.2).
const SKIPPABLE_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];
const BLOCK_HEADER_LEN: usize = 3;
const CHECKSUM_LEN: u64 = 4;

/// Where one data frame lies and what its header states. Nothing in it has been decompressed or checked by a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// File offset of the magic.
    pub start: u64,
    /// File offset behind the last byte, checksum included.
    pub end: u64,
    /// Stated bytes of content, where the header states them.
    pub content_size: Option<u64>,
    /// Window in bytes that a decoder must provide.
    pub window_bytes: u64,
    /// Whether a content checksum ends the frame.
    pub has_checksum: bool,
    /// Dictionary id; 0 where none is named.
    pub dictionary: u32,
}

impl Frame {
    /// Stored length in bytes.
    #[must_use]
    pub const fn stored_len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Walks one data frame that must start at `start`.
///
/// Reads the frame header and three bytes a block; block bodies are hopped over. Time O(blocks).
///
/// # Errors
/// [`Fault::Truncated`] where the source ends before the frame does (the bytes so far are a proper beginning), any other
/// fault where no continuation could make a frame of them. The error's offset is `start`.
pub fn walk(source: &mut dyn Source, start: u64) -> Result<Frame, ReadError> {
    let bad = |fault| ReadError::bad(start, fault);
    let len = source.size();
    let mut at = start;
    let magic = take(source, start, &mut at, 4)?;
    let magic: [u8; 4] = magic.try_into().map_err(|_| bad(Fault::Truncated))?;
    if magic != MAGIC {
        return Err(bad(match skippable_len(source, start) {
            Some(len) => Fault::SkippableFrame { len },
            None => Fault::FrameMagic { found: u32::from_le_bytes(magic) },
        }));
    }
    let descriptor = take(source, start, &mut at, 1)?.first().copied().unwrap_or(0);
    if descriptor & 0b0001_1000 != 0 {
        return Err(bad(Fault::FrameReserved { descriptor }));
    }
    let single_segment = descriptor & 0b0010_0000 != 0;
    let has_checksum = descriptor & 0b0000_0100 != 0;
    let window_len = usize::from(!single_segment);
    let dictionary_len = match descriptor & 0b11 {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let size_len = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let window = take(source, start, &mut at, window_len)?.first().copied();
    let dictionary = little_endian(take(source, start, &mut at, dictionary_len)?);
    let size = little_endian(take(source, start, &mut at, size_len)?);
    // Two-byte sizes count from 256 (RFC 8878, 3.1.1.1.4).
    let size = if size_len == 2 { size.saturating_add(256) } else { size };
    let content_size = (size_len > 0).then_some(size);
    let window_bytes = window.map_or(size, window_bytes);

    loop {
        let block = little_endian(take(source, start, &mut at, BLOCK_HEADER_LEN)?);
        let body = match (block >> 1) & 0b11 {
            1 => 1,
            3 => return Err(bad(Fault::BlockType)),
            _ => block >> 3,
        };
        at = at.checked_add(body).filter(|&at| at <= len).ok_or(bad(Fault::Truncated))?;
        if block & 1 == 1 {
            break;
        }
    }
    if has_checksum {
        at = at.checked_add(CHECKSUM_LEN).filter(|&at| at <= len).ok_or(bad(Fault::Truncated))?;
    }
    let dictionary = u32::try_from(dictionary).unwrap_or(u32::MAX);
    Ok(Frame { start, end: at, content_size, window_bytes, has_checksum, dictionary })
}

/// Stored length of the skippable frame at `start`, header included, if one starts there and its header is complete.
pub(crate) fn skippable_len(source: &mut dyn Source, start: u64) -> Option<u64> {
    let header = source.get(start, 8).ok()?;
    let (magic, size) = header.split_first_chunk::<4>()?;
    let [kind, tail @ ..] = *magic;
    if kind & 0xf0 != 0x50 || tail != SKIPPABLE_TAIL {
        return None;
    }
    little_endian(size).checked_add(8)
}

fn take<'s>(source: &'s mut dyn Source, start: u64, at: &mut u64, len: usize) -> Result<&'s [u8], ReadError> {
    let here = *at;
    *at = here.saturating_add(len as u64);
    match source.get(here, len) {
        Err(ReadError::Bad { fault: Fault::Truncated, .. }) => Err(ReadError::bad(start, Fault::Truncated)),
        other => other,
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// Window size in bytes for a window descriptor (RFC 8878, 3.1.1.1.2).
fn window_bytes(descriptor: u8) -> u64 {
    let exponent = u32::from(descriptor >> 3).saturating_add(10);
    let base = 1_u64.checked_shl(exponent).unwrap_or(u64::MAX);
    base.saturating_add((base / 8).saturating_mul(u64::from(descriptor & 7)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two-frame file of DSH's format notes: stored blocks, checksums on.
    fn worked_bytes() -> Vec<u8> {
        let mut file = Vec::new();
        file.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x5c, 0xe1, 0x02, 0x00]);
        file.extend_from_slice(
            b"{\"type\":\"session\",\"version\":2,\"id\":\"s1\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}\n",
        );
        file.extend_from_slice(&[0xd7, 0xfe, 0x94, 0x84]);
        file.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x3d, 0xe9, 0x01, 0x00]);
        file.extend_from_slice(b"{\"type\":\"plan/mode\",\"seq\":0,\"time\":6,\"data\":{\"active\":true}}\n");
        file.extend_from_slice(&[0xe6, 0x63, 0x41, 0x8f]);
        file
    }

    fn fault_at(bytes: &[u8], start: u64) -> Fault {
        match walk(&mut { bytes }, start) {
            Err(ReadError::Bad { fault, .. }) => fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    #[test]
    fn frame_borders_come_from_the_headers() {
        let file = worked_bytes();
        assert_eq!(file.len(), 179);
        let first = walk(&mut &file[..], 0).unwrap();
        assert_eq!(
            (first.start, first.end, first.content_size, first.has_checksum),
            (0, 105, Some(92), true)
        );
        assert_eq!(walk(&mut &file[..], 105).unwrap().end, 179);
    }

    #[test]
    fn every_proper_prefix_is_truncated_and_never_misread() {
        let file = worked_bytes();
        for cut in 0..105 {
            assert_eq!(fault_at(&file[..cut], 0), Fault::Truncated, "cut at {cut}");
        }
        for cut in 105..179 {
            assert_eq!(fault_at(&file[..cut], 105), Fault::Truncated, "cut at {cut}");
        }
    }

    #[test]
    fn reserved_bits_block_type_three_and_skippable_frames_are_refused() {
        let file = worked_bytes();
        for (at, value, fault) in [
            (4, 0x2c, Fault::FrameReserved { descriptor: 0x2c }),
            (4, 0x34, Fault::FrameReserved { descriptor: 0x34 }),
            (6, 0xe7, Fault::BlockType),
            (0, 0x29, Fault::FrameMagic { found: 0xfd2f_b529 }),
        ] {
            let mut file = file.clone();
            file[at] = value;
            assert_eq!(fault_at(&file, 0), fault);
        }
        let skippable = [0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2];
        assert_eq!(fault_at(&skippable, 0), Fault::SkippableFrame { len: 10 });
    }

    #[test]
    fn header_fields_have_the_widths_of_the_rfc() {
        // Window descriptor 0x58: 2 MiB, no content size, as DSH's one-shot writer leaves it.
        let frame = walk(&mut &[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x01, 0, 0, 1, 2, 3, 4][..], 0).unwrap();
        assert_eq!((frame.window_bytes, frame.content_size, frame.end), (2 << 20, None, 13));
        // Two-byte content size counts from 256; one-byte dictionary id.
        let frame = walk(&mut &[0x28, 0xb5, 0x2f, 0xfd, 0x61, 7, 0, 1, 0x01, 0, 0][..], 0).unwrap();
        assert_eq!((frame.content_size, frame.dictionary, frame.has_checksum), (Some(512), 7, false));
    }
}
