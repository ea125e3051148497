//! The model attempt that is being collected: its chunks become the records of one embedded stream, written as they come.
//!
//! Spec: `format-spec/06-migration.md`, "Embedded streams".

use super::physical::{PackedRun, RunKind, is_safe};
use super::v1::{ChunkEvent, ChunkKind};
use super::written::Deltas;
use crate::json::{Node, Number, Str, write_i64, write_u64};
use crate::session::SeqList;

/// Consecutive chunks of one turn and step.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) turn: u64,
    pub(super) step: u64,
    pub(super) seqs: SeqList,
    pub(super) last_seq: u64,
    pub(super) last_time: i64,
    /// A `finish` chunk was seen: no further chunk belongs to the attempt.
    pub(super) is_terminal: bool,
    pub(super) stream: StreamWriter,
}

impl Attempt {
    /// Makes it the empty attempt of a turn and step; memory is kept.
    pub(super) fn restart(&mut self, turn: u64, step: u64) {
        (self.turn, self.step, self.is_terminal) = (turn, step, false);
        self.seqs.clear();
        self.stream.clear();
    }

    pub(super) fn push_chunk(&mut self, seq: u64, event: &ChunkEvent<'_>) {
        self.seqs.push_run(seq, seq);
        (self.last_seq, self.last_time) = (seq, event.time);
        self.is_terminal = event.kind == ChunkKind::Finish;
        self.stream.push_chunk(event);
    }

    /// Deltas as the original writes them.
    pub(super) fn push_deltas(&mut self, deltas: &Deltas<'_>) {
        self.seqs.push_run(deltas.seq0, deltas.last_seq);
        (self.last_seq, self.last_time) = (deltas.last_seq, deltas.last_time);
        self.stream.push_deltas(deltas);
    }

    pub(super) fn push_run(&mut self, run: &PackedRun<'_>) {
        self.seqs.push_run(run.seq0, run.last_seq);
        (self.last_seq, self.last_time) = (run.last_seq, run.last_time);
        self.stream.push_run(run);
    }
}

/// Writes stream records as canonical JSON: the inside of the array, records parted by commas.
///
/// Deltas that continue each other share one record; how rows were packed does not show. The text of the open record's
/// fragments stands at the end of `out` already, and what precedes it in the record is put before it when the record
/// closes: its gaps are known only then, and nothing is held twice.
#[derive(Debug, Default)]
pub(super) struct StreamWriter {
    out: Vec<u8>,
    open: Option<OpenRecord>,
    /// The gaps of the open record, a list without its end.
    gaps: Vec<u8>,
    /// The id and name of the open record as JSON strings; empty for none.
    id: Vec<u8>,
    name: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    kind: RunKind,
    index: u64,
    time0: i64,
    last_time: i64,
    /// Where the list of its fragments starts in `out`.
    fragments_at: usize,
}

impl StreamWriter {
    fn clear(&mut self) {
        self.out.clear();
        self.open = None;
    }

    /// The records so far, parted by commas.
    pub(super) fn records(&mut self) -> &[u8] {
        self.close();
        &self.out
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.out.len().saturating_add(self.gaps.len())
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.out.capacity().saturating_add(self.gaps.capacity()).saturating_add(self.scratch.capacity())
    }

    fn push_chunk(&mut self, event: &ChunkEvent<'_>) {
        let (time, chunk) = (event.time, event.chunk);
        let ChunkKind::Delta(kind) = event.kind else {
            return self.push_raw(time, |out| {
                if event.is_canonical {
                    out.extend_from_slice(chunk.raw().as_bytes());
                } else {
                    chunk.write_canonical(out);
                }
            });
        };
        let (mut index, mut fragment, mut id, mut name) = (None, None, None, None);
        for (member, value) in chunk.members().into_iter().flatten() {
            match &*member.to_string_lossy() {
                "index" => index = value.as_number().and_then(Number::as_count),
                "text" | "argumentsDelta" => fragment = Some(value),
                "id" => id = Some(value),
                "name" => name = Some(value),
                _ => {}
            }
        }
        let is_empty = |value: Node<'_>| value.as_str().is_none_or(Str::is_empty);
        let unnamed = kind == RunKind::ToolCall && (id.is_none_or(is_empty) || name.is_some_and(is_empty));
        let (Some(index), Some(fragment), false) = (index, fragment, unnamed) else {
            return self.push_raw(time, |out| chunk.write_canonical(out));
        };
        self.extend_or_start(kind, index, time, id, name);
        separate(&mut self.out);
        fragment.write_canonical(&mut self.out);
        if let Some(open) = &mut self.open {
            open.last_time = time;
        }
    }

