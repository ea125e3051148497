//! The logical log above its rows: what a turn left open, and what the model sees.
//!
//! Knows events and their payloads, not files or encodings.

mod closers;
mod fingerprint;
mod kind;
mod seqs;
mod surface;

pub use closers::OpenTurn;
pub(crate) use fingerprint::{Fingerprint, Fingerprints};
pub use kind::Kind;
pub(crate) use seqs::{SeqList, SourceRules};
pub(crate) use surface::{Surface, SurfaceOp};
