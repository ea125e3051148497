//! A whole log, written to a new file: for conversions, imports and everything else that copies rows.

use std::path::{Path, PathBuf};

use super::append::{BEGUN_BYTES, each_piece};
use super::events::{Checked, CheckedFault};
use super::handle::random_log_id;
use super::publish::Draft;
use crate::container::disk::{Disk, DiskFile, Stamp};
use crate::container::{Batch, BlockWriter, Encoding, Fault, create};
use crate::error::{Error, Result};
use crate::format::TargetRow;
use crate::row::PhysicalRow;
use crate::units::{Seq, UnixMs};

/// Bytes of rows that are written at once: a frame in the zstd encoding, four segments in the indexed one.
const WRITE_CONTENT: usize = 1 << 20;
/// A draft is synced at least this often, far below what a trailer can say of unsynced bytes.
const SYNC_BYTES: u64 = 256 << 20;
/// As many bytes at the end as a listing walks to be sure of them. Behind more, a marker says that they are durable.
pub(super) const UNPROVED_MAX: u64 = 60 << 10;

/// Writes a log under a temporary name, then publishes it under its own without replacing anything.
///
/// Rows are stored byte for byte, in memory only as many as one write takes. Dropped before [`LogWriter::publish`], it
/// leaves no log.
#[derive(Debug)]
pub struct LogWriter<'d> {
    draft: Draft<'d>,
    writer: Box<dyn BlockWriter>,
    batch: Checked,
    out: Vec<u8>,
    written: Written,
    unsynced: u64,
    /// Those of them that are on their way to the disk.
    begun: u64,
    /// Bytes of which the trailers so far do not say that a sync has covered them, although one may have.
    unproved: u64,
    sync_bytes: u64,
    write_content: usize,
}

/// What a [`LogWriter`] published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The new log.
    pub path: PathBuf,
    /// Its rows, the header not counted.
    pub rows: u64,
    /// Its events.
    pub events: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
}

impl<'d> LogWriter<'d> {
    /// Starts a log at `path`, in a folder that exists. `header` is the header line without its newline, stored as it is;
    /// `created_at` is the time in it.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::InvalidArgument`] for a header that no segment holds.
    pub fn create(
        disk: &'d dyn Disk,
        path: &Path,
        encoding: Encoding,
        level: i32,
        header: &[u8],
        created_at: UnixMs,
    ) -> Result<Self> {
        if disk.stamp(path).map_err(Error::io(path, "looking at"))?.is_some() {
            return Err(Error::io(path, "creating")(std::io::ErrorKind::AlreadyExists.into()));
        }
        Self::beside(disk, path, encoding, level, header, created_at)
    }

