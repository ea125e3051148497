//! Two hundred live agents on one store: each says something fifty times a second, and now and then somebody needs an event
//! to be on disk before going on.
//!
//! Events go to a [`Contender`] as they happen; it may gather them for 200 ms. Beside them run explicit appends, each of
//! which returns when its event is on disk: these are timed. At the end everything is read back and compared, byte for byte.

// Each bench compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single bench uses everything")]

pub(crate) mod ours;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long events may be gathered.
pub(crate) const WINDOW: Duration = Duration::from_millis(200);

/// How much goes on, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Sessions in which events happen all the time.
    pub(crate) sessions: usize,
    /// Events a second in each of them.
    pub(crate) rate: u32,
    /// Further sessions, to which events are appended explicitly, one after the other.
    pub(crate) probes: usize,
    pub(crate) time: Duration,
}

impl Load {
    /// The load of the issue on the seam, for `SESLOG_LIVE_SECONDS` seconds, 10 if unset.
    pub(crate) fn full() -> Self {
        let seconds = std::env::var("SESLOG_LIVE_SECONDS").ok().and_then(|text| text.parse().ok());
        let time = Duration::from_secs_f64(seconds.unwrap_or(10.0));
        Self { sessions: 200, rate: 50, probes: 8, time }
    }

    /// As little as shows that it works.
    pub(crate) const fn small() -> Self {
        Self { sessions: 8, rate: 50, probes: 2, time: Duration::from_millis(300) }
    }

    /// Names of all sessions, those that are probed at the end.
    pub(crate) fn ids(&self) -> Vec<String> {
        (0..self.sessions + self.probes).map(|session| format!("live-{session:04}")).collect()
    }
}

/// A store of live sessions. Sessions are told by their place in [`Load::ids`].
pub(crate) trait Contender: Send + Sync {
    fn name(&self) -> String;

    /// Takes event `seq` of a session. It may wait up to [`WINDOW`], and then is on disk.
    fn route(&self, session: usize, seq: u64, row: &[u8]);

    /// Stores event `seq` of a session, and returns when it is on disk.
    fn append(&self, session: usize, seq: u64, row: &[u8]);

    /// Stores what waits, and closes everything.
    fn finish(&self);

    /// Reads all events of a session, from a store that was opened anew. Called behind `finish`.
    fn read(&self, session: usize) -> Vec<Vec<u8>>;
}

/// What came out.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) routed: u64,
    /// Times of the explicit appends, in milliseconds, ascending.
    pub(crate) appends: Vec<f64>,
    /// The longest call of `route`, in milliseconds: what a producer felt.
    pub(crate) route_max: f64,
    /// The furthest that a producer fell behind its rate, in milliseconds.
    pub(crate) late_max: f64,
    /// Resident memory after each tenth of the run, in bytes.
    pub(crate) memory: Vec<u64>,
    /// Time on cores for each second of the run.
    pub(crate) cores: f64,
    /// From the end of the load until everything is closed, in milliseconds.
    pub(crate) finish: f64,
}

