//! The write lock between processes: a lock file, two kernel locks on it, and a note of who holds it.
//!
//! DSH takes a kernel lock whose kind differs by platform, so both kinds are taken here: `flock`, and a write lock on
//! the whole file that belongs to the open file description. Either alone keeps a second seslog out; both keep DSH out.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::os::{SAFE, private_file, require_regular, stamp_of};
use super::{DiskLock, LockAttempt};
use crate::container::raw::ofd;

/// Who holds a lock, as the holder wrote it. A hint: the holder may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOwner {
    /// Number of the holder's process, on its own host.
    pub pid: u32,
    /// Name of the holder's host.
    pub host: String,
    /// When the lock was taken, in Unix milliseconds of the holder's clock.
    pub since_ms: i64,
}

impl LockOwner {
    /// This process, now.
    #[must_use]
    pub fn current() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Self {
            pid: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            since_ms: i64::try_from(now).unwrap_or(i64::MAX),
        }
    }

    /// The note in a lock file, or `None` if it is empty, half written, or somebody else's. Other members are ignored.
    #[must_use]
    pub fn parse(note: &[u8]) -> Option<Self> {
        let note: serde_json::Value = serde_json::from_slice(note).ok()?;
        Some(Self {
            pid: u32::try_from(note.get("pid")?.as_u64()?).ok()?,
            host: note.get("host")?.as_str()?.to_owned(),
            since_ms: note.get("since")?.as_i64()?,
        })
    }

    /// The note as it stands in a lock file: one line of JSON.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        let host = serde_json::Value::from(self.host.as_str());
        format!("{{\"pid\":{},\"host\":{host},\"since\":{}}}\n", self.pid, self.since_ms).into_bytes()
    }
}

/// Longest note that is read: a host name has at most 255 bytes, each at most six in JSON.
const NOTE_BYTES_MAX: u64 = 4096;

/// How often a lock is taken anew because its file was replaced meanwhile. The contract's number.
const ATTEMPTS: u32 = 3;

/// Takes the lock, or says that it is taken. See [`super::Disk::lock`].
pub(super) fn take(path: &Path) -> io::Result<LockAttempt> {
    take_with(path, || {})
}

/// `locked` runs after every lock taken, before the look whether its file still has the name: where tests interfere.
fn take_with(path: &Path, mut locked: impl FnMut()) -> io::Result<LockAttempt> {
    for _ in 0..ATTEMPTS {
        let file = open_lock_file(path)?;
        if !lock_both(&file)? {
            return Ok(LockAttempt::Contended);
        }
        let mut lock = OsLock { file, has_note: false, is_held: true };
        locked();
        if lock.has_name(path)? {
            lock.write_note()?;
            return Ok(LockAttempt::Held(Box::new(lock)));
        }
    }
    Ok(LockAttempt::Contended)
}

/// Reads the note in a lock file. See [`super::Disk::lock_owner`].
pub(super) fn read_owner(path: &Path) -> io::Result<Option<LockOwner>> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | SAFE;
    let file = match rustix::fs::open(path, how, rustix::fs::Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    require_regular(&file)?;
    let mut note = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&file, NOTE_BYTES_MAX), &mut note)?;
    Ok(LockOwner::parse(&note))
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | SAFE;
    let file = File::from(rustix::fs::open(path, how, private_file())?);
    require_regular(&file)?;
    Ok(file)
}

/// Takes both locks; `false` if somebody has either. Closing the file frees what was taken.
fn lock_both(file: &File) -> io::Result<bool> {
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    ofd::try_lock(file)
}

/// Both locks on one open file description.
#[derive(Debug)]
struct OsLock {
    file: File,
    /// Whether the note in the file is ours to empty.
    has_note: bool,
    is_held: bool,
}

impl OsLock {
    /// Whether the locked file is the one at `path`.
    fn has_name(&self, path: &Path) -> io::Result<bool> {
        let ours = stamp_of(&self.file.metadata()?);
        match fs::symlink_metadata(path) {
            Ok(named) => Ok(ours.is_same_file(&stamp_of(&named))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes who we are. A full disk is no reason to refuse a lock that is held: the note stays empty then.
    fn write_note(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.has_note = true;
        match (&self.file).write_all(&LockOwner::current().to_note()) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                self.file.set_len(0)
            }
            done => done,
        }
    }

    /// Frees both locks by name, not only by closing: a child forked meanwhile shares the description and would keep
    /// them. All steps are tried; the first error is returned. Does nothing the second time, when the note may be
    /// somebody else's.
    fn free(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        let emptied = if self.has_note { self.file.set_len(0) } else { Ok(()) };
        let record = ofd::unlock(&self.file);
        let whole = rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock);
        emptied.and(record).and(whole.map_err(io::Error::from))
    }
}

impl DiskLock for OsLock {
    fn release(mut self: Box<Self>) -> io::Result<()> {
        self.free()
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        let _hidden = self.free();
    }
}
