use std::borrow::BorrowMut;

use super::chunk::{Chunk, Timed};
use super::fault::PushFault;
use super::general::safe_integer;
use super::open::{Call, Open, Word};
use super::record::RunKind;
use crate::json::{SAFE_INTEGER_MAX, Tape};
use crate::limits::Limits;
use crate::units::UnixMs;

/// Turns the chunks of a model attempt into the compact records that its settlement carries.
///
/// Consecutive deltas of one kind and block become one run: the first time, the exact gaps, one string a delta. Anything
/// else stays whole and ends the run before it. The records are JSON from the start: what is complete stands in the
/// buffer, and only the open run is kept apart, in two strips of text. Once those have grown to the longest run, a push
/// allocates nothing but what the buffer needs.
///
/// [`Accumulator::new`] owns its buffer. [`Accumulator::with`] can also borrow one, to write a settlement where it is
/// going to be stored.
///
/// ```
/// use seslog::stream::Accumulator;
/// use seslog::units::UnixMs;
///
/// let mut stream = Accumulator::new();
/// stream.push_text(UnixMs::new(1000), 0, "Hel")?;
/// stream.push_text(UnixMs::new(1007), 0, "lo")?;
/// assert_eq!(stream.snapshot(), r#"[{"type":"text-chunks","time0":1000,"index":0,"dt":[7],"texts":["Hel","lo"]}]"#);
/// # Ok::<_, seslog::stream::PushFault>(())
/// ```
///
/// Spec: `format-spec/04-rows.md`, "Accumulating a stream".
#[derive(Debug)]
pub struct Accumulator<B = Vec<u8>> {
    out: B,
    start: usize,
    scratch: Scratch,
    len: usize,
}

/// Memory of an [`Accumulator`] that the next one can use again.
#[derive(Debug, Default)]
pub struct Scratch {
    tape: Tape,
    open: Open,
}

impl Accumulator {
    /// An empty stream with a buffer of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Vec::new(), Scratch::default())
    }
}

impl Default for Accumulator {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: BorrowMut<Vec<u8>>> Accumulator<B> {
    /// An empty stream whose JSON is appended to `out`, with the memory of an earlier one.
    ///
    /// Until [`finish`](Self::finish) the buffer ends in an unfinished array.
    pub fn with(mut out: B, mut scratch: Scratch) -> Self {
        let start = out.borrow().len();
        out.borrow_mut().push(b'[');
        scratch.open.close();
        Self { out, start, scratch, len: 0 }
    }

