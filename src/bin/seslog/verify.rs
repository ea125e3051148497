//! `verify`: every byte of logs, of a session's folder, of a project, or of a whole root.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::disk::{Disk, OsDisk};
use seslog::container::{Detected, Encoding};
use seslog::row::{Header, HeaderFault};
use seslog::store::layout::Beside;
use seslog::store::{Finding, Folder, Item, LogFile, ReadMode, Report, ScanOptions, State, Verdict, scan};
use seslog::units::Generation;
use seslog::{Damage, Error, Unsupported};

use crate::failure::{Done, Failure, Outcome, tell};
use crate::out::{Out, counted, talk};
use crate::plan::{Job, plan};
use crate::progress::Progress;
use crate::report::{Spot, error_text, state_of};
use crate::root::{LIMITS, Root};
use crate::verdict::{Seen, Verdicts};
use crate::vocabulary::unknown;

/// Checks every byte of logs, of session folders, of projects or of whole roots.
///
/// Exit status 3 if anything is torn, damaged, refused, not understood, or empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog verify ~/.dsh/sessions --json")]
pub(crate) struct Args {
    /// Log files, session folders, project folders or roots
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Check CRCs and structure without decompressing: all bytes of indexed logs; of zstd logs the chain of frames, of
    /// plain ones the last line end. What is not clean in this sense is checked in full
    #[arg(long)]
    quick: bool,
    /// One JSON object a log
    #[arg(long)]
    json: bool,
}

/// Checks what `args` name.
pub(crate) fn run(args: &Args) -> Done {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let mut failed = false;
    let mut jobs = Vec::new();
    for path in &args.paths {
        match plan(&disk, Path::new(path)) {
            Ok(more) => jobs.extend(more),
            Err(failure) => {
                tell(&failure);
                failed = true;
            }
        }
    }
    let mut checker = Checker::new(disk, args, &jobs);
    for job in jobs {
        checker.job(job)?;
    }
    checker.progress.finish();
    checker.out.flush()?;
    checker.sum_up();
    match (failed || checker.unread > 0, checker.bad > 0) {
        (true, _) => {
            let what = "not everything could be read";
            Err(Failure::new(what, "see the lines above: check the paths and their permissions"))
        }
        (false, bad) => Ok(Outcome::marred_if(bad)),
    }
}

/// Files beside a session's logs that are none of the store's own: left-overs and strangers. A set-aside tear is no stray.
fn strays_of(folder: &Folder) -> Vec<PathBuf> {
    let is_stray = |kind: Beside| !matches!(kind, Beside::Lock | Beside::SetAside);
    folder.beside.iter().filter(|(_, kind)| is_stray(*kind)).map(|(name, _)| folder.path.join(name)).collect()
}

struct Checker<'a> {
    root: Root,
    args: &'a Args,
    out: Out,
    progress: Progress,
    checked: u64,
    bad: u64,
    unread: u64,
    strays: u64,
    encodings: Vec<(PathBuf, Encoding)>,
}

impl<'a> Checker<'a> {
    fn new(disk: Arc<dyn Disk>, args: &'a Args, jobs: &[Job]) -> Self {
        let size_of = |path: &Path| disk.stamp(path).ok().flatten().map_or(0, |stamp| stamp.size);
        let files: Vec<PathBuf> = jobs
            .iter()
            .flat_map(|job| match job {
                Job::File(path) => vec![path.clone()],
                Job::Session { folder, .. } => {
                    folder.logs.iter().map(|log| folder.path.join(&log.name)).collect()
                }
                _ => Vec::new(),
            })
            .collect();
        let total = files.iter().map(|path| size_of(path)).fold(0, u64::saturating_add);
        let out = Out::new();
        // Lines on the terminal and a bar on the terminal take turns; see `print`.
        let progress = Progress::new(files.len() as u64, total, false);
        let root = Root::at(PathBuf::new());
        Self { root, args, out, progress, checked: 0, bad: 0, unread: 0, strays: 0, encodings: Vec::new() }
    }

    fn job(&mut self, job: Job) -> Result<(), Failure> {
        match job {
            Job::File(path) => {
                let verdicts = self.log(&path)?;
                self.print(&verdicts)
            }
            Job::Session { folder, refused, in_project } => self.session(&folder, refused, in_project),
            Job::Refused { path, error } => {
                let verdicts = self.refused(&path, &error, Vec::new());
                self.print(&verdicts)
            }
            Job::Unreadable { path, error } => {
                self.unread = self.unread.saturating_add(1);
                let text = error_text(&self.root, &path, State::Corrupt, &error);
                let verdicts = Verdicts { error: Some(text), ..Verdicts::of(path, State::Corrupt) };
                self.print(&verdicts)
            }
            Job::Beside { path, strays } => {
                let verdicts = Verdicts { strays, ..Verdicts::of(path, State::Ok) };
                self.print(&verdicts)
            }
        }
    }

