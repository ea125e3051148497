//! What a host relies on besides the rules: room, order beside explicit appends, sessions in memory, threads.

use std::sync::Arc;
use std::thread;

use seslog::json::Text;
use seslog::session::{Intent, Session, Sessions, Settings};
use seslog::store::{Cancel, CancelReason, Routed, SessionAccess, SessionPersistence};
use seslog::units::UnixMs;
use seslog::{Error, Result};

use crate::common::sessions::{header, rows_by};
use crate::inner::{Bench, Call, eventually};

fn tight(bench_events: usize) -> Bench {
    Bench::with(|options| options.queue_events_max = bench_events)
}

fn try_route(bench: &Bench, seq: u64) -> Result<Routed> {
    bench.behind.try_route(&Text::from("s"), rows_by("s", seq..seq + 1)[0].as_bytes())
}

#[test]
fn a_full_queue_says_so_and_has_room_again_after_a_drain() {
    let bench = tight(4);
    let _handle = bench.create("s");
    bench.inner.shut();
    bench.route("s", 0..4);
    assert_eq!(try_route(&bench, 4).unwrap(), Routed::Full);
    bench.inner.open_gate();
    bench.flush("s").unwrap();
    assert_eq!(try_route(&bench, 4).unwrap(), Routed::Queued);
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..5);
}

#[test]
fn half_a_queue_is_drained_before_its_window_ends() {
    let bench = tight(8);
    let _handle = bench.create("s");
    bench.route("s", 0..3);
    bench.behind.settle();
    bench.assert_stored("s", 0..0);
    bench.route("s", 3..4);
    bench.behind.settle();
    bench.assert_stored("s", 0..4);
    // What is left of the window that was cut short does nothing to the next one.
    bench.step(100);
    bench.route("s", 4..5);
    bench.step(199);
    bench.assert_stored("s", 0..4);
    bench.step(1);
    bench.assert_stored("s", 0..5);
}

#[test]
fn a_producer_waits_for_room_and_loses_nothing() {
    let bench = tight(3);
    let _handle = bench.create("s");
    let id = Text::from("s");
    for row in rows_by("s", 0..200) {
        assert_eq!(bench.behind.route(&id, row.as_bytes(), &Cancel::never()).unwrap(), Routed::Queued);
    }
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..200);
}

#[test]
fn a_producer_that_waits_can_be_cancelled() {
    let bench = tight(2);
    let _handle = bench.create("s");
    bench.inner.shut();
    bench.route("s", 0..2);
    let cancel = Cancel::new();
    thread::scope(|scope| {
        let route =
            scope.spawn(|| bench.behind.route(&Text::from("s"), rows_by("s", 2..3)[0].as_bytes(), &cancel));
        let reason: CancelReason = Arc::new(std::io::Error::other("the user left"));
        // Whether it waits already or is about to: there is no room, and it notices.
        cancel.cancel(Arc::clone(&reason));
        match route.join().unwrap() {
            Err(Error::Cancelled { reason: found }) => assert!(Arc::ptr_eq(&found, &reason)),
            other => panic!("{other:?}"),
        }
        bench.inner.open_gate();
    });
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..2);
}

#[test]
fn a_producer_does_not_wait_for_room_that_nobody_will_make() {
    let bench = tight(2);
    let _handle = bench.create("s");
    bench.inner.fail_appends("s", 1);
    bench.route("s", 0..2);
    bench.behind.settle();
    assert_eq!(bench.reports(), 1);
    let route = |seq: u64| {
        bench.behind.route(&Text::from("s"), rows_by("s", seq..seq + 1)[0].as_bytes(), &Cancel::never())
    };
    assert!(matches!(route(2), Err(Error::Io { .. })));
    bench.flush("s").unwrap();
    assert_eq!(route(2).unwrap(), Routed::Queued);
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..3);
}

#[test]
fn what_is_no_event_or_not_the_next_one_is_refused_to_its_producer() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..2);
    for (seq, expected) in [(1, 2), (3, 2)] {
        match try_route(&bench, seq) {
            Err(Error::SeqMismatch { expected: found, actual, .. }) => {
                assert_eq!((found, actual), (expected, seq));
            }
            other => panic!("{other:?}"),
        }
    }
    for bad in [
        "{}",
        "{\"type\":\"a\",\"seq\":2,\"time\":0,\"data\":{\"a\":01}}",
        "{\"type\":\"a\",\n\"seq\":2,\"time\":0,\"data\":0}",
    ] {
        let refused = bench.behind.try_route(&Text::from("s"), bad.as_bytes());
        assert!(matches!(refused, Err(Error::InvalidRow { .. })), "{bad}");
    }
    bench.route("s", 2..3);
    handle.flush(&Cancel::never()).unwrap();
    assert!(matches!(try_route(&bench, 2), Err(Error::SeqMismatch { expected: 3, .. })));
    bench.assert_stored("s", 0..3);
}

