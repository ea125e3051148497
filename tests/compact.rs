//! A compaction stores the same lines in other bytes, and a crash in the middle of it costs none.

mod common;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::sessions::{append, header, options, read, read_all, row_by};
use seslog::Error;
use seslog::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
use seslog::container::disk::{Access, Disk};
use seslog::container::{Encoding, LEVEL_STORE};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::layout::LOCK_NAME;
use seslog::store::{
    CompactOptions, Compacted, FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, Snapshot,
    State, Verdict, compact, scan,
};

const ROOT: &str = "/root";
const ID: &str = "s";
const COMPRESSED: [Encoding; 2] = [Encoding::Indexed, Encoding::Zstd];

fn store(disk: &FaultDisk, encoding: Encoding) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(encoding))
}

fn log_path(encoding: Encoding) -> PathBuf {
    Path::new(ROOT).join("_no-cwd").join(ID).join(format!("session.v2{}", encoding.suffix()))
}

fn rows(count: u64) -> Vec<String> {
    (0..count).map(|seq| row_by("first", seq, 200)).collect()
}

/// A log of so many appends of one event.
fn stored(encoding: Encoding, count: u64) -> FaultDisk {
    let disk = FaultDisk::new();
    let handle = store(&disk, encoding).create(header(ID), None).unwrap();
    rows(count).iter().for_each(|row| append(&handle, std::slice::from_ref(row)).unwrap());
    handle.close().unwrap();
    let disk = disk.crash_image(0, FileLoss::KeepAll);
    disk.forget_trace();
    disk
}

fn small_segments() -> CompactOptions {
    let mut options = CompactOptions::default();
    options.segment_bytes = 4 << 10;
    options
}

fn run(disk: &FaultDisk, encoding: Encoding, options: &CompactOptions) -> seslog::Result<Compacted> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    compact(&shared, &log_path(encoding), options, &mut |_| {})
}

fn all_rows(disk: &FaultDisk, encoding: Encoding) -> Vec<String> {
    read_all(&store(disk, encoding).open(&Text::from(ID), SessionAccess::Read).unwrap()).unwrap()
}

