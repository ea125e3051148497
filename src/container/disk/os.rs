//! The operating system's file system.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{
    Access, Disk, DiskDir, DiskFile, Entry, FileKind, LockAttempt, LockOwner, Map, Stamp, list, lock,
};
use crate::container::crc::crc32;
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
        self.open_stamped(path, access).map(|(file, _)| file)
    }

    fn open_stamped(&self, path: &Path, access: Access) -> io::Result<(Box<dyn DiskFile>, Stamp)> {
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Append => OFlags::RDWR | OFlags::APPEND,
            Access::Repair => OFlags::RDWR,
        };
        let (file, metadata) = open_regular(path, how)?;
        Ok((Box::new(OsFile { file, access, maps: self.maps }), stamp_of(&metadata)))
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
        list::entries(path)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open_dir(&self, path: &Path) -> io::Result<Option<Box<dyn DiskDir>>> {
        Ok(Some(Box::new(super::dir::OsDir::open(path, self.maps)?)))
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

    fn boot(&self) -> u64 {
        /// Linux names each of its starts; elsewhere nothing tells.
        static BOOT: LazyLock<u64> = LazyLock::new(|| {
            fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |name| u64::from(crc32(0, &name)))
        });
        *BOOT
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
fn open_regular(path: &Path, how: OFlags) -> io::Result<(File, Metadata)> {
    let file = File::from(rustix::fs::open(path, how | OFlags::NONBLOCK | SAFE, Mode::empty())?);
    let metadata = require_regular(&file)?;
    Ok((file, metadata))
}

/// Refuses a descriptor of anything but a regular file; what the system says of it.
pub(super) fn require_regular(file: &File) -> io::Result<Metadata> {
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(metadata),
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

pub(super) fn kind_of(kind: fs::FileType) -> FileKind {
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
pub(super) struct OsFile {
    pub(super) file: File,
    pub(super) access: Access,
    pub(super) maps: bool,
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

    fn begin_sync(&self, offset: u64, len: u64) -> io::Result<()> {
        raw::write_back::begin(&self.file, offset, len)
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        (folder, path)
    }

    #[test]
    fn appended_bytes_are_read_back_and_short_reads_end_the_file() {
        let (_keep, root) = folder();
        let disk: &dyn Disk = &OsDisk::new();
        let file = disk.create_new(&root.join("log")).unwrap();
        file.append_all(b"hello ").unwrap();
        file.append_all(b"").unwrap();
        assert_eq!(file.append(b"world").unwrap(), 5);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(&root).unwrap();

        let read = disk.open(&root.join("log"), Access::Read).unwrap();
        let mut buf = [0; 20];
        assert_eq!(read.read_at(6, &mut buf).unwrap(), 5);
        assert_eq!(read.read_at(11, &mut buf).unwrap(), 0);
        assert_eq!(read.read_at(1 << 40, &mut buf).unwrap(), 0);
        let mut exact = [0; 11];
        read.read_exact_at(0, &mut exact).unwrap();
        assert_eq!(&exact, b"hello world");
        let past = read.read_exact_at(1, &mut exact).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
        assert!(read.append(b"x").is_err(), "open for reading");
        assert!(read.truncate(0).is_err(), "open for reading");
    }

    #[test]
    fn writing_inside_a_file_and_at_its_end_take_different_descriptors() {
        let (_keep, root) = folder();
        let disk = OsDisk::new();
        let path = root.join("log");
        let end = disk.create_new(&path).unwrap();
        end.append_all(b"0123456789").unwrap();
        assert_eq!(end.write_at(2, b"xx").unwrap_err().kind(), ErrorKind::InvalidInput);

        let inside = disk.open(&path, Access::Repair).unwrap();
        assert_eq!(inside.append(b"xx").unwrap_err().kind(), ErrorKind::InvalidInput);
        inside.write_at(2, b"ab").unwrap();
        inside.truncate(5).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"01ab4");

        let end = disk.open(&path, Access::Append).unwrap();
        end.truncate(3).unwrap();
        end.append_all(b"!").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"01a!");
    }

    #[test]
    fn links_and_other_kinds_are_not_opened() {
        let (_keep, root) = folder();
        let disk = OsDisk::new();
        fs::write(root.join("file"), b"").unwrap();
        symlink("file", root.join("link")).unwrap();
        for access in [Access::Read, Access::Append, Access::Repair] {
            let error = disk.open(&root.join("link"), access).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{access:?}");
            assert!(disk.open(&root, access).is_err(), "a directory, {access:?}");
            assert_eq!(disk.open(&root.join("none"), access).unwrap_err().kind(), ErrorKind::NotFound);
        }
        let pipe = root.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for access in [Access::Read, Access::Append] {
            // Would hang for the other end of the pipe without NONBLOCK.
            assert_eq!(disk.open(&pipe, access).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(disk.stamp(&pipe).unwrap().unwrap().kind, FileKind::Other);
    }

    #[test]
    fn a_sync_can_begin_anywhere_in_a_file() {
        let (_keep, root) = folder();
        let file = OsDisk::new().create_new(&root.join("log")).unwrap();
        file.append_all(&[b'x'; 10_000]).unwrap();
        for (offset, len) in [(0, 10_000), (5000, 1), (9999, 100_000), (0, 0)] {
            file.begin_sync(offset, len).unwrap();
        }
        assert_eq!(file.begin_sync(u64::MAX, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.sync_data().unwrap();
        assert_eq!(fs::read(root.join("log")).unwrap(), [b'x'; 10_000]);
    }

    #[test]
    fn a_planted_link_is_never_created_through() {
        let (_keep, root) = folder();
        let disk = OsDisk::new();
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("elsewhere", root.join("to_dir")).unwrap();
        fs::write(root.join("source"), b"x").unwrap();
        for planted in ["dangling", "to_dir"] {
            let planted = root.join(planted);
            assert_eq!(disk.create_new(&planted).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(
                disk.link(&root.join("source"), &planted).unwrap_err().kind(),
                ErrorKind::AlreadyExists
            );
            assert_eq!(disk.create_dir(&planted).unwrap_err().kind(), ErrorKind::NotADirectory);
            assert!(disk.lock(&planted).is_err());
            assert_eq!(disk.stamp(&planted).unwrap().unwrap().kind, FileKind::Symlink);
        }
        assert_eq!(disk.stamp(&root.join("nowhere")).unwrap(), None);
        // A rename replaces the link, not what it points at; a root may be a link.
        disk.rename(&root.join("source"), &root.join("dangling")).unwrap();
        assert_eq!(disk.stamp(&root.join("dangling")).unwrap().unwrap().kind, FileKind::File);
        assert_eq!(disk.read_dir(&root.join("to_dir")).unwrap(), []);
        disk.sync_dir(&root.join("to_dir")).unwrap();
        disk.remove_file(&root.join("to_dir")).unwrap();
        assert!(root.join("elsewhere").is_dir());
    }

    #[test]
    fn directories_are_made_listed_and_removed() {
        let (_keep, root) = folder();
        let disk = OsDisk::new();
        let made = root.join("made");
        assert!(disk.create_dir(&made).unwrap());
        assert!(!disk.create_dir(&made).unwrap());
        assert_eq!(disk.stamp(&made).unwrap().unwrap().mode & 0o077, 0);
        fs::write(made.join("file"), b"").unwrap();
        assert_eq!(disk.create_dir(&made.join("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(disk.create_dir(&root.join("no/parent")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(disk.create_dir(&made.join("dir")).unwrap());
        symlink("file", made.join("link")).unwrap();
        let mut entries = disk.read_dir(&made).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let kinds: Vec<_> = entries.iter().map(|e| (e.name.to_str().unwrap(), e.kind)).collect();
        assert_eq!(kinds, [("dir", FileKind::Dir), ("file", FileKind::File), ("link", FileKind::Symlink)]);
        assert_eq!(disk.remove_dir(&made).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        disk.remove_dir(&made.join("dir")).unwrap();
        assert_eq!(disk.read_dir(&made.join("dir")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.read_dir(&made.join("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn a_stamp_follows_the_file_not_the_name() {
        let (_keep, root) = folder();
        let disk = OsDisk::new();
        let file = disk.create_new(&root.join("a")).unwrap();
        let fresh = file.stamp().unwrap();
        assert_eq!((fresh.size, fresh.kind, fresh.mode), (0, FileKind::File, 0o600));
        assert_eq!(disk.stamp(&root.join("a")).unwrap(), Some(fresh));
        file.append_all(b"abc").unwrap();
        let grown = file.stamp().unwrap();
        assert_eq!(grown.size, 3);
        assert!(grown.is_same_file(&fresh));
        assert_ne!(grown, fresh);
        disk.link(&root.join("a"), &root.join("b")).unwrap();
        assert!(disk.stamp(&root.join("b")).unwrap().unwrap().is_same_file(&fresh));
        let other = disk.create_new(&root.join("c")).unwrap();
        disk.rename(&root.join("c"), &root.join("a")).unwrap();
        assert!(disk.stamp(&root.join("a")).unwrap().unwrap().is_same_file(&other.stamp().unwrap()));
        assert!(file.stamp().unwrap().is_same_file(&fresh));
        assert_eq!(disk.stamp(&root.join("c")).unwrap(), None);
    }

    #[test]
    fn maps_show_the_file_unless_the_host_wants_none() {
        let (_keep, root) = folder();
        fs::write(root.join("log"), b"mapped").unwrap();
        let mapped = OsDisk::new().open(&root.join("log"), Access::Read).unwrap().map(3).unwrap();
        assert_eq!(mapped.unwrap().bytes(), b"map");
        let none = OsDisk::without_maps().open(&root.join("log"), Access::Read).unwrap().map(3).unwrap();
        assert!(none.is_none());
    }

    /// The umask belongs to the whole process, so this test looks at itself in processes of their own.
    #[test]
    fn files_are_private_whatever_the_umask() {
        const NAME: &str = "container::disk::os::tests::files_are_private_whatever_the_umask";
        if let Some(root) = std::env::var_os("SESLOG_TEST_UMASK_ROOT") {
            let root = PathBuf::from(root);
            OsDisk::new().create_new(&root.join("file")).unwrap();
            OsDisk::new().create_dir(&root.join("dir")).unwrap();
            return;
        }
        for (umask, dir_mode) in [("000", 0o700), ("077", 0o700), ("777", 0)] {
            let (_keep, root) = folder();
            let script = format!("umask {umask}; exec \"$0\" \"$@\"");
            let child = Command::new("sh")
                .args(["-c", &script])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .env("SESLOG_TEST_UMASK_ROOT", &root)
                .output()
                .unwrap();
            assert!(child.status.success(), "{child:?}");
            let mode = |name| fs::symlink_metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode("file"), 0o600, "umask {umask}");
            assert_eq!(mode("dir"), dir_mode, "umask {umask}");
        }
    }
}
