//! C9: live events, written behind their producers' backs into the backend; and the checkpoints of C11.
//!
//! What is asked is that the backend and [`WriteBehind`] make one store that keeps the rules. Time is stepped by hand.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::contract::backend::{Backend, Crash, Step};
use crate::contract::stage::{
    Handle, Instance, Outcome, Stage, append, create, flush, header, never, open, open_and_read, read_all,
    row_of, rows_by, stat,
};
use crate::contract::watched::Watched;
use crate::error::{Error, Result};
use crate::json::Text;
use crate::session::{Intent, Session, Sessions, Settings};
use crate::store::SessionAccess::{Read, Write};
use crate::store::{
    BehindOptions, Checkpoints, DoNotCallModel, DoNotRunTool, ManualClock, Routed, SessionPersistence as _,
    WINDOW, WriteBehind,
};
use crate::units::UnixMs;

const TICK: Duration = Duration::from_millis(1);

/// Write-behind over an instance of the backend, and another instance to look from.
struct Desk<'b> {
    stage: Stage<'b>,
    below: Watched,
    behind: WriteBehind,
    clock: ManualClock,
    reports: Arc<Mutex<Vec<Text>>>,
    other: Instance,
}

impl<'b> Desk<'b> {
    fn new(backend: &'b dyn Backend) -> Self {
        let stage = Stage::new(backend);
        let below = Watched::new(stage.instance());
        let (clock, reports) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&reports);
        let options = BehindOptions {
            clock: Arc::new(clock.clone()),
            report: Some(Arc::new(move |id: &Text, _: &Error| heard.lock().push(id.clone()))),
            ..BehindOptions::default()
        };
        let behind = WriteBehind::with_options(Arc::new(below.clone()), options);
        let other = stage.instance();
        Self { stage, below, behind, clock, reports, other }
    }

    /// The store with its queues, as a host holds it.
    fn store(&self) -> Instance {
        Arc::new(self.behind.clone())
    }

    fn create(&self, id: &str) -> Handle {
        create(&self.store(), id)
    }

    /// Queues live events of a session.
    fn route(&self, id: &str, seqs: Range<u64>) {
        for row in rows_by(id, seqs) {
            assert_eq!(
                self.behind.try_route(&Text::from(id), row.as_bytes()).unwrap(),
                Routed::Queued,
                "{row}"
            );
        }
    }

    fn route_one(&self, id: &str, seq: u64) -> Routed {
        let rows = rows_by(id, seq..seq + 1);
        self.behind.try_route(&Text::from(id), rows[0].as_bytes()).unwrap()
    }

    fn flush(&self, id: &str) -> Result<bool> {
        self.behind.flush_session(&Text::from(id), &never())
    }

    /// Lets time pass, and what is due be done.
    fn pass(&self, time: Duration) {
        self.clock.step(time);
        self.behind.settle();
    }

    /// What another instance reads of a session; nothing of one that is not stored.
    fn stored(&self, id: &str) -> Vec<String> {
        match open_and_read(&self.other, id) {
            Err(Error::NotFound { .. }) => Vec::new(),
            read => read.unwrap(),
        }
    }

    #[track_caller]
    fn assert_stored(&self, id: &str, seqs: Range<u64>) {
        assert_eq!(self.stored(id), rows_by(id, seqs));
    }
}

pub(crate) fn r111_a_window_is_stored_at_its_end_and_not_a_tick_before(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let handle = desk.create("s");
    desk.route("s", 0..3);
    desk.pass(WINDOW - TICK);
    desk.assert_stored("s", 0..0);
    desk.pass(TICK);
    desk.assert_stored("s", 0..3);
    assert_eq!(read_all(&handle).unwrap(), rows_by("s", 0..3));
    assert_eq!(desk.below.batches(), [3], "one batch");
    // What comes later has a window of its own.
    desk.pass(10 * WINDOW);
    desk.route("s", 3..4);
    desk.pass(WINDOW - TICK);
    desk.assert_stored("s", 0..3);
    desk.pass(TICK);
    desk.assert_stored("s", 0..4);
    Ok(())
}

pub(crate) fn r112_later_events_do_not_extend_a_window(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let _handle = desk.create("s");
    for seq in 0..4 {
        desk.route("s", seq..seq + 1);
        desk.pass(WINDOW / 4 - TICK);
    }
    desk.assert_stored("s", 0..0);
    desk.pass(4 * TICK);
    desk.assert_stored("s", 0..4);
    assert_eq!(desk.below.batches(), [4]);
    Ok(())
}