#[test]
fn an_explicit_append_comes_behind_what_was_routed_before_it() {
    let bench = Bench::new();
    let handle = bench.create("s");
    let append = |seqs| {
        let rows = rows_by("s", seqs);
        handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &Cancel::never())
    };
    append(0..1).unwrap();
    bench.route("s", 1..3);
    assert_eq!(handle.next_seq(), Some(3));
    append(3..5).unwrap();
    assert_eq!(bench.inner.batches("s"), [vec![0], vec![1, 2], vec![3, 4]]);
    bench.route("s", 5..6);
    assert!(matches!(append(7..8), Err(Error::SeqMismatch { expected: 6, actual: 7, .. })));
    bench.assert_stored("s", 0..6);
    bench.step(1000);
    bench.assert_stored("s", 0..6);
}

#[test]
fn what_was_routed_ahead_waits_for_the_append_that_fills_the_gap() {
    let bench = Bench::new();
    let handle = bench.create("s");
    let append = |seqs| {
        let rows = rows_by("s", seqs);
        handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &Cancel::never())
    };
    bench.route("s", 2..4);
    bench.step(200);
    assert_eq!(bench.reports(), 1);
    assert!(matches!(bench.flush("s"), Err(Error::SeqMismatch { expected: 0, actual: 2, .. })));
    assert!(
        matches!(append(0..3), Err(Error::SeqMismatch { index: 2, .. })),
        "one of them is queued already"
    );
    append(0..2).unwrap();
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..4);
}

#[test]
fn a_flush_ends_although_its_producer_never_pauses() {
    let bench = Bench::new();
    let handle = bench.create("s");
    let id = Text::from("s");
    let done = std::sync::atomic::AtomicBool::new(false);
    let routed = thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut seq = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let row = &rows_by("s", seq..seq + 1)[0];
                assert_eq!(
                    bench.behind.route(&id, row.as_bytes(), &Cancel::never()).unwrap(),
                    Routed::Queued
                );
                seq += 1;
            }
            seq
        });
        for _ in 0..5 {
            eventually("something waits", || handle.next_seq() > Some(0));
            bench.flush("s").unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        producer.join().unwrap()
    });
    handle.close().unwrap();
    bench.assert_stored("s", 0..routed);
}

fn settings() -> Settings {
    Settings::new(|| UnixMs::new(1_700_000_000_000))
}

fn say(session: &Session, count: u64) {
    for _ in 0..count {
        session.append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
    }
}

fn texts(session: &Session) -> Vec<String> {
    session.log().iter().map(|event| event.line().to_owned()).collect()
}

#[test]
fn live_events_of_sessions_are_stored_and_seeds_and_markers_are_not_routed() {
    let bench = Bench::new();
    let sessions = Sessions::new(settings());
    let following = bench.behind.follow(&sessions);
    let handle = bench.create("s");
    let parent = Session::create(header("s"), &settings()).unwrap();
    say(&parent, 2);
    let seed = parent.log();
    let session = Session::seeded(header("s"), &seed, None, &settings()).unwrap();
    assert_eq!(session.log().len(), 3, "the seed and its marker");
    let stored: Vec<String> = texts(&session);
    handle.append(&stored.iter().map(String::as_bytes).collect::<Vec<_>>(), &Cancel::never()).unwrap();
    let stay = sessions.publish(&session).unwrap();
    assert_eq!(bench.inner.batches("s"), [vec![0, 1, 2]]);
    say(&session, 2);
    bench.step(200);
    assert_eq!(bench.inner.batches("s"), [vec![0, 1, 2], vec![3, 4]]);
    say(&session, 1);
    assert!(sessions.flush(&session).unwrap());
    assert_eq!(bench.inner.stored("s"), texts(&session));
    drop(following);
    say(&session, 1);
    bench.step(1000);
    assert_eq!(bench.inner.stored("s").len(), 6, "nobody follows any more");
    stay.detach();
}

#[test]
fn a_session_in_no_store_can_be_observed() {
    let bench = Bench::new();
    let handle = bench.create("s");
    let session = Session::create(header("s"), &settings()).unwrap();
    let subscription = bench.behind.observe(&session);
    say(&session, 3);
    handle.flush(&Cancel::never()).unwrap();
    assert_eq!(bench.inner.stored("s"), texts(&session));
    drop(subscription);
}

