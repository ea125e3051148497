//! One append: look at the disk, write once, sync once, look again, and only then say that it is done.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Appending".

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::repair::{Repaired, make_durable, repair};
use crate::container::disk::{Disk, DiskFile, Stamp};
use crate::container::{Batch, BlockWriter, RowMark, Tail};
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

/// Bytes of rows that one write takes, unless a single row is longer. With what may stand unsynced before it, it stays
/// below the 1 GiB that a trailer can say of.
const WRITE_CONTENT: usize = 256 << 20;

/// The open end of a log.
#[derive(Debug)]
pub(crate) struct Appender {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    writer: Box<dyn BlockWriter>,
    /// What this writer left behind, or found when it opened.
    left: Left,
    /// The end as it was judged, until the repair before the first write here has gone through.
    judged: Option<Tail>,
    /// What was read when this opened is durable, or was made so.
    is_settled: bool,
    /// Bytes behind the last sync that went well.
    unsynced: u64,
    poisoned: bool,
    out: Vec<u8>,
    write_content: usize,
    unsynced_max: u64,
}

/// The end of the file as a writer left it.
#[derive(Clone, Debug)]
struct Left {
    file: Stamp,
    size: u64,
    end: Vec<u8>,
}

/// Why bytes are not in the file, or not known to be on the disk.
struct Failed {
    error: Error,
    by_sync: bool,
    /// Where the last write began.
    write_at: u64,
}

