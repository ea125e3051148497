//! Every session of a root, several at a time.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::slice::ChunksMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::catalog::{Book, Seen, hash_of, names_of};
use super::folder::Folder;
use super::layout::{is_flat_log, printable};
use super::projection::Shelf;
use super::snapshot::{Snapshot, State};
use crate::container::disk::{Disk, DiskDir, Entry, FileKind};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What the folders of a root hold, by their names alone. Sorted by path.
#[derive(Debug)]
pub(super) struct Places {
    projects: Vec<Project>,
    places: Vec<Slot>,
    /// What stands where a session's folder should, and is none.
    refused: Vec<Snapshot>,
}

#[derive(Debug)]
struct Project {
    path: PathBuf,
    /// Its name, as all its sessions show it.
    name: Arc<str>,
    entries: io::Result<Vec<Entry>>,
}

/// A folder, or a link that may lead to one, in a project of a root, until it is read; then what was found there.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all become the large one, in place")]
enum Slot {
    Place { project: u32, name: OsString },
    Found(Snapshot),
    Nothing,
}

impl Places {
    /// Reads the root and the folders in it. A missing root is empty.
    ///
    /// # Errors
    /// [`Error::Io`] for a root that cannot be listed. Any other folder that cannot is among the refused.
    pub(super) fn of_root(disk: &Arc<dyn Disk>, root: &Path) -> Result<Self> {
        let project = |path: PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into();
            Project { path, name, entries: Ok(Vec::new()) }
        };
        let mut projects: Vec<Project> = projects(&**disk, root)?.into_iter().map(project).collect();
        side_by_side(
            &mut projects,
            1,
            WARM_PROJECT,
            &each(|project: &mut Project| {
                project.entries = disk.read_dir(&project.path);
            }),
        );
        let entries = projects.iter().filter_map(|project| project.entries.as_ref().ok()).map(Vec::len);
        let places = Vec::with_capacity(entries.sum());
        let mut places = Self { projects, places, refused: Vec::new() };
        for index in 0..places.projects.len() {
            places.add(index);
        }
        Ok(places)
    }

    fn add(&mut self, index: usize) {
        let (Some(project), Ok(number)) = (self.projects.get_mut(index), u32::try_from(index)) else {
            return;
        };
        let entries = match std::mem::replace(&mut project.entries, Ok(Vec::new())) {
            Ok(entries) => entries,
            // A link to something else, or a folder that vanished.
            Err(error) if is_no_folder(&error) => return,
            // One that cannot be looked into is listed as such, and hides no other.
            Err(error) => {
                let error = Error::io(&project.path, "listing")(error);
                return self.refused.push(Snapshot::unreadable(&project.path, error));
            }
        };
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            if matches!(entry.kind, FileKind::Dir | FileKind::Symlink) {
                names.push(entry.name);
            } else if is_flat_log(&entry.name) {
                let path = project.path.join(&entry.name);
                let what = "logs directly in a project folder are of a retired layout; move it into a folder of its own";
                let error = Error::Layout { path: path.clone(), what: what.to_owned() };
                self.refused.push(Snapshot::refused(&path, error));
            }
        }
        names.sort_unstable();
        self.places.extend(names.into_iter().map(|name| Slot::Place { project: number, name }));
    }

    /// The folders that can be read.
    pub(super) fn into_folders(self, disk: &Arc<dyn Disk>) -> Vec<Folder> {
        let Self { projects, places, .. } = self;
        let mut folders: Vec<(Slot, Option<Folder>)> = places.into_iter().map(|slot| (slot, None)).collect();
        side_by_side(
            &mut folders,
            CHUNK,
            WARM_CHUNK,
            &each(|(slot, folder): &mut (Slot, Option<Folder>)| {
                if let Some((path, _)) = path_of(&projects, slot) {
                    *folder = Folder::read(&**disk, &path).ok().flatten();
                }
            }),
        );
        folders.into_iter().filter_map(|(_, folder)| folder).collect()
    }
}

