use std::collections::HashMap;

use super::block::Block;
use super::chunk::{BlockKind, Chunk, View};
use super::fault::AssembleFault;
use super::fragment::Fragment;
use super::record::{Head, Record, RunKind};
use super::value::{Items, member, members, string};
use crate::json::{Number, Text, write_number};

/// Folds the chunks of a stream into what the model said: content blocks, usage, finish reason and replay state.
///
/// Chunks may come in any order that a stream can hold; blocks stand in order of first appearance, whatever their
/// indexes. All text is copied, so chunks need not outlive the call. Time O(bytes).
///
/// Spec: `format-spec/04-rows.md`, "Assembling a stream".
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    partials: Vec<Partial>,
    places: HashMap<Key, usize>,
    /// The delta before: the index and where its block stands. Most deltas continue a block.
    last: Option<(u64, usize)>,
    usage: Option<Box<str>>,
    finish: Option<Box<str>>,
    replay_state: Option<Box<str>>,
}

/// A block that is being put together.
#[derive(Clone, Debug)]
struct Partial {
    kind: BlockKind,
    /// Of text and reasoning deltas alike.
    text: Text,
    arguments: Text,
    id: Text,
    name: Text,
    closed: Option<Box<str>>,
}

/// An index as a map of JavaScript tells indexes apart. Raw chunks may have one that is no count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The bits of a number that is not negative zero.
    Number(u64),
    /// Any other scalar, as JSON; empty for a missing one.
    Other(Box<str>),
}

impl Key {
    fn of_index(index: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "at most 2^53 - 1: exact")]
        Self::Number((index as f64).to_bits())
    }

    fn of_json(json: Option<&str>) -> Result<Self, AssembleFault> {
        let json = json.unwrap_or_default();
        if let Some(number) = Number::of_value(json) {
            return Ok(Self::Number(number.value().to_bits()));
        }
        match json.as_bytes().first() {
            // Each such value is an index of its own to JavaScript, and no block could ever get a second chunk.
            Some(b'{' | b'[') => Err(AssembleFault::Member),
            _ => Ok(Self::Other(string(json).map_or(json.into(), |text| Self::spelling(text)))),
        }
    }

    /// One spelling for each string, with a quote that tells it from a word.
    fn spelling(text: Fragment<'_>) -> Box<str> {
        let mut literal = Vec::new();
        text.write_literal(&mut literal);
        String::from_utf8(literal).unwrap_or_default().into()
    }

    /// What JavaScript puts into a string for it.
    fn write_to(&self, text: &mut Text) {
        match self {
            Self::Number(bits) => {
                let mut digits = Vec::new();
                write_number(&mut digits, f64::from_bits(*bits));
                text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
            }
            Self::Other(json) if json.is_empty() => text.push_str("undefined"),
            Self::Other(json) => match string(json) {
                Some(value) => value.append_to(text),
                None => text.push_str(json),
            },
        }
    }
}

impl Assembler {
    /// Without any chunk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a chunk.
    ///
    /// # Errors
    /// [`AssembleFault`] for a raw chunk of an unknown type, or with members that cannot be assembled; nothing has
    /// changed then.
    pub fn push(&mut self, chunk: Chunk<'_>) -> Result<(), AssembleFault> {
        match chunk {
            Chunk::TextDelta { index, text } => {
                if let Some(partial) = self.open_delta(index, BlockKind::Text) {
                    text.append_to(&mut partial.text);
                }
            }
            Chunk::ReasoningDelta { index, text } => {
                if let Some(partial) = self.open_delta(index, BlockKind::Reasoning) {
                    text.append_to(&mut partial.text);
                }
            }
            Chunk::ToolCallDelta { index, id, name, arguments } => {
                if let Some(partial) = self.open_delta(index, BlockKind::ToolCall) {
                    partial.call(id, name, arguments);
                }
            }
            Chunk::Raw(raw) => self.push_view(raw.view().ok_or(AssembleFault::UnknownType)?)?,
        }
        Ok(())
    }

    /// Takes in a text delta, given as the text itself.
    pub fn push_text(&mut self, index: u64, text: &str) {
        if let Some(partial) = self.open_delta(index, BlockKind::Text) {
            partial.text.push_str(text);
        }
    }

