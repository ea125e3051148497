//! How logs lie on the disk: `compact`, stored frames, and what listings keep outside the root.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::program::{Root, row, tree};
use crate::common::skip;

/// Whether the reference program takes `path` for a sound stream; `None` if it is not here.
fn zstd_accepts(path: &Path) -> Option<bool> {
    let status = Command::new("zstd").arg("-tq").arg(path).status();
    match status {
        Ok(status) => Some(status.success()),
        Err(_) => {
            skip("there is no program `zstd`");
            None
        }
    }
}

/// A log of `count` appends of one row.
fn appended(root: &Root, encoding: &str, count: u64) -> std::path::PathBuf {
    let path = root.session("s", encoding, 0);
    let rows: String = (0..count).map(row).collect();
    root.run_with(&["append", "s", "--batch", "1"], rows.as_bytes()).expect(0);
    path
}

#[test]
fn compact_makes_a_log_smaller_and_says_what_it_did() {
    for encoding in ["indexed", "zstd"] {
        let root = Root::new();
        let path = appended(&root, encoding, 60);
        let before = fs::metadata(&path).unwrap().len();
        let lines = root.run(&["cat", "s"]).expect(0).stdout;
        let files = tree(&root.path());
        let planned = root.run(&["compact", "s", "--dry-run", "--json"]).expect(0).object();
        assert_eq!(tree(&root.path()), files, "a dry run writes nothing");
        assert_eq!((&planned["outcome"], &planned["sizeBytesBefore"]), (&"planned".into(), &before.into()));
        let done = root.run(&["compact", "s", "--json"]).expect(0).object();
        assert_eq!(
            (&done["outcome"], &done["rows"], &done["events"]),
            (&"compacted".into(), &60.into(), &60.into())
        );
        assert_eq!((&done["framesBefore"], &done["frames"]), (&61.into(), &2.into()));
        assert_eq!(
            (&done["sizeBytes"], &planned["sizeBytes"]),
            (&fs::metadata(&path).unwrap().len().into(), &done["sizeBytes"])
        );
        assert!(done["sizeBytes"].as_u64().unwrap() < before / 2);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(root.run(&["cat", "s"]).expect(0).stdout, lines);
        root.run(&["verify", path.to_str().unwrap()]).expect(0);
        assert_ne!(zstd_accepts(&path), Some(false));
        let again = root.run(&["compact", "s"]).expect(0).text();
        assert!(again.contains("stays as it is"), "{again}");
        root.run_with(&["append", "s"], row(60).as_bytes()).expect(0);
    }
}

#[test]
fn compact_refuses_what_is_not_in_order_and_says_what_to_do() {
    let root = Root::new();
    let path = appended(&root, "indexed", 5);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    root.run(&["compact", "s"]).expect(1).says("cut short").says("seslog recover");
    root.run(&["compact", "s", "--dry-run"]).expect(1).says("cut short");
    let mut bad = bytes.clone();
    bad[bytes.len() / 2] ^= 1;
    fs::write(&path, &bad).unwrap();
    root.run(&["compact", "s"]).expect(1).says("--salvage");
    assert_eq!(fs::read(&path).unwrap(), bad);
    let plain = Root::new();
    plain.session("s", "plain", 3);
    plain.run(&["compact", "s"]).expect(1).says("no segments").says("convert");
    root.run(&["compact", "nobody"]).expect(1).says("next: ");
    root.run(&["compact", "s", "--level", "0"]).expect(2);
}

#[test]
fn level_0_stores_rows_in_frames_that_zstandard_takes() {
    for encoding in ["indexed", "zstd"] {
        let root = Root::new();
        appended(&root, encoding, 200);
        let suffix = if encoding == "indexed" { "zst" } else { "zstd" };
        let stored = root.scratch().join(format!("stored.v2.jsonl.{suffix}"));
        root.run(&["convert", "s", stored.to_str().unwrap(), "--level", "0"]).expect(0);
        let lines = root.run(&["cat", "s"]).expect(0).stdout;
        let content = fs::read(&stored).unwrap();
        assert!(content.len() > lines.len() && content.len() < lines.len() + 400);
        assert!(content.windows(row(150).len()).any(|window| window == row(150).as_bytes()), "as they are");
        assert_ne!(zstd_accepts(&stored), Some(false));
        root.run(&["verify", stored.to_str().unwrap()]).expect(0);
        assert_eq!(root.run(&["cat", stored.to_str().unwrap()]).expect(0).stdout, lines);
    }
}

#[test]
fn a_listing_keeps_what_it_found_outside_the_root_unless_told_not_to() {
    let root = Root::new();
    for id in ["a", "b"] {
        root.session(id, "indexed", 3);
    }
    // Nothing that changed a moment ago is kept.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let cache = root.scratch().join("nested/cache");
    let files = tree(&root.path());
    let list = |more: &[&str]| {
        let mut command = super::program::command();
        command.env("SESLOG_CACHE", &cache).arg("--root").arg(root.path()).args(["ls", "--json"]).args(more);
        let ran = super::program::run(command, b"").expect(0);
        assert_eq!(tree(&root.path()), files);
        ran.stdout
    };
    let found = list(&["--no-catalog"]);
    assert!(!cache.exists());
    assert_eq!(list(&[]), found);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let catalogs: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [catalog] = &catalogs[..] else { panic!("{catalogs:?}") };
    assert_eq!((mode(&cache), mode(catalog)), (0o700, 0o600));
    assert_eq!(list(&[]), found, "from the catalog");
    fs::write(catalog, b"seslogCT, or what is left of it").unwrap();
    assert_eq!(list(&[]), found);
    assert!(fs::metadata(catalog).unwrap().len() > 500, "written anew");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(list(&[]), found);
}
