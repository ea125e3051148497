//! Small files that ask for much: content, rows, windows and depth. Every verb answers, in little memory and without a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::build::{Log, Row, Segment, checksum};
use crate::common;
use crate::program::{Ran, Root, run};

/// Address space that the program gets, in KiB: enough for a log, and a fraction of what the bombs ask for.
const SPACE_KIB: u64 = 900 << 10;

const HEADER: &str = "{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}";

/// Runs a verb in little address space. A process that dies of it, or panics, fails the test.
#[track_caller]
fn in_little_space(args: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -v {SPACE_KIB}; exec timeout 300 \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_seslog"))
        .args(args)
        .env_remove("RUST_BACKTRACE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ran = run(command, b"");
    let said = format!("{args:?}: {} {}", ran.code, ran.stderr);
    assert!(matches!(ran.code, 0 | 1 | 3), "{said}");
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("overflow"), "{said}");
    ran
}

/// Whether the program runs in so little address space at all: built with a sanitizer it does not.
fn fits() -> bool {
    let line = format!("ulimit -v {SPACE_KIB}; exec \"$0\" --version");
    let ran = Command::new("sh").args(["-c", &line]).arg(env!("CARGO_BIN_EXE_seslog")).output().unwrap();
    if !ran.status.success() {
        common::skip("this build of the program needs more address space than the test gives it");
    }
    ran.status.success()
}

/// Every verb that reads, on the log at `path`, which is the only one of its root. The states that `verify` gave.
#[track_caller]
fn every_verb(path: &Path) -> String {
    let root = path.ancestors().nth(3).unwrap().to_str().unwrap();
    let log = path.to_str().unwrap();
    let state = two_verbs(path);
    for args in [
        &["--root", root, "ls"][..],
        &["stat", log],
        &["verify", "--quick", log],
        &["recover", "--dry-run", log],
        &["messages", log],
        &["timeline", log],
        &["migrate", "--dry-run", root],
        &["--root", root, "fork", "s"],
    ] {
        in_little_space(args);
    }
    state
}

/// The verb that reads everything, and the one that has to before it writes. Gives the state that the first one names.
#[track_caller]
fn two_verbs(path: &Path) -> String {
    let root = path.ancestors().nth(3).unwrap().to_str().unwrap();
    let verified = in_little_space(&["verify", "--json", path.to_str().unwrap()]).object();
    in_little_space(&["--root", root, "append", "s"]);
    verified["state"].as_str().unwrap().to_owned()
}

/// A frame of `len` bytes, all the same but for what stands before and behind, in some dozen bytes for each MiB.
///
/// The checksum is a guess: nobody gets so far as to compare it.
fn bomb(before: &[u8], len: u64, behind: &[u8], states_len: bool) -> Vec<u8> {
    const BLOCK: u64 = 128 << 10;
    let whole = before.len() as u64 + len + behind.len() as u64;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    match states_len {
        // Content size in eight bytes, a window of 2 MiB, a checksum.
        true => {
            frame.extend([0xc4, 0x58]);
            frame.extend(whole.to_le_bytes());
        }
        false => frame.extend([0x04, 0x58]),
    }
    let block = |kind: u64, size: u64, is_last: bool| {
        ((size << 3 | kind << 1 | u64::from(is_last)) as u32).to_le_bytes()
    };
    frame.extend(&block(0, before.len() as u64, false)[..3]);
    frame.extend(before);
    let mut left = len;
    while left > 0 {
        let size = left.min(BLOCK);
        frame.extend(&block(1, size, false)[..3]);
        frame.push(b' ');
        left -= size;
    }
    frame.extend(&block(0, behind.len() as u64, true)[..3]);
    frame.extend(behind);
    frame.extend(checksum(behind));
    frame
}

fn plant(root: &Root, name: &str, bytes: &[u8]) -> PathBuf {
    let folder = root.path().join("_no-cwd/s");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
    folder.join(name)
}

const BEFORE: &[u8] = b"{\"type\":\"plan/mode\",\"seq\":0,\"time\":6,\"data\":{\"active\":true";