    fn push_run(&mut self, run: &PackedRun<'_>) {
        if run.name.and_then(Node::as_str).is_some_and(Str::is_empty) {
            return self.push_unnamed(run);
        }
        self.extend_or_start(run.kind, run.index, run.time0, run.id, run.name);
        append_items(&mut self.gaps, run.gaps);
        append_items(&mut self.out, run.fragments);
        if let Some(open) = &mut self.open {
            open.last_time = run.last_time;
        }
    }

    /// Deltas whose text is canonical.
    fn push_deltas(&mut self, deltas: &Deltas<'_>) {
        match self.open {
            Some(open)
                if (open.kind, open.index) == (deltas.kind, deltas.index)
                    && (open.kind != RunKind::ToolCall
                        || self.id == deltas.id && self.name == deltas.name)
                    && let Some(gap) =
                        deltas.time0.checked_sub(open.last_time).filter(|gap| is_safe(*gap)) =>
            {
                separate(&mut self.gaps);
                write_i64(&mut self.gaps, gap);
            }
            _ => {
                self.start(deltas.kind, deltas.index, deltas.time0);
                self.id.extend_from_slice(deltas.id);
                self.name.extend_from_slice(deltas.name);
            }
        }
        if !deltas.gaps.is_empty() {
            separate(&mut self.gaps);
            self.gaps.extend_from_slice(deltas.gaps);
        }
        separate(&mut self.out);
        self.out.extend_from_slice(deltas.fragments);
        if let Some(open) = &mut self.open {
            open.last_time = deltas.last_time;
        }
    }

