//! Is a session that is deleted gone as a whole, whatever interrupts the deletion?

mod common;

use std::path::Path;
use std::sync::Arc;

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::{CrashPolicy, Failure, FaultDisk, FileLoss, NameLoss, OpKind};
use seslog::container::disk::{Disk, Stamp};
use seslog::json::Text;
use seslog::store::{FileStore, SessionAccess, State, remove, remove_unchanged};

use common::sessions::{append, header, options, read_all, rows_by};

const PROJECT: &str = "/store/_no-cwd";
const FOLDER: &str = "/store/_no-cwd/s";

fn store(disk: &FaultDisk) -> FileStore {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    FileStore::on_disk(disk, Path::new("/store"), options(Encoding::Indexed))
}

/// A session with an older generation beside it, a torn end that was set aside, and a left-over.
fn stored() -> FaultDisk {
    let disk = FaultDisk::new();
    let handle = store(&disk).create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..5)).unwrap();
    handle.close().unwrap();
    for name in ["session.jsonl", "session.v1.jsonl.zstd"] {
        disk.plant(format!("{FOLDER}/{name}"), b"an older generation");
    }
    disk.plant(format!("{FOLDER}/session.v2.jsonl.zst.torn-9-3-00c0ffee"), b"cut");
    disk.plant(format!("{FOLDER}/session.v2.jsonl.zst.0123456789ab.tmp"), b"left");
    disk
}

fn is_whole(disk: &FaultDisk) -> bool {
    let store = store(disk);
    let Ok(handle) = store.open(&Text::from("s"), SessionAccess::Read) else { return false };
    read_all(&handle).unwrap() == rows_by("a", 0..5)
}

/// Nothing that anybody takes for a session.
fn is_gone(disk: &FaultDisk) -> bool {
    let store = store(disk);
    let listed = store.list().unwrap();
    matches!(store.open(&Text::from("s"), SessionAccess::Read), Err(Error::NotFound { .. }))
        && listed
            .iter()
            .filter(|session| session.path.starts_with(FOLDER))
            .all(|one| one.state == State::Empty)
}

#[test]
fn nothing_is_left_of_a_session_and_of_a_project_without_another() {
    let disk = stored();
    let planned = remove(&disk, Path::new(FOLDER), true).unwrap();
    assert!(is_whole(&disk));
    let removed = remove(&disk, Path::new(FOLDER), false).unwrap();
    assert_eq!(planned, removed);
    assert_eq!((removed.files, removed.kept.len()), (5, 0));
    assert!(removed.bytes > 40);
    assert_eq!(disk.paths(), [Path::new("/store")]);
    assert!(matches!(remove(&disk, Path::new(FOLDER), false), Err(Error::NotFound { .. })));
}

#[test]
fn another_session_of_the_project_and_foreign_files_stay() {
    let disk = stored();
    disk.plant(format!("{FOLDER}/notes.txt"), b"mine");
    let handle = store(&disk).create(header("t"), None).unwrap();
    append(&handle, &rows_by("b", 0..2)).unwrap();
    let removed = remove(&disk, Path::new(FOLDER), false).unwrap();
    assert_eq!(removed.kept, ["notes.txt"]);
    assert_eq!(disk.content(format!("{FOLDER}/notes.txt")).unwrap(), b"mine");
    assert!(is_gone(&disk));
    assert_eq!(read_all(&handle).unwrap(), rows_by("b", 0..2));
    // What holds nothing of ours is no session, whatever its name.
    assert!(matches!(remove(&disk, Path::new(FOLDER), false), Err(Error::NotFound { .. })));
    assert!(matches!(remove(&disk, Path::new(PROJECT), false), Err(Error::NotFound { .. })));
}

#[test]
fn a_session_that_is_written_or_reached_through_a_link_is_not_deleted() {
    let disk = stored();
    let writer = store(&disk).open(&Text::from("s"), SessionAccess::Write).unwrap();
    assert!(matches!(remove(&disk, Path::new(FOLDER), false), Err(Error::AlreadyOwned { .. })));
    writer.close().unwrap();
    disk.plant_symlink("/store/_no-cwd/link", FOLDER);
    assert!(matches!(remove(&disk, Path::new("/store/_no-cwd/link"), false), Err(Error::Layout { .. })));
    assert!(is_whole(&disk));
}

