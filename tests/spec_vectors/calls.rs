//! 05, "Call by call": each run of the table, made with the crate on a disk that writes its calls down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{Failure, FaultDisk, FileLoss, Op, OpKind};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::{
    CompactOptions, Durability, FileHandle, FileStore, SessionAccess, StoreOptions, compact, recover,
};
use seslog::units::{Generation, UnixMs};
use seslog::{Error, Result};

use crate::build::crc32;
use crate::markdown::Doc;

const ROOT: &str = "/home/store";
const ID: &str = "s";
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn project_folder() -> PathBuf {
    Path::new(ROOT).join("_no-cwd")
}

fn session_folder() -> PathBuf {
    project_folder().join(ID)
}

fn log_path(encoding: Encoding) -> PathBuf {
    session_folder().join(format!("session.v2{}", encoding.suffix()))
}

fn store(disk: &FaultDisk, encoding: Encoding, durability: Durability) -> FileStore {
    let mut options = StoreOptions::default();
    (options.encoding, options.durability) = (encoding, durability);
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options)
}

fn create(disk: &FaultDisk, encoding: Encoding, durability: Durability) -> Arc<FileHandle> {
    let header = Header::new(Generation::V2, Text::from(ID), UnixMs::new(9)).expect("a header");
    store(disk, encoding, durability).create(header, None).expect("nobody has it")
}

fn open(disk: &FaultDisk, encoding: Encoding) -> Arc<FileHandle> {
    let store = store(disk, encoding, Durability::Sync);
    store.open(&Text::from(ID), SessionAccess::Write).expect("it may be written to")
}

fn row(seq: u64, filling: &str) -> String {
    format!(r#"{{"type":"plan/mode","seq":{seq},"time":9,"data":{{"active":true,"filling":"{filling}"}}}}"#)
}

/// One event of half a sector, which no compressor makes much smaller.
fn append(handle: &FileHandle) -> Result<()> {
    let seq = handle.next_seq().expect("it writes");
    handle.append(&[row(seq, &noise(seq, 240)).as_bytes()])
}

/// Letters that no compressor makes much fewer.
fn noise(seq: u64, len: usize) -> String {
    let mut state = seq + 1;
    let mut text = String::new();
    while text.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        text.push_str(&format!("{:x}", state >> 20));
    }
    text
}

/// A disk with the log of `appends` events, all of it durable, and nobody who has it open.
fn stored(encoding: Encoding, appends: u32) -> FaultDisk {
    let disk = FaultDisk::new();
    disk.plant_dir("/home");
    let handle = create(&disk, encoding, Durability::Sync);
    (0..appends).for_each(|_| append(&handle).expect("it is stored"));
    handle.close().expect("it is freed");
    disk.crash_image(0, FileLoss::KeepAll)
}

/// A log whose second append, which starts at the given place, was changed.
fn ending(encoding: Encoding, change: fn(&mut Vec<u8>, usize)) -> FaultDisk {
    let disk = stored(encoding, 2);
    let mut bytes = disk.content(log_path(encoding)).expect("a log");
    // Both disks hold the same log, but for the log id.
    let start = stored(encoding, 1).content(log_path(encoding)).expect("a log").len();
    change(&mut bytes, start);
    disk.plant(log_path(encoding), &bytes);
    disk
}

/// An indexed log that ends with the first of several segments of an append.
fn unfinished() -> FaultDisk {
    let disk = stored(Encoding::Indexed, 1);
    let path = log_path(Encoding::Indexed);
    let before = disk.content(&path).expect("a log").len();
    let handle = open(&disk, Encoding::Indexed);
    let air = "lorem ipsum ".repeat(20_000);
    let rows: Vec<String> = (1..4).map(|seq| row(seq, &air)).collect();
    handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>()).expect("it is stored");
    handle.close().expect("it is freed");
    let bytes = disk.content(&path).expect("a log");
    let trailer = [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0];
    let first = (before..bytes.len()).find(|&at| bytes[at..].starts_with(&trailer)).expect("a trailer");
    assert!(first + 64 < bytes.len(), "several segments");
    disk.plant(&path, &bytes[..first + 64]);
    disk.crash_image(0, FileLoss::KeepAll)
}

