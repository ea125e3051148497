//! Opening a log for writing: how it is judged, and what the judgement leaves in hand.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Going on behind an end" and "Going on by the end alone".

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::append::Appender;
use super::events::Events;
use super::handle::SessionAccess;
use super::layout::printable;
use super::log_file::LogFile;
use super::migrate::{MigrateOptions, MigrationOutcome, migrate_locked};
use super::restore::require_known;
use super::scan::{Item, Report, ScanOptions, Verdict, scan_end_to_writer, scan_from_of, scan_to_writer};
use super::store::Shared;
use crate::container::disk::Access;
use crate::container::{BlockReader, Tail};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::row::{Check, Header, Seeding};
use crate::units::{Generation, Seq};

/// How much of a log is checked before a handle may write to it.
///
/// Neither changes what is written: after both, the same appends give the same bytes. Nor does either weaken what an append
/// checks ([`FileHandle::append`](super::FileHandle::append)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validate {
    /// The whole log: every checksum, every row, their order and their types. Time and reads grow with the log, by 1 to 2 ms
    /// for each MB of rows.
    #[default]
    Full,
    /// The head and the end, for a log that this host has kept itself. What lies between is trusted: damage there is found by
    /// whoever reads it, or by `seslog verify`.
    ///
    /// - indexed: all that a crash can have damaged is checked, however much was not synced (a CRC-32 of it, 2 to 8 GB/s),
    ///   the rows of the last segment in full, and the O(log n) trailers that the next ones point at. 0.1 ms where appends
    ///   were synced, whatever the length.
    /// - zstd: the frames' borders, from one header to the next without decompressing, and the rows of the last two frames.
    ///   Reads a page for each frame.
    /// - plain: the rows of the last 60 KiB. Nothing in such a log tells where its last append began: if that was longer, and
    ///   the power went while it was written, lines that never landed may stand before them, unseen.
    ///
    /// Where the end is not whole and committed, or the log is of an older generation, or so short that there is nothing to
    /// gain, all of it is validated as by [`Validate::Full`]. A log that has inherited events is searched from its end for
    /// the mark behind them; that decompresses what the session added itself.
    ///
    /// Two things are not noticed that a full validation refuses: unknown event types before the end, and an end that
    /// somebody forged inside a row, knowing the log's random id, and that a power loss then cut exactly there.
    Tail,
}

/// How to open one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// What the handle may do.
    pub access: SessionAccess,
    /// How much is checked before it may write; `None`: as [`StoreOptions::validate`](super::StoreOptions::validate) says.
    pub validate: Option<Validate>,
}

impl OpenOptions {
    /// For reading.
    pub const READ: Self = Self { access: SessionAccess::Read, validate: None };
    /// For writing, validated as the store is told to.
    pub const WRITE: Self = Self { access: SessionAccess::Write, validate: None };

    /// The options with another validation.
    #[must_use]
    pub const fn with_validate(self, validate: Validate) -> Self {
        Self { validate: Some(validate), ..self }
    }
}

impl From<SessionAccess> for OpenOptions {
    fn from(access: SessionAccess) -> Self {
        Self { access, validate: None }
    }
}

/// A log that may be appended to.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) header: Header,
    pub(super) inherited: u64,
    /// Events in the log.
    pub(super) events: u64,
    pub(super) appender: Appender,
    /// All of its events, if they were read and are few.
    pub(super) primed: Option<Events>,
}

/// Logs whose rows take more than this are not kept in memory for the reads before a handle's first append.
const PRIMED_BYTES_MAX: u64 = 32 << 20;