    /// Deltas with a name that is empty: no record holds them, so each stays a chunk of its own.
    fn push_unnamed(&mut self, run: &PackedRun<'_>) {
        let mut time = run.time0;
        let mut gaps = run.gap_values();
        for fragment in run.fragments.items().into_iter().flatten() {
            self.push_raw(time, |out| {
                out.extend_from_slice(br#"{"type":"tool-call-delta","index":"#);
                write_u64(out, run.index);
                out.extend_from_slice(br#","id":"#);
                if let Some(id) = run.id {
                    id.write_canonical(out);
                }
                out.extend_from_slice(br#","name":"","argumentsDelta":"#);
                fragment.write_canonical(out);
                out.push(b'}');
            });
            // Running times of a packed row were checked.
            time = time.saturating_add(gaps.next().unwrap_or(0));
        }
    }

    fn push_raw(&mut self, time: i64, chunk: impl FnOnce(&mut Vec<u8>)) {
        self.close();
        self.comma();
        self.out.extend_from_slice(br#"{"type":"chunk","time":"#);
        write_i64(&mut self.out, time);
        self.out.extend_from_slice(br#","chunk":"#);
        chunk(&mut self.out);
        self.out.push(b'}');
    }

    /// Makes the open record one that takes a delta at `time`: the open one with the gap to it noted, or a new one.
    fn extend_or_start(
        &mut self,
        kind: RunKind,
        index: u64,
        time: i64,
        id: Option<Node<'_>>,
        name: Option<Node<'_>>,
    ) {
        let scratch = &mut self.scratch;
        let mut is_spelled = |own: &Vec<u8>, new: Option<Node<'_>>| {
            scratch.clear();
            if let Some(new) = new {
                new.write_canonical(scratch);
            }
            scratch == own
        };
        if let Some(open) = self.open
            && open.kind == kind
            && open.index == index
            && let Some(gap) = time.checked_sub(open.last_time).filter(|gap| is_safe(*gap))
            && (kind != RunKind::ToolCall || is_spelled(&self.id, id) && is_spelled(&self.name, name))
        {
            separate(&mut self.gaps);
            write_i64(&mut self.gaps, gap);
            return;
        }
        self.start(kind, index, time);
        for (own, new) in [(&mut self.id, id), (&mut self.name, name)] {
            if let Some(new) = new {
                new.write_canonical(own);
            }
        }
    }

    /// Opens a record without id and name.
    fn start(&mut self, kind: RunKind, index: u64, time: i64) {
        self.close();
        self.comma();
        self.id.clear();
        self.name.clear();
        self.open =
            Some(OpenRecord { kind, index, time0: time, last_time: time, fragments_at: self.out.len() });
        self.gaps.clear();
        self.gaps.push(b'[');
        self.out.push(b'[');
    }

    fn comma(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
    }

    /// Completes the open record.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let head = &mut self.scratch;
        head.clear();
        head.extend_from_slice(br#"{"type":""#);
        head.extend_from_slice(open.kind.row_name().as_bytes());
        head.extend_from_slice(br#"","time0":"#);
        write_i64(head, open.time0);
        head.extend_from_slice(br#","index":"#);
        write_u64(head, open.index);
        head.extend_from_slice(br#","dt":"#);
        head.extend_from_slice(&self.gaps);
        head.push(b']');
        if open.kind == RunKind::ToolCall {
            head.extend_from_slice(br#","id":"#);
            head.extend_from_slice(&self.id);
            if !self.name.is_empty() {
                head.extend_from_slice(br#","name":"#);
                head.extend_from_slice(&self.name);
            }
            head.extend_from_slice(br#","args":"#);
        } else {
            head.extend_from_slice(br#","texts":"#);
        }
        insert(&mut self.out, open.fragments_at, head);
        self.out.extend_from_slice(b"]}");
    }
}

/// Appends a comma to an open list that has items.
fn separate(list: &mut Vec<u8>) {
    if list.last() != Some(&b'[') {
        list.push(b',');
    }
}

/// Appends the items of an array to an open list.
fn append_items(list: &mut Vec<u8>, array: Node<'_>) {
    if array.items().is_none_or(|items| items.len() == 0) {
        return;
    }
    // The array's own opening bracket is the list's, or becomes the comma between the two.
    let comma_at = if list.last() == Some(&b'[') {
        list.pop();
        None
    } else {
        Some(list.len())
    };
    array.write_canonical(list);
    list.pop();
    if let Some(place) = comma_at.and_then(|at| list.get_mut(at)) {
        *place = b',';
    }
}

/// Inserts `bytes` at `at`, moving what follows once.
fn insert(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = out.len();
    out.extend_from_slice(bytes);
    if at < end {
        out.copy_within(at..end, at.saturating_add(bytes.len()));
        if let Some(place) = out.get_mut(at..at.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::physical::{Envelope, PhysicalRow, read_row};
    use crate::format::v1::ChunkEnvelope;
    use crate::json::Tape;

    /// Pushes rows and returns the records.
    fn records(rows: &[&str]) -> String {
        let mut attempt = Attempt::default();
        for row in rows {
            let mut tape = Tape::default();
            let node = tape.parse(row.as_bytes(), 100).expect("test data is JSON");
            let event = Envelope::of(node).expect("an object");
            match read_row(&event, &mut SeqList::default()).expect("the row decodes") {
                PhysicalRow::Run(run) => attempt.push_run(&run),
                PhysicalRow::Event => {
                    let seq = event.seq.and_then(Node::as_number).and_then(Number::as_count).expect("a seq");
                    let envelope = ChunkEnvelope::read(&event).expect("the envelope fits");
                    let chunk = envelope.chunk(seq).expect("the chunk fits");
                    attempt.push_chunk(seq, &chunk);
                }
            }
        }
        String::from_utf8(attempt.stream.records().to_vec()).expect("UTF-8")
    }

    fn text(seq: u64, time: i64, text: &str) -> String {
        format!(
            r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{}}}}}"#,
            format_args!(r#"{{"type":"text-delta","index":0,"text":{text}}}"#)
        )
    }

    fn packed(seq: u64, time: i64, gaps: &str, texts: &str) -> String {
        format!(
            r#"{{"type":"text-chunks","seq0":{seq},"time0":{time},"data":{{"turn":1,"step":1,"index":0,"dt":{gaps},"texts":{texts}}}}}"#
        )
    }

    #[test]
    fn packing_does_not_show() {
        let plain = [text(0, 5, r#""a""#), text(1, 7, r#""\u0062""#), text(2, 4, r#""""#)];
        let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
        let expected = r#"{"type":"text-chunks","time0":5,"index":0,"dt":[2,-3],"texts":["a","b",""]}"#;
        assert_eq!(records(&plain), expected);
        assert_eq!(records(&[&packed(0, 5, "[2, -3]", r#"["a","b", ""]"#)]), expected);
        assert_eq!(records(&[&text(0, 5, r#""a""#), &packed(1, 7, "[-3]", r#"["b",""]"#)]), expected);
        assert_eq!(
            records(&[&packed(0, 5, "[2]", r#"["a","b"]"#), &packed(2, 4, "[]", r#"[""]"#)]),
            expected
        );
    }

    #[test]
    fn another_kind_of_chunk_or_an_unsafe_gap_ends_a_record() {
        let usage = concat!(
            r#"{"type":"assistant/chunk","seq":1,"time":6,"data":{"turn":1,"step":1,"#,
            r#""chunk":{"type":"usage","usage":{"inputTokens":1.0,"outputTokens":2}}}}"#
        );
        let rows = [text(0, 5, r#""a""#), usage.to_owned(), text(2, 7, r#""b""#)];
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        assert_eq!(
            records(&rows),
            concat!(
                r#"{"type":"text-chunks","time0":5,"index":0,"dt":[],"texts":["a"]},"#,
                r#"{"type":"chunk","time":6,"chunk":{"type":"usage","usage":{"inputTokens":1,"outputTokens":2}}},"#,
                r#"{"type":"text-chunks","time0":7,"index":0,"dt":[],"texts":["b"]}"#
            )
        );
        let far = records(&[&text(0, -9_007_199_254_740_991, r#""a""#), &text(1, 5, r#""b""#)]);
        assert_eq!(far.matches("text-chunks").count(), 2, "{far}");
    }

    #[test]
    fn a_tool_call_keeps_its_name_and_an_empty_one_stays_raw() {
        let row = concat!(
            r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":1,"index":2,"#,
            r#""dt":[4],"id":"c","name":"n","args":["{","}"]}}"#
        );
        assert_eq!(
            records(&[row]),
            r#"{"type":"tool-call-chunks","time0":1,"index":2,"dt":[4],"id":"c","name":"n","args":["{","}"]}"#
        );
        let unnamed = row.replace(r#""name":"n""#, r#""name":"""#);
        assert_eq!(
            records(&[&unnamed]),
            concat!(
                r#"{"type":"chunk","time":1,"chunk":{"type":"tool-call-delta","index":2,"id":"c","name":"","argumentsDelta":"{"}},"#,
                r#"{"type":"chunk","time":5,"chunk":{"type":"tool-call-delta","index":2,"id":"c","name":"","argumentsDelta":"}"}}"#
            )
        );
        let next = row.replace(r#""seq0":0"#, r#""seq0":2"#).replace(r#""name":"n","#, "");
        assert_eq!(records(&[row, &next]).matches(r#""type""#).count(), 2, "with a name and without one");
    }
}
