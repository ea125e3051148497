use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use super::chunk::{Chunk, RawChunk};
use super::fragment::Fragment;
use crate::json::{write_i64, write_u64};
use crate::units::UnixMs;

/// One record of a stream: a run of deltas, or a chunk kept whole.
///
/// Spec: `format-spec/04-rows.md`, "Stream records".
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Record<'e, 'a> {
    /// Consecutive deltas of one kind and block.
    Run(Run<'e, 'a>),
    /// Anything else.
    Raw {
        /// When it was taken in.
        time: UnixMs,
        /// What.
        chunk: RawChunk<'a>,
    },
}

impl Record<'_, '_> {
    /// Appends the record as JSON: members in the order in which streams are written, numbers and strings in canonical
    /// spelling, a raw chunk as it stands. Gives back the bytes of a record that was written so.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Run(run) => run.write_json(out),
            Self::Raw { time, chunk } => {
                write_raw_head(out, time);
                out.extend_from_slice(chunk.json().as_bytes());
                out.push(b'}');
            }
        }
    }
}

/// Appends a raw record up to its chunk.
pub(super) fn write_raw_head(out: &mut Vec<u8>, time: UnixMs) {
    out.extend_from_slice(b"{\"type\":\"chunk\",\"time\":");
    write_i64(out, time.get());
    out.extend_from_slice(b",\"chunk\":");
}

/// The kinds of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunKind {
    /// `text-chunks`.
    Text,
    /// `reasoning-chunks`.
    Reasoning,
    /// `tool-call-chunks`.
    ToolCall,
}

impl RunKind {
    /// Its `type` in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall => "tool-call-chunks",
        }
    }
}

/// What all members of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) kind: RunKind,
    pub(super) time0: i64,
    pub(super) index: u64,
    /// Empty unless it is a tool call.
    pub(super) id: Fragment<'a>,
    pub(super) name: Option<Fragment<'a>>,
}

impl<'a> Head<'a> {
    /// The delta that a member with `text` stands for.
    #[inline]
    pub(super) fn chunk(&self, text: Fragment<'a>) -> Chunk<'a> {
        let index = self.index;
        match self.kind {
            RunKind::Text => Chunk::TextDelta { index, text },
            RunKind::Reasoning => Chunk::ReasoningDelta { index, text },
            RunKind::ToolCall => {
                Chunk::ToolCallDelta { index, id: self.id, name: self.name, arguments: text }
            }
        }
    }
}

/// Appends a run's record, given what follows `dt` in a tool call and the insides of its two arrays.
pub(super) fn write_run(
    out: &mut Vec<u8>,
    (kind, time0, index): (RunKind, i64, u64),
    gaps: impl FnOnce(&mut Vec<u8>),
    call: impl FnOnce(&mut Vec<u8>),
    fragments: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.extend_from_slice(b"\",\"time0\":");
    write_i64(out, time0);
    out.extend_from_slice(b",\"index\":");
    write_u64(out, index);
    out.extend_from_slice(b",\"dt\":[");
    gaps(out);
    if kind == RunKind::ToolCall {
        out.extend_from_slice(b"],\"id\":");
        call(out);
        out.extend_from_slice(b",\"args\":[");
    } else {
        out.extend_from_slice(b"],\"texts\":[");
    }
    fragments(out);
    out.extend_from_slice(b"]}");
}

/// What was found out about a member of a run when the run was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// Milliseconds since the member before it; 0 for the first.
    pub(super) gap: i32,
    /// Where its closing quote is, in bytes from the start of the run's fragments.
    pub(super) end: u32,
}

/// A checked run; its members stand in the expansion's table.
#[derive(Clone, Debug)]
pub(super) struct RunSlot<'a> {
    pub(super) head: Head<'a>,
    /// The inside of `texts` or `args`, closing bracket included.
    pub(super) fragments: &'a str,
    /// Whether something other than one comma stands between fragments, or before the first.
    pub(super) loose: bool,
    pub(super) first: usize,
    pub(super) count: usize,
    /// Where the run's gaps are among the wide ones, if some gap does not fit into a [`Member`].
    pub(super) wide: Option<usize>,
}

