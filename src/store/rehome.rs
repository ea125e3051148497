//! Giving a session another working directory: its project's folder was moved.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Another working directory".

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Folder;
use super::handle::random_log_id;
use super::layout::{printable, session_path};
use super::lock::locked;
use super::log_file::{LogFile, ReadMode};
use super::publish::{Draft, create_dirs};
use super::scan::{Report, ScanOptions, scan};
use super::snapshot::header_error;
use crate::container::disk::{Disk, FileKind};
use crate::container::{LEVEL_DEFAULT, create, holds_zero_sector};
use crate::error::{Error, Result};
use crate::json::{Tape, Text, write_text};
use crate::limits::Limits;
use crate::row::{Header, HeaderFault};

/// What became of a session that was given another working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rehomed {
    /// Folder in which it stood.
    pub from: PathBuf,
    /// Folder in which it stands; the same if both working directories share a project's folder.
    pub to: PathBuf,
    /// Logs whose header was rewritten: all generations that named another working directory.
    pub rewritten: u64,
}

/// Gives the session in `folder` the working directory `cwd`, and moves it to where `root` keeps such sessions.
///
/// In each generation of the log the header alone is rewritten; all bytes behind it are copied as they are, and the copy is
/// read from disk and compared before it takes the old file's place. Then the folder moves, in one step. A crash in between
/// leaves a session that is listed as refused, since its folder is not where its header says; doing it again ends
/// the move. With `dry_run` nothing is touched.
///
/// # Errors
/// [`Error::NotFound`] for a folder without a log; [`Error::AlreadyOwned`] while somebody writes the session;
/// [`Error::AlreadyExists`] if a folder for the session stands there already; [`Error::Layout`] if the folder is a link;
/// [`Error::InvalidArgument`] for a working directory that no header can name; what is wrong with a log that is not sound:
/// it is not moved; [`Error::Io`].
pub fn rehome(
    disk: &Arc<dyn Disk>,
    root: &Path,
    folder: &Path,
    cwd: &Text,
    dry_run: bool,
) -> Result<Rehomed> {
    let stamp = disk.stamp(folder).map_err(Error::io(folder, "looking at"))?;
    if stamp.is_some_and(|stamp| stamp.kind == FileKind::Symlink) {
        let what = "a link to a session's folder is not followed; name the folder itself".to_owned();
        return Err(Error::Layout { path: folder.to_path_buf(), what });
    }
    // Looked at before the lock is taken: what is refused by its headers or its place gets no lock file.
    let plan = Plan::of(disk, root, folder, cwd)?;
    if dry_run {
        plan.check()?;
        return Ok(plan.rehomed());
    }
    locked(&**disk, folder, || {
        // Looked at again under the lock: a successor may have been published since.
        let plan = Plan::of(disk, root, folder, cwd)?;
        let reports = plan.check()?;
        plan.rewritten.iter().zip(&reports).try_for_each(|(log, report)| log.write(disk, report))?;
        plan.move_folder(&**disk)?;
        Ok(plan.rehomed())
    })
}

/// What there is to do for one session.
struct Plan {
    from: PathBuf,
    to: PathBuf,
    /// Logs whose header names another directory, the newest generation last: it tells whether all of this is done.
    rewritten: Vec<Rewrite>,
}

/// A log whose header is to be written anew.
struct Rewrite {
    log: LogFile,
    /// The new header line with its newline.
    line: Vec<u8>,
    header: Header,
}

impl Plan {
    fn of(disk: &Arc<dyn Disk>, root: &Path, path: &Path, cwd: &Text) -> Result<Self> {
        let folder = Folder::read(&**disk, path)?.ok_or_else(|| not_found(path))?;
        // Two of the newest generation are refused.
        folder.current()?;
        let (mut rewritten, mut id) = (Vec::new(), None);
        for name in &folder.logs {
            let log = LogFile::open(disk, &path.join(&name.name), Limits::DEFAULT, ReadMode::Read)?;
            let (rewrite, header) = Rewrite::of(log, cwd)?;
            rewritten.extend(rewrite);
            id = Some(header.id().clone());
        }
        let id = id.ok_or_else(|| not_found(path))?;
        let to = session_path(root, Some(cwd), &id).ok_or_else(|| Error::InvalidArgument {
            what: "no folder can be named after an empty working directory".to_owned(),
        })?;
        let taken = disk.stamp(&to).map_err(Error::io(&to, "looking at"))?;
        let here = disk.stamp(path).map_err(Error::io(path, "looking at"))?;
        let is_here = taken.zip(here).is_some_and(|(taken, here)| taken.is_same_file(&here));
        if taken.is_some() && !is_here {
            return Err(Error::AlreadyExists { id: printable(&id) });
        }
        let to = if is_here { path.to_path_buf() } else { to };
        Ok(Self { from: path.to_path_buf(), to, rewritten })
    }

    /// Reads all logs that are to be rewritten from end to end.
    fn check(&self) -> Result<Vec<Report>> {
        self.rewritten.iter().map(Rewrite::check).collect()
    }

    fn rehomed(&self) -> Rehomed {
        let rewritten = self.rewritten.len() as u64;
        Rehomed { from: self.from.clone(), to: self.to.clone(), rewritten }
    }

