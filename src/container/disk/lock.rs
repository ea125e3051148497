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

/// Takes both locks, or neither if somebody has either: `false`.
fn lock_both(file: &File) -> io::Result<bool> {
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    let has_both = ofd::try_lock(file)?;
    if !has_both {
        // By name, not by closing the file: a child forked just now would keep it for a moment.
        rustix::fs::flock(file, FlockOperation::NonBlockingUnlock)?;
    }
    Ok(has_both)
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    fn held(attempt: LockAttempt) -> Box<dyn DiskLock> {
        match attempt {
            LockAttempt::Held(lock) => lock,
            LockAttempt::Contended => panic!("contended"),
        }
    }

    #[test]
    fn a_second_holder_is_told_at_once_and_succeeds_after_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        assert_eq!(read_owner(&path).unwrap(), None, "no file yet");
        let first = held(take(&path).unwrap());
        assert!(matches!(take(&path).unwrap(), LockAttempt::Contended));
        let owner = read_owner(&path).unwrap().unwrap();
        assert_eq!(owner.pid, std::process::id());
        assert!(!owner.host.is_empty());
        assert!(owner.since_ms > 1_700_000_000_000, "{owner:?}");

        first.release().unwrap();
        assert_eq!(read_owner(&path).unwrap(), None, "a clean release leaves no note");
        assert!(path.exists(), "the file stays");
        let second = held(take(&path).unwrap());
        drop(second);
        let _third = held(take(&path).unwrap());
        let _other = held(take(&folder.path().join("other.lock")).unwrap());
    }

    #[test]
    fn a_file_is_private_and_a_link_or_a_missing_folder_is_an_error() {
        use std::os::unix::fs::{MetadataExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        let _lock = held(take(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let link = folder.path().join("link.lock");
        symlink(&path, &link).unwrap();
        assert_eq!(take(&link).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(take(&folder.path().join("no/lock")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(take(folder.path()).is_err(), "a directory");
    }

    #[test]
    fn either_kernel_lock_alone_keeps_us_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        let foreign = File::create(&path).unwrap();
        rustix::fs::flock(&foreign, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(take(&path).unwrap(), LockAttempt::Contended));
        rustix::fs::flock(&foreign, FlockOperation::Unlock).unwrap();
        if cfg!(target_os = "linux") {
            assert!(ofd::try_lock(&foreign).unwrap());
            assert!(matches!(take(&path).unwrap(), LockAttempt::Contended));
            ofd::unlock(&foreign).unwrap();
        }
        held(take(&path).unwrap()).release().unwrap();
    }

    #[test]
    fn a_lock_file_replaced_once_is_taken_anew_and_replaced_always_is_contention() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        let moved = folder.path().join("moved");
        fs::write(&path, b"theirs").unwrap();
        let mut replacements = 0;
        let replace_once = || {
            if replacements == 0 {
                fs::rename(&path, &moved).unwrap();
                fs::write(&path, b"").unwrap();
            }
            replacements += 1;
        };
        let lock = held(take_with(&path, replace_once).unwrap());
        assert_eq!(replacements, 2);
        assert_eq!(fs::read(&moved).unwrap(), b"theirs", "a file that lost the name is left as it was");
        assert!(matches!(take(&path).unwrap(), LockAttempt::Contended));
        let _moved = held(take(&moved).unwrap());
        lock.release().unwrap();

        let mut attempts = 0;
        let remove_always = || {
            fs::remove_file(&path).unwrap();
            attempts += 1;
        };
        assert!(matches!(take_with(&path, remove_always).unwrap(), LockAttempt::Contended));
        assert_eq!(attempts, 3);
    }

    #[test]
    fn notes_survive_the_round_trip_and_anything_else_is_none() {
        let owner = LockOwner { pid: u32::MAX, host: "a \"b\"\u{7f}\n".to_owned(), since_ms: -1 };
        let note = owner.to_note();
        assert_eq!(note.last(), Some(&b'\n'));
        assert_eq!(LockOwner::parse(&note), Some(owner));
        assert_eq!(
            LockOwner::parse(br#"{"extra":[1],"since":5,"host":"h","pid":7}"#),
            Some(LockOwner { pid: 7, host: "h".to_owned(), since_ms: 5 })
        );
        let unreadable: [&[u8]; 7] = [
            b"",
            b"{\"pid\":1,\"host\":\"h\"",
            b"{}",
            br#"{"pid":-1,"host":"h","since":1}"#,
            br#"{"pid":4294967296,"host":"h","since":1}"#,
            br#"{"pid":1,"host":1,"since":1}"#,
            b"\xff\xfe",
        ];
        for note in unreadable {
            assert_eq!(LockOwner::parse(note), None, "{note:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        fs::write(&path, vec![b'['; 100_000]).unwrap();
        assert_eq!(read_owner(&path).unwrap(), None);
    }

    /// The child is this very test in a process of its own, which takes the lock, says so, and waits to be killed.
    #[test]
    fn the_death_of_a_holder_frees_the_lock_and_leaves_its_note() {
        const NAME: &str =
            "container::disk::lock::tests::the_death_of_a_holder_frees_the_lock_and_leaves_its_note";
        if let Some(path) = std::env::var_os("SESLOG_TEST_LOCK") {
            let _lock = held(take(Path::new(&path)).unwrap());
            println!("\nlocked");
            std::thread::sleep(std::time::Duration::from_secs(60));
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.lock");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("SESLOG_TEST_LOCK", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let locked = lines.map(Result::unwrap).any(|line| line == "locked");
        let contended = matches!(take(&path).unwrap(), LockAttempt::Contended);
        let owner = read_owner(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(locked && contended);
        assert_eq!(owner.map(|owner| owner.pid), Some(child.id()));

        assert_eq!(
            read_owner(&path).unwrap().map(|owner| owner.pid),
            Some(child.id()),
            "a hint, not a proof"
        );
        let _lock = held(take(&path).unwrap());
        assert_eq!(read_owner(&path).unwrap().unwrap().pid, std::process::id());
    }
}
