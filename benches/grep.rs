//! A search through the text of all sessions of a root, against `zstd -dc | rg` over the same files.
//!
//! All run on one core, so that the wall clock tells what a core gets through; the time on a core is that of the programs that
//! were run. ripgrep looks at the lines as they are stored and prints them whole; `seslog grep` looks at the text that they say,
//! without what a settlement says twice, and prints the lines of that. Without `zstd`, `rg` or `taskset` only the own search is
//! measured, and that is said. `SESLOG_BENCH=full` searches eight times as much.

mod data;
mod limits;
mod race;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use limits::logs_below;
use race::{Race, Unit};
use seslog::container::Encoding;

/// What is searched for: a name, and arguments that both programs understand alike.
const PATTERNS: &[(&str, &[&str])] = &[
    ("nothing", &["no such words anywhere"]),
    ("two_words", &["timeout deadline"]),
    ("common_word", &["error"]),
    ("either", &["timeout|refused|overflow"]),
    ("any_case", &["-i", "warning"]),
    ("no_literal", &["[0-9]{4}-[0-9]{2}-[0-9]{2}"]),
    ("suffix", &[r"\w+Error\b"]),
];

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    there.is_ok_and(|status| status.success())
}

/// The program on one core, if that can be asked for.
fn on_one_core(program: &Path) -> Command {
    static CAN_BE_ASKED_FOR: LazyLock<bool> = LazyLock::new(|| is_there("taskset"));
    if *CAN_BE_ASKED_FOR {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Lines that a search found.
fn lines(command: &mut Command) -> usize {
    let found = command.stderr(Stdio::null()).output().expect("it runs");
    found.stdout.iter().filter(|&&byte| byte == b'\n').count()
}

fn main() {
    let folder = limits::folder();
    let sessions = data::small();
    let bytes: usize = sessions.iter().map(|session| session.rows.text.len()).sum();
    let unit = Unit::Bytes(bytes as u64);
    let missing: Vec<_> = ["zstd", "rg", "taskset"].into_iter().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        writeln!(io::stderr(), "SKIPPED: {} not installed, so nothing is compared", missing.join(", "))
            .expect("stderr is open");
    }
    let mut race = Race::new("grep");
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let root: PathBuf = folder.path().join(encoding.name());
        for session in &sessions {
            data::write_session(&root, encoding, session, 8);
        }
        let logs = logs_below(&root);
        for (name, args) in PATTERNS {
            let id = format!("grep/{encoding}/{name}");
            let of = root.clone();
            let ours = move || {
                let mut grep = on_one_core(Path::new(env!("CARGO_BIN_EXE_seslog")));
                lines(grep.arg("grep").args(*args).arg(&of))
            };
            let found = ours();
            assert!(found > 0 || *name != "common_word", "the words that sessions are made of");
            race.add(&id, unit, move || assert_eq!(ours(), found));
            if !missing.is_empty() {
                continue;
            }
            let rival = format!("rival/{encoding}/zstd_rg/{name}");
            let logs = logs.clone();
            let theirs = move || {
                let mut pipe = on_one_core(Path::new("sh"));
                // The pattern and the files are arguments, which no shell takes apart.
                pipe.arg("-c").arg(r#"pattern=$1; shift; zstd -dcq "$@" | rg $RG_FLAGS -e "$pattern""#);
                let (flags, pattern) = args.split_at(args.len() - 1);
                pipe.env("RG_FLAGS", flags.join(" ")).arg("sh").args(pattern).args(&logs);
                lines(&mut pipe)
            };
            let rows = theirs();
            println!("{id}: {found} lines of text, {rows} rows");
            race.add(&rival, unit, move || assert_eq!(theirs(), rows));
            race.compare(&id, rival);
        }
    }
    race.run();
}
