//! Locks and waits as followers use them.
//!
//! `tests/explore_live.rs` compiles the same code over locks whose every step a scheduler decides, so neither hub nor follower may
//! wait but through here.

use std::thread::sleep;
use std::time::Duration;

pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Sleeps without the lock.
pub(super) fn rest<T>(guard: &mut MutexGuard<'_, T>, time: Duration) {
    MutexGuard::unlocked(guard, || sleep(time));
}
