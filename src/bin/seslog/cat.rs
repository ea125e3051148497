//! `cat`: the logical log, line by line.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::ControlFlow;

use globset::GlobSet;
use seslog::container::Detected;
use seslog::row::{Check, Header, PhysicalRow, Seeding};
use seslog::store::history::{PageLimits, PageRequest, PageStart};
use seslog::store::{Item, LogFile, Report, ScanOptions, State, Verdict, scan, scan_from};
use seslog::units::Generation;
use seslog::{Damage, Error};

use crate::current;
use crate::failure::{Done, Failure, Outcome, chain, next_step, quoted};
use crate::globs::glob_set;
use crate::out::{Out, counted, talk};
use crate::progress::Progress;
use crate::report::{error_text, words};
use crate::root::Root;
use crate::target::Target;

/// Prints the logical log: the header line, then one event a line.
///
/// Nothing behind damage is printed, unless --lenient asks for it. A torn end is no damage: the rows before it are printed,
/// and the exit status is 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog cat 4f1c --tail 20 --type 'tool/*'")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// Begin with this event
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Print at most this many events (rows, with --rows)
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Of what the other choices leave, look at the last events only (rows, with --rows)
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Begin with the last turns: with the turn/start of the last but so many
    #[arg(long, value_name = "N", conflicts_with = "lenient")]
    turns: Option<u64>,
    /// Leave the header line out
    #[arg(long)]
    no_header: bool,
    /// Print an older generation as the current one
    #[arg(long, conflicts_with = "rows")]
    current: bool,
    /// Print the rows as they are stored, packed ones included
    #[arg(long)]
    rows: bool,
    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "GLOB")]
    types: Vec<String>,
    /// Leave out what was inherited from the session that this one was forked from
    #[arg(long)]
    own: bool,
    /// Go on past damage, say what was skipped, and exit with status 3
    #[arg(long)]
    lenient: bool,
}

/// Prints the log that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let types = glob_set(&args.types)?;
    let target = Target::resolve(root, &args.target)?;
    let log = target.open(root)?;
    let mut printer = Printer::new(root, args, &target, &log, types);
    if let Err(error) = log.check_encoding() {
        printer.refuse(error)?;
    }
    printer.turns_from()?;
    if args.current && printer.is_older() {
        return print_converted(printer, &log);
    }
    printer.own_from()?;
    printer.tail_from()?;

    // Rows as they are stored are shown where they are only not understood; damage ends them all the same.
    let lenient = args.lenient || args.rows;
    let options = if lenient { ScanOptions::LENIENT } else { ScanOptions::STRICT };
    let from = if args.lenient { 0 } else { printer.from };
    let report = scan_from(&log, options, from, &mut |item| match printer.item(&item) {
        Ok(flow) => Ok(flow),
        Err(failure) => {
            printer.failed = Some(failure);
            Ok(ControlFlow::Break(()))
        }
    });
    let (unreadable, marred) = (printer.unreadable, printer.marred);
    printer.finish()?;
    let bad = judge(root, args, &log, &report?, unreadable)?;
    Ok(Outcome::marred_if(marred || bad))
}

/// Prints an older generation as the current one. A refusal may come with the last row, so the log is converted once
/// before anything is printed.
fn print_converted(mut printer: Printer<'_>, log: &LogFile) -> Done {
    if let Ok(stored) = Header::parse(&log.header_line()?, log.limits()) {
        printer.check(&stored)?;
    }
    let header = current::header(log)?;
    let (_, restored) = current::rows(log, &mut printer.progress, &mut |_| Ok(ControlFlow::Continue(())))?;
    if printer.args.own {
        printer.from = printer.from.max(restored.inherited);
    }
    if let Some(tail) = printer.args.tail {
        match &printer.types {
            None => printer.from = printer.from.max(restored.events.saturating_sub(tail)),
            Some(_) => printer.ring = Some(VecDeque::new()),
        }
    }
    let mut line = Vec::new();
    header.write(&mut line);
    let mut report = None;
    if printer.show_header(&line)?.is_continue() {
        let mut progress = Progress::new(1, log.stamp().size, true);
        let mut print = |line: &[u8]| {
            let row = PhysicalRow::read(line, Generation::CURRENT, Check::Envelope, log.limits());
            let row = row.map_err(|fault| {
                Failure::new(format!("a converted row is none: {fault}"), "report this as a bug")
            })?;
            // The rest is converted all the same: only its end says how the log ends.
            if printer.left > 0 {
                printer.row(&row).map(|_| ControlFlow::Continue(()))
            } else {
                Ok(ControlFlow::Continue(()))
            }
        };
        report = Some(current::rows(log, &mut progress, &mut print)?.0);
    }
    let (root, args, marred) = (printer.root, printer.args, printer.marred);
    printer.finish()?;
    let bad = report.map_or(Ok(false), |report| judge(root, args, log, &report, 0))?;
    Ok(Outcome::marred_if(marred || bad))
}

