//! The file store on a disk that fails, as a backend with every hook it can have.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backend::{Backend, Crash, NotOffered, Offered, Settings, Step, Storage, Tear};
use crate::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
use crate::container::disk::{Disk as _, OsDisk};
use crate::container::{Batch, Encoding, LEVEL_DEFAULT, LogId, RowMark, TRAILER_LEN, create};
use crate::json::Text;
use crate::store::layout::{log_name, session_dir_name, session_path};
use crate::store::{FileStore, SessionPersistence, StoreOptions};
use crate::units::Generation;

/// Where the sessions of a [`FaultFiles`] storage stand on its disk.
const ROOT: &str = "/store";

/// The system's numbers for a disk that failed and one that is full.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// [`FileStore`] on a [`FaultDisk`], in one encoding.
#[derive(Clone, Copy, Debug)]
pub struct FaultFiles {
    encoding: Encoding,
}

impl FaultFiles {
    /// New sessions have this encoding.
    #[must_use]
    pub const fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl Backend for FaultFiles {
    fn name(&self) -> String {
        format!("files, {}, on a disk that fails", self.encoding)
    }

    fn storage(&self) -> Box<dyn Storage> {
        Box::new(FaultRoot { disk: FaultDisk::new(), encoding: self.encoding })
    }
}

/// [`FileStore`] on the real disk, in one encoding. Nothing fails there on request.
#[derive(Clone, Debug)]
pub struct RealFiles {
    folder: PathBuf,
    encoding: Encoding,
}

impl RealFiles {
    /// Every storage is a new folder of a random name in `folder`. Removing them is the caller's business.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, encoding: Encoding) -> Self {
        Self { folder: folder.into(), encoding }
    }
}

impl Backend for RealFiles {
    fn name(&self) -> String {
        format!("files, {}, on the real disk", self.encoding)
    }

    fn storage(&self) -> Box<dyn Storage> {
        let number = getrandom::u64().expect("the system has random numbers");
        Box::new(RealRoot { root: self.folder.join(format!("{number:016x}")), encoding: self.encoding })
    }
}

#[derive(Debug)]
struct RealRoot {
    root: PathBuf,
    encoding: Encoding,
}

impl Storage for RealRoot {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        let options = StoreOptions { encoding: self.encoding, ..StoreOptions::default() };
        Arc::new(FileStore::with_options(&self.root, options))
    }

    fn instance_with(&self, settings: Settings) -> Offered<Arc<dyn SessionPersistence>> {
        Ok(Arc::new(FileStore::with_options(&self.root, options(self.encoding, settings))))
    }

    fn remove(&self, id: &Text) -> Offered<()> {
        let store = FileStore::new(&self.root);
        let folder = store.folder_of(id).map_err(|error| NotOffered::because(error.to_string()))?;
        for log in folder.logs {
            OsDisk::new()
                .remove_file(&folder.path.join(log.name))
                .map_err(|error| NotOffered::because(error.to_string()))?;
        }
        Ok(())
    }
}

fn options(encoding: Encoding, settings: Settings) -> StoreOptions {
    let Settings { durability, admission } = settings;
    StoreOptions { encoding, durability, admission, ..StoreOptions::default() }
}

/// A root on a disk that loses and refuses on request.
#[derive(Debug)]
struct FaultRoot {
    disk: FaultDisk,
    encoding: Encoding,
}

impl FaultRoot {
    fn name(&self) -> String {
        log_name(Generation::CURRENT, self.encoding)
    }

    /// The log of a session, if it is stored. Not a call of the disk, so no step that fails meets it.
    fn log(&self, id: &Text) -> Option<PathBuf> {
        let end = Path::new(&session_dir_name(id)?).join(self.name());
        self.disk.paths().into_iter().find(|path| path.ends_with(&end))
    }

    fn put(&self, id: &Text, bytes: &[u8]) -> Offered<()> {
        let new = || Some(session_path(Path::new(ROOT), None, id)?.join(self.name()));
        let path = self.log(id).or_else(new).ok_or_else(|| NotOffered::because("no folder has that name"))?;
        self.disk.plant(path, bytes);
        Ok(())
    }

    fn bytes(&self, id: &Text) -> Option<Vec<u8>> {
        self.disk.content(self.log(id)?)
    }
}

