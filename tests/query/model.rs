//! Whatever happens to logs behind a query, what it serves is what a fresh reader gets.
//!
//! `PROPTEST_CASES` (default 60) is the number of runs per encoding and in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use proptest::prelude::*;
use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::disk::{Access, Disk};
use seslog::row::{Check, Header};
use seslog::session::{Log, OpenTurn, Sessions};
use seslog::store::memory::RawLog;
use seslog::store::query::{Observation, Query, QueryFault, QueryOptions};
use seslog::store::{
    Cancel, CompactOptions, FileStore, MemoryStorage, MemoryStore, SessionAccess, SessionPersistence,
    compact, layout,
};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{header, options, row_by, rows_by};
use crate::stage::{
    ALL, Call, enough, id, io_error, message, never, rows, settings, turn_end, turn_start, watch,
};

const ROOT: &str = "/store";
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Fewer than there are sessions, and bytes for some of the larger ones or one more of the small ones.
const KEPT_MAX: usize = 3;
const KEPT_BYTES_MAX: usize = 6000;

/// One step. A session is one of the names, and numbers are taken modulo what is there.
#[derive(Clone, Debug)]
enum Op {
    Read(usize),
    /// Reads, and holds what was read.
    Hold(usize),
    LetGo(usize),
    /// Reads with a token that is cancelled at that call.
    Cancelled(usize, u8),
    /// Reads while the next call of that kind fails.
    Failing(usize, u8),
    Append(usize, u8),
    OpenTurn(usize),
    EndTurn(usize),
    /// Other rows of the same length in the same place, at the same moment of the clock where that can be.
    Rewrite(usize),
    /// Another log under the same name.
    Replace(usize, u8),
    Tear(usize, u8),
    Remove(usize),
    /// A log of an older generation, which the next write converts.
    Older(usize),
    Compact(usize),
    /// So much later that whatever changes from then on shows.
    Later,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let name = 0..NAMES.len();
    let op = prop_oneof![
        14 => name.clone().prop_map(Op::Read),
        5 => name.clone().prop_map(Op::Hold),
        3 => (0..8_usize).prop_map(Op::LetGo),
        1 => (name.clone(), any::<u8>()).prop_map(|(name, at)| Op::Cancelled(name, at)),
        1 => (name.clone(), any::<u8>()).prop_map(|(name, at)| Op::Failing(name, at)),
        4 => (name.clone(), 1..4_u8).prop_map(|(name, events)| Op::Append(name, events)),
        2 => name.clone().prop_map(Op::OpenTurn),
        1 => name.clone().prop_map(Op::EndTurn),
        3 => name.clone().prop_map(Op::Rewrite),
        2 => (name.clone(), 0..5_u8).prop_map(|(name, events)| Op::Replace(name, events)),
        2 => (name.clone(), 1..90_u8).prop_map(|(name, bytes)| Op::Tear(name, bytes)),
        1 => name.clone().prop_map(Op::Remove),
        2 => name.clone().prop_map(Op::Older),
        1 => name.prop_map(Op::Compact),
        6 => Just(Op::Later),
    ];
    prop::collection::vec(op, 1..60)
}

/// Where the logs are, and what may be done behind the query.
enum World {
    Files(FaultDisk, Encoding),
    Memory(MemoryStorage),
}

