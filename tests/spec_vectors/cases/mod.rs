//! The vectors: their bytes, and what the specification says of them. Nothing here asks the crate.

pub(crate) mod compressed;
mod framed;
mod indexed;
mod lines;
mod refused;

use crate::build::{Event, Log, Row};
use crate::outcome::Outcome;

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) about: String,
    /// `file#heading`
    pub(crate) spec: Vec<&'static str>,
    pub(crate) encoding: &'static str,
    pub(crate) file_name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) outcome: Outcome,
}

impl Case {
    /// Which of the two folders the vector stands in.
    pub(crate) fn folder(&self) -> &'static str {
        let torn = self.outcome.state.as_deref() == Some("torn");
        if self.outcome.fault.is_some() && !torn { "invalid" } else { "valid" }
    }
}

/// All vectors, in no order that means anything.
pub(crate) fn all() -> Vec<Case> {
    [indexed::cases(), refused::cases(), framed::cases(), lines::cases()].into_iter().flatten().collect()
}

pub(crate) const HEADER: &str =
    r#"{"type":"session","version":2,"id":"v","createdAt":9,"isSeeded":false,"delegationDepth":0}"#;
pub(crate) const INDEXED: &str = "session.v2.jsonl.zst";
pub(crate) const CHAIN: &str = "03-trailer.md#Chain rules";
pub(crate) const ORDER: &str = "03-trailer.md#Order of checks";
pub(crate) const JUDGE: &str = "05-append-and-repair.md#Judging the end";

/// A short event.
pub(crate) fn row(seq: u64, time: i64) -> Row {
    let text = format!(r#"{{"type":"plan/mode","seq":{seq},"time":{time},"data":{{"active":true}}}}"#);
    raw(&text, vec![(seq, time, "plan/mode".to_owned())])
}

/// An event with a payload of `len` letters.
pub(crate) fn long(seq: u64, time: i64, len: usize) -> Row {
    let text =
        format!(r#"{{"type":"note/long","seq":{seq},"time":{time},"data":{{"pad":"{}"}}}}"#, "x".repeat(len));
    raw(&text, vec![(seq, time, "note/long".to_owned())])
}

/// Any line.
pub(crate) fn raw(text: &str, events: Vec<Event>) -> Row {
    Row { line: crate::build::line(text), events }
}

/// A log of one append of two events, synced.
pub(crate) fn two_events() -> Log {
    let mut log = Log::new(HEADER, 9);
    log.append(&[row(0, 10), row(1, 11)]);
    log
}

/// The outcome of an indexed file whose good segments are those of `log` up to number `last`.
pub(crate) fn served(log: &Log, last: usize) -> Outcome {
    let rows = &log.rows[..log.rows_by[last]];
    let text: Vec<u8> = rows.iter().flat_map(|row| row.line.clone()).collect();
    Outcome {
        detected: "indexed".to_owned(),
        events: Some(rows.iter().flat_map(|row| row.events.clone()).collect()),
        ..Outcome::default()
    }
    .with_text(&text)
}

/// As [`served`], with a verdict.
pub(crate) fn judged(log: &Log, last: usize, state: &str, committed: bool) -> Outcome {
    Outcome {
        state: Some(state.to_owned()),
        good_end: Some(log.segments[last].0 as u64),
        durable: Some(log.vouched(last)),
        committed: Some(committed),
        ..served(log, last)
    }
}

/// As [`judged`], with the fault that stands at P.
pub(crate) fn faulty(log: &Log, last: usize, state: &str, fault: &str) -> Outcome {
    let outcome = judged(log, last, state, true);
    Outcome { fault: Some(fault.to_owned()), at: outcome.good_end, ..outcome }
}

pub(crate) fn indexed(
    name: &str,
    about: &str,
    spec: &[&'static str],
    bytes: Vec<u8>,
    outcome: Outcome,
) -> Case {
    Case {
        name: name.to_owned(),
        about: about.to_owned(),
        spec: spec.to_vec(),
        encoding: "indexed",
        file_name: INDEXED,
        bytes,
        outcome,
    }
}
