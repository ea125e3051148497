//! The store of one root folder: `create`, `open`, `stat`, `list`, `flush`.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::admit::check_new;
use super::append::Durability;
use super::cancel::Cancel;
use super::catalog::Catalog;
use super::events::Events;
use super::folder::Folder;
use super::handle::{FileHandle, SessionAccess};
use super::layout::{printable, session_dir_name, session_path};
use super::lease::{Claim, Claims, Pending};
use super::list::{Caches, Places, list, projects};
use super::log_file::{LogFile, ReadMode};
use super::open::{OpenOptions, Validate};
use super::range::{Count, read_range};
use super::restore::{restore, restore_range};
use super::scan::{ScanOptions, scan};
use super::seam::{SessionHandle, SessionPersistence};
use super::snapshot::{Snapshot, State, header_error};
use crate::container::disk::{Disk, OsDisk};
use crate::container::{Encoding, LEVEL_DEFAULT};
use crate::error::{Error, Result};
use crate::format::catalog::{Classified, classify};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Header, Seeding};
use crate::session::Admission;
use crate::units::Generation;

/// Settings of a store. They never change what a byte on disk means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Encoding of new sessions; stored ones keep theirs.
    pub encoding: Encoding,
    /// Zstandard level of what is written, or [`LEVEL_STORE`](crate::container::LEVEL_STORE) for hosts that want the disk's
    /// speed now: `compact` makes such logs small later.
    pub level: i32,
    /// Whether an append waits for the disk.
    pub durability: Durability,
    /// Whether an append refuses event types that would keep every later reader from opening the log.
    pub admission: Admission,
    /// How much of a log is checked when it is opened for writing.
    pub validate: Validate,
    /// Bounds on what is read.
    pub limits: Limits,
    /// How logs are read.
    pub read_mode: ReadMode,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Indexed,
            level: LEVEL_DEFAULT,
            durability: Durability::Sync,
            admission: Admission::Readable,
            validate: Validate::Full,
            limits: Limits::DEFAULT,
            read_mode: ReadMode::default(),
        }
    }
}

/// Sessions in a root folder: `<root>/<project>/<session>/session[.vN].jsonl[.zst|.zstd]`.
///
/// Cheap to clone; clones are one instance. Nothing is created before a session is stored.
#[derive(Clone, Debug)]
pub struct FileStore {
    shared: Arc<Shared>,
    catalog: Option<Arc<Catalog>>,
}

/// What a store and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    options: StoreOptions,
    claims: Arc<Claims>,
    handles: Mutex<Vec<Weak<FileHandle>>>,
    /// Logs of which a sync failed here, and where the bytes begin that it was to cover.
    doubts: Mutex<HashMap<PathBuf, u64>>,
}

