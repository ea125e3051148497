//! `follow`: events as they are committed.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{Beginning, Cause, Follower, Start, Update, Watch};

use crate::failure::{Done, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::out::{Out, clean, talk};
use crate::root::{LIMITS, Root};
use crate::target::{Target, looks_like_a_path};

/// Prints events as they are committed, by whichever process: what is stored, then what is added.
///
/// Prints the header line, then each event once, in order, and ends when it is interrupted (status 0) or when nobody reads its
/// output. It goes on through repairs, compactions, migrations and moves. When the session is deleted and created again, or
/// its log is replaced by one with other events, a header line follows, and the events of the new log behind it; what was
/// printed before is void then. A TARGET that is not there yet is waited for: a path that leads nowhere, or the whole id of a
/// session. A log of an older generation is printed as the current one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog follow 4f1c --tail 20")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning; need not exist yet
    target: OsString,
    /// Begin with this event
    #[arg(long, value_name = "SEQ", conflicts_with = "tail")]
    from: Option<u64>,
    /// Begin with so many of the stored events
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Leave header lines out
    #[arg(long)]
    no_header: bool,
    /// Look at least so often, also where the system tells of no change (network file systems)
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    poll: u64,
}

/// Prints the log that `args` name until somebody ends it.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let mut follower = follower(root, args)?;
    let mut watch = Watch::new(Some(Duration::from_millis(args.poll)));
    let interrupt = Interrupt::wakes(watch.waker())?;
    let mut out = Out::new();
    while !interrupt.is_asked() {
        match follower.poll()? {
            Some(Update::Begin(beginning)) => begin(&mut out, args, &beginning)?,
            Some(Update::Events { events, .. }) => events.rows().try_for_each(|row| out.log_row(row))?,
            Some(Update::Gone) => talk::note("the log is gone; waiting for it to come back"),
            Some(_) => {}
            None if out.is_abandoned() => return Err(Failure::ClosedPipe),
            None => watch.wait(follower.watched()),
        }
        out.flush()?;
    }
    Ok(Outcome::Clean)
}

fn begin(out: &mut Out, args: &Args, beginning: &Beginning) -> Result<(), Failure> {
    match beginning.cause {
        Cause::OtherSession => talk::note("the session was created anew; its events follow"),
        Cause::OtherEvents => talk::note("the log was replaced by one with other events; they follow"),
        _ => {}
    }
    if args.no_header {
        return Ok(());
    }
    let mut line = Vec::new();
    beginning.header.write(&mut line);
    out.log_row(&line)
}

fn follower(root: &Root, args: &Args) -> Result<Follower, Failure> {
    let start = match (args.from, args.tail) {
        (_, Some(tail)) => Start::Last(tail),
        (from, None) => Start::Seq(from.unwrap_or(0)),
    };
    let at = |path: &Path| Follower::at(Arc::clone(root.disk()), path, start, LIMITS);
    let Some(target) = Target::find(root, &args.target)? else {
        talk::note(&format!("waiting for {}", clean(&args.target.to_string_lossy())));
        return Ok(match args.target.to_str() {
            Some(id) if !looks_like_a_path(&args.target) => root.store().follow(&Text::from(id), start),
            _ => at(Path::new(&args.target)),
        });
    };
    match target.session_folder() {
        None => Ok(at(&target.log_path()?)),
        Some(folder) if target.is_by_path() || folder.logs.is_empty() => Ok(at(&folder.path)),
        // By its id, so that it may move to another project.
        Some(folder) => {
            let log = target.open(root)?;
            let header = Header::parse(&log.header_line()?, &LIMITS);
            Ok(match header {
                Ok(header) => root.store().follow(header.id(), start),
                // It cannot be read, which the follower says as any other reader does.
                Err(_) => at(&folder.path),
            })
        }
    }
}