/// Says what is wrong with the log, and whether anything is.
fn judge(root: &Root, args: &Args, log: &LogFile, report: &Report, unreadable: u64) -> Result<bool, Failure> {
    let path = log.path();
    if let Some(error) = report.end_error(log) {
        talk::warning(&chain(&error));
        next_step(&error).into_iter().for_each(|step| talk::next(&step));
        return Ok(true);
    }
    let Err(error) = report.require(log) else { return Ok(false) };
    if log.detected() == Detected::Nothing {
        talk::warning(&format!(
            "{}: the log is empty ({} bytes): it has no header",
            path.display(),
            log.stamp().size
        ));
        talk::next(&format!(
            "nothing was ever stored there; remove {} if no writer is starting",
            quoted(path)
        ));
        return Ok(true);
    }
    let is_shown = args.rows && report.verdict == Verdict::Unsupported;
    if !args.lenient && !is_shown {
        return Err(Failure::Store { next: next_step(&error), error });
    }
    talk::warning(&error_text(root, path, State::Corrupt, &error));
    for finding in report.findings.iter().filter(|finding| !matches!(finding.damage, Damage::Bytes(_))) {
        let line = finding.place.map_or_else(String::new, |place| format!("line {}: ", place.line));
        talk::warning(&format!("byte {}: {line}{}", finding.at, words(&finding.damage)));
    }
    let kept = report.findings.len() as u64;
    if report.findings_total > kept {
        let more = report.findings_total.saturating_sub(kept);
        talk::warning(&format!("and {} more", counted(more, "finding", "findings")));
    }
    if unreadable > 0 && !args.rows {
        talk::next(&format!(
            "{} no event and were left out; --rows prints their bytes",
            counted(unreadable, "line is", "lines are")
        ));
    }
    if report.verdict == Verdict::Unsupported {
        next_step(&error).into_iter().for_each(|step| talk::next(&step));
    }
    Ok(true)
}

struct Printer<'a> {
    root: &'a Root,
    args: &'a Args,
    target: &'a Target,
    log: &'a LogFile,
    out: Out,
    progress: Progress,
    types: Option<GlobSet>,
    /// Seq of the first event that may be printed.
    from: u64,
    left: u64,
    /// Lines that wait for the end of the log, where only the last ones are wanted.
    ring: Option<VecDeque<Vec<u8>>>,
    /// An expanded event, reused.
    line: Vec<u8>,
    /// Lines that are no events.
    unreadable: u64,
    /// Damage was met, and nothing behind it is printed.
    stopped: bool,
    marred: bool,
    failed: Option<Failure>,
}

impl<'a> Printer<'a> {
    fn new(
        root: &'a Root,
        args: &'a Args,
        target: &'a Target,
        log: &'a LogFile,
        types: Option<GlobSet>,
    ) -> Self {
        let out = Out::new();
        let progress = Progress::new(1, log.stamp().size, out.is_terminal());
        Self {
            root,
            args,
            target,
            log,
            out,
            progress,
            types,
            from: args.from.unwrap_or(0),
            left: args.limit.unwrap_or(u64::MAX),
            ring: None,
            line: Vec::new(),
            unreadable: 0,
            stopped: false,
            marred: false,
            failed: None,
        }
    }

