//! What has to be on disk before an agent goes on.

use std::fmt;
use std::sync::Arc;

use super::behind::WriteBehind;
use super::cancel::{Cancel, CancelReason};
use crate::error::{Error, Result};
use crate::json::Text;

/// The points of a turn at which its session has to be durable, and what may not happen if it is not.
///
/// Each call drains and flushes the session, and its error type says what the host must not do then. So a crash loses at most
/// the batch in flight and what waits in the window, and a tool that ran has a durable `tool/call`.
///
/// ```
/// # use std::sync::Arc;
/// # use seslog::json::Text;
/// # use seslog::store::{Cancel, Checkpoints, DoNotCallModel, DoNotRunTool, FileStore, WriteBehind};
/// # let behind = WriteBehind::new(Arc::new(FileStore::new("/nowhere")));
/// # let (id, cancel) = (Text::from("s-1"), Cancel::never());
/// let checkpoints = Checkpoints::of(&behind);
/// match checkpoints.before_request(&id, &cancel) {
///     Ok(()) => { /* call the model */ }
///     Err(DoNotCallModel(error)) => eprintln!("the turn fails: {error}"),
/// }
/// match checkpoints.before_tool(&id, &cancel) {
///     Ok(()) => { /* run it */ }
///     Err(DoNotRunTool::Aborted(reason)) => eprintln!("aborted before it began: {reason}"),
///     Err(DoNotRunTool::Failed(error)) => eprintln!("the tool's result is an error: {error}"),
///     Err(_) => unreachable!("no other way yet"),
/// }
/// ```
#[derive(Clone)]
pub struct Checkpoints {
    flush: Arc<FlushSession>,
}

type FlushSession = dyn Fn(&Text, &Cancel) -> Result<()> + Send + Sync;

/// What the model would answer to is not durable: do not call it.
#[derive(Debug, thiserror::Error)]
#[error("the session is not durable, so the model may not be called")]
pub struct DoNotCallModel(#[source] pub Error);

/// The call of a tool is not durable: do not run it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoNotRunTool {
    /// The caller cancelled while it waited: the result is the one of a call that was aborted before it was dispatched.
    #[error("the tool was aborted before it began: {0}")]
    Aborted(CancelReason),
    /// The result is an error.
    #[error("the tool's call is not durable, so the tool may not run")]
    Failed(#[source] Error),
}

/// A step's response and results are not durable: the turn fails before another request.
#[derive(Debug, thiserror::Error)]
#[error("the step is not durable, so the turn may not go on")]
pub struct FailTurn(#[source] pub Error);

/// A turn's end is not durable: do not take on the next one.
#[derive(Debug, thiserror::Error)]
#[error("the turn's end is not durable, so no other turn may begin")]
pub struct DoNotBeginTurn(#[source] pub Error);

impl Checkpoints {
    /// Checkpoints of the sessions that are written behind. A session that nobody has open for writing there is not stored by
    /// it, and passes.
    #[must_use]
    pub fn of(behind: &WriteBehind) -> Self {
        let behind = behind.clone();
        Self::new(move |id, cancel| behind.flush_session(id, cancel).map(drop))
    }

    /// Checkpoints that `flush` serves: it returns once everything that a session has accepted is durable.
    #[must_use]
    pub fn new(flush: impl Fn(&Text, &Cancel) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { flush: Arc::new(flush) }
    }

    /// Before a request to the model is built.
    ///
    /// # Errors
    /// The model is not called.
    pub fn before_request(&self, id: &Text, cancel: &Cancel) -> Result<(), DoNotCallModel> {
        (self.flush)(id, cancel).map_err(DoNotCallModel)
    }

    /// Before a tool runs that the model called, once its `tool/call` is in the log. What such a tool dispatches in turn
    /// needs no checkpoint of its own.
    ///
    /// # Errors
    /// The tool does not run.
    pub fn before_tool(&self, id: &Text, cancel: &Cancel) -> Result<(), DoNotRunTool> {
        (self.flush)(id, cancel).map_err(|error| match error {
            Error::Cancelled { reason } => DoNotRunTool::Aborted(reason),
            error => DoNotRunTool::Failed(error),
        })
    }

    /// After a step, once its response and all results are in the log, in order.
    ///
    /// # Errors
    /// The turn fails before another request.
    pub fn after_step(&self, id: &Text, cancel: &Cancel) -> Result<(), FailTurn> {
        (self.flush)(id, cancel).map_err(FailTurn)
    }

    /// At the end of a turn, before the next one is taken on.
    ///
    /// # Errors
    /// No other turn begins.
    pub fn turn_end(&self, id: &Text, cancel: &Cancel) -> Result<(), DoNotBeginTurn> {
        (self.flush)(id, cancel).map_err(DoNotBeginTurn)
    }
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoints").finish_non_exhaustive()
    }
}
