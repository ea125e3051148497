//! Zstandard, bounded: one frame in, its content out, contexts and buffers reused.
//!
//! Spec: `format-spec/02-frames.md`, "Content".

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, WriteBuf};

use super::arena::{Arena, Room};
use super::fault::Fault;
use super::frame::Frame;
use super::stored;
use super::tail::holds_zero_sector;
use crate::limits::Limits;

/// The level that peers and DSH use by default. A frame of at most 8 KiB of rows is compressed with level 1 then, which loses nothing
/// there.
pub const LEVEL_DEFAULT: i32 = 3;

/// The level that compresses nothing: rows stand in raw blocks, at the speed of a copy and a checksum. Every Zstandard reads
/// such frames. (Zstandard itself calls its default level 0 too; here 0 is always this one.)
pub const LEVEL_STORE: i32 = 0;

/// Contexts that nobody uses now. Making one and touching its memory costs more than decoding a small frame, and a log
/// that is only listed, or appended to now and then, needs none of its own.
///
/// Each thread has its shelf, which it shares with few others: a context that another processor wrote to last has to come from
/// there, line by line.
struct Spares<T, const SHELVES: usize> {
    shelves: [Mutex<Vec<T>>; SHELVES],
    /// Contexts on one shelf.
    max: usize,
}

/// As many in all as threads that list at once.
static DECODERS: Spares<(DCtx<'static>, Vec<u8>), 8> = Spares::new(3);
static ENCODERS: Spares<CCtx<'static>, 1> = Spares::new(2);

impl<T, const SHELVES: usize> Spares<T, SHELVES> {
    const fn new(max: usize) -> Self {
        Self { shelves: [const { Mutex::new(Vec::new()) }; SHELVES], max }
    }

    fn take(&self) -> Option<T> {
        self.shelf().and_then(|shelf| shelf.lock().pop())
    }

    fn put(&self, spare: T) {
        if let Some(shelf) = self.shelf() {
            let mut spares = shelf.lock();
            if spares.len() < self.max {
                spares.push(spare);
            }
        }
    }

    /// That of this thread.
    fn shelf(&self) -> Option<&Mutex<Vec<T>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        // A thread that is at its end has no number any more.
        let number = NUMBER.try_with(|number| *number).unwrap_or(0);
        self.shelves.get(number.checked_rem(SHELVES)?)
    }
}

/// Decompresses frames one after the other into one buffer, or one behind the other where contents are kept.
pub(crate) struct Decoder {
    /// Present until the decoder is dropped.
    context: Option<DCtx<'static>>,
    content: Vec<u8>,
    kept: Option<Kept>,
    limits: Limits,
}

/// Contents that stay.
struct Kept {
    arena: Arena,
    /// Where the last one begins.
    last: usize,
}

impl Drop for Decoder {
    fn drop(&mut self) {
        /// Larger content was an exception.
        const CONTENT_KEPT: usize = 256 << 10;
        if let Some(context) = self.context.take() {
            let content = std::mem::take(&mut self.content);
            let content = if content.capacity() <= CONTENT_KEPT { content } else { Vec::new() };
            DECODERS.put((context, content));
        }
    }
}

impl Decoder {
    /// A context of about 150 KiB; content memory grows to the largest frame that is decoded.
    pub(crate) fn new(limits: Limits) -> Self {
        let (mut context, content) = DECODERS.take().unwrap_or_else(|| (DCtx::create(), Vec::new()));
        let reset = context.reset(ResetDirective::SessionAndParameters);
        debug_assert!(reset.is_ok(), "a context can always be reset");
        // A power of two that fits 32 bits by its type's documentation; a limit beyond what zstd knows is clamped to that.
        let window_log = limits.window_bytes_max.max(1 << 10).ilog2().min(31);
        let set = context.set_parameter(DParameter::WindowLogMax(window_log));
        debug_assert!(set.is_ok(), "zstd accepts window logs 10 to 31");
        Self { context: Some(context), content, kept: None, limits }
    }

    /// Returns the content of one frame, checked against its checksum and its stated size.
    ///
    /// `stored` is the frame as the structural walk found it. The result is valid until the next call.
    ///
    /// # Errors
    /// [`Fault::ContentLimit`] and [`Fault::WindowLimit`] before memory is spent, [`Fault::FrameChecksum`],
    /// [`Fault::FrameData`], [`Fault::ContentSize`].
    pub(crate) fn decode(&mut self, frame: &Frame, stored: &[u8]) -> Result<&[u8], Fault> {
        self.decode_up_to(frame, stored, self.limits.frame_content_bytes_max)
    }

