//! Copying what can be saved out of a damaged log, and saying what was lost.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Salvage".

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::log_file::LogFile;
use super::publish::Draft;
use super::scan::{Item, Report, ScanOptions, scan};
use crate::container::{Fault, TailState, salvage_frame};
use crate::error::{Error, Result};
use crate::row::{Check, PhysicalRow, RowFault};
use crate::units::Generation;

/// What a salvage saved and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvage {
    /// The new file: the header line, if there is one, and the saved rows, as plain text.
    pub path: PathBuf,
    /// Whether the log's header line was saved. It is never made up.
    pub has_header: bool,
    /// Rows saved.
    pub rows: u64,
    /// Events in them.
    pub events: u64,
    /// Of those, events out of a last frame that was cut short: never acknowledged, and without a checksum.
    pub unproved_events: u64,
    /// Seqs that are missing between saved events.
    pub missing: Vec<Range<u64>>,
    /// Rows that claim numbers which other rows have, as plain text: the side that was not taken.
    pub other: Option<PathBuf>,
    /// How many.
    pub other_rows: u64,
    /// Everything that could not be read, byte for byte, one piece behind the other.
    pub damaged: Option<PathBuf>,
    /// Where the pieces stood in the log.
    pub damaged_ranges: Vec<Range<u64>>,
}

impl Salvage {
    /// Whether anything is missing, damaged, or in two versions.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.has_header && self.missing.is_empty() && self.other_rows == 0 && self.damaged_ranges.is_empty()
    }
}

/// Copies what can be saved of `log` to the new file `out`, and leaves the log as it is.
///
/// Rows are saved byte for byte and keep their numbers, so where some are missing the new file has a gap. Where rows run
/// back (two writers), the side that leads further is taken and the other one goes to `OUT.other.jsonl`. What cannot be read
/// goes to `OUT.damaged`. A last frame that was cut short is decoded as far as it goes.
///
/// # Errors
/// [`Error::Io`]. `out` is published whole or not at all; it never replaces anything.
pub fn salvage(log: &LogFile, out: &Path) -> Result<Salvage> {
    let mut plan = Plan::default();
    each_candidate(log, &mut |found| {
        if let Found::Row { row, .. } = found {
            plan.note(&row);
        }
        Ok(())
    })?;

    let mut rows = Output::new(log, out)?;
    let mut other = Output::lazy(log, suffixed(out, ".other.jsonl"));
    let mut damaged = Output::lazy(log, suffixed(out, ".damaged"));
    let mut salvage = Salvage { path: out.to_path_buf(), ..Salvage::default() };
    let mut taken = Taken::default();
    let mut runs = RunCounter::default();
    each_candidate(log, &mut |found| match found {
        Found::Header(line) => {
            salvage.has_header = true;
            rows.line(line)
        }
        Found::Damaged { at, bytes } => {
            salvage.damaged_ranges.push(at..at.saturating_add(bytes.len() as u64));
            damaged.bytes(bytes)
        }
        Found::Row { row, proved } => {
            let kept = plan.kept(runs.next(&row));
            let span = row.first_seq().get()..row.next_seq();
            if kept.start <= span.start && span.end <= kept.end {
                taken.take(&mut salvage, span, proved);
                return rows.line(row.line().as_bytes());
            }
            // A packed row may lie on both sides: its events are then stored one by one.
            let mut line = Vec::new();
            let mut each = |seq: u64, line: &[u8], salvage: &mut Salvage| {
                if kept.contains(&seq) {
                    taken.take(salvage, seq..seq.saturating_add(1), proved);
                    rows.line(line)
                } else {
                    salvage.other_rows = salvage.other_rows.saturating_add(1);
                    other.line(line)
                }
            };
            match row {
                PhysicalRow::Event(event) => each(event.seq().get(), event.line().as_bytes(), &mut salvage),
                PhysicalRow::Packed(packed) => packed.members().try_for_each(|member| {
                    line.clear();
                    packed.write_member(&member, &mut line);
                    each(member.seq.get(), &line, &mut salvage)
                }),
            }
        }
    })?;
    salvage.other = other.publish()?;
    salvage.damaged = damaged.publish()?;
    rows.publish()?;
    Ok(salvage)
}