impl FileStore {
    /// The store of `root` on the real file system, with the default options. Touches nothing.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_options(root, StoreOptions::default())
    }

    /// The store of `root` on the real file system.
    #[must_use]
    pub fn with_options(root: impl Into<PathBuf>, options: StoreOptions) -> Self {
        Self::on_disk(Arc::new(OsDisk::new()), root, options)
    }

    /// The store of `root` on a file system of the caller's.
    #[must_use]
    pub fn on_disk(disk: Arc<dyn Disk>, root: impl Into<PathBuf>, options: StoreOptions) -> Self {
        let (claims, handles, doubts) = (Arc::default(), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { disk, root: root.into(), options, claims, handles, doubts });
        Self { shared, catalog: None }
    }

    /// The same store, whose listings keep what they find in `catalog` and read only what has changed since.
    ///
    /// A listing is the same with it and without it, and fails for the same reasons: a catalog that cannot be read or written
    /// is done without.
    #[must_use]
    pub fn with_catalog(self, catalog: Catalog) -> Self {
        Self { catalog: Some(Arc::new(catalog)), ..self }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) const fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.as_ref()
    }

    /// The root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.shared.options
    }

    /// Creates a session and opens it for writing. Nothing is on disk before its first append or flush.
    ///
    /// `inherited` is the number of events that will be copied from another session: required for a seeded header, absent
    /// or 0 for any other.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a header that this store cannot hold; [`Error::AlreadyExists`] for an id that is
    /// stored anywhere in the root, pending, or being created.
    pub fn create(&self, header: Header, inherited: Option<u64>) -> Result<Arc<FileHandle>> {
        let inherited = check_new(&header, inherited)?;
        let folder = session_path(&self.shared.root, header.cwd(), header.id())
            .expect("folders can be named after a header that was checked");
        let exists = || Error::AlreadyExists { id: printable(header.id()) };
        // Looked for under the claim: another creator may have stored the session and closed it a moment before.
        let claim = self.shared.claims.take(header.id(), None).ok_or_else(exists)?;
        if self.shared.is_stored(header.id())? {
            return Err(exists());
        }
        claim.created(Pending { header: header.clone(), inherited });
        let handle = FileHandle::pending(Arc::clone(&self.shared), header, inherited, folder, claim);
        Ok(self.shared.register(handle))
    }

    /// Opens a session.
    ///
    /// For reading, this looks at both ends of the log and works beside any writer. For writing, it takes the session for
    /// this handle alone, in all processes, and checks the log as [`StoreOptions::validate`] says: by default, all of it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyOwned`], [`Error::DuplicateId`], and what is wrong with the log.
    pub fn open(&self, id: &Text, access: SessionAccess) -> Result<Arc<FileHandle>> {
        self.open_with(id, OpenOptions::from(access))
    }

    /// As [`FileStore::open`], with options of its own.
    ///
    /// ```no_run
    /// # use seslog::{json::Text, store::{FileStore, OpenOptions, Validate}};
    /// // A log of any length, as this host left it: in milliseconds.
    /// let handle = FileStore::new("sessions")
    ///     .open_with(&Text::from("s-1"), OpenOptions::WRITE.with_validate(Validate::Tail))?;
    /// # Ok::<(), seslog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open_with(&self, id: &Text, options: OpenOptions) -> Result<Arc<FileHandle>> {
        match options.access {
            SessionAccess::Read => self.open_for_reading(id).map(|handle| self.shared.register(handle)),
            SessionAccess::Write => {
                let owned = || Error::AlreadyOwned { id: printable(id), owner: None };
                let claim = self.shared.claims.take(id, None).ok_or_else(owned)?;
                let folder = self.shared.folder_of(id)?;
                let validate = options.validate.unwrap_or(self.shared.options.validate);
                let handle =
                    FileHandle::for_writing(Arc::clone(&self.shared), &folder.path, claim, validate)?;
                Ok(self.shared.register(handle))
            }
        }
    }

    /// Opens the session in `folder` for writing, wherever the folder stands and whatever it is called.
    ///
    /// For logs that a person names by their path; [`FileStore::open`] finds sessions by their id, in their own folders.
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open_folder(&self, folder: &Path) -> Result<Arc<FileHandle>> {
        let header = {
            let log = self.shared.open_log(folder)?;
            let line = log.header_line()?;
            Header::parse(&line, log.limits()).map_err(|fault| header_error(log.path(), fault))?
        };
        let owned = || Error::AlreadyOwned { id: printable(header.id()), owner: None };
        let claim = self.shared.claims.take(header.id(), None).ok_or_else(owned)?;
        let validate = self.shared.options.validate;
        let handle = FileHandle::for_writing(Arc::clone(&self.shared), folder, claim, validate)?;
        Ok(self.shared.register(handle))
    }

    fn open_for_reading(&self, id: &Text) -> Result<FileHandle> {
        let shared = Arc::clone(&self.shared);
        if let Some(Pending { header, inherited }) = self.shared.claims.pending(id) {
            let folder = session_path(&self.shared.root, header.cwd(), id).unwrap_or_default();
            return Ok(FileHandle::for_reading(shared, header, inherited, folder));
        }
        let folder = self.shared.folder_of(id)?;
        let snapshot = Snapshot::of_folder_to_read(&self.shared.disk, &folder, self.shared.options.limits)?;
        let header = match snapshot {
            Snapshot { state: State::Ok | State::Torn, header: Some(header), .. } => header,
            // A damaged end can be read up to.
            Snapshot { error: Some(error), header: Some(header), .. }
                if matches!(*error, Error::DamagedTail { .. }) =>
            {
                header
            }
            Snapshot { error: Some(error), .. } => return Err(*error),
            Snapshot { .. } => return Err(Error::NotFound { id: printable(id) }),
        };
        let (header, inherited) = match (header.seeding(), header.generation()) {
            (Seeding::Unseeded, Generation::CURRENT) => (header, 0),
            // Only the events tell where the cut is.
            (_, Generation::CURRENT) => {
                let log = self.shared.open_log(&folder.path)?;
                let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
                report.require(&log)?;
                (header, report.inherited)
            }
            _ => {
                let log = self.shared.open_log(&folder.path)?;
                let restored = restore(&log, &mut |_| ControlFlow::Continue(()))?;
                (current_header(&log)?, restored.inherited)
            }
        };
        Ok(FileHandle::for_reading(shared, header, inherited, folder.path))
    }

    /// What the two ends of a session's log say; `None` for an id that is not stored here.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DuplicateId`]. What is wrong with the log is in the answer.
    pub fn stat(&self, id: &Text) -> Result<Option<Snapshot>> {
        match self.shared.folder_of(id) {
            Ok(folder) => match Snapshot::of_folder(&self.shared.disk, &folder, self.shared.options.limits) {
                // It vanished between the look into the folder and the look at the log.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
                snapshot => snapshot.map(Some),
            },
            Err(Error::NotFound { .. }) => {
                Ok(self.shared.claims.pending(id).map(|pending| self.pending_snapshot(pending)))
            }
            Err(error) => Err(error),
        }
    }

    /// All sessions of the root, damaged ones with their state, in no promised order. A missing root is empty.
    ///
    /// Reads both ends of each log, several at a time; see [`Snapshot::of_folder`]. With a catalog, only of those that have
    /// changed; see [`FileStore::with_catalog`].
    ///
    /// # Errors
    /// [`Error::Io`] for a root that cannot be listed. Any other folder that cannot is in the list, with its error.
    pub fn list(&self) -> Result<Vec<Snapshot>> {
        self.list_of(false)
    }

    /// As [`FileStore::list`], each session with what the catalog's folder knows of its events: see [`Snapshot::overview`].
    ///
    /// Opens no log that [`FileStore::list`] would not open. Of one that has changed, and whose states were kept before it did, up
    /// to 256 KiB that were added are read and folded; more, and logs that were never folded, are left to
    /// [`FileStore::project_log`]. Memory: about half a kilobyte for each session that is known.
    ///
    /// # Errors
    /// As [`FileStore::list`].
    pub fn list_with_overviews(&self) -> Result<Vec<Snapshot>> {
        self.list_of(true)
    }

    fn list_of(&self, overviews: bool) -> Result<Vec<Snapshot>> {
        // Taken first: a session that is stored while the folders are read is then found there.
        let pending = self.shared.claims.all_pending();
        let Shared { disk, root, options, .. } = &*self.shared;
        let book = self.catalog.as_ref().and_then(|catalog| catalog.open(disk, root, &options.limits));
        let caches = Caches { book, shelf: self.shelf(), overviews };
        let mut snapshots = list(disk, root, options.limits, caches)?;
        for pending in pending {
            let stored = |snapshot: &Snapshot| {
                snapshot.header.as_ref().is_some_and(|header| header.id() == pending.header.id())
            };
            if !snapshots.iter().any(stored) {
                snapshots.push(self.pending_snapshot(pending));
            }
        }
        Ok(snapshots)
    }

    /// Makes everything that open handles have accepted durable.
    ///
    /// # Errors
    /// The failures of all handles; the others were flushed all the same.
    pub fn flush(&self) -> Result<()> {
        let handles = self.shared.open_handles();
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
        let handles = self.shared.open_handles();
        let failures = handles.iter().filter_map(|handle| handle.close().err());
        Error::aggregate(failures.collect()).map_or(Ok(()), Err)
    }

    /// The folder of a stored session.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::DuplicateId`].
    pub fn folder_of(&self, id: &Text) -> Result<Folder> {
        self.shared.folder_of(id)
    }

    /// Folders of the root whose names begin like the folder of `prefix` would, with or without a log.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn folders_with_prefix(&self, prefix: &Text) -> Result<Vec<Folder>> {
        let Some(prefix) = session_dir_name(prefix) else { return Ok(Vec::new()) };
        let folders = self.folders()?;
        let named = |folder: &Folder| {
            folder.path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        };
        Ok(folders.into_iter().filter(named).collect())
    }

    /// All session folders of the root.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn folders(&self) -> Result<Vec<Folder>> {
        let Shared { disk, root, .. } = &*self.shared;
        Ok(Places::of_root(disk, root)?.into_folders(disk))
    }

    fn pending_snapshot(&self, pending: Pending) -> Snapshot {
        let path =
            session_path(&self.shared.root, pending.header.cwd(), pending.header.id()).unwrap_or_default();
        Snapshot::pending(&path, pending.header)
    }
}