/// The sessions of `root`, damaged ones and what is refused included; one id in two places is marked as such.
///
/// With a `book`, sessions that it knows cost two looks, and it is brought up to date. `caches.overviews` has the sessions come
/// with what is known of their events.
///
/// # Errors
/// As [`Places::of_root`].
pub(super) fn list(
    disk: &Arc<dyn Disk>,
    root: &Path,
    limits: Limits,
    caches: Caches,
) -> Result<Vec<Snapshot>> {
    // Names are dropped as sessions take their places: a hundred thousand of both do not fit what a listing may take.
    let Places { projects, mut places, refused } = Places::of_root(disk, root)?;
    side_by_side(&mut places, CHUNK, WARM_CHUNK, &|slots: &mut [Slot]| {
        // Most neighbours are of one project, which is open as long as they are looked at.
        let mut near = Near::default();
        for slot in slots {
            // The name goes before anything is kept of the session, so that its memory is used again.
            let place = path_of(&projects, slot);
            *slot = Slot::Nothing;
            let found = place.and_then(|(path, project)| {
                let mut found = look(disk, &mut near, &path, limits, &caches)?;
                found.project = Some(project);
                Some(found)
            });
            if let Some(found) = found {
                *slot = Slot::Found(found);
            }
        }
    });
    places.retain(|slot| matches!(slot, Slot::Found(_)));
    // In the memory of the places.
    let found = places.into_iter().map_while(|slot| match slot {
        Slot::Found(snapshot) => Some(snapshot),
        Slot::Place { .. } | Slot::Nothing => None,
    });
    let mut snapshots: Vec<Snapshot> = found.collect();
    caches.keep(disk, &snapshots);
    snapshots.extend(refused);
    refuse_doubles(&mut snapshots);
    Ok(snapshots)
}

/// What earlier listings and folds left.
#[derive(Debug, Default)]
pub(super) struct Caches {
    pub(super) book: Option<Book>,
    pub(super) shelf: Option<Shelf>,
    /// Whether sessions are wanted with the states of their projections.
    pub(super) overviews: bool,
}

impl Caches {
    fn keep(self, disk: &Arc<dyn Disk>, found: &[Snapshot]) {
        let gone = self.book.and_then(|book| book.keep(disk, found));
        if let Some((shelf, gone)) = self.shelf.zip(gone) {
            gone.into_iter().for_each(|hash| shelf.forget(&**disk, hash));
            let folders = found.iter().filter_map(|one| {
                // One without a log stands for its folder.
                if one.size_bytes.is_some() { one.path.parent() } else { Some(one.path.as_path()) }
            });
            shelf.sweep(&**disk, &folders.filter_map(names_of).map(hash_of).collect());
        }
    }
}

/// Path of a place, and the name of its project.
fn path_of(projects: &[Project], slot: &Slot) -> Option<(PathBuf, Arc<str>)> {
    let Slot::Place { project, name } = slot else { return None };
    let project = projects.get(usize::try_from(*project).ok()?)?;
    Some((project.path.join(name), Arc::clone(&project.name)))
}

/// The project folder whose sessions are looked at, opened when the first of them is.
#[derive(Debug, Default)]
struct Near {
    project: PathBuf,
    dir: Option<Box<dyn DiskDir>>,
}

impl Near {
    /// The session's folder at `path`, open; `None` where it has to be reached by its path.
    fn open(&mut self, disk: &dyn Disk, path: &Path) -> Option<io::Result<Box<dyn DiskDir>>> {
        let (project, name) = path.parent().zip(path.file_name())?;
        if self.project != project {
            project.clone_into(&mut self.project);
            self.dir = disk.open_dir(project).ok().flatten();
        }
        self.dir.as_ref().map(|dir| dir.open_dir(name))
    }
}

/// What the two ends of the log in the session's folder at `path` say. `None` if there is no folder.
fn look_at(disk: &Arc<dyn Disk>, near: &mut Near, path: &Path, limits: Limits) -> Result<Option<Snapshot>> {
    match near.open(&**disk, path) {
        Some(Ok(dir)) => match Folder::read_open(&*dir, path)? {
            Some(folder) => Snapshot::of_open_folder(disk, &*dir, &folder, limits).map(Some),
            None => Ok(None),
        },
        Some(Err(error)) if is_no_folder(&error) => Ok(None),
        Some(Err(error)) => Err(Error::io(path, "listing")(error)),
        None => match Folder::read(&**disk, path)? {
            Some(folder) => Snapshot::of_folder(disk, &folder, limits).map(Some),
            None => Ok(None),
        },
    }
}

