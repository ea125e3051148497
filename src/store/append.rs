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
    /// An append returns when the operating system has it; a flush makes it durable. The disk is at work meanwhile, so that a
    /// flush waits for little. In the zstd and the plain encoding, which cannot say how much of a log was synced, an append first
    /// syncs the one before it: small ones cost as much as with [`Durability::Sync`].
    OnFlush,
}

/// Bytes of rows that one write takes, unless a single row is longer. With what may stand unsynced before it, it stays
/// below the 1 GiB that a trailer can say of.
const WRITE_CONTENT: usize = 256 << 20;

/// So many bytes that no sync has covered are sent on their way to the disk, which then works while more come.
pub(super) const BEGUN_BYTES: u64 = 1 << 20;

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
    /// What stands before this offset is on the disk, as far as this process can tell.
    durable_end: u64,
    /// Bytes behind the last sync that went well.
    unsynced: u64,
    /// What stands before this offset is on the disk, or on its way there.
    begun_end: u64,
    /// Appends were accepted that no sync is known to have covered.
    has_unsynced: bool,
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
        let durable_end = judged.map_or(left.size, |tail| tail.durable);
        Ok(Self {
            disk,
            path: path.to_path_buf(),
            file,
            writer,
            left,
            is_settled: judged.is_none(),
            durable_end,
            judged,
            unsynced: 0,
            begun_end: durable_end,
            has_unsynced: false,
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

    /// Tells that a batch of about `bytes` bytes will be appended in a moment, if nothing is wrong with it.
    pub(crate) fn announce(&self, bytes: usize) {
        self.writer.announce(bytes);
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
            self.durable_end = tail.good_end;
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
        self.is_durable();
        Ok(())
    }

    /// All bytes of the file that were accepted are on the disk.
    fn is_durable(&mut self) {
        self.unsynced = 0;
        self.has_unsynced = false;
        self.durable_end = self.left.size;
        self.writer.accept(true);
    }

    /// Where the bytes begin of which nobody can say whether they are on the disk, if a failure left any.
    pub(crate) fn doubtful_from(&self) -> Option<u64> {
        self.poisoned.then_some(self.durable_end)
    }

    /// The log.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all that was read when this opened is durable, or was made so.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether a failure left the file in a state that is not known.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether appends were accepted that no sync is known to have covered.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.has_unsynced
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
                self.durable_end = self.left.size;
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
        // The name leads to the open file, so one look tells the length of both.
        if named.size != self.left.size {
            let (is, was) = (named.size, self.left.size);
            return Err(self.foreign(format!("it has {is} bytes, and this writer left {was}")));
        }
        let mut now = [0; FENCE_LEN];
        let now = now.get_mut(..self.left.end.len()).unwrap_or_default();
        let at = self.left.size.saturating_sub(now.len() as u64);
        self.file.read_exact_at(at, now).map_err(Error::io(&self.path, "reading"))?;
        if now != self.left.end {
            let len = now.len();
            return Err(self.foreign(format!("its last {len} bytes are not those that this writer left")));
        }
        Ok(())
    }

    /// Writes a marker if the last record needs one, and `batch` behind it, all or nothing.
    fn store(&mut self, batch: Option<&Batch<'_>>, durability: Durability) -> Result<()> {
        let before = self.left.clone();
        let mut written = self.left.clone();
        let outcome = self.write(batch, durability, &mut written).and_then(|()| match durability {
            Durability::Sync => self.sync_written(&written, self.out.len()),
            Durability::OnFlush => Ok(()),
        });
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
                self.has_unsynced = self.unsynced > 0;
                self.writer.accept(!self.has_unsynced);
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
    fn write(
        &mut self,
        batch: Option<&Batch<'_>>,
        durability: Durability,
        written: &mut Left,
    ) -> Result<(), Failed> {
        let mut needs_marker = !self.writer.is_committed();
        let content_max = self.write_content;
        let mut write = |piece: Option<&Batch<'_>>, is_last: bool| {
            // Trailers say what was not synced before them.
            let must_sync = self.unsynced > self.unsynced_max;
            if must_sync && self.unsynced_max > 0 {
                self.sync_written(written, self.out.len())?;
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
            // Without trailers the disk had as long as staging took.
            if must_sync && self.unsynced_max == 0 {
                self.sync_written(written, 0)?;
            }
            self.file
                .append_all(&self.out)
                .map_err(|error| failed(Error::io(&self.path, "writing")(error)))?;
            self.unsynced = self.unsynced.saturating_add(self.out.len() as u64);
            written.grow(&self.out);
            self.begin_sync(written, durability)
        };
        match batch {
            Some(batch) => each_piece(batch, content_max, &mut |piece, is_last| write(Some(piece), is_last)),
            None => write(None, true),
        }
    }

    /// Sends bytes on their way to the disk that a later sync has to wait for, once they are enough.
    fn begin_sync(&mut self, written: &Left, durability: Durability) -> Result<(), Failed> {
        let begun = self.begun_end.max(self.durable_end);
        let len = written.size.saturating_sub(begun);
        // Where the next append waits for these, few are enough.
        let is_waited_for = durability == Durability::OnFlush && self.unsynced_max == 0;
        if len < BEGUN_BYTES && !is_waited_for {
            return Ok(());
        }
        self.file.begin_sync(begun, len).map_err(|error| Failed {
            error: Error::io(&self.path, "syncing")(error),
            by_sync: true,
            write_at: written.size.saturating_sub(self.out.len() as u64),
        })?;
        self.begun_end = written.size;
        Ok(())
    }

    /// Syncs the file, whose last `last_write` bytes are the last ones of this append.
    fn sync_written(&mut self, written: &Left, last_write: usize) -> Result<(), Failed> {
        self.file.sync_data().map_err(|error| Failed {
            error: Error::io(&self.path, "syncing")(error),
            by_sync: true,
            write_at: written.size.saturating_sub(last_write as u64),
        })?;
        self.unsynced = 0;
        self.has_unsynced = false;
        self.durable_end = written.size;
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
        self.begun_end = self.begun_end.min(before.size);
        self.file.sync_all().map_err(io("syncing"))?;
        // Behind a sync that failed, one that succeeds says nothing of what the first was to cover.
        if !failed.by_sync {
            self.is_durable();
        }
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

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::events::Checked;
    use super::super::log_file::{LogFile, ReadMode};
    use super::super::log_writer::LogWriter;
    use super::super::scan::{Item, Report, ScanOptions, Verdict, scan};
    use super::*;
    use crate::container::Encoding;
    use crate::container::disk::Access;
    use crate::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
    use crate::json::Text;
    use crate::limits::Limits;
    use crate::row::{Check, Header, PhysicalRow};
    use crate::units::{Generation, UnixMs};

    const PATH: &str = "/s/session.v2.jsonl.zst";
    const EIO: i32 = 5;

    /// The open end of a log with a header and nothing else.
    fn open(encoding: Encoding) -> (FaultDisk, Appender) {
        let disk = FaultDisk::new();
        disk.plant_dir("/s");
        let created_at = UnixMs::new(5);
        let mut header = Vec::new();
        Header::new(Generation::V2, Text::from("s"), created_at).unwrap().write(&mut header);
        let log = LogWriter::create(&disk, Path::new(PATH), encoding, 3, &header, created_at).unwrap();
        let (file, writer) = log.publish_open(&[]).unwrap();
        let appender = Appender::new(Arc::new(disk.clone()), Path::new(PATH), file, writer, None).unwrap();
        disk.forget_trace();
        (disk, appender)
    }

    fn batch(seqs: std::ops::Range<u64>, padding: usize) -> Checked {
        let mut batch = Checked::starting_at(seqs.start);
        for seq in seqs {
            let noise = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let text = format!("{noise:x}").repeat(padding.div_ceil(16).max(1));
            let line = format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":9,\"data\":\"{text}\"}}");
            let row =
                PhysicalRow::read(line.as_bytes(), Generation::V2, Check::Full, &Limits::DEFAULT).unwrap();
            batch.push(&row).unwrap();
        }
        batch
    }

    fn read(disk: &FaultDisk) -> (Report, Vec<u64>) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = LogFile::open(&disk, Path::new(PATH), Limits::DEFAULT, ReadMode::Read).unwrap();
        let mut seqs = Vec::new();
        let report = scan(&log, ScanOptions::STRICT, &mut |item| {
            if let Item::Row { row, .. } = item {
                seqs.push(row.first_seq().get());
            }
            Ok(ControlFlow::Continue(()))
        });
        (report.unwrap(), seqs)
    }

    fn kinds(disk: &FaultDisk) -> Vec<OpKind> {
        let changes = disk.trace().into_iter().filter(|op| op.kind.is_change());
        changes.map(|op| op.kind).collect()
    }

    #[test]
    fn a_batch_too_large_for_one_write_takes_several_and_commits_with_the_last() {
        let (disk, mut appender) = open(Encoding::Indexed);
        (appender.write_content, appender.unsynced_max) = (1000, 300);
        appender.append(&batch(0..30, 150).batch(), Durability::Sync).unwrap();
        let kinds = kinds(&disk);
        let writes = kinds.iter().filter(|kind| **kind == OpKind::Append).count();
        let syncs = kinds.iter().filter(|kind| **kind == OpKind::SyncData).count();
        assert!(writes > 4 && syncs > 2 && syncs <= writes, "{kinds:?}");
        assert_eq!(kinds.last(), Some(&OpKind::SyncData));
        let last_write = disk.trace().iter().rfind(|op| op.kind == OpKind::Append).unwrap().call;
        let (report, seqs) = read(&disk.crash_image(0, FileLoss::DropUnsynced));
        assert_eq!((report.verdict, seqs), (Verdict::Sound, (0..30).collect()));

        // Cut before the last write, the rows so far are whole and not committed.
        let (disk, mut appender) = open(Encoding::Indexed);
        (appender.write_content, appender.unsynced_max) = (1000, 300);
        disk.crash_after(last_write);
        appender.append(&batch(0..30, 150).batch(), Durability::Sync).unwrap_err();
        let (report, seqs) = read(&disk.crash_image(0, FileLoss::DropUnsynced));
        assert_eq!(report.verdict, Verdict::Unfinished);
        assert!(!seqs.is_empty() && seqs.len() < 30, "{seqs:?}");
    }

    #[test]
    fn a_batch_of_several_writes_is_taken_back_whole() {
        for (kind, failure) in
            [(OpKind::Append, Failure::Partial(40, EIO)), (OpKind::SyncData, Failure::Error(EIO))]
        {
            for encoding in Encoding::ALL {
                let (disk, mut appender) = open(encoding);
                (appender.write_content, appender.unsynced_max) = (1000, 300);
                appender.append(&batch(0..1, 10).batch(), Durability::Sync).unwrap();
                let before = disk.content(PATH).unwrap();
                // The second of its kind.
                let at = disk.ops();
                let large = batch(1..31, 150);
                let (probe_disk, mut probe) = open(encoding);
                (probe.write_content, probe.unsynced_max) = (1000, 300);
                probe.append(&batch(0..1, 10).batch(), Durability::Sync).unwrap();
                assert_eq!(probe_disk.ops(), at);
                probe_disk.forget_trace();
                probe.append(&large.batch(), Durability::Sync).unwrap();
                let trace = probe_disk.trace();
                let second = trace.iter().filter(|op| op.kind == kind).nth(1).unwrap().call;
                disk.fail_at(second, failure);
                appender.append(&large.batch(), Durability::Sync).unwrap_err();
                assert_eq!(disk.content(PATH).unwrap(), before, "{encoding} {kind:?}");
                assert_eq!(appender.is_poisoned(), kind == OpKind::SyncData);
                if !appender.is_poisoned() {
                    appender.append(&large.batch(), Durability::Sync).unwrap();
                    let (report, seqs) = read(&disk.crash_image(0, FileLoss::DropUnsynced));
                    assert_eq!((report.verdict, seqs), (Verdict::Sound, (0..31).collect()), "{encoding}");
                }
            }
        }
    }

    #[test]
    fn a_long_run_of_unsynced_appends_is_synced_before_a_trailer_cannot_say_how_long() {
        let (disk, mut appender) = open(Encoding::Indexed);
        appender.unsynced_max = 1000;
        for seq in 0..40 {
            appender.append(&batch(seq..seq + 1, 60).batch(), Durability::OnFlush).unwrap();
            assert!(appender.unsynced <= 1400, "{}", appender.unsynced);
        }
        let syncs = kinds(&disk).iter().filter(|kind| **kind == OpKind::SyncData).count();
        assert!((3..20).contains(&syncs), "{syncs}");
        assert_eq!(read(&disk).0.verdict, Verdict::Sound);
        let (report, seqs) = read(&disk.crash_image(0, FileLoss::DropUnsynced));
        assert_eq!(report.verdict, Verdict::Sound);
        assert!(seqs.len() > 20, "{seqs:?}");
    }

    #[test]
    fn without_trailers_at_most_one_append_is_unsynced() {
        for encoding in [Encoding::Zstd, Encoding::Plain] {
            let (disk, mut appender) = open(encoding);
            for seq in 0..3 {
                appender.append(&batch(seq..seq + 1, 60).batch(), Durability::OnFlush).unwrap();
            }
            use OpKind::{Append, SyncData};
            assert_eq!(kinds(&disk), [Append, SyncData, Append, SyncData, Append], "{encoding}");
            appender.sync().unwrap();
            appender.sync().unwrap();
            assert_eq!(kinds(&disk).last(), Some(&SyncData));
            assert_eq!(kinds(&disk).len(), 6, "nothing is left to sync the second time");
        }
    }

    /// Where each stretch begins and ends that was sent on its way to the disk.
    fn begun(disk: &FaultDisk) -> Vec<(u64, u64)> {
        let begun = disk.trace().into_iter().filter(|op| op.kind == OpKind::BeginSync);
        begun.map(|op| (op.offset, op.offset + op.len)).collect()
    }

    #[test]
    fn bytes_that_nobody_waits_for_are_on_their_way_once_they_are_enough() {
        let (disk, mut appender) = open(Encoding::Indexed);
        let start = disk.content(PATH).unwrap().len() as u64;
        let len = |disk: &FaultDisk| disk.content(PATH).unwrap().len() as u64;
        appender.append(&batch(0..1, 200).batch(), Durability::OnFlush).unwrap();
        assert_eq!(begun(&disk), [], "little can wait");
        let mut next = 1;
        while begun(&disk).is_empty() {
            assert!(len(&disk) - start < BEGUN_BYTES, "{}", len(&disk));
            // Noise: sixteen digits of each row take eight bytes at least.
            appender.append(&batch(next..next + 8000, 16).batch(), Durability::OnFlush).unwrap();
            next += 8000;
        }
        assert_eq!(begun(&disk), [(start, len(&disk))]);
        appender.sync().unwrap();
        appender.append(&batch(next..next + 1, 100).batch(), Durability::OnFlush).unwrap();
        assert_eq!(begun(&disk).len(), 1, "counted from the last sync");
    }

    #[test]
    fn where_the_next_append_has_to_wait_for_them_all_bytes_are_on_their_way_at_once() {
        for encoding in [Encoding::Zstd, Encoding::Plain] {
            let (disk, mut appender) = open(encoding);
            let mut ends = vec![disk.content(PATH).unwrap().len() as u64];
            for seq in 0..3 {
                appender.append(&batch(seq..seq + 1, 60).batch(), Durability::OnFlush).unwrap();
                ends.push(disk.content(PATH).unwrap().len() as u64);
            }
            let expected: Vec<_> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
            assert_eq!(begun(&disk), expected, "{encoding}");
            appender.append(&batch(3..4, 60).batch(), Durability::Sync).unwrap();
            assert_eq!(begun(&disk).len(), 3, "a sync follows anyway");
        }
    }

    #[test]
    fn a_disk_that_refuses_bytes_on_their_way_poisons_as_a_failed_sync_does() {
        for encoding in [Encoding::Zstd, Encoding::Plain] {
            let (disk, mut appender) = open(encoding);
            appender.append(&batch(0..1, 60).batch(), Durability::Sync).unwrap();
            let before = disk.content(PATH);
            disk.fail_next(OpKind::BeginSync, Failure::Error(EIO));
            let failed = appender.append(&batch(1..2, 60).batch(), Durability::OnFlush);
            assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
            assert!(appender.is_poisoned());
            assert_eq!(disk.content(PATH), before, "taken back");
        }
    }

    #[test]
    fn a_sync_that_fails_before_the_write_that_it_has_to_precede_leaves_the_file_as_it_was() {
        for encoding in [Encoding::Zstd, Encoding::Plain] {
            let (disk, mut appender) = open(encoding);
            appender.append(&batch(0..1, 60).batch(), Durability::OnFlush).unwrap();
            let before = disk.content(PATH);
            disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
            let failed = appender.append(&batch(1..2, 5000).batch(), Durability::OnFlush);
            assert!(matches!(failed, Err(Error::Io { .. })), "{encoding}: {failed:?}");
            assert!(appender.is_poisoned());
            assert_eq!(disk.content(PATH), before, "{encoding}");
        }
    }

    #[test]
    fn the_fence_looks_at_the_name_the_length_and_the_last_bytes() {
        type Change = fn(&FaultDisk, &[u8]);
        let changes: [(&str, Change); 5] = [
            ("gone", |disk, _| disk.remove_file(Path::new(PATH)).unwrap()),
            ("another file", |disk, bytes| disk.plant(PATH, bytes)),
            ("longer", |disk, _| {
                disk.open(Path::new(PATH), Access::Append).unwrap().append_all(b"x").unwrap();
            }),
            ("shorter", |disk, bytes| {
                disk.open(Path::new(PATH), Access::Append).unwrap().truncate(bytes.len() as u64 - 1).unwrap();
            }),
            ("other bytes", |disk, bytes| {
                let file = disk.open(Path::new(PATH), Access::Repair).unwrap();
                file.write_at(bytes.len() as u64 - 64, b"#").unwrap();
            }),
        ];
        for encoding in Encoding::ALL {
            for (name, change) in changes {
                let (disk, mut appender) = open(encoding);
                appender.append(&batch(0..2, 60).batch(), Durability::OnFlush).unwrap();
                change(&disk, &disk.content(PATH).unwrap());
                let changed = disk.content(PATH);
                let refused = appender.append(&batch(2..3, 10).batch(), Durability::Sync);
                assert!(matches!(refused, Err(Error::Foreign { .. })), "{encoding} {name}: {refused:?}");
                assert_eq!(disk.content(PATH), changed, "{encoding} {name}");
                let flushed = appender.sync();
                assert!(matches!(flushed, Err(Error::Foreign { .. })), "{encoding} {name}: {flushed:?}");
                assert!(appender.is_poisoned());
            }
        }
    }

    #[test]
    fn bytes_of_others_are_not_acknowledged_and_not_cut_off() {
        // Somebody writes behind the fence: before the write, and between the sync and the last look.
        for before in [OpKind::Append, OpKind::FileStamp] {
            let (disk, mut appender) = open(Encoding::Indexed);
            let (probe_disk, mut probe) = open(Encoding::Indexed);
            probe.append(&batch(0..2, 60).batch(), Durability::Sync).unwrap();
            let at = probe_disk.trace().iter().rfind(|op| op.kind == before).unwrap().call;
            disk.before(at, |disk| {
                disk.open(Path::new(PATH), Access::Append).unwrap().append_all(b"theirs").unwrap();
            });
            let refused = appender.append(&batch(0..2, 60).batch(), Durability::Sync);
            assert!(matches!(refused, Err(Error::Foreign { .. })), "{before:?}: {refused:?}");
            assert!(appender.is_poisoned());
            let bytes = disk.content(PATH).unwrap();
            assert!(bytes.windows(6).any(|six| six == b"theirs"));
        }
        // A write that failed, with their bytes behind ours.
        let (disk, mut appender) = open(Encoding::Indexed);
        disk.fail_next(OpKind::Append, Failure::Partial(20, EIO));
        let (probe_disk, mut probe) = open(Encoding::Indexed);
        probe.append(&batch(0..2, 60).batch(), Durability::Sync).unwrap();
        let at = probe_disk.trace().iter().find(|op| op.kind == OpKind::Append).unwrap().call + 1;
        disk.before(at, |disk| {
            disk.open(Path::new(PATH), Access::Append).unwrap().append_all(b"theirs").unwrap();
        });
        match appender.append(&batch(0..2, 60).batch(), Durability::Sync) {
            Err(Error::Aggregate(both)) => {
                assert!(matches!(both[..], [Error::Io { .. }, Error::Foreign { .. }]), "{both:?}");
            }
            other => panic!("{other:?}"),
        }
        assert!(appender.is_poisoned() && disk.content(PATH).unwrap().ends_with(b"theirs"));
    }

    #[test]
    fn an_append_that_nobody_could_look_at_is_not_acknowledged_and_poisons() {
        let (disk, mut appender) = open(Encoding::Indexed);
        let (probe_disk, mut probe) = open(Encoding::Indexed);
        probe.append(&batch(0..2, 60).batch(), Durability::Sync).unwrap();
        let last = probe_disk.trace().last().unwrap().call;
        disk.fail_at(last, Failure::Error(EIO));
        appender.append(&batch(0..2, 60).batch(), Durability::Sync).unwrap_err();
        assert!(appender.is_poisoned());
    }

    #[test]
    fn pieces_are_whole_rows_and_lose_none() {
        let batch = batch(0..20, 50);
        for content_max in [1, 200, 1000, batch.content.len() - 1, batch.content.len(), usize::MAX] {
            let mut text = Vec::new();
            let mut rows = 0;
            let mut lasts = Vec::new();
            let done: Result<()> = each_piece(&batch.batch(), content_max, &mut |piece, is_last| {
                assert_eq!(piece.rows.last().unwrap().end, piece.content.len());
                assert!(piece.content.len() <= content_max || piece.rows.len() == 1);
                text.extend_from_slice(piece.content);
                rows += piece.rows.len();
                lasts.push(is_last);
                Ok(())
            });
            done.unwrap();
            assert_eq!((text, rows), (batch.content.clone(), 20));
            assert_eq!(lasts.iter().filter(|last| **last).count(), 1);
            assert_eq!(lasts.last(), Some(&true));
        }
    }
}
