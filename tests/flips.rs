//! Every bit of sample logs, flipped: detected, or of no consequence. What each encoding lets pass is counted and printed.
//!
//! A flip is *detected* if the whole is no longer called sound, *harmless* if it is and the same rows come out. A flip that is called
//! a tear is detected too, but costs the last append, so it is counted apart: a torn end is set aside without a question. What is
//! neither fails the test, and in the indexed encoding every flip has to be detected, none of them as a tear.

use std::ops::ControlFlow;
use std::sync::Arc;

use seslog::container::disk::Disk;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::{Encoding, skim};
use seslog::limits::Limits;
use seslog::store::{FileStore, Item, LogFile, ReadMode, ScanOptions, Verdict, scan};

mod common;

use common::sessions::{append, fat_rows_by, header, options, row_by, rows_by};

/// A log as the store writes it: appends of one and of several rows, in the indexed encoding one of several segments and a marker.
fn sample(encoding: Encoding) -> (FaultDisk, std::path::PathBuf) {
    let disk = FaultDisk::new();
    let store = FileStore::on_disk(Arc::new(disk.clone()), "/store", options(encoding));
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("flip", 0..2)).unwrap();
    append(&handle, &[row_by("flip", 2, 200)]).unwrap();
    // One row of ten kilobytes that compress to nothing; plain text is long enough without.
    if encoding != Encoding::Plain {
        append(&handle, &fat_rows_by("flip", 3..4, 10)).unwrap();
    }
    let next = handle.next_seq().unwrap();
    append(&handle, &rows_by("flip", next..next + 3)).unwrap();
    handle.close().unwrap();
    let path = store.stat(&"s".into()).unwrap().unwrap().path;
    (disk, path)
}

fn rows_of(disk: &Arc<dyn Disk>, path: &std::path::Path) -> (Verdict, Vec<String>) {
    let log = match LogFile::open(disk, path, Limits::DEFAULT, ReadMode::Read) {
        Ok(log) => log,
        Err(_) => return (Verdict::Corrupt, Vec::new()),
    };
    let mut rows = Vec::new();
    let report = scan(&log, ScanOptions::STRICT, &mut |item| {
        match item {
            Item::Header { line, .. } => rows.push(String::from_utf8_lossy(line).into_owned()),
            Item::Row { row, .. } => rows.push(row.line().to_owned()),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    });
    let verdict = report.and_then(|report| {
        // As `verify` does: the name has to fit what is in it.
        log.check_encoding()?;
        report.header.as_ref().map_or(Ok(()), |header| log.check_name(header.generation()))?;
        Ok(report.verdict)
    });
    (verdict.unwrap_or(Verdict::Corrupt), rows)
}

#[derive(Debug, Default)]
struct Count {
    detected: u64,
    torn: u64,
    harmless: u64,
    changed: u64,
}

fn flip_every_bit(encoding: Encoding) -> Count {
    let (disk, path) = sample(encoding);
    let bytes = disk.content(&path).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (verdict, rows) = rows_of(&shared, &path);
    assert_eq!(verdict, Verdict::Sound);
    let mut count = Count::default();
    let mut quick = 0_u64;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let disk = FaultDisk::new();
        disk.plant(&path, &flipped);
        let (verdict, found) = rows_of(&(Arc::new(disk) as Arc<dyn Disk>), &path);
        if encoding == Encoding::Indexed {
            quick += u64::from(!matches!(skim(&mut &flipped[..], encoding, &mut |_| {}), Ok(Some(_))));
        }
        match verdict {
            Verdict::Sound if found == rows => count.harmless += 1,
            Verdict::Sound => count.changed += 1,
            Verdict::Torn | Verdict::Unfinished => count.torn += 1,
            _ => count.detected += 1,
        }
        if verdict != Verdict::Sound {
            assert!(
                rows.starts_with(&found) || encoding == Encoding::Plain,
                "{encoding}, bit {bit}: rows that never were"
            );
        }
    }
    let bits = bytes.len() * 8;
    println!(
        "flips: {encoding}: {bits} bits flipped, {} detected, {} taken for a tear, {} harmless, {} change rows unnoticed; {quick} found by checksums alone",
        count.detected, count.torn, count.harmless, count.changed
    );
    if encoding == Encoding::Indexed {
        assert_eq!(quick, bits as u64, "`verify --quick` sees all of them as well");
    }
    count
}

#[test]
fn every_flipped_bit_of_an_indexed_log_is_detected_and_none_is_taken_for_a_tear() {
    let count = flip_every_bit(Encoding::Indexed);
    assert_eq!((count.torn, count.harmless, count.changed), (0, 0, 0), "{count:?}");
    assert!(count.detected > 8000);
}

/// A flipped bit of a frame's block header can make the last frame seem cut, and some bits of a header mean nothing.
#[test]
fn every_flipped_bit_of_a_zstd_log_is_detected_or_harmless() {
    let count = flip_every_bit(Encoding::Zstd);
    assert_eq!(count.changed, 0, "{count:?}");
    assert!(count.detected > 50 * (count.torn + count.harmless), "{count:?}");
}

/// Plain text has no checksum. A flip inside of a payload is another payload, and nobody can tell; the structure around it is checked.
#[test]
fn flipped_bits_of_a_plain_log_change_a_value_at_most() {
    let count = flip_every_bit(Encoding::Plain);
    assert!(count.detected > 0 && count.torn < 100, "{count:?}");
}
