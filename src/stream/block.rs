use super::chunk::BlockKind;
use super::fragment::is_white_space;
use super::value::{member, string};
use crate::json::{Kind, Node, Str, Text, write_text};

/// A content block that a stream gives.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Block<'s> {
    /// A block that ended: the JSON text of what it became, whole and unaltered.
    Closed(&'s str),
    /// An open block of text.
    Text(&'s Text),
    /// An open block of reasoning.
    Reasoning(&'s Text),
    /// An open tool call.
    ToolCall {
        /// The id of its last delta; `call-` and the index if it had none.
        id: &'s Text,
        /// The last name that was not empty; empty if there was none.
        name: &'s Text,
        /// The JSON text of the arguments, as far as it came.
        arguments: &'s Text,
    },
}

impl Block<'_> {
    /// What it is.
    #[must_use]
    pub fn kind(self) -> BlockKind {
        match self {
            Self::Closed(json) => BlockKind::of_block(json),
            Self::Text(_) => BlockKind::Text,
            Self::Reasoning(_) => BlockKind::Reasoning,
            Self::ToolCall { .. } => BlockKind::ToolCall,
        }
    }

    /// Whether it is text or reasoning that is not blank.
    #[must_use]
    pub fn is_visible_text(self) -> bool {
        let filled = match self {
            Self::Closed(json) => member(json, "text").and_then(string).is_some_and(|text| !text.is_blank()),
            Self::Text(text) | Self::Reasoning(text) => !text.units().all(is_white_space),
            Self::ToolCall { .. } => false,
        };
        filled && matches!(self.kind(), BlockKind::Text | BlockKind::Reasoning)
    }

    /// Whether the value `node` is this block, members in any order.
    pub(super) fn is(self, node: Node<'_>, tape: &mut crate::json::Tape) -> bool {
        let (kind, parts): (_, &[(&str, &Text)]) = match self {
            Self::Closed(json) => {
                return tape.parse(json.as_bytes(), u32::MAX).is_ok_and(|block| block.deep_eq(node));
            }
            Self::Text(text) => ("text", &[("text", text)]),
            Self::Reasoning(text) => ("reasoning", &[("text", text)]),
            Self::ToolCall { id, name, arguments } => {
                ("tool-call", &[("id", id), ("name", name), ("arguments", arguments)])
            }
        };
        node.kind() == Kind::Object
            && node.members().is_some_and(|members| members.len() == parts.len().saturating_add(1))
            && node.get("type").and_then(Node::as_str).is_some_and(|other| other.eq_str(kind))
            && parts.iter().all(|(member, text)| {
                node.get(member).and_then(Node::as_str).is_some_and(|value| is_text(value, text))
            })
    }

    /// Appends the block as JSON, members in the usual order; a closed block as it stands.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Closed(json) => out.extend_from_slice(json.as_bytes()),
            Self::Text(text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write_text(out, text);
                out.push(b'}');
            }
            Self::Reasoning(text) => {
                out.extend_from_slice(b"{\"type\":\"reasoning\",\"text\":");
                write_text(out, text);
                out.push(b'}');
            }
            Self::ToolCall { id, name, arguments } => {
                out.extend_from_slice(b"{\"type\":\"tool-call\",\"id\":");
                write_text(out, id);
                out.extend_from_slice(b",\"name\":");
                write_text(out, name);
                out.extend_from_slice(b",\"arguments\":");
                write_text(out, arguments);
                out.push(b'}');
            }
        }
    }
}

fn is_text(value: Str<'_>, text: &Text) -> bool {
    match value.as_plain() {
        Some(plain) => text == plain,
        None => value.units().eq(text.units()),
    }
}
