//! The contract between a host and whatever keeps its sessions.
//!
//! A host programs against these two traits; [`FileStore`](super::FileStore) and [`MemoryStore`](super::MemoryStore) are
//! backends, and a third party may write others.

use std::fmt::Debug;
use std::sync::Arc;

use super::cancel::Cancel;
use super::events::Events;
use super::handle::SessionAccess;
use super::history::{Page, PageRequest, page_of_handle};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::json::Text;
use crate::row::Header;

/// Keeps sessions: one instance over one storage.
///
/// What a backend has to keep besides the signatures is written down as tests: `seslog::contract`, feature `contract-tests`.
///
/// Units are events, each a row of the current generation as JSON text without a newline. A backend never invents, drops
/// or rewrites one. Every call may come from any thread.
pub trait SessionPersistence: Send + Sync + Debug {
    /// Creates a session and opens it for writing. Nothing is stored before its first append or flush.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument): nothing is reserved.
    /// [`AlreadyExists`](crate::Error::AlreadyExists): the id is stored, pending, or being created.
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>>;

    /// Opens a session. For reading it works beside any writer; for writing it takes the session for one handle.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound), [`AlreadyOwned`](crate::Error::AlreadyOwned), and what is wrong with the log. A
    /// failed open leaves nothing claimed or locked.
    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>>;

    /// What is known of a session without reading its events; `None` for one that is not stored here.
    ///
    /// # Errors
    /// Faults of the storage. What is wrong with the log is in the answer.
    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>>;

    /// All sessions, in no promised order; damaged ones with their state.
    ///
    /// # Errors
    /// Faults of the storage.
    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>>;

    /// Makes everything that open handles have accepted durable.
    ///
    /// # Errors
    /// The failures of all handles; the others were flushed all the same.
    fn flush(&self) -> Result<()>;

    /// Closes every open handle of this instance.
    ///
    /// # Errors
    /// The failures of all handles; the others were closed all the same.
    fn close(&self) -> Result<()>;
}

/// One open session. Operations of a handle run one after the other, in the order in which they were called.
pub trait SessionHandle: Send + Sync + Debug {
    /// The header, in the current generation.
    fn header(&self) -> &Header;

    /// Events that were inherited from the session that this one was forked from.
    fn inherited_event_count(&self) -> u64;

    /// What the handle may do.
    fn access(&self) -> SessionAccess;

    /// The seq that the next event gets, on a handle that writes.
    fn next_seq(&self) -> Option<u64>;

    /// Returns at most `length` events from seq `offset` on; none where the log ends before.
    ///
    /// # Errors
    /// [`HandleClosed`](crate::Error::HandleClosed) before anything else; [`NotFound`](crate::Error::NotFound) if the session
    /// was never stored and its creator closed it; what is wrong with the log;
    /// [`Shrank`](crate::Error::Shrank) if it is shorter than this handle has seen.
    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events>;

    /// Returns one page of the log: see [`history`](super::history).
    ///
    /// Provided by way of [`SessionHandle::read`], in O(page) events and O(log n) looks for the end; a backend that can find the end
    /// itself, or bind cursors to what it stores, does better.
    ///
    /// # Errors
    /// [`StaleCursor`](crate::Error::StaleCursor), and those of [`SessionHandle::read`] where nothing can be read in the page's
    /// direction. What stands before damage is served first.
    fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        page_of_handle(self, request, cancel)
    }

    /// Stores rows behind the log, all or none. They continue the log's seqs.
    ///
    /// # Errors
    /// [`HandleClosed`](crate::Error::HandleClosed), [`ReadOnly`](crate::Error::ReadOnly),
    /// [`InvalidRow`](crate::Error::InvalidRow), [`SeqMismatch`](crate::Error::SeqMismatch),
    /// [`UnknownType`](crate::Error::UnknownType) unless the backend was told to let anything in: nothing was stored and the
    /// seqs stay free. A failed write may be tried again with the same rows.
    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()>;

    /// Makes every accepted append durable, and stores a session that has nothing but its header.
    ///
    /// # Errors
    /// [`HandleClosed`](crate::Error::HandleClosed), [`ReadOnly`](crate::Error::ReadOnly), faults of the storage.
    fn flush(&self, cancel: &Cancel) -> Result<()>;

    /// Frees the session; the first call does it. From then on every other call is refused. Never cancelled.
    ///
    /// # Errors
    /// What the last steps give; the session is free all the same. Every caller gets the same outcome.
    fn close(&self) -> Result<()>;
}
