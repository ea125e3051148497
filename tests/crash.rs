//! After a power loss behind any call of any scenario: is every acknowledged event there, in order, once, and nothing
//! that was never written?
//!
//! A scenario runs once for each of its calls to the disk, and the power goes behind that call. From the state that is left, images
//! are made: what a loss may leave, by every policy of the test disk. Each distinct image is opened, judged, read, and
//! appended to; and of some, the repair and the append are cut in the same way again.
//!
//! `SESLOG_CRASH_SEEDS` (default 6) is the number of random images a moment, `SESLOG_CRASH_SECOND` (default 6) the number of
//! images a scenario whose repair is cut again.

mod common;

#[path = "crash/harness.rs"]
mod harness;
#[path = "crash/image.rs"]
mod image;
#[path = "crash/scenarios.rs"]
mod scenarios;
