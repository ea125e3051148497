//! `import`: a session made of a log file or of stdin.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seslog::container::{Encoding, LEVEL_DEFAULT};
use seslog::json::Text;
use seslog::row::{Check, Header, PhysicalRow, Seeding};
use seslog::store::layout::printable;
use seslog::store::{
    Folder, Item, LogFile, LogWriter, ReadMode, Report, ScanOptions, StoreOptions, Written, scan,
};
use seslog::units::Generation;

use crate::current;
use crate::failure::{Done, Failure, Outcome, chain};
use crate::json::Object;
use crate::new::random_uuid;
use crate::out::{Out, counted, human_bytes, talk};
use crate::progress::Progress;
use crate::root::{LIMITS, Root};

/// Makes a session of a log file, or of a log on stdin (-), and prints its id.
///
/// Rows of the current generation are kept byte for byte; older ones are converted. The session appears whole or not at
/// all. A torn end is left out, and the exit status is 3 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog import backup/session.v2.jsonl --id restored")]
pub(crate) struct Args {
    /// A log file, a session's folder, or - for stdin
    #[arg(value_name = "SRC")]
    source: OsString,
    /// How the session is stored; zstd where DSH's logs stand, indexed elsewhere
    #[arg(long, value_name = "indexed|zstd|plain")]
    encoding: Option<Encoding>,
    /// Another id than the one in the log's header
    #[arg(long, allow_hyphen_values = true)]
    id: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Imports what `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let log = open(root, args)?;
    let line = log.header_line()?;
    let stored = match Header::parse(&line, &LIMITS) {
        Ok(header) => header,
        // The scan says it better, with the place.
        Err(_) => return Err(refusal(&log)),
    };
    log.check_name(stored.generation())?;
    let is_current = stored.generation() == Generation::CURRENT;
    let header = if is_current { stored } else { current::header(&log)? };
    let (header, renamed) = match &args.id {
        Some(id) => (with_id(&header, id)?, true),
        None => (header, false),
    };
    let mut options = StoreOptions::default();
    options.encoding = root.encoding(args.encoding)?;
    let store = root.store_with(options);
    let mut head = Vec::new();
    if is_current && !renamed {
        head = line;
    } else {
        header.write(&mut head);
    }
    let place = store.reserve(&header)?;
    let disk = root.disk();
    let mut writer = LogWriter::create(
        &**disk,
        place.path(),
        options.encoding,
        LEVEL_DEFAULT,
        &head,
        header.created_at(),
    )?;
    let mut progress = Progress::new(1, log.stamp().size, false);
    let report = if is_current {
        let report = copy_rows(&log, &mut writer, &mut progress)?;
        report.require(&log)?;
        report
    } else {
        let mut push = |line: &[u8]| {
            let row = PhysicalRow::read(line, Generation::CURRENT, Check::Envelope, &LIMITS);
            let row = row.map_err(|fault| {
                Failure::new(format!("a converted row is none: {fault}"), "report this as a bug")
            })?;
            writer.push(&row)?;
            Ok(ControlFlow::Continue(()))
        };
        current::rows(&log, &mut progress, &mut push)?.0
    };
    let written = place.publish(writer)?;
    drop(progress);
    say(args, &header, &written, is_current)?;
    if let Some(error) = report.end_error(&log) {
        talk::warning(&format!("the end was left out: {}", chain(&error)));
        return Ok(Outcome::Marred);
    }
    Ok(Outcome::Clean)
}

/// Copies the rows of a log byte for byte into `writer`, up to the first damage.
///
/// # Errors
/// What reading and writing give; what the report says is for the caller.
pub(crate) fn copy_rows(
    log: &LogFile,
    writer: &mut LogWriter<'_>,
    progress: &mut Progress,
) -> Result<Report, Failure> {
    let report = scan(log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, place } = item {
            progress.at(place.file_at);
            writer.push(&row)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(report)
}

fn say(args: &Args, header: &Header, written: &Written, is_current: bool) -> Result<(), Failure> {
    let mut out = Out::new();
    if args.json {
        let mut object = Object::new();
        object.text("id", header.id()).path("path", &written.path).number("rows", written.rows);
        object.number("events", written.events).number("sizeBytes", written.size_bytes);
        out.bytes(&object.into_line())?;
    } else {
        let id = header.id();
        let exact = id.as_str().filter(|_| !out.is_terminal()).map(str::to_owned);
        out.line(&exact.unwrap_or_else(|| printable(id)))?;
    }
    out.flush()?;
    let how = if is_current { "" } else { ", converted to the current generation" };
    let events = counted(written.events, "event", "events");
    talk::note(&format!("{}: {events}, {}{how}", written.path.display(), human_bytes(written.size_bytes)));
    Ok(())
}

fn open(root: &Root, args: &Args) -> Result<LogFile, Failure> {
    if args.source == "-" {
        return spooled(root);
    }
    let path = Path::new(&args.source);
    let folder = Folder::read(&**root.disk(), path)?;
    let path = match &folder {
        None => path.to_path_buf(),
        Some(folder) => match folder.current()? {
            Some(log) => folder.path.join(&log.name),
            None => {
                let what = format!("{}: the folder holds no log", path.display());
                return Err(Failure::new(what, "name the log file itself"));
            }
        },
    };
    Ok(LogFile::open(root.disk(), &path, LIMITS, ReadMode::Map)?)
}

/// Stdin in a file without a name: a log is read from both ends, and more than once.
fn spooled(root: &Root) -> Result<LogFile, Failure> {
    let next = "check that there is room for the log in the temporary folder ($TMPDIR)";
    let path: PathBuf = std::env::temp_dir().join(format!("seslog-{}", random_uuid()?));
    let failed = |what: &str| {
        let what = format!("{}: {what} failed", path.display());
        move |error| Failure::io(what, error, next)
    };
    let file = root.disk().create_new(&path).map_err(failed("creating"))?;
    let mut input = io::stdin().lock();
    let mut piece = vec![0; 256 << 10];
    let copied = loop {
        match input.read(&mut piece) {
            Ok(0) => break Ok(()),
            Ok(read) => {
                if let Err(error) = file.append_all(piece.get(..read).unwrap_or_default()) {
                    break Err(failed("writing")(error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(Failure::io("reading standard input failed", error, "try again")),
        }
    };
    // Readable as long as it is open, and gone with this process.
    let log = LogFile::open(root.disk(), &path, LIMITS, ReadMode::Read);
    root.disk().remove_file(&path).map_err(failed("removing"))?;
    copied?;
    Ok(log?)
}

/// Why a log without a usable header is refused.
pub(crate) fn refusal(log: &LogFile) -> Failure {
    match scan(log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))
        .and_then(|report| report.require(log))
    {
        Err(error) => error.into(),
        Ok(()) => {
            Failure::new(format!("{}: the header cannot be used", log.path().display()), "check the file")
        }
    }
}

/// The header of the same session under another id.
fn with_id(header: &Header, id: &str) -> Result<Header, Failure> {
    let invalid = |error| Failure::Usage(format!("--id: {error}"));
    let mut new = Header::new(header.generation(), Text::from(id), header.created_at()).map_err(invalid)?;
    if let Some(cwd) = header.cwd() {
        new = new.with_cwd(cwd.clone()).map_err(invalid)?;
    }
    if let Some(parent) = header.parent_session() {
        new = new.with_parent_session(parent.clone());
    }
    if header.seeding() != Seeding::Unseeded {
        new = new.with_seeding(header.generation(), header.seeding()).map_err(invalid)?;
    }
    if header.is_origin_subagent() {
        new = new.with_origin_subagent();
    }
    if let Some(preset) = header.agent_preset() {
        new = new.with_agent_preset(preset.clone());
    }
    new.with_delegation_depth(header.delegation_depth()).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_id_changes_nothing_else_in_the_header() {
        let line = br#"{"type":"session","version":2,"id":"a","createdAt":5,"cwd":"/w","parentSession":"p","isSeeded":true,"origin":"subagent","delegationDepth":3,"agentPreset":"x"}"#;
        let header = Header::parse(line, &LIMITS).unwrap();
        let mut out = Vec::new();
        with_id(&header, "b").unwrap().write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8_lossy(line).replace("\"a\"", "\"b\""));
    }
}
