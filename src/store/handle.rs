//! One open session: `read`, `append`, `flush`, `close`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::FairMutex;

use super::admit::check_rows;
use super::append::Appender;
use super::cancel::Cancel;
use super::events::{Checked, Events};
use super::history::{Page, PageRequest, Paged, page_of_handle, page_of_log};
use super::layout::{LOCK_NAME, log_name, printable};
use super::lease::Claim;
use super::log_file::LogFile;
use super::log_writer::LogWriter;
use super::open::{Opened, Validate, open_locked};
use super::publish::{FOLDERS_SYNCED, create_dirs};
use super::range::Count;
use super::seam::SessionHandle;
use super::store::{Shared, StoreOptions};
use super::view::LogView;
use crate::container::disk::{Disk, DiskLock, LockAttempt};
use crate::container::{Encoding, LogId};
use crate::error::{Error, Result};
use crate::row::Header;

/// What a handle may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionAccess {
    /// Read; any number of handles in any number of processes, beside a writer.
    Read,
    /// Read and append; one handle at a time, in all processes.
    Write,
}

/// An open session.
///
/// May be shared between threads; operations of one handle run one after the other, in the order in which they were
/// called. Dropping the handle frees the session without reporting errors: call [`FileHandle::close`].
#[derive(Debug)]
pub struct FileHandle {
    shared: Arc<Shared>,
    header: Header,
    shown_id: String,
    inherited: u64,
    access: SessionAccess,
    closing: AtomicBool,
    /// Fair: whoever waits goes on before a thread that calls only then.
    state: FairMutex<HandleState>,
}

#[derive(Debug)]
struct HandleState {
    /// Folder of the session.
    folder: PathBuf,
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
    /// Absent until something is on disk.
    appender: Option<Appender>,
    /// The log was published, or may have been, and nobody could look at it.
    is_lost: bool,
    /// Events that were read when the handle was opened, until the first append.
    primed: Option<Events>,
    lock: Option<Box<dyn DiskLock>>,
    claim: Claim,
}

/// How often a look at a log starts over because the file became shorter meanwhile: a writer repairs it, or takes an append back.
pub(super) const READ_RETRIES: u32 = 3;

impl FileHandle {
    /// A new session, of which nothing is on disk before its first append or flush.
    pub(super) fn pending(
        shared: Arc<Shared>,
        header: Header,
        inherited: u64,
        folder: PathBuf,
        claim: Claim,
    ) -> Self {
        let write =
            WriteState { next_seq: 0, appender: None, is_lost: false, primed: None, lock: None, claim };
        Self::new(shared, header, inherited, SessionAccess::Write, folder, Some(write))
    }

    /// Opens a stored session for reading. Nothing but its head and tail is read before the first [`FileHandle::read`].
    pub(super) fn for_reading(shared: Arc<Shared>, header: Header, inherited: u64, folder: PathBuf) -> Self {
        Self::new(shared, header, inherited, SessionAccess::Read, folder, None)
    }

    /// Opens a stored session for writing: takes the lock, then judges the log.
    ///
    /// # Errors
    /// [`Error::AlreadyOwned`], [`Error::Corruption`], [`Error::DamagedTail`], [`Error::Refused`] and the others that say why a
    /// log cannot be written to.
    pub(super) fn for_writing(
        shared: Arc<Shared>,
        folder: &Path,
        claim: Claim,
        validate: Validate,
    ) -> Result<Self> {
        let lock = take_lock_in(&**shared.disk(), folder, claim.shown_id())?;
        match open_locked(&shared, folder, claim.id(), validate) {
            Ok(Opened { header, inherited, events, appender, primed }) => {
                let appender = Some(appender);
                let write = WriteState {
                    next_seq: events,
                    appender,
                    is_lost: false,
                    primed,
                    lock: Some(lock),
                    claim,
                };
                let folder = folder.to_path_buf();
                let handle = Self::new(shared, header, inherited, SessionAccess::Write, folder, Some(write));
                handle.state.lock().seen = events;
                Ok(handle)
            }
            Err(error) => match lock.release() {
                Ok(()) => Err(error),
                Err(second) => {
                    let second = Error::io(folder.join(LOCK_NAME), "releasing")(second);
                    Err(Error::Aggregate(vec![error, second]))
                }
            },
        }
    }