/// Every line of the log, header included, of which a scan says that it is sound.
fn lines(disk: &FaultDisk, path: &Path) -> Vec<Vec<u8>> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = LogFile::open(&shared, path, Limits::DEFAULT, ReadMode::Read).unwrap();
    let mut lines = Vec::new();
    let report = scan(&log, ScanOptions::STRICT, &mut |item| {
        match item {
            Item::Header { line, .. } => lines.push(line.to_vec()),
            Item::Row { row, .. } => lines.push(row.line().as_bytes().to_vec()),
            other => panic!("{other:?}"),
        }
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(report.unwrap().verdict, Verdict::Sound);
    lines
}

#[test]
fn a_compacted_log_holds_the_same_lines_in_few_frames_and_fewer_bytes() {
    for encoding in COMPRESSED {
        let disk = stored(encoding, 200);
        let path = log_path(encoding);
        let (before, old) = (lines(&disk, &path), disk.content(&path).unwrap().len() as u64);
        let planned = run(&disk, encoding, &{
            let mut options = small_segments();
            options.dry_run = true;
            options
        });
        let changes = disk.trace().iter().filter(|op| op.kind.is_change()).count();
        assert_eq!(changes, 0, "a dry run takes no lock and writes nothing");
        let done = run(&disk, encoding, &small_segments()).unwrap();
        assert_eq!(planned.unwrap(), done, "what was planned came");
        assert_eq!(lines(&disk, &path), before);
        assert_eq!((done.rows, done.events, done.frames_before, done.size_before), (200, 200, 201, old));
        assert_eq!(done.size_after, disk.content(&path).unwrap().len() as u64);
        assert!(done.is_smaller && done.frames_after < 30, "{done:?}");
        assert!(disk.paths().iter().all(|path| path.extension().is_none_or(|extension| extension != "tmp")));
        // It is a log like any other: its ends tell the count, a range is found, and it grows.
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let snapshot = Snapshot::of_log(&shared, &path, Limits::DEFAULT).unwrap();
        assert_eq!((snapshot.state, snapshot.event_count), (State::Ok, Some(200)));
        let handle = store(&disk, encoding).open(&Text::from(ID), SessionAccess::Write).unwrap();
        assert_eq!(read(&handle, 100, 3).unwrap(), rows(200)[100..103]);
        append(&handle, &[row_by("second", 200, 24)]).unwrap();
        handle.close().unwrap();
        assert_eq!(all_rows(&disk, encoding).len(), 201);
    }
}

#[test]
fn a_log_that_would_not_become_smaller_stays_as_it_is() {
    for encoding in COMPRESSED {
        let disk = stored(encoding, 50);
        run(&disk, encoding, &CompactOptions::default()).unwrap();
        let stamp = disk.stamp(&log_path(encoding)).unwrap();
        let again = run(&disk, encoding, &CompactOptions::default()).unwrap();
        assert!(!again.is_smaller);
        let mut worse = CompactOptions::default();
        worse.level = LEVEL_STORE;
        assert!(!run(&disk, encoding, &worse).unwrap().is_smaller);
        assert_eq!(disk.stamp(&log_path(encoding)).unwrap(), stamp);
        assert!(disk.paths().iter().all(|path| path.extension().is_none_or(|extension| extension != "tmp")));
    }
}

#[test]
fn whatever_is_not_in_order_is_refused_without_a_trace() {
    let refused = |disk: &FaultDisk, encoding: Encoding| {
        let path = log_path(encoding);
        let (before, paths) = (disk.content(&path).unwrap(), disk.paths());
        let error = run(disk, encoding, &small_segments()).unwrap_err();
        assert_eq!(disk.content(&path).unwrap(), before);
        assert_eq!(disk.paths(), paths);
        error
    };
    for encoding in COMPRESSED {
        let disk = stored(encoding, 20);
        let bytes = disk.content(log_path(encoding)).unwrap();
        disk.plant(log_path(encoding), &bytes[..bytes.len() - 10]);
        assert!(matches!(refused(&disk, encoding), Error::TornTail { .. }), "{encoding}");
        let mut bad = bytes.clone();
        bad[bytes.len() / 2] ^= 1;
        disk.plant(log_path(encoding), &bad);
        assert!(matches!(refused(&disk, encoding), Error::Corruption { .. }), "{encoding}");
        disk.plant(log_path(encoding), &bytes);
        let writer = store(&disk, encoding).open(&Text::from(ID), SessionAccess::Write).unwrap();
        assert!(matches!(refused(&disk, encoding), Error::AlreadyOwned { .. }), "{encoding}");
        writer.close().unwrap();
        let elsewhere = log_path(encoding).with_file_name("session.v1.jsonl.zst");
        disk.plant(&elsewhere, &bytes);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let named = compact(&shared, &elsewhere, &small_segments(), &mut |_| {}).unwrap_err();
        assert!(matches!(named, Error::IdentityMismatch { .. }), "{encoding}: {named:?}");
    }
    let disk = stored(Encoding::Plain, 20);
    assert!(matches!(refused(&disk, Encoding::Plain), Error::InvalidArgument { .. }));
}

#[test]
fn a_log_that_somebody_changes_meanwhile_is_not_replaced() {
    for encoding in COMPRESSED {
        // Whoever takes no lock may come at any moment up to the rename itself.
        let disk = stored(encoding, 30);
        run(&disk, encoding, &small_segments()).unwrap();
        let trace = disk.trace();
        let look = trace.iter().position(|op| op.kind == OpKind::Rename).unwrap() - 1;
        assert_eq!((trace[look].kind, &trace[look].path), (OpKind::Stamp, &log_path(encoding)));
        for moment in [trace[look].call, trace[look].call / 2] {
            let disk = stored(encoding, 30);
            disk.before(moment, move |disk| {
                disk.open(&log_path(encoding), Access::Append).unwrap().append_all(b"foreign").unwrap();
            });
            let error = run(&disk, encoding, &small_segments()).unwrap_err();
            assert!(matches!(
                error,
                Error::Foreign { .. } | Error::TornTail { .. } | Error::DamagedTail { .. }
            ));
            assert!(disk.content(log_path(encoding)).unwrap().ends_with(b"foreign"));
        }
    }
}

#[test]
fn power_lost_at_any_call_leaves_one_of_both_logs_whole() {
    const LOSSES: [FileLoss; 4] =
        [FileLoss::DropUnsynced, FileLoss::KeepAll, FileLoss::RandomSectors, FileLoss::ZeroExtendedTail];
    for encoding in COMPRESSED {
        let whole = stored(encoding, 40);
        let before = lines(&whole, &log_path(encoding));
        let looked = whole.ops();
        run(&whole, encoding, &small_segments()).unwrap();
        let end = whole.ops();
        let mut replaced = 0;
        for calls in looked..=end {
            let disk = stored(encoding, 40);
            assert_eq!(lines(&disk, &log_path(encoding)), before);
            disk.crash_after(calls);
            let done = run(&disk, encoding, &small_segments());
            for (seed, loss) in LOSSES.into_iter().enumerate() {
                let after = disk.crash_image(seed as u64, loss);
                assert_eq!(lines(&after, &log_path(encoding)), before, "{encoding}, call {calls}, {loss:?}");
                let len = after.content(log_path(encoding)).unwrap().len();
                let is_new = len == whole.content(log_path(encoding)).unwrap().len();
                assert!(is_new || done.is_err(), "acknowledged, and the old log came back");
                replaced += usize::from(is_new);
                // The next writer, and the next compaction, find nothing in their way.
                let handle = store(&after, encoding).open(&Text::from(ID), SessionAccess::Write).unwrap();
                append(&handle, &[row_by("second", 40, 24)]).unwrap();
                handle.close().unwrap();
                run(&after, encoding, &small_segments()).unwrap();
                assert_eq!(all_rows(&after, encoding).len(), 41);
            }
        }
        assert!(replaced > LOSSES.len(), "some of the cuts came behind the rename");
    }
}

#[test]
fn a_disk_that_refuses_any_one_call_costs_no_line() {
    for encoding in COMPRESSED {
        let whole = stored(encoding, 40);
        let start = whole.ops();
        run(&whole, encoding, &small_segments()).unwrap();
        let before = rows(40);
        for call in start..whole.ops() {
            let disk = stored(encoding, 40);
            disk.fail_at(call, Failure::Error(5));
            let _refused = run(&disk, encoding, &small_segments());
            assert_eq!(all_rows(&disk, encoding), before, "{encoding}, call {call}");
            let after = disk.crash_image(call, FileLoss::RandomSectors);
            assert_eq!(all_rows(&after, encoding), before, "{encoding}, call {call}");
            assert!(disk.lock(&log_path(encoding).with_file_name(LOCK_NAME)).is_ok(), "the lock is free");
        }
    }
}

#[test]
fn a_reader_that_had_the_log_open_goes_on() {
    for encoding in COMPRESSED {
        let disk = stored(encoding, 60);
        let reader = store(&disk, encoding).open(&Text::from(ID), SessionAccess::Read).unwrap();
        assert_eq!(read(&reader, 0, 10).unwrap(), rows(60)[..10]);
        run(&disk, encoding, &small_segments()).unwrap();
        assert_eq!(read(&reader, 10, 50).unwrap(), rows(60)[10..]);
    }
}
