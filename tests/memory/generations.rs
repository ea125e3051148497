//! Logs of older generations: converted for readers, succeeded for writers.

use seslog::Error;
use seslog::format::Code;
use seslog::store::memory::{RawLog, Step};
use seslog::store::{MemoryStorage, MemoryStore, SessionAccess, State};
use seslog::units::Generation;

use crate::common::sessions::row_of;
use crate::{append, id, read_all};

fn older(generation: u64) -> RawLog {
    let header =
        format!(r#"{{"type":"session","version":{generation},"id":"s","createdAt":5,"delegationDepth":0}}"#);
    let rows = [
        row_of("turn/start", 0, r#"{"turn":1}"#),
        row_of("step/start", 1, r#"{"turn":1,"step":1}"#),
        r#"{"type":"text-chunks","seq0":2,"time0":9,"data":{"turn":1,"step":1,"index":0,"dt":[4],"texts":["On"," it"]}}"#
            .to_owned(),
        row_of("step/end", 4, r#"{"turn":1,"step":1}"#),
        row_of("turn/end", 5, r#"{"turn":1,"reason":{"kind":"interrupted"}}"#),
    ];
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    RawLog::new(header.as_bytes(), &rows)
}

#[test]
fn a_reader_gets_an_older_log_converted_and_publishes_nothing() {
    for generation in [0, 1] {
        let storage = MemoryStorage::new();
        let store = MemoryStore::new(&storage);
        storage.plant(&id("s"), &older(generation));
        let stat = || store.stat(&id("s")).unwrap().unwrap();
        assert_eq!((stat().generation, stat().event_count), (Some(Generation::new(generation)), Some(6)));
        assert_eq!(storage.full_log_reads(), 0, "its last row tells");
        let before = (storage.raw(&id("s")), stat().revision);
        let reader = store.open(&id("s"), SessionAccess::Read).unwrap();
        assert_eq!(reader.header().generation(), Generation::CURRENT);
        let converted = read_all(&reader).unwrap();
        assert!(converted.iter().any(|row| row.contains("assistant/attempt")), "{converted:?}");
        assert_eq!(storage.full_log_reads(), 1, "converted once");
        assert_eq!((storage.raw(&id("s")), stat().revision), before);

        let writer = store.open(&id("s"), SessionAccess::Write).unwrap();
        assert_eq!(read_all(&writer).unwrap(), converted);
        let next = converted.len() as u64;
        append(&writer, &[row_of("turn/start", next, r#"{"turn":2}"#)]).unwrap();
        assert_eq!(
            read_all(&reader).unwrap().len(),
            converted.len() + 1,
            "an open reader sees the successor"
        );
        let stat = stat();
        assert_eq!((stat.generation, stat.state), (Some(Generation::CURRENT), State::Ok));
        assert_eq!(stat.older.len(), 1);
        assert_ne!(stat.revision, before.1);
    }
}

#[test]
fn a_refused_log_opens_for_nobody_and_stays_as_it_is() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let mut raw = older(0);
    raw.rows[4] = row_of("acme/unknown", 5, "{}").into_bytes();
    storage.plant(&id("s"), &raw);
    let stored = storage.raw(&id("s"));
    for access in [SessionAccess::Write, SessionAccess::Read, SessionAccess::Write] {
        match store.open(&id("s"), access) {
            Err(Error::Refused { source, .. }) => assert_eq!(source.code(), Code::V0UnknownEvent),
            other => panic!("{access:?}: {other:?}"),
        }
    }
    assert_eq!(storage.raw(&id("s")), stored);
}

#[test]
fn a_publication_that_fails_leaves_the_older_log_and_no_owner() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    storage.plant(&id("s"), &older(1));
    let before = storage.raw(&id("s"));
    storage.fail_next(Step::Publish, std::io::Error::other("a test made it fail"));
    let failed = store.open(&id("s"), SessionAccess::Write);
    assert!(matches!(failed, Err(Error::Io { action: "publishing", .. })), "{failed:?}");
    assert_eq!(storage.raw(&id("s")), before);
    store.open(&id("s"), SessionAccess::Write).unwrap();
}

#[test]
fn a_source_that_changes_while_it_is_converted_is_not_succeeded() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    storage.plant(&id("s"), &older(1));
    let (shared, mut changed) = (storage.clone(), older(1));
    changed.rows.truncate(2);
    changed.committed = 2;
    storage.before_next(Step::Publish, move || shared.plant(&id("s"), &changed));
    let failed = store.open(&id("s"), SessionAccess::Write);
    assert!(matches!(failed, Err(Error::Foreign { .. })), "{failed:?}");
    assert_eq!(storage.raw(&id("s")).unwrap().rows.len(), 2);
}

#[test]
fn the_highest_generation_is_the_log_however_bad() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    storage.plant(&id("s"), &older(0));
    let mut highest = RawLog::new(b"damaged", &[]);
    for generation in [2, 17] {
        highest.generation = Some(Generation::new(generation));
        storage.plant_beside(&id("s"), &highest);
        for access in [SessionAccess::Read, SessionAccess::Write] {
            let refused = store.open(&id("s"), access);
            assert!(matches!(refused, Err(Error::Corruption { .. })), "{refused:?}");
        }
        assert_eq!(store.stat(&id("s")).unwrap().unwrap().state, State::Corrupt);
    }
    // A name that says another generation than the header.
    let mut misnamed = older(1);
    misnamed.generation = Some(Generation::V0);
    storage.plant(&id("s"), &misnamed);
    for access in [SessionAccess::Read, SessionAccess::Write] {
        let refused = store.open(&id("s"), access);
        assert!(matches!(refused, Err(Error::IdentityMismatch { .. })), "{refused:?}");
    }
}
