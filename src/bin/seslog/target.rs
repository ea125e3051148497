//! What a TARGET means: a path to a log file or to a session's folder, an id, or the beginning of one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use seslog::Error;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::layout::{printable, session_dir_name};
use seslog::store::{Folder, LogFile, ReadMode, Snapshot};

use crate::failure::{Failure, quoted};
use crate::out::{clean, clean_path};
use crate::rm::folder_of;
use crate::root::{LIMITS, Root};

/// A session or a log that was asked for.
#[derive(Debug)]
pub(crate) struct Target {
    found: Found,
    by_path: bool,
}

#[derive(Debug)]
enum Found {
    File(PathBuf),
    Folder(Folder),
}

/// More candidates than these are counted and not named.
const CANDIDATES_MAX: usize = 50;

impl Target {
    /// Finds what `target` means.
    ///
    /// A path wins where it looks like one (it has a separator, or is dots) and leads to a file or to a session's folder;
    /// then the whole id; then any path that leads there; then a unique beginning of an id; then the name of a session's
    /// folder in the root. An id is never a pattern.
    ///
    /// # Errors
    /// [`Failure`] for nothing found, for two ids that begin alike, and for an id that is stored twice.
    pub(crate) fn resolve(root: &Root, target: &OsStr) -> Result<Self, Failure> {
        match Self::find(root, target)? {
            Some(found) => Ok(found),
            None => Err(not_found(root, target, looks_like_a_path(target))),
        }
    }