impl World {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        match self {
            Self::Files(disk, encoding) => {
                Arc::new(FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(*encoding)))
            }
            Self::Memory(storage) => Arc::new(MemoryStore::new(storage)),
        }
    }

    /// What is stored of a session, and the rows of closers behind it: by a reader of its own. `None` if there is none, or it
    /// cannot be read.
    fn fresh(&self, name: &str) -> Option<Vec<String>> {
        let reader = self.instance().open(&id(name), SessionAccess::Read, &never()).ok()?;
        let events = reader.read(0, u64::MAX, &never()).ok()?;
        let log = Log::of_rows(events.rows(), Check::Full, settings().limits()).unwrap();
        let closers = OpenTurn::of(&log).closers().into_iter();
        let text = |row: Vec<u8>| String::from_utf8(row).unwrap();
        Some(events.rows().map(<[u8]>::to_vec).chain(closers).map(text).collect())
    }

    /// Appends rows that are made for the seq at which they will stand; makes the session if there is none.
    fn append(&self, name: &str, rows: impl Fn(u64) -> Vec<String>) {
        let store = self.instance();
        let handle = store
            .open(&id(name), SessionAccess::Write, &never())
            .or_else(|_| store.create(header(name), None, &never()));
        // A log that was torn to less than its header is nobody's to write to.
        let Ok(handle) = handle else { return };
        let rows = rows(handle.next_seq().unwrap());
        handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &never()).unwrap();
        handle.close().unwrap();
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.instance().stat(&id(name), &never()).ok()??.path)
    }

    fn rewrite(&self, name: &str) {
        let swapped = |text: &str| {
            let (from, to) = if text.contains("\"by\":\"x\"") { ("x", "y") } else { ("y", "x") };
            text.replace(&format!("\"by\":\"{from}\""), &format!("\"by\":\"{to}\""))
        };
        match self {
            Self::Files(disk, Encoding::Plain) => {
                let Some(path) = self.path(name) else { return };
                let Some(text) = disk.content(&path).and_then(|bytes| String::from_utf8(bytes).ok()) else {
                    return;
                };
                let file = disk.open(&path, Access::Repair).unwrap();
                let at = file.stamp().unwrap().modified_ns;
                let now = disk.now_ns();
                // Within the tick that the last change was in, if that is still the present.
                if now - at < 1_000_000_000 {
                    disk.set_clock_ns(at - 1_000_000);
                }
                file.write_at(0, swapped(&text).as_bytes()).unwrap();
                disk.set_clock_ns(now);
            }
            // What is compressed has not one length whatever it holds; another inode with other rows does as well.
            Self::Files(..) => self.replace(name, 2),
            Self::Memory(storage) => {
                let Some(mut raw) = storage.raw(&id(name)) else { return };
                for row in &mut raw.rows {
                    *row = swapped(&String::from_utf8(row.clone()).unwrap()).into_bytes();
                }
                storage.plant(&id(name), &raw);
            }
        }
    }

    fn replace(&self, name: &str, events: u8) {
        self.remove(name);
        self.append(name, |_| rows_by("y", 0..u64::from(events)));
    }

    fn tear(&self, name: &str, bytes: u8) {
        match self {
            Self::Files(disk, _) => {
                let Some(path) = self.path(name) else { return };
                let file = disk.open(&path, Access::Repair).unwrap();
                let len = file.stamp().unwrap().size;
                file.truncate(len.saturating_sub(u64::from(bytes))).unwrap();
            }
            Self::Memory(storage) => {
                storage.tear(&id(name), 0, usize::from(bytes));
            }
        }
    }

    fn remove(&self, name: &str) {
        match self {
            Self::Files(disk, _) => {
                let folder = layout::session_path(Path::new(ROOT), None, &id(name)).unwrap();
                let mine = |path: &PathBuf| path.starts_with(&folder) && path.file_name().is_some();
                for path in disk.paths().into_iter().filter(mine) {
                    let _kept_if_it_is_the_folder = disk.remove_file(&path);
                }
            }
            Self::Memory(storage) => storage.remove(&id(name)),
        }
    }

    fn older(&self, name: &str) {
        let header = Header::new(Generation::V1, id(name), UnixMs::new(5)).unwrap();
        let mut line = Vec::new();
        header.write(&mut line);
        let log = [turn_start(0), message(1, "user")];
        self.remove(name);
        match self {
            Self::Files(disk, _) => {
                let folder = layout::session_path(Path::new(ROOT), None, &id(name)).unwrap();
                let name = layout::log_name(Generation::V1, Encoding::Plain);
                let text = format!("{}\n{}\n", String::from_utf8(line).unwrap(), log.join("\n"));
                disk.plant(folder.join(name), text.as_bytes());
            }
            Self::Memory(storage) => {
                let log: Vec<&[u8]> = log.iter().map(String::as_bytes).collect();
                storage.plant(&id(name), &RawLog::new(&line, &log));
            }
        }
    }

    fn compact(&self, name: &str) {
        if let (Self::Files(disk, _), Some(path)) = (self, self.path(name)) {
            let disk: Arc<dyn Disk> = Arc::new(disk.clone());
            let _refused_if_it_is_not_sound = compact(&disk, &path, &CompactOptions::default(), &mut |_| {});
        }
    }

    fn later(&self) {
        if let Self::Files(disk, _) = self {
            disk.set_clock_ns(disk.now_ns() + 3_000_000_000);
        }
    }
}

