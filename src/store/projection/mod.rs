//! States of projections, kept outside the root: a fold goes on where an earlier one stopped.
//!
//! A kept state is a hint. It is used for a log of the same session, lifecycle, generation and cut, by the same version of its
//! projection, and only where it is that of this very log or of a beginning of it: see [`anchor`]. Anything else is folded anew.
//! A state never holds an event that was not read from the log, or flushed to it, before it is kept.
//!
//! Spec: `format-spec/09-caches.md`.

mod anchor;
mod cold;
mod live;
mod record;
mod shelf;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::anchor::Anchor;
use self::cold::{Folded, Reach, exact, fold};
pub use self::live::LiveProjections;
use self::record::{Record, Row};
pub(super) use self::shelf::Shelf;
use super::catalog::{hash_of, names_of};
use super::log_file::{LogFile, ReadMode};
use super::range::count_events;
use super::snapshot::{FileRevision, Revision, Snapshot, State};
use super::store::FileStore;
use crate::container::disk::Disk;
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::Header;
use crate::session::{Overview, Projected, Projections};
use crate::store::layout::printable;
use crate::units::Generation;

impl FileStore {
    /// Folds `set` over the events of a stored session: as [`FileStore::project_log`] over its log.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::DuplicateId`], and those of [`FileStore::project_log`].
    pub fn project(&self, id: &Text, set: &Projections) -> Result<Projected> {
        match self.stat(id)? {
            Some(Snapshot { state: State::Ok | State::Torn, path, size_bytes: Some(_), .. }) => {
                self.project_log(&path, set)
            }
            Some(Snapshot { error: Some(error), .. }) => Err(*error),
            _ => Err(Error::NotFound { id: printable(id) }),
        }
    }

    /// Folds `set` over the events of the log at `path`, and keeps the states in the folder of the store's catalog, if it has one
    /// and the log stands in a session's folder of its root.
    ///
    /// Where states were kept before, they are used: for a log that has not changed since, no byte of it is read; from one that
    /// was only appended to, what was appended. All else is folded from the first event, as are older generations, which are
    /// folded as they read in the current one. Whatever fails about keeping costs only time.
    ///
    /// # Errors
    /// What is wrong with the log: [`Error::Corruption`], [`Error::DamagedTail`], [`Error::FormatUnsupported`], [`Error::Refused`],
    /// [`Error::IdentityMismatch`], [`Error::Io`]. A torn end is not.
    pub fn project_log(&self, path: &Path, set: &Projections) -> Result<Projected> {
        let (disk, options) = (self.shared().disk(), self.shared().options());
        let shelf = self.shelf().zip(self.names_in_root(path));
        let shelf = shelf.as_ref().map(|(shelf, folder)| (shelf, folder.as_path()));
        let record = shelf.and_then(|(shelf, folder)| shelf.load(disk, names_of(folder)?));
        if let Some(record) = &record
            && let Some(projected) = self.unread(path, set, record)
        {
            return Ok(projected);
        }
        let log = (path, options.limits, options.read_mode);
        let folded = fold(disk, log, set, record.as_ref(), Reach::Whole)?;
        let folded = folded.ok_or_else(|| Error::NotFound { id: path.display().to_string() })?;
        if let Some((shelf, folder)) = shelf {
            shelf.keep(&**disk, folder, record.as_ref(), &folded);
        }
        Ok(folded.projected)
    }

    /// What is known of the session that `snapshot` is of without reading its log, or at most a little of its end: as
    /// [`FileStore::list_with_overviews`] gives it.
    #[must_use]
    pub fn recall_overview(&self, snapshot: &Snapshot) -> Option<Overview> {
        snapshot.overview().or_else(|| {
            let (shelf, folder) = self.shelf().zip(self.names_in_root(&snapshot.path))?;
            let (disk, limits) = (self.shared().disk(), self.shared().options().limits);
            snapshot.overview_in(&shelf.recall_or_go_on(disk, &folder, snapshot, limits)?)
        })
    }

    /// Keeps the states of a session whose events up to there the caller has flushed; whether they are kept now.
    ///
    /// `header` and `inherited` are the session's. They are not kept if the log has more events by now, or fewer.
    #[must_use]
    pub fn keep_projected(&self, header: &Header, inherited: u64, projected: &Projected) -> bool {
        self.try_keep(header, inherited, projected).is_some()
    }

    fn try_keep(&self, header: &Header, inherited: u64, projected: &Projected) -> Option<()> {
        let disk = self.shared().disk();
        let shelf = self.shelf()?;
        let folder = self.folder_of(header.id()).ok()?;
        let name = folder.current().ok().flatten()?;
        let at_ns = disk.now_ns();
        let path = folder.path.join(&name.name);
        let log = LogFile::open(disk, &path, self.shared().options().limits, ReadMode::Read).ok()?;
        log.check_encoding().ok()?;
        let stored = Header::parse(&log.header_line().ok()?, log.limits()).ok()?;
        // The whole file is the log: what stands behind the last event would have to be judged.
        if stored != *header || header.generation() != Generation::CURRENT {
            return None;
        }
        let end = log.stamp().size;
        (count_events(&log) == Some(projected.folded())).then_some(())?;
        let revision = FileRevision::of(log.stamp());
        let anchor = Anchor::of(&log, end, revision.was_quiet(at_ns)).ok()?;
        let names = names_of(&folder.path)?;
        let record = shelf.load(disk, names);
        let folded = Folded {
            projected: projected.clone(),
            header: stored,
            inherited,
            anchor: Some(anchor),
            is_settled: anchor.is_settled,
            revision,
            is_kept: false,
        };
        shelf.keep(&**disk, &folder.path, record.as_ref(), &folded).then_some(())
    }