/// Opens the log of `folder` behind its end. The caller holds the folder's lock.
///
/// # Errors
/// [`Error::Corruption`], [`Error::DamagedTail`], [`Error::Refused`] and the others that say why a log cannot be written to.
pub(super) fn open_locked(
    shared: &Arc<Shared>,
    folder: &Path,
    id: &Text,
    validate: Validate,
) -> Result<Opened> {
    // Chosen again under the lock: a successor may have been published since.
    let mut log = shared.open_log(folder)?;
    let generation = log.generation()?;
    log.check_name(generation)?;
    if generation != Generation::CURRENT {
        let options = MigrateOptions {
            limits: shared.options().limits,
            level: shared.options().level,
            ..MigrateOptions::default()
        };
        let migrated = migrate_locked(shared.disk(), folder, &options)?;
        if let MigrationOutcome::Refused(source) = migrated.outcome {
            return Err(Error::Refused { path: migrated.source, source });
        }
        log = shared.open_log(folder)?;
    }
    // A sync that failed here may have left bytes in the cache that no later sync writes: they are written again, and what stands
    // in the file is believed only after a look at all of it.
    let doubt = shared.doubtful_from(log.path());
    let judged = match validate {
        Validate::Tail if doubt.is_none() => judge_end(&log)?,
        Validate::Tail | Validate::Full => None,
    };
    let Judged { mut report, blocks, primed } = match judged {
        Some(judged) => judged,
        None => judge_all(&log)?,
    };
    let header =
        report.header.take().ok_or_else(|| Error::NotFound { id: log.path().display().to_string() })?;
    log.check_name(header.generation())?;
    if header.id() != id {
        return Err(Error::IdentityMismatch {
            path: log.path().to_path_buf(),
            what: format!(
                "session {} was asked for, the header's id is {}",
                printable(id),
                printable(header.id())
            ),
        });
    }
    let tail = report.tail.map(|tail| Tail { durable: tail.durable.min(doubt.unwrap_or(u64::MAX)), ..tail });
    let durable = tail.map_or(0, |tail| tail.durable);
    let writer = blocks.writer(durable, shared.options().level);
    let disk = Arc::clone(shared.disk());
    let file = disk.open(log.path(), Access::Append).map_err(Error::io(log.path(), "opening"))?;
    let appender = Appender::new(disk, log.path(), file, writer, tail)?;
    appender.check_judged(log.stamp())?;
    Ok(Opened { header, inherited: report.inherited, events: report.events, appender, primed })
}

/// A log that was found good to append to.
struct Judged {
    report: Report,
    /// Read to the end.
    blocks: Box<dyn BlockReader>,
    primed: Option<Events>,
}

fn judge_all(log: &LogFile) -> Result<Judged> {
    let mut primed = Events::default();
    let mut bytes = 0_u64;
    let (report, blocks) = scan_to_writer(log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, .. } = item {
            require_known(log, &row)?;
            bytes = bytes.saturating_add(row.line().len() as u64);
            if bytes <= PRIMED_BYTES_MAX {
                primed.push_row(&row, 0, u64::MAX);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    report.require_appendable(log)?;
    let primed = (report.content_bytes <= PRIMED_BYTES_MAX).then_some(primed);
    Ok(Judged { report, blocks, primed })
}

/// Judges a log by its end. `None`: only a full validation can tell.
fn judge_end(log: &LogFile) -> Result<Option<Judged>> {
    let judged = scan_end_to_writer(log, &mut |item| {
        if let Item::Row { row, .. } = item {
            require_known(log, &row)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let Some((mut report, blocks)) = judged.filter(|(report, _)| report.verdict == Verdict::Sound) else {
        return Ok(None);
    };
    if report.header.as_ref().is_some_and(|header| header.seeding() != Seeding::Unseeded) {
        match find_cut(log, report.events)? {
            Some(cut) => report.inherited = cut,
            // Without its mark the log is corrupt.
            None => return Ok(None),
        }
    }
    Ok(Some(Judged { report, blocks, primed: None }))
}

/// The seq of the last event that ends what was inherited, searched from the end in stretches that double. `None` if there
/// is none, or if damage is in the way.
fn find_cut(log: &LogFile, events: u64) -> Result<Option<u64>> {
    let options = ScanOptions { check: Check::Envelope, ..ScanOptions::STRICT };
    let (mut from, mut to, mut stretch) = (events, events, 64_u64);
    while to > 0 {
        from = from.saturating_sub(stretch);
        stretch = stretch.saturating_mul(2);
        let report = scan_from_of(log, options, from, Some(events), &mut |item| {
            Ok(match item {
                Item::Row { row, .. } if row.first_seq().get() >= to => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })?;
        if report.verdict != Verdict::Sound || report.marker.is_some() {
            return Ok(report.marker.filter(|_| report.verdict == Verdict::Sound).map(Seq::get));
        }
        to = from;
    }
    Ok(None)
}
