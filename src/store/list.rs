//! Every session of a root, several at a time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::catalog::{Book, Seen};
use super::folder::Folder;
use super::layout::{is_flat_log, printable};
use super::snapshot::{Snapshot, State};
use crate::container::disk::{Disk, Entry, FileKind};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What the folders of a root hold, by their names alone. Sorted by path.
#[derive(Debug, Default)]
pub(super) struct Places {
    projects: Vec<PathBuf>,
    places: Vec<Place>,
    /// What stands where a session's folder should, and is none.
    refused: Vec<Snapshot>,
}

/// A folder, or a link that may lead to one, in a project of a root.
#[derive(Debug)]
pub(super) struct Place {
    project: usize,
    name: OsString,
}

impl Places {
    /// Reads the root and the folders in it. A missing root is empty.
    ///
    /// # Errors
    /// [`Error::Io`] for a root that cannot be listed. Any other folder that cannot is among the refused.
    pub(super) fn of_root(disk: &Arc<dyn Disk>, root: &Path) -> Result<Self> {
        let projects = projects(&**disk, root)?;
        let entries = side_by_side(&projects, 1, |project| disk.read_dir(project));
        let mut places = Self { projects, ..Self::default() };
        for (index, entries) in entries.into_iter().enumerate() {
            places.add(index, entries);
        }
        Ok(places)
    }

    fn add(&mut self, index: usize, entries: io::Result<Vec<Entry>>) {
        let Some(project) = self.projects.get(index) else { return };
        let entries = match entries {
            Ok(entries) => entries,
            // A link to something else, or a folder that vanished.
            Err(error) if is_no_folder(&error) => return,
            // One that cannot be looked into is listed as such, and hides no other.
            Err(error) => {
                let error = Error::io(project, "listing")(error);
                return self.refused.push(Snapshot::unreadable(project, error));
            }
        };
        let first = self.places.len();
        for entry in entries {
            if matches!(entry.kind, FileKind::Dir | FileKind::Symlink) {
                self.places.push(Place { project: index, name: entry.name });
            } else if is_flat_log(&entry.name) {
                let path = project.join(&entry.name);
                let what = "logs directly in a project folder are of a retired layout; move it into a folder of its own";
                let error = Error::Layout { path: path.clone(), what: what.to_owned() };
                self.refused.push(Snapshot::refused(&path, error));
            }
        }
        if let Some(own) = self.places.get_mut(first..) {
            own.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> &[Place] {
        &self.places
    }

    /// Name of the project of `place`, and its own.
    pub(super) fn names<'a>(&'a self, place: &'a Place) -> (&'a OsStr, &'a OsStr) {
        let project = self.projects.get(place.project).and_then(|project| project.file_name());
        (project.unwrap_or_default(), &place.name)
    }

    /// Path of `place`.
    fn path(&self, place: &Place) -> PathBuf {
        self.projects.get(place.project).map_or_else(PathBuf::new, |project| project.join(&place.name))
    }

    /// The folders that can be read.
    pub(super) fn into_folders(self, disk: &Arc<dyn Disk>) -> Vec<Folder> {
        let read = side_by_side(&self.places, CHUNK, |place| Folder::read(&**disk, &self.path(place)));
        read.into_iter().filter_map(|folder| folder.ok().flatten()).collect()
    }
}

/// The sessions of `root`, damaged ones and what is refused included; one id in two places is marked as such.
///
/// With a `book`, sessions that it knows cost two looks, and it is brought up to date.
///
/// # Errors
/// As [`Places::of_root`].
pub(super) fn list(
    disk: &Arc<dyn Disk>,
    root: &Path,
    limits: Limits,
    book: Option<Book>,
) -> Result<Vec<Snapshot>> {
    let mut places = Places::of_root(disk, root)?;
    let refused = std::mem::take(&mut places.refused);
    let indexes: Vec<u32> = (0_u32..).take(places.places.len()).collect();
    let found = side_by_side(&indexes, CHUNK, |&index| {
        let place = places.places.get(usize::try_from(index).ok()?)?;
        look(disk, &places, (index, place), limits, book.as_ref())
    });
    if let Some(book) = book {
        book.keep(disk, &places, &found);
    }
    drop((places, indexes));
    let mut snapshots: Vec<Snapshot> = found.into_iter().flatten().collect();
    snapshots.extend(refused);
    refuse_doubles(&mut snapshots);
    Ok(snapshots)
}

/// One session. `None` if there is no folder, or it vanished meanwhile.
fn look(
    disk: &Arc<dyn Disk>,
    places: &Places,
    (index, place): (u32, &Place),
    limits: Limits,
    book: Option<&Book>,
) -> Option<Snapshot> {
    let path = places.path(place);
    let seen = book.and_then(|book| Some((book, Seen::look(&**disk, &path)?)));
    if let Some((book, seen)) = &seen
        && let Some(known) = book.find(disk, places.names(place), &path, seen, limits)
    {
        return Some(known);
    }
    let snapshot = match Folder::read(&**disk, &path) {
        Ok(folder) => Snapshot::of_folder(disk, &folder?, limits),
        Err(error) => return Some(Snapshot::unreadable(&path, error)),
    };
    match snapshot {
        Ok(snapshot) => {
            if let Some((book, seen)) = seen {
                book.note(index, seen, &snapshot);
            }
            Some(snapshot)
        }
        // It vanished between the listing and the look.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Snapshot::unreadable(&path, error)),
    }
}

/// The project folders of `root`, sorted.
///
/// # Errors
/// [`Error::Io`], unless there is no root.
pub(super) fn projects(disk: &dyn Disk, root: &Path) -> Result<Vec<PathBuf>> {
    let entries = match disk.read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(root, "listing")(error)),
    };
    let mut projects: Vec<PathBuf> = entries
        .into_iter()
        .filter(|entry| matches!(entry.kind, FileKind::Dir | FileKind::Symlink))
        .map(|entry| root.join(entry.name))
        .collect();
    projects.sort();
    Ok(projects)
}