    /// Drops what the catalog and the folder beside it hold of the sessions in `folders`: for whoever has deleted or moved them.
    /// Whatever is left all the same goes with the next listing.
    pub fn forget(&self, folders: &[PathBuf]) {
        let (disk, limits) = (self.shared().disk(), &self.shared().options().limits);
        let Some(catalog) = self.catalog() else { return };
        if let Some(shelf) = self.shelf() {
            let hashes = folders.iter().filter_map(|folder| names_of(folder)).map(hash_of);
            hashes.for_each(|hash| shelf.forget(&**disk, hash));
        }
        if let Some(book) = catalog.open(disk, self.root(), limits) {
            book.forget(disk, folders);
        }
    }

    pub(super) fn shelf(&self) -> Option<Shelf> {
        let limits = &self.shared().options().limits;
        self.catalog()?.shelf(&**self.shared().disk(), self.root(), limits)
    }

    /// The states, if all are kept of the log at `path` as it is.
    fn unread(&self, path: &Path, set: &Projections, record: &Record) -> Option<Projected> {
        let stamp = self.shared().disk().stamp(path).ok().flatten()?;
        exact(record, set, &FileRevision::of(&stamp))
    }

    /// The folder of the log at `path`, if it stands where the root's sessions stand.
    fn names_in_root(&self, path: &Path) -> Option<PathBuf> {
        let folder = std::path::absolute(path.parent()?).ok()?;
        let root = std::path::absolute(self.root()).ok()?;
        (folder.parent()?.parent()? == root).then_some(folder)
    }
}

impl Shelf {
    /// The states of the built-in projections that are kept of the log of `snapshot` as it is, as JSON text. Opens no log.
    pub(super) fn recall(&self, disk: &Arc<dyn Disk>, folder: &Path, snapshot: &Snapshot) -> Option<Vec<u8>> {
        let (record, revision) = self.record_of(disk, folder, snapshot)?;
        exact(&record, &Projections::built_in(), &revision).map(|projected| json_of(&projected))
    }

    /// As [`Shelf::recall`]; and of a log that has grown a little since, what was added is read.
    pub(super) fn recall_or_go_on(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        snapshot: &Snapshot,
        limits: Limits,
    ) -> Option<Vec<u8>> {
        /// As much as the ends of a few logs.
        const NEAR: u64 = 256 << 10;
        let set = Projections::built_in();
        let (record, revision) = self.record_of(disk, folder, snapshot)?;
        if let Some(projected) = exact(&record, &set, &revision) {
            return Some(json_of(&projected));
        }
        let log = (snapshot.path.as_path(), limits, ReadMode::Read);
        let folded = fold(disk, log, &set, Some(&record), Reach::Behind(NEAR)).ok()??;
        let is_kept = self.keep(&**disk, folder, Some(&record), &folded);
        // The states are those of what the snapshot shows, or none. What a catalog may take up has to be durable.
        let is_true = folded.revision == revision && (is_kept || !folded.is_settled);
        is_true.then(|| json_of(&folded.projected))
    }

    /// What is kept of a session that can be read, and the revision of its log.
    fn record_of(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        snapshot: &Snapshot,
    ) -> Option<(Record, FileRevision)> {
        let header = snapshot.header.as_ref()?;
        let revision = snapshot.revision.and_then(Revision::as_file)?;
        let names = names_of(folder)?;
        let is_readable = matches!(snapshot.state, State::Ok | State::Torn);
        (is_readable && self.may_hold(&**disk, names)).then_some(())?;
        let record = self.load(disk, names).filter(|record| record.is_of(header))?;
        Some((record, revision))
    }

    /// Keeps the states of `folded`, and those of `record` that are of the same log and of other projections; whether they are kept now.
    fn keep(&self, disk: &dyn Disk, folder: &Path, record: Option<&Record>, folded: &Folded) -> bool {
        if folded.is_kept {
            return true;
        }
        let (Some(anchor), Some(names)) = (folded.anchor, names_of(folder)) else { return false };
        let mut rows = Vec::new();
        folded.projected.each(|key, mark, json| {
            rows.push(Row { key: key.as_bytes().to_vec(), mark, anchor, json });
        });
        let mut kept = Record { header: folded.header.clone(), inherited: folded.inherited, rows };
        let is_same_file = |row: &Row| {
            (row.anchor.revision.device, row.anchor.revision.inode)
                == (anchor.revision.device, anchor.revision.inode)
        };
        if let Some(record) =
            record.filter(|record| record.checkpoint_key().admits_fold(&kept.checkpoint_key()))
        {
            let is_mine = |row: &Row| kept.rows.iter().any(|mine| mine.key == row.key);
            let others: Vec<Row> =
                record.rows.iter().filter(|row| is_same_file(row) && !is_mine(row)).cloned().collect();
            kept.rows.extend(others);
        }
        self.save(disk, names, &kept)
    }
}

fn json_of(projected: &Projected) -> Vec<u8> {
    let mut json = Vec::new();
    projected.write_json(&mut json);
    json
}
