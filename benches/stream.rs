//! Assistant streams: deltas a second, and the ratios to two rivals in the same run.
//!
//! The stream is made of 10,000 deltas as real ones are: see `benches/data/stream.rs`.
//!
//! Rivals: `serde_json` skipping over the same text as `IgnoredAny`, the least that any reader must do, and
//! `benches/node/stream.mjs`, the same work in JavaScript. That one runs as a process of its own, in rounds between
//! ours. All numbers are from the text of the records, as a log holds it, to the last delta.
//!
//!     cargo bench --bench stream              # criterion, then the ratios
//!     cargo bench --bench stream -- ratios    # the ratios alone

mod data;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use data::stream::{DELTAS, Workload};
use serde::de::IgnoredAny;
use seslog::stream::{Accumulator, Chunk, Expansion, Scratch, StreamReader, expand};

fn main() {
    let workload = Workload::make();
    check(&workload);
    let only_ratios = std::env::args().any(|argument| argument == "ratios");
    if !only_ratios {
        let mut criterion = Criterion::default()
            .configure_from_args()
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2));
        bench(&mut criterion, &workload);
        criterion.final_summary();
    }
    // Not when cargo runs benches as tests, and not when somebody asks for some of criterion's.
    let mut arguments = std::env::args().skip(1);
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    if is_bench && arguments.all(|argument| argument == "--bench" || argument == "ratios") {
        ratios(&workload);
    }
}

/// Each task once, with its answer.
fn check(workload: &Workload) {
    let stream = expand(workload.records.as_bytes()).expect("a snapshot is a stream");
    let digest = digest(&stream);
    assert_eq!(digest.count, DELTAS);
    let times = workload.deltas.iter().map(|(time, _)| time.get()).sum::<i64>();
    assert_eq!(digest.time_sum, times);
    assert_eq!(accumulate(workload, Scratch::default(), &mut Vec::new()).1, workload.records.len());
    let first = workload.deltas.iter().find(|(_, text)| !text.is_empty()).map(|(time, _)| *time);
    assert_eq!(StreamReader::new(&workload.records).first_token_time(), Ok(first));
    assert!(serde_json::from_str::<IgnoredAny>(&workload.records).is_ok());
}

/// What shows that every delta was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Digest {
    count: usize,
    time_sum: i64,
    bytes: usize,
}

fn digest(stream: &Expansion<'_>) -> Digest {
    stream.chunks().fold(Digest::default(), |mut digest, timed| {
        if let Chunk::TextDelta { text, .. } = timed.chunk {
            digest.count += 1;
            digest.time_sum = digest.time_sum.wrapping_add(timed.time.get());
            digest.bytes += text.raw().len();
        }
        digest
    })
}

fn accumulate(workload: &Workload, scratch: Scratch, out: &mut Vec<u8>) -> (Scratch, usize) {
    out.clear();
    let mut stream = Accumulator::with(&mut *out, scratch);
    for (time, text) in &workload.deltas {
        stream.push_text(*time, 0, text).expect("times are safe");
    }
    let (out, scratch) = stream.finish();
    (scratch, out.len())
}

fn bench(criterion: &mut Criterion, workload: &Workload) {
    let records = workload.records.as_str();
    let mut group = criterion.benchmark_group("stream");
    group.throughput(Throughput::Elements(DELTAS as u64));
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    group.bench_function("accumulate", |bencher| {
        bencher.iter(|| {
            let (warm, len) = accumulate(black_box(workload), std::mem::take(&mut scratch), &mut out);
            scratch = warm;
            len
        });
    });
    group.bench_function("expand", |bencher| {
        bencher.iter(|| expand(black_box(records).as_bytes()).map(|stream| digest(&stream)));
    });
    group.bench_function("expand/check_only", |bencher| {
        bencher.iter(|| expand(black_box(records).as_bytes()).map(|stream| stream.len()));
    });
    group.bench_function("first_token", |bencher| {
        bencher.iter(|| StreamReader::new(black_box(records)).first_token_time());
    });
    group.bench_function("timing", |bencher| {
        bencher.iter(|| StreamReader::new(black_box(records)).timing());
    });
    group.bench_function("serde_json_ignored_any", |bencher| {
        bencher.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(records.as_bytes())).is_ok());
    });
    group.finish();
}

/// Nanoseconds a delta of each of `count` runs of a task. Single runs, because on a machine that is shared a longer
/// round is always interrupted; the best of many is what the code takes.
fn runs<T>(count: usize, mut task: impl FnMut() -> T) -> Vec<f64> {
    let mut run = || {
        let start = Instant::now();
        black_box(task());
        start.elapsed().as_nanos() as f64 / DELTAS as f64
    };
    (0..count).map(|_| run()).collect()
}

