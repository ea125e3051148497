//! A disk on which one append stops half way, for the tour: the real file system otherwise.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seslog::container::disk::{Access, Disk, DiskFile, Entry, LockAttempt, LockOwner, Map, OsDisk, Stamp};

/// The real file system until `whole` appends went through; of the next one half is written, and then `stalled` is called.
pub(crate) struct StallingDisk {
    inner: Box<dyn Disk>,
    shared: Arc<Shared>,
}

struct Shared {
    left: AtomicU64,
    stalled: Box<dyn Fn() + Send + Sync>,
}

impl StallingDisk {
    /// The disk. `stalled` need not return.
    pub(crate) fn new(whole: u64, stalled: impl Fn() + Send + Sync + 'static) -> Self {
        Self::over(Box::new(OsDisk::new()), whole, stalled)
    }

    fn over(inner: Box<dyn Disk>, whole: u64, stalled: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Shared { left: AtomicU64::new(whole), stalled: Box::new(stalled) };
        Self { inner, shared: Arc::new(shared) }
    }
}

impl fmt::Debug for StallingDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StallingDisk").field(&self.shared.left).finish()
    }
}

impl Disk for StallingDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = self.inner.open(path, access)?;
        Ok(match access {
            Access::Append => Box::new(StallingFile { inner: file, shared: Arc::clone(&self.shared) }),
            _ => file,
        })
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.inner.create_new(path)
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        self.inner.stamp(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.inner.read_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<bool> {
        self.inner.create_dir(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<LockAttempt> {
        self.inner.lock(path)
    }

    fn lock_owner(&self, path: &Path) -> io::Result<Option<LockOwner>> {
        self.inner.lock_owner(path)
    }
}

struct StallingFile {
    inner: Box<dyn DiskFile>,
    shared: Arc<Shared>,
}

impl fmt::Debug for StallingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StallingFile").field(&self.inner).finish()
    }
}

impl DiskFile for StallingFile {
    fn stamp(&self) -> io::Result<Stamp> {
        self.inner.stamp()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buf)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let counted =
            self.shared.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if counted.is_ok() {
            return self.inner.append(bytes);
        }
        let half = bytes.get(..bytes.len() / 2).unwrap_or(bytes);
        let written = self.inner.append(half)?;
        (self.shared.stalled)();
        Ok(written)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }

    fn map(&self, len: u64) -> io::Result<Option<Map>> {
        self.inner.map(len)
    }
}

#[cfg(all(test, feature = "fault"))]
mod tests {
    use seslog::container::disk::fault::{FaultDisk, FileLoss};

    use super::*;

    #[test]
    fn what_is_synced_through_it_is_durable_and_the_last_append_is_cut() {
        let disk = FaultDisk::new();
        let stalling = StallingDisk::over(Box::new(disk.clone()), 1, || {});
        let path = Path::new("/log");
        stalling.create_new(path).unwrap();
        stalling.sync_dir(Path::new("/")).unwrap();
        let after = |bytes: &[u8]| {
            assert_eq!(disk.crash_image(0, FileLoss::DropUnsynced).content(path).as_deref(), Some(bytes));
        };
        after(b"");
        let file = stalling.open(path, Access::Append).unwrap();
        assert_eq!(file.append(b"whole").unwrap(), 5);
        file.sync_data().unwrap();
        after(b"whole");
        assert_eq!(file.append(b"halves").unwrap(), 3);
        file.sync_all().unwrap();
        after(b"wholehal");
    }
}
