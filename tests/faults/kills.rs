//! Every verb that writes, killed at any moment, and run again.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Chance, Ran, Root, command, copy, row, seslog, tree};
use crate::times;

/// One verb on one kind of root.
struct Verb {
    name: &'static str,
    /// Makes the root and whatever else the verb needs, in the scratch folder.
    prepare: fn(&Root, &str),
    /// Its arguments.
    args: fn(&Root, &str) -> Vec<String>,
    /// Looks at what a killed run left.
    check: fn(&Root, &str),
    /// The exit status and what is said when it is run again: done, or done before.
    again: fn(&Ran) -> bool,
    /// Looks at the end.
    finally: fn(&Root, &str),
}

const ROWS: u64 = 1500;

fn all_rows() -> Vec<String> {
    (0..ROWS).map(|seq| row(seq).trim_end().to_owned()).collect()
}

/// A row that the first generation's strict inventory accepts.
fn old_row(seq: u64) -> String {
    format!(
        "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{},\"data\":{{\"active\":true}}}}\n",
        1_700_000_000_000 + seq
    )
}

fn text(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// A log outside of the root, and another encoding than it has.
fn outside(root: &Root) -> PathBuf {
    root.scratch().join("outside.jsonl")
}

fn export(root: &Root, encoding: &str) {
    root.session("s", encoding, ROWS);
    fs::write(outside(root), root.run(&["cat", "s"]).expect(0).stdout).unwrap();
}

fn converted(root: &Root, encoding: &str) -> PathBuf {
    root.scratch().join(if encoding == "plain" { "copy.jsonl.zst" } else { "copy.jsonl" })
}

/// Everything listed is in order, or a folder in which no log appeared yet; logs are whole.
fn whole_or_absent(root: &Root, encoding: &str) {
    for session in root.run(&["ls", "--json"]).json() {
        let state = session["state"].as_str().unwrap();
        assert!(["ok", "empty"].contains(&state), "{encoding}: {session}");
        if state == "ok" {
            // A child begins with an event of its own behind those that it inherits.
            assert!(
                [0, ROWS, ROWS + 1].contains(&session["eventCount"].as_u64().unwrap()),
                "{encoding}: {session}"
            );
        }
    }
}

fn nothing_lost(root: &Root, encoding: &str) {
    begins_with_all(root, "s", encoding);
}

#[track_caller]
fn begins_with_all(root: &Root, id: &str, encoding: &str) {
    let (events, all) = (root.events(id), all_rows());
    assert!(events.starts_with(&all), "{encoding}: {} events of {id}", events.len());
}

fn old_log(root: &Root) -> PathBuf {
    root.path().join("_no-cwd/old/session.jsonl")
}

const VERBS: &[Verb] = &[
    Verb {
        name: "new",
        prepare: |_, _| {},
        args: |_, encoding| text(&["new", "--id", "s", "--cwd", "/w", "--encoding", encoding]),
        check: whole_or_absent,
        again: |ran| ran.code == 0 || ran.stderr.contains("exists already"),
        finally: |root, _| assert_eq!(root.events("s"), [""; 0]),
    },
    Verb {
        name: "import",
        prepare: |root, _| {
            root.session("other", "plain", 0);
            let header = "{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}\n";
            let rows: String = (0..ROWS).map(row).collect();
            fs::write(outside(root), format!("{header}{rows}")).unwrap();
        },
        args: |root, encoding| text(&["import", outside(root).to_str().unwrap(), "--encoding", encoding]),
        check: whole_or_absent,
        again: |ran| ran.code == 0 || ran.stderr.contains("exists already"),
        finally: nothing_lost,
    },
    Verb {
        name: "convert",
        prepare: export,
        args: |root, encoding| text(&["convert", "s", converted(root, encoding).to_str().unwrap()]),
        check: |root, encoding| {
            nothing_lost(root, encoding);
            if converted(root, encoding).exists() {
                assert_eq!(
                    seslog(&["cat", converted(root, encoding).to_str().unwrap()], b"").expect(0).stdout,
                    fs::read(outside(root)).unwrap()
                );
            }
        },
        again: |ran| ran.code == 0 || ran.stderr.contains("exists"),
        finally: |root, encoding| {
            let copy = converted(root, encoding);
            seslog(&["verify", copy.to_str().unwrap()], b"").expect(0);
        },
    },
    Verb {
        name: "fork",
        prepare: export,
        args: |_, encoding| text(&["fork", "s", "--id", "child", "--encoding", encoding]),
        check: |root, encoding| {
            whole_or_absent(root, encoding);
            nothing_lost(root, encoding);
        },
        again: |ran| ran.code == 0 || ran.stderr.contains("exists already"),
        finally: |root, encoding| begins_with_all(root, "child", encoding),
    },
    Verb {
        name: "migrate",
        prepare: |root, encoding| {
            let header =
                "{\"type\":\"session\",\"version\":0,\"id\":\"old\",\"createdAt\":5,\"delegationDepth\":0}\n";
            let rows: String = (0..ROWS).map(old_row).collect();
            let plain = outside(root);
            fs::write(&plain, format!("{header}{rows}")).unwrap();
            let folder = old_log(root).parent().unwrap().to_path_buf();
            fs::create_dir_all(&folder).unwrap();
            let suffix = ["zst", "zstd", ""]
                [["indexed", "zstd", "plain"].iter().position(|name| *name == encoding).unwrap()];
            let name = if suffix.is_empty() {
                "session.jsonl".to_owned()
            } else {
                format!("session.jsonl.{suffix}")
            };
            seslog(&["convert", plain.to_str().unwrap(), folder.join(name).to_str().unwrap()], b"").expect(0);
        },
        args: |root, _| text(&["migrate", root.path().to_str().unwrap()]),
        check: |root, encoding| {
            let sources: Vec<_> =
                tree(&root.path()).into_iter().filter(|(path, _)| is_source(path)).collect();
            assert_eq!(sources.len(), 1, "{encoding}: the source stays");
            assert_eq!(root.events("old").len() as u64, ROWS, "{encoding}");
        },
        again: |ran| ran.code == 0,
        finally: |root, encoding| {
            let rows: Vec<String> = (0..ROWS).map(|seq| old_row(seq).trim_end().to_owned()).collect();
            assert!(root.events("old") == rows, "{encoding}");
            assert!(root.log("old").to_str().unwrap().contains("session.v2."), "{encoding}");
        },
    },
    Verb {
        name: "recover",
        prepare: |root, encoding| {
            let path = root.session("s", encoding, ROWS);
            let border = fs::metadata(&path).unwrap().len();
            root.append("s", ROWS..ROWS + 900);
            let bytes = fs::read(&path).unwrap();
            let cut = (border as usize + bytes.len()) / 2;
            // In plain text inside of a line.
            let cut = cut - usize::from(bytes[cut - 1] == b'\n');
            fs::write(&path, &bytes[..cut]).unwrap();
        },
        args: |_, _| text(&["recover", "s"]),
        check: |root, encoding| {
            let events = root.events("s");
            assert!(events.len() as u64 >= ROWS, "{encoding}: {}", events.len());
            begins_with_all(root, "s", encoding);
        },
        again: |ran| ran.code == 0,
        finally: |root, encoding| {
            let aside =
                tree(&root.path()).into_iter().filter(|(path, _)| path.to_string_lossy().contains(".torn-"));
            let aside: Vec<_> = aside.filter(|(path, _)| !path.to_string_lossy().ends_with(".tmp")).collect();
            assert_eq!(aside.len(), 1, "{encoding}: what was cut off is kept, once");
        },
    },
];

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    ["session.jsonl", "session.jsonl.zst", "session.jsonl.zstd"].contains(&&*name)
}