/// Measures all rivals in turns and prints how they compare.
fn ratios(workload: &Workload) {
    let records = workload.records.as_str();
    let folder = tempfile::tempdir().expect("a folder for the records");
    let path = folder.path().join("records.json");
    std::fs::write(&path, records).expect("the records can be written");

    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let mut node_version = None;
    for _ in 0..7 {
        let mut add = |name, more| times.entry(name).or_default().extend(more);
        let bytes = || black_box(records.as_bytes());
        add("expand", runs(1000, || expand(bytes()).map(|stream| digest(&stream))));
        add("serde_json", runs(300, || serde_json::from_slice::<IgnoredAny>(bytes()).is_ok()));
        add("first_token", runs(1000, || StreamReader::new(black_box(records)).first_token_time()));
        let task = || scratch = accumulate(black_box(workload), std::mem::take(&mut scratch), &mut out).0;
        add("accumulate", runs(300, task));
        node_version = node(&path, workload, &mut times);
        if node_version.is_none() {
            break;
        }
    }
    report(&times, node_version.as_deref(), workload);
}

/// Runs the rival in JavaScript once; its version, if there is one.
fn node(path: &Path, workload: &Workload, times: &mut BTreeMap<&str, Vec<f64>>) -> Option<String> {
    const TASKS: [(&str, &str); 5] = [
        ("accumulate", "node accumulate"),
        ("expand", "node expand"),
        ("expandParsed", "node expand, parsed before"),
        ("firstToken", "node first_token"),
        ("firstTokenParsed", "node first_token, parsed before"),
    ];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/node/stream.mjs");
    let output = match Command::new("node").arg(script).arg(path).arg("100").output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => panic!("node: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            let skipped =
                writeln!(io::stderr(), "SKIPPED: node is not on PATH, so nothing is compared with it");
            skipped.expect("stderr is open");
            return None;
        }
    };
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("node prints JSON");
    let stream = expand(workload.records.as_bytes()).expect("a stream");
    let ours = digest(&stream);
    assert_eq!(result["digest"]["count"], ours.count);
    assert_eq!(result["digest"]["timeSum"], ours.time_sum % 1_000_000_007);
    assert_eq!(result["digest"]["accumulated"], true);
    for (member, name) in TASKS {
        let rounds = result["times"][member].as_array().expect("a list of times");
        times.entry(name).or_default().extend(rounds.iter().filter_map(serde_json::Value::as_f64));
    }
    result["version"].as_str().map(str::to_owned)
}

fn report(times: &BTreeMap<&str, Vec<f64>>, node_version: Option<&str>, workload: &Workload) {
    let sorted = |name: &str| {
        let mut all = times.get(name).cloned().unwrap_or_default();
        all.sort_by(f64::total_cmp);
        all
    };
    let best = |name: &str| sorted(name).first().copied();
    let median = |name: &str| sorted(name).get(sorted(name).len() / 2).copied();
    let bytes = workload.records.len() as f64 / DELTAS as f64;
    println!(
        "\n{DELTAS} deltas of {bytes:.2} bytes of JSON each; node {}",
        node_version.unwrap_or("is not here")
    );
    println!("{:34} {:>12} {:>12} {:>16}", "", "best ns", "median ns", "median deltas/s");
    for name in times.keys() {
        let (best, median) = (best(name).unwrap_or_default(), median(name).unwrap_or_default());
        println!("{name:34} {best:12.3} {median:12.3} {:16.0}", 1e9 / median);
    }
    println!("\n{:46} {:>8} {:>8}", "ratios", "best", "median");
    for (what, ours, rival) in [
        ("expand: times faster than serde_json ignoring", "expand", "serde_json"),
        ("expand: times faster than node", "expand", "node expand"),
        ("expand: times faster than node without JSON.parse", "expand", "node expand, parsed before"),
        ("accumulate: times faster than node", "accumulate", "node accumulate"),
        ("first_token: times faster than node", "first_token", "node first_token"),
    ] {
        let ratio = |of: &dyn Fn(&str) -> Option<f64>| Some(of(rival)? / of(ours)?);
        match (ratio(&best), ratio(&median)) {
            (Some(best), Some(median)) => println!("{what:50} {best:8.1} {median:8.1}"),
            _ => println!("{what:50}     not measured"),
        }
    }
}
