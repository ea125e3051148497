//! The handle that writes a session, with followers.

use std::sync::Arc;

use parking_lot::Mutex;

use super::attempt::Attempt;
use super::baseline::Baseline;
use super::follower::LiveFollower;
use super::frame::Outcome;
use super::hub::Hub;
use crate::error::{Error, Result};
use crate::row::Header;
use crate::store::history::{Page, PageRequest};
use crate::store::layout::printable;
use crate::store::{Cancel, Events, SessionAccess, SessionHandle};
use crate::stream::SettlementKind;

/// Settings of a [`LiveHandle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveOptions {
    /// Events and frames that are kept for followers that have not taken them, all followers together.
    pub kept_max: usize,
    /// Bytes of them.
    pub kept_bytes_max: usize,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self { kept_max: 4096, kept_bytes_max: 8 << 20 }
    }
}

/// A handle that writes a session, in front of the one that does: what it stores goes to its followers, and it carries attempts.
///
/// Followers get an event when the handle below has accepted it. With a store that syncs each append
/// ([`Durability::Sync`](crate::store::Durability::Sync)) it is durable then; a settlement is flushed in any case before its end
/// frame. Appends that go to the handle below directly reach followers with the next append through this one.
#[derive(Debug)]
pub struct LiveHandle {
    below: Arc<dyn SessionHandle>,
    hub: Arc<Hub>,
    /// Held from an append to its publication: followers get events in the order of the log.
    turn: Mutex<()>,
}

impl LiveHandle {
    /// Stands before `below`, which writes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn new(below: Arc<dyn SessionHandle>, options: LiveOptions) -> Result<Arc<Self>> {
        let id = below.header().id();
        let Some(next_seq) = below.next_seq() else {
            return Err(Error::ReadOnly { id: printable(id), operation: "following live" });
        };
        let log_id = id.to_string_lossy().into_owned();
        let hub = Arc::new(Hub::new(log_id, next_seq, options.kept_max, options.kept_bytes_max));
        Ok(Arc::new(Self { below, hub, turn: Mutex::new(()) }))
    }

    /// Follows the session from here on; with `with_frames` its attempts too. The baseline is what comes before.
    #[must_use]
    pub fn follow(&self, with_frames: bool) -> (LiveFollower, Baseline) {
        LiveFollower::new(Arc::clone(&self.hub), with_frames)
    }

    /// Begins an attempt of a model in the step that is open, and tells followers. A session has one at a time.
    ///
    /// # Errors
    /// [`Error::HandleClosed`]; [`Error::InvalidArgument`] while another one is under way, or for a turn or step 0.
    pub fn begin_attempt(self: &Arc<Self>, turn: u64, step: u64) -> Result<Attempt> {
        let invalid = |what: &str| Err(Error::InvalidArgument { what: what.to_owned() });
        if turn == 0 || step == 0 {
            return invalid("turns and steps count from 1");
        }
        match self.hub.start(turn, step) {
            Some(attempt_id) => Ok(Attempt::new(Arc::clone(self), attempt_id, turn, step)),
            None if self.hub.lock().is_closed => Err(Error::HandleClosed {
                id: printable(self.below.header().id()),
                operation: "begin_attempt",
            }),
            None => invalid("an attempt of this session is under way"),
        }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Stores the settlement that `row` makes for the seq that it gets, durably, and publishes it with the end of the attempt.
    pub(super) fn settle(
        &self,
        attempt_id: &str,
        kind: SettlementKind,
        cancel: &Cancel,
        row: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<u64> {
        let _turn = self.turn.lock();
        let closed = || Error::HandleClosed { id: printable(self.below.header().id()), operation: "append" };
        let seq = self.below.next_seq().ok_or_else(closed)?;
        let row = row(seq);
        self.below.append(&[&row], cancel)?;
        self.catch_up(seq);
        // Behind the append nothing is taken back: not cancelled.
        if let Err(error) = self.below.flush(&Cancel::never()) {
            // It is in the log all the same, so it is no secret; only its end is not vouched for.
            self.hub.events([&row[..]], Some((attempt_id, Outcome::Abandoned)));
            return Err(error);
        }
        self.hub.events([&row[..]], Some((attempt_id, Outcome::Committed { kind, seq })));
        Ok(seq)
    }

    /// Publishes what was appended around this handle, up to `seq`.
    fn catch_up(&self, seq: u64) {
        let published = self.hub.lock().next_seq;
        if published >= seq {
            return;
        }
        let count = seq.saturating_sub(published);
        match self.below.read(published, count, &Cancel::never()) {
            Ok(events) if events.len() as u64 == count => self.hub.events(events.rows(), None),
            // Followers read it from the log themselves, and are told why they cannot.
            _ => self.hub.missed(seq),
        }
    }
}

impl SessionHandle for LiveHandle {
    fn header(&self) -> &Header {
        self.below.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.below.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        self.below.access()
    }

    fn next_seq(&self) -> Option<u64> {
        self.below.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.below.read(offset, length, cancel)
    }

    fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.below.page(request, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        let _turn = self.turn.lock();
        let before = self.below.next_seq();
        self.below.append(rows, cancel)?;
        if let Some(first) = before.filter(|_| !rows.is_empty()) {
            self.catch_up(first);
            self.hub.events(rows.iter().copied(), None);
        }
        Ok(())
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.below.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        let closed = self.below.close();
        self.hub.close();
        closed
    }
}

impl Drop for LiveHandle {
    fn drop(&mut self) {
        self.hub.close();
    }
}
