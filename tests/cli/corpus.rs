//! The corpus beside the checkout: real logs, and what the original program says about them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::common;
use super::program::{Root, has_program, seslog};

fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn logs_in(dir: &Path, begin: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(begin) && name.ends_with(".jsonl")
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_root_of_the_original_is_listed_read_and_verified() {
    let Some(shared) = common::shared() else { return };
    let corpus = shared.join("corpus/dsh-v0-zstd");
    let root = corpus.join("root");
    let root_arg = root.to_str().unwrap();
    let expected = lines_of(&corpus.join("expected.jsonl"));
    let index: Value = serde_json::from_slice(&fs::read(corpus.join("index.json")).unwrap()).unwrap();
    let files: BTreeMap<&str, &Value> =
        index["files"].as_array().unwrap().iter().map(|file| (file["id"].as_str().unwrap(), file)).collect();
    let headers: BTreeMap<&str, &Value> = expected[0]["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|header| (header["id"].as_str().unwrap(), header))
        .collect();

    let listed = seslog(&["ls", root_arg, "--json"], b"").expect(0).json();
    assert_eq!(listed.len(), headers.len());
    let verified = seslog(&["verify", root_arg, "--json"], b"").expect(0).json();
    assert_eq!(verified.len(), headers.len());
    for row in &listed {
        let id = row["id"].as_str().unwrap();
        let (file, header) = (files[id], headers[id]);
        assert_eq!((&row["eventCount"], &row["sizeBytes"]), (&file["events"], &file["bytes"]), "{id}");
        assert_eq!((&row["createdAt"], &row["cwd"]), (&header["createdAt"], &header["cwd"]));
        assert_eq!(row.get("parentSession"), header.get("parentSession"));
        assert_eq!(row.get("origin"), header.get("origin"));
        assert_eq!(row["isSeeded"].as_bool(), Some(header.get("seedLength").is_some()));
        assert_eq!(row["delegationDepth"], header["delegationDepth"]);

        let path = corpus.join(file["path"].as_str().unwrap());
        let checked = verified.iter().find(|checked| checked["path"] == row["path"]).unwrap();
        assert_eq!(checked["path"].as_str(), path.to_str());
        assert_eq!(
            (&checked["frames"], &checked["events"], &checked["contentBytes"]),
            (&file["frames"], &file["events"], &file["decoded_bytes"])
        );
        assert_eq!(checked["rows"].as_u64().unwrap() + 1, file["decoded_lines"].as_u64().unwrap());

        let on = |verb: &[&str]| {
            let mut args = vec!["--root", root_arg];
            args.extend(verb);
            seslog(&args, b"").expect(0)
        };
        assert_eq!(on(&["stat", id, "--json"]).object()["eventCount"], file["events"]);
        let raw = on(&["cat", id, "--rows"]);
        assert_eq!(raw.stdout.len() as u64, file["decoded_bytes"].as_u64().unwrap());
        let events = on(&["cat", id, "--no-header"]).json();
        assert_eq!(events.len() as u64, file["events"].as_u64().unwrap());
        assert!(events.iter().zip(0_u64..).all(|(event, seq)| event["seq"].as_u64() == Some(seq)), "{id}");
    }
}

#[test]
fn stored_text_and_events_are_those_that_the_oracle_reads() {
    let Some(shared) = common::shared() else { return };
    let Some(oracle) = common::oracle() else { return };
    let corpus = shared.join("corpus/dsh-v0-zstd");
    let root = corpus.join("root");
    let root_arg = root.to_str().unwrap();
    let cat = |id: &str, how: &str| seslog(&["--root", root_arg, "cat", id, how], b"").expect(0);
    let raw = oracle.run("read", &["--root", root_arg, "--mode", "raw"], b"");
    let mut compared = 0;
    for session in raw.values() {
        let Some(id) = session.get("id").and_then(Value::as_str) else { continue };
        assert_eq!(cat(id, "--rows").text(), session["content"].as_str().unwrap(), "{id}");
        compared += 1;
    }
    assert_eq!(compared, 20);

    // The oracle renews older event forms when it reads; where a log holds none, the events are the same.
    let index = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let restored = index(&shared.join("corpus/dsh-v0-restored/index.json"));
    let files = index(&corpus.join("index.json"));
    let is_strict = |id: &str| {
        let file = files["files"].as_array().unwrap().iter().find(|file| file["id"] == id).unwrap();
        let from = file["from"].as_str().unwrap().rsplit('/').next().unwrap();
        restored["files"].as_array().unwrap().iter().find(|file| file["file"] == from).unwrap()["strict"]
            == true
    };
    let suffix = oracle.run("read", &["--root", root_arg, "--mode", "suffix"], b"");
    let mut compared = 0;
    for session in suffix.values() {
        let Some(id) = session.get("id").and_then(Value::as_str) else { continue };
        let ours = cat(id, "--no-header").json();
        if is_strict(id) {
            assert_eq!(Value::from(ours), session["events"], "{id}");
            compared += 1;
        } else {
            assert_eq!(ours.len(), session["events"].as_array().unwrap().len(), "{id}");
        }
    }
    assert!(compared > 10, "{compared} logs hold no older form");
}

#[test]
fn logs_of_the_current_generation_are_imported_byte_for_byte() {
    let Some(shared) = common::shared() else { return };
    let has_zstd = has_program("zstd");
    if !has_zstd {
        common::skip("there is no zstd program here");
    }
    let mut logs = logs_in(&shared.join("corpus/migrated/v2"), "");
    logs.extend(logs_in(&shared.join("corpus/dsh-v2"), "vfs-example__"));
    assert_eq!(logs.len(), 62);
    for (number, log) in logs.iter().enumerate() {
        let root = Root::new();
        let source = fs::read(log).unwrap();
        let encoding = ["indexed", "zstd", "plain"][number % 3];
        let imported = if number % 2 == 0 {
            root.run(&["import", log.to_str().unwrap(), "--encoding", encoding, "--json"])
        } else {
            root.run_with(&["import", "-", "--encoding", encoding, "--json"], &source)
        };
        let imported = imported.expect(0).object();
        let id = imported["id"].as_str().unwrap();
        assert_eq!(root.run(&["cat", id]).expect(0).stdout, source, "{}", log.display());
        let path = PathBuf::from(imported["path"].as_str().unwrap());
        seslog(&["verify", path.to_str().unwrap()], b"").expect(0);
        if encoding == "plain" {
            assert_eq!(fs::read(&path).unwrap(), source);
        } else if has_zstd {
            let output = Command::new("zstd").arg("-dcq").arg(&path).output().unwrap();
            assert!(output.status.success() && output.stdout == source, "{}", path.display());
        }
        if number == 0 {
            root.run(&["import", log.to_str().unwrap()]).expect(1).says("exists already").says("next: ");
            let again = root.run(&["import", log.to_str().unwrap(), "--id", "other"]).expect(0);
            assert_eq!(again.text(), "other\n");
            let rows = root.run(&["cat", "other", "--no-header"]).expect(0).stdout;
            assert!(source.ends_with(&rows));
        }
    }
}

#[test]
fn older_logs_are_imported_as_the_oracle_migrates_them() {
    let Some(shared) = common::shared() else { return };
    let (mut converted, mut refused) = (0, 0);
    for log in logs_in(&shared.join("corpus/dsh-v0-restored"), "") {
        let root = Root::new();
        let imported = root.run(&["import", log.to_str().unwrap()]);
        let expected = shared.join("corpus/migrated/v2").join(log.file_name().unwrap());
        let Ok(expected) = fs::read(&expected) else {
            assert_eq!(imported.code, 1, "{}", log.display());
            assert!(!root.path().join("--workspace--").exists(), "nothing is half published");
            refused += 1;
            continue;
        };
        let id = imported.expect(0).text();
        assert_eq!(root.run(&["cat", id.trim_end()]).expect(0).stdout, expected, "{}", log.display());
        assert_eq!(seslog(&["cat", log.to_str().unwrap(), "--current"], b"").expect(0).stdout, expected);
        converted += 1;
    }
    assert_eq!((converted, refused), (60, 25));
}

#[test]
fn conversions_lead_back_to_the_same_bytes() {
    let Some(shared) = common::shared() else { return };
    let mut logs = logs_in(&shared.join("corpus/dsh-v0-restored"), "apps__");
    logs.extend(logs_in(&shared.join("corpus/migrated/v2"), "apps__"));
    assert!(logs.len() > 12);
    for log in logs {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        let source = log.to_str().unwrap();
        let convert = |from: &str, to: &str, encoding: &str| {
            seslog(&["convert", from, to, "--encoding", encoding], b"").expect(0);
        };
        convert(source, &at("a"), "indexed");
        convert(&at("a"), &at("b"), "zstd");
        convert(&at("b"), &at("c"), "plain");
        assert_eq!(fs::read(at("c")).unwrap(), fs::read(&log).unwrap(), "{source}");
        let printed = seslog(&["cat", source], b"").expect(0).stdout;
        for between in ["a", "b"] {
            assert_eq!(seslog(&["cat", &at(between)], b"").expect(0).stdout, printed);
            seslog(&["verify", &at(between)], b"").expect(0);
        }
    }
}

#[test]
fn the_oracle_opens_what_convert_framed_anew_and_migrates_what_our_file_holds() {
    let Some(shared) = common::shared() else { return };
    let Some(oracle) = common::oracle() else { return };
    let corpus = shared.join("corpus/dsh-v0-zstd");
    let index: Value = serde_json::from_slice(&fs::read(corpus.join("index.json")).unwrap()).unwrap();
    for encoding in ["zstd", "plain"] {
        let root = tempfile::tempdir().unwrap();
        for file in index["files"].as_array().unwrap() {
            let from = corpus.join(file["path"].as_str().unwrap());
            let folder = root.path().join(
                Path::new(file["path"].as_str().unwrap()).strip_prefix("root").unwrap().parent().unwrap(),
            );
            fs::create_dir_all(&folder).unwrap();
            // By way of our own container, so that every frame is written anew.
            let between = root.path().join("between");
            seslog(
                &["convert", from.to_str().unwrap(), between.to_str().unwrap(), "--encoding", "indexed"],
                b"",
            )
            .expect(0);
            seslog(
                &["convert", between.to_str().unwrap(), folder.to_str().unwrap(), "--encoding", encoding],
                b"",
            )
            .expect(0);
            fs::remove_file(&between).unwrap();
        }
        let theirs =
            oracle.run("read", &["--root", corpus.join("root").to_str().unwrap(), "--mode", "suffix"], b"");
        let compression = if encoding == "zstd" { "zstd" } else { "none" };
        let ours = oracle.run(
            "read",
            &["--root", root.path().to_str().unwrap(), "--compression", compression, "--mode", "suffix"],
            b"",
        );
        let sessions =
            |lines: Vec<Value>| lines.into_iter().filter(|line| line.get("id").is_some()).collect::<Vec<_>>();
        assert_eq!(sessions(ours.values()), sessions(theirs.values()), "{encoding}");
    }
    if !has_program("zstd") {
        return common::skip("there is no zstd program here");
    }
    let root = Root::new();
    let log = shared.join("corpus/dsh-v2/vfs-example__preview-follow-up-builder__session.v2.jsonl");
    root.run(&["import", log.to_str().unwrap(), "--encoding", "indexed"]).expect(0);
    let ours = root.log("preview-follow-up-builder");
    let text = Command::new("zstd").arg("-dcq").arg(&ours).output().unwrap().stdout;
    let plain = root.scratch().join("session.v2.jsonl");
    fs::write(&plain, &text).unwrap();
    let migrated = oracle.run("migrate", &["--to", "2", plain.to_str().unwrap()], b"");
    assert!(!migrated.refused, "{}", migrated.stderr);
    let values = |text: &[u8]| -> Vec<Value> {
        text.split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    };
    assert_eq!(values(migrated.stdout.as_bytes()), values(&text));
}
