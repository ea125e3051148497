use super::event::Event;
use super::fields::Fields;
use super::lex::Members;
use super::packed::PackedKind;
use crate::json::{self, Str, write_i64, write_u64};
use crate::units::Seq;

/// Appends the events of one append as the original's v0 and v1 writers store them, each row with its newline: runs of
/// three and more deltas that continue each other become packed rows, all else is copied as it stands.
///
/// Returns the number of rows. An event whose payload is not JSON is copied too. Besides what the original asks of a
/// delta, turn, step and index must be counts and a call's id must not be empty, so that what is packed can be read.
/// Time O(bytes); one list of the current run is allocated.
///
/// Spec: `format-spec/04-rows.md`, "Packing".
pub fn pack<'a>(events: impl IntoIterator<Item = Event<'a>>, out: &mut Vec<u8>) -> u64 {
    let mut rows = 0_u64;
    let mut run: Vec<Delta<'a>> = Vec::new();
    for event in events {
        let delta = Delta::of(event);
        let continues = match (run.last(), &delta) {
            (Some(last), Some(delta)) => last.is_continued_by(delta),
            _ => false,
        };
        if !continues {
            rows = rows.saturating_add(write_run(&mut run, out));
        }
        match delta {
            Some(delta) => run.push(delta),
            None => {
                write_line(event, out);
                rows = rows.saturating_add(1);
            }
        }
    }
    rows.saturating_add(write_run(&mut run, out))
}

/// The shortest run that becomes a packed row.
const RUN_MIN: usize = 3;

/// An event that may become part of a packed row.
#[derive(Clone, Copy)]
struct Delta<'a> {
    event: Event<'a>,
    kind: PackedKind,
    turn: u64,
    step: u64,
    index: u64,
    id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    fragment: Str<'a>,
}

impl<'a> Delta<'a> {
    fn of(event: Event<'a>) -> Option<Self> {
        let extra =
            event.is_ignorable() || event.source_event_seqs().is_some() || event.surface_op().is_some();
        if extra || !event.is("assistant/chunk") {
            return None;
        }
        // A payload read by its envelope only is not known to be JSON; a delta's nests two levels.
        json::check(event.data().as_bytes(), 2).ok()?;
        let data = Fields::collect(Members::of(event.data())?, ["turn", "step", "chunk"]);
        let chunk = Members::of(data.get("chunk")?)?;
        let chunk = Fields::collect(chunk, ["type", "index", "text", "id", "name", "argumentsDelta"]);
        if data.unknown().or(chunk.unknown()).is_some() {
            return None;
        }
        let kinds = [PackedKind::Text, PackedKind::Reasoning, PackedKind::ToolCall];
        let chunk_type = chunk.string("type")?;
        let kind = kinds.into_iter().find(|kind| chunk_type.eq_str(kind.chunk_type()))?;
        let (fragment, foreign) = match kind {
            PackedKind::Text | PackedKind::Reasoning => ("text", &["id", "name", "argumentsDelta"][..]),
            PackedKind::ToolCall => ("argumentsDelta", &["text"][..]),
        };
        if foreign.iter().any(|name| chunk.get(name).is_some()) {
            return None;
        }
        let delta = Self {
            event,
            kind,
            turn: data.count("turn")?,
            step: data.count("step")?,
            index: chunk.count("index")?,
            id: chunk.string("id").filter(|id| !id.is_empty()),
            name: chunk.string("name"),
            fragment: chunk.string(fragment)?,
        };
        let call_is_whole = delta.id.is_some() && delta.name.is_some() == chunk.get("name").is_some();
        (kind != PackedKind::ToolCall || call_is_whole).then_some(delta)
    }

    fn is_continued_by(&self, next: &Self) -> bool {
        self.kind == next.kind
            && self.event.seq().checked_add(1) == Some(next.event.seq())
            && self.gap_to(next).unsigned_abs() <= Seq::MAX.get()
            && (self.turn, self.step, self.index) == (next.turn, next.step, next.index)
            && (self.id, self.name) == (next.id, next.name)
    }

    fn gap_to(&self, next: &Self) -> i64 {
        next.event.time().get().saturating_sub(self.event.time().get())
    }
}