impl SessionPersistence for FileStore {
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
        Ok(cancel.keep(Self::open(self, id, access)?)?)
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

impl Shared {
    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Where the bytes of a log begin that a failed sync of this process left in doubt.
    pub(super) fn doubtful_from(&self, log: &Path) -> Option<u64> {
        self.doubts.lock().get(log).copied()
    }

    pub(super) fn remember_doubt(&self, log: &Path, from: Option<u64>) {
        let mut doubts = self.doubts.lock();
        match from {
            Some(from) => doubts.insert(log.to_path_buf(), from),
            None => doubts.remove(log),
        };
    }

    /// Takes the claim on an id that is to be created, or `None` if somebody has it.
    pub(super) fn claim(&self, id: &Text, pending: Pending) -> Option<Claim> {
        self.claims.take(id, Some(pending))
    }

    /// Whether a log of that id stands anywhere in the root. A folder without one, left by an interrupted creation, is no
    /// session.
    pub(super) fn is_stored(&self, id: &Text) -> Result<bool> {
        Ok(self.folders_of(id)?.iter().any(|folder| !folder.logs.is_empty()))
    }

    pub(super) fn is_pending(&self, id: &Text) -> bool {
        self.claims.pending(id).is_some()
    }

    /// Opens the log of a session's folder.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none; [`Error::Layout`] if there are two.
    pub(super) fn open_log(&self, folder: &Path) -> Result<LogFile> {
        let not_found =
            || Error::NotFound { id: folder.file_name().unwrap_or_default().to_string_lossy().into_owned() };
        let folder = Folder::read(&*self.disk, folder)?.ok_or_else(not_found)?;
        let log = folder.current()?.ok_or_else(not_found)?;
        let log = LogFile::open(
            &self.disk,
            &folder.path.join(&log.name),
            self.options.limits,
            self.options.read_mode,
        )?;
        log.check_encoding()?;
        Ok(log)
    }

