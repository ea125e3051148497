use super::fragment::Fragment;
use super::value::{Members, member, members, string};
use crate::json::{Number, check_str, write_i64, write_u64};
use crate::units::UnixMs;

/// A chunk and the time at which it was taken in. Times of a stream may repeat and run backwards.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// When; at most 2^53 - 1 ms from the epoch in either direction.
    pub time: UnixMs,
    /// What.
    pub chunk: Chunk<'a>,
}

impl Timed<'_> {
    /// Appends `{"time":…,"chunk":…}`; see [`Chunk::write_json`].
    pub fn write_json(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":");
        write_i64(out, self.time.get());
        out.extend_from_slice(b",\"chunk\":");
        self.chunk.write_json(out);
        out.push(b'}');
    }
}

/// One step of a model's answer, borrowed from the JSON that holds it.
///
/// The three deltas arrive one a token and have their members typed. Everything else is [`Chunk::Raw`], JSON text that
/// [`RawChunk::view`] takes apart: it is rare, and its members may be anything.
///
/// Spec: `format-spec/04-rows.md`, "Stream chunks".
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// More text of the answer.
    TextDelta {
        /// The block that it belongs to; at most 2^53 - 1.
        index: u64,
        /// What it adds.
        text: Fragment<'a>,
    },
    /// More of the model's reasoning.
    ReasoningDelta {
        /// The block that it belongs to; at most 2^53 - 1.
        index: u64,
        /// What it adds.
        text: Fragment<'a>,
    },
    /// More of a tool call.
    ToolCallDelta {
        /// The block that it belongs to; at most 2^53 - 1.
        index: u64,
        /// The provider's id of the call.
        id: Fragment<'a>,
        /// The tool. Absent and empty are different.
        name: Option<Fragment<'a>>,
        /// What it adds to the JSON text of the arguments.
        arguments: Fragment<'a>,
    },
    /// A chunk that is kept whole.
    Raw(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    /// The object that `json` is, to be looked at: whether it is lossless, as what is stored has to be, is not checked.
    pub(crate) fn of_shown(json: &'a str) -> Option<Self> {
        let json = json.trim_ascii();
        (Members::of(json).is_some() && check_str(json, u32::MAX).is_ok())
            .then_some(Self::Raw(RawChunk(json)))
    }

    /// Which of the seven it is; `None` for a raw chunk of none of them.
    #[must_use]
    pub fn kind(self) -> Option<ChunkKind> {
        match self {
            Self::TextDelta { .. } => Some(ChunkKind::TextDelta),
            Self::ReasoningDelta { .. } => Some(ChunkKind::ReasoningDelta),
            Self::ToolCallDelta { .. } => Some(ChunkKind::ToolCallDelta),
            Self::Raw(raw) => raw.kind(),
        }
    }

    /// Whether it carries part of the answer, so that the first such chunk ends the wait for a token: a text or
    /// reasoning delta that is not empty, or a tool-call delta with arguments or with a name, empty or not.
    #[must_use]
    pub fn is_token(self) -> bool {
        match self {
            Self::TextDelta { text, .. } | Self::ReasoningDelta { text, .. } => !text.is_empty(),
            Self::ToolCallDelta { name, arguments, .. } => name.is_some() || !arguments.is_empty(),
            Self::Raw(raw) => match raw.view() {
                Some(View::TextDelta { text, .. } | View::ReasoningDelta { text, .. }) => is_filled(text),
                Some(View::ToolCallDelta { name, arguments, .. }) => name.is_some() || is_filled(arguments),
                _ => false,
            },
        }
    }

    /// Whether a reader of the conversation would see something of it: text or reasoning that is not blank, or any
    /// block that is none of text, reasoning and tool call.
    #[must_use]
    pub fn is_visible(self) -> bool {
        match self {
            Self::TextDelta { text, .. } | Self::ReasoningDelta { text, .. } => !text.is_blank(),
            Self::ToolCallDelta { .. } => false,
            Self::Raw(raw) => match raw.view() {
                Some(View::TextDelta { text, .. } | View::ReasoningDelta { text, .. }) => is_seen(text),
                Some(View::BlockStart { block_type, .. }) => BlockKind::named(block_type) == BlockKind::Other,
                Some(View::BlockEnd { block: Some(block), .. }) => match BlockKind::of_block(block) {
                    BlockKind::ToolCall => false,
                    BlockKind::Text | BlockKind::Reasoning => is_seen(member(block, "text")),
                    BlockKind::Other => block != "null",
                },
                _ => false,
            },
        }
    }

    /// Whether it shows text of the answer: a text delta or the end of a text block, not blank.
    #[must_use]
    pub fn has_visible_text(self) -> bool {
        match self {
            Self::TextDelta { text, .. } => !text.is_blank(),
            Self::ReasoningDelta { .. } | Self::ToolCallDelta { .. } => false,
            Self::Raw(raw) => match raw.view() {
                Some(View::TextDelta { text, .. }) => is_seen(text),
                Some(View::BlockEnd { block: Some(block), .. }) => {
                    BlockKind::of_block(block) == BlockKind::Text && is_seen(member(block, "text"))
                }
                _ => false,
            },
        }
    }

    /// Appends the chunk as JSON: deltas in the members' usual order and in canonical spelling, raw chunks as they
    /// stand.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::TextDelta { index, text } => {
                write_text_delta(out, b"{\"type\":\"text-delta\",\"index\":", index, text)
            }
            Self::ReasoningDelta { index, text } => {
                write_text_delta(out, b"{\"type\":\"reasoning-delta\",\"index\":", index, text);
            }
            Self::ToolCallDelta { index, id, name, arguments } => {
                out.extend_from_slice(b"{\"type\":\"tool-call-delta\",\"index\":");
                write_u64(out, index);
                out.extend_from_slice(b",\"id\":");
                id.write_literal(out);
                if let Some(name) = name {
                    out.extend_from_slice(b",\"name\":");
                    name.write_literal(out);
                }
                out.extend_from_slice(b",\"argumentsDelta\":");
                arguments.write_literal(out);
                out.push(b'}');
            }
            Self::Raw(raw) => out.extend_from_slice(raw.json().as_bytes()),
        }
    }
}

