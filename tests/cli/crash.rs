//! Writers that are killed, files that are cut, readers and second writers beside.
//!
//! `SESLOG_KILLS` sets how many writers are killed (40 if unset), `SESLOG_CUTS=all` tries every cut instead of some.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::common;
use super::program::{Chance, Root, command, has_program, row, seslog};

const ENCODINGS: [&str; 3] = ["indexed", "zstd", "plain"];

/// Checks that `events` are the rows 0, 1, 2 and so on, as they were appended.
#[track_caller]
fn expect_rows(events: &[String]) {
    for (event, seq) in events.iter().zip(0..) {
        assert_eq!(format!("{event}\n"), row(seq), "event {seq}");
    }
}

#[test]
fn every_acknowledged_event_survives_the_death_of_its_writer() {
    let kills: u64 = std::env::var("SESLOG_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40);
    let mut chance = Chance::new();
    for encoding in ENCODINGS {
        let root = Root::new();
        let path = root.session("s", encoding, 0);
        let mut acknowledged = 0;
        for round in 0..kills.div_ceil(3) {
            let batch = (1 + chance.below(5)).to_string();
            let mut writer = root.spawn(&["append", "s", "--json", "--batch", &batch]);
            let mut stdin = writer.stdin.take().unwrap();
            let stdout = writer.stdout.take().unwrap();
            let next = root.events("s").len() as u64;
            assert!(
                next >= acknowledged,
                "{encoding}, round {round}: {next} of {acknowledged} acknowledged events are left"
            );
            let feeder = thread::spawn(move || {
                let mut seq = next;
                // Until nobody reads any more.
                while stdin.write_all(row(seq).as_bytes()).is_ok() {
                    seq += 1;
                }
            });
            let reader = thread::spawn(move || {
                let mut acknowledged = 0;
                for line in BufReader::new(stdout).lines() {
                    let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                    acknowledged = line["nextSeq"].as_u64().unwrap();
                }
                acknowledged
            });
            thread::sleep(Duration::from_millis(8 + chance.below(40)));
            writer.kill().unwrap();
            assert!(!writer.wait().unwrap().success());
            feeder.join().unwrap();
            acknowledged = reader.join().unwrap().max(acknowledged);

            let verified = seslog(&["verify", path.to_str().unwrap(), "--json"], b"");
            let state = verified.object()["state"].as_str().unwrap().to_owned();
            let expected = if state == "ok" { 0 } else { 3 };
            assert_eq!(verified.code, expected, "{}", verified.text());
            assert!(
                ["ok", "torn"].contains(&state.as_str()),
                "{encoding}, round {round}: {}",
                verified.text()
            );
            let events = root.events("s");
            expect_rows(&events);
            assert!(events.len() as u64 >= acknowledged, "{encoding}, round {round}");
        }
        let next = root.events("s").len() as u64;
        root.append("s", next..next + 1);
        expect_rows(&root.events("s"));
        seslog(&["verify", path.to_str().unwrap()], b"").expect(0);
        assert!(acknowledged > 0, "{encoding}: something was acknowledged in all those rounds");
    }
}

#[test]
fn a_cut_log_is_told_from_a_whole_one_and_goes_on_without_loss() {
    let all = std::env::var("SESLOG_CUTS").is_ok_and(|cuts| cuts == "all");
    for encoding in ENCODINGS {
        let root = Root::new();
        let path = root.session("s", encoding, 3);
        let border = fs::metadata(&path).unwrap().len();
        root.append("s", 3..33);
        let whole = fs::read(&path).unwrap();
        assert!(whole.len() as u64 > border + 400, "{encoding}: the last append is longer than every cut");
        let cuts = (1..=400).filter(|cut| all || cut % 29 == 0 || [1, 2, 63, 64, 65, 400].contains(cut));
        for cut in cuts {
            let bytes = &whole[..whole.len() - cut];
            fs::write(&path, bytes).unwrap();
            let verified = seslog(&["verify", path.to_str().unwrap(), "--json"], b"");
            let answer = verified.object();
            let on_border = encoding == "plain" && bytes.ends_with(b"\n");
            assert_eq!(verified.code, if on_border { 0 } else { 3 }, "{encoding}, cut {cut}: {answer}");
            let kept = answer["events"].as_u64().unwrap();
            if !on_border {
                assert_eq!(answer["state"], "torn", "{encoding}, cut {cut}");
                let (at, torn) = (answer["tornAt"].as_u64().unwrap(), answer["tornBytes"].as_u64().unwrap());
                assert_eq!(at + torn, bytes.len() as u64);
                assert!(torn > 0 && answer["recoverableEvents"].as_u64() == Some(kept));
            }
            assert!(if encoding == "plain" { kept > 3 } else { kept == 3 }, "{encoding}, cut {cut}: {kept}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "verify writes nothing");
            root.append("s", kept..kept + 1);
            let now = fs::read(&path).unwrap();
            let unchanged = answer["tornAt"].as_u64().unwrap_or(bytes.len() as u64) as usize;
            assert_eq!(now[..unchanged], whole[..unchanged], "nothing before the tear changed");
            let events = root.events("s");
            assert_eq!(events.len() as u64, kept + 1);
            expect_rows(&events);
            seslog(&["verify", path.to_str().unwrap()], b"").expect(0);
        }
    }
}

/// A large batch of the indexed encoding is split over several segments; the whole ones are kept when the last is cut.
#[test]
fn complete_segments_of_an_unfinished_append_are_kept_and_then_committed() {
    let root = Root::new();
    let path = root.session("s", "indexed", 2);
    root.append("s", 2..8002);
    let whole = fs::read(&path).unwrap();
    for cut in [1, 64, 70, whole.len() / 3] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let answer = seslog(&["verify", path.to_str().unwrap(), "--json"], b"").expect(3).object();
        let kept = answer["recoverableEvents"].as_u64().unwrap();
        assert!((3..8002).contains(&kept), "cut {cut}: {answer}");
        assert_eq!(root.events("s").len() as u64, kept, "served before they are committed");
        let planned = root.run(&["recover", "s", "--dry-run", "--json"]).expect(3).object();
        assert_eq!((&planned["outcome"], &planned["committed"]), (&"planned".into(), &true.into()));
        let recovered = root.run(&["recover", "s", "--json"]).expect(0).object();
        assert_eq!((&recovered["events"], &recovered["committed"]), (&kept.into(), &true.into()));
        assert!(recovered["rewrittenBytes"].as_u64().unwrap() > 0);
        let verified = seslog(&["verify", path.to_str().unwrap(), "--json"], b"").expect(0).object();
        assert_eq!(verified["events"].as_u64(), Some(kept));
        let at = answer["tornAt"].as_u64().unwrap() as usize;
        assert_eq!(fs::read(&path).unwrap()[..at], whole[..at], "they did not move");
        root.append("s", kept..kept + 5);
        expect_rows(&root.events("s"));
    }
}

#[test]
fn a_reader_beside_a_writer_sees_a_growing_valid_prefix() {
    for (encoding, events) in [("indexed", 10_000), ("zstd", 1_000), ("plain", 1_000)] {
        let root = Root::new();
        root.session("s", encoding, 0);
        let mut writer = root.spawn(&["append", "s"]);
        let mut stdin = writer.stdin.take().unwrap();
        let stdout = writer.stdout.take().unwrap();
        let feeder = thread::spawn(move || {
            for seq in 0..events {
                stdin.write_all(row(seq).as_bytes()).unwrap();
            }
        });
        let counter = thread::spawn(move || BufReader::new(stdout).lines().count() as u64);
        let (mut seen, mut reads, mut growths) = (0, 0_u64, 0_u64);
        let started = Instant::now();
        while seen < events {
            assert!(
                started.elapsed() < Duration::from_secs(600),
                "{encoding}: {seen} of {events} after {reads} reads"
            );
            let now = root.events("s");
            expect_rows(&now);
            let now = now.len() as u64;
            assert!(now >= seen, "{encoding}: {seen} events became {now}");
            growths += u64::from(now > seen);
            (seen, reads) = (now, reads + 1);
        }
        feeder.join().unwrap();
        assert_eq!(counter.join().unwrap(), events, "each was acknowledged on its own");
        assert!(writer.wait().unwrap().success());
        assert!(growths > 1, "{encoding}: {reads} reads saw it grow");
        let stat = root.run(&["stat", "s", "--json"]).expect(0).object();
        assert_eq!((stat["eventCount"].as_u64(), &stat["state"]), (Some(events), &"ok".into()));
    }
}

#[test]
fn one_of_two_writers_is_refused_and_nothing_is_lost() {
    for encoding in ENCODINGS {
        let root = Root::new();
        root.session("s", encoding, 1);
        let writers: Vec<_> = (0..4).map(|_| root.spawn(&["append", "s", "--json"])).collect();
        let mut done = 0;
        let mut refused = 0;
        let ended: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                let mut stdin = writer.stdin.take().unwrap();
                // Without a number of its own: whoever is second must not take one that is taken.
                let _unread = stdin.write_all(b"{\"type\":\"plan/mode\",\"data\":{\"active\":true}}\n");
                drop(stdin);
                writer
            })
            .collect();
        for writer in ended {
            let output = writer.wait_with_output().unwrap();
            match output.status.code() {
                Some(0) => done += 1,
                Some(1) => {
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    assert!(
                        stderr.contains("open for writing elsewhere") && stderr.contains("next: "),
                        "{stderr}"
                    );
                    assert!(output.stdout.is_empty());
                    refused += 1;
                }
                code => panic!("{code:?}"),
            }
        }
        assert_eq!((done + refused, done > 0), (4, true));
        assert_eq!(root.events("s").len(), 1 + done);
        seslog(&["verify", root.log("s").to_str().unwrap()], b"").expect(0);
    }
}

