//! Does a follower deliver the committed log, each event once, whatever is done to the file meanwhile?

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::sessions::{CREATED_AT, append, fat_rows_by, header, options, read_all, row_by, row_of, rows_by};
use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::disk::{Access, Disk, OsDisk};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::{
    Cause, CompactOptions, FileStore, Folder, Follower, SessionAccess, Start, Update, Watch, compact, rehome,
    remove,
};
use seslog::units::{Generation, UnixMs};

const ID: &str = "s";

/// What a consumer makes of the updates.
#[derive(Default)]
struct Consumer {
    first: u64,
    rows: Vec<String>,
    begun: Vec<Cause>,
    gone: u64,
}

impl Consumer {
    fn take(&mut self, update: Update) {
        match update {
            Update::Begin(beginning) => {
                self.rows.clear();
                self.first = beginning.first_seq;
                self.begun.push(beginning.cause);
            }
            Update::Events { first_seq, events } => {
                assert_eq!(first_seq, self.first + self.rows.len() as u64, "neither a gap nor a repetition");
                assert!(!events.is_empty());
                for (index, event) in events.iter().enumerate() {
                    assert_eq!(event.seq().get(), first_seq + index as u64);
                }
                self.rows.extend(events.rows().map(|row| String::from_utf8(row.to_vec()).unwrap()));
            }
            Update::Gone => self.gone += 1,
            other => panic!("{other:?}"),
        }
    }