    fn new(
        shared: Arc<Shared>,
        header: Header,
        inherited: u64,
        access: SessionAccess,
        folder: PathBuf,
        write: Option<WriteState>,
    ) -> Self {
        let shown_id = printable(header.id());
        let state = FairMutex::new(HandleState { folder, seen: 0, write, closed: None });
        Self { shared, header, shown_id, inherited, access, closing: AtomicBool::new(false), state }
    }

    /// The header, as stored.
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
    /// The events are a slice of the log as it stands: complete records whose append was never acknowledged are there, a
    /// torn end is not. Time and memory grow with the events returned and the segment they start in.
    ///
    /// # Errors
    /// [`Error::HandleClosed`]; [`Error::NotFound`] if the session was never stored and its creator closed it;
    /// [`Error::Corruption`] for damage before the end; [`Error::Shrank`] if the log is shorter than this handle has seen.
    pub fn read(&self, offset: u64, length: u64) -> Result<Events> {
        self.read_unless(offset, length, &Cancel::never())
    }

    fn read_unless(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        let to = offset.saturating_add(length);
        self.read_where(&|_| (offset, to), cancel)
    }

    /// Returns the last `count` events, or all if there are fewer.
    ///
    /// Cost as of [`FileHandle::read`] from there on; how many events the log has is told by its end, in the same look.
    ///
    /// # Errors
    /// As [`FileHandle::read`].
    pub fn read_last(&self, count: u64) -> Result<Events> {
        let last =
            |total: Option<u64>| total.map_or((0, u64::MAX), |total| (total.saturating_sub(count), total));
        let events = self.read_where(&last, &Cancel::never())?;
        let more = events.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(if more > 0 { events.slice(more, events.len()) } else { events })
    }

    /// All events of the log as it stands, where they lie.
    ///
    /// A plain log is mapped, if nobody is writing to it now and nothing in it needs a closer look; that costs a look at each
    /// row, about as long as its bytes take to come from memory. Any other log is read as [`FileHandle::read`] does. Payloads
    /// are not checked either way: see [`LogView`]. The first map of a process installs a handler for SIGBUS, unless the disk is
    /// [`OsDisk::without_maps`](crate::container::disk::OsDisk::without_maps).
    ///
    /// # Errors
    /// As [`FileHandle::read`].
    pub fn view(&self) -> Result<LogView> {
        self.check_open("view")?;
        {
            let mut state = self.state.lock();
            self.check_running(&state, "view")?;
            if state.write.is_none()
                && let Ok(log) = self.shared.open_log(&state.folder)
                && log.encoding() == Encoding::Plain
                // A writer leaves its name before it appends, and takes it away when all is done: what stands there now stays.
                && let Ok(None) = self.shared.disk().lock_owner(&state.folder.join(LOCK_NAME))
                && let Some(view) = LogView::of_plain(&log)?
                && view.len() as u64 >= state.seen
            {
                state.seen = view.len() as u64;
                return Ok(view);
            }
        }
        self.read(0, u64::MAX).map(LogView::of_events)
    }

    fn read_where(&self, range_of: &dyn Fn(Option<u64>) -> (u64, u64), cancel: &Cancel) -> Result<Events> {
        self.check_open("read")?;
        cancel.check()?;
        let mut state = self.state.lock();
        self.check_running(&state, "read")?;
        cancel.check()?;
        if let Some(write) = &state.write {
            if let Some(primed) = &write.primed {
                let as_index = |seq: u64| usize::try_from(seq).unwrap_or(usize::MAX);
                let (from, to) = range_of(Some(primed.len() as u64));
                return Ok(primed.slice(as_index(from), as_index(to)));
            }
            if write.appender.is_none() {
                return Ok(Events::default());
            }
        }
        let read = |log: &LogFile| {
            self.shared.read_range(log, range_of).map(|(events, found)| (events, Some(found)))
        };
        Ok(self.look(&mut state, read)?.unwrap_or_default())
    }

    /// Returns one page of the log: see [`history`](super::history).
    ///
    /// The pages of a log tile it, whatever is appended meanwhile: each event is in one of them.
    ///
    /// # Errors
    /// As [`FileHandle::read`], for what stands where the page begins; [`Error::StaleCursor`].
    pub fn page(&self, request: &PageRequest) -> Result<Page> {
        self.page_unless(request, &Cancel::never())
    }

    fn page_unless(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.check_open("page")?;
        cancel.check()?;
        let mut state = self.state.lock();
        self.check_running(&state, "page")?;
        let is_stored = state.write.as_ref().is_none_or(|write| write.appender.is_some());
        let page = |log: &LogFile| {
            page_of_log(log, request, cancel).map(|Paged { page, events }| (page, events.map(Count::Proven)))
        };
        let page = if is_stored { self.look(&mut state, page)? } else { None };
        drop(state);
        // Nothing is stored, and that can be read in any way.
        page.map_or_else(|| page_of_handle(self, request, cancel), Ok)
    }

