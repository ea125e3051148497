//! C9: rules 111 to 122.

use std::sync::Arc;
use std::thread;

use seslog::json::Text;
use seslog::session::{Intent, Session, Sessions, Settings};
use seslog::store::{Cancel, Routed, SessionAccess, SessionHandle, SessionPersistence};
use seslog::units::UnixMs;
use seslog::{Error, Result};

use crate::common::sessions::{header, rows_by};
use crate::inner::{Bench, Call, eventually};

fn append(handle: &Arc<dyn SessionHandle>, id: &str, seqs: std::ops::Range<u64>) -> Result<()> {
    let rows = rows_by(id, seqs);
    handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &Cancel::never())
}

fn settings() -> Settings {
    Settings::new(|| UnixMs::new(1_700_000_000_000))
}

#[test]
fn r111_events_of_a_window_are_stored_at_200_ms_and_not_a_tick_before() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..3);
    bench.step(199);
    assert!(bench.inner.calls().is_empty());
    bench.step(1);
    assert_eq!(bench.inner.calls(), [Call::Append("s".into(), vec![0, 1, 2]), Call::Flush("s".into())]);
    bench.assert_stored("s", 0..3);
    assert_eq!(handle.next_seq(), Some(3));
    // A window of its own for what comes later.
    bench.step(500);
    bench.route("s", 3..4);
    bench.step(199);
    bench.assert_stored("s", 0..3);
    bench.step(1);
    bench.assert_stored("s", 0..4);
}

#[test]
fn r112_later_events_do_not_extend_the_window() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    for seq in 0..4 {
        bench.route("s", seq..seq + 1);
        bench.step(49);
    }
    bench.assert_stored("s", 0..0);
    bench.step(4);
    bench.assert_stored("s", 0..4);
    assert_eq!(bench.inner.batches("s"), [vec![0, 1, 2, 3]]);
}

#[test]
fn r113_events_that_come_during_a_drain_are_the_next_batch_of_the_same_drain() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..2);
    bench.inner.shut();
    thread::scope(|scope| {
        let flush = scope.spawn(|| bench.flush("s"));
        bench.inner.await_waiting(1);
        bench.route("s", 2..5);
        bench.inner.open_gate();
        assert!(flush.join().unwrap().unwrap());
    });
    bench.assert_stored("s", 0..5);
    assert_eq!(bench.inner.batches("s"), [vec![0, 1], vec![2, 3, 4]]);
    drop(handle);
}

#[test]
fn r113_the_same_holds_for_the_drain_of_a_window() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    bench.route("s", 0..2);
    bench.inner.shut();
    bench.clock.step(std::time::Duration::from_millis(200));
    bench.inner.await_waiting(1);
    bench.route("s", 2..5);
    bench.inner.open_gate();
    bench.behind.settle();
    bench.assert_stored("s", 0..5);
    assert_eq!(bench.inner.batches("s"), [vec![0, 1], vec![2, 3, 4]]);
}

#[test]
fn r114_without_a_write_handle_nothing_is_stored_and_a_flush_succeeds() {
    let bench = Bench::new();
    let route = |seq| {
        let row = &rows_by("s", seq..seq + 1)[0];
        bench.behind.try_route(&Text::from("s"), row.as_bytes()).unwrap()
    };
    assert_eq!(route(0), Routed::NoHandle);
    assert!(!bench.flush("s").unwrap());
    let handle = bench.create("s");
    append(&handle, "s", 0..1).unwrap();
    handle.close().unwrap();
    // A handle that reads is none either.
    let reader = bench.behind.open(&Text::from("s"), SessionAccess::Read, &Cancel::never()).unwrap();
    assert_eq!(route(1), Routed::NoHandle);
    assert!(!bench.flush("s").unwrap());
    bench.step(1000);
    bench.assert_stored("s", 0..1);
    drop(reader);
}

