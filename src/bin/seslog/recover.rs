//! `recover`: the repair that the next append would do, and salvage.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use seslog::Error;
use seslog::row::{Header, HeaderFault};
use seslog::store::{LogFile, Recovered, Salvage, Verdict, plan_recovery, recover, salvage};

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
    let log = target.open(root)?;
    if let Some(out) = &args.salvage {
        return save(&log, out, args.json);
    }
    if let Ok(line) = log.header_line()
        && let Ok(header) = Header::parse(&line, &LIMITS)
    {
        target.check_place(root, &header)?;
    }
    drop(log);
    let done = if args.dry_run {
        plan_recovery(root.disk(), &path, LIMITS)?
    } else {
        recover(root.disk(), &path, LIMITS)?
    };
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

fn json(path: &Path, args: &Args, done: &Recovered) -> Vec<u8> {
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

/// Copies what can be saved of `log` to `path`.
fn save(log: &LogFile, path: &Path, json: bool) -> Done {
    if let Ok(line) = log.header_line()
        && let Err(HeaderFault::Newer { .. }) = Header::parse(&line, &LIMITS)
    {
        // Nothing says that it is damaged.
        return Err(crate::import::refusal(log));
    }
    let saved = salvage(log, path).map_err(|error| match error {
        Error::Io { path, source, .. } if source.kind() == io::ErrorKind::AlreadyExists => Failure::new(
            format!("{}: something of that name exists", path.display()),
            "choose another name; nothing is overwritten",
        ),
        error => error.into(),
    })?;
    if !saved.has_header && saved.rows == 0 {
        // An empty file would look like a log.
        let _ = std::fs::remove_file(&saved.path);
        let kept = saved
            .damaged
            .as_ref()
            .map_or_else(String::new, |damaged| format!("; its bytes were copied to {}", damaged.display()));
        let what = format!("{}: nothing in it can be read{kept}", log.path().display());
        return Err(Failure::new(what, "look for a backup: this file holds neither a header nor a row"));
    }
    let mut out = Out::new();
    if json {
        out.bytes(&salvage_json(log, &saved))?;
    } else {
        for line in salvage_words(&saved) {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(Outcome::marred_if(!saved.is_complete() || saved.unproved_events > 0))
}

fn salvage_json(log: &LogFile, saved: &Salvage) -> Vec<u8> {
    let ranges = |ranges: &[Range<u64>]| {
        let of = |range: &Range<u64>| {
            let mut object = Object::new();
            object.number("start", range.start).number("end", range.end);
            object
        };
        ranges.iter().map(of).collect::<Vec<_>>()
    };
    let mut object = Object::new();
    object.path("path", &saved.path).path("source", log.path()).flag("hasHeader", saved.has_header);
    object
        .number("rows", saved.rows)
        .number("events", saved.events)
        .number("unprovedEvents", saved.unproved_events);
    object.objects("missing", ranges(&saved.missing).into_iter());
    object.number("otherRows", saved.other_rows);
    if let Some(other) = &saved.other {
        object.path("other", other);
    }
    if let Some(damaged) = &saved.damaged {
        object.path("damaged", damaged);
    }
    object.objects("damagedRanges", ranges(&saved.damaged_ranges).into_iter());
    object.into_line()
}

fn salvage_words(saved: &Salvage) -> Vec<String> {
    let rows = counted(saved.rows, "row", "rows");
    let events = counted(saved.events, "event", "events");
    let mut lines = vec![format!("{}: {rows}, {events} saved", clean_path(&saved.path))];
    if !saved.has_header {
        lines.push("lost: the header; none was made up".to_owned());
    }
    if saved.unproved_events > 0 {
        let events = counted(saved.unproved_events, "event", "events");
        lines.push(format!(
            "doubtful: {events} at the end, out of an append that was never finished and has no checksum"
        ));
    }
    for missing in &saved.missing {
        let last = missing.end.saturating_sub(1);
        lines.push(if missing.start == last {
            format!("lost: seq {last}")
        } else {
            format!("lost: seqs {} to {last}", missing.start)
        });
    }
    if let Some(other) = &saved.other {
        let rows = counted(saved.other_rows, "row", "rows");
        lines.push(format!("{}: {rows} that claim numbers which other rows have", clean_path(other)));
    }
    if let Some(damaged) = &saved.damaged {
        let places: Vec<String> =
            saved.damaged_ranges.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        lines.push(format!("{}: what could not be read, bytes {}", clean_path(damaged), places.join(", ")));
    }
    lines
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
        lines
            .push("what was cut off may have been acknowledged: it is in the file beside the log".to_owned());
    }
    lines.push(format!("{events} {}", if args.dry_run { "would stay" } else { "stay" }));
    lines
}
