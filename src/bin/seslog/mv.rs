//! `mv`: the sessions of a project whose folder was moved.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use seslog::json::Text;
use seslog::store::layout::{printable, project_dir_name};
use seslog::store::{Rehomed, Snapshot, State, rehome};

use crate::failure::{Done, Failure, Outcome, tell};
use crate::json::Object;
use crate::out::{Out, clean_path, counted, talk};
use crate::progress::Progress;
use crate::rm::folder_of;
use crate::root::Root;

/// Re-homes the sessions of a project whose folder was moved: their headers name the new folder, and they are listed with it.
///
/// Sessions of folders inside of the project move along. In each log the header alone is rewritten, the copy is compared
/// before it takes the old file's place, and a second run ends what a first one was interrupted in. A session that is not in
/// order, or that somebody writes, stays, and the exit status is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog mv ~/src/old-name ~/src/new-name --dry-run")]
pub(crate) struct Args {
    /// The folder that the project had
    project: OsString,
    /// The folder that it has now
    new_dir: OsString,
    /// Say what would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

/// Moves the sessions of `root` that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let (old, new) = (absolute(&args.project)?, absolute(&args.new_dir)?);
    if old == new {
        return Err(Failure::Usage("both folders are the same".to_owned()));
    }
    if !std::path::Path::new(&new).is_dir() {
        talk::warning(&format!("{new}: there is no such folder here"));
    }
    let sessions = root.store().list()?;
    let moves: Vec<(&Snapshot, Text)> =
        sessions.iter().filter_map(|one| Some((one, moved_cwd(one, &old, &new)?))).collect();
    if moves.is_empty() {
        talk::note(&format!("no session in {} belongs to {old}", root.path().display()));
        return Ok(Outcome::Clean);
    }
    let mut report = Report { args, out: Out::new(), moved: 0, failed: 0 };
    let mut left = Vec::new();
    let bytes = moves.iter().filter_map(|(session, _)| session.size_bytes).sum();
    let mut progress = Progress::new(moves.len() as u64, bytes, false);
    for (session, cwd) in &moves {
        let rehomed = rehome(root.disk(), root.path(), &folder_of(session), cwd, args.dry_run);
        if rehomed.is_ok() && !args.dry_run {
            left.push(folder_of(session));
        }
        progress.file_done(session.size_bytes.unwrap_or(0));
        progress.suspend(|| match rehomed {
            Ok(rehomed) => report.moved(session, cwd, &rehomed),
            Err(error) => {
                report.failed = report.failed.saturating_add(1);
                tell(&error.into());
                Ok(())
            }
        })?;
    }
    progress.finish();
    root.forget(&left);
    report.sum_up()
}

/// The folder as it stands in headers.
fn absolute(path: &OsStr) -> Result<String, Failure> {
    let not_text = || Failure::Usage(format!("{}: a header holds only paths that are UTF-8", path.display()));
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::io(format!("{}: no path", path.display()), error, "name a folder"))?;
    // `absolute` keeps a separator at the end, and headers have none.
    let absolute: PathBuf = absolute.components().collect();
    absolute.into_os_string().into_string().map_err(|_| not_text())
}

/// The new working directory of `session`, if it belongs to the project; also of one whose move was interrupted behind
/// the rewriting of its header.
fn moved_cwd(session: &Snapshot, old: &str, new: &str) -> Option<Text> {
    let cwd = session.header.as_ref()?.cwd()?;
    let cwd = cwd.as_str()?;
    let below = |dir: &str| {
        let rest = cwd.strip_prefix(dir)?;
        (rest.is_empty() || rest.starts_with('/') || dir == "/").then_some(rest)
    };
    if let Some(rest) = below(old) {
        return Some(Text::from(format!("{new}{rest}").as_str()));
    }
    let was = Text::from(format!("{old}{}", below(new)?).as_str());
    let is_left_behind = session.state == State::Refused
        && session.project.as_deref() == project_dir_name(Some(&was)).as_deref()
        && session.project.as_deref() != project_dir_name(Some(&Text::from(cwd))).as_deref();
    is_left_behind.then(|| Text::from(cwd))
}

struct Report<'a> {
    args: &'a Args,
    out: Out,
    moved: u64,
    failed: u64,
}

impl Report<'_> {
    fn moved(&mut self, session: &Snapshot, cwd: &Text, rehomed: &Rehomed) -> Result<(), Failure> {
        self.moved = self.moved.saturating_add(1);
        let id = session.header.as_ref().map(seslog::row::Header::id);
        if self.args.json {
            let mut object = Object::new();
            if let Some(id) = id {
                object.text("id", id);
            }
            object.path("from", &rehomed.from).path("path", &rehomed.to).text("cwd", cwd);
            object.number("rewritten", rehomed.rewritten).flag("moved", !self.args.dry_run);
            self.out.bytes(&object.into_line())?;
        } else {
            let verb = if self.args.dry_run { "would move" } else { "moved" };
            let id = id.map(printable).unwrap_or_default();
            self.out.line(&format!("{verb} {id} to {}", clean_path(&rehomed.to)))?;
        }
        self.out.flush()
    }

    fn sum_up(self) -> Done {
        if !self.args.json && self.moved > 1 {
            let verb = if self.args.dry_run { "would move" } else { "moved" };
            talk::note(&format!("{} {verb}", counted(self.moved, "session", "sessions")));
        }
        if self.failed == 0 {
            return Ok(Outcome::Clean);
        }
        let sessions = counted(self.failed, "session was", "sessions were");
        Err(Failure::new(
            format!("{sessions} not moved, for the reasons above"),
            "correct what is named, and run the same command again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_as_headers_name_it() {
        assert_eq!(absolute(OsStr::new("/home/ann/proj/")).unwrap(), "/home/ann/proj");
        assert_eq!(absolute(OsStr::new("/")).unwrap(), "/");
        assert!(absolute(OsStr::new("x")).unwrap().ends_with("/x"));
    }
}