#[test]
fn r115_a_session_flush_drains_at_once_and_stores_a_session_without_events() {
    let bench = Bench::new();
    let (_full, _empty) = (bench.create("full"), bench.create("empty"));
    bench.route("full", 0..3);
    assert!(bench.flush("full").unwrap() && bench.flush("empty").unwrap());
    bench.assert_stored("full", 0..3);
    let empty = bench.behind.stat(&Text::from("empty"), &Cancel::never()).unwrap().unwrap();
    assert_eq!(empty.event_count, Some(0));
    // The window is closed with that.
    let calls = bench.inner.calls();
    bench.step(1000);
    assert_eq!(bench.inner.calls(), calls);
}

#[test]
fn r116_a_failed_drain_is_told_once_keeps_everything_and_pauses() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..2);
    bench.inner.fail_appends("s", u32::MAX);
    bench.step(200);
    assert_eq!(bench.reports(), 1);
    assert!(bench.reports.lock().unwrap()[0].starts_with("s: "));
    // New events join behind, and nothing is tried.
    for seq in 2..6 {
        bench.route("s", seq..seq + 1);
        bench.step(10_000);
    }
    assert_eq!(bench.inner.batches("s"), [vec![0, 1]]);
    assert_eq!((bench.reports(), handle.next_seq()), (1, Some(6)));
    bench.inner.fail_appends("s", 0);
    bench.step(10_000);
    assert_eq!(bench.inner.batches("s").len(), 1, "the fault is over, and still nobody asked");
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..6);
}

#[test]
fn r117_explicit_flushes_fail_while_the_fault_lasts_and_then_store_everything_once() {
    for routes_meanwhile in [false, true] {
        let bench = Bench::new();
        let handle = bench.create("s");
        bench.route("s", 0..3);
        bench.inner.fail_appends("s", 4);
        bench.step(200);
        let mut end = 3;
        for attempt in 0..3 {
            let refused = match attempt {
                0 => bench.flush("s").map(drop),
                1 => handle.flush(&Cancel::never()),
                _ => bench.behind.flush(),
            };
            assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
            if routes_meanwhile {
                bench.route("s", end..end + 1);
                end += 1;
            }
        }
        assert_eq!(bench.reports(), 1, "whoever flushes hears of it there");
        bench.flush("s").unwrap();
        bench.assert_stored("s", 0..end);
        // And windows open again.
        bench.route("s", end..end + 1);
        bench.step(200);
        bench.assert_stored("s", 0..end + 1);
    }
}

#[test]
fn r117_a_batch_that_was_appended_and_not_synced_is_stored_once() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    bench.route("s", 0..3);
    bench.inner.fail_flushes("s", 2);
    bench.step(200);
    assert_eq!(bench.reports(), 1);
    bench.route("s", 3..4);
    assert!(bench.flush("s").is_err());
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..4);
    bench.flush("s").unwrap();
    bench.assert_stored("s", 0..4);
}

#[test]
fn r118_a_service_flush_flushes_every_handle_and_gathers_what_fails() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..9).map(|n| format!("s{n}")).collect();
    let _handles: Vec<_> = ids.iter().map(|id| bench.create(id)).collect();
    for id in &ids {
        bench.route(id, 0..2);
    }
    let _unwritten = bench.create("unwritten");
    bench.inner.fail_appends("s3", 1);
    bench.inner.fail_flushes("s7", 1);
    match bench.behind.flush() {
        Err(Error::Aggregate(failed)) => assert_eq!(failed.len(), 2, "{failed:?}"),
        other => panic!("{other:?}"),
    }
    for id in ids.iter().filter(|id| *id != "s3") {
        bench.assert_stored(id, 0..2);
    }
    assert!(bench.behind.stat(&Text::from("unwritten"), &Cancel::never()).unwrap().is_some());
    bench.behind.flush().unwrap();
    ids.iter().for_each(|id| bench.assert_stored(id, 0..2));
}

#[test]
fn r118_a_closing_handle_counts_as_flushed() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.route("s", 0..1);
    bench.inner.shut();
    thread::scope(|scope| {
        let close = scope.spawn(|| handle.close());
        bench.inner.await_waiting(1);
        bench.behind.flush().unwrap();
        assert!(bench.flush("s").unwrap());
        bench.inner.open_gate();
        close.join().unwrap().unwrap();
    });
    bench.assert_stored("s", 0..1);
}