#[test]
fn an_acknowledgement_is_written_only_after_a_sync() {
    if !has_program("strace") {
        return common::skip("there is no strace here");
    }
    for encoding in ENCODINGS {
        let root = Root::new();
        root.session("s", encoding, 0);
        let trace = root.scratch().join("trace");
        let mut traced = Command::new("strace");
        traced.args(["-f", "-qq", "-e", "trace=write,fdatasync,fsync", "-o"]).arg(&trace);
        traced
            .arg(env!("CARGO_BIN_EXE_seslog"))
            .arg("--root")
            .arg(root.path())
            .args(["append", "s", "--batch", "2"]);
        let mut child =
            traced.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let rows: String = (0..8).map(row).collect();
        child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let trace = fs::read_to_string(&trace).unwrap_or_default();
        if !output.status.success() || !trace.contains("write(") {
            return common::skip("strace may not trace here");
        }
        let mut synced = false;
        let mut acknowledged = 0;
        for line in trace.lines() {
            if line.contains("sync(") && line.ends_with("= 0") {
                synced = true;
            } else if line.contains("write(1, \"appended 2") {
                assert!(std::mem::take(&mut synced), "{encoding}: acknowledged before a sync:\n{trace}");
                acknowledged += 1;
            }
        }
        assert_eq!(acknowledged, 4, "{trace}");
    }
}

