//! The shape of messages: what a durable message event must hold to be taken into a session.
//!
//! Only the envelope of a message is judged; what stands inside its content blocks belongs to whoever makes them.

use super::kind::Kind;
use super::profile::ToolResults;
use crate::json::{Node, Str};
use crate::row::Event;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageFault {
    /// There is none, or it is no object.
    #[error("it has no message")]
    Missing,
    /// `id` is no string, or empty.
    #[error("the message has no id")]
    Id,
    /// `role` is not that of its event type.
    #[error("the message does not have the role of its event")]
    Role,
    /// `source.kind` is no string, or empty.
    #[error("the message has no source")]
    Source,
    /// `content` is no list.
    #[error("the message has no list as its content")]
    Content,
    /// An assistant's message whose source is not a model with provider and name.
    #[error("the message does not name the provider and model that it came from")]
    Model,
    /// A tool result whose source is not a tool with the id of its call.
    #[error("the message does not name the tool call that it answers")]
    Call,
    /// A tool result whose content is not exactly one block of that type, with a list inside.
    #[error("the content is not exactly one tool-result block")]
    Block,
    /// The block of a tool result is that of another call.
    #[error("the tool-result block and the source name different calls")]
    OtherCall,
}

/// Checks the message of an event of type `kind`; every other type has none. Time O(members), blocks not entered.
///
/// # Errors
/// The first [`MessageFault`] in the order of their declaration.
pub(crate) fn check_message(
    kind: Kind,
    message: Option<Node<'_>>,
    shape: ToolResults,
) -> Result<(), MessageFault> {
    let role = match kind {
        Kind::AssistantMessage => "assistant",
        Kind::ToolResult => match shape {
            ToolResults::OneBlock => "user",
        },
        Kind::UserMessage => "user",
        _ => return Ok(()),
    };
    let message = message.filter(|message| message.members().is_some()).ok_or(MessageFault::Missing)?;
    ensure(has_text(message, "id"), MessageFault::Id)?;
    ensure(is_text(message, "role", role), MessageFault::Role)?;
    let source = message.get("source").filter(|source| has_text(*source, "kind"));
    let source = source.ok_or(MessageFault::Source)?;
    let mut blocks = message.get("content").and_then(Node::items).ok_or(MessageFault::Content)?;
    match kind {
        Kind::AssistantMessage => {
            let named = has_text(source, "provider") && has_text(source, "model");
            ensure(is_text(source, "kind", "model") && named, MessageFault::Model)
        }
        Kind::ToolResult => {
            ensure(is_text(source, "kind", "tool") && has_text(source, "callId"), MessageFault::Call)?;
            let (Some(block), None) = (blocks.next(), blocks.next()) else { return Err(MessageFault::Block) };
            let inner = block.get("content").and_then(Node::items);
            ensure(is_text(block, "type", "tool-result") && inner.is_some(), MessageFault::Block)?;
            let ids = [block.get("toolCallId"), source.get("callId")].map(|id| id.and_then(Node::as_str));
            let same = matches!(ids, [Some(block), Some(source)] if block.units().eq(source.units()));
            ensure(same, MessageFault::OtherCall)
        }
        _ => Ok(()),
    }
}

/// How many tool calls the content of a message asks for.
pub(crate) fn tool_calls(message: Node<'_>) -> u32 {
    let blocks = message.get("content").and_then(Node::items).into_iter().flatten();
    u32::try_from(blocks.filter(|block| is_text(*block, "type", "tool-call")).count()).unwrap_or(u32::MAX)
}

/// Whether the content of a message is a list without blocks.
pub(crate) fn is_empty(message: Node<'_>) -> bool {
    message.get("content").and_then(Node::items).is_some_and(|blocks| blocks.len() == 0)
}

pub(super) fn has_text(node: Node<'_>, member: &str) -> bool {
    node.get(member).and_then(Node::as_str).is_some_and(|text| !text.is_empty())
}

pub(super) fn is_text(node: Node<'_>, member: &str, value: &str) -> bool {
    node.get(member).and_then(Node::as_str).is_some_and(|text| text.eq_str(value))
}

