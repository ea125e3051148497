//! One open session in memory: `read`, `append`, `flush`, `close`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::claims::Claim;
use super::hooks::Step;
use super::judge::check_identity;
use super::log::{Log, View, session_path};
use super::rows::Rows;
use super::storage::{Lock, Unchanged};
use super::store::{Instance, MemoryOptions};
use super::{convert, judge};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::row::Header;
use crate::store::admit::check_rows;
use crate::store::append::Durability;
use crate::store::cancel::Cancel;
use crate::store::events::{Checked, Events};
use crate::store::handle::SessionAccess;
use crate::store::layout::printable;
use crate::store::seam::SessionHandle;
use crate::units::Generation;

/// An open session of a [`MemoryStore`](super::MemoryStore).
///
/// May be shared between threads; operations of one handle run one after the other. Dropping it frees the session
/// without a word about what was accepted and not flushed: call [`MemoryHandle::close`].
#[derive(Debug)]
pub struct MemoryHandle {
    instance: Arc<Instance>,
    header: Header,
    shown_id: String,
    inherited: u64,
    access: SessionAccess,
    closing: AtomicBool,
    state: Mutex<HandleState>,
}

#[derive(Debug)]
struct HandleState {
    /// The most events that this handle has seen.
    seen: u64,
    write: Option<WriteState>,
    /// How the first call of `close` ended, for those that follow it.
    closed: Option<Option<Error>>,
}

#[derive(Debug)]
struct WriteState {
    /// Seq of the next event.
    next_seq: u64,
    /// The change that this handle made last, or found; `None` until the session is stored.
    left: Option<u64>,
    /// Half a line stands at the end, which the first append takes off.
    is_torn: bool,
    /// What was found at opening is durable.
    is_settled: bool,
    /// Appends were accepted since the last sync.
    has_unsynced: bool,
    /// A sync failed: what would survive a crash is not known.
    is_poisoned: bool,
    /// The rows that were judged at opening, and how many they were, until the first append.
    primed: Option<(Arc<Rows>, usize)>,
    lock: Option<Lock>,
    claim: Claim,
}

impl MemoryHandle {
    /// A new session, of which nothing is stored before its first append or flush.
    pub(super) fn pending(instance: &Arc<Instance>, header: Header, inherited: u64, claim: Claim) -> Self {
        let write = WriteState {
            next_seq: 0,
            left: None,
            is_torn: false,
            is_settled: true,
            has_unsynced: false,
            is_poisoned: false,
            primed: None,
            lock: None,
            claim,
        };
        Self::new(instance, header, inherited, SessionAccess::Write, Some(write))
    }

    /// Opens a session for reading.
    pub(super) fn for_reading(instance: &Arc<Instance>, header: Header, inherited: u64) -> Self {
        Self::new(instance, header, inherited, SessionAccess::Read, None)
    }

    /// Opens a stored session for writing: takes the lock, then reads and checks the whole log.
    ///
    /// # Errors
    /// [`Error::AlreadyOwned`], and why the log cannot be written to.
    pub(super) fn for_writing(
        instance: &Arc<Instance>,
        id: &Text,
        claim: Claim,
        cancel: &Cancel,
    ) -> Result<Self> {
        let lock = take_lock(instance, id)?;
        match Self::open_locked(instance, id, &lock, cancel) {
            Ok((view, judged)) => {
                let write = WriteState {
                    next_seq: judged.events,
                    left: Some(view.log.change),
                    is_torn: !view.log.fragment.is_empty(),
                    is_settled: false,
                    has_unsynced: false,
                    is_poisoned: false,
                    primed: Some((view.log.rows, view.log.lines)),
                    lock: Some(lock),
                    claim,
                };
                let (header, inherited) = (judged.header.clone(), judged.inherited);
                let handle = Self::new(instance, header, inherited, SessionAccess::Write, Some(write));
                handle.state.lock().seen = judged.events;
                Ok(handle)
            }
            Err(error) => match release(instance, id, lock) {
                Ok(()) => Err(error),
                Err(second) => Err(Error::Aggregate(vec![error, second])),
            },
        }
    }

