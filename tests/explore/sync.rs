//! The locks and threads of `src/store/sync.rs`, under a scheduler that decides every step.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits without a limit: time stands still unless a test steps it, and that wakes.
    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, _most: Duration) -> MutexGuard<'a, T> {
        self.wait(guard)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[derive(Debug)]
pub(crate) struct Thread(shuttle::thread::JoinHandle<()>);

impl Thread {
    pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        shuttle::thread::Builder::new().name(name.to_owned()).spawn(run).map(Self)
    }

    pub(crate) fn join(self) {
        if self.0.thread().id() != shuttle::thread::current().id() {
            self.0.join().expect("nothing panics here");
        }
    }
}