pub(crate) fn r113_events_during_a_drain_are_the_next_batch_of_it(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let _handle = desk.create("s");
    desk.route("s", 0..2);
    desk.below.shut();
    let flushed = thread::scope(|scope| {
        let flushing = scope.spawn(|| desk.flush("s"));
        desk.below.await_waiting();
        desk.route("s", 2..5);
        desk.below.open_gate();
        flushing.join().unwrap()
    });
    assert!(flushed.unwrap());
    desk.assert_stored("s", 0..5);
    assert_eq!(desk.below.batches(), [2, 3]);
    Ok(())
}

pub(crate) fn r114_without_a_write_handle_nothing_is_stored_and_a_flush_succeeds(
    backend: &dyn Backend,
) -> Outcome {
    let desk = Desk::new(backend);
    assert_eq!(desk.route_one("s", 0), Routed::NoHandle);
    assert!(!desk.flush("s").unwrap());
    let handle = desk.create("s");
    append(&handle, &rows_by("s", 0..1)).unwrap();
    handle.close().unwrap();
    // A handle that reads is none either.
    let _reader = open(&desk.store(), "s", Read).unwrap();
    assert_eq!(desk.route_one("s", 1), Routed::NoHandle);
    assert!(!desk.flush("s").unwrap());
    desk.pass(10 * WINDOW);
    desk.assert_stored("s", 0..1);
    Ok(())
}

pub(crate) fn r115_a_session_flush_drains_at_once_and_stores_a_session(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let (_full, _empty) = (desk.create("full"), desk.create("empty"));
    desk.route("full", 0..3);
    assert!(desk.flush("full").unwrap() && desk.flush("empty").unwrap());
    desk.assert_stored("full", 0..3);
    assert!(stat(&desk.other, "empty").is_some());
    // The window went with that.
    desk.pass(10 * WINDOW);
    assert_eq!(desk.below.batches(), [3]);
    // And it is durable.
    if let Ok(after) = desk.stage.durable() {
        assert_eq!(open_and_read(&after.instance(), "full").unwrap(), rows_by("full", 0..3));
    }
    Ok(())
}

pub(crate) fn r116_a_failed_drain_is_told_once_keeps_everything_and_pauses(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let handle = desk.create("s");
    append(&handle, &rows_by("s", 0..1)).unwrap();
    desk.route("s", 1..3);
    desk.below.set_failing("s", true);
    desk.pass(WINDOW);
    assert_eq!(*desk.reports.lock(), [Text::from("s")]);
    let tried = desk.below.batches().len();
    desk.below.set_failing("s", false);
    for seq in 3..6 {
        desk.route("s", seq..seq + 1);
        desk.pass(10 * WINDOW);
    }
    assert_eq!(desk.below.batches().len(), tried, "nothing is tried by itself");
    assert_eq!((desk.reports.lock().len(), handle.next_seq()), (1, Some(6)));
    desk.assert_stored("s", 0..1);
    assert!(desk.flush("s").unwrap());
    desk.assert_stored("s", 0..6);
    Ok(())
}

pub(crate) fn r117_a_flush_after_a_failure_stores_everything_once(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let handle = desk.create("s");
    desk.route("s", 0..3);
    desk.below.set_failing("s", true);
    desk.pass(WINDOW);
    for attempt in 0..3 {
        let refused = match attempt {
            0 => desk.flush("s").map(|_| ()),
            1 => flush(&handle),
            _ => desk.behind.flush(),
        };
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        desk.route("s", 3 + attempt..4 + attempt);
    }
    assert_eq!(desk.reports.lock().len(), 1, "whoever flushes hears of it there");
    desk.below.set_failing("s", false);
    assert!(desk.flush("s").unwrap());
    desk.assert_stored("s", 0..6);
    // And windows open again.
    desk.route("s", 6..7);
    desk.pass(WINDOW);
    desk.assert_stored("s", 0..7);
    Ok(())
}

