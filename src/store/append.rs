//! One append: look at the disk, write once, sync once, look again, and only then say that it is done.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Appending".

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::repair::{Repaired, repair};
use crate::container::disk::{Disk, DiskFile, Stamp};
use crate::container::{Batch, BlockWriter, Encoding, Tail};
use crate::error::{Error, Result};

/// Bytes at the end of the file that an append compares with what it left there.
const FENCE_LEN: usize = 64;

/// Whether an append waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// An append returns when it is on disk.
    #[default]
    Sync,
    /// An append returns when the operating system has it; a flush makes it durable.
    OnFlush,
}

/// The open end of a log.
#[derive(Debug)]
pub(crate) struct Appender {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    encoding: Encoding,
    file: Box<dyn DiskFile>,
    writer: Box<dyn BlockWriter>,
    /// What this writer left behind, or found when it opened.
    left: Left,
    /// The judged end, while it still has to be repaired before anything is written.
    torn: Option<Tail>,
    /// Bytes are in the file that no sync has covered.
    unsynced: bool,
    poisoned: bool,
    out: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Left {
    stamp: Stamp,
    end: [u8; FENCE_LEN],
    end_len: usize,
}

impl Appender {
    /// Goes on in an open log whose end was judged as `tail`. `writer` stands behind the last good record.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        path: &Path,
        encoding: Encoding,
        file: Box<dyn DiskFile>,
        writer: Box<dyn BlockWriter>,
        tail: Option<Tail>,
    ) -> Result<Self> {
        let left = Left::of(path, &*file)?;
        let torn = tail.filter(Tail::needs_repair);
        Ok(Self {
            disk,
            path: path.to_path_buf(),
            encoding,
            file,
            writer,
            left,
            torn,
            unsynced: false,
            poisoned: false,
            out: Vec::new(),
        })
    }

