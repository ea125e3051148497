//! From sessions in memory to their queues.

use super::super::Cancel;
use super::{Routed, WriteBehind};
use crate::error::Result;
use crate::row::Event;
use crate::session::{Session, Sessions, Subscription};

/// Keeps a [`WriteBehind`] listening to [`Sessions`]; dropping it ends that.
#[must_use = "nothing is routed any more when this is dropped"]
#[derive(Debug)]
pub struct Following {
    _events: Subscription,
    _flush: Subscription,
    _disposed: Subscription,
}

impl WriteBehind {
    /// Stores what happens to `sessions`, as far as they are open for writing here:
    ///
    /// - every event that is appended to a live session is routed; seeds and the markers behind them are not, their owner
    ///   stores them before the session is published;
    /// - a flush of a live session drains and flushes its handle, and fails if the session has events that are not stored;
    /// - the handle of a session that leaves is drained and closed before the call that detaches it returns. What fails then is
    ///   reported to [`BehindOptions::report`](super::BehindOptions::report).
    pub fn follow(&self, sessions: &Sessions) -> Following {
        let (router, flusher, closer) = (self.clone(), self.clone(), self.clone());
        Following {
            _events: sessions
                .on_event(move |session, event| Ok(router.route_event(session, event).map(drop)?)),
            _flush: sessions.on_flush(move |session| Ok(flusher.flush_live(session)?)),
            _disposed: sessions.on_disposed(move |session| {
                closer.dispose(session);
                Ok(())
            }),
        }
    }

    /// Routes every event that is appended to `session` from now on. For a session that is in no [`Sessions`].
    pub fn observe(&self, session: &Session) -> Subscription {
        let router = self.clone();
        session.observe(move |session, event| Ok(router.route_event(session, event).map(drop)?))
    }

    /// Queues the event that `session` appended last: what its observers are called with. Never waits: an event that finds no
    /// room is taken from the session's log when there is some, so a slow disk costs no memory beyond the session itself.
    ///
    /// # Errors
    /// [`Error::SeqMismatch`](crate::Error::SeqMismatch): an event before it was not routed. Nothing was queued.
    pub fn route_event(&self, session: &Session, event: &Event<'_>) -> Result<Routed> {
        let Some(live) = self.shared.registry.get(session.id()) else { return Ok(Routed::NoHandle) };
        live.route_last(event.line().as_bytes(), event.seq().get(), || session.log())
    }

    fn flush_live(&self, session: &Session) -> Result<()> {
        let Some(live) = self.shared.registry.get(session.id()) else { return Ok(()) };
        let accepted = session.next_seq();
        live.flush(&Cancel::never())?;
        let stored = live.stored();
        if stored < accepted { Err(live.not_stored(stored, accepted)) } else { Ok(()) }
    }

    fn dispose(&self, session: &Session) {
        let Some(live) = self.shared.registry.get(session.id()) else { return };
        if let Err(error) = live.close() {
            live.report(&error);
        }
    }
}
