//! The judgement of one log: each line as a row of it, and all of them together.

use std::ops::ControlFlow;

use super::super::log_file::LogFile;
use super::item::{Item, Place};
use super::report::{FINDINGS_MAX, Finding, Report, Verdict};
use super::{ScanOptions, Visit};
use crate::container::{Block, BlockReader, Encoding, Fault, FileSource, ReadError, Tail, TailState};
use crate::error::{Damage, Error, Result};
use crate::row::{
    Check, DecodeCause, Evidence, Header, HeaderFault, PhysicalRow, Recovery, RowDecoder, RowFault, RowPlace,
};
use crate::units::{Generation, Seq};

/// A scan on its way.
pub(super) struct Scan<'l> {
    log: &'l LogFile,
    options: ScanOptions,
    report: Report,
    line: u64,
    /// Number of the frame that was looked at last.
    frame: u64,
    /// Judges the rows as a log; its first issue decides the verdict.
    decoder: RowDecoder,
    /// Reads on behind the first damage, in a lenient scan.
    behind: Option<RowDecoder>,
    /// Something is known to be missing before the next row: its number may jump forward.
    lost: bool,
    /// A later `turn/end` proves that the place of the first issue had been committed.
    issue_is_fatal: bool,
    /// A row that no writer makes and that the original takes for an event all the same: neither damage nor understood.
    is_refused: bool,
    /// Damage in the bytes; the first one decides.
    hole: Option<Fault>,
    header_fault: Option<HeaderFault>,
    /// The header is of a generation newer than this build.
    is_opaque: bool,
    /// The first row's own seq is the one to begin with.
    starts_in_the_middle: bool,
    /// What lies before was not read, so nothing is said of the whole.
    from_the_middle: bool,
}

impl<'l> Scan<'l> {
    pub(super) fn new(log: &'l LogFile, options: ScanOptions) -> Self {
        let report = Report {
            header: None,
            verdict: Verdict::Sound,
            tail: None,
            frames: 0,
            rows: 0,
            events: 0,
            committed_events: 0,
            content_bytes: 0,
            last_time: None,
            inherited: 0,
            findings: Vec::new(),
            findings_total: 0,
            stopped: false,
            marker: None,
        };
        let generation = log.named().map_or(Generation::CURRENT, |(generation, _)| generation);
        Self {
            log,
            options,
            report,
            line: 0,
            frame: 0,
            decoder: decoder(log, generation, Recovery::Recoverable, options.check),
            behind: None,
            lost: false,
            issue_is_fatal: false,
            is_refused: false,
            hole: None,
            header_fault: None,
            is_opaque: false,
            starts_in_the_middle: false,
            from_the_middle: false,
        }
    }

    /// A scan whose first block is not the header's.
    pub(super) fn in_the_middle(log: &'l LogFile, options: ScanOptions, header: Header) -> Self {
        let mut scan = Self::new(log, options);
        scan.decoder = decoder(log, header.generation(), Recovery::Recoverable, options.check);
        scan.report.header = Some(header);
        scan.line = 1;
        scan.starts_in_the_middle = true;
        scan.from_the_middle = true;
        scan
    }

    /// Delivers what the reader's blocks hold.
    pub(super) fn run(
        &mut self,
        source: &mut FileSource<'_>,
        blocks: &mut dyn BlockReader,
        visit: Visit<'_>,
    ) -> Result<()> {
        loop {
            let (at, fault) = match blocks.next(source) {
                Ok(Some(block)) => match self.block(&block, visit)? {
                    ControlFlow::Break(()) => {
                        self.report.stopped = true;
                        return Ok(());
                    }
                    ControlFlow::Continue(None) => continue,
                    ControlFlow::Continue(Some(fault)) => (block.start, fault),
                },
                Ok(None) => match blocks.tail() {
                    Some(tail) if self.options.lenient && tail.state == TailState::Damaged => {
                        (tail.good_end, tail.fault.unwrap_or(Fault::Truncated))
                    }
                    _ => {
                        self.frame = blocks.index();
                        return Ok(());
                    }
                },
                Err(ReadError::Bad { at, fault }) if fault != Fault::Shrunk => (at, fault),
                Err(error) => return Err(Error::read(self.log.path(), self.report.events, error)),
            };
            self.frame = blocks.index();
            self.find(Damage::Bytes(fault), at, None);
            self.hole.get_or_insert(fault);
            let skipped = if self.options.lenient {
                blocks
                    .skip(source)
                    .map_err(|error| Error::read(self.log.path(), self.report.events, error))?
            } else {
                None
            };
            let flow = visit(Item::Hole { at, fault, skipped })?;
            if skipped.is_none() || flow.is_break() {
                return Ok(());
            }
            self.go_on_behind();
            self.lost = true;
            // Without a header frame the first line that can be read is a row.
            self.line = self.line.max(1);
        }
    }