/// Makes a run of the table; its calls are those in the trace.
fn run(what: &str, encoding: Encoding) -> FaultDisk {
    if let Some(place) = what.strip_prefix("first append of a session, in a ") {
        let disk = FaultDisk::new();
        disk.plant_dir("/home");
        match place {
            "root that is not there" => {}
            "root that is there" => disk.plant_dir(ROOT),
            "project that is there" => disk.plant_dir(project_folder()),
            other => panic!("{other}"),
        }
        append(&create(&disk, encoding, Durability::Sync)).expect("it is stored");
        return disk;
    }
    if what == "first append of a session, of 200 KiB" {
        let disk = FaultDisk::new();
        disk.plant_dir(project_folder());
        let rows: Vec<String> = (0..100).map(|seq| row(seq, &noise(seq, 2000))).collect();
        let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
        create(&disk, encoding, Durability::Sync).append(&rows).expect("it is stored");
        return disk;
    }
    let disk = match what {
        "first append behind a complete end" => stored(encoding, 2),
        "first append behind a torn end" => ending(encoding, |bytes, start| bytes.truncate(start + 99)),
        "first append behind a torn end that was set aside before" => set_aside(encoding),
        "first append behind zeros" => ending(encoding, |bytes, start| bytes[start..].fill(0)),
        "first append behind an unfinished end" => unfinished(),
        "first append where the publisher's draft is left over" => {
            let disk = stored(encoding, 2);
            let draft = format!("session.v2{}.0123456789ab.tmp", encoding.suffix());
            disk.link(&log_path(encoding), &session_folder().join(draft)).expect("the name is free");
            disk
        }
        "first append, and the session folder cannot be synced" => return not_published(encoding),
        "opening for writing" => {
            let disk = stored(encoding, 2);
            open(&disk, encoding).close().expect("it is freed");
            return disk;
        }
        "compaction" => {
            let disk = stored(encoding, 9);
            disk.forget_trace();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let done = compact(&shared, &log_path(encoding), &CompactOptions::default(), &mut |_| {});
            assert!(done.expect("it is sound").is_smaller);
            return disk;
        }
        "recovery of an unfinished end" => return recovered(unfinished(), encoding),
        "recovery of a complete end" => return recovered(stored(encoding, 2), encoding),
        _ => return second(what, encoding),
    };
    let handle = open(&disk, encoding);
    disk.forget_trace();
    append(&handle).expect("it is stored");
    disk
}

fn set_aside(encoding: Encoding) -> FaultDisk {
    let disk = ending(encoding, |bytes, start| bytes.truncate(start + 99));
    let mut bytes = disk.content(log_path(encoding)).expect("a log");
    let start = bytes.len() - 99;
    let torn = bytes.split_off(start);
    let name = format!("session.v2{}.torn-{start}-99-{:08x}", encoding.suffix(), crc32(0, &torn));
    disk.plant(session_folder().join(name), &torn);
    disk
}

fn not_published(encoding: Encoding) -> FaultDisk {
    let disk = FaultDisk::new();
    disk.plant_dir(project_folder());
    let sound = disk.kill_image();
    append(&create(&sound, encoding, Durability::Sync)).expect("it is stored");
    let is_sync = |op: &Op| op.kind == OpKind::SyncDir && op.path == session_folder();
    let before = disk.ops();
    let sync = sound.trace().into_iter().find(is_sync).expect("the folder is synced");
    disk.fail_at(before + sync.call, Failure::Error(EIO));
    append(&create(&disk, encoding, Durability::Sync)).expect_err("it is not durable");
    disk
}

fn recovered(disk: FaultDisk, encoding: Encoding) -> FaultDisk {
    disk.forget_trace();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&shared, &log_path(encoding), Limits::DEFAULT).expect("it is repaired");
    disk
}

