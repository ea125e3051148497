//! `migrate`: whole roots, dry runs, refusals, and a program that is killed on the way.
//!
//! `SESLOG_MIGRATION_KILLS` sets how many runs are killed (20 if unset).

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::{Item, LogFile, ReadMode, ScanOptions, Verdict, layout, scan};

use super::common;
use super::corpus::logs_in;
use super::program::{Chance, Ran, Root, command, expect_tree, run, seslog, tree};

/// Puts a plain log where its header says, below `root`.
fn plant(root: &Path, bytes: &[u8]) -> PathBuf {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap();
    let header = Header::parse(line, &Limits::DEFAULT).unwrap();
    let folder = layout::session_path(root, header.cwd(), header.id()).unwrap();
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(layout::log_name(header.generation(), Encoding::Plain));
    fs::write(&path, bytes).unwrap();
    path
}

/// A log of generation 0 with `turns` turns, each with an answer in chunks.
fn old_log(id: &str, turns: u64) -> String {
    let mut log = format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":5,\"cwd\":\"/w\",\"delegationDepth\":0}}\n"
    );
    let mut seq = 0_u64;
    let mut row = |kind: &str, data: String, more: &str| {
        log += &format!(
            "{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{},\"data\":{data}{more}}}\n",
            1_700_000_000_000 + seq
        );
        seq += 1;
        seq - 1
    };
    for turn in 1..=turns {
        row("turn/start", format!("{{\"turn\":{turn}}}"), "");
        let first = row("step/start", format!("{{\"turn\":{turn},\"step\":1}}"), "") + 1;
        for word in ["one ", "two ", "three"] {
            let chunk = format!("{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{word}\"}}");
            row("assistant/chunk", format!("{{\"turn\":{turn},\"step\":1,\"chunk\":{chunk}}}"), "");
        }
        let message = format!(
            "{{\"id\":\"m{turn}\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"one two three\"}}],\
             \"source\":{{\"kind\":\"model\",\"provider\":\"p\",\"model\":\"m\"}}}}"
        );
        let sources = format!(",\"sourceEventSeqs\":[[{first},{}]],\"surfaceOp\":\"append\"", first + 2);
        let message = format!("{{\"turn\":{turn},\"step\":1,\"message\":{message}}}");
        row("assistant/message", message, &sources);
        row("step/end", format!("{{\"turn\":{turn},\"step\":1}}"), "");
        row("turn/end", format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}"), "");
    }
    log
}