    /// Checks that the file is the one that was judged, as long as it was then: the lock keeps seslog and DSH out, not others.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub(crate) fn check_judged(&self, judged: &Stamp) -> Result<()> {
        if self.left.stamp.is_same_file(judged) && self.left.stamp.size == judged.size {
            return Ok(());
        }
        Err(Error::Foreign {
            path: self.path.clone(),
            what: format!(
                "it had {} bytes when it was read, and has {} now",
                judged.size, self.left.stamp.size
            ),
        })
    }

    /// Stores `batch`, as one write. With [`Durability::Sync`] it is on disk when this returns.
    ///
    /// # Errors
    /// Before anything is written: [`Error::Foreign`] if the file is not as this writer left it, a failed repair,
    /// [`Error::InvalidArgument`] for a row that no segment holds. A failed write is undone if the file holds nothing but
    /// this writer's bytes, and the same batch may then be appended again. After a failed sync, or a write that could not
    /// be undone, every later call is refused: what the disk holds is not known ([`Error::Poisoned`], by the caller).
    pub(crate) fn append(&mut self, batch: &Batch<'_>, durability: Durability) -> Result<()> {
        self.prepare()?;
        self.out.clear();
        let needs_marker = !self.writer.is_committed();
        let staged = if needs_marker { self.writer.stage_marker(&mut self.out) } else { Ok(()) };
        let staged = staged.and_then(|()| self.writer.stage(batch, &mut self.out));
        if let Err(fault) = staged {
            self.writer.discard();
            return Err(Error::InvalidArgument { what: fault.to_string() });
        }
        self.write_staged(durability)
    }

    /// Repairs what has to be repaired, and commits complete records of an unfinished append with a marker.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub(crate) fn recover(&mut self) -> Result<Repaired> {
        let repaired = self.prepare()?;
        self.out.clear();
        if !self.writer.is_committed() {
            if let Err(fault) = self.writer.stage_marker(&mut self.out) {
                self.writer.discard();
                return Err(Error::InvalidArgument { what: fault.to_string() });
            }
            self.write_staged(Durability::Sync)?;
        }
        Ok(repaired)
    }

    /// Makes every accepted append durable.
    ///
    /// # Errors
    /// [`Error::Io`]; the appender is poisoned then.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.unsynced {
            self.file.sync_data().map_err(|error| {
                self.poisoned = true;
                Error::io(&self.path, "syncing")(error)
            })?;
            self.unsynced = false;
            self.writer.accept(true);
        }
        Ok(())
    }

    /// Whether a failure left the file in a state that is not known.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Compares the disk with what was left, and repairs a torn end.
    fn prepare(&mut self) -> Result<Repaired> {
        self.check_fence()?;
        let Some(tail) = self.torn else { return Ok(Repaired::default()) };
        let done = repair(&*self.disk, &self.path, self.encoding, &tail, &self.left.stamp)?;
        self.left = Left::of(&self.path, &*self.file)?;
        self.torn = None;
        Ok(done)
    }

    fn check_fence(&self) -> Result<()> {
        let foreign = |what: String| Err(Error::Foreign { path: self.path.clone(), what });
        let io = || Error::io(&self.path, "looking at");
        let Some(named) = self.disk.stamp(&self.path).map_err(io())? else {
            return foreign("its file is gone".to_owned());
        };
        if !named.is_same_file(&self.left.stamp) {
            return foreign(format!(
                "another file stands in its place (inode {} instead of {})",
                named.inode, self.left.stamp.inode
            ));
        }
        if named.size != self.left.stamp.size {
            return foreign(format!(
                "it has {} bytes, and this writer left {}",
                named.size, self.left.stamp.size
            ));
        }
        let now = Left::of(&self.path, &*self.file)?;
        if now.end_bytes() != self.left.end_bytes() {
            return foreign(format!("its last {} bytes are not those that this writer left", now.end_len));
        }
        Ok(())
    }

    fn write_staged(&mut self, durability: Durability) -> Result<()> {
        if self.out.is_empty() {
            self.writer.discard();
            return Ok(());
        }
        let before = self.left.stamp.size;
        let expected = before.saturating_add(self.out.len() as u64);
        let written = self.file.append_all(&self.out);
        if let Err(error) = written {
            self.writer.discard();
            let error = Error::io(&self.path, "writing")(error);
            return Err(self.roll_back(before, error));
        }
        if durability == Durability::Sync
            && let Err(error) = self.file.sync_data()
        {
            self.writer.discard();
            let error = Error::io(&self.path, "syncing")(error);
            let error = self.roll_back(before, error);
            // The kernel may have dropped earlier bytes with ours; only a new judgement from disk tells.
            self.poisoned = true;
            return Err(error);
        }
        let left = Left::of(&self.path, &*self.file)?;
        if left.stamp.size != expected {
            self.poisoned = true;
            self.writer.discard();
            return Err(Error::Foreign {
                path: self.path.clone(),
                what: format!(
                    "it has {} bytes after an append that should have left {expected}: somebody wrote at the same time",
                    left.stamp.size
                ),
            });
        }
        self.left = left;
        self.unsynced = durability == Durability::OnFlush;
        self.writer.accept(durability == Durability::Sync);
        Ok(())
    }

    /// Takes a failed write back, if what stands behind `before` is a beginning of it and nothing else.
    fn roll_back(&mut self, before: u64, error: Error) -> Error {
        match self.try_roll_back(before) {
            Ok(()) => error,
            Err(second) => {
                self.poisoned = true;
                Error::Aggregate(vec![error, second])
            }
        }
    }

    fn try_roll_back(&mut self, before: u64) -> Result<()> {
        let io = |action| Error::io(&self.path, action);
        let named = self.disk.stamp(&self.path).map_err(io("looking at"))?;
        let open = self.file.stamp().map_err(io("looking at"))?;
        let ours = named.is_some_and(|named| named.is_same_file(&open))
            && (before..=before.saturating_add(self.out.len() as u64)).contains(&open.size);
        let mut stands = vec![0; usize::try_from(open.size.saturating_sub(before)).unwrap_or(0)];
        let ours = ours && {
            self.file.read_exact_at(before, &mut stands).map_err(io("reading"))?;
            self.out.starts_with(&stands)
        };
        if !ours {
            return Err(Error::Foreign {
                path: self.path.clone(),
                what: "a failed write was not taken back, because others wrote too".to_owned(),
            });
        }
        self.file.truncate(before).map_err(io("taking a failed write back from"))?;
        self.file.sync_all().map_err(io("syncing"))?;
        self.left = Left::of(&self.path, &*self.file)?;
        Ok(())
    }
}

impl Left {
    fn of(path: &Path, file: &dyn DiskFile) -> Result<Self> {
        let stamp = file.stamp().map_err(Error::io(path, "looking at"))?;
        let mut end = [0; FENCE_LEN];
        let end_len = usize::try_from(stamp.size).map_or(FENCE_LEN, |size| size.min(FENCE_LEN));
        if let Some(bytes) = end.get_mut(..end_len) {
            let at = stamp.size.saturating_sub(end_len as u64);
            file.read_exact_at(at, bytes).map_err(Error::io(path, "reading"))?;
        }
        Ok(Self { stamp, end, end_len })
    }

    fn end_bytes(&self) -> &[u8] {
        self.end.get(..self.end_len).unwrap_or_default()
    }
}