    fn session(&mut self, folder: &Folder, refused: Option<Error>, in_project: bool) -> Result<(), Failure> {
        let strays = strays_of(folder);
        let current = match folder.current() {
            Ok(Some(log)) => folder.path.join(&log.name),
            Ok(None) => {
                let error = Error::Layout {
                    path: folder.path.clone(),
                    what: "the folder holds no log that can be read".to_owned(),
                };
                let error_text = error_text(&self.root, &folder.path, State::Refused, &error);
                let verdicts = Verdicts {
                    error: Some(error_text),
                    strays,
                    ..Verdicts::of(folder.path.clone(), State::Empty)
                };
                return self.print(&verdicts);
            }
            Err(error) => {
                let verdicts = self.refused(&folder.path, &error, strays);
                return self.print(&verdicts);
            }
        };
        let mut verdicts = self.log(&current)?;
        self.encodings.extend(verdicts.encoding.map(|encoding| (folder.path.clone(), encoding)));
        let placed = if in_project { self.place_error(folder, &current) } else { None };
        // A log that is whole, and not the one that its place or its name says.
        if let Some(error) = refused.or(placed)
            && matches!(verdicts.state, State::Ok | State::Torn)
        {
            verdicts.state = State::Refused;
            verdicts.error = Some(error_text(&self.root, &current, State::Refused, &error));
        }
        verdicts.strays = strays;
        for older in folder.older() {
            let checked = self.log(&older)?;
            // A successor went on without the torn end of its source, and the source is never changed.
            if matches!(checked.state, State::Ok | State::Torn) {
                verdicts.older.push(older);
            } else {
                self.print(&checked)?;
            }
        }
        self.print(&verdicts)
    }

    fn place_error(&self, folder: &Folder, log: &Path) -> Option<Error> {
        let log = LogFile::open(self.root.disk(), log, LIMITS, ReadMode::Read).ok()?;
        let header = Header::parse(&log.header_line().ok()?, &LIMITS).ok()?;
        folder.check_place(&**self.root.disk(), &header).err()
    }

    fn refused(&self, path: &Path, error: &Error, strays: Vec<PathBuf>) -> Verdicts {
        let text = error_text(&self.root, path, State::Refused, error);
        Verdicts { error: Some(text), strays, ..Verdicts::of(path.to_path_buf(), State::Refused) }
    }

    /// Checks one file.
    fn log(&mut self, path: &Path) -> Result<Verdicts, Failure> {
        let verdicts = match self.try_log(path) {
            Ok(verdicts) => verdicts,
            Err(error @ Error::Io { .. }) => {
                self.unread = self.unread.saturating_add(1);
                let text = error_text(&self.root, path, State::Corrupt, &error);
                Verdicts { error: Some(text), ..Verdicts::of(path.to_path_buf(), State::Corrupt) }
            }
            // The file changed under the scan.
            Err(error) => {
                let text = error_text(&self.root, path, State::Corrupt, &error);
                Verdicts { error: Some(text), ..Verdicts::of(path.to_path_buf(), State::Corrupt) }
            }
        };
        self.progress.file_done(verdicts.size.unwrap_or(0));
        self.checked = self.checked.saturating_add(1);
        Ok(verdicts)
    }

