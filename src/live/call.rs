//! Tool calls of a conversation.

use std::sync::Arc;

use super::chat::Anchor;
use super::fact::{Moment, StepKey, text};
use super::place::Place;
use crate::json::{Node, Tape, Text, write_i64, write_text, write_u64};
use crate::limits::Limits;

/// A tool call: that a message asks for it, that it was started, and its result, as far as these are in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatCall {
    /// Its step.
    pub key: StepKey,
    /// Its id; one in its step.
    pub id: Text,
    /// The tool; empty if only the result is there.
    pub name: Text,
    /// The JSON text of the arguments, as the model wrote it.
    pub arguments: Text,
    /// The message that asks for it.
    pub asked: Option<Moment>,
    /// When it was started.
    pub started: Option<Moment>,
    /// What came of it.
    pub result: Option<CallResult>,
    /// Its number in the message, from 1.
    number: u32,
}

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallResult {
    /// The event.
    pub at: Moment,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Its content, a JSON array of blocks. Whole: what shortens it for the model is not looked at.
    pub content: Arc<str>,
}

/// How it stands with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStatus {
    /// It was asked for.
    Asked,
    /// It was started.
    Running,
    /// It has its result.
    Done,
    /// Its result says that it failed.
    Failed,
}

impl CallStatus {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl ChatCall {
    pub(super) fn new(key: StepKey, id: Text) -> Self {
        let (name, arguments) = (Text::new(), Text::new());
        Self { key, id, name, arguments, asked: None, started: None, result: None, number: 0 }
    }

    /// How it stands with it.
    #[must_use]
    pub fn status(&self) -> CallStatus {
        match (&self.result, self.started) {
            (Some(result), _) if result.is_error => CallStatus::Failed,
            (Some(_), _) => CallStatus::Done,
            (None, Some(_)) => CallStatus::Running,
            (None, None) => CallStatus::Asked,
        }
    }

    /// Behind its message, or where its first event stands that is there.
    pub(super) fn anchor(&self) -> Anchor {
        let result = self.result.as_ref().map(|result| result.at);
        let first = self.asked.or(self.started).or(result).map_or(0, |at| at.seq);
        (Place::of_event(first), self.number)
    }

    pub(super) fn ask(&mut self, at: Moment, number: u32, name: Text, arguments: Text) {
        if self.asked.is_some_and(|known| known > at) {
            return;
        }
        (self.asked, self.number) = (Some(at), number);
        // What was started is what was run, should the two ever differ.
        if self.started.is_none() {
            (self.name, self.arguments) = (name, arguments);
        }
    }

    pub(super) fn start(&mut self, at: Moment, name: Text, arguments: Text) {
        if self.started.is_none_or(|known| known <= at) {
            self.started = Some(at);
            (self.name, self.arguments) = (name, arguments);
        }
    }

    pub(super) fn finish(&mut self, at: Moment, is_error: bool, content: Arc<str>) {
        if self.result.as_ref().is_none_or(|known| known.at <= at) {
            self.result = Some(CallResult { at, is_error, content });
        }
    }

    pub(super) fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(self.status().name().as_bytes());
        out.extend_from_slice(b"\",\"id\":");
        write_text(out, &self.id);
        out.extend_from_slice(b",\"name\":");
        write_text(out, &self.name);
        out.extend_from_slice(b",\"arguments\":");
        write_text(out, &self.arguments);
        let result = self.result.as_ref();
        let moments =
            [("asked", self.asked), ("started", self.started), ("ended", result.map(|result| result.at))];
        for (name, at) in moments {
            if let Some(at) = at {
                out.extend_from_slice(format!(",\"{name}\":{{\"seq\":").as_bytes());
                write_u64(out, at.seq);
                out.extend_from_slice(b",\"time\":");
                write_i64(out, at.time.get());
                out.push(b'}');
            }
        }
        if let Some(result) = result {
            out.extend_from_slice(b",\"content\":");
            out.extend_from_slice(result.content.as_bytes());
        }
    }
}

/// A call that a message asks for.
pub(super) struct Asked {
    pub(super) id: Text,
    pub(super) name: Text,
    pub(super) arguments: Text,
}

/// The calls in the content of a message.
pub(super) fn asked(content: &str, tape: &mut Tape) -> Vec<Asked> {
    let content = tape.parse(content.as_bytes(), Limits::DEFAULT.nesting_max).ok();
    let blocks = content.and_then(Node::items).into_iter().flatten();
    let call = |block: Node<'_>| {
        block.get("type").and_then(Node::as_str).filter(|kind| kind.eq_str("tool-call"))?;
        Some(Asked {
            id: text(block, "id")?,
            name: text(block, "name")?,
            arguments: text(block, "arguments")?,
        })
    };
    blocks.filter_map(call).collect()
}
