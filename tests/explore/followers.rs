//! Writers and followers at once.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use super::baseline::Baseline;
use super::follower::{Delivery, LiveFollower};
use super::frame::{Outcome, Step};
use super::hub::Hub;
use crate::units::UnixMs;

/// Longer than any schedule: a follower at this pace rests between all looks but the first.
const PACE: Duration = Duration::from_secs(3600);

/// Runs `scenario` under so many random schedules, and as many that change threads at few, random moments.
fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("SESLOG_EXPLORE").ok().and_then(|times| times.parse().ok()).unwrap_or(1_usize);
    let scenario = Arc::new(scenario);
    let random = Arc::clone(&scenario);
    shuttle::check_random(move || random(), schedules * times);
    shuttle::check_pct(move || scenario(), schedules * times, 3);
}

fn hub(kept_max: usize) -> Arc<Hub> {
    Arc::new(Hub::new("s".to_owned(), 0, kept_max, usize::MAX))
}

/// An attempt of so many chunks with an event behind each, and its end; as `Attempt` and `LiveHandle` do it.
fn run_attempt(hub: &Hub, chunks: u64) {
    let attempt_id = hub.start(1, 1).expect("none is under way");
    for index in 0..chunks {
        let mut state = hub.lock();
        state.frame(&attempt_id, 1, || Step::Chunk { index, time: UnixMs::new(0), json: Arc::from("{}") });
        let is_watched = state.watchers > 0;
        drop(state);
        if is_watched {
            hub.wake();
        }
        hub.events([&b"row"[..]], None);
    }
    hub.events([&b"row"[..]], Some((&attempt_id, Outcome::Abandoned)));
}

/// Takes all that comes until the end, and checks that nothing is missing behind its baseline; gives how many gaps there were.
fn follow(mut follower: LiveFollower, mut baseline: Baseline, with_frames: bool) -> u64 {
    let mut gaps = 0;
    loop {
        match follower.recv(PACE).expect("time stands still") {
            Delivery::Event(event) => {
                assert_eq!(event.seq, baseline.next_seq, "each event once and in order");
                baseline.next_seq += 1;
            }
            Delivery::Frame(frame) => {
                assert!(with_frames, "asked for events only");
                assert_eq!(frame.revision, baseline.revision + 1, "each frame once and in order");
                baseline.revision += 1;
            }
            Delivery::Gap => {
                gaps += 1;
                let next = follower.rebaseline();
                assert!(next.next_seq >= baseline.next_seq && next.revision >= baseline.revision);
                baseline = next;
            }
            Delivery::Closed => {
                let end = follower.rebaseline();
                assert_eq!(end.next_seq, baseline.next_seq, "nothing is missing in the end");
                assert!(!with_frames || end.revision == baseline.revision);
                return gaps;
            }
        }
    }
}

fn spawn(hub: &Arc<Hub>, with_frames: bool, pace: Duration) -> thread::JoinHandle<u64> {
    let (follower, baseline) = LiveFollower::new(Arc::clone(hub), with_frames);
    let follower = follower.with_pace(pace);
    thread::spawn(move || follow(follower, baseline, with_frames))
}

/// Whoever waits is woken, however the line of those who wait and wake each other stands.
#[test]
fn followers_of_all_kinds_get_everything_in_order_and_the_end() {
    explore(400, || {
        let hub = hub(1000);
        let followers = [
            spawn(&hub, true, Duration::ZERO),
            spawn(&hub, true, Duration::ZERO),
            spawn(&hub, true, PACE),
            spawn(&hub, false, Duration::ZERO),
            spawn(&hub, false, PACE),
        ];
        let writer = {
            let hub = Arc::clone(&hub);
            thread::spawn(move || {
                run_attempt(&hub, 3);
                hub.close();
            })
        };
        let late = spawn(&hub, true, Duration::ZERO);
        writer.join().expect("it ends");
        for follower in followers.into_iter().chain([late]) {
            assert_eq!(follower.join().expect("it ends"), 0, "all of it was kept");
        }
    });
}

/// A ring that holds next to nothing: gaps are told, and what comes behind a new baseline continues it.
#[test]
fn followers_that_are_too_slow_are_told_and_go_on_behind_a_new_baseline() {
    let gaps = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let all = Arc::clone(&gaps);
    explore(400, move || {
        let hub = hub(2);
        let followers =
            [spawn(&hub, true, Duration::ZERO), spawn(&hub, true, PACE), spawn(&hub, false, Duration::ZERO)];
        let writer = {
            let hub = Arc::clone(&hub);
            thread::spawn(move || {
                run_attempt(&hub, 2);
                hub.missed(5);
                run_attempt(&hub, 1);
                hub.close();
            })
        };
        writer.join().expect("it ends");
        for follower in followers {
            all.fetch_add(follower.join().expect("it ends"), std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(gaps.load(std::sync::atomic::Ordering::Relaxed) > 50);
}

/// Followers come and leave while others wait: nobody's wake goes with them.
#[test]
fn followers_that_leave_take_no_wake_with_them() {
    explore(400, || {
        let hub = hub(1000);
        let staying = [spawn(&hub, true, Duration::ZERO), spawn(&hub, true, Duration::ZERO)];
        let leaving: Vec<_> = (0..2)
            .map(|takes| {
                let (mut follower, _) = LiveFollower::new(Arc::clone(&hub), true);
                thread::spawn(move || {
                    for _ in 0..takes {
                        follower.recv(PACE).expect("time stands still");
                    }
                })
            })
            .collect();
        let writer = {
            let hub = Arc::clone(&hub);
            thread::spawn(move || {
                run_attempt(&hub, 2);
                run_attempt(&hub, 1);
                hub.close();
            })
        };
        writer.join().expect("it ends");
        leaving.into_iter().for_each(|follower| follower.join().expect("it ends"));
        for follower in staying {
            assert_eq!(follower.join().expect("it ends"), 0);
        }
        let state = hub.lock();
        assert!((0..state.ring.end()).all(|at| state.ring.get(at).is_none()), "nothing is kept for nobody");
    });
}
