//! Does a handle that was opened by the end of its log go on as one that read all of it?
//!
//! `PROPTEST_CASES` (default 40) is the number of logs per encoding.

mod common;

use std::mem::discriminant;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{FaultDisk, FileLoss};
use seslog::container::{Encoding, Tail};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Seeding;
use seslog::store::{
    FileHandle, FileStore, LogFile, OpenOptions, ReadMode, ScanOptions, SessionAccess, Validate, Verdict,
    scan,
};
use seslog::units::Generation;
use seslog::{Error, Result};

use common::sessions::{
    append, fat_rows_by, header, options, options_on_flush, read_all, row_by, row_of, rows_by,
};

const ROOT: &str = "/store";

fn store(disk: &FaultDisk, encoding: Encoding) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(encoding))
}

fn open(disk: &FaultDisk, encoding: Encoding, validate: Validate) -> Result<Arc<FileHandle>> {
    store(disk, encoding).open_with(&Text::from("s"), OpenOptions::WRITE.with_validate(validate))
}

fn log_path(encoding: Encoding) -> PathBuf {
    Path::new(ROOT).join("_no-cwd/s").join(format!("session.v2{}", encoding.suffix()))
}

fn bytes(disk: &FaultDisk, encoding: Encoding) -> Vec<u8> {
    disk.content(log_path(encoding)).expect("the log is there")
}

fn judged(disk: &FaultDisk, encoding: Encoding) -> (Verdict, u64, Option<Tail>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = LogFile::open(&disk, &log_path(encoding), Limits::DEFAULT, ReadMode::Read).unwrap();
    let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
    (report.verdict, report.events, report.tail)
}

/// One append of a log that is made.
#[derive(Clone, Debug)]
enum Batch {
    /// So many events with so many bytes of noise each.
    Rows(u8, u16),
    /// So many events of 10 KB: more than a segment holds.
    Fat(u8),
}

/// What became of the end afterwards. Numbers are taken modulo what is there.
#[derive(Clone, Debug)]
enum End {
    Whole,
    /// So many bytes are missing.
    Cut(u16),
    /// A bit so many bytes before the end is another.
    Flipped(u16),
    /// So many zeros follow.
    Zeros(u16),
    /// Bytes that are none of ours follow.
    Foreign(Vec<u8>),
    /// The power went, and what was not synced landed in part.
    PowerLoss(u64),
}

#[derive(Clone, Debug)]
struct Made {
    on_flush: bool,
    /// The seq of the event that ends what is inherited.
    cut: Option<u8>,
    batches: Vec<Batch>,
    end: End,
    more: Vec<Batch>,
}

fn batches(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Batch>> {
    let batch = prop_oneof![
        6 => (1..6_u8, 0..900_u16).prop_map(|(events, noise)| Batch::Rows(events, noise)),
        1 => (1..80_u8).prop_map(Batch::Fat),
    ];
    prop::collection::vec(batch, count)
}

fn made() -> impl Strategy<Value = Made> {
    let end = prop_oneof![
        4 => Just(End::Whole),
        2 => (1..2000_u16).prop_map(End::Cut),
        2 => (1..300_u16).prop_map(End::Flipped),
        1 => (1..2000_u16).prop_map(End::Zeros),
        1 => prop::collection::vec(any::<u8>(), 1..200).prop_map(End::Foreign),
        1 => any::<u64>().prop_map(End::PowerLoss),
    ];
    let cut = prop::option::of(0..40_u8);
    (any::<bool>(), cut, batches(1..40), end, batches(1..4))
        .prop_map(|(on_flush, cut, batches, end, more)| Made { on_flush, cut, batches, end, more })
}

fn rows_of(batch: &Batch, from: u64, cut: Option<u64>) -> Vec<String> {
    let mut rows = match *batch {
        Batch::Rows(events, noise) => {
            (from..from + u64::from(events)).map(|seq| row_by("a", seq, usize::from(noise))).collect()
        }
        Batch::Fat(events) => fat_rows_by("a", from..from + u64::from(events), 50),
    };
    if let Some(at) = cut.and_then(|cut| cut.checked_sub(from)).filter(|at| *at < rows.len() as u64) {
        let marker = "{\"inherited\":true}";
        rows[at as usize] = row_of("session/end-seed", from + at, marker);
    }
    rows
}

/// The disk with the log, its end as it became.
fn disk_of(made: &Made, encoding: Encoding) -> FaultDisk {
    let disk = FaultDisk::new();
    let settings = if made.on_flush { options_on_flush(encoding) } else { options(encoding) };
    let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, settings);
    let cut = made.cut.map(u64::from);
    let header = match cut {
        Some(_) => header("s").with_seeding(Generation::V2, Seeding::Marked).unwrap(),
        None => header("s"),
    };
    let handle = store.create(header, cut).unwrap();
    handle.flush().unwrap();
    let mut from = 0;
    for batch in &made.batches {
        let rows = rows_of(batch, from, cut);
        append(&handle, &rows).unwrap();
        from += rows.len() as u64;
    }
    if let End::PowerLoss(seed) = made.end {
        return disk.crash_image(seed, FileLoss::RandomSectors);
    }
    handle.close().unwrap();
    drop(handle);
    let mut bytes = bytes(&disk, encoding);
    let len = bytes.len();
    match &made.end {
        End::Whole | End::PowerLoss(_) => return disk.kill_image(),
        End::Cut(count) => bytes.truncate(len - usize::from(*count) % len),
        End::Flipped(back) => bytes[len - 1 - usize::from(*back) % len] ^= 0x20,
        End::Zeros(count) => bytes.resize(len + usize::from(*count), 0),
        End::Foreign(more) => bytes.extend_from_slice(more),
    }
    disk.plant(log_path(encoding), &bytes);
    disk.kill_image()
}