fn is_no_folder(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// One id in two places is none: both are shown, and neither may be used.
///
/// What counts is the folder's name, by which ids are looked up, whatever is wrong with the log in it.
fn refuse_doubles(snapshots: &mut [Snapshot]) {
    // Sorted rather than hashed: that no two of a hundred thousand are the same is found without a copy of their names.
    let named = snapshots.iter().enumerate().filter(|(_, snapshot)| snapshot.size_bytes.is_some());
    let mut order: Vec<(&OsStr, usize)> =
        named.filter_map(|(index, snapshot)| Some((snapshot.path.parent()?.file_name()?, index))).collect();
    order.sort_unstable();
    let twins = order.chunk_by(|(a, _), (b, _)| a == b).filter(|group| group.len() > 1);
    let twins: Vec<Vec<usize>> = twins.map(|group| group.iter().map(|&(_, index)| index).collect()).collect();
    for twins in twins {
        let paths: Vec<PathBuf> =
            twins.iter().filter_map(|&index| snapshots.get(index)).map(|one| one.path.clone()).collect();
        for &index in &twins {
            let Some(snapshot) = snapshots.get_mut(index).filter(|one| one.state != State::Refused) else {
                continue;
            };
            if let [first, second, ..] = paths.as_slice() {
                let id = snapshot.header.as_ref().map(|header| printable(header.id()));
                let folder = snapshot.path.parent().and_then(Path::file_name).unwrap_or_default();
                let id = id.unwrap_or_else(|| folder.to_string_lossy().into_owned());
                let (first, second) = (first.clone(), second.clone());
                snapshot.state = State::Refused;
                snapshot.error = Some(Box::new(Error::DuplicateId { id, first, second }));
            }
        }
    }
}

/// Sessions that a thread takes at once.
const CHUNK: usize = 16;

/// Does `work` for each item, on several threads where there are more than `chunk` of them. Results in the order of the items.
///
/// On a warm disk more threads than processors only cost; on a cold one the reads wait, and 16 threads are four times as
/// fast as one. The first items tell which it is.
fn side_by_side<T: Sync, R: Send>(items: &[T], chunk: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results: Vec<Option<R>> = Vec::with_capacity(items.len());
    results.resize_with(items.len(), || None);
    let chunks = Mutex::new(items.chunks(chunk).zip(results.chunks_mut(chunk)));
    take_all(items.len().div_ceil(chunk), chunk, &|| {
        let Some((items, results)) = chunks.lock().next() else { return false };
        for (item, result) in items.iter().zip(results) {
            *result = Some(work(item));
        }
        true
    });
    results.into_iter().map(|result| result.expect("every chunk was taken")).collect()
}

/// Calls `take` until it has nothing more to do, on as many threads as pay.
fn take_all(chunks: usize, chunk: usize, take: &(dyn Fn() -> bool + Sync)) {
    /// What one item takes at most where nothing waits for a disk, a slow processor included.
    const WARM: Duration = Duration::from_micros(60);
    const THREADS_WARM: usize = 8;
    const THREADS_COLD: usize = 16;
    let began = Instant::now();
    if !take() || chunks <= 1 {
        return;
    }
    let is_cold = began.elapsed() > WARM.saturating_mul(u32::try_from(chunk).unwrap_or(u32::MAX));
    let threads = match is_cold {
        true => THREADS_COLD,
        false => thread::available_parallelism().map_or(1, usize::from).min(THREADS_WARM),
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(chunks.saturating_sub(1)) {
            scope.spawn(|| while take() {});
        }
        while take() {}
    });
}