impl Appender {
    /// Goes on in an open log. `writer` stands behind the last good record, and `judged` is the end as it was found;
    /// `None` for a log that this process has just published, all of which is durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        path: &Path,
        file: Box<dyn DiskFile>,
        writer: Box<dyn BlockWriter>,
        judged: Option<Tail>,
    ) -> Result<Self> {
        let left = Left::of(path, &*file)?;
        let unsynced_max = writer.unsynced_max();
        Ok(Self {
            disk,
            path: path.to_path_buf(),
            file,
            writer,
            left,
            is_settled: judged.is_none(),
            judged,
            unsynced: 0,
            poisoned: false,
            out: Vec::new(),
            write_content: WRITE_CONTENT,
            unsynced_max,
        })
    }

    /// Checks that the file is the one that was judged, as long as it was then: the lock keeps seslog and DSH out, not others.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub(crate) fn check_judged(&self, judged: &Stamp) -> Result<()> {
        if self.left.file.is_same_file(judged) && self.left.size == judged.size {
            return Ok(());
        }
        let (was, is) = (judged.size, self.left.size);
        Err(self.foreign(format!("it had {was} bytes when it was read, and has {is} now")))
    }

    /// Stores `batch`, as one write. With [`Durability::Sync`] it is on disk when this returns.
    ///
    /// A batch of more than 256 MiB takes a write for each 256 MiB, and the last one commits it.
    ///
    /// # Errors
    /// Before anything is written: [`Error::Foreign`] if the file is not as this writer left it, a failed repair,
    /// [`Error::InvalidArgument`] for a row that no segment holds. A failed write is undone if the file holds nothing but
    /// this writer's bytes, and the same batch may then be appended again. After a failed sync, or a write that could not
    /// be undone, every later call is refused: what the disk holds is not known ([`Error::Poisoned`], by the caller).
    pub(crate) fn append(&mut self, batch: &Batch<'_>, durability: Durability) -> Result<()> {
        self.prepare()?;
        self.store(Some(batch), durability)
    }

    /// Repairs what has to be repaired, and commits complete records of an unfinished append with a marker.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub(crate) fn recover(&mut self) -> Result<Repaired> {
        let repaired = self.prepare()?;
        self.store(None, Durability::Sync)?;
        Ok(repaired)
    }

    /// Makes the whole log durable, up to where reading ends: also what another process had accepted and not synced.
    /// A torn end stays as it is.
    ///
    /// # Errors
    /// As [`Appender::sync`].
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(tail) = self.judged.filter(|_| !self.is_settled) {
            self.check_fence()?;
            make_durable(&*self.disk, &self.path, &tail, &self.left.file).map_err(|failed| {
                self.poisoned |= failed.by_sync;
                failed.error
            })?;
            self.judged = Some(Tail { durable: tail.good_end, ..tail });
            self.is_settled = true;
        }
        self.sync()
    }

    /// Makes every append that was accepted here durable.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Foreign`] if another program changed the file; the appender is poisoned then.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.unsynced == 0 {
            return Ok(());
        }
        let synced = self.file.sync_data().map_err(Error::io(&self.path, "syncing"));
        // What was made durable must still be the log.
        let synced = synced.and_then(|()| self.check_fence());
        if synced.is_err() {
            self.poisoned = true;
            return synced;
        }
        self.unsynced = 0;
        self.writer.accept(true);
        Ok(())
    }

    /// Whether a failure left the file in a state that is not known.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether appends were accepted that no sync is known to have covered.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.unsynced > 0
    }

    /// Compares the disk with what was left. Before the first write of this process it also repairs the end, and makes sure
    /// that all before is durable.
    fn prepare(&mut self) -> Result<Repaired> {
        self.check_fence()?;
        let Some(tail) = self.judged else { return Ok(Repaired::default()) };
        let done = repair(&*self.disk, &self.path, &tail, &self.left.file);
        if tail.excess() > 0 {
            // The cut may have gone through although what follows it did not; it is not made twice.
            let now = Left::of(&self.path, &*self.file)?;
            if now.size == tail.good_end {
                self.left = now;
                self.judged = Some(Tail { len: tail.good_end, ..tail });
            }
        }
        match done {
            Ok(_) if self.left.size != tail.good_end => {
                Err(self.foreign(format!("it has {} bytes after a repair", self.left.size)))
            }
            Ok(done) => {
                self.judged = None;
                self.is_settled = true;
                self.writer.accept(true);
                Ok(done)
            }
            Err(failed) => {
                self.poisoned |= failed.by_sync;
                Err(failed.error)
            }
        }
    }

    fn check_fence(&self) -> Result<()> {
        let Some(named) = self.disk.stamp(&self.path).map_err(Error::io(&self.path, "looking at"))? else {
            return Err(self.foreign("its file is gone".to_owned()));
        };
        if !named.is_same_file(&self.left.file) {
            return Err(self.foreign(format!(
                "another file stands in its place (inode {} instead of {})",
                named.inode, self.left.file.inode
            )));
        }
        let now = Left::of(&self.path, &*self.file)?;
        if now.size != self.left.size {
            let (is, was) = (now.size, self.left.size);
            return Err(self.foreign(format!("it has {is} bytes, and this writer left {was}")));
        }
        if now.end != self.left.end {
            let len = now.end.len();
            return Err(self.foreign(format!("its last {len} bytes are not those that this writer left")));
        }
        Ok(())
    }

    /// Writes a marker if the last record needs one, and `batch` behind it, all or nothing.
    fn store(&mut self, batch: Option<&Batch<'_>>, durability: Durability) -> Result<()> {
        let before = self.left.clone();
        let mut written = self.left.clone();
        let outcome = self
            .write(batch, &mut written)
            .and_then(|()| if durability == Durability::Sync { self.sync_written(&written) } else { Ok(()) });
        if let Err(failed) = outcome {
            self.writer.discard();
            let error = match self.roll_back(&before, &failed) {
                Ok(()) => failed.error,
                Err(second) => {
                    self.poisoned = true;
                    Error::Aggregate(vec![failed.error, second])
                }
            };
            // The kernel may have dropped earlier bytes with ours; only a new judgement from disk tells.
            self.poisoned |= failed.by_sync;
            return Err(error);
        }
        let now = self.file.stamp().map_err(Error::io(&self.path, "looking at"));
        let now = now.and_then(|now| match now.size == written.size {
            true => Ok(now),
            false => Err(self.foreign(format!(
                "it has {} bytes after an append that should have left {}: somebody wrote at the same time",
                now.size, written.size
            ))),
        });
        match now {
            Ok(_) => {
                self.left = written;
                self.writer.accept(self.unsynced == 0);
                Ok(())
            }
            Err(error) => {
                self.writer.discard();
                self.poisoned = true;
                Err(error)
            }
        }
    }

    /// Puts the bytes of an append into the file, and syncs in between where the encoding demands it.
    fn write(&mut self, batch: Option<&Batch<'_>>, written: &mut Left) -> Result<(), Failed> {
        let mut needs_marker = !self.writer.is_committed();
        let content_max = self.write_content;
        let mut write = |piece: Option<&Batch<'_>>, is_last: bool| {
            if self.unsynced > self.unsynced_max {
                self.sync_written(written)?;
                self.writer.staged_is_durable();
            }
            self.out.clear();
            let mut staged = Ok(());
            if std::mem::take(&mut needs_marker) {
                staged = self.writer.stage_marker(&mut self.out);
            }
            if let Some(piece) = piece {
                staged = staged.and_then(|()| match is_last {
                    true => self.writer.stage(piece, &mut self.out),
                    false => self.writer.stage_part(piece, &mut self.out),
                });
            }
            let write_at = written.size;
            let failed = |error| Failed { error, by_sync: false, write_at };
            staged.map_err(|fault| failed(Error::InvalidArgument { what: fault.to_string() }))?;
            self.file
                .append_all(&self.out)
                .map_err(|error| failed(Error::io(&self.path, "writing")(error)))?;
            self.unsynced = self.unsynced.saturating_add(self.out.len() as u64);
            written.grow(&self.out);
            Ok(())
        };
        match batch {
            Some(batch) => each_piece(batch, content_max, &mut |piece, is_last| write(Some(piece), is_last)),
            None => write(None, true),
        }
    }

    fn sync_written(&mut self, written: &Left) -> Result<(), Failed> {
        self.file.sync_data().map_err(|error| Failed {
            error: Error::io(&self.path, "syncing")(error),
            by_sync: true,
            write_at: written.size.saturating_sub(self.out.len() as u64),
        })?;
        self.unsynced = 0;
        Ok(())
    }

    /// Takes a failed append back, if what stands behind the end before it is a beginning of it and nothing else.
    fn roll_back(&mut self, before: &Left, failed: &Failed) -> Result<()> {
        let io = |action| Error::io(&self.path, action);
        let named = self.disk.stamp(&self.path).map_err(io("looking at"))?;
        let open = self.file.stamp().map_err(io("looking at"))?;
        let is_ours = named.is_some_and(|named| named.is_same_file(&open))
            && open.size.checked_sub(failed.write_at).is_some_and(|stands| stands <= self.out.len() as u64);
        let stands = open.size.saturating_sub(failed.write_at);
        let mut bytes = vec![0; usize::try_from(stands).ok().filter(|_| is_ours).unwrap_or(0)];
        self.file.read_exact_at(failed.write_at, &mut bytes).map_err(io("reading"))?;
        if !is_ours || !self.out.starts_with(&bytes) {
            return Err(
                self.foreign("a failed write was not taken back, because others wrote too".to_owned())
            );
        }
        if open.size == before.size && !failed.by_sync {
            return Ok(());
        }
        self.file.truncate(before.size).map_err(io("taking a failed write back from"))?;
        self.file.sync_all().map_err(io("syncing"))?;
        self.unsynced = 0;
        self.writer.accept(true);
        Ok(())
    }

    fn foreign(&self, what: String) -> Error {
        Error::Foreign { path: self.path.clone(), what }
    }
}

