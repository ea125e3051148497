//! The store in memory: what only it does, and whether it answers as the file store does.
//!
//! The rules of the contract run over it elsewhere. `PROPTEST_CASES` (default 100) is the number of runs per encoding.

mod common;

#[path = "memory/twins.rs"]
mod twins;
