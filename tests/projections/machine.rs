//! A root on a disk on which time passes when a test says so, and the states of its sessions by either way.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::Disk as _;
use seslog::container::disk::fault::{FaultDisk, OpKind};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Event, PhysicalRow};
use seslog::session::{Overview, Projected, Projections};
use seslog::store::{
    Catalog, FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, Snapshot, restore, scan,
};
use seslog::units::Generation;

use crate::common::sessions::{append, header, options};

pub(crate) const ROOT: &str = "/root";
pub(crate) const CACHE: &str = "/cache/seslog";
const SECOND_NS: i128 = 1_000_000_000;

pub(crate) struct Machine {
    pub(crate) disk: FaultDisk,
    pub(crate) encoding: Encoding,
}

impl Machine {
    pub(crate) fn new(encoding: Encoding) -> Self {
        let disk = FaultDisk::new();
        disk.plant_dir(ROOT);
        Self { disk, encoding }
    }

    pub(crate) fn wait(&self, seconds: i128) {
        self.disk.set_clock_ns(self.disk.now_ns() + seconds * SECOND_NS);
    }

    /// A store that keeps nothing.
    pub(crate) fn bare(&self) -> FileStore {
        FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options(self.encoding))
    }

    pub(crate) fn store(&self) -> FileStore {
        self.bare().with_catalog(Catalog::in_folder(CACHE))
    }

    pub(crate) fn create(&self, id: &str, rows: &[String]) {
        let handle = self.bare().create(header(id), None).unwrap();
        append(&handle, rows).unwrap();
        handle.close().unwrap();
    }

    pub(crate) fn append(&self, id: &str, rows: &[String]) {
        let handle = self.bare().open(&Text::from(id), SessionAccess::Write).unwrap();
        append(&handle, rows).unwrap();
        handle.close().unwrap();
    }

    pub(crate) fn log(&self, id: &str) -> PathBuf {
        self.bare().stat(&Text::from(id)).unwrap().unwrap().path
    }

    /// Files of kept states.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        let is_kept = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "states");
        self.disk.paths().into_iter().filter(is_kept).collect()
    }

    /// The states by a fold from the first event, which nothing was kept of; `None` if the log cannot be folded.
    pub(crate) fn scratch(&self, path: &Path, set: &Projections) -> Option<Projected> {
        let disk: Arc<dyn seslog::container::disk::Disk> = Arc::new(self.disk.clone());
        let log = LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).ok()?;
        let mut projected = Projected::new(set);
        if log.generation().ok()? == Generation::CURRENT {
            let report = scan(&log, ScanOptions::STRICT, &mut |item| {
                if let Item::Row { row: PhysicalRow::Event(event), .. } = item {
                    projected.push(&event).unwrap();
                }
                Ok(ControlFlow::Continue(()))
            });
            // What stands before a damaged end is no session yet: somebody has to look at it.
            return report.ok()?.require_appendable(&log).ok().map(|()| projected);
        }
        let mut line = Vec::new();
        restore(&log, &mut |row| {
            line.clear();
            row.write_to(&mut line);
            projected.push(&Event::read(&line, Check::Full, &Limits::DEFAULT).unwrap()).unwrap();
            ControlFlow::Continue(())
        })
        .ok()?;
        Some(projected)
    }

    /// Folds the session as a store does that keeps states, twice, and checks both against a fold from the start.
    pub(crate) fn check(&self, id: &str, after: &str) {
        let set = Projections::built_in();
        let path = self.log(id);
        let scratch = self.scratch(&path, &set).map(|projected| json(&projected));
        for time in ["first", "second"] {
            let kept = self.store().project_log(&path, &set).ok().map(|projected| json(&projected));
            assert_eq!(kept, scratch, "{after}, {time} time");
        }
    }

    /// Opens of logs since the trace was forgotten.
    pub(crate) fn logs_opened(&self) -> usize {
        let is_open = |kind: OpKind| kind == OpKind::Open;
        self.disk.trace().iter().filter(|op| is_open(op.kind) && op.path.starts_with(ROOT)).count()
    }
}

pub(crate) fn json(projected: &Projected) -> String {
    let mut json = Vec::new();
    projected.write_json(&mut json);
    String::from_utf8(json).unwrap()
}

/// The overview that a listing shows of a session.
pub(crate) fn listed(sessions: &[Snapshot], id: &str) -> Option<Overview> {
    let id = Text::from(id);
    let is_it = |one: &&Snapshot| one.header.as_ref().is_some_and(|header| *header.id() == id);
    sessions.iter().find(is_it).and_then(Snapshot::overview)
}
