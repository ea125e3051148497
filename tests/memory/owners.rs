//! Who may write, what a failing step leaves, and what closing tells.

use std::sync::Arc;

use seslog::Error;
use seslog::json::Text;
use seslog::store::memory::{RawLog, Step};
use seslog::store::{Cancel, CancelReason, MemoryStorage, MemoryStore, SessionAccess, SessionPersistence};

use crate::common::sessions::{header, row_of, rows_by};
use crate::{append, id, lazy, read_all};

fn refused() -> std::io::Error {
    std::io::Error::other("a test made it fail")
}

#[test]
fn a_failed_sync_poisons_the_handle_and_another_one_goes_on() {
    let storage = MemoryStorage::new();
    let store = lazy(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..2)).unwrap();
    storage.fail_next(Step::Sync, refused());
    assert!(matches!(handle.flush(), Err(Error::Io { action: "syncing", .. })));
    assert!(matches!(handle.flush(), Err(Error::Poisoned { .. })), "a second sync proves nothing");
    assert!(matches!(append(&handle, &rows_by("a", 2..3)), Err(Error::Poisoned { .. })));
    assert_eq!(read_all(&handle).unwrap(), rows_by("a", 0..2));
    assert!(matches!(handle.close(), Err(Error::Poisoned { .. })));
    let handle = store.open(&id("s"), SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    assert_eq!(storage.crash_image(0).raw(&id("s")).unwrap().rows.len(), 2, "synced before the append");
}

#[test]
fn closing_an_instance_closes_all_handles_and_tells_all_failures() {
    let storage = MemoryStorage::new();
    let store = lazy(&storage);
    let handles: Vec<_> = ["s", "t", "u"]
        .map(|id| {
            let handle = store.create(header(id), None).unwrap();
            append(&handle, &rows_by("a", 0..1)).unwrap();
            append(&handle, &rows_by("a", 1..2)).unwrap();
            handle
        })
        .into();
    let reader = store.open(&id("s"), SessionAccess::Read).unwrap();
    storage.fail_next(Step::Sync, refused());
    storage.fail_next(Step::Unlock, refused());
    storage.fail_next(Step::Unlock, refused());
    // The first fails twice, the second once.
    let Err(Error::Aggregate(failures)) = store.close() else { panic!("two handles failed") };
    let [Error::Aggregate(both), Error::Io { action: "releasing", .. }] = &failures[..] else {
        panic!("{failures:?}")
    };
    assert!(
        matches!(both[..], [Error::Io { action: "syncing", .. }, Error::Io { action: "releasing", .. }]),
        "{both:?}"
    );
    for handle in handles.iter().chain([&reader]) {
        assert!(matches!(read_all(handle), Err(Error::HandleClosed { .. })));
    }
    for id in ["s", "t", "u"] {
        store.open(&Text::from(id), SessionAccess::Write).expect("free all the same");
    }
}

#[test]
fn a_log_that_was_replaced_under_a_writer_is_not_written_to() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..2)).unwrap();
    let mut raw = storage.raw(&id("s")).unwrap();
    raw.rows.truncate(1);
    raw.committed = 1;
    storage.plant(&id("s"), &raw);
    for _ in 0..2 {
        let foreign = append(&handle, &rows_by("a", 2..3));
        assert!(matches!(foreign, Err(Error::Foreign { .. })), "{foreign:?}");
    }
    assert_eq!(storage.raw(&id("s")), Some(raw));
    storage.remove(&id("s"));
    assert!(matches!(append(&handle, &rows_by("a", 2..3)), Err(Error::Foreign { .. })));
    handle.close().unwrap();
    assert!(matches!(store.open(&id("s"), SessionAccess::Write), Err(Error::NotFound { .. })));
}

#[test]
fn cancelling_an_open_in_the_middle_leaves_nothing_claimed_or_locked() {
    for step in [Step::Lock, Step::Read, Step::Publish] {
        let storage = MemoryStorage::new();
        let store = MemoryStore::new(&storage);
        let older = r#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#;
        let row = row_of("turn/start", 0, "{\"turn\":1}");
        storage.plant(&id("s"), &RawLog::new(older.as_bytes(), &[row.as_bytes()]));
        let cancel = Cancel::new();
        let (reason, token): (CancelReason, _) = (Arc::new(refused()), cancel.clone());
        let given = Arc::clone(&reason);
        storage.before_next(step, move || token.cancel(given));
        let cancelled = SessionPersistence::open(&store, &id("s"), SessionAccess::Write, &cancel);
        match cancelled {
            Err(Error::Cancelled { reason: found }) => assert!(Arc::ptr_eq(&found, &reason)),
            other => panic!("{step:?}: {other:?}"),
        }
        let other = MemoryStore::new(&storage);
        other.open(&id("s"), SessionAccess::Write).unwrap().close().unwrap();
        store.open(&id("s"), SessionAccess::Write).unwrap();
    }
}

#[test]
fn two_storages_share_nothing() {
    let (one, two) = (MemoryStorage::new(), MemoryStorage::new());
    let handle = MemoryStore::new(&one).create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let other = MemoryStore::new(&two);
    assert!(other.stat(&id("s")).unwrap().is_none());
    let twin = other.create(header("s"), None).unwrap();
    append(&twin, &rows_by("a", 0..1)).unwrap();
    let revision = |storage| MemoryStore::new(storage).stat(&id("s")).unwrap().unwrap().revision;
    assert_ne!(revision(&one), revision(&two), "equal logs, other storages");
    assert_eq!(revision(&one), revision(&one.clone()));
}
