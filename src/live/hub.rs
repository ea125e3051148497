//! Where a session's writer and its followers meet.

use std::sync::Arc;
use std::time::Instant;

use super::baseline::{ActiveAttempt, Baseline};
use super::follower::LiveEvent;
use super::frame::{Frame, Outcome, Step};
use super::ring::Ring;
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::stream::Accumulator;

/// What followers share with the writer. Nothing waits for a follower here.
#[derive(Debug)]
pub(super) struct Hub {
    log_id: String,
    /// What the looks of paced followers are counted from.
    pub(super) epoch: Instant,
    state: Mutex<HubState>,
    /// An event was published, or the end came: for followers that ask for nothing else.
    event: Condvar,
    /// Anything was published: for the others.
    ///
    /// The writer wakes one follower, whoever has waited longest, and each one that then finds something wakes the next: a hundred
    /// followers at once would stand between the writer and the lock, and on its core. Who waits has seen everything that was
    /// there when it began to; so once a woken one finds nothing new, neither would those behind it, and the line ends.
    any: Condvar,
}

/// An item of the ring.
#[derive(Clone, Debug)]
pub(super) enum Published {
    Event(LiveEvent),
    Frame(Arc<Frame>),
}

#[derive(Debug)]
pub(super) struct HubState {
    pub(super) ring: Ring<Published>,
    /// Events that were published, or that were there before.
    pub(super) next_seq: u64,
    revision: u64,
    attempts: u64,
    pub(super) active: Option<Active>,
    /// All followers: without any, nothing is kept.
    pub(super) followers: usize,
    /// Followers that ever were.
    joined: u32,
    /// Followers that ask for frames.
    pub(super) watchers: usize,
    pub(super) is_closed: bool,
}

/// The attempt that is under way.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) attempt_id: Arc<str>,
    started_at: u64,
    turn: u64,
    step: u64,
    pub(super) stream: Accumulator,
}

/// Bytes that an item takes besides its text.
const ITEM_BYTES: usize = 100;

impl Hub {
    pub(super) fn new(log_id: String, next_seq: u64, items_max: usize, bytes_max: usize) -> Self {
        let ring = Ring::new(items_max, bytes_max);
        let state = HubState {
            ring,
            next_seq,
            revision: 0,
            attempts: 0,
            active: None,
            followers: 0,
            joined: 0,
            watchers: 0,
            is_closed: false,
        };
        let epoch = Instant::now();
        Self { log_id, epoch, state: Mutex::new(state), event: Condvar::new(), any: Condvar::new() }
    }

    /// What a follower waits for.
    pub(super) fn changed(&self, with_frames: bool) -> &Condvar {
        if with_frames { &self.any } else { &self.event }
    }

    /// Tells followers that a frame was published.
    pub(super) fn wake(&self) {
        self.any.notify_one();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock()
    }

    /// Publishes rows that continue the log, and with them an end.
    pub(super) fn events<'r>(&self, rows: impl IntoIterator<Item = &'r [u8]>, end: Option<(&str, Outcome)>) {
        let mut state = self.state.lock();
        for row in rows {
            let seq = state.next_seq;
            state.next_seq = seq.saturating_add(1);
            if state.followers > 0 {
                let event = LiveEvent { seq, row: Arc::from(row) };
                state.ring.push(row.len().saturating_add(ITEM_BYTES), Published::Event(event));
            }
        }
        if let Some((attempt_id, outcome)) = end {
            state.end(attempt_id, outcome);
        }
        drop(state);
        self.event.notify_one();
        self.any.notify_one();
    }

    /// Followers have missed events: the log goes on at `next_seq`.
    pub(super) fn missed(&self, next_seq: u64) {
        let mut state = self.state.lock();
        state.next_seq = next_seq;
        state.ring.break_off();
        drop(state);
        self.event.notify_one();
        self.any.notify_one();
    }

    /// Starts an attempt; `None` while there is one, or behind the end.
    pub(super) fn start(&self, turn: u64, step: u64) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        if state.active.is_some() || state.is_closed {
            return None;
        }
        state.attempts = state.attempts.saturating_add(1);
        let attempt_id: Arc<str> = Arc::from(format!("{}:{}", self.log_id, state.attempts));
        let started_at = state.next_seq;
        let stream = Accumulator::new();
        state.active = Some(Active { attempt_id: Arc::clone(&attempt_id), started_at, turn, step, stream });
        state.frame(&attempt_id, 0, || Step::Start { turn, step, next_seq: started_at });
        drop(state);
        self.any.notify_one();
        Some(attempt_id)
    }

    /// Ends the attempt without an event. Does nothing if it is over.
    pub(super) fn abandon(&self, attempt_id: &str) {
        self.state.lock().end(attempt_id, Outcome::Abandoned);
        self.any.notify_one();
    }

    /// Nothing comes any more; an attempt that is under way is abandoned.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if let Some(active) = &state.active {
            let attempt_id = Arc::clone(&active.attempt_id);
            state.end(&attempt_id, Outcome::Abandoned);
        }
        state.is_closed = true;
        drop(state);
        self.event.notify_one();
        self.any.notify_one();
    }
}

impl HubState {
    /// A follower comes, and gets its number.
    pub(super) fn join(&mut self, with_frames: bool) -> u32 {
        self.followers = self.followers.saturating_add(1);
        self.watchers = self.watchers.saturating_add(usize::from(with_frames));
        self.joined = self.joined.wrapping_add(1);
        self.joined
    }

    pub(super) fn leave(&mut self, with_frames: bool) {
        self.followers = self.followers.saturating_sub(1);
        self.watchers = self.watchers.saturating_sub(usize::from(with_frames));
        if self.followers == 0 {
            self.ring.clear();
        }
    }

    /// Publishes a frame if somebody asks for frames, and counts it in any case.
    pub(super) fn frame(&mut self, attempt_id: &Arc<str>, bytes: usize, step: impl FnOnce() -> Step) {
        self.revision = self.revision.saturating_add(1);
        if self.watchers > 0 {
            let frame = Frame { attempt_id: Arc::clone(attempt_id), revision: self.revision, step: step() };
            self.ring.push(bytes.saturating_add(ITEM_BYTES), Published::Frame(Arc::new(frame)));
        }
    }

    fn end(&mut self, attempt_id: &str, outcome: Outcome) {
        if let Some(active) = self.active.take_if(|active| *active.attempt_id == *attempt_id) {
            let index = active.stream.len() as u64;
            self.frame(&active.attempt_id, 0, || Step::End { index, outcome });
        }
    }

    pub(super) fn baseline(&self, with_frames: bool) -> Baseline {
        let active = self.active.as_ref().filter(|_| with_frames).map(|active| ActiveAttempt {
            attempt_id: Arc::clone(&active.attempt_id),
            started_at: active.started_at,
            turn: active.turn,
            step: active.step,
            next_index: active.stream.len() as u64,
            stream: active.stream.snapshot(),
        });
        Baseline { next_seq: self.next_seq, revision: self.revision, active }
    }
}