/// Runs that go on in the process that published the log.
fn second(what: &str, encoding: Encoding) -> FaultDisk {
    let disk = FaultDisk::new();
    disk.plant_dir("/home");
    let is_weak = what.ends_with("weaker promise") || what == "flush";
    let handle = create(&disk, encoding, if is_weak { Durability::OnFlush } else { Durability::Sync });
    append(&handle).expect("it is stored");
    if what == "flush" || what.starts_with("third") {
        append(&handle).expect("it is stored");
    }
    disk.forget_trace();
    match what {
        "flush" => handle.flush().expect("it is durable"),
        "second append, cut short by a full disk" => {
            disk.fail_next(OpKind::Append, Failure::Partial(50, ENOSPC));
            append(&handle).expect_err("it is taken back");
        }
        "second append, refused by a full disk" => {
            disk.fail_next(OpKind::Append, Failure::Error(ENOSPC));
            append(&handle).expect_err("nothing was written");
        }
        "second append, and the sync fails" => {
            disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
            append(&handle).expect_err("it is not durable");
        }
        "second append"
        | "second append, under the weaker promise"
        | "third append, under the weaker promise" => append(&handle).expect("it is stored"),
        other => panic!("nobody knows how to make {other:?}"),
    }
    disk
}

/// The changing calls of a trace in the words of the table.
fn words(trace: &[Op]) -> Vec<String> {
    // The disk goes on calling a log by the name that it was created under.
    let mut drafts = BTreeSet::new();
    let mut word_of = |op: &Op| {
        match op.kind {
            OpKind::CreateNew => drafts.insert(op.path.clone()),
            OpKind::Link => drafts.remove(&op.path),
            _ => false,
        };
        word(op, op.kind == OpKind::RemoveFile || drafts.contains(&op.path))
    };
    trace.iter().filter(|op| op.kind.is_change()).map(&mut word_of).collect()
}

fn word(op: &Op, is_draft: bool) -> String {
    let verb = match op.kind {
        OpKind::CreateDir => "make",
        OpKind::SyncDir | OpKind::SyncAll => "sync",
        OpKind::SyncData => "sync-data",
        OpKind::Lock => return "lock".to_owned(),
        OpKind::Unlock => return "unlock".to_owned(),
        OpKind::CreateNew => "create",
        OpKind::Append => "write",
        OpKind::WriteAt => "rewrite",
        OpKind::Truncate => "truncate",
        OpKind::Link => "link",
        OpKind::Rename => "rename",
        OpKind::RemoveFile => "remove",
        other => panic!("{other:?} is no call of the table"),
    };
    let path = op.to.as_ref().unwrap_or(&op.path);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let thing = match () {
        () if path == Path::new(ROOT) => "root",
        () if *path == project_folder() => "project",
        () if *path == session_folder() => "session",
        () if Path::new(ROOT).starts_with(path) => "above",
        () if name.ends_with(".tmp") && is_draft => "draft",
        () if name.contains(".torn-") => "aside",
        () => "log",
    };
    format!("{verb} {thing}")
}

#[test]
fn runs_make_the_calls_of_the_table() {
    let doc = Doc::read("05-append-and-repair.md");
    let rows = doc.table("Call by call").select(["run", "encodings", "calls"]);
    assert!(rows.len() > 20);
    for [what, encodings, calls] in rows {
        let stated: Vec<&str> = calls.split('`').skip(1).step_by(2).collect();
        for encoding in Encoding::ALL {
            if encodings != "all" && encodings.split(", ").all(|name| name != encoding.name()) {
                continue;
            }
            let mut found = words(&run(&what, encoding).trace());
            found.retain(|call| call != "unlock" || stated.contains(&"unlock"));
            assert_eq!(found, stated, "{what}, {encoding}");
        }
    }
}

#[test]
fn appends_that_a_failed_sync_was_to_cover_are_never_called_durable() {
    for encoding in Encoding::ALL {
        let disk = FaultDisk::new();
        let handle = create(&disk, encoding, Durability::OnFlush);
        append(&handle).expect("it is published");
        append(&handle).expect("it is accepted");
        disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
        if encoding == Encoding::Indexed {
            handle.flush().expect_err("the sync fails");
        } else {
            // What was accepted is synced before more is written behind it.
            append(&handle).expect_err("the sync fails");
        }
        let is_poisoned = |result: Result<()>| matches!(result, Err(Error::Poisoned { .. }));
        assert!(is_poisoned(handle.flush()), "{encoding}");
        assert!(is_poisoned(append(&handle)), "{encoding}");
        assert!(is_poisoned(handle.close()), "{encoding}: accepted, and nobody was told that it may be lost");
    }
}
