//! `export`: sessions for those who have no store.

mod destination;
mod page;
mod redaction;
mod report;
mod source;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use seslog::export::{LogZip, Redactor, archive_name, descendants};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::layout::printable;
use seslog::store::{Folder, Snapshot};

pub(crate) use self::destination::{Destination, refused};
use self::page::Page;
use self::report::Report;
use self::source::Source;
use crate::failure::{Done, Failure, Outcome};
use crate::out::{clean_path, counted, human_bytes, talk};
use crate::root::Root;
use crate::target::Target;

/// Writes sessions into one file to share: a ZIP of logical logs, or one session as JSON lines, Markdown or an HTML page.
///
/// A ZIP holds the sessions with the sub-sessions that they started, and the same session gives the same bytes from every
/// encoding. A page is self-contained: the conversation and a timeline of the model's attempts, with a filter, for any browser,
/// without a network. Older generations are converted on the way; the logs stay as they are. An export is complete or there is
/// none: FILE appears when all of it is written; what went to stdout counts if the exit status is not 1.
///
/// RULES is `default` for the built-in rules (keys of the usual providers, tokens, private keys, passwords), `regex:PATTERN`, or a
/// file of patterns, one a line, each with a name before it if wanted (`ticket: ABC-[0-9]+`). What is found stands as
/// `[redacted:rule]`, and the stream of an answer in which something was found is left out. Ids stay. No rules find everything.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog export 4f1c -o session.html --redact default")]
pub(crate) struct Args {
    /// Log files, session folders, session ids or their beginnings; one, unless it is a ZIP
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<OsString>,
    /// The new file; `-` is stdout. Where not given, stdout for text, and a file named after the session for ZIP and page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write; where not given, as the name of FILE says, else a ZIP
    #[arg(long)]
    format: Option<Format>,
    /// Replaces what these rules find; may be given more than once
    #[arg(long, value_name = "RULES")]
    redact: Vec<OsString>,
    /// The stored generation as it is, rows packed as they are, unknown events included
    #[arg(long, conflicts_with = "redact")]
    raw: bool,
    /// Leave out the sub-sessions
    #[arg(long)]
    alone: bool,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Logical logs, sub-sessions included
    Zip,
    /// The conversation as Markdown
    Md,
    /// One self-contained page: the conversation, and a timeline of the attempts
    Html,
    /// One logical log: the header, then one event a line
    Jsonl,
}

/// Exports what `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let format = format_of(args)?;
    if args.targets.len() > 1 && format != Format::Zip {
        return Err(Failure::Usage("several sessions fit into a ZIP only: --format zip".to_owned()));
    }
    if args.raw && matches!(format, Format::Md | Format::Html) {
        return Err(Failure::Usage("--raw is for logs: --format zip or jsonl".to_owned()));
    }
    let mut redactor = redaction::redactor(&args.redact)?;
    let mut sources = Vec::new();
    for target in &args.targets {
        sources.push(Source::open(root, Target::resolve(root, target)?, args.raw)?);
    }
    let Some(first) = sources.first() else { return Ok(Outcome::Clean) };
    let mut destination = Destination::create(output_of(args, format, first.id()).as_ref(), args.force)?;
    if format == Format::Zip && destination.is_terminal() {
        return Err(Failure::Usage("a ZIP is nothing for a terminal: name a file with -o".to_owned()));
    }
    let mut report = Report::default();
    match format {
        Format::Zip => zip(root, args, &sources, &mut destination, redactor.as_mut(), &mut report)?,
        Format::Jsonl => {
            let lines = &mut |line: source::Line<'_>| destination.line(line.text());
            report.add(first, first.each_line(redactor.as_mut(), lines)?);
        }
        Format::Md => {
            let mut page = page::Markdown::new(&mut destination);
            let end = first.each_line(redactor.as_mut(), &mut |line| page.line(&line))?;
            report.add(first, end);
        }
        Format::Html => {
            let mut page = Page::begin(&mut destination, first.log())?;
            let end = first.each_line(redactor.as_mut(), &mut |line| page.line(&line))?;
            report.unread(page.finish()?);
            report.add(first, end);
        }
    }
    let written = destination.publish()?;
    if let Some((path, bytes)) = written {
        let sessions = counted(report.sessions(), "session", "sessions");
        talk::note(&format!("{}: {sessions}, {}", clean_path(&path), human_bytes(bytes)));
    }
    if let Some(redactor) = &redactor {
        redaction::tell(redactor);
    }
    Ok(report.outcome())
}

