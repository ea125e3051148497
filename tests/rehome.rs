//! Does a session that is given another working directory stay what it was, whatever interrupts the move?

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{CrashPolicy, FaultDisk, FileLoss, NameLoss};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{FileStore, LogFile, ReadMode, ScanOptions, SessionAccess, Verdict, rehome, scan};

use common::sessions::{append, header, options, read_all, rows_by};

const OLD: &str = "/store/--w-old--/s";
const ROOT: &str = "/store";

fn text(text: &str) -> Text {
    Text::from(text)
}

fn store(disk: &FaultDisk, encoding: Encoding) -> FileStore {
    FileStore::on_disk(shared(disk), Path::new(ROOT), options(encoding))
}

fn shared(disk: &FaultDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn in_old(id: &str) -> Header {
    header(id).with_cwd(text("/w/old")).unwrap()
}

/// A session of several appends with an older generation beside it.
fn stored(encoding: Encoding) -> FaultDisk {
    let disk = FaultDisk::new();
    let handle = store(&disk, encoding).create(in_old("s"), None).unwrap();
    for seq in 0..9 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
    }
    handle.close().unwrap();
    let older = r#"{"type":"session","version":0,"id":"s","createdAt":1700000000000,"cwd":"/w/old","delegationDepth":0}"#;
    disk.plant(format!("{OLD}/session.jsonl"), format!("{older}\n").as_bytes());
    disk.crash_image(0, FileLoss::KeepAll)
}

fn log_in(disk: &FaultDisk, folder: &Path, encoding: Encoding) -> Vec<u8> {
    disk.content(folder.join(format!("session.v2{}", encoding.suffix()))).unwrap()
}

fn is_at(disk: &FaultDisk, encoding: Encoding, cwd: &str) -> bool {
    let Ok(handle) = store(disk, encoding).open(&text("s"), SessionAccess::Read) else { return false };
    handle.header().cwd() == Some(&text(cwd)) && read_all(&handle).unwrap() == rows_by("a", 0..9)
}

#[test]
fn the_header_alone_changes_in_every_encoding_and_for_shorter_and_longer_names() {
    for encoding in Encoding::ALL {
        for cwd in ["/w/n", "/w/a-much-longer-name-than-before/and/deeper", "/x"] {
            let disk = stored(encoding);
            let before = log_in(&disk, Path::new(OLD), encoding);
            let planned = rehome(&shared(&disk), Path::new(ROOT), Path::new(OLD), &text(cwd), true).unwrap();
            assert!(is_at(&disk, encoding, "/w/old"));
            let done = rehome(&shared(&disk), Path::new(ROOT), Path::new(OLD), &text(cwd), false).unwrap();
            assert_eq!((&done, done.rewritten), (&planned, 2));
            assert!(is_at(&disk, encoding, cwd), "{encoding} {cwd}");
            assert!(!disk.paths().iter().any(|path| path.starts_with("/store/--w-old--")));

            // What stands behind the header is the same, byte for byte.
            let after = log_in(&disk, &done.to, encoding);
            let same = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
            assert!(same > before.len() - 260, "{encoding}: {same} of {}", before.len());
            let path = done.to.join(format!("session.v2{}", encoding.suffix()));
            let log = LogFile::open(&shared(&disk), &path, seslog::limits::Limits::DEFAULT, ReadMode::Read);
            let report =
                scan(&log.unwrap(), ScanOptions::STRICT, &mut |_| Ok(std::ops::ControlFlow::Continue(())));
            assert_eq!(report.unwrap().verdict, Verdict::Sound);

            // The log goes on.
            let writer = store(&disk, encoding).open(&text("s"), SessionAccess::Write).unwrap();
            append(&writer, &rows_by("b", 9..12)).unwrap();
            assert_eq!(read_all(&writer).unwrap().len(), 12);
            let older = disk.content(done.to.join("session.jsonl")).unwrap();
            assert!(String::from_utf8(older).unwrap().contains(&format!("\"cwd\":\"{cwd}\"")));
        }
    }
}

#[test]
fn directories_that_share_a_projects_folder_need_no_move() {
    let disk = stored(Encoding::Indexed);
    let done = rehome(&shared(&disk), Path::new(ROOT), Path::new(OLD), &text("/w-old"), false).unwrap();
    assert_eq!((done.from, done.to), (PathBuf::from(OLD), PathBuf::from(OLD)));
    assert!(is_at(&disk, Encoding::Indexed, "/w-old"));
}

