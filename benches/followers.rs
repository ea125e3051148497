//! What a hundred followers of an attempt cost the one who writes the session: an append takes as long with them as without.
//!
//! An attempt takes 500 chunks a second in a thread of its own, 100 followers wait for each, and the session stores an event
//! every few milliseconds. The contenders run in turns of a second: appends while chunks come and nobody follows, the same with
//! followers as they come, which wake at the pace of a screen, and with followers that wake for each chunk. What is compared are
//! appends, and the time that a push takes. The followers take cores of their own: on a machine that has none to spare the last
//! ones show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use seslog::container::Encoding;
use seslog::json::Text;
use seslog::live::{Delivery, LiveFollower, LiveHandle, LiveOptions};
use seslog::row::Header;
use seslog::store::{Cancel, Durability, FileStore, SessionHandle, SessionPersistence, StoreOptions};
use seslog::units::{Generation, UnixMs};

const FOLLOWERS: usize = 100;
const CHUNK_EVERY: Duration = Duration::from_millis(2);
const APPEND_EVERY: Duration = Duration::from_millis(4);
const TURN: Duration = Duration::from_secs(1);
const TURNS: usize = 8;

/// Microseconds, of all turns of one contender.
#[derive(Default)]
struct Times {
    appends: Vec<f64>,
    pushes: Vec<f64>,
    delivered: u64,
    gaps: u64,
}

fn main() {
    for (durability, what) in [(Durability::Sync, "sync"), (Durability::OnFlush, "buffered")] {
        let (mut alone, mut followed, mut paced) = (Times::default(), Times::default(), Times::default());
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch folder");
        let handle = session(dir.path(), durability);
        for _ in 0..TURNS {
            turn(&handle, 0, Duration::ZERO, &mut alone);
            turn(&handle, FOLLOWERS, Duration::ZERO, &mut followed);
            turn(&handle, FOLLOWERS, LiveFollower::PICTURE, &mut paced);
        }
        for (times, who) in [(&mut paced, "as they come"), (&mut followed, "each chunk")] {
            report(what, who, &mut alone, times);
        }
    }
}

fn report(what: &str, who: &str, alone: &mut Times, followed: &mut Times) {
    let what = format!("followers/{what}/{who}");
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let (a, b) = (percentile(&mut alone.appends, share), percentile(&mut followed.appends, share));
        println!("{what}: append {name}: alone {a:.1} us, followed {b:.1} us, ratio {:.2}", b / a);
        let (a, b) = (percentile(&mut alone.pushes, share), percentile(&mut followed.pushes, share));
        println!("{what}: push   {name}: alone {a:.1} us, followed {b:.1} us");
    }
    println!(
        "{what}: {} appends and {} chunks a contender, {} deliveries, {} gaps",
        followed.appends.len(),
        followed.pushes.len(),
        followed.delivered,
        followed.gaps
    );
}

fn session(root: &std::path::Path, durability: Durability) -> Arc<LiveHandle> {
    let mut options = StoreOptions::default();
    options.encoding = Encoding::Indexed;
    options.durability = durability;
    let store = FileStore::with_options(root, options);
    let header = Header::new(Generation::CURRENT, Text::from("s"), UnixMs::new(1)).expect("a header");
    let below = SessionPersistence::create(&store, header, None, &Cancel::never()).expect("it is new");
    LiveHandle::new(below, LiveOptions::default()).expect("it writes")
}

/// One second of chunks and appends with so many followers.
fn turn(handle: &Arc<LiveHandle>, followers: usize, pace_of_followers: Duration, times: &mut Times) {
    let is_over = AtomicBool::new(false);
    let (delivered, gaps) = (AtomicU64::new(0), AtomicU64::new(0));
    scope(|scope| {
        for _ in 0..followers {
            let (follower, _) = handle.follow(true);
            let mut follower = follower.with_pace(pace_of_followers);
            let (is_over, delivered, gaps) = (&is_over, &delivered, &gaps);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match follower.recv(Duration::from_millis(50)) {
                        Some(Delivery::Gap) => {
                            gaps.fetch_add(1, Ordering::Relaxed);
                            follower.rebaseline();
                        }
                        Some(_) => drop(delivered.fetch_add(1, Ordering::Relaxed)),
                        None => {}
                    }
                }
            });
        }
        let chunks = scope.spawn(|| {
            let mut attempt = handle.begin_attempt(1, 1).expect("none is under way");
            let start = Instant::now();
            let mut pushes = Vec::new();
            while start.elapsed() < TURN {
                let time = UnixMs::new(pushes.len() as i64);
                pushes.push(timed(|| attempt.push_text(time, 0, " token").expect("a delta")));
                pace(start, pushes.len(), CHUNK_EVERY);
            }
            attempt.abandon();
            pushes
        });
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < TURN {
            let seq = handle.next_seq().expect("it writes");
            let row =
                format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":1,\"data\":{{\"active\":true}}}}");
            times
                .appends
                .push(timed(|| handle.append(&[row.as_bytes()], &Cancel::never()).expect("it is stored")));
            count += 1;
            pace(start, count, APPEND_EVERY);
        }
        times.pushes.extend(chunks.join().expect("it does not panic"));
        is_over.store(true, Ordering::Relaxed);
    });
    times.delivered += delivered.into_inner();
    times.gaps += gaps.into_inner();
}

/// Sleeps until call number `count` is due.
fn pace(start: Instant, count: usize, every: Duration) {
    let due = every.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    sleep(due.saturating_sub(start.elapsed()));
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

fn percentile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() as f64 * share) as usize]
}
