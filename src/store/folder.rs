//! One session's folder: which of its files is the log.
//!
//! Spec: `format-spec/01-container.md`, "Choosing the file".

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::layout::{
    Beside, classify_beside, is_project_dir_name, parse_log_name, printable, project_dir_name,
    session_dir_name,
};
use crate::container::Encoding;
use crate::container::disk::{Disk, DiskDir, Entry, FileKind};
use crate::error::{Error, Result};
use crate::row::Header;
use crate::units::Generation;

/// The files of one session's folder, sorted into logs and others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// Files with canonical names, the highest generation last.
    pub logs: Vec<LogName>,
    /// Everything else, by name.
    pub beside: Vec<(OsString, Beside)>,
}

/// A file whose name states a generation and an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogName {
    /// Its name in the folder.
    pub name: OsString,
    /// The generation that the name states.
    pub generation: Generation,
    /// The encoding that the name states.
    pub encoding: Encoding,
}

impl Folder {
    /// Reads the folder once. `None` if it is not there, or is no folder.
    ///
    /// # Errors
    /// Whatever else the operating system says.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Self>> {
        Self::of_entries(path, disk.read_dir(path))
    }

    /// As [`Folder::read`], of the folder at `path` that is open.
    pub(super) fn read_open(dir: &dyn DiskDir, path: &Path) -> Result<Option<Self>> {
        Self::of_entries(path, dir.entries())
    }

    fn of_entries(path: &Path, entries: io::Result<Vec<Entry>>) -> Result<Option<Self>> {
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(Error::io(path, "listing")(error)),
        };
        let mut logs: Vec<LogName> = Vec::new();
        let mut beside = Vec::new();
        for entry in entries {
            match parse_log_name(&entry.name) {
                // A link with a log's name is a log that cannot be opened; leaving it out would choose an older one.
                Some((generation, encoding)) if entry.kind != FileKind::Dir => {
                    logs.push(LogName { name: entry.name, generation, encoding });
                }
                _ => {
                    let kind = classify_beside(&entry.name);
                    beside.push((entry.name, kind));
                }
            }
        }
        logs.sort_by_key(|log| (log.generation, log.encoding));
        beside.sort();
        Ok(Some(Self { path: path.to_path_buf(), logs, beside }))
    }

    /// The session's log: the highest generation, never a lower one in its place. `None` if the folder has no log.
    ///
    /// # Errors
    /// [`Error::Layout`] if that generation stands there in two encodings.
    pub fn current(&self) -> Result<Option<&LogName>> {
        let Some((last, rest)) = self.logs.split_last() else { return Ok(None) };
        match rest.last() {
            Some(twin) if twin.generation == last.generation => Err(Error::Layout {
                path: self.path.clone(),
                what: format!(
                    "two files of generation {}, {} and {}; move one away",
                    last.generation,
                    twin.name.display(),
                    last.name.display()
                ),
            }),
            _ => Ok(Some(last)),
        }
    }

    /// Paths of retained older generations, oldest first.
    #[must_use]
    pub fn older(&self) -> Vec<PathBuf> {
        let newest = self.logs.last().map(|log| log.generation);
        let older = self.logs.iter().filter(|log| Some(log.generation) != newest);
        older.map(|log| self.path.join(&log.name)).collect()
    }

    /// Whether the folder stands in what is named like a project of a root. One that does not is nobody's but its caller's.
    #[must_use]
    pub fn is_in_a_project(&self) -> bool {
        self.path.parent().and_then(Path::file_name).is_some_and(is_project_dir_name)
    }

    /// Checks that the folder is the one that the session with `header` belongs in: named after its id, in the project
    /// folder of its working directory. A link that leads there under another name will do.
    ///
    /// # Errors
    /// [`Error::IdentityMismatch`] with both sides.
    pub fn check_place(&self, disk: &dyn Disk, header: &Header) -> Result<()> {
        let log = self.logs.last().map_or_else(|| self.path.clone(), |log| self.path.join(&log.name));
        check_place(disk, &self.path, &log, header)
    }
}

/// As [`Folder::check_place`], for the session with `header` whose log stands in `folder`.
pub(super) fn check_place(disk: &dyn Disk, folder: &Path, log: &Path, header: &Header) -> Result<()> {
    let mismatch = |what: String| Err(Error::IdentityMismatch { path: log.to_path_buf(), what });
    let name = folder.file_name().unwrap_or_default();
    let Some(id_name) = session_dir_name(header.id()) else {
        return mismatch("the header's id is empty".to_owned());
    };
    if name != OsStr::new(&id_name) {
        return mismatch(format!(
            "the folder is {}, but the header's id {} belongs in {id_name}",
            name.display(),
            printable(header.id())
        ));
    }
    let parents = folder.parent().and_then(|project| Some((project, project.file_name()?)));
    let Some(((project, found), expected)) = parents.zip(project_dir_name(header.cwd())) else {
        return Ok(());
    };
    if found == OsStr::new(&expected) {
        return Ok(());
    }
    // One and the same folder may be reached through a link under another name.
    let twin = project.parent().map(|root| root.join(&expected).join(&id_name));
    let inode = |path: &Path| disk.stamp(&path.join(".")).ok().flatten();
    if let (Some(twin), Some(here)) = (twin.as_deref().and_then(inode), inode(folder))
        && twin.is_same_file(&here)
    {
        return Ok(());
    }
    mismatch(format!("it stands in {}, but its working directory belongs in {expected}", found.display()))
}
