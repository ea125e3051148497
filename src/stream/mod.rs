//! Assistant streams: the timed chunks of a model's answer, compact and exact.
//!
//! A model attempt is stored as one event, its settlement, which carries every chunk of the answer. [`Accumulator`] turns
//! chunks into compact records, [`expand`] checks records and gives the chunks back, [`Assembler`] folds chunks into
//! content, [`StreamReader`] answers questions about records without expanding them, and [`Settlement`] is the event that
//! holds them. [`LiveBlocks`] are what a screen shows of an answer that is still coming.
//!
//! # Strings
//!
//! A string of a stream is a sequence of UTF-16 code units, and a tokenizer may cut it between the two halves of a
//! surrogate pair: one delta ends in `\ud83d`, the next begins with `\ude00`. `str` can hold neither. A
//! [`Fragment`] therefore is the raw body of the JSON literal, borrowed: it keeps every unit, costs nothing to hand out,
//! can be written again without decoding, and most fragments have no escapes, so that the text is the value. Whoever
//! needs the value of one that has asks for [`Text`](crate::json::Text), WTF-8, which holds lone halves and joins them
//! when the other half is appended. The alternatives decode each delta on each reading (`Vec<u16>`, or WTF-8 from the
//! start) or lose units (`String`).
//!
//! # Spelling
//!
//! Streams are read from any JSON, members in any order; `scan` and `arrays` are a shortcut through the one spelling
//! that writers use, and give way to `general` for all others. Both accept the same streams and find the same chunks.
//!
//! Spec: `format-spec/04-rows.md`, "Streams".

mod accumulate;
mod arrays;
mod assemble;
mod block;
mod chunk;
mod expand;
mod fault;
mod fragment;
mod general;
mod lazy;
mod live_blocks;
mod look;
mod open;
mod read;
mod record;
mod scan;
mod settle;
mod timing;
mod usage;
mod value;

pub use accumulate::{Accumulator, Scratch};
pub use assemble::Assembler;
pub use block::Block;
pub use chunk::{BlockKind, Chunk, ChunkKind, RawChunk, Timed, View};
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use expand::expand_generally;
pub use expand::{Chunks, Expansion, Records, expand, expand_with};
pub use fault::{AssembleFault, PushFault, RecordFault, SettlementFault, StreamFault};
pub use fragment::Fragment;
pub use live_blocks::{LiveBlock, LiveBlocks};
pub use read::StreamReader;
pub use record::{Members, Record, Run, RunKind};
pub use settle::{AssistantMessage, Settlement, SettlementKind};
pub use timing::{BlockTiming, Timing};
pub use usage::Usage;
pub(crate) use value::members;
