//! Making a log appear under its name, whole and durable, or not at all.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "First publication".

use std::io;
use std::path::{Path, PathBuf};

use crate::container::disk::{Disk, DiskFile, FileKind, Stamp};
use crate::error::{Error, Result};

/// Folders that a publication syncs: the session's, the project's and the root.
pub(crate) const FOLDERS_SYNCED: usize = 3;

/// A file that is written under a temporary name and then published under its own, never replacing anything.
///
/// Dropped before [`Draft::publish`], it leaves nothing but, at worst, a temporary file that no listing takes for a log.
#[derive(Debug)]
pub(crate) struct Draft<'d> {
    disk: &'d dyn Disk,
    dir: PathBuf,
    temporary: PathBuf,
    path: PathBuf,
    file: Option<Box<dyn DiskFile>>,
}

impl<'d> Draft<'d> {
    /// Creates the temporary file in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn create(disk: &'d dyn Disk, dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(name);
        loop {
            let temporary = dir.join(format!(
                "{name}.{}.tmp",
                random_hex12().map_err(Error::io(&path, "naming a draft of"))?
            ));
            match disk.create_new(&temporary) {
                Ok(file) => {
                    return Ok(Self { disk, dir: dir.to_path_buf(), temporary, path, file: Some(file) });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(&temporary, "creating")(error)),
            }
        }
    }

    /// Path under which the file will appear.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Path under which it stands until then.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        self.file().append_all(bytes).map_err(Error::io(&self.temporary, "writing"))
    }

    /// The open file.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        self.file.as_deref().expect("a draft has its file until it is published")
    }

    /// Syncs the file, gives it its name, and syncs the folders `above` that lead to it, innermost first.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]-like conflicts come as [`Error::Io`] of kind `AlreadyExists`. On every error nothing is
    /// published, or the name was taken back.
    pub(crate) fn publish(mut self, above: &[&Path]) -> Result<Box<dyn DiskFile>> {
        let file = self.file.take().expect("a draft has its file until it is published");
        let outcome = self.name_and_sync(&*file, above);
        // Best effort: a temporary that stays is listed as a left-over and taken for nothing else.
        let _ = self.disk.remove_file(&self.temporary);
        outcome.map(|()| file)
    }

    /// Syncs the file, and renames it over the one at its name, which `old` describes; then syncs the folder.
    ///
    /// # Errors
    /// [`Error::Foreign`] if what has the name is not as `old` says: nothing is replaced then. [`Error::Io`]; of the folder's
    /// sync it says that either file may have the name after a crash.
    pub(crate) fn replace(mut self, old: &Stamp) -> Result<Box<dyn DiskFile>> {
        let file = self.file.take().expect("a draft has its file until it is published");
        let renamed = self.rename_over(&*file, old);
        if renamed.is_err() {
            // Best effort, as in `publish`; behind a rename nothing has this name any more.
            let _ = self.disk.remove_file(&self.temporary);
        }
        renamed.map(|()| file)
    }

    fn rename_over(&self, file: &dyn DiskFile, old: &Stamp) -> Result<()> {
        file.sync_all().map_err(Error::io(&self.temporary, "syncing"))?;
        let now = self.disk.stamp(&self.path).map_err(Error::io(&self.path, "looking at"))?;
        if now.as_ref() != Some(old) {
            let what = "it changed while it was being copied; nothing was replaced".to_owned();
            return Err(Error::Foreign { path: self.path.clone(), what });
        }
        self.disk.rename(&self.temporary, &self.path).map_err(Error::io(&self.path, "replacing"))?;
        self.disk.sync_dir(&self.dir).map_err(Error::io(&self.dir, "syncing"))
    }

    fn name_and_sync(&self, file: &dyn DiskFile, above: &[&Path]) -> Result<()> {
        file.sync_all().map_err(Error::io(&self.temporary, "syncing"))?;
        match self.disk.link(&self.temporary, &self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.is_ours(file) => {}
            Err(error) => return Err(Error::io(&self.path, "publishing")(error)),
        }
        let dirs = [self.dir.as_path()];
        let synced = dirs
            .iter()
            .chain(above)
            .try_for_each(|dir| self.disk.sync_dir(dir).map_err(Error::io(*dir, "syncing")));
        synced.map_err(|error| match self.take_back(file) {
            Ok(()) => error,
            Err(second) => Error::Aggregate(vec![error, second]),
        })
    }

    /// Takes a name away that is not known to be durable, if it still is this file's: what did not become durable was not
    /// published.
    fn take_back(&self, file: &dyn DiskFile) -> Result<()> {
        if self.is_ours(file) {
            self.disk.remove_file(&self.path).map_err(Error::io(&self.path, "taking back"))?;
            // Best effort, in a folder that could not be synced just now: the name may have landed, and its end should.
            let _ = self.disk.sync_dir(&self.dir);
        }
        Ok(())
    }

    /// Whether the name already stands for this very file: a link that was made and whose success got lost.
    fn is_ours(&self, file: &dyn DiskFile) -> bool {
        match (self.disk.stamp(&self.path), file.stamp()) {
            (Ok(Some(named)), Ok(open)) => named.is_same_file(&open),
            _ => false,
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.disk.remove_file(&self.temporary);
        }
    }
}

/// Creates `dir`, a session's folder, and what leads to it, private to the user, and makes the names of what it creates
/// durable.
///
/// Before a folder is made in one that was there already, the name of that one is made durable too: whoever made it may have
/// died before doing so. Everybody does this, so names further up are durable. Only the session's and the project's
/// folder are left to the publication, which syncs what holds them in any case.
///
/// # Errors
/// [`Error::Io`]; a file or a link where a folder must be is one.
pub(crate) fn create_dirs(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut at = dir;
    while !is_folder(disk, at, at != dir)? {
        missing.push(at);
        at = match at.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
    }
    if missing.len() > 1 {
        match sync_parent(disk, at) {
            // A root may stand in a folder that its owner cannot even list.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    for dir in missing.into_iter().rev() {
        disk.create_dir(dir).map_err(Error::io(dir, "creating"))?;
        sync_parent(disk, dir)?;
    }
    Ok(())
}

/// Whether a folder is at `path`. Above the session's own a link may lead the way: a root is where its owner put it.
fn is_folder(disk: &dyn Disk, path: &Path, may_be_link: bool) -> Result<bool> {
    match disk.stamp(path).map_err(Error::io(path, "looking at"))?.map(|stamp| stamp.kind) {
        None => Ok(false),
        Some(FileKind::Dir) => Ok(true),
        Some(FileKind::Symlink) if may_be_link => {
            disk.read_dir(path).map_err(Error::io(path, "creating")).map(|_| true)
        }
        Some(_) => Err(Error::io(path, "creating")(io::ErrorKind::NotADirectory.into())),
    }
}

fn sync_parent(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => return Ok(()),
    };
    disk.sync_dir(parent).map_err(Error::io(parent, "syncing"))
}

/// Twelve random lower-case hexadecimal digits.
pub(super) fn random_hex12() -> io::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().fold(String::with_capacity(12), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
