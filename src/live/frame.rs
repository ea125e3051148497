//! What followers see of an attempt.

use std::sync::Arc;

use super::wire::write_cursor;
use crate::json::{write_i64, write_string, write_u64};
use crate::stream::SettlementKind;
use crate::units::UnixMs;

/// One notification about an attempt. Never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the attempt: the session's id and the attempt's number in the life of the handle, from 1.
    pub attempt_id: Arc<str>,
    /// Counts the frames of a handle from 1, those included that nobody asked for: a jump means that one was missed.
    pub revision: u64,
    /// What happened.
    pub step: Step,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It began.
    Start {
        /// The turn, from 1.
        turn: u64,
        /// The step of the turn, from 1.
        step: u64,
        /// Events of the log at that moment: its settlement has this seq or a higher one.
        next_seq: u64,
    },
    /// A chunk came.
    Chunk {
        /// Its number in the attempt, from 0.
        index: u64,
        /// When it came.
        time: UnixMs,
        /// The chunk as JSON.
        json: Arc<str>,
    },
    /// It ended.
    End {
        /// How many chunks it had.
        index: u64,
        /// How.
        outcome: Outcome,
    },
}

/// How an attempt ended. Whether the model did well is not said here, but in its finish chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// With an event, which is durable.
    Committed {
        /// Its type.
        kind: SettlementKind,
        /// Its seq.
        seq: u64,
    },
    /// Without: no event of it exists.
    Abandoned,
}

impl Frame {
    /// Appends the frame as the JSON object that clients of DSH read: `startedAfterSeq` is -1 in an empty log.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let kind: &[u8] = match self.step {
            Step::Start { .. } => b"start",
            Step::Chunk { .. } => b"chunk",
            Step::End { .. } => b"end",
        };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind);
        out.extend_from_slice(b"\",\"attemptId\":");
        write_string(out, &self.attempt_id);
        out.extend_from_slice(b",\"revision\":");
        write_u64(out, self.revision);
        match &self.step {
            Step::Start { turn, step, next_seq } => {
                out.extend_from_slice(b",\"turn\":");
                write_u64(out, *turn);
                out.extend_from_slice(b",\"step\":");
                write_u64(out, *step);
                out.extend_from_slice(b",\"startedAfterSeq\":");
                write_cursor(out, *next_seq);
            }
            Step::Chunk { index, time, json } => {
                out.extend_from_slice(b",\"index\":");
                write_u64(out, *index);
                out.extend_from_slice(b",\"time\":");
                write_i64(out, time.get());
                out.extend_from_slice(b",\"chunk\":");
                out.extend_from_slice(json.as_bytes());
            }
            Step::End { index, outcome } => {
                out.extend_from_slice(b",\"index\":");
                write_u64(out, *index);
                out.extend_from_slice(b",\"outcome\":");
                match outcome {
                    Outcome::Abandoned => out.extend_from_slice(b"{\"kind\":\"abandoned\"}"),
                    Outcome::Committed { kind, seq } => {
                        out.extend_from_slice(b"{\"kind\":\"committed\",\"eventType\":\"");
                        out.extend_from_slice(kind.event_type().as_bytes());
                        out.extend_from_slice(b"\",\"seq\":");
                        write_u64(out, *seq);
                        out.push(b'}');
                    }
                }
            }
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_written_as_clients_read_them() {
        let json = |revision, step| {
            let mut out = Vec::new();
            Frame { attempt_id: Arc::from("s\"1:2"), revision, step }.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            json(7, Step::Start { turn: 3, step: 1, next_seq: 0 }),
            r#"{"type":"start","attemptId":"s\"1:2","revision":7,"turn":3,"step":1,"startedAfterSeq":-1}"#
        );
        let chunk = Step::Chunk { index: 0, time: UnixMs::new(5), json: Arc::from("{\"type\":\"x\"}") };
        assert_eq!(
            json(8, chunk),
            r#"{"type":"chunk","attemptId":"s\"1:2","revision":8,"index":0,"time":5,"chunk":{"type":"x"}}"#
        );
        let outcome = Outcome::Committed { kind: SettlementKind::Message, seq: 43 };
        assert_eq!(
            json(9, Step::End { index: 1, outcome }),
            r#"{"type":"end","attemptId":"s\"1:2","revision":9,"index":1,"outcome":{"kind":"committed","eventType":"assistant/message","seq":43}}"#
        );
        assert!(
            json(9, Step::End { index: 0, outcome: Outcome::Abandoned })
                .ends_with(r#""outcome":{"kind":"abandoned"}}"#)
        );
    }
}