    /// Looks at the log and gives what was found there; `None` for a session that is created and not stored. `look` also says
    /// how many events the log has, if it knows.
    ///
    /// # Errors
    /// Those of `look`, and [`Error::NotFound`], [`Error::Shrank`].
    fn look<T>(
        &self,
        state: &mut HandleState,
        look: impl Fn(&LogFile) -> Result<(T, Option<Count>)>,
    ) -> Result<Option<T>> {
        let mut attempt = 0;
        let (path, seen, found) = loop {
            let log = match self.shared.open_log(&state.folder) {
                Ok(log) => log,
                Err(Error::NotFound { .. })
                    if state.seen == 0 && self.shared.is_pending(self.header.id()) =>
                {
                    return Ok(None);
                }
                Err(Error::NotFound { .. }) => return Err(Error::NotFound { id: self.shown_id.clone() }),
                Err(error) => return Err(error),
            };
            match look(&log) {
                Ok((seen, found)) => break (log.path().to_path_buf(), seen, found),
                // A writer cut a torn end off, or took an append back that failed.
                Err(error) if error.is_shrunk() && attempt < READ_RETRIES => {
                    attempt = attempt.saturating_add(1)
                }
                Err(error) => return Err(error),
            }
        };
        match found {
            Some(Count::Proven(found) | Count::Claimed(found)) if found < state.seen => {
                return Err(Error::Shrank { path, seen: state.seen, found });
            }
            Some(Count::Proven(found)) => state.seen = found,
            Some(Count::Claimed(_)) | None => {}
        }
        Ok(Some(seen))
    }

    /// Stores rows behind the log, all or none, and with [`Durability::Sync`](super::Durability::Sync) returns when they are on disk.
    ///
    /// Each row is one event of the current generation as JSON text without a newline; the first continues the log's seqs
    /// and the others follow. Rows are stored byte for byte. Their types are known to the generation or the events marked as
    /// ignorable, unless [`StoreOptions::admission`](super::StoreOptions::admission) lets anything in.
    ///
    /// # Errors
    /// [`Error::HandleClosed`], [`Error::ReadOnly`], [`Error::InvalidRow`], [`Error::SeqMismatch`], [`Error::UnknownType`]:
    /// nothing was stored, and the seqs stay free.
    /// [`Error::Foreign`]: another program changed the log; nothing was stored. [`Error::Io`]: nothing is stored, or the
    /// handle is poisoned and every later call says [`Error::Poisoned`].
    pub fn append(&self, rows: &[&[u8]]) -> Result<()> {
        self.append_unless(rows, &Cancel::never())
    }

    fn append_unless(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.check_open("append")?;
        let mut state = self.state.lock();
        self.check_running(&state, "append")?;
        cancel.check()?;
        let HandleState { folder, seen, write, .. } = &mut *state;
        let write = write.as_mut().ok_or_else(|| self.read_only("append"))?;
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(appender) = &write.appender {
            appender.announce(rows.iter().map(|row| row.len()).fold(0, usize::saturating_add));
        }
        let StoreOptions { ref limits, admission, .. } = *self.shared.options();
        let batch = check_rows(rows, write.next_seq, admission, limits, &self.shown_id)?;
        self.store(folder, write, &batch)?;
        write.next_seq = batch.next_seq;
        *seen = batch.next_seq;
        write.primed = None;
        Ok(())
    }

    /// Makes the log durable up to where reading ends, and stores a session that has nothing but its header.
    ///
    /// That includes events that an earlier handle, in whatever process, accepted and did not live to sync.
    ///
    /// # Errors
    /// [`Error::HandleClosed`], [`Error::ReadOnly`], [`Error::Io`].
    pub fn flush(&self) -> Result<()> {
        self.flush_unless(&Cancel::never())
    }

