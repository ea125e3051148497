//! `rm`: deletes sessions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use seslog::json::Text;
use seslog::store::layout::printable;
use seslog::store::{Removed, Snapshot, remove};

use crate::failure::{Done, Failure, Outcome, tell};
use crate::json::Object;
use crate::out::{Out, clean_path, counted, human_bytes, talk};
use crate::root::Root;
use crate::target::Target;

/// Deletes sessions: their logs of all generations, the torn ends that were set aside, and their folders.
///
/// A session that somebody writes is not deleted, nor are files that are none of seslog's. Forks of a session have their own
/// copy of its events and stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog rm 4f1c --recursive --dry-run")]
pub(crate) struct Args {
    /// Session folders, session ids or their beginnings
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<OsString>,
    /// Delete the sub-sessions that they started too, and theirs
    #[arg(short, long)]
    recursive: bool,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

/// Deletes what `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let mut folders: Vec<PathBuf> = Vec::new();
    // All are found before one is deleted: a wrong name deletes nothing.
    for target in &args.targets {
        let target = Target::resolve(root, target)?;
        let Some(folder) = target.session_folder() else {
            return Err(Failure::Usage(format!(
                "{}: a session is deleted as a whole; name its folder or its id",
                target.log_path()?.display()
            )));
        };
        folders.push(folder.path.clone());
    }
    if args.recursive {
        let sessions = root.store().list()?;
        let family = Family::of(&sessions);
        folders = folders.into_iter().flat_map(|folder| family.below(folder)).collect();
    }
    let mut seen = std::collections::HashSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let mut deletion = Deletion::new(root, args.dry_run, args.json);
    folders.iter().try_for_each(|folder| deletion.delete(folder))?;
    deletion.sum_up()
}

/// Which session started which: sub-sessions by the folder of the one that started them.
pub(crate) struct Family {
    children: BTreeMap<PathBuf, Vec<PathBuf>>,
    parent: BTreeMap<PathBuf, PathBuf>,
}

impl Family {
    /// The families among `sessions`.
    pub(crate) fn of(sessions: &[Snapshot]) -> Self {
        let by_id: BTreeMap<&Text, PathBuf> =
            sessions.iter().filter_map(|one| Some((one.header.as_ref()?.id(), folder_of(one)))).collect();
        let mut family = Self { children: BTreeMap::new(), parent: BTreeMap::new() };
        for session in sessions {
            let Some(header) = session.header.as_ref().filter(|header| header.is_origin_subagent()) else {
                continue;
            };
            let Some(parent) = header.parent_session().and_then(|id| by_id.get(id)) else { continue };
            family.children.entry(parent.clone()).or_default().push(folder_of(session));
            family.parent.insert(folder_of(session), parent.clone());
        }
        family
    }

    /// The session in `folder` and all below it, each once.
    pub(crate) fn below(&self, folder: PathBuf) -> Vec<PathBuf> {
        let mut found = vec![folder];
        let mut at = 0_usize;
        while let Some(folder) = found.get(at) {
            // A session that is its own ancestor is found once.
            let new = self.children.get(folder).into_iter().flatten().filter(|child| !found.contains(child));
            let new: Vec<PathBuf> = new.cloned().collect();
            found.extend(new);
            at = at.saturating_add(1);
        }
        found
    }

    /// The session at the top of the family of the one in `folder`.
    pub(crate) fn top(&self, folder: &Path) -> PathBuf {
        let mut seen = vec![folder.to_path_buf()];
        while let Some(parent) = seen.last().and_then(|last| self.parent.get(last)) {
            if seen.contains(parent) {
                break;
            }
            seen.push(parent.clone());
        }
        seen.pop().unwrap_or_else(|| folder.to_path_buf())
    }
}

/// The folder of a listed session.
pub(crate) fn folder_of(session: &Snapshot) -> PathBuf {
    let is_folder = session.size_bytes.is_none();
    let parent = session.path.parent().filter(|_| !is_folder);
    parent.unwrap_or(&session.path).to_path_buf()
}

