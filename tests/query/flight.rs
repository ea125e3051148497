//! Many readers of one session at once.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use seslog::store::Cancel;
use seslog::store::query::{Observation, QueryFault, QueryOptions};

use crate::common::sessions::rows_by;
use crate::stage::{Call, Stage, enough, id, in_both, io_error, never, stored};

const READERS: usize = 32;

/// Starts so many readers at once. None comes back before the others have looked at the log, if the session is read once.
fn read_at_once(stage: &Stage, options: QueryOptions) -> Vec<Result<Arc<Observation>, QueryFault>> {
    let query = stage.query_with(options);
    let (barrier, outcomes) = (Barrier::new(READERS), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                barrier.wait();
                let outcome = query.read(&id("s"), &never());
                outcomes.lock().unwrap().push(outcome);
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// Keeps the first read from ending before all readers have looked at the log.
fn wait_for_all(stage: &Stage, outcome: fn() -> seslog::Result<()>) {
    let calls = Arc::clone(&stage.calls);
    stage.calls.on(Call::Read, move || {
        while calls.of(Call::Stat) < READERS as u64 {
            thread::yield_now();
        }
        outcome()
    });
}

#[test]
fn thirty_two_readers_of_one_session_read_it_once() {
    for options in [QueryOptions::default(), {
        let mut options = QueryOptions::default();
        options.kept_max = 0;
        options
    }] {
        in_both(|stage| {
            stage.store_quiet("s", &rows_by("s", 0..50));
            wait_for_all(stage, || Ok(()));
            let outcomes = read_at_once(stage, options);
            assert_eq!((outcomes.len(), stage.calls.of(Call::Read)), (READERS, 1), "{}", stage.name);
            let first = outcomes[0].as_ref().unwrap();
            for outcome in &outcomes {
                assert!(Arc::ptr_eq(outcome.as_ref().unwrap(), first));
            }
            assert_eq!(stored(first), rows_by("s", 0..50));
        });
    }
}

#[test]
fn a_failing_leader_fails_alone() {
    in_both(|stage| {
        stage.store_quiet("s", &rows_by("s", 0..50));
        wait_for_all(stage, || Err(io_error()));
        let outcomes = read_at_once(stage, QueryOptions::default());
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1);
        assert_eq!(stage.calls.of(Call::Read), 2, "one of the others has read it for all");
    });
}

#[test]
fn a_panicking_leader_leaves_the_others_alone() {
    in_both(|stage| {
        stage.store_quiet("s", &rows_by("s", 0..50));
        let query = stage.query();
        stage.calls.on(Call::Read, || panic!("a test made it"));
        let leader = query.clone();
        thread::spawn(move || leader.read(&id("s"), &never()).map(drop)).join().unwrap_err();
        assert_eq!(stored(&query.read(&id("s"), &never()).unwrap()), rows_by("s", 0..50));
    });
}

#[test]
fn a_cancelled_leader_hands_over_and_a_cancelled_follower_does_not_wait() {
    in_both(|stage| {
        stage.store_quiet("s", &rows_by("s", 0..50));
        let query = stage.query();
        let (leading, is_leading) = channel();
        let (free, freed) = channel::<()>();
        stage.calls.on(Call::Read, move || {
            leading.send(()).unwrap();
            freed.recv().unwrap();
            Ok(())
        });
        let (of_leader, of_follower) = (Cancel::new(), Cancel::new());
        thread::scope(|scope| {
            let read = |cancel: Cancel| {
                let query = query.clone();
                scope.spawn(move || query.read(&id("s"), &cancel))
            };
            let leader = read(of_leader.clone());
            is_leading.recv().unwrap();
            let (patient, impatient) = (read(never()), read(of_follower.clone()));
            thread::sleep(Duration::from_millis(30));
            of_follower.cancel(enough());
            // It comes back although the leader still reads.
            assert!(matches!(impatient.join().unwrap(), Err(QueryFault::Aborted { .. })));
            of_leader.cancel(enough());
            free.send(()).unwrap();
            assert!(matches!(leader.join().unwrap(), Err(QueryFault::Aborted { .. })));
            assert_eq!(stored(&patient.join().unwrap().unwrap()), rows_by("s", 0..50));
        });
        assert_eq!(stage.calls.of(Call::Read), 2);
    });
}

#[test]
fn who_comes_after_an_append_does_not_get_what_was_read_before_it() {
    in_both(|stage| {
        stage.store_quiet("s", &rows_by("s", 0..3));
        let query = stage.query();
        let (leading, is_leading) = channel();
        let (free, freed) = channel::<()>();
        // The leader has read three events, and has not come to the end.
        stage.calls.on(Call::Close, move || {
            leading.send(()).unwrap();
            freed.recv().unwrap();
            Ok(())
        });
        thread::scope(|scope| {
            let leader = scope.spawn(|| query.read(&id("s"), &never()).unwrap());
            is_leading.recv().unwrap();
            stage.append("s", &rows_by("s", 3..4)[0]);
            assert_eq!(stored(&query.read(&id("s"), &never()).unwrap()), rows_by("s", 0..4));
            free.send(()).unwrap();
            assert_eq!(stored(&leader.join().unwrap()), rows_by("s", 0..3));
        });
        assert_eq!(stored(&query.read(&id("s"), &never()).unwrap()), rows_by("s", 0..4));
    });
}
