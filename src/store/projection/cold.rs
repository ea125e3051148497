//! Folding a stored log: from a kept state on where one may be used, else from its first event.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::anchor::Anchor;
use super::record::{Record, Row};
use crate::container::disk::Disk;
use crate::error::{Damage, Error, Result};
use crate::limits::Limits;
use crate::row::{Check, Event, Header, Member, PhysicalRow, RowFault};
use crate::session::{Projected, Projections};
use crate::store::handle::READ_RETRIES;
use crate::store::log_file::{LogFile, ReadMode};
use crate::store::restore::{require_known, restore};
use crate::store::scan::{Item, Report, ScanOptions, Verdict, scan, scan_behind};
use crate::store::snapshot::{FileRevision, header_error};
use crate::units::Generation;

/// How much of a log may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All of it.
    Whole,
    /// So many bytes behind a kept state, and nothing before it.
    Behind(u64),
}

/// A log, folded.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) projected: Projected,
    pub(super) header: Header,
    pub(super) inherited: u64,
    /// Where the states stand; `None` if that is not known, or nothing is worth being kept.
    pub(super) anchor: Option<Anchor>,
    /// Nothing has changed the log for two seconds.
    pub(super) is_settled: bool,
    /// The log that was read.
    pub(super) revision: FileRevision,
    /// All of it had been kept.
    pub(super) is_kept: bool,
}

/// Folds `set` over the log at `path`, going on from what `record` keeps of it. `None` if that needs more than `reach` allows.
///
/// Older generations are folded as they read in the current one, and always as a whole: what an early event is converted to may
/// depend on later ones.
///
/// # Errors
/// What is wrong with the log. Its torn end is not, a damaged one is; so is an event that has to be understood and is not known.
pub(super) fn fold(
    disk: &Arc<dyn Disk>,
    (path, limits, mode): (&Path, Limits, ReadMode),
    set: &Projections,
    record: Option<&Record>,
    reach: Reach,
) -> Result<Option<Folded>> {
    let mut retries = READ_RETRIES;
    loop {
        // The clock first: what changes behind this moment has a later stamp.
        let at_ns = disk.now_ns();
        let log = LogFile::open(disk, path, limits, mode)?;
        match fold_log(&log, at_ns, set, record, reach) {
            // A writer cut a torn end off, or took an append back.
            Err(error) if error.is_shrunk() && retries > 0 => retries = retries.saturating_sub(1),
            outcome => return outcome,
        }
    }
}

fn fold_log(
    log: &LogFile,
    at_ns: i128,
    set: &Projections,
    record: Option<&Record>,
    reach: Reach,
) -> Result<Option<Folded>> {
    log.check_encoding()?;
    let header =
        Header::parse(&log.header_line()?, log.limits()).map_err(|fault| header_error(log.path(), fault))?;
    log.check_name(header.generation())?;
    let revision = FileRevision::of(log.stamp());
    let record = record.filter(|record| record.is_of(&header));
    if let Some(record) = record
        && let Some(projected) = exact(record, set, &revision)
    {
        let inherited = record.inherited;
        let (anchor, is_settled, is_kept) = (None, true, true);
        return Ok(Some(Folded { projected, header, inherited, anchor, is_settled, revision, is_kept }));
    }
    let (is_settled, is_kept) = (revision.was_quiet(at_ns), false);
    let is_current = header.generation() == Generation::CURRENT;
    let started = record.filter(|_| is_current).and_then(|record| started(record, set, log));
    if let Some((projected, inherited, end)) = &started
        && projected.folded() > 0
    {
        let grown = revision.size.saturating_sub(*end);
        if matches!(reach, Reach::Behind(bytes) if grown > bytes) {
            return Ok(None);
        }
        if let Some((projected, end)) = go_on(log, projected.clone(), *end)? {
            // A listing beside a busy writer does not make it durable what it has just read.
            let is_worth_it = reach == Reach::Whole || is_settled || grown > KEEP_FROM;
            let anchor = is_worth_it.then(|| anchor(log, at_ns, end)).flatten();
            let inherited = *inherited;
            return Ok(Some(Folded { projected, header, inherited, anchor, is_settled, revision, is_kept }));
        }
    }
    if reach != Reach::Whole {
        return Ok(None);
    }
    let (projected, inherited, end) = match started {
        Some((projected, inherited, _)) if projected.folded() == 0 => {
            // Some states are kept and others are not: only these see the events that they have not seen.
            let whole = whole(log, projected)?;
            if is_level(&whole.0) && whole.1 == inherited {
                whole
            } else {
                self::whole(log, Projected::new(set))?
            }
        }
        _ if is_current => whole(log, Projected::new(set))?,
        _ => converted(log, Projected::new(set))?,
    };
    let anchor = end.and_then(|end| anchor(log, at_ns, end));
    Ok(Some(Folded { projected, header, inherited, anchor, is_settled, revision, is_kept }))
}

/// Bytes that a log has to grow by, while it grows, for a listing to keep what it folded of it.
const KEEP_FROM: u64 = 64 << 10;

/// The states of `set`, if all are kept, and of a whole log of that revision.
pub(super) fn exact(record: &Record, set: &Projections, revision: &FileRevision) -> Option<Projected> {
    let row = |key: &str| record.row(key).filter(|row| row.anchor.is_exact(revision));
    let all =
        set.versions().all(|(key, version)| row(key).is_some_and(|row| row.mark.state_version == version));
    if !all {
        return None;
    }
    let projected =
        Projected::resume(set, u64::MAX, |key| row(key).map(|row| (row.mark, row.json.as_slice())));
    let is_whole = |key: &str| row(key).is_some_and(|row| row.mark.folded == projected.folded());
    // One that is no state after all was begun anew.
    (is_level(&projected) && set.keys().all(is_whole)).then_some(projected)
}