pub(crate) fn r117_so_it_does_after_a_failure_of_the_storage(backend: &dyn Backend) -> Outcome {
    for step in [Step::Write, Step::Sync] {
        let desk = Desk::new(backend);
        let handle = desk.create("s");
        append(&handle, &rows_by("s", 0..1)).unwrap();
        desk.route("s", 1..3);
        desk.stage.storage().fail_next(step)?;
        desk.pass(WINDOW);
        assert_eq!(desk.reports.lock().len(), 1, "{step:?}");
        desk.route("s", 3..4);
        assert!(desk.flush("s").unwrap());
        desk.assert_stored("s", 0..4);
        if let Ok(after) = desk.stage.durable() {
            assert_eq!(open_and_read(&after.instance(), "s").unwrap(), rows_by("s", 0..4), "{step:?}");
        }
    }
    Ok(())
}

pub(crate) fn r118_a_service_flush_flushes_every_handle_and_gathers_what_fails(
    backend: &dyn Backend,
) -> Outcome {
    let desk = Desk::new(backend);
    let ids: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    let _handles: Vec<Handle> = ids.iter().map(|id| desk.create(id)).collect();
    ids.iter().for_each(|id| desk.route(id, 0..2));
    let _unwritten = desk.create("unwritten");
    desk.below.set_failing("s1", true);
    desk.below.set_failing("s4", true);
    match desk.behind.flush() {
        Err(Error::Aggregate(failed)) => assert_eq!(failed.len(), 2, "{failed:?}"),
        other => panic!("{other:?}"),
    }
    for id in ids.iter().filter(|id| !["s1", "s4"].contains(&id.as_str())) {
        desk.assert_stored(id, 0..2);
    }
    assert!(stat(&desk.other, "unwritten").is_some());
    desk.below.set_failing("s1", false);
    desk.below.set_failing("s4", false);
    desk.behind.flush().unwrap();
    ids.iter().for_each(|id| desk.assert_stored(id, 0..2));
    Ok(())
}

pub(crate) fn r119_a_session_that_leaves_is_drained_and_closed(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let settings = Settings::new(|| UnixMs::new(1_800_000_000_000));
    let sessions = Sessions::new(settings.clone());
    let _following = desk.behind.follow(&sessions);
    for (id, fails) in [("good", false), ("bad", true)] {
        let handle = desk.create(id);
        let session = Session::create(header(id), &settings).unwrap();
        let stay = sessions.publish(&session).unwrap();
        session.append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
        desk.below.set_failing(id, fails);
        stay.detach();
        let closed = flush(&handle);
        assert!(matches!(closed, Err(Error::HandleClosed { .. })), "{closed:?}");
        assert_eq!(desk.reports.lock().len(), usize::from(fails), "a failure is told there");
        assert_eq!(desk.stored(id).len(), usize::from(!fails));
        // And the id is free again.
        if fails {
            create(&desk.other, id).close().unwrap();
        } else {
            open(&desk.other, id, Write).unwrap().close().unwrap();
        }
    }
    Ok(())
}

pub(crate) fn r120_events_that_come_while_close_waits_are_stored_before_it_resolves(
    backend: &dyn Backend,
) -> Outcome {
    let desk = Desk::new(backend);
    let handle = desk.create("s");
    desk.below.shut();
    let (appended, closed) = thread::scope(|scope| {
        let appending = scope.spawn(|| append(&handle, &rows_by("s", 0..1)));
        desk.below.await_waiting();
        let closing = scope.spawn(|| handle.close());
        // A read waits for nobody, and is refused from the moment that the close began.
        let began = (0..10_000).any(|_| {
            thread::sleep(TICK);
            matches!(handle.read(0, 0, &never()), Err(Error::HandleClosed { .. }))
        });
        if began {
            desk.route("s", 1..4);
        }
        desk.below.open_gate();
        assert!(began, "close did not begin");
        (appending.join().unwrap(), closing.join().unwrap())
    });
    appended.unwrap();
    closed.unwrap();
    desk.assert_stored("s", 0..4);
    open(&desk.other, "s", Write).unwrap();
    Ok(())
}

