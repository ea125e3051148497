use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::record::{MEMBERS, Owner, Record};
use super::*;
use crate::container::crc32;
use crate::container::disk::fault::FaultDisk;
use crate::row::Check;
use crate::row::Event;
use crate::store::Catalog;
use crate::store::catalog::RootIdentity;
use crate::store::store::StoreOptions;
use crate::units::UnixMs;

/// A store with a session, the checkpoint that was kept of it, and where.
fn kept() -> (FaultDisk, FileStore, Vec<u8>, PathBuf) {
    let disk = FaultDisk::new();
    disk.plant_dir("/root");
    let store = FileStore::on_disk(Arc::new(disk.clone()), "/root", StoreOptions::default());
    let store = store.with_catalog(Catalog::in_folder("/cache"));
    let header = Header::new(Generation::V2, Text::from("s"), UnixMs::new(5)).unwrap();
    let handle = store.create(header, None).unwrap();
    let row =
        |seq: u64| format!(r#"{{"type":"turn/start","seq":{seq},"time":7,"data":{{"turn":{}}}}}"#, seq + 1);
    handle.append(&[row(0).as_bytes(), row(1).as_bytes()]).unwrap();
    handle.close().unwrap();
    store.project(&Text::from("s"), &Projections::built_in()).unwrap();
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "states");
    let path = disk.paths().into_iter().find(is_kept).unwrap();
    let bytes = disk.content(&path).unwrap();
    (disk, store, bytes, path)
}

fn spec() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("format-spec/09-caches.md")).unwrap()
}

/// The cells of the table under a heading, without its head.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let start = text.find(&format!("# {heading}\n")).unwrap();
    let lines = text[start..].lines().skip(1).take_while(|line| !line.starts_with('#'));
    let rows = lines.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn members_stand_where_the_specification_says() {
    let text = spec();
    for (heading, members) in MEMBERS {
        let rows = table(&text, heading);
        assert_eq!(rows.len() + 1, members.len(), "{heading}");
        for (row, pair) in rows.iter().zip(members.windows(2)) {
            let [(offset, name), (next, _)] = pair else { panic!("two members") };
            assert_eq!(row[..3], [offset.to_string(), (next - offset).to_string(), (*name).to_owned()]);
        }
    }
}

#[test]
fn states_have_the_keys_versions_and_members_of_the_specification() {
    let rows = table(&spec(), "States");
    let built_in = Projections::built_in();
    let listed: Vec<(String, String)> =
        rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect();
    let versions: Vec<_> =
        built_in.versions().map(|(key, version)| (key.to_owned(), version.to_string())).collect();
    assert_eq!(listed, versions);
    // All that a state may hold, of a session that has everything.
    let mut projected = Projected::new(&built_in);
    let rows_of_all = [
        r#"{"type":"request/context","seq":0,"time":5,"data":{"provider":"p","model":"m"}}"#,
        r#"{"type":"session/title","seq":1,"time":5,"data":{"title":"LONG","messageSeqs":[],"source":{"kind":"user"}}}"#,
        r#"{"type":"user/message","seq":2,"time":5,"data":{"role":"user","id":"u","content":[{"type":"text","text":"LONG"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
        r#"{"type":"turn/start","seq":3,"time":5,"data":{"turn":1}}"#,
        r#"{"type":"assistant/message","seq":4,"time":5,"data":{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"text","text":"LONG"}],"source":{"kind":"model","provider":"p","model":"m"}},"usage":{"inputTokens":1,"outputTokens":1},"stream":[]},"surfaceOp":"append"}"#,
    ];
    for row in rows_of_all {
        let row = row.replace("LONG", &"x".repeat(200));
        projected.push(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap()).unwrap();
    }
    let mut json = Vec::new();
    projected.write_json(&mut json);
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let spec = spec();
    let mut unnamed = Vec::new();
    let mut look = vec![value];
    while let Some(value) = look.pop() {
        match value {
            serde_json::Value::Object(members) => {
                unnamed.extend(members.keys().filter(|name| !spec.contains(&format!("`{name}`"))).cloned());
                look.extend(members.into_iter().map(|(_, value)| value));
            }
            serde_json::Value::Array(items) => look.extend(items),
            _ => {}
        }
    }
    assert_eq!(unnamed, [""; 0]);
}

#[test]
fn a_record_is_read_as_it_was_written_and_by_nobody_else() {
    let (_, _, bytes, _) = kept();
    let root = |path: &str| RootIdentity::of(path, 1, 2);
    let names = (OsStr::new("--p--"), OsStr::new("s"));
    // Whose it is does not matter to the record itself.
    let (owner_root, other_root) = (root("/root"), root("/other"));
    let owner = Owner { root: &owner_root, names };
    let record = {
        let header = Header::new(Generation::V2, Text::from("s"), UnixMs::new(5)).unwrap();
        Record { header, inherited: 3, rows: Vec::new() }
    };
    let written = record.write(owner).unwrap();
    assert_eq!(Record::read(&written, owner, &Limits::DEFAULT), Some(record));
    for other in [
        Owner { root: &other_root, names },
        Owner { root: &owner_root, names: (OsStr::new("--p--"), OsStr::new("t")) },
        Owner { root: &owner_root, names: (OsStr::new("--q--"), OsStr::new("s")) },
        Owner { root: &owner_root, names: (OsStr::new("--p--s"), OsStr::new("")) },
    ] {
        assert_eq!(Record::read(&written, other, &Limits::DEFAULT), None);
    }
    assert!(bytes.len() > 500);
    let record = Record::read(&written, owner, &Limits::DEFAULT).unwrap();
    let header = |generation, id: &str, created_at| {
        Header::new(generation, Text::from(id), UnixMs::new(created_at)).unwrap()
    };
    assert!(record.is_of(&header(Generation::V2, "s", 5)));
    for other in [
        header(Generation::V1, "s", 5),
        header(Generation::V2, "t", 5),
        header(Generation::V2, "s", 6),
        header(Generation::V2, "s", 5).with_cwd(Text::from("/p")).unwrap(),
    ] {
        assert!(!record.is_of(&other), "{other:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let root = RootIdentity::of("/root", 1, 2);
        let names = (OsStr::new("--p--"), OsStr::new("s"));
        Record::read(&bytes, Owner { root: &root, names }, &Limits::DEFAULT);
    }

    /// With the CRC made right again, as somebody would who wants to do harm: states may be lies, and nothing else happens.
    #[test]
    fn forged_checkpoints_are_bounded(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (disk, store, mut bytes, path) = kept();
        for (at, value) in changes {
            let at = 16 + at.index(bytes.len() - 16);
            bytes[at] = value;
        }
        let crc = crc32(0, &bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        disk.remove_file(&path).unwrap();
        disk.create_new(&path).unwrap().append_all(&bytes).unwrap();
        let projected = store.project(&Text::from("s"), &Projections::built_in());
        prop_assert!(projected.is_ok());
        disk.set_clock_ns(disk.now_ns() + 10_000_000_000);
        for session in store.list_with_overviews().unwrap() {
            prop_assert!(session.overview().is_none_or(|overview| overview.events == 2));
        }
    }
}