/// The states that are kept and proved for `log`, the events that it inherited, and where the first one of them stands.
pub(super) fn started(record: &Record, set: &Projections, log: &LogFile) -> Option<(Projected, u64, u64)> {
    let mut judged: Vec<(Anchor, bool)> = Vec::new();
    let mut proved = |row: &&Row| match judged.iter().find(|(anchor, _)| *anchor == row.anchor) {
        Some((_, holds)) => *holds,
        None => {
            let holds = row.anchor.holds(log);
            judged.push((row.anchor, holds));
            holds
        }
    };
    let mut rows: Vec<&Row> = set.keys().filter_map(|key| record.row(key)).collect();
    rows.retain(&mut proved);
    if rows.is_empty() {
        return None;
    }
    let kept = |key: &str| {
        rows.iter().find(|row| row.key == key.as_bytes()).map(|row| (row.mark, row.json.as_slice()))
    };
    let projected = Projected::resume(set, u64::MAX, kept);
    let first =
        rows.iter().filter(|row| row.mark.folded == projected.folded()).map(|row| row.anchor.end).max();
    Some((projected, record.inherited, first.unwrap_or(0)))
}

/// Folds the events behind `end`. `None` if what stands there does not go on from there.
fn go_on(log: &LogFile, mut projected: Projected, end: u64) -> Result<Option<(Projected, u64)>> {
    if end == log.stamp().size {
        return Ok(is_level(&projected).then_some((projected, end)));
    }
    let mut is_next = true;
    let report = scan_behind(log, OPTIONS, end, &mut |item| take(log, &item, &mut projected, &mut is_next))?;
    let Some(report) = report else { return Ok(None) };
    // Another mark of what was inherited makes another log of it; damage is for a scan of the whole to name.
    let is_sound = matches!(report.verdict, Verdict::Sound | Verdict::Unfinished | Verdict::Torn);
    if !is_next || !is_sound || report.marker.is_some() || !is_level(&projected) {
        return Ok(None);
    }
    Ok(report.tail.map(|tail| (projected, tail.good_end)))
}

/// Folds all events of a log of the current generation; and gives the events that it inherited, and where the last one ends.
fn whole(log: &LogFile, mut projected: Projected) -> Result<(Projected, u64, Option<u64>)> {
    let mut is_next = true;
    let report: Report = scan(log, OPTIONS, &mut |item| take(log, &item, &mut projected, &mut is_next))?;
    report.require_appendable(log)?;
    debug_assert!(is_next, "a scan delivers events in order");
    let end =
        report.tail.map(|tail| tail.good_end).filter(|_| is_next && projected.folded() == report.events);
    Ok((projected, report.inherited, end))
}

/// Folds the events of an older log as they read in the current generation.
fn converted(log: &LogFile, mut projected: Projected) -> Result<(Projected, u64, Option<u64>)> {
    let (mut line, mut refused) = (Vec::new(), None);
    let restored = restore(log, &mut |row| {
        line.clear();
        row.write_to(&mut line);
        let folded = match Event::read(&line, Check::Envelope, log.limits()) {
            Ok(event) => projected.push(&event).map_err(|_| RowFault::Member(Member::Seq)),
            Err(fault) => Err(fault),
        };
        refused = folded.err();
        if refused.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if let Some(fault) = refused {
        let (path, intact) = (log.path().to_path_buf(), projected.folded());
        return Err(Error::Corruption { path, offset: 0, intact, source: Damage::Row(fault) });
    }
    let end = (projected.folded() == restored.events).then_some(log.stamp().size);
    Ok((projected, restored.inherited, end))
}

/// Every row is read by its envelope: checksums vouch for the payloads, and where there are none they are parsed.
const OPTIONS: ScanOptions = ScanOptions { check: Check::Envelope, lenient: false };

fn take(
    log: &LogFile,
    item: &Item<'_>,
    projected: &mut Projected,
    is_next: &mut bool,
) -> Result<ControlFlow<()>> {
    let Item::Row { row, .. } = item else { return Ok(ControlFlow::Continue(())) };
    require_known(log, row)?;
    let PhysicalRow::Event(event) = row else { return Ok(ControlFlow::Continue(())) };
    if projected.push(event).is_err() {
        *is_next = false;
        return Ok(ControlFlow::Break(()));
    }
    Ok(ControlFlow::Continue(()))
}

/// Whether no state is ahead of the others.
pub(super) fn is_level(projected: &Projected) -> bool {
    let mut is_level = true;
    projected.each_mark(|mark| is_level &= mark.folded == projected.folded());
    is_level
}

/// Where the states of all that stands before `end` may be kept. `None` if it is not certain that the power cannot take any of it.
fn anchor(log: &LogFile, at_ns: i128, end: u64) -> Option<Anchor> {
    /// What has not changed for so long was written by the system long since, and a sync would only cost.
    const HOUR_NS: i128 = 3_600_000_000_000;
    let revision = FileRevision::of(log.stamp());
    let last = i128::from(revision.modified_ns.max(revision.changed_ns));
    if last.saturating_add(HOUR_NS) > at_ns {
        // Whoever wrote it may not have synced it, and a loss may leave length and times as they are.
        log.sync().ok()?;
    }
    Anchor::of(log, end, revision.was_quiet(at_ns)).ok()
}
