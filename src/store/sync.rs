//! Locks and threads as write-behind uses them.
//!
//! `tests/explore.rs` compiles the same code over locks whose every step a scheduler decides, so nothing in `behind` may
//! take a lock or start a thread but through here.

use std::io;
use std::time::Duration;

/// A lock. What panicked while holding it left nothing half done that matters.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::const_mutex(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

/// Something to wait for under a lock.
#[derive(Debug, Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    pub(crate) fn wait_for<'a, T>(&self, mut guard: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
        self.0.wait_for(&mut guard, most);
        guard
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A thread that somebody waits for.
#[derive(Debug)]
pub(crate) struct Thread(std::thread::JoinHandle<()>);

impl Thread {
    pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(Self)
    }

    /// Waits until it has ended; not for the thread that calls.
    pub(crate) fn join(self) {
        if self.0.thread().id() != std::thread::current().id() {
            // What it panicked with was printed by the hook of the process.
            let _ended = self.0.join();
        }
    }
}
