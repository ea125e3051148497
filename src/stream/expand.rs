use std::iter::FusedIterator;
use std::slice;

use super::chunk::{Chunk, RawChunk, Timed};
use super::fault::StreamFault;
use super::fragment::Fragment;
use super::record::{Head, Members, Record, Run, RunKind, Slot, Table};
use super::value::{value_end, white_space};
use super::{general, scan};
use crate::json::{Tape, check};
use crate::limits::Limits;
use crate::units::UnixMs;

/// A checked stream: its records, and the chunks that they stand for.
///
/// Borrows all text from the JSON that it was read from. What it adds is one slot a record and 8 bytes a delta, so that
/// iterating decodes nothing twice.
#[derive(Debug, Default)]
pub struct Expansion<'a> {
    slots: Vec<Slot<'a>>,
    table: Table,
    len: usize,
}

/// Checks a stream, the JSON text of an array of records, as strictly as its readers in DSH do.
///
/// Every record has exactly the members of its type, in any order and spelling; nothing relates records to each other,
/// and a raw record's chunk may be any lossless object. Time O(bytes); the allocator is asked for the slots, a number of
/// times that does not depend on the number of deltas.
///
/// # Errors
/// [`StreamFault`]: the first bad record fails the whole stream.
///
/// Spec: `format-spec/04-rows.md`, "Stream records".
pub fn expand(stream: &[u8]) -> Result<Expansion<'_>, StreamFault> {
    expand_with(stream, Limits::DEFAULT.nesting_max)
}

/// [`expand`] for a stream nested at most `depth_max` levels deep, its own array counted.
///
/// # Errors
/// As [`expand`]; a stream that is nested deeper is not JSON here.
pub fn expand_with(stream: &[u8], depth_max: u32) -> Result<Expansion<'_>, StreamFault> {
    read(stream, depth_max, true)
}

/// [`expand`] without the shortcut for the usual spelling. It gives the same, slower.
///
/// # Errors
/// As [`expand`].
#[cfg(any(test, feature = "fuzzing"))]
pub fn expand_generally(stream: &[u8]) -> Result<Expansion<'_>, StreamFault> {
    read(stream, Limits::DEFAULT.nesting_max, false)
}

/// Levels of brackets that a run has, the stream's own included.
const RUN_DEPTH: u32 = 3;

fn read(stream: &[u8], depth_max: u32, fast: bool) -> Result<Expansion<'_>, StreamFault> {
    let Ok(text) = simdutf8::basic::from_utf8(stream) else {
        check(stream, depth_max)?;
        return Err(StreamFault::NotAnArray); // not reached: ill-formed UTF-8 fails the check
    };
    if depth_max < RUN_DEPTH {
        check(stream, depth_max)?;
    }
    Reader { text, depth_max, fast, tape: Tape::default(), expansion: Expansion::default() }.read()
}

struct Reader<'a> {
    text: &'a str,
    depth_max: u32,
    fast: bool,
    tape: Tape,
    expansion: Expansion<'a>,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Expansion<'a>, StreamFault> {
        let bytes = self.text.as_bytes();
        let mut at = white_space(bytes, 0);
        if bytes.get(at) != Some(&b'[') {
            return Err(self.syntax().unwrap_or(StreamFault::NotAnArray));
        }
        at = white_space(bytes, at.saturating_add(1));
        if bytes.get(at) == Some(&b']') {
            return self.end(at);
        }
        loop {
            let (slot, end) = self.record(at)?;
            let chunks = match &slot {
                Slot::Run(run) => run.count,
                Slot::Raw { .. } => 1,
            };
            self.expansion.len = self.expansion.len.saturating_add(chunks);
            self.expansion.slots.push(slot);
            at = white_space(bytes, end);
            match bytes.get(at) {
                Some(b',') => at = white_space(bytes, at.saturating_add(1)),
                Some(b']') => return self.end(at),
                _ => return Err(self.bad_array()),
            }
        }
    }

    /// The stream, whose closing bracket is at `at`.
    fn end(self, at: usize) -> Result<Expansion<'a>, StreamFault> {
        let end = white_space(self.text.as_bytes(), at.saturating_add(1));
        if end == self.text.len() { Ok(self.expansion) } else { Err(self.bad_array()) }
    }

    /// The record at `at`, and its end.
    fn record(&mut self, at: usize) -> Result<(Slot<'a>, usize), StreamFault> {
        let table = &mut self.expansion.table;
        let (members, wide) = (table.members.len(), table.wide.len());
        if self.fast
            && let Some(found) = scan::record(self.text, at, self.depth_max, &mut self.tape, table)
        {
            return Ok(found);
        }
        table.members.truncate(members);
        table.wide.truncate(wide);
        let Some((end, json)) = value_end(self.text.as_bytes(), at)
            .and_then(|end| self.text.get(at..end).map(|json| (end, json)))
        else {
            return Err(self.bad_array());
        };
        let fault = match self.tape.parse(json.as_bytes(), self.depth_max.saturating_sub(1)) {
            Ok(node) => match general::record(json, node, table) {
                Ok(slot) => return Ok((slot, end)),
                Err(fault) => StreamFault::Record { record: self.expansion.slots.len(), fault },
            },
            // What a tape cannot hold is a fault even where the text as a whole is JSON.
            Err(mut fault) => {
                fault.offset = fault.offset.saturating_add(at);
                StreamFault::Syntax(fault)
            }
        };
        Err(self.syntax().unwrap_or(fault))
    }

    /// The fault of a text that does not go on as an array does.
    fn bad_array(&self) -> StreamFault {
        self.syntax().unwrap_or(StreamFault::NotAnArray)
    }

    /// Why the text is not JSON, unless it is.
    fn syntax(&self) -> Option<StreamFault> {
        check(self.text.as_bytes(), self.depth_max).err().map(StreamFault::Syntax)
    }
}

