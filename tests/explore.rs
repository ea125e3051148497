//! Explores schedules of write-behind and of readers that share one read: the very code of `src/store/behind` and
//! `src/store/query/flight.rs`, compiled here over locks and threads of which a scheduler decides every step.
//!
//! A run is one schedule, drawn from a seed. A schedule that fails is printed by shuttle, for `shuttle::replay`. Time is a
//! [`behind::ManualClock`]: a wait with a limit never ends by itself here, so what ends it must have woken it.
//!
//! `SESLOG_EXPLORE=N` explores N times as many schedules.

#![allow(dead_code, unused_imports, reason = "the included code is used as far as these tests go")]
#![allow(unreachable_pub, reason = "it is public where it belongs")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seslog::json::Text;
use seslog::row::Header;
use seslog::units::{Generation, UnixMs};
use shuttle::thread;

// What the included code imports, from where it imports it.
mod error {
    pub(crate) use seslog::{Error, Result};
}
mod history {
    pub(crate) use seslog::store::history::{Page, PageRequest};
}
mod json {
    pub(crate) use seslog::json::Text;
}
mod layout {
    pub(crate) use seslog::store::layout::printable;
}
mod limits {
    pub(crate) use seslog::limits::Limits;
}
mod row {
    pub(crate) use seslog::row::{Check, Event, Header, one_line};
}
mod session {
    pub(crate) use seslog::session::{Log, Session, Sessions, Subscription};
}
use seslog::store::{Cancel, Durability, Events, SessionAccess, SessionHandle, SessionPersistence, Snapshot};

#[path = "../src/store/behind/mod.rs"]
mod behind;
#[path = "explore/disk.rs"]
mod disk;
#[path = "explore"]
mod query {
    #[path = "../../src/store/query/flight.rs"]
    pub(crate) mod flight;
    mod flights;
}
#[path = "explore/sync.rs"]
mod sync;

use behind::{BehindOptions, ManualClock, Routed, WINDOW, WriteBehind};
use disk::{Disk, Fault};
use error::{Error, Result};

/// Runs `scenario` under so many random schedules, and as many that change threads at few, random moments.
fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("SESLOG_EXPLORE").ok().and_then(|times| times.parse().ok()).unwrap_or(1_usize);
    let scenario = Arc::new(scenario);
    let random = Arc::clone(&scenario);
    shuttle::check_random(move || random(), schedules * times);
    shuttle::check_pct(move || scenario(), schedules * times, 3);
}

/// One instance over a disk in memory, with two threads that drain.
struct World {
    behind: WriteBehind,
    disk: Disk,
    clock: ManualClock,
    reports: Arc<sync::Mutex<u32>>,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut BehindOptions)) -> Self {
        let (disk, clock) = (Disk::default(), ManualClock::new());
        let reports = Arc::new(sync::Mutex::new(0));
        let heard = Arc::clone(&reports);
        let mut options = BehindOptions {
            clock: Arc::new(clock.clone()),
            drains: 2,
            report: Some(Arc::new(move |_: &Text, _: &Error| *heard.lock() += 1)),
            ..BehindOptions::default()
        };
        change(&mut options);
        let behind = WriteBehind::with_options(Arc::new(disk.clone()), options);
        Self { behind, disk, clock, reports }
    }

    fn create(&self, id: &str) -> Arc<dyn SessionHandle> {
        let header = Header::new(Generation::V2, Text::from(id), UnixMs::new(5)).expect("a header");
        self.behind.create(header, None, &Cancel::never()).expect("the id is new")
    }

    fn route(&self, id: &str, seq: u64) -> Routed {
        self.behind.try_route(&Text::from(id), row(seq).as_bytes()).expect("the next event")
    }
}

fn row(seq: u64) -> String {
    format!("{{\"type\":\"a\",\"seq\":{seq},\"time\":0,\"data\":0}}")
}

fn append(handle: &dyn SessionHandle, seq: u64) -> Result<()> {
    handle.append(&[row(seq).as_bytes()], &Cancel::never())
}

/// Producers, the clock, flushes and explicit appends at once: everything is stored, once and in order.
#[test]
fn routes_windows_flushes_and_appends_lose_double_and_reorder_nothing() {
    explore(400, || {
        let world = Arc::new(World::new());
        let handles: Vec<_> = ["a", "b"].into_iter().map(|id| world.create(id)).collect();
        let mut threads = Vec::new();
        for id in ["a", "b"] {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || {
                (0..4).for_each(|seq| assert_eq!(world.route(id, seq), Routed::Queued))
            }));
        }
        let ticking = Arc::clone(&world);
        threads.push(thread::spawn(move || (0..3).for_each(|_| ticking.clock.step(WINDOW))));
        let flushing = Arc::clone(&world);
        threads.push(thread::spawn(move || flushing.behind.flush().expect("the disk is sound")));
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        // Whatever was not due yet is due now.
        world.clock.step(WINDOW);
        world.behind.settle();
        for (handle, id) in handles.iter().zip(["a", "b"]) {
            world.disk.assert_durable(id, 4);
            append(&**handle, 4).expect("it is the next one");
            handle.close().expect("the disk is sound");
            world.disk.assert_durable(id, 5);
        }
        world.behind.close().expect("the disk is sound");
    });
}

