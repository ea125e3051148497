//! `ls`: the sessions of a root.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anstyle::Style;
use clap::ValueEnum;
use seslog::json::Text;
use seslog::session::Overview;
use seslog::store::layout::{printable, project_dir_name};
use seslog::store::{Snapshot, State};

use crate::failure::{Done, Failure, Outcome};
use crate::out::{Align, Out, clean, counted, human_bytes, human_time, talk, write_table};
use crate::overview::{add_members, compute, headline, last_model, token_count};
use crate::report::{error_text, session, state_style};
use crate::root::Root;

/// Lists sessions, newest activity first. Bad ones are listed with their state.
///
/// What it finds is kept in $SESLOG_CACHE, else in the platform's cache folder, so that the next listing reads only what has
/// changed. Nothing is written below the root.
///
/// Titles, last messages, turns, tokens and models are shown of sessions whose logs were read for that before: by --details,
/// by `stat --details` or by the agent that writes them. They are kept too, and go on with the log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog ls --project /home/ann/proj --limit 20")]
pub(crate) struct Args {
    /// The root to list, instead of the one that --root or the environment names
    #[arg(value_name = "ROOT")]
    positional: Option<PathBuf>,
    /// Only sessions of this working directory, or of the project folder of this name
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    project: Option<String>,
    /// What to sort by, highest first
    #[arg(long, value_name = "KEY", default_value = "active")]
    sort: Sort,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show titles, turns, tokens and models of all that are listed; logs that were not read for that before are read now
    #[arg(long)]
    details: bool,
    /// Read all logs, whatever the cache folder knows of them, and leave it alone
    #[arg(long)]
    no_catalog: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Time of creation
    Created,
    /// Time of the last event
    Active,
    /// Bytes on disk
    Size,
    /// Number of events
    Events,
}

/// Lists the sessions of `root`.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let named = args.positional.clone().map(Root::at);
    let root = named.as_ref().unwrap_or(root);
    if !root.path().exists() {
        let missing = format!("{}: there is no such root", root.path().display());
        if named.is_some() {
            return Err(Failure::new(
                missing,
                "check the path; `seslog new` makes a root with its first session",
            ));
        }
        talk::note(&format!("{missing} yet, and no sessions"));
        return Ok(Outcome::Clean);
    }
    let store = if args.no_catalog { root.store() } else { root.listed() };
    let mut sessions = store.list_with_overviews()?;
    if let Some(project) = &args.project {
        let names = project_names(project);
        sessions.retain(|session| {
            session.project.as_ref().is_some_and(|name| names.iter().any(|one| **one == **name))
        });
    }
    sort(&mut sessions, args.sort);
    let total = sessions.len();
    let bad = sessions.iter().filter(|session| session.state != State::Ok).count();
    sessions.truncate(args.limit.unwrap_or(usize::MAX));

    let (computed, is_marred) =
        if args.details { compute(&store, &sessions) } else { (HashMap::new(), false) };
    let sessions: Vec<Listed<'_>> = sessions
        .iter()
        .map(|snapshot| {
            let overview = computed.get(&snapshot.path).cloned().or_else(|| snapshot.overview());
            Listed { snapshot, overview }
        })
        .collect();

    let mut out = Out::new();
    if args.json {
        for Listed { snapshot, overview } in &sessions {
            let mut object = session(snapshot);
            if let Some(overview) = overview {
                add_members(&mut object, overview);
            }
            if let Some(error) = &snapshot.error {
                object.string("error", &error_text(root, &snapshot.path, snapshot.state, error));
            }
            out.bytes(&object.into_line())?;
        }
    } else if !sessions.is_empty() {
        table(&mut out, &sessions, args.details)?;
    }
    out.flush()?;
    for snapshot in sessions.iter().map(|one| one.snapshot).filter(|one| one.state != State::Ok) {
        let text =
            snapshot.error.as_ref().map(|error| error_text(root, &snapshot.path, snapshot.state, error));
        talk::warning(&format!(
            "{}: {}",
            snapshot.state,
            text.unwrap_or_else(|| snapshot.path.display().to_string())
        ));
    }
    if total == 0 && !args.json {
        talk::note(&format!("{}: no sessions", root.path().display()));
    }
    let hidden = total.saturating_sub(sessions.len());
    if bad > 0 && hidden > 0 {
        let bad = counted(u64::try_from(bad).unwrap_or(u64::MAX), "session is", "sessions are");
        talk::warning(&format!("{bad} not in order, those that --limit hides included"));
    }
    Ok(Outcome::marred_if(bad > 0 || is_marred))
}

