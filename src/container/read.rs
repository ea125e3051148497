//! Reading a log from its head: one trait for three encodings.

use super::Encoding;
use super::arena::Arena;
use super::fault::{Fault, ReadError};
use super::framed::FramedReader;
use super::indexed::IndexedReader;
use super::plain::PlainReader;
use super::source::Source;
use super::tail::Tail;
use super::write::BlockWriter;
use crate::limits::Limits;

/// Whole lines that stand together on disk: a segment, a frame, or a stretch of a plain file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Block<'a> {
    /// Number of the frame, the header's being 0; in the plain encoding the number of the stretch.
    pub index: u64,
    /// File offset of its first stored byte.
    pub start: u64,
    /// File offset behind its last stored byte, trailer included.
    pub end: u64,
    /// The lines, each with its newline.
    pub content: &'a [u8],
    /// Offset of `content` in the text of the whole log.
    pub content_start: u64,
    /// Events before this block and in it, where the encoding counts them.
    pub counted: Option<Counted>,
    /// Everything before this block is committed: it begins an append. Always so where the encoding marks no ends of appends.
    pub begins_append: bool,
}

/// What an indexed trailer says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Seq of the first event of the body.
    pub first_seq: u64,
    /// Events in the body.
    pub events: u32,
    /// Unix milliseconds of the last event.
    pub last_time: i64,
}

/// Bytes that a lenient reader passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// File offset of the first byte passed over.
    pub start: u64,
    /// File offset at which reading goes on.
    pub end: u64,
}

/// Gives the blocks of a log in file order.
///
/// The first block holds the header line and nothing else.
pub trait BlockReader: Send + std::fmt::Debug {
    /// Returns the next block, or `None` at the end of what may be served; then [`BlockReader::tail`] holds the verdict.
    ///
    /// # Errors
    /// Damage before the end. [`BlockReader::skip`] may go on behind it.
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError>;

    /// After an error, or at a damaged end: moves to the next intact block, if there is one.
    ///
    /// What it skips is lost to the caller, who must say so; where the structure is broken, the next block is found by
    /// search and may be a forgery that a payload holds. Strict readers never call this.
    ///
    /// # Errors
    /// What reading gives.
    fn skip(&mut self, source: &mut dyn Source) -> Result<Option<Skipped>, ReadError>;

    /// Keeps the contents of all blocks from the next one on, one behind the other in `arena`, which is empty: each block's
    /// `content_start` counts in it. Asked before the first block; for a reader that does not decompress it means nothing.
    #[doc(hidden)]
    fn keep_in(&mut self, _arena: Kept) {}

    /// The contents that were kept.
    #[doc(hidden)]
    fn take_kept(&mut self) -> Option<Kept> {
        None
    }

    /// Number of the frame that `next` gave last, failed on, or stopped before; the header's is 0, and markers count.
    fn index(&self) -> u64;

    /// The judged end, once `next` returned `None` or an error.
    fn tail(&self) -> Option<Tail>;

    /// A writer that goes on behind the last block read. Bytes below `durable` are known to be synced.
    fn writer(&self, durable: u64, level: i32) -> Box<dyn BlockWriter>;
}

/// The contents of all blocks that a reader gave.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Kept(pub(crate) Arena);

/// A reader for `encoding`, at the head of the file.
#[must_use]
pub fn reader(encoding: Encoding, limits: Limits) -> Box<dyn BlockReader> {
    match encoding {
        Encoding::Indexed => Box::new(IndexedReader::new(limits)),
        Encoding::Zstd => Box::new(FramedReader::new(limits)),
        Encoding::Plain => Box::new(PlainReader::new(limits)),
    }
}

/// Checks what every compressed encoding demands of a frame's content: whole lines, the first frame one line alone.
pub(crate) fn check_lines(is_header: bool, content: &[u8], limits: Limits) -> Result<(), Fault> {
    if is_header {
        let one_line = content
            .split_last()
            .is_some_and(|(&last, line)| last == b'\n' && memchr::memchr(b'\n', line).is_none());
        let fits = content.len() as u64 <= limits.header_bytes_max;
        return if one_line && fits { Ok(()) } else { Err(Fault::HeaderLine) };
    }
    if content.last().is_none_or(|&last| last == b'\n') { Ok(()) } else { Err(Fault::LineEnd) }
}