    fn flush_unless(&self, cancel: &Cancel) -> Result<()> {
        self.check_open("flush")?;
        let mut state = self.state.lock();
        self.check_running(&state, "flush")?;
        cancel.check()?;
        let HandleState { folder, write, .. } = &mut *state;
        let write = write.as_mut().ok_or_else(|| self.read_only("flush"))?;
        match &mut write.appender {
            Some(appender) if appender.is_poisoned() => Err(self.poisoned()),
            Some(appender) => appender.flush(),
            None if write.is_lost => Err(self.poisoned()),
            None => self.publish(folder, write, &Checked::starting_at(0)),
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
        let mut errors = Vec::new();
        match &mut write.appender {
            // Nobody can say any more that these are on disk.
            Some(appender) if appender.is_poisoned() && appender.has_unsynced() => {
                errors.push(self.poisoned())
            }
            Some(appender) if !appender.is_poisoned() => errors.extend(appender.sync().err()),
            _ => {}
        }
        if let Some(appender) =
            write.appender.as_ref().filter(|appender| appender.is_poisoned() || appender.is_settled())
        {
            self.shared.remember_doubt(appender.path(), appender.doubtful_from());
        }
        if let Some(lock) = write.lock.take() {
            let path = state.folder.join(LOCK_NAME);
            errors.extend(lock.release().err().map(Error::io(path, "releasing")));
        }
        drop(write);
        Error::aggregate(errors).map_or(Ok(()), Err)
    }

    fn store(&self, folder: &Path, write: &mut WriteState, batch: &Checked) -> Result<()> {
        match &mut write.appender {
            Some(appender) if appender.is_poisoned() => Err(self.poisoned()),
            Some(appender) => appender.append(&batch.batch(), self.shared.options().durability),
            None if write.is_lost => Err(self.poisoned()),
            None => self.publish(folder, write, batch),
        }
    }

    /// Makes the log appear with its header and first batch, whole and durable, or not at all.
    fn publish(&self, folder: &Path, write: &mut WriteState, batch: &Checked) -> Result<()> {
        let disk = self.shared.disk();
        let options = self.shared.options();
        create_dirs(&**disk, folder)?;
        if write.lock.is_none() {
            write.lock = Some(take_lock_in(&**disk, folder, &self.shown_id)?);
        }
        // In any project: another instance may have stored the same id under another working directory.
        if self.shared.is_stored(self.header.id())? {
            return Err(Error::AlreadyExists { id: self.shown_id.clone() });
        }
        let mut header = Vec::new();
        self.header.write(&mut header);
        let path = folder.join(log_name(self.header.generation(), options.encoding));
        let created_at = self.header.created_at();
        let above: Vec<&Path> = path.ancestors().skip(2).take(FOLDERS_SYNCED.saturating_sub(1)).collect();
        let written = LogWriter::create(&**disk, &path, options.encoding, options.level, &header, created_at)
            .and_then(|mut log| {
                log.write_checked(batch)?;
                log.publish_open(&above)
            });
        let (file, writer) = match written {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::AlreadyExists { id: self.shown_id.clone() });
            }
            // The name may stand, and could not be taken back.
            Err(error @ Error::Aggregate(_)) => {
                write.is_lost = true;
                return Err(error);
            }
            written => written?,
        };
        write.claim.materialised();
        let appender = Appender::new(Arc::clone(disk), &path, file, writer, None);
        write.is_lost = appender.is_err();
        write.appender = Some(appender?);
        Ok(())
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.closing.load(Ordering::Acquire) { Err(self.closed(operation)) } else { Ok(()) }
    }

    /// A queued operation that starts only after close began is refused.
    fn check_running(&self, state: &HandleState, operation: &'static str) -> Result<()> {
        if state.closed.is_some() || self.closing.load(Ordering::Acquire) {
            Err(self.closed(operation))
        } else {
            Ok(())
        }
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

impl SessionHandle for FileHandle {
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

    fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.page_unless(request, cancel)
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

/// Takes the write lock of a session's folder, at once or not at all.
///
/// # Errors
/// [`Error::AlreadyOwned`], [`Error::Io`].
pub(super) fn take_lock_in(disk: &dyn Disk, folder: &Path, shown_id: &str) -> Result<Box<dyn DiskLock>> {
    let path = folder.join(LOCK_NAME);
    match disk.lock(&path).map_err(Error::io(&path, "locking"))? {
        LockAttempt::Held(lock) => Ok(lock),
        LockAttempt::Contended => {
            let owner = disk.lock_owner(&path).ok().flatten();
            Err(Error::AlreadyOwned { id: shown_id.to_owned(), owner })
        }
    }
}

pub(super) fn random_log_id() -> Result<LogId> {
    loop {
        let id = getrandom::u64()
            .map_err(|error| Error::io("", "drawing a random number")(std::io::Error::other(error)))?;
        if let Some(id) = LogId::new(id) {
            return Ok(id);
        }
    }
}
