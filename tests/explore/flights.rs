//! Readers that want the same at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shuttle::sync::Mutex;
use shuttle::thread;

use super::flight::{Boarding, Flights};
use crate::explore;

/// What a query does with flights, without a query: a place for what was fetched, and a count of the fetches.
#[derive(Default)]
struct Shared {
    flights: Flights<u64, u64>,
    kept: Mutex<Option<u64>>,
    /// Fetches so far, of those that ended well.
    fetched: AtomicU64,
    fetching: AtomicBool,
}

/// How a fetch ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    Fails,
}

impl Shared {
    /// Whether it got something.
    fn get(&self, end: End) -> Option<u64> {
        if let Some(kept) = *self.kept.lock().unwrap() {
            return Some(kept);
        }
        match self.flights.board(&7, None) {
            Boarding::GaveUp => unreachable!("nobody may"),
            Boarding::Landed(value) => Some(value),
            Boarding::Lead(lead) => {
                let kept = *self.kept.lock().unwrap();
                if let Some(kept) = kept {
                    lead.land(kept);
                    return Some(kept);
                }
                assert!(!self.fetching.swap(true, Ordering::SeqCst), "two fetch at once");
                thread::yield_now();
                self.fetching.store(false, Ordering::SeqCst);
                if end != End::Well {
                    return None;
                }
                let value = self.fetched.fetch_add(1, Ordering::SeqCst) + 100;
                *self.kept.lock().unwrap() = Some(value);
                lead.land(value);
                Some(value)
            }
        }
    }
}

/// All get what one of them fetched, whoever comes when.
#[test]
fn what_many_want_is_fetched_once() {
    explore(400, || {
        let shared = Arc::new(Shared::default());
        let threads = (0..4).map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.get(End::Well))
        });
        let got: Vec<_> =
            threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(got, [Some(100); 4]);
        assert_eq!(shared.fetched.load(Ordering::SeqCst), 1);
        assert!(shared.flights.is_empty(), "nothing is left of them");
    });
}

/// A leader that fails gets nothing, and nobody waits for ever or gets nothing because of it.
#[test]
fn a_leader_that_fails_hands_over() {
    explore(500, || {
        let shared = Arc::new(Shared::default());
        let ends = [End::Fails, End::Well, End::Fails, End::Well];
        let threads = ends.map(|end| {
            let shared = Arc::clone(&shared);
            (end, thread::spawn(move || shared.get(end)))
        });
        for (end, thread) in threads {
            let got = thread.join().unwrap();
            assert!(got == Some(100) || (end == End::Fails && got.is_none()), "{got:?}");
        }
        assert!(shared.flights.is_empty());
    });
}

/// Those who give up go, and leave the lead to those who stay.
#[test]
fn who_gives_up_keeps_nobody_from_going_on() {
    explore(500, || {
        let flights = Arc::new(Flights::<u64, u64>::default());
        let gone = Arc::new(AtomicBool::new(false));
        let leader = {
            let flights = Arc::clone(&flights);
            thread::spawn(move || match flights.board(&7, None) {
                Boarding::Lead(lead) => drop(lead),
                Boarding::Landed(value) => assert_eq!(value, 5),
                Boarding::GaveUp => unreachable!("it may not"),
            })
        };
        let impatient = {
            let (flights, gone) = (Arc::clone(&flights), Arc::clone(&gone));
            thread::spawn(move || match flights.board(&7, Some(&|| true)) {
                // Dropped at once, as by a call that sees its cancellation.
                Boarding::Lead(_) | Boarding::GaveUp => gone.store(true, Ordering::SeqCst),
                Boarding::Landed(value) => assert_eq!(value, 5),
            })
        };
        let patient = {
            let flights = Arc::clone(&flights);
            thread::spawn(move || match flights.board(&7, None) {
                Boarding::Lead(lead) => lead.land(5),
                Boarding::Landed(_) => unreachable!("only this one lands anything"),
                Boarding::GaveUp => unreachable!("it may not"),
            })
        };
        [leader, impatient, patient].into_iter().for_each(|thread| thread.join().unwrap());
        assert!(flights.is_empty());
    });
}