/// Deletes sessions one by one, and says so.
pub(crate) struct Deletion<'a> {
    root: &'a Root,
    dry_run: bool,
    json: bool,
    out: Out,
    sessions: u64,
    bytes: u64,
    kept: u64,
    failed: u64,
    /// What else is kept of them goes with them.
    gone: Vec<PathBuf>,
}

impl<'a> Deletion<'a> {
    /// A deletion in `root`, of nothing yet.
    pub(crate) fn new(root: &'a Root, dry_run: bool, json: bool) -> Self {
        Self {
            root,
            dry_run,
            json,
            out: Out::new(),
            sessions: 0,
            bytes: 0,
            kept: 0,
            failed: 0,
            gone: Vec::new(),
        }
    }

    /// Deletes the session in `folder`. A refusal is told, and counts.
    ///
    /// # Errors
    /// [`Failure`] if nothing can be printed any more; the session is deleted then.
    pub(crate) fn delete(&mut self, folder: &Path) -> Result<(), Failure> {
        let id = self.id_of(folder);
        match remove(&**self.root.disk(), folder, self.dry_run) {
            Ok(removed) => {
                if !self.dry_run {
                    self.gone.push(folder.to_path_buf());
                }
                self.tell_removed(id.as_ref(), &removed)
            }
            Err(error) => {
                self.failed = self.failed.saturating_add(1);
                tell(&error.into());
                Ok(())
            }
        }
    }

    fn id_of(&self, folder: &Path) -> Option<Text> {
        let folder = seslog::store::Folder::read(&**self.root.disk(), folder).ok()??;
        let snapshot = Snapshot::of_folder(self.root.disk(), &folder, crate::root::LIMITS).ok()?;
        Some(snapshot.header?.id().clone())
    }

    fn tell_removed(&mut self, id: Option<&Text>, removed: &Removed) -> Result<(), Failure> {
        self.sessions = self.sessions.saturating_add(1);
        self.bytes = self.bytes.saturating_add(removed.bytes);
        if self.json {
            let mut object = Object::new();
            if let Some(id) = id {
                object.text("id", id);
            }
            object
                .path("path", &removed.folder)
                .number("files", removed.files)
                .number("sizeBytes", removed.bytes);
            object.flag("deleted", !self.dry_run);
            if !removed.kept.is_empty() {
                object.paths("strays", &removed.kept);
            }
            self.out.bytes(&object.into_line())?;
        } else {
            let verb = if self.dry_run { "would delete" } else { "deleted" };
            let name = id.map_or_else(|| clean_path(&removed.folder), printable);
            let files = counted(removed.files, "file", "files");
            self.out.line(&format!("{verb} {name}: {files}, {}", human_bytes(removed.bytes)))?;
        }
        self.out.flush()?;
        if !removed.kept.is_empty() {
            self.kept = self.kept.saturating_add(1);
            let files = counted(removed.kept.len() as u64, "file is", "files are");
            talk::warning(&format!("{}: {files} none of seslog's, and left there", removed.folder.display()));
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.root.forget(&std::mem::take(&mut self.gone));
    }

    /// Drops what caches hold of the sessions, and says what it came to.
    pub(crate) fn sum_up(mut self) -> Done {
        self.forget();
        if !self.json && self.sessions > 1 {
            let verb = if self.dry_run { "would be deleted" } else { "deleted" };
            let sessions = counted(self.sessions, "session", "sessions");
            talk::note(&format!("{sessions} {verb}, {}", human_bytes(self.bytes)));
        }
        if self.failed > 0 {
            let sessions = counted(self.failed, "session was", "sessions were");
            return Err(Failure::new(
                format!("{sessions} not deleted, for the reasons above"),
                "end what writes them, or correct what is named, and try again",
            ));
        }
        Ok(Outcome::marred_if(self.kept > 0))
    }
}

/// Also when nobody reads on what was deleted.
impl Drop for Deletion<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}
