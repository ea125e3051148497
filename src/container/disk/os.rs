//! The operating system's file system.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, Disk, DiskFile, Entry, FileKind, LockAttempt, LockOwner, Map, Stamp, lock};
use crate::container::raw;

/// The real file system.
///
/// A map made through [`OsDisk::new`] installs a SIGBUS handler once in the process, so that a file which shrinks
/// under a reader gives an error. A host that wants no handler takes [`OsDisk::without_maps`]; nothing else differs.
#[derive(Clone, Copy, Debug)]
pub struct OsDisk {
    maps: bool,
}

impl OsDisk {
    /// The file system, read through maps where that is faster.
    #[must_use]
    pub const fn new() -> Self {
        Self { maps: true }
    }

    /// The file system, read with `pread` only: no map, no signal handler.
    #[must_use]
    pub const fn without_maps() -> Self {
        Self { maps: false }
    }
}

impl Default for OsDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Append => OFlags::RDWR | OFlags::APPEND,
            Access::Repair => OFlags::RDWR,
        };
        let file = open_regular(path, how)?;
        Ok(Box::new(OsFile { file, access, maps: self.maps }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let how = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let file = File::from(rustix::fs::open(path, how | SAFE, private_file())?);
        // The umask can only have taken bits away. One that took the owner's would make a log that its writer cannot
        // open again.
        if let Err(error) = rustix::fs::fchmod(&file, private_file()) {
            // Best effort: the file is ours, empty, and useless.
            let _removed = fs::remove_file(path);
            return Err(error.into());
        }
        Ok(Box::new(OsFile { file, access: Access::Append, maps: self.maps }))
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(stamp_of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(kind) => kind_of(kind),
                // Where the directory does not tell the kind, it takes a second look, and the entry may be gone by then.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            entries.push(Entry { name: entry.file_name(), kind });
        }
        Ok(entries)
    }

    fn create_dir(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => match fs::symlink_metadata(path)?.is_dir() {
                true => Ok(false),
                false => Err(Errno::NOTDIR.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // No AT_SYMLINK_FOLLOW: a link planted at `from` would be linked itself, and is refused when it is opened.
        Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlink(path)?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::rmdir(path)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, how, Mode::empty())?).sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<LockAttempt> {
        lock::take(path)
    }

    fn lock_owner(&self, path: &Path) -> io::Result<Option<LockOwner>> {
        lock::read_owner(path)
    }
}

/// Opens what must be a regular file. `NONBLOCK` keeps a planted pipe from hanging the open; it means nothing to
/// regular files.
fn open_regular(path: &Path, how: OFlags) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, how | OFlags::NONBLOCK | SAFE, Mode::empty())?);
    require_regular(&file)?;
    Ok(file)
}

/// Refuses a descriptor of anything but a regular file.
pub(super) fn require_regular(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Flags of every open: no link followed in the last component, no terminal taken, not inherited by programs.
pub(super) const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Mode 0600: logs hold secrets.
pub(super) const fn private_file() -> Mode {
    Mode::RUSR.union(Mode::WUSR)
}

/// What the system says about a file or a name.
pub(super) fn stamp_of(metadata: &Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        kind: kind_of(metadata.file_type()),
        mode: metadata.mode() & 0o7777,
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    // Cannot overflow: 2^63 * 10^9 is below 2^93.
    i128::from(seconds).saturating_mul(1_000_000_000).saturating_add(i128::from(rest))
}

fn kind_of(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Dir
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

#[derive(Debug)]
struct OsFile {
    file: File,
    access: Access,
    maps: bool,
}

impl DiskFile for OsFile {
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(stamp_of(&self.file.metadata()?))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::pread(&self.file, &mut *buf, offset) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.access == Access::Repair {
            // Without O_APPEND the bytes would land at the descriptor's own position: the start of the log.
            return Err(wrong_access("append to a file opened for repair"));
        }
        loop {
            match rustix::io::write(&self.file, bytes) {
                // A write that a signal cut short after its first byte returns a count, never this.
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.access != Access::Repair {
            return Err(wrong_access("write inside a file not opened for repair"));
        }
        let mut offset = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = match rustix::io::pwrite(&self.file, rest, offset) {
                Err(Errno::INTR) => continue,
                done => done?,
            };
            match rest.split_at_checked(n) {
                Some((_, tail)) if n > 0 => rest = tail,
                _ => return Err(io::ErrorKind::WriteZero.into()),
            }
            offset = offset.saturating_add(n as u64);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn map(&self, len: u64) -> io::Result<Option<Map>> {
        if !self.maps {
            return Ok(None);
        }
        raw::map::map_file(&self.file, len)
    }
}

fn wrong_access(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