impl Left {
    fn of(path: &Path, file: &dyn DiskFile) -> Result<Self> {
        let stamp = file.stamp().map_err(Error::io(path, "looking at"))?;
        let len = usize::try_from(stamp.size).map_or(FENCE_LEN, |size| size.min(FENCE_LEN));
        let mut end = vec![0; len];
        file.read_exact_at(stamp.size.saturating_sub(len as u64), &mut end)
            .map_err(Error::io(path, "reading"))?;
        Ok(Self { file: stamp, size: stamp.size, end })
    }

    /// The end after `bytes` were written behind it.
    fn grow(&mut self, bytes: &[u8]) {
        self.size = self.size.saturating_add(bytes.len() as u64);
        let last = bytes.len().saturating_sub(FENCE_LEN);
        self.end.extend_from_slice(bytes.get(last..).unwrap_or_default());
        self.end.drain(..self.end.len().saturating_sub(FENCE_LEN));
    }
}

/// Calls `each` with the rows of `batch`, at most `content_max` bytes at a time, but never less than a row; the last call is
/// told that it is.
pub(crate) fn each_piece<E>(
    batch: &Batch<'_>,
    content_max: usize,
    each: &mut dyn FnMut(&Batch<'_>, bool) -> Result<(), E>,
) -> Result<(), E> {
    if batch.content.len() <= content_max {
        return each(batch, true);
    }
    let mut rows = batch.rows.iter().peekable();
    let mut start = 0;
    while rows.peek().is_some() {
        let mut marks: Vec<RowMark> = Vec::new();
        while let Some(row) =
            rows.next_if(|row| marks.is_empty() || row.end.saturating_sub(start) <= content_max)
        {
            marks.push(RowMark { end: row.end.saturating_sub(start), ..*row });
        }
        let len = marks.last().map_or(0, |mark| mark.end);
        let content = batch.content.get(start..start.saturating_add(len)).unwrap_or_default();
        start = start.saturating_add(len);
        each(&Batch { content, rows: &marks }, rows.peek().is_none())?;
    }
    Ok(())
}
