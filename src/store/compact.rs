//! Rewriting a quiet log into large, well-compressed segments: other bytes, the same rows.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Compaction".

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::events::Checked;
use super::folder::Folder;
use super::handle::random_log_id;
use super::lock::locked;
use super::log_file::{LogFile, ReadMode};
use super::log_writer::{LogWriter, UNPROVED_MAX};
use super::scan::{Item, Report, ScanOptions, Verdict, scan};
use super::snapshot::header_error;
use crate::container::disk::Disk;
use crate::container::{BlockReader, Encoding, Fault, FileSource, create, reader};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::Header;

/// Settings of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Bounds on what is read.
    pub limits: Limits,
    /// Zstandard level; 12 by default. 19 makes a log a tenth smaller still, and takes ten times as long.
    pub level: i32,
    /// Bytes of rows in one segment or frame, unless a single row is longer; 1 MiB by default. A reader decompresses as much for
    /// one row, and four times as much would save two percent.
    pub segment_bytes: usize,
    /// Compresses and counts; takes no lock and writes nothing.
    pub dry_run: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { limits: Limits::DEFAULT, level: 12, segment_bytes: 1 << 20, dry_run: false }
    }
}

/// What a compaction did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The log.
    pub path: PathBuf,
    /// How it is stored, before and after.
    pub encoding: Encoding,
    /// Its rows, the header not counted.
    pub rows: u64,
    /// Its events.
    pub events: u64,
    /// Data frames before, the header's included.
    pub frames_before: u64,
    /// Bytes before.
    pub size_before: u64,
    /// Data frames of the rewritten log.
    pub frames_after: u64,
    /// Bytes of the rewritten log.
    pub size_after: u64,
    /// Whether the rewritten log is smaller. One that is not is thrown away.
    pub is_smaller: bool,
}

