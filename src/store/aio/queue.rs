//! The operations of one handle, in the order in which they were called.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle as Runtime;

use super::call::{Call, Reply, call};
use crate::error::{Error, Result};
use crate::store::cancel::Cancel;
use crate::store::layout::printable;
use crate::store::seam::SessionHandle;

/// Runs one operation after the other on a blocking thread, which is given back when nothing waits.
pub(super) struct Queue {
    runtime: Runtime,
    /// Absent while this is dropped.
    inner: Option<Arc<dyn SessionHandle>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Operations behind the one that has begun.
    waiting: VecDeque<Waiting>,
    /// An operation has begun: it runs, or is about to.
    is_running: bool,
    is_closing: bool,
}

struct Waiting {
    name: &'static str,
    job: Job,
}

/// An operation. Given an error instead of the handle, it gives that to its caller and does nothing.
type Job = Box<dyn FnOnce(Result<&dyn SessionHandle>) + Send>;

/// The operation that has begun, and the duty to run those behind it.
struct Turn {
    queue: Arc<Queue>,
    first: Option<Job>,
    is_over: bool,
}

impl Queue {
    pub(super) fn new(runtime: Runtime, inner: Arc<dyn SessionHandle>) -> Arc<Self> {
        Arc::new(Self { runtime, inner: Some(inner), state: Mutex::default() })
    }

    /// The handle itself. Of its methods, those that look at nothing but what was fixed at its opening may be called by tasks.
    pub(super) fn inner(&self) -> &dyn SessionHandle {
        &**self.inner.as_ref().expect("only the drop takes it out")
    }

    /// Calls an operation: it has its place in the order when this returns.
    pub(super) fn push<T: Send + 'static>(
        self: &Arc<Self>,
        name: &'static str,
        run: impl FnOnce(&dyn SessionHandle, &Cancel) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        let (call, reply) = call();
        let job = job(reply, move |handle, cancel| {
            cancel.check()?;
            run(handle, cancel)
        });
        let mut state = self.state.lock();
        let turn = match state.is_closing {
            true => Err(job),
            false => Ok(self.enter(&mut state, name, job)),
        };
        drop(state);
        match turn {
            Ok(turn) => self.start(turn),
            Err(job) => self.refuse(Waiting { name, job }),
        }
        call
    }

    /// Refuses what waits, and closes behind what has begun.
    pub(super) fn close(self: &Arc<Self>) -> Call<()> {
        let (call, reply) = call();
        let mut state = self.state.lock();
        let refused = match std::mem::replace(&mut state.is_closing, true) {
            false => std::mem::take(&mut state.waiting),
            // What waits are calls of this.
            true => VecDeque::new(),
        };
        let turn = self.enter(&mut state, "close", job(reply, |handle, _| handle.close()));
        drop(state);
        self.start(turn);
        refused.into_iter().for_each(|waiting| self.refuse(waiting));
        call
    }

    fn enter(self: &Arc<Self>, state: &mut State, name: &'static str, job: Job) -> Option<Turn> {
        if std::mem::replace(&mut state.is_running, true) {
            state.waiting.push_back(Waiting { name, job });
            return None;
        }
        Some(Turn { queue: Arc::clone(self), first: Some(job), is_over: false })
    }

    /// Not under the lock: a runtime that has shut down drops the turn at once.
    fn start(&self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            drop(self.runtime.spawn_blocking(move || turn.run()));
        }
    }

    fn refuse(&self, waiting: Waiting) {
        let id = printable(self.inner().header().id());
        (waiting.job)(Err(Error::HandleClosed { id, operation: waiting.name }));
    }
}

impl Turn {
    fn run(mut self) {
        let mut next = self.first.take();
        while let Some(job) = next {
            job(Ok(self.queue.inner()));
            let mut state = self.queue.state.lock();
            next = state.waiting.pop_front().map(|waiting| waiting.job);
            self.is_over = next.is_none();
            state.is_running = next.is_some();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            // It never ran, or an operation panicked: nobody is left to run the others, whose callers hear of it.
            let mut state = self.queue.state.lock();
            state.is_running = false;
            let lost = std::mem::take(&mut state.waiting);
            drop(state);
            drop(lost);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Freeing a session may wait for the disk.
        if let Some(inner) = self.inner.take() {
            drop(self.runtime.spawn_blocking(move || drop(inner)));
        }
    }
}

fn job<T: Send + 'static>(
    reply: Reply<T>,
    run: impl FnOnce(&dyn SessionHandle, &Cancel) -> Result<T> + Send + 'static,
) -> Job {
    Box::new(move |handle| match handle {
        Ok(handle) => reply.run(|cancel| run(handle, cancel)),
        Err(error) => reply.send(Err(error)),
    })
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.inner).finish()
    }
}