#[test]
fn a_session_that_is_written_or_torn_or_whose_place_is_taken_stays_as_it_is() {
    let disk = stored(Encoding::Indexed);
    let go = |disk: &FaultDisk, cwd: &str| {
        rehome(&shared(disk), Path::new(ROOT), Path::new(OLD), &text(cwd), false)
    };
    let writer = store(&disk, Encoding::Indexed).open(&text("s"), SessionAccess::Write).unwrap();
    assert!(matches!(go(&disk, "/w/new"), Err(Error::AlreadyOwned { .. })));
    writer.close().unwrap();
    disk.plant_dir("/store/--w-taken--");
    disk.plant_dir("/store/--w-taken--/s");
    assert!(matches!(go(&disk, "/w/taken"), Err(Error::AlreadyExists { .. })));
    assert!(matches!(go(&disk, "relative"), Err(Error::InvalidArgument { .. })));
    assert!(is_at(&disk, Encoding::Indexed, "/w/old"));
    let whole = log_in(&disk, Path::new(OLD), Encoding::Indexed);
    let log = format!("{OLD}/session.v2.jsonl.zst");
    disk.plant(&log, &whole[..whole.len() - 3]);
    assert!(matches!(go(&disk, "/w/new"), Err(Error::TornTail { .. })));
    assert_eq!(disk.content(&log).unwrap(), whole[..whole.len() - 3]);
}

// Sectors count from the start of the file, so that a longer header may make a run of zeros a sector of them: what then lies
// there would prove a tear.
#[test]
fn a_log_that_would_hold_a_sector_of_zeros_stays_where_it_is() {
    let disk = stored(Encoding::Zstd);
    let log = format!("{OLD}/session.v2.jsonl.zstd");
    let mut bytes = disk.content(&log).unwrap();
    // Empty stored blocks behind the header of the last frame: zeros that hold nothing.
    let last = bytes.windows(4).rposition(|four| four == [0x28, 0xb5, 0x2f, 0xfd]).unwrap();
    bytes.splice(last + 6..last + 6, [0; 3 * 400]);
    disk.plant(&log, &bytes);
    assert!(is_at(&disk, Encoding::Zstd, "/w/old"));
    let refused = rehome(&shared(&disk), Path::new(ROOT), Path::new(OLD), &text("/w/new"), false);
    assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    assert_eq!(disk.content(&log).unwrap(), bytes);
    assert!(is_at(&disk, Encoding::Zstd, "/w/old"));
}

#[test]
fn a_crash_leaves_the_session_here_there_or_on_the_way_and_doing_it_again_ends_the_move() {
    for encoding in Encoding::ALL {
        let go = |disk: &FaultDisk, from: &str| {
            rehome(&shared(disk), Path::new(ROOT), Path::new(from), &text("/w/new"), false)
        };
        let calls = {
            let disk = stored(encoding);
            let before = disk.ops();
            go(&disk, OLD).unwrap();
            disk.ops() - before
        };
        let (mut here, mut there, mut on_the_way) = (0, 0, 0);
        for at in 0..=calls {
            for seed in 0..8 {
                let names =
                    [NameLoss::RandomSubset, NameLoss::DropUnsynced, NameLoss::KeepAll][seed as usize % 3];
                let disk = stored(encoding);
                disk.crash_after(at);
                let done = go(&disk, OLD);
                assert!(done.is_ok() || at < calls, "call {at}: {done:?}");
                let image = disk.crash_image(seed, CrashPolicy { files: FileLoss::DropUnsynced, names });
                match (is_at(&image, encoding, "/w/old"), is_at(&image, encoding, "/w/new")) {
                    (true, false) => here += 1,
                    (false, true) => there += 1,
                    (false, false) => on_the_way += 1,
                    (true, true) => panic!("call {at}, seed {seed}: in both places"),
                }
                assert!(done.is_err() || is_at(&image, encoding, "/w/new"), "what was reported is durable");
                if !is_at(&image, encoding, "/w/new") {
                    go(&image, OLD)
                        .unwrap_or_else(|error| panic!("{encoding}, call {at}, seed {seed}: {error}"));
                    assert!(is_at(&image, encoding, "/w/new"), "{encoding}, call {at}, seed {seed}");
                }
            }
        }
        assert!(here > 50 && there > 5 && on_the_way > 5, "{encoding}: {here}, {there}, {on_the_way}");
    }
}