/// Writes and empties a run; returns the number of rows.
fn write_run(run: &mut Vec<Delta<'_>>, out: &mut Vec<u8>) -> u64 {
    let rows = match run.first() {
        Some(first) if run.len() >= RUN_MIN => {
            write_packed(first, run, out);
            1
        }
        _ => {
            run.iter().for_each(|delta| write_line(delta.event, out));
            u64::try_from(run.len()).unwrap_or(u64::MAX)
        }
    };
    run.clear();
    rows
}

fn write_line(event: Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(event.line().as_bytes());
    out.push(b'\n');
}

fn write_packed(first: &Delta<'_>, run: &[Delta<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(first.kind.row_type().as_bytes());
    out.extend_from_slice(b"\",\"seq0\":");
    write_u64(out, first.event.seq().get());
    out.extend_from_slice(b",\"time0\":");
    write_i64(out, first.event.time().get());
    for (label, number) in [
        (&b",\"data\":{\"turn\":"[..], first.turn),
        (b",\"step\":", first.step),
        (b",\"index\":", first.index),
    ] {
        out.extend_from_slice(label);
        write_u64(out, number);
    }
    out.extend_from_slice(b",\"dt\":");
    let gaps = run.iter().zip(run.iter().skip(1)).map(|(delta, next)| delta.gap_to(next));
    write_list(out, gaps, write_i64);
    for (label, string) in [(&b",\"id\":"[..], first.id), (b",\"name\":", first.name)] {
        if let Some(string) = string {
            out.extend_from_slice(label);
            string.write_canonical(out);
        }
    }
    out.extend_from_slice(match first.kind {
        PackedKind::Text | PackedKind::Reasoning => b",\"texts\":",
        PackedKind::ToolCall => b",\"args\":",
    });
    write_list(out, run.iter(), |out, delta| delta.fragment.write_canonical(out));
    out.extend_from_slice(b"}}\n");
}

