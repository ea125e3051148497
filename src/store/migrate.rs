//! Publishing the current generation of an older log beside it.
//!
//! Spec: `format-spec/06-migration.md`, "Publication".

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Folder;
use super::layout::log_name;
use super::lines::{LineEnd, each_text};
use super::lock::locked;
use super::log_file::{LogFile, ReadMode};
use super::log_writer::LogWriter;
use super::scan::{Item, ScanOptions, Verdict, scan};
use super::snapshot::header_error;
use crate::container::disk::{Disk, Stamp};
use crate::error::{Error, Result};
use crate::format::{Code, Migration, PayloadCheck, Refusal, TargetRow, Verifier};
use crate::limits::Limits;
use crate::row::{Header, Recovery};
use crate::units::Generation;

/// What a migration of one log came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Migrated {
    /// The log that was looked at: the newest in its folder.
    pub source: PathBuf,
    /// Its generation.
    pub from: Generation,
    /// What became of it.
    pub outcome: MigrationOutcome,
}

/// The ways in which a migration ends.
#[derive(Debug)]
#[non_exhaustive]
pub enum MigrationOutcome {
    /// The log is of the current generation already.
    Current,
    /// The successor stands beside the source.
    Published {
        /// Its path.
        path: PathBuf,
        /// Its events.
        events: u64,
        /// Rows of the source behind an end that was cut short were dropped.
        is_prefix: bool,
    },
    /// In a dry run: the log converts and verifies, and nothing was published.
    Convertible {
        /// Events that the successor would have.
        events: u64,
        /// Rows of the source behind an end that was cut short would be dropped.
        is_prefix: bool,
    },
    /// The log cannot be converted without losing or inventing something. It stays as it is.
    Refused(Refusal),
}

/// Settings of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// Bounds on what is read.
    pub limits: Limits,
    /// Zstandard level of the successor.
    pub level: i32,
    /// Converts and verifies, and publishes nothing.
    pub dry_run: bool,
}

impl Default for MigrateOptions {
    fn default() -> Self {
        Self { limits: Limits::DEFAULT, level: crate::container::LEVEL_DEFAULT, dry_run: false }
    }
}

/// Converts the newest log of `folder` to the current generation, verifies the result from disk, and publishes it beside
/// the source, which keeps its bytes and its inode.
///
/// One pass over the rows; memory as a [`Migration`] and a [`Verifier`] need it. The successor has the source's encoding. A
/// successor that somebody else published meanwhile is accepted if it begins with the same rows.
///
/// # Errors
/// [`Error::NotFound`] for a folder without a log, [`Error::AlreadyOwned`] while somebody writes the session,
/// [`Error::Foreign`] if the source changed meanwhile, [`Error::FormatUnsupported`] for a newer generation,
/// [`Error::Corruption`] for damage in the source's bytes, [`Error::Io`]. Nothing is published then.
pub fn migrate(disk: &Arc<dyn Disk>, folder: &Path, options: &MigrateOptions) -> Result<Migrated> {
    if options.dry_run {
        return migrate_locked(disk, folder, options);
    }
    // Looked at before the lock is taken: a current log needs nothing, not even a lock file.
    let (log, header) = open_newest(disk, folder, options.limits)?;
    if header.generation() == Generation::CURRENT {
        return Ok(current(&log));
    }
    locked(&**disk, folder, || migrate_locked(disk, folder, options))
}