/// The text of a log: an indexed one has an identity of its own, so that its bytes differ each time.
#[track_caller]
fn text_of(path: &Path) -> Vec<u8> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let log = LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).unwrap();
    let mut text = Vec::new();
    let report = scan(&log, ScanOptions::STRICT, &mut |item| {
        let line = match item {
            Item::Header { line, .. } => line,
            Item::Row { row, .. } => row.line().as_bytes(),
            other => panic!("{}: {other:?}", path.display()),
        };
        text.extend_from_slice(line);
        text.push(b'\n');
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    assert_eq!(report.verdict, Verdict::Sound, "{}", path.display());
    text
}

fn outcomes(ran: &Ran) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in ran.json() {
        *counts.entry(line["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

fn args<'a>(verb: &[&'a str], paths: &'a [PathBuf]) -> Vec<&'a str> {
    verb.iter().copied().chain(paths.iter().map(|path| path.to_str().unwrap())).collect()
}

#[test]
fn the_corpus_is_published_or_refused_with_the_sources_untouched() {
    let Some(shared) = common::shared() else { return };
    let corpus = shared.join("corpus/dsh-v0-restored");
    let index: Value = serde_json::from_slice(&fs::read(corpus.join("index.json")).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (mut roots, mut sources) = (Vec::new(), BTreeMap::new());
    // Ids repeat between the files, so each has a root of its own.
    for (number, file) in index["files"].as_array().unwrap().iter().enumerate() {
        let name = file["file"].as_str().unwrap();
        let root = scratch.path().join(number.to_string());
        let path = plant(&root, &fs::read(corpus.join(name)).unwrap());
        sources.insert(path, (name, file["migrates"]["v2"] == Value::Bool(true)));
        roots.push(root);
    }
    let before = tree(scratch.path());
    let inodes = || -> Vec<u64> { sources.keys().map(|path| fs::metadata(path).unwrap().ino()).collect() };
    let inodes_before = inodes();

    let dry = seslog(&args(&["migrate", "--json", "--dry-run"], &roots), b"").expect(3);
    assert_eq!(outcomes(&dry), counts(&[("published", 60), ("refused", 25)]));
    for line in dry.json() {
        assert_eq!((line["dryRun"].as_bool(), line.get("published")), (Some(true), None), "{line}");
    }
    assert_eq!(tree(scratch.path()), before, "a dry run leaves not even a lock file");

    let ran = seslog(&args(&["migrate", "--json"], &roots), b"").expect(3);
    let ran = ran.says("60 published, 0 current, 25 refused, 0 failed").says("stay as they are");
    assert_eq!(outcomes(&ran), counts(&[("published", 60), ("refused", 25)]));
    let lines = ran.json();
    let in_order: Vec<&str> = lines.iter().map(|line| line["path"].as_str().unwrap()).collect();
    let planned: Vec<String> =
        dry.json().iter().map(|line| line["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(in_order, planned, "the order is that of the arguments");
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines {
        let (name, migrates) = sources[Path::new(line["path"].as_str().unwrap())];
        assert_eq!((line["from"].as_u64(), line["to"].as_u64()), (Some(0), Some(2)), "{line}");
        if migrates {
            assert_eq!(line["outcome"], "published", "{name}");
            let twin = fs::read(shared.join("corpus/migrated/v2").join(name)).unwrap();
            assert_eq!(fs::read(line["published"].as_str().unwrap()).unwrap(), twin, "{name}");
            assert!(line.get("reason").is_none() && line.get("dryRun").is_none(), "{line}");
        } else {
            assert_eq!(line["outcome"], "refused", "{name}");
            let (code, reason) = (line["code"].as_str().unwrap(), line["reason"].as_str().unwrap());
            assert!(reason.starts_with(code) && line.get("published").is_none(), "{line}");
            *codes.entry(code).or_default() += 1;
        }
    }
    for (code, count) in &codes {
        assert!(ran.stderr.contains(&format!("{count} refused: {code}")), "{codes:?}: {}", ran.stderr);
    }
    assert_eq!(inodes(), inodes_before);
    for (path, bytes) in &before {
        assert_eq!(&fs::read(path).unwrap(), bytes, "{}", path.display());
    }

    let after = tree(scratch.path());
    let again = seslog(&args(&["migrate", "--json"], &roots), b"").expect(3);
    assert_eq!(outcomes(&again), counts(&[("current", 60), ("refused", 25)]));
    expect_tree(scratch.path(), &after);
    let migrated: Vec<PathBuf> =
        lines.iter().filter_map(|line| line["published"].as_str().map(PathBuf::from)).collect();
    let current = seslog(&args(&["migrate"], &migrated), b"").expect(0).says("60 current");
    assert_eq!(current.lines().len(), 60);
}

#[test]
fn what_is_named_in_any_way_is_migrated_once() {
    let root = Root::new();
    let paths: Vec<PathBuf> = ["a", "b", "c"].map(|id| plant(&root.path(), old_log(id, 2).as_bytes())).into();
    let session = paths[0].parent().unwrap();
    let project = session.parent().unwrap();
    // A folder that a crash left without a log, and a stray.
    fs::create_dir(project.join("empty")).unwrap();
    fs::write(session.join("notes.txt"), "x").unwrap();
    let all = [root.path(), project.to_path_buf(), session.to_path_buf(), paths[0].clone()];
    let dry = seslog(&args(&["migrate", "--dry-run"], &all), b"").expect(0).says("3 would be published");
    assert_eq!(dry.text().matches("can be published").count(), 3, "{}", dry.text());
    let file = seslog(&args(&["migrate", "--json"], &paths[..1]), b"").expect(0).object();
    assert_eq!((&file["outcome"], &file["events"]), (&"published".into(), &10.into()));
    let ran =
        seslog(&args(&["migrate"], &all), b"").expect(0).says("2 published, 1 current, 0 refused, 0 failed");
    let ran = ran.says("1 folder without a log");
    assert!(ran.text().contains("session.jsonl: as session.v2.jsonl, 10 events"), "{}", ran.text());
    // The source, named again, has its successor.
    let again = seslog(&args(&["migrate", "--json"], &paths[1..2]), b"").expect(0).object();
    assert_eq!((&again["outcome"], &again["from"]), (&"current".into(), &2.into()));
    assert_eq!(root.run(&["cat", "b", "--no-header"]).expect(0).json().len(), 10);
}

#[test]
fn what_cannot_be_done_is_told_from_what_may_not() {
    let root = Root::new();
    let whole = plant(&root.path(), old_log("whole", 2).as_bytes());
    let torn = plant(&root.path(), format!("{}{{\"type\":\"tu", old_log("torn", 2)).as_bytes());
    let newer = plant(&root.path(), old_log("newer", 1).as_bytes());
    fs::write(
        newer.with_file_name("session.v9.jsonl"),
        old_log("newer", 1).replace("\"version\":0", "\"version\":9"),
    )
    .unwrap();
    let unknown = plant(&root.path(), old_log("unknown", 1).replace("turn/end", "acme/unknown").as_bytes());
    let misplaced = plant(&root.path(), old_log("misplaced", 1).as_bytes());
    fs::write(&misplaced, old_log("other", 1)).unwrap();
    let before = tree(&root.path());
    let ran = seslog(&["migrate", "--json", root.path().to_str().unwrap()], b"").expect(3);
    let ran =
        ran.says("cut short").says("not understood").says("not where it belongs").says("v0-unknown-event");
    let lines = ran.json();
    let of = |path: &Path| {
        let found =
            lines.iter().find(|line| Path::new(line["path"].as_str().unwrap()).parent() == path.parent());
        found.unwrap().clone()
    };
    assert_eq!(lines.len(), 5);
    assert_eq!((&of(&whole)["outcome"], of(&whole).get("isPrefix")), (&"published".into(), None));
    assert_eq!((&of(&torn)["outcome"], &of(&torn)["isPrefix"]), (&"published".into(), &true.into()));
    for path in [&newer, &unknown, &misplaced] {
        assert_eq!(of(path)["outcome"], "refused");
    }
    assert_eq!((of(&newer)["from"].as_u64(), &of(&unknown)["code"]), (Some(9), &"v0-unknown-event".into()));
    for (path, bytes) in &before {
        assert_eq!(&fs::read(path).unwrap(), bytes, "{}", path.display());
    }

    // A frame that was cut short is dropped, in the encoding that has frames; that is worth a word too.
    let plain = plant(&root.path(), old_log("framed", 2).as_bytes());
    let framed = plain.with_file_name("session.jsonl.zstd");
    let paths = [plain.to_str().unwrap(), framed.to_str().unwrap()];
    seslog(&["convert", paths[0], paths[1]], b"").expect(0);
    fs::remove_file(&plain).unwrap();
    let bytes = fs::read(&framed).unwrap();
    fs::write(&framed, &bytes[..bytes.len() - 2]).unwrap();
    let said = seslog(&["migrate", "--json", paths[1]], b"").expect(3).says("cut short").object();
    assert_eq!((&said["outcome"], &said["isPrefix"]), (&"published".into(), &true.into()));
    assert!(said["published"].as_str().unwrap().ends_with("session.v2.jsonl.zstd"));

    // A writer holds the session: another run may do better.
    let busy = plant(&root.path(), old_log("busy", 2).as_bytes());
    let lock = fs::File::create(busy.with_file_name("session.lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let ran = seslog(&["migrate", "--json", busy.to_str().unwrap()], b"").expect(1).says("elsewhere");
    assert_eq!(ran.object()["outcome"], "failed");
    drop(lock);
    seslog(&["migrate", busy.to_str().unwrap()], b"").expect(0);

    let missing = root.scratch().join("nothing");
    let stranger = root.scratch().join("notes.jsonl");
    fs::write(&stranger, old_log("x", 1)).unwrap();
    let both = [missing, stranger];
    let ran =
        seslog(&args(&["migrate", "--json"], &both), b"").expect(1).says("next: ").says("seslog import");
    assert_eq!(outcomes(&ran), counts(&[("failed", 2)]));
    assert!(ran.json().iter().all(|line| line["reason"].is_string()));
    seslog(&["migrate"], b"").expect(2);
}

/// After every kill each source is what it was, and each successor is whole or not there.
#[test]
fn a_killed_migration_leaves_sources_untouched_and_a_rerun_completes() {
    let kills: u64 =
        std::env::var("SESLOG_MIGRATION_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20);
    let template = Root::new();
    for number in 0..24 {
        let path = plant(&template.path(), old_log(&format!("s{number:02}"), 30 + number * 5).as_bytes());
        if let Some(suffix) = [None, Some("zst"), Some("zstd")][number as usize % 3] {
            let encoded = path.with_extension(format!("jsonl.{suffix}"));
            seslog(&["convert", path.to_str().unwrap(), encoded.to_str().unwrap()], b"").expect(0);
            fs::remove_file(&path).unwrap();
        }
    }
    if let Some(shared) = common::shared() {
        for log in logs_in(&shared.join("corpus/dsh-v0-restored"), "apps__web__tests__snapshots__") {
            plant(&template.path(), &fs::read(log).unwrap());
        }
    }
    let reference = Root::copy_of(&template.path());
    let started = Instant::now();
    let ran = seslog(&["migrate", "--json", reference.path().to_str().unwrap()], b"");
    let whole = started.elapsed();
    assert!(matches!(ran.code, 0 | 3), "{}", ran.stderr);
    let expected = outcomes(&ran);
    let successors: BTreeMap<PathBuf, Vec<u8>> = ran
        .json()
        .iter()
        .filter_map(|line| line["published"].as_str().map(PathBuf::from))
        .map(|path| (path.strip_prefix(reference.path()).unwrap().to_path_buf(), text_of(&path)))
        .collect();
    assert!(successors.len() >= 24);

    let mut chance = Chance::new();
    let (mut unfinished, mut begun, mut left_over) = (0, 0, 0);
    for round in 0..kills {
        let root = Root::copy_of(&template.path());
        let before = tree(&root.path());
        let inodes: Vec<u64> = before.iter().map(|(path, _)| fs::metadata(path).unwrap().ino()).collect();
        let mut command = command();
        command.arg("migrate").arg(root.path());
        let mut child = command.spawn().unwrap();
        thread::sleep(Duration::from_micros(chance.below(whole.as_micros() as u64)));
        child.kill().unwrap();
        child.wait().unwrap();

        for ((path, bytes), inode) in before.iter().zip(&inodes) {
            assert!(&fs::read(path).unwrap() == bytes, "round {round}: {}", path.display());
            assert_eq!(fs::metadata(path).unwrap().ino(), *inode);
        }
        let (mut published, mut temporaries) = (0, 0);
        for (path, _) in tree(&root.path()) {
            let relative = path.strip_prefix(root.path()).unwrap().to_path_buf();
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(successor) = successors.get(&relative) {
                assert!(&text_of(&path) == successor, "round {round}: {}", path.display());
                published += 1;
            } else if name.ends_with(".tmp") {
                temporaries += 1;
            } else {
                let is_old = name.starts_with("session.jsonl");
                assert!(is_old || name == "session.lock", "{}", path.display());
            }
        }
        // Every log in its place is in order, and what is left over is listed and taken for nothing.
        let verified = seslog(&["verify", "--json", root.path().to_str().unwrap()], b"").expect(0).json();
        let at_generation = |generation: u64| {
            verified.iter().filter(|log| log["generation"].as_u64() == Some(generation)).count()
        };
        assert_eq!((at_generation(2), at_generation(0)), (published, before.len() - published));
        let strays: usize = verified.iter().filter_map(|log| log["strays"].as_array()).map(Vec::len).sum();
        assert_eq!(strays, temporaries, "round {round}");
        let listed = root.run(&["ls", "--json"]).expect(0).json();
        assert_eq!(listed.len(), before.len());
        begun += usize::from(published > 0 || temporaries > 0);
        left_over += temporaries;
        unfinished += usize::from(published < successors.len());

        let rerun = seslog(&["migrate", "--json", root.path().to_str().unwrap()], b"");
        assert_eq!(rerun.code, ran.code, "{}", rerun.stderr);
        let mut completed = outcomes(&rerun);
        let current = completed.remove("current").unwrap_or(0);
        assert_eq!(current, published as u64);
        *completed.entry("published".to_owned()).or_default() += current;
        assert_eq!(completed, expected);
        for (path, text) in &successors {
            assert!(&text_of(&root.path().join(path)) == text, "round {round}: {}", path.display());
        }
        for (path, bytes) in &before {
            assert!(&fs::read(path).unwrap() == bytes, "round {round}: {}", path.display());
        }
    }
    eprintln!(
        "{kills} killed after at most {whole:?}: {begun} had begun, {unfinished} unfinished, {left_over} left over"
    );
    assert!(kills < 10 || (begun > 0 && unfinished > 0), "{begun} had begun, {unfinished} were unfinished");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let root = Root::new();
    for number in 0..8 {
        plant(&root.path(), old_log(&format!("s{number}"), 50).as_bytes());
    }
    let mut command = command();
    command.arg("migrate").arg(root.path());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut command = super::program::command();
    command.arg("migrate").arg(root.path());
    run(command, b"").expect(0).says("0 failed");
}
