//! Tool calls of a step, and nested dispatches: what was announced, started and answered.

use std::collections::HashMap;

use crate::json::{Node, Str, Tape, Text};

/// The one text of a result that stands for a call which never started.
const NOT_STARTED: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";

/// The calls of the open step that have no result yet.
#[derive(Debug, Default)]
pub(crate) struct StepCalls {
    open: HashMap<Text, Call>,
}

#[derive(Debug)]
struct Call {
    name: Option<Text>,
    arguments: Option<Text>,
    is_started: bool,
}

impl StepCalls {
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Whether every call has its result.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes the tool calls in the content of an assistant message.
    pub(crate) fn advertise(&mut self, data: Node<'_>) -> Result<(), &'static str> {
        let content = data.get("message").and_then(|message| message.get("content")).and_then(Node::items);
        for block in content.into_iter().flatten() {
            if !is(block, "type", "tool-call") {
                continue;
            }
            let id = text(block, "id").ok_or("a tool call has no id")?;
            let call =
                Call { name: text(block, "name"), arguments: text(block, "arguments"), is_started: false };
            if self.open.insert(id, call).is_some() {
                return Err("a tool call has the id of one without a result");
            }
        }
        Ok(())
    }

    /// `tool/call`: starts an announced call.
    pub(crate) fn start(&mut self, data: Node<'_>) -> Result<(), &'static str> {
        let call = text(data, "callId").and_then(|id| self.open.get_mut(&id)).filter(|call| {
            !call.is_started
                && call.name.is_some()
                && call.name == text(data, "name")
                && call.arguments.is_some()
                && call.arguments == text(data, "arguments")
        });
        call.ok_or("it does not match one announced tool call")?.is_started = true;
        Ok(())
    }

    /// An appended `tool/result` at `seq`: answers a call that started, or stands for one that never did.
    pub(crate) fn resolve(
        &mut self,
        data: Node<'_>,
        seq: u64,
        has_sources: bool,
    ) -> Result<(), &'static str> {
        let message = data.get("message").ok_or("it has no message")?;
        let id = message.get("source").and_then(|source| text(source, "callId")).ok_or("it names no call")?;
        let call = self.open.remove(&id).ok_or("it answers no announced tool call")?;
        if call.is_started || !has_sources && is_not_started_repair(data, message, &id, seq) {
            Ok(())
        } else {
            Err("the call did not start, and this is not the exact result that says so")
        }
    }
}

fn is_not_started_repair(data: Node<'_>, message: Node<'_>, call: &Text, seq: u64) -> bool {
    let Some(error) = data.get("error") else { return false };
    let mut id = Text::from("interrupted-tool-result-");
    id.push_text(call);
    id.push_str("-");
    id.push_str(&seq.to_string());
    let named = is(error, "name", "ToolNotStartedError") && is(error, "code", "TOOL_NOT_STARTED");
    let Some(block) = single(message.get("content")) else { return false };
    let Some(inner) = single(block.get("content")) else { return false };
    named
        && text(message, "id") == Some(id)
        && block.get("isError").and_then(Node::as_bool) == Some(true)
        && is(inner, "type", "text")
        && is(inner, "text", NOT_STARTED)
}

/// The only item of a list.
fn single(list: Option<Node<'_>>) -> Option<Node<'_>> {
    let mut items = list?.items()?;
    match (items.next(), items.next()) {
        (item, None) => item,
        _ => None,
    }
}

/// Nested dispatches of the whole log, by the id of the sub-call.
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    calls: HashMap<Text, Dispatch>,
}

#[derive(Debug)]
struct Dispatch {
    root: Text,
    /// Until the dispatch is settled.
    open: Option<OpenDispatch>,
}

#[derive(Debug)]
struct OpenDispatch {
    parent: Text,
    name: Option<Text>,
    /// JSON text.
    arguments: Vec<u8>,
}

impl Dispatches {
    pub(crate) fn start(&mut self, data: Node<'_>) -> Result<(), &'static str> {
        let (call, root, parent) = Self::ids(data)?;
        if self.calls.contains_key(&call) {
            return Err("its sub-call started before");
        }
        self.check_parent(&root, &parent)?;
        let arguments = data.get("arguments").map_or(Vec::new(), |value| value.raw().as_bytes().to_vec());
        let open = Some(OpenDispatch { parent, name: text(data, "name"), arguments });
        self.calls.insert(call, Dispatch { root, open });
        Ok(())
    }

    pub(crate) fn end(&mut self, data: Node<'_>) -> Result<(), &'static str> {
        let (call, root, parent) = Self::ids(data)?;
        self.check_parent(&root, &parent)?;
        let dispatch = self.calls.get_mut(&call).ok_or("its sub-call did not start")?;
        let open = dispatch.open.take().ok_or("its sub-call is settled")?;
        let same = dispatch.root == root
            && open.parent == parent
            && open.name == text(data, "name")
            && data.get("arguments").is_some_and(|arguments| equals(arguments, &open.arguments));
        if same { Ok(()) } else { Err("it does not match its start") }
    }

    fn ids(data: Node<'_>) -> Result<(Text, Text, Text), &'static str> {
        match (text(data, "subCallId"), text(data, "rootCallId"), text(data, "parentCallId")) {
            (Some(call), Some(root), Some(parent)) => Ok((call, root, parent)),
            _ => Err("it lacks an id"),
        }
    }

    fn check_parent(&self, root: &Text, parent: &Text) -> Result<(), &'static str> {
        let known = parent == root || self.calls.get(parent).is_some_and(|call| call.root == *root);
        if known { Ok(()) } else { Err("its parent is no sub-call of its root") }
    }
}

/// Whether a value deeply equals one that was kept as text.
fn equals(value: Node<'_>, kept: &[u8]) -> bool {
    let mut tape = Tape::default();
    // The text was taken from a row within its limits.
    value.raw().as_bytes() == kept || tape.parse(kept, u32::MAX).is_ok_and(|kept| value.deep_eq(kept))
}

fn text(value: Node<'_>, name: &str) -> Option<Text> {
    value.get(name)?.as_str().map(Str::to_text)
}

fn is(value: Node<'_>, name: &str, wanted: &str) -> bool {
    value.get(name).and_then(Node::as_str).is_some_and(|text| text.eq_str(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_ends_as_it_started() {
        let mut dispatches = Dispatches::default();
        let event = |call: &str, root: &str, parent: &str, arguments: &str| {
            format!(
                r#"{{"rootCallId":"{root}","parentCallId":"{parent}","subCallId":"{call}","name":"n","arguments":{arguments}}}"#
            )
        };
        let mut run = |start: bool, text: &str| {
            let mut tape = Tape::default();
            let data = tape.parse(text.as_bytes(), 10).expect("test data is JSON");
            if start { dispatches.start(data).is_ok() } else { dispatches.end(data).is_ok() }
        };
        assert!(run(true, &event("a", "r", "r", r#"{"x":1,"y":2}"#)));
        assert!(!run(true, &event("a", "r", "r", "{}")), "started twice");
        assert!(!run(true, &event("b", "r", "c", "{}")), "unknown parent");
        assert!(!run(true, &event("b", "q", "a", "{}")), "the parent belongs to another root");
        assert!(run(true, &event("b", "r", "a", "[]")));
        assert!(run(false, &event("a", "r", "r", r#"{ "y":2.0,"x":1}"#)), "equal as values");
        assert!(!run(false, &event("a", "r", "r", r#"{"x":1,"y":2}"#)), "settled twice");
        assert!(!run(false, &event("b", "r", "a", "{}")), "other arguments");
    }
}