/// As [`migrate`], by a caller that holds the session's lock.
pub(crate) fn migrate_locked(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    options: &MigrateOptions,
) -> Result<Migrated> {
    let (log, header) = open_newest(disk, folder, options.limits)?;
    if header.generation() == Generation::CURRENT {
        return Ok(current(&log));
    }
    // A folder that a person named by its path, outside of any root, may have any name.
    if let Some(folder) = Folder::read(&**disk, folder)?.filter(Folder::is_in_a_project) {
        folder.check_place(&**disk, &header)?;
    }
    let source = log.path().to_path_buf();
    let from = header.generation();
    let outcome = match convert(disk, folder, &log, &header, options)? {
        Converted::Refused(refusal) => MigrationOutcome::Refused(refusal),
        Converted::Ready { events, is_prefix, .. } if options.dry_run => {
            MigrationOutcome::Convertible { events, is_prefix }
        }
        Converted::Ready { writer, events, is_prefix, digest } => {
            check_unchanged(&**disk, &log)?;
            let path = publish(disk, folder, writer, events, digest, options.limits)?;
            MigrationOutcome::Published { path, events, is_prefix }
        }
    };
    Ok(Migrated { source, from, outcome })
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time, taken apart where it is returned")]
enum Converted<'d> {
    Refused(Refusal),
    Ready { writer: LogWriter<'d>, events: u64, is_prefix: bool, digest: u64 },
}

/// Bytes of lines that are converted at a time: enough for other cores to take part.
const LINES_LEN: usize = 1 << 20;

/// Writes the successor under a temporary name and verifies it.
fn convert<'d>(
    disk: &'d Arc<dyn Disk>,
    folder: &Path,
    log: &LogFile,
    header: &Header,
    options: &MigrateOptions,
) -> Result<Converted<'d>> {
    let mut migration = match Migration::new(header, Recovery::Recoverable, &options.limits) {
        Ok(migration) => migration,
        Err(fault) => return Err(header_error(log.path(), fault)),
    };
    let path = folder.join(log_name(Generation::CURRENT, log.encoding()));
    let mut line = Vec::new();
    migration.header().write(&mut line);
    let target = migration.header().clone();
    let mut digest = Digest::default();
    digest.line(&[&line]);
    let mut writer =
        match LogWriter::create(&**disk, &path, log.encoding(), options.level, &line, target.created_at()) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                return Err(conflict(&path));
            }
            other => other?,
        };
    let mut failed = None;
    let mut sink = |row: &TargetRow<'_>| {
        digest.line(&row.parts());
        match writer.push_converted(row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let (mut lines, mut refusal) = (Vec::new(), None);
    let mut convert = |lines: &mut Vec<u8>| {
        let flow = migration.push_lines(lines, &mut sink).unwrap_or_else(|found| {
            refusal = Some(found);
            ControlFlow::Break(())
        });
        lines.clear();
        flow
    };
    let end = each_text(log, &mut |text| {
        lines.extend_from_slice(text);
        if !text.ends_with(b"\n") {
            lines.push(b'\n');
        }
        if lines.len() < LINES_LEN { ControlFlow::Continue(()) } else { convert(&mut lines) }
    });
    // What went wrong in the lines comes before what went wrong in the bytes behind them.
    let end = match (convert(&mut lines), end) {
        (ControlFlow::Continue(()), end) => end?,
        (ControlFlow::Break(()), _) => LineEnd::Whole,
    };
    if let (LineEnd::HalfALine, None) = (end, &refusal) {
        refusal = migration.torn_tail().err();
    }
    let outcome = match refusal {
        Some(refusal) => Err(refusal),
        None => migration.finish(&mut sink),
    };
    if let Some(error) = failed {
        return Err(error);
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refusal) => return Ok(Converted::Refused(refusal)),
    };
    writer.finish()?;
    let digest = digest.finish();
    let verified = verify(disk, writer.temporary(), log, &target, outcome.events, digest, options.limits)?;
    Ok(match verified {
        Some(refusal) => Converted::Refused(refusal),
        None => Converted::Ready { writer, events: outcome.events, is_prefix: outcome.is_prefix, digest },
    })
}