    fn try_log(&mut self, path: &Path) -> Result<Verdicts, Error> {
        let log = LogFile::open(self.root.disk(), path, LIMITS, ReadMode::Map)?;
        if self.args.quick
            && let Some(skim) = log.skim(&mut |at| self.progress.at(at))?
            && let Some(header) =
                log.header_line().ok().and_then(|line| Header::parse(&line, log.limits()).ok())
            && log.check_name(header.generation()).is_ok()
        {
            return Ok(Verdicts::skimmed(&log, &header, skim));
        }
        let mut seen = Seen::default();
        let mut generation = log.named().map_or(Generation::CURRENT, |(generation, _)| generation);
        let progress = &mut self.progress;
        let report = scan(&log, ScanOptions::LENIENT, &mut |item| {
            match item {
                Item::Header { header: Some(header), .. } => generation = header.generation(),
                Item::Row { row, place } | Item::Bad { row: Some(row), place, .. } => {
                    seen.events = seen.events.saturating_add(row.event_count());
                    if let Some(unknown) = unknown(generation, &row, place) {
                        seen.note(unknown);
                    }
                    progress.at(place.file_at);
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(self.judged(&log, &report, &seen))
    }

    fn judged(&self, log: &LogFile, report: &Report, seen: &Seen) -> Verdicts {
        let (path, events) = (log.path(), seen.events);
        let mut state = state_of(report, log.detected() == Detected::Nothing);
        let mut error = report.require(log).err().or_else(|| report.end_error(log));
        let named = match &report.header {
            Some(header) => log.check_name(header.generation()),
            None => log.check_encoding(),
        };
        if let Err(mismatch) = named
            && matches!(state, State::Ok | State::Torn)
        {
            state = State::Refused;
            error = Some(mismatch);
        }
        let is_sound = matches!(state, State::Ok | State::Torn);
        let unknown = seen.unknown.first().filter(|_| is_sound);
        if let Some(unknown) = unknown {
            state = State::Unsupported;
            let reason = Unsupported::EventType { seq: unknown.seq, event_type: unknown.event_type.clone() };
            error = Some(Error::FormatUnsupported { path: path.to_path_buf(), reason });
        }
        let newer = report.findings.iter().find_map(|finding| match finding.damage {
            Damage::Header(HeaderFault::Newer { version }) => Some(Generation::new(version)),
            _ => None,
        });
        let header_generation = report.header.as_ref().map(Header::generation).or(newer);
        let first = report.findings.first().map(|finding: &Finding| finding.at);
        let torn = report
            .tail
            .filter(|_| matches!(report.verdict, Verdict::Torn | Verdict::Unfinished))
            .map(|tail| (events, tail.excess(), tail.good_end));
        let mut damage: Vec<Spot> =
            report.findings.iter().map(|finding| Spot::of(finding, report.rows)).collect();
        let has_frames = log.encoding() != Encoding::Plain;
        damage.extend(seen.unknown.iter().map(|unknown| Spot::unknown_type(unknown, has_frames)));
        let found = report
            .findings_total
            .saturating_add(seen.unknown_total)
            .saturating_add(u64::from(torn.is_some()));
        let text = error.as_ref().map(|error| error_text(&self.root, path, state, error));
        if let Some((events, _, at)) = torn {
            damage.push(Spot::torn(at, events, "the last append was cut short here".to_owned()));
        }
        Verdicts {
            path: path.to_path_buf(),
            state,
            generation: header_generation.or_else(|| log.named().map(|(generation, _)| generation)),
            encoding: Some(log.encoding()),
            frames: has_frames.then_some(report.frames),
            rows: Some(report.rows),
            events: Some(events),
            size: Some(log.stamp().size),
            content: Some(report.content_bytes),
            torn,
            error: text,
            error_at: first.or(unknown.map(|unknown| unknown.place.file_at)).or(torn.map(|(_, _, at)| at)),
            damage_total: found.max(damage.len() as u64),
            damage,
            strays: Vec::new(),
            older: Vec::new(),
            quick: false,
        }
    }

    fn print(&mut self, verdicts: &Verdicts) -> Result<(), Failure> {
        if verdicts.state != State::Ok {
            self.bad = self.bad.saturating_add(1);
        }
        self.strays = self.strays.saturating_add(verdicts.strays.len() as u64);
        let (out, json) = (&mut self.out, self.args.json);
        self.progress.suspend(|| {
            if json {
                out.bytes(&verdicts.json())?
            } else {
                verdicts.write(out)?
            }
            // A person watches the lines come; so does a script that reads them.
            out.flush()
        })?;
        if verdicts.state != State::Ok {
            let text = verdicts.error.clone().unwrap_or_else(|| verdicts.path.display().to_string());
            self.progress.suspend(|| talk::warning(&format!("{}: {text}", verdicts.state)));
        }
        Ok(())
    }

    fn sum_up(&self) {
        let mut kinds: Vec<Encoding> = self.encodings.iter().map(|(_, encoding)| *encoding).collect();
        kinds.sort();
        kinds.dedup();
        if kinds.len() > 1 {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            talk::note(&format!(
                "logs of several encodings stand side by side ({}): seslog reads them, DSH does not",
                names.join(", ")
            ));
        }
        if self.strays > 0 {
            let strays = counted(self.strays, "stray file", "stray files");
            talk::note(&format!("{strays}, left alone"));
        }
        if !self.args.json {
            let logs = counted(self.checked, "log", "logs");
            let bad =
                if self.bad == 0 { "all in order".to_owned() } else { format!("{} not in order", self.bad) };
            talk::note(&format!("{logs} checked, {bad}"));
        }
    }
}