/// Close against producers: what was queued is stored before it resolves, and what was not is refused.
#[test]
fn close_stores_exactly_what_was_taken_and_nothing_after_the_release() {
    explore(600, || {
        let world = Arc::new(World::new());
        let handle = world.create("a");
        let (producing, ticking, closing) = (Arc::clone(&world), Arc::clone(&world), Arc::clone(&handle));
        let producer = thread::spawn(move || {
            let mut taken = 0;
            while taken < 6 && producing.route("a", taken) == Routed::Queued {
                taken += 1;
            }
            taken
        });
        let ticks = thread::spawn(move || (0..2).for_each(|_| ticking.clock.step(WINDOW)));
        let close = thread::spawn(move || closing.close().expect("the disk is sound"));
        // A second caller gets the same outcome, and not before it is there.
        handle.close().expect("the disk is sound");
        assert!(!world.disk.is_owned("a"));
        let taken = producer.join().expect("it ends");
        close.join().expect("it ends");
        world.disk.assert_durable("a", taken);
        ticks.join().expect("it ends");
        world.clock.step(WINDOW);
        world.behind.settle();
        world.disk.assert_durable("a", taken);
        world.behind.close().expect("the disk is sound");
    });
}

/// A disk that fails a few times, at any of its calls: nothing is lost, doubled or reordered, and nobody retries unasked.
#[test]
fn failures_keep_everything_in_order_until_somebody_drains() {
    for fault in [Fault::Append, Fault::Sync, Fault::Poison] {
        explore(250, move || {
            let world = Arc::new(World::new());
            let handle = world.create("a");
            world.disk.fail(fault, 2);
            let (producing, ticking, flushing) =
                (Arc::clone(&world), Arc::clone(&world), Arc::clone(&handle));
            let threads = [
                thread::spawn(move || {
                    (0..5).for_each(|seq| assert_eq!(producing.route("a", seq), Routed::Queued));
                }),
                thread::spawn(move || (0..3).for_each(|_| ticking.clock.step(WINDOW))),
                thread::spawn(move || {
                    let _may_fail = flushing.flush(&Cancel::never());
                }),
            ];
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
            world.behind.settle();
            // Each failure costs one call at most, and then it is over.
            let failures = (0..3).filter(|_| handle.flush(&Cancel::never()).is_err()).count();
            assert!(failures <= 2, "{failures}");
            handle.flush(&Cancel::never()).expect("the fault is over");
            world.disk.assert_durable("a", 5);
            assert_eq!(world.route("a", 5), Routed::Queued);
            world.clock.step(WINDOW);
            world.behind.settle();
            world.disk.assert_durable("a", 6);
            assert!(*world.reports.lock() <= 2);
            world.behind.close().expect("the fault is over");
        });
    }
}

/// A producer that waits for room is woken, whoever makes it, and also when the session closes under it.
#[test]
fn producers_that_wait_for_room_are_woken() {
    explore(400, || {
        let world = Arc::new(World::with(|options| options.queue_events_max = 2));
        let handle = world.create("a");
        let (producing, closing) = (Arc::clone(&world), Arc::clone(&handle));
        let producer = thread::spawn(move || {
            let route =
                |seq: u64| producing.behind.route(&Text::from("a"), row(seq).as_bytes(), &Cancel::never());
            (0..7).take_while(|&seq| route(seq).expect("the next event") == Routed::Queued).count()
        });
        let flushing = Arc::clone(&handle);
        let flush = thread::spawn(move || {
            let _closing_or_done = flushing.flush(&Cancel::never());
        });
        let close = thread::spawn(move || closing.close().expect("the disk is sound"));
        let taken = producer.join().expect("it ends");
        [flush, close].into_iter().for_each(|thread| thread.join().expect("it ends"));
        world.disk.assert_durable("a", u64::try_from(taken).expect("a few"));
        world.behind.close().expect("the disk is sound");
    });
}

/// A session that is closed and opened again while events come and the instance closes: each handle's events are stored by
/// that handle, and every thread ends.
#[test]
fn handles_of_one_id_follow_each_other_while_events_come() {
    explore(400, || {
        let world = Arc::new(World::new());
        let first = world.create("a");
        assert_eq!(world.route("a", 0), Routed::Queued);
        let (closing, opening, ticking) = (Arc::clone(&first), Arc::clone(&world), Arc::clone(&world));
        let close = thread::spawn(move || closing.close().expect("the disk is sound"));
        let open = thread::spawn(move || {
            loop {
                match opening.behind.open(&Text::from("a"), SessionAccess::Write, &Cancel::never()) {
                    Ok(second) => {
                        assert_eq!(second.next_seq(), Some(1), "after the first has stored its event");
                        assert_eq!(opening.route("a", 1), Routed::Queued);
                        return second;
                    }
                    Err(Error::AlreadyOwned { .. }) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let ticks = thread::spawn(move || (0..2).for_each(|_| ticking.clock.step(WINDOW)));
        close.join().expect("it ends");
        let second = open.join().expect("it ends");
        drop(first);
        world.behind.close().expect("the disk is sound");
        world.disk.assert_durable("a", 2);
        assert!(!world.disk.is_owned("a"));
        ticks.join().expect("it ends");
        drop(second);
    });
}
