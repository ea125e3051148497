//! Contenders that run in turns, so that whatever else the machine does falls on all of them alike.
//!
//! Each bench enters what it measures together with what limits it and with simple rivals. A race runs all of them in
//! rounds, in an order that rotates, and prints medians and the ratios that were asked for; a ratio is taken within each
//! round, so that a slow minute cancels out. Then Criterion measures what is not a limit, for its own reports.
//!
//! `SESLOG_BENCH_CSV=FILE` appends every measured slice to a file. `SESLOG_BENCH_RACE=only` leaves Criterion out.
//! `SESLOG_BENCH_ONE=ID` or `ID*N` runs one contender N times and nothing else: for profilers and `strace`.

// Each bench compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single bench uses every unit")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rustix::time::{ClockId, clock_gettime};

/// Shortest slice that is timed: far above what a clock and a switch of processes cost.
const SLICE: Duration = Duration::from_millis(8);

/// What one call of a contender gets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// So many bytes of rows.
    Bytes(u64),
    /// So many events, sessions or appends.
    Elements(u64),
}

/// Contenders of one bench.
pub(crate) struct Race<'a> {
    name: &'static str,
    contenders: Vec<Contender<'a>>,
    pairs: Vec<Pair>,
    rounds: usize,
}

/// Work that is measured.
pub(crate) trait Work {
    /// Gets ready for so many calls; not measured.
    fn prepare(&mut self, _calls: u32) {}

    /// One call.
    fn run(&mut self);
}

impl<F: FnMut()> Work for F {
    fn run(&mut self) {
        self();
    }
}

struct Contender<'a> {
    id: String,
    unit: Unit,
    work: Box<dyn Work + 'a>,
    /// Calls in one slice.
    calls: u32,
    slices: Vec<Slice>,
}

/// Nanoseconds of one call: by the wall clock, and of the process on a core.
#[derive(Clone, Copy, Debug)]
struct Slice {
    wall: f64,
    cpu: f64,
}

struct Pair {
    of: String,
    to: String,
}