    /// Delivers the lines of a block; gives a fault if an indexed trailer counted other events than there are.
    fn block(&mut self, block: &Block<'_>, visit: Visit<'_>) -> Result<ControlFlow<(), Option<Fault>>> {
        let is_plain = self.log.encoding() == Encoding::Plain;
        if !is_plain {
            self.report.frames = self.report.frames.saturating_add(1);
        }
        self.report.content_bytes = self.report.content_bytes.saturating_add(block.content.len() as u64);
        self.frame = block.index;
        let events_before = self.report.events;
        if block.begins_append {
            self.report.committed_events = events_before;
        }
        // Once for all lines; where it fails, each line is looked at by itself.
        let text = simdutf8::basic::from_utf8(block.content).ok();
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', block.content).chain(
            // Only damage leaves a last line without its newline.
            block.content.last().filter(|&&last| last != b'\n').map(|_| block.content.len()),
        );
        for end in ends {
            self.line = self.line.saturating_add(1);
            let text_at = block.content_start.saturating_add(start as u64);
            let file_at = if is_plain { text_at } else { block.start };
            let after_commit = block.begins_append;
            let place = Place { line: self.line, block: block.index, file_at, text_at, after_commit };
            let line = block.content.get(start..end).unwrap_or_default();
            let text = text.and_then(|text| text.get(start..end));
            start = end.saturating_add(1);
            let flow = if block.index == 0 {
                self.header(line, visit)?
            } else {
                self.row(line, text, place, visit)?
            };
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // A scan that begins in the middle learns where it is from its first row.
        let events_before = if events_before == 0 {
            block.counted.map_or(0, |counted| counted.first_seq)
        } else {
            events_before
        };
        let got = self.report.events.saturating_sub(events_before);
        let miscounted =
            block.counted.map(|counted| u64::from(counted.events)).filter(|&stored| stored != got);
        let clean = self.decoder.issue().is_none() && self.behind.is_none() && !self.is_opaque;
        Ok(ControlFlow::Continue(
            miscounted.filter(|_| clean).map(|stored| Fault::EventCount { stored, got }),
        ))
    }

    fn header(&mut self, line: &[u8], visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let mut readable = true;
        match Header::parse(line, self.log.limits()) {
            Ok(header) => {
                self.decoder =
                    decoder(self.log, header.generation(), Recovery::Recoverable, self.options.check);
                self.report.last_time = Some(header.created_at());
                self.report.header = Some(header);
            }
            Err(fault) => {
                self.header_fault = Some(fault);
                self.find(
                    Damage::Header(fault),
                    0,
                    Some(Place { line: 1, block: 0, file_at: 0, text_at: 0, after_commit: true }),
                );
                // Rows of a newer generation mean something else; other rows are read as the file's name says.
                self.is_opaque = matches!(fault, HeaderFault::Newer { .. });
                readable = self.options.lenient;
            }
        }
        let flow = visit(Item::Header { line, header: self.report.header.as_ref() })?;
        Ok(if readable { flow } else { ControlFlow::Break(()) })
    }

