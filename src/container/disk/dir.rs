//! A directory that is open: what is in it is reached by one name, whatever the length of its path.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::os::{OsFile, SAFE, require_regular, stamp_of};
use super::{Access, DiskDir, DiskFile, Entry, Stamp, list};

#[derive(Debug)]
pub(super) struct OsDir {
    dir: OwnedFd,
    maps: bool,
}

impl OsDir {
    /// The directory at `path`; its files may be mapped if `maps` says so.
    pub(super) fn open(path: &Path, maps: bool) -> io::Result<Self> {
        Ok(Self { dir: list::open_at(CWD, path)?, maps })
    }
}

impl DiskDir for OsDir {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        list::entries_of(&self.dir)
    }

    fn open_dir(&self, name: &OsStr) -> io::Result<Box<dyn DiskDir>> {
        Ok(Box::new(Self { dir: list::open_at(&self.dir, name)?, maps: self.maps }))
    }

    fn open_stamped(&self, name: &OsStr) -> io::Result<(Box<dyn DiskFile>, Stamp)> {
        // As for any other open: `NONBLOCK` keeps a planted pipe from hanging it.
        let how = OFlags::RDONLY | OFlags::NONBLOCK | SAFE;
        let file = File::from(rustix::fs::openat(&self.dir, name, how, Mode::empty())?);
        let stamp = stamp_of(&require_regular(&file)?);
        Ok((Box::new(OsFile { file, access: Access::Read, maps: self.maps }), stamp))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::container::disk::{Disk as _, FileKind, OsDisk};

    #[test]
    fn what_is_in_an_open_directory_is_what_its_path_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("project/session")).unwrap();
        fs::write(root.join("project/session/log"), b"bytes").unwrap();
        symlink("project", root.join("link")).unwrap();
        symlink("log", root.join("project/session/alias")).unwrap();
        let disk = OsDisk::new();
        for project in ["project", "link"] {
            let project = disk.open_dir(&root.join(project)).unwrap().unwrap();
            let session = project.open_dir("session".as_ref()).unwrap();
            let mut entries = session.entries().unwrap();
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            let kinds: Vec<_> = entries.iter().map(|one| (one.name.to_str().unwrap(), one.kind)).collect();
            assert_eq!(kinds, [("alias", FileKind::Symlink), ("log", FileKind::File)]);
            let (file, stamp) = session.open_stamped("log".as_ref()).unwrap();
            assert_eq!(Some(stamp), disk.stamp(&root.join("project/session/log")).unwrap());
            let mut bytes = [0; 5];
            file.read_exact_at(0, &mut bytes).unwrap();
            assert_eq!(&bytes, b"bytes");
            assert_eq!(session.open_stamped("none".as_ref()).unwrap_err().kind(), io::ErrorKind::NotFound);
            let link = session.open_stamped("alias".as_ref()).unwrap_err();
            assert_eq!(link.raw_os_error(), Some(libc::ELOOP));
            let no_file = project.open_stamped("session".as_ref()).unwrap_err();
            assert_eq!(no_file.kind(), io::ErrorKind::InvalidInput);
            assert_eq!(session.open_dir("log".as_ref()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        }
        assert_eq!(disk.open_dir(&root.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_directory_that_was_renamed_is_still_the_one_that_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/log"), b"x").unwrap();
        let open = OsDisk::new().open_dir(&root.join("a")).unwrap().unwrap();
        fs::rename(root.join("a"), root.join("b")).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        assert_eq!(open.open_stamped("log".as_ref()).unwrap().1.size, 1);
        assert_eq!(open.entries().unwrap().len(), 1);
    }
}
