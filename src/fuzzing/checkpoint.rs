//! Target `checkpoint`: states of projections that somebody has tampered with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::{change, put};
use crate::container::crc32;
use crate::container::disk::Disk as _;
use crate::container::disk::fault::FaultDisk;
use crate::json::Text;
use crate::session::{Projected, Projections};
use crate::store::{Catalog, FileStore, SessionAccess, StoreOptions};

const ROOT: &str = "/root";
const CACHE: &str = "/cache";
/// Offsets of the CRC and of what it covers.
const CRC: usize = 12;
const COVERED: usize = 16;

/// Takes the first byte for what follows: 0 the bytes of a checkpoint; 1 a change to a true one, a place (two bytes) and a value,
/// which no CRC-32 misses; 2 any number of them, with the CRC made right again; 3 states as JSON text. An odd quotient by four adds
/// an event to the log that the checkpoint does not know.
///
/// What is damaged is not believed: the states are those of a fold from the first event. A forgery that is sealed may be believed, and
/// then it survives, as does what goes on from it. States that are read from text are written as the same.
///
/// # Panics
/// If the states of a damaged checkpoint are other ones.
pub fn fuzz_checkpoint(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    if mode % 4 == 3 {
        states_are_written_as_they_are_read(rest);
        return;
    }
    let (disk, path) = world();
    let mut bytes = disk.content(&path).expect("the fold kept it");
    let kind = mode % 4;
    match kind {
        0 => bytes = rest.to_vec(),
        1 => change(&mut bytes, rest, 1),
        _ => {
            change(&mut bytes, rest, usize::MAX);
            if let Some(crc) = bytes.get(COVERED..).map(|covered| crc32(0, covered)) {
                put(&mut bytes, CRC, crc);
            }
        }
    }
    disk.plant(&path, &bytes);
    if mode / 4 % 2 == 1 {
        let handle = store(&disk).open(&id(), SessionAccess::Write).expect("it is free");
        let row = br#"{"type":"turn/end","seq":3,"time":10,"data":{"turn":1,"reason":{"kind":"completed"}}}"#;
        handle.append(&[row]).expect("the disk takes it");
        handle.close().expect("the disk takes it");
    }
    let states = |store: &FileStore| {
        let projected = store.project(&id(), &Projections::built_in()).expect("the log is sound");
        let mut json = Vec::new();
        projected.write_json(&mut json);
        json
    };
    let (bare, kept) = (store(&disk), store(&disk).with_catalog(Catalog::in_folder(CACHE)));
    let listed = kept.list_with_overviews().expect("it can be listed");
    assert_eq!(listed.len(), 1);
    let found = states(&kept);
    if kind < 2 {
        let exact = states(&bare);
        assert!(found == exact, "{} instead of {}", found.escape_ascii(), exact.escape_ascii());
    }
    assert!(states(&kept) == found, "what was kept again is what was found");
}

fn states_are_written_as_they_are_read(json: &[u8]) {
    let read = |json: &[u8]| Projected::read_json(&Projections::built_in(), json);
    let Some(states) = read(json) else { return };
    let mut written = Vec::new();
    states.write_json(&mut written);
    let again = read(&written).expect("what is written can be read");
    let mut once_more = Vec::new();
    again.write_json(&mut once_more);
    assert!(once_more == written, "{} instead of {}", once_more.escape_ascii(), written.escape_ascii());
}

fn id() -> Text {
    Text::from("s")
}

fn store(disk: &FaultDisk) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, StoreOptions::default())
}

/// A session that has been quiet for long, and the checkpoint of its states.
fn world() -> (FaultDisk, PathBuf) {
    let disk = FaultDisk::new();
    let rows = [
        r#"{"type":"session","version":2,"id":"s","createdAt":5,"isSeeded":false,"delegationDepth":0}"#,
        r#"{"type":"turn/start","seq":0,"time":7,"data":{"turn":1}}"#,
        r#"{"type":"user/message","seq":1,"time":8,"data":{"id":"u","role":"user","content":[{"type":"text","text":"Why?"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
        r#"{"type":"request/context","seq":2,"time":9,"data":{"provider":"p","model":"m"}}"#,
    ];
    let log = rows.map(|row| format!("{row}\n")).concat();
    disk.plant(Path::new(ROOT).join("_no-cwd/s/session.v2.jsonl"), log.as_bytes());
    disk.set_clock_ns(disk.now_ns().saturating_add(3_000_000_000));
    let store = store(&disk).with_catalog(Catalog::in_folder(CACHE));
    store.project(&id(), &Projections::built_in()).expect("the log is sound");
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "states");
    let path = disk.paths().into_iter().find(is_kept).expect("the fold kept it");
    (disk, path)
}
