//! `migrate`: the current generation of older logs, published beside them.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seslog::Error;
use seslog::container::disk::{Disk, OsDisk};
use seslog::store::layout::parse_log_name;
use seslog::store::{Folder, MigrateOptions, MigrationOutcome, Snapshot, State, migrate};
use seslog::units::Generation;

use crate::failure::{Done, Failure, Outcome};
use crate::migrated::{Ended, Migrated};
use crate::out::{Out, counted, talk};
use crate::plan::{Job, plan};
use crate::progress::Progress;
use crate::root::LIMITS;

/// Publishes the current generation beside each older log, which stays as it is.
///
/// A log that cannot be converted without losing or inventing something is refused, with the reason, and the exit status is
/// 3; so it is if the end of a log was torn and was left out. A second run goes on where a first one was interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog migrate ~/.dsh/sessions --dry-run")]
pub(crate) struct Args {
    /// Log files, session folders, project folders or roots
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Convert and verify, and publish nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object a log
    #[arg(long)]
    json: bool,
}

/// One log to migrate, or one that is not even tried.
#[derive(Debug)]
struct Task {
    /// The log, or what stands in its place.
    path: PathBuf,
    from: Option<Generation>,
    size: u64,
    /// The session's folder.
    folder: Result<PathBuf, Ended>,
}

/// Migrates what `args` name.
pub(crate) fn run(args: &Args) -> Done {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let mut tasks = Vec::new();
    let mut empty = HashSet::new();
    for path in &args.paths {
        let path = Path::new(path);
        match plan(&disk, path) {
            Ok(jobs) => {
                for job in jobs {
                    match job {
                        // What a crash left of a new session. Named by its path it is an error all the same.
                        Job::Session { folder, .. } if folder.logs.is_empty() && folder.path != path => {
                            empty.insert(real(&folder.path));
                        }
                        job => tasks.extend(task(&disk, job)),
                    }
                }
            }
            Err(failure) => {
                tasks.push(Task {
                    path: path.into(),
                    from: None,
                    size: 0,
                    folder: Err(Ended::Failed(failure)),
                });
            }
        }
    }
    // A folder that was named twice, or is part of two paths, is migrated once.
    let mut seen = HashSet::new();
    tasks.retain(|task| seen.insert(real(task.folder.as_ref().unwrap_or(&task.path))));
    let mut report = Report::new(args, &tasks);
    migrate_all(&disk, args.dry_run, tasks, &mut report)?;
    report.sum_up(empty.len() as u64)
}

/// What is to be done about one piece of the plan; `None` where there is nothing.
fn task(disk: &Arc<dyn Disk>, job: Job) -> Option<Task> {
    let settled = |path, ended| Some(Task { path, from: None, size: 0, folder: Err(ended) });
    match job {
        Job::File(path) => {
            if path.file_name().and_then(parse_log_name).is_none() {
                let what = format!("{}: its name is not that of a log", path.display());
                let next = "`seslog import` makes a session of a log file, converted where it is older";
                return settled(path, Ended::Failed(Failure::new(what, next)));
            }
            let folder = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            match Folder::read(&**disk, folder) {
                Ok(Some(folder)) => Some(of_session(disk, &folder)),
                Ok(None) => Some(Task { path: path.clone(), from: None, size: 0, folder: Ok(folder.into()) }),
                Err(error) => settled(path, Ended::of_error(error)),
            }
        }
        Job::Session { folder, refused: Some(error), .. } => {
            Some(Task { folder: Err(Ended::of_error(error)), ..of_session(disk, &folder) })
        }
        Job::Session { folder, .. } => Some(of_session(disk, &folder)),
        Job::Refused { path, error } | Job::Unreadable { path, error } => {
            settled(path, Ended::of_error(error))
        }
        Job::Beside { .. } => None,
    }
}

fn of_session(disk: &Arc<dyn Disk>, folder: &Folder) -> Task {
    let newest = folder.logs.last();
    let path = newest.map_or_else(|| folder.path.clone(), |log| folder.path.join(&log.name));
    let size = disk.stamp(&path).ok().flatten().map_or(0, |stamp| stamp.size);
    Task { from: newest.map(|log| log.generation), size, folder: Ok(folder.path.clone()), path }
}

/// The one path of a folder that may be reached by several.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Migrates side by side, on as many threads as there are processors, and reports in order.
fn migrate_all(
    disk: &Arc<dyn Disk>,
    dry_run: bool,
    tasks: Vec<Task>,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let stop = AtomicBool::new(false);
    let queue = Mutex::new(tasks.into_iter().enumerate());
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let (queue, stop) = (&queue, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some((at, task)) = queue.lock().ok().and_then(|mut queue| queue.next()) else {
                        break;
                    };
                    let size = task.size;
                    if sender.send((at, size, one(disk, dry_run, task))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let reported = report.all(&receiver);
        // Nobody reads any more: what was begun is finished, and nothing else is begun.
        stop.store(true, Ordering::Relaxed);
        reported
    })
}

