//! What a hostile log, a hostile name or a hostile neighbour can make the program do. The threat model is `SECURITY.md`.

#[path = "security/bombs.rs"]
mod bombs;
#[path = "spec_vectors/build.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod build;
#[path = "spec_vectors/hex.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod hex;
#[path = "security/links.rs"]
mod links;
#[path = "spec_vectors/markdown.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod markdown;
#[path = "security/modes.rs"]
mod modes;
#[path = "security/names.rs"]
mod names;
#[path = "cli/program.rs"]
#[expect(dead_code, reason = "the tests of the program need more of it")]
mod program;
#[path = "security/terminal.rs"]
mod terminal;

mod common;
