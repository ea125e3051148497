//! One instance over a storage in memory: `create`, `open`, `stat`, `list`, `flush`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::claims::{Claims, Pending};
use super::handle::MemoryHandle;
use super::hooks::Step;
use super::storage::MemoryStorage;
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Header, Seeding};
use crate::session::Admission;
use crate::store::admit::check_new;
use crate::store::append::Durability;
use crate::store::cancel::Cancel;
use crate::store::handle::SessionAccess;
use crate::store::layout::printable;
use crate::store::seam::{SessionHandle, SessionPersistence};
use crate::store::snapshot::{Snapshot, State};
use crate::units::Generation;

/// Settings of a [`MemoryStore`]: those of [`StoreOptions`](crate::store::StoreOptions) that mean something without a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// Whether an append survives a crash by itself, or from the next flush on.
    pub durability: Durability,
    /// Whether an append refuses event types that would keep every later reader from opening the log.
    pub admission: Admission,
    /// Bounds on what is read.
    pub limits: Limits,
}

/// Sessions in a [`MemoryStorage`], by the same contract as those in a root folder: for tests of hosts, and for hosts that
/// keep nothing.
///
/// Cheap to clone; clones are one instance. It refuses what a [`FileStore`](crate::store::FileStore) refuses, with the same errors. Paths
/// in them and in snapshots are names: no such file exists. Snapshots have no encoding and no project, and
/// [`Snapshot::size_bytes`] is the length of the log as text: its header, its rows and their newlines.
///
/// Time and memory of a call grow with the rows that it takes or gives, not with the log, but for three that read a whole log
/// and remember the outcome until it changes: opening it for writing, reading all of it, and reading one of an older generation.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    instance: Arc<Instance>,
}

/// What a store and its handles share.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) storage: MemoryStorage,
    pub(super) options: MemoryOptions,
    pub(super) claims: Arc<Claims>,
    pub(super) number: u64,
    crashed: AtomicBool,
    handles: Mutex<Vec<Weak<MemoryHandle>>>,
}

impl MemoryStore {
    /// An instance over `storage`, with the default options.
    #[must_use]
    pub fn new(storage: &MemoryStorage) -> Self {
        Self::with_options(storage, MemoryOptions::default())
    }

    /// An instance over `storage`.
    #[must_use]
    pub fn with_options(storage: &MemoryStorage, options: MemoryOptions) -> Self {
        let instance = Instance {
            number: storage.next_token(),
            storage: storage.clone(),
            options,
            claims: Arc::default(),
            crashed: AtomicBool::new(false),
            handles: Mutex::default(),
        };
        Self { instance: Arc::new(instance) }
    }

