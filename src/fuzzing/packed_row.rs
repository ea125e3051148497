//! Target `packed_row`: a run of deltas in one line, as it is read and as it is made.

use super::choices::Choices;
use crate::json::{Node, Tape, Text};
use crate::limits::Limits;
use crate::row::{Check, Event, Packed, PackedKind, PhysicalRow, pack};
use crate::units::{Generation, Seq};

/// Takes `data` for a packed row, and for the plan of a run of deltas.
///
/// # Panics
/// If the borrowed reader and one that parses the whole tree disagree on whether the line is a packed row or on any of its
/// events; if an event of it is no canonical row; if packing loses, changes or reorders an event.
pub fn fuzz_packed_row(data: &[u8]) {
    let packed = Packed::read(data, &Limits::DEFAULT);
    let expected = tree_reading(data);
    assert_eq!(packed.is_ok(), expected.is_some(), "{packed:?}");
    if let (Ok(packed), Some(expected)) = (packed, expected) {
        let members =
            packed.members().map(|member| (member.seq.get(), member.time.get(), member.fragment.to_text()));
        assert_eq!(members.collect::<Vec<_>>(), expected);
        packed_rows_expand(&packed);
        packed_edges_hold(&packed);
        for generation in [Generation::V0, Generation::V1] {
            let read = PhysicalRow::read(data, generation, Check::Full, &Limits::DEFAULT);
            assert_eq!(read, Ok(PhysicalRow::Packed(packed)), "{generation:?}");
        }
        let in_v2 = PhysicalRow::read(data, Generation::V2, Check::Full, &Limits::DEFAULT);
        assert!(in_v2.is_err(), "v2 has no packed rows");
    }
    deltas_come_back(&mut Choices::new(data));
}

/// Seq, time and fragment of each event of a packed row, read the slow way: all of it into a tree, then rule by rule.
fn tree_reading(line: &[u8]) -> Option<Vec<(u64, i64, Text)>> {
    let mut tape = Tape::default();
    let row = tape.parse(line, Limits::DEFAULT.nesting_max).ok()?;
    has_only(row, &["type", "seq0", "time0", "data"])?;
    let kind = row.get("type")?.as_str()?.to_text();
    let kinds = [PackedKind::Text, PackedKind::Reasoning, PackedKind::ToolCall];
    let kind = kinds.into_iter().find(|known| kind.as_str() == Some(known.row_type()))?;
    let seq0 = row.get("seq0")?.as_number()?.as_count()?;
    let mut time = row.get("time0")?.as_number()?.as_safe_integer()?;
    let data = row.get("data")?;
    let fragments = if kind == PackedKind::ToolCall {
        has_only(data, &["turn", "step", "index", "dt", "id", "name", "args"])?;
        data.get("id")?.as_str().filter(|id| !id.is_empty())?;
        data.get("name").is_none_or(|name| name.as_str().is_some()).then_some(())?;
        data.get("args")?
    } else {
        has_only(data, &["turn", "step", "index", "dt", "texts"])?;
        data.get("texts")?
    };
    for count in ["turn", "step", "index"] {
        data.get(count)?.as_number()?.as_count()?;
    }
    let mut gaps = data.get("dt")?.items()?;
    let mut members = Vec::new();
    for (fragment, seq) in fragments.items()?.zip(seq0..) {
        if !members.is_empty() {
            time = time.checked_add(gaps.next()?.as_number()?.as_safe_integer()?)?;
        }
        let is_safe = seq <= Seq::MAX.get() && time.unsigned_abs() <= Seq::MAX.get();
        is_safe.then_some(())?;
        members.push((seq, time, fragment.as_str()?.to_text()));
    }
    (gaps.next().is_none() && !members.is_empty()).then_some(members)
}

fn has_only(object: Node<'_>, names: &[&str]) -> Option<()> {
    object.members()?.all(|(name, _)| names.iter().any(|known| name.eq_str(known))).then_some(())
}

