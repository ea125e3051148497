//! Files of the peers that keep one a session.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Sync;
use crate::Result;

/// A file that grows by whole batches.
#[derive(Debug)]
pub struct Growing {
    file: File,
    sync: Sync,
}

impl Growing {
    pub fn create(path: &Path, sync: Sync) -> Result<Self> {
        Ok(Self { file: File::options().create_new(true).append(true).open(path)?, sync })
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes)?;
        if self.sync == Sync::Batch { self.sync() } else { Ok(()) }
    }

    pub fn sync(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }
}

/// The files of a folder.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    Ok(entries.collect::<std::io::Result<_>>()?)
}

/// Maps a file that nobody changes while a measurement runs.
pub fn map(path: &Path) -> Result<memmap2::Mmap> {
    let file = File::open(path)?;
    // SAFETY: the files are written before they are measured, and only this program knows them.
    Ok(unsafe { memmap2::Mmap::map(&file)? })
}