    /// As [`LogWriter::create`], where a log may stand at `path`: one that this one is to replace.
    ///
    /// # Errors
    /// As [`LogWriter::create`].
    pub(crate) fn beside(
        disk: &'d dyn Disk,
        path: &Path,
        encoding: Encoding,
        level: i32,
        header: &[u8],
        created_at: UnixMs,
    ) -> Result<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| Error::InvalidArgument { what: format!("{} names no file", path.display()) })?;
        let draft = Draft::create(disk, parent.unwrap_or(Path::new(".")), name)?;
        let mut out = Vec::new();
        let line = [header, b"\n"].concat();
        let writer =
            create(encoding, random_log_id()?, &line, created_at.get(), level, &mut out).map_err(invalid)?;
        let written = Written { path: path.to_path_buf(), rows: 0, events: 0, size_bytes: 0 };
        Ok(Self {
            draft,
            writer,
            batch: Checked::starting_at(0),
            out,
            written,
            unsynced: 0,
            begun: 0,
            unproved: 0,
            sync_bytes: SYNC_BYTES,
            write_content: WRITE_CONTENT,
        })
    }

    /// Writes segments, or frames, of `bytes` bytes of rows from now on, unless a single row is longer.
    pub(crate) fn set_segment_content(&mut self, bytes: usize) {
        self.write_content = bytes;
        self.writer.set_segment_content(bytes);
    }

    /// Adds a row; the first one has seq 0 and the others follow.
    ///
    /// # Errors
    /// [`Error::SeqMismatch`], [`Error::Io`], and [`Error::InvalidArgument`] for a row that no segment holds.
    pub fn push(&mut self, row: &PhysicalRow<'_>) -> Result<()> {
        self.push_parts(&[row.line().as_bytes()], row.first_seq(), row.next_seq(), row.last_time())
    }

    /// Adds a row of one event that stands in parts, as a migration delivers it.
    ///
    /// # Errors
    /// As [`LogWriter::push`].
    pub fn push_converted(&mut self, row: &TargetRow<'_>) -> Result<()> {
        self.push_parts(&row.parts(), row.seq(), row.seq().get().saturating_add(1), row.time())
    }

    fn push_parts(&mut self, parts: &[&[u8]], first: Seq, next: u64, last_time: UnixMs) -> Result<()> {
        let expected = self.batch.next_seq;
        let len = parts.iter().map(|part| part.len()).fold(1, usize::saturating_add);
        // Written before it is full rather than behind: what a reader decompresses for one row has a bound.
        if !self.batch.content.is_empty() && self.batch.content.len().saturating_add(len) > self.write_content
        {
            self.write_batch()?;
        }
        self.batch.push_parts(parts, first, next, last_time).map_err(|CheckedFault::Seq { actual }| {
            Error::SeqMismatch {
                id: self.written.path.display().to_string(),
                expected,
                index: usize::try_from(self.written.rows).unwrap_or(usize::MAX),
                actual: actual.get(),
            }
        })?;
        self.written.rows = self.written.rows.saturating_add(1);
        Ok(())
    }

    /// Events written so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.batch.next_seq
    }

    /// Path under which the log will appear.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.draft.path()
    }

    /// Path under which the file stands until it is published.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        self.draft.temporary()
    }

    /// Writes what is left, for a check of the whole under its temporary name. [`LogWriter::publish`] syncs it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(&mut self) -> Result<()> {
        self.write_end()
    }

    /// Writes what is left, syncs, and publishes; then syncs the folders `above` the file's own, innermost first.
    ///
    /// # Errors
    /// [`Error::Io`]; of kind `AlreadyExists` if the name was taken meanwhile. Nothing is published then.
    pub fn publish(mut self, above: &[&Path]) -> Result<Written> {
        self.write_end()?;
        let written = self.written();
        self.publish_written(above)?;
        Ok(written)
    }

    fn written(&self) -> Written {
        Written { events: self.batch.next_seq, ..self.written.clone() }
    }

    /// Writes what is left, syncs, and puts the log in the place of the one that `old` describes; then syncs the folder. The
    /// caller holds the session's lock.
    ///
    /// # Errors
    /// [`Error::Foreign`] if another file stands there by now, or that one was changed: nothing is replaced then.
    /// [`Error::Io`]: whichever of both logs has the name is whole.
    pub(crate) fn replace(mut self, old: &Stamp) -> Result<Written> {
        self.write_end()?;
        let written = self.written();
        self.draft.replace(old)?;
        Ok(written)
    }

    /// As [`LogWriter::publish`], and hands out what appends to the log.
    pub(crate) fn publish_open(
        mut self,
        above: &[&Path],
    ) -> Result<(Box<dyn DiskFile>, Box<dyn BlockWriter>)> {
        self.write_end()?;
        self.publish_written(above)
    }

    fn publish_written(mut self, above: &[&Path]) -> Result<(Box<dyn DiskFile>, Box<dyn BlockWriter>)> {
        let file = self.draft.publish(above)?;
        self.writer.accept(true);
        Ok((file, self.writer))
    }

    /// Writes rows that were checked, behind those that were pushed.
    pub(crate) fn write_checked(&mut self, rows: &Checked) -> Result<()> {
        self.write_batch()?;
        self.written.rows = self.written.rows.saturating_add(rows.marks.len() as u64);
        self.batch.next_seq = rows.next_seq;
        each_piece(&rows.batch(), WRITE_CONTENT, &mut |piece, _| self.write(Some(piece)))
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.batch.marks.is_empty() {
            return Ok(());
        }
        let next = self.batch.next_seq;
        let batch = std::mem::take(&mut self.batch);
        let written = self.write(Some(&batch.batch()));
        self.batch = Checked { next_seq: next, ..batch };
        self.batch.content.clear();
        self.batch.marks.clear();
        written
    }

    /// Writes what is left. If a crash could have damaged more behind the last sync than a look at the end of the log would
    /// read, all is synced and a marker says so: until something is appended, nobody else does.
    fn write_end(&mut self) -> Result<()> {
        self.write_batch()?;
        self.write(None)?;
        if self.writer.unsynced_max() > 0 && self.unproved > UNPROVED_MAX {
            if self.unsynced > 0 {
                self.sync()?;
            }
            self.writer.stage_marker(&mut self.out).map_err(invalid)?;
            self.write(None)?;
        }
        Ok(())
    }

    /// Writes what is staged, and `rows` behind it.
    fn write(&mut self, rows: Option<&Batch<'_>>) -> Result<()> {
        if let Some(rows) = rows {
            self.writer.stage(rows, &mut self.out).map_err(invalid)?;
        }
        self.draft.write(&self.out)?;
        let len = self.out.len() as u64;
        self.unsynced = self.unsynced.saturating_add(len);
        self.written.size_bytes = self.written.size_bytes.saturating_add(len);
        if len > 0 {
            self.unproved = self.unsynced;
        }
        self.out.clear();
        self.writer.accept(false);
        if self.unsynced >= self.sync_bytes { self.sync() } else { self.begin_sync() }
    }

    /// Sends bytes on their way to the disk that a sync will have to wait for, once they are enough.
    fn begin_sync(&mut self) -> Result<()> {
        let len = self.unsynced.saturating_sub(self.begun);
        if len < BEGUN_BYTES {
            return Ok(());
        }
        let start = self.written.size_bytes.saturating_sub(len);
        self.draft.file().begin_sync(start, len).map_err(Error::io(self.draft.temporary(), "syncing"))?;
        self.begun = self.unsynced;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.draft.file().sync_data().map_err(Error::io(self.draft.temporary(), "syncing"))?;
        (self.unsynced, self.begun) = (0, 0);
        self.writer.accept(true);
        Ok(())
    }
}