    /// `text` is the line, if it is known to be UTF-8.
    fn row(
        &mut self,
        line: &[u8],
        text: Option<&str>,
        place: Place,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        if self.is_opaque {
            self.report.rows = self.report.rows.saturating_add(1);
            return visit(Item::Opaque { line, place });
        }
        if std::mem::take(&mut self.starts_in_the_middle)
            && let Ok(row) =
                PhysicalRow::read(line, self.decoder.generation(), self.options.check, self.log.limits())
        {
            self.decoder.expect(row.first_seq());
            self.report.events = row.first_seq().get();
            if place.after_commit {
                self.report.committed_events = self.report.events;
            }
        }
        let row_place = RowPlace { line: place.line, offset: place.text_at };
        let is_clean = self.decoder.issue().is_none() && self.behind.is_none();
        if is_clean || (self.behind.is_none() && !self.issue_is_fatal) || self.options.lenient {
            let pushed = match text {
                Some(text) => self.decoder.push_str(row_place, text),
                None => self.decoder.push(row_place, line),
            };
            match pushed {
                Ok(Some(row)) if is_clean => {
                    accept(&mut self.report, &row);
                    return visit(Item::Row { row, place });
                }
                Ok(_) => {}
                Err(error) if error.cause == DecodeCause::Refused => self.is_refused = true,
                Err(_) => self.issue_is_fatal = true,
            }
        }
        if !self.options.lenient {
            return if is_clean {
                self.first_issue(line, place, visit)
            } else {
                Ok(ControlFlow::Continue(()))
            };
        }
        self.go_on_behind();
        self.lenient_row(line, place, visit)
    }

    /// A strict scan met the first row that does not belong to the log.
    fn first_issue(&mut self, line: &[u8], place: Place, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let log = self.log;
        let generation = self.decoder.generation();
        let fault = self.fault_of(line);
        self.find(Damage::Row(fault), place.file_at, Some(place));
        let row = PhysicalRow::read(line, generation, self.options.check, log.limits()).ok();
        let flow = visit(Item::Bad { line, row, place, fault })?;
        // In complete frames every row was proved by a checksum, so one that does not belong is damage whatever follows.
        // In a plain log a later turn end decides, and the search for it goes on.
        Ok(if log.encoding() == Encoding::Plain { flow } else { ControlFlow::Break(()) })
    }

    fn fault_of(&self, line: &[u8]) -> RowFault {
        let mut probe = decoder(self.log, self.decoder.generation(), Recovery::Strict, self.options.check);
        probe.expect(Seq::new(self.report.events).unwrap_or(Seq::MAX));
        match probe.push(RowPlace { line: self.line, offset: 0 }, line) {
            Err(error) => error.issue.fault,
            Ok(_) => RowFault::NotObject,
        }
    }

    fn lenient_row(&mut self, line: &[u8], place: Place, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let row_place = RowPlace { line: place.line, offset: place.text_at };
        let generation = self.decoder.generation();
        let Some(behind) = &mut self.behind else { return Ok(ControlFlow::Continue(())) };
        let fault = match behind.push(row_place, line) {
            Ok(Some(row)) => {
                self.lost = false;
                accept(&mut self.report, &row);
                return visit(Item::Row { row, place });
            }
            Ok(None) => return Ok(ControlFlow::Continue(())),
            Err(error) => error.issue.fault,
        };
        let row = PhysicalRow::read(line, generation, self.options.check, self.log.limits()).ok();
        let expected_gap = self.lost && matches!(fault, RowFault::Gap { .. });
        if !expected_gap {
            self.find(Damage::Row(fault), place.file_at, Some(place));
        }
        let Some(row) = row else {
            self.lost = true;
            return visit(Item::Bad { line, row: None, place, fault });
        };
        // Its number is out of order, not the row; what follows is judged by it.
        self.lost = false;
        accept(&mut self.report, &row);
        if let Some(behind) = &mut self.behind {
            behind.expect(Seq::new(row.next_seq()).unwrap_or(Seq::MAX));
        }
        if expected_gap {
            visit(Item::Row { row, place })
        } else {
            visit(Item::Bad { line, row: Some(row), place, fault })
        }
    }

    fn go_on_behind(&mut self) {
        if self.behind.is_none() {
            let mut behind =
                decoder(self.log, self.decoder.generation(), Recovery::Strict, self.options.check);
            behind.expect(Seq::new(self.report.events).unwrap_or(Seq::MAX));
            self.behind = Some(behind);
        }
    }