/// Rewrites the log at `path` into segments (or frames) of the size and level that `options` say, reads the new file from
/// disk and compares it with the old one line by line, and puts it in its place.
///
/// Holds the session's write lock meanwhile, so that nobody appends; readers go on in the file that they have open. A crash
/// leaves one of both logs under the name, whole, and at worst a temporary file. The log stays as it is if it would not become
/// smaller. `progress` gets the bytes of the stored log that are done, of twice its length: one pass writes, one compares.
///
/// # Errors
/// Of a log that is anything but sound: what is wrong with it ([`Error::TornTail`], [`Error::Corruption`],
/// [`Error::FormatUnsupported`], ...). [`Error::AlreadyOwned`] while somebody writes the session, [`Error::Foreign`] if the
/// file changed meanwhile all the same, [`Error::InvalidArgument`] for a plain log, which has no segments, [`Error::Io`].
pub fn compact(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: &CompactOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Compacted> {
    if options.dry_run {
        return Compaction::open(disk, path, options)?.plan(progress);
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Looked at before the lock is taken: what is refused in any case gets no lock file.
    drop(Compaction::open(disk, path, options)?);
    locked(&**disk, folder, || Compaction::open(disk, path, options)?.run(disk, progress))
}

/// The log that is to be rewritten.
struct Compaction<'o> {
    log: LogFile,
    header: Header,
    line: Vec<u8>,
    options: &'o CompactOptions,
}

impl<'o> Compaction<'o> {
    fn open(disk: &Arc<dyn Disk>, path: &Path, options: &'o CompactOptions) -> Result<Self> {
        let log = LogFile::open(disk, path, options.limits, ReadMode::Read)?;
        log.check_encoding()?;
        let line = log.header_line()?;
        let header = Header::parse(&line, &options.limits).map_err(|fault| header_error(path, fault))?;
        log.check_name(header.generation())?;
        let folder = path.parent().map(|folder| Folder::read(&**disk, folder)).transpose()?.flatten();
        if let Some(folder) = folder.filter(Folder::is_in_a_project) {
            folder.check_place(&**disk, &header)?;
        }
        if log.encoding() == Encoding::Plain {
            let what = format!(
                "{}: a plain log has no segments; convert it to another encoding to make it small",
                path.display()
            );
            return Err(Error::InvalidArgument { what });
        }
        Ok(Self { log, header, line, options })
    }

    fn run(&self, disk: &Arc<dyn Disk>, progress: &mut dyn FnMut(u64)) -> Result<Compacted> {
        let CompactOptions { level, segment_bytes, .. } = *self.options;
        let (path, encoding) = (self.log.path(), self.log.encoding());
        let mut writer =
            LogWriter::beside(&**disk, path, encoding, level, &self.line, self.header.created_at())?;
        writer.set_segment_content(segment_bytes);
        let report = scan(&self.log, ScanOptions::STRICT, &mut |item| {
            if let Item::Row { row, place } = item {
                progress(place.file_at);
                writer.push(&row)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.require_sound(&report)?;
        writer.finish()?;
        let (written, size_after) = self.compare(disk, writer.temporary(), &report, progress)?;
        let mut compacted = self.compacted(&report, written.frames, size_after);
        if compacted.is_smaller {
            compacted.size_after = writer.replace(self.log.stamp())?.size_bytes;
        }
        Ok(compacted)
    }

    /// Compresses everything, and keeps nothing.
    fn plan(&self, progress: &mut dyn FnMut(u64)) -> Result<Compacted> {
        let CompactOptions { level, segment_bytes, .. } = *self.options;
        let invalid = |fault: Fault| Error::InvalidArgument { what: fault.to_string() };
        let line = [&self.line[..], b"\n"].concat();
        let (id, created_at) = (random_log_id()?, self.header.created_at().get());
        let mut out = Vec::new();
        let mut writer =
            create(self.log.encoding(), id, &line, created_at, level, &mut out).map_err(invalid)?;
        writer.set_segment_content(segment_bytes);
        let (mut frames, mut batch) = (1_u64, Checked::starting_at(0));
        let mut stage = |batch: &mut Checked| {
            out.clear();
            writer.stage(&batch.batch(), &mut out).map_err(invalid)?;
            writer.accept(true);
            frames = frames.saturating_add(1);
            batch.content.clear();
            batch.marks.clear();
            Ok(())
        };
        let report = scan(&self.log, ScanOptions::STRICT, &mut |item| {
            if let Item::Row { row, place } = item {
                progress(place.file_at.saturating_mul(2));
                let len = row.line().len().saturating_add(1);
                if !batch.marks.is_empty() && batch.content.len().saturating_add(len) > segment_bytes {
                    stage(&mut batch)?;
                }
                // A scan delivers rows in order and without gaps.
                let pushed = batch.push(&row);
                debug_assert!(pushed.is_ok(), "contiguous by the scan's contract");
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !batch.marks.is_empty() {
            stage(&mut batch)?;
        }
        if writer.unsynced_max() > 0 && writer.end() > UNPROVED_MAX {
            out.clear();
            writer.stage_marker(&mut out).map_err(invalid)?;
            writer.accept(true);
        }
        self.require_sound(&report)?;
        Ok(self.compacted(&report, frames, writer.end()))
    }

    fn compacted(&self, report: &Report, frames_after: u64, size_after: u64) -> Compacted {
        let size_before = self.log.stamp().size;
        Compacted {
            path: self.log.path().to_path_buf(),
            encoding: self.log.encoding(),
            rows: report.rows,
            events: report.events,
            frames_before: report.frames,
            size_before,
            frames_after,
            size_after,
            is_smaller: size_after < size_before,
        }
    }

    fn require_sound(&self, report: &Report) -> Result<()> {
        report.require_appendable(&self.log)?;
        report.end_error(&self.log).map_or(Ok(()), Err)
    }

    /// Reads the rewritten log as any reader would, and the old one's lines beside it. Its report and its length.
    fn compare(
        &self,
        disk: &Arc<dyn Disk>,
        path: &Path,
        old: &Report,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Report, u64)> {
        let differs = || Error::Foreign {
            path: path.to_path_buf(),
            what: "what was written does not read back as the log that it was copied from".to_owned(),
        };
        let log = LogFile::open(disk, path, self.options.limits, ReadMode::Read)?;
        let mut lines = Lines::of(&self.log)?;
        let report = scan(&log, ScanOptions::STRICT, &mut |item| {
            let line = match item {
                Item::Header { line, .. } => line,
                Item::Row { row, .. } => row.line().as_bytes(),
                Item::Bad { .. } | Item::Opaque { .. } | Item::Hole { .. } => return Err(differs()),
            };
            if !lines.next_is(line)? {
                return Err(differs());
            }
            progress(self.log.stamp().size.saturating_add(lines.at));
            Ok(ControlFlow::Continue(()))
        })?;
        let same = |one: &Report| (one.rows, one.events, one.last_time, one.inherited, one.content_bytes);
        let is_copy = report.verdict == Verdict::Sound && same(&report) == same(old) && lines.is_done()?;
        if is_copy { Ok((report, log.stamp().size)) } else { Err(differs()) }
    }
}

/// The lines of a log, one after the other, in blocks as they are stored.
struct Lines<'l> {
    log: &'l LogFile,
    source: FileSource<'l>,
    blocks: Box<dyn BlockReader>,
    text: Vec<u8>,
    /// Start of the next line in `text`.
    from: usize,
    /// End of the present block in the file.
    at: u64,
}

impl<'l> Lines<'l> {
    fn of(log: &'l LogFile) -> Result<Self> {
        let blocks = reader(log.encoding(), *log.limits());
        Ok(Self { log, source: log.source()?, blocks, text: Vec::new(), from: 0, at: 0 })
    }

    /// Goes on to the next block if the present one is used up. `false` at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.from >= self.text.len() {
            let block = self.blocks.next(&mut self.source);
            let Some(block) = block.map_err(|error| Error::read(self.log.path(), 0, error))? else {
                return Ok(false);
            };
            self.text.clear();
            self.text.extend_from_slice(block.content);
            (self.from, self.at) = (0, block.end);
        }
        Ok(true)
    }

    /// Whether the next line is `line`, newline not counted, and steps behind it.
    fn next_is(&mut self, line: &[u8]) -> Result<bool> {
        if !self.fill()? {
            return Ok(false);
        }
        let rest = self.text.get(self.from..).unwrap_or_default();
        let is_same = rest.strip_prefix(line).is_some_and(|behind| behind.first() == Some(&b'\n'));
        self.from = self.from.saturating_add(line.len()).saturating_add(1);
        Ok(is_same)
    }

    /// Whether no line is left.
    fn is_done(&mut self) -> Result<bool> {
        self.fill().map(|more| !more)
    }
}