#[test]
fn r119_a_session_that_leaves_is_drained_and_closed_and_what_fails_is_only_reported() {
    let bench = Bench::new();
    let sessions = Sessions::new(settings());
    let _following = bench.behind.follow(&sessions);
    for (id, fails) in [("good", false), ("bad", true)] {
        let handle = bench.create(id);
        let session = Session::create(header(id), &settings()).unwrap();
        let stay = sessions.publish(&session).unwrap();
        session.append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
        bench.inner.fail_appends(id, u32::from(fails));
        stay.detach();
        assert!(matches!(handle.flush(&Cancel::never()), Err(Error::HandleClosed { .. })));
        assert_eq!(bench.reports(), usize::from(fails));
        assert_eq!(bench.inner.stored(id).len(), usize::from(!fails));
        // The id is free again.
        let again = match fails {
            false => bench.behind.open(&Text::from(id), SessionAccess::Write, &Cancel::never()),
            true => bench.behind.create(header(id), None, &Cancel::never()),
        };
        again.unwrap().close().unwrap();
    }
}

#[test]
fn r120_events_that_come_while_close_waits_for_an_append_are_stored_before_it_resolves() {
    let bench = Bench::new();
    let handle = bench.create("s");
    bench.inner.shut();
    thread::scope(|scope| {
        let appending = scope.spawn(|| append(&handle, "s", 0..1));
        bench.inner.await_waiting(1);
        let close = scope.spawn(|| handle.close());
        // A read takes no turn, so it does not wait behind the append.
        eventually("close began", || {
            matches!(handle.read(0, 1, &Cancel::never()), Err(Error::HandleClosed { .. }))
        });
        bench.route("s", 1..4);
        bench.inner.open_gate();
        appending.join().unwrap().unwrap();
        close.join().unwrap().unwrap();
    });
    bench.assert_stored("s", 0..4);
    assert_eq!(bench.inner.calls().last(), Some(&Call::Close("s".into())));
}

#[test]
fn r121_closing_the_instance_stores_everything_closes_every_handle_and_gathers_what_fails() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..7).map(|n| format!("s{n}")).collect();
    let handles: Vec<_> = ids.iter().map(|id| bench.create(id)).collect();
    ids.iter().for_each(|id| bench.route(id, 0..2));
    bench.flush("s0").unwrap();
    let reader = bench.behind.open(&Text::from("s0"), SessionAccess::Read, &Cancel::never()).unwrap();
    bench.inner.fail_appends("s2", 1);
    bench.inner.fail_closes("s5", 1);
    match bench.behind.close() {
        Err(Error::Aggregate(failed)) => assert_eq!(failed.len(), 2, "{failed:?}"),
        other => panic!("{other:?}"),
    }
    for handle in handles.iter().chain([&reader]) {
        assert!(matches!(handle.read(0, 1, &Cancel::never()), Err(Error::HandleClosed { .. })));
    }
    for id in ids.iter().filter(|id| *id != "s2") {
        bench.assert_stored(id, 0..2);
    }
    bench.assert_stored("s2", 0..0);
}

#[test]
fn r122_a_new_handle_gets_the_later_events_and_nothing_is_written_after_the_release() {
    let bench = Bench::new();
    let first = bench.create("s");
    bench.route("s", 0..2);
    first.close().unwrap();
    let calls = bench.inner.calls().len();
    let row = &rows_by("s", 2..3)[0];
    assert_eq!(bench.behind.try_route(&Text::from("s"), row.as_bytes()).unwrap(), Routed::NoHandle);
    bench.step(1000);
    assert_eq!(bench.inner.calls().len(), calls, "nothing after the close");
    let second = bench.behind.open(&Text::from("s"), SessionAccess::Write, &Cancel::never()).unwrap();
    bench.route("s", 2..4);
    first.close().unwrap();
    drop(first);
    bench.step(200);
    bench.assert_stored("s", 0..4);
    assert_eq!(second.next_seq(), Some(4));
}