/// One session. `None` if there is no folder, or it vanished meanwhile.
fn look(
    disk: &Arc<dyn Disk>,
    near: &mut Near,
    path: &Path,
    limits: Limits,
    caches: &Caches,
) -> Option<Snapshot> {
    let Caches { book, shelf, overviews } = caches;
    let shelf = shelf.as_ref().filter(|_| *overviews);
    let seen = book.as_ref().and_then(|book| Some((book, Seen::look(&**disk, path)?)));
    if let Some((book, seen)) = &seen
        && let Some(mut known) = book.find(disk, path, seen, limits, *overviews)
    {
        if let Some(shelf) = shelf.filter(|_| known.snapshot.states().is_none())
            && let Some(states) = shelf.recall(disk, path, &known.snapshot)
        {
            known.snapshot.set_states(Some(&states));
            book.renew(path, *seen, &known);
        }
        return Some(known.snapshot);
    }
    match look_at(disk, near, path, limits).transpose()? {
        Ok(mut snapshot) => {
            if let Some(shelf) = shelf {
                let states = shelf.recall_or_go_on(disk, path, &snapshot, limits);
                snapshot.set_states(states.as_deref());
            }
            if let Some((book, seen)) = seen {
                book.note(path, seen, &snapshot);
            }
            Some(snapshot)
        }
        // It vanished between the listing and the look.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Snapshot::unreadable(path, error)),
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
    // Hashes are sorted, not names: that no two of a hundred thousand are the same is found in little memory.
    let name = |index: u32| {
        let snapshot = snapshots.get(usize::try_from(index).ok()?).filter(|one| one.size_bytes.is_some())?;
        snapshot.path.parent()?.file_name()
    };
    let hasher = RandomState::new();
    let mut order: Vec<(u32, u32)> = (0_u32..)
        .take(snapshots.len())
        .filter_map(|index| {
            let [a, b, c, d, ..] = hasher.hash_one(name(index)?).to_le_bytes();
            Some((u32::from_le_bytes([a, b, c, d]), index))
        })
        .collect();
    order.sort_unstable();
    let mut twins: Vec<Vec<usize>> = Vec::new();
    for group in order.chunk_by(|(a, _), (b, _)| a == b).filter(|group| group.len() > 1) {
        let mut group: Vec<(&OsStr, usize)> = group
            .iter()
            .filter_map(|&(_, index)| Some((name(index)?, usize::try_from(index).ok()?)))
            .collect();
        group.sort_unstable();
        let same = group.chunk_by(|(a, _), (b, _)| a == b).filter(|group| group.len() > 1);
        twins.extend(same.map(|group| group.iter().map(|&(_, index)| index).collect()));
    }
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

/// Sessions that a thread takes at once, and what so many take at most on a warm disk.
const CHUNK: usize = 16;
const WARM_CHUNK: Duration = Duration::from_micros(60 * 16);

/// What the entries of a project take at most on a warm disk, the first use of everything included.
const WARM_PROJECT: Duration = Duration::from_micros(300);

/// What does `work` to one item after the other.
fn each<T>(work: impl Fn(&mut T) + Sync) -> impl Fn(&mut [T]) + Sync {
    move |items| items.iter_mut().for_each(&work)
}

/// Does `work` to all items, `chunk` of them at a time, on several threads where there are more. `warm`: what a chunk takes at most
/// where nothing waits for a disk, a slow processor included.
///
/// On a warm disk more threads than processors only cost; on a cold one the reads wait, and 8 threads are 3.3 times as fast as
/// one on two cores, 32 are 4.7 times. Each has a decoder and an arena of the allocator, about 150 KiB. The first items tell
/// which it is, and later ones whether more would pay.
fn side_by_side<T: Send>(items: &mut [T], chunk: usize, warm: Duration, work: &(dyn Fn(&mut [T]) + Sync)) {
    const THREADS: usize = 8;
    let chunks_left = items.len().saturating_sub(chunk).div_ceil(chunk);
    let (chunks, added) = (Mutex::new(items.chunks_mut(chunk)), AtomicUsize::new(0));
    // With several threads for each processor, a chunk that only had to wait for one takes so much longer.
    let crowd = Crowd { chunks, work, slow: warm.saturating_mul(4), added };
    let Some(took) = crowd.take() else { return };
    if chunks_left == 0 {
        return;
    }
    let threads = match took > warm {
        true => THREADS,
        false => thread::available_parallelism().map_or(1, usize::from).min(THREADS),
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(chunks_left) {
            scope.spawn(|| crowd.run(scope));
        }
        crowd.run(scope);
    });
}

/// Threads that share items.
struct Crowd<'w, T> {
    chunks: Mutex<ChunksMut<'w, T>>,
    work: &'w (dyn Fn(&mut [T]) + Sync),
    /// A chunk that takes longer waits for the disk.
    slow: Duration,
    /// Threads that were added because of that.
    added: AtomicUsize,
}

impl<T: Send> Crowd<'_, T> {
    /// Does the next chunk; how long it took. `None` if there is none.
    fn take(&self) -> Option<Duration> {
        let items = self.chunks.lock().next()?;
        let began = Instant::now();
        (self.work)(items);
        Some(began.elapsed())
    }

    /// Does chunks until there are none, and gets help where they are slow.
    fn run<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) {
        const ADDED_MAX: usize = 16;
        while let Some(took) = self.take() {
            if took > self.slow && self.added.fetch_add(1, Ordering::Relaxed) < ADDED_MAX {
                scope.spawn(|| self.run(scope));
            }
        }
    }
}
