//! The locks and waits of `src/live/sync.rs`, under a scheduler that decides every step.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// A guard that can give its lock away for a while.
pub(super) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: self, guard: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is held")
    }
}

#[derive(Debug)]
pub(super) struct Condvar(shuttle::sync::Condvar);

/// What ended a wait. Never time, which stands still: what ends a wait must have woken it.
pub(super) struct Woken;

impl Woken {
    pub(super) const fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub(super) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(super) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.guard.take().expect("it is held");
        guard.guard = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _until: Instant) -> Woken {
        self.wait(guard);
        Woken
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Lets others go on; how long is for the scheduler to say.
pub(super) fn rest<T>(guard: &mut MutexGuard<'_, T>, _time: Duration) {
    guard.guard = None;
    shuttle::thread::yield_now();
    guard.guard = guard.lock.lock().guard.take();
}