impl<'a> Expansion<'a> {
    /// How many chunks the records stand for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The records in order.
    #[must_use]
    pub fn records(&self) -> Records<'_, 'a> {
        Records { slots: self.slots.iter(), table: &self.table }
    }

    /// The timed chunks in order, a chunk for each member of each run. O(1) each, allocates nothing.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'_, 'a> {
        let head = Head { kind: RunKind::Text, time0: 0, index: 0, id: Fragment::new(""), name: None };
        Chunks { head, members: Members::none(), records: self.records(), after: self.len }
    }

    /// Appends the records as a JSON array; see [`Record::write_json`].
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let mut separator = b'[';
        for record in self.records() {
            out.push(separator);
            separator = b',';
            record.write_json(out);
        }
        out.extend_from_slice(if self.is_empty() { b"[]" } else { b"]" });
    }
}

impl<'e, 'a> IntoIterator for &'e Expansion<'a> {
    type Item = Timed<'a>;
    type IntoIter = Chunks<'e, 'a>;

    fn into_iter(self) -> Chunks<'e, 'a> {
        self.chunks()
    }
}

/// Iterator over the records of a stream.
#[derive(Clone, Debug)]
pub struct Records<'e, 'a> {
    slots: slice::Iter<'e, Slot<'a>>,
    table: &'e Table,
}

impl<'e, 'a> Iterator for Records<'e, 'a> {
    type Item = Record<'e, 'a>;