/// A checked record.
#[derive(Clone, Debug)]
pub(super) enum Slot<'a> {
    Run(RunSlot<'a>),
    Raw { time: i64, chunk: RawChunk<'a> },
}

/// The members of all runs of a stream, in order.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) members: Vec<Member>,
    /// All gaps of the runs that have one outside of `i32`, 0 for first members.
    pub(super) wide: Vec<i64>,
}

/// A run of a checked stream.
#[derive(Clone, Copy)]
pub struct Run<'e, 'a> {
    slot: &'e RunSlot<'a>,
    table: &'e Table,
}

impl<'e, 'a> Run<'e, 'a> {
    pub(super) fn new(slot: &'e RunSlot<'a>, table: &'e Table) -> Self {
        Self { slot, table }
    }

    pub(super) fn head(self) -> &'e Head<'a> {
        &self.slot.head
    }

    /// What its members are.
    #[must_use]
    pub fn kind(self) -> RunKind {
        self.slot.head.kind
    }

    /// When the first member was taken in.
    #[must_use]
    pub fn time0(self) -> UnixMs {
        UnixMs::new(self.slot.head.time0)
    }

    /// The block that it belongs to.
    #[must_use]
    pub fn index(self) -> u64 {
        self.slot.head.index
    }

    /// The id of the tool call, never empty; `None` for text and reasoning.
    #[must_use]
    pub fn id(self) -> Option<Fragment<'a>> {
        (self.slot.head.kind == RunKind::ToolCall).then_some(self.slot.head.id)
    }

    /// The name that each of its tool-call deltas had, never empty.
    #[must_use]
    pub fn name(self) -> Option<Fragment<'a>> {
        self.slot.head.name
    }

    /// How many deltas it stands for, one or more.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(self) -> usize {
        self.slot.count
    }

    /// Its members in order, as times and texts. O(1) each, allocates nothing.
    #[must_use]
    pub fn members(self) -> Members<'e, 'a> {
        Members::new(self.slot, self.table)
    }

    fn write_json(self, out: &mut Vec<u8>) {
        let gaps = |out: &mut Vec<u8>| {
            let mut members = self.members();
            let mut last = members.time;
            let mut separator: &[u8] = b"";
            members.next();
            for (time, _) in members {
                out.extend_from_slice(separator);
                separator = b",";
                write_i64(out, time.get().saturating_sub(last));
                last = time.get();
            }
        };
        let call = |out: &mut Vec<u8>| {
            self.slot.head.id.write_literal(out);
            if let Some(name) = self.slot.head.name {
                out.extend_from_slice(b",\"name\":");
                name.write_literal(out);
            }
        };
        let fragments = |out: &mut Vec<u8>| {
            let mut separator: &[u8] = b"";
            for (_, text) in self.members() {
                out.extend_from_slice(separator);
                separator = b",";
                text.write_literal(out);
            }
        };
        let head = &self.slot.head;
        write_run(out, (head.kind, head.time0, head.index), gaps, call, fragments);
    }
}

impl fmt::Debug for Run<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("head", &self.slot.head).field("len", &self.len()).finish()
    }
}

/// Iterator over the members of a [`Run`].
#[derive(Clone, Debug)]
pub struct Members<'e, 'a> {
    /// What is left of a run in the usual spelling.
    rest: slice::Iter<'e, Member>,
    fragments: &'a str,
    /// Where the next fragment starts; for a loose run, where its opening quote may be at the earliest.
    start: usize,
    time: i64,
    /// What is left of any other run.
    odd: Odd<'e>,
}

/// The members of a run that is loose or has wide gaps.
#[derive(Clone, Copy, Debug)]
struct Odd<'e> {
    rest: &'e [Member],
    wide: &'e [i64],
    loose: bool,
}

