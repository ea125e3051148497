//! A listing says the same with a catalog and without, whatever has happened to the root in between.

mod common;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::sessions::{append, header, options, rows_by};
use seslog::container::Encoding;
use seslog::container::disk::{Access, Disk, DiskFile, Entry, LockAttempt, LockOwner, OsDisk, Stamp};
use seslog::json::Text;
use seslog::store::{Catalog, CompactOptions, FileStore, MigrateOptions, SessionAccess, compact, migrate};

/// The real file system, as it will look an hour later: everything on it has been quiet for long.
///
/// Otherwise a test would have to wait two seconds before each listing to see the catalog used at all. It waits for the tick of
/// the file system's clock instead.
#[derive(Debug)]
struct Later(OsDisk);

const HOUR_NS: i128 = 3_600_000_000_000;
const TICK: Duration = Duration::from_millis(12);

impl Disk for Later {
    fn now_ns(&self) -> i128 {
        self.0.now_ns() + HOUR_NS
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(path, access)
    }

    fn open_stamped(&self, path: &Path, access: Access) -> io::Result<(Box<dyn DiskFile>, Stamp)> {
        self.0.open_stamped(path, access)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.create_new(path)
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        self.0.stamp(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.0.read_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<bool> {
        self.0.create_dir(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<LockAttempt> {
        self.0.lock(path)
    }

    fn lock_owner(&self, path: &Path) -> io::Result<Option<LockOwner>> {
        self.0.lock_owner(path)
    }
}

struct Root {
    folder: tempfile::TempDir,
    disk: Arc<dyn Disk>,
}

impl Root {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder, disk: Arc::new(Later(OsDisk::new())) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn store(&self, encoding: Encoding) -> FileStore {
        FileStore::on_disk(Arc::clone(&self.disk), self.path(), options(encoding))
    }

    fn listed(&self) -> FileStore {
        let catalog = Catalog::in_folder(self.folder.path().join("cache"));
        self.store(Encoding::Indexed).with_catalog(catalog)
    }

    fn check(&self, after: &str) {
        thread::sleep(TICK);
        // The first one reads what has changed, and keeps it; the second is of the catalog alone.
        let without = shown(&self.store(Encoding::Indexed));
        assert_eq!(shown(&self.listed()), without, "{after}");
        assert_eq!(shown(&self.listed()), without, "{after}");
        thread::sleep(TICK);
    }

    /// Folders of sessions, sorted.
    fn sessions(&self) -> Vec<PathBuf> {
        let children = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let projects = children(&self.path()).filter(|path| path.is_dir() && !path.is_symlink());
        let mut found: Vec<PathBuf> = projects.flat_map(|path| children(&path).collect::<Vec<_>>()).collect();
        found.sort();
        found
    }
}

fn shown(store: &FileStore) -> String {
    let mut sessions = store.list().unwrap();
    sessions.sort_by(|a, b| a.path.cmp(&b.path));
    sessions.iter().fold(String::new(), |mut text, one| {
        writeln!(text, "{one:?}").unwrap();
        text
    })
}

/// A small generator of numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// The newest log in a session's folder.
fn log_in(folder: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().file_name());
    let mut logs: Vec<OsString> = names.filter(|name| name.to_string_lossy().contains(".jsonl")).collect();
    logs.sort();
    logs.pop().map(|name| folder.join(name))
}

/// Does something to the root that its owner, an agent, a backup or a sync tool may do. What, in words.
fn mutate(root: &Root, rng: &mut Rng, step: u64) -> String {
    let sessions = root.sessions();
    let encoding = Encoding::ALL[rng.below(3)];
    let pick = if sessions.is_empty() { None } else { Some(&sessions[rng.below(sessions.len())]) };
    let (Some(folder), what) = (pick, rng.below(16)) else {
        create(root, encoding, &format!("s{step}"));
        return "create".to_owned();
    };
    let log = log_in(folder);
    let told = |what: &str| format!("{what} {}", folder.display());
    match (what, log) {
        (0..=2, _) => create(root, encoding, &format!("s{step}")),
        (3 | 4, Some(_)) => {
            let store = root.store(encoding);
            if let Ok(handle) = store.open_folder(folder) {
                let next = handle.next_seq().unwrap();
                append(&handle, &rows_by("again", next..next + 2)).unwrap();
                handle.close().unwrap();
            }
        }
        (5, Some(log)) => {
            // A successor beside an older log.
            let header = br#"{"type":"session","version":1,"id":"old","createdAt":5,"delegationDepth":0}"#;
            let folder = root.path().join("_no-cwd").join("old");
            if !folder.exists() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("session.v1.jsonl"), [&header[..], b"\n"].concat()).unwrap();
                return "plant an older log".to_owned();
            }
            let _refused = migrate(&root.disk, &folder, &MigrateOptions::default());
            drop(log);
            return "migrate".to_owned();
        }
        (6, Some(log)) => {
            // Other bytes of the same length, and the old time put back.
            let times = fs::metadata(&log).unwrap();
            let mut bytes = fs::read(&log).unwrap();
            let at = rng.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            let mut file = File::options().write(true).open(&log).unwrap();
            file.write_all(&bytes).unwrap();
            file.set_times(FileTimes::new().set_modified(times.modified().unwrap())).unwrap();
            return told("flip a bit and put the time back in");
        }
        (7, Some(log)) => {
            let len = fs::metadata(&log).unwrap().len();
            let file = File::options().write(true).open(&log).unwrap();
            file.set_len(len - rng.below(40).min(len as usize) as u64).unwrap();
            return told("cut");
        }
        (8, Some(log)) => {
            // Replaced by a copy with its times.
            let copy = folder.join("copy");
            fs::copy(&log, &copy).unwrap();
            let times = fs::metadata(&log).unwrap().modified().unwrap();
            File::options()
                .write(true)
                .open(&copy)
                .unwrap()
                .set_times(FileTimes::new().set_modified(times))
                .unwrap();
            fs::rename(&copy, &log).unwrap();
            return told("replace by a copy");
        }
        (9, _) => {
            fs::remove_dir_all(folder).unwrap();
            if rng.below(2) == 0 {
                create(root, encoding, &folder.file_name().unwrap().to_string_lossy());
                return told("recreate");
            }
            return told("delete");
        }
        (10, Some(log)) => {
            let file = File::options().write(true).open(&log).unwrap();
            file.set_times(FileTimes::new().set_modified(std::time::SystemTime::now())).unwrap();
            return told("touch");
        }
        (11, _) => {
            let to = folder.with_file_name(format!("s{step}-moved"));
            fs::rename(folder, to).unwrap();
            return told("rename");
        }
        (12, _) => {
            // The whole folder again in another project: one id in two places.
            let other = root.path().join("--elsewhere--").join(folder.file_name().unwrap());
            if !other.exists() && folder != &other {
                fs::create_dir_all(&other).unwrap();
                for entry in fs::read_dir(folder).unwrap() {
                    let entry = entry.unwrap();
                    let to = other.join(entry.file_name());
                    fs::copy(entry.path(), &to).unwrap();
                    let times = entry.metadata().unwrap().modified().unwrap();
                    let file = File::options().write(true).open(to).unwrap();
                    file.set_times(FileTimes::new().set_modified(times)).unwrap();
                }
            }
            return told("copy");
        }
        (13, Some(log)) => {
            let _refused = compact(&root.disk, &log, &CompactOptions::default(), &mut |_| {});
            return told("compact");
        }
        (14, Some(log)) => {
            let mode = if rng.below(2) == 0 { 0o600 } else { 0o640 };
            fs::set_permissions(&log, fs::Permissions::from_mode(mode)).unwrap();
            return told("change the mode of");
        }
        (15, Some(log)) => {
            // The log somewhere else, and a link in its place.
            let away = root.folder.path().join(format!("away{step}"));
            fs::rename(&log, &away).unwrap();
            if rng.below(2) == 0 {
                std::os::unix::fs::symlink(&away, &log).unwrap();
            } else {
                fs::hard_link(&away, &log).unwrap();
            }
            return told("link");
        }
        _ => {
            let project = folder.parent().unwrap();
            fs::rename(project, root.path().join(format!("--moved{step}--"))).unwrap();
            return told("rename the project of");
        }
    }
    told("create or append beside")
}

fn create(root: &Root, encoding: Encoding, id: &str) {
    if let Ok(handle) = root.store(encoding).create(header(id), None) {
        append(&handle, &rows_by("first", 0..3)).unwrap();
        handle.close().unwrap();
    }
}

#[test]
fn after_any_mutation_of_the_root_both_listings_are_the_same() {
    for seed in [1, 2, 3] {
        let (root, mut rng) = (Root::new(), Rng(seed));
        root.check("nothing");
        for step in 0..60 {
            let what = mutate(&root, &mut rng, step);
            root.check(&format!("seed {seed}, step {step}: {what}"));
        }
    }
}

#[test]
fn listings_beside_a_writer_count_no_event_too_many_and_none_too_few() {
    let root = Root::new();
    // On the real clock: the log is never quiet, and its entry must never be trusted.
    let store = FileStore::with_options(root.path(), options(Encoding::Indexed));
    for id in 0..30 {
        create(&root, Encoding::Indexed, &format!("quiet{id}"));
    }
    let handle = store.create(header("busy"), None).unwrap();
    handle.flush().unwrap();
    let (begun, acked, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let listings: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !stop.load(Ordering::SeqCst) {
                        let catalog = Catalog::in_folder(root.folder.path().join("cache"));
                        let listed = FileStore::new(root.path()).with_catalog(catalog);
                        let before = acked.load(Ordering::SeqCst);
                        let sessions = listed.list().unwrap();
                        let after = begun.load(Ordering::SeqCst);
                        assert_eq!(sessions.len(), 31);
                        let is_busy = |id: &Text| id.as_str() == Some("busy");
                        let busy = sessions.iter().find(|one| is_busy(one.header.as_ref().unwrap().id()));
                        let count = busy.unwrap().event_count.unwrap();
                        assert!((before..=after).contains(&count), "{before} to {after}, not {count}");
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        for seq in 0..400 {
            begun.store(seq + 1, Ordering::SeqCst);
            append(&handle, &rows_by("busy", seq..seq + 1)).unwrap();
            acked.store(seq + 1, Ordering::SeqCst);
            if seq == 200 {
                // Long enough that the other sessions are kept.
                thread::sleep(Duration::from_millis(2100));
            }
        }
        stop.store(true, Ordering::SeqCst);
        let listings: u64 = listings.into_iter().map(|listing| listing.join().unwrap()).sum();
        assert!(listings > 10, "{listings} listings");
    });
    handle.close().unwrap();
    let cached = fs::read_dir(root.folder.path().join("cache")).unwrap().count();
    assert_eq!(cached, 1, "one catalog, and no left-over of any of its writers");
    let opened = store.open(&Text::from("busy"), SessionAccess::Read).unwrap();
    assert_eq!(opened.read(0, u64::MAX).unwrap().iter().count(), 400);
}