    /// What outlives this instance.
    #[must_use]
    pub fn storage(&self) -> &MemoryStorage {
        &self.instance.storage
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &MemoryOptions {
        &self.instance.options
    }

    /// Creates a session and opens it for writing. Nothing is stored before its first append or flush.
    ///
    /// `inherited` is the number of events that will be copied from another session: required for a seeded header, absent
    /// or 0 for any other.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a header that no store holds; [`Error::AlreadyExists`] for an id that is stored,
    /// pending, or being created.
    pub fn create(&self, header: Header, inherited: Option<u64>) -> Result<Arc<MemoryHandle>> {
        self.instance.check_alive()?;
        let inherited = check_new(&header, inherited)?;
        let exists = || Error::AlreadyExists { id: printable(header.id()) };
        let claim = self.instance.claims.take(header.id()).ok_or_else(exists)?;
        if self.instance.storage.is_stored(header.id()) {
            return Err(exists());
        }
        let change = self.instance.storage.next_change();
        claim.show(Some(Pending { header: header.clone(), inherited, change }));
        Ok(self.register(MemoryHandle::pending(&self.instance, header, inherited, claim)))
    }

    /// Opens a session. For reading it works beside any writer; for writing it takes the session for this handle alone, in
    /// all instances, and reads the whole log.
    ///
    /// A log of an older generation is converted: in memory for a reader, and beside the stored one for a writer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyOwned`], and what is wrong with the log.
    pub fn open(&self, id: &Text, access: SessionAccess) -> Result<Arc<MemoryHandle>> {
        self.open_unless(id, access, &Cancel::never())
    }

    fn open_unless(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<MemoryHandle>> {
        self.instance.check_alive()?;
        let handle = match access {
            SessionAccess::Read => self.open_for_reading(id, cancel)?,
            SessionAccess::Write => {
                let owned = || Error::AlreadyOwned { id: printable(id), owner: None };
                let claim = self.instance.claims.take(id).ok_or_else(owned)?;
                if !self.instance.storage.is_stored(id) {
                    return Err(Error::NotFound { id: printable(id) });
                }
                MemoryHandle::for_writing(&self.instance, id, claim, cancel)?
            }
        };
        Ok(self.register(handle))
    }

    fn open_for_reading(&self, id: &Text, cancel: &Cancel) -> Result<MemoryHandle> {
        let Instance { storage, options: MemoryOptions { limits, .. }, claims, .. } = &*self.instance;
        let reader = |header, inherited| MemoryHandle::for_reading(&self.instance, header, inherited);
        if let Some(Pending { header, inherited, .. }) = claims.pending(id) {
            return Ok(reader(header, inherited));
        }
        let not_found = || Error::NotFound { id: printable(id) };
        let view = storage.view(id).ok_or_else(not_found)?;
        let Snapshot { state, header, error, .. } = storage.look(&view, limits);
        let header = match (state, header, error.map(|error| *error)) {
            (State::Ok | State::Torn, Some(header), _) => header,
            // A damaged end can be read up to.
            (_, Some(header), Some(Error::DamagedTail { .. })) => header,
            (_, _, Some(error)) => return Err(error),
            (_, _, None) => return Err(not_found()),
        };
        match (header.seeding(), header.generation()) {
            (Seeding::Unseeded, Generation::CURRENT) => Ok(reader(header, 0)),
            // Only the events tell where the cut is, or what becomes of an older log.
            _ => {
                cancel.check()?;
                let view = storage.view_to_read(id)?.ok_or_else(not_found)?;
                let judged = storage.judged(&view, limits)?;
                judged.require_sound(&view.path())?;
                Ok(reader(judged.header.clone(), judged.inherited))
            }
        }
    }

    /// What the two ends of a session's log say; `None` for an id that is not stored here.
    ///
    /// # Errors
    /// [`Error::Io`] if a hook makes it fail. What is wrong with the log is in the answer.
    pub fn stat(&self, id: &Text) -> Result<Option<Snapshot>> {
        self.instance.check_alive()?;
        let storage = &self.instance.storage;
        if storage.is_stored(id) {
            storage.step(Step::Look, Some(id))?;
            let view = storage.view(id);
            return Ok(view.map(|view| storage.look(&view, &self.instance.options.limits)));
        }
        match self.instance.claims.pending(id) {
            // It may have been stored between the two questions.
            Some(_) if storage.is_stored(id) => self.stat(id),
            pending => Ok(pending.map(|pending| storage.look_at_pending(pending))),
        }
    }

    /// All sessions, damaged ones with their state, in no promised order.
    ///
    /// # Errors
    /// [`Error::Io`] if a hook makes the listing fail. A session that cannot be looked at is in the list, with its error.
    pub fn list(&self) -> Result<Vec<Snapshot>> {
        self.instance.check_alive()?;
        let Instance { storage, options, claims, .. } = &*self.instance;
        // Taken first: a session that is stored meanwhile is then found there.
        let pending = claims.all_pending();
        storage.step(Step::List, None)?;
        let ids = storage.stored_ids();
        let mut snapshots = Vec::with_capacity(ids.len());
        for id in &ids {
            let looked = storage.step(Step::Look, Some(id));
            // None if it vanished since the ids were taken.
            let Some(view) = storage.view(id) else { continue };
            snapshots.push(match looked {
                Ok(()) => storage.look(&view, &options.limits),
                Err(error) => Snapshot::unreadable(&view.path(), error),
            });
        }
        let unstored = pending.into_iter().filter(|pending| ids.binary_search(pending.header.id()).is_err());
        snapshots.extend(unstored.map(|pending| storage.look_at_pending(pending)));
        Ok(snapshots)
    }

    /// Makes everything that open handles have accepted durable.
    ///
    /// # Errors
    /// The failures of all handles; the others were flushed all the same.
    pub fn flush(&self) -> Result<()> {
        self.instance.check_alive()?;
        let handles = self.open_handles();
        let writing = handles.iter().filter(|handle| handle.access() == SessionAccess::Write);
        let failures = writing.filter_map(|handle| match handle.flush() {
            Ok(()) | Err(Error::HandleClosed { .. }) => None,
            Err(error) => Some(error),
        });
        Error::aggregate(failures.collect()).map_or(Ok(()), Err)
    }

    /// Closes every open handle.
    ///
    /// # Errors
    /// The failures of all handles; the others were closed all the same.
    pub fn close(&self) -> Result<()> {
        let failures = self.open_handles().into_iter().filter_map(|handle| handle.close().err());
        Error::aggregate(failures.collect()).map_or(Ok(()), Err)
    }

    /// Ends this instance as a crash of its process and its machine would: what it owned is free at once, sessions that it
    /// had not stored are gone, and so is everything that it had accepted and not flushed. Other instances go on.
    ///
    /// From then on its handles are closed, and the instance refuses every call.
    pub fn crash(&self) {
        self.crash_keeping(0);
    }

    /// As [`MemoryStore::crash`], but of each session the first `unflushed` events that were not flushed happen to survive.
    pub fn crash_keeping(&self, unflushed: u64) {
        self.instance.crashed.store(true, Ordering::Release);
        self.instance.storage.crash(self.instance.number, unflushed);
    }

    fn register(&self, handle: MemoryHandle) -> Arc<MemoryHandle> {
        let handle = Arc::new(handle);
        let mut handles = self.instance.handles.lock();
        handles.retain(|handle| handle.strong_count() > 0);
        handles.push(Arc::downgrade(&handle));
        handle
    }

    fn open_handles(&self) -> Vec<Arc<MemoryHandle>> {
        self.instance.handles.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Instance {
    pub(super) fn is_crashed(&self) -> bool {
        self.crashed.load(Ordering::Acquire)
    }

    fn check_alive(&self) -> Result<()> {
        if self.is_crashed() { Err(self.storage.is_gone()) } else { Ok(()) }
    }
}

impl SessionPersistence for MemoryStore {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        cancel.check()?;
        Ok(Self::create(self, header, inherited)?)
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        cancel.check()?;
        Ok(cancel.keep(self.open_unless(id, access, cancel)?)?)
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        cancel.unless(|| Self::stat(self, id))
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        cancel.unless(|| Self::list(self))
    }

    fn flush(&self) -> Result<()> {
        Self::flush(self)
    }

    fn close(&self) -> Result<()> {
        Self::close(self)
    }
}
