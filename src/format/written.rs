//! Rows of deltas spelled exactly as the original writes them, read without an index of their values.
//!
//! Most rows of an old log are such rows. What is accepted here means the same to the general reader (a test compares
//! the two); every other spelling, however valid, is left to it.

use super::physical::{RunKind, is_safe};

/// One delta or a packed row of them. All text is canonical JSON, ready to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deltas<'t> {
    pub(super) kind: RunKind,
    /// Whether the row is a packed one; it may hold a single delta all the same.
    pub(super) is_packed: bool,
    pub(super) seq0: u64,
    pub(super) last_seq: u64,
    pub(super) time0: i64,
    pub(super) last_time: i64,
    pub(super) turn: u64,
    pub(super) step: u64,
    pub(super) index: u64,
    /// The gaps, parted by commas; empty for one delta.
    pub(super) gaps: &'t [u8],
    /// The fragments as strings, parted by commas.
    pub(super) fragments: &'t [u8],
    /// The id of a tool call as a string; empty for none.
    pub(super) id: &'t [u8],
    /// Its name likewise. Never the empty string.
    pub(super) name: &'t [u8],
}

impl<'t> Deltas<'t> {
    /// Reads a line, or leaves it to the general reader. Time O(bytes), allocates nothing.
    pub(super) fn read(line: &'t [u8]) -> Option<Self> {
        let mut scan = Scan { rest: line };
        scan.literal(br#"{"type":""#)?;
        let row = if scan.literal(br#"assistant/chunk","seq":"#).is_some() {
            scan.one()?
        } else if scan.literal(br#"text-chunks","seq0":"#).is_some() {
            scan.packed(RunKind::Text)?
        } else if scan.literal(br#"reasoning-chunks","seq0":"#).is_some() {
            scan.packed(RunKind::Reasoning)?
        } else {
            scan.literal(br#"tool-call-chunks","seq0":"#)?;
            scan.packed(RunKind::ToolCall)?
        };
        let complete = scan.rest.is_empty() && simdutf8::basic::from_utf8(line).is_ok();
        complete.then_some(row)
    }
}

/// Any chunk event, its chunk as text that nobody has looked into.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenChunk<'t> {
    pub(super) seq: u64,
    pub(super) time: i64,
    pub(super) turn: u64,
    pub(super) step: u64,
    /// If this is one JSON value, the line is a chunk event.
    pub(super) chunk: &'t [u8],
}

impl<'t> WrittenChunk<'t> {
    /// Reads a line, or leaves it to the general reader. Time O(1).
    pub(super) fn read(line: &'t [u8]) -> Option<Self> {
        let mut scan = Scan { rest: line };
        scan.literal(br#"{"type":"assistant/chunk","seq":"#)?;
        let (seq, time, turn, step) = scan.place()?;
        let chunk = scan.rest.strip_suffix(b"}}")?;
        Some(Self { seq, time, turn, step, chunk })
    }
}

/// What is left of a line. Every method takes what it names, or fails.
struct Scan<'t> {
    rest: &'t [u8],
}

impl<'t> Scan<'t> {
    /// The rest of a chunk event with a delta.
    fn one(&mut self) -> Option<Deltas<'t>> {
        let (seq, time, turn, step) = self.place()?;
        self.literal(br#"{"type":""#)?;
        let kind = if self.literal(b"text").is_some() {
            RunKind::Text
        } else if self.literal(b"reasoning").is_some() {
            RunKind::Reasoning
        } else {
            self.literal(b"tool-call")?;
            RunKind::ToolCall
        };
        self.literal(br#"-delta","index":"#)?;
        let index = self.count()?;
        let (id, name) = self.call(kind)?;
        if kind == RunKind::ToolCall {
            self.literal(br#","argumentsDelta":"#)?;
        } else {
            self.literal(br#","text":"#)?;
        }
        let fragments = self.string()?;
        self.literal(b"}}}")?;
        Some(Deltas {
            kind,
            is_packed: false,
            seq0: seq,
            last_seq: seq,
            time0: time,
            last_time: time,
            turn,
            step,
            index,
            gaps: &[],
            fragments,
            id,
            name,
        })
    }

    /// Seq, time, turn and step of a chunk event, up to its chunk.
    fn place(&mut self) -> Option<(u64, i64, u64, u64)> {
        let seq = self.count()?;
        self.literal(br#","time":"#)?;
        let time = self.int()?;
        self.literal(br#","data":{"turn":"#)?;
        let turn = self.count()?;
        self.literal(br#","step":"#)?;
        let step = self.count()?;
        self.literal(br#","chunk":"#)?;
        Some((seq, time, turn, step))
    }

    /// The rest of a packed row.
    fn packed(&mut self, kind: RunKind) -> Option<Deltas<'t>> {
        let seq0 = self.count()?;
        self.literal(br#","time0":"#)?;
        let time0 = self.int()?;
        self.literal(br#","data":{"turn":"#)?;
        let turn = self.count()?;
        self.literal(br#","step":"#)?;
        let step = self.count()?;
        self.literal(br#","index":"#)?;
        let index = self.count()?;
        self.literal(br#","dt":["#)?;
        let (mut last_time, mut later) = (time0, 0_u64);
        let gaps = self.list(|scan| {
            last_time = last_time.checked_add(scan.int()?).filter(|time| is_safe(*time))?;
            later = later.checked_add(1)?;
            Some(())
        })?;
        let (id, name) = self.call(kind)?;
        if kind == RunKind::ToolCall {
            self.literal(br#","args":["#)?;
        } else {
            self.literal(br#","texts":["#)?;
        }
        let mut members = 0_u64;
        let fragments = self.list(|scan| {
            members = members.checked_add(1)?;
            scan.string().map(|_| ())
        })?;
        self.literal(b"}}")?;
        let last_seq = seq0.checked_add(later)?;
        let fits = later.checked_add(1) == Some(members) && i64::try_from(last_seq).is_ok_and(is_safe);
        let row = Deltas {
            kind,
            is_packed: true,
            seq0,
            last_seq,
            time0,
            last_time,
            turn,
            step,
            index,
            gaps,
            fragments,
            id,
            name,
        };
        fits.then_some(row)
    }

    /// Id and name of a tool call; nothing of other deltas.
    fn call(&mut self, kind: RunKind) -> Option<(&'t [u8], &'t [u8])> {
        if kind != RunKind::ToolCall {
            return Some((&[], &[]));
        }
        self.literal(br#","id":"#)?;
        let id = self.string()?;
        let name = if self.literal(br#","name":"#).is_some() { self.string()? } else { &[] };
        let empty = br#""""#;
        (id != empty && name != empty).then_some((id, name))
    }

    /// A text of fixed length: compared in words instead of by a call.
    #[inline]
    fn literal<const N: usize>(&mut self, text: &[u8; N]) -> Option<()> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        if head != text {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    /// A count of at most 15 digits.
    fn count(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at_checked(digits)?;
        let fits = (1..=15).contains(&digits) && (digits == 1 || number.first() != Some(&b'0'));
        let value = number.iter().fold(0_u64, |value, digit| {
            value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        });
        self.rest = rest;
        fits.then_some(value)
    }

    /// An integer of at most 15 digits, not -0.
    fn int(&mut self) -> Option<i64> {
        let negative = self.literal(b"-").is_some();
        let magnitude = i64::try_from(self.count()?).ok()?;
        if negative { magnitude.checked_neg().filter(|n| *n != 0) } else { Some(magnitude) }
    }

    /// A string with no escapes but those that `JSON.stringify` writes short, its quotes included.
    fn string(&mut self) -> Option<&'t [u8]> {
        let mut at = 1_usize;
        if self.rest.first() != Some(&b'"') {
            return None;
        }
        loop {
            match CLASS.get(usize::from(*self.rest.get(at)?))? {
                Class::Plain => at = at.checked_add(1)?,
                Class::Quote => break,
                Class::Backslash => {
                    let escaped = self.rest.get(at.checked_add(1)?)?;
                    if !matches!(escaped, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') {
                        return None;
                    }
                    at = at.checked_add(2)?;
                }
                Class::Control => return None,
            }
        }
        let (text, rest) = self.rest.split_at_checked(at.checked_add(1)?)?;
        self.rest = rest;
        Some(text)
    }

    /// The items of a list whose bracket was taken, and its end.
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<&'t [u8]> {
        let start = self.rest;
        if self.literal(b"]").is_some() {
            return Some(&[]);
        }
        loop {
            item(self)?;
            if self.literal(b",").is_none() {
                let len = start.len().checked_sub(self.rest.len())?;
                self.literal(b"]")?;
                return start.get(..len);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Class {
    Plain,
    Quote,
    Backslash,
    Control,
}

static CLASS: [Class; 256] = {
    let mut table = [Class::Plain; 256];
    let (controls, rest) = table.split_at_mut(0x20);
    let mut at = 0;
    while let Some(class) = controls.split_at_mut(at).1.first_mut() {
        *class = Class::Control;
        at += 1;
    }
    if let [quote, ..] = rest.split_at_mut(b'"' as usize - 0x20).1 {
        *quote = Class::Quote;
    }
    if let [backslash, ..] = rest.split_at_mut(b'\\' as usize - 0x20).1 {
        *backslash = Class::Backslash;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::attempt::Attempt;
    use crate::format::physical::{Envelope, PhysicalRow, read_row};
    use crate::format::v1::ChunkEnvelope;
    use crate::json::{Node, Number, Tape};
    use crate::session::SeqList;

    const ROWS: [&str; 6] = [
        concat!(
            r#"{"type":"assistant/chunk","seq":7,"time":-12,"data":{"turn":1,"step":2,"#,
            r#""chunk":{"type":"text-delta","index":0,"text":"a\n\"ü"}}}"#
        ),
        concat!(
            r#"{"type":"assistant/chunk","seq":0,"time":0,"data":{"turn":1,"step":2,"#,
            r#""chunk":{"type":"reasoning-delta","index":3,"text":""}}}"#
        ),
        concat!(
            r#"{"type":"assistant/chunk","seq":7,"time":1790000000000,"data":{"turn":1,"step":2,"#,
            r#""chunk":{"type":"tool-call-delta","index":0,"id":"c","name":"n","argumentsDelta":"{\"a\":"}}}"#
        ),
        concat!(
            r#"{"type":"tool-call-chunks","seq0":7,"time0":5,"data":{"turn":1,"step":2,"index":0,"#,
            r#""dt":[3,-1],"id":"c","args":["{","","}"]}}"#
        ),
        concat!(
            r#"{"type":"text-chunks","seq0":7,"time0":5,"data":{"turn":1,"step":2,"index":0,"#,
            r#""dt":[],"texts":["\\"]}}"#
        ),
        concat!(
            r#"{"type":"reasoning-chunks","seq0":7,"time0":5,"data":{"turn":1,"step":2,"index":0,"#,
            r#""dt":[0,20],"texts":["a","b\tc","日本"]}}"#
        ),
    ];

    /// The attempt that a row makes of nothing, in the general way; `None` if the row is no valid one of deltas.
    fn general(line: &[u8]) -> Option<(u64, u64, i64, u64, u64, Vec<u8>)> {
        let mut tape = Tape::default();
        let row = tape.parse(line, 100).ok()?;
        let mut attempt = Attempt::default();
        let event = Envelope::of(row)?;
        let first = match read_row(&event, &mut SeqList::default()).ok()? {
            PhysicalRow::Run(run) => {
                attempt.restart(run.turn, run.step);
                attempt.push_run(&run);
                run.seq0
            }
            PhysicalRow::Event => {
                let is_chunk = event.type_name()?.eq_str("assistant/chunk") && event.ignorable.is_none();
                let seq =
                    event.seq.and_then(Node::as_number).and_then(Number::as_count).filter(|_| is_chunk)?;
                let envelope = ChunkEnvelope::read(&event).ok()?;
                attempt.restart(envelope.turn, envelope.step);
                attempt.push_chunk(seq, &envelope.chunk(seq).ok()?);
                seq
            }
        };
        let stream = attempt.stream.records().to_vec();
        Some((first, attempt.last_seq, attempt.last_time, attempt.turn, attempt.step, stream))
    }

    fn as_written(line: &[u8]) -> Option<(u64, u64, i64, u64, u64, Vec<u8>)> {
        let row = Deltas::read(line)?;
        let mut attempt = Attempt::default();
        attempt.restart(row.turn, row.step);
        attempt.push_deltas(&row);
        let stream = attempt.stream.records().to_vec();
        Some((row.seq0, attempt.last_seq, attempt.last_time, attempt.turn, attempt.step, stream))
    }

    #[test]
    fn rows_as_written_are_taken() {
        for row in ROWS {
            assert!(as_written(row.as_bytes()).is_some(), "{row}");
            assert_eq!(as_written(row.as_bytes()), general(row.as_bytes()), "{row}");
        }
    }

    #[test]
    fn every_changed_byte_is_left_alone_or_means_the_same() {
        let mut taken = 0;
        for row in ROWS {
            for at in 0..row.len() {
                for byte in [
                    0, b' ', b'"', b'\\', b'0', b'1', b'-', b'.', b'e', b',', b'[', b']', b'{', b'}', b'x',
                    0x80, 0xc3,
                ] {
                    for insert in [false, true] {
                        let mut changed = row.as_bytes().to_vec();
                        if insert {
                            changed.insert(at, byte);
                        } else {
                            changed[at] = byte;
                        }
                        if let Some(read) = as_written(&changed) {
                            taken += 1;
                            assert_eq!(
                                Some(read),
                                general(&changed),
                                "{}",
                                String::from_utf8_lossy(&changed)
                            );
                        }
                    }
                }
            }
        }
        assert!(taken > 1000, "{taken} changed rows were taken");
    }
}
