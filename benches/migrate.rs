//! Megabytes a second of a conversion from v0 and v1 to v2, and of the verification that follows it.
//!
//! `cargo bench --bench migrate [-- PART-OF-A-NAME]`. With `SESLOG_ORACLE` the published packages convert the same files in the same run.

mod data;

use std::ops::ControlFlow;
use std::process::Command;

use data::older::{self, Shape};
use seslog::format::catalog::{Classified, classify};
use seslog::format::{Migration, PayloadCheck, TargetRow, Verifier};
use seslog::limits::Limits;
use seslog::row::{Header, Recovery};

/// Bytes of each log.
const LOG_BYTES: usize = 32 << 20;
const ROUNDS: usize = 9;

fn main() {
    // `cargo bench --bench migrate -- plain` runs the logs whose name has that in it.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!("{:12} {:>10} {:>10} {:>10} {:>13}", "log", "migrate", "verify", "packages", "memory");
    for (version, shape) in [(1, Shape::Packed), (1, Shape::Plain), (1, Shape::Bulky), (0, Shape::Packed)] {
        let name = match shape {
            Shape::Packed => "packed",
            Shape::Plain => "plain",
            Shape::Bulky => "bulky",
        };
        let label = format!("v{version}-{name}");
        if wanted.as_ref().is_some_and(|wanted| !label.contains(wanted.as_str())) {
            continue;
        }
        let log = older::log(version, shape, LOG_BYTES);
        let (mut best, mut best_verify, mut memory) = (f64::MAX, f64::MAX, 0);
        let mut out = Vec::new();
        for _ in 0..ROUNDS {
            out.clear();
            let start = cpu_seconds();
            memory = migrate(&log, &mut out);
            best = best.min(cpu_seconds() - start);
            let start = cpu_seconds();
            verify(&out);
            best_verify = best_verify.min(cpu_seconds() - start);
        }
        let rate = |bytes: usize, seconds: f64| format!("{:.0} MB/s", bytes as f64 / 1e6 / seconds);
        let theirs = packages(&log).map_or_else(|| "-".to_owned(), |seconds| rate(log.len(), seconds));
        println!(
            "{label:12} {:>10} {:>10} {theirs:>10} {:>9} KiB",
            rate(log.len(), best),
            rate(out.len(), best_verify),
            memory >> 10
        );
    }
}

/// The lines of a log, without their newlines.
fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    memchr::memchr_iter(b'\n', log).map(move |end| &log[std::mem::replace(&mut at, end + 1)..end])
}

/// Processor time of this thread: other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn migrate(log: &[u8], out: &mut Vec<u8>) -> usize {
    let mut lines = lines(log);
    let Classified::MigrationRequired { stored, .. } =
        classify(lines.next().expect("a header"), &Limits::DEFAULT)
    else {
        panic!("an older log")
    };
    let mut migration =
        Migration::new(&stored, Recovery::Recoverable, &Limits::DEFAULT).expect("an older log");
    migration.header().write(out);
    out.push(b'\n');
    let mut sink = |row: &TargetRow<'_>| {
        row.write_to(out);
        out.push(b'\n');
        ControlFlow::Continue(())
    };
    for line in lines {
        let _ = migration.push(line, &mut sink).expect("the log converts");
    }
    migration.finish(&mut sink).expect("the log converts");
    migration.memory()
}

fn verify(log: &[u8]) {
    let mut lines = lines(log);
    let header = Header::parse(lines.next().expect("a header"), &Limits::DEFAULT).expect("a header");
    let mut verifier = Verifier::new(&header, PayloadCheck::Messages, &Limits::DEFAULT).expect("a v2 log");
    let mut events = 0;
    for line in lines {
        verifier.push(line).expect("the row reads back");
        events += 1;
    }
    verifier.finish(header.id(), events).expect("the log verifies");
}

/// Processor time that the published packages take for the log, without the start of their process.
fn packages(log: &[u8]) -> Option<f64> {
    let oracle = std::path::PathBuf::from(std::env::var_os("SESLOG_ORACLE")?);
    let folder = tempfile::tempdir().ok()?;
    let path = folder.path().join("log.jsonl");
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&path, log).ok()?;
    let header = log.split(|byte| *byte == b'\n').next()?;
    std::fs::write(&empty, [header, b"\n"].concat()).ok()?;
    let run = |path: &std::path::Path| {
        // `times` prints the processor time of the shell and, on the second line, of its children.
        let output = Command::new("bash")
            .args(["-c", "\"$@\" || exit 1; times", "bash"])
            .arg(oracle.join("node_modules/.bin/node"))
            .arg(oracle.join("migrate.mjs"))
            .args(["--recovery", "recoverable", "--out"])
            .arg(folder.path().join("out"))
            .arg(path)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let seconds = |word: &str| {
            let (minutes, seconds) = word.trim_end_matches('s').split_once('m')?;
            Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
        };
        text.lines().nth(1)?.split_whitespace().map(seconds).sum::<Option<f64>>()
    };
    let start_up = run(&empty)?;
    Some(run(&path)? - start_up)
}
