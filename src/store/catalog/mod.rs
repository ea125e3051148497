//! What listings found, kept outside the root, so that the next one reads only what has changed.
//!
//! A session's entry is true as long as its folder and its log are what they were: device, inode, size, and both times of each,
//! to the nanosecond. The folder's are among them because a successor that is published beside a log changes nothing in the log.
//!
//! A file system stamps with a clock that ticks more coarsely than it writes: what changed a moment before it was read may
//! change once more and keep its stamp. Such an entry is not kept; the session is read until it has been quiet for two seconds.
//!
//! What projections gathered of a session stands in its entry too, once it was folded: see `projection`.
//!
//! Nor does a stamp tell of what is lost with the power: a log may have its length and times, and holes where nothing had been
//! synced. So no catalog outlives the start of the machine under which it was written.
//!
//! A catalog is a cache. It is written to a temporary file and renamed, without a sync: a crash may leave one with holes, and a
//! CRC tells. Of two processes that write at the same time one wins, and what the other found is found again. One that is
//! damaged, of another root, of another build, or open to others is treated as if it were not there.

mod entry;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use self::entry::Entry;
pub(super) use self::entry::RawRevision;
pub(super) use self::table::hash_of;
use self::table::{Identity, Table, TableWriter};
use super::folder::check_place;
use super::projection::Shelf;
use super::publish::random_hex12;
use super::snapshot::{FileRevision, Revision, Snapshot};
use crate::container::disk::{Access, Disk, FileKind};
use crate::limits::Limits;

/// A folder of catalogs, one file for each root that is listed with it.
///
/// The folder is made, private to the user, when there is something to keep; one that is there must not be writable by others
/// and not lie in the root, or it is not used. Files are private to the user: they hold ids and working directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    folder: PathBuf,
}

impl Catalog {
    /// The catalogs in `folder`. Touches nothing.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The catalog of `root`, read, or empty where there is none that may be used. `None` if none may be kept.
    pub(super) fn open(&self, disk: &Arc<dyn Disk>, root: &Path, limits: &Limits) -> Option<Book> {
        let Place { folder, identity, is_there } = self.place(&**disk, root, limits)?;
        let path = folder.join(identity.file_stem()).with_extension("catalog");
        // A log that looks as it did may have lost what was not synced when the power went.
        let identity = identity.since(disk.boot());
        let table = if is_there {
            open_private(disk, &path).and_then(|(file, len)| Table::read(&*file, len, &identity))
        } else {
            None
        };
        let entries = table.as_ref().map_or(0, Table::len);
        let uses = std::iter::repeat_with(|| AtomicU8::new(GONE)).take(entries).collect();
        Some(Book { folder, path, identity, table, uses, fresh: Mutex::default() })
    }

    /// What is kept beside the catalog of `root`: states of projections. `None` if nothing may be kept.
    pub(super) fn shelf(&self, disk: &dyn Disk, root: &Path, limits: &Limits) -> Option<Shelf> {
        let Place { folder, identity, .. } = self.place(disk, root, limits)?;
        let folder = folder.join(identity.file_stem()).with_extension("projections");
        Some(Shelf::new(folder, RootIdentity(identity.to_bytes()), *limits))
    }

    fn place(&self, disk: &dyn Disk, root: &Path, limits: &Limits) -> Option<Place> {
        let root = std::path::absolute(root).ok()?;
        let folder = std::path::absolute(&self.folder).ok()?;
        if folder.starts_with(&root) {
            return None;
        }
        let stamp = disk.stamp(&root.join(".")).ok().flatten()?;
        let identity = Identity::new(root.as_os_str(), stamp.device, stamp.inode, limits);
        let is_there = match disk.stamp(&folder).ok()? {
            Some(stamp) if stamp.kind == FileKind::Dir && stamp.mode & 0o022 == 0 => true,
            Some(_) => return None,
            None => false,
        };
        Some(Place { folder, identity, is_there })
    }
}

/// Where the caches of a root lie.
struct Place {
    folder: PathBuf,
    identity: Identity,
    is_there: bool,
}

/// What tells a root from any other, in bytes: its path, what stood there, and the bounds under which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootIdentity(Vec<u8>);