    /// Refuses a log whose name, place and bytes disagree; raw rows of a path that was named are shown all the same.
    fn refuse(&mut self, error: Error) -> Result<(), Failure> {
        if !(self.args.rows && self.target.is_by_path()) {
            return Err(error.into());
        }
        talk::warning(&chain(&error));
        self.marred = true;
        Ok(())
    }

    /// Moves the start behind the inherited events. Where only a marker in the log tells their number, walks it once more.
    fn own_from(&mut self) -> Result<(), Failure> {
        if !self.args.own {
            return Ok(());
        }
        let line = self.log.header_line()?;
        let Ok(header) = Header::parse(&line, self.log.limits()) else { return Ok(()) };
        let cut = match header.seeding() {
            Seeding::Unseeded => 0,
            Seeding::Counted(cut) => cut,
            _ => {
                let mut options = ScanOptions::STRICT;
                options.check = Check::Envelope;
                let report = scan(self.log, options, &mut |_| Ok(ControlFlow::Continue(())))?;
                match report.require(self.log) {
                    Err(error) if !self.args.lenient => return Err(error.into()),
                    Err(_) => talk::warning(
                        "how much of the damaged log was inherited is not known; all of it is shown",
                    ),
                    Ok(()) => {}
                }
                report.inherited
            }
        };
        self.from = self.from.max(cut);
        Ok(())
    }

    /// Moves the start to the last turns, which are looked for from the end.
    fn turns_from(&mut self) -> Result<(), Failure> {
        let Some(turns) = self.args.turns else { return Ok(()) };
        if self.is_older() && !self.args.current {
            let what = "--turns needs --current where the log is of an older generation";
            return Err(Failure::new(what, "add --current; the log stays as it is"));
        }
        if turns == 0 {
            self.left = 0;
            return Ok(());
        }
        let (mut place, mut left) = (PageStart::End, turns);
        loop {
            let request = PageRequest::backward(place, PageLimits::default().with_turns(left));
            let page = self.log.page(&request)?;
            let begun = page.events.iter().filter(|event| event.is("turn/start")).count() as u64;
            left = left.saturating_sub(begun);
            match page.before {
                Some(before) if left > 0 && page.has_more() => place = PageStart::Cursor(before),
                _ => {
                    self.from = self.from.max(page.first_seq);
                    return Ok(());
                }
            }
        }
    }

    /// Moves the start to the last events, if their number is known; else keeps the last lines in memory.
    fn tail_from(&mut self) -> Result<(), Failure> {
        let Some(tail) = self.args.tail else { return Ok(()) };
        let is_plain_count = self.types.is_none() && !self.args.lenient;
        let snapshot = if is_plain_count { Some(self.target.snapshot(self.root)?) } else { None };
        // Packed rows hold many events, so rows cannot be counted from behind.
        let countable = |generation: Generation| !(self.args.rows && generation.has_chunk_events());
        let total = snapshot
            .filter(|snapshot| snapshot.generation.is_some_and(countable))
            .and_then(|one| one.event_count);
        match total {
            Some(total) => self.from = self.from.max(total.saturating_sub(tail)),
            None => self.ring = Some(VecDeque::new()),
        }
        Ok(())
    }

    /// Whether the log is of an older generation than the current one.
    fn is_older(&self) -> bool {
        let line = self.log.header_line().ok();
        let header = line.and_then(|line| Header::parse(&line, self.log.limits()).ok());
        header.is_some_and(|header| header.generation() < Generation::CURRENT)
    }

    fn item(&mut self, item: &Item<'_>) -> Result<ControlFlow<()>, Failure> {
        let goes_on = Ok(ControlFlow::Continue(()));
        if self.stopped {
            return goes_on;
        }
        match *item {
            Item::Header { line, header } => self.header(line, header),
            Item::Row { row, place } => {
                self.progress.at(place.file_at);
                self.row(&row)
            }
            Item::Opaque { line, .. } if self.args.rows => self.unread(line),
            Item::Bad { fault, .. } if !self.args.lenient && fault.kind().is_damage() => self.stop(),
            Item::Bad { row: Some(row), .. } if self.args.lenient => self.row(&row),
            Item::Bad { line, row: None, .. } if self.args.lenient || self.args.rows => self.unread(line),
            Item::Hole { .. } if !self.args.lenient => self.stop(),
            Item::Hole { at, fault, skipped } => {
                let until = skipped.map_or(self.log.stamp().size, |skipped| skipped.end);
                let start = skipped.map_or(at, |skipped| skipped.start);
                talk::warning(&format!(
                    "{}: skipped {} from byte {start} on: {fault}",
                    self.log.path().display(),
                    counted(until.saturating_sub(start), "byte", "bytes")
                ));
                goes_on
            }
            _ => goes_on,
        }
    }

