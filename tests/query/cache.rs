//! What is kept of stored sessions, and for how long.

use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::disk::{Access, Disk};
use seslog::session::Sessions;
use seslog::store::query::{Observation, Query, QueryOptions};
use seslog::store::{FileStore, SessionPersistence};

use crate::common::sessions::{append, header, options, row_by, rows_by};
use crate::stage::{Call, Stage, everywhere, id, in_both, never, settings, stored};

fn kept(entries: usize, bytes: usize) -> QueryOptions {
    let mut options = QueryOptions::default();
    (options.kept_max, options.kept_bytes_max) = (entries, bytes);
    options
}

fn store(stage: &Stage, name: &str, events: u64) {
    stage.store_quiet(name, &rows_by(name, 0..events));
}

/// Reads a session, and gives how often a log was read for it.
fn reads(stage: &Stage, query: &Query, name: &str) -> (Arc<Observation>, u64) {
    let before = stage.calls.of(Call::Read);
    let found = query.read(&id(name), &never()).unwrap();
    (found, stage.calls.of(Call::Read) - before)
}

#[test]
fn an_unchanged_session_is_not_read_again_and_a_changed_one_is() {
    everywhere(|stage| {
        store(stage, "s", 3);
        let query = stage.query();
        let (first, count) = reads(stage, &query, "s");
        assert_eq!((count, stored(&first)), (1, rows_by("s", 0..3)), "{}", stage.name);
        for _ in 0..3 {
            let (again, count) = reads(stage, &query, "s");
            assert_eq!(count, 0, "{}", stage.name);
            assert!(Arc::ptr_eq(&again, &first), "all readers share it");
        }
        drop(first);
        assert_eq!(reads(stage, &query, "s").1, 0, "and it is kept when nobody has it");
        let held = query.read(&id("s"), &never()).unwrap();
        stage.append("s", &row_by("s", 3, 24));
        let (changed, count) = reads(stage, &query, "s");
        assert_eq!((count, stored(&changed)), (1, rows_by("s", 0..4)), "{}", stage.name);
        assert_eq!(stored(&held), rows_by("s", 0..3), "what somebody holds does not change");
        stage.settle("s");
        // A file that had just changed was not kept; a count of changes tells all of them.
        assert_eq!(reads(stage, &query, "s").1, u64::from(stage.name != "memory"), "{}", stage.name);
        assert_eq!(reads(stage, &query, "s").1, 0);
        // Another query has a cache of its own, over an instance of its own.
        assert_eq!(reads(stage, &stage.query(), "s").1, 1);
    });
}

#[test]
fn five_sessions_are_kept_that_nobody_holds_and_the_longest_unused_goes_first() {
    in_both(|stage| {
        let names = ["a", "b", "c", "d", "e", "f"];
        names.iter().for_each(|name| store(stage, name, 2));
        let query = stage.query();
        let read = |name| reads(stage, &query, name).1;
        assert_eq!(names[..5].iter().map(|name| read(name)).sum::<u64>(), 5);
        assert_eq!(query.usage().kept, 5);
        assert_eq!(read("a"), 0, "it is the last used now");
        assert_eq!(read("f"), 1);
        assert_eq!((query.usage().kept, query.usage().held), (5, 0));
        assert_eq!(["a", "c", "d", "e", "f"].map(read), [0; 5]);
        assert_eq!(read("b"), 1, "it was the longest unused");
        assert_eq!(read("a"), 1, "and then the first of the others");
    });
}

#[test]
fn what_somebody_holds_is_not_evicted_and_counts_for_no_bound() {
    in_both(|stage| {
        let names: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
        names.iter().for_each(|name| store(stage, name, 2));
        let query = stage.query_with(kept(1, 64 << 20));
        let held: Vec<_> = names[..8].iter().map(|name| reads(stage, &query, name).0).collect();
        names[8..].iter().for_each(|name| drop(reads(stage, &query, name)));
        let usage = query.usage();
        assert_eq!((usage.held, usage.kept), (8, 1));
        assert!(names[..8].iter().all(|name| reads(stage, &query, name).1 == 0));
        // Let go one after the other, they make room for each other.
        drop(held);
        let usage = query.usage();
        assert_eq!((usage.held, usage.held_bytes, usage.kept), (0, 0, 1));
        assert_eq!(reads(stage, &query, "s7").1, 0);
    });
}