/// Opens the log and appends `more` to it.
fn go_on(
    disk: &FaultDisk,
    encoding: Encoding,
    validate: Validate,
    made: &Made,
) -> Result<(u64, u64, Vec<String>)> {
    let handle = open(disk, encoding, validate)?;
    let next = handle.next_seq().unwrap();
    let before = read_all(&handle)?;
    assert_eq!(before.len() as u64, next);
    let mut from = next;
    for batch in &made.more {
        let rows = rows_of(batch, from, None);
        append(&handle, &rows)?;
        from += rows.len() as u64;
    }
    handle.close()?;
    Ok((next, handle.inherited_event_count(), before))
}

fn check(made: &Made, encoding: Encoding) -> Result<(), TestCaseError> {
    let full = disk_of(made, encoding);
    let tail = full.kill_image();
    let found = bytes(&full, encoding);
    let verdict = judged(&full, encoding).0;
    let by_full = go_on(&full, encoding, Validate::Full, made);
    let by_tail = go_on(&tail, encoding, Validate::Tail, made);
    match (&by_full, &by_tail) {
        (Ok(by_full), Ok(by_tail)) => prop_assert_eq!(by_full, by_tail),
        // The one difference that is documented: what is trusted may be damaged, and stays as it is.
        (Err(Error::Corruption { .. } | Error::DamagedTail { .. }), Ok(_))
            if matches!(made.end, End::Flipped(_) | End::PowerLoss(_)) && encoding != Encoding::Indexed =>
        {
            prop_assert!(bytes(&tail, encoding).starts_with(&found));
            return Ok(());
        }
        (Err(by_full), Err(by_tail)) => {
            prop_assert_eq!(discriminant(by_full), discriminant(by_tail), "{} and {}", by_full, by_tail)
        }
        (by_full, by_tail) => prop_assert!(false, "{verdict:?}: {by_full:?}, but {by_tail:?}"),
    }
    prop_assert!(bytes(&full, encoding) == bytes(&tail, encoding), "other bytes after {:?}", verdict);
    if by_tail.is_ok() {
        prop_assert_eq!(judged(&tail, encoding).0, Verdict::Sound);
        if verdict == Verdict::Sound {
            prop_assert!(bytes(&tail, encoding).starts_with(&found));
        }
    }
    Ok(())
}

fn the_same_appends_give_the_same_bytes(encoding: Encoding) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(made in made())| check(&made, encoding)?);
}

#[test]
fn the_same_appends_give_the_same_bytes_indexed() {
    the_same_appends_give_the_same_bytes(Encoding::Indexed);
}

#[test]
fn the_same_appends_give_the_same_bytes_zstd() {
    the_same_appends_give_the_same_bytes(Encoding::Zstd);
}

#[test]
fn the_same_appends_give_the_same_bytes_plain() {
    the_same_appends_give_the_same_bytes(Encoding::Plain);
}

/// A log of `appends` appends of four events and 2 KB each.
fn long_log(encoding: Encoding, appends: u64, cut: Option<u64>) -> FaultDisk {
    let disk = FaultDisk::new();
    let seeded = header("s").with_seeding(Generation::V2, Seeding::Marked).unwrap();
    let header = if cut.is_some() { seeded } else { header("s") };
    let handle = store(&disk, encoding).create(header, cut).unwrap();
    for from in (0..appends * 4).step_by(4) {
        append(&handle, &rows_of(&Batch::Rows(4, 500), from, cut)).unwrap();
    }
    handle.close().unwrap();
    disk.kill_image()
}

