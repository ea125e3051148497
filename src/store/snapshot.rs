//! What is known of a session from the two ends of its log: the answer to `stat` and to `list`.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Folder;
use super::handle::READ_RETRIES;
use super::layout::joined;
use super::log_file::{LogFile, ReadMode};
use super::scan::{ScanOptions, Verdict, scan};
use crate::container::disk::{Disk, DiskDir, Stamp};
use crate::container::{Detected, Encoding, Last, ReadError, claim, probe};
use crate::error::{Damage, Error, Result, Unsupported};
use crate::limits::Limits;
use crate::row::{Check, Header, HeaderFault, PhysicalRow};
use crate::session::{Overview, Projected, Projections};
use crate::units::{Generation, UnixMs};

/// One session as a listing shows it. Nothing of the middle of its log was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The header, if it can be read.
    pub header: Option<Header>,
    /// The log; the session's folder where it holds none.
    pub path: PathBuf,
    /// Name of the project folder, or nothing for a log outside a root.
    pub project: Option<Arc<str>>,
    /// Generation by the header, else by the name.
    pub generation: Option<Generation>,
    /// Encoding by the bytes.
    pub encoding: Option<Encoding>,
    /// Events of the log, from its last row.
    pub event_count: Option<u64>,
    /// Length of the log in bytes.
    pub size_bytes: Option<u64>,
    /// Time of the last event.
    pub last_time: Option<UnixMs>,
    /// Changes whenever the log does.
    pub revision: Option<Revision>,
    /// Whether the log can be used.
    pub state: State,
    /// Why not, if not.
    pub error: Option<Box<Error>>,
    /// Older generations beside the log.
    pub older: Vec<PathBuf>,
    /// The log is a file that had been quiet when it was looked at.
    pub(super) is_quiet: bool,
    /// States of the built-in projections, as JSON text from a cache; nobody has looked into it.
    pub(super) states: Option<Box<[u8]>>,
}

/// Whether a log can be used, as far as its two ends tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It can.
    Ok,
    /// Its last append was cut short; the next append repairs it.
    Torn,
    /// It is damaged.
    Corrupt,
    /// It is intact, and this build cannot interpret it.
    Unsupported,
    /// It is not what its name says, or there are two of it.
    Refused,
    /// There is nothing in it, or no log at all.
    Empty,
}

impl State {
    /// The word for people and for JSON output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Torn => "torn",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
            Self::Empty => "empty",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Verdict> for State {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Sound => Self::Ok,
            Verdict::Unfinished | Verdict::Torn => Self::Torn,
            Verdict::DamagedTail | Verdict::Corrupt => Self::Corrupt,
            Verdict::Unsupported => Self::Unsupported,
        }
    }
}

/// How much of a log's end is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Its last row, which says how many events there are.
    Rows,
    /// The trailer that seals it, if there is one: whoever reads on looks at the rest anyway.
    Seals,
}

/// Where a log is looked for: on a disk, in a folder of it that may be open.
#[derive(Clone, Copy)]
struct Place<'p> {
    disk: &'p Arc<dyn Disk>,
    dir: Option<&'p dyn DiskDir>,
}

/// An opaque token that changes whenever a log does. Comparable for one session in one root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(Token);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    File(FileRevision),
    Counted { storage: u64, change: u64 },
}

/// The coarsest clock that a file system in use stamps with, that of FAT. Others tick every few milliseconds.
const TICK_NS: i128 = 2_000_000_000;

/// The revision of a file: what its name stood for, and when that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileRevision {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    pub(super) changed_ns: i64,
}

impl Revision {
    /// The revision of a file that `stamp` describes. Times before 1677 and behind 2262 are taken for those years.
    #[must_use]
    pub fn of(stamp: &Stamp) -> Self {
        FileRevision::of(stamp).into()
    }

    /// The revision that change number `change` of storage number `storage` made: for backends that count their changes.
    /// Two storages that are used side by side have different numbers.
    #[must_use]
    pub const fn counted(storage: u64, change: u64) -> Self {
        Self(Token::Counted { storage, change })
    }

