//! The file system as this crate uses it: one trait for names, one for open files, and a lock.
//!
//! Everything above this module reaches files through `&dyn Disk`. [`OsDisk`] is the real one; with the feature
//! `fault`, `FaultDisk` keeps a live and a durable image apart and loses, tears and refuses on request. A host may
//! bring its own.
//!
//! Two rules hold for every implementation. No call follows a symbolic link in the *last* component of a path that
//! it opens, creates, links, renames or removes; only those that look into a directory or sync it do, because the
//! folder that a person names as a root may be a link. And what is written is durable only after a sync that
//! returned `Ok`: of the file for its bytes and length, of the directory for its names.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod dir;
#[cfg(any(test, feature = "fault"))]
pub mod fault;
mod list;
mod lock;
mod os;

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub use super::raw::map::{Advice, Map};
pub use lock::LockOwner;
pub use os::OsDisk;

/// A file system: names, directories and locks. Paths are taken as given, absolute or relative.
///
/// Errors are [`io::Error`] with the system's own number where there is one; the path is not in them.
pub trait Disk: Send + Sync + Debug {
    /// Opens an existing regular file. A symbolic link there, or anything else that is no regular file, is an error.
    ///
    /// # Errors
    /// `NotFound` if nothing is there; `ELOOP` if it is a symbolic link; `InvalidInput`, or `IsADirectory` for writing, if it
    /// is anything else that is no regular file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;

    /// [`Disk::open`] and [`DiskFile::stamp`] in one, where a disk looks at what it opens anyway.
    ///
    /// # Errors
    /// Those of both.
    fn open_stamped(&self, path: &Path, access: Access) -> io::Result<(Box<dyn DiskFile>, Stamp)> {
        let file = self.open(path, access)?;
        let stamp = file.stamp()?;
        Ok((file, stamp))
    }

    /// Creates a file that did not exist, for appending and reading, with mode 0600 whatever the umask.
    ///
    /// # Errors
    /// `AlreadyExists` if anything has that name, a dangling link included.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// What is at `path` now, links not followed; `None` if nothing is.
    ///
    /// # Errors
    /// Whatever the system says, except that nothing is there.
    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>>;

    /// The time by the clock that stamps what is changed on this disk, in nanoseconds since the Unix epoch. What was changed
    /// long before it has got its final stamp.
    fn now_ns(&self) -> i128 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
    }

    /// Tells one start of the machine from the next: what was not synced before may be gone behind it, from files that look as they
    /// did. The same number where nothing tells.
    fn boot(&self) -> u64 {
        0
    }

    /// The entries of a directory, in no order, without `.` and `..`. Follows a link in the last component.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `NotADirectory` if it is something else.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Opens a directory, to look at what is in it without walking its path again each time. Follows a link in the last component.
    /// `None` where that cannot be had; then paths do.
    ///
    /// # Errors
    /// As [`Disk::read_dir`].
    fn open_dir(&self, path: &Path) -> io::Result<Option<Box<dyn DiskDir>>> {
        let _ = path;
        Ok(None)
    }

    /// Creates a directory with mode 0700 (less the umask). `true`: made now; `false`: a directory was there.
    ///
    /// # Errors
    /// `NotADirectory` if something else has that name, a link to a directory included; `NotFound` without a parent.
    fn create_dir(&self, path: &Path) -> io::Result<bool>;

    /// Gives the file at `from` a second name `to`, never replacing anything: publication.
    ///
    /// # Errors
    /// `AlreadyExists` if anything has the name `to`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames `from` to `to` in one step. A file there is replaced.
    ///
    /// # Errors
    /// Whatever the system says; nothing is changed then.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name that is not a directory.
    ///
    /// # Errors
    /// `NotFound` if nothing is there.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound` if nothing is there, `DirectoryNotEmpty` if it has entries.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable. Follows a link in the last component.
    ///
    /// # Errors
    /// If it fails, no name made or removed since the last success may be trusted to survive.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes the exclusive lock on the lock file at `path`, which is created if need be and never removed.
    ///
    /// Never waits: a lock that another holder has is [`LockAttempt::Contended`] at once, whether the holder is in
    /// another process or in this one. Process death frees the lock. The holder's process, host and time are written
    /// into the file for [`Disk::lock_owner`].
    ///
    /// # Errors
    /// A refusal by the system, such as no permission or a read-only file system: not contention.
    fn lock(&self, path: &Path) -> io::Result<LockAttempt>;

    /// What the present or last holder wrote into the lock file; never touches the lock itself. `None` if there is no
    /// file, or nothing readable in it. A hint for messages: a holder that died leaves its name behind.
    ///
    /// # Errors
    /// Whatever the system says, except that nothing is there.
    fn lock_owner(&self, path: &Path) -> io::Result<Option<LockOwner>>;
}

/// An open directory, whatever name it has by now. Names are single components.
pub trait DiskDir: Send + Sync + Debug {
    /// As [`Disk::read_dir`], of this directory. At most once: what was read is not read again.
    ///
    /// # Errors
    /// Whatever the system says.
    fn entries(&self) -> io::Result<Vec<Entry>>;