#[test]
fn a_stale_entry_that_is_replaced_does_not_disturb_who_holds_it() {
    in_both(|stage| {
        store(stage, "s", 3);
        let query = stage.query_with(kept(5, 64 << 20));
        let old = query.read(&id("s"), &never()).unwrap();
        stage.append("s", &row_by("s", 3, 24));
        stage.settle("s");
        let new = query.read(&id("s"), &never()).unwrap();
        assert_eq!(query.usage().held, 1);
        // Letting the old one go is nothing to the new one.
        drop(old);
        assert_eq!((query.usage().held, query.usage().kept), (1, 0));
        assert!(Arc::ptr_eq(&new, &query.read(&id("s"), &never()).unwrap()));
        drop(new);
        assert_eq!((query.usage().held, query.usage().kept), (0, 1));
    });
}

#[test]
fn what_is_kept_takes_no_more_bytes_than_it_may() {
    in_both(|stage| {
        let rows: Vec<_> = (0..40).map(|seq| row_by("s", seq, 2000)).collect();
        let names: Vec<_> = (0..10).map(|number| format!("s{number}")).collect();
        names.iter().for_each(|name| stage.store_quiet(name, &rows));
        let text: usize = rows.iter().map(String::len).sum();
        for bound in [0, text, 3 * text, 100 * text] {
            let query = stage.query_with(kept(100, bound));
            for name in &names {
                let (held, _) = reads(stage, &query, name);
                assert!(query.usage().held_bytes >= text, "all that it holds is counted");
                drop(held);
                assert!(query.usage().kept_bytes <= bound, "{:?} of {bound}", query.usage());
            }
            let one = if bound > 50 * text { 10 } else { bound / text * 2 / 3 };
            assert!(query.usage().kept >= one, "{:?} of {bound}, {text} each", query.usage());
        }
    });
}

#[test]
fn nothing_is_kept_of_a_session_that_is_gone() {
    in_both(|stage| {
        store(stage, "s", 3);
        let query = stage.query();
        drop(query.read(&id("s"), &never()).unwrap());
        assert_eq!(query.usage().kept, 1);
        stage.storage.remove(&id("s")).unwrap();
        query.read(&id("s"), &never()).unwrap_err();
        assert_eq!(query.usage(), Default::default());
    });
}

#[test]
fn a_log_that_changes_while_it_is_read_is_shown_and_not_kept() {
    for call in [Call::Open, Call::Read, Call::Close] {
        in_both(|stage| {
            store(stage, "s", 3);
            let query = stage.query();
            let other = stage.storage.instance();
            stage.calls.on(call, move || {
                let writer = other.open(&id("s"), seslog::store::SessionAccess::Write, &never())?;
                writer.append(&[row_by("s", 3, 24).as_bytes()], &never())?;
                writer.close()
            });
            let (found, count) = reads(stage, &query, "s");
            let events = if call == Call::Close { 3 } else { 4 };
            assert_eq!((count, stored(&found)), (1, rows_by("s", 0..events)), "{call:?}");
            assert_eq!(query.usage(), Default::default());
            stage.settle("s");
            assert_eq!(stored(&reads(stage, &query, "s").0), rows_by("s", 0..4));
        });
    }
}

/// A file store whose clock a test sets, and the path of its one log.
fn files() -> (FaultDisk, Query, std::path::PathBuf) {
    let disk = FaultDisk::new();
    let store = FileStore::on_disk(Arc::new(disk.clone()), "/store", options(Encoding::Plain));
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..3)).unwrap();
    handle.close().unwrap();
    let path = disk.paths().into_iter().find(|path| path.ends_with("session.v2.jsonl")).unwrap();
    let store: Arc<dyn SessionPersistence> = Arc::new(store);
    let query = Query::new(store, &Sessions::new(settings()), QueryOptions::default());
    (disk, query, path)
}

