//! The logical log above its rows: what a turn left open, and what the model sees.
//!
//! Knows events and their payloads, not files or encodings.

mod closers;
mod fingerprint;
mod kind;
mod log;
mod profile;
mod seqs;
mod surface;
mod surface_rules;

pub use closers::OpenTurn;
pub(crate) use fingerprint::{Fingerprint, Fingerprints};
pub use kind::Kind;
pub use log::Log;
pub use profile::{CutForm, MessageSources, Profile, ToolResults};
pub(crate) use seqs::{SeqList, SourceRules};
pub use surface::SurfaceFault;
pub(crate) use surface::{Surface, SurfaceOp};
pub(crate) use surface_rules::{check_sources, kept};
