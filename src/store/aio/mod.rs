//! The seam for tasks: any store and its handles, without an executor thread that waits for a disk.
//!
//! [`AsyncStore`] and [`AsyncHandle`] are thin: each call runs the one of [`SessionPersistence`] or [`SessionHandle`] on a
//! blocking thread of a tokio runtime, and says what it says. Two things are added.
//!
//! **Order.** An operation is *called* when the method is called, not when its future is first polled: the method takes its
//! place in the handle's queue and returns a [`Call`] to wait for. So operations of one handle run in the order of the calls,
//! whatever order their futures are polled in, and they run if nobody polls. Calls of a store are not ordered.
//!
//! **Cancellation.** Dropping a [`Call`] cancels what has not begun, and what has begun as far as the seam allows: before a
//! durable step, never after one. A dropped append is therefore stored whole or not at all; [`AsyncHandle::next_seq`] tells
//! which. [`AsyncHandle::close`] is never cancelled.
//!
//! ```
//! use std::sync::Arc;
//! use seslog::json::Text;
//! use seslog::row::Header;
//! use seslog::store::{FileStore, SessionAccess, aio::AsyncStore};
//! use seslog::units::{Generation, UnixMs};
//!
//! # let root = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let store = AsyncStore::new(Arc::new(FileStore::new(root.path())));
//! let header = Header::new(Generation::CURRENT, Text::from("s-1"), UnixMs::new(1_767_225_600_000))?;
//! let session = store.create(header, None).await?;
//! session.append(vec![br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#.to_vec()]).await?;
//! session.close().await?;
//! assert_eq!(store.open(Text::from("s-1"), SessionAccess::Read).await?.read(0, 10).await?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod queue;

use std::sync::Arc;

use tokio::runtime::Handle as Runtime;

use self::queue::Queue;
use super::cancel::Cancel;
use super::events::Events;
use super::handle::SessionAccess;
use super::history::{Page, PageRequest};
use super::seam::{SessionHandle, SessionPersistence};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::json::Text;
use crate::row::Header;

pub use self::call::{Call, Dropped, Lost};

/// A store for tasks. Cheap to clone; clones are one instance.
#[derive(Clone, Debug)]
pub struct AsyncStore {
    inner: Arc<dyn SessionPersistence>,
    runtime: Runtime,
}

impl AsyncStore {
    /// `inner` for the tasks of the runtime that this is called in.
    ///
    /// # Panics
    /// Outside a tokio runtime: [`AsyncStore::on`] takes one.
    #[must_use]
    pub fn new(inner: Arc<dyn SessionPersistence>) -> Self {
        Self::on(Runtime::current(), inner)
    }

    /// `inner`, whose calls wait on the blocking threads of `runtime`.
    #[must_use]
    pub fn on(runtime: Runtime, inner: Arc<dyn SessionPersistence>) -> Self {
        Self { inner, runtime }
    }

    /// The store itself, for threads that may wait.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn SessionPersistence> {
        &self.inner
    }

    /// See [`SessionPersistence::create`].
    pub fn create(&self, header: Header, inherited: Option<u64>) -> Call<AsyncHandle> {
        let runtime = self.runtime.clone();
        self.call(move |store, cancel| Ok(AsyncHandle::of(runtime, store.create(header, inherited, cancel)?)))
    }

    /// See [`SessionPersistence::open`].
    pub fn open(&self, id: Text, access: SessionAccess) -> Call<AsyncHandle> {
        let runtime = self.runtime.clone();
        self.call(move |store, cancel| Ok(AsyncHandle::of(runtime, store.open(&id, access, cancel)?)))
    }

    /// See [`SessionPersistence::stat`].
    pub fn stat(&self, id: Text) -> Call<Option<Snapshot>> {
        self.call(move |store, cancel| store.stat(&id, cancel))
    }

    /// See [`SessionPersistence::list`].
    pub fn list(&self) -> Call<Vec<Snapshot>> {
        self.call(|store, cancel| store.list(cancel))
    }

    /// See [`SessionPersistence::flush`]. Appends that were called before and still wait for their turn are not covered:
    /// [`AsyncHandle::flush`] stands behind them.
    pub fn flush(&self) -> Call<()> {
        self.call(|store, _| store.flush())
    }

    /// See [`SessionPersistence::close`]. Runs to its end although the future is dropped.
    pub fn close(&self) -> Call<()> {
        self.call(|store, _| store.close())
    }

    fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn SessionPersistence, &Cancel) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        let (call, reply) = call::call();
        let inner = Arc::clone(&self.inner);
        drop(self.runtime.spawn_blocking(move || reply.run(|cancel| run(&*inner, cancel))));
        call
    }
}

/// An open session for tasks. Cheap to clone; the calls of all clones have one order.
///
/// Dropping the last clone frees the session without reporting errors, once what was called has run: call
/// [`AsyncHandle::close`].
#[derive(Clone, Debug)]
pub struct AsyncHandle {
    queue: Arc<Queue>,
}

impl AsyncHandle {
    /// `inner` for tasks, its calls waiting on the blocking threads of `runtime`.
    #[must_use]
    pub fn of(runtime: Runtime, inner: Arc<dyn SessionHandle>) -> Self {
        Self { queue: Queue::new(runtime, inner) }
    }

    /// The header, in the current generation.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.queue.inner().header()
    }

    /// Events that were inherited from the session that this one was forked from.
    #[must_use]
    pub fn inherited_event_count(&self) -> u64 {
        self.queue.inner().inherited_event_count()
    }

    /// What the handle may do.
    #[must_use]
    pub fn access(&self) -> SessionAccess {
        self.queue.inner().access()
    }

    /// The seq that the next event gets behind everything called before, on a handle that writes.
    pub fn next_seq(&self) -> Call<Option<u64>> {
        self.queue.push("next_seq", |handle, _| Ok(handle.next_seq()))
    }

    /// See [`SessionHandle::read`].
    pub fn read(&self, offset: u64, length: u64) -> Call<Events> {
        self.queue.push("read", move |handle, cancel| handle.read(offset, length, cancel))
    }

    /// See [`SessionHandle::page`].
    pub fn page(&self, request: PageRequest) -> Call<Page> {
        self.queue.push("page", move |handle, cancel| handle.page(&request, cancel))
    }

    /// See [`SessionHandle::append`].
    pub fn append(&self, rows: Vec<Vec<u8>>) -> Call<()> {
        self.queue.push("append", move |handle, cancel| {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            handle.append(&rows, cancel)
        })
    }

    /// See [`SessionHandle::flush`]. Covers every append called before.
    pub fn flush(&self) -> Call<()> {
        self.queue.push("flush", |handle, cancel| handle.flush(cancel))
    }

    /// See [`SessionHandle::close`]: the operation that runs completes, those that wait for their turn are refused at once
    /// ([`HandleClosed`](crate::Error::HandleClosed)), and so is every later call. Await appends before calling this.
    ///
    /// Runs to its end although the future is dropped; every caller gets the same outcome.
    pub fn close(&self) -> Call<()> {
        self.queue.close()
    }
}
