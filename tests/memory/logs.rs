//! Rows, sizes, revisions, and what a call costs.

use seslog::Error;
use seslog::store::{MemoryStorage, MemoryStore, SessionAccess, State};
use seslog::units::UnixMs;

use crate::common::sessions::{CREATED_AT, header, row_by, row_of, rows_by};
use crate::{append, id, read, read_all};

#[test]
fn a_snapshot_tells_the_length_of_the_text_and_the_last_event() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    let stat = || store.stat(&id("s")).unwrap().unwrap();
    let pending = stat();
    assert_eq!((pending.event_count, pending.size_bytes, pending.state), (None, None, State::Ok));
    let pending = pending.revision.unwrap();
    assert!(pending.to_string().starts_with("counted:"));
    assert_eq!(stat().revision, Some(pending), "looking changes nothing");
    handle.flush().unwrap();
    assert_ne!(stat().revision, Some(pending));
    let mut text = Vec::new();
    header("s").write(&mut text);
    text.push(b'\n');
    assert_eq!(
        (stat().event_count, stat().size_bytes, stat().last_time),
        (Some(0), Some(text.len() as u64), None)
    );
    append(&handle, &rows_by("a", 0..3)).unwrap();
    let rows: usize = rows_by("a", 0..3).iter().map(|row| row.len() + 1).sum();
    assert_eq!(stat().size_bytes, Some((text.len() + rows) as u64));
    assert_eq!((stat().event_count, stat().last_time), (Some(3), Some(UnixMs::new(CREATED_AT + 2))));
    assert_eq!((stat().encoding, stat().project), (None, None));
}

#[test]
fn reads_and_looks_take_no_full_reading_however_long_the_log_is() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    let reader = store.open(&id("s"), SessionAccess::Read).unwrap();
    append(&handle, &[row_by("a", 0, 30)]).unwrap();
    for seq in 1..500 {
        append(&handle, &[row_by("a", seq, 30)]).unwrap();
        assert_eq!(read(&reader, seq, 5).unwrap(), [row_by("a", seq, 30)]);
        assert_eq!(read(&handle, seq / 2, 1).unwrap(), [row_by("a", seq / 2, 30)]);
        assert_eq!(store.stat(&id("s")).unwrap().unwrap().event_count, Some(seq + 1));
    }
    assert_eq!(storage.full_log_reads(), 0);
    for _ in 0..3 {
        assert_eq!(read_all(&reader).unwrap().len(), 500);
    }
    assert_eq!(storage.full_log_reads(), 1, "remembered until it changes");
    handle.close().unwrap();
    let handle = store.open(&id("s"), SessionAccess::Write).unwrap();
    assert_eq!(storage.full_log_reads(), 1);
    let reads = storage.log_reads();
    assert_eq!(read(&handle, 3, 400).unwrap().len(), 400);
    assert_eq!(storage.log_reads(), reads, "a new writer reads what it has judged");
    append(&handle, &[row_by("a", 500, 30)]).unwrap();
    assert_eq!(read_all(&reader).unwrap().len(), 501);
    assert_eq!(storage.full_log_reads(), 2);
}

#[test]
fn damage_is_found_where_it_is_read_and_by_whoever_writes() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..5)).unwrap();
    handle.close().unwrap();
    let mut raw = storage.raw(&id("s")).unwrap();
    raw.rows[2] = b"{\"type\":".to_vec();
    storage.plant(&id("s"), &raw);
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().state, State::Ok, "no row of the middle is looked at");
    let reader = store.open(&id("s"), SessionAccess::Read).unwrap();
    assert_eq!(read(&reader, 3, 2).unwrap(), rows_by("a", 3..5), "damage before is not looked for");
    assert_eq!(read(&reader, 0, 2).unwrap(), rows_by("a", 0..2));
    assert!(matches!(read(&reader, 1, 2), Err(Error::DamagedTail { intact: 2, .. })));
    assert!(matches!(store.open(&id("s"), SessionAccess::Write), Err(Error::DamagedTail { intact: 2, .. })));
    // A number that is not its own is damage too.
    raw.rows[2] = row_by("a", 3, 24).into_bytes();
    storage.plant(&id("s"), &raw);
    assert!(matches!(read(&reader, 1, 2), Err(Error::DamagedTail { intact: 2, .. })));
    assert_eq!(read(&reader, 3, 2).unwrap(), rows_by("a", 3..5));
    raw.rows.push(row_of("turn/end", 5, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}").into_bytes());
    raw.committed += 1;
    storage.plant(&id("s"), &raw);
    assert!(matches!(read_all(&reader), Err(Error::Corruption { intact: 2, .. })));
    assert!(matches!(store.open(&id("s"), SessionAccess::Write), Err(Error::Corruption { intact: 2, .. })));
}

#[test]
fn a_torn_append_keeps_its_whole_rows_and_the_next_append_takes_them_over() {
    let storage = MemoryStorage::new();
    let store = MemoryStore::new(&storage);
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..2)).unwrap();
    append(&handle, &rows_by("a", 2..6)).unwrap();
    handle.close().unwrap();
    assert!(!storage.tear(&id("s"), 4, 3), "there are no more rows than that");
    assert!(storage.tear(&id("s"), 3, 7));
    let raw = storage.raw(&id("s")).unwrap();
    assert_eq!((raw.rows.len(), raw.committed, raw.fragment.len()), (5, 2, 7));
    let stat = store.stat(&id("s")).unwrap().unwrap();
    let size = stat.size_bytes.unwrap();
    assert!(
        matches!(stat.error.as_deref(), Some(Error::TornTail { offset, torn: 7, intact: 5, .. }) if *offset == size - 7),
        "{stat:?}"
    );
    let handle = store.open(&id("s"), SessionAccess::Write).unwrap();
    assert_eq!(storage.raw(&id("s")), Some(raw), "opening repairs nothing");
    append(&handle, &rows_by("b", 5..6)).unwrap();
    let raw = storage.raw(&id("s")).unwrap();
    assert_eq!((raw.rows.len(), raw.committed, raw.fragment.len()), (6, 6, 0));
    assert_eq!(read_all(&handle).unwrap(), [rows_by("a", 0..5), rows_by("b", 5..6)].concat());
}