    fn drain(&mut self, follower: &mut Follower) {
        while let Some(update) = follower.poll().unwrap() {
            self.take(update);
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// A session and everything that may happen to it.
struct World {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    encoding: Encoding,
    random: Random,
    /// Events of the session that stands there, stored ones and those of an append that was cut short included.
    next: u64,
    created_at: i64,
    lives: usize,
    steps: Vec<&'static str>,
}

impl World {
    fn store_on(&self, disk: Arc<dyn Disk>) -> FileStore {
        FileStore::on_disk(disk, &self.root, options(self.encoding))
    }

    fn store(&self) -> FileStore {
        self.store_on(Arc::clone(&self.disk))
    }

    fn folder(&self) -> Option<Folder> {
        match self.store().folder_of(&Text::from(ID)) {
            Ok(folder) => Some(folder),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn log_path(&self) -> PathBuf {
        let folder = self.folder().expect("the session is stored");
        folder.path.join(&folder.current().unwrap().unwrap().name)
    }

    fn content(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.stamp().unwrap().size).unwrap()];
        file.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    fn create(&mut self) {
        self.created_at += 1;
        self.lives += 1;
        self.next = 0;
        if self.random.below(3) == 0 {
            self.create_older();
            return;
        }
        let header = Header::new(Generation::V2, Text::from(ID), UnixMs::new(self.created_at)).unwrap();
        let handle = self.store().create(header, None).unwrap();
        append(&handle, &rows_by("a", 0..1)).unwrap();
        handle.close().unwrap();
        self.next = 1;
    }

    /// A log of generation 1, as another program leaves it.
    fn create_older(&mut self) {
        let folder = self.root.join("_no-cwd").join(ID);
        for folder in [self.root.clone(), self.root.join("_no-cwd"), folder.clone()] {
            self.disk.create_dir(&folder).unwrap();
        }
        let created_at = self.created_at;
        let mut text = format!(
            "{{\"type\":\"session\",\"version\":1,\"id\":\"{ID}\",\"createdAt\":{created_at},\"delegationDepth\":0}}\n"
        );
        self.next = 1 + self.random.below(5);
        for seq in 0..self.next {
            text.push_str(&row_of("plan/mode", seq, "{\"active\":true}"));
            text.push('\n');
        }
        let file = self.disk.create_new(&folder.join("session.v1.jsonl")).unwrap();
        file.append_all(text.as_bytes()).unwrap();
    }

    /// Some new rows: a few, or more than a segment holds.
    fn new_rows(&mut self) -> Vec<String> {
        if self.random.below(24) == 0 {
            let count = 27 + self.random.below(8);
            fat_rows_by("fat", self.next..self.next + count, 400)
        } else {
            let count = 1 + self.random.below(4);
            (self.next..self.next + count).map(|seq| row_by("a", seq, 40)).collect()
        }
    }

    fn append(&mut self) {
        let handle = self.store().open(&Text::from(ID), SessionAccess::Write).unwrap();
        self.next = handle.next_seq().unwrap();
        for _ in 0..=self.random.below(3) {
            let rows = self.new_rows();
            append(&handle, &rows).unwrap();
            self.next += rows.len() as u64;
        }
        handle.close().unwrap();
    }

    /// An append whose process is killed in the middle of it.
    fn kill(&mut self) {
        let path = self.log_path();
        if !path.to_string_lossy().contains(".v2.") {
            return;
        }
        let before = self.content(&path);
        let scratch = FaultDisk::new();
        scratch.plant(&path, &before);
        let store = self.store_on(Arc::new(scratch.clone()));
        let Ok(handle) = store.open(&Text::from(ID), SessionAccess::Write) else { return };
        self.next = handle.next_seq().unwrap();
        append(&handle, &self.new_rows()).unwrap();
        handle.close().unwrap();
        let after = scratch.content(&path).unwrap();
        let Some(new) = after.strip_prefix(&before[..]) else { return };
        let len = usize::try_from(self.random.below(new.len() as u64 + 1)).unwrap();
        self.disk.open(&path, Access::Append).unwrap().append_all(&new[..len]).unwrap();
    }

    /// A copy is put in the log's place.
    fn replace(&mut self) {
        let path = self.log_path();
        let draft = path.with_file_name("copy");
        let file = self.disk.create_new(&draft).unwrap();
        file.append_all(&self.content(&path)).unwrap();
        self.disk.rename(&draft, &path).unwrap();
    }

    fn compact(&mut self) {
        let options = CompactOptions::default();
        match compact(&self.disk, &self.log_path(), &options, &mut |_| {}) {
            Ok(_) => {}
            // Not sound, or plain: left alone.
            Err(Error::TornTail { .. } | Error::InvalidArgument { .. } | Error::IdentityMismatch { .. }) => {}
            Err(error) if error.to_string().contains("generation") => {}
            Err(error) => panic!("{error}: {error:?}"),
        }
    }

    fn rehome(&mut self) {
        let cwd = format!("/w/{}", self.random.below(3));
        let folder = self.folder().unwrap().path;
        match rehome(&self.disk, &self.root, &folder, &Text::from(&*cwd), false) {
            Ok(_) | Err(Error::TornTail { .. }) => {}
            Err(error) => panic!("{error}: {error:?}"),
        }
    }

    fn step(&mut self) {
        let exists = self.folder().is_some();
        let step = if exists { self.random.below(16) } else { 15 };
        self.steps.push(match step {
            0..5 => "append",
            5..9 => "kill",
            9 | 10 => "replace",
            11 | 12 => "compact",
            13 => "rehome",
            14 => "remove",
            _ if exists => "append",
            _ => "create",
        });
        match *self.steps.last().unwrap() {
            "append" => self.append(),
            "kill" => self.kill(),
            "replace" => self.replace(),
            "compact" => self.compact(),
            "rehome" => self.rehome(),
            "remove" => {
                let folder = self.folder().unwrap().path;
                remove(&*self.disk, &folder, false).unwrap();
            }
            _ => self.create(),
        }
    }
}

fn follow_through(disk: Arc<dyn Disk>, root: &Path, encoding: Encoding, seed: u64, steps: usize) {
    let mut world = World {
        disk,
        root: root.to_path_buf(),
        encoding,
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        next: 0,
        created_at: CREATED_AT,
        lives: 0,
        steps: Vec::new(),
    };
    let id = Text::from(ID);
    let mut follower = world.store().follow(&id, Start::Seq(0)).with_batch_bytes(20_000);
    let mut seen = Consumer::default();
    let mut began = 0;
    for _ in 0..steps {
        world.step();
        // Sometimes several things happen between two looks, and sometimes one look is not enough for all that is new.
        for _ in 0..world.random.below(4) {
            if let Some(update) = follower.poll().unwrap() {
                seen.take(update);
            }
        }
        if world.random.below(6) > 0 || world.folder().is_none() {
            continue;
        }
        world.append();
        seen.drain(&mut follower);
        let truth = read_all(&world.store().open(&id, SessionAccess::Read).unwrap()).unwrap();
        let last = &world.steps[world.steps.len().saturating_sub(12)..];
        assert!(
            seen.rows == truth,
            "{encoding:?} seed {seed} behind {last:?}: {} rows for {}",
            seen.rows.len(),
            truth.len()
        );
        // Only another session begins a delivery anew: nothing that was done to this one did.
        assert!(
            seen.begun.len() <= world.lives,
            "{encoding:?} seed {seed} behind {last:?}: {:?}",
            seen.begun
        );
        assert!(seen.begun.iter().skip(1).all(|cause| *cause == Cause::OtherSession), "{:?}", seen.begun);
        began = seen.begun.len();
    }
    assert!(began > 1, "the session was created again and again: {began}");
}

#[test]
fn a_log_that_is_killed_replaced_repaired_migrated_compacted_moved_and_recreated_is_delivered_once() {
    for encoding in [Encoding::Indexed, Encoding::Zstd, Encoding::Plain] {
        for seed in 1..=2 {
            let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new());
            follow_through(disk, Path::new("/store"), encoding, seed, 500);
        }
    }
}

#[test]
fn on_the_real_file_system_too() {
    for encoding in [Encoding::Indexed, Encoding::Zstd, Encoding::Plain] {
        let dir = tempfile::tempdir().unwrap();
        follow_through(Arc::new(OsDisk::new()), &dir.path().join("store"), encoding, 7, 150);
    }
}

#[test]
fn a_writer_on_another_thread_is_followed_from_before_its_folder_exists() {
    for encoding in [Encoding::Indexed, Encoding::Zstd, Encoding::Plain] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("not/yet");
        let store = FileStore::with_options(&root, options(encoding));
        let mut follower = store.follow(&Text::from(ID), Start::Seq(0));
        let mut seen = Consumer::default();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                let handle =
                    FileStore::with_options(&root, options(encoding)).create(header(ID), None).unwrap();
                for seq in 0..300 {
                    let rows = if seq % 50 == 0 {
                        fat_rows_by("a", seq..seq + 1, 9000)
                    } else {
                        rows_by("a", seq..seq + 1)
                    };
                    append(&handle, &rows).unwrap();
                }
                handle.close().unwrap();
                is_done.store(true, Ordering::Release);
            });
            let mut watch = Watch::new(Some(Duration::from_millis(50)));
            while !is_done.load(Ordering::Acquire) {
                seen.drain(&mut follower);
                watch.wait(follower.watched());
            }
        });
        seen.drain(&mut follower);
        assert_eq!(seen.rows.len(), 300);
        assert_eq!(seen.rows, read_all(&store.open(&Text::from(ID), SessionAccess::Read).unwrap()).unwrap());
        assert_eq!(seen.begun, [Cause::First]);
    }
}

