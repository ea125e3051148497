//! What there is to do below the paths that were named: log files, session folders, projects, roots.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::Error;
use seslog::container::disk::{Disk, FileKind};
use seslog::store::layout::{is_flat_log, is_project_dir_name};
use seslog::store::{Folder, State};

use crate::failure::Failure;
use crate::root::Root;

/// One piece of the work.
#[derive(Debug)]
pub(crate) enum Job {
    /// A file that was named.
    File(PathBuf),
    /// A session's folder, and what a listing of its root says against it.
    Session { folder: Folder, refused: Option<Error>, in_project: bool },
    /// Something that stands where a log should, and is none.
    Refused { path: PathBuf, error: Error },
    /// A folder that the operating system does not let us look into.
    Unreadable { path: PathBuf, error: Error },
    /// A project's folder or a root, with files that belong to no session.
    Beside { path: PathBuf, strays: Vec<PathBuf> },
}

/// Finds out what `path` is, and lists the work in it.
pub(crate) fn plan(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    let Some(folder) = Folder::read(&**disk, path)? else {
        let stamp = disk.stamp(path).map_err(|error| cannot_look(path, error))?;
        return match stamp {
            Some(_) => Ok(vec![Job::File(path.to_path_buf())]),
            None => Err(Failure::new(
                format!("{}: there is no such file or folder", path.display()),
                "check the path; this verb takes paths, not ids",
            )),
        };
    };
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let is_session = !folder.logs.is_empty()
        || folder.beside.iter().any(|(name, _)| name.as_encoded_bytes().starts_with(b"session."))
        || is_in_a_project(&real);
    if is_session && !is_project(&real) {
        return Ok(vec![Job::Session { in_project: is_in_a_project(&real), folder, refused: None }]);
    }
    let holds_logs = |path: &Path| {
        Folder::read(&**disk, path).ok().flatten().is_some_and(|folder| !folder.logs.is_empty())
    };
    let is_one_project = is_project(&real)
        || folder
            .beside
            .iter()
            .map(|(name, _)| path.join(name))
            .any(|child| !is_project(&child) && holds_logs(&child));
    if is_one_project { plan_project(disk, path) } else { plan_root(disk, path) }
}

fn plan_root(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut refusals: Vec<(PathBuf, Error)> = Root::at(path.to_path_buf())
        .store()
        .list()?
        .into_iter()
        .filter(|snapshot| snapshot.state == State::Refused)
        .filter_map(|snapshot| Some((snapshot.path, *snapshot.error?)))
        .collect();
    let mut strays = Vec::new();
    for (entry, kind) in sorted_entries(disk, path)? {
        match kind {
            FileKind::Dir | FileKind::Symlink => match Folder::read(&**disk, &entry) {
                Ok(Some(_)) => jobs.extend(plan_project_with(disk, &entry, &mut refusals)?),
                Ok(None) => strays.push(entry),
                Err(error) => jobs.push(Job::Unreadable { path: entry, error }),
            },
            _ => strays.push(entry),
        }
    }
    if !strays.is_empty() {
        jobs.push(Job::Beside { path: path.to_path_buf(), strays });
    }
    Ok(jobs)
}

fn plan_project(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Job>, Failure> {
    plan_project_with(disk, path, &mut Vec::new())
}

fn plan_project_with(
    disk: &Arc<dyn Disk>,
    path: &Path,
    refusals: &mut Vec<(PathBuf, Error)>,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut strays = Vec::new();
    for (entry, kind) in sorted_entries(disk, path)? {
        let folder = match kind {
            FileKind::Dir | FileKind::Symlink => match Folder::read(&**disk, &entry) {
                Ok(folder) => folder,
                Err(error) => {
                    jobs.push(Job::Unreadable { path: entry, error });
                    continue;
                }
            },
            _ => None,
        };
        let mut refused = |within: &Path| {
            let at = refusals.iter().position(|(path, _)| path == within || path.parent() == Some(within))?;
            Some(refusals.swap_remove(at).1)
        };
        match folder {
            Some(folder) => {
                let refused = refused(&entry);
                jobs.push(Job::Session { folder, refused, in_project: true });
            }
            None if entry.file_name().is_some_and(is_flat_log) => {
                let what = "a log directly in a project folder is of a retired layout";
                let error = refused(&entry)
                    .unwrap_or_else(|| Error::Layout { path: entry.clone(), what: what.to_owned() });
                jobs.push(Job::Refused { path: entry, error });
            }
            None => strays.push(entry),
        }
    }
    if !strays.is_empty() {
        jobs.push(Job::Beside { path: path.to_path_buf(), strays });
    }
    Ok(jobs)
}

fn sorted_entries(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<(PathBuf, FileKind)>, Failure> {
    let entries = disk.read_dir(path).map_err(|error| cannot_look(path, error))?;
    let mut entries: Vec<_> = entries.into_iter().map(|entry| (path.join(entry.name), entry.kind)).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

fn cannot_look(path: &Path, error: std::io::Error) -> Failure {
    Failure::io(
        format!("{}: looking at it failed", path.display()),
        error,
        "check the path and its permissions",
    )
}

fn is_project(folder: &Path) -> bool {
    folder.file_name().is_some_and(is_project_dir_name)
}

fn is_in_a_project(session: &Path) -> bool {
    session.parent().is_some_and(is_project)
}