fn invalid(fault: Fault) -> Error {
    Error::InvalidArgument { what: fault.to_string() }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::super::log_file::{LogFile, ReadMode};
    use super::super::scan::{ScanOptions, Verdict, scan};
    use super::*;
    use crate::container::disk::fault::{Failure, FaultDisk, OpKind};
    use crate::json::Text;
    use crate::limits::Limits;
    use crate::row::{Check, Header};
    use crate::units::Generation;

    const PATH: &str = "/s/session.v2.jsonl.zst";

    fn writer(disk: &FaultDisk, encoding: Encoding) -> LogWriter<'_> {
        disk.plant_dir("/s");
        let mut header = Vec::new();
        Header::new(Generation::V2, Text::from("s"), UnixMs::new(5)).unwrap().write(&mut header);
        LogWriter::create(disk, Path::new(PATH), encoding, 3, &header, UnixMs::new(5)).unwrap()
    }

    /// Rows of 40 KB that do not compress much.
    fn push(log: &mut LogWriter<'_>, count: u64) {
        for seq in log.events()..log.events().saturating_add(count) {
            let mut noise = seq.wrapping_add(1);
            let mut text = String::new();
            while text.len() < 40_000 {
                noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                text.push_str(&format!("{noise:016x}"));
            }
            let line = format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":9,\"data\":\"{text}\"}}");
            let row = PhysicalRow::read(line.as_bytes(), Generation::V2, Check::Full, &Limits::DEFAULT);
            log.push(&row.unwrap()).unwrap();
        }
    }

    fn tail(disk: &FaultDisk) -> (Verdict, crate::container::Tail) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = LogFile::open(&disk, Path::new(PATH), Limits::DEFAULT, ReadMode::Read).unwrap();
        let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
        (report.verdict, report.tail.unwrap())
    }

    #[test]
    fn a_draft_is_synced_every_so_many_bytes_and_a_marker_says_that_all_of_it_was() {
        for encoding in Encoding::ALL {
            let disk = FaultDisk::new();
            let mut log = writer(&disk, encoding);
            log.sync_bytes = 1 << 20;
            push(&mut log, 100);
            let written = log.publish(&[]).unwrap();
            assert_eq!((written.rows, written.events), (100, 100));
            let syncs = disk.trace().iter().filter(|op| op.kind == OpKind::SyncData).count();
            assert!((1..6).contains(&syncs), "{encoding}: {syncs}");
            let (verdict, tail) = tail(&disk);
            assert_eq!((verdict, tail.len), (Verdict::Sound, written.size_bytes));
            if encoding == Encoding::Indexed {
                assert_eq!(tail.durable, tail.len.saturating_sub(64), "all but the marker itself");
            }
        }
    }

    #[test]
    fn a_draft_is_on_its_way_to_the_disk_while_it_grows() {
        for encoding in Encoding::ALL {
            let disk = FaultDisk::new();
            let mut log = writer(&disk, encoding);
            push(&mut log, 200);
            log.finish().unwrap();
            let mut end = 0;
            for op in disk.trace().iter().filter(|op| op.kind == OpKind::BeginSync) {
                assert!(op.offset == end && op.len >= BEGUN_BYTES, "{encoding}: {op:?}");
                end = op.offset + op.len;
            }
            let written = log.written().size_bytes;
            assert!(
                written > 3 * BEGUN_BYTES && written - end < BEGUN_BYTES,
                "{encoding}: {end} of {written}"
            );
            (log.begun, log.unsynced) = (0, BEGUN_BYTES);
            disk.fail_next(OpKind::BeginSync, Failure::Error(5));
            assert!(matches!(log.begin_sync(), Err(Error::Io { .. })), "{encoding}");
        }
    }

    #[test]
    fn a_short_log_has_no_marker_and_no_sync_of_its_own() {
        let disk = FaultDisk::new();
        let mut log = writer(&disk, Encoding::Indexed);
        push(&mut log, 1);
        log.finish().unwrap();
        assert!(!disk.trace().iter().any(|op| op.kind.is_sync()), "until it is published");
        assert!(log.publish(&[]).is_ok());
        assert!(!disk.trace().iter().any(|op| op.kind == OpKind::SyncData));
        assert_eq!(tail(&disk).1.durable, 0);
    }

    #[test]
    fn a_writer_that_is_dropped_leaves_nothing() {
        let disk = FaultDisk::new();
        let mut log = writer(&disk, Encoding::Indexed);
        push(&mut log, 3);
        drop(log);
        assert_eq!(disk.paths(), [PathBuf::from("/s")]);
    }
}
