//! Do the tables, hex fences and vectors of `format-spec/` agree with the code?
//!
//! `SESLOG_WRITE_VECTORS=1 cargo test --test spec_vectors` writes the vectors anew.

#[path = "spec_vectors/build.rs"]
mod build;
#[path = "spec_vectors/cases/mod.rs"]
mod cases;
#[path = "spec_vectors/hex.rs"]
mod hex;
#[path = "spec_vectors/markdown.rs"]
mod markdown;
#[path = "spec_vectors/outcome.rs"]
mod outcome;
#[path = "spec_vectors/vectors.rs"]
mod vectors;
