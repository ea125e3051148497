//! `grep`: the text of events across sessions.

mod pattern;
mod text;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use anstyle::{AnsiColor, Style};
use globset::GlobSet;
use parking_lot::Mutex;
use seslog::Error;
use seslog::container::disk::Disk;
use seslog::json::{Tape, Text};
use seslog::row::{Check, PhysicalRow};
use seslog::store::layout::printable;
use seslog::store::{Item, LogFile, ReadMode, ScanOptions, scan};

use self::pattern::Pattern;
use self::text::{each_text, joins_pieces};
use crate::failure::{Done, Failure, Outcome, chain, next_step};
use crate::globs::glob_set;
use crate::json::Object;
use crate::out::{Out, clean, counted, talk};
use crate::plan::{Job, plan};
use crate::progress::Progress;
use crate::root::{LIMITS, Root};

/// Searches the text of events: what people, models and tools said, unescaped, line by line.
///
/// Prints each line that matches with its session, seq and type; sessions come as they are done. Logs are searched in the
/// generation in which they are stored. Finding nothing is no failure: the exit status is 0 then too.
///
/// Every search reads every log, at the speed of decompression. An index would pay only where the same logs, more than a few
/// gigabytes of them, are searched many times a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog grep -i 'connection (refused|reset)' --type 'tool/*'")]
pub(crate) struct Args {
    /// A regular expression, as in ripgrep; ^ and $ match at the ends of a line
    #[arg(allow_hyphen_values = true)]
    pattern: String,
    /// Roots, folders of projects or of sessions, or logs, instead of the root that --root or the environment names
    #[arg(value_name = "ROOT")]
    places: Vec<OsString>,
    /// Ignore upper and lower case
    #[arg(short = 'i', long)]
    ignore_case: bool,
    /// The pattern is plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Only events whose type matches; may be given several times
    #[arg(long = "type", value_name = "GLOB")]
    types: Vec<String>,
    /// Print the paths of logs with a match, and nothing else
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// One JSON object a match
    #[arg(long)]
    json: bool,
}

/// Searches what `args` name, or `root`.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let pattern = Pattern::new(&args.pattern, args.fixed_strings, args.ignore_case)?;
    let types = glob_set(&args.types)?;
    let mut places: Vec<&Path> = args.places.iter().map(Path::new).collect();
    if places.is_empty() {
        if !root.path().exists() {
            talk::note(&format!("{}: there is no such root yet, and no sessions", root.path().display()));
            return Ok(Outcome::Clean);
        }
        places.push(root.path());
    }
    let (logs, refused) = logs_in(root.disk(), &places)?;
    let total = logs.iter().map(|(_, size)| size).sum();
    let out = Out::new();
    let progress = Progress::new(logs.len() as u64, total, out.is_terminal());
    let search = Search {
        disk: root.disk(),
        args,
        pattern,
        types,
        is_styled: crate::out::is_styled(),
        screen: Mutex::new(Screen { out, progress }),
        queue: Mutex::new(logs.into()),
        stop: AtomicBool::new(false),
        marred: AtomicU64::new(refused),
        matches: AtomicU64::new(0),
    };
    search.all()?;
    let mut screen = search.screen.into_inner();
    screen.progress.finish();
    screen.out.flush()?;
    if search.matches.into_inner() == 0 && !args.json {
        talk::note("nothing found");
    }
    let marred = search.marred.into_inner();
    if marred > 0 {
        let logs = counted(marred, "log was", "logs were");
        talk::warning(&format!("{logs} not searched to the end"));
    }
    Ok(Outcome::marred_if(marred > 0))
}

/// The logs below `places` with their sizes, the highest generation of each session, and how many things stand there that
/// cannot be searched; those are told.
fn logs_in(disk: &Arc<dyn Disk>, places: &[&Path]) -> Result<(Vec<(PathBuf, u64)>, u64), Failure> {
    let mut logs = Vec::new();
    let mut refused = 0_u64;
    let mut refuse = |error: &Error| {
        talk::warning(&chain(error));
        refused = refused.saturating_add(1);
    };
    let jobs = places.iter().map(|place| plan(disk, place)).collect::<Result<Vec<_>, _>>()?;
    for job in jobs.into_iter().flatten() {
        match job {
            Job::File(path) => logs.push(path),
            // What cannot be written to can be read all the same.
            Job::Session { folder, .. } => match folder.current() {
                Ok(Some(log)) => logs.push(folder.path.join(&log.name)),
                Ok(None) => {}
                Err(error) => refuse(&error),
            },
            Job::Refused { error, .. } | Job::Unreadable { error, .. } => refuse(&error),
            Job::Beside { .. } => {}
        }
    }
    let size = |path: &Path| disk.stamp(path).ok().flatten().map_or(0, |stamp| stamp.size);
    Ok((logs.into_iter().map(|path| (path.clone(), size(&path))).collect(), refused))
}

