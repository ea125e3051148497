//! Logs of others: every overview against a recount, in their own generation and as they are converted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::session::{Overview, Projections};
use seslog::store::{FileStore, LogFile, ReadMode, restore};

use crate::common::shared;
use crate::folds::shown;
use crate::recount::recount;

/// The rows of a log in the current generation; `None` for a log that cannot be converted, or that serde_json cannot hold.
fn rows(path: &Path) -> Option<Vec<Value>> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let log = LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).ok()?;
    let (mut rows, mut line, mut is_readable) = (Vec::new(), Vec::new(), true);
    restore(&log, &mut |row| {
        line.clear();
        row.write_to(&mut line);
        match serde_json::from_slice(&line) {
            Ok(row) => rows.push(row),
            Err(_) => is_readable = false,
        }
        std::ops::ControlFlow::Continue(())
    })
    .ok()?;
    is_readable.then_some(rows)
}

/// What of the overview is the same in every generation, counted in the lines as they are stored.
fn stored_counts(text: &str) -> Option<Value> {
    let rows: Option<Vec<Value>> = text.lines().skip(1).map(|line| serde_json::from_str(line).ok()).collect();
    let rows = rows?;
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == *kind).count();
    Some(serde_json::json!({
        "turns": of("turn/start"), "steps": of("step/start"), "answers": of("assistant/message"),
    }))
}

fn check(store: &FileStore, path: &Path) -> bool {
    let projected = store.project_log(path, &Projections::built_in());
    let Some(rows) = rows(path) else {
        println!("{}: {:?}", path.display(), projected.err().map(|error| error.to_string()));
        return false;
    };
    let projected = projected.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let overview = shown(&Overview::of(&projected).unwrap());
    assert_eq!(overview, recount(&rows), "{}", path.display());
    let is_plain = path.extension().is_some_and(|extension| extension == "jsonl");
    let text = fs::read_to_string(path).ok().filter(|_| is_plain);
    if let Some(counts) = text.and_then(|text| stored_counts(&text)) {
        for (name, count) in counts.as_object().unwrap() {
            assert_eq!(overview[name], *count, "{}: {name}", path.display());
        }
    }
    true
}

/// Logs at or below `path`.
fn logs(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(path) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(logs(&path));
        } else if name.contains(".jsonl") && !name.contains("intermediate") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn overviews_of_the_vectors_are_what_a_recount_gives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors/migration");
    let store = FileStore::new("/nowhere");
    let logs = logs(&folder);
    let checked = logs.iter().filter(|path| check(&store, path)).count();
    println!("{checked} of {} vectors", logs.len());
    assert!(checked > 50, "{checked} of {}", logs.len());
}

#[test]
fn overviews_of_the_corpus_are_what_a_recount_gives() {
    let Some(shared) = shared() else { return };
    let store = FileStore::new("/nowhere");
    // Of the third many are templates of logs, and of the first two some are of no generation as they stand.
    for (part, at_least) in
        [("dsh-v0-restored", 60), ("dsh-v0-zstd/root", 18), ("dsh-v2", 3), ("migrated/v2", 60)]
    {
        let logs = logs(&shared.join("corpus").join(part));
        let checked = logs.iter().filter(|path| check(&store, path)).count();
        println!("{part}: {checked} of {} logs", logs.len());
        assert!(checked >= at_least, "{part}: {checked} of {}", logs.len());
    }
}
