//! A cursor serves in the log that it was made in, grown or repaired, and in no other.

use std::path::Path;
use std::sync::Arc;

use seslog::container::disk::fault::FaultDisk;
use seslog::container::disk::{Access, Disk};
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::history::{Cursor, Page, PageEnd, PageLimits, PageRequest, PageStart};
use seslog::store::{
    Cancel, CompactOptions, FileHandle, MemoryStorage, MemoryStore, MigrateOptions, SessionAccess,
    SessionHandle as _, compact, migrate,
};
use seslog::units::{Generation, UnixMs};
use seslog::{Error, Result, Stale};

use crate::common::sessions::{CREATED_AT, append, header, row_by, row_of, rows_by};
use crate::model::{ROOT, file_store, log_path, open, texts};

const FEW: PageLimits = PageLimits::UNBOUNDED.with_events(40);

/// The bytes of a log with these appends. Equal appends give equal bytes.
fn log(encoding: Encoding, appends: &[Vec<String>]) -> Vec<u8> {
    let mut line = Vec::new();
    header("s").write(&mut line);
    line.push(b'\n');
    let mut out = Vec::new();
    let mut writer = create(encoding, LogId::new(7).unwrap(), &line, CREATED_AT, 3, &mut out).unwrap();
    writer.accept(true);
    for rows in appends {
        let (mut content, mut marks) = (Vec::new(), Vec::new());
        for row in rows {
            content.extend_from_slice(row.as_bytes());
            content.push(b'\n');
            marks.push(RowMark { end: content.len(), events: 1, last_time: CREATED_AT });
        }
        writer.stage(&Batch { content: &content, rows: &marks }, &mut out).unwrap();
        writer.accept(true);
    }
    out
}

/// So many appends of ten rows of 300 bytes of noise, written by `by`.
fn appends(by: &str, numbers: std::ops::Range<u64>) -> Vec<Vec<String>> {
    let rows = |number: u64| (number * 10..number * 10 + 10).map(|seq| row_by(by, seq, 300)).collect();
    numbers.map(rows).collect()
}

/// A log of 500 events, a handle that reads it, and its last page of 40.
fn world(encoding: Encoding) -> (FaultDisk, Arc<FileHandle>, Page) {
    let disk = FaultDisk::new();
    disk.plant(log_path(encoding), &log(encoding, &appends("a", 0..50)));
    let handle = open(&disk, encoding, SessionAccess::Read);
    let page = handle.page(&PageRequest::last(FEW)).unwrap();
    assert_eq!((page.first_seq, page.next_seq()), (460, 500));
    (disk, handle, page)
}

fn both_ways(handle: &FileHandle, cursor: Cursor) -> [Result<Page>; 2] {
    // As a screen in another process has it.
    let cursor = cursor.to_string().parse().unwrap();
    [handle.page(&PageRequest::before(cursor, FEW)), handle.page(&PageRequest::after(cursor, FEW))]
}

fn assert_stale(handle: &FileHandle, cursor: Cursor, expected: Stale) {
    for page in both_ways(handle, cursor) {
        match page {
            Err(Error::StaleCursor { id, seq, source }) => {
                assert_eq!((id.as_str(), seq, source), ("s", cursor.seq(), expected));
            }
            other => panic!("expected {expected:?}, got {:?}", other.map(|page| page.next_seq())),
        }
    }
}

/// Puts other bytes into the file that is there: its inode stays.
fn overwrite(disk: &FaultDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, Access::Append).unwrap();
    file.truncate(0).unwrap();
    file.append_all(bytes).unwrap();
}

#[test]
fn a_torn_end_its_repair_and_what_follows_leave_cursors_good() {
    for encoding in Encoding::ALL {
        let (disk, _, page) = world(encoding);
        let whole = disk.content(log_path(encoding)).unwrap();
        let more = log(encoding, &appends("a", 0..51));
        overwrite(&disk, &log_path(encoding), &more[..more.len() - 11]);
        let torn = open(&disk, encoding, SessionAccess::Read);
        let complete = if encoding == Encoding::Plain { 509 } else { 500 };
        let check = |handle: &FileHandle, events: u64| {
            let [before, after] = both_ways(handle, page.after).map(Result::unwrap);
            assert_eq!((before.first_seq, before.next_seq()), (460, 500), "{encoding}");
            assert_eq!(before.events, page.events);
            assert_eq!((after.first_seq, after.next_seq(), after.end), (500, events, PageEnd::Log));
            let [before, after] = both_ways(handle, page.before.unwrap()).map(Result::unwrap);
            assert_eq!((before.next_seq(), after.first_seq), (460, 460));
        };
        check(&torn, complete);
        // A crash and a repair: the file becomes shorter than it was when somebody looked.
        let writer = open(&disk, encoding, SessionAccess::Write);
        append(&writer, &rows_by("b", complete..complete + 5)).unwrap();
        check(&writer, complete + 5);
        check(&open(&disk, encoding, SessionAccess::Read), complete + 5);
        assert!(disk.content(log_path(encoding)).unwrap().len() > whole.len());
    }
}

