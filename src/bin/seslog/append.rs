//! `append`: rows from stdin, each batch durable before it is acknowledged.

use std::ffi::OsString;
use std::io::{self, BufRead, Read as _};
use std::sync::Arc;

use seslog::Error;
use seslog::format::inventory::Inventory;
use seslog::row::{Draft, RowFault};
use seslog::store::layout::printable;
use seslog::store::{Durability, FileHandle, FileStore, StoreOptions};
use seslog::units::{Generation, Seq};

use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::new::now;
use crate::out::{Out, counted, talk};
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Appends rows from stdin, one JSON object a line. "seq" and "time" may be left out and are filled in.
///
/// After each durable append one line is printed and flushed: what is printed is acknowledged. A row that cannot be stored
/// ends the program with status 1; nothing of its batch is stored, and everything acknowledged before stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog append 4f1c --batch 100 < rows.jsonl\n\n\
                  A row: {\"type\":\"user/message\",\"data\":{...}}, and if wanted \"seq\", \"time\", \"ignorable\",\n\
                  \"sourceEventSeqs\" and \"surfaceOp\".")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// Rows an append: it is made when so many rows are there, or stdin ends
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// When to wait for the disk: after each append, or once at the end (then one line is printed, at the end)
    #[arg(long, value_name = "WHEN", default_value = "each")]
    sync: SyncWhen,
    /// Print {"appended":N,"nextSeq":M} instead of words
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SyncWhen {
    /// After each append
    Each,
    /// Once, after the last
    End,
}

/// Appends what stdin holds.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let mut options = StoreOptions::default();
    options.durability = if args.sync == SyncWhen::Each { Durability::Sync } else { Durability::OnFlush };
    let handle = open(root, &target, options)?;
    let appended = copy(&handle, args);
    let closed = handle.close();
    let total = appended?;
    closed?;
    if args.sync == SyncWhen::End && total.appended > 0 {
        let mut out = Out::new();
        acknowledge(&mut out, args, total.appended, total.next_seq)?;
    }
    Ok(Outcome::Clean)
}

/// Opens the session for writing, by its place: a file that was named must be its folder's current log.
fn open(root: &Root, target: &Target, options: StoreOptions) -> Result<Arc<FileHandle>, Failure> {
    let path = target.log_path()?;
    let store: FileStore = root.store_with(options);
    let folder = match target.session_folder() {
        Some(folder) => folder.path.clone(),
        None => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => ".".into(),
        },
    };
    let current = seslog::store::Folder::read(&**root.disk(), &folder)?;
    let current = current.as_ref().map(seslog::store::Folder::current).transpose()?.flatten();
    if current.is_none_or(|log| Some(log.name.as_os_str()) != path.file_name()) {
        let what = format!("{}: it is not the current log of a session's folder", path.display());
        return Err(Failure::new(
            what,
            "`seslog import` makes a session of a log file; or name the session by its id",
        ));
    }
    let log = target.open(root)?;
    if let Ok(line) = log.header_line()
        && let Ok(header) = seslog::row::Header::parse(&line, &LIMITS)
    {
        target.check_place(root, &header)?;
    }
    drop(log);
    let snapshot = target.snapshot(root)?;
    let handle = store.open_folder(&folder)?;
    match (snapshot.error.as_deref(), snapshot.generation) {
        (error, Some(stored)) if stored < Generation::CURRENT => {
            let end =
                if error.is_some() { ", without the end that an earlier append left unfinished" } else { "" };
            talk::note(&format!(
                "{}: converted to generation {} beside it{end}",
                path.display(),
                Generation::CURRENT
            ));
        }
        (Some(&Error::TornTail { offset, torn, .. }), _) => talk::note(&format!(
            "{}: the first append sets {} aside, from byte {offset} on, that an earlier one left unfinished",
            path.display(),
            counted(torn, "byte", "bytes")
        )),
        _ => {}
    }
    Ok(handle)
}

/// What was appended in all.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    appended: u64,
    next_seq: u64,
}