    /// As [`Decoder::decode`], for a frame that may hold at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub(crate) fn decode_up_to(&mut self, frame: &Frame, stored: &[u8], limit: u64) -> Result<&[u8], Fault> {
        self.admit(frame, limit)?;
        match frame.content_size {
            Some(size) if self.is_trusted(size, stored.len() as u64) => self.decode_at_once(size, stored),
            stated => {
                self.decode_in_steps(stated, stored, limit)?;
                if let Some(kept) = &mut self.kept {
                    kept.last = kept.arena.len();
                    let had = self.content.len();
                    kept.arena.extend(&self.content).ok_or_else(|| no_memory(had as u64, kept.last))?;
                }
                Ok(self.content())
            }
        }
    }

    /// Decompresses one frame that states its content's size into `content`, which has room for it.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub(crate) fn decode_to<C: WriteBuf + ?Sized>(
        &mut self,
        frame: &Frame,
        stored: &[u8],
        content: &mut C,
    ) -> Result<(), Fault> {
        self.admit(frame, self.limits.frame_content_bytes_max)?;
        let context = self.context.as_mut().expect(UNTIL_DROPPED);
        let got = context.decompress(content, stored).map_err(fault_of)? as u64;
        match frame.content_size {
            Some(stated) if stated != got => Err(Fault::ContentSize { stated, got }),
            _ => Ok(()),
        }
    }

    /// What the last successful [`Decoder::decode`] returned.
    pub(crate) fn content(&self) -> &[u8] {
        match &self.kept {
            Some(kept) => kept.arena.bytes().get(kept.last..).unwrap_or_default(),
            None => &self.content,
        }
    }

    /// Keeps from now on what is decoded, one content behind the other in `arena`, which is empty. With `last_too`, the content
    /// that was decoded last is the first there.
    pub(crate) fn keep_in(&mut self, arena: Arena, last_too: bool) {
        let mut kept = Kept { arena, last: 0 };
        if last_too && kept.arena.extend(&self.content).is_none() {
            kept.arena = Arena::default();
        }
        self.kept = Some(kept);
    }

    /// What was kept.
    pub(crate) fn take_kept(&mut self) -> Option<Arena> {
        self.kept.take().map(|kept| kept.arena)
    }

    /// The bounds that hold for every frame.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Checks what a frame's header asks for, before anything is done for it.
    fn admit(&self, frame: &Frame, limit: u64) -> Result<(), Fault> {
        if frame.window_bytes > self.limits.window_bytes_max
            && frame.content_size.is_none_or(|size| size > limit)
        {
            return Err(Fault::WindowLimit {
                window: frame.window_bytes,
                limit: self.limits.window_bytes_max,
            });
        }
        if frame.dictionary != 0 {
            return Err(Fault::Dictionary { id: frame.dictionary });
        }
        if let Some(content) = frame.content_size
            && content > limit
        {
            return Err(Fault::ContentLimit { content, limit });
        }
        Ok(())
    }

    /// Whether a frame of `stored` bytes may claim `size` bytes of content and be given memory for them at once.
    pub(crate) fn is_trusted(&self, size: u64, stored: u64) -> bool {
        const TRUSTED_BYTES: u64 = 1 << 20;
        size <= TRUSTED_BYTES || size <= stored.saturating_mul(self.limits.frame_trusted_ratio)
    }

    fn decode_at_once(&mut self, size: u64, stored: &[u8]) -> Result<&[u8], Fault> {
        let too_large = Fault::ContentLimit { content: size, limit: usize::MAX as u64 };
        let size_in_memory = usize::try_from(size).map_err(|_| too_large)?;
        let context = self.context.as_mut().expect(UNTIL_DROPPED);
        let got = if let Some(Kept { arena, last }) = &mut self.kept {
            *last = arena.len();
            let had = *last;
            match arena.room(size_in_memory).ok_or_else(|| no_memory(size, had))? {
                Room::Bytes(room) => {
                    let got = context.decompress(room, stored).map_err(fault_of)?;
                    arena.grown(got);
                    got
                }
                Room::Spare(heap) => decompress_behind(context, heap, stored)?,
            }
        } else {
            self.content.clear();
            grow(&mut self.content, size_in_memory)?;
            context.decompress(&mut self.content, stored).map_err(fault_of)?
        };
        if got as u64 == size {
            Ok(self.content())
        } else {
            Err(Fault::ContentSize { stated: size, got: got as u64 })
        }
    }

    fn decode_in_steps(&mut self, stated: Option<u64>, stored: &[u8], limit: u64) -> Result<&[u8], Fault> {
        const FIRST_STEP: usize = 256 << 10;
        let context = self.context.as_mut().expect(UNTIL_DROPPED);
        let reset = context.reset(ResetDirective::SessionOnly);
        debug_assert!(reset.is_ok(), "a session can always be reset");
        self.content.clear();
        grow(&mut self.content, FIRST_STEP)?;
        let mut input = InBuffer::around(stored);
        let mut filled = 0;
        loop {
            let mut output = OutBuffer::around_pos(&mut self.content, filled);
            let hint = context.decompress_stream(&mut output, &mut input);
            let hint = hint.map_err(|code| {
                match zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_memory_allocation) {
                    true => no_memory(stated.unwrap_or(limit), filled),
                    false => fault_of(code),
                }
            })?;
            filled = output.pos();
            if filled as u64 > limit {
                return Err(Fault::ContentLimit { content: filled as u64, limit });
            }
            if hint == 0 {
                break;
            }
            if filled == self.content.capacity() {
                // Doubling; `grow` counts from the length, which the output buffer keeps at `filled`.
                grow(&mut self.content, filled.max(FIRST_STEP))?;
            } else if input.pos == stored.len() {
                // All input is taken, there is room for output, and the frame is not done: its blocks lied.
                return Err(Fault::FrameData);
            }
        }
        match stated {
            Some(stated) if stated != filled as u64 => Err(Fault::ContentSize { stated, got: filled as u64 }),
            _ => Ok(&self.content),
        }
    }
}

