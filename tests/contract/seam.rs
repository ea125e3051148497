//! What a rule runs on.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::Result;
use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{CrashPolicy, FaultDisk, FileLoss, OpKind};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::{
    FileHandle, FileStore, LogFile, ReadMode, ScanOptions, SessionAccess, StoreOptions, Verdict, scan,
};

use crate::common::sessions::{append, header, options, options_on_flush, read_all, rows_by};

pub(crate) const ROOT: &str = "/store";
/// The system's numbers for a disk that failed and one that is full.
pub(crate) const EIO: i32 = 5;
pub(crate) const ENOSPC: i32 = 28;

/// A root on a disk that loses and refuses on request.
#[derive(Debug)]
pub(crate) struct Seam {
    pub(crate) disk: FaultDisk,
    pub(crate) encoding: Encoding,
}

impl Seam {
    /// An empty root.
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { disk: FaultDisk::new(), encoding }
    }

    /// A store of its own on the root: another instance, as in another process.
    pub(crate) fn instance(&self) -> FileStore {
        self.with(options(self.encoding))
    }

    /// As [`Seam::instance`], with appends that wait for a flush to be durable.
    pub(crate) fn lazy_instance(&self) -> FileStore {
        self.with(options_on_flush(self.encoding))
    }

    pub(crate) fn with(&self, options: StoreOptions) -> FileStore {
        FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options)
    }

    /// The same root after all processes were killed.
    pub(crate) fn killed(&self) -> Self {
        Self { disk: self.disk.kill_image(), encoding: self.encoding }
    }

    /// The same root after a power loss.
    pub(crate) fn after_loss(&self, seed: u64, policy: impl Into<CrashPolicy>) -> Self {
        Self { disk: self.disk.crash_image(seed, policy), encoding: self.encoding }
    }

    /// Stores session `id` with one batch after the other, and closes it.
    pub(crate) fn store(&self, id: &str, batches: &[Vec<String>]) {
        let handle = self.instance().create(header(id), None).unwrap();
        handle.flush().unwrap();
        for batch in batches {
            append(&handle, batch).unwrap();
        }
        handle.close().unwrap();
    }

    /// Stores session `s` with `events` small events, and closes it.
    pub(crate) fn store_small(&self, events: u64) -> Vec<String> {
        let rows = rows_by("stored", 0..events);
        self.store("s", std::slice::from_ref(&rows));
        rows
    }

    pub(crate) fn open(&self, id: &str, access: SessionAccess) -> Result<Arc<FileHandle>> {
        self.instance().open(&Text::from(id), access)
    }

    /// What a new reader of session `s` sees.
    pub(crate) fn read(&self) -> Vec<String> {
        read_all(&self.open("s", SessionAccess::Read).unwrap()).unwrap()
    }

    /// Path of the log of a session without a working directory.
    pub(crate) fn log_of(&self, id: &str) -> PathBuf {
        Path::new(ROOT).join("_no-cwd").join(id).join(format!("session.v2{}", self.encoding.suffix()))
    }

    /// Path of the log of session `s`.
    pub(crate) fn log(&self) -> PathBuf {
        self.log_of("s")
    }

    /// Bytes of the log of session `s`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.disk.content(self.log()).expect("the log is there")
    }

    /// Puts other bytes in the place of the log of session `s`: another file.
    pub(crate) fn replace(&self, bytes: &[u8]) {
        self.disk.plant(self.log(), bytes);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let log = LogFile::open(&disk, &self.log(), Limits::DEFAULT, ReadMode::Read).unwrap();
        scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).unwrap().verdict
    }

    /// Whether any call of that kind was made since the trace was last forgotten.
    pub(crate) fn saw(&self, kind: OpKind) -> bool {
        self.disk.trace().iter().any(|op| op.kind == kind)
    }

    /// Everything durable, and nothing else.
    pub(crate) fn durable(&self) -> Self {
        self.after_loss(0, FileLoss::DropUnsynced)
    }
}

/// Runs a rule once per encoding.
pub(crate) fn for_each(rule: fn(&Seam)) {
    for encoding in Encoding::ALL {
        // Shown with the failure, if there is one.
        println!("in {encoding}");
        rule(&Seam::new(encoding));
    }
}

/// Makes a test of each rule.
macro_rules! once_per_encoding {
    ($($rule:ident,)*) => {
        mod each {
            $(
                #[test]
                fn $rule() {
                    crate::seam::for_each(super::$rule);
                }
            )*
        }
    };
}
pub(crate) use once_per_encoding;