#[test]
fn frames_that_decompress_to_gigabytes_are_refused_in_little_memory() {
    if !fits() {
        return;
    }
    for gib in [1_u64, 40] {
        for states_len in [true, false] {
            let len = gib << 30;
            let frame = bomb(BEFORE, len, b"}}\n", states_len);
            let what = format!("{gib} GiB in {} bytes, stated: {states_len}", frame.len());
            let verbs = if gib == 1 && states_len { every_verb } else { two_verbs };
            // A body of the indexed encoding.
            let root = Root::new();
            let mut log = Log::new(HEADER, 5);
            log.synced();
            let row = Row { line: Vec::new(), events: vec![(0, 6, "plan/mode".to_owned())] };
            log.segment(Segment { rows: &[row], body: frame.clone(), commit: true, change: &|_| {} });
            let path = plant(&root, "session.v2.jsonl.zst", &log.bytes);
            let state = verbs(&path);
            assert!(["unsupported", "corrupt"].contains(&state.as_str()), "{what}: {state}");
            // A frame of the zstd encoding, alone and in front of the header.
            let root = Root::new();
            let header = crate::build::dsh_frame(format!("{HEADER}\n").as_bytes());
            let path = plant(&root, "session.v2.jsonl.zstd", &[&header[..], &frame].concat());
            let state = verbs(&path);
            assert!(["unsupported", "corrupt", "torn"].contains(&state.as_str()), "{what}: {state}");
            let root = Root::new();
            let path = plant(&root, "session.v2.jsonl.zstd", &frame);
            assert_ne!(two_verbs(&path), "ok", "{what}");
        }
    }
}

/// A gigabyte on one line, in plain text. The file is sparse: it reads as zeros.
#[test]
fn a_row_of_a_gigabyte_is_beyond_a_limit_and_not_read_into_memory() {
    if !fits() {
        return;
    }
    let root = Root::new();
    let path = plant(&root, "session.v2.jsonl", format!("{HEADER}\n").as_bytes());
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let row = [BEFORE, b",\"x\":\""].concat();
    let at = HEADER.len() as u64 + 1;
    std::os::unix::fs::FileExt::write_all_at(&file, &row, at).unwrap();
    file.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\"}}\n", 1 << 30).unwrap();
    let state = two_verbs(&path);
    assert!(["unsupported", "corrupt"].contains(&state.as_str()), "{state}");
    // A header of a gigabyte.
    let root = Root::new();
    let path = plant(&root, "session.v2.jsonl", b"{\"type\":\"session\",\"id\":\"");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    assert_ne!(every_verb(&path), "ok");
}

#[test]
fn ten_million_levels_of_nesting_overflow_no_stack() {
    if !fits() {
        return;
    }
    let deep = |levels: usize| [&b"[".repeat(levels)[..], &b"]".repeat(levels)].concat();
    let nested = |levels: usize| {
        let mut text = b"{\"a\":".repeat(levels);
        text.extend(b"1");
        text.extend(b"}".repeat(levels));
        text
    };
    // At the bound, and one beyond.
    for (data, state) in [
        (deep(9_999_990), "ok"),
        (nested(2_000_000), "ok"),
        (deep(10_000_001), "unsupported"),
        (b"[".repeat(10_000_001), "unsupported"),
    ] {
        let row = [
            &b"{\"type\":\"note/deep\",\"seq\":0,\"time\":6,\"ignorable\":true,\"data\":"[..],
            &data,
            b"}\n",
        ]
        .concat();
        let root = Root::new();
        let path = plant(&root, "session.v2.jsonl", &[format!("{HEADER}\n").as_bytes(), &row].concat());
        let found = two_verbs(&path);
        assert!(found == state || state != "ok" && found != "ok", "{state}: {found}");
        in_little_space(&["cat", path.to_str().unwrap()]);
    }
    // Less of it, for every verb.
    for data in [deep(300_000), nested(100_000)] {
        let row = [
            &b"{\"type\":\"note/deep\",\"seq\":0,\"time\":6,\"ignorable\":true,\"data\":"[..],
            &data,
            b"}\n",
        ]
        .concat();
        let root = Root::new();
        let path = plant(&root, "session.v2.jsonl", &[format!("{HEADER}\n").as_bytes(), &row].concat());
        assert_eq!(every_verb(&path), "ok");
    }
    // In the header.
    let header = [&HEADER.as_bytes()[..HEADER.len() - 1], b",\"x\":", &deep(200_000), b"}\n"].concat();
    let root = Root::new();
    let path = plant(&root, "session.v2.jsonl", &header);
    assert_ne!(every_verb(&path), "ok");
}