    fn move_folder(&self, disk: &dyn Disk) -> Result<()> {
        if self.from == self.to {
            return Ok(());
        }
        let sync = |dir: &Path| disk.sync_dir(dir).map_err(Error::io(dir, "syncing"));
        let parents = self.to.parent().zip(self.from.parent());
        let (project, left) = parents.ok_or_else(|| not_found(&self.from))?;
        if disk.stamp(project).map_err(Error::io(project, "looking at"))?.is_none() {
            create_dirs(disk, project)?;
        }
        disk.rename(&self.from, &self.to).map_err(Error::io(&self.from, "moving"))?;
        sync(project)?;
        sync(left)?;
        // It stays while it holds another session; an empty one that a crash brings back holds none.
        let _ = disk.remove_dir(left);
        Ok(())
    }
}

impl Rewrite {
    /// The rewriting of `log`, unless its header names `cwd` already; and the header as it is.
    fn of(log: LogFile, cwd: &Text) -> Result<(Option<Self>, Header)> {
        let old = log.header_line()?;
        let header = Header::parse(&old, log.limits()).map_err(|fault| header_error(log.path(), fault))?;
        log.check_name(header.generation())?;
        if header.cwd() == Some(cwd) {
            return Ok((None, header));
        }
        let line = with_cwd(&old, &header, cwd);
        let changed = line.and_then(|line| Ok((Header::parse(&line, log.limits())?, line)));
        let (changed, line) = changed.map_err(|fault| Error::InvalidArgument {
            what: format!("no header can name that directory: {fault}"),
        })?;
        let line = [&line[..], b"\n"].concat();
        Ok((Some(Self { log, line, header: changed }), header))
    }

    /// Reads the log as it is. It must be sound: what proves a torn end depends on where it stands in the file.
    fn check(&self) -> Result<Report> {
        let report = scan(&self.log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
        report.require(&self.log)?;
        report.end_error(&self.log).map_or(Ok(report), Err)
    }

    /// Writes the log with its new header beside the old one, compares both, and puts it in its place.
    fn write(&self, disk: &Arc<dyn Disk>, report: &Report) -> Result<()> {
        let path = self.log.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new("."));
        let (encoding, size) = (self.log.encoding(), self.log.stamp().size);
        let (old_end, id) = self.log.head()?;
        let mut head = Vec::new();
        let id = id.map_or_else(random_log_id, Ok)?;
        create(encoding, id, &self.line, self.header.created_at().get(), LEVEL_DEFAULT, &mut head)
            .map_err(|fault| Error::InvalidArgument { what: fault.to_string() })?;
        let draft = Draft::create(&**disk, folder, &name)?;
        draft.write(&head)?;
        let mut at = head.len() as u64;
        for piece in pieces(old_end..size, at) {
            let bytes = self.log.read_bytes(piece)?;
            // Zeros must go on to prove a write that did not land, and sectors count from the start of the file.
            if holds_zero_sector(at, &bytes) {
                let what = format!(
                    "{}: behind the new header it would hold a sector of zeros; compact it first",
                    path.display()
                );
                return Err(Error::InvalidArgument { what });
            }
            draft.write(&bytes)?;
            at = at.saturating_add(bytes.len() as u64);
        }
        self.compare(disk, draft.temporary(), head.len() as u64, old_end..size, report)?;
        draft.replace(self.log.stamp()).map(drop)
    }

    /// Reads what was written from disk: a log of as many events with the new header, and otherwise the old bytes.
    fn compare(
        &self,
        disk: &Arc<dyn Disk>,
        path: &Path,
        new_end: u64,
        rest: Range<u64>,
        old: &Report,
    ) -> Result<()> {
        let written = LogFile::open(disk, path, *self.log.limits(), ReadMode::Read)?;
        let report = scan(&written, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
        let shift = |at: u64| at.saturating_sub(rest.start).saturating_add(new_end);
        let mut is_same = report.verdict == old.verdict
            && report.events == old.events
            && written.stamp().size == shift(rest.end)
            && written.header_line().is_ok_and(|line| [&line[..], b"\n"].concat() == self.line);
        for piece in pieces(rest.clone(), new_end) {
            let shifted = shift(piece.start)..shift(piece.end);
            is_same = is_same && self.log.read_bytes(piece)? == written.read_bytes(shifted)?;
        }
        if is_same {
            return Ok(());
        }
        let what = "what was written does not read back as the log with its new header".to_owned();
        Err(Error::Foreign { path: path.to_path_buf(), what })
    }
}

/// `line`, a header that was parsed, with another working directory; everything else in it stays as it is written.
fn with_cwd(line: &[u8], header: &Header, cwd: &Text) -> std::result::Result<Vec<u8>, HeaderFault> {
    let mut tape = Tape::default();
    let old = tape.parse(line, Limits::DEFAULT.nesting_max).ok().and_then(|node| node.get("cwd"));
    let mut out = Vec::new();
    let Some(range) = old.map(|node| node.range()) else {
        // One that names none is written in the order of its generation.
        header.clone().with_cwd(cwd.clone())?.write(&mut out);
        return Ok(out);
    };
    out.extend_from_slice(line.get(..range.start).unwrap_or_default());
    write_text(&mut out, cwd);
    out.extend_from_slice(line.get(range.end..).unwrap_or_default());
    Ok(out)
}

fn not_found(folder: &Path) -> Error {
    Error::NotFound { id: folder.file_name().unwrap_or_default().to_string_lossy().into_owned() }
}

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// `range` in pieces of about that many bytes. Moved to `at`, each ends at a sector's border.
fn pieces(range: Range<u64>, at: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let first = range.start.saturating_add(PIECE.saturating_sub(at % PIECE)).min(end);
    let next = move |piece: &Range<u64>| Some(piece.end..piece.end.saturating_add(PIECE).min(end));
    std::iter::successors(Some(range.start..first), next).take_while(|piece| !piece.is_empty())
}