/// Puts other rows of the same length in the place of those that a log has, at one moment of the disk's clock.
fn rewrite(disk: &FaultDisk, path: &std::path::Path, at_ns: i128, (from, to): (&str, &str)) {
    let text = String::from_utf8(disk.content(path).unwrap()).unwrap();
    let changed = text.replace(&format!("\"by\":\"{from}\""), &format!("\"by\":\"{to}\""));
    assert!(changed != text && changed.len() == text.len());
    let file = disk.open(path, Access::Repair).unwrap();
    // Each call is one tick later.
    disk.set_clock_ns(at_ns - 1_000_000);
    file.write_at(0, changed.as_bytes()).unwrap();
    disk.set_clock_ns(at_ns);
}

#[test]
fn a_rewrite_of_the_same_size_within_one_tick_of_the_clock_is_seen() {
    let (disk, query, path) = files();
    let by =
        |found: &Observation| found.log().row(0).unwrap().split("\"by\":").nth(1).unwrap()[1..2].to_owned();
    let now = disk.now_ns();
    rewrite(&disk, &path, now, ("a", "b"));
    let stamp = disk.stamp(&path).unwrap();
    assert_eq!(by(&query.read(&id("s"), &never()).unwrap()), "b");
    // The same inode, size and times: nothing in the revision tells.
    rewrite(&disk, &path, now, ("b", "c"));
    assert_eq!(disk.stamp(&path).unwrap(), stamp);
    assert_eq!(by(&query.read(&id("s"), &never()).unwrap()), "c");
    assert_eq!(query.usage(), Default::default(), "it may change once more");
    // Two seconds later it cannot without a sign.
    disk.set_clock_ns(now + 2_000_000_000);
    let held = query.read(&id("s"), &never()).unwrap();
    assert_eq!((by(&held).as_str(), query.usage().held), ("c", 1));
    let later = disk.now_ns();
    rewrite(&disk, &path, later, ("c", "d"));
    assert_ne!(disk.stamp(&path).unwrap(), stamp);
    assert_eq!(by(&query.read(&id("s"), &never()).unwrap()), "d");
    assert_eq!(by(&held), "c");
}

#[test]
fn a_log_of_the_future_is_read_each_time() {
    let (disk, query, path) = files();
    let now = disk.now_ns();
    rewrite(&disk, &path, now + 3_600_000_000_000, ("a", "b"));
    disk.set_clock_ns(now);
    for _ in 0..2 {
        query.read(&id("s"), &never()).unwrap();
        assert_eq!(query.usage(), Default::default());
    }
}

#[test]
fn a_successor_a_repair_and_a_replacement_are_read_anew() {
    everywhere(|stage| {
        let long: Vec<_> = (0..4).map(|seq| row_by("s", seq, 900)).collect();
        stage.store(header("s"), &long[..2]);
        let last = long[2..].iter().map(String::as_bytes).collect::<Vec<_>>();
        let writer =
            stage.storage.instance().open(&id("s"), seslog::store::SessionAccess::Write, &never()).unwrap();
        writer.append(&last, &never()).unwrap();
        writer.close().unwrap();
        stage.settle("s");
        let query = stage.query();
        assert_eq!(stored(&query.read(&id("s"), &never()).unwrap()), long);
        if stage.storage.tear(&id("s"), seslog::contract::Tear::LastRecord(5)).is_ok() {
            stage.settle("s");
            let torn = query.read(&id("s"), &never()).unwrap().log().len();
            assert!(torn < 4, "{}: {torn}", stage.name);
            stage.append("s", &row_by("r", torn, 24));
            stage.settle("s");
            let repaired = query.read(&id("s"), &never()).unwrap();
            assert_eq!(repaired.log().len(), torn + 1, "{}", stage.name);
        }
        stage.storage.remove(&id("s")).unwrap();
        stage.store_quiet("s", &rows_by("another", 0..4));
        assert_eq!(stored(&query.read(&id("s"), &never()).unwrap()), rows_by("another", 0..4));
    });
}
