//! The entries of a directory, in as few calls as the system allows: a listing reads one small folder a session.

use std::io;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::{Mode, OFlags};
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::path::Arg;

use super::Entry;

/// The entries of the directory at `path`, a link there followed.
///
/// # Errors
/// Whatever the system says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn entries(path: &Path) -> io::Result<Vec<Entry>> {
    entries_of(&open_at(rustix::fs::CWD, path)?)
}

/// The directory at `path` below `at`, a link there followed.
///
/// # Errors
/// Whatever the system says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_at(at: impl AsFd, path: impl Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, how, Mode::empty())?)
}

/// The entries of an open directory that was not read yet.
///
/// # Errors
/// Whatever the system says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn entries_of(dir: &OwnedFd) -> io::Result<Vec<Entry>> {
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{AtFlags, FileType, RawDir, statat};
    use rustix::io::Errno;

    use super::FileKind;

    /// Room for what one call returns: about two hundred names, and little enough for any stack.
    const BUFFER_LEN: usize = 8 << 10;

    let kind_of = |kind| match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            entry => entry?,
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
                // The directory does not tell the kind, and the entry is gone by the second look.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            },
            known => kind_of(known),
        };
        entries.push(Entry { name: OsStr::from_bytes(name.to_bytes()).to_owned(), kind });
    }
    Ok(entries)
}

/// The entries of the directory at `path`, a link there followed.
///
/// # Errors
/// Whatever the system says.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn entries(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) => super::os::kind_of(kind),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        entries.push(Entry { name: entry.file_name(), kind });
    }
    Ok(entries)
}