    /// Takes in a reasoning delta, given as the text itself.
    pub fn push_reasoning(&mut self, index: u64, text: &str) {
        if let Some(partial) = self.open_delta(index, BlockKind::Reasoning) {
            partial.text.push_str(text);
        }
    }

    /// Takes in a tool-call delta, given as its parts themselves.
    pub fn push_tool_call(&mut self, index: u64, id: &str, name: Option<&str>, arguments: &str) {
        let Some(partial) = self.open_delta(index, BlockKind::ToolCall) else { return };
        partial.id.clear();
        partial.id.push_str(id);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            partial.name.clear();
            partial.name.push_str(name);
        }
        partial.arguments.push_str(arguments);
    }

    /// Takes in all deltas of a record at once.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_record(&mut self, record: Record<'_, '_>) -> Result<(), AssembleFault> {
        match record {
            Record::Run(run) => self.push_run(run.head(), run.members().map(|(_, text)| text)),
            Record::Raw { chunk, .. } => self.push(Chunk::Raw(chunk))?,
        }
        Ok(())
    }

    pub(super) fn push_run<'f>(&mut self, head: &Head<'_>, fragments: impl Iterator<Item = Fragment<'f>>) {
        let kind = match head.kind {
            RunKind::Text => BlockKind::Text,
            RunKind::Reasoning => BlockKind::Reasoning,
            RunKind::ToolCall => BlockKind::ToolCall,
        };
        let Some(partial) = self.open_delta(head.index, kind) else { return };
        if kind == BlockKind::ToolCall {
            partial.call(head.id, head.name, Fragment::new(""));
            fragments.for_each(|fragment| fragment.append_to(&mut partial.arguments));
        } else {
            fragments.for_each(|fragment| fragment.append_to(&mut partial.text));
        }
    }

    fn push_view(&mut self, view: View<'_>) -> Result<(), AssembleFault> {
        match view {
            View::BlockStart { index, block_type } => {
                self.partial(Key::of_json(index)?, || BlockKind::named(block_type));
            }
            View::TextDelta { index, text } => {
                let text = text.and_then(string).ok_or(AssembleFault::Member)?;
                if let Some(partial) = self.open(Key::of_json(index)?, BlockKind::Text) {
                    text.append_to(&mut partial.text);
                }
            }
            View::ReasoningDelta { index, text } => {
                let text = text.and_then(string).ok_or(AssembleFault::Member)?;
                if let Some(partial) = self.open(Key::of_json(index)?, BlockKind::Reasoning) {
                    text.append_to(&mut partial.text);
                }
            }
            View::ToolCallDelta { index, id, name, arguments } => {
                let id = id.and_then(string).ok_or(AssembleFault::Member)?;
                let arguments = arguments.and_then(string).ok_or(AssembleFault::Member)?;
                let name = match name {
                    None | Some("null") => None,
                    Some(name) => Some(string(name).ok_or(AssembleFault::Member)?),
                };
                if let Some(partial) = self.open(Key::of_json(index)?, BlockKind::ToolCall) {
                    partial.call(id, name, arguments);
                }
            }
            View::BlockEnd { index, block } => {
                let block = block.filter(|block| *block != "null").ok_or(AssembleFault::Member)?;
                let key = Key::of_json(index)?;
                let partial = self.partial(key, || BlockKind::of_block(block));
                partial.closed.get_or_insert_with(|| block.into());
            }
            View::Usage { usage } => self.usage = usage.map(Into::into),
            View::Finish { reason, replay_state } => {
                self.finish = reason.filter(|reason| *reason != "null").map(Into::into);
                self.replay_state = replay_state.map(Into::into);
            }
        }
        Ok(())
    }

    /// The open block of a delta.
    fn open_delta(&mut self, index: u64, kind: BlockKind) -> Option<&mut Partial> {
        let place = match self.last {
            Some((last, place)) if last == index => place,
            _ => self.place(Key::of_index(index), || kind),
        };
        self.last = Some((index, place));
        self.partials.get_mut(place).filter(|partial| partial.closed.is_none())
    }

    fn open(&mut self, key: Key, kind: BlockKind) -> Option<&mut Partial> {
        let partial = self.partial(key, || kind);
        partial.closed.is_none().then_some(partial)
    }

    /// The block of an index, a new one of `kind` if there is none yet.
    fn partial(&mut self, key: Key, kind: impl FnOnce() -> BlockKind) -> &mut Partial {
        let place = self.place(key, kind);
        self.partials.get_mut(place).expect("a place is one of a block")
    }

    fn place(&mut self, key: Key, kind: impl FnOnce() -> BlockKind) -> usize {
        let next = self.partials.len();
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let mut id = Text::from("call-");
        key.write_to(&mut id);
        self.places.insert(key, next);
        self.partials.push(Partial {
            kind: kind(),
            text: Text::new(),
            arguments: Text::new(),
            id,
            name: Text::new(),
            closed: None,
        });
        next
    }

    /// The content: all blocks in order of first appearance, but no tool calls if the answer was cut at the token
    /// limit, which may have cut them.
    ///
    /// # Errors
    /// [`AssembleFault::OpenKind`] if some block cannot be assembled.
    pub fn blocks(&self) -> Result<Vec<Block<'_>>, AssembleFault> {
        let mut blocks = self.all_blocks()?;
        if self.is_cut() {
            blocks.retain(|block| block.kind() != BlockKind::ToolCall);
        }
        Ok(blocks)
    }

    fn all_blocks(&self) -> Result<Vec<Block<'_>>, AssembleFault> {
        let open_kind = |position| move || AssembleFault::OpenKind { position };
        let blocks = self.partials.iter().enumerate();
        blocks.map(|(position, partial)| partial.block().ok_or_else(open_kind(position))).collect()
    }

    /// The prefix that stands when the answer was cancelled: the text and reasoning that is not blank. May be empty.
    #[must_use]
    pub fn interrupted_blocks(&self) -> Vec<Block<'_>> {
        self.partials.iter().filter_map(Partial::block).filter(|block| block.is_visible_text()).collect()
    }

    /// The last usage, as JSON text.
    #[must_use]
    pub fn usage(&self) -> Option<&str> {
        self.usage.as_deref()
    }

    /// The last finish reason, as JSON text; `{"kind":"stop"}` if there was none.
    #[must_use]
    pub fn finish(&self) -> &str {
        self.finish.as_deref().unwrap_or("{\"kind\":\"stop\"}")
    }

    /// Whether the answer was cut at the token limit.
    fn is_cut(&self) -> bool {
        member(self.finish(), "kind").and_then(string).is_some_and(|kind| kind.eq_str("max-tokens"))
    }

    /// What the adapter needs to continue the answer, as JSON text: the last finish chunk's, without the entries of
    /// blocks that are not part of the content; `None` if its entries are not those of the blocks.
    ///
    /// # Errors
    /// As [`blocks`](Self::blocks).
    pub fn replay_state(&self) -> Result<Option<String>, AssembleFault> {
        let all = self.all_blocks()?;
        let Some(recorded) = self.replay_state.as_deref() else { return Ok(None) };
        let [response, entries] = members(recorded, ["response", "blocks"]);
        let Some(entries) = entries else { return Ok(Some(recorded.to_owned())) };
        if Items::of(entries).map(Iterator::count) != Some(all.len()) {
            return Ok(None);
        }
        let is_kept = |block: &Block<'_>| !self.is_cut() || block.kind() != BlockKind::ToolCall;
        if all.iter().all(is_kept) {
            return Ok(Some(recorded.to_owned()));
        }
        let mut state = String::from("{");
        if let Some(response) = response {
            state.push_str("\"response\":");
            state.push_str(response);
            state.push(',');
        }
        state.push_str("\"blocks\":[");
        let entries = Items::of(entries).into_iter().flatten().zip(&all);
        let mut separator = "";
        for (entry, _) in entries.filter(|(_, block)| is_kept(block)) {
            state.push_str(separator);
            separator = ",";
            state.push_str(entry);
        }
        state.push_str("]}");
        Ok(Some(state))
    }
}

