//! A caller's wish to stop waiting.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::seam::SessionHandle;
use crate::error::{Error, Result};

/// Why a call was cancelled: the caller's own value, handed back unchanged.
pub type CancelReason = Arc<dyn StdError + Send + Sync>;

/// A token that a caller keeps to cancel what it started. Clones are one token.
///
/// An operation looks at it before each step that can still be left undone, never after a durable step began: what is on
/// disk stays and is reported as success.
#[derive(Clone, Default)]
pub struct Cancel(Option<Arc<OnceLock<CancelReason>>>);

impl Cancel {
    /// A token that can be cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// A token that nobody can cancel.
    #[must_use]
    pub const fn never() -> Self {
        Self(None)
    }

    /// Whether anybody could cancel it: whoever waits with such a token has to look now and then.
    #[must_use]
    pub const fn can_cancel(&self) -> bool {
        self.0.is_some()
    }

    /// Cancels whatever looks at the token from now on. Only the first reason counts.
    pub fn cancel(&self, reason: impl Into<CancelReason>) {
        if let Some(cell) = &self.0 {
            let _ = cell.set(reason.into());
        }
    }

    /// The reason, once the token is cancelled.
    #[must_use]
    pub fn reason(&self) -> Option<&CancelReason> {
        self.0.as_ref()?.get()
    }

    /// Goes on, unless the token is cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`] with the caller's own reason.
    pub fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| Err(Error::Cancelled { reason: Arc::clone(reason) }))
    }

    /// Does `look`, which changes nothing, unless the token is cancelled before; what it found is dropped if it is meanwhile.
    pub(super) fn unless<T>(&self, look: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        let found = look()?;
        self.check()?;
        Ok(found)
    }

    /// The handle that an open gave, unless the token was cancelled meanwhile: opening is one step that is not broken off, and
    /// what it claimed is given back before the caller hears of it.
    pub(super) fn keep<H: SessionHandle>(&self, handle: Arc<H>) -> Result<Arc<H>> {
        match self.check() {
            Ok(()) => Ok(handle),
            Err(cancelled) => match handle.close() {
                Ok(()) => Err(cancelled),
                Err(error) => Err(Error::Aggregate(vec![cancelled, error])),
            },
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.reason().map(ToString::to_string)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the user closed the window")]
    struct Closed;

    #[test]
    fn the_first_reason_comes_back_unchanged_through_every_clone() {
        let token = Cancel::new();
        let clone = token.clone();
        assert!(clone.check().is_ok());
        let reason: CancelReason = Arc::new(Closed);
        token.cancel(Arc::clone(&reason));
        token.cancel(Arc::new(std::io::Error::other("too late")) as CancelReason);
        let Err(Error::Cancelled { reason: found }) = clone.check() else { panic!("cancelled") };
        assert!(Arc::ptr_eq(&found, &reason));
    }

    #[test]
    fn a_token_that_nobody_holds_never_cancels() {
        Cancel::never().cancel(Arc::new(Closed) as CancelReason);
        assert!(Cancel::never().check().is_ok());
    }
}
