//! Generations of the log format: frozen codecs, the catalog, and the migrations between them.

mod attempt;
pub mod inventory;
mod object;
mod physical;
mod refusal;
mod seqs;
mod v0;
mod v1;

pub use self::physical::Recovery;
pub use self::refusal::{Class, Code, Detail, Refusal, Stage};
