//! Write-behind: the contract's rules on live events, and what a host relies on besides.
//!
//! Time is a [`ManualClock`]: "one tick before" and "soon after" are steps, not sleeps. [`inner`] is the store below, which
//! fails or waits on request; where it matters what a real log does, it is the file store on a disk that fails.

mod common;

#[path = "behind/checkpoints.rs"]
mod checkpoints;
#[path = "behind/files.rs"]
mod files;
#[path = "behind/inner.rs"]
mod inner;
#[path = "behind/queues.rs"]
mod queues;
#[path = "behind/rules.rs"]
mod rules;