    /// That of a file, if it is one.
    pub(super) const fn as_file(self) -> Option<FileRevision> {
        match self.0 {
            Token::File(revision) => Some(revision),
            Token::Counted { .. } => None,
        }
    }
}

impl From<FileRevision> for Revision {
    fn from(revision: FileRevision) -> Self {
        Self(Token::File(revision))
    }
}

impl FileRevision {
    /// Times before 1677 and behind 2262 are taken for those years.
    pub(super) fn of(stamp: &Stamp) -> Self {
        let ns = |ns: i128| i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX });
        let &Stamp { device, inode, size, modified_ns, changed_ns, .. } = stamp;
        Self { device, inode, size, modified_ns: ns(modified_ns), changed_ns: ns(changed_ns) }
    }

    /// Whether the file had been quiet at `now_ns` for so long that any change from then on shows in its revision: a clock that
    /// ticks more coarsely than changes follow each other gives two of them one stamp.
    pub(super) fn was_quiet(&self, now_ns: i128) -> bool {
        let last = i128::from(self.modified_ns.max(self.changed_ns));
        last.saturating_add(TICK_NS) <= now_ns
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Token::File(FileRevision { device, inode, size, modified_ns, changed_ns }) => {
                write!(f, "{device}:{inode}:{size}:{modified_ns}:{changed_ns}")
            }
            Token::Counted { storage, change } => write!(f, "counted:{storage}:{change}"),
        }
    }
}

impl Snapshot {
    /// A snapshot that says nothing but where the log would be.
    pub(super) fn at(path: &Path) -> Self {
        Self {
            header: None,
            path: path.to_path_buf(),
            project: None,
            generation: None,
            encoding: None,
            event_count: None,
            size_bytes: None,
            last_time: None,
            revision: None,
            state: State::Empty,
            error: None,
            older: Vec::new(),
            is_quiet: false,
            states: None,
        }
    }

