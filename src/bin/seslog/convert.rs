//! `convert`: the same rows in another encoding.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use seslog::Error;
use seslog::container::{Encoding, LEVEL_DEFAULT};
use seslog::row::Header;
use seslog::store::LogWriter;
use seslog::store::layout::{log_name, parse_log_name};

use crate::failure::{Done, Failure, Outcome, chain, next_step};
use crate::import::{copy_rows, refusal};
use crate::json::Object;
use crate::out::{Out, clean_path, counted, human_bytes, talk};
use crate::progress::Progress;
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Writes a log in another encoding: the same lines, byte for byte, of whatever generation.
///
/// DST is never overwritten, and appears whole or not at all. A torn end is left out, and the exit status is 3 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog convert 4f1c /tmp/session.v2.jsonl --encoding plain")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The new file, or a folder that gets one of the canonical name
    #[arg(value_name = "DST")]
    destination: PathBuf,
    /// How the new log is stored; where not given, as the name of DST says
    #[arg(long, value_name = "indexed|zstd|plain")]
    encoding: Option<Encoding>,
    /// Zstandard level, 1 to 22; 0 stores the rows as they are, in frames that every Zstandard reads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=22))]
    level: Option<i32>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Converts what `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.source)?;
    let log = target.open(root)?;
    log.check_encoding()?;
    let line = log.header_line()?;
    let header = match Header::parse(&line, &LIMITS) {
        Ok(header) => header,
        Err(_) => return Err(refusal(&log)),
    };
    log.check_name(header.generation())?;
    target.check_place(root, &header)?;
    let (path, encoding) = destination(args, &header)?;
    let disk = &**root.disk();
    let level = args.level.unwrap_or(LEVEL_DEFAULT);
    let create = LogWriter::create(disk, &path, encoding, level, &line, header.created_at());
    let mut writer = create.map_err(|error| taken(error, &path))?;
    let mut progress = Progress::new(1, log.stamp().size, false);
    let report = copy_rows(&log, &mut writer, &mut progress)?;
    report.require(&log)?;
    let written = writer.publish(&[]).map_err(|error| taken(error, &path))?;
    drop(progress);
    let mut out = Out::new();
    if args.json {
        let mut object = Object::new();
        object.path("path", &written.path).string("encoding", encoding.name()).number("rows", written.rows);
        object.number("events", written.events).number("sizeBytes", written.size_bytes);
        out.bytes(&object.into_line())?;
    } else {
        out.line(&format!(
            "{}: {encoding}, {}, {}, {}",
            clean_path(&written.path),
            counted(written.rows, "row", "rows"),
            counted(written.events, "event", "events"),
            human_bytes(written.size_bytes)
        ))?;
    }
    out.flush()?;
    if let Some(error) = report.end_error(&log) {
        talk::warning(&format!("the end was left out: {}", chain(&error)));
        next_step(&error).into_iter().for_each(|step| talk::next(&step));
        return Ok(Outcome::Marred);
    }
    Ok(Outcome::Clean)
}

/// Path and encoding of the new log.
fn destination(args: &Args, header: &Header) -> Result<(PathBuf, Encoding), Failure> {
    let given = &args.destination;
    if given.is_dir() {
        let Some(encoding) = args.encoding else {
            return Err(Failure::Usage(
                "DST is a folder: --encoding says which of the canonical names the log gets".to_owned(),
            ));
        };
        return Ok((given.join(log_name(header.generation(), encoding)), encoding));
    }
    let by_name = by_name(given);
    let encoding = match (args.encoding, by_name) {
        (Some(asked), Some(named)) if asked != named => {
            return Err(Failure::Usage(format!("the name of DST says {named}, and --encoding says {asked}")));
        }
        (Some(asked), _) => asked,
        (None, Some(named)) => named,
        (None, None) => {
            let what = "the name of DST says no encoding (.jsonl.zst, .jsonl.zstd, .jsonl): give --encoding";
            return Err(Failure::Usage(what.to_owned()));
        }
    };
    if let Some((generation, _)) = given.file_name().and_then(parse_log_name)
        && generation != header.generation()
    {
        return Err(Failure::Usage(format!(
            "the name of DST says generation {generation}, and the log is of {}: its name is {}",
            header.generation(),
            log_name(header.generation(), encoding)
        )));
    }
    Ok((given.clone(), encoding))
}

fn by_name(path: &Path) -> Option<Encoding> {
    let name = path.file_name()?.as_encoded_bytes();
    Encoding::ALL.into_iter().find(|encoding| name.ends_with(encoding.suffix().as_bytes()))
}

fn taken(error: Error, path: &Path) -> Failure {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => Failure::new(
            format!("{}: something of that name exists", path.display()),
            "choose another name; nothing is overwritten",
        ),
        error => error.into(),
    }
}