/// Puts `load` on `contender`.
///
/// # Panics
/// If an event is lost, doubled, changed or out of order.
pub(crate) fn run(contender: &dyn Contender, load: Load) -> Outcome {
    const PRODUCERS: usize = 4;
    let stop = AtomicBool::new(false);
    let appends = Mutex::new(Vec::new());
    let (route_max, late_max) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts: Vec<AtomicU64> = (0..load.sessions + load.probes).map(|_| AtomicU64::new(0)).collect();
    let (start, cpu) = (Instant::now(), cpu_now());
    let mut memory = Vec::new();
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (stop, counts, route_max, late_max) = (&stop, &counts, &route_max, &late_max);
            scope.spawn(move || {
                let tick = Duration::from_secs(1) / load.rate;
                for seq in 0_u64.. {
                    let due = start + tick * u32::try_from(seq).expect("a run is short");
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    late_max.fetch_max(micros(due.elapsed()), Ordering::Relaxed);
                    for session in (producer..load.sessions).step_by(PRODUCERS) {
                        let row = row(session, seq);
                        let called = Instant::now();
                        contender.route(session, seq, &row);
                        route_max.fetch_max(micros(called.elapsed()), Ordering::Relaxed);
                        counts[session].store(seq + 1, Ordering::Relaxed);
                    }
                }
            });
        }
        for probe in load.sessions..load.sessions + load.probes {
            let (stop, counts, appends) = (&stop, &counts, &appends);
            scope.spawn(move || {
                let mut times = Vec::new();
                for seq in 0_u64.. {
                    // About ten times a second, at moments that have nothing to do with the windows.
                    let pause = 60 + mixed(probe as u64 * 1_000_003 + seq) % 80;
                    thread::sleep(Duration::from_millis(pause));
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let row = row(probe, seq);
                    let called = Instant::now();
                    contender.append(probe, seq, &row);
                    times.push(called.elapsed().as_secs_f64() * 1e3);
                    counts[probe].store(seq + 1, Ordering::Relaxed);
                }
                appends.lock().expect("no probe panicked").append(&mut times);
            });
        }
        for _ in 0..10 {
            thread::sleep(load.time / 10);
            memory.push(resident());
        }
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = start.elapsed().as_secs_f64();
    let cores = (cpu_now() - cpu) / seconds;
    let finishing = Instant::now();
    contender.finish();
    let finish = finishing.elapsed().as_secs_f64() * 1e3;

    let mut routed = 0;
    for (session, count) in counts.iter().enumerate() {
        let count = count.load(Ordering::Relaxed);
        let found = contender.read(session);
        assert_eq!(found.len() as u64, count, "{}: events of session {session}", contender.name());
        for (found, seq) in found.iter().zip(0..) {
            assert!(*found == row(session, seq), "{}: event {seq} of session {session}", contender.name());
        }
        routed += if session < load.sessions { count } else { 0 };
    }
    let mut appends = appends.into_inner().expect("no probe panicked");
    appends.sort_by(f64::total_cmp);
    Outcome {
        name: contender.name(),
        routed,
        appends,
        route_max: route_max.into_inner() as f64 / 1e3,
        late_max: late_max.into_inner() as f64 / 1e3,
        memory,
        cores,
        finish,
    }
}

impl Outcome {
    /// The explicit append that so many of a thousand do not exceed, in milliseconds.
    pub(crate) fn append_ms(&self, thousandth: usize) -> f64 {
        let at = (self.appends.len() * thousandth / 1000).min(self.appends.len().saturating_sub(1));
        self.appends.get(at).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: &u64| format!("{:.1}", *bytes as f64 / f64::from(1 << 20));
        let memory: Vec<String> = self.memory.iter().map(mib).collect();
        writeln!(f, "  {}", self.name)?;
        writeln!(f, "    {} live events, none lost; the longest call {:.2} ms", self.routed, self.route_max)?;
        writeln!(
            f,
            "    {} explicit appends on disk: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            self.appends.len(),
            self.append_ms(500),
            self.append_ms(990),
            self.append_ms(1000)
        )?;
        writeln!(
            f,
            "    memory by tenths {} MiB; {:.2} cores; closed in {:.0} ms; producers at most {:.0} ms late",
            memory.join(" "),
            self.cores,
            self.finish,
            self.late_max
        )
    }
}

/// Event `seq` of a session: some hundred bytes of JSON that no two events share.
pub(crate) fn row(session: usize, seq: u64) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "the", "file", "reads", "lock", "before", "append", "and", "returns", "error", "when", "offset",
        "is", "behind", "its", "tail", "segment",
    ];
    let mut state = mixed(session as u64 * 0x1_0000_0001 + seq);
    let mut text = String::new();
    for _ in 0..20 + state % 60 {
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push(' ');
        state = mixed(state);
    }
    format!(
        "{{\"type\":\"todo/write\",\"seq\":{seq},\"time\":{},\"data\":{{\"session\":{session},\"text\":\"{text}\"}}}}",
        1_767_225_600_000 + seq * 20
    )
    .into_bytes()
}

/// One step of SplitMix64.
fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Bytes of this process that are in memory.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Seconds that this process has spent on cores.
fn cpu_now() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    // USER_HZ is 100 on every Linux.
    ticks.sum::<f64>() / 100.0
}