/// What a lenient walk comes upon.
enum Found<'a> {
    Header(&'a [u8]),
    Row { row: PhysicalRow<'a>, proved: bool },
    Damaged { at: u64, bytes: &'a [u8] },
}

fn each_candidate(log: &LogFile, visit: &mut dyn FnMut(Found<'_>) -> Result<()>) -> Result<()> {
    let mut generation = log.named().map_or(Generation::CURRENT, |(generation, _)| generation);
    let report = scan(log, ScanOptions::LENIENT, &mut |item| {
        match item {
            Item::Header { line, header } => {
                if let Some(header) = header {
                    generation = header.generation();
                    visit(Found::Header(line))?;
                } else {
                    visit(Found::Damaged { at: 0, bytes: line })?;
                }
            }
            Item::Row { row, .. } | Item::Bad { row: Some(row), .. } => {
                visit(Found::Row { row, proved: true })?
            }
            Item::Bad { line, place, fault, .. } => {
                let row_at = if let RowFault::FusedRows { row_at } = fault { row_at } else { line.len() };
                let (fragment, fused) = line.split_at_checked(row_at).unwrap_or((line, &[]));
                visit(Found::Damaged { at: place.file_at, bytes: fragment })?;
                if let Ok(row) = PhysicalRow::read(fused, generation, Check::Full, log.limits()) {
                    visit(Found::Row { row, proved: true })?;
                }
            }
            // What a newer build wrote is not damaged, and not for this one to take apart.
            Item::Opaque { .. } => {}
            Item::Hole { at, skipped, .. } => {
                let end = skipped.map_or(log.stamp().size, |skipped| skipped.end);
                let bytes = bytes_of(log, at..end)?;
                visit(Found::Damaged { at, bytes: &bytes })?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    torn_end(log, &report, generation, visit)
}

/// Decodes what a frame that the end of the file cut short still holds.
fn torn_end(
    log: &LogFile,
    report: &Report,
    generation: Generation,
    visit: &mut dyn FnMut(Found<'_>) -> Result<()>,
) -> Result<()> {
    let Some(tail) = report.tail.filter(|tail| tail.state == TailState::Torn && tail.excess() > 0) else {
        return Ok(());
    };
    let stored = bytes_of(log, tail.good_end..tail.len)?;
    visit(Found::Damaged { at: tail.good_end, bytes: &stored })?;
    if tail.fault != Some(Fault::Truncated) {
        return Ok(());
    }
    let text = salvage_frame(&stored, log.limits());
    let mut expected = report.events;
    let whole_lines =
        memchr::memrchr(b'\n', &text).and_then(|newline| text.get(..newline)).unwrap_or_default();
    for line in whole_lines.split(|&byte| byte == b'\n') {
        let row = PhysicalRow::read(line, generation, Check::Full, log.limits());
        let Some(row) = row.ok().filter(|row| row.first_seq().get() == expected) else { break };
        expected = row.next_seq();
        visit(Found::Row { row, proved: false })?;
    }
    Ok(())
}

fn bytes_of(log: &LogFile, range: Range<u64>) -> Result<Vec<u8>> {
    log.read_bytes(range)
}

/// Which rows make one log: runs of contiguous numbers, and what of each is kept.
#[derive(Debug, Default)]
struct Plan {
    runs: Vec<Run>,
    /// Kept runs in the order of their numbers, as (index, kept range); each begins where the one before ends, or later.
    kept: Vec<(usize, Range<u64>)>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    end: u64,
}

impl Plan {
    fn note(&mut self, row: &PhysicalRow<'_>) {
        let (first, next) = (row.first_seq().get(), row.next_seq());
        match self.runs.last_mut() {
            Some(run) if run.end == first => {
                run.end = next;
                self.settle();
            }
            _ => {
                self.runs.push(Run { start: first, end: next });
                self.settle();
            }
        }
    }

    /// Decides anew what the last run, which just grew, replaces.
    fn settle(&mut self) {
        let Some((index, &run)) = self.runs.iter().enumerate().next_back() else { return };
        if let Some((last, range)) = self.kept.last_mut()
            && *last == index
        {
            range.end = run.end;
            return;
        }
        // A run that goes back replaces what it overlaps once it leads further; until then it is the other side.
        if self.kept.last().is_some_and(|(_, range)| run.end <= range.end) {
            return;
        }
        while let Some((_, range)) = self.kept.last_mut() {
            if range.start >= run.start {
                self.kept.pop();
                continue;
            }
            range.end = range.end.min(run.start);
            break;
        }
        self.kept.push((index, run.start..run.end));
    }

    fn kept(&self, run: usize) -> Range<u64> {
        let found = self.kept.binary_search_by_key(&run, |(index, _)| *index).ok();
        found.and_then(|at| self.kept.get(at)).map_or(0..0, |(_, range)| range.clone())
    }
}

/// Counts runs the second time, as [`Plan::note`] did the first time.
#[derive(Debug, Default)]
struct RunCounter {
    index: usize,
    end: Option<u64>,
}

impl RunCounter {
    fn next(&mut self, row: &PhysicalRow<'_>) -> usize {
        if self.end.is_some_and(|end| end != row.first_seq().get()) {
            self.index = self.index.saturating_add(1);
        }
        self.end = Some(row.next_seq());
        self.index
    }
}

/// The numbers that were saved so far.
#[derive(Debug, Default)]
struct Taken {
    end: u64,
}

impl Taken {
    fn take(&mut self, salvage: &mut Salvage, span: Range<u64>, proved: bool) {
        if span.start > self.end {
            salvage.missing.push(self.end..span.start);
        }
        let events = span.end.saturating_sub(span.start);
        salvage.rows = salvage.rows.saturating_add(1);
        salvage.events = salvage.events.saturating_add(events);
        if !proved {
            salvage.unproved_events = salvage.unproved_events.saturating_add(events);
        }
        self.end = span.end;
    }
}

/// A file of the salvage, created when something is written to it.
struct Output<'l> {
    log: &'l LogFile,
    path: PathBuf,
    draft: Option<Draft<'l>>,
    buffer: Vec<u8>,
}

impl<'l> Output<'l> {
    fn new(log: &'l LogFile, path: &Path) -> Result<Self> {
        let mut output = Self::lazy(log, path.to_path_buf());
        output.draft()?;
        Ok(output)
    }

    fn lazy(log: &'l LogFile, path: PathBuf) -> Self {
        Self { log, path, draft: None, buffer: Vec::new() }
    }

    fn draft(&mut self) -> Result<()> {
        if self.draft.is_none() {
            let disk: &'l dyn crate::container::disk::Disk = &**self.log.disk();
            if disk.stamp(&self.path).map_err(Error::io(&self.path, "looking at"))?.is_some() {
                return Err(Error::io(&self.path, "creating")(std::io::ErrorKind::AlreadyExists.into()));
            }
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let name =
                self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            self.draft = Some(Draft::create(disk, parent.unwrap_or(Path::new(".")), &name)?);
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        self.bytes(line)?;
        self.bytes(b"\n")
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        const WRITE: usize = 1 << 20;
        self.draft()?;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(draft) = &self.draft {
            draft.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn publish(mut self) -> Result<Option<PathBuf>> {
        self.flush()?;
        let Some(draft) = self.draft.take() else { return Ok(None) };
        draft.publish(&[])?;
        Ok(Some(self.path))
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