/// Decompresses the one frame that `stored` is behind what `heap` holds, which has room for its content; the content's length.
fn decompress_behind(context: &mut DCtx<'static>, heap: &mut Vec<u8>, stored: &[u8]) -> Result<usize, Fault> {
    let start = heap.len();
    let reset = context.reset(ResetDirective::SessionOnly);
    debug_assert!(reset.is_ok(), "a session can always be reset");
    let mut input = InBuffer::around(stored);
    let mut output = OutBuffer::around_pos(heap, start);
    // A whole frame and room for all of it: libzstd then decodes in one pass, as it does without streaming.
    let hint = context.decompress_stream(&mut output, &mut input).map_err(fault_of)?;
    let end = output.pos();
    if hint == 0 && input.pos == stored.len() { Ok(end.saturating_sub(start)) } else { Err(Fault::FrameData) }
}

/// What a frame that is cut short still gives, as far as the decoder goes; nothing of it is proved by a checksum.
///
/// `stored` begins with the frame's magic. At most [`Limits::frame_content_bytes_max`] bytes come out.
#[must_use]
pub fn salvage_frame(stored: &[u8], limits: &Limits) -> Vec<u8> {
    let mut decoder = Decoder::new(*limits);
    // Fails at the missing end; what came out before stays.
    let _ = decoder.decode_in_steps(None, stored, limits.frame_content_bytes_max);
    std::mem::take(&mut decoder.content)
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("content_capacity", &self.content.capacity()).finish_non_exhaustive()
    }
}

const UNTIL_DROPPED: &str = "present until the decoder is dropped";

/// Compresses content into checksummed frames that state their content size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    level: i32,
}

impl Encoder {
    /// `level` is [`LEVEL_STORE`], or clamped to what Zstandard knows, see [`zstd_safe::min_c_level`].
    pub(crate) fn new(level: i32) -> Self {
        // What looks for a match once in 128 KB, which is the longest block, would find none: it is copied without a look.
        let level = if level == LEVEL_STORE { i32::MIN } else { level };
        Self { level: level.clamp(zstd_safe::min_c_level(), zstd_safe::max_c_level()) }
    }

    /// Appends one frame that holds `content` to `out`, whose first byte will stand at file offset `at`, and in which no
    /// aligned sector is zero: zeros must always prove a write that did not land.
    ///
    /// # Errors
    /// [`Fault::ZeroSector`] if every level gives one; `out` is then as before.
    pub(crate) fn encode_at(self, at: u64, content: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        self.encode(content, out);
        Self::without_zero_sector(at, content, start, out)
    }

