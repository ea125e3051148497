//! Instruction counts of the hot paths, against those that are stored: a guard that no busy machine can mislead.
//!
//!     cargo bench --bench guard                 # counts and compares with benches/guard.toml; `.ci/run guard` does this
//!     cargo bench --bench guard -- --update     # stores new counts, for a change that means to move them
//!
//! Each path runs under `valgrind --tool=callgrind`, warmed up, in a process of its own, on data from a seed and below a
//! relative path, on one processor, so that the same build gives the same counts but for the order of a few hashes. What
//! moves them besides the code: the compilers, the C library with its own choice of instructions, whether the processor has
//! AVX2, and versions of dependencies. The first three are stored with the counts; where one differs, nothing is compared,
//! and a line says so. A path may get 5% dearer.

mod data;
mod limits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use data::Session;
use data::stream::Workload;
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::store::{FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, scan};
use seslog::stream::expand;

/// How much dearer a path may get, in percent.
const ALLOWANCE: f64 = 5.0;

/// Events of the log that is read.
const EVENTS: usize = 320;

/// A path, and how many calls of it are counted together.
const PATHS: &[(&str, u32)] = &[
    ("append_1_event", 64),
    ("append_32_events", 8),
    ("list_one_session", 32),
    ("stat", 64),
    ("scan_a_frame", 16),
    ("read_50_events_in_the_middle", 16),
    ("expand_10000_deltas", 4),
    ("read_an_envelope", 256),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["--path", name] => {
            #[cfg(target_os = "linux")]
            stay_on_one_processor();
            run(name);
            ExitCode::SUCCESS
        }
        args if args.contains(&"--update") => update(),
        args if args.contains(&"--bench") => compare(),
        // `cargo test --benches`: that each path runs.
        _ => {
            PATHS.iter().for_each(|(name, _)| run(name));
            ExitCode::SUCCESS
        }
    }
}

/// Which thread does how much is the scheduler's choice: with one processor nobody starts a second one, and all is counted.
#[cfg(target_os = "linux")]
fn stay_on_one_processor() {
    let here = rustix::thread::sched_getaffinity(None).expect("it runs somewhere");
    let mut one = rustix::thread::CpuSet::new();
    one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| here.is_set(cpu)).expect("it runs somewhere"));
    rustix::thread::sched_setaffinity(None, &one).expect("a process may keep to one of its processors");
    assert_eq!(std::thread::available_parallelism().map(usize::from).ok(), Some(1));
}

/// Runs one path in a folder of its own: prepared, called once, then `calls` times where callgrind looks.
fn run(name: &str) {
    let (_, calls) = PATHS.iter().find(|(known, _)| *known == name).expect("a path of the list");
    let folder = limits::folder();
    // A path's length would be counted.
    let before = std::env::current_dir().expect("there is one");
    std::env::set_current_dir(folder.path()).expect("it was just made");
    let mut call = prepare(name, Path::new("root"), *calls);
    call();
    measured_calls(&mut *call, *calls);
    drop(call);
    std::env::set_current_dir(before).expect("it is still there");
}

/// What callgrind is told to collect.
#[inline(never)]
fn measured_calls(call: &mut dyn FnMut(), calls: u32) {
    for _ in 0..calls {
        call();
    }
}