    fn open_locked(
        instance: &Instance,
        id: &Text,
        lock: &Lock,
        cancel: &Cancel,
    ) -> Result<(View, Arc<judge::Judged>)> {
        let Instance { storage, options: MemoryOptions { limits, .. }, .. } = instance;
        let not_found = || Error::NotFound { id: printable(id) };
        cancel.check()?;
        let mut view = storage.view_to_read(id)?.ok_or_else(not_found)?;
        cancel.check()?;
        let header = judge::stored_header(&view, limits)?;
        check_identity(&view, &header)?;
        if header.generation() != Generation::CURRENT {
            let successor = convert::successor(&view, limits)?;
            cancel.check()?;
            storage.step(Step::Publish, Some(id))?;
            lock.publish_successor(view.log.change, successor).map_err(|unchanged| match unchanged {
                Unchanged::Lost => storage.is_gone(),
                Unchanged::Foreign | Unchanged::Exists => foreign(&view),
            })?;
            view = storage.view(id).ok_or_else(not_found)?;
        }
        let judged = storage.judged(&view, limits)?;
        judged.require_appendable(&view.path())?;
        // From here on it is this instance that a crash of which takes away what no sync has covered.
        let adopted = lock.settle(view.log.change, |log| {
            log.accepted_by = (log.durable < log.lines).then_some(instance.number);
        });
        adopted.map_err(|_| foreign(&view))?;
        Ok((view, judged))
    }

    fn new(
        instance: &Arc<Instance>,
        header: Header,
        inherited: u64,
        access: SessionAccess,
        write: Option<WriteState>,
    ) -> Self {
        let (instance, shown_id) = (Arc::clone(instance), printable(header.id()));
        let state = Mutex::new(HandleState { seen: 0, write, closed: None });
        Self { instance, header, shown_id, inherited, access, closing: AtomicBool::new(false), state }
    }

    /// The header, in the current generation.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Events that were inherited from the session that this one was forked from.
    #[must_use]
    pub const fn inherited_event_count(&self) -> u64 {
        self.inherited
    }

    /// What the handle may do.
    #[must_use]
    pub const fn access(&self) -> SessionAccess {
        self.access
    }

    /// The seq that the next event gets, on a handle that writes.
    #[must_use]
    pub fn next_seq(&self) -> Option<u64> {
        self.state.lock().write.as_ref().map(|write| write.next_seq)
    }

    /// Returns at most `length` events from seq `offset` on; fewer, or none, where the log ends.
    ///
    /// # Errors
    /// [`Error::HandleClosed`]; [`Error::NotFound`] if the session was never stored and its creator closed it, or is gone;
    /// what is wrong with the log; [`Error::Shrank`] if it is shorter than this handle has seen.
    pub fn read(&self, offset: u64, length: u64) -> Result<Events> {
        self.read_unless(offset, length, &Cancel::never())
    }

    fn read_unless(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.check_open("read")?;
        cancel.check()?;
        let mut state = self.state.lock();
        self.check_running(&state, "read")?;
        cancel.check()?;
        let to = offset.saturating_add(length);
        if let Some(write) = &state.write {
            if let Some((rows, lines)) = &write.primed {
                let as_line = |seq: u64| usize::try_from(seq).map_or(*lines, |seq| seq.min(*lines));
                return Ok(rows.events(as_line(offset), as_line(to)));
            }
            if write.left.is_none() {
                return Ok(Events::default());
            }
        }
        let Some(view) = self.instance.storage.view_to_read(self.header.id())? else {
            if state.seen == 0 && self.instance.claims.pending(self.header.id()).is_some() {
                return Ok(Events::default());
            }
            return Err(Error::NotFound { id: self.shown_id.clone() });
        };
        cancel.check()?;
        let limits = &self.instance.options.limits;
        let (events, found) = self.instance.storage.read(&view, offset, to, limits)?;
        if found < state.seen {
            return Err(Error::Shrank { path: view.path(), seen: state.seen, found });
        }
        state.seen = found;
        Ok(events)
    }

    /// Stores rows behind the log, all or none. With [`Durability::Sync`] they survive a crash when this returns.
    ///
    /// Rows are as [`FileHandle::append`](crate::store::FileHandle::append) takes them, and refused with the same errors.
    ///
    /// # Errors
    /// [`Error::HandleClosed`], [`Error::ReadOnly`], [`Error::InvalidRow`], [`Error::SeqMismatch`], [`Error::UnknownType`]:
    /// nothing was stored, and the seqs stay free. [`Error::Foreign`]: the log was replaced under this handle.
    /// [`Error::Io`] where a hook makes a step fail: nothing was stored, and the same rows may be appended again, unless it was
    /// a sync; then every later call says [`Error::Poisoned`].
    pub fn append(&self, rows: &[&[u8]]) -> Result<()> {
        self.append_unless(rows, &Cancel::never())
    }