    /// As [`Encoder::encode_at`], of a frame that [`Encoder::encode`] has made of the content.
    ///
    /// # Errors
    /// As [`Encoder::encode_at`].
    pub(crate) fn place_at(at: u64, content: &[u8], frame: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        out.extend_from_slice(frame);
        Self::without_zero_sector(at, content, start, out)
    }

    /// Replaces the frame at `start` of `out` if a sector of it is zero. Rows hold no zeros; a bit stream of the compressor could,
    /// and another level then gives another one.
    fn without_zero_sector(at: u64, content: &[u8], start: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        for level in 1..=zstd_safe::max_c_level() {
            if !holds_zero_sector(at, out.get(start..).unwrap_or_default()) {
                return Ok(());
            }
            out.truncate(start);
            Self::new(level).encode(content, out);
        }
        let found = holds_zero_sector(at, out.get(start..).unwrap_or_default());
        if found {
            out.truncate(start);
            return Err(Fault::ZeroSector);
        }
        Ok(())
    }

    /// Whether it only copies.
    pub(crate) fn is_store(self) -> bool {
        self.level == zstd_safe::min_c_level()
    }

    /// The level for `content`. The default one looks for matches in two tables, of four bytes and of eight: in so little content
    /// one table of five bytes finds as much, and a batch of rows of 100 bytes becomes three percent smaller in nine tenths of the time.
    fn level_for(self, content: &[u8]) -> i32 {
        const LITTLE: usize = 8 << 10;
        if self.level == LEVEL_DEFAULT && content.len() <= LITTLE { 1 } else { self.level }
    }

    /// Appends one frame that holds `content` to `out`.
    pub(crate) fn encode(self, content: &[u8], out: &mut Vec<u8>) {
        if self.is_store() {
            return stored::encode(content, out);
        }
        /// High levels take a hundred times as much: not worth keeping.
        const CONTEXT_KEPT: usize = 4 << 20;
        let mut context = ENCODERS.take().unwrap_or_else(CCtx::create);
        let reset = context.reset(ResetDirective::SessionAndParameters);
        debug_assert!(reset.is_ok(), "a context can always be reset");
        for parameter in [
            CParameter::CompressionLevel(self.level_for(content)),
            CParameter::ChecksumFlag(true),
            CParameter::ContentSizeFlag(true),
        ] {
            let set = context.set_parameter(parameter);
            debug_assert!(set.is_ok(), "clamped and boolean parameters are accepted");
        }
        let start = out.len();
        out.reserve(zstd_safe::compress_bound(content.len()));
        let mut input = InBuffer::around(content);
        let mut output = OutBuffer::around_pos(out, start);
        let end = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_end;
        let left = context.compress_stream2(&mut output, &mut input, end);
        assert!(left == Ok(0), "compress_bound() leaves room for the whole frame: {left:?}");
        if context.sizeof() <= CONTEXT_KEPT {
            ENCODERS.put(context);
        }
    }
}

/// Makes room for `more` bytes behind what is there, or says that there is none: a hostile frame asks for more than the system has,
/// and that must not end the process.
fn grow(content: &mut Vec<u8>, more: usize) -> Result<(), Fault> {
    let wanted = content.len().saturating_add(more);
    content.try_reserve(more).map_err(|_| no_memory(wanted as u64, content.len()))
}

/// What the system has memory for is a limit as any other: more says nothing against the frame.
fn no_memory(content: u64, had: usize) -> Fault {
    Fault::ContentLimit { content, limit: had as u64 }
}