fn write_text_delta(out: &mut Vec<u8>, head: &[u8], index: u64, text: Fragment<'_>) {
    out.extend_from_slice(head);
    write_u64(out, index);
    out.extend_from_slice(b",\"text\":");
    text.write_literal(out);
    out.push(b'}');
}

/// The seven kinds of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChunkKind {
    /// `block-start`.
    BlockStart,
    /// `text-delta`.
    TextDelta,
    /// `reasoning-delta`.
    ReasoningDelta,
    /// `tool-call-delta`.
    ToolCallDelta,
    /// `block-end`.
    BlockEnd,
    /// `usage`.
    Usage,
    /// `finish`.
    Finish,
}

impl ChunkKind {
    const NAMED: [(&'static str, Self); 7] = [
        ("block-start", Self::BlockStart),
        ("text-delta", Self::TextDelta),
        ("reasoning-delta", Self::ReasoningDelta),
        ("tool-call-delta", Self::ToolCallDelta),
        ("block-end", Self::BlockEnd),
        ("usage", Self::Usage),
        ("finish", Self::Finish),
    ];

    /// Its `type` in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn named(json: &str) -> Option<Self> {
        let name = string(json)?;
        Self::NAMED.iter().find(|(other, _)| name.eq_str(other)).map(|(_, kind)| *kind)
    }
}

/// A chunk as the JSON text of one lossless object, of any type and with any members.
#[derive(Clone, Copy, Debug)]
pub struct RawChunk<'a>(&'a str);

impl<'a> RawChunk<'a> {
    /// `json` is a valid object without negative zero and infinities.
    pub(super) const fn new(json: &'a str) -> Self {
        Self(json)
    }