#[test]
fn a_session_never_waits_and_what_finds_no_room_comes_from_its_log() {
    let bench = tight(4);
    let _handle = bench.create("s");
    let session = Session::create(header("s"), &settings()).unwrap();
    bench.behind.observe(&session).keep();
    bench.inner.fail_appends("s", 1);
    say(&session, 50);
    bench.behind.settle();
    say(&session, 50);
    assert_eq!(bench.reports(), 1);
    bench.flush("s").unwrap();
    assert_eq!(bench.inner.stored("s"), texts(&session));
    say(&session, 1);
    bench.step(200);
    assert_eq!(bench.inner.stored("s"), texts(&session));
}

#[test]
fn a_live_flush_fails_if_the_session_has_events_that_were_never_routed() {
    let bench = Bench::new();
    let sessions = Sessions::new(settings());
    let _following = bench.behind.follow(&sessions);
    let session = Session::create(header("s"), &settings()).unwrap();
    let _stay = sessions.publish(&session).unwrap();
    say(&session, 2);
    let _handle = bench.create("s");
    let refused = sessions.flush(&session).unwrap_err();
    let words = format!("{:?}", refused);
    assert!(words.contains("NotStored") && words.contains("accepted: 2"), "{words}");
}

#[test]
fn a_handle_that_is_dropped_is_closed() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..3);
    drop(handle);
    bench.assert_stored("s", 0..3);
    assert_eq!(bench.inner.calls().last(), Some(&Call::Close("s".into())));
    let handle = bench.behind.open(&Text::from("s"), SessionAccess::Write, &Cancel::never()).unwrap();
    bench.route("s", 3..4);
    bench.inner.fail_appends("s", 1);
    drop(handle);
    assert_eq!(bench.reports(), 1);
}

#[test]
fn close_tells_every_caller_the_same_and_frees_the_session_whatever_fails() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..1);
    bench.inner.fail_appends("s", 1);
    bench.inner.fail_closes("s", 1);
    let outcomes = thread::scope(|scope| {
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(|| handle.close())).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    for outcome in outcomes.into_iter().chain([handle.close()]) {
        assert!(matches!(&outcome, Err(Error::Aggregate(both)) if both.len() == 2), "{outcome:?}");
    }
    assert_eq!(handle.next_seq(), None);
    bench.create("s").close().unwrap();
}

/// Names of the threads of this process.
#[cfg(target_os = "linux")]
fn threads(named: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == named).count()
}

#[test]
#[cfg(target_os = "linux")]
fn two_hundred_sessions_need_no_more_threads_than_one() {
    // In a process of its own: other tests have threads too.
    let me = std::env::current_exe().unwrap();
    if std::env::var_os("SESLOG_COUNT_THREADS").is_none() {
        let status = std::process::Command::new(me)
            .args(["--exact", "queues::two_hundred_sessions_need_no_more_threads_than_one", "--nocapture"])
            .env("SESLOG_COUNT_THREADS", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let bench = Bench::new();
    let ids: Vec<String> = (0..200).map(|n| format!("s{n}")).collect();
    let handles: Vec<_> = ids.iter().map(|id| bench.create(id)).collect();
    assert_eq!(
        (threads("seslog timer"), threads("seslog drain")),
        (0, 0),
        "not before there is anything to do"
    );
    ids.iter().for_each(|id| bench.route(id, 0..1));
    // A thread gives itself its name when it first runs.
    eventually("one timer and three drains", || (threads("seslog timer"), threads("seslog drain")) == (1, 3));
    bench.behind.close().unwrap();
    assert_eq!((threads("seslog timer"), threads("seslog drain")), (0, 0));
    ids.iter().for_each(|id| bench.assert_stored(id, 0..1));
    // And there are some again when they are needed.
    let _handle = bench.create("later");
    bench.route("later", 0..1);
    bench.step(200);
    bench.assert_stored("later", 0..1);
    drop(handles);
}

#[test]
fn a_window_ends_by_the_systems_clock_too() {
    let bench = Bench::with(|options| options.clock = Arc::new(seslog::store::SystemClock::new()));
    let _handle = bench.create("s");
    let start = std::time::Instant::now();
    bench.route("s", 0..1);
    eventually("the window ended", || bench.inner.stored("s").len() == 1);
    assert!(start.elapsed() >= seslog::store::WINDOW);
    // And again, when nothing had been waited for.
    bench.route("s", 1..2);
    eventually("the next window ended", || bench.inner.stored("s").len() == 2);
}