    /// How many chunks were taken in.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was taken in yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a chunk in and returns what assembly and publication must use. O(bytes).
    ///
    /// A delta keeps only the members of its kind in the records; the returned chunk keeps all. A raw chunk that is a
    /// delta is compacted like any other.
    ///
    /// # Errors
    /// [`PushFault`]; nothing has changed then, the open run included.
    #[inline]
    pub fn push<'c>(&mut self, time: UnixMs, chunk: Chunk<'c>) -> Result<Timed<'c>, PushFault> {
        let ms = safe(time)?;
        let out = self.out.borrow_mut();
        let open = &mut self.scratch.open;
        match chunk {
            Chunk::TextDelta { index, text } => {
                open.delta(
                    out,
                    self.start,
                    ms,
                    (RunKind::Text, safe_index(index)?),
                    None,
                    Word::Spelled(text),
                );
            }
            Chunk::ReasoningDelta { index, text } => {
                open.delta(
                    out,
                    self.start,
                    ms,
                    (RunKind::Reasoning, safe_index(index)?),
                    None,
                    Word::Spelled(text),
                );
            }
            Chunk::ToolCallDelta { index, id, name, arguments } => {
                let call = Call { id: Word::Spelled(id), name: name.map(Word::Spelled) };
                open.call_delta(out, self.start, ms, safe_index(index)?, call, Word::Spelled(arguments));
            }
            Chunk::Raw(raw) => {
                let json = raw.json().as_bytes();
                let node = self.scratch.tape.parse(json, u32::MAX)?;
                open.node(out, self.start, ms, node, raw)?;
            }
        }
        self.len = self.len.wrapping_add(1);
        Ok(Timed { time, chunk })
    }

    /// Takes in a text delta, given as the text itself.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_text(&mut self, time: UnixMs, index: u64, text: &str) -> Result<(), PushFault> {
        self.push_plain(time, (RunKind::Text, index), None, text)
    }

    /// Takes in a reasoning delta, given as the text itself.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_reasoning(&mut self, time: UnixMs, index: u64, text: &str) -> Result<(), PushFault> {
        self.push_plain(time, (RunKind::Reasoning, index), None, text)
    }

    /// Takes in a tool-call delta, given as its parts themselves.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_tool_call(
        &mut self,
        time: UnixMs,
        index: u64,
        id: &str,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), PushFault> {
        let call = Call { id: Word::Plain(id), name: name.map(Word::Plain) };
        self.push_plain(time, (RunKind::ToolCall, index), Some(call), arguments)
    }

    #[inline]
    fn push_plain(
        &mut self,
        time: UnixMs,
        (kind, index): (RunKind, u64),
        call: Option<Call<'_>>,
        text: &str,
    ) -> Result<(), PushFault> {
        let (ms, index) = (safe(time)?, safe_index(index)?);
        let (out, open) = (self.out.borrow_mut(), &mut self.scratch.open);
        match call {
            None => open.delta(out, self.start, ms, (kind, index), None, Word::Plain(text)),
            Some(call) => open.call_delta(out, self.start, ms, index, call, Word::Plain(text)),
        }
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Takes in a chunk that is JSON text, and returns what assembly and publication must use: a typed delta if it is
    /// one without other members, the text otherwise.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_json<'c>(&mut self, time: UnixMs, chunk: &'c [u8]) -> Result<Timed<'c>, PushFault> {
        let ms = safe(time)?;
        let node = self.scratch.tape.parse(chunk, Limits::DEFAULT.nesting_max)?;
        let chunk = self.scratch.open.snapshot(self.out.borrow_mut(), self.start, ms, Some(node), chunk)?;
        self.len = self.len.wrapping_add(1);
        Ok(Timed { time, chunk })
    }

    /// [`push_json`](Self::push_json) for the JSON text of an object with the members `time` and `chunk`.
    ///
    /// # Errors
    /// As [`push`](Self::push); an object without `chunk` has one that is not lossless.
    pub fn push_timed_json<'c>(&mut self, timed: &'c [u8]) -> Result<Timed<'c>, PushFault> {
        let node = self.scratch.tape.parse(timed, Limits::DEFAULT.nesting_max)?;
        let ms = node.get("time").and_then(safe_integer).ok_or(PushFault::Time)?;
        let chunk = node.get("chunk");
        let chunk = self.scratch.open.snapshot(self.out.borrow_mut(), self.start, ms, chunk, timed)?;
        self.len = self.len.wrapping_add(1);
        Ok(Timed { time: UnixMs::new(ms), chunk })
    }

    /// The records so far, as a JSON array of its own. May be taken at any moment, closes no run, and never changes.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let mut out = Vec::new();
        self.write_snapshot(&mut out);
        String::from_utf8(out).expect("all that is written is UTF-8")
    }

    /// Appends [`snapshot`](Self::snapshot) to `to`.
    pub fn write_snapshot(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(self.out.borrow().get(self.start..).unwrap_or_default());
        self.scratch.open.write(to, start);
        to.push(b']');
    }

    /// Completes the array, and returns the buffer and the memory.
    pub fn finish(mut self) -> (B, Scratch) {
        let out = self.out.borrow_mut();
        self.scratch.open.write(out, self.start);
        out.push(b']');
        self.scratch.open.close();
        (self.out, self.scratch)
    }

    /// Takes everything back that was written to the buffer, and returns it and the memory.
    pub fn abandon(mut self) -> (B, Scratch) {
        self.out.borrow_mut().truncate(self.start);
        (self.out, self.scratch)
    }
}