    /// As [`Disk::open_dir`], of a directory in this one.
    ///
    /// # Errors
    /// As [`Disk::read_dir`].
    fn open_dir(&self, name: &OsStr) -> io::Result<Box<dyn DiskDir>>;

    /// As [`Disk::open_stamped`] for reading, of a file in this directory.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_stamped(&self, name: &OsStr) -> io::Result<(Box<dyn DiskFile>, Stamp)>;
}

/// An open regular file. Offsets and lengths are in bytes from the start of the file.
///
/// All calls may be made from several threads at once; each is one system call unless it says otherwise.
pub trait DiskFile: Send + Sync + Debug {
    /// What the file is now, whatever name it has by now, even none.
    ///
    /// # Errors
    /// Whatever the system says.
    fn stamp(&self) -> io::Result<Stamp>;

    /// Reads up to `buf.len()` bytes at `offset` and returns how many; 0 is the end of the file. Interrupted calls are
    /// repeated.
    ///
    /// # Errors
    /// Whatever the system says.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Fills `buf` from `offset` on, in as many calls as it takes.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut offset = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let n = self.read_at(offset, rest)?;
            let Some((_, tail)) = rest.split_at_mut_checked(n).filter(|_| n > 0) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            rest = tail;
            offset = offset.saturating_add(n as u64);
        }
        Ok(())
    }

    /// Writes at the end of the file, wherever that is now, with exactly one write call; returns how many bytes were
    /// taken, which may be fewer than `bytes.len()`. Repeated only if a signal came before anything was written.
    ///
    /// # Errors
    /// `InvalidInput` if the file was opened with [`Access::Repair`]; otherwise whatever the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Appends all of `bytes`, going on after short writes.
    ///
    /// # Errors
    /// As [`DiskFile::append`]; some of the bytes may be in the file then.
    fn append_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.append(rest)?;
            match rest.split_at_checked(n) {
                Some((_, tail)) if n > 0 => rest = tail,
                _ => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` over what is at `offset`, in as many calls as it takes. Needs [`Access::Repair`]: a file
    /// that is open for appending puts every write at its end on Linux, positioned or not.
    ///
    /// # Errors
    /// `InvalidInput` with any other access; otherwise whatever the system says; some bytes may be written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Sets the length: cuts, or extends by zeros.
    ///
    /// # Errors
    /// Whatever the system says.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Has the system begin to write `len` bytes from `offset` on to the disk, and does not wait: a sync that follows later
    /// then finds less to do. Promises nothing, and does nothing where there is no such call.
    ///
    /// # Errors
    /// As [`DiskFile::sync_data`]: what was written before may be lost.
    fn begin_sync(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes the file's bytes and its length durable, but not its times (`fdatasync`): for an append.
    ///
    /// # Errors
    /// If it fails, a later success says nothing about the bytes written before: they have to be written again.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes everything about the file durable, except its names (`fsync`): after a truncation, before a link.
    ///
    /// # Errors
    /// As [`DiskFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// A read-only map of the first `len` bytes, or `None` where this disk does not map: use [`DiskFile::read_at`]
    /// then.
    ///
    /// Map only bytes that nobody rewrites: those below the durable boundary. The file may become shorter while the
    /// map lives; see [`Map::is_shrunk`].
    ///
    /// # Errors
    /// Whatever the system says.
    fn map(&self, len: u64) -> io::Result<Option<Map>>;
}

/// What an open file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading, appending and truncating. Every write lands at the end.
    Append,
    /// Reading, truncating and writing at offsets, never appending: a second descriptor for the repair of a tail.
    Repair,
}

/// Identity and state of what a name or an open file stands for. Equal stamps mean: nothing has changed in between,
/// as far as the file system tells. The source of a log's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Number of the file system.
    pub device: u64,
    /// Number of the file in it.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the bytes, in nanoseconds since the Unix epoch.
    pub modified_ns: i128,
    /// Time of the last change of bytes or attributes, in nanoseconds since the Unix epoch.
    pub changed_ns: i128,
    /// File, directory, link or something else.
    pub kind: FileKind,
    /// The twelve permission bits.
    pub mode: u32,
}

impl Stamp {
    /// Whether both stand for one and the same file, whatever has happened to it in between.
    #[must_use]
    pub const fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// Kind of a directory entry, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, to whatever.
    Symlink,
    /// A pipe, a socket, a device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its name in the directory: any bytes but `/` and NUL.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}

/// What [`Disk::lock`] got.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockAttempt {
    /// The lock, until it is released, dropped, or the process dies.
    Held(Box<dyn DiskLock>),
    /// Somebody else holds it, or the lock file was replaced three times while it was being taken.
    Contended,
}

/// A lock that is held. Dropping it releases it and hides errors.
pub trait DiskLock: Send + Sync + Debug {
    /// Empties the lock file's note and frees the lock.
    ///
    /// # Errors
    /// Whatever the system says; the lock is free all the same once the last descriptor is closed, which this does.
    fn release(self: Box<Self>) -> io::Result<()>;
}
