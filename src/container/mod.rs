//! Bytes on a disk: files, frames, trailers, lines, torn tails. Knows no JSON and no sessions.
//!
//! Everything but [`disk`] works on a [`Source`], so that tests and fuzzers reach every decoder without a file.

mod arena;
mod batch;
mod before;
mod crc;
pub mod disk;
mod encoding;
mod fault;
mod frame;
mod framed;
mod indexed;
mod plain;
mod position;
mod probe;
mod quick;
#[expect(
    unsafe_code,
    reason = "maps, their guard and one file lock; the module states what makes them sound"
)]
pub(crate) mod raw;
mod read;
mod resume;
mod seek;
mod side;
mod source;
#[doc(hidden)]
pub mod spec;
mod stored;
mod tail;
mod trailer;
mod write;
mod zstd;

/// What the bodies of the fuzz targets look at piece by piece.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod parts {
    pub(crate) use super::crc::crc32;
    pub(crate) use super::indexed::{Walk, WalkStop, last_trailer};
    pub(crate) use super::seek::jump;
    pub(crate) use super::trailer::{SKIPPABLE_HEADER, Trailer};
    pub(crate) use super::zstd::{Decoder, Encoder};
}

pub(crate) use arena::Arena;
pub use batch::{Batch, RowMark};
pub(crate) use before::{Before, block_before, reader_if_reached};
pub(crate) use crc::crc32;
pub use encoding::{Detected, Encoding, UnknownEncoding, detect};
pub use fault::{Fault, ReadError};
pub use frame::{Frame, walk as walk_frame};
pub(crate) use indexed::{IndexedReader, Outlook, durable_hint, other_threads, read_ahead};
pub use position::{SeqOf, reader_at};
pub(crate) use position::{indexed_at, reader_behind};
pub(crate) use probe::{Claim, claim, head, sealed_count};
pub use probe::{Last, Probe, header_line, probe};
pub use quick::{Skim, skim};
pub(crate) use read::Kept;
pub use read::{Block, BlockReader, Counted, Skipped, reader};
pub(crate) use resume::resume;
pub use source::{FileSource, Source};
pub(crate) use tail::holds_zero_sector;
pub use tail::{Tail, TailState};
pub use trailer::{LogId, TRAILER_LEN};
pub use write::{BlockWriter, create};
pub use zstd::{LEVEL_DEFAULT, LEVEL_STORE, salvage_frame};
