//! `fork`: a new session that begins with what another one began with.

use std::ffi::OsString;

use seslog::container::{Encoding, LEVEL_DEFAULT};
use seslog::json::Text;
use seslog::row::PhysicalRow;
use seslog::session::{ForkFault, Profile, Session, Settings, child_header, fork_prefix};
use seslog::store::layout::printable;
use seslog::store::{LogFile, LogWriter, StoreOptions};

use crate::current;
use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::new::{now, random_uuid};
use crate::out::{Out, counted, talk};
use crate::root::Root;
use crate::target::Target;

/// Makes a new session in the root that begins with the events of another one, and prints its id.
///
/// The new one is marked as inheriting exactly those, names the other as its parent, and appears whole or not at all. Older
/// generations are converted; the other log stays as it is. A session cannot be forked inside a turn.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog fork 4f1c --at 120")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// The last event to inherit, by its seq in the current generation; all events if not given
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// The new session's id, any text; a random UUID if not given
    #[arg(long, allow_hyphen_values = true)]
    id: Option<String>,
    /// How the new log is stored; zstd where DSH's logs stand, indexed elsewhere
    #[arg(long, value_name = "indexed|zstd|plain")]
    encoding: Option<Encoding>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Forks the session that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let source = current::open(root, &target)?;
    let parent = current::header(&source)?;
    let (events, report) = current::load(&source)?;
    let refused = |fault| refusal(&source, fault);
    let prefix = fork_prefix(&events, args.at).map_err(refused)?;
    let id = match &args.id {
        Some(id) => Text::from(id.as_str()),
        None => Text::from(random_uuid()?.as_str()),
    };
    let cut = prefix.len();
    let header = child_header(&parent, id, now(), cut, Profile::current())
        .map_err(|fault| Failure::Usage(format!("the new session cannot have that header: {fault}")))?;
    let child = Session::seeded(header, &prefix, Some(cut), &Settings::new(now))
        .map_err(|fault| refusal(&source, fault.into()))?;

    let mut options = StoreOptions::default();
    options.encoding = root.encoding(args.encoding)?;
    let header = child.header();
    let place = root.store_with(options).reserve(header)?;
    let mut head = Vec::new();
    header.write(&mut head);
    let disk = root.disk();
    let mut writer = LogWriter::create(
        &**disk,
        place.path(),
        options.encoding,
        LEVEL_DEFAULT,
        &head,
        header.created_at(),
    )?;
    child.log().iter().try_for_each(|event| writer.push(&PhysicalRow::Event(event)))?;
    let written = place.publish(writer)?;

    let mut out = Out::new();
    if args.json {
        let mut object = Object::new();
        object.text("id", header.id()).path("path", &written.path).text("parentSession", parent.id());
        object.number("inherited", cut).string("encoding", options.encoding.name());
        out.bytes(&object.into_line())?;
    } else {
        let exact = header.id().as_str().filter(|_| !out.is_terminal()).map(str::to_owned);
        out.line(&exact.unwrap_or_else(|| printable(header.id())))?;
    }
    out.flush()?;
    let inherited = counted(cut, "event", "events");
    talk::note(&format!("{}: {inherited} inherited from {}", written.path.display(), printable(parent.id())));
    // Where the end was asked for, it is worth a word that there may have been more.
    Ok(Outcome::marred_if(args.at.is_none() && current::tell_end(&source, &report)))
}

fn refusal(source: &LogFile, fault: ForkFault) -> Failure {
    let next = match &fault {
        ForkFault::OpenTurn { start: 0 } => {
            "wait until the turn is over; there is nothing before it".to_owned()
        }
        ForkFault::OpenTurn { start } => {
            format!("--at {} forks before that turn", start.saturating_sub(1))
        }
        ForkFault::Boundary { events, .. } => {
            format!("events have the seqs below {events}; without --at all of them are inherited")
        }
        _ => "`seslog verify` checks the log; --at forks before the event".to_owned(),
    };
    Failure::new(format!("{}: it cannot be forked there: {fault}", source.path().display()), next)
}
