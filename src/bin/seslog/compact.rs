//! `compact`: a quiet log in large, well-compressed segments.

use std::ffi::OsString;

use seslog::row::Header;
use seslog::store::{CompactOptions, Compacted, compact};

use crate::failure::{Done, Outcome};
use crate::json::Object;
use crate::out::{Out, clean_path, counted, human_bytes};
use crate::progress::Progress;
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Rewrites a quiet log into large, well-compressed segments. Rows and events stay as they are, byte for byte.
///
/// The new file is read back from disk and compared with the old one line by line before it takes its place, in one step. A log
/// that somebody writes, or that is not in order, is refused; one that would not become smaller stays as it is. Reading a single
/// row of a compacted log decompresses four times as much as before, about a millisecond's worth.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog compact 4f1c --dry-run")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// Compress and count, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Zstandard level
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Compacts the log that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let path = target.log_path()?;
    let log = target.open(root)?;
    if let Ok(line) = log.header_line()
        && let Ok(header) = Header::parse(&line, &LIMITS)
    {
        target.check_place(root, &header)?;
    }
    let mut options = CompactOptions::default();
    options.limits = LIMITS;
    options.dry_run = args.dry_run;
    options.level = args.level.unwrap_or(options.level);
    let mut progress = Progress::new(1, log.stamp().size.saturating_mul(2), false);
    drop(log);
    let done = compact(root.disk(), &path, &options, &mut |at| progress.at(at))?;
    progress.finish();
    let mut out = Out::new();
    if args.json {
        out.bytes(&json(args, &done))?;
    } else {
        out.line(&words(args, &done))?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

fn json(args: &Args, done: &Compacted) -> Vec<u8> {
    let outcome = match (done.is_smaller, args.dry_run) {
        (false, _) => "kept",
        (true, true) => "planned",
        (true, false) => "compacted",
    };
    let mut object = Object::new();
    object.path("path", &done.path).string("outcome", outcome).string("encoding", done.encoding.name());
    object.number("rows", done.rows).number("events", done.events);
    object.number("framesBefore", done.frames_before).number("sizeBytesBefore", done.size_before);
    object.number("frames", done.frames_after).number("sizeBytes", done.size_after);
    object.into_line()
}

fn words(args: &Args, done: &Compacted) -> String {
    let frames = |frames| counted(frames, "frame", "frames");
    let path = clean_path(&done.path);
    let before = format!("{} in {}", human_bytes(done.size_before), frames(done.frames_before));
    let after = format!("{} in {}", human_bytes(done.size_after), frames(done.frames_after));
    let events = counted(done.events, "event", "events");
    match (done.is_smaller, args.dry_run) {
        (false, _) => format!("{path}: stays as it is, {before}; rewritten it would have {after}"),
        (true, true) => format!("{path}: {events}, {before}, would become {after}"),
        (true, false) => format!("{path}: {events}, {before}, became {after}"),
    }
}
