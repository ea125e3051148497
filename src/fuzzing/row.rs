//! Target `row`: one line of a log, and the lines of one.

use crate::json;
use crate::limits::Limits;
use crate::row::{
    Check, Draft, Event, Header, Packed, PhysicalRow, Recovery, RowDecoder, RowPlace, find_fused, pack,
};
use crate::units::{Generation, Seq, UnixMs};

/// Reads `data` as one row in every way, and its lines as a log.
pub fn fuzz_row(data: &[u8]) {
    events_agree(data);
    if let Ok(event) = Event::parse(data, &Limits::DEFAULT) {
        edges_hold(event.data());
    }
    for generation in [Generation::V0, Generation::V1, Generation::V2] {
        if let Ok(PhysicalRow::Packed(packed)) =
            PhysicalRow::read(data, generation, Check::Full, &Limits::DEFAULT)
        {
            packed_rows_expand(&packed);
            packed_edges_hold(&packed);
        }
        let fused = find_fused(data, generation, &Limits::DEFAULT);
        assert!(fused.is_none_or(|at| at > 0 && at < data.len()));
        logs_are_prefixes(generation, data);
    }
    header_round_trips(data);
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

fn packed_rows_expand(packed: &Packed<'_>) {
    let members: Vec<_> = packed.members().collect();
    assert_eq!(u64::try_from(members.len()), Ok(packed.event_count()));
    let mut rows = Vec::new();
    let mut ends = Vec::new();
    for member in &members {
        packed.write_member(member, &mut rows);
        ends.push(rows.len());
    }
    let mut start = 0;
    let mut events = Vec::new();
    for (member, end) in members.iter().zip(ends) {
        let line = rows.get(start..end).expect("ends ascend");
        let event = Event::read(line, Check::Full, &Limits::DEFAULT).expect("an expanded event is a row");
        assert_eq!((event.seq(), event.time()), (member.seq, member.time));
        assert_eq!(Event::scan(event.line()), Some(event), "an expanded event is canonical");
        events.push(event);
        start = end;
    }
    assert_eq!(members.last().map(|last| last.time), Some(packed.last_time()));
    let mut repacked = Vec::new();
    let row_count = pack(events, &mut repacked);
    let fitting = members.len() >= 3
        && members
            .iter()
            .zip(members.iter().skip(1))
            .all(|(a, b)| b.time.get().saturating_sub(a.time.get()).unsigned_abs() <= Seq::MAX.get());
    if fitting {
        assert_eq!(row_count, 1);
        let line = repacked.strip_suffix(b"\n").expect("rows end in a newline");
        let again = Packed::read(line, &Limits::DEFAULT).expect("a repacked row is a row");
        assert!(again.members().eq(members));
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

/// A packed row may reach the last seq and the last times at either end, and not one further.
fn packed_edges_hold(packed: &Packed<'_>) {
    let first_time = packed.first_time().get();
    let mut times = packed.members().map(|member| member.time.get().saturating_sub(first_time));
    // The first offset is 0. Offsets of two safe integers fit 64 bits, but not the times that are tried below.
    let (mut low, mut high, mut before) = (0_i64, 0_i64, times.next().unwrap_or(0));
    let mut gaps = Vec::new();
    for offset in times {
        gaps.push(offset.saturating_sub(before).to_string());
        (low, high, before) = (low.min(offset), high.max(offset), offset);
    }
    let texts: Vec<_> = packed.members().map(|member| format!("\"{}\"", member.fragment.raw())).collect();
    let max = i64::try_from(Seq::MAX.get()).expect("it has 53 bits");
    let reads = |seq0: u64, time0: i64| {
        let line = format!(
            "{{\"type\":\"text-chunks\",\"seq0\":{seq0},\"time0\":{time0},\"data\":{{\"turn\":0,\"step\":0,\"index\":0,\"dt\":[{}],\"texts\":[{}]}}}}",
            gaps.join(","),
            texts.join(","),
        );
        Packed::read(line.as_bytes(), &Limits::DEFAULT).is_ok()
    };
    let last_seq0 = Seq::MAX.get().saturating_sub(packed.event_count()).saturating_add(1);
    assert!(reads(last_seq0, first_time) && !reads(last_seq0.saturating_add(1), first_time));
    let (first_time0, last_time0) = (low.saturating_add(max).saturating_neg(), max.saturating_sub(high));
    if first_time0 <= last_time0 && first_time0.saturating_add(low) == max.saturating_neg() {
        assert!(reads(0, first_time0) && !reads(0, first_time0.saturating_sub(1)));
        assert!(reads(0, last_time0) && !reads(0, last_time0.saturating_add(1)));
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

fn header_round_trips(line: &[u8]) {
    let Ok(header) = Header::parse(line, &Limits::DEFAULT) else { return };
    let mut out = Vec::new();
    header.write(&mut out);
    assert_eq!(Header::parse(&out, &Limits::DEFAULT), Ok(header));
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