#[test]
fn a_log_that_lost_the_event_next_to_a_cursor_makes_it_stale_and_earlier_ones_serve() {
    for encoding in Encoding::ALL {
        let (disk, handle, page) = world(encoding);
        overwrite(&disk, &log_path(encoding), &log(encoding, &appends("a", 0..48)));
        // The handle has seen more, and says so first where a page shows how much there is.
        assert_stale(&handle, page.after, Stale::Shorter { events: 480 });
        let fresh = open(&disk, encoding, SessionAccess::Read);
        assert_stale(&fresh, page.after, Stale::Shorter { events: 480 });
        let [before, after] = both_ways(&fresh, page.before.unwrap()).map(Result::unwrap);
        assert_eq!((before.first_seq, before.next_seq()), (420, 460), "{encoding}");
        assert_eq!((after.first_seq, after.next_seq(), after.end), (460, 480, PageEnd::Log));
    }
}

#[test]
fn another_event_where_the_cursor_stands_makes_it_stale_although_the_file_is_the_same() {
    for encoding in Encoding::ALL {
        let (disk, _, page) = world(encoding);
        // What was shown was undone, and something else stored and more of it.
        let others = [appends("a", 0..48), appends("b", 48..60)].concat();
        overwrite(&disk, &log_path(encoding), &log(encoding, &others));
        let handle = open(&disk, encoding, SessionAccess::Read);
        assert_stale(&handle, page.after, Stale::OtherEvent { seq: 499 });
        let [before, after] = both_ways(&handle, page.before.unwrap()).map(Result::unwrap);
        assert_eq!((before.next_seq(), after.first_seq), (460, 460), "{encoding}");
        assert_eq!(texts(&after.events)[20], row_by("b", 480, 300));
    }
}

#[test]
fn the_place_in_the_file_is_only_a_hint() {
    for encoding in Encoding::ALL {
        let (disk, _, page) = world(encoding);
        // The same rows in other blocks: somebody rewrote the file in place.
        let rows: Vec<String> = appends("a", 0..50).concat();
        let others: Vec<Vec<String>> = rows.chunks(7).map(<[String]>::to_vec).collect();
        overwrite(&disk, &log_path(encoding), &log(encoding, &others));
        let handle = open(&disk, encoding, SessionAccess::Read);
        for cursor in [page.after, page.before.unwrap()] {
            let [before, after] = both_ways(&handle, cursor).map(Result::unwrap);
            assert_eq!((before.next_seq(), after.first_seq), (cursor.seq(), cursor.seq()), "{encoding}");
            assert_eq!(texts(&before.events), rows[before.first_seq as usize..before.next_seq() as usize]);
        }
    }
}

#[test]
fn a_file_that_took_the_place_of_the_log_makes_cursors_stale() {
    for encoding in Encoding::ALL {
        let (disk, handle, page) = world(encoding);
        disk.plant(log_path(encoding), &log(encoding, &appends("a", 0..60)));
        for cursor in [page.after, page.before.unwrap()] {
            assert_stale(&handle, cursor, Stale::OtherFile);
        }
        // The number is for whoever wants to go on all the same.
        let again = handle.page(&PageRequest::backward(PageStart::Seq(page.first_seq), FEW)).unwrap();
        assert_eq!(again.next_seq(), 460, "{encoding}");
    }
}