impl RootIdentity {
    #[cfg(test)]
    pub(super) fn of(path: &str, device: u64, inode: u64) -> Self {
        Self(Identity::new(OsStr::new(path), device, inode, &Limits::DEFAULT).to_bytes())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Opens a file that nobody but its owner may read. Links are not followed.
pub(super) fn open_private(
    disk: &Arc<dyn Disk>,
    path: &Path,
) -> Option<(Box<dyn crate::container::disk::DiskFile>, u64)> {
    let (file, stamp) = disk.open_stamped(path, Access::Read).ok()?;
    (stamp.kind == FileKind::File && stamp.mode & 0o077 == 0).then_some((file, stamp.size))
}

/// No session of the listing has the entry's name.
const GONE: u8 = 0;
/// Its session has changed.
const STALE: u8 = 1;
/// It was true.
const TRUE: u8 = 2;

/// The catalog of one root, during one listing.
#[derive(Debug)]
pub(super) struct Book {
    folder: PathBuf,
    path: PathBuf,
    identity: Identity,
    table: Option<Table>,
    /// What became of each entry of the table.
    uses: Vec<AtomicU8>,
    /// What was read and may be kept: hashes of the names, and the folders as they were.
    fresh: Mutex<Vec<(u64, FileRevision)>>,
}

/// A session's folder before anything in it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    at_ns: i128,
    folder: FileRevision,
}

impl Seen {
    /// Looks at the folder at `path`, or where a link there leads.
    pub(super) fn look(disk: &dyn Disk, path: &Path) -> Option<Self> {
        // The clock first: whatever changes behind this moment has a later stamp.
        let at_ns = disk.now_ns();
        let stamp = disk.stamp(&path.join(".")).ok().flatten()?;
        Some(Self { at_ns, folder: FileRevision::of(&stamp) })
    }

    /// Whether a file of that revision had been quiet for long enough that any change would show.
    fn was_quiet(&self, revision: &FileRevision) -> bool {
        revision.was_quiet(self.at_ns)
    }
}

/// A session that a catalog knew.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) snapshot: Snapshot,
    /// Of its entry.
    number: usize,
}

impl Book {
    /// What is known of the session in `folder`, if it is still true; with the states of its projections, if they are wanted.
    pub(super) fn find(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        seen: &Seen,
        limits: Limits,
        with_states: bool,
    ) -> Option<Known> {
        let names = names_of(folder)?;
        let (number, bytes) = self.table.as_ref()?.find(hash_of(names)).find(|(_, bytes)| {
            // Read twice where it is found, which costs less than a borrow of a copy.
            Entry::read(bytes).is_some_and(|entry| entry.is_of(names))
        })?;
        let entry = Entry::read(&bytes)?;
        let mark = self.uses.get(number)?;
        mark.store(STALE, Ordering::Relaxed);
        if entry.folder() != seen.folder {
            return None;
        }
        let log = disk.stamp(&entry.log_path(folder)?).ok().flatten()?;
        if log.kind != FileKind::File || FileRevision::of(&log) != entry.log() {
            return None;
        }
        let mut snapshot = entry.snapshot(folder, &limits)?;
        if with_states {
            snapshot.set_states(entry.states());
        }
        // Whether it stands where it belongs may depend on a link elsewhere in the root.
        check_place(&**disk, folder, &snapshot.path, snapshot.header.as_ref()?).ok()?;
        mark.store(TRUE, Ordering::Relaxed);
        Some(Known { snapshot, number })
    }

    /// Takes note of states that were found for a session which the catalog knew without them.
    pub(super) fn renew(&self, folder: &Path, seen: Seen, known: &Known) {
        if let (Some(mark), Some(names)) = (self.uses.get(known.number), names_of(folder)) {
            mark.store(STALE, Ordering::Relaxed);
            self.fresh.lock().push((hash_of(names), seen.folder));
        }
    }

    /// Takes note of a session that was read in `folder`.
    pub(super) fn note(&self, folder: &Path, seen: Seen, snapshot: &Snapshot) {
        if seen.was_quiet(&seen.folder)
            && snapshot.revision.and_then(Revision::as_file).is_some_and(|log| seen.was_quiet(&log))
        {
            self.fresh.lock().extend(names_of(folder).map(|names| (hash_of(names), seen.folder)));
        }
    }

    /// Writes the catalog anew, if that pays, and gives the hashes of the sessions that are gone; `None` if it does not. Whatever
    /// fails here costs only time, at the next listing.
    pub(super) fn keep(self, disk: &Arc<dyn Disk>, found: &[Snapshot]) -> Option<Vec<u64>> {
        self.pays().then(|| {
            let marks = self.uses.iter().enumerate();
            let gone = marks.filter(|(_, mark)| mark.load(Ordering::Relaxed) == GONE);
            let hash = |number: usize| Some(self.table.as_ref()?.get(number)?.0);
            let gone = gone.filter_map(|(number, _)| hash(number)).collect();
            let _failed = self.write(&**disk, found);
            gone
        })
    }