/// How often a log was read for so many calls.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    asked: u64,
    read: u64,
}

fn call_of(number: u8) -> Call {
    ALL[usize::from(number) % ALL.len()]
}

fn run(world: &World, ops: &[Op]) -> Tally {
    let (store, calls) = watch(world.instance());
    let mut options = QueryOptions::default();
    (options.kept_max, options.kept_bytes_max) = (KEPT_MAX, KEPT_BYTES_MAX);
    NAMES.iter().for_each(|name| world.append(name, |_| rows_by("x", 0..3)));
    world.later();
    let query = Query::new(store, &Sessions::new(settings()), options);
    let mut held: Vec<(Arc<Observation>, Vec<String>)> = Vec::new();
    let mut tally = Tally::default();
    for (number, op) in ops.iter().enumerate() {
        let mut read = |name: usize| {
            let (found, fresh) = (query.read(&id(NAMES[name]), &never()), world.fresh(NAMES[name]));
            tally.asked += u64::from(found.is_ok());
            let shown = found.as_ref().ok().map(|found| rows(found));
            assert_eq!(shown, fresh, "step {number}, {op:?}: {found:?}");
            found.ok()
        };
        match *op {
            Op::Read(name) => drop(read(name)),
            Op::Hold(name) => held.extend(read(name).map(|found| {
                let rows = rows(&found);
                (found, rows)
            })),
            Op::LetGo(which) => {
                if !held.is_empty() {
                    held.swap_remove(which % held.len());
                }
            }
            Op::Cancelled(name, at) => {
                let cancel = Cancel::new();
                let inner = cancel.clone();
                let cancelled = Arc::new(AtomicBool::new(false));
                let met = Arc::clone(&cancelled);
                calls.on(call_of(at), move || {
                    inner.cancel(enough());
                    met.store(true, Ordering::Relaxed);
                    Ok(())
                });
                let found = query.read(&id(NAMES[name]), &cancel);
                let is_aborted = matches!(found, Err(QueryFault::Aborted { .. }));
                assert_eq!(is_aborted, cancelled.load(Ordering::Relaxed), "step {number}: {found:?}");
                calls.forget_hooks();
            }
            Op::Failing(name, at) => {
                calls.on(call_of(at), || Err(io_error()));
                // Nothing fails where nothing had to be asked.
                if let Ok(found) = query.read(&id(NAMES[name]), &never()) {
                    assert_eq!(Some(rows(&found)), world.fresh(NAMES[name]), "step {number}, {op:?}");
                }
                calls.forget_hooks();
            }
            Op::Append(name, events) => world.append(NAMES[name], |next| {
                (next..next + u64::from(events)).map(|seq| row_by("x", seq, 24)).collect()
            }),
            Op::OpenTurn(name) => world.append(NAMES[name], |next| vec![turn_start(next)]),
            Op::EndTurn(name) => world.append(NAMES[name], |next| vec![turn_end(next)]),
            Op::Rewrite(name) => world.rewrite(NAMES[name]),
            Op::Replace(name, events) => world.replace(NAMES[name], events),
            Op::Tear(name, bytes) => world.tear(NAMES[name], bytes),
            Op::Remove(name) => world.remove(NAMES[name]),
            Op::Older(name) => world.older(NAMES[name]),
            Op::Compact(name) => world.compact(NAMES[name]),
            Op::Later => world.later(),
        }
        let usage = query.usage();
        assert!(
            usage.kept <= KEPT_MAX && usage.kept_bytes <= KEPT_BYTES_MAX,
            "step {number}, {op:?}: {usage:?}"
        );
        assert!(usage.held <= held.len(), "step {number}, {op:?}: {usage:?}");
    }
    for (observation, seen) in &held {
        assert_eq!(&rows(observation), seen, "what somebody holds does not change");
    }
    drop(held);
    assert_eq!(query.usage().held, 0);
    tally.read = calls.of(Call::Read);
    tally
}