fn copy(handle: &FileHandle, args: &Args) -> Result<Total, Failure> {
    let mut input = io::stdin().lock();
    let mut out = Out::new();
    let mut total = Total { appended: 0, next_seq: handle.next_seq().unwrap_or(0) };
    let mut batch = Batch::default();
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        let is_end = !read_line(&mut input, &mut line, number)?;
        if !is_end {
            number = number.saturating_add(1);
            if !line.iter().all(u8::is_ascii_whitespace) {
                batch.push(&line, number, total.next_seq)?;
            }
        }
        let is_full = batch.ends.len() as u64 >= u64::from(args.batch);
        if is_full || (is_end && !batch.ends.is_empty()) {
            batch.append(handle)?;
            let appended = batch.ends.len() as u64;
            total.appended = total.appended.saturating_add(appended);
            total.next_seq = total.next_seq.saturating_add(appended);
            batch.clear();
            if args.sync == SyncWhen::Each {
                acknowledge(&mut out, args, appended, total.next_seq)?;
            }
        }
        if is_end {
            return Ok(total);
        }
    }
}

fn acknowledge(out: &mut Out, args: &Args, appended: u64, next_seq: u64) -> Result<(), Failure> {
    if args.json {
        let mut object = Object::new();
        object.number("appended", appended).number("nextSeq", next_seq);
        out.bytes(&object.into_line())?;
    } else {
        out.line(&format!("appended {appended}, next seq {next_seq}"))?;
    }
    out.flush()
}

/// Reads the next line into `line`, without its newline; the last one may lack it. `false` at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, before: u64) -> Result<bool, Failure> {
    line.clear();
    // One more than a row may have, so that a longer line is noticed without being read whole.
    let longest = LIMITS.row_bytes_max.saturating_add(1);
    let read = input.by_ref().take(longest).read_until(b'\n', line);
    let read = read.map_err(|error| {
        Failure::io(
            format!("standard input: reading line {} failed", before.saturating_add(1)),
            error,
            "try again",
        )
    })?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}

/// Rows on their way into the log, and the input line of each.
#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    /// Exclusive end of each row in `text`.
    ends: Vec<usize>,
    lines: Vec<u64>,
}

impl Batch {
    /// Adds the row on input line `number`, with its seq and time filled in.
    fn push(&mut self, line: &[u8], number: u64, next_seq: u64) -> Result<(), Failure> {
        let bad = |fault: RowFault| bad_row(number, fault);
        let draft = Draft::parse(line, &LIMITS).map_err(bad)?;
        if !draft.is_ignorable() && !Inventory::of(Generation::CURRENT).knows(draft.event_type()) {
            // The handle refuses it too, but only once the batch is full; here lines are judged in their order.
            let name = printable(&draft.event_type().to_text());
            return Err(Failure::new(
                format!("standard input, line {number}: the event type {name} is not known to this build"),
                "correct the type, or add \"ignorable\":true if readers may pass over it; nothing of the batch was stored",
            ));
        }
        let seq = next_seq.saturating_add(self.ends.len() as u64);
        let seq = Seq::new(seq).ok_or_else(|| {
            Failure::new(
                format!("standard input, line {number}: the log is full: there is no seq {seq}"),
                "start a new session",
            )
        })?;
        draft.write(seq, now(), &mut self.text).map_err(bad)?;
        self.ends.push(self.text.len());
        self.lines.push(number);
        Ok(())
    }

    fn append(&self, handle: &FileHandle) -> Result<(), Failure> {
        let mut start = 0;
        let rows: Vec<&[u8]> = self
            .ends
            .iter()
            .map(|&end| self.text.get(std::mem::replace(&mut start, end)..end).unwrap_or_default())
            .collect();
        handle.append(&rows).map_err(|error| match error {
            Error::InvalidRow { index, source } => {
                bad_row(self.lines.get(index).copied().unwrap_or(0), source)
            }
            error => error.into(),
        })
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.lines.clear();
    }
}

fn bad_row(line: u64, fault: RowFault) -> Failure {
    let next = match fault {
        RowFault::Gap { .. } | RowFault::Repeat { .. } => "leave \"seq\" out to have it filled in",
        _ => "correct the row; nothing of its batch was stored, and what was acknowledged before stays",
    };
    Failure::new(format!("standard input, line {line}: {fault}"), next)
}
