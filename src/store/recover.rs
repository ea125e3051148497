//! The explicit repair of one log, of any generation, wherever it stands.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Repair".

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::append::Appender;
use super::lock::locked;
use super::log_file::{LogFile, ReadMode};
use super::repair::Repaired;
use super::scan::{Report, ScanOptions, Verdict, scan, scan_to_writer};
use crate::container::disk::{Access, Disk};
use crate::container::{LEVEL_DEFAULT, Tail};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What a recovery found, and what it did or would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// What the log was like before. Never [`Verdict::Corrupt`] or [`Verdict::Unsupported`].
    pub report: Report,
    /// What was done; for a plan, what would be done, without the name of the file that takes the cut bytes.
    pub repaired: Repaired,
    /// Whether records that stood without the end of their append were, or would be, committed by a marker.
    pub committed: bool,
}

/// Repairs the log at `path` as the next append would, and goes on where an append refuses: a damaged end is set aside
/// and cut off as well. Takes the write lock of its folder meanwhile.
///
/// # Errors
/// [`Error::AlreadyOwned`]; [`Error::Corruption`] for damage before the end, [`Error::FormatUnsupported`] and
/// [`Error::IdentityMismatch`], which change nothing; [`Error::Io`] and [`Error::Foreign`].
pub fn recover(disk: &Arc<dyn Disk>, path: &Path, limits: Limits) -> Result<Recovered> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    locked(&**disk, folder, || recover_locked(disk, path, limits))
}

/// What [`recover`] would do now. Takes no lock and writes nothing.
///
/// # Errors
/// As [`recover`], but for the lock and for writing.
pub fn plan_recovery(disk: &Arc<dyn Disk>, path: &Path, limits: Limits) -> Result<Recovered> {
    let log = LogFile::open(disk, path, limits, ReadMode::default())?;
    let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
    check_repairable(&log, &report)?;
    let tail = report.tail.filter(Tail::needs_repair);
    let repaired = Repaired {
        set_aside: None,
        cut: tail.as_ref().map_or(0, Tail::excess),
        rewritten: tail.as_ref().map_or(0, |tail| tail.good_end.saturating_sub(tail.durable)),
    };
    let committed = tail.is_some_and(|tail| !tail.committed);
    Ok(Recovered { report, repaired, committed })
}

fn recover_locked(disk: &Arc<dyn Disk>, path: &Path, limits: Limits) -> Result<Recovered> {
    let log = LogFile::open(disk, path, limits, ReadMode::default())?;
    let (report, blocks) = scan_to_writer(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
    check_repairable(&log, &report)?;
    let Some(tail) = report.tail.filter(Tail::needs_repair) else {
        return Ok(Recovered { report, repaired: Repaired::default(), committed: false });
    };
    let writer = blocks.writer(tail.durable, LEVEL_DEFAULT);
    let file = disk.open(path, Access::Append).map_err(Error::io(path, "opening"))?;
    let mut appender = Appender::new(Arc::clone(disk), path, file, writer, Some(tail))?;
    appender.check_judged(log.stamp())?;
    let repaired = appender.recover()?;
    Ok(Recovered { report, repaired, committed: !tail.committed })
}

fn check_repairable(log: &LogFile, report: &Report) -> Result<()> {
    log.check_encoding()?;
    report.require(log)?;
    debug_assert!(
        !matches!(report.verdict, Verdict::Corrupt | Verdict::Unsupported),
        "required to be readable"
    );
    report.header.as_ref().map_or(Ok(()), |header| log.check_name(header.generation()))
}