impl<'e, 'a> Members<'e, 'a> {
    pub(super) fn new(slot: &RunSlot<'a>, table: &'e Table) -> Self {
        let members =
            table.members.get(slot.first..slot.first.saturating_add(slot.count)).unwrap_or_default();
        let wide = slot.wide.and_then(|first| table.wide.get(first..first.saturating_add(slot.count)));
        let (usual, odd) = if slot.loose || wide.is_some() { (&[][..], members) } else { (members, &[][..]) };
        Self {
            rest: usual.iter(),
            fragments: slot.fragments,
            start: if slot.loose { 0 } else { 1 },
            time: slot.head.time0,
            odd: Odd { rest: odd, wide: wide.unwrap_or_default(), loose: slot.loose },
        }
    }

    /// A run without members.
    pub(super) fn none() -> Self {
        let odd = Odd { rest: &[], wide: &[], loose: false };
        Self { rest: [].iter(), fragments: "", start: 0, time: 0, odd }
    }

    /// What a member of the usual spelling stands for.
    #[inline]
    fn usual(&mut self, member: Member) -> (UnixMs, Fragment<'a>) {
        self.time = self.time.wrapping_add(i64::from(member.gap)); // every partial sum was checked
        let end = member.end as usize; // lossless: the crate is for 64-bit targets
        let text = self.fragment(self.start, end);
        self.start = after(member);
        (UnixMs::new(self.time), text)
    }

    #[inline]
    fn fragment(&self, start: usize, end: usize) -> Fragment<'a> {
        Fragment::new(self.fragments.get(start..end).expect("a fragment lies between its quotes"))
    }

    /// The iterator after the next member of an odd run, and what that stands for.
    ///
    /// Takes and gives the whole state, so that its place in memory never matters where it is kept in registers.
    #[inline(never)]
    fn odd(mut self) -> (Self, Option<(UnixMs, Fragment<'a>)>) {
        let Some((member, rest)) = self.odd.rest.split_first() else { return (self, None) };
        self.odd.rest = rest;
        let gap = match self.odd.wide.split_first() {
            Some((gap, rest)) => {
                self.odd.wide = rest;
                *gap
            }
            None => i64::from(member.gap),
        };
        self.time = self.time.wrapping_add(gap); // every partial sum was checked
        let end = member.end as usize; // lossless: the crate is for 64-bit targets
        if self.odd.loose {
            let rest = self.fragments.as_bytes().get(self.start..).unwrap_or_default();
            let quote = memchr::memchr(b'"', rest).expect("only white space and a comma precede a fragment");
            self.start = self.start.saturating_add(quote).saturating_add(1);
        }
        let text = self.fragment(self.start, end);
        self.start = end.saturating_add(if self.odd.loose { 1 } else { 3 });
        let time = self.time;
        (self, Some((UnixMs::new(time), text)))
    }
}

/// Where the fragment after that of `member` starts in the usual spelling: after closing quote, comma, opening quote.
#[inline]
fn after(member: Member) -> usize {
    (member.end as usize).wrapping_add(3)
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = (UnixMs, Fragment<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(member) = self.rest.next() {
            return Some(self.usual(*member));
        }
        if self.odd.rest.is_empty() {
            return None;
        }
        let (next, item) = self.clone().odd();
        *self = next;
        item
    }

    #[inline]
    fn fold<T, F: FnMut(T, Self::Item) -> T>(mut self, init: T, mut f: F) -> T {
        let mut folded = init;
        let mut members = self.rest.clone();
        if let Some(first) = members.next() {
            folded = f(folded, self.usual(*first));
            // The first fragment apart, so that the compiler sees that no later one starts at 0.
            let mut time = self.time;
            let mut start = after(*first);
            for member in members {
                time = time.wrapping_add(i64::from(member.gap));
                let text = self.fragment(start, member.end as usize);
                start = after(*member);
                folded = f(folded, (UnixMs::new(time), text));
            }
        }
        self.rest = [].iter();
        while !self.odd.rest.is_empty() {
            let (next, item) = self.odd();
            self = next;
            let Some(item) = item else { break };
            folded = f(folded, item);
        }
        folded
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rest.len().saturating_add(self.odd.rest.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for Members<'_, '_> {}
impl FusedIterator for Members<'_, '_> {}
