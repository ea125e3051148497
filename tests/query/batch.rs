//! Several sessions at once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Barrier};

use seslog::store::Cancel;
use seslog::store::query::BATCH_READS;

use crate::common::sessions::{header, rows_by};
use crate::stage::{Call, come_alive, enough, id, in_both, never, stored};

#[test]
fn each_id_is_answered_once_in_the_order_of_its_first_appearance_with_its_own_outcome() {
    in_both(|stage| {
        for name in ["a", "b", "c"] {
            stage.store(header(name), &rows_by(name, 0..3));
        }
        come_alive(&stage.sessions, header("live"));
        let ids = ["c", "nobody", "a", "c", "live", "b", "a"].map(id);
        for concurrency in [1, 2, 4, 100] {
            let outcomes = stage.query().read_many(&ids, NonZeroUsize::new(concurrency).unwrap(), &never());
            let shown: Vec<_> = outcomes
                .iter()
                .map(|(id, outcome)| {
                    let of = outcome.as_ref().map(|one| (one.id().clone(), one.log().len()));
                    (id.clone(), of.map_err(|fault| fault.code()))
                })
                .collect();
            let read = |name: &str, events| (id(name), Ok((id(name), events)));
            let missing = (id("nobody"), Err("SESSION_QUERY_SESSION_NOT_FOUND"));
            assert_eq!(shown, [read("c", 3), missing, read("a", 3), read("live", 1), read("b", 3)]);
        }
        assert!(stage.query().read_many(&[], BATCH_READS, &never()).is_empty());
    });
}

#[test]
fn no_more_are_read_at_a_time_than_was_asked_for_and_so_many_are() {
    in_both(|stage| {
        let ids: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
        for name in &ids {
            stage.store(header(name), &rows_by(name, 0..3));
        }
        let ids: Vec<_> = ids.iter().map(|name| id(name)).collect();
        // All but as many as there are threads would wait here for ever.
        let barrier = Arc::new(Barrier::new(BATCH_READS.get()));
        for _ in &ids {
            let barrier = Arc::clone(&barrier);
            stage.calls.on(Call::Read, move || {
                barrier.wait();
                Ok(())
            });
        }
        let outcomes = stage.query().read_many(&ids, BATCH_READS, &never());
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
        assert_eq!(stage.calls.most(), BATCH_READS.get() as u64);
    });
}

#[test]
fn those_that_were_not_read_before_the_cancellation_are_aborted() {
    in_both(|stage| {
        for name in ["a", "b", "c"] {
            stage.store(header(name), &rows_by(name, 0..3));
        }
        let cancel = Cancel::new();
        let inner = cancel.clone();
        stage.calls.on(Call::Stat, || Ok(()));
        let calls = Arc::clone(&stage.calls);
        stage.calls.on(Call::Close, move || {
            // The second read is the one that is cancelled.
            calls.on(Call::Close, move || {
                inner.cancel(enough());
                Ok(())
            });
            Ok(())
        });
        let ids = ["a", "b", "c"].map(id);
        let outcomes = stage.query().read_many(&ids, NonZeroUsize::MIN, &cancel);
        let codes: Vec<_> =
            outcomes.iter().map(|(_, outcome)| outcome.as_ref().err().map(|fault| fault.code())).collect();
        assert_eq!(codes, [None, Some("SESSION_QUERY_ABORTED"), Some("SESSION_QUERY_ABORTED")]);
        assert_eq!(stored(outcomes[0].1.as_ref().unwrap()), rows_by("a", 0..3));
    });
}