#[test]
fn every_verb_that_writes_may_be_killed_and_run_again() {
    let rounds = times(4, 40);
    let mut chance = Chance::new();
    for verb in VERBS {
        for encoding in ["indexed", "zstd", "plain"] {
            let template = Root::new();
            (verb.prepare)(&template, encoding);
            let fresh = || {
                let root = Root::new();
                if template.scratch().exists() {
                    copy(template.scratch(), root.scratch());
                }
                root
            };
            let start = |root: &Root| {
                let mut command = command();
                command.arg("--root").arg(root.path()).args((verb.args)(root, encoding));
                command.spawn().unwrap()
            };
            let whole = fresh();
            let started = Instant::now();
            assert!(start(&whole).wait_with_output().unwrap().status.success(), "{} {encoding}", verb.name);
            let lasts = started.elapsed().as_micros() as u64;
            let mut killed = 0;
            for round in 0..rounds {
                let root = fresh();
                let mut child = start(&root);
                thread::sleep(Duration::from_micros(lasts / 5 + chance.below(lasts)));
                let _gone = child.kill();
                killed += u64::from(!child.wait().unwrap().success());
                (verb.check)(&root, encoding);
                let ran =
                    root.run(&(verb.args)(&root, encoding).iter().map(String::as_str).collect::<Vec<_>>());
                assert!((verb.again)(&ran), "{} {encoding}, round {round}: {}", verb.name, ran.stderr);
                (verb.finally)(&root, encoding);
            }
            println!("faults: kill -9, {} {encoding}: {rounds} runs, {killed} killed on the way", verb.name);
        }
    }
}