#[test]
fn an_import_that_is_killed_leaves_no_session() {
    let root = Root::new();
    let path = root.session("big", "plain", 20_000);
    let source = fs::read(&path).unwrap();
    let mut chance = Chance::new();
    let mut unfinished = 0;
    for _ in 0..12 {
        let fresh = Root::new();
        let mut child = command();
        child.arg("--root").arg(fresh.path()).args(["import"]).arg(&path);
        let mut child = child.spawn().unwrap();
        thread::sleep(Duration::from_millis(chance.below(60)));
        child.kill().unwrap();
        child.wait().unwrap();
        let listed = fresh.run(&["ls", "--json"]);
        for session in listed.json() {
            match session["state"].as_str().unwrap() {
                // Published before it died.
                "ok" => assert_eq!(fresh.run(&["cat", "big"]).expect(0).stdout, source),
                state => {
                    assert_eq!(state, "empty", "a folder without a log");
                    unfinished += 1;
                    fresh.run(&["import", path.to_str().unwrap()]).expect(0);
                    assert_eq!(fresh.run(&["cat", "big"]).expect(0).stdout, source, "a second try succeeds");
                }
            }
        }
    }
    assert!(unfinished < 13);
}

/// A flipped bit in the last append is no proof of a crash: it may have been acknowledged, so only a person may cut it off.
#[test]
fn a_damaged_end_is_refused_by_append_and_set_aside_by_recover() {
    for encoding in ENCODINGS {
        let root = Root::new();
        let path = root.session("s", encoding, 5);
        let border = fs::metadata(&path).unwrap().len() as usize;
        root.append("s", 5..9);
        let mut damaged = fs::read(&path).unwrap();
        damaged[border + if encoding == "plain" { 0 } else { 12 }] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let verified = seslog(&["verify", path.to_str().unwrap(), "--json"], b"").expect(3).object();
        assert_eq!(verified["state"], "corrupt", "{encoding}: {verified}");
        root.run_with(&["append", "s"], row(9).as_bytes())
            .expect(1)
            .says("may have been acknowledged")
            .says("recover");
        assert_eq!(root.events("s").len(), 5, "{encoding}: read up to the damage");
        root.run(&["recover", "s", "--dry-run"]).expect(3);
        assert_eq!(fs::read(&path).unwrap(), damaged, "{encoding}: nothing was touched so far");

        let recovered = root.run(&["recover", "s", "--json"]).expect(3).object();
        assert_eq!(
            (&recovered["outcome"], &recovered["events"]),
            (&"recovered".into(), &5.into()),
            "{encoding}"
        );
        let aside = recovered["setAside"].as_str().unwrap();
        assert_eq!(fs::read(aside).unwrap(), damaged[border..], "{encoding}: the bytes are kept");
        assert_eq!(fs::read(&path).unwrap(), damaged[..border]);
        seslog(&["verify", path.parent().unwrap().to_str().unwrap(), "--json"], b"").expect(0);
        root.append("s", 5..7);
        expect_rows(&root.events("s"));
        root.run(&["recover", "s"]).expect(0).says("");
    }
}

/// Zeros that a crash leaves where a write never landed are torn, whatever their number.
#[test]
fn a_zero_filled_end_is_torn() {
    for encoding in ENCODINGS {
        for zeros in [1, 511, 512, 5000] {
            let root = Root::new();
            let path = root.session("s", encoding, 5);
            let whole = fs::read(&path).unwrap();
            fs::write(&path, [whole.as_slice(), &vec![0; zeros]].concat()).unwrap();
            let verified = seslog(&["verify", path.to_str().unwrap(), "--json"], b"").expect(3).object();
            assert_eq!(
                (verified["state"].as_str(), verified["tornBytes"].as_u64()),
                (Some("torn"), Some(zeros as u64)),
                "{encoding}"
            );
            root.append("s", 5..6);
            expect_rows(&root.events("s"));
            assert_eq!(fs::read(&path).unwrap()[..whole.len()], whole);
            let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(beside, 2, "{encoding}: zeros are not set aside");
        }
    }
}