impl Storage for FaultRoot {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        let options = options(self.encoding, Settings::default());
        Arc::new(FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options))
    }

    fn instance_with(&self, settings: Settings) -> Offered<Arc<dyn SessionPersistence>> {
        let options = options(self.encoding, settings);
        Ok(Arc::new(FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options)))
    }

    fn after(&self, crash: Crash) -> Offered<Box<dyn Storage>> {
        let disk = match crash {
            Crash::Killed => self.disk.kill_image(),
            Crash::PowerLoss { seed: 0 } => self.disk.crash_image(0, FileLoss::DropUnsynced),
            Crash::PowerLoss { seed } => self.disk.crash_image(seed, FileLoss::RandomSectors),
        };
        Ok(Box::new(Self { disk, encoding: self.encoding }))
    }

    fn artifact(&self, id: &Text) -> Offered<Option<Vec<u8>>> {
        Ok(self.bytes(id))
    }

    fn replace(&self, id: &Text, bytes: &[u8]) -> Offered<()> {
        self.put(id, bytes)
    }

    fn plant(&self, id: &Text, header: &[u8], rows: &[&[u8]]) -> Offered<()> {
        let refused = |fault| NotOffered::because(format!("no container holds that: {fault}"));
        let number = LogId::new(7).expect("7 is not 0");
        let mut bytes = Vec::new();
        let header = [header, b"\n"].concat();
        let mut writer =
            create(self.encoding, number, &header, 0, LEVEL_DEFAULT, &mut bytes).map_err(refused)?;
        let (mut content, mut marks) = (Vec::new(), Vec::new());
        for row in rows {
            content.extend_from_slice(row);
            content.push(b'\n');
            marks.push(RowMark { end: content.len(), events: 1, last_time: 0 });
        }
        if !rows.is_empty() {
            writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).map_err(refused)?;
        }
        self.put(id, &bytes)
    }

    /// The log's last append is taken to have 900 bytes or more.
    fn tear(&self, id: &Text, tear: Tear) -> Offered<()> {
        let mut bytes = self.bytes(id).ok_or_else(|| NotOffered::because("nothing is stored"))?;
        let kept = match tear {
            Tear::LastRecord(place) => {
                // In the last byte, in the trailer, at its border, and in the rows.
                let missing = match place.rem_euclid(7) {
                    0 => 1,
                    1 => 5,
                    2 => TRAILER_LEN.saturating_sub(1),
                    3 => TRAILER_LEN,
                    4 => TRAILER_LEN.saturating_add(1),
                    5 => 300,
                    _ => 899,
                };
                bytes.len().saturating_sub(missing)
            }
            Tear::Between => match self.encoding {
                Encoding::Plain => bytes.len().saturating_sub(30),
                Encoding::Indexed => second_last_end(&bytes)
                    .ok_or_else(|| NotOffered::because("the last append is one segment"))?
                    .saturating_add(30),
                Encoding::Zstd => {
                    return Err(NotOffered::because("a frame is served whole or not at all"));
                }
            },
        };
        bytes.truncate(kept);
        self.put(id, &bytes)
    }

    fn remove(&self, id: &Text) -> Offered<()> {
        // A call of the disk, but of a kind that no step is.
        self.log(id).map_or(Ok(()), |log| {
            self.disk.remove_file(&log).map_err(|error| NotOffered::because(error.to_string()))
        })
    }

    fn fail_next(&self, step: Step) -> Offered<()> {
        // Some of the bytes have landed, and are taken back.
        let failure = if step == Step::Write { Failure::Partial(33, ENOSPC) } else { Failure::Error(EIO) };
        self.disk.fail_next(call_of(step), failure);
        Ok(())
    }

    fn before_next(&self, step: Step, action: Box<dyn FnOnce() + Send>) -> Offered<()> {
        self.disk.before_next(call_of(step), |_| action());
        Ok(())
    }

    fn reads(&self) -> Offered<u64> {
        let is_look = |kind| matches!(kind, OpKind::Open | OpKind::ReadAt);
        Ok(self.disk.trace().iter().filter(|op| is_look(op.kind)).map(|_| 1).sum())
    }

    fn parses(&self) -> Offered<u64> {
        Err(NotOffered::because("no parsed logs are kept"))
    }
}

/// The call of a disk that makes a step up, or that every such step makes.
const fn call_of(step: Step) -> OpKind {
    match step {
        Step::Write => OpKind::Append,
        Step::Sync => OpKind::SyncData,
        Step::Publish => OpKind::Link,
        Step::Repair => OpKind::Truncate,
        Step::Lock => OpKind::Lock,
        Step::Unlock => OpKind::Unlock,
        Step::Look | Step::Read => OpKind::Open,
        Step::List => OpKind::ReadDir,
    }
}

/// End of the last but one segment, if the last append has more than one.
fn second_last_end(bytes: &[u8]) -> Option<usize> {
    // A skippable frame of 56 bytes, and its payload's magic.
    let head = [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0, b'S', b'L'];
    let mut ends = bytes
        .windows(head.len())
        .enumerate()
        .filter(|(_, window)| *window == head)
        .filter_map(|(at, _)| at.checked_add(TRAILER_LEN));
    let _last = ends.next_back()?;
    let end = ends.next_back()?;
    // Offset 3 of the payload holds the flags, bit 0 of which ends an append.
    let flags = bytes.get(end.checked_sub(TRAILER_LEN)?.checked_add(11)?)?;
    (flags & 1 == 0).then_some(end)
}
