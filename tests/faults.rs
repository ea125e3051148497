//! Real faults on real file systems: the program and the library on disks that are full, read-only or gone, beside others who
//! meddle, and killed.
//!
//! What the machine does not allow is skipped, and says so. Mounts stand in a mount namespace of their own and go with it.
//! `SESLOG_LAB=whole` kills more often.

#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/dropped.rs"]
mod dropped;
#[path = "faults/full.rs"]
mod full;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/meddling.rs"]
mod meddling;
#[path = "faults/mounts.rs"]
mod mounts;
#[path = "cli/program.rs"]
#[expect(dead_code, reason = "the tests of the program need more of it")]
mod program;
#[path = "faults/syscalls.rs"]
mod syscalls;

mod common;

/// How often something is tried: few times in the tests, more in the lab.
fn times(few: u64, whole: u64) -> u64 {
    if std::env::var("SESLOG_LAB").is_ok_and(|depth| depth == "whole") { whole } else { few }
}
