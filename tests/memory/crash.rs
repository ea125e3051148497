//! What a crash leaves, and whom it frees.

use seslog::Error;
use seslog::store::memory::Step;
use seslog::store::{MemoryStorage, MemoryStore, SessionAccess, State};

use crate::common::sessions::{header, row_by, rows_by};
use crate::{append, id, lazy, read_all};

#[test]
fn what_was_not_flushed_is_lost_and_the_session_is_free_at_once() {
    let storage = MemoryStorage::new();
    let (crashing, other) = (lazy(&storage), MemoryStore::new(&storage));
    let handle = crashing.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..2)).unwrap();
    append(&handle, &rows_by("a", 2..4)).unwrap();
    handle.flush().unwrap();
    append(&handle, &rows_by("a", 4..6)).unwrap();
    let reader = other.open(&id("s"), SessionAccess::Read).unwrap();
    assert_eq!(read_all(&reader).unwrap().len(), 6, "accepted is visible");
    assert!(matches!(other.open(&id("s"), SessionAccess::Write), Err(Error::AlreadyOwned { .. })));
    let _pending = crashing.create(header("t"), None).unwrap();

    crashing.crash();
    let shrank = read_all(&reader);
    assert!(matches!(shrank, Err(Error::Shrank { seen: 6, found: 4, .. })), "{shrank:?}");
    let next = other.open(&id("s"), SessionAccess::Write).unwrap();
    assert_eq!(read_all(&next).unwrap(), rows_by("a", 0..4));
    other.create(header("t"), None).expect("it never existed");
    append(&next, &rows_by("b", 4..5)).unwrap();

    // What is left of the crashed instance can do nothing any more, not even by being dropped.
    assert!(matches!(append(&handle, &rows_by("a", 6..7)), Err(Error::HandleClosed { .. })));
    assert!(matches!(handle.flush(), Err(Error::HandleClosed { .. })));
    assert!(matches!(read_all(&handle), Err(Error::HandleClosed { .. })));
    handle.close().unwrap();
    drop(handle);
    let refusals = [
        crashing.create(header("u"), None).map(|_| ()),
        crashing.open(&id("s"), SessionAccess::Read).map(|_| ()),
        crashing.stat(&id("s")).map(|_| ()),
        crashing.list().map(|_| ()),
        crashing.flush(),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    }
    append(&next, &rows_by("b", 5..6)).expect("its lock is its own");
    let third = MemoryStore::new(&storage).open(&id("s"), SessionAccess::Write);
    assert!(matches!(third, Err(Error::AlreadyOwned { .. })));
}

#[test]
fn any_beginning_of_what_was_not_flushed_may_survive() {
    for kept in 0..5 {
        let storage = MemoryStorage::new();
        let store = lazy(&storage);
        let handle = store.create(header("s"), None).unwrap();
        append(&handle, &rows_by("a", 0..1)).unwrap();
        append(&handle, &rows_by("a", 1..3)).unwrap();
        append(&handle, &rows_by("a", 3..4)).unwrap();
        store.crash_keeping(kept);
        let reader = MemoryStore::new(&storage).open(&id("s"), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap(), rows_by("a", 0..(1 + kept).min(4)));
    }
}

#[test]
fn a_synced_append_survives_and_so_does_what_a_later_owner_flushed() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..2)).unwrap();
    store.crash();
    let first = lazy(&storage);
    let handle = first.open(&id("s"), SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    // Dropped and not closed: nobody said that it is durable.
    drop(handle);
    assert_eq!(storage.crash_image(0).raw(&id("s")).unwrap().rows.len(), 2);
    let second = lazy(&storage);
    let handle = second.open(&id("s"), SessionAccess::Write).unwrap();
    first.crash();
    assert_eq!(handle.next_seq(), Some(3), "it is the second one's by now");
    handle.flush().unwrap();
    second.crash();
    assert_eq!(storage.raw(&id("s")).unwrap().rows.len(), 3);
}

#[test]
fn images_are_copies_that_go_their_own_way() {
    let storage = MemoryStorage::new();
    let handle = lazy(&storage).create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..2)).unwrap();
    for seq in 2..12 {
        append(&handle, &[row_by("a", seq, 40), row_by("a", seq + 10, 40)][..1]).unwrap();
    }
    append(&handle, &(12..20).map(|seq| row_by("a", seq, 40)).collect::<Vec<_>>()).unwrap();
    let all = storage.raw(&id("s")).unwrap();
    assert_eq!(storage.kill_image().raw(&id("s")), Some(all.clone()));

    let mut lengths = Vec::new();
    let mut torn = 0;
    for seed in 0..200 {
        let image = storage.crash_image(seed);
        assert_eq!(storage.crash_image(seed).raw(&id("s")), image.raw(&id("s")), "the same each time");
        let raw = image.raw(&id("s")).unwrap();
        assert!(all.rows.starts_with(&raw.rows) && raw.rows.len() >= 2);
        let store = MemoryStore::new(&image);
        let snapshot = store.stat(&id("s")).unwrap().unwrap();
        let is_torn = raw.committed < raw.rows.len() || !raw.fragment.is_empty();
        assert_eq!(snapshot.state, if is_torn { State::Torn } else { State::Ok });
        torn += usize::from(is_torn);
        let next = store.open(&id("s"), SessionAccess::Write).unwrap();
        let events = raw.rows.len() as u64;
        assert_eq!(next.next_seq(), Some(events));
        append(&next, &rows_by("b", events..events + 1)).unwrap();
        assert_eq!(image.crash_image(0).raw(&id("s")).unwrap().rows.len() as u64, events + 1);
        lengths.push(events);
    }
    assert!(lengths.contains(&2) && lengths.contains(&20) && torn > 20, "{torn} {lengths:?}");
    assert_eq!(storage.raw(&id("s")), Some(all), "none of it touched the original");
}

#[test]
fn a_crash_in_the_middle_of_an_append_stores_nothing_of_it() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let (crashing, thief) = (store.clone(), MemoryStore::new(&storage));
    storage.before_next(Step::Sync, move || {
        crashing.crash();
        let handle = thief.open(&id("s"), SessionAccess::Write).unwrap();
        append(&handle, &rows_by("thief", 1..2)).unwrap();
    });
    let lost = append(&handle, &rows_by("a", 1..3));
    assert!(matches!(lost, Err(Error::HandleClosed { .. })), "{lost:?}");
    assert_eq!(storage.raw(&id("s")).unwrap().rows.len(), 2);
}