    /// Damage: the walk goes on to judge the end, and nothing more is printed.
    fn stop(&mut self) -> Result<ControlFlow<()>, Failure> {
        self.stopped = true;
        Ok(ControlFlow::Continue(()))
    }

    /// A line that is no event to this build: its bytes, for those who want rows.
    fn unread(&mut self, line: &[u8]) -> Result<ControlFlow<()>, Failure> {
        self.unreadable = self.unreadable.saturating_add(1);
        if self.args.rows && self.types.is_none() { self.print(line) } else { Ok(ControlFlow::Continue(())) }
    }

    fn header(&mut self, line: &[u8], header: Option<&Header>) -> Result<ControlFlow<()>, Failure> {
        if let Some(header) = header {
            self.check(header)?;
            return self.show_header(line);
        }
        let is_damage =
            Header::parse(line, self.log.limits()).err().is_none_or(|fault| !fault.is_unsupported());
        if is_damage && !self.args.lenient {
            return self.stop();
        }
        // A line that is no header is shown only to those who want the bytes.
        if self.args.rows { self.show_header(line) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Checks that the log is what its name and its place say.
    fn check(&mut self, header: &Header) -> Result<(), Failure> {
        match self
            .log
            .check_name(header.generation())
            .and_then(|()| self.target.check_place(self.root, header))
        {
            Err(error) => self.refuse(error),
            Ok(()) => Ok(()),
        }
    }

    fn show_header(&mut self, line: &[u8]) -> Result<ControlFlow<()>, Failure> {
        if !self.args.no_header {
            self.out.log_row(line)?;
        }
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Prints what waited for the end, and writes everything out; or says what failed on the way.
    fn finish(mut self) -> Result<(), Failure> {
        if let Some(failure) = self.failed {
            self.out.flush()?;
            return Err(failure);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        for line in self.ring.into_iter().flatten().take(left) {
            self.out.log_row(&line)?;
        }
        self.out.flush()
    }

    fn row(&mut self, row: &PhysicalRow<'_>) -> Result<ControlFlow<()>, Failure> {
        if row.next_seq() <= self.from || !self.has_type(row) {
            return Ok(ControlFlow::Continue(()));
        }
        let packed = match row {
            PhysicalRow::Packed(packed) if !self.args.rows => packed,
            _ => return self.print(row.line().as_bytes()),
        };
        for member in packed.members() {
            if member.seq.get() < self.from {
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            line.clear();
            packed.write_member(&member, &mut line);
            let flow = self.print(&line)?;
            self.line = line;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn has_type(&self, row: &PhysicalRow<'_>) -> bool {
        let Some(types) = &self.types else { return true };
        match row {
            PhysicalRow::Event(event) => types.is_match(&*event.event_type().to_string_lossy()),
            PhysicalRow::Packed(packed) if self.args.rows => types.is_match(packed.kind().row_type()),
            PhysicalRow::Packed(_) => types.is_match("assistant/chunk"),
        }
    }

    fn print(&mut self, line: &[u8]) -> Result<ControlFlow<()>, Failure> {
        if let Some(ring) = &mut self.ring {
            let tail = self.args.tail.unwrap_or(u64::MAX);
            let mut kept =
                if ring.len() as u64 >= tail { ring.pop_front().unwrap_or_default() } else { Vec::new() };
            if tail > 0 {
                kept.clear();
                kept.extend_from_slice(line);
                ring.push_back(kept);
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.out.log_row(line)?;
        self.left = self.left.saturating_sub(1);
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
