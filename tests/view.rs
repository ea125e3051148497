//! A log viewed where it lies shows what a read of it gives, or is read.

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::OsDisk;
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::{FileHandle, FileStore, LogView, SessionAccess};

use common::sessions::{append, header, options, read_all, row_by};

/// A log of 300 events, nobody writing to it.
fn stored(encoding: Encoding) -> (tempfile::TempDir, FileStore, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::with_options(root.path(), options(encoding));
    let handle = store.create(header("s"), None).unwrap();
    for batch in 0..3 {
        let rows: Vec<String> = (batch * 100..batch * 100 + 100).map(|seq| row_by("a", seq, 900)).collect();
        append(&handle, &rows).unwrap();
    }
    handle.close().unwrap();
    let path = store.stat(&Text::from("s")).unwrap().unwrap().path;
    (root, store, path)
}

fn open(store: &FileStore) -> Arc<FileHandle> {
    store.open(&Text::from("s"), SessionAccess::Read).unwrap()
}

fn rows(view: &LogView) -> Vec<String> {
    view.rows().map(|row| String::from_utf8(row.line().to_vec()).unwrap()).collect()
}

fn add(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn every_row_shows_what_its_event_is() {
    for encoding in Encoding::ALL {
        let (_root, store, _) = stored(encoding);
        let handle = open(&store);
        let view = handle.view().unwrap();
        assert_eq!(view.is_mapped(), encoding == Encoding::Plain);
        assert_eq!((view.len(), view.is_empty(), view.is_shrunk()), (300, false, false));
        let events = handle.read(0, u64::MAX).unwrap();
        for (row, event) in view.rows().zip(events.iter()) {
            assert_eq!((row.seq(), row.time()), (event.seq(), event.time()));
            assert_eq!(row.event_type(), event.event_type().raw().as_bytes());
            assert_eq!((row.data(), row.line()), (event.data().as_bytes(), event.line().as_bytes()));
            assert_eq!(row.event(&Limits::DEFAULT), Ok(event));
            assert_eq!(view.row(row.seq().get()), Some(row));
        }
        assert_eq!(view.row(300), None);
        assert_eq!(rows(&view), read_all(&handle).unwrap());
    }
}

#[test]
fn a_log_that_somebody_writes_to_is_read_instead() {
    let (_root, store, _) = stored(Encoding::Plain);
    let writer = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
    append(&writer, &[row_by("a", 300, 50)]).unwrap();
    for handle in [open(&store), Arc::clone(&writer)] {
        let view = handle.view().unwrap();
        assert_eq!((view.is_mapped(), view.len()), (false, 301));
        assert_eq!(rows(&view), read_all(&handle).unwrap());
    }
    writer.close().unwrap();
    assert!(open(&store).view().unwrap().is_mapped());
}

#[test]
fn a_disk_without_maps_is_read() {
    let (root, _, _) = stored(Encoding::Plain);
    let disk = Arc::new(OsDisk::without_maps());
    let store = FileStore::on_disk(disk, root.path(), options(Encoding::Plain));
    let view = open(&store).view().unwrap();
    assert_eq!((view.is_mapped(), view.len()), (false, 300));
}

/// Several threads look through a long log, and the place where they meet is checked like any other.
#[test]
fn a_long_log_is_one_log() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::with_options(root.path(), options(Encoding::Plain));
    let handle = store.create(header("s"), None).unwrap();
    let text: Vec<String> = (0..240).map(|seq| row_by("a", seq, 60_000)).collect();
    append(&handle, &text).unwrap();
    handle.close().unwrap();
    let view = open(&store).view().unwrap();
    assert!(view.is_mapped());
    assert_eq!(rows(&view), text);
    let path = store.stat(&Text::from("s")).unwrap().unwrap().path;
    for missing in [0, 60, 119, 120, 121, 180] {
        let mut lines: Vec<&str> = text.iter().map(String::as_str).collect();
        lines.remove(missing);
        let header = fs::read_to_string(&path).unwrap().lines().next().unwrap().to_owned();
        fs::write(&path, format!("{header}\n{}\n", lines.join("\n"))).unwrap();
        let viewed = open(&store).view().map(|view| (view.is_mapped(), view.len()));
        assert!(!matches!(viewed, Ok((true, _))), "without row {missing}: {viewed:?}");
    }
}