/// Reads the written file from scratch and checks all of it, streams included.
fn verify(
    disk: &Arc<dyn Disk>,
    path: &Path,
    source: &LogFile,
    target: &Header,
    events: u64,
    written: u64,
    limits: Limits,
) -> Result<Option<Refusal>> {
    let log = LogFile::open(disk, path, limits, ReadMode::Read)?;
    let unreadable = || Some(Refusal::publication(Code::Reopen, "what was written does not read back"));
    if log.encoding() != source.encoding() && events > 0 {
        return Ok(unreadable());
    }
    let mut verifier = match Verifier::new(target, PayloadCheck::Messages, &limits) {
        Ok(verifier) => verifier,
        Err(refusal) => return Ok(Some(refusal)),
    };
    let mut refusal = None;
    let mut digest = Digest::default();
    let report = scan(&log, ScanOptions::STRICT, &mut |item| {
        match item {
            Item::Header { line, .. } => digest.line(&[line]),
            Item::Row { row, .. } => {
                digest.line(&[row.line().as_bytes()]);
                refusal = verifier.push(row.line().as_bytes()).err();
            }
            Item::Bad { .. } | Item::Opaque { .. } | Item::Hole { .. } => {}
        }
        Ok(if refusal.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if refusal.is_some() {
        return Ok(refusal);
    }
    if report.verdict != Verdict::Sound || digest.finish() != written {
        return Ok(unreadable());
    }
    Ok(verifier.finish(target.id(), events).err())
}

/// Gives the successor its name, or accepts one that was published meanwhile and begins with the same rows.
fn publish(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    writer: LogWriter<'_>,
    events: u64,
    digest: u64,
    limits: Limits,
) -> Result<PathBuf> {
    let path = writer.path().to_path_buf();
    let above: Vec<&Path> = folder.ancestors().skip(1).take(1).collect();
    match writer.publish(&above) {
        Ok(written) => Ok(written.path),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            if begins_with(disk, &path, events, digest, limits)? { Ok(path) } else { Err(conflict(&path)) }
        }
        Err(error) => Err(error),
    }
}

/// Whether the log at `path` begins with `events` events of that digest.
fn begins_with(disk: &Arc<dyn Disk>, path: &Path, events: u64, wanted: u64, limits: Limits) -> Result<bool> {
    let log = LogFile::open(disk, path, limits, ReadMode::Read)?;
    let mut digest = Digest::default();
    let mut seen = 0;
    scan(&log, ScanOptions::STRICT, &mut |item| {
        match item {
            Item::Header { line, .. } => digest.line(&[line]),
            Item::Row { row, .. } if row.next_seq() <= events => {
                digest.line(&[row.line().as_bytes()]);
                seen = row.next_seq();
            }
            _ => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(seen == events && digest.finish() == wanted)
}

fn open_newest(disk: &Arc<dyn Disk>, folder: &Path, limits: Limits) -> Result<(LogFile, Header)> {
    let not_found =
        || Error::NotFound { id: folder.file_name().unwrap_or_default().to_string_lossy().into_owned() };
    let folder = Folder::read(&**disk, folder)?.ok_or_else(not_found)?;
    let log = folder.current()?.ok_or_else(not_found)?;
    let log = LogFile::open(disk, &folder.path.join(&log.name), limits, ReadMode::default())?;
    let line = log.header_line()?;
    let header = Header::parse(&line, &limits).map_err(|fault| header_error(log.path(), fault))?;
    log.check_name(header.generation())?;
    Ok((log, header))
}

fn check_unchanged(disk: &dyn Disk, log: &LogFile) -> Result<()> {
    let now: Option<Stamp> = disk.stamp(log.path()).map_err(Error::io(log.path(), "looking at"))?;
    if now.as_ref() == Some(log.stamp()) {
        return Ok(());
    }
    Err(Error::Foreign {
        path: log.path().to_path_buf(),
        what: "it changed while it was being converted; nothing was published".to_owned(),
    })
}

fn current(log: &LogFile) -> Migrated {
    let source = log.path().to_path_buf();
    Migrated { source, from: Generation::CURRENT, outcome: MigrationOutcome::Current }
}

fn conflict(path: &Path) -> Error {
    Error::Layout {
        path: path.to_path_buf(),
        what: "a successor that holds other rows stands there already; it is not replaced".to_owned(),
    }
}

/// Tells texts apart within one process: lines, their order and their lengths.
#[derive(Default)]
struct Digest(DefaultHasher);

impl Digest {
    fn line(&mut self, parts: &[&[u8]]) {
        let mut len = 0_usize;
        for part in parts {
            self.0.write(part);
            len = len.saturating_add(part.len());
        }
        self.0.write_usize(len);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}
