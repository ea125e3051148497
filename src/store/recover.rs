//! Doing on request what the next append would do first.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Repair".

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::append::Appender;
use super::layout::LOCK_NAME;
use super::log_file::{LogFile, ReadMode};
use super::repair::Repaired;
use super::scan::{Report, ScanOptions, Verdict, scan_to_writer};
use crate::container::LEVEL_DEFAULT;
use crate::container::disk::{Access, Disk, LockAttempt};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What a recovery found and did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// The log before: its verdict, and how many events stay.
    pub report: Report,
    /// What was done; nothing in a dry run, or where nothing had to be.
    pub repaired: Repaired,
    /// A marker was written behind complete records of an unfinished append: they are committed now.
    pub committed: bool,
}

impl Recovery {
    /// Whether the log needed anything.
    #[must_use]
    pub fn was_needed(&self) -> bool {
        matches!(self.report.verdict, Verdict::Torn | Verdict::Unfinished | Verdict::DamagedTail)
    }
}

/// Sets the torn or damaged end of the log at `path` aside, and writes complete records of an unfinished append durably.
///
/// Works on the generation and encoding that the log has. A damaged end, which an append refuses to touch, is cut here: the
/// caller asked for it, and its bytes are kept in a file beside the log. With `dry_run` nothing is changed.
///
/// # Errors
/// [`Error::Corruption`] for damage before the end: nothing is changed, and only a salvage helps.
/// [`Error::AlreadyOwned`] while somebody writes. [`Error::Foreign`], [`Error::Io`].
pub fn recover(disk: &Arc<dyn Disk>, path: &Path, limits: Limits, dry_run: bool) -> Result<Recovery> {
    let lock = if dry_run { None } else { Some(take_lock(disk, path)?) };
    let done = recover_locked(disk, path, limits, dry_run);
    let released = match lock {
        Some((lock, lock_path)) => lock.release().map_err(Error::io(lock_path, "releasing")),
        None => Ok(()),
    };
    match (done, released) {
        (Ok(done), Ok(())) => Ok(done),
        (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(second)) => Err(Error::Aggregate(vec![first, second])),
    }
}

fn recover_locked(disk: &Arc<dyn Disk>, path: &Path, limits: Limits, dry_run: bool) -> Result<Recovery> {
    let log = LogFile::open(disk, path, limits, ReadMode::Map)?;
    let (report, blocks) = scan_to_writer(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
    report.require(&log)?;
    let mut recovery = Recovery { report, repaired: Repaired::default(), committed: false };
    let Some(tail) = recovery.report.tail.filter(|_| recovery.was_needed() && !dry_run) else {
        return Ok(recovery);
    };
    let writer = blocks.writer(tail.durable, LEVEL_DEFAULT);
    recovery.committed = !writer.is_committed();
    let file = disk.open(path, Access::Append).map_err(Error::io(path, "opening"))?;
    let mut appender = Appender::new(Arc::clone(disk), path, log.encoding(), file, writer, Some(tail))?;
    appender.check_judged(log.stamp())?;
    recovery.repaired = appender.recover()?;
    Ok(recovery)
}

fn take_lock(
    disk: &Arc<dyn Disk>,
    path: &Path,
) -> Result<(Box<dyn crate::container::disk::DiskLock>, std::path::PathBuf)> {
    let lock_path = path.with_file_name(LOCK_NAME);
    match disk.lock(&lock_path).map_err(Error::io(&lock_path, "locking"))? {
        LockAttempt::Held(lock) => Ok((lock, lock_path)),
        LockAttempt::Contended => {
            let owner = disk.lock_owner(&lock_path).ok().flatten();
            Err(Error::AlreadyOwned { id: path.display().to_string(), owner })
        }
    }
}
