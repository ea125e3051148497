//! `cat`: the logical log, line by line.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::ControlFlow;

use globset::{Glob, GlobSet, GlobSetBuilder};
use seslog::container::{Detected, Encoding};
use seslog::row::{Check, Header, PhysicalRow, Seeding};
use seslog::store::{Item, LogFile, Report, ScanOptions, Verdict, scan, scan_from};
use seslog::units::Generation;
use seslog::{Damage, Error};

use crate::failure::{Done, Failure, Outcome, chain, next_step, quoted};
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
    printer.own_from()?;
    printer.tail_from()?;

    let mut options = if args.lenient { ScanOptions::LENIENT } else { ScanOptions::STRICT };
    if log.encoding() != Encoding::Plain {
        // A checksum vouches for what stands inside the payloads.
        options.check = Check::Envelope;
    }
    let from = if args.lenient { 0 } else { printer.from };
    let report = scan_from(&log, options, from, &mut |item| match printer.item(&item) {
        Ok(flow) => Ok(flow),
        Err(failure) => {
            printer.failed = Some(failure);
            Ok(ControlFlow::Break(()))
        }
    });
    let Printer { failed, ring, left, mut out, mut marred, progress, unreadable, .. } = printer;
    drop(progress);
    if let Some(failure) = failed {
        out.flush()?;
        return Err(failure);
    }
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    for line in ring.into_iter().flatten().take(left) {
        out.bytes(&line)?;
    }
    out.flush()?;
    marred |= judge(root, args, &log, &report?, unreadable)?;
    Ok(Outcome::marred_if(marred))
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
        talk::warning(&format!("{}: the log is empty ({} bytes): it has no header", path.display(), log.stamp().size));
        talk::next(&format!("nothing was ever stored there; remove {} if no writer is starting", quoted(path)));
        return Ok(true);
    }
    if !args.lenient {
        return Err(Failure::Store { next: next_step(&error), error });
    }
    talk::warning(&error_text(root, path, &error));
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

fn glob_set(globs: &[String]) -> Result<Option<GlobSet>, Failure> {
    if globs.is_empty() {
        return Ok(None);
    }
    let usage = |error: globset::Error| Failure::Usage(format!("--type: {error}"));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob).map_err(usage)?);
    }
    Ok(Some(set.build().map_err(usage)?))
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
    marred: bool,
    failed: Option<Failure>,
}

impl<'a> Printer<'a> {
    fn new(root: &'a Root, args: &'a Args, target: &'a Target, log: &'a LogFile, types: Option<GlobSet>) -> Self {
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
                    Err(_) => talk::warning("how much of the damaged log was inherited is not known; all of it is shown"),
                    Ok(()) => {}
                }
                report.inherited
            }
        };
        self.from = self.from.max(cut);
        Ok(())
    }

    /// Moves the start to the last events, if their number is known; else keeps the last lines in memory.
    fn tail_from(&mut self) -> Result<(), Failure> {
        let Some(tail) = self.args.tail else { return Ok(()) };
        let is_plain_count = self.types.is_none() && !self.args.lenient;
        let snapshot = if is_plain_count { Some(self.target.snapshot(self.root)?) } else { None };
        // Packed rows hold many events, so rows cannot be counted from behind.
        let countable = |generation: Generation| !(self.args.rows && generation.has_chunk_events());
        let total = snapshot.filter(|snapshot| snapshot.generation.is_some_and(countable)).and_then(|one| one.event_count);
        match total {
            Some(total) => self.from = self.from.max(total.saturating_sub(tail)),
            None => self.ring = Some(VecDeque::new()),
        }
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> Result<ControlFlow<()>, Failure> {
        match *item {
            Item::Header { line, header } => self.header(line, header),
            Item::Row { row, place } => {
                self.progress.at(place.file_at);
                self.row(&row)
            }
            Item::Bad { row: Some(row), .. } if self.args.lenient => self.row(&row),
            Item::Bad { line, row: None, .. } if self.args.lenient => {
                self.unreadable = self.unreadable.saturating_add(1);
                if self.args.rows && self.types.is_none() {
                    return self.print(line);
                }
                Ok(ControlFlow::Continue(()))
            }
            Item::Hole { at, fault, skipped } if self.args.lenient => {
                let until = skipped.map_or(self.log.stamp().size, |skipped| skipped.end);
                let start = skipped.map_or(at, |skipped| skipped.start);
                talk::warning(&format!(
                    "{}: skipped {} from byte {start} on: {fault}",
                    self.log.path().display(),
                    counted(until.saturating_sub(start), "byte", "bytes")
                ));
                Ok(ControlFlow::Continue(()))
            }
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn header(&mut self, line: &[u8], header: Option<&Header>) -> Result<ControlFlow<()>, Failure> {
        if let Some(header) = header {
            let placed = self.log.check_name(header.generation());
            if let Err(error) = placed.and_then(|()| self.target.check_place(self.root, header)) {
                self.refuse(error)?;
            }
            if self.args.current && header.generation() != Generation::CURRENT {
                return Err(Error::NeedsMigration {
                    path: self.log.path().to_path_buf(),
                    stored: header.generation(),
                    newest: Generation::CURRENT,
                }
                .into());
            }
        }
        // A line that is no header is shown only to those who want the bytes.
        let shown = header.is_some() || (self.args.lenient && self.args.rows);
        if shown && !self.args.no_header {
            self.out.row(line)?;
        }
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
            let mut kept = if ring.len() as u64 >= tail { ring.pop_front().unwrap_or_default() } else { Vec::new() };
            if tail > 0 {
                kept.clear();
                kept.extend_from_slice(line);
                kept.push(b'\n');
                ring.push_back(kept);
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.out.row(line)?;
        self.left = self.left.saturating_sub(1);
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