    fn next(&mut self) -> Option<Record<'e, 'a>> {
        Some(match self.slots.next()? {
            Slot::Run(run) => Record::Run(Run::new(run, self.table)),
            Slot::Raw { time, chunk } => Record::Raw { time: UnixMs::new(*time), chunk: *chunk },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Records<'_, '_> {}
impl FusedIterator for Records<'_, '_> {}

/// Iterator over the timed chunks of a stream.
#[derive(Clone, Debug)]
pub struct Chunks<'e, 'a> {
    /// Of the run whose members are left.
    head: Head<'a>,
    members: Members<'e, 'a>,
    records: Records<'e, 'a>,
    /// How many chunks the records after that run stand for.
    after: usize,
}

/// What the next record gives.
enum Step<'e, 'a> {
    Raw(i64, RawChunk<'a>),
    Run(Head<'a>, Members<'e, 'a>),
}

/// Takes a record; by value, so that the iterator around it can stay in registers.
#[inline(never)]
fn next_record<'e, 'a>(mut records: Records<'e, 'a>) -> (Records<'e, 'a>, Option<Step<'e, 'a>>) {
    let step = records.slots.next().map(|slot| match slot {
        Slot::Raw { time, chunk } => Step::Raw(*time, *chunk),
        Slot::Run(run) => Step::Run(run.head, Members::new(run, records.table)),
    });
    (records, step)
}

impl<'a> Iterator for Chunks<'_, 'a> {
    type Item = Timed<'a>;

    #[inline]
    fn next(&mut self) -> Option<Timed<'a>> {
        loop {
            if let Some((time, text)) = self.members.next() {
                return Some(Timed { time, chunk: self.head.chunk(text) });
            }
            let (records, step) = next_record(self.records.clone());
            self.records = records;
            match step? {
                Step::Raw(time, chunk) => {
                    self.after = self.after.saturating_sub(1);
                    return Some(Timed { time: UnixMs::new(time), chunk: Chunk::Raw(chunk) });
                }
                Step::Run(head, members) => {
                    self.after = self.after.saturating_sub(members.len());
                    (self.head, self.members) = (head, members);
                }
            }
        }
    }

    /// Decides once a run what its members are, which [`next`](Self::next) has to do for each.
    #[inline]
    fn fold<T, F: FnMut(T, Timed<'a>) -> T>(self, init: T, mut f: F) -> T {
        let mut folded = fold_run(init, self.head, self.members, &mut f);
        for slot in self.records.slots {
            folded = match slot {
                Slot::Raw { time, chunk } => {
                    let time = UnixMs::new(*time);
                    f(folded, Timed { time, chunk: Chunk::Raw(*chunk) })
                }
                Slot::Run(run) => fold_run(folded, run.head, Members::new(run, self.records.table), &mut f),
            };
        }
        folded
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.members.len().saturating_add(self.after);
        (left, Some(left))
    }
}

#[inline]
fn fold_run<'a, T>(
    init: T,
    head: Head<'a>,
    members: Members<'_, 'a>,
    mut f: impl FnMut(T, Timed<'a>) -> T,
) -> T {
    match head.kind {
        RunKind::Text => members.fold(init, |folded, (time, text)| {
            f(folded, Timed { time, chunk: Chunk::TextDelta { index: head.index, text } })
        }),
        _ => members.fold(init, |folded, (time, text)| f(folded, Timed { time, chunk: head.chunk(text) })),
    }
}

impl ExactSizeIterator for Chunks<'_, '_> {}
impl FusedIterator for Chunks<'_, '_> {}

#[cfg(test)]
mod tests {
    use super::super::fault::RecordFault;
    use super::*;
    use crate::json::{SyntaxError, SyntaxErrorKind};

    fn fault(stream: &str) -> StreamFault {
        expand(stream.as_bytes()).unwrap_err()
    }

    const GOOD: &str = r#"{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["a"]}"#;

    #[test]
    fn what_is_not_json_is_said_to_be_that_even_after_a_bad_record() {
        let syntax = |offset, kind| StreamFault::Syntax(SyntaxError { offset, kind });
        assert_eq!(fault(""), syntax(0, SyntaxErrorKind::UnexpectedEnd));
        assert_eq!(fault("[1,]"), syntax(3, SyntaxErrorKind::Unexpected));
        assert_eq!(fault("[5"), syntax(2, SyntaxErrorKind::UnexpectedEnd));
        assert_eq!(fault("[]]"), syntax(2, SyntaxErrorKind::Trailing));
        assert_eq!(fault("[\"a\n\"]"), syntax(3, SyntaxErrorKind::Control));
        assert_eq!(fault(&format!("[{GOOD} {GOOD}]")), syntax(GOOD.len() + 2, SyntaxErrorKind::Unexpected));
        let not_utf8 = expand(b"[5,\"\xff\"]").unwrap_err();
        assert_eq!(not_utf8, syntax(4, SyntaxErrorKind::NotUtf8));
        assert_eq!(fault("[5]"), StreamFault::Record { record: 0, fault: RecordFault::NotAnObject });
        for stream in ["{}", "null", " \"[]\" ", "7"] {
            assert_eq!(fault(stream), StreamFault::NotAnArray);
        }
    }

    #[test]
    fn nesting_is_bounded_as_for_any_text() {
        let raw = r#"[{"type":"chunk","time":1,"chunk":{"a":[]}}]"#;
        for (stream, depth) in [("[]", 1), (&format!("[{GOOD}]"), 3), (&format!("[ {GOOD}]"), 3), (raw, 4)] {
            assert!(expand_with(stream.as_bytes(), depth).is_ok(), "{stream}");
            let fault = expand_with(stream.as_bytes(), depth - 1).unwrap_err();
            let StreamFault::Syntax(fault) = fault else { panic!("{fault}") };
            assert_eq!(
                (fault.kind, check(stream.as_bytes(), depth - 1)),
                (SyntaxErrorKind::TooDeep, Err(fault))
            );
        }
    }

    #[test]
    fn rules_are_checked_in_their_order() {
        // Each run breaks one rule less, from the first to the last that there is.
        let faults = [
            (
                r#"{"type":"tool-call-chunk","time0":"","index":-1,"dt":[""],"id":"","name":"","args":[]}"#,
                RecordFault::UnknownType,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":"","index":-1,"dt":[""],"id":"","name":"","args":[],"x":1}"#,
                RecordFault::MemberSet,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":"","index":-1,"dt":[""],"id":"","name":"","args":[]}"#,
                RecordFault::Fragments,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":"","index":-1,"dt":[""],"id":"","name":"","args":["a"]}"#,
                RecordFault::Id,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":"","index":-1,"dt":[""],"id":"c","name":"","args":["a"]}"#,
                RecordFault::Name,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":"","index":-1,"dt":[""],"id":"c","name":"f","args":["a"]}"#,
                RecordFault::Time,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":1,"index":-1,"dt":[""],"id":"c","name":"f","args":["a"]}"#,
                RecordFault::Index,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":1,"index":1,"dt":[""],"id":"c","name":"f","args":["a"]}"#,
                RecordFault::Gaps,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":1,"index":1,"dt":[9007199254740991],"id":"c","name":"f","args":["a"]}"#,
                RecordFault::Gaps,
            ),
            (
                r#"{"type":"tool-call-chunks","time0":1,"index":1,"dt":[9007199254740991],"id":"c","name":"f","args":["a","b"]}"#,
                RecordFault::TimeRange,
            ),
            (r#"{"type":"chunk","time":1.5,"chunk":[-0]}"#, RecordFault::Time),
            (r#"{"type":"chunk","time":1,"chunk":[-0]}"#, RecordFault::RawChunk),
        ];
        for (record, expected) in faults {
            let expected = StreamFault::Record { record: 1, fault: expected };
            assert_eq!(fault(&format!("[{GOOD},{record},5]")), expected, "{record}");
        }
    }

    #[test]
    fn records_show_what_their_members_share() {
        let json = concat!(
            r#"[{"type":"tool-call-chunks","time0":-3,"index":7,"dt":[1,2],"id":"c","name":"f","args":["{","",  "}"]},"#,
            r#"{"type":"chunk","time":4,"chunk":{}}]"#
        );
        let stream = expand(json.as_bytes()).unwrap();
        assert_eq!(
            (stream.len(), stream.is_empty(), stream.records().len(), stream.chunks().len()),
            (4, false, 2, 4)
        );
        let mut records = stream.records();
        let Some(Record::Run(run)) = records.next() else { panic!("a run") };
        assert_eq!(
            (run.kind(), run.time0(), run.index(), run.len()),
            (RunKind::ToolCall, UnixMs::new(-3), 7, 3)
        );
        assert!(run.id().is_some_and(|id| id.eq_str("c")) && run.name().is_some_and(|name| name.eq_str("f")));
        let members: Vec<_> = run.members().map(|(time, text)| (time.get(), text.raw())).collect();
        assert_eq!(members, [(-3, "{"), (-2, ""), (0, "}")]);
        assert!(matches!(records.next(), Some(Record::Raw { .. })) && records.next().is_none());
        let mut chunks = stream.chunks();
        assert_eq!((chunks.next().map(|timed| timed.time.get()), chunks.len()), (Some(-3), 3));
        let run = expand(GOOD.as_bytes()).unwrap_err();
        assert_eq!(run, StreamFault::NotAnArray);
        let text = format!("[{GOOD}]");
        let stream = expand(text.as_bytes()).unwrap();
        let Some(Record::Run(run)) = stream.records().next() else { panic!("a run") };
        assert_eq!((run.id(), run.name()), (None, None));
    }

    #[test]
    fn an_empty_stream_is_one() {
        for json in ["[]", " [ \n ] "] {
            let stream = expand(json.as_bytes()).unwrap();
            let mut out = Vec::new();
            stream.write_json(&mut out);
            assert_eq!(
                (stream.len(), stream.is_empty(), stream.chunks().count(), &out[..]),
                (0, true, 0, &b"[]"[..])
            );
        }
    }
}
