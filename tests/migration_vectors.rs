//! The migration vectors of the specification: byte-identical results, or the same refusal.

mod common;
mod migrations;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use seslog::format::catalog::{Classified, classify};
use seslog::limits::Limits;
use seslog::row::Recovery;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors/migration")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("the vector is there")).expect("the vector is JSON")
}

/// What became of a log, in the words of the vectors.
fn outcome(source: &[u8], recovery: Recovery) -> Result<Vec<u8>, [String; 3]> {
    let result = migrations::migrate(source, recovery).and_then(|log| migrations::verify(&log).map(|()| log));
    result.map_err(|refusal| {
        [refusal.class().name(), refusal.stage().name(), refusal.code().name()].map(str::to_owned)
    })
}

#[test]
fn every_vector_gives_the_same_bytes_or_the_same_refusal() {
    let (mut migrated, mut refused) = (0, BTreeMap::new());
    let mut failures = Vec::new();
    let mut folders: Vec<_> =
        fs::read_dir(vectors()).expect("vectors").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let vector = json(&folder.join("vector.json"));
        let source = fs::read(folder.join("source.jsonl")).expect("a source");
        let recovery = if vector["recovery"] == "strict" { Recovery::Strict } else { Recovery::Recoverable };
        let got = outcome(&source, recovery);
        let wanted = match vector["result"].as_str() {
            Some("migrated") => Ok(fs::read(folder.join("expected.jsonl")).expect("a result")),
            _ => {
                let refusal = json(&folder.join("refusal.json"));
                Err(["class", "stage", "code"].map(|name| refusal[name].as_str().expect("a word").to_owned()))
            }
        };
        if got == wanted {
            match got {
                Ok(_) => migrated += 1,
                Err([class, ..]) => *refused.entry(class).or_insert(0) += 1,
            }
        } else {
            let show = |outcome: Result<Vec<u8>, [String; 3]>| match outcome {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(refusal) => refusal.join(" "),
            };
            failures.push(format!("{name}:\n got    {}\n wanted {}", show(got), show(wanted)));
        }
    }
    assert!(failures.is_empty(), "{} vectors differ:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(migrated, 82, "vectors that migrate");
    let by_class: Vec<(&str, i32)> = refused.iter().map(|(class, n)| (class.as_str(), *n)).collect();
    assert_eq!(by_class.iter().map(|(_, n)| n).sum::<i32>(), 77, "vectors that are refused");
    assert_eq!(by_class, [("corrupt", 7), ("malformed", 2), ("unsupported", 62), ("verification", 6)]);
}

#[test]
fn every_header_is_classified() {
    let headers = json(&vectors().join("headers.json"));
    let cases = headers["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 20, "header cases");
    for case in cases {
        let line = case["header"].to_string();
        let expected = &case["expected"];
        let name = &case["name"];
        let (status, stored, header, code) = match classify(line.as_bytes(), &Limits::DEFAULT) {
            Classified::Current(header) => ("current", Some(header.generation()), Some(header), None),
            Classified::MigrationRequired { stored, header } => {
                ("migration-required", Some(stored.generation()), Some(header), None)
            }
            Classified::Refused { stored, refusal } => {
                (refusal.class().name(), stored, None, Some(refusal.code().name()))
            }
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(status, expected["status"], "{name}");
        assert_eq!(stored.map(|g| g.get()), expected["storedVersion"].as_u64(), "{name}");
        assert_eq!(code, case["code"].as_str(), "{name}");
        let written = header.map(|header| {
            let mut line = Vec::new();
            header.write(&mut line);
            let mut value: Value = serde_json::from_slice(&line).expect("a header is JSON");
            value.as_object_mut().expect("an object").remove("type");
            value
        });
        assert_eq!(written.as_ref(), expected.get("header"), "{name}");
    }
}

#[test]
fn the_log_between_the_steps_converts_to_the_same() {
    let mut compared = 0;
    for entry in fs::read_dir(vectors()).expect("vectors") {
        let folder = entry.expect("an entry").path();
        let Ok(between) = fs::read(folder.join("intermediate.v1.jsonl")) else { continue };
        let result = migrations::migrate(&between, Recovery::Strict).expect("it migrates");
        let expected = fs::read(folder.join("expected.jsonl")).expect("a result");
        assert!(result == expected, "{}", folder.display());
        compared += 1;
    }
    assert_eq!(compared, 21, "v0 vectors that migrate");
}

#[test]
fn a_result_is_a_current_log() {
    let mut current = 0;
    for entry in fs::read_dir(vectors()).expect("vectors") {
        let Ok(result) = fs::read(entry.expect("an entry").path().join("expected.jsonl")) else { continue };
        let (header, _) = migrations::split_line(&result);
        assert!(matches!(classify(header, &Limits::DEFAULT), Classified::Current(_)));
        current += 1;
    }
    assert_eq!(current, 82);
}
