//! `stat`: one session's metadata, without its body.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use seslog::container::disk::LockOwner;
use seslog::row::Check;
use seslog::session::Overview;
use seslog::store::layout::printable;
use seslog::store::{Folder, Item, LogFile, ReadMode, ScanOptions, Snapshot, State, scan};

use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::out::{Out, clean, clean_path, human_bytes, human_time, talk};
use crate::overview::{self, add_members, project};
use crate::progress::Progress;
use crate::report::{error_text, session, state_style};
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Shows one session's metadata without reading its body: who writes it, and which older generations stand beside it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog stat 4f1c --json")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Walk the log and count its frames, rows and events
    #[arg(long)]
    count: bool,
    /// Show title, last messages, turns, tokens and models, and read of the log what was not read for that before
    #[arg(long)]
    details: bool,
}

/// What a walk counted.
#[derive(Clone, Copy, Debug)]
struct Counts {
    frames: u64,
    rows: u64,
    events: u64,
}

/// Shows the session that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let mut snapshot = target.snapshot(root)?;
    if target.session_folder().is_none() {
        snapshot.older = older_beside(root, &snapshot.path);
    }
    let folder = target.session_folder().map_or_else(|| parent(&snapshot.path), |folder| folder.path.clone());
    let lock = lock_owner(root, &folder);
    let has_log = target.session_folder().is_none_or(|folder| !folder.logs.is_empty());
    let counts = if args.count && has_log && snapshot.size_bytes.is_some() {
        Some(count(root, &snapshot)?)
    } else {
        None
    };

    let store = root.around(&folder).listed();
    let overview = match args.details && has_log && matches!(snapshot.state, State::Ok | State::Torn) {
        true => project(&store, &snapshot)?,
        false => store.recall_overview(&snapshot),
    };

    let mut out = Out::new();
    let error = snapshot.error.as_ref().map(|error| error_text(root, &snapshot.path, snapshot.state, error));
    if args.json {
        let mut object = session(&snapshot);
        if let Some(error) = &error {
            object.string("error", error);
        }
        if let Some(owner) = &lock {
            let mut lock = Object::new();
            lock.number("pid", owner.pid.into()).string("host", &owner.host).signed("since", owner.since_ms);
            object.object("lock", lock);
        }
        if !snapshot.older.is_empty() {
            object.paths("older", &snapshot.older);
        }
        if let Some(counts) = counts {
            object
                .number("frames", counts.frames)
                .number("rows", counts.rows)
                .number("events", counts.events);
        }
        if let Some(overview) = &overview {
            add_members(&mut object, overview);
        }
        out.bytes(&object.into_line())?;
    } else {
        write_for_people(&mut out, &snapshot, lock.as_ref(), counts, overview.as_ref())?;
    }
    out.flush()?;
    if let Some(error) = error {
        talk::warning(&format!("{}: {error}", snapshot.state));
    }
    Ok(Outcome::marred_if(snapshot.state != State::Ok))
}

fn write_for_people(
    out: &mut Out,
    snapshot: &Snapshot,
    lock: Option<&LockOwner>,
    counts: Option<Counts>,
    overview: Option<&Overview>,
) -> Result<(), Failure> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let header = snapshot.header.as_ref();
    let mut put = |name: &'static str, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    put("session", header.map(|header| printable(header.id())));
    put("state", Some(out.styled(state_style(snapshot.state), snapshot.state.as_str())));
    put("path", Some(clean_path(&snapshot.path)));
    put("project", snapshot.project.as_deref().map(|name| clean(name).into_owned()));
    put("cwd", header.and_then(|header| header.cwd()).map(printable));
    put("created", header.map(|header| human_time(header.created_at().get())));
    put("last event", snapshot.last_time.map(|time| human_time(time.get())));
    put("events", snapshot.event_count.map(|count| count.to_string()));
    put("size", snapshot.size_bytes.map(|bytes| format!("{} ({bytes} bytes)", human_bytes(bytes))));
    put("generation", snapshot.generation.map(|generation| generation.to_string()));
    put("encoding", snapshot.encoding.map(|encoding| encoding.to_string()));
    put("parent", header.and_then(|header| header.parent_session()).map(printable));
    put("seeded", header.map(|header| yes_or_no(header.seeding() != seslog::row::Seeding::Unseeded)));
    put("origin", header.filter(|header| header.is_origin_subagent()).map(|_| "subagent".to_owned()));
    put("depth", header.map(|header| header.delegation_depth().to_string()));
    put("preset", header.and_then(|header| header.agent_preset()).map(printable));
    put(
        "older",
        (!snapshot.older.is_empty())
            .then(|| snapshot.older.iter().map(|path| clean_path(path)).collect::<Vec<_>>().join(", ")),
    );
    put(
        "written by",
        lock.map(|owner| {
            format!("process {} on {} since {}", owner.pid, clean(&owner.host), human_time(owner.since_ms))
        }),
    );
    put("revision", snapshot.revision.as_ref().map(ToString::to_string));
    put(
        "counted",
        counts
            .map(|Counts { frames, rows, events }| format!("{frames} frames, {rows} rows, {events} events")),
    );
    lines.extend(overview.map(overview::lines).unwrap_or_default());
    for (name, value) in lines {
        out.line(&format!("{name:<11} {value}"))?;
    }
    Ok(())
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes".to_owned() } else { "no".to_owned() }
}

/// Walks the log, damage and all.
fn count(root: &Root, snapshot: &Snapshot) -> Result<Counts, Failure> {
    let log = LogFile::open(root.disk(), &snapshot.path, LIMITS, ReadMode::Map)?;
    let mut progress = Progress::new(1, log.stamp().size, false);
    let mut events = 0_u64;
    let mut options = ScanOptions::LENIENT;
    options.check = Check::Envelope;
    let report = scan(&log, options, &mut |item| {
        if let Item::Row { row, place } | Item::Bad { row: Some(row), place, .. } = item {
            events = events.saturating_add(row.event_count());
            progress.at(place.file_at);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Counts { frames: report.frames, rows: report.rows, events })
}

/// Who holds the write lock of the session in `folder`, by the note in the lock file. The lock itself is not touched.
///
/// A note of a process of this host that is gone is left over from a crash, and no holder.
fn lock_owner(root: &Root, folder: &Path) -> Option<LockOwner> {
    let owner = root.disk().lock_owner(&folder.join("session.lock")).ok().flatten()?;
    let here = LockOwner::current().host == owner.host;
    let is_gone = here
        && i32::try_from(owner.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    (!is_gone).then_some(owner)
}

/// Earlier generations beside the log at `path`, if it is the current one of its folder.
fn older_beside(root: &Root, path: &Path) -> Vec<PathBuf> {
    let folder = Folder::read(&**root.disk(), &parent(path)).ok().flatten();
    let is_current = |folder: &Folder| {
        folder.current().ok().flatten().is_some_and(|log| Some(log.name.as_os_str()) == path.file_name())
    };
    folder.filter(is_current).map_or_else(Vec::new, |folder| folder.older())
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
