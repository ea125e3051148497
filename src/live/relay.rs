//! A host's own account of a session whose attempts run elsewhere.

use std::sync::Arc;

use super::baseline::{ActiveAttempt, Baseline};
use super::frame::{Frame, Step};
use crate::stream::Accumulator;

/// Folds the frames of a session that another process runs into the baseline for those who follow it here.
///
/// A [`LiveHandle`](super::LiveHandle) does without: its frames come from itself. Frames that do not continue what came cost the
/// attempt under way, until the next one starts; no follower ever gets half of one. Memory: the records of one attempt.
#[derive(Debug, Default)]
pub struct Relay {
    revision: u64,
    active: Option<RelayedAttempt>,
}

#[derive(Debug)]
struct RelayedAttempt {
    attempt_id: Arc<str>,
    started_at: u64,
    turn: u64,
    step: u64,
    next_index: u64,
    stream: Accumulator,
}

impl Relay {
    /// Before the first frame.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a frame that is seen when the log has `next_seq` events, whatever a start says of that itself.
    pub fn frame(&mut self, frame: &Frame, next_seq: u64) {
        let is_start = matches!(frame.step, Step::Start { .. });
        if is_start && frame.revision == 1 && self.revision != 0 {
            // The agent began anew, and counts anew.
            *self = Self::new();
        }
        let is_next = self.revision.checked_add(1) == Some(frame.revision);
        self.revision = frame.revision;
        let before = self.active.take();
        if !is_next {
            return;
        }
        self.active = match &frame.step {
            &Step::Start { turn, step, .. } => Some(RelayedAttempt {
                attempt_id: Arc::clone(&frame.attempt_id),
                started_at: next_seq,
                turn,
                step,
                next_index: 0,
                stream: Accumulator::new(),
            }),
            Step::Chunk { index, time, json } => before
                .filter(|active| active.attempt_id == frame.attempt_id && active.next_index == *index)
                .and_then(|mut active| {
                    active.stream.push_json(*time, json.as_bytes()).ok()?;
                    active.next_index = index.checked_add(1)?;
                    Some(active)
                }),
            Step::End { .. } => None,
        };
    }

    /// What a follower begins with that comes when the log has `next_seq` events.
    #[must_use]
    pub fn baseline(&self, next_seq: u64) -> Baseline {
        let active = self.active.as_ref().map(|active| ActiveAttempt {
            attempt_id: Arc::clone(&active.attempt_id),
            started_at: active.started_at,
            turn: active.turn,
            step: active.step,
            next_index: active.next_index,
            stream: active.stream.snapshot(),
        });
        Baseline { next_seq, revision: self.revision, active }
    }
}
