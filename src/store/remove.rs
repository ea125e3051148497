//! Deleting a session.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Deletion".

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use super::handle::take_lock_in;
use super::layout::{Beside, LOCK_NAME, classify_beside, parse_log_name};
use crate::container::disk::{Disk, DiskLock, FileKind, Stamp};
use crate::error::{Error, Result};

/// What a deletion removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The session's folder.
    pub folder: PathBuf,
    /// Files that were removed: logs of all generations, torn ends set aside, left-overs.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Names of files that are none of ours. If there are any, they and the folder stay.
    pub kept: Vec<OsString>,
}

/// Deletes the session in `folder`: all generations of its log, the torn ends that were set aside, and the folder.
///
/// A crash leaves the whole session or none: the current log goes last, once the end of all older ones is durable, so that
/// no older generation takes its place. A project's folder that holds no other session goes too. With `dry_run` nothing
/// is touched, and the answer says what would be.
///
/// # Errors
/// [`Error::NotFound`] if there is no session; [`Error::AlreadyOwned`] while somebody writes it; [`Error::Layout`] if the
/// folder is a link; [`Error::Io`]: files that were not removed yet stay, and the deletion can be repeated.
pub fn remove(disk: &dyn Disk, folder: &Path, dry_run: bool) -> Result<Removed> {
    remove_if(disk, folder, dry_run, &|_| Ok(()))
}

/// Deletes the session in `folder` as [`remove`] does, if its logs and the torn ends set aside are what `seen` says: each
/// there, no other, and none changed since its stamp was taken. For whoever has put them somewhere else first.
///
/// # Errors
/// [`Error::Foreign`] for a file that is not as it was seen, judged under the write lock: nothing was removed. Those of [`remove`].
pub fn remove_unchanged(disk: &dyn Disk, folder: &Path, seen: &[(OsString, Stamp)]) -> Result<Removed> {
    remove_if(disk, folder, false, &|files| files.check_unchanged(disk, folder, seen))
}

fn remove_if(
    disk: &dyn Disk,
    folder: &Path,
    dry_run: bool,
    check: &dyn Fn(&Files) -> Result<()>,
) -> Result<Removed> {
    let shown = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let not_found = || Error::NotFound { id: shown.clone() };
    match disk.stamp(folder).map_err(Error::io(folder, "looking at"))?.map(|stamp| stamp.kind) {
        Some(FileKind::Dir) => {}
        Some(FileKind::Symlink) => {
            let what = "a link to a session's folder is not followed; name the folder itself".to_owned();
            return Err(Error::Layout { path: folder.to_path_buf(), what });
        }
        _ => return Err(not_found()),
    }
    let seen = Files::of(disk, folder)?.filter(|files| !files.is_nothing_of_ours()).ok_or_else(not_found)?;
    if dry_run {
        return Ok(seen.removed(folder));
    }
    let lock = take_lock_in(disk, folder, &shown)?;
    // Read again under the lock: a successor may have been published since.
    let removed = Files::of(disk, folder).and_then(|files| {
        let files = files.ok_or_else(not_found)?;
        check(&files)?;
        files.remove(disk, folder, lock)
    });
    removed.map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => not_found(),
        error => error,
    })
}

/// The files of a session in the order in which they go.
struct Files {
    first: Vec<(OsString, u64)>,
    current: Vec<(OsString, u64)>,
    has_lock: bool,
    kept: Vec<OsString>,
}

impl Files {
    fn of(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>> {
        let Some(read) = Folder::read(disk, folder)? else { return Ok(None) };
        let sized = |name: &OsString| -> Result<(OsString, u64)> {
            let path = folder.join(name);
            let stamp = disk.stamp(&path).map_err(Error::io(&path, "looking at"))?;
            Ok((name.clone(), stamp.map_or(0, |stamp| stamp.size)))
        };
        let newest = read.logs.last().map(|log| log.generation);
        let (mut first, mut current) = (Vec::new(), Vec::new());
        for log in &read.logs {
            if Some(log.generation) == newest { &mut current } else { &mut first }.push(sized(&log.name)?);
        }
        let (mut has_lock, mut kept) = (false, Vec::new());
        for (name, kind) in &read.beside {
            match kind {
                Beside::Lock => has_lock = true,
                Beside::Temporary | Beside::SetAside => first.push(sized(name)?),
                Beside::Stray => kept.push(name.clone()),
            }
        }
        Ok(Some(Self { first, current, has_lock, kept }))
    }

    /// A folder that holds other things, or nothing at all without even having been a session's.
    fn is_nothing_of_ours(&self) -> bool {
        self.first.is_empty() && self.current.is_empty() && !(self.has_lock && self.kept.is_empty())
    }

    fn check_unchanged(&self, disk: &dyn Disk, folder: &Path, seen: &[(OsString, Stamp)]) -> Result<()> {
        let foreign = |name: &OsString, what: &str| {
            Err(Error::Foreign { path: folder.join(name), what: what.to_owned() })
        };
        let mut held = seen.len();
        for (name, _) in self.first.iter().chain(&self.current) {
            // What an interrupted publication left behind is no part of the session.
            if parse_log_name(name).is_none() && classify_beside(name) == Beside::Temporary {
                continue;
            }
            let path = folder.join(name);
            let stamp = disk.stamp(&path).map_err(Error::io(&path, "looking at"))?;
            match seen.iter().find(|(other, _)| other == name) {
                None => return foreign(name, "it was not there before"),
                Some((_, before)) if Some(*before) != stamp => {
                    return foreign(name, "it was written meanwhile");
                }
                Some(_) => held = held.saturating_sub(1),
            }
        }
        match seen.first() {
            Some((name, _)) if held > 0 => foreign(name, "files that were beside it are gone"),
            _ => Ok(()),
        }
    }

    fn removed(self, folder: &Path) -> Removed {
        let all = || self.first.iter().chain(&self.current);
        let bytes = all().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
        Removed { folder: folder.to_path_buf(), files: all().count() as u64, bytes, kept: self.kept }
    }

    fn remove(self, disk: &dyn Disk, folder: &Path, lock: Box<dyn DiskLock>) -> Result<Removed> {
        let sync = |dir: &Path| disk.sync_dir(dir).map_err(Error::io(dir, "syncing"));
        let unlink = |name: &OsString| {
            let path = folder.join(name);
            disk.remove_file(&path).map_err(Error::io(&path, "removing"))
        };
        self.first.iter().try_for_each(|(name, _)| unlink(name))?;
        if !self.first.is_empty() {
            sync(folder)?;
        }
        self.current.iter().try_for_each(|(name, _)| unlink(name))?;
        // Under the lock, so that whoever waits for it finds that its file lost the name, and looks again.
        unlink(&OsString::from(LOCK_NAME))?;
        if self.kept.is_empty() {
            disk.remove_dir(folder).map_err(Error::io(folder, "removing"))?;
        } else {
            sync(folder)?;
        }
        let released = lock.release().map_err(Error::io(folder.join(LOCK_NAME), "releasing"));
        if let (true, Some(project)) =
            (self.kept.is_empty(), folder.parent().filter(|dir| !dir.as_os_str().is_empty()))
        {
            sync(project)?;
            // It stays while it holds another session. Not synced: an empty one that comes back is no session.
            let _ = disk.remove_dir(project);
        }
        released?;
        Ok(self.removed(folder))
    }
}
