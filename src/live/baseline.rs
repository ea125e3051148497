//! What a follower that begins has to know.

use std::sync::Arc;

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
