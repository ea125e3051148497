//! What lies in a folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::Result;

/// Files of a store and what they take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub files: u64,
    pub bytes: u64,
    /// Bytes of the blocks that the file system gave them.
    pub allocated: u64,
}

/// All files below `folder`.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { &mut folders } else { &mut found }.push(entry.path());
        }
    }
    Ok(found)
}

pub fn size(folder: &Path) -> Result<Size> {
    let mut size = Size::default();
    for path in files(folder)? {
        let found = fs::metadata(path)?;
        // Lock files have no content and are not what is compared.
        if found.len() > 0 && !found.is_dir() {
            size.files += 1;
            size.bytes += found.len();
            size.allocated += found.blocks() * 512;
        }
    }
    Ok(size)
}

pub fn largest_file(folder: &Path) -> Result<PathBuf> {
    let sized = files(folder)?.into_iter().filter_map(|path| Some((fs::metadata(&path).ok()?.len(), path)));
    Ok(sized.max().ok_or("an empty folder")?.1)
}
