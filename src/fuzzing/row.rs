//! Target `row`: one line of a log, and the lines of one.

use crate::json;
use crate::limits::Limits;
use crate::row::{Check, Draft, Event, Packed, PhysicalRow, Recovery, RowDecoder, RowPlace, find_fused};
use crate::units::{Generation, Seq, UnixMs};

/// Reads `data` as one row in every way, and its lines as a log.
pub fn fuzz_row(data: &[u8]) {
    events_agree(data);
    if let Ok(event) = Event::parse(data, &Limits::DEFAULT) {
        edges_hold(event.data());
    }
    for generation in [Generation::V0, Generation::V1, Generation::V2] {
        rows_agree(generation, data);
        let fused = find_fused(data, generation, &Limits::DEFAULT);
        assert!(fused.is_none_or(|at| at > 0 && at < data.len()));
        logs_are_prefixes(generation, data);
    }
    drafts_become_events(data);
}

/// Every way to read an event gives the same, except that an envelope does not vouch for its payload.
pub fn events_agree(line: &[u8]) {
    let parsed = Event::parse(line, &Limits::DEFAULT);
    assert_eq!(Event::read(line, Check::Full, &Limits::DEFAULT), parsed);
    match Event::read(line, Check::Envelope, &Limits::DEFAULT) {
        Ok(event) => {
            let payload_is_json = json::check(event.data().as_bytes(), Limits::DEFAULT.nesting_max).is_ok();
            if payload_is_json {
                assert_eq!(parsed, Ok(event));
            } else {
                assert_ne!(parsed, Ok(event));
            }
        }
        Err(fault) => assert_eq!(parsed, Err(fault)),
    }
}

/// Seqs and times end exactly where JavaScript's safe integers do, whatever the payload. A mutator rarely finds those
/// numbers by itself.
fn edges_hold(data: &str) {
    let is_count = |number: &str| matches!(number, "0" | "9007199254740990" | "9007199254740991" | "1e3");
    for number in [
        "0",
        "-0",
        "-1",
        "9007199254740990",
        "9007199254740991",
        "9007199254740992",
        "-9007199254740991",
        "-9007199254740992",
        "90071992547409910",
        "1e3",
        "1.5",
    ] {
        let line = format!("{{\"type\":\"a\",\"seq\":{number},\"time\":7,\"data\":{data}}}");
        events_agree(line.as_bytes());
        assert_eq!(Event::parse(line.as_bytes(), &Limits::DEFAULT).is_ok(), is_count(number), "seq {number}");
        let line = format!("{{\"type\":\"a\",\"seq\":7,\"time\":{number},\"data\":{data}}}");
        events_agree(line.as_bytes());
        let is_safe = is_count(number) || matches!(number, "-1" | "-9007199254740991");
        assert_eq!(Event::parse(line.as_bytes(), &Limits::DEFAULT).is_ok(), is_safe, "time {number}");
    }
}

/// A row of a generation is an event, or a packed row where there are such, and the same as read by itself.
fn rows_agree(generation: Generation, line: &[u8]) {
    match PhysicalRow::read(line, generation, Check::Full, &Limits::DEFAULT) {
        Ok(PhysicalRow::Packed(packed)) => {
            assert!(generation.has_chunk_events(), "no packed rows in {generation:?}");
            assert_eq!(Packed::read(line, &Limits::DEFAULT), Ok(packed));
        }
        Ok(PhysicalRow::Event(event)) => assert_eq!(Event::parse(line, &Limits::DEFAULT), Ok(event)),
        Err(_) => assert!(Event::parse(line, &Limits::DEFAULT).is_err() || generation.has_chunk_events()),
    }
}

fn logs_are_prefixes(generation: Generation, data: &[u8]) {
    let mut decoder = RowDecoder::new(generation, Recovery::Recoverable);
    let mut next = 0;
    let mut offset = 0_u64;
    for (line, number) in data.split(|&byte| byte == b'\n').zip(2..) {
        match decoder.push(RowPlace { line: number, offset }, line) {
            Ok(Some(row)) => {
                assert!(decoder.issue().is_none());
                assert_eq!(row.first_seq().get(), next);
                next = row.next_seq();
            }
            Ok(None) => assert!(decoder.issue().is_some()),
            Err(fault) => {
                assert!(fault.issue.place.line <= number);
                return;
            }
        }
        assert_eq!(decoder.events(), next);
        offset = offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)).saturating_add(1);
    }
}

fn drafts_become_events(line: &[u8]) {
    let Ok(draft) = Draft::parse(line, &Limits::DEFAULT) else { return };
    let seq = draft.seq().unwrap_or(Seq::MAX);
    let mut out = Vec::new();
    if draft.write(seq, UnixMs::new(-7), &mut out).is_err() {
        assert!(out.is_empty());
        return;
    }
    let event = Event::read(&out, Check::Full, &Limits::DEFAULT).expect("a written draft is a row");
    assert_eq!((event.seq(), event.data()), (seq, draft.data()));
    assert_eq!(event.time(), draft.time().unwrap_or(UnixMs::new(-7)));
    assert!(event.event_type() == draft.event_type());
}