fn fault_of(code: usize) -> Fault {
    if zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_checksum_wrong) {
        Fault::FrameChecksum
    } else {
        Fault::FrameData
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::frame;

    fn decode_all(stored: &[u8], limits: Limits) -> Result<Vec<u8>, Fault> {
        let frame = frame::walk(&mut { stored }, 0).expect("structure is sound");
        Decoder::new(limits).decode(&frame, stored).map(<[u8]>::to_vec)
    }

    fn encoded(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(LEVEL_DEFAULT).encode(content, &mut out);
        out
    }

    #[test]
    fn frames_state_size_and_checksum_and_come_back_whole() {
        for len in [0, 1, 255, 256, 65_791, 65_792, 3_000_000] {
            let content: Vec<u8> = (0..len).map(|i: u32| (i % 251) as u8).collect();
            let stored = encoded(&content);
            let frame = frame::walk(&mut &stored[..], 0).unwrap();
            assert!(frame.has_checksum);
            assert_eq!((frame.content_size, frame.end), (Some(u64::from(len)), stored.len() as u64));
            assert_eq!(decode_all(&stored, Limits::DEFAULT).unwrap(), content);
        }
    }

    /// Types of the blocks of a frame whose header takes `head` bytes: 0 is raw.
    fn block_types(frame: &[u8], head: usize) -> Vec<u8> {
        let (mut at, mut types) = (head, Vec::new());
        loop {
            let head = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
            types.push((head >> 1 & 3) as u8);
            at += 3 + (head >> 3) as usize;
            if head & 1 == 1 {
                assert_eq!(at + 4, frame.len(), "only the checksum follows");
                return types;
            }
        }
    }

    #[test]
    fn the_level_that_stores_gives_raw_blocks_that_any_reader_decodes() {
        let mut content = Vec::new();
        for seq in 0..3000 {
            let line = format!(
                "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":5,\"data\":{{\"text\":\"the same words\"}}}}\n"
            );
            content.extend_from_slice(line.as_bytes());
        }
        let mut stored = Vec::new();
        Encoder::new(LEVEL_STORE).encode(&content, &mut stored);
        assert_eq!(stored.len(), 4 + 1 + 4 + 2 * 3 + content.len() + 4);
        assert_eq!(block_types(&stored, 9), [0, 0]);
        assert_eq!(decode_all(&stored, Limits::DEFAULT).unwrap(), content);
        assert!(encoded(&content).len() < content.len() / 10);
    }

    #[test]
    fn little_content_takes_the_faster_level_where_none_was_asked_for() {
        let rows = |bytes: usize| {
            let mut content = Vec::new();
            for seq in 0_u32.. {
                let hash = seq.wrapping_mul(0x9e37_79b9);
                content.extend_from_slice(
                    format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"data\":\"{hash}\"}}\n").as_bytes(),
                );
                if content.len() >= bytes {
                    content.truncate(bytes);
                    return content;
                }
            }
            content
        };
        let at = |level, content: &[u8]| {
            let mut out = Vec::new();
            Encoder::new(level).encode(content, &mut out);
            out
        };
        let (little, more) = (rows(8 << 10), rows((8 << 10) + 1));
        assert_eq!(at(LEVEL_DEFAULT, &little), at(1, &little));
        assert_ne!(at(LEVEL_DEFAULT, &more), at(1, &more));
        for level in [2, 4, 9] {
            assert_ne!(at(level, &little), at(1, &little), "{level}");
        }
    }

    #[test]
    fn encoder_appends_behind_what_is_there() {
        let mut out = b"before".to_vec();
        Encoder::new(99).encode(b"row\n", &mut out);
        assert_eq!(&out[..6], b"before");
        assert_eq!(decode_all(&out[6..], Limits::DEFAULT).unwrap(), b"row\n");
    }

    #[test]
    fn every_flipped_bit_of_content_or_checksum_is_found() {
        let stored = encoded(b"{\"type\":\"a\"}\n{\"type\":\"b\"}\n");
        let frame = frame::walk(&mut &stored[..], 0).unwrap();
        for bit in 9 * 8..stored.len() * 8 {
            let mut bad = stored.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let result = Decoder::new(Limits::DEFAULT).decode(&frame, &bad).map(<[u8]>::to_vec);
            assert!(result.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_bomb_is_refused_by_its_claim_and_by_its_output() {
        let stored = encoded(&vec![0; 64 << 20]);
        assert!(stored.len() < 8 << 10);
        let limits = Limits { frame_content_bytes_max: 1 << 20, ..Limits::DEFAULT };
        assert_eq!(
            decode_all(&stored, limits),
            Err(Fault::ContentLimit { content: 64 << 20, limit: 1 << 20 })
        );
        // The same content without a stated size, as DSH writes frames.
        let mut unstated = Vec::with_capacity(64 << 10);
        let mut context = CCtx::create();
        context.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
        context.compress2(&mut unstated, &vec![0; 8 << 20]).unwrap();
        assert!(matches!(decode_all(&unstated, limits), Err(Fault::ContentLimit { limit: 1_048_576, .. })));
        assert_eq!(decode_all(&unstated, Limits::DEFAULT).unwrap().len(), 8 << 20);
    }

    #[test]
    fn a_frame_that_lies_about_its_size_is_refused() {
        let mut stored = encoded(b"0123456789\n");
        assert_eq!(stored[5], 11);
        for lie in [10, 12, 0] {
            stored[5] = lie;
            assert!(decode_all(&stored, Limits::DEFAULT).is_err(), "{lie}");
        }
    }
}