/// Migrates one log.
fn one(disk: &Arc<dyn Disk>, dry_run: bool, task: Task) -> Migrated {
    let Task { path, from, folder, .. } = task;
    let folder = match folder {
        Ok(folder) => folder,
        Err(ended) => return Migrated { path, from, ended },
    };
    let mut options = MigrateOptions::default();
    options.dry_run = dry_run;
    let migrated = match migrate(disk, &folder, &options) {
        Ok(migrated) => migrated,
        Err(error) => return Migrated { path, from, ended: Ended::of_error(error) },
    };
    let (path, from) = (migrated.source, Some(migrated.from));
    // A frame that was cut short is dropped without a word, as in every other read; here it is worth one.
    let is_torn = || Snapshot::of_log(disk, &path, LIMITS).is_ok_and(|source| source.state == State::Torn);
    let ended = match migrated.outcome {
        MigrationOutcome::Current => Ended::Current,
        MigrationOutcome::Published { path, events, is_prefix } => {
            Ended::Published { path: Some(path), events, is_prefix: is_prefix || is_torn() }
        }
        MigrationOutcome::Convertible { events, is_prefix } => {
            Ended::Published { path: None, events, is_prefix: is_prefix || is_torn() }
        }
        MigrationOutcome::Refused(refusal) => Ended::of_refusal(&refusal),
        // What a later library says: shown as it calls it.
        other => Ended::Failed(Failure::new(format!("{}: {other:?}", path.display()), "upgrade seslog")),
    };
    Migrated { path, from, ended }
}

/// What is said on the way and in the end.
struct Report<'a> {
    args: &'a Args,
    out: Out,
    progress: Progress,
    published: u64,
    current: u64,
    failed: u64,
    torn: u64,
    /// Refused logs by reason.
    refused: BTreeMap<&'static str, u64>,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, tasks: &[Task]) -> Self {
        let total = tasks.iter().map(|task| task.size).fold(0, u64::saturating_add);
        let progress = Progress::new(tasks.len() as u64, total, false);
        let (published, current, failed, torn) = (0, 0, 0, 0);
        Self { args, out: Out::new(), progress, published, current, failed, torn, refused: BTreeMap::new() }
    }

    /// Reports what comes, in order of the plan, until everything is done.
    fn all(&mut self, done: &Receiver<(usize, u64, Migrated)>) -> Result<(), Failure> {
        const TICK: Duration = Duration::from_millis(200);
        let mut waiting = BTreeMap::new();
        let mut due = 0_usize;
        loop {
            match done.recv_timeout(TICK) {
                Ok((at, size, migrated)) => {
                    self.progress.file_done(size);
                    waiting.insert(at, migrated);
                }
                Err(RecvTimeoutError::Timeout) => self.progress.tick(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            while let Some(migrated) = waiting.remove(&due) {
                due = due.saturating_add(1);
                self.one(&migrated)?;
            }
        }
    }

    fn one(&mut self, migrated: &Migrated) -> Result<(), Failure> {
        let count = match &migrated.ended {
            Ended::Published { is_prefix, .. } => {
                self.torn = self.torn.saturating_add(u64::from(*is_prefix));
                &mut self.published
            }
            Ended::Current => &mut self.current,
            Ended::Refused { word, .. } => self.refused.entry(word).or_default(),
            Ended::Failed(_) => &mut self.failed,
        };
        *count = count.saturating_add(1);
        let (out, args) = (&mut self.out, self.args);
        self.progress.suspend(|| {
            if args.json {
                out.bytes(&migrated.json(args.dry_run).into_line())?;
            } else {
                out.line(&migrated.line(args.dry_run))?;
            }
            // A person watches the lines come; so does a script that reads them.
            out.flush()?;
            migrated.talk();
            Ok(())
        })
    }

    fn sum_up(mut self, empty: u64) -> Done {
        self.progress.finish();
        if empty > 0 {
            talk::note(&format!("{} without a log, passed over", counted(empty, "folder", "folders")));
        }
        let refused = self.refused.values().copied().fold(0, u64::saturating_add);
        let published = if self.args.dry_run { "would be published" } else { "published" };
        let (now, current, failed) = (self.published, self.current, self.failed);
        talk::note(&format!("{now} {published}, {current} current, {refused} refused, {failed} failed"));
        let mut reasons: Vec<_> = self.refused.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            talk::detail(&format!("{count} refused: {reason}"));
        }
        if refused > 0 {
            talk::next(
                "refused logs stay as they are: `cat`, `stat`, `verify`, `recover` and `convert` work on them",
            );
        }
        if failed > 0 {
            let what = format!("{} not migrated", counted(failed, "log was", "logs were"));
            return Err(Failure::new(
                what,
                "see the lines above, then run it again; what is done stays done",
            ));
        }
        Ok(Outcome::marred_if(refused > 0 || self.torn > 0))
    }
}

impl Ended {
    fn of_error(error: Error) -> Self {
        let word = match &error {
            Error::Refused { source, .. } => return Self::of_refusal(source),
            Error::Corruption { .. } | Error::DamagedTail { .. } => "damaged",
            Error::FormatUnsupported { .. } => "not understood",
            Error::IdentityMismatch { .. } => "not where it belongs",
            Error::DuplicateId { .. } => "stored twice",
            Error::Layout { .. } => "the folder is not in order",
            // A lock, a disk, another program: another run may do better.
            _ => return Self::Failed(error.into()),
        };
        Self::Refused { word, reason: crate::failure::chain(&error), next: crate::failure::next_step(&error) }
    }
}
