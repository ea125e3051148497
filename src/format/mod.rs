//! Generations of the log format: frozen codecs, the catalog, and the migrations between them.
//!
//! A log says in its header which generation its rows are of. [`catalog::classify`] judges that header; [`Restore`] reads
//! a log of any known generation as one of the current, converting it on the way if it is older; [`Migration`] is that
//! conversion by itself, and [`Verifier`] the check of its result before it is published. All of them take lines of bytes
//! and know no file. What a log breaks comes back as one [`Refusal`]: class, stage, code, place.
//!
//! ```text
//! line -> physical row -> v0 to v1 -> v1 to v2 -> envelope and relationships -> sink
//!         (v0, v1)        (old forms)  (attempts, seqs, references)
//! ```
//!
//! Every stage holds its own state and passes on what is final, so a log goes through once and is never in memory as a
//! whole. Old generations are frozen: see [`inventory`] for how they are kept so.
//!
//! Spec: `format-spec/06-migration.md`.

mod ahead;
mod attempt;
pub mod catalog;
mod emit;
mod held;
pub mod inventory;
mod migration;
mod object;
mod physical;
mod reading;
mod refusal;
mod relations;
#[cfg(test)]
mod relations_tests;
mod restore;
mod seq_map;
mod session_rules;
mod target;
mod tools;
pub mod upload;
mod v0;
mod v1;
mod v1_to_v2;
mod v2;
mod verify;
mod written;

pub use self::migration::{Migration, Outcome};
pub use self::refusal::{Class, Code, Detail, Refusal, Stage};
pub use self::restore::{Restore, Restored, Validation};
pub use self::target::{RowSink, TargetRow};
pub use self::verify::{PayloadCheck, Verified, Verifier};