#[test]
fn an_append_without_its_commit_is_not_delivered_and_the_next_append_commits_it() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = FileStore::on_disk(Arc::clone(&shared), "/store", options(Encoding::Indexed));
    let path = Path::new("/store/_no-cwd/s/session.v2.jsonl.zst");
    let handle = store.create(header(ID), None).unwrap();
    append(&handle, &rows_by("a", 0..3)).unwrap();
    let short = disk.content(path).unwrap().len();
    append(&handle, &fat_rows_by("a", 3..150, 400)).unwrap();
    handle.close().unwrap();
    let whole = disk.content(path).unwrap();

    let mut follower = Follower::at(Arc::clone(&shared), path, Start::Seq(0), Limits::DEFAULT);
    let mut seen = Consumer::default();
    disk.open(path, Access::Repair).unwrap().truncate(short as u64).unwrap();
    seen.drain(&mut follower);
    assert_eq!(seen.rows.len(), 3);
    // Byte by byte would take long; every sector and both sides of it do.
    let file = disk.open(path, Access::Append).unwrap();
    for piece in whole[short..].chunks(511) {
        seen.drain(&mut follower);
        assert_eq!(seen.rows.len(), 3, "the append has no end yet");
        file.append_all(piece).unwrap();
    }
    seen.drain(&mut follower);
    assert_eq!(seen.rows.len(), 150);

    // The same, and the writer dies behind the last whole segment of it.
    let cut = whole.len() - 64;
    file.truncate(cut as u64).unwrap();
    let mut late = Consumer::default();
    let mut second = Follower::at(shared, path, Start::Seq(0), Limits::DEFAULT);
    late.drain(&mut second);
    assert_eq!(late.rows.len(), 3);
    let handle = store.open(&Text::from(ID), SessionAccess::Write).unwrap();
    let next = handle.next_seq().unwrap();
    assert!((4..150).contains(&next), "{next}: some of it is kept");
    append(&handle, &rows_by("b", next..next + 1)).unwrap();
    late.drain(&mut second);
    assert_eq!(late.rows, read_all(&handle).unwrap());
    assert_eq!(late.begun, [Cause::First]);
}

