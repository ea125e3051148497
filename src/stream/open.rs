use super::chunk::{Chunk, RawChunk, View, count};
use super::fault::PushFault;
use super::fragment::Fragment;
use super::record::{RunKind, write_raw_head, write_run};
use super::value::string;
use crate::json::{Kind, Node, SAFE_INTEGER_MAX, write_i64, write_string, write_u64};
use crate::units::UnixMs;

/// The open run, as the insides of its arrays.
#[derive(Debug, Default)]
pub(super) struct Open {
    run: Option<OpenRun>,
    gaps: Vec<u8>,
    fragments: Vec<u8>,
    /// Literals of a tool call.
    id: Vec<u8>,
    name: Vec<u8>,
    spare: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRun {
    kind: RunKind,
    time0: i64,
    /// When its last member was taken in.
    last: i64,
    index: u64,
    has_name: bool,
}

impl Open {
    /// Forgets the open run.
    pub(super) fn close(&mut self) {
        self.run = None;
    }

    /// Puts a tool-call delta into a run, or into a record of its own if a run cannot hold it.
    pub(super) fn call_delta(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        time: i64,
        index: u64,
        call: Call<'_>,
        arguments: Word<'_>,
    ) {
        if !call.id.is_empty() && !call.name.is_some_and(Word::is_empty) {
            return self.delta(out, start, time, (RunKind::ToolCall, index), Some(call), arguments);
        }
        self.raw(out, start, time, |out| {
            out.extend_from_slice(b"{\"type\":\"tool-call-delta\",\"index\":");
            write_u64(out, index);
            out.extend_from_slice(b",\"id\":");
            call.id.write_literal(out);
            if let Some(name) = call.name {
                out.extend_from_slice(b",\"name\":");
                name.write_literal(out);
            }
            out.extend_from_slice(b",\"argumentsDelta\":");
            arguments.write_literal(out);
            out.push(b'}');
        });
    }

    /// Puts a delta into the open run if it continues that, else into a new one.
    #[inline]
    pub(super) fn delta(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        time: i64,
        (kind, index): (RunKind, u64),
        call: Option<Call<'_>>,
        text: Word<'_>,
    ) {
        let gap = self.run.and_then(|run| {
            let gap = time.wrapping_sub(run.last); // two safe integers
            let same = run.kind == kind && run.index == index && gap.abs() <= SAFE_INTEGER_MAX;
            (same && call.is_none_or(|call| self.is_same_call(run, call))).then_some((run, gap))
        });
        if let Some((run, gap)) = gap {
            if !self.gaps.is_empty() {
                self.gaps.push(b',');
            }
            write_gap(&mut self.gaps, gap);
            self.fragments.push(b',');
            text.write_literal(&mut self.fragments);
            self.run = Some(OpenRun { last: time, ..run });
            return;
        }
        self.write(out, start);
        self.gaps.clear();
        self.fragments.clear();
        text.write_literal(&mut self.fragments);
        if let Some(call) = call {
            self.id.clear();
            call.id.write_literal(&mut self.id);
            self.name.clear();
            if let Some(name) = call.name {
                name.write_literal(&mut self.name);
            }
        }
        let has_name = call.is_some_and(|call| call.name.is_some());
        self.run = Some(OpenRun { kind, time0: time, last: time, index, has_name });
    }

    fn is_same_call(&mut self, run: OpenRun, call: Call<'_>) -> bool {
        let same_name = match call.name {
            Some(name) => run.has_name && name.is_literal(&self.name, &mut self.spare),
            None => !run.has_name,
        };
        same_name && call.id.is_literal(&self.id, &mut self.spare)
    }

    /// Closes the open run and appends a record that `chunk` writes the chunk of.
    fn raw(&mut self, out: &mut Vec<u8>, start: usize, time: i64, chunk: impl FnOnce(&mut Vec<u8>)) {
        self.write(out, start);
        self.run = None;
        separate(out, start);
        write_raw_head(out, UnixMs::new(time));
        chunk(out);
        out.push(b'}');
    }

    /// Appends the open run, if there is one.
    pub(super) fn write(&self, out: &mut Vec<u8>, start: usize) {
        let Some(run) = self.run else { return };
        separate(out, start);
        let call = |out: &mut Vec<u8>| {
            out.extend_from_slice(&self.id);
            if run.has_name {
                out.extend_from_slice(b",\"name\":");
                out.extend_from_slice(&self.name);
            }
        };
        write_run(
            out,
            (run.kind, run.time0, run.index),
            |out| out.extend_from_slice(&self.gaps),
            call,
            |out| out.extend_from_slice(&self.fragments),
        );
    }