fn format_of(args: &Args) -> Result<Format, Failure> {
    let extension = args.output.as_ref().and_then(|path| path.extension()).and_then(|name| name.to_str());
    let named = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("zip") => Some(Format::Zip),
        Some("md" | "markdown") => Some(Format::Md),
        Some("html" | "htm") => Some(Format::Html),
        Some("jsonl" | "ndjson") => Some(Format::Jsonl),
        _ => None,
    };
    match (args.format, named) {
        (Some(asked), _) => Ok(asked),
        (None, Some(named)) => Ok(named),
        (None, None) if args.output.as_ref().is_none_or(|path| path.as_os_str() == "-") => Ok(Format::Zip),
        (None, None) => {
            let what = "the name of FILE says no format (.zip, .md, .html, .jsonl): give --format";
            Err(Failure::Usage(what.to_owned()))
        }
    }
}

/// Where it goes; nothing for stdout.
fn output_of(args: &Args, format: Format, first: &Text) -> Option<PathBuf> {
    match &args.output {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None if format == Format::Zip => Some(PathBuf::from(archive_name(first))),
        None if format == Format::Html => Some(PathBuf::from(archive_name(first)).with_extension("html")),
        None => None,
    }
}

fn zip(
    root: &Root,
    args: &Args,
    sources: &[Source],
    destination: &mut Destination,
    mut redactor: Option<&mut Redactor>,
    report: &mut Report,
) -> Result<(), Failure> {
    let to_stdout = destination.is_stdout();
    let failed = |error| refused(error, to_stdout);
    let mut zip = LogZip::new(&mut *destination);
    for source in sources {
        let folder = if sources.len() == 1 { String::new() } else { zip.folder("", source.id()) };
        zip.begin_session(&folder, source.header()).map_err(failed)?;
        let lines = &mut |line: source::Line<'_>| zip.line(line.text()).map_err(failed);
        report.add(source, source.each_line(redactor.as_deref_mut(), lines)?);
        let Some(home) = source.target().session_folder().filter(|_| !args.alone) else { continue };
        let home = home_of(root, home);
        let sessions = home.as_ref().unwrap_or(root).store().list()?;
        warn_of_unknown(&sessions, report);
        for below in descendants(&sessions, source.id()) {
            let target = Target::of_snapshot(home.as_ref().unwrap_or(root), below)?;
            let source = Source::open(home.as_ref().unwrap_or(root), target, args.raw)?;
            zip.begin_subagent(&folder, source.header()).map_err(failed)?;
            let lines = &mut |line: source::Line<'_>| zip.line(line.text()).map_err(failed);
            report.add(&source, source.each_line(redactor.as_deref_mut(), lines)?);
        }
    }
    zip.finish().map_err(failed)?;
    Ok(())
}

/// The root in which a session's folder stands, where it is another one.
pub(crate) fn home_of(root: &Root, folder: &Folder) -> Option<Root> {
    let its = folder.path.parent()?.parent()?;
    let real = |path: &std::path::Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    (folder.is_in_a_project() && real(its) != real(root.path())).then(|| Root::at(its.to_path_buf()))
}

/// Sessions without a header that can be read may be missing sub-sessions.
fn warn_of_unknown(sessions: &[Snapshot], report: &mut Report) {
    let unknown = sessions.iter().filter(|one| one.header.is_none() && one.size_bytes.is_some());
    for session in unknown {
        report.unknown(&session.path);
    }
}

/// A session as a person may see it.
fn shown(header: &Header) -> String {
    printable(header.id())
}