    /// As [`Target::resolve`]; `None` for nothing found.
    ///
    /// # Errors
    /// The others of [`Target::resolve`].
    pub(crate) fn find(root: &Root, target: &OsStr) -> Result<Option<Self>, Failure> {
        let path = Path::new(target);
        let at_path = Self::at_path(root, path)?;
        let is_log = at_path.as_ref().is_some_and(Self::has_log);
        if looks_like_a_path(target) && is_log {
            return Ok(at_path);
        }
        let id = target.to_str().filter(|id| !id.is_empty()).map(Text::from);
        let store = root.store();
        if let Some(id) = &id {
            match store.folder_of(id) {
                Ok(folder) => return Ok(Some(Self::folder(folder))),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(found) = at_path.filter(|_| is_log) {
            return Ok(Some(found));
        }
        if let Some(id) = &id {
            let exact = session_dir_name(id);
            let named = |folder: &Folder, name: Option<&String>| {
                folder.path.file_name().zip(name).is_some_and(|(a, b)| a == OsStr::new(b))
            };
            let mut begun = store.folders_with_prefix(id)?;
            if let Some(at) = begun.iter().position(|folder| named(folder, exact.as_ref())) {
                return Ok(Some(Self::folder(begun.swap_remove(at))));
            }
            if begun.iter().any(|folder| !folder.logs.is_empty()) {
                begun.retain(|folder| !folder.logs.is_empty());
            }
            match begun.len() {
                0 => {}
                1 => return Ok(Some(Self::folder(begun.swap_remove(0)))),
                _ => return Err(ambiguous(root, target, &begun)),
            }
        }
        let by_folder_name =
            store.folders()?.into_iter().find(|folder| folder.path.file_name() == Some(target));
        if let Some(folder) = by_folder_name {
            return Ok(Some(Self::folder(folder)));
        }
        Self::at_path(root, path)
    }

    /// What stands at `path`, if it is a file or a folder.
    fn at_path(root: &Root, path: &Path) -> Result<Option<Self>, Failure> {
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        if let Ok(Some(folder)) = Folder::read(&**root.disk(), path) {
            return Ok(Some(Self { found: Found::Folder(folder), by_path: true }));
        }
        // A link is found here and refused when it is opened.
        let stamp = root.disk().stamp(path).unwrap_or(None);
        Ok(stamp.map(|_| Self { found: Found::File(path.to_path_buf()), by_path: true }))
    }

    /// A session of a listing of `root`.
    ///
    /// # Errors
    /// [`Failure`] if it is not there any more.
    pub(crate) fn of_snapshot(root: &Root, session: &Snapshot) -> Result<Self, Failure> {
        let path = folder_of(session);
        let folder = Folder::read(&**root.disk(), &path)?;
        let gone = || {
            Failure::new(format!("{}: the session is gone", path.display()), "somebody deleted it; try again")
        };
        folder.map(Self::folder).ok_or_else(gone)
    }

    fn folder(folder: Folder) -> Self {
        Self { found: Found::Folder(folder), by_path: false }
    }

    fn has_log(&self) -> bool {
        match &self.found {
            Found::File(_) => true,
            Found::Folder(folder) => !folder.logs.is_empty(),
        }
    }

    /// Whether it was named by a path.
    pub(crate) const fn is_by_path(&self) -> bool {
        self.by_path
    }

    /// The session's folder, unless a file was named.
    pub(crate) const fn session_folder(&self) -> Option<&Folder> {
        match &self.found {
            Found::Folder(folder) => Some(folder),
            Found::File(_) => None,
        }
    }

    /// Path of the log: the file that was named, or the highest generation in the folder.
    ///
    /// # Errors
    /// [`Failure`] if the folder holds none, or two of one generation.
    pub(crate) fn log_path(&self) -> Result<PathBuf, Failure> {
        let folder = match &self.found {
            Found::File(path) => return Ok(path.clone()),
            Found::Folder(folder) => folder,
        };
        match folder.current()? {
            Some(log) => Ok(folder.path.join(&log.name)),
            None => Err(Failure::new(
                format!("{}: the folder holds no log that can be read", folder.path.display()),
                format!("`seslog verify {}` lists what is in it", quoted(&folder.path)),
            )),
        }
    }

    /// Opens the log.
    ///
    /// # Errors
    /// As [`Target::log_path`], and what opening gives.
    pub(crate) fn open(&self, root: &Root) -> Result<LogFile, Failure> {
        Ok(LogFile::open(root.disk(), &self.log_path()?, LIMITS, ReadMode::Map)?)
    }

    /// Checks that a log that was found by its place stands where its header says. A file that was named is what it is.
    ///
    /// # Errors
    /// [`Error::IdentityMismatch`].
    pub(crate) fn check_place(&self, root: &Root, header: &Header) -> Result<(), Error> {
        match &self.found {
            Found::Folder(folder) if !self.by_path || folder.is_in_a_project() => {
                folder.check_place(&**root.disk(), header)
            }
            _ => Ok(()),
        }
    }

    /// What the two ends of the log say.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn snapshot(&self, root: &Root) -> Result<Snapshot, Failure> {
        let disk = root.disk();
        match &self.found {
            Found::File(path) => Ok(Snapshot::of_log(disk, path, LIMITS)?),
            Found::Folder(folder) if !self.by_path || folder.is_in_a_project() => {
                Ok(Snapshot::of_folder(disk, folder, LIMITS)?)
            }
            Found::Folder(folder) => match folder.current() {
                // A folder outside a root may have any name.
                Ok(Some(log)) => {
                    let mut snapshot = Snapshot::of_log(disk, &folder.path.join(&log.name), LIMITS)?;
                    snapshot.older = folder.older();
                    Ok(snapshot)
                }
                _ => Ok(Snapshot::of_folder(disk, folder, LIMITS)?),
            },
        }
    }
}

/// Whether `target` is more likely a path than an id.
pub(crate) fn looks_like_a_path(target: &OsStr) -> bool {
    let bytes = target.as_encoded_bytes();
    bytes.contains(&b'/') || matches!(bytes, b"." | b"..")
}

fn ambiguous(root: &Root, target: &OsStr, folders: &[Folder]) -> Failure {
    let target = target.to_string_lossy();
    let mut details: Vec<String> =
        folders.iter().take(CANDIDATES_MAX).map(|folder| candidate(root, folder)).collect();
    if folders.len() > CANDIDATES_MAX {
        details.push(format!("and {} more", folders.len().saturating_sub(CANDIDATES_MAX)));
    }
    Failure::Other {
        what: format!("{} session ids begin with \"{}\"", folders.len(), clean(&target)),
        details,
        cause: None,
        next: "give more of the id, or the path of the session's folder".to_owned(),
    }
}

fn candidate(root: &Root, folder: &Folder) -> String {
    let id = folder.current().ok().flatten().and_then(|log| {
        let log = LogFile::open(root.disk(), &folder.path.join(&log.name), LIMITS, ReadMode::Read).ok()?;
        let header = Header::parse(&log.header_line().ok()?, &LIMITS).ok()?;
        Some(printable(header.id()))
    });
    let path = clean_path(&folder.path);
    id.map_or_else(|| path.clone(), |id| format!("{id}  ({path})"))
}

fn not_found(root: &Root, target: &OsStr, looks_like_a_path: bool) -> Failure {
    let target = target.to_string_lossy();
    let place = root.path().display();
    let what = if looks_like_a_path {
        format!("{target}: there is no such file or folder, and no session of that id in {place}")
    } else {
        format!("no session id in {place} begins with \"{target}\", and no file has that name")
    };
    Failure::new(
        what,
        format!("`seslog ls {}` lists the sessions; --root names another root", quoted(root.path())),
    )
}
