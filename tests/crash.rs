//! After a power loss behind any call of any scenario: is every acknowledged event there, in order, once, and nothing
//! that was never written?
//!
//! A scenario runs once for each of its calls to the disk, and the power goes behind that call. From the state that is left, images
//! are made: what a loss may leave, by every policy of the test disk. Each distinct image is opened, judged, read, and
//! appended to; and of some, the repair and the append are cut in the same way again. Then the process is killed instead, or a
//! call fails in each of the ways that it can, and the power goes later.
//!
//! `SESLOG_LAB=whole` tries every tear and every subset of sectors; unset, or `sample`, a beginning of each. `just lab` runs the
//! whole and adds up what it printed.

mod common;

#[path = "spec_vectors/build.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod build;
#[path = "crash/counts.rs"]
mod counts;
#[path = "crash/forgeries.rs"]
mod forgeries;
#[path = "crash/harness.rs"]
mod harness;
#[path = "spec_vectors/hex.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod hex;
#[path = "crash/image.rs"]
mod image;
#[path = "spec_vectors/markdown.rs"]
#[expect(dead_code, reason = "the vectors need more of it")]
mod markdown;
#[path = "crash/policies.rs"]
mod policies;
#[path = "crash/published.rs"]
mod published;
#[path = "crash/scenarios.rs"]
mod scenarios;
#[path = "crash/stale.rs"]
mod stale;
#[path = "crash/vouched.rs"]
mod vouched;