impl<'a> Race<'a> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, contenders: Vec::new(), pairs: Vec::new(), rounds: 21 }
    }

    /// Enters a contender. Its id begins with the bench's name, or with `limit/` or `rival/` if it is not ours.
    pub(crate) fn add(&mut self, id: impl Into<String>, unit: Unit, work: impl Work + 'a) {
        let work = Box::new(work);
        self.contenders.push(Contender { id: id.into(), unit, work, calls: 1, slices: Vec::new() });
    }

    /// Asks for a ratio: how fast `of` is, `to` being 1.
    pub(crate) fn compare(&mut self, of: impl Into<String>, to: impl Into<String>) {
        self.pairs.push(Pair { of: of.into(), to: to.into() });
    }

    /// Runs the race, prints its table, and hands what is ours to Criterion.
    pub(crate) fn run(mut self) {
        if let Some(one) = std::env::var_os("SESLOG_BENCH_ONE") {
            return self.run_one(&one.to_string_lossy());
        }
        let args: Vec<String> = std::env::args().skip(1).collect();
        // `cargo bench` says so; `cargo test --benches` and `--list` want no measurement.
        let measures = args.iter().any(|arg| arg == "--bench")
            && !args.iter().any(|arg| ["--test", "--list", "--load-baseline"].contains(&arg.as_str()));
        let is_filtered = args.iter().any(|arg| !arg.starts_with('-'));
        if measures && !is_filtered {
            self.calibrate();
            for round in 0..self.rounds {
                self.round(round);
            }
            self.print();
            self.write_csv();
        }
        if std::env::var_os("SESLOG_BENCH_RACE").is_none_or(|race| race != "only") {
            self.criterion();
        }
    }

    fn run_one(&mut self, one: &str) {
        let (id, calls) = match one.rsplit_once('*') {
            Some((id, calls)) => (id, calls.parse::<u32>().expect("ID*N, N a number")),
            None => (one, 1),
        };
        if let Some(contender) = self.contenders.iter_mut().find(|contender| contender.id == id) {
            contender.work.prepare(calls);
            profiled(&mut *contender.work, calls);
        }
    }

    /// Warms up, and finds how many calls fill a slice.
    fn calibrate(&mut self) {
        for contender in &mut self.contenders {
            contender.slice(1);
            let mut calls = 1_u32;
            loop {
                let took = contender.slice(calls).wall * f64::from(calls);
                if took >= SLICE.as_nanos() as f64 || calls >= 1 << 20 {
                    break;
                }
                let grow = SLICE.as_nanos() as f64 / took.max(1.0);
                calls = (f64::from(calls) * grow.clamp(1.3, 8.0)).ceil() as u32;
            }
            contender.calls = calls;
        }
    }

    fn round(&mut self, round: usize) {
        let count = self.contenders.len();
        for turn in 0..count {
            // Forward in even rounds and backward in odd ones, each time from another one on.
            let at = (round + if round.is_multiple_of(2) { turn } else { count - 1 - turn }) % count;
            let contender = &mut self.contenders[at];
            let slice = contender.slice(contender.calls);
            contender.slices.push(slice);
        }
    }

    fn print(&self) {
        let width = self.contenders.iter().map(|contender| contender.id.len()).max().unwrap_or(0);
        let mut out = String::new();
        let _ = writeln!(
            out,
            "\n{}: medians of {} rounds in turns, with the spread (MAD)",
            self.name, self.rounds
        );
        let _ = writeln!(
            out,
            "  {:<width$}  {:>11}  {:>11}  {:>14}  {:>6}",
            "", "wall", "on a core", "throughput", "spread"
        );
        for contender in &self.contenders {
            let wall = contender.median(|slice| slice.wall);
            let cpu = contender.median(|slice| slice.cpu);
            let walls: Vec<f64> =
                contender.slices.iter().map(|slice| (slice.wall / wall - 1.0).abs()).collect();
            let _ = writeln!(
                out,
                "  {:<width$}  {:>11}  {:>11}  {:>14}  {:>5.1}%",
                contender.id,
                time(wall),
                time(cpu),
                rate(contender.unit, wall),
                100.0 * median(walls)
            );
        }
        let _ = writeln!(
            out,
            "  speed against the second, within each round: by the wall clock (middle half of the rounds), on a core"
        );
        for pair in &self.pairs {
            let Some((of, to)) = self.find(&pair.of).zip(self.find(&pair.to)) else {
                panic!("no contenders {} and {}", pair.of, pair.to)
            };
            let ratios = |pick: fn(&Slice) -> f64| -> Vec<f64> {
                let paired = of.slices.iter().zip(&to.slices);
                let mut ratios: Vec<f64> = paired.map(|(of, to)| pick(to) / pick(of)).collect();
                ratios.sort_by(f64::total_cmp);
                ratios
            };
            let walls = ratios(|slice| slice.wall);
            let (low, high) = (walls[walls.len() / 4], walls[walls.len() * 3 / 4]);
            let _ = writeln!(
                out,
                "  {:>6.3} ({low:.3} to {high:.3}), {:>6.3}   {} : {}",
                median(walls.clone()),
                median(ratios(|slice| slice.cpu)),
                pair.of,
                pair.to
            );
        }
        println!("{out}");
    }

    fn find(&self, id: &str) -> Option<&Contender<'a>> {
        self.contenders.iter().find(|contender| contender.id == id)
    }

    fn write_csv(&self) {
        let Some(path) = std::env::var_os("SESLOG_BENCH_CSV") else { return };
        let is_new = !std::path::Path::new(&path).exists();
        let mut file =
            std::fs::File::options().create(true).append(true).open(path).expect("the CSV file opens");
        let mut out = String::new();
        if is_new {
            out.push_str(
                "bench,id,round,calls,wall_ns_per_call,cpu_ns_per_call,bytes_per_call,elements_per_call\n",
            );
        }
        for contender in &self.contenders {
            let (bytes, elements) = match contender.unit {
                Unit::Bytes(bytes) => (bytes.to_string(), String::new()),
                Unit::Elements(elements) => (String::new(), elements.to_string()),
            };
            for (round, slice) in contender.slices.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "{},{},{round},{},{:.1},{:.1},{bytes},{elements}",
                    self.name, contender.id, contender.calls, slice.wall, slice.cpu
                );
            }
        }
        file.write_all(out.as_bytes()).expect("the CSV file takes it");
    }

    fn criterion(&mut self) {
        let mut criterion = Criterion::default()
            .sample_size(10)
            .warm_up_time(Duration::from_millis(100))
            .measurement_time(Duration::from_millis(400))
            .configure_from_args();
        let prefix = format!("{}/", self.name);
        let mut group = criterion.benchmark_group(self.name);
        for contender in &mut self.contenders {
            let Some(id) = contender.id.strip_prefix(&prefix) else { continue };
            group.throughput(match contender.unit {
                Unit::Bytes(bytes) => Throughput::Bytes(bytes),
                Unit::Elements(elements) => Throughput::Elements(elements),
            });
            let work = &mut contender.work;
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|calls| {
                    work.prepare(u32::try_from(calls).expect("Criterion asks for a few"));
                    let start = Instant::now();
                    for _ in 0..calls {
                        work.run();
                    }
                    start.elapsed()
                });
            });
        }
        group.finish();
        criterion.final_summary();
    }
}

impl Contender<'_> {
    fn slice(&mut self, calls: u32) -> Slice {
        self.work.prepare(calls);
        let (cpu, wall) = (cpu_now(), Instant::now());
        for _ in 0..calls {
            self.work.run();
        }
        let wall = wall.elapsed().as_nanos() as f64 / f64::from(calls);
        Slice { wall, cpu: (cpu_now() - cpu) / f64::from(calls) }
    }

    fn median(&self, pick: impl Fn(&Slice) -> f64) -> f64 {
        median(self.slices.iter().map(pick).collect())
    }
}

/// What a profiler is told to collect: `valgrind --tool=callgrind --toggle-collect='*profiled*'`.
#[inline(never)]
fn profiled(work: &mut dyn Work, calls: u32) {
    for _ in 0..calls {
        work.run();
    }
}

/// Nanoseconds that this process and those that it has waited for have spent on cores.
fn cpu_now() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64 + cpu_of_children()
}

#[expect(unsafe_code, reason = "no safe call tells what children used")]
fn cpu_of_children() -> f64 {
    // SAFETY: it is a struct of integers, of which all may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it writes one such struct, which this one is.
    let told = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(told, 0, "it is asked of children");
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn rate(unit: Unit, ns: f64) -> String {
    match unit {
        Unit::Bytes(bytes) => format!("{:.0} MB/s", bytes as f64 * 1e3 / ns),
        Unit::Elements(elements) => format!("{:.0} /s", elements as f64 * 1e9 / ns),
    }
}
