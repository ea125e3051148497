//! Where a followed log is looked for.

use std::path::{Path, PathBuf};

use crate::container::disk::{Disk, FileKind};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::store::folder::Folder;
use crate::store::layout::{parse_log_name, printable, session_dir_name};
use crate::store::store::FileStore;

/// Where a followed log is looked for.
#[derive(Debug)]
pub(super) enum FollowPlace {
    /// A file by itself.
    File(PathBuf),
    /// The log of a session's folder.
    Folder(PathBuf),
    /// A session, wherever it stands in the root.
    Session {
        /// The root's store.
        store: Box<FileStore>,
        /// The session.
        id: Text,
        /// Where it stood last.
        folder: Option<PathBuf>,
    },
}

impl FollowPlace {
    /// The place that `path` means.
    pub(super) fn at(disk: &dyn Disk, path: &Path) -> Self {
        let kind = disk.stamp(path).ok().flatten().map(|stamp| stamp.kind);
        let is_log = path.file_name().and_then(parse_log_name).is_some() && kind != Some(FileKind::Dir);
        match (is_log, kind) {
            (true, _) => Self::Folder(parent_of(path).to_path_buf()),
            (false, Some(FileKind::File)) => Self::File(path.to_path_buf()),
            _ => Self::Folder(path.to_path_buf()),
        }
    }

    /// The session `id` of the root of `store`.
    pub(super) fn session(store: FileStore, id: Text) -> Self {
        Self::Session { store: Box::new(store), id, folder: None }
    }

    /// The log as it stands now; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Layout`], [`Error::DuplicateId`], [`Error::Io`].
    pub(super) fn locate(&mut self, disk: &dyn Disk) -> Result<Option<PathBuf>> {
        match self {
            Self::File(path) => Ok(Some(path.clone())),
            Self::Folder(path) => log_in(disk, path),
            Self::Session { store, id, folder } => {
                if let Some(known) = folder
                    && let Some(log) = log_in(disk, known)?
                {
                    return Ok(Some(log));
                }
                *folder = match store.folder_of(id) {
                    Ok(found) => Some(found.path),
                    Err(Error::NotFound { .. }) => None,
                    Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
                    Err(error) => return Err(error),
                };
                folder.as_ref().map_or(Ok(None), |folder| log_in(disk, folder))
            }
        }
    }

    /// Checks that the log at `path`, whose header names `id`, is the one that is looked for.
    ///
    /// # Errors
    /// [`Error::IdentityMismatch`].
    pub(super) fn check(&self, path: &Path, id: &Text) -> Result<()> {
        match self {
            Self::Session { id: wanted, .. } if wanted != id => Err(Error::IdentityMismatch {
                path: path.to_path_buf(),
                what: format!(
                    "session {} is followed, the header's id is {}",
                    printable(wanted),
                    printable(id)
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Folders to watch: of each place the nearest folder that exists, and the one above, which tells when it is replaced.
    pub(super) fn watched(&self, disk: &dyn Disk) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        match self {
            Self::File(path) => push_near(disk, parent_of(path), &mut folders),
            Self::Folder(path) | Self::Session { folder: Some(path), .. } => {
                push_near(disk, path, &mut folders);
                push_near(disk, parent_of(path), &mut folders);
            }
            Self::Session { store, id, folder: None } => {
                let root = store.root();
                push_near(disk, root, &mut folders);
                let name = session_dir_name(id).unwrap_or_default();
                for entry in disk.read_dir(root).unwrap_or_default() {
                    push_near(disk, &root.join(entry.name).join(&name), &mut folders);
                }
            }
        }
        folders
    }
}

fn log_in(disk: &dyn Disk, folder: &Path) -> Result<Option<PathBuf>> {
    let Some(folder) = Folder::read(disk, folder)? else { return Ok(None) };
    Ok(folder.current()?.map(|log| folder.path.join(&log.name)))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Adds the nearest folder at or above `path` that exists.
fn push_near(disk: &dyn Disk, path: &Path, folders: &mut Vec<PathBuf>) {
    let is_folder = |path: &&Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        disk.stamp(&path.join(".")).ok().flatten().is_some_and(|stamp| stamp.kind == FileKind::Dir)
    };
    let near = path.ancestors().find(is_folder).filter(|path| !path.as_os_str().is_empty());
    let near = near.unwrap_or(Path::new(".")).to_path_buf();
    if !folders.contains(&near) {
        folders.push(near);
    }
}
