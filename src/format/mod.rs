//! Generations of the log format: frozen codecs, the catalog, and the migrations between them.

mod attempt;
pub mod catalog;
mod emit;
mod held;
pub mod inventory;
mod migration;
mod object;
mod physical;
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