fn prepare(name: &str, root: &Path, calls: u32) -> Box<dyn FnMut()> {
    let session = data::large_of(EVENTS);
    match name {
        "append_1_event" => append(root, &session, 1, calls),
        "append_32_events" => append(root, &session, 32, calls),
        "list_one_session" => {
            data::write_session(root, Encoding::Indexed, &data::brief(0), 1);
            let store = FileStore::new(root);
            Box::new(move || assert_eq!(store.list().expect("it can be listed").len(), 1))
        }
        // The last frame is decompressed: one of 32 large rows would hide everything else.
        "stat" => {
            let session = data::brief(0);
            data::write_session(root, Encoding::Indexed, &session, 1);
            let store = FileStore::new(root);
            Box::new(move || {
                let found = store.stat(session.id()).expect("it can be read").expect("it is there");
                assert_eq!(found.event_count, Some(session.rows.len() as u64));
            })
        }
        "scan_a_frame" => {
            let mut session = session;
            session.rows.truncate(32);
            let path = stored(root, &session);
            let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
            Box::new(move || assert_eq!(rows_of(&disk, &path), 32))
        }
        "read_50_events_in_the_middle" => {
            stored(root, &session);
            let handle =
                FileStore::new(root).open(session.id(), SessionAccess::Read).expect("it can be opened");
            Box::new(move || assert_eq!(handle.read(133, 50).expect("it can be read").len(), 50))
        }
        "expand_10000_deltas" => {
            let records = Workload::make().records;
            Box::new(move || {
                let stream = expand(black_box(records.as_bytes())).expect("a stream");
                assert_eq!(stream.chunks().count(), data::stream::DELTAS);
            })
        }
        "read_an_envelope" => {
            let mut next = 0;
            Box::new(move || {
                let row = session.rows.get(next % EVENTS);
                let event = Event::read(black_box(row), Check::Envelope, &Limits::DEFAULT).expect("an event");
                assert_eq!(event.seq().get(), (next % EVENTS) as u64);
                next += 1;
            })
        }
        _ => unreachable!("paths are listed"),
    }
}

