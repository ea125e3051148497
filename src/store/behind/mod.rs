//! Live events stored behind their producers' backs: gathered for a moment, then written and synced together.

mod clock;
mod drain;
mod handle;
mod live;
mod options;
mod pool;
mod queue;
mod registry;
mod routing;

use std::fmt;
use std::sync::Arc;

pub use clock::{Clock, ManualClock, SystemClock};
use handle::BehindHandle;
use live::Live;
pub use live::Routed;
pub use options::{BehindOptions, BehindReport, WINDOW};
use pool::Pool;
use registry::Registry;
pub use routing::Following;

use super::{Cancel, SessionAccess, SessionHandle, SessionPersistence, Snapshot};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Check, Event, Header, one_line};

/// Any store, with a queue in front of each of its handles that write.
///
/// Events of a live session are [routed](Self::route) by its id into the queue of the handle that has it open for writing:
/// that takes microseconds. The first one opens a window of 200 ms, which later ones do not extend; at its end all of them
/// are appended as one batch and made durable. A flush, an explicit append and a close drain at once, in order.
///
/// - **Order.** What is routed and what is appended is stored in the order of its seqs. Events that come during a drain go
///   into the next batch of the same drain.
/// - **Failure.** A drain that fails keeps every event. No window opens until somebody drains (flush, append or close); that
///   call fails for as long as the fault lasts, and afterwards stores each event exactly once. If the handle below says that it
///   cannot go on ([`Error::Poisoned`]), the drain opens the session again and goes on from what the disk holds.
/// - **Memory.** A queue is bounded in bytes and events. [`route`](Self::route) waits for room, [`try_route`](Self::try_route)
///   says that there is none, and what a [`Session`](crate::session::Session) appends is taken from its own log once there is.
/// - **Threads.** One timer and [`BehindOptions::drains`] others for all sessions; they start with the first event and end with
///   [`close`](SessionPersistence::close), or when the instance and its handles are dropped.
///
/// Set the store below to [`Durability::OnFlush`](super::Durability::OnFlush) if an explicit append need not be on disk when it
/// returns; a drain is one write and one sync either way. Syncs of many sessions run side by side, and share what the file
/// system can share: see [`BehindOptions::drains`].
///
/// Cheap to clone; clones are one instance. A test steps time with a [`ManualClock`] and [`settle`](Self::settle); a store
/// below that fails on request is any [`SessionPersistence`], or [`FileStore`](super::FileStore) on a disk of the feature
/// `fault`.
#[derive(Clone, Debug)]
pub struct WriteBehind {
    shared: Arc<Shared>,
}

struct Shared {
    below: Arc<dyn SessionPersistence>,
    registry: Arc<Registry>,
    pool: Arc<Pool>,
}

impl WriteBehind {
    /// Puts queues in front of `below`, with the default settings.
    #[must_use]
    pub fn new(below: Arc<dyn SessionPersistence>) -> Self {
        Self::with_options(below, BehindOptions::default())
    }

    /// Puts queues in front of `below`.
    #[must_use]
    pub fn with_options(below: Arc<dyn SessionPersistence>, options: BehindOptions) -> Self {
        let pool = Pool::new(options);
        Self { shared: Arc::new(Shared { below, registry: Arc::default(), pool }) }
    }

    /// Queues a live event of session `id` and waits while there is no room. `row` is the event as JSON text, without a newline.
    ///
    /// Queued is not stored: a flush makes it so. Notices a cancellation within 20 ms. Never returns [`Routed::Full`].
    ///
    /// # Errors
    /// Nothing was queued then. [`Error::InvalidRow`] and [`Error::SeqMismatch`] for what is no event, or not the next one.
    /// The failure that paused the queue, if it is full: nothing makes room before an explicit drain.
    /// [`Error::Cancelled`].
    pub fn route(&self, id: &Text, row: &[u8], cancel: &Cancel) -> Result<Routed> {
        let Some(live) = self.shared.registry.get(id) else { return Ok(Routed::NoHandle) };
        live.route(row, seq_of(row)?, cancel)
    }

    /// Queues a live event of session `id` if there is room. `row` is the event as JSON text, without a newline.
    ///
    /// # Errors
    /// [`Error::InvalidRow`], [`Error::SeqMismatch`]: nothing was queued.
    pub fn try_route(&self, id: &Text, row: &[u8]) -> Result<Routed> {
        let Some(live) = self.shared.registry.get(id) else { return Ok(Routed::NoHandle) };
        live.try_route(row, seq_of(row)?)
    }

    /// Stores what waits of session `id` and makes it durable; the session itself too, if it has nothing but its header.
    ///
    /// Returns whether anybody has it open for writing here. If nobody has, nothing is to be stored.
    ///
    /// # Errors
    /// As [`SessionHandle::flush`].
    pub fn flush_session(&self, id: &Text, cancel: &Cancel) -> Result<bool> {
        let Some(live) = self.shared.registry.get(id) else { return Ok(false) };
        flush_unless_closing(&live, cancel)
    }

    /// Returns once every window that has ended by the clock has been drained, or has failed to.
    ///
    /// For tests with a clock that they step; a host that wants events to be stored flushes.
    pub fn settle(&self) {
        self.shared.pool.settle();
    }

    fn wrap(&self, below: Arc<dyn SessionHandle>) -> Arc<dyn SessionHandle> {
        let Shared { below: store, registry, pool } = &*self.shared;
        let live = Live::new(Arc::clone(&below), Arc::clone(store), Arc::clone(pool), registry);
        registry.enter(&live);
        Arc::new(BehindHandle::new(live, &*below, Arc::clone(&self.shared)))
    }
}

impl SessionPersistence for WriteBehind {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        Ok(self.wrap(self.shared.below.create(header, inherited, cancel)?))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        let below = self.shared.below.open(id, access, cancel)?;
        Ok(if access == SessionAccess::Write { self.wrap(below) } else { below })
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        self.shared.below.stat(id, cancel)
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        self.shared.below.list(cancel)
    }

    /// Flushes every handle that writes, several at a time. One that is closing counts as flushed: its close drains.
    fn flush(&self) -> Result<()> {
        let flush = |live: &Live| flush_unless_closing(live, &Cancel::never()).map(|_| ());
        let failed = self.shared.pool.for_each(self.shared.registry.all(), flush);
        Error::aggregate(failed).map_or(Ok(()), Err)
    }

    /// Closes every handle, several at a time, then the store below, and ends the threads.
    fn close(&self) -> Result<()> {
        let mut failed = self.shared.pool.for_each(self.shared.registry.all(), Live::close);
        failed.extend(self.shared.below.close().err());
        self.shared.pool.stop();
        Error::aggregate(failed).map_or(Ok(()), Err)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { below, registry, pool } = self;
        f.debug_struct("Shared")
            .field("below", below)
            .field("registry", registry)
            .field("pool", pool)
            .finish()
    }
}

fn flush_unless_closing(live: &Live, cancel: &Cancel) -> Result<bool> {
    match live.flush(cancel) {
        Ok(()) => Ok(true),
        Err(Error::HandleClosed { .. }) if live.is_closing() => Ok(true),
        Err(error) => Err(error),
    }
}

/// The seq of an event that is to be stored. Checked in full, so that nothing gets into a queue that cannot be stored.
fn seq_of(row: &[u8]) -> Result<u64> {
    one_line(row)
        .and_then(|()| Event::read(row, Check::Full, &Limits::DEFAULT))
        .map(|event| event.seq().get())
        .map_err(|source| Error::InvalidRow { index: 0, source })
}
