//! Target `catalog`: a cache that somebody has tampered with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::crc32;
use crate::container::disk::Disk as _;
use crate::container::disk::fault::FaultDisk;
use crate::store::{Catalog, FileStore, Snapshot, StoreOptions};

const ROOT: &str = "/root";
const CACHE: &str = "/cache";
/// Length of a catalog's footer.
const FOOTER: usize = 64;

/// Takes the first byte for what follows: 0 the bytes of a catalog; 1 a change to a true one, a place (two bytes) and a value,
/// which no CRC-32 misses; 2 any number of them, with all checksums made right again.
///
/// A listing survives each of them. What is damaged is not believed; a forgery that is sealed may be, and then shows nothing
/// but sessions that are there.
pub fn fuzz_catalog(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let (disk, path) = world();
    let mut bytes = disk.content(&path).expect("the listing kept it");
    match mode % 3 {
        0 => bytes = rest.to_vec(),
        sealed => {
            let entries = entries_of(&bytes);
            change(&mut bytes, rest, if sealed == 1 { 1 } else { usize::MAX });
            if sealed == 2 {
                entries.iter().for_each(|&(start, len)| seal_entry(&mut bytes, start, len));
                seal_ends(&mut bytes);
            }
        }
    }
    disk.plant(&path, &bytes);
    let plain = FileStore::on_disk(Arc::new(disk.clone()), ROOT, StoreOptions::default());
    let listed = plain.clone().with_catalog(Catalog::in_folder(CACHE));
    let paths = |sessions: &[Snapshot]| {
        let mut paths: Vec<PathBuf> = sessions.iter().map(|one| one.path.clone()).collect();
        paths.sort();
        paths
    };
    let (with, without) = (listed.list().expect("it can be listed"), plain.list().expect("it can be listed"));
    assert_eq!(with.len(), without.len());
    if mode % 3 == 1 {
        assert_eq!(format!("{with:?}"), format!("{without:?}"), "damage was believed");
    } else {
        let folders =
            |paths: Vec<PathBuf>| paths.into_iter().map(|path| path.parent().map(Path::to_path_buf));
        assert!(folders(paths(&with)).eq(folders(paths(&without))));
    }
}

/// Sets bytes: each by three bytes of `changes`, its place (two, little-endian) and its value.
pub(super) fn change(bytes: &mut [u8], changes: &[u8], changes_max: usize) {
    for change in changes.chunks_exact(3).take(changes_max) {
        let &[low, high, value] = change else { continue };
        let at = usize::from(u16::from_le_bytes([low, high])).checked_rem(bytes.len());
        if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
            *byte = value;
        }
    }
}

/// Three sessions that have been quiet for long, and the catalog that a listing of them kept.
fn world() -> (FaultDisk, PathBuf) {
    let disk = FaultDisk::new();
    for id in ["a", "b", "c"] {
        let header = |version: u32, seeded: &str| {
            format!(
                r#"{{"type":"session","version":{version},"id":"{id}","createdAt":5,"cwd":"/p"{seeded},"delegationDepth":0}}"#
            )
        };
        let row = r#"{"type":"plan/mode","seq":0,"time":7,"data":{"active":true}}"#;
        let folder = Path::new(ROOT).join("--p--").join(id);
        let current = format!("{}\n{row}\n", header(2, r#","isSeeded":false"#));
        disk.plant(folder.join("session.v2.jsonl"), current.as_bytes());
        if id == "b" {
            disk.plant(folder.join("session.v1.jsonl"), format!("{}\n", header(1, "")).as_bytes());
        }
        if id == "c" {
            disk.plant(folder.join("session.v2.jsonl"), current.trim_end().as_bytes());
        }
    }
    disk.set_clock_ns(disk.now_ns().saturating_add(3_000_000_000));
    let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, StoreOptions::default());
    let sessions = store.with_catalog(Catalog::in_folder(CACHE)).list().expect("it can be listed");
    assert_eq!(sessions.len(), 3);
    let is_catalog = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "catalog");
    let path = disk.paths().into_iter().find(is_catalog).expect("the listing kept it");
    (disk, path)
}

/// Start and length of each entry of a true catalog.
fn entries_of(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut entries, mut at) = (Vec::new(), 0_usize);
    let end = root_at(bytes).unwrap_or(0);
    while at < end {
        let Some(len) = number::<4>(bytes, at.saturating_add(4)).filter(|&len| len > 0) else { break };
        entries.push((at, len));
        at = at.saturating_add(len);
    }
    entries
}

/// Where the entries end, by the footer.
fn root_at(bytes: &[u8]) -> Option<usize> {
    number::<8>(bytes, bytes.len().checked_sub(FOOTER)?.checked_add(40)?)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk::<N>()?;
    let value = field.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from(value).ok()
}

fn seal_entry(bytes: &mut [u8], start: usize, len: usize) {
    let covered = start.saturating_add(4)..start.saturating_add(len);
    if let Some(crc) = bytes.get(covered).map(|covered| crc32(0, covered)) {
        put(bytes, start, crc);
    }
}

/// The index and the footer.
fn seal_ends(bytes: &mut [u8]) {
    let Some(footer) = bytes.len().checked_sub(FOOTER) else { return };
    let root = root_at(bytes).unwrap_or(0);
    let root_end = root.saturating_add(number::<4>(bytes, footer.saturating_add(48)).unwrap_or(0));
    if let Some(crc) = bytes.get(root_end..footer).map(|index| crc32(0, index)) {
        put(bytes, footer.saturating_add(52), crc);
    }
    let covered = bytes.get(footer..footer.saturating_add(60)).unwrap_or_default();
    let crc = bytes.get(root..root_end).map(|root| crc32(crc32(0, root), covered));
    if let Some(crc) = crc {
        put(bytes, footer.saturating_add(60), crc);
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, crc: u32) {
    if let Some(field) = bytes.get_mut(at..at.saturating_add(4)) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}