/// Whatever stands at the end, a view is what a read is, or the same error.
#[test]
fn what_is_not_as_writers_make_it_takes_the_way_of_a_read() {
    let whole = row_by("a", 300, 40);
    let half = &row_by("a", 300, 80)[..50];
    let spelled = whole.replace("\"seq\":", " \"seq\" : ");
    let nested = whole.replace("\"data\":{", "\"data\":{\"copy\":{\"type\":\"b\",\"seq\":300},");
    assert!(nested != whole && spelled != whole);
    for (end, is_mapped) in [
        // As a writer makes them, or at least as one could.
        (format!("{whole}\n"), true),
        (format!("{spelled}\n"), true),
        (format!("{nested}\n"), true),
        // A torn end; half a row that a whole one follows; what is no row, is out of order, is of no known type.
        (half.to_owned(), false),
        (format!("{half}{whole}\n"), false),
        (format!("{half}\n"), false),
        ("\n".to_owned(), false),
        (format!("{}\n", row_by("a", 299, 40)), false),
        (format!("{}\n", row_by("a", 301, 40)), false),
        (format!("{}\n", whole.replace("\"type\":\"", "\"type\":\"no-such/")), false),
        ("\0\0\0\0".to_owned(), false),
    ] {
        let (_root, store, path) = stored(Encoding::Plain);
        add(&path, &end);
        let (viewed, read) = match store.open(&Text::from("s"), SessionAccess::Read) {
            Ok(handle) => (handle.view(), read_all(&handle)),
            Err(error) => {
                assert!(!is_mapped, "{end:?}: {error}");
                continue;
            }
        };
        match (viewed, read) {
            (Ok(view), Ok(read)) => {
                assert_eq!(rows(&view), read, "{end:?}");
                assert_eq!(view.is_mapped(), is_mapped, "{end:?}");
            }
            (viewed, read) => {
                assert!(!is_mapped, "{end:?}");
                assert_eq!(viewed.unwrap_err().to_string(), read.unwrap_err().to_string(), "{end:?}");
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_row_is_seen_or_left_to_who_asks() {
    let (_root, store, path) = stored(Encoding::Plain);
    let bytes = fs::read(&path).unwrap();
    let row = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(150).unwrap().0 + 1;
    for at in (row..row + 70).chain([bytes.len() - 1]) {
        for change in [b'\n', b'"', 0xff] {
            let mut changed = bytes.clone();
            changed[at] = change;
            fs::write(&path, &changed).unwrap();
            let Ok(handle) = store.open(&Text::from("s"), SessionAccess::Read) else { continue };
            match (handle.view(), read_all(&handle)) {
                (Ok(view), Ok(read)) => assert_eq!(rows(&view), read, "byte {at} to {change}"),
                // Only the grammar of the payload was not looked at, and whoever asks is told.
                (Ok(view), Err(_)) => {
                    let bad = view.rows().filter(|row| row.event(&Limits::DEFAULT).is_err());
                    assert_eq!(bad.count(), 1, "byte {at} to {change}");
                }
                (Err(_), Err(_)) => {}
                (Err(error), Ok(_)) => panic!("byte {at} to {change}: {error}"),
            }
        }
    }
}

#[test]
fn a_file_that_shrinks_under_a_view_reads_as_zeros_and_says_so() {
    let (_root, store, path) = stored(Encoding::Plain);
    let view = open(&store).view().unwrap();
    assert!(view.is_mapped());
    OpenOptions::new().write(true).open(&path).unwrap().set_len(5000).unwrap();
    let last = view.row(299).unwrap();
    assert!(last.event(&Limits::DEFAULT).is_err());
    assert!(last.line().iter().all(|&byte| byte == 0));
    assert!(view.is_shrunk());
}