/// What a writer of v1 packs is the same events again, none of them packed with one that does not continue it.
fn deltas_come_back(choices: &mut Choices<'_>) {
    const FRAGMENTS: [&str; 6] = ["", " the", "\\\"", "\\ud83d", "é", "0123456789abcdef"];
    let mut lines = Vec::new();
    let (mut seq, mut time) = (0_u64, 0_i64);
    let mut shape = 0;
    while !choices.is_empty() && lines.len() < 24 {
        // Mostly one more delta of the run; now and then something that ends it.
        let choice = choices.byte();
        match choice >> 4 {
            0 => seq = seq.saturating_add(1),
            1 => time = if time == 0 { Seq::MAX.get().cast_signed() } else { time.saturating_neg() },
            2 => shape = choices.byte(),
            _ => time = time.saturating_add(i64::from(choice)).min(Seq::MAX.get().cast_signed()),
        }
        let fragment = *choices.pick(&FRAGMENTS);
        let (index, kind) = (shape >> 6, shape & 7);
        let chunk = match kind {
            0 | 1 => format!("\"type\":\"text-delta\",\"index\":{index},\"text\":\"{fragment}\""),
            2 => format!("\"type\":\"reasoning-delta\",\"index\":{index},\"text\":\"{fragment}\""),
            3 => format!(
                "\"type\":\"tool-call-delta\",\"index\":{index},\"id\":\"c\",\"argumentsDelta\":\"{fragment}\""
            ),
            4 => format!(
                "\"type\":\"tool-call-delta\",\"index\":{index},\"id\":\"c\",\"name\":\"{fragment}\",\"argumentsDelta\":\"\""
            ),
            // None of these is packed.
            5 => format!("\"type\":\"text-delta\",\"index\":{index},\"text\":\"{fragment}\",\"x\":0"),
            6 => {
                format!("\"type\":\"tool-call-delta\",\"index\":{index},\"id\":\"\",\"argumentsDelta\":\"\"")
            }
            _ => "\"type\":\"usage\",\"usage\":{}".to_owned(),
        };
        let (turn, step) = (shape >> 3 & 1, shape >> 4 & 1);
        lines.push(format!(
            "{{\"type\":\"assistant/chunk\",\"seq\":{seq},\"time\":{time},\"data\":{{\"turn\":{turn},\"step\":{step},\"chunk\":{{{chunk}}}}}}}"
        ));
        seq = seq.saturating_add(1);
    }
    let events =
        lines.iter().map(|line| Event::parse(line.as_bytes(), &Limits::DEFAULT).expect("a sound row"));
    let mut rows = Vec::new();
    let row_count = pack(events, &mut rows);
    let mut back = Vec::new();
    let mut read = 0_u64;
    for row in rows.split_inclusive(|&byte| byte == b'\n') {
        let row = row.strip_suffix(b"\n").expect("rows end in a newline");
        read = read.saturating_add(1);
        match PhysicalRow::read(row, Generation::V1, Check::Full, &Limits::DEFAULT)
            .expect("a packed log is sound")
        {
            PhysicalRow::Event(event) => back.push(event.line().to_owned()),
            PhysicalRow::Packed(packed) => {
                assert!(packed.event_count() >= 3, "short runs stay as they are");
                for member in packed.members() {
                    let mut line = Vec::new();
                    packed.write_member(&member, &mut line);
                    back.push(String::from_utf8(line).expect("rows are UTF-8"));
                }
            }
        }
    }
    assert_eq!(read, row_count);
    assert_eq!(back, lines, "packed and expanded again");
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tree_reads_what_the_format_shows() {
        let row = concat!(
            r#"{"type":"text-chunks","seq0":4,"time0":10,"data":{"turn":0,"step":0,"index":0,"#,
            r#""dt":[1,-2],"texts":["a","b","c"]}}"#
        );
        let members = tree_reading(row.as_bytes()).expect("a packed row");
        let text = |text: &str| Text::from(text);
        assert_eq!(members, [(4, 10, text("a")), (5, 11, text("b")), (6, 9, text("c"))]);
        assert_eq!(tree_reading(row.replace(",-2", "").as_bytes()), None);
        fuzz_packed_row(row.as_bytes());
    }

    proptest! {
        #[test]
        fn any_plan_of_deltas_comes_back(data in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_packed_row(&data);
        }
    }
}
