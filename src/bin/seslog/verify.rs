//! `verify`: every byte of logs, of a session's folder, of a project, or of a whole root.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::disk::{Disk, FileKind, OsDisk};
use seslog::container::{Detected, Encoding, Skim};
use seslog::row::{Header, HeaderFault};
use seslog::store::layout::{Beside, is_flat_log, is_project_dir_name, parse_log_name};
use seslog::store::{
    FINDINGS_MAX, Finding, Folder, Item, LogFile, ReadMode, Report, ScanOptions, State, Verdict, scan,
};
use seslog::units::Generation;
use seslog::{Damage, Error, Unsupported};

use crate::failure::{Done, Failure, Outcome, tell};
use crate::json::Object;
use crate::out::{Out, clean, clean_path, counted, human_bytes, talk};
use crate::progress::Progress;
use crate::report::{Spot, error_text, state_of, state_style};
use crate::root::{LIMITS, Root};
use crate::vocabulary::{Unknown, unknown};

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

/// One thing that is checked.
#[derive(Debug)]
enum Job {
    /// A file that was named: judged by its content.
    File(PathBuf),
    /// A session's folder, and what a listing of its root says against it.
    Session { folder: Folder, refused: Option<Error>, in_project: bool },
    /// Something that stands where a log should, and is none.
    Refused { path: PathBuf, error: Error },
    /// A project's folder or a root, with files that belong to no session.
    Beside { path: PathBuf, strays: Vec<PathBuf> },
}

