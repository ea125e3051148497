//! What a follower that begins has to know.

use std::sync::Arc;

use crate::stream::{StreamFault, expand};

/// The state of a log between two deliveries: what a follower begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Baseline {
    /// Events that were delivered to followers before: those from here on will come.
    pub next_seq: u64,
    /// Revision of the last frame; 0 if there was none.
    pub revision: u64,
    /// The attempt that is under way, for followers that ask for frames.
    pub active: Option<ActiveAttempt>,
}

/// An attempt that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveAttempt {
    /// As [`Frame::attempt_id`](super::Frame::attempt_id).
    pub attempt_id: Arc<str>,
    /// Events of the log when it started.
    pub started_at: u64,
    /// The turn, from 1.
    pub turn: u64,
    /// The step of the turn, from 1.
    pub step: u64,
    /// How many chunks came: the next one has this number.
    pub next_index: u64,
    /// The records of what came, a JSON array.
    pub stream: String,
}

impl Baseline {
    /// The state of a log of `next_seq` events, from elsewhere.
    #[must_use]
    pub const fn new(next_seq: u64, revision: u64, active: Option<ActiveAttempt>) -> Self {
        Self { next_seq, revision, active }
    }
}

impl ActiveAttempt {
    /// An attempt from elsewhere: `stream` is all that came of it. Time O(bytes).
    ///
    /// # Errors
    /// The stream is none.
    pub fn new(
        attempt_id: &str,
        started_at: u64,
        turn: u64,
        step: u64,
        stream: &str,
    ) -> Result<Self, StreamFault> {
        let next_index = expand(stream.as_bytes())?.len() as u64;
        Ok(Self {
            attempt_id: Arc::from(attempt_id),
            started_at,
            turn,
            step,
            next_index,
            stream: stream.to_owned(),
        })
    }
}