#[test]
fn a_long_log_is_opened_by_a_few_pages() {
    let read = |encoding, cut| {
        let disk = long_log(encoding, 1000, cut);
        let before = disk.bytes_read(log_path(encoding));
        let handle = open(&disk, encoding, Validate::Tail).unwrap();
        assert_eq!((handle.next_seq(), handle.inherited_event_count()), (Some(4000), cut.unwrap_or(0)));
        append(&handle, &rows_by("a", 4000..4001)).unwrap();
        (disk.bytes_read(log_path(encoding)) - before, bytes(&disk, encoding).len() as u64)
    };
    let (indexed, len) = read(Encoding::Indexed, None);
    assert!(indexed < 160 << 10 && len > 1 << 20, "{indexed} of {len}");
    let (seeded, _) = read(Encoding::Indexed, Some(3990));
    assert!(seeded < 320 << 10, "{seeded}: what follows the mark, and no more");
    let (plain, len) = read(Encoding::Plain, None);
    assert!(plain < 160 << 10 && len > 2 << 20, "{plain} of {len}");
}

#[test]
fn an_early_cut_is_found() {
    for encoding in Encoding::ALL {
        for cut in [0, 1, 63, 64, 65, 127, 128, 191, 192, 193, 799] {
            let disk = long_log(encoding, 200, Some(cut));
            let handle = open(&disk, encoding, Validate::Tail).unwrap();
            assert_eq!(handle.inherited_event_count(), cut, "{encoding}");
        }
    }
}

#[test]
fn damage_in_the_trusted_middle_stays_and_is_found_by_whoever_reads_it() {
    for encoding in Encoding::ALL {
        let disk = long_log(encoding, 200, None);
        let mut damaged = bytes(&disk, encoding);
        let at = damaged.len() / 2;
        // No character of JSON, wherever it stands.
        damaged[at] = if damaged[at] == 1 { 2 } else { 1 };
        disk.plant(log_path(encoding), &damaged);
        let full = open(&disk, encoding, Validate::Full);
        let is_seen = matches!(full, Err(Error::Corruption { .. } | Error::DamagedTail { .. }));
        assert!(is_seen, "{full:?}");
        drop(full);
        let handle = open(&disk, encoding, Validate::Tail).unwrap();
        append(&handle, &rows_by("a", 800..803)).unwrap();
        handle.close().unwrap();
        assert!(bytes(&disk, encoding).starts_with(&damaged));
        assert_ne!(judged(&disk, encoding).0, Verdict::Sound, "{encoding}");
    }
}

#[test]
fn another_program_that_appends_behind_the_open_is_noticed() {
    for encoding in Encoding::ALL {
        let disk = long_log(encoding, 100, None);
        let mut foreign = bytes(&disk, encoding);
        let handle = open(&disk, encoding, Validate::Tail).unwrap();
        foreign.extend_from_slice(b"{}\n");
        disk.plant(log_path(encoding), &foreign);
        let refused = append(&handle, &rows_by("a", 400..401));
        assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
        assert_eq!(bytes(&disk, encoding), foreign);
    }
}

#[test]
fn an_unknown_event_in_the_last_block_refuses_the_log() {
    for encoding in Encoding::ALL {
        let disk = FaultDisk::new();
        let mut anything = options(encoding);
        anything.admission = seslog::store::Admission::Anything;
        let handle = FileStore::on_disk(Arc::new(disk.clone()), ROOT, anything).create(header("s"), None);
        let handle = handle.unwrap();
        append(&handle, &rows_by("a", 0..1)).unwrap();
        append(&handle, &[row_of("vendor/novelty", 1, "{}")]).unwrap();
        handle.close().unwrap();
        let refused = open(&disk, encoding, Validate::Tail);
        assert!(matches!(refused, Err(Error::FormatUnsupported { .. })), "{refused:?}");
    }
}

#[test]
fn the_store_decides_for_those_who_do_not() {
    let disk = long_log(Encoding::Indexed, 100, None);
    let mut trusting = options(Encoding::Indexed);
    trusting.validate = Validate::Tail;
    let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, trusting);
    let id = Text::from("s");
    let read = |open: &dyn Fn() -> Result<Arc<FileHandle>>| {
        let before = disk.bytes_read(log_path(Encoding::Indexed));
        open().unwrap().close().unwrap();
        disk.bytes_read(log_path(Encoding::Indexed)) - before
    };
    let len = bytes(&disk, Encoding::Indexed).len() as u64;
    assert!(read(&|| store.open(&id, SessionAccess::Write)) < len);
    assert!(read(&|| store.open_with(&id, OpenOptions::WRITE)) < len);
    assert!(read(&|| store.open_with(&id, OpenOptions::WRITE.with_validate(Validate::Full))) >= len);
}