    /// Writes the catalog anew without the sessions in `folders`, if it knows one of them.
    pub(super) fn forget(self, disk: &Arc<dyn Disk>, folders: &[PathBuf]) {
        let hashes: HashSet<u64> =
            folders.iter().filter_map(|folder| names_of(folder)).map(hash_of).collect();
        let mut any = false;
        for (number, mark) in self.uses.iter().enumerate() {
            let hash = self.table.as_ref().and_then(|table| table.get(number)).map(|(hash, _)| hash);
            let is_gone = hash.is_none_or(|hash| hashes.contains(&hash));
            mark.store(if is_gone { GONE } else { TRUE }, Ordering::Relaxed);
            any |= is_gone;
        }
        if any {
            let _failed = self.write(&**disk, &[]);
        }
    }

    /// Reading a session costs some thirty times as much as writing an entry. And what is deleted shall be gone.
    fn pays(&self) -> bool {
        const READS_PER_WRITE: usize = 32;
        let count =
            |wanted: u8| self.uses.iter().filter(|mark| mark.load(Ordering::Relaxed) == wanted).count();
        let fresh = self.fresh.lock().len();
        let total = count(TRUE).saturating_add(fresh);
        count(GONE) > 0 || (fresh > 0 && fresh.saturating_mul(READS_PER_WRITE) >= total)
    }

    fn write(mut self, disk: &dyn Disk, found: &[Snapshot]) -> io::Result<()> {
        make_private(disk, &self.folder)?;
        let mut fresh = std::mem::take(self.fresh.get_mut());
        fresh.sort_unstable_by_key(|(hash, _)| *hash);
        let temporary = self.temporary(&random_hex12()?);
        let file = disk.create_new(&temporary)?;
        let total = fresh.len().saturating_add(self.uses.len());
        let mut writer = TableWriter::new(&*file, total);
        let written = self
            .copy_true(&mut writer)
            .and_then(|()| found.iter().try_for_each(|snapshot| add(snapshot, &fresh, &mut writer)))
            .and_then(|()| writer.finish(&self.identity))
            .and_then(|()| disk.rename(&temporary, &self.path));
        if written.is_err() {
            let _ = disk.remove_file(&temporary);
        }
        self.sweep(disk);
        written
    }

    /// Adds the entries that are still true as they are, with sections that only a later build knows.
    fn copy_true(&self, writer: &mut TableWriter<'_>) -> io::Result<()> {
        let Some(table) = &self.table else { return Ok(()) };
        let kept = self.uses.iter().enumerate().filter(|(_, mark)| mark.load(Ordering::Relaxed) == TRUE);
        for (number, _) in kept {
            if let Some((hash, entry)) = table.get(number) {
                writer.add(hash, |out| {
                    out.extend_from_slice(entry);
                    true
                })?;
            }
        }
        Ok(())
    }

    fn temporary(&self, tag: &str) -> PathBuf {
        self.path.with_extension(format!("catalog.{tag}.tmp"))
    }

    /// Takes away what writers of this catalog left that died an hour ago or more.
    fn sweep(&self, disk: &dyn Disk) {
        const HOUR_NS: i128 = 3_600_000_000_000;
        let Some(prefix) = self.path.file_name() else { return };
        for entry in disk.read_dir(&self.folder).unwrap_or_default() {
            let name = entry.name.as_encoded_bytes();
            let is_ours = name.starts_with(prefix.as_encoded_bytes()) && name.ends_with(b".tmp");
            if !is_ours || entry.kind != FileKind::File {
                continue;
            }
            let path = self.folder.join(&entry.name);
            if let Ok(Some(stamp)) = disk.stamp(&path)
                && stamp.modified_ns.saturating_add(HOUR_NS) < disk.now_ns()
            {
                let _ = disk.remove_file(&path);
            }
        }
    }
}

/// Adds the entry of a session, if it is one of those that were read and may be kept.
fn add(snapshot: &Snapshot, fresh: &[(u64, FileRevision)], writer: &mut TableWriter<'_>) -> io::Result<()> {
    let Some(names) = snapshot.path.parent().and_then(names_of) else { return Ok(()) };
    let hash = hash_of(names);
    let first = fresh.partition_point(|(other, _)| *other < hash);
    // Of two names with one hash neither is kept: which folder is whose is not known.
    match fresh.get(first..).unwrap_or_default() {
        [(one, _), (two, _), ..] if *one == hash && *two == hash => Ok(()),
        [(one, folder), ..] if *one == hash => {
            writer.add(hash, |out| entry::write(names, folder, snapshot, out))
        }
        _ => Ok(()),
    }
}

/// Names of the project folder and of the session's folder in it.
pub(super) fn names_of(folder: &Path) -> Option<(&OsStr, &OsStr)> {
    Some((folder.parent()?.file_name()?, folder.file_name()?))
}

/// Makes a folder, private to the user, and those that lead to it.
pub(super) fn make_private(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for at in folder.ancestors() {
        if disk.stamp(&at.join("."))?.is_some() {
            break;
        }
        missing.push(at);
    }
    missing.into_iter().rev().try_for_each(|at| disk.create_dir(at).map(|_| ()))
}