    fn append_unless(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.check_open("append")?;
        let mut state = self.state.lock();
        self.check_running(&state, "append")?;
        cancel.check()?;
        let HandleState { seen, write, .. } = &mut *state;
        let write = write.as_mut().ok_or_else(|| self.read_only("append"))?;
        if rows.is_empty() {
            return Ok(());
        }
        let MemoryOptions { ref limits, admission, .. } = self.instance.options;
        let batch = check_rows(rows, write.next_seq, admission, limits, &self.shown_id)?;
        let next_seq = batch.next_seq;
        match write.left {
            None => self.publish(write, batch, "append")?,
            Some(_) if write.is_poisoned => return Err(self.poisoned()),
            Some(left) => self.store(write, left, batch)?,
        }
        write.next_seq = next_seq;
        write.primed = None;
        *seen = next_seq;
        Ok(())
    }

    /// Makes the log durable up to where reading ends, and stores a session that has nothing but its header.
    ///
    /// # Errors
    /// [`Error::HandleClosed`], [`Error::ReadOnly`], [`Error::Io`] where a hook makes a step fail, and from then on
    /// [`Error::Poisoned`].
    pub fn flush(&self) -> Result<()> {
        self.flush_unless(&Cancel::never())
    }

    fn flush_unless(&self, cancel: &Cancel) -> Result<()> {
        self.check_open("flush")?;
        let mut state = self.state.lock();
        self.check_running(&state, "flush")?;
        cancel.check()?;
        let write = state.write.as_mut().ok_or_else(|| self.read_only("flush"))?;
        match write.left {
            None => self.publish(write, Checked::starting_at(0), "flush"),
            Some(_) if write.is_poisoned => Err(self.poisoned()),
            Some(left) if !write.is_settled || write.has_unsynced => self.sync(write, left, "flush"),
            Some(_) => Ok(()),
        }
    }

