//! Bytes on a disk: files, frames, trailers, lines, torn tails. Knows no JSON and no sessions.
//!
//! Everything but [`disk`] works on a [`Source`], so that tests and fuzzers reach every decoder without a file.

mod batch;
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
mod seek;
mod source;
#[doc(hidden)]
pub mod spec;
mod tail;
mod trailer;
mod write;
mod zstd;

pub use batch::{Batch, RowMark};
pub use encoding::{Detected, Encoding, UnknownEncoding, detect};
pub use fault::{Fault, ReadError};
pub use frame::{Frame, walk as walk_frame};
pub(crate) use indexed::durable_hint;
pub use position::{SeqOf, reader_at};
pub use probe::{Last, Probe, header_line, probe};
pub(crate) use probe::{head, sealed_count};
pub use quick::{Skim, skim};
pub use read::{Block, BlockReader, Counted, Skipped, reader};
pub use source::{FileSource, Source};
pub use tail::{Tail, TailState};
pub use trailer::{LogId, TRAILER_LEN};
pub use write::{BlockWriter, create};
pub use zstd::{LEVEL_DEFAULT, salvage_frame};