pub(crate) fn r121_closing_the_instance_stores_everything_and_closes_every_handle(
    backend: &dyn Backend,
) -> Outcome {
    let desk = Desk::new(backend);
    let ids: Vec<String> = (0..5).map(|number| format!("s{number}")).collect();
    let handles: Vec<Handle> = ids.iter().map(|id| desk.create(id)).collect();
    ids.iter().for_each(|id| desk.route(id, 0..2));
    desk.flush("s0").unwrap();
    let reader = open(&desk.store(), "s0", Read).unwrap();
    desk.below.set_failing("s1", true);
    desk.below.set_failing("s3", true);
    match desk.behind.close() {
        Err(Error::Aggregate(failed)) => assert_eq!(failed.len(), 2, "{failed:?}"),
        other => panic!("{other:?}"),
    }
    for handle in handles.iter().chain([&reader]) {
        let closed = read_all(handle);
        assert!(matches!(closed, Err(Error::HandleClosed { .. })), "{closed:?}");
    }
    for id in &ids {
        let is_stored = !["s1", "s3"].contains(&id.as_str());
        desk.assert_stored(id, 0..if is_stored { 2 } else { 0 });
        if is_stored {
            open(&desk.other, id, Write).unwrap();
        }
    }
    Ok(())
}

pub(crate) fn r122_a_new_handle_gets_the_later_events_and_none_twice(backend: &dyn Backend) -> Outcome {
    let desk = Desk::new(backend);
    let first = desk.create("s");
    desk.route("s", 0..2);
    first.close().unwrap();
    desk.assert_stored("s", 0..2);
    // Nothing is written after the release: the session is another's now.
    let foreign = open(&desk.other, "s", Write).unwrap();
    assert_eq!(desk.route_one("s", 2), Routed::NoHandle);
    desk.pass(10 * WINDOW);
    desk.assert_stored("s", 0..2);
    append(&foreign, &rows_by("s", 2..3)).unwrap();
    foreign.close().unwrap();

    let second = open(&desk.store(), "s", Write).unwrap();
    desk.route("s", 3..5);
    first.close().unwrap();
    drop(first);
    desk.pass(WINDOW);
    desk.assert_stored("s", 0..5);
    assert_eq!(second.next_seq(), Some(5));
    Ok(())
}

/// What a host does around a model and a tool, and how far it got.
fn turn(desk: &Desk<'_>, fails_from: Option<u64>) -> Vec<&'static str> {
    let (points, id) = (Checkpoints::of(&desk.behind), Text::from("s"));
    let say = |seq, kind, data: &str| {
        desk.below.set_failing("s", fails_from.is_some_and(|from| seq >= from));
        let row = row_of(kind, seq, data);
        assert_eq!(desk.behind.try_route(&id, row.as_bytes()).unwrap(), Routed::Queued);
    };
    let mut done = Vec::new();
    say(0, "turn/start", "{\"turn\":1}");
    say(1, "step/start", "{\"turn\":1,\"step\":1}");
    if let Err(DoNotCallModel(error)) = points.before_request(&id, &never()) {
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        return done;
    }
    done.push("model");
    say(2, "tool/call", "{\"turn\":1,\"step\":1,\"callId\":\"c\",\"name\":\"t\",\"arguments\":\"{}\"}");
    match points.before_tool(&id, &never()) {
        Ok(()) => done.push("tool"),
        Err(refused) => {
            assert!(matches!(refused, DoNotRunTool::Failed(Error::Io { .. })), "{refused:?}");
        }
    }
    done
}

pub(crate) fn r139_a_failed_checkpoint_keeps_the_model_and_the_tool_from_running(
    backend: &dyn Backend,
) -> Outcome {
    for (fails_from, expected) in [(None, &["model", "tool"][..]), (Some(2), &["model"]), (Some(0), &[])] {
        let desk = Desk::new(backend);
        let handle = desk.create("s");
        flush(&handle).unwrap();
        assert_eq!(turn(&desk, fails_from), expected, "{fails_from:?}");
        assert_eq!(desk.stored("s").len(), expected.len() + usize::from(!expected.is_empty()));
        desk.below.set_failing("s", false);
        handle.close().unwrap();
    }
    Ok(())
}

pub(crate) fn r139_after_a_crash_past_a_checkpoint_the_call_is_in_the_log(backend: &dyn Backend) -> Outcome {
    for crash in [Crash::Killed, Crash::PowerLoss { seed: 0 }] {
        let desk = Desk::new(backend);
        let _handle = desk.create("s");
        assert_eq!(turn(&desk, None), ["model", "tool"]);
        let rows = desk.stage.after(crash)?.read();
        assert!(rows.last().is_some_and(|row| row.contains("\"tool/call\"")), "{rows:?}");
    }
    Ok(())
}