    /// Its exact text.
    #[must_use]
    pub const fn json(self) -> &'a str {
        self.0
    }

    /// Its `type`; `None` if that is missing or none of the seven. Time O(bytes).
    #[must_use]
    pub fn kind(self) -> Option<ChunkKind> {
        member(self.0, "type").and_then(ChunkKind::named)
    }

    /// The text of a member, if there is one.
    #[must_use]
    pub fn member(self, name: &str) -> Option<&'a str> {
        member(self.0, name)
    }

    /// Its members by its type; `None` as for [`kind`](Self::kind). Time O(bytes).
    #[must_use]
    pub fn view(self) -> Option<View<'a>> {
        let names = [
            "type",
            "index",
            "blockType",
            "text",
            "id",
            "name",
            "argumentsDelta",
            "block",
            "usage",
            "reason",
            "replayState",
        ];
        let [kind, index, block_type, text, id, name, arguments, block, usage, reason, replay_state] =
            members(self.0, names);
        Some(match ChunkKind::named(kind?)? {
            ChunkKind::BlockStart => View::BlockStart { index, block_type },
            ChunkKind::TextDelta => View::TextDelta { index, text },
            ChunkKind::ReasoningDelta => View::ReasoningDelta { index, text },
            ChunkKind::ToolCallDelta => View::ToolCallDelta { index, id, name, arguments },
            ChunkKind::BlockEnd => View::BlockEnd { index, block },
            ChunkKind::Usage => View::Usage { usage },
            ChunkKind::Finish => View::Finish { reason, replay_state },
        })
    }

    /// How many members it has; repeated names count each time.
    pub(super) fn member_count(self) -> usize {
        Members::of(self.0).map_or(0, Iterator::count)
    }
}

/// A raw chunk's members by its type: the JSON text of each that is there, of whatever type it is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the chunk's own members, under their own names")]
pub enum View<'a> {
    /// A block begins.
    BlockStart { index: Option<&'a str>, block_type: Option<&'a str> },
    /// Text that was recorded on its own.
    TextDelta { index: Option<&'a str>, text: Option<&'a str> },
    /// Reasoning that was recorded on its own.
    ReasoningDelta { index: Option<&'a str>, text: Option<&'a str> },
    /// A tool-call delta without an id or with an empty name, or one that was recorded on its own.
    ToolCallDelta {
        index: Option<&'a str>,
        id: Option<&'a str>,
        name: Option<&'a str>,
        arguments: Option<&'a str>,
    },
    /// A block is complete; `block` is what it became.
    BlockEnd { index: Option<&'a str>, block: Option<&'a str> },
    /// Tokens so far.
    Usage { usage: Option<&'a str> },
    /// The answer ends.
    Finish { reason: Option<&'a str>, replay_state: Option<&'a str> },
}

/// What a content block is, as far as streams tell blocks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// Text of the answer.
    Text,
    /// The model's reasoning.
    Reasoning,
    /// A tool call.
    ToolCall,
    /// Anything else.
    Other,
}

impl BlockKind {
    /// The kind that the JSON text of a name stands for.
    pub(super) fn named(json: Option<&str>) -> Self {
        match json.and_then(string) {
            Some(name) if name.eq_str("text") => Self::Text,
            Some(name) if name.eq_str("reasoning") => Self::Reasoning,
            Some(name) if name.eq_str("tool-call") => Self::ToolCall,
            _ => Self::Other,
        }
    }

    /// The kind of a block that is JSON text.
    pub(super) fn of_block(json: &str) -> Self {
        Self::named(member(json, "type"))
    }
}

/// The count that a value is: a safe integer from 0 on, not negative zero.
pub(super) fn count(json: Option<&str>) -> Option<u64> {
    Number::of_value(json?)?.as_count()
}

/// Whether a value is a string that is not empty.
fn is_filled(json: Option<&str>) -> bool {
    json.and_then(string).is_some_and(|text| !text.is_empty())
}