#[test]
fn a_compaction_makes_cursors_stale() {
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let disk = FaultDisk::new();
        let appends: Vec<Vec<String>> = (0..500).map(|seq| rows_by("a", seq..seq + 1)).collect();
        disk.plant(log_path(encoding), &log(encoding, &appends));
        let handle = open(&disk, encoding, SessionAccess::Read);
        let page = handle.page(&PageRequest::last(FEW)).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        compact(&disk, &log_path(encoding), &CompactOptions::default(), &mut |_| {}).unwrap();
        assert_stale(&handle, page.after, Stale::OtherFile);
        let last = handle.page(&PageRequest::last(FEW)).unwrap();
        assert_eq!(last.events, page.events, "{encoding}");
    }
}

#[test]
fn cursors_of_another_session_and_of_another_store_are_stale() {
    for encoding in Encoding::ALL {
        let (disk, handle, page) = world(encoding);
        let store = file_store(&disk, encoding);
        let other = store.create(header("t"), None).unwrap();
        append(&other, &rows_by("a", 0..500)).unwrap();
        for foreign in both_ways(&other, page.after) {
            let found = foreign.unwrap_err();
            assert!(matches!(found, Error::StaleCursor { source: Stale::OtherSession, .. }), "{found:?}");
        }
        // The same id, created again.
        let header = Header::new(Generation::V2, Text::from("s"), UnixMs::new(CREATED_AT + 1)).unwrap();
        let never = Cancel::never();
        let memory = MemoryStore::new(&MemoryStorage::new());
        let again = memory.create(header, None).unwrap();
        again.append(&[row_by("a", 0, 9).as_bytes()]).unwrap();
        let first = handle.page(&PageRequest::first(FEW)).unwrap();
        let found = again.page(&PageRequest::after(first.after, FEW), &never).unwrap_err();
        assert!(matches!(found, Error::StaleCursor { source: Stale::OtherSession, .. }), "{found:?}");
        // A copy in a store without files, and back.
        let memory = MemoryStore::new(&MemoryStorage::new());
        let copy = memory.create(crate::common::sessions::header("s"), None).unwrap();
        let rows: Vec<String> = appends("a", 0..50).concat();
        copy.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>()).unwrap();
        let found = copy.page(&PageRequest::after(first.after, FEW), &never).unwrap_err();
        assert!(matches!(found, Error::StaleCursor { source: Stale::OtherFile, .. }), "{found:?}");
        let cursor = copy.page(&PageRequest::first(FEW), &never).unwrap().after;
        assert_stale(&handle, cursor, Stale::OtherFile);
    }
}

#[test]
fn an_older_generation_is_paged_as_the_current_one_until_its_migration_makes_cursors_stale() {
    let disk = FaultDisk::new();
    let folder = Path::new(ROOT).join("_no-cwd/s");
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":1,\"id\":\"s\",\"createdAt\":{CREATED_AT},\"delegationDepth\":0}}\n"
    );
    let rows: Vec<String> =
        (0..300).map(|seq| row_of("plan/mode", seq, &format!("{{\"active\":{}}}", seq % 3 == 0))).collect();
    rows.iter().for_each(|row| text += &format!("{row}\n"));
    disk.plant(folder.join("session.v1.jsonl"), text.as_bytes());
    let handle = open(&disk, Encoding::Plain, SessionAccess::Read);
    let last = handle.page(&PageRequest::last(FEW)).unwrap();
    assert_eq!((last.first_seq, last.next_seq(), last.end), (260, 300, PageEnd::Events));
    assert_eq!(texts(&last.events), rows[260..]);
    let [before, after] = both_ways(&handle, last.before.unwrap()).map(Result::unwrap);
    assert_eq!((before.first_seq, before.next_seq(), after.first_seq), (220, 260, 260));
    assert_eq!((texts(&before.events), after.events), (texts_of(&rows[220..260]), last.events.clone()));
    let beyond = handle.page(&PageRequest::forward(PageStart::Seq(1000), FEW)).unwrap();
    assert_eq!((beyond.first_seq, beyond.end), (300, PageEnd::Log));

    let on: Arc<dyn Disk> = Arc::new(disk);
    migrate(&on, &folder, &MigrateOptions::default()).unwrap();
    for cursor in [last.after, last.before.unwrap(), beyond.after] {
        assert_stale(&handle, cursor, Stale::OtherFile);
    }
    let migrated = handle.page(&PageRequest::last(FEW)).unwrap();
    assert_eq!(migrated.events, last.events);
}

fn texts_of(rows: &[String]) -> Vec<&str> {
    rows.iter().map(String::as_str).collect()
}
