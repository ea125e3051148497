//! Pages of a log file: each reads what it holds, and little else.

use std::ops::ControlFlow;

use super::cursor::{Cursor, FileId, LogIdentity};
use super::intake::{Backward, Forward};
use super::meter::Meter;
use super::page::{Page, PageEnd};
use super::request::{Direction, PageLimits, PageRequest, PageStart};
use super::rows::{RowSeen, Rows};
use crate::container::{
    Before, BlockReader, Encoding, IndexedReader, block_before, reader_behind, reader_if_reached,
};
use crate::error::{Error, Result, Stale};
use crate::row::{Check, Event, Header, PhysicalRow};
use crate::store::cancel::Cancel;
use crate::store::layout::printable;
use crate::store::log_file::LogFile;
use crate::store::range::count_events;
use crate::store::restore::{require_known, restore_range_of};
use crate::store::scan::{
    Item, Place, Report, ScanOptions, Verdict, Visit, scan, scan_from_of, scan_stretch,
};
use crate::store::snapshot::header_error;
use crate::units::Generation;

/// A page, and how many events the log has, if that was met.
#[derive(Debug)]
pub(in crate::store) struct Paged {
    pub(in crate::store) page: Page,
    pub(in crate::store) events: Option<u64>,
}

/// Reads one page of `log`.
///
/// # Errors
/// [`Error::StaleCursor`]; damage where the page begins; [`Error::Io`].
pub(in crate::store) fn page_of_log(log: &LogFile, request: &PageRequest, cancel: &Cancel) -> Result<Paged> {
    cancel.check()?;
    let line = log.header_line()?;
    let header = Header::parse(&line, log.limits()).map_err(|fault| header_error(log.path(), fault))?;
    let identity = LogIdentity::new(&header, Some(FileId::from(log.stamp())));
    // Where no checksum vouches for the payloads, half a row and a whole one on one line may look like an event.
    let check = if log.encoding() == Encoding::Plain { Check::Full } else { Check::Envelope };
    let options = ScanOptions { check, ..ScanOptions::STRICT };
    let pager = Pager { log, header, identity, options, cancel };
    if let PageStart::Cursor(cursor) = &request.from {
        pager.identity.check(cursor).map_err(|stale| pager.stale(cursor, stale))?;
    }
    match (pager.header.generation(), request.direction) {
        (Generation::CURRENT, Direction::Forward) => pager.forward(request.from, request.limits),
        (Generation::CURRENT, Direction::Backward) => pager.backward(request.from, request.limits),
        _ => pager.converted(request),
    }
}

struct Pager<'l> {
    log: &'l LogFile,
    header: Header,
    identity: LogIdentity,
    options: ScanOptions,
    cancel: &'l Cancel,
}

/// Stored bytes that the first look back takes.
const REACH_MIN: u64 = 16 << 10;
/// The same where pages are large, and the most that one look takes.
const REACH_MAX: u64 = 256 << 10;
/// Where going back meets damage, looks become shorter, and below this they take one block.
const REACH_LEAST: u64 = 1 << 10;

/// Events that end where others begin, which were read before.
struct Run {
    rows: Rows,
    /// Seq of the first event that was looked at, if any was, and offset of its block.
    low_seq: Option<u64>,
    low_at: u64,
}

/// Where a stretch ends.
#[derive(Clone, Copy)]
struct Border {
    /// Of the first event behind it, if there is one.
    seq: Option<u64>,
    /// File offset.
    at: u64,
    /// It is the end of the file.
    is_tail: bool,
}

