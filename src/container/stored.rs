//! Zstandard frames that compress nothing: raw blocks, at the speed of a copy and a checksum.
//!
//! Spec: `format-spec/02-frames.md`, "What a writer writes".

use std::hash::Hasher as _;

use twox_hash::XxHash64;

use super::frame;

/// The longest block that Zstandard knows.
const BLOCK: usize = 128 << 10;
/// Content up to this size is its own window; larger content has one of this size, which every reader has memory for.
const WINDOW: usize = 512 << 10;
/// [`WINDOW`] as a window descriptor: 2^(10 + 9).
const WINDOW_DESCRIPTOR: u8 = 9 << 3;
/// Bytes that are copied and summed up together: they stay in the nearest cache in between.
const PIECE: usize = 16 << 10;

/// Appends one checksummed frame that states its content size and holds `content` as it is.
pub(crate) fn encode(content: &[u8], out: &mut Vec<u8>) {
    /// Magic, descriptor, window, size and checksum at their longest.
    const FRAME: usize = 4 + 1 + 1 + 8 + 4;
    const BLOCK_HEADER: usize = 3;
    let blocks = content.len().div_ceil(BLOCK).max(1);
    out.reserve(content.len().saturating_add(blocks.saturating_mul(BLOCK_HEADER)).saturating_add(FRAME));
    header(content.len(), out);
    let mut checksum = XxHash64::with_seed(0);
    let mut blocks = content.chunks(BLOCK).peekable();
    if blocks.peek().is_none() {
        block_header(0, true, out);
    }
    while let Some(block) = blocks.next() {
        block_header(block.len(), blocks.peek().is_none(), out);
        for piece in block.chunks(PIECE) {
            out.extend_from_slice(piece);
            checksum.write(piece);
        }
    }
    let [a, b, c, d, ..] = checksum.finish().to_le_bytes();
    out.extend_from_slice(&[a, b, c, d]);
}

/// Magic, descriptor, and content size in the fewest bytes that hold it (RFC 8878, 3.1.1.1).
fn header(len: usize, out: &mut Vec<u8>) {
    const CHECKSUM: u8 = 1 << 2;
    const SINGLE_SEGMENT: u8 = 1 << 5;
    out.extend_from_slice(&frame::MAGIC);
    let is_single = len <= WINDOW;
    let flags = if is_single { CHECKSUM | SINGLE_SEGMENT } else { CHECKSUM };
    let len = len as u64;
    let window: &[u8] = if is_single { &[] } else { &[WINDOW_DESCRIPTOR] };
    let mut put = |size_flag: u8, size: &[u8]| {
        out.push(size_flag << 6 | flags);
        out.extend_from_slice(window);
        out.extend_from_slice(size);
    };
    match (u8::try_from(len), len.checked_sub(256).map(u16::try_from), u32::try_from(len)) {
        (Ok(len), ..) => put(0, &[len]),
        (_, Some(Ok(less)), _) => put(1, &less.to_le_bytes()),
        (.., Ok(len)) => put(2, &len.to_le_bytes()),
        (.., Err(_)) => put(3, &len.to_le_bytes()),
    }
}

/// Three bytes: whether it is the last block, type 0, size.
fn block_header(len: usize, is_last: bool, out: &mut Vec<u8>) {
    let len = u32::try_from(len).expect("a block has at most 128 KiB");
    let [a, b, c, _] = (len << 3 | u32::from(is_last)).to_le_bytes();
    out.extend_from_slice(&[a, b, c]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libzstd makes of the frame, in one pass and in a stream.
    fn decoded(frame: &[u8], len: usize) -> Vec<u8> {
        let mut content = Vec::with_capacity(len + 1);
        zstd_safe::decompress(&mut content, frame).unwrap();
        let mut streamed = Vec::with_capacity(len + 1);
        let mut context = zstd_safe::DCtx::create();
        let mut input = zstd_safe::InBuffer::around(frame);
        while input.pos < frame.len() {
            let mut piece = Vec::with_capacity(100_000);
            context.decompress_stream(&mut zstd_safe::OutBuffer::around(&mut piece), &mut input).unwrap();
            streamed.extend_from_slice(&piece);
        }
        assert_eq!(streamed, content);
        content
    }

    #[test]
    fn any_length_comes_back_and_the_header_is_as_short_as_libzstd_would_make_it() {
        let text: Vec<u8> = (0..1_200_000_u32).map(|n| (n % 251) as u8).collect();
        let around = |len: usize| [len - 1, len, len + 1];
        let lens =
            [around(1), around(256), around(65_536 + 256), around(BLOCK), around(2 * BLOCK), around(WINDOW)];
        for len in lens.as_flattened().iter().copied().chain([1_200_000]) {
            let content = &text[..len];
            let mut out = b"before".to_vec();
            encode(content, &mut out);
            let frame = &out[6..];
            assert_eq!(decoded(frame, len), content);
            let walked = frame::walk(&mut { frame }, 0).unwrap();
            assert_eq!((walked.end, walked.content_size), (frame.len() as u64, Some(len as u64)));
            assert!(walked.has_checksum);
            assert_eq!(walked.window_bytes, len.min(WINDOW) as u64);
            let size = match len {
                0..256 => 1,
                256..65_792 => 2,
                _ => 4,
            };
            let head = 5 + size + usize::from(len > WINDOW);
            assert_eq!(frame.len(), head + 3 * len.div_ceil(BLOCK).max(1) + len + 4, "{len} bytes");
        }
    }
}