fn write_list<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;
    use crate::row::{Check, Packed, samples};

    fn packed(lines: &[String]) -> (u64, String) {
        let events =
            lines.iter().map(|line| Event::read(line.as_bytes(), Check::Envelope, &Limits::DEFAULT).unwrap());
        let mut out = Vec::new();
        let rows = pack(events, &mut out);
        (rows, String::from_utf8(out).unwrap())
    }

    fn chunk(seq: u64, time: i64, chunk: &str) -> String {
        format!(
            r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{chunk}}}}}"#
        )
    }

    fn text(seq: u64, text: &str) -> String {
        chunk(seq, 10, &format!(r#"{{"type":"text-delta","index":0,"text":"{text}"}}"#))
    }

    fn copied(lines: &[String]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn three_deltas_are_packed_and_two_are_not() {
        let lines = [text(4, "a"), text(5, "\\n"), text(6, "c")];
        assert_eq!(packed(&lines[..2]), (2, copied(&lines[..2])));
        let row = r#"{"type":"text-chunks","seq0":4,"time0":10,"data":{"turn":1,"step":1,"index":0,"dt":[0,0],"texts":["a","\n","c"]}}"#;
        assert_eq!(packed(&lines), (1, format!("{row}\n")));
    }

    #[test]
    fn a_name_on_the_first_delta_only_leaves_all_three_plain() {
        let call = |seq, name: &str| {
            chunk(
                seq,
                10,
                &format!(r#"{{"type":"tool-call-delta","index":1,"id":"c"{name},"argumentsDelta":"x"}}"#),
            )
        };
        let lines = [call(0, r#","name":"shell""#), call(1, ""), call(2, "")];
        assert_eq!(packed(&lines), (3, copied(&lines)));
        let lines = [call(0, ""), call(1, ""), call(2, "")];
        let row = concat!(
            r#"{"type":"tool-call-chunks","seq0":0,"time0":10,"data":{"turn":1,"step":1,"index":1"#,
            r#","dt":[0,0],"id":"c","args":["x","x","x"]}}"#,
        );
        assert_eq!(packed(&lines), (1, format!("{row}\n")));
    }

    /// Each of these stands between two pairs, so that it joins either all five or none.
    #[test]
    fn what_does_not_continue_a_run_ends_it() {
        let delta = r#"{"type":"text-delta","index":0,"text":"x"}"#;
        for middle in [
            chunk(2, 10, r#"{"type":"reasoning-delta","index":0,"text":"x"}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":1,"text":"x"}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":-0,"text":"x"}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":0,"text":null}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":0,"text":"x","id":"c"}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":0,"text":"x","extra":1}"#),
            chunk(2, 10, r#"{"type":"text-delta","index":0}"#),
            chunk(2, 10, r#"{"type":"tool-call-delta","index":0,"id":"","argumentsDelta":"x"}"#),
            chunk(2, 10, r#"{"type":"tool-call-delta","index":0,"id":"c","name":1,"argumentsDelta":"x"}"#),
            chunk(2, 10, r#"{"type":"block-end","index":0,"block":{"type":"text","text":"x"}}"#),
            chunk(2, 10, r#"{"type":"usage","usage":{"inputTokens":9,"outputTokens":4}}"#),
            chunk(2, 10, r#"{"type":"finish","reason":{"kind":"stop"}}"#),
            chunk(2, 10, "{no JSON}"),
            chunk(2, 10, delta).replace("\"turn\":1", "\"turn\":2"),
            chunk(2, 10, delta).replace("\"step\":1", "\"step\":1.5"),
            chunk(2, 10, delta).replace("\"step\":1", "\"step\":1,\"more\":1"),
            chunk(2, 10, delta).replace("assistant/chunk", "assistant/other"),
            chunk(2, 10, delta).replace("}}}", "}},\"ignorable\":true}"),
            chunk(2, 10, delta).replace("}}}", "}},\"surfaceOp\":\"append\"}"),
            chunk(2, 10, delta).replace("}}}", "}},\"sourceEventSeqs\":[]}"),
            chunk(9, 10, delta),
        ] {
            let lines = [text(0, "x"), text(1, "x"), middle, text(3, "x"), text(4, "x")];
            assert_eq!(packed(&lines), (5, copied(&lines)), "{}", lines[2]);
        }
        let lines = [text(0, "x"), text(1, "x"), chunk(2, 10, delta), text(3, "x"), text(4, "x")];
        assert_eq!(packed(&lines).0, 1);
    }

    #[test]
    fn a_time_gap_beyond_the_safe_integers_ends_a_run() {
        let delta = r#"{"type":"text-delta","index":0,"text":"x"}"#;
        let far = 9_007_199_254_740_991;
        let lines = [
            chunk(0, 0, delta),
            chunk(1, -1, delta),
            chunk(2, far, delta),
            chunk(3, far, delta),
            chunk(4, 0, delta),
        ];
        let (rows, out) = packed(&lines);
        assert_eq!(rows, 3);
        assert!(out.ends_with("\"dt\":[0,-9007199254740991],\"texts\":[\"x\",\"x\",\"x\"]}}\n"), "{out}");
    }

    proptest! {
        #[test]
        fn what_is_packed_expands_to_what_it_was_made_of(
            fragments in prop::collection::vec((samples::string(), -3_i64..9), 3..12),
            kind in 0_usize..3,
            call in (samples::string(), prop::option::of(samples::string())),
        ) {
            let kind = [PackedKind::Text, PackedKind::Reasoning, PackedKind::ToolCall][kind];
            let (id, name) = call;
            let members = match (kind, name) {
                (PackedKind::ToolCall, Some(name)) => format!(r#","id":{id},"name":{name},"argumentsDelta""#),
                (PackedKind::ToolCall, None) => format!(r#","id":{id},"argumentsDelta""#),
                _ => ",\"text\"".to_owned(),
            };
            let mut time = 0;
            let lines: Vec<String> = fragments.iter().zip(7..).map(|((fragment, gap), seq)| {
                time += gap;
                chunk(seq, time, &format!(r#"{{"type":"{}","index":2{members}:{fragment}}}"#, kind.chunk_type()))
            }).collect();
            let (rows, out) = packed(&lines);
            prop_assume!(kind != PackedKind::ToolCall || id != "\"\"");
            prop_assert_eq!(rows, 1);
            let packed = Packed::read(out.trim_end_matches('\n').as_bytes(), &Limits::DEFAULT).unwrap();
            for (member, line) in packed.members().zip(&lines) {
                let mut row = Vec::new();
                packed.write_member(&member, &mut row);
                let mut canonical = Vec::new();
                let mut tape = json::Tape::default();
                tape.parse(line.as_bytes(), 9).unwrap().write_canonical(&mut canonical);
                prop_assert_eq!(String::from_utf8(row).unwrap(), String::from_utf8(canonical).unwrap());
            }
        }
    }
}