impl Pager<'_> {
    fn forward(&self, from: PageStart, limits: PageLimits) -> Result<Paged> {
        let (cursor, cut) = match from {
            PageStart::Seq(seq) => (None, seq),
            PageStart::Cursor(cursor) => (Some(cursor), cursor.seq()),
            PageStart::End => {
                let last = self.backward(PageStart::End, PageLimits::UNBOUNDED.with_events(1))?;
                (Some(last.page.after), last.page.next_seq())
            }
        };
        let anchor = cursor.and_then(|cursor| cursor.anchor());
        if let Some(at) = cursor.and_then(|cursor| cursor.at()) {
            let mut forward = Forward::new(cut, anchor, limits);
            let report = self.scan_at(at, &mut |item| self.ahead(&mut forward, &item));
            match report {
                Ok(Some(report)) if forward.is_proved() => return self.finish(forward, Ok(report)),
                Err(error) if forward.is_proved() || !is_fault(&error) => {
                    return self.finish(forward, Err(error));
                }
                // It is not where it was.
                _ => {}
            }
        }
        let mut forward = Forward::new(cut, anchor, limits);
        let events = count_events(self.log);
        let first = anchor.map_or(cut, |anchor| anchor.seq).min(events.unwrap_or(u64::MAX));
        let visit = &mut |item: Item<'_>| self.ahead(&mut forward, &item);
        let report = scan_from_of(self.log, self.options, first, events, visit);
        if let (Some(cursor), false) = (cursor, forward.is_proved()) {
            report?.require(self.log)?;
            return Err(self.stale(&cursor, forward.stale().unwrap_or(Stale::OtherFile)));
        }
        self.finish(forward, report)
    }

    fn finish(&self, forward: Forward, report: Result<Report>) -> Result<Paged> {
        let end = match (report, forward.end()) {
            (Ok(_), Some(end)) => Ok(end),
            // Less than was asked for, and nobody knows whether it was all: that must not pass for the end of the log.
            (Ok(report), None) => report.require_appendable(self.log).map(|()| PageEnd::Log),
            (Err(error), _) => Err(error),
        };
        let end = match end {
            Err(error) if is_fault(&error) && !forward.is_empty() => PageEnd::Fault,
            end => end?,
        };
        let (rows, before) = forward.finish();
        let page = Page::new(&self.identity, rows, before, end);
        let events = (end == PageEnd::Log).then(|| page.next_seq());
        Ok(Paged { page, events })
    }

    fn ahead(&self, forward: &mut Forward, item: &Item<'_>) -> Result<ControlFlow<()>> {
        let Item::Row { row, place } = item else { return Ok(ControlFlow::Continue(())) };
        let row_seen = seen(row, *place, true);
        // Of what stands before the page nothing is asked.
        if forward.is_due(row_seen.seq) {
            require_known(self.log, row)?;
        }
        Ok(forward.row(&row_seen))
    }

    fn backward(&self, from: PageStart, limits: PageLimits) -> Result<Paged> {
        let mut meter = Meter::new(limits, Direction::Backward);
        let mut reach = limits.bytes.map_or(REACH_MIN, |bytes| bytes / 8).clamp(REACH_MIN, REACH_MAX);
        let (mut run, events) = match from {
            PageStart::Seq(0) => return Ok(self.at_start()),
            PageStart::Cursor(cursor) if cursor.seq() == 0 => return Ok(self.at_start()),
            PageStart::End => self.tail(meter, reach)?,
            PageStart::Seq(seq) => self.before_seq(seq, None, meter)?,
            PageStart::Cursor(cursor) => match self.before_place(&cursor, meter)? {
                Some(run) => (run, None),
                None => self.before_seq(cursor.seq(), Some(&cursor), meter)?,
            },
        };
        let mut parts: Vec<Rows> = Vec::new();
        // From where on, and with how much taken, it is known how many bytes hold how many events.
        let mut measured = (from == PageStart::End).then_some((self.log.stamp().size, meter));
        let end = loop {
            let Run { mut rows, low_seq, low_at } = run;
            let (fitting, end) = rows.fit(&mut meter);
            if fitting == 0 && parts.is_empty() && end == Some(PageEnd::Fault) {
                self.require_last_known(&rows)?;
            }
            rows.keep_last(fitting);
            if !rows.is_empty() {
                parts.push(rows);
            }
            match end.or_else(|| meter.full().filter(|_| low_seq != Some(0))) {
                Some(end) => break end,
                None if low_seq == Some(0) => break PageEnd::Log,
                None => {}
            }
            self.cancel.check()?;
            // Some more than by the average, so that mostly one look is enough.
            let (top, since) = measured.get_or_insert((low_at, meter));
            let left = meter.left_of(top.saturating_sub(low_at), since).saturating_mul(9) / 8;
            reach = reach.saturating_mul(2).min(left).clamp(REACH_MIN, REACH_MAX.saturating_mul(4));
            let border = Border { seq: low_seq, at: low_at, is_tail: false };
            run = match self.stretch(border, reach, meter) {
                Err(error) if is_fault(&error) && !parts.is_empty() => break PageEnd::Fault,
                found => found?.0,
            };
        };
        let mut rows = parts.pop().unwrap_or_default();
        while let Some(later) = parts.pop() {
            rows.extend(&later);
        }
        Ok(Paged { page: Page::new(&self.identity, rows, None, end), events })
    }

    fn at_start(&self) -> Paged {
        Paged { page: Page::at_start(&self.identity), events: None }
    }

    /// The last events of the log, and how many it has.
    fn tail(&self, meter: Meter, reach: u64) -> Result<(Run, Option<u64>)> {
        let end = Border { seq: None, at: self.log.stamp().size, is_tail: true };
        let (run, verdict) = self.stretch(end, reach, meter)?;
        let is_known = verdict != Verdict::DamagedTail && (!run.rows.is_empty() || run.low_seq == Some(0));
        let events = is_known.then(|| run.rows.next_seq());
        Ok((run, events))
    }

    /// The events before a cursor, as far as they stand in the block of the event next to it. `None` if that is not where it was.
    fn before_place(&self, cursor: &Cursor, meter: Meter) -> Result<Option<Run>> {
        let Some(at) = cursor.at() else { return Ok(None) };
        let mut back = Backward::new(cursor.seq(), cursor.anchor(), meter);
        let report = self.scan_at(at, &mut |item| Ok(self.back(&mut back, &item)))?;
        let is_there = report.is_some() && back.is_proved() && back.is_reached();
        let (rows, lowest) = back.finish();
        let low_seq = lowest.map_or(cursor.seq(), |(seq, _)| seq);
        Ok(is_there.then_some(Run { rows, low_seq: Some(low_seq), low_at: at }))
    }

    /// The events before `seq`, as far as they stand in the block of the last of them, or before the end of the log; and then how
    /// many it has.
    fn before_seq(&self, seq: u64, cursor: Option<&Cursor>, meter: Meter) -> Result<(Run, Option<u64>)> {
        let events = count_events(self.log);
        let mut back = Backward::new(seq, cursor.and_then(Cursor::anchor), meter);
        let first = seq.saturating_sub(1).min(events.unwrap_or(u64::MAX));
        let visit = &mut |item: Item<'_>| Ok(self.back(&mut back, &item));
        let report = scan_from_of(self.log, self.options, first, events, visit)?;
        let is_whole = back.is_reached();
        if let (Some(cursor), false) = (cursor, back.is_proved()) {
            report.require(self.log)?;
            return Err(self.stale(cursor, back.stale().unwrap_or(Stale::OtherFile)));
        }
        if !is_whole {
            report.require(self.log)?;
        }
        let (rows, lowest) = back.finish();
        let (low_seq, low_at) = lowest.unwrap_or((0, 0));
        let is_end = !is_whole && report.verdict != Verdict::DamagedTail;
        Ok((Run { rows, low_seq: Some(low_seq), low_at }, is_end.then_some(report.events)))
    }

    /// The events before a border, in about `reach` stored bytes; and the verdict on what stands there.
    fn stretch(&self, to: Border, mut reach: u64, meter: Meter) -> Result<(Run, Verdict)> {
        loop {
            match self.look(to, reach, meter)? {
                Some(found) => return Ok(found),
                None if reach > 0 => reach = shorter(reach),
                // Whatever is wrong, a walk from the head meets it in its place.
                None => return self.walk_from_head(to, meter),
            }
        }
    }

    /// As [`Pager::stretch`]; `None` where a shorter look may tell more.
    fn look(&self, to: Border, reach: u64, meter: Meter) -> Result<Option<(Run, Verdict)>> {
        let mut source = self.log.source_to(to.at);
        let before = block_before(&mut source, self.log.encoding(), *self.log.limits(), reach, to.is_tail);
        let unread = |error| Error::read(self.log.path(), 0, error);
        let (start, blocks) = match before.map_err(unread)? {
            Before::At(start) => {
                let blocks = reader_behind(&mut source, self.log.encoding(), *self.log.limits(), start);
                let Some(blocks) = blocks.map_err(unread)? else { return Ok(None) };
                (start, blocks)
            }
            Before::Behind(walk) => {
                let start = walk.end();
                (start, Box::new(IndexedReader::resumed(*walk, *self.log.limits())) as Box<dyn BlockReader>)
            }
            Before::Unclear => return Ok(None),
            Before::Head => {
                return match self.walk_from_head(to, meter) {
                    Err(error) if is_fault(&error) && reach > 0 => Ok(None),
                    found => found.map(Some),
                };
            }
        };
        let mut back = Backward::new(u64::MAX, None, meter);
        let header = self.header.clone();
        let visit = &mut |item: Item<'_>| Ok(self.back(&mut back, &item));
        let verdict = scan_stretch(self.log, &mut source, header, self.options, blocks, visit)?.verdict;
        let is_sound = match verdict {
            // In the middle an append may end in the next stretch.
            Verdict::Sound | Verdict::Unfinished => true,
            Verdict::Torn | Verdict::DamagedTail => to.is_tail,
            Verdict::Corrupt | Verdict::Unsupported => false,
        };
        let (rows, lowest) = back.finish();
        let follows = rows.is_empty() || to.seq.is_none_or(|seq| rows.next_seq() == seq);
        let low_seq = lowest.map(|(seq, _)| seq).or(to.seq);
        Ok((is_sound && follows).then_some((Run { rows, low_seq, low_at: start }, verdict)))
    }

    fn walk_from_head(&self, to: Border, meter: Meter) -> Result<(Run, Verdict)> {
        let mut back = Backward::new(to.seq.unwrap_or(u64::MAX), None, meter);
        let report = scan(self.log, self.options, &mut |item| Ok(self.back(&mut back, &item)))?;
        if !back.is_reached() {
            report.require(self.log)?;
            if let Some(seen) = to.seq.filter(|&seq| seq > 0) {
                report.require_appendable(self.log)?;
                return Err(self.shrunk(seen, report.events));
            }
        }
        Ok((Run { rows: back.finish().0, low_seq: Some(0), low_at: 0 }, report.verdict))
    }

    fn back(&self, back: &mut Backward, item: &Item<'_>) -> ControlFlow<()> {
        let Item::Row { row, place } = item else { return ControlFlow::Continue(()) };
        back.row(&seen(row, *place, require_known(self.log, row).is_ok()))
    }

    /// Fails, if the last event is the one that keeps a page from going on.
    fn require_last_known(&self, rows: &Rows) -> Result<()> {
        let event = rows.last_line().map(|line| Event::read(line, Check::Envelope, self.log.limits()));
        match event {
            Some(Ok(event)) => require_known(self.log, &PhysicalRow::Event(event)),
            _ => Ok(()),
        }
    }

    /// A page of a log of an older generation, all of which is converted.
    fn converted(&self, request: &PageRequest) -> Result<Paged> {
        let (cursor, cut) = match request.from {
            PageStart::Seq(seq) => (None, seq),
            PageStart::End => (None, u64::MAX),
            PageStart::Cursor(cursor) => (Some(cursor), cursor.seq()),
        };
        let anchor = cursor.and_then(|cursor| cursor.anchor());
        let meter = Meter::new(request.limits, Direction::Backward);
        let mut forward = Forward::new(cut, anchor, request.limits);
        let mut back = Backward::new(cut, anchor, meter);
        let mut line = Vec::new();
        let restored = restore_range_of(self.log, 0, &mut |seq, row| {
            line.clear();
            row.write_to(&mut line);
            let starts_turn = starts_turn(&line, self.log);
            let row = RowSeen { seq, line: &line, at: 0, starts_turn, is_known: true };
            // What breaks a page off does not break the conversion off: a refusal may come as late as at the end.
            let _done = match request.direction {
                Direction::Forward => forward.row(&row),
                Direction::Backward => back.row(&row),
            };
        })?;
        let events = Some(restored.events);
        let stale = match request.direction {
            Direction::Forward => forward.stale(),
            Direction::Backward if cut == 0 => return Ok(Paged { events, ..self.at_start() }),
            Direction::Backward => back.stale(),
        };
        if let (Some(cursor), Some(stale)) = (cursor, stale) {
            return Err(self.stale(&cursor, stale));
        }
        let page = match request.direction {
            Direction::Forward => {
                let end = forward.end().unwrap_or(PageEnd::Log);
                let (rows, before) = forward.finish();
                Page::new(&self.identity, rows, before, end)
            }
            Direction::Backward => {
                let (mut rows, _) = back.finish();
                let (fitting, end) = rows.fit(&mut meter.clone());
                rows.keep_last(fitting);
                Page::new(&self.identity, rows, None, end.unwrap_or(PageEnd::Log))
            }
        };
        Ok(Paged { page, events })
    }

    /// Scans from the block at `at` on. `None` if that is not known to belong to the log, or cannot be read: then the way by the seq
    /// decides.
    fn scan_at(&self, at: u64, visit: Visit<'_>) -> Result<Option<Report>> {
        let (encoding, limits) = (self.log.encoding(), *self.log.limits());
        let mut source = self.log.source()?;
        let Ok(Some(blocks)) = reader_if_reached(&mut source, encoding, limits, at) else { return Ok(None) };
        scan_stretch(self.log, &mut source, self.header.clone(), self.options, blocks, visit).map(Some)
    }

    fn stale(&self, cursor: &Cursor, source: Stale) -> Error {
        Error::StaleCursor { id: printable(self.header.id()), seq: cursor.seq(), source }
    }

    fn shrunk(&self, seen: u64, found: u64) -> Error {
        Error::Shrank { path: self.log.path().to_path_buf(), seen, found }
    }
}

fn seen<'r>(row: &PhysicalRow<'r>, place: Place, is_known: bool) -> RowSeen<'r> {
    let starts_turn = matches!(row, PhysicalRow::Event(event) if event.is(TURN_START));
    let line = row.line().as_bytes();
    RowSeen { seq: row.first_seq().get(), line, at: place.file_at, starts_turn, is_known }
}

/// The event that begins a turn.
pub(super) const TURN_START: &str = "turn/start";

fn starts_turn(line: &[u8], log: &LogFile) -> bool {
    Event::read(line, Check::Envelope, log.limits()).is_ok_and(|event| event.is(TURN_START))
}

/// A shorter look back, behind one that met damage.
fn shorter(reach: u64) -> u64 {
    Some(reach / 4).filter(|&reach| reach >= REACH_LEAST).unwrap_or(0)
}

/// Whether an error says that the log cannot be read there, and not that nothing can be read at all.
pub(super) fn is_fault(error: &Error) -> bool {
    let is_of_the_log = matches!(
        error,
        Error::Corruption { .. } | Error::DamagedTail { .. } | Error::FormatUnsupported { .. }
    );
    is_of_the_log && !error.is_shrunk()
}
