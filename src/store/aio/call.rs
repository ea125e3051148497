//! The future of one call, and the end of it that the operation holds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::store::cancel::Cancel;

/// An operation that was called; the future waits for its outcome. Dropping it cancels the operation.
#[derive(Debug)]
#[must_use = "dropping a call cancels it; await it"]
pub struct Call<T> {
    outcome: oneshot::Receiver<Result<T>>,
    cancel: Cancel,
}

/// Why an operation was cancelled whose [`Call`] was dropped. Nobody is left to hear of it, but the store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller dropped the call")]
#[non_exhaustive]
pub struct Dropped;

/// Why an operation has no outcome: the runtime shut down before it ran, or the store panicked. Whether it was done is not
/// known in the second case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the runtime shut down or the store panicked before the operation ended")]
#[non_exhaustive]
pub struct Lost;

/// Where the outcome of a [`Call`] goes.
#[derive(Debug)]
pub(super) struct Reply<T> {
    outcome: oneshot::Sender<Result<T>>,
    cancel: Cancel,
}

/// A call, and where its outcome goes.
pub(super) fn call<T>() -> (Call<T>, Reply<T>) {
    let (sender, receiver) = oneshot::channel();
    let cancel = Cancel::new();
    (Call { outcome: receiver, cancel: cancel.clone() }, Reply { outcome: sender, cancel })
}

impl<T> Reply<T> {
    /// Runs the operation, whether or not it was cancelled: it is told.
    pub(super) fn run(self, operation: impl FnOnce(&Cancel) -> Result<T>) {
        let outcome = operation(&self.cancel);
        self.send(outcome);
    }

    /// Gives the outcome without running anything. Nobody may be left to hear it.
    pub(super) fn send(self, outcome: Result<T>) {
        drop(self.outcome.send(outcome));
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.outcome)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or_else(|_| Err(Error::Cancelled { reason: Arc::new(Lost) })))
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        self.cancel.cancel(Arc::new(Dropped) as crate::store::CancelReason);
    }
}
