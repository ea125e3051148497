//! The fast way to check a record: one pass over the spelling that writers use.
//!
//! Everything here gives `None` when a record is spelled otherwise or breaks a rule; `general` then reads it again and
//! decides which. So nothing here has to name faults, and nothing accepts what `general` would refuse.

use super::arrays::{fragments, gaps};
use super::chunk::RawChunk;
use super::fragment::Fragment;
use super::lazy::{Peeked, PeekedRun};
use super::record::{Head, RunKind, RunSlot, Slot, Table};
use super::value::value_end;
use crate::json::{Kind, SAFE_INTEGER_MAX, Tape};

/// The record that starts at `at`, and where it ends.
///
/// On `None` the table may have grown.
pub(super) fn record<'a>(
    text: &'a str,
    at: usize,
    depth_max: u32,
    tape: &mut Tape,
    table: &mut Table,
) -> Option<(Slot<'a>, usize)> {
    let mut cursor = Cursor { text, at };
    cursor.literal(b"{\"type\":\"")?;
    let slot = if cursor.literal(b"chunk\",\"time\":").is_some() {
        raw(&mut cursor, depth_max, tape)?
    } else {
        run(&mut cursor, table)?
    };
    Some((slot, cursor.at))
}

fn raw<'a>(cursor: &mut Cursor<'a>, depth_max: u32, tape: &mut Tape) -> Option<Slot<'a>> {
    let (time, json) = raw_chunk(cursor)?;
    // The record and the stream around the chunk are two levels.
    let chunk = tape.parse(json.as_bytes(), depth_max.saturating_sub(2)).ok()?;
    (chunk.kind() == Kind::Object && chunk.is_lossless())
        .then_some(Slot::Raw { time, chunk: RawChunk::new(json) })
}

/// The time and the chunk of a raw record, of which nothing but the extent is checked.
fn raw_chunk<'a>(cursor: &mut Cursor<'a>) -> Option<(i64, &'a str)> {
    let time = cursor.integer()?;
    cursor.literal(b",\"chunk\":")?;
    let end = value_end(cursor.text.as_bytes(), cursor.at)?;
    let json = cursor.text.get(cursor.at..end)?;
    cursor.at = end;
    cursor.literal(b"}")?;
    Some((time, json))
}

fn run<'a>(cursor: &mut Cursor<'a>, table: &mut Table) -> Option<Slot<'a>> {
    let (kind, time0, index) = before_gaps(cursor)?;
    let first = table.members.len();
    let (end, wide) = gaps(cursor.text.as_bytes(), cursor.at, time0, table)?;
    cursor.at = end;
    let (id, name) = after_gaps(cursor, kind)?;
    let start = cursor.at;
    let members = table.members.get_mut(first..)?;
    let count = members.len();
    cursor.at = fragments(cursor.text.as_bytes(), start, members)?;
    let fragments = cursor.text.get(start..cursor.at)?;
    cursor.literal(b"}")?;
    let head = Head { kind, time0, index, id, name };
    Some(Slot::Run(RunSlot { head, fragments, loose: false, first, count, wide }))
}

fn before_gaps(cursor: &mut Cursor<'_>) -> Option<(RunKind, i64, u64)> {
    let kind = [RunKind::Text, RunKind::Reasoning, RunKind::ToolCall]
        .into_iter()
        .find(|kind| cursor.literal(kind.name().as_bytes()).is_some())?;
    cursor.literal(b"\",\"time0\":")?;
    let time0 = cursor.integer()?;
    cursor.literal(b",\"index\":")?;
    let index = u64::try_from(cursor.integer()?).ok()?;
    cursor.literal(b",\"dt\":[")?;
    Some((kind, time0, index))
}

fn after_gaps<'a>(cursor: &mut Cursor<'a>, kind: RunKind) -> Option<(Fragment<'a>, Option<Fragment<'a>>)> {
    if kind != RunKind::ToolCall {
        cursor.literal(b",\"texts\":[")?;
        return Some((Fragment::new(""), None));
    }
    cursor.literal(b",\"id\":\"")?;
    let id = cursor.word()?;
    let mut name = None;
    if cursor.literal(b",\"name\":\"").is_some() {
        name = Some(cursor.word()?);
    }
    cursor.literal(b",\"args\":[")?;
    Some((id, name))
}

/// The record that starts at `at`, looked at no further than to its gaps, and the place to go on from: the end of a raw
/// record, the bracket before a run's fragments.
pub(super) fn peek(text: &str, at: usize) -> Option<(Peeked<'_>, usize)> {
    let mut cursor = Cursor { text, at };
    cursor.literal(b"{\"type\":\"")?;
    if cursor.literal(b"chunk\",\"time\":").is_some() {
        let (time, json) = raw_chunk(&mut cursor)?;
        return Some((Peeked::Raw { time, chunk: RawChunk::new(json) }, cursor.at));
    }
    let (kind, time0, index) = before_gaps(&mut cursor)?;
    let start = cursor.at;
    let end = start.saturating_add(memchr::memchr(b']', cursor.rest())?);
    let gaps = text.get(start..end)?;
    cursor.at = end.saturating_add(1);
    let (id, name) = after_gaps(&mut cursor, kind)?;
    let run =
        PeekedRun { head: Head { kind, time0, index, id, name }, gaps, fragments: text.get(cursor.at..)? };
    Some((Peeked::Run(run), cursor.at.saturating_sub(1)))
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Steps over `expected`, if that is what comes next.
    fn literal(&mut self, expected: &[u8]) -> Option<()> {
        self.rest().starts_with(expected).then(|| self.at = self.at.saturating_add(expected.len()))
    }

    /// Steps over a safe integer in its canonical spelling, which negative zero does not have.
    fn integer(&mut self) -> Option<i64> {
        let (n, len) = integer(self.rest())?;
        self.at = self.at.saturating_add(len);
        Some(n)
    }

    /// Steps over the rest of a string literal that is neither empty nor has escapes.
    fn word(&mut self) -> Option<Fragment<'a>> {
        let len = memchr::memchr2(b'"', b'\\', self.rest())?;
        let end = self.at.saturating_add(len);
        let word = self.text.get(self.at..end)?;
        self.at = end;
        self.literal(b"\"")?;
        let is_valid = !word.is_empty() && !word.bytes().any(|byte| byte < 0x20);
        is_valid.then_some(Fragment::new(word))
    }
}

/// The safe integer that `text` begins with, in its canonical spelling, and the length of that.
pub(super) fn integer(text: &[u8]) -> Option<(i64, usize)> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let len = digits.iter().take(17).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = digits.get(..len)?;
    if len > 16 || len == 0 || (digits.first() == Some(&b'0') && (len > 1 || negative)) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |n, digit| {
        n.wrapping_mul(10).wrapping_add(i64::from(digit.wrapping_sub(b'0'))) // 16 digits at most
    });
    if magnitude > SAFE_INTEGER_MAX {
        return None;
    }
    let n = if negative { magnitude.wrapping_neg() } else { magnitude };
    Some((n, len.saturating_add(usize::from(negative))))
}