fn safe(time: UnixMs) -> Result<i64, PushFault> {
    let ms = time.get();
    if ms.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs() { Ok(ms) } else { Err(PushFault::Time) }
}

fn safe_index(index: u64) -> Result<u64, PushFault> {
    if index <= SAFE_INTEGER_MAX.unsigned_abs() { Ok(index) } else { Err(PushFault::Index) }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::RawChunk;
    use super::super::fragment::Fragment;
    use super::*;

    fn ms(time: i64) -> UnixMs {
        UnixMs::new(time)
    }

    #[test]
    fn times_and_indexes_are_safe_integers() {
        let mut stream = Accumulator::new();
        for time in [SAFE_INTEGER_MAX + 1, -SAFE_INTEGER_MAX - 1, i64::MIN, i64::MAX] {
            assert_eq!(stream.push_text(ms(time), 0, "a"), Err(PushFault::Time));
        }
        let index = SAFE_INTEGER_MAX.unsigned_abs();
        assert_eq!(stream.push_reasoning(ms(0), index + 1, "a"), Err(PushFault::Index));
        assert_eq!(stream.push_tool_call(ms(0), u64::MAX, "c", None, ""), Err(PushFault::Index));
        assert_eq!((stream.len(), stream.is_empty(), stream.snapshot()), (0, true, "[]".to_owned()));
        stream.push_text(ms(-SAFE_INTEGER_MAX), index, "a").unwrap();
        stream.push_text(ms(0), index, "b").unwrap();
        stream.push_text(ms(SAFE_INTEGER_MAX), index, "c").unwrap();
        let expected = concat!(
            r#"[{"type":"text-chunks","time0":-9007199254740991,"index":9007199254740991,"#,
            r#""dt":[9007199254740991,9007199254740991],"texts":["a","b","c"]}]"#
        );
        assert_eq!((stream.len(), stream.snapshot().as_str()), (3, expected));
    }

    #[test]
    fn a_call_continues_only_with_the_same_id_and_name_by_value() {
        let records = |calls: &[(&str, Option<&str>)]| {
            let mut stream = Accumulator::new();
            for (id, name) in calls {
                stream.push_tool_call(ms(0), 0, id, *name, "").unwrap();
            }
            stream.snapshot().matches("tool-call-chunks").count()
        };
        assert_eq!(records(&[("c", Some("f")), ("c", Some("f"))]), 1);
        assert_eq!(records(&[("c", Some("f")), ("c", None)]), 2);
        assert_eq!(records(&[("c", None), ("c", Some("f"))]), 2);
        assert_eq!(records(&[("c", None), ("c", None)]), 1);
        assert_eq!(records(&[("c", Some("f")), ("c", Some("g"))]), 2);
        assert_eq!(records(&[("\n", None), ("\\n", None)]), 2);
        assert_eq!(records(&[("\\n", None), ("\n", None)]), 2);
        assert_eq!(records(&[("\"\n", None), ("\"\n", None)]), 1);
        let mut stream = Accumulator::new();
        stream.push_tool_call(ms(0), 0, "é\n", Some("f"), "").unwrap();
        let spelled = br#"{"type":"tool-call-delta","index":0,"id":"\u00e9\u000A","name":"\u0066","argumentsDelta":"x"}"#;
        stream.push_json(ms(1), spelled).unwrap();
        let expected = r#"[{"type":"tool-call-chunks","time0":0,"index":0,"dt":[1],"id":"é\n","name":"f","args":["","x"]}]"#;
        assert_eq!(stream.snapshot(), expected);
    }

    #[test]
    fn a_refused_push_leaves_the_open_run_open() {
        let mut stream = Accumulator::new();
        stream.push_text(ms(1), 0, "a").unwrap();
        let faults = [
            (&b"{"[..], None),
            (b"-0", Some(PushFault::NotLossless)),
            (b"[1e999]", Some(PushFault::NotLossless)),
            (b"null", Some(PushFault::NotAnObject)),
            (b"{\"type\":\"text-chunks\"}", Some(PushFault::UnknownType)),
            (b"{\"type\":\"text-delta\",\"index\":-1,\"text\":\"\"}", Some(PushFault::Index)),
            (b"{\"type\":\"text-delta\",\"index\":0,\"text\":null}", Some(PushFault::Text)),
            (b"{\"type\":\"tool-call-delta\",\"index\":0,\"argumentsDelta\":\"\"}", Some(PushFault::Id)),
            (b"{\"type\":\"tool-call-delta\",\"index\":0,\"id\":\"\",\"name\":null}", Some(PushFault::Name)),
            (b"{\"type\":\"tool-call-delta\",\"index\":0,\"id\":\"\"}", Some(PushFault::Arguments)),
        ];
        for (chunk, expected) in faults {
            let fault = stream.push_json(ms(2), chunk).map(drop).unwrap_err();
            match expected {
                Some(expected) => assert_eq!(fault, expected),
                None => assert!(matches!(fault, PushFault::Syntax(_))),
            }
        }
        for timed in [&b"{\"chunk\":{}}"[..], b"{\"time\":\"1\",\"chunk\":{}}", b"[]"] {
            assert_eq!(stream.push_timed_json(timed).map(drop), Err(PushFault::Time));
        }
        assert_eq!(stream.push_timed_json(b"{\"time\":1}").map(drop), Err(PushFault::NotLossless));
        stream
            .push_timed_json(br#"{"time":3e0,"chunk":{"type":"text-delta","index":0,"text":"b"}}"#)
            .unwrap();
        let expected = r#"[{"type":"text-chunks","time0":1,"index":0,"dt":[2],"texts":["a","b"]}]"#;
        assert_eq!(stream.snapshot(), expected);
    }

    #[test]
    fn raw_chunks_are_stored_in_canonical_spelling_and_returned_as_they_are() {
        let mut stream = Accumulator::new();
        let usage = br#" {"usage" : {"b":1.50, "2":[ ]},"type":"us\u0061ge"} "#;
        let copy = stream.push_json(ms(1), usage).unwrap();
        let Chunk::Raw(copy) = copy.chunk else { panic!("{copy:?}") };
        assert_eq!(copy.json().as_bytes(), usage.trim_ascii());
        let raw = RawChunk::new(r#"{"type":"text-delta","index":0,"text":"\u0061"}"#);
        stream.push(ms(2), Chunk::Raw(raw)).unwrap();
        stream.push(ms(3), Chunk::TextDelta { index: 0, text: Fragment::new(r"\/") }).unwrap();
        let expected = concat!(
            r#"[{"type":"chunk","time":1,"chunk":{"usage":{"2":[],"b":1.5},"type":"usage"}},"#,
            r#"{"type":"text-chunks","time0":2,"index":0,"dt":[1],"texts":["a","/"]}]"#
        );
        assert_eq!(stream.snapshot(), expected);
    }

    #[test]
    fn a_borrowed_buffer_is_completed_or_left_as_it_was() {
        let mut buffer = b"{\"stream\":".to_vec();
        let mut stream = Accumulator::with(&mut buffer, Scratch::default());
        stream.push_text(ms(1), 0, "a").unwrap();
        stream.push_json(ms(2), b"{\"type\":\"finish\"}").unwrap();
        stream.push_tool_call(ms(3), 0, "", Some("f"), "\n").unwrap();
        let snapshot = stream.snapshot();
        let (_, scratch) = stream.finish();
        assert_eq!(buffer, format!("{{\"stream\":{snapshot}").as_bytes());
        let len = buffer.len();
        let mut stream = Accumulator::with(&mut buffer, scratch);
        stream.push_text(ms(1), 0, "b").unwrap();
        assert_eq!(
            stream.snapshot(),
            r#"[{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["b"]}]"#
        );
        stream.abandon();
        assert_eq!(buffer.len(), len);
        let (owned, _) = Accumulator::new().finish();
        assert_eq!(owned, b"[]");
    }
}