    /// Reads events of a log, and says how many it has. `range_of` says which are wanted, told how many there are, if that is
    /// clear before any is read.
    pub(super) fn read_range(
        &self,
        log: &LogFile,
        range_of: &dyn Fn(Option<u64>) -> (u64, u64),
    ) -> Result<(Events, Count)> {
        if log.generation()? == Generation::CURRENT {
            read_range(log, range_of)
        } else {
            let (from, to) = range_of(None);
            let mut events = Events::default();
            let restored = restore_range(log, from, to, &mut events)?;
            Ok((events, Count::Proven(restored.events)))
        }
    }

    fn register(&self, handle: FileHandle) -> Arc<FileHandle> {
        let handle = Arc::new(handle);
        let mut handles = self.handles.lock();
        handles.retain(|handle| handle.strong_count() > 0);
        handles.push(Arc::downgrade(&handle));
        handle
    }

    fn open_handles(&self) -> Vec<Arc<FileHandle>> {
        self.handles.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The one folder of a stored session.
    fn folder_of(&self, id: &Text) -> Result<Folder> {
        let mut folders = self.folders_of(id)?;
        folders.retain(|folder| !folder.logs.is_empty());
        match folders.len() {
            0 => Err(Error::NotFound { id: printable(id) }),
            1 => Ok(folders.remove(0)),
            _ => {
                let mut paths = folders.into_iter().map(|folder| folder.path);
                let (first, second) = (paths.next().unwrap_or_default(), paths.next().unwrap_or_default());
                Err(Error::DuplicateId { id: printable(id), first, second })
            }
        }
    }

    /// Every folder below the root that is named after `id`; one and the same folder under two names counts once.
    fn folders_of(&self, id: &Text) -> Result<Vec<Folder>> {
        let Some(name) = session_dir_name(id) else { return Ok(Vec::new()) };
        let mut found: Vec<Folder> = Vec::new();
        let mut inodes = Vec::new();
        for project in projects(&*self.disk, &self.root)? {
            let path = project.join(&name);
            let folder = match Folder::read(&*self.disk, &path) {
                Ok(Some(folder)) => folder,
                Ok(None) => continue,
                // A project that is not for this user holds no session of theirs, and a listing names it.
                Err(Error::Io { source, .. }) if is_closed(&source) => continue,
                Err(error) => return Err(error),
            };
            let stamp = self.disk.stamp(&path.join(".")).map_err(Error::io(&path, "looking at"))?;
            let inode = stamp.map(|stamp| (stamp.device, stamp.inode));
            if inode.is_none() || !inodes.contains(&inode) {
                inodes.push(inode);
                found.push(folder);
            }
        }
        Ok(found)
    }
}

/// Whether nobody gets in there: no permission, or a link that leads to itself.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// The header of a log as it reads in the current generation.
pub(super) fn current_header(log: &LogFile) -> Result<Header> {
    match classify(&log.header_line()?, log.limits()) {
        Classified::Current(header) | Classified::MigrationRequired { header, .. } => Ok(header),
        Classified::Refused { refusal, .. } => {
            Err(Error::Refused { path: log.path().to_path_buf(), source: refusal })
        }
    }
}