impl Partial {
    fn call(&mut self, id: Fragment<'_>, name: Option<Fragment<'_>>, arguments: Fragment<'_>) {
        self.id.clear();
        id.append_to(&mut self.id);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.name.clear();
            name.append_to(&mut self.name);
        }
        arguments.append_to(&mut self.arguments);
    }

    /// What it is so far; `None` for an open block of another kind.
    fn block(&self) -> Option<Block<'_>> {
        if let Some(json) = &self.closed {
            return Some(Block::Closed(json));
        }
        match self.kind {
            BlockKind::Text => Some(Block::Text(&self.text)),
            BlockKind::Reasoning => Some(Block::Reasoning(&self.text)),
            BlockKind::ToolCall => {
                Some(Block::ToolCall { id: &self.id, name: &self.name, arguments: &self.arguments })
            }
            BlockKind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::RawChunk;
    use super::*;

    fn assembler(chunks: &[&str]) -> Result<Assembler, AssembleFault> {
        let mut assembler = Assembler::new();
        for chunk in chunks {
            assembler.push(Chunk::Raw(RawChunk::new(chunk)))?;
        }
        Ok(assembler)
    }

    fn content(assembler: &Assembler) -> String {
        let mut out = Vec::new();
        for block in assembler.blocks().unwrap() {
            block.write_json(&mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn raw_and_typed_deltas_of_an_index_meet_in_one_block() {
        let mut assembler = Assembler::new();
        let text = Fragment::new(r"a\ud83d");
        assembler.push(Chunk::TextDelta { index: 7, text }).unwrap();
        let raw = r#"{"type":"text-delta","index":7.0,"text":"\ude00"}"#;
        assembler.push(Chunk::Raw(RawChunk::new(raw))).unwrap();
        assert_eq!(content(&assembler), "{\"type\":\"text\",\"text\":\"a\u{1f600}\"}");
    }

    #[test]
    fn a_call_without_deltas_is_named_after_its_index() {
        let start =
            |index: &str| format!(r#"{{"type":"block-start","index":{index},"blockType":"tool-call"}}"#);
        let call = |id: &str| format!(r#"{{"type":"tool-call","id":"{id}","name":"","arguments":""}}"#);
        for (index, id) in [
            ("0", "call-0"),
            ("-4", "call--4"),
            ("1e21", "call-1e+21"),
            ("null", "call-null"),
            ("\"x\"", "call-x"),
        ] {
            assert_eq!(content(&assembler(&[&start(index)]).unwrap()), call(id));
        }
        let missing = r#"{"type":"block-start","blockType":"tool-call"}"#;
        assert_eq!(content(&assembler(&[missing]).unwrap()), call("call-undefined"));
        let delta = r#"{"type":"tool-call-delta","index":0,"id":"","argumentsDelta":""}"#;
        assert_eq!(content(&assembler(&[delta]).unwrap()), call(""));
    }

    #[test]
    fn indexes_are_told_apart_by_value() {
        let start = |index: &str| format!(r#"{{"type":"block-start","index":{index},"blockType":"text"}}"#);
        let count = |a: &str, b: &str| assembler(&[&start(a), &start(b)]).unwrap().blocks().unwrap().len();
        assert_eq!(count("1", "1.0"), 1);
        assert_eq!(count("\"a\"", "\"\\u0061\""), 1);
        assert_eq!(count("1", "\"1\""), 2);
        assert_eq!(count("null", "\"null\""), 2);
    }

    #[test]
    fn what_cannot_be_assembled_is_refused_and_changes_nothing() {
        let mut assembler = assembler(&[r#"{"type":"text-delta","index":0,"text":"a"}"#]).unwrap();
        for (chunk, fault) in [
            ("{}", AssembleFault::UnknownType),
            (r#"{"type":"sparkle"}"#, AssembleFault::UnknownType),
            (r#"{"type":"text-delta","index":1,"text":5}"#, AssembleFault::Member),
            (r#"{"type":"reasoning-delta","index":1}"#, AssembleFault::Member),
            (r#"{"type":"tool-call-delta","index":1,"argumentsDelta":""}"#, AssembleFault::Member),
            (
                r#"{"type":"tool-call-delta","index":1,"id":"c","name":1,"argumentsDelta":""}"#,
                AssembleFault::Member,
            ),
            (r#"{"type":"block-start","index":[],"blockType":"text"}"#, AssembleFault::Member),
            (r#"{"type":"block-end","index":1}"#, AssembleFault::Member),
            (r#"{"type":"block-end","index":1,"block":null}"#, AssembleFault::Member),
        ] {
            assert_eq!(assembler.push(Chunk::Raw(RawChunk::new(chunk))), Err(fault), "{chunk}");
        }
        assert_eq!(content(&assembler), r#"{"type":"text","text":"a"}"#);
    }

    #[test]
    fn an_open_block_of_another_kind_fails_content_and_not_the_visible_prefix() {
        let chunks = [
            r#"{"type":"text-delta","index":4,"text":" a"}"#,
            r#"{"type":"block-start","index":2,"blockType":"image"}"#,
        ];
        let mut assembler = assembler(&chunks).unwrap();
        let fault = AssembleFault::OpenKind { position: 1 };
        assert_eq!(assembler.blocks().err(), Some(fault));
        assert_eq!(assembler.replay_state().err(), Some(fault));
        assert_eq!(assembler.interrupted_blocks().len(), 1);
        let end = r#"{"type":"block-end","index":2,"block":{"type":"image"}}"#;
        assembler.push(Chunk::Raw(RawChunk::new(end))).unwrap();
        assert_eq!(assembler.blocks().unwrap().len(), 2);
    }

    #[test]
    fn a_replay_state_without_response_keeps_having_none() {
        let chunks = [
            r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#,
            r#"{"type":"text-delta","index":1,"text":"a"}"#,
            r#"{"type":"finish","reason":{"kind":"max-tokens"},"replayState":{"blocks":[0, {"x":[1,2]}]}}"#,
        ];
        let state = assembler(&chunks).unwrap().replay_state().unwrap();
        assert_eq!(state.as_deref(), Some(r#"{"blocks":[{"x":[1,2]}]}"#));
    }

    #[test]
    fn plain_pushes_are_those_of_the_chunks() {
        let (mut plain, mut chunks) = (Assembler::new(), Assembler::new());
        fn text(literal: &str) -> Fragment<'_> {
            Fragment::of_literal(literal).unwrap()
        }
        plain.push_text(0, "a\n\u{e9}");
        chunks.push(Chunk::TextDelta { index: 0, text: text(r#""a\n\u00e9""#) }).unwrap();
        plain.push_reasoning(1, "r");
        chunks.push(Chunk::ReasoningDelta { index: 1, text: text("\"r\"") }).unwrap();
        for (id, name, arguments) in [("c", Some("f"), "{"), ("d", Some(""), "\"\""), ("d", None, "}")] {
            plain.push_tool_call(2, id, name, arguments);
            let literal = |value: &str| {
                let mut out = Vec::new();
                crate::json::write_string(&mut out, value);
                String::from_utf8(out).unwrap()
            };
            let (id, name, arguments) = (literal(id), name.map(literal), literal(arguments));
            let name = name.as_deref().map(text);
            let chunk = Chunk::ToolCallDelta { index: 2, id: text(&id), name, arguments: text(&arguments) };
            chunks.push(chunk).unwrap();
        }
        assert_eq!(content(&plain), content(&chunks));
        let end = r#"{"type":"block-end","index":0,"block":{"type":"text","text":"z"}}"#;
        plain.push(Chunk::Raw(RawChunk::new(end))).unwrap();
        plain.push_text(0, "too late");
        assert!(content(&plain).starts_with(r#"{"type":"text","text":"z"}{"#), "{}", content(&plain));
        assert!(
            content(&plain).contains(r#""id":"d","name":"f","arguments":"{\"\"}""#),
            "{}",
            content(&plain)
        );
    }

    #[test]
    fn without_chunks_there_is_a_finish_and_nothing_else() {
        let empty = Assembler::new();
        assert_eq!((empty.usage(), empty.finish()), (None, r#"{"kind":"stop"}"#));
        assert_eq!(empty.replay_state(), Ok(None));
        assert!(empty.blocks().unwrap().is_empty() && empty.interrupted_blocks().is_empty());
    }
}