#[test]
fn a_start_at_a_seq_or_so_many_before_the_end_is_kept_through_a_replacement() {
    for encoding in [Encoding::Indexed, Encoding::Zstd, Encoding::Plain] {
        let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new());
        let store = FileStore::on_disk(Arc::clone(&disk), "/store", options(encoding));
        let handle = store.create(header(ID), None).unwrap();
        for seq in 0..40 {
            append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
        }
        let id = Text::from(ID);
        let starts = [
            (Start::Seq(30), 30),
            (Start::Seq(45), 45),
            (Start::Last(4), 36),
            (Start::Last(0), 40),
            (Start::Last(99), 0),
        ];
        let mut all: Vec<_> = starts
            .map(|(start, first)| (store.follow(&id, start), Consumer::default(), first))
            .into_iter()
            .collect();
        for (follower, seen, first) in &mut all {
            seen.drain(follower);
            assert_eq!(seen.first, *first);
            assert_eq!(seen.rows, rows_by("a", (*first).min(40)..40));
        }
        append(&handle, &rows_by("a", 40..41)).unwrap();
        for (follower, seen, first) in &mut all {
            seen.drain(follower);
            assert_eq!(seen.rows, rows_by("a", (*first).min(41)..41));
        }
        handle.close().unwrap();
        let path = store.folder_of(&id).unwrap().path.join(format!("session.v2{}", encoding.suffix()));
        let _plain_has_none = compact(&disk, &path, &CompactOptions::default(), &mut |_| {});
        let handle = store.open(&id, SessionAccess::Write).unwrap();
        append(&handle, &rows_by("a", 41..50)).unwrap();
        for (follower, seen, first) in &mut all {
            seen.drain(follower);
            assert_eq!(seen.rows, rows_by("a", *first..50), "{encoding:?} from {first}");
            assert_eq!(seen.begun, [Cause::First]);
        }
    }
}

#[test]
fn other_rows_in_the_place_of_delivered_ones_begin_the_delivery_anew() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = FileStore::on_disk(Arc::clone(&shared), "/store", options(Encoding::Plain));
    let handle = store.create(header(ID), None).unwrap();
    append(&handle, &rows_by("a", 0..5)).unwrap();
    let mut follower = store.follow(&Text::from(ID), Start::Seq(0));
    let mut seen = Consumer::default();
    seen.drain(&mut follower);
    handle.close().unwrap();
    // An append that was not acknowledged is undone, and another one of the same length stands in its place.
    let path = Path::new("/store/_no-cwd/s/session.v2.jsonl");
    let content = disk.content(path).unwrap();
    let other = String::from_utf8(content).unwrap().replacen("\"seq\":4", "\"seq\":4", 1);
    let at = other.rfind("\"by\":\"a\"").unwrap();
    disk.open(path, Access::Repair).unwrap().write_at(at as u64, b"\"by\":\"b\"").unwrap();
    seen.drain(&mut follower);
    assert_eq!(seen.begun, [Cause::First, Cause::OtherEvents]);
    assert_eq!(seen.rows, read_all(&store.open(&Text::from(ID), SessionAccess::Read).unwrap()).unwrap());
    // Fewer rows than were delivered.
    disk.open(path, Access::Repair).unwrap().truncate(other[..at].rfind('\n').unwrap() as u64 + 1).unwrap();
    seen.drain(&mut follower);
    assert_eq!(seen.begun.len(), 3);
    assert_eq!(seen.rows, rows_by("a", 0..4));
}

#[test]
fn damage_is_told_once_when_it_lasts_and_what_is_mended_is_delivered() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = FileStore::on_disk(Arc::clone(&shared), "/store", options(Encoding::Zstd));
    let handle = store.create(header(ID), None).unwrap();
    for seq in 0..9 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
    }
    let path = Path::new("/store/_no-cwd/s/session.v2.jsonl.zstd");
    let whole = disk.content(path).unwrap();
    let middle = whole.len() / 2;
    disk.open(path, Access::Repair).unwrap().write_at(middle as u64, &[!whole[middle]]).unwrap();
    let mut follower = store.follow(&Text::from(ID), Start::Seq(0));
    let mut seen = Consumer::default();
    seen.drain(&mut follower);
    let sound = seen.rows.len();
    assert!((1..9).contains(&sound), "{sound}");
    disk.set_clock_ns(disk.now_ns() + 1_000_000_000);
    let error = follower.poll().unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    assert!(follower.poll().unwrap().is_none(), "once");
    disk.open(path, Access::Repair).unwrap().write_at(middle as u64, &[whole[middle]]).unwrap();
    seen.drain(&mut follower);
    assert_eq!(seen.rows, rows_by("a", 0..9));
    assert_eq!(seen.begun, [Cause::First]);
}
