//! One line of a session log, borrowed from the bytes that hold it.
//!
//! A line is a JSON object without its newline. The first is the [`Header`]; every other is a row: an [`Event`], or in
//! v0 and v1 a [`Packed`] run of them. [`RowDecoder`] takes the rows of a log in order and decides which of them count.
//! Payloads stay raw JSON text. Nothing here allocates for a row that is as its writer made it, opens a file, or knows
//! what a payload means.
//!
//! Spec: `format-spec/04-rows.md`.

mod cut;
mod decode;
mod encode;
mod event;
mod fault;
mod fields;
mod header;
mod lex;
mod packed;
mod packing;
mod physical;
pub mod range;
#[cfg(test)]
mod samples;

pub use cut::CutFault;
pub use decode::{DecodeCause, DecodeFault, Evidence, Issue, Recovery, RowDecoder, RowPlace};
pub use encode::{Draft, NewEvent};
pub use event::{Check, Event, one_line};
pub use fault::{DamageKind, Member, PackedFault, RangeFault, RowFault, Span};
pub use header::{Header, HeaderFault, HeaderMember, Seeding};
pub(crate) use lex::Members as RawMembers;
pub use packed::{Packed, PackedKind, PackedMember, PackedMembers};
pub use packing::pack;
pub use physical::{PhysicalRow, find_fused};
