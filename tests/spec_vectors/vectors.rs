//! The vectors of `format-spec/vectors/`, each against the builder and against the crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use toml::Value;

use crate::cases::{self, Case};
use crate::outcome::Outcome;
use crate::{hex, markdown};

/// One committed vector.
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) table: toml::Table,
    pub(crate) bytes: Vec<u8>,
}

impl Vector {
    pub(crate) fn string(&self, key: &str) -> &str {
        self.table.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{}: no `{key}`", self.name))
    }

    pub(crate) fn spec(&self) -> Vec<&str> {
        let list = self.table.get("spec").and_then(Value::as_array).expect("`spec` is a list");
        list.iter().map(|section| section.as_str().expect("a section is a string")).collect()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::parse(&self.table)
    }
}

/// All committed vectors of one folder, by name.
pub(crate) fn read(folder: &str) -> Vec<Vector> {
    let path = markdown::folder().join("vectors").join(folder);
    let files = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names: BTreeSet<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    let tables = names.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    tables
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let read =
                |path: &PathBuf| fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
            let table = read(path).parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            let bytes = hex::parse(&read(&path.with_extension("hex")));
            Vector { table, bytes, name }
        })
        .collect()
}

fn toml_of(case: &Case) -> String {
    let string = |text: &str| Value::String(text.to_owned());
    let mut table = vec![
        ("about", string(&case.about)),
        ("spec", Value::Array(case.spec.iter().map(|section| string(section)).collect())),
        ("encoding", string(case.encoding)),
        ("name", string(case.file_name)),
    ];
    case.outcome.write(&mut table);
    table.iter().map(|(key, value)| entry(key, value)).collect()
}

/// One entry; lists that are long stand one element a line.
fn entry(key: &str, value: &Value) -> String {
    let line = format!("{key} = {value}\n");
    match value {
        Value::Array(items) if line.len() > 100 => {
            let items: String = items.iter().map(|item| format!("    {item},\n")).collect();
            format!("{key} = [\n{items}]\n")
        }
        _ => line,
    }
}

#[test]
fn vectors_are_what_the_builder_makes_of_the_tables() {
    let write = std::env::var_os("SESLOG_WRITE_VECTORS").is_some();
    let mut names = BTreeSet::new();
    for case in cases::all() {
        let folder = markdown::folder().join("vectors").join(case.folder());
        let path = folder.join(&case.name);
        assert!(names.insert(path.clone()), "two vectors are called {}", case.name);
        let (table, dump) = (toml_of(&case), hex::dump(&case.bytes));
        assert_eq!(hex::parse(&dump), case.bytes, "{}: the dump gives the bytes back", case.name);
        if write {
            fs::create_dir_all(&folder).unwrap();
            fs::write(path.with_extension("toml"), &table).unwrap();
            fs::write(path.with_extension("hex"), &dump).unwrap();
        }
        for (extension, expected) in [("toml", table), ("hex", dump)] {
            let path = path.with_extension(extension);
            let found =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(found, expected, "{}", path.display());
        }
    }
    // Kept as they are; written only where they are missing.
    for case in cases::compressed::cases() {
        let path = markdown::folder().join("vectors/valid").join(&case.name);
        if write && !path.with_extension("hex").exists() {
            fs::write(path.with_extension("toml"), format!("{}compressed = true\n", toml_of(&case))).unwrap();
            fs::write(path.with_extension("hex"), hex::dump(&case.bytes)).unwrap();
        }
        assert!(path.with_extension("hex").exists(), "{}", path.display());
    }
    for folder in ["valid", "invalid"] {
        for vector in read(folder) {
            let path = markdown::folder().join("vectors").join(folder).join(&vector.name);
            let compressed = vector.table.get("compressed").is_some();
            assert!(compressed || names.contains(&path), "nobody makes {folder}/{}", vector.name);
        }
    }
}

fn disagreements(folder: &str) -> Vec<String> {
    let vectors = read(folder);
    assert!(vectors.len() > 20, "{folder} holds {} vectors", vectors.len());
    let mut wrong = Vec::new();
    for vector in vectors {
        let encoding = vector.string("encoding").parse().expect("an encoding");
        let (found, _) = Outcome::of(encoding, &vector.bytes);
        let expected = vector.outcome();
        if found != expected {
            wrong.push(format!("{folder}/{}:\nstated {expected:?}\nfound  {found:?}", vector.name));
        }
    }
    wrong
}

#[test]
fn valid_vectors_are_read_to_the_stated_rows_and_verdict() {
    let wrong = disagreements("valid");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn invalid_vectors_give_the_stated_fault_at_the_stated_place() {
    let wrong = disagreements("invalid");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