#[test]
fn a_crash_leaves_the_whole_session_or_none_of_it() {
    let calls = {
        let disk = stored();
        disk.forget_trace();
        let before = disk.ops();
        remove(&disk, Path::new(FOLDER), false).unwrap();
        disk.ops() - before
    };
    assert!(calls > 10, "{calls}");
    let (mut whole, mut gone) = (0, 0);
    for at in 0..=calls {
        for seed in 0..24 {
            let names =
                [NameLoss::RandomSubset, NameLoss::DropUnsynced, NameLoss::KeepAll][seed as usize % 3];
            // What was planted is durable; a crash before the deletion changes nothing.
            let disk = stored().crash_image(0, FileLoss::KeepAll);
            disk.crash_after(at);
            let done = remove(&disk, Path::new(FOLDER), false);
            assert!(done.is_ok() || at < calls, "call {at}: {done:?}");
            let image = disk.crash_image(seed, CrashPolicy { files: FileLoss::DropUnsynced, names });
            match (is_whole(&image), is_gone(&image)) {
                (true, false) => whole += 1,
                (false, true) => gone += 1,
                _ => panic!("call {at}, seed {seed}: neither whole nor gone: {:?}", image.paths()),
            }
            assert!(done.is_err() || is_gone(&image), "what was reported is durable: {:?}", image.paths());
            // It can be repeated.
            match remove(&image, Path::new(FOLDER), false) {
                Ok(_) | Err(Error::NotFound { .. }) => assert!(is_gone(&image)),
                Err(error) => panic!("call {at}: {error}"),
            }
        }
    }
    assert!(whole > 20 && gone > 20, "{whole} whole, {gone} gone");
}

#[test]
fn a_failure_is_told_and_what_is_left_can_be_deleted() {
    for kind in [OpKind::RemoveFile, OpKind::SyncDir, OpKind::RemoveDir] {
        let disk = stored();
        disk.fail_next(kind, Failure::Error(5));
        let failed = remove(&disk, Path::new(FOLDER), false);
        assert!(matches!(failed, Err(Error::Io { .. })), "{kind:?}: {failed:?}");
        assert!(is_whole(&disk) != is_gone(&disk), "{kind:?}");
        assert!(matches!(remove(&disk, Path::new(FOLDER), false), Ok(_) | Err(Error::NotFound { .. })));
        assert!(is_gone(&disk), "{kind:?}");
    }
}

#[test]
fn a_session_that_is_not_as_it_was_seen_stays_whole() {
    let names = [
        "session.jsonl",
        "session.v1.jsonl.zstd",
        "session.v2.jsonl.zst",
        "session.v2.jsonl.zst.torn-9-3-00c0ffee",
    ];
    let stamps = |disk: &FaultDisk, names: &[&str]| -> Vec<(std::ffi::OsString, Stamp)> {
        let stamp = |name: &&str| {
            let stamp = disk.stamp(&Path::new(FOLDER).join(name)).unwrap().unwrap();
            ((*name).into(), stamp)
        };
        names.iter().map(stamp).collect()
    };
    let refused = |disk: &FaultDisk, seen: &[(std::ffi::OsString, Stamp)]| {
        let failed = remove_unchanged(disk, Path::new(FOLDER), seen);
        assert!(matches!(failed, Err(Error::Foreign { .. })), "{failed:?}");
        assert!(is_whole(disk));
    };
    let disk = stored();
    refused(&disk, &stamps(&disk, &names[1..]));
    let seen = stamps(&disk, &names);
    let handle = store(&disk).open(&Text::from("s"), SessionAccess::Write).unwrap();
    handle.append(&[rows_by("a", 5..6)[0].as_bytes()]).unwrap();
    handle.close().unwrap();
    let failed = remove_unchanged(&disk, Path::new(FOLDER), &seen);
    assert!(matches!(failed, Err(Error::Foreign { .. })), "{failed:?}");
    let disk = stored();
    let seen = stamps(&disk, &names);
    disk.remove_file(&Path::new(FOLDER).join(names[0])).unwrap();
    refused(&disk, &seen);
    let seen = stamps(&disk, &names[1..]);
    assert_eq!(remove_unchanged(&disk, Path::new(FOLDER), &seen).unwrap().files, 4);
    assert!(is_gone(&disk));
}
