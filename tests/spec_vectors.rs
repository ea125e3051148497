//! Do the tables, hex fences and vectors of `format-spec/` agree with the code?
//!
//! `SESLOG_WRITE_VECTORS=1 cargo test --test spec_vectors` writes the vectors anew.

#[path = "spec_vectors/build.rs"]
mod build;
// On the disk that writes its calls down.
#[cfg(feature = "fault")]
#[path = "spec_vectors/calls.rs"]
mod calls;
#[path = "spec_vectors/cases/mod.rs"]
mod cases;
#[path = "spec_vectors/closing.rs"]
mod closing;
#[path = "spec_vectors/hex.rs"]
mod hex;
#[path = "spec_vectors/inventory.rs"]
mod inventory;
#[path = "spec_vectors/markdown.rs"]
mod markdown;
#[path = "spec_vectors/migration.rs"]
mod migration;
#[path = "spec_vectors/outcome.rs"]
mod outcome;
#[path = "spec_vectors/row_tables.rs"]
mod row_tables;
#[path = "spec_vectors/tables.rs"]
mod tables;
#[path = "spec_vectors/text.rs"]
mod text;
#[path = "spec_vectors/trailers.rs"]
mod trailers;
#[path = "spec_vectors/vectors.rs"]
mod vectors;
