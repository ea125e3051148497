use std::collections::BTreeMap;

use super::chunk::{BlockKind, Chunk, View, count};
use super::fragment::{Fragment, is_white_space};
use super::value::{Members, member, members, string};
use crate::json::{Text, write_text};

/// The blocks of an attempt as a screen shows them while chunks come, by their index in the stream.
///
/// A screen shows what came last, and always something; so this is not what an [`Assembler`](super::Assembler) gives. A start
/// empties its block and an end replaces it, whatever was there; a delta of another kind begins its block anew; blocks stand in
/// numeric order of their indexes. Chunks whose members are not as they should be change nothing. All text is copied. Time
/// O(bytes), memory that of the blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveBlocks {
    slots: BTreeMap<u64, LiveBlock>,
}

/// A block of [`LiveBlocks`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveBlock {
    /// Text of the answer, as far as it came.
    Text(Text),
    /// The model's reasoning, as far as it came.
    Reasoning(Text),
    /// A tool call, as far as it came.
    ToolCall {
        /// The first id that was not empty; empty while there was none.
        id: Text,
        /// The last name that was there, empty or not; empty while there was none.
        name: Text,
        /// The JSON text of the arguments.
        arguments: Text,
    },
    /// JSON text of an object: what a block ended as, or an empty one of a kind that only its producer knows.
    Given(Box<str>),
}

impl LiveBlocks {
    /// No blocks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a chunk, and says whether it changed a block. Usage and finish change none.
    pub fn push(&mut self, chunk: Chunk<'_>) -> bool {
        match chunk {
            Chunk::TextDelta { index, text } => self.text(index, text, false),
            Chunk::ReasoningDelta { index, text } => self.text(index, text, true),
            Chunk::ToolCallDelta { index, id, name, arguments } => self.call(index, id, name, arguments),
            Chunk::Raw(raw) => return raw.view().and_then(|view| self.view(view)).is_some(),
        }
        true
    }

    /// The blocks that are there, by index.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &LiveBlock)> {
        self.slots.iter().map(|(index, block)| (*index, block))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Whether a reader of the conversation sees any of them.
    #[must_use]
    pub fn has_visible(&self) -> bool {
        self.slots.values().any(LiveBlock::is_visible)
    }

    /// Whether an answer that ends here was interrupted in something: any block but blank text and blank reasoning.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.slots.values().any(|block| block.kind() == BlockKind::ToolCall || block.is_visible())
    }

    /// Appends a JSON array of the blocks.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, block) in self.slots.values().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            block.write_json(out);
        }
        out.push(b']');
    }

    fn view(&mut self, view: View<'_>) -> Option<()> {
        match view {
            View::BlockStart { index, block_type } => {
                let block = LiveBlock::empty(block_type?)?;
                self.slots.insert(count(index)?, block);
            }
            View::TextDelta { index, text } => self.text(count(index)?, text.and_then(string)?, false),
            View::ReasoningDelta { index, text } => self.text(count(index)?, text.and_then(string)?, true),
            View::ToolCallDelta { index, id, name, arguments } => {
                let (id, arguments) = (id.and_then(string)?, arguments.and_then(string)?);
                self.call(count(index)?, id, name.and_then(string), arguments);
            }
            View::BlockEnd { index, block } => {
                let block = block.filter(|block| Members::of(block).is_some())?;
                self.slots.insert(count(index)?, LiveBlock::Given(block.into()));
            }
            View::Usage { .. } | View::Finish { .. } => return None,
        }
        Some(())
    }

    fn text(&mut self, index: u64, fragment: Fragment<'_>, is_reasoning: bool) {
        let slot = self.slots.entry(index).or_insert_with(|| LiveBlock::of_text(Text::new(), is_reasoning));
        let kind = if is_reasoning { BlockKind::Reasoning } else { BlockKind::Text };
        let before = match slot {
            LiveBlock::Given(json) if BlockKind::of_block(json) == kind => {
                member(json, "text").and_then(string).map(Fragment::to_text)
            }
            LiveBlock::Text(text) | LiveBlock::Reasoning(text) => Some(std::mem::take(text)),
            _ => None,
        };
        let mut text = before.filter(|_| slot.kind() == kind).unwrap_or_default();
        fragment.append_to(&mut text);
        *slot = LiveBlock::of_text(text, is_reasoning);
    }

    fn call(&mut self, index: u64, id: Fragment<'_>, name: Option<Fragment<'_>>, arguments: Fragment<'_>) {
        let slot = self.slots.entry(index).or_insert_with(LiveBlock::empty_call);
        match slot {
            LiveBlock::ToolCall { .. } => {}
            LiveBlock::Given(json) if BlockKind::of_block(json) == BlockKind::ToolCall => {
                let words = members(json, ["id", "name", "arguments"]);
                let [id, name, arguments] =
                    words.map(|word| word.and_then(string).map(Fragment::to_text).unwrap_or_default());
                *slot = LiveBlock::ToolCall { id, name, arguments };
            }
            _ => *slot = LiveBlock::empty_call(),
        }
        if let LiveBlock::ToolCall { id: known, name: last, arguments: all } = slot {
            if known.is_empty() {
                id.append_to(known);
            }
            if let Some(name) = name {
                *last = name.to_text();
            }
            arguments.append_to(all);
        }
    }
}