/// A search that several threads share.
struct Search<'a> {
    disk: &'a Arc<dyn Disk>,
    args: &'a Args,
    pattern: Pattern,
    types: Option<GlobSet>,
    /// Asked once: it takes a look at the terminal and at the environment.
    is_styled: bool,
    /// Held by the thread whose log is being printed.
    screen: Mutex<Screen>,
    queue: Mutex<VecDeque<(PathBuf, u64)>>,
    stop: AtomicBool,
    marred: AtomicU64,
    matches: AtomicU64,
}

struct Screen {
    out: Out,
    progress: Progress,
}

/// Bytes of one log's lines that are kept back, so that they stand together. A log with more takes the screen until it is
/// done.
const TOGETHER_BYTES: usize = 256 << 10;

/// Columns of a line on each side of the match.
const AROUND: usize = 80;

impl Search<'_> {
    fn all(&self) -> Result<(), Failure> {
        let threads =
            std::thread::available_parallelism().map_or(1, usize::from).min(self.queue.lock().len());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work())).collect();
            let join = |worker: ScopedJoinHandle<'_, Result<(), Failure>>| {
                worker.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            // The first failure is told; the scope waits for the others.
            workers.into_iter().try_for_each(join)
        })
    }

    fn work(&self) -> Result<(), Failure> {
        let mut tape = Tape::default();
        while !self.stop.load(Ordering::Relaxed) {
            let Some((path, size)) = self.queue.lock().pop_front() else { break };
            if let Err(failure) = self.one(&path, &mut tape) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(failure);
            }
            self.screen.lock().progress.file_done(size);
        }
        Ok(())
    }

    /// Searches one log. Only what ends the whole search is a failure.
    fn one(&self, path: &Path, tape: &mut Tape) -> Result<(), Failure> {
        let mut printed = Printed::new(self, path);
        let mut failed = None;
        let scanned = LogFile::open(self.disk, path, LIMITS, ReadMode::Read).and_then(|log| {
            let mut options = ScanOptions::STRICT;
            options.check = Check::Envelope;
            let report = scan(&log, options, &mut |item| {
                let searched = match item {
                    Item::Header { header: Some(header), .. } => {
                        printed.id = header.id().clone();
                        Ok(ControlFlow::Continue(()))
                    }
                    Item::Row { row, .. } if self.is_wanted(&row) => {
                        printed.head = None;
                        self.row(&row, tape, &mut printed)
                    }
                    _ => Ok(ControlFlow::Continue(())),
                };
                Ok(searched.unwrap_or_else(|failure| {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }))
            })?;
            report.require(&log)?;
            report.end_error(&log).map_or(Ok(()), Err)
        });
        if let Some(failure) = failed {
            return Err(failure);
        }
        printed.finish()?;
        if let Err(error) = scanned {
            self.marred.fetch_add(1, Ordering::Relaxed);
            let screen = self.screen.lock();
            screen.progress.suspend(|| {
                talk::warning(&chain(&error));
                next_step(&error).into_iter().for_each(|step| talk::next(&step));
            });
        }
        Ok(())
    }

    fn is_wanted(&self, row: &PhysicalRow<'_>) -> bool {
        let is_type = self.types.as_ref().is_none_or(|types| types.is_match(&*type_of(row)));
        // What stands there in pieces is searched as one text.
        is_type && (joins_pieces(row) || self.pattern.may_match(row.line()))
    }

    fn row(
        &self,
        row: &PhysicalRow<'_>,
        tape: &mut Tape,
        printed: &mut Printed<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(()));
        }
        let mut found = false;
        each_text(row, tape, &mut |text| {
            let mut from = 0;
            while let Some(hit) = self.pattern.regex().find_at(text, from) {
                found = true;
                if self.args.files_with_matches {
                    break;
                }
                let line = line_around(text, hit.range());
                printed.hit(row, text, &line, hit.range())?;
                // One line is printed once. What is left of a line behind an empty match matches no more than it did.
                from = line.end.max(hit.end()).saturating_add(1);
                if from > text.len() {
                    break;
                }
                from = text.ceil_char_boundary(from);
            }
            Ok(())
        })?;
        if found && self.args.files_with_matches {
            printed.path_only()?;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The lines of one log.
struct Printed<'a> {
    search: &'a Search<'a>,
    path: &'a Path,
    id: Text,
    /// What stands before each line of the present row, once it has one.
    head: Option<String>,
    lines: Vec<u8>,
    /// Taken when there is too much to keep back.
    screen: Option<parking_lot::MutexGuard<'a, Screen>>,
}

impl<'a> Printed<'a> {
    const fn new(search: &'a Search<'a>, path: &'a Path) -> Self {
        Self { search, path, id: Text::new(), head: None, lines: Vec::new(), screen: None }
    }

