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
    /// The log of the session's folder there, or the file there by itself.
    Path(PathBuf),
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
            Self::Path(path) => log_at(disk, path),
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
            Self::Path(path) | Self::Session { folder: Some(path), .. } => {
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

/// The log that `path` means. A file with a log's name stands for its folder, where a successor may come up.
fn log_at(disk: &dyn Disk, path: &Path) -> Result<Option<PathBuf>> {
    let kind = disk.stamp(path).map_err(Error::io(path, "looking at"))?.map(|stamp| stamp.kind);
    let is_log_name = path.file_name().and_then(parse_log_name).is_some();
    match kind {
        Some(FileKind::Dir) => log_in(disk, path),
        _ if is_log_name => log_in(disk, parent_of(path)),
        None => Ok(None),
        Some(FileKind::File) => Ok(Some(path.to_path_buf())),
        // A link to a folder; one to a file is refused when it is opened.
        Some(_) => Ok(log_in(disk, path)?.or_else(|| Some(path.to_path_buf()))),
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
