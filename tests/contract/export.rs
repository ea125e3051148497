//! Rule 140: an export is equal for all backends that hold the same log.

use std::io::{Cursor, Read as _};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::export::{ExportError, descendants, write_text, write_zip};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{
    Cancel, FileStore, MemoryStorage, MemoryStore, SessionAccess, SessionHandle, SessionPersistence,
};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{CREATED_AT, options, row_by};

/// A store of each kind.
fn backends() -> Vec<(String, Arc<dyn SessionPersistence>)> {
    let mut all: Vec<(String, Arc<dyn SessionPersistence>)> = Vec::new();
    for encoding in Encoding::ALL {
        let store = FileStore::on_disk(Arc::new(FaultDisk::new()), "/store", options(encoding));
        all.push((encoding.to_string(), Arc::new(store)));
    }
    all.push(("memory".to_owned(), Arc::new(MemoryStore::new(&MemoryStorage::new()))));
    all
}

fn text(id: &str) -> Text {
    Text::from(id)
}

/// A session, two that it started, one that the second of them started, and one of somebody else's. Appends are of
/// `batch` events each.
fn fill(store: &dyn SessionPersistence, batch: usize) {
    let header = |id: &str, created: i64| {
        Header::new(Generation::CURRENT, text(id), UnixMs::new(CREATED_AT + created)).unwrap()
    };
    let child = |id: &str, parent: &str, created| {
        header(id, created).with_parent_session(text(parent)).with_origin_subagent()
    };
    for (header, events) in [
        (header("root/1", 0).with_cwd(text("/w")).unwrap(), 700_u64),
        (child("b.1", "root/1", 2), 3),
        (child("b/1", "root/1", 3), 0),
        (child("é", "b.1", 9), 40),
        (header("alone", 1), 5),
    ] {
        let handle = store.create(header, None, &Cancel::never()).unwrap();
        let noise = |seq: u64| if seq.is_multiple_of(97) { 70_000 } else { 30 };
        let rows: Vec<String> = (0..events).map(|seq| row_by("me", seq, noise(seq))).collect();
        for rows in rows.chunks(batch) {
            let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
            handle.append(&rows, &Cancel::never()).unwrap();
        }
        handle.flush(&Cancel::never()).unwrap();
        handle.close().unwrap();
    }
}

fn read_handle(store: &dyn SessionPersistence, id: &str) -> Arc<dyn SessionHandle> {
    store.open(&text(id), SessionAccess::Read, &Cancel::never()).unwrap()
}

#[test]
fn r140_an_exported_text_matches_a_full_read_and_is_the_same_from_every_backend() {
    let mut first: Option<Vec<u8>> = None;
    for (at, (name, store)) in backends().into_iter().enumerate() {
        fill(&*store, [1000, 7, 64, 1][at]);
        let handle = read_handle(&*store, "root/1");
        let mut exported = Vec::new();
        assert_eq!(write_text(&*handle, &mut exported, &Cancel::never()).unwrap(), 700);
        let mut whole = Vec::new();
        handle.header().write(&mut whole);
        whole.push(b'\n');
        whole.extend_from_slice(handle.read(0, u64::MAX, &Cancel::never()).unwrap().as_bytes());
        assert!(exported == whole, "{name}");
        assert!(
            exported.starts_with(br#"{"type":"session","version":2,"id":"root/1","#)
                && exported.ends_with(b"}\n")
        );
        assert!(*first.get_or_insert_with(|| exported.clone()) == exported, "{name}");

        let mut empty = Vec::new();
        write_text(&*read_handle(&*store, "b/1"), &mut empty, &Cancel::never()).unwrap();
        assert_eq!(empty.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}

#[test]
fn r140_a_zip_of_a_session_and_those_below_it_is_the_same_from_every_backend() {
    let mut first: Option<Vec<u8>> = None;
    for (at, (name, store)) in backends().into_iter().enumerate() {
        fill(&*store, [1000, 7, 64, 1][at]);
        let mut zip = Vec::new();
        assert_eq!(write_zip(&*store, &text("root/1"), &mut zip, &Cancel::never()).unwrap(), 4);
        assert!(*first.get_or_insert_with(|| zip.clone()) == zip, "{name}");
        let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
        let names: Vec<String> =
            (0..archive.len()).map(|at| archive.by_index(at).unwrap().name().unwrap().into_owned()).collect();
        assert_eq!(
            names,
            [
                "session.v2.jsonl",
                "subagents/b_1/session.v2.jsonl",
                "subagents/_/session.v2.jsonl",
                "subagents/b_1_2/session.v2.jsonl"
            ]
        );
        for (at, id) in ["root/1", "b.1", "é", "b/1"].into_iter().enumerate() {
            let (mut entry, mut text) = (Vec::new(), Vec::new());
            archive.by_index(at).unwrap().read_to_end(&mut entry).unwrap();
            write_text(&*read_handle(&*store, id), &mut text, &Cancel::never()).unwrap();
            assert!(entry == text, "{name}: {id}");
        }
    }
}

#[test]
fn a_sub_session_that_is_not_in_order_fails_the_whole_export() {
    let disk = FaultDisk::new();
    let store = FileStore::on_disk(Arc::new(disk.clone()), "/store", options(Encoding::Plain));
    fill(&store, 10);
    let sessions = SessionPersistence::list(&store, &Cancel::never()).unwrap();
    let below = descendants(&sessions, &text("root/1"));
    let path = &below.last().unwrap().path;
    disk.plant(path, b"{\"type\":\"session\",\"version\":2,\"id\":\"b/1\",\"createdAt\":1700000000003,\"parentSession\":\"root/1\",\"isSeeded\":false,\"origin\":\"subagent\",\"delegationDepth\":0}\nno event\n");
    let failed = write_zip(&store, &text("root/1"), Vec::new(), &Cancel::never());
    assert!(matches!(failed, Err(ExportError::Log(_))), "{failed:?}");
    assert!(write_zip(&store, &text("nobody"), Vec::new(), &Cancel::never()).is_err());
}