    fn hit(
        &mut self,
        row: &PhysicalRow<'_>,
        text: &str,
        line: &Range<usize>,
        hit: Range<usize>,
    ) -> Result<(), Failure> {
        self.search.matches.fetch_add(1, Ordering::Relaxed);
        let (before, found, behind) = snippet(text, line, &hit);
        if self.search.args.json {
            let mut object = Object::new();
            object.text("id", &self.id).path("path", self.path).number("seq", row.first_seq().get());
            object.signed("time", row.last_time().get()).string("type", &type_of(row));
            object.string("snippet", &format!("{before}{found}{behind}")).string("match", found);
            self.lines.extend_from_slice(&object.into_line());
        } else {
            let head = match self.head.take() {
                Some(head) => head,
                None => self.head_of(row),
            };
            let found = self.styled(AnsiColor::Red.on_default().bold(), clean(found));
            for part in [&*head, ": ", &clean(before), &found, &clean(behind), "\n"] {
                self.lines.extend_from_slice(part.as_bytes());
            }
            self.head = Some(head);
        }
        self.pass_on()
    }

    fn path_only(&mut self) -> Result<(), Failure> {
        self.search.matches.fetch_add(1, Ordering::Relaxed);
        if self.search.args.json {
            let mut object = Object::new();
            object.text("id", &self.id).path("path", self.path);
            self.lines.extend_from_slice(&object.into_line());
        } else {
            let shown = self.styled(AnsiColor::Magenta.on_default(), clean(&self.path.to_string_lossy()));
            self.lines.extend_from_slice(shown.as_bytes());
            self.lines.push(b'\n');
        }
        self.pass_on()
    }

    /// Session, seq and type.
    fn head_of(&self, row: &PhysicalRow<'_>) -> String {
        let styled = |color: AnsiColor, text| self.styled(color.on_default(), text);
        let head = [
            styled(AnsiColor::Magenta, printable(&self.id).into()),
            styled(AnsiColor::Green, row.first_seq().get().to_string().into()),
            styled(AnsiColor::Cyan, clean(&type_of(row))),
        ];
        head.join(":")
    }

    fn styled(&self, style: Style, text: Cow<'_, str>) -> String {
        if self.search.is_styled { format!("{style}{text}{style:#}") } else { text.into_owned() }
    }

    fn pass_on(&mut self) -> Result<(), Failure> {
        if self.screen.is_none() && self.lines.len() >= TOGETHER_BYTES {
            self.screen = Some(self.search.screen.lock());
        }
        if let Some(screen) = &mut self.screen {
            screen.show(&mut self.lines)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        match self.screen.take() {
            Some(mut screen) => screen.show(&mut self.lines),
            None if self.lines.is_empty() => Ok(()),
            None => self.search.screen.lock().show(&mut self.lines),
        }
    }
}

impl Screen {
    /// Prints `lines` at once: a person watches them come.
    fn show(&mut self, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let out = &mut self.out;
        self.progress.suspend(|| {
            out.bytes(lines)?;
            out.flush()
        })?;
        lines.clear();
        Ok(())
    }
}

/// The type of the row, as it is stored.
fn type_of<'r>(row: &PhysicalRow<'r>) -> Cow<'r, str> {
    match row {
        PhysicalRow::Event(event) => event.event_type().to_string_lossy(),
        PhysicalRow::Packed(packed) => Cow::Borrowed(packed.kind().row_type()),
    }
}

/// The line of `text` in which `hit` begins, without its end.
fn line_around(text: &str, hit: Range<usize>) -> Range<usize> {
    let before = text.get(..hit.start).unwrap_or_default();
    let behind = text.get(hit.start..).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let end = behind.find('\n').map_or(text.len(), |newline| hit.start.saturating_add(newline));
    start..end
}

/// What is shown of `line`: a little before the hit, the hit as far as it stands in the line, a little behind it.
fn snippet<'t>(text: &'t str, line: &Range<usize>, hit: &Range<usize>) -> (&'t str, &'t str, &'t str) {
    let found_end = text.floor_char_boundary(hit.end.min(line.end).min(hit.start.saturating_add(4 * AROUND)));
    let start = text.ceil_char_boundary(hit.start.saturating_sub(AROUND)).max(line.start);
    let end = text.floor_char_boundary(found_end.saturating_add(AROUND)).min(line.end);
    let piece = |range: Range<usize>| text.get(range).unwrap_or_default();
    (piece(start..hit.start).trim_start(), piece(hit.start..found_end), piece(found_end..end).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_the_line_of_the_match_and_no_more_of_it_than_can_be_read() {
        let text = "first\n  the second line \nthird";
        let hit = text.find("second").unwrap();
        let line = line_around(text, hit..hit + 6);
        assert_eq!(&text[line.clone()], "  the second line ");
        assert_eq!(snippet(text, &line, &(hit..hit + 6)), ("the ", "second", " line"));
        // A match that goes on in the next line is shown up to the end of its own.
        assert_eq!(snippet(text, &line, &(hit..text.len())), ("the ", "second line ", ""));
        let long = format!("{}€needle€{}", "é".repeat(500), "ü".repeat(500));
        let hit = long.find("needle").unwrap();
        let (before, found, behind) = snippet(&long, &line_around(&long, hit..hit + 6), &(hit..hit + 6));
        assert_eq!(found, "needle");
        assert!(before.len() <= AROUND && behind.len() <= AROUND && before.ends_with('€'));
    }
}