    /// Whether any change of the log from now on will give it another [`revision`](Self::revision): only then may what was read
    /// of it be kept under that revision.
    ///
    /// Of a file, if it had been quiet for two seconds when it was looked at, since a file system may stamp what follows sooner
    /// with the same time. Of a backend that counts its changes, always. `false` where there is no revision.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.revision.is_some_and(|revision| self.is_quiet || revision.as_file().is_none())
    }

    /// What is known of the session besides, without reading its log: by listings that were asked for it
    /// ([`FileStore::list_with_overviews`](super::FileStore::list_with_overviews)), of sessions that were folded before.
    #[must_use]
    pub fn overview(&self) -> Option<Overview> {
        self.overview_in(self.states.as_deref()?)
    }

    /// The overview in `states`, if they are of this log.
    pub(super) fn overview_in(&self, states: &[u8]) -> Option<Overview> {
        let overview = Overview::of(&Projected::read_json(&Projections::built_in(), states)?)?;
        // Older generations are folded as they read in the current one, where they have other numbers of events.
        let is_converted = self.generation != Some(Generation::CURRENT);
        (is_converted || Some(overview.events) == self.event_count).then_some(overview)
    }

    /// The text that [`Snapshot::overview`] reads.
    pub(super) fn states(&self) -> Option<&[u8]> {
        self.states.as_deref()
    }

    pub(super) fn set_states(&mut self, states: Option<&[u8]>) {
        self.states = states.map(Box::from);
    }

    /// A session that is well, of which nothing is known but its header: for backends of other crates, which then fill in what
    /// they have to say.
    #[must_use]
    pub fn of_header(header: Header) -> Self {
        Self::pending(Path::new(""), header)
    }

    /// A session that is created and not yet stored: visible to its own store, without counts.
    pub(crate) fn pending(path: &Path, header: Header) -> Self {
        let generation = Some(header.generation());
        Self { header: Some(header), generation, state: State::Ok, ..Self::at(path) }
    }

    /// Something that stands where a log should and may not be used as one.
    pub(crate) fn refused(path: &Path, error: Error) -> Self {
        Self { state: State::Refused, error: Some(Box::new(error)), ..Self::at(path) }
    }

    /// A log that the operating system did not let us look at.
    pub(crate) fn unreadable(path: &Path, error: Error) -> Self {
        Self { state: State::Corrupt, error: Some(Box::new(error)), ..Self::at(path) }
    }

    /// Looks at both ends of the log at `path`. Where the end is not clear from behind, its whole text is walked.
    ///
    /// # Errors
    /// [`Error::Io`]. Whatever is wrong with the log is told by [`Snapshot::state`] and [`Snapshot::error`].
    pub fn of_log(disk: &Arc<dyn Disk>, path: &Path, limits: Limits) -> Result<Self> {
        Self::of_log_to(Place { disk, dir: None }, path, limits, Depth::Rows)
    }

    fn of_log_to(place: Place<'_>, path: &Path, limits: Limits, depth: Depth) -> Result<Self> {
        let mut retries = READ_RETRIES;
        loop {
            let snapshot = Self::of_log_now(place, path, limits, depth)?;
            if retries == 0 || !snapshot.error.as_deref().is_some_and(Error::is_shrunk) {
                return Ok(snapshot);
            }
            retries = retries.saturating_sub(1);
        }
    }

    fn of_log_now(place: Place<'_>, path: &Path, limits: Limits, depth: Depth) -> Result<Self> {
        let Place { disk, dir } = place;
        // The clock first: whatever changes behind this moment has a later stamp.
        let now_ns = disk.now_ns();
        // Two page reads cost less than setting a map up.
        let log = match dir {
            Some(dir) => LogFile::open_in(dir, disk, path, limits, ReadMode::Read)?,
            None => LogFile::open(disk, path, limits, ReadMode::Read)?,
        };
        let mut snapshot = Self::at(path);
        snapshot.is_quiet = FileRevision::of(log.stamp()).was_quiet(now_ns);
        snapshot.size_bytes = Some(log.stamp().size);
        snapshot.revision = Some(Revision::of(log.stamp()));
        snapshot.encoding = Some(log.encoding());
        snapshot.generation = log.named().map(|(generation, _)| generation);
        match snapshot.look(&log, depth) {
            Ok(()) => {}
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                snapshot.state = match error {
                    Error::FormatUnsupported { .. } => State::Unsupported,
                    Error::IdentityMismatch { .. } => State::Refused,
                    _ if log.detected() == Detected::Nothing => State::Empty,
                    _ => State::Corrupt,
                };
                snapshot.error = Some(Box::new(error));
            }
        }
        Ok(snapshot)
    }

    /// Looks at the log of a session's folder, and checks that it stands where its header says.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn of_folder(disk: &Arc<dyn Disk>, folder: &Folder, limits: Limits) -> Result<Self> {
        Self::of_folder_to(Place { disk, dir: None }, folder, limits, Depth::Rows)
    }

    /// As [`Snapshot::of_folder`], of a folder that is open.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn of_open_folder(
        disk: &Arc<dyn Disk>,
        dir: &dyn DiskDir,
        folder: &Folder,
        limits: Limits,
    ) -> Result<Self> {
        Self::of_folder_to(Place { disk, dir: Some(dir) }, folder, limits, Depth::Rows)
    }

    /// As [`Snapshot::of_folder`], for whoever goes on to read: an indexed log that ends in a trailer which seals it is taken for
    /// what that says, and its last time stays unknown. Damage before the trailer is for the read to find.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn of_folder_to_read(disk: &Arc<dyn Disk>, folder: &Folder, limits: Limits) -> Result<Self> {
        Self::of_folder_to(Place { disk, dir: None }, folder, limits, Depth::Seals)
    }

    fn of_folder_to(place: Place<'_>, folder: &Folder, limits: Limits, depth: Depth) -> Result<Self> {
        let Place { disk, .. } = place;
        let project =
            folder.path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into());
        let mut snapshot = match folder.current() {
            Ok(Some(log)) => {
                let mut snapshot = Self::of_log_to(place, &joined(&folder.path, &log.name), limits, depth)?;
                let placed =
                    snapshot.header.as_ref().map_or(Ok(()), |header| folder.check_place(&**disk, header));
                if let Err(mismatch) = placed {
                    snapshot.state = State::Refused;
                    snapshot.error = Some(Box::new(mismatch));
                }
                snapshot
            }
            Ok(None) => {
                let strays: Vec<String> =
                    folder.beside.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                let what = if strays.is_empty() {
                    "the folder holds no log".to_owned()
                } else {
                    format!("the folder holds no log, only {}", strays.join(", "))
                };
                let error = Error::Layout { path: folder.path.clone(), what };
                Self { error: Some(Box::new(error)), ..Self::at(&folder.path) }
            }
            Err(error) => {
                Self { state: State::Refused, error: Some(Box::new(error)), ..Self::at(&folder.path) }
            }
        };
        snapshot.project = project;
        snapshot.older = folder.older();
        Ok(snapshot)
    }

    fn look(&mut self, log: &LogFile, depth: Depth) -> Result<()> {
        log.check_encoding()?;
        let mut source = log.probe_source();
        let read_error = |error: ReadError| Error::read(log.path(), 0, error);
        if depth == Depth::Seals && log.encoding() == Encoding::Indexed {
            let first = log.first_line().map_err(read_error)?;
            self.identify(log, first.header.clone())?;
            return match claim(&mut source).map_err(read_error)? {
                Some(claim) => {
                    self.event_count = Some(claim.events);
                    self.state = State::Ok;
                    Ok(())
                }
                None => self.walk(log),
            };
        }
        let ends = probe(&mut source, log.encoding(), *log.limits()).map_err(read_error)?;
        let line = ends.header.strip_suffix(b"\n").unwrap_or(&ends.header);
        let generation = self.identify(log, Header::parse(line, log.limits()))?;
        match ends.last {
            Last::HeaderOnly => {
                self.event_count = Some(0);
                self.state = State::Ok;
                Ok(())
            }
            Last::Rows { line, counted } => match last_row(&line, generation, log.limits()) {
                Some((events, time)) if counted.is_none_or(|counted| counted == events) => {
                    self.event_count = Some(events);
                    self.last_time = Some(time);
                    self.state = State::Ok;
                    Ok(())
                }
                _ => self.walk(log),
            },
            Last::Unclear => self.walk(log),
        }
    }

    /// Takes over what the header says; its generation.
    fn identify(&mut self, log: &LogFile, header: Result<Header, HeaderFault>) -> Result<Generation> {
        let header = header.map_err(|fault| {
            if let HeaderFault::Newer { version } = fault {
                self.generation = Some(Generation::new(version));
            }
            header_error(log.path(), fault)
        })?;
        let generation = header.generation();
        self.generation = Some(generation);
        self.header = Some(header);
        log.check_name(generation)?;
        Ok(generation)
    }

    /// The end is not clear from behind: the forward walk decides.
    fn walk(&mut self, log: &LogFile) -> Result<()> {
        let options = ScanOptions { check: Check::Envelope, ..ScanOptions::STRICT };
        let report = scan(log, options, &mut |_| Ok(ControlFlow::Continue(())))?;
        self.state = report.verdict.into();
        self.event_count = Some(report.events);
        self.last_time = report.last_time.filter(|_| report.events > 0);
        self.error = report.end_error(log).map(Box::new);
        report.require(log)
    }
}

/// Events up to the last row, whose line this is, and its time.
pub(crate) fn last_row(line: &[u8], generation: Generation, limits: &Limits) -> Option<(u64, UnixMs)> {
    let row = PhysicalRow::read(line.strip_suffix(b"\n")?, generation, Check::Full, limits).ok()?;
    Some((row.next_seq(), row.last_time()))
}

/// The error for a header line that is not one.
pub(crate) fn header_error(path: &Path, fault: HeaderFault) -> Error {
    let path = path.to_path_buf();
    match fault {
        HeaderFault::Newer { version } => Error::FormatUnsupported {
            path,
            reason: Unsupported::Newer { stored: Generation::new(version), newest: Generation::CURRENT },
        },
        fault if fault.is_unsupported() => Error::FormatUnsupported {
            path,
            reason: Unsupported::Shape { at: 0, source: Damage::Header(fault) },
        },
        fault => Error::Corruption { path, offset: 0, intact: 0, source: Damage::Header(fault) },
    }
}
