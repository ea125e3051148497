//! The one way in which every verb and every handle reads a log: lines in order, damage in its place, and a verdict.
//!
//! Spec: `format-spec/04-rows.md`, "Damage", and `05-append-and-repair.md`, "Judging the end".

mod begin;
mod item;
mod judge;
mod keeping;
mod report;

use std::ops::ControlFlow;

use self::begin::{Blocks, head_of, position};
pub use self::item::{Item, Place};
use self::judge::Scan;
pub(crate) use self::keeping::{Keeping, Part, scan_keeping};
pub use self::report::{FINDINGS_MAX, Finding, Report, Verdict};
use super::log_file::LogFile;
use crate::container::{BlockReader, FileSource, Outlook, read_ahead, reader, reader_behind, resume};
use crate::error::{Error, Result};
use crate::row::{Check, Header};

/// How a scan treats what is not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// How much of each row is looked at.
    pub check: Check,
    /// Goes on behind damage, and says what was skipped. Otherwise nothing is delivered behind the first damage.
    pub lenient: bool,
}

impl ScanOptions {
    /// Everything is checked, and the first damage ends the delivery.
    pub const STRICT: Self = Self { check: Check::Full, lenient: false };
    /// Everything is checked and all damage is found.
    pub const LENIENT: Self = Self { check: Check::Full, lenient: true };
}

/// The sink of a scan. Breaking ends it.
pub type Visit<'v> = &'v mut dyn FnMut(Item<'_>) -> Result<ControlFlow<()>>;

/// Delivers the items of a log to `visit`, and judges it.
///
/// Rows that are delivered are contiguous from 0 on, unless the scan is lenient. `visit` may stop the scan; the report
/// then covers what was read. Memory: one frame and its content, whatever the log's length.
///
/// # Errors
/// [`Error::Io`], and whatever `visit` returns. Damage is no error here: see [`Report::verdict`] and [`Report::require`].
pub fn scan(log: &LogFile, options: ScanOptions, visit: Visit<'_>) -> Result<Report> {
    /// Shorter logs are read before another thread has found its place.
    const LONG: u64 = 1 << 20;
    let mut source = log.source()?;
    let mut blocks = Blocks::of(log);
    let mut scan = Scan::new(log, options);
    if let Blocks::Indexed(reader) = &mut blocks
        && !options.lenient
        && log.stamp().size >= LONG
    {
        let outlook = Outlook { threads: usize::MAX, until: u64::MAX, room: None };
        read_ahead(reader, outlook, |blocks| scan.run(&mut source, blocks, visit)).result?;
    } else {
        scan.run(&mut source, blocks.as_mut(), visit)?;
    }
    Ok(scan.finish(blocks.as_mut().tail()))
}

/// As [`scan`], but begins with the block that holds event `from`, found by the encoding's own means: O(log n) trailers in
/// an indexed log. What lies before is neither read nor checked, except the header, which is delivered first; counts in
/// the report that need it (frames, rows, text, the fork cut) cover what was read.
///
/// # Errors
/// As [`scan`].
pub fn scan_from(log: &LogFile, options: ScanOptions, from: u64, visit: Visit<'_>) -> Result<Report> {
    scan_from_of(log, options, from, None, visit)
}

/// [`scan_from`] of a log that is known to hold so many `events`: a place to start the search from, nothing more.
pub(crate) fn scan_from_of(
    log: &LogFile,
    options: ScanOptions,
    from: u64,
    events: Option<u64>,
    visit: Visit<'_>,
) -> Result<Report> {
    match scan_from_block(log, options, from, events, visit)? {
        Some(report) => Ok(report),
        None => scan(log, options, visit),
    }
}

/// Scans from the block that holds event `from` on. `None` where a scan from the head is the way.
fn scan_from_block(
    log: &LogFile,
    options: ScanOptions,
    from: u64,
    events: Option<u64>,
    visit: Visit<'_>,
) -> Result<Option<Report>> {
    if from == 0 {
        return Ok(None);
    }
    let Some((line, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.source()?;
    let part = Part { from, to: u64::MAX, total: events, claim: None, room: 0 };
    let Some(mut blocks) = position(log, &mut source, header.generation(), &part)? else {
        return Ok(None);
    };
    let flow = visit(Item::Header { line, header: Some(header) })?;
    let mut scan = Scan::in_the_middle(log, options, header.clone());
    if flow.is_break() {
        return Ok(Some(scan.stopped()));
    }
    scan.run(&mut source, blocks.as_mut(), visit)?;
    Ok(Some(scan.finish(blocks.as_mut().tail())))
}

/// As [`scan`], but begins with the block at file offset `start`, where an earlier scan of this file met a row: its
/// [`Place::file_at`]. `None` if none can start there. That its rows are those that stood there then is for the caller to check.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_behind(
    log: &LogFile,
    options: ScanOptions,
    start: u64,
    visit: Visit<'_>,
) -> Result<Option<Report>> {
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.source()?;
    let blocks = reader_behind(&mut source, log.encoding(), *log.limits(), start);
    let Some(blocks) = blocks.map_err(|error| Error::read(log.path(), 0, error))? else { return Ok(None) };
    scan_stretch(log, &mut source, header.clone(), options, blocks, visit).map(Some)
}

/// As [`scan_behind`], with the blocks of a reader that stands in the middle, to the end of `source`: that holds the log, or a
/// beginning of it that ends with a block, and whatever of it was looked at last.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_stretch(
    log: &LogFile,
    source: &mut FileSource<'_>,
    header: Header,
    options: ScanOptions,
    mut blocks: Box<dyn BlockReader>,
    visit: Visit<'_>,
) -> Result<Report> {
    let mut scan = Scan::in_the_middle(log, options, header);
    scan.run(source, &mut *blocks, visit)?;
    Ok(scan.finish(blocks.tail()))
}

/// Scans the end of a log as far as an append needs it, and hands out the reader, whose writer goes on behind the last block.
///
/// `None` where only a scan from the head can say how the log ends. Header and middle are checked as
/// [`resume`] says; the report's counts of frames, rows and text cover what was read.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_end_to_writer(
    log: &LogFile,
    visit: Visit<'_>,
) -> Result<Option<(Report, Box<dyn BlockReader>)>> {
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.probe_source();
    let blocks = resume(&mut source, log.encoding(), *log.limits());
    let Some(mut blocks) = blocks.map_err(|error| Error::read(log.path(), 0, error))? else {
        return Ok(None);
    };
    let mut scan = Scan::in_the_middle(log, ScanOptions::STRICT, header.clone());
    scan.run(&mut source, &mut *blocks, visit)?;
    let report = scan.finish(blocks.tail());
    Ok((report.rows > 0).then_some((report, blocks)))
}

/// As [`scan`], and hands out the reader, whose writer goes on behind the last block.
pub(crate) fn scan_to_writer(
    log: &LogFile,
    options: ScanOptions,
    visit: Visit<'_>,
) -> Result<(Report, Box<dyn BlockReader>)> {
    let mut source = log.source()?;
    let mut blocks = reader(log.encoding(), *log.limits());
    let mut scan = Scan::new(log, options);
    scan.run(&mut source, &mut *blocks, visit)?;
    Ok((scan.finish(blocks.tail()), blocks))
}
