//! `recover`: the repair that the next append would do, and salvage.

use std::ffi::OsString;
use std::path::PathBuf;

use seslog::store::{Recovered, Verdict, plan_recovery, recover};

use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::out::{Out, clean_path, counted};
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Does now what the next append would do: sets the torn tail aside, rewrites recovered complete records durably.
///
/// Goes on where an append refuses: a damaged end that may have been acknowledged is set aside as well, and the exit status
/// is 3 then. Damage before the end changes nothing; --salvage copies what can be saved.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog recover 4f1c --dry-run")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave the log alone: copy what can be saved to a new file, and say what was lost
    #[arg(long, value_name = "OUT", conflicts_with = "dry_run")]
    salvage: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Repairs the log that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let path = target.log_path()?;
    if let Some(out) = &args.salvage {
        let _ = out;
        return Err(Failure::new("--salvage is not there yet", "wait"));
    }
    let log = target.open(root)?;
    if let Ok(line) = log.header_line()
        && let Ok(header) = seslog::row::Header::parse(&line, &LIMITS)
    {
        target.check_place(root, &header)?;
    }
    drop(log);
    let done = if args.dry_run { plan_recovery(root.disk(), &path, LIMITS)? } else { recover(root.disk(), &path, LIMITS)? };
    let mut out = Out::new();
    if args.json {
        out.bytes(&json(&path, args, &done))?;
    } else {
        for line in words(args, &done) {
            out.line(&format!("{}: {line}", clean_path(&path)))?;
        }
    }
    out.flush()?;
    let lost = done.report.verdict == Verdict::DamagedTail;
    let still_torn = args.dry_run && done.report.verdict != Verdict::Sound;
    Ok(Outcome::marred_if(lost || still_torn))
}

fn json(path: &std::path::Path, args: &Args, done: &Recovered) -> Vec<u8> {
    let mut object = Object::new();
    object.path("path", path).string("outcome", outcome(args, done)).number("events", done.report.events);
    if let Some(tail) = done.report.tail.filter(|tail| tail.excess() > 0) {
        object.number("cutAt", tail.good_end);
    }
    object.number("cutBytes", done.repaired.cut).number("rewrittenBytes", done.repaired.rewritten);
    if let Some(aside) = &done.repaired.set_aside {
        object.path("setAside", aside);
    }
    object.flag("committed", done.committed);
    object.into_line()
}

/// The word for what happened.
fn outcome(args: &Args, done: &Recovered) -> &'static str {
    match (done.report.verdict == Verdict::Sound, args.dry_run) {
        (true, _) => "nothing",
        (false, true) => "planned",
        (false, false) => "recovered",
    }
}

fn words(args: &Args, done: &Recovered) -> Vec<String> {
    let events = counted(done.report.events, "event", "events");
    if done.report.verdict == Verdict::Sound {
        return vec![format!("whole and committed, {events}; nothing to do")];
    }
    let would = if args.dry_run { "would be " } else { "" };
    let mut lines = Vec::new();
    if done.repaired.cut > 0 {
        let at = done.report.tail.map_or(0, |tail| tail.good_end);
        let kind = if done.report.verdict == Verdict::DamagedTail { "damaged" } else { "torn" };
        let bytes = counted(done.repaired.cut, &format!("{kind} byte"), &format!("{kind} bytes"));
        let where_to = match &done.repaired.set_aside {
            Some(aside) => format!("copied to {} and ", clean_path(aside)),
            None if args.dry_run => "copied aside, unless they are all zero, and ".to_owned(),
            None => "all of them zero, were ".to_owned(),
        };
        lines.push(format!("{bytes} from byte {at} on {would}{where_to}cut off"));
    }
    if done.repaired.rewritten > 0 {
        let bytes = counted(done.repaired.rewritten, "byte", "bytes");
        lines.push(format!("{bytes} of complete records {would}written again in place"));
    }
    if done.committed {
        lines.push(format!("the unfinished append {would}committed by a marker"));
    }
    if done.report.verdict == Verdict::DamagedTail {
        lines.push("what was cut off may have been acknowledged: it is in the file beside the log".to_owned());
    }
    lines.push(format!("{events} {}", if args.dry_run { "would stay" } else { "stay" }));
    lines
}