/// A session and what is known of its events.
#[derive(Debug)]
struct Listed<'a> {
    snapshot: &'a Snapshot,
    overview: Option<Overview>,
}

/// Names of the project folders that `project` may mean.
pub(crate) fn project_names(project: &str) -> Vec<String> {
    let mut names = vec![project.to_owned()];
    let absolute = std::path::absolute(project).ok();
    let real = std::fs::canonicalize(project).ok();
    let paths = absolute.into_iter().chain(real).filter_map(|path| path.into_os_string().into_string().ok());
    names.extend(paths.filter_map(|path| project_dir_name(Some(&Text::from(path.as_str())))));
    // A path as it stands in headers, for instance of another machine.
    if project.contains(['/', '\\']) {
        names.extend(project_dir_name(Some(&Text::from(project))));
    }
    names
}

fn sort(sessions: &mut [Snapshot], by: Sort) {
    let created = |session: &Snapshot| session.header.as_ref().map(|header| header.created_at().get());
    let key = |session: &Snapshot| match by {
        Sort::Created => created(session).map(i128::from),
        Sort::Active => {
            session.last_time.map(seslog::units::UnixMs::get).or_else(|| created(session)).map(i128::from)
        }
        Sort::Size => session.size_bytes.map(i128::from),
        Sort::Events => session.event_count.map(i128::from),
    };
    sessions.sort_unstable_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.path.cmp(&b.path)));
}

/// Writes a line a session; with a title where any has one, and with more if it was asked for.
fn table(out: &mut Out, sessions: &[Listed<'_>], details: bool) -> Result<(), Failure> {
    use Align::{Left, Right};
    let titles = details || sessions.iter().any(|one| one.overview.is_some());
    let mut columns = vec![
        ("SESSION", Left),
        ("LAST ACTIVITY", Left),
        ("EVENTS", Right),
        ("SIZE", Right),
        ("FORMAT", Left),
        ("STATE", Left),
    ];
    if details {
        columns.extend([("TURNS", Right), ("TOKENS", Right), ("MODEL", Left)]);
    }
    if titles {
        columns.push(("TITLE", Left));
    }
    columns.push(("PROJECT", Left));
    write_table(out, &columns, sessions, |one| row(one, details, titles))
}

fn row(listed: &Listed<'_>, details: bool, titles: bool) -> Vec<(String, Option<Style>)> {
    let Listed { snapshot: session, overview } = listed;
    let header = session.header.as_ref();
    let id = header.map_or_else(|| nameless(session), |header| printable(header.id()));
    let time = session.last_time.or(header.map(seslog::row::Header::created_at));
    let project = header.and_then(|header| header.cwd()).map(printable);
    let project = project.or_else(|| session.project.as_deref().map(|name| clean(name).into_owned()));
    let generation = session.generation.map_or_else(String::new, |generation| generation.to_string());
    let encoding = session.encoding.map_or("", |encoding| encoding.name());
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut cells = vec![
        (id, None),
        (time.map_or_else(|| "-".to_owned(), |time| human_time(time.get())), None),
        (number(session.event_count), None),
        (session.size_bytes.map_or_else(|| "-".to_owned(), human_bytes), None),
        (format!("{generation} {encoding}").trim().to_owned(), None),
        (session.state.as_str().to_owned(), Some(state_style(session.state))),
    ];
    let overview = overview.as_ref();
    if details {
        cells.push((number(overview.map(|overview| overview.counts.turns)), None));
        cells.push((number(overview.map(token_count)), None));
        cells.push((overview.map_or_else(String::new, last_model), None));
    }
    if titles {
        let (text, is_title) = overview.and_then(headline).unwrap_or_default();
        cells.push((text, (!is_title).then(|| Style::new().dimmed())));
    }
    cells.push((project.unwrap_or_default(), None));
    cells
}

/// What stands in the place of an id where no header can be read: the folder's name.
fn nameless(session: &Snapshot) -> String {
    let is_folder = session.size_bytes.is_none();
    let folder = if is_folder { Some(session.path.as_path()) } else { session.path.parent() };
    let name = folder.and_then(Path::file_name).unwrap_or(session.path.as_os_str());
    format!("({})", clean(&name.to_string_lossy()))
}
