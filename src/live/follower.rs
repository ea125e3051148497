//! A follower of a session in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::baseline::Baseline;
use super::frame::Frame;
use super::hub::{Hub, HubState, Published};

/// An event that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEvent {
    /// Its seq.
    pub seq: u64,
    /// Its row, without newline.
    pub row: Arc<[u8]>,
}

/// What a follower gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// An event was stored.
    Event(LiveEvent),
    /// Something happened to an attempt.
    Frame(Arc<Frame>),
    /// The follower was too slow, and what it missed is gone: call [`LiveFollower::rebaseline`], and read the events that are
    /// missing from the log. Comes until that is done.
    Gap,
    /// The handle was closed. Nothing comes any more.
    Closed,
}

/// Gets the events and, if it asks for them, the frames of one [`LiveHandle`](super::LiveHandle), in the order in which they came about.
///
/// It may live in any thread, and may be as slow as it likes.
#[derive(Debug)]
pub struct LiveFollower {
    hub: Arc<Hub>,
    /// Number of the next item of the ring.
    at: u64,
    with_frames: bool,
}

impl LiveFollower {
    pub(super) fn new(hub: Arc<Hub>, with_frames: bool) -> (Self, Baseline) {
        let mut state = hub.lock();
        if with_frames {
            state.watchers = state.watchers.saturating_add(1);
        }
        let (at, baseline) = (state.ring.end(), state.baseline(with_frames));
        drop(state);
        (Self { hub, at, with_frames }, baseline)
    }

    /// Begins again here and now, and tells with what. What was not yet taken is dropped: it is part of the baseline.
    pub fn rebaseline(&mut self) -> Baseline {
        let state = self.hub.lock();
        self.at = state.ring.end();
        state.baseline(self.with_frames)
    }

    /// What is there already.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        let hub = Arc::clone(&self.hub);
        let state = hub.lock();
        self.take(&state)
    }

    /// Waits for the next delivery, at most for `most`.
    pub fn recv(&mut self, most: Duration) -> Option<Delivery> {
        let hub = Arc::clone(&self.hub);
        let until = Instant::now().checked_add(most);
        let changed = hub.changed(self.with_frames);
        let mut state = hub.lock();
        let mut has_waited = false;
        let delivery = loop {
            if let Some(delivery) = self.take(&state) {
                break Some(delivery);
            }
            let is_late = match until {
                Some(until) => changed.wait_until(&mut state, until).timed_out(),
                None => {
                    changed.wait(&mut state);
                    false
                }
            };
            has_waited = true;
            if is_late {
                break self.take(&state);
            }
        };
        drop(state);
        if has_waited && delivery.is_some() {
            // See `Hub::any`: the next one in line.
            changed.notify_one();
        }
        delivery
    }

    fn take(&mut self, state: &HubState) -> Option<Delivery> {
        loop {
            if self.at >= state.ring.end() {
                return state.is_closed.then_some(Delivery::Closed);
            }
            let Some(published) = state.ring.get(self.at) else { return Some(Delivery::Gap) };
            self.at = self.at.saturating_add(1);
            match published {
                Published::Event(event) => return Some(Delivery::Event(event.clone())),
                Published::Frame(frame) if self.with_frames => {
                    return Some(Delivery::Frame(Arc::clone(frame)));
                }
                Published::Frame(_) => {}
            }
        }
    }
}

impl Drop for LiveFollower {
    fn drop(&mut self) {
        if self.with_frames {
            let mut state = self.hub.lock();
            state.watchers = state.watchers.saturating_sub(1);
        }
    }
}
