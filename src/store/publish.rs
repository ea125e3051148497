//! Making a log appear under its name, whole and durable, or not at all.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "First publication".

use std::io;
use std::path::{Path, PathBuf};

use crate::container::disk::{Disk, DiskFile};
use crate::error::{Error, Result};

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
        synced.map_err(|error| {
            // Not durable, so not published: take the name back, and say so if that fails too.
            match self.disk.remove_file(&self.path) {
                Ok(()) => error,
                Err(second) => {
                    let second = Error::io(&self.path, "taking back")(second);
                    Error::Aggregate(vec![error, second])
                }
            }
        })
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

/// Creates `dir` and what leads to it, private to the user, and syncs the parent of each folder that was made.
///
/// # Errors
/// [`Error::Io`]; a file or a link where a folder must be is one.
pub(crate) fn create_dirs(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut at = dir;
    loop {
        match disk.create_dir(at) {
            Ok(made) => {
                if made {
                    sync_parent(disk, at)?;
                }
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(at);
                at = at.parent().ok_or_else(|| Error::io(dir, "creating")(error))?;
            }
            // Above the folder itself a link may lead the way: a root is where its owner put it.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && at != dir => {
                disk.read_dir(at).map_err(Error::io(at, "creating"))?;
                break;
            }
            Err(error) => return Err(Error::io(at, "creating")(error)),
        }
    }
    for dir in missing.into_iter().rev() {
        disk.create_dir(dir).map_err(Error::io(dir, "creating"))?;
        sync_parent(disk, dir)?;
    }
    Ok(())
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
fn random_hex12() -> io::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().fold(String::with_capacity(12), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