    /// Checks and takes in the chunk `node`, which is part of `text`, and returns it.
    pub(super) fn snapshot<'c>(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        time: i64,
        node: Option<Node<'_>>,
        text: &'c [u8],
    ) -> Result<Chunk<'c>, PushFault> {
        let node = node.filter(|node| node.is_lossless()).ok_or(PushFault::NotLossless)?;
        if node.kind() != Kind::Object {
            return Err(PushFault::NotAnObject);
        }
        let json = text.get(node.range()).and_then(|json| simdutf8::basic::from_utf8(json).ok());
        self.node(out, start, time, node, RawChunk::new(json.ok_or(PushFault::NotAnObject)?))
    }

    /// Takes in the lossless object `node`, whose text is `raw`, and returns it, as a typed delta if it is just that.
    pub(super) fn node<'c>(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        time: i64,
        node: Node<'_>,
        raw: RawChunk<'c>,
    ) -> Result<Chunk<'c>, PushFault> {
        let view = raw.view().ok_or(PushFault::UnknownType)?;
        let (kind, index, text) = match view {
            View::TextDelta { index, text } => (RunKind::Text, index, text),
            View::ReasoningDelta { index, text } => (RunKind::Reasoning, index, text),
            View::ToolCallDelta { index, id, name, arguments } => {
                let index = count(index).ok_or(PushFault::Index)?;
                let id = id.and_then(string).ok_or(PushFault::Id)?;
                let name = name.map(|name| string(name).ok_or(PushFault::Name)).transpose()?;
                let arguments = arguments.and_then(string).ok_or(PushFault::Arguments)?;
                if id.is_empty() || name.is_some_and(Fragment::is_empty) {
                    self.raw(out, start, time, |out| node.write_canonical(out));
                } else {
                    let call = Call { id: Word::Spelled(id), name: name.map(Word::Spelled) };
                    self.delta(
                        out,
                        start,
                        time,
                        (RunKind::ToolCall, index),
                        Some(call),
                        Word::Spelled(arguments),
                    );
                }
                let plain = raw.member_count() == 4usize.saturating_add(usize::from(name.is_some()));
                let typed = Chunk::ToolCallDelta { index, id, name, arguments };
                return Ok(if plain { typed } else { Chunk::Raw(raw) });
            }
            _ => {
                self.raw(out, start, time, |out| node.write_canonical(out));
                return Ok(Chunk::Raw(raw));
            }
        };
        let index = count(index).ok_or(PushFault::Index)?;
        let text = text.and_then(string).ok_or(PushFault::Text)?;
        self.delta(out, start, time, (kind, index), None, Word::Spelled(text));
        Ok(match kind {
            _ if raw.member_count() != 3 => Chunk::Raw(raw),
            RunKind::Reasoning => Chunk::ReasoningDelta { index, text },
            _ => Chunk::TextDelta { index, text },
        })
    }
}

/// Appends the comma before a record, unless it is the first after the bracket at `start`.
fn separate(out: &mut Vec<u8>, start: usize) {
    if out.len() > start.saturating_add(1) {
        out.push(b',');
    }
}

/// [`write_i64`], quickly for the gaps that are usual.
#[inline]
fn write_gap(out: &mut Vec<u8>, gap: i64) {
    match u8::try_from(gap) {
        Ok(gap @ 0..=9) => out.push(b'0' | gap),
        Ok(gap @ 10..=99) => out.extend_from_slice(&[b'0' | (gap / 10), b'0' | (gap % 10)]),
        _ => write_i64(out, gap),
    }
}

/// A string that is to be stored.
#[derive(Clone, Copy)]
pub(super) enum Word<'a> {
    /// As JSON spells it.
    Spelled(Fragment<'a>),
    /// As it is.
    Plain(&'a str),
}

impl Word<'_> {
    fn is_empty(self) -> bool {
        match self {
            Self::Spelled(fragment) => fragment.is_empty(),
            Self::Plain(text) => text.is_empty(),
        }
    }

    #[inline]
    fn write_literal(self, out: &mut Vec<u8>) {
        match self {
            Self::Spelled(fragment) => fragment.write_literal(out),
            Self::Plain(text) => write_string(out, text),
        }
    }

    /// Whether `literal`, written by [`write_literal`](Self::write_literal), is this string.
    fn is_literal(self, literal: &[u8], spare: &mut Vec<u8>) -> bool {
        let text = match self {
            Self::Spelled(fragment) => fragment.raw(),
            Self::Plain(text) => text,
        };
        if let [b'"', body @ .., b'"'] = literal
            && !body.contains(&b'\\')
            && body == text.as_bytes()
        {
            return true;
        }
        spare.clear();
        self.write_literal(spare);
        spare == literal
    }
}

/// What a tool-call delta has besides arguments.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) id: Word<'a>,
    pub(super) name: Option<Word<'a>>,
}