/// Whether a person said `message`, the payload of a `user/message`, when `event` was written: plugins, tools and other agents write such
/// too, and one that replaces a part of the surface says nothing anew.
pub(crate) fn is_prompt(event: &Event<'_>, message: Node<'_>) -> bool {
    event.is_appended() && message.get("source").is_some_and(|source| is_text(source, "kind", "user"))
}

/// The texts of a message's blocks of that type.
pub(crate) fn texts(message: Node<'_>) -> impl Iterator<Item = Str<'_>> {
    let blocks = message.get("content").and_then(Node::items).into_iter().flatten();
    blocks
        .filter(|block| is_text(*block, "type", "text"))
        .filter_map(|block| block.get("text").and_then(Node::as_str))
}

fn ensure(holds: bool, fault: MessageFault) -> Result<(), MessageFault> {
    if holds { Ok(()) } else { Err(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn check(kind: Kind, message: &str) -> Result<(), MessageFault> {
        let mut tape = Tape::default();
        let node = tape.parse(message.as_bytes(), 64).unwrap();
        check_message(kind, Some(node), ToolResults::OneBlock)
    }

    fn check_all(kind: Kind, sound: &str, broken: &[(&str, &str, MessageFault)]) {
        assert_eq!(check(kind, sound), Ok(()));
        for (from, to, fault) in broken {
            assert!(sound.contains(from), "{from}");
            assert_eq!(check(kind, &sound.replace(from, to)), Err(*fault), "{from} -> {to}");
        }
    }

    #[test]
    fn every_message_has_id_role_source_and_content() {
        use MessageFault::{Content, Id, Missing, Role, Source};
        check_all(
            Kind::UserMessage,
            r#"{"id":"u","role":"user","source":{"kind":"x"},"content":[]}"#,
            &[
                (r#""id":"u","#, "", Id),
                (r#""u""#, "\"\"", Id),
                (r#""u""#, "1", Id),
                (r#""user""#, r#""assistant""#, Role),
                (r#"{"kind":"x"}"#, "{}", Source),
                (r#"{"kind":"x"}"#, r#"{"kind":""}"#, Source),
                (r#"{"kind":"x"}"#, "null", Source),
                ("[]", "\"text\"", Content),
                (r#","content":[]"#, "", Content),
            ],
        );
        assert_eq!(check(Kind::UserMessage, "[]"), Err(Missing));
        assert_eq!(check_message(Kind::ToolResult, None, ToolResults::OneBlock), Err(Missing));
        assert_eq!(check_message(Kind::TurnStart, None, ToolResults::OneBlock), Ok(()));
    }

    #[test]
    fn an_assistants_message_names_its_model() {
        use MessageFault::{Model, Role};
        check_all(
            Kind::AssistantMessage,
            r#"{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"anything"},7]}"#,
            &[
                (r#""assistant""#, r#""user""#, Role),
                (r#""kind":"model""#, r#""kind":"user""#, Model),
                (r#""p""#, "\"\"", Model),
                (r#","model":"m""#, "", Model),
            ],
        );
    }

    #[test]
    fn a_tool_result_is_one_block_of_its_own_call() {
        use MessageFault::{Block, Call, OtherCall, Role};
        check_all(
            Kind::ToolResult,
            r#"{"id":"r","role":"user","source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"\u0063","content":[]}]}"#,
            &[
                (r#""user""#, r#""tool""#, Role),
                (r#""kind":"tool""#, r#""kind":"user""#, Call),
                (r#""callId":"c""#, r#""callId":"""#, Call),
                (r#"[{"type""#, r#"[1,{"type""#, Block),
                (r#""tool-result""#, r#""text""#, Block),
                (r#","content":[]}"#, "}", Block),
                (r#"\u0063"#, "d", OtherCall),
            ],
        );
    }

    #[test]
    fn tool_calls_are_counted_by_their_blocks() {
        let mut tape = Tape::default();
        let text = br#"{"content":[{"type":"tool-call","id":"a"},{"type":"text"},{"type":"tool-call"}]}"#;
        let message = tape.parse(text, 64).unwrap();
        assert_eq!(tool_calls(message), 2);
        assert!(!is_empty(message));
        let none = tape.parse(br#"{"content":[]}"#, 64).unwrap();
        assert!(is_empty(none) && tool_calls(none) == 0);
    }
}