/// Whether a value is a string that is not blank.
fn is_seen(json: Option<&str>) -> bool {
    json.and_then(string).is_some_and(|text| !text.is_blank())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Chunk<'_> {
        Chunk::Raw(RawChunk::new(json))
    }

    #[test]
    fn tokens_and_visibility_by_kind() {
        // json, is it a token, is it visible, has it visible text
        for (json, token, visible, text) in [
            (r#"{"type":"text-delta","index":0,"text":""}"#, false, false, false),
            (r#"{"type":"text-delta","index":0,"text":" \n"}"#, true, false, false),
            (r#"{"type":"text-delta","index":0,"text":"a"}"#, true, true, true),
            (r#"{"type":"text-delta","index":0,"text":5}"#, false, false, false),
            (r#"{"type":"reasoning-delta","index":0,"text":"a"}"#, true, true, false),
            (r#"{"type":"tool-call-delta","index":0,"id":"c","argumentsDelta":""}"#, false, false, false),
            (
                r#"{"type":"tool-call-delta","index":0,"id":"c","name":"","argumentsDelta":""}"#,
                true,
                false,
                false,
            ),
            (r#"{"type":"tool-call-delta","index":0,"id":"c","argumentsDelta":"{"}"#, true, false, false),
            (r#"{"type":"block-start","index":0,"blockType":"text"}"#, false, false, false),
            (r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#, false, false, false),
            (r#"{"type":"block-start","index":0,"blockType":"image"}"#, false, true, false),
            (
                r#"{"type":"block-end","index":0,"block":{"type":"text","text":"\ufeff"}}"#,
                false,
                false,
                false,
            ),
            (r#"{"type":"block-end","index":0,"block":{"type":"text","text":"a"}}"#, false, true, true),
            (r#"{"type":"block-end","index":0,"block":{"type":"reasoning","text":"a"}}"#, false, true, false),
            (r#"{"type":"block-end","index":0,"block":{"type":"tool-call"}}"#, false, false, false),
            (r#"{"type":"block-end","index":0,"block":{"type":"image"}}"#, false, true, false),
            (r#"{"type":"block-end","index":0}"#, false, false, false),
            (r#"{"type":"usage","usage":{}}"#, false, false, false),
            (r#"{"type":"finish","reason":{"kind":"stop"}}"#, false, false, false),
            (r#"{"type":"sparkle","text":"a"}"#, false, false, false),
        ] {
            let chunk = raw(json);
            assert_eq!(
                (chunk.is_token(), chunk.is_visible(), chunk.has_visible_text()),
                (token, visible, text),
                "{json}"
            );
        }
        let (a, none) = (Fragment::new("a"), Fragment::new(""));
        let call = |name, arguments| Chunk::ToolCallDelta { index: 0, id: a, name, arguments };
        assert!(
            call(Some(none), none).is_token() && call(None, a).is_token() && !call(None, none).is_token()
        );
        assert!(!call(Some(a), a).is_visible() && !call(Some(a), a).has_visible_text());
        let reasoning = Chunk::ReasoningDelta { index: 0, text: a };
        assert!(reasoning.is_token() && reasoning.is_visible() && !reasoning.has_visible_text());
        let text = Chunk::TextDelta { index: 0, text: Fragment::new(r"\u3000") };
        assert!(text.is_token() && !text.is_visible() && !text.has_visible_text());
    }

    #[test]
    fn kinds_have_their_names_both_ways() {
        for (name, kind) in ChunkKind::NAMED {
            assert_eq!(kind.name(), name);
            let json = format!(r#"{{"x":{{"type":"no"}},"type":"no","type":"{name}"}}"#);
            assert_eq!(RawChunk::new(&json).kind(), Some(kind));
            assert_eq!(raw(&json).kind(), Some(kind));
        }
        assert_eq!(RawChunk::new(r#"{"type":5}"#).kind(), None);
        assert_eq!(RawChunk::new("{}").kind(), None);
    }

    #[test]
    fn deltas_are_written_canonically_and_raw_chunks_as_they_stand() {
        let written = |chunk: Chunk<'_>| {
            let mut out = Vec::new();
            Timed { time: UnixMs::new(-1), chunk }.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        let text = Fragment::new(r"\u0041\n\uD800");
        assert_eq!(
            written(Chunk::TextDelta { index: 1, text }),
            r#"{"time":-1,"chunk":{"type":"text-delta","index":1,"text":"A\n\ud800"}}"#
        );
        assert_eq!(
            written(Chunk::ReasoningDelta { index: 1, text }),
            r#"{"time":-1,"chunk":{"type":"reasoning-delta","index":1,"text":"A\n\ud800"}}"#
        );
        assert_eq!(
            written(Chunk::ToolCallDelta { index: 0, id: text, name: Some(text), arguments: text }),
            r#"{"time":-1,"chunk":{"type":"tool-call-delta","index":0,"id":"A\n\ud800","name":"A\n\ud800","argumentsDelta":"A\n\ud800"}}"#
        );
        assert_eq!(written(raw(r#"{ "a" : 1.0 }"#)), r#"{"time":-1,"chunk":{ "a" : 1.0 }}"#);
    }
}
