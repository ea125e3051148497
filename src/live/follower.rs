//! A follower of a session in this process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::baseline::Baseline;
use super::frame::Frame;
use super::hub::{Hub, HubState, Published};
use super::sync::rest;

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
/// It may live in any thread, and may be as slow as it likes. Its waits end at the [pace of a screen](Self::with_pace).
#[derive(Debug)]
pub struct LiveFollower {
    hub: Arc<Hub>,
    /// Number of the next item of the ring.
    at: u64,
    /// What was taken from the ring and not asked for yet.
    taken: VecDeque<Delivery>,
    with_frames: bool,
    /// Among all followers that ever were.
    number: u32,
    pace: Duration,
    /// When it looks again, having taken all that was there.
    next_look: Option<Instant>,
}

/// Followers take so many items at once, so that they seldom stand before the lock that the writer needs.
const TAKEN_MAX: usize = 64;

/// And so many bytes, unless it is one item.
const TAKEN_BYTES_MAX: usize = 256 << 10;

impl LiveFollower {
    /// A picture of a screen: how often the waits of a follower end that does not say otherwise.
    pub const PICTURE: Duration = Duration::from_millis(16);

    pub(super) fn new(hub: Arc<Hub>, with_frames: bool) -> (Self, Baseline) {
        let mut state = hub.lock();
        let number = state.join(with_frames);
        let (at, baseline) = (state.ring.end(), state.baseline(with_frames));
        drop(state);
        let taken = VecDeque::new();
        (Self { hub, at, taken, with_frames, number, pace: Self::PICTURE, next_look: None }, baseline)
    }

    /// The same follower, whose waits end at most every `pace`: the first delivery after a pause comes at once, and then all that came
    /// meanwhile. With zero it wakes for each token; a hundred threads that do so take a core, and whoever appends feels it.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Begins again here and now, and tells with what. What was not yet taken is dropped: it is part of the baseline.
    pub fn rebaseline(&mut self) -> Baseline {
        let state = self.hub.lock();
        self.at = state.ring.end();
        self.taken.clear();
        state.baseline(self.with_frames)
    }

    /// What is there already.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.taken.pop_front() {
            return Some(delivery);
        }
        let hub = Arc::clone(&self.hub);
        let state = hub.lock();
        self.take(&state)
    }

    /// Waits for the next delivery, at most for `most`.
    pub fn recv(&mut self, most: Duration) -> Option<Delivery> {
        if let Some(delivery) = self.taken.pop_front() {
            return Some(delivery);
        }
        let hub = Arc::clone(&self.hub);
        let until = Instant::now().checked_add(most);
        let changed = hub.changed(self.with_frames);
        let mut state = hub.lock();
        let mut has_waited = false;
        let delivery = loop {
            if let Some(delivery) = self.take(&state) {
                break Some(delivery);
            }
            let now = Instant::now();
            if let Some(next) = self.next_look.take().filter(|&next| next > now) {
                let next = until.map_or(next, |until| until.min(next));
                rest(&mut state, next.saturating_duration_since(now));
                if until.is_some_and(|until| until <= next) {
                    break self.take(&state);
                }
                if let Some(delivery) = self.take(&state) {
                    self.next_look = self.look_after(Instant::now());
                    break Some(delivery);
                }
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
            self.next_look = self.look_after(Instant::now());
        }
        delivery
    }

    /// When to look again: within `pace`, each follower at moments of its own. The first chunk wakes all of them, and a hundred that
    /// looked again after the same time would stand before the lock and on the cores together for ever after.
    fn look_after(&self, now: Instant) -> Option<Instant> {
        let pace = self.pace.as_nanos();
        // Multiples of the golden ratio fall between each other, however many there are.
        let share = u128::from(self.number.wrapping_mul(0x9e37_79b9));
        let phase = pace.checked_mul(share)? >> u32::BITS;
        let since = now.saturating_duration_since(self.hub.epoch).as_nanos();
        let into = since.checked_add(pace)?.checked_sub(phase)?.checked_rem(pace)?;
        let wait = u64::try_from(pace.saturating_sub(into)).ok()?;
        now.checked_add(Duration::from_nanos(wait))
    }

    /// The next delivery, now that none is left of those taken before.
    fn take(&mut self, state: &HubState) -> Option<Delivery> {
        let end = state.ring.end();
        if self.at >= end {
            return state.is_closed.then_some(Delivery::Closed);
        }
        let mut bytes = 0_usize;
        while let Some((size, published)) = state.ring.get(self.at) {
            bytes = bytes.saturating_add(size);
            let is_enough = self.taken.len() == TAKEN_MAX || bytes > TAKEN_BYTES_MAX;
            if is_enough && !self.taken.is_empty() {
                break;
            }
            self.at = self.at.saturating_add(1);
            match published {
                Published::Event(event) => self.taken.push_back(Delivery::Event(event.clone())),
                Published::Frame(frame) if self.with_frames => {
                    self.taken.push_back(Delivery::Frame(Arc::clone(frame)));
                }
                Published::Frame(_) => {}
            }
        }
        if self.taken.is_empty() && self.at < end {
            return Some(Delivery::Gap);
        }
        self.taken.pop_front().or_else(|| state.is_closed.then_some(Delivery::Closed))
    }
}

impl Drop for LiveFollower {
    fn drop(&mut self) {
        self.hub.lock().leave(self.with_frames);
    }
}
