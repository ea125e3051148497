//! One session's folder: which of its files is the log.
//!
//! Spec: `format-spec/01-container.md`, "Choosing the file".

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::layout::{Beside, classify_beside, parse_log_name};
use crate::container::Encoding;
use crate::container::disk::{Disk, FileKind};
use crate::error::{Error, Result};
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
        let entries = match disk.read_dir(path) {
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
}