    /// Frees the session. The first call does it; later ones, from any thread, say how that ended.
    ///
    /// # Errors
    /// What the final sync or the release of the lock gives. The session is free all the same.
    pub fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::Release);
        let mut state = self.state.lock();
        if let Some(outcome) = &state.closed {
            return outcome.as_ref().map_or(Ok(()), |error| Err(error.again()));
        }
        let outcome = self.free(&mut state);
        state.closed = Some(outcome.as_ref().err().map(Error::again));
        outcome
    }

    fn free(&self, state: &mut HandleState) -> Result<()> {
        let Some(mut write) = state.write.take() else { return Ok(()) };
        if self.instance.is_crashed() {
            return Ok(());
        }
        let mut errors = Vec::new();
        match write.left {
            // Nobody can say any more that these survive a crash.
            Some(_) if write.is_poisoned && write.has_unsynced => errors.push(self.poisoned()),
            Some(left) if !write.is_poisoned && write.has_unsynced => {
                errors.extend(self.sync(&mut write, left, "close").err());
            }
            _ => {}
        }
        if let Some(lock) = write.lock.take() {
            errors.extend(release(&self.instance, self.header.id(), lock).err());
        }
        drop(write);
        Error::aggregate(errors).map_or(Ok(()), Err)
    }

    /// Makes the session appear with its header and first batch, whole and durable, or not at all.
    fn publish(&self, write: &mut WriteState, batch: Checked, operation: &'static str) -> Result<()> {
        let (storage, id) = (&self.instance.storage, self.header.id());
        if write.lock.is_none() {
            write.lock = Some(take_lock(&self.instance, id)?);
        }
        let exists = || Error::AlreadyExists { id: self.shown_id.clone() };
        // Another instance may have stored the same id meanwhile, and given it back.
        if storage.is_stored(id) {
            return Err(exists());
        }
        storage.step(Step::Publish, Some(id))?;
        let mut header = Vec::new();
        self.header.write(&mut header);
        let lock = write.lock.as_ref().expect("it was taken just now");
        let published = lock.publish(Log::published(header, batch)).map_err(|unchanged| match unchanged {
            Unchanged::Exists | Unchanged::Foreign => exists(),
            Unchanged::Lost => self.closed(operation),
        })?;
        write.left = Some(published);
        write.claim.show(None);
        Ok(())
    }

    /// Adds a batch to a session that is stored.
    fn store(&self, write: &mut WriteState, mut left: u64, batch: Checked) -> Result<()> {
        let (storage, id) = (&self.instance.storage, self.header.id());
        self.on_log(write, "append", |lock| lock.check(left))?;
        if write.is_torn {
            storage.step(Step::Repair, Some(id))?;
            left =
                self.on_log(write, "append", |lock| lock.change(left, |log| log.fragment = Arc::default()))?;
            (write.left, write.is_torn) = (Some(left), false);
        }
        if !write.is_settled {
            // Nothing is put behind what a crash could still take away.
            self.sync(write, left, "append")?;
        }
        storage.step(Step::Write, Some(id))?;
        let is_durable = self.instance.options.durability == Durability::Sync;
        if is_durable {
            storage.step(Step::Sync, Some(id)).inspect_err(|_| write.is_poisoned = true)?;
        }
        let instance = self.instance.number;
        let change = |log: &mut Log| {
            log.append(batch);
            if is_durable {
                log.durable = log.lines;
                log.accepted_by = None;
            } else {
                log.accepted_by = Some(instance);
            }
        };
        write.left = Some(self.on_log(write, "append", |lock| lock.change(left, change))?);
        write.has_unsynced = !is_durable;
        Ok(())
    }

    /// Makes all rows durable.
    fn sync(&self, write: &mut WriteState, left: u64, operation: &'static str) -> Result<()> {
        let synced = self.instance.storage.step(Step::Sync, Some(self.header.id()));
        let synced = synced.and_then(|()| {
            self.on_log(write, operation, |lock| {
                lock.settle(left, |log| {
                    log.durable = log.lines;
                    log.accepted_by = None;
                })
            })
        });
        match &synced {
            Ok(()) => (write.is_settled, write.has_unsynced) = (true, false),
            Err(_) => write.is_poisoned = true,
        }
        synced
    }

    /// Works on the log under this handle's lock.
    fn on_log<T>(
        &self,
        write: &WriteState,
        operation: &'static str,
        work: impl FnOnce(&Lock) -> Result<T, Unchanged>,
    ) -> Result<T> {
        let done = write.lock.as_ref().map_or(Err(Unchanged::Lost), work);
        done.map_err(|unchanged| match unchanged {
            Unchanged::Lost => self.closed(operation),
            Unchanged::Foreign | Unchanged::Exists => Error::Foreign {
                path: session_path(self.instance.storage.number(), self.header.id()),
                what: "it is not the log that this handle left".to_owned(),
            },
        })
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        let is_closed = self.closing.load(Ordering::Acquire) || self.instance.is_crashed();
        if is_closed { Err(self.closed(operation)) } else { Ok(()) }
    }

    /// A queued operation that starts only after close began is refused.
    fn check_running(&self, state: &HandleState, operation: &'static str) -> Result<()> {
        if state.closed.is_some() { Err(self.closed(operation)) } else { self.check_open(operation) }
    }

    fn closed(&self, operation: &'static str) -> Error {
        Error::HandleClosed { id: self.shown_id.clone(), operation }
    }

    fn poisoned(&self) -> Error {
        Error::Poisoned { id: self.shown_id.clone() }
    }

    fn read_only(&self, operation: &'static str) -> Error {
        Error::ReadOnly { id: self.shown_id.clone(), operation }
    }
}

impl SessionHandle for MemoryHandle {
    fn header(&self) -> &Header {
        Self::header(self)
    }

    fn inherited_event_count(&self) -> u64 {
        Self::inherited_event_count(self)
    }

    fn access(&self) -> SessionAccess {
        Self::access(self)
    }

    fn next_seq(&self) -> Option<u64> {
        Self::next_seq(self)
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.read_unless(offset, length, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.append_unless(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.flush_unless(cancel)
    }

    fn close(&self) -> Result<()> {
        Self::close(self)
    }
}

/// Takes a session for writing against all instances, at once or not at all.
fn take_lock(instance: &Instance, id: &Text) -> Result<Lock> {
    instance.storage.step(Step::Lock, Some(id))?;
    let owned = || Error::AlreadyOwned { id: printable(id), owner: None };
    instance.storage.lock(id, instance.number).ok_or_else(owned)
}

/// Gives a session back. It is free even if that fails.
fn release(instance: &Instance, id: &Text, lock: Lock) -> Result<()> {
    let released = instance.storage.step(Step::Unlock, Some(id));
    drop(lock);
    released
}

fn foreign(view: &View) -> Error {
    Error::Foreign {
        path: view.path(),
        what: "it changed while it was being opened; nothing was published".to_owned(),
    }
}