/// What is said of one log, session or folder.
#[derive(Debug)]
struct Verdicts {
    path: PathBuf,
    state: State,
    generation: Option<Generation>,
    encoding: Option<Encoding>,
    frames: Option<u64>,
    rows: Option<u64>,
    events: Option<u64>,
    size: Option<u64>,
    content: Option<u64>,
    /// Events before the tear, and where it is and how long.
    torn: Option<(u64, u64, u64)>,
    error: Option<String>,
    error_at: Option<u64>,
    damage: Vec<Spot>,
    damage_total: u64,
    strays: Vec<PathBuf>,
    older: Vec<PathBuf>,
    quick: bool,
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

/// Finds out what `path` is, and lists the work in it.
fn plan(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    let Some(folder) = Folder::read(&**disk, path)? else {
        let stamp = disk.stamp(path).map_err(|error| cannot_look(path, error))?;
        return match stamp {
            Some(_) => Ok(vec![Job::File(path.to_path_buf())]),
            None => Err(Failure::new(
                format!("{}: there is no such file or folder", path.display()),
                "check the path; verify takes paths, not ids",
            )),
        };
    };
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let is_session = !folder.logs.is_empty()
        || folder.beside.iter().any(|(name, _)| name.as_encoded_bytes().starts_with(b"session."))
        || is_in_a_project(&real);
    if is_session && !is_project(&real) {
        return Ok(vec![Job::Session { in_project: is_in_a_project(&real), folder, refused: None }]);
    }
    let holds_logs = |path: &Path| {
        Folder::read(&**disk, path).ok().flatten().is_some_and(|folder| !folder.logs.is_empty())
    };
    let is_one_project = is_project(&real)
        || folder
            .beside
            .iter()
            .map(|(name, _)| path.join(name))
            .any(|child| !is_project(&child) && holds_logs(&child));
    if is_one_project { plan_project(disk, path) } else { plan_root(disk, path) }
}

fn plan_root(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut refusals: Vec<(PathBuf, Error)> = Root::at(path.to_path_buf())
        .store()
        .list()?
        .into_iter()
        .filter(|snapshot| snapshot.state == State::Refused)
        .filter_map(|snapshot| Some((snapshot.path, snapshot.error?)))
        .collect();
    let mut strays = Vec::new();
    for (entry, kind) in sorted_entries(disk, path)? {
        match kind {
            FileKind::Dir | FileKind::Symlink if Folder::read(&**disk, &entry).ok().flatten().is_some() => {
                jobs.extend(plan_project_with(disk, &entry, &mut refusals)?);
            }
            _ => strays.push(entry),
        }
    }
    if !strays.is_empty() {
        jobs.push(Job::Beside { path: path.to_path_buf(), strays });
    }
    Ok(jobs)
}

fn plan_project(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    plan_project_with(disk, path, &mut Vec::new())
}

fn plan_project_with(
    disk: &Arc<dyn Disk>,
    path: &Path,
    refusals: &mut Vec<(PathBuf, Error)>,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut strays = Vec::new();
    for (entry, kind) in sorted_entries(disk, path)? {
        let folder = match kind {
            FileKind::Dir | FileKind::Symlink => Folder::read(&**disk, &entry)?,
            _ => None,
        };
        let mut refused = |within: &Path| {
            let at = refusals.iter().position(|(path, _)| path == within || path.parent() == Some(within))?;
            Some(refusals.swap_remove(at).1)
        };
        match folder {
            Some(folder) => {
                let refused = refused(&entry);
                jobs.push(Job::Session { folder, refused, in_project: true });
            }
            None if entry.file_name().is_some_and(is_flat_log) => {
                let what = "a log directly in a project folder is of a retired layout";
                let error = refused(&entry)
                    .unwrap_or_else(|| Error::Layout { path: entry.clone(), what: what.to_owned() });
                jobs.push(Job::Refused { path: entry, error });
            }
            None => strays.push(entry),
        }
    }
    if !strays.is_empty() {
        jobs.push(Job::Beside { path: path.to_path_buf(), strays });
    }
    Ok(jobs)
}

fn sorted_entries(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<(PathBuf, FileKind)>, Failure> {
    let entries = disk.read_dir(path).map_err(|error| cannot_look(path, error))?;
    let mut entries: Vec<_> = entries.into_iter().map(|entry| (path.join(entry.name), entry.kind)).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

fn cannot_look(path: &Path, error: std::io::Error) -> Failure {
    Failure::io(
        format!("{}: looking at it failed", path.display()),
        error,
        "check the path and its permissions",
    )
}

fn is_project(folder: &Path) -> bool {
    folder.file_name().is_some_and(is_project_dir_name)
}

fn is_in_a_project(session: &Path) -> bool {
    session.parent().is_some_and(is_project)
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

/// What a scan of one log came upon.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    unknown: Vec<Unknown>,
    unknown_total: u64,
}

impl Seen {
    fn note(&mut self, unknown: Unknown) {
        self.unknown_total = self.unknown_total.saturating_add(1);
        if self.unknown.len() < FINDINGS_MAX {
            self.unknown.push(unknown);
        }
    }
}

impl Verdicts {
    fn of(path: PathBuf, state: State) -> Self {
        Self {
            path,
            state,
            generation: None,
            encoding: None,
            frames: None,
            rows: None,
            events: None,
            size: None,
            content: None,
            torn: None,
            error: None,
            error_at: None,
            damage: Vec::new(),
            damage_total: 0,
            strays: Vec::new(),
            older: Vec::new(),
            quick: false,
        }
    }

    fn skimmed(log: &LogFile, header: &Header, skim: Skim) -> Self {
        Self {
            generation: Some(header.generation()),
            encoding: Some(log.encoding()),
            frames: (log.encoding() != Encoding::Plain).then_some(skim.frames),
            rows: skim.lines.map(|lines| lines.saturating_sub(1)),
            events: skim.events,
            size: Some(log.stamp().size),
            quick: true,
            ..Self::of(log.path().to_path_buf(), State::Ok)
        }
    }

    fn json(&self) -> Vec<u8> {
        let mut object = Object::new();
        object.path("path", &self.path).string("state", self.state.as_str());
        object.opt_number("generation", self.generation.map(Generation::get));
        if let Some(encoding) = self.encoding {
            object.string("encoding", encoding.name());
        }
        object
            .opt_number("frames", self.frames)
            .opt_number("rows", self.rows)
            .opt_number("events", self.events);
        object.opt_number("sizeBytes", self.size).opt_number("contentBytes", self.content);
        if let Some((events, bytes, at)) = self.torn {
            object.number("recoverableEvents", events).number("tornBytes", bytes).number("tornAt", at);
        }
        if let Some(error) = &self.error {
            object.string("error", error);
        }
        object.opt_number("errorAt", self.error_at);
        if !self.damage.is_empty() {
            object.objects("damage", self.damage.iter().map(Spot::object));
        }
        if self.damage_total > self.damage.len() as u64 {
            object.number("damageTotal", self.damage_total);
        }
        if !self.strays.is_empty() {
            object.paths("strays", &self.strays);
        }
        if !self.older.is_empty() {
            object.paths("older", &self.older);
        }
        if self.quick {
            object.flag("quick", true);
        }
        object.into_line()
    }

    fn write(&self, out: &mut Out) -> Result<(), Failure> {
        let mut facts = Vec::new();
        facts.extend(self.generation.map(|generation| generation.to_string()));
        facts.extend(self.encoding.map(|encoding| encoding.to_string()));
        facts.extend(self.frames.map(|frames| counted(frames, "frame", "frames")));
        facts.extend(self.rows.map(|rows| counted(rows, "row", "rows")));
        facts.extend(self.events.map(|events| counted(events, "event", "events")));
        facts.extend(self.size.map(human_bytes));
        facts.extend(self.quick.then(|| "quick look".to_owned()));
        if !self.older.is_empty() {
            facts.push(format!(
                "{} in order",
                counted(self.older.len() as u64, "older generation", "older generations")
            ));
        }
        let is_log = self.encoding.is_some() || self.state != State::Ok;
        let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
        let state = if is_log {
            out.styled(state_style(self.state), &format!("{:<11}", self.state.as_str()))
        } else {
            format!("{:<11}", "")
        };
        out.line(&format!("{state} {}{facts}", clean_path(&self.path)))?;
        let indent = |text: &str| format!("{:<11}   {}", "", clean(text));
        if let Some((events, bytes, at)) = self.torn {
            out.line(&indent(&format!(
                "{} from byte {at} on; {} recoverable",
                counted(bytes, "torn byte", "torn bytes"),
                counted(events, "event is", "events are")
            )))?;
        }
        for spot in self.damage.iter().filter(|spot| self.torn.is_none() || spot.kind != "torn") {
            out.line(&indent(&spot.line_text()))?;
        }
        let hidden = self.damage_total.saturating_sub(self.damage.len() as u64);
        if hidden > 0 {
            out.line(&indent(&format!("and {hidden} more")))?;
        }
        for stray in &self.strays {
            let name = stray.file_name().unwrap_or_default().to_string_lossy();
            let is_left_over = stray.file_name().is_some_and(is_left_over);
            let word = if is_left_over { "left over from an interrupted write" } else { "stray" };
            out.line(&indent(&format!("{word}: {name}")))?;
        }
        Ok(())
    }
}

fn is_left_over(name: &OsStr) -> bool {
    parse_log_name(name).is_none() && seslog::store::layout::classify_beside(name) == Beside::Temporary
}