impl LiveBlock {
    fn of_text(text: Text, is_reasoning: bool) -> Self {
        if is_reasoning { Self::Reasoning(text) } else { Self::Text(text) }
    }

    fn empty_call() -> Self {
        Self::ToolCall { id: Text::new(), name: Text::new(), arguments: Text::new() }
    }

    /// A block of the kind whose name is the JSON text `kind`.
    fn empty(kind: &str) -> Option<Self> {
        let name = string(kind)?;
        Some(match BlockKind::named(Some(kind)) {
            BlockKind::Text => Self::Text(Text::new()),
            BlockKind::Reasoning => Self::Reasoning(Text::new()),
            BlockKind::ToolCall => Self::empty_call(),
            BlockKind::Other => {
                let mut json = b"{\"type\":".to_vec();
                name.write_literal(&mut json);
                json.push(b'}');
                Self::Given(String::from_utf8(json).ok()?.into())
            }
        })
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::Text(_) => BlockKind::Text,
            Self::Reasoning(_) => BlockKind::Reasoning,
            Self::ToolCall { .. } => BlockKind::ToolCall,
            Self::Given(json) => BlockKind::of_block(json),
        }
    }

    /// Whether a reader of the conversation sees it: not if it is a tool call, or blank text or reasoning.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning(text) => !text.units().all(is_white_space),
            Self::ToolCall { .. } => false,
            Self::Given(json) => match BlockKind::of_block(json) {
                BlockKind::Text | BlockKind::Reasoning => {
                    member(json, "text").and_then(string).is_some_and(|text| !text.is_blank())
                }
                BlockKind::ToolCall => false,
                BlockKind::Other => true,
            },
        }
    }

    /// Appends the block as JSON, members in the usual order; a given one as it stands.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let mut object = |kind: &[u8], parts: &[(&[u8], &Text)]| {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind);
            out.push(b'"');
            for (name, text) in parts {
                out.extend_from_slice(name);
                write_text(out, text);
            }
            out.push(b'}');
        };
        match self {
            Self::Text(text) => object(b"text", &[(b",\"text\":", text)]),
            Self::Reasoning(text) => object(b"reasoning", &[(b",\"text\":", text)]),
            Self::ToolCall { id, name, arguments } => {
                let parts: [(&[u8], _); 3] =
                    [(b",\"id\":", id), (b",\"name\":", name), (b",\"arguments\":", arguments)];
                object(b"tool-call", &parts);
            }
            Self::Given(json) => out.extend_from_slice(json.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::RawChunk;

    /// The blocks behind these chunks, and whether the last one changed any.
    fn after(chunks: &[&str]) -> (String, bool) {
        let mut blocks = LiveBlocks::new();
        let mut changed = false;
        for chunk in chunks {
            changed = blocks.push(Chunk::Raw(RawChunk::new(chunk)));
        }
        let mut out = Vec::new();
        blocks.write_json(&mut out);
        (String::from_utf8(out).unwrap(), changed)
    }

    fn text(index: u64, text: &str) -> String {
        format!(r#"{{"type":"text-delta","index":{index},"text":"{text}"}}"#)
    }

    #[test]
    fn a_start_empties_its_block_whatever_was_there() {
        let start = |kind: &str| format!(r#"{{"type":"block-start","index":0,"blockType":"{kind}"}}"#);
        for (kind, empty) in [
            ("text", r#"[{"type":"text","text":""}]"#),
            ("reasoning", r#"[{"type":"reasoning","text":""}]"#),
            ("tool-call", r#"[{"type":"tool-call","id":"","name":"","arguments":""}]"#),
            ("image", r#"[{"type":"image"}]"#),
        ] {
            assert_eq!(after(&[&text(0, "a"), &start(kind)]), (empty.to_owned(), true));
        }
    }

    #[test]
    fn text_continues_a_block_of_its_kind_even_a_closed_one_and_replaces_any_other() {
        let reasoning = r#"{"type":"reasoning-delta","index":0,"text":"why"}"#;
        let end = r#"{"type":"block-end","index":0,"block":{"type":"text","text":"whole","x":1}}"#;
        assert_eq!(
            after(&[&text(0, r"a\ud83d"), &text(0, r"\ude00b")]).0,
            "[{\"type\":\"text\",\"text\":\"a\u{1f600}b\"}]"
        );
        assert_eq!(after(&[&text(0, "a"), reasoning]).0, r#"[{"type":"reasoning","text":"why"}]"#);
        assert_eq!(after(&[reasoning, &text(0, "b")]).0, r#"[{"type":"text","text":"b"}]"#);
        assert_eq!(
            after(&[&text(0, "a"), end]).0,
            r#"[{"type":"text","text":"whole","x":1}]"#,
            "as it was given"
        );
        assert_eq!(after(&[end, &text(0, "!")]).0, r#"[{"type":"text","text":"whole!"}]"#);
        assert_eq!(after(&[end, end, reasoning]).0, r#"[{"type":"reasoning","text":"why"}]"#);
    }

    #[test]
    fn a_call_keeps_its_first_id_and_takes_the_last_name_and_all_arguments() {
        let call = |id: &str, name: &str, arguments: &str| {
            format!(
                r#"{{"type":"tool-call-delta","index":3,"id":"{id}",{name}"argumentsDelta":"{arguments}"}}"#
            )
        };
        let (nameless, named, unnamed) =
            (call("", "", "{"), call("a", r#""name":"sh","#, "1"), call("b", r#""name":"","#, "}"));
        let shown = |id: &str, name: &str, arguments: &str| {
            format!(r#"[{{"type":"tool-call","id":"{id}","name":"{name}","arguments":"{arguments}"}}]"#)
        };
        assert_eq!(after(&[&nameless]).0, shown("", "", "{"));
        assert_eq!(after(&[&nameless, &named]).0, shown("a", "sh", "{1"));
        assert_eq!(after(&[&nameless, &named, &nameless]).0, shown("a", "sh", "{1{"));
        assert_eq!(after(&[&named, &unnamed]).0, shown("a", "", "1}"), "an empty name is one");
        let end = r#"{"type":"block-end","index":3,"block":{"type":"tool-call","id":"c","name":"f","arguments":"[]"}}"#;
        assert_eq!(after(&[end, &call("z", "", "!")]).0, shown("c", "f", "[]!"));
        assert_eq!(after(&[&text(3, "x"), &named]).0, shown("a", "sh", "1"));
    }

    #[test]
    fn an_end_replaces_its_block_also_a_closed_one_and_usage_and_finish_change_none() {
        let end = |n: u64| format!(r#"{{"type":"block-end","index":0,"block":{{"type":"image","n":{n}}}}}"#);
        assert_eq!(
            after(&[&text(0, "a"), &end(1), &end(2)]),
            (r#"[{"type":"image","n":2}]"#.to_owned(), true)
        );
        for other in [r#"{"type":"usage","usage":{}}"#, r#"{"type":"finish","reason":{"kind":"stop"}}"#] {
            assert_eq!(after(&[&text(0, "a"), other]), (r#"[{"type":"text","text":"a"}]"#.to_owned(), false));
        }
    }

    #[test]
    fn blocks_stand_in_numeric_order_without_holes() {
        let (shown, _) =
            after(&[&text(10, "c"), &text(2, "b"), &text(9_007_199_254_740_991, "d"), &text(0, "a")]);
        let letters: Vec<&str> = shown.split("\"text\":\"").skip(1).map(|rest| &rest[..1]).collect();
        assert_eq!(letters, ["a", "b", "c", "d"]);
    }

    #[test]
    fn what_cannot_be_shown_changes_nothing() {
        for chunk in [
            r#"{"type":"block-start","index":0}"#,
            r#"{"type":"block-start","index":-1,"blockType":"text"}"#,
            r#"{"type":"block-end","index":0,"block":null}"#,
            r#"{"type":"block-end","block":{"type":"text"}}"#,
            r#"{"type":"text-delta","index":0,"text":5}"#,
            r#"{"type":"tool-call-delta","index":0,"argumentsDelta":""}"#,
            r#"{"type":"sparkle","index":0}"#,
            "{}",
        ] {
            assert_eq!(after(&[chunk]), ("[]".to_owned(), false), "{chunk}");
        }
    }

    #[test]
    fn blank_text_is_neither_seen_nor_evidence_and_a_call_is_evidence_that_is_not_seen() {
        let of = |chunk: &str| {
            let mut blocks = LiveBlocks::new();
            blocks.push(Chunk::Raw(RawChunk::new(chunk)));
            (blocks.has_visible(), blocks.is_evidence())
        };
        assert_eq!(of(&text(0, r" \n\ufeff")), (false, false));
        assert_eq!(of(&text(0, r"\u0085")), (true, true));
        assert_eq!(of(r#"{"type":"reasoning-delta","index":0,"text":"x"}"#), (true, true));
        assert_eq!(
            of(r#"{"type":"block-end","index":0,"block":{"type":"reasoning","text":" "}}"#),
            (false, false)
        );
        assert_eq!(of(r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#), (false, true));
        assert_eq!(of(r#"{"type":"block-end","index":0,"block":{"type":"tool-call"}}"#), (false, true));
        assert_eq!(of(r#"{"type":"block-start","index":0,"blockType":"diagram"}"#), (true, true));
    }
}