    fn find(&mut self, damage: Damage, at: u64, place: Option<Place>) {
        self.report.findings_total = self.report.findings_total.saturating_add(1);
        if self.report.findings.len() < FINDINGS_MAX {
            let (expected_seq, rows_before) = (self.report.events, self.report.rows);
            let frame = (self.log.encoding() != Encoding::Plain).then_some(self.frame);
            self.report.findings.push(Finding { damage, at, place, frame, expected_seq, rows_before });
        }
    }

    /// The report of a scan whose visitor wanted no rows.
    pub(super) fn stopped(mut self) -> Report {
        self.report.stopped = true;
        self.finish(None)
    }

    /// The report, with the judged end of what was read.
    pub(super) fn finish(mut self, tail: Option<Tail>) -> Report {
        self.report.tail = tail;
        if tail.is_some_and(|tail| tail.committed) {
            self.report.committed_events = self.report.events;
        }
        self.report.marker = self.decoder.marker();
        self.report.verdict = self.verdict();
        self.report
    }

    fn verdict(&mut self) -> Verdict {
        if let Some(fault) = self.header_fault {
            return if fault.is_unsupported() { Verdict::Unsupported } else { Verdict::Corrupt };
        }
        if let Some(fault) = self.hole {
            let damaged_end = self.report.tail.is_some_and(|tail| tail.state == TailState::Damaged);
            return match fault {
                fault if fault.is_unsupported() => Verdict::Unsupported,
                _ if damaged_end && self.report.findings_total == 1 => Verdict::DamagedTail,
                _ => Verdict::Corrupt,
            };
        }
        if self.is_refused {
            return Verdict::Unsupported;
        }
        if let Some(issue) = self.decoder.issue() {
            return self.verdict_on_rows(issue.fault);
        }
        if self.issue_is_fatal {
            return Verdict::Corrupt;
        }
        if self.report.stopped {
            return Verdict::Sound;
        }
        let whole = !self.from_the_middle;
        match self
            .report
            .header
            .as_ref()
            .filter(|_| whole)
            .map_or(Ok(0), |header| self.decoder.finish(header))
        {
            Ok(inherited) => self.report.inherited = inherited,
            Err(fault) => {
                self.find(Damage::Cut(fault), 0, None);
                return Verdict::Corrupt;
            }
        }
        match self.report.tail.map(|tail| (tail.state, tail)) {
            Some((TailState::Complete, _)) | None => Verdict::Sound,
            Some((TailState::Unfinished, _)) => Verdict::Unfinished,
            Some((TailState::Torn, _)) => Verdict::Torn,
            Some((TailState::Damaged, tail)) => {
                self.find(Damage::Bytes(tail.fault.unwrap_or(Fault::Truncated)), tail.good_end, None);
                Verdict::DamagedTail
            }
            Some((TailState::Corrupt, _)) => Verdict::Corrupt,
            Some((TailState::Unsupported, _)) => Verdict::Unsupported,
        }
    }

    /// The verdict on a log whose first bad row has `fault`.
    fn verdict_on_rows(&mut self, fault: RowFault) -> Verdict {
        if !fault.kind().is_damage() {
            return Verdict::Unsupported;
        }
        if self.log.encoding() != Encoding::Plain || self.issue_is_fatal {
            return Verdict::Corrupt;
        }
        let first = self.report.findings.iter().find_map(|finding| finding.place);
        if let (Some(tail), Some(place)) = (&mut self.report.tail, first) {
            tail.state = TailState::Damaged;
            tail.good_end = place.file_at;
            tail.durable = place.file_at;
        }
        Verdict::DamagedTail
    }
}

fn accept(report: &mut Report, row: &PhysicalRow<'_>) {
    report.rows = report.rows.saturating_add(1);
    report.events = row.next_seq();
    report.last_time = Some(row.last_time());
}

fn decoder(log: &LogFile, generation: Generation, recovery: Recovery, check: Check) -> RowDecoder {
    let evidence = if generation.has_chunk_events() { Evidence::Decoded } else { Evidence::Parsed };
    // Reading less than the whole line relies on a checksum over it, which a plain log does not have.
    let check = if log.encoding() == Encoding::Plain { Check::Full } else { check };
    RowDecoder::new(generation, recovery).with_check(check).with_limits(*log.limits()).with_evidence(evidence)
}
