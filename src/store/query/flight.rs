//! Many callers that want the same thing at once, and one of them that fetches it.
//!
//! `tests/explore.rs` compiles this file over locks of which a scheduler decides every step.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::super::sync::{Condvar, Mutex};

/// What is being fetched now, by key. At most one caller fetches a key at any time; the others wait for what it lands.
///
/// A leader that ends without landing anything, because it failed, was cancelled, or panicked, leaves the lead to one of those
/// who wait, and tells them nothing: its failure is its own.
#[derive(Debug)]
pub(super) struct Flights<K, V> {
    flights: Mutex<HashMap<K, Flight<V>>>,
    /// Some flight landed, or lost its leader.
    changed: Condvar,
}

#[derive(Debug)]
struct Flight<V> {
    /// Callers that wait for it.
    waiting: usize,
    state: State<V>,
}

#[derive(Debug)]
enum State<V> {
    Led,
    /// It has no leader any more. Somebody waits for it, or it would be gone.
    Left,
    /// Kept until all who waited have taken it.
    Landed(V),
}

/// How a caller got on board.
#[derive(Debug)]
pub(super) enum Boarding<'f, K: Eq + Hash, V> {
    /// It fetches, and lands what it got.
    Lead(Lead<'f, K, V>),
    /// Another caller did.
    Landed(V),
    /// It did not want to wait any longer.
    GaveUp,
}

/// The duty to fetch. Dropped without [`Lead::land`], it goes to the next who waits.
#[derive(Debug)]
pub(super) struct Lead<'f, K: Eq + Hash, V> {
    flights: &'f Flights<K, V>,
    key: Option<K>,
}

/// How often a caller that may give up looks whether it has.
const LOOK: Duration = Duration::from_millis(20);

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { flights: Mutex::new(HashMap::new()), changed: Condvar::default() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Flights<K, V> {
    /// Takes the lead on `key`, or waits for whoever has it. `gives_up` is asked now and then by a caller that may.
    ///
    /// What is landed may have been fetched, in part or whole, before this call: the key has to say that this does not matter.
    pub(super) fn board(&self, key: &K, gives_up: Option<&dyn Fn() -> bool>) -> Boarding<'_, K, V> {
        let lead = || Boarding::Lead(Lead { flights: self, key: Some(key.clone()) });
        let mut flights = self.flights.lock();
        match flights.get_mut(key) {
            Some(flight) => flight.waiting = flight.waiting.saturating_add(1),
            None => {
                flights.insert(key.clone(), Flight { waiting: 0, state: State::Led });
                return lead();
            }
        }
        loop {
            let flight = flights.get_mut(key).expect("a flight stays as long as anybody waits for it");
            let boarding = match &flight.state {
                State::Landed(value) => Some(Boarding::Landed(value.clone())),
                State::Left => Some(lead()),
                State::Led => None,
            };
            let boarding = boarding.or_else(|| gives_up?().then_some(Boarding::GaveUp));
            if let Some(boarding) = boarding {
                flight.waiting = flight.waiting.saturating_sub(1);
                if matches!(boarding, Boarding::Lead(_)) {
                    flight.state = State::Led;
                } else if flight.waiting == 0 && !matches!(flight.state, State::Led) {
                    flights.remove(key);
                }
                return boarding;
            }
            flights = match gives_up {
                Some(_) => self.changed.wait_for(flights, LOOK),
                None => self.changed.wait(flights),
            };
        }
    }
}

impl<K: Eq + Hash, V> Flights<K, V> {
    /// Whether nobody fetches or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.flights.lock().is_empty()
    }

    /// Ends the lead on `key`: with a value for those who wait, or for one of them to take over.
    fn end(&self, key: &K, state: State<V>) {
        let mut flights = self.flights.lock();
        match flights.get_mut(key) {
            Some(flight) if flight.waiting > 0 => flight.state = state,
            _ => {
                flights.remove(key);
            }
        }
        drop(flights);
        self.changed.notify_all();
    }
}

impl<K: Eq + Hash, V> Lead<'_, K, V> {
    /// Gives what was fetched to all who wait for it.
    pub(super) fn land(mut self, value: V) {
        if let Some(key) = self.key.take() {
            self.flights.end(&key, State::Landed(value));
        }
    }
}

impl<K: Eq + Hash, V> Drop for Lead<'_, K, V> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.flights.end(&key, State::Left);
        }
    }
}
