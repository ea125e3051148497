//! A place in a root for a log that is written whole: an import, a fork.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::handle::take_lock_in;
use super::layout::{LOCK_NAME, log_name, printable, session_path};
use super::lease::{Claim, Pending};
use super::log_writer::{LogWriter, Written};
use super::publish::create_dirs;
use super::store::FileStore;
use crate::container::disk::{Disk, DiskLock};
use crate::error::{Error, Result};
use crate::row::Header;

/// The right to publish the log of one new session: nobody else can create it meanwhile, in any process.
///
/// Dropped without [`Reservation::publish`], it takes the folder away again, unless there is something else in it.
#[derive(Debug)]
pub struct Reservation {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    is_published: bool,
    /// Held until the log is published, so that no writer opens it before.
    _lock: Box<dyn DiskLock>,
    _claim: Claim,
}

impl FileStore {
    /// Makes the folder of a session that is to be stored whole, and keeps its id for the caller.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a header that this store cannot hold; [`Error::AlreadyExists`] for an id that is
    /// stored anywhere in the root, pending, or being created; [`Error::AlreadyOwned`]; [`Error::Io`].
    pub fn reserve(&self, header: &Header) -> Result<Reservation> {
        let id = header.id();
        let folder = session_path(self.root(), header.cwd(), id).ok_or_else(|| Error::InvalidArgument {
            what: "no folder can be named after an empty id or an empty working directory".to_owned(),
        })?;
        let exists = || Error::AlreadyExists { id: printable(id) };
        let pending = Pending { header: header.clone(), inherited: 0 };
        let claim = self.shared().claim(id, pending).ok_or_else(exists)?;
        if self.shared().is_stored(id)? {
            return Err(exists());
        }
        create_dirs(&**self.shared().disk(), &folder)?;
        let lock = take_lock_in(&**self.shared().disk(), &folder, claim.shown_id())?;
        // Somebody may have been faster between the look and the lock.
        if self.shared().is_stored(id)? {
            return Err(exists());
        }
        let path = folder.join(log_name(header.generation(), self.options().encoding));
        let disk = Arc::clone(self.shared().disk());
        Ok(Reservation { disk, path, is_published: false, _lock: lock, _claim: claim })
    }
}

impl Reservation {
    /// Path of the log to write, in the store's encoding.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes what `writer` wrote for [`Reservation::path`]: the log, and the folders that lead to it, are durable then.
    ///
    /// # Errors
    /// As [`LogWriter::publish`].
    pub fn publish(mut self, writer: LogWriter<'_>) -> Result<Written> {
        let above: Vec<&Path> = self.path.ancestors().skip(2).take(2).collect();
        let written = writer.publish(&above)?;
        self.is_published = true;
        Ok(written)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // Best effort: an empty folder is listed as one without a log, and nothing else. Whoever waits for the lock sees
        // that its file lost the name, and takes it anew.
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let _ = self.disk.remove_file(&folder.join(LOCK_NAME));
        let emptied = self.disk.remove_dir(folder);
        if let (Ok(()), Some(project)) = (emptied, folder.parent()) {
            let _ = self.disk.remove_dir(project);
        }
    }
}