/// Durable appends of `batch` events each, round and round the session's rows.
fn append(root: &Path, session: &Session, batch: usize, calls: u32) -> Box<dyn FnMut()> {
    let handle = FileStore::new(root).create(session.header.clone(), None).expect("the id is new");
    // Everything from the time on; type and seq stand before it. Seqs are given anew, so nothing is cited.
    let bodies: Vec<Vec<u8>> = session.rows.iter().map(data::body_without_citations).collect();
    let row = |seq: usize| {
        let head = format!("{{\"type\":\"hook/result\",\"seq\":{seq}");
        [head.as_bytes(), &bodies[seq % bodies.len()]].concat()
    };
    // All batches are made before anything is counted.
    let mut batches = (0..=calls as usize)
        .map(|at| (at * batch..(at + 1) * batch).map(row).collect::<Vec<_>>())
        .collect::<Vec<_>>()
        .into_iter();
    Box::new(move || {
        let rows = batches.next().expect("enough were made");
        handle.append(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("sound rows");
    })
}

/// The session, stored in frames of 32 rows.
fn stored(root: &Path, session: &Session) -> PathBuf {
    data::write_session(root, Encoding::Indexed, session, 32)
}

fn rows_of(disk: &Arc<dyn Disk>, path: &Path) -> u64 {
    let log = LogFile::open(disk, path, Limits::DEFAULT, ReadMode::default()).expect("it opens");
    let mut options = ScanOptions::STRICT;
    options.check = Check::Envelope;
    let mut rows = 0;
    let report = scan(&log, options, &mut |item| {
        rows += u64::from(matches!(item, Item::Row { .. }));
        Ok(ControlFlow::Continue(()))
    });
    report.expect("it can be read").require(&log).expect("it is sound");
    rows
}

/// Counts as they are stored, with what they hold for.
#[derive(Debug, PartialEq)]
struct Counts {
    built: BTreeMap<String, String>,
    instructions: BTreeMap<String, u64>,
}

const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/guard.toml");

impl Counts {
    fn stored() -> Self {
        let text = std::fs::read_to_string(STORE).expect("benches/guard.toml can be read");
        let table: toml::Table = text.parse().expect("benches/guard.toml is TOML");
        let section = |name: &str| table[name].as_table().expect("a section").clone().into_iter();
        let text = |value: toml::Value| value.as_str().expect("a text").to_owned();
        let count =
            |value: toml::Value| u64::try_from(value.as_integer().expect("a count")).expect("a count");
        Self {
            built: section("built").map(|(name, value)| (name, text(value))).collect(),
            instructions: section("instructions").map(|(name, value)| (name, count(value))).collect(),
        }
    }

    fn store(&self) {
        let mut text =
            "# Instructions of a call. Written by `cargo bench --bench guard -- --update`.\n\n[built]\n"
                .to_owned();
        for (name, value) in &self.built {
            let _ = writeln!(text, "{name} = \"{value}\"");
        }
        text.push_str("\n[instructions]\n");
        for (name, count) in &self.instructions {
            let _ = writeln!(text, "{name} = {count}");
        }
        std::fs::write(STORE, text).expect("benches/guard.toml can be written");
    }
}

/// What the counts of this machine hold for.
fn built() -> BTreeMap<String, String> {
    let first_line = |program: &str, arg: &str| {
        let output = Command::new(program).arg(arg).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    };
    let named = |program, arg| first_line(program, arg).unwrap_or_else(|| "none".to_owned());
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| processor.split_whitespace().any(|word| word == flag);
    let instructions = if has("avx2") && has("bmi2") { "avx2" } else { "baseline" };
    [
        ("rustc", named("rustc", "--version")),
        ("cc", named("cc", "--version")),
        ("libc", named("ldd", "--version")),
        ("processor", format!("{} {instructions}", std::env::consts::ARCH)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Instructions of a call of each path; `None` without valgrind.
fn count() -> Option<BTreeMap<String, u64>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("guard: valgrind is not installed");
        return None;
    }
    let out = limits::folder();
    let counts = PATHS.iter().map(|&(name, calls)| {
        let file = out.path().join(name);
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--toggle-collect=*measured_calls*"])
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(std::env::current_exe().expect("it runs"))
            .args(["--path", name])
            .output()
            .expect("valgrind runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&file).expect("callgrind writes its counts");
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("it sums them up");
        let total: u64 = total.trim().parse().expect("a number");
        assert!(total > 0, "{name}: callgrind did not find what to collect");
        (name.to_owned(), total / u64::from(calls))
    });
    Some(counts.collect())
}

fn update() -> ExitCode {
    let Some(instructions) = count() else { return ExitCode::FAILURE };
    Counts { built: built(), instructions }.store();
    compare_with(&Counts::stored().instructions, &Counts::stored())
}

fn compare() -> ExitCode {
    let stored = Counts::stored();
    let built = built();
    let differing: Vec<String> = built
        .iter()
        .filter(|(name, here)| stored.built.get(*name) != Some(here))
        .map(|(name, here)| {
            format!("{name} is {here}, not {}", stored.built.get(name).map_or("known", String::as_str))
        })
        .collect();
    if !differing.is_empty() {
        skip(&format!("guard: counted with other tools: {}", differing.join("; ")));
        return ExitCode::SUCCESS;
    }
    match count() {
        Some(counted) => compare_with(&counted, &stored),
        None => ExitCode::SUCCESS,
    }
}

fn compare_with(counted: &BTreeMap<String, u64>, stored: &Counts) -> ExitCode {
    let mut is_dearer = false;
    println!("{:<30} {:>12} {:>12} {:>8}", "instructions of a call", "stored", "now", "change");
    for (name, now) in counted {
        let Some(before) = stored.instructions.get(name) else {
            println!("{name:<30} {:>12} {now:>12}          not stored: run with --update", "-");
            is_dearer = true;
            continue;
        };
        let change = 100.0 * (*now as f64 / *before as f64 - 1.0);
        let note = match change {
            change if change > ALLOWANCE => {
                is_dearer = true;
                "  DEARER"
            }
            change if change < -ALLOWANCE => "  cheaper: run with --update",
            _ => "",
        };
        println!("{name:<30} {before:>12} {now:>12} {change:>+7.1}%{note}");
    }
    if is_dearer {
        println!(
            "a path is more than {ALLOWANCE}% dearer: mend it, or say why in the commit that runs --update"
        );
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn skip(what: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {what}").expect("stderr is open");
}
