//! A file that becomes shorter under a reader's map gives an error, and the process lives.

mod common;

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::{
    FileHandle, FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, Verdict, scan,
};
use seslog::{Damage, Error};

use common::sessions::{append, header, options, read_all, row_by};

/// A log of several MiB in a folder of its own, most of it below the durable boundary.
fn large_log(encoding: Encoding) -> (tempfile::TempDir, FileStore, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::with_options(root.path(), options(encoding));
    let handle = store.create(header("s"), None).unwrap();
    for batch in 0..8 {
        let rows: Vec<String> = (batch * 100..batch * 100 + 100).map(|seq| row_by("a", seq, 4000)).collect();
        append(&handle, &rows).unwrap();
    }
    handle.close().unwrap();
    let path = store.stat(&Text::from("s")).unwrap().unwrap().path;
    (root, store, path)
}

fn cut(path: &PathBuf, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_scan_of_a_file_that_is_cut_meanwhile_is_an_error() {
    for encoding in Encoding::ALL {
        for mode in [ReadMode::Map, ReadMode::Read] {
            let (_root, _store, path) = large_log(encoding);
            let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
            let log = LogFile::open(&disk, &path, Limits::DEFAULT, mode).unwrap();
            let mut rows = 0_u64;
            let outcome = scan(&log, ScanOptions::STRICT, &mut |item| {
                if let Item::Row { .. } = item {
                    rows += 1;
                    if rows == 50 {
                        cut(&path, 9000);
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
            assert!((50..800).contains(&rows), "{encoding} {mode:?}: {rows}");
            match outcome {
                Err(Error::Corruption { source: Damage::Bytes(fault), .. }) => {
                    assert!(fault.to_string().contains("shorter"), "{encoding} {mode:?}: {fault}");
                }
                // What a page of zeros is taken for, where the cut falls inside it.
                Ok(report) => assert_ne!(report.verdict, Verdict::Sound, "{encoding} {mode:?}"),
                Err(error) => panic!("{encoding} {mode:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_handle_on_a_file_that_was_cut_says_so_and_reads_what_is_left() {
    for encoding in Encoding::ALL {
        let (_root, store, path) = large_log(encoding);
        let reader = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap().len(), 800);
        let whole = std::fs::read(&path).unwrap();
        let half = whole.len() as u64 / 2;
        cut(&path, half);
        let shrank = read_all(&reader);
        assert!(matches!(shrank, Err(Error::Shrank { seen: 800, .. })), "{encoding}: {shrank:?}");
        let fresh = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
        let left = read_all(&fresh).unwrap();
        assert!(left.len() >= 300 && left.len() < 500, "{encoding}: {}", left.len());
    }
}

#[test]
fn readers_live_on_while_a_file_shrinks_and_grows_under_them() {
    for encoding in Encoding::ALL {
        let (_root, store, path) = large_log(encoding);
        let whole = std::fs::read(&path).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let (good, bad) = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_until(&store, &done))).collect();
            for round in 0..40_u64 {
                let len = whole.len() as u64 * (round % 7) / 8 + 300;
                cut(&path, len);
                std::fs::write(&path, &whole).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            let ends = readers.into_iter().map(|reader| reader.join().expect("no reader dies"));
            ends.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
        });
        assert!(good + bad > 0);
        println!("{encoding}: {good} whole reads, {bad} that said that something is wrong");
        let reader = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap().len(), 800);
    }
}

/// Reads the whole log again and again: good reads, and errors. A read that succeeds is a prefix of what was written.
fn read_until(store: &FileStore, done: &std::sync::atomic::AtomicBool) -> (u64, u64) {
    let expected: Vec<String> = (0..800).map(|seq| row_by("a", seq, 4000)).collect();
    let (mut good, mut bad) = (0, 0);
    while !done.load(std::sync::atomic::Ordering::Relaxed) {
        let open = |access| store.open(&Text::from("s"), access);
        match open(SessionAccess::Read).and_then(|handle: Arc<FileHandle>| read_all(&handle)) {
            Ok(rows) => {
                assert!(expected.starts_with(&rows));
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    (good, bad)
}