fn runs(world: impl Fn() -> World) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let total = Mutex::new(Tally::default());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&ops(), |ops| {
            let tally = run(&world(), &ops);
            let mut total = total.lock();
            (total.asked, total.read) = (total.asked + tally.asked, total.read + tally.read);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let Tally { asked, read } = *total.lock();
    println!("{read} reads for {asked} answers");
    assert!(
        cases < 30 || read * 10 < asked * 9,
        "{read} reads for {asked} answers: hardly anything was kept"
    );
}

#[test]
fn whatever_happens_to_indexed_logs_is_served_as_it_is() {
    runs(|| World::Files(FaultDisk::new(), Encoding::Indexed));
}

#[test]
fn whatever_happens_to_zstd_logs_is_served_as_it_is() {
    runs(|| World::Files(FaultDisk::new(), Encoding::Zstd));
}

#[test]
fn whatever_happens_to_plain_logs_is_served_as_it_is() {
    runs(|| World::Files(FaultDisk::new(), Encoding::Plain));
}

#[test]
fn whatever_happens_to_logs_in_memory_is_served_as_it_is() {
    runs(|| World::Memory(MemoryStorage::new()));
}

/// By chance, it is rare that a log is read twice in one tick of the clock and changed in between.
#[test]
fn a_rewrite_in_the_same_tick_is_served_as_it_is() {
    let world = World::Files(FaultDisk::new(), Encoding::Plain);
    run(&world, &[Op::Append(0, 3), Op::Read(0), Op::Rewrite(0), Op::Read(0), Op::Rewrite(0), Op::Hold(0)]);
}

/// The states that a log had, and the last of them that was there for sure.
#[derive(Default)]
struct History {
    states: Mutex<Vec<Vec<String>>>,
    settled: AtomicUsize,
}

impl History {
    /// A change: from the moment that it begins, readers may find the log as it will be.
    fn change(&self, to: Vec<String>, make: impl FnOnce()) {
        self.states.lock().push(to);
        make();
        self.settled.store(self.states.lock().len() - 1, Ordering::SeqCst);
    }

    /// Reads, and checks that what was served is a state that the log had between the call and the answer.
    fn check(&self, query: &Query) -> bool {
        let from = self.settled.load(Ordering::SeqCst);
        let found = query.read(&id("s"), &never()).unwrap();
        let states = self.states.lock();
        let rows = rows(&found);
        assert!(
            states[from..].contains(&rows),
            "{} rows are of none of the states {from}..{}",
            rows.len(),
            states.len()
        );
        true
    }
}

#[test]
fn readers_beside_a_writer_get_a_state_that_was_there_while_they_asked() {
    for world in [
        World::Files(FaultDisk::new(), Encoding::Indexed),
        World::Files(FaultDisk::new(), Encoding::Plain),
        World::Memory(MemoryStorage::new()),
    ] {
        let history = History::default();
        let mut state = rows_by("s", 0..3);
        history.change(state.clone(), || world.append("s", |_| rows_by("s", 0..3)));
        let (store, calls) = watch(world.instance());
        let query = Query::new(store, &Sessions::new(settings()), QueryOptions::default());
        let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        reads.fetch_add(usize::from(history.check(&query)), Ordering::Relaxed);
                    }
                });
            }
            for step in 3..63_u64 {
                state.push(row_by("s", step, 24));
                let row = row_by("s", step, 24);
                history.change(state.clone(), || world.append("s", |_| vec![row.clone()]));
                if step % 3 == 0 {
                    world.later();
                }
                // Some states stay long enough to be read more than once.
                let target = reads.load(Ordering::Relaxed) + usize::try_from(step % 4).unwrap() * 4;
                while reads.load(Ordering::Relaxed) < target {
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(calls.of(Call::Read) < reads.load(Ordering::Relaxed) as u64, "nothing was kept");
    }
}
