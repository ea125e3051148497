//! The step from v0 to v1: every event stays where it is, and the old forms of a few become the one form of v1.
//!
//! Spec: `format-spec/06-migration.md`, "v0 to v1".

use std::collections::HashMap;

use super::inventory::{Inventory, Kind, Place};
use super::object::Object;
use super::physical::Envelope;
use super::refusal::{Code, Detail, Refusal, Stage};
use crate::json::{Node, Number, Str, Text, write_text};
use crate::units::Generation;

/// What the step remembers between events.
#[derive(Debug)]
pub(super) struct ToV1 {
    session: Text,
    /// Events below this seq came from a parent: their delivery markers may name it.
    inherited_below: u64,
    /// The last id of each chain of retries, by (turn, step, provider, policyKey).
    retries: HashMap<Vec<u8>, Text>,
    /// The id of the compaction that is under way.
    compaction: Option<Text>,
    messages: MessageIds,
}

/// An event after its old forms were replaced, not yet checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewed<'t> {
    /// `None` for a type that no release wrote.
    pub(super) kind: Option<Kind>,
    pub(super) data: Data<'t>,
}

/// Where the payload of an event is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'t> {
    /// In the row.
    Stored(Node<'t>),
    /// In the buffer that the step wrote to.
    Rewritten,
}

impl ToV1 {
    /// The step for the session of id `session`, of whose events those below `inherited_below` are its parent's.
    pub(super) fn new(session: Text, inherited_below: u64) -> Self {
        Self {
            session,
            inherited_below,
            retries: HashMap::new(),
            compaction: None,
            messages: MessageIds::default(),
        }
    }

    /// Replaces the old forms of event `seq`. A payload that changes is written to `out`, which must be empty.
    pub(super) fn renew<'t>(
        &mut self,
        event: &Envelope<'t>,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<Renewed<'t>, Refusal> {
        let name = event.type_name().map(Str::to_string_lossy);
        let name = name.as_deref().unwrap_or("");
        if matches!(name, "request/header-delta" | "mode/set") {
            return Err(refuse(Code::V0RetiredEvent).with(Detail::EventType(name.to_owned())));
        }
        let data =
            event.data.filter(|data| data.members().is_some()).ok_or_else(|| invalid("data is no object"))?;
        let kind = match name {
            "compact/start" => Some(Kind::CompactionStart),
            "compact/summary" => Some(Kind::CompactionSummary),
            "compact/end" => Some(Kind::CompactionEnd),
            "compact/prune" => Some(Kind::CompactionPrune),
            "steering/message" => Some(Kind::UserMessage),
            _ => Kind::from_name(name),
        };
        let payload = match kind {
            Some(Kind::TurnStart) => turn_start(data, out)?,
            Some(Kind::TurnEnd) => turn_end(data, out)?,
            Some(Kind::RequestHeader) => request_header(data, out)?,
            Some(Kind::UserMessage) => self.user_message(name == "steering/message", data, seq, out)?,
            Some(Kind::LlmRetry) => self.retry(data, seq, out),
            Some(Kind::SessionEndSeed) => {
                self.compaction = None;
                Data::Stored(data)
            }
            Some(Kind::CompactionStart) => self.compaction_start(data, seq, out),
            Some(kind @ (Kind::CompactionSummary | Kind::CompactionEnd)) => {
                self.compaction_rest(kind, data, out)
            }
            Some(Kind::AssistantMessage) => self.assistant_message(data, seq, out)?,
            Some(Kind::ToolResult) => self.tool_result(event, data, seq, out)?,
            _ => Data::Stored(data),
        };
        Ok(Renewed { kind, data: payload })
    }

    /// Checks the renewed event, anything but a chunk, against the frozen v0 schema, and notes what later ones need.
    pub(super) fn check(
        &mut self,
        kind: Option<Kind>,
        name: Option<Str<'_>>,
        data: Node<'_>,
        seq: u64,
    ) -> Result<Kind, Refusal> {
        let Some(kind) = kind.filter(|kind| Inventory::v1().has(*kind)) else {
            let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(refuse(Code::V0UnknownEvent).with(Detail::EventType(name)));
        };
        if kind == Kind::SubagentDescriptor && data.get("version").and_then(count).is_some_and(|v| v != 3) {
            return Err(refuse(Code::V0DescriptorVersion));
        }
        let place = Place { generation: Generation::V0, seq };
        Inventory::v1()
            .check(kind, data, place)
            .map_err(|mismatch| refuse(Code::PayloadInvalid).with(Detail::Payload(mismatch)))?;
        let holder = if kind == Kind::UserMessage { Some(data) } else { data.get("message") };
        if let Some(id) = holder.and_then(|message| message.get("id")).and_then(Node::as_str) {
            self.messages.remember(seq, id, &self.session);
        }
        if kind == Kind::DeliveryAccepted
            && seq >= self.inherited_below
            && data.get("sessionId").and_then(Node::as_str).is_none_or(|id| id.to_text() != self.session)
        {
            return Err(refuse(Code::DeliverySession));
        }
        Ok(kind)
    }

    fn legacy_id(&self, what: &str, seq: u64) -> Text {
        legacy_id(what, &self.session, seq)
    }

    /// `steering/message` and `user/message`: unwrapped, then the compaction's id, then id and role.
    fn user_message<'t>(
        &mut self,
        steering: bool,
        data: Node<'t>,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<Data<'t>, Refusal> {
        let mut message = data;
        let mut unwrapped = false;
        if steering {
            if let Some(inner) = data.get("message") {
                only(data, &["turn", "message"])?;
                message = inner;
            } else {
                all(data, &["turn", "content", "source"], &[])?;
                unwrapped = true;
            }
            data.get("turn").and_then(count).ok_or_else(|| invalid("turn is no count"))?;
            if message.members().is_none() {
                return Err(invalid("message is no object"));
            }
        }
        let has = |name: &str| message.get(name).is_some();
        let source = message.get("source");
        let from_compact = source.is_some_and(|source| {
            is(source, "kind", "plugin")
                && is(source, "plugin", "compact")
                && source.get("compactionId").is_none()
        });
        let group = self.compaction.as_ref().filter(|_| from_compact);
        let bare = has("content") && has("source") && !has("id") && !has("role") && !has("message");
        let add_id = unwrapped || bare;
        if group.is_none() && !add_id {
            return Ok(Data::Stored(message));
        }
        let mut object = Object::new(out);
        for (name, value) in message.members().into_iter().flatten() {
            match group {
                _ if unwrapped && name.eq_str("turn") => {}
                Some(group) if name.eq_str("source") => {
                    object.name(name);
                    let mut inner = Object::new(object.out);
                    inner.copy_all(value);
                    inner.text("compactionId", group);
                    inner.end();
                }
                _ => object.copy(name, value),
            }
        }
        if add_id {
            object.text("id", &self.legacy_id("message", seq));
            object.plain("role", "user");
        }
        object.end();
        Ok(Data::Rewritten)
    }

    fn retry<'t>(&mut self, data: Node<'t>, seq: u64, out: &mut Vec<u8>) -> Data<'t> {
        let mut key = Vec::new();
        for member in ["turn", "step", "provider", "policyKey"] {
            if let Some(value) = data.get(member) {
                value.write_canonical(&mut key);
            }
            // JSON text holds no such byte.
            key.push(0);
        }
        match data.get("retryId") {
            Some(id) => {
                if let Some(id) = id.as_str().filter(|id| !id.is_empty()) {
                    self.retries.insert(key, id.to_text());
                }
                Data::Stored(data)
            }
            None => {
                let fresh = || legacy_id("retry", &self.session, seq);
                let id = self.retries.entry(key).or_insert_with(fresh);
                append(data, "retryId", id, out)
            }
        }
    }

    fn compaction_start<'t>(&mut self, data: Node<'t>, seq: u64, out: &mut Vec<u8>) -> Data<'t> {
        match data.get("compactionId") {
            Some(id) => {
                if let Some(id) = id.as_str().filter(|id| !id.is_empty()) {
                    self.compaction = Some(id.to_text());
                }
                Data::Stored(data)
            }
            None => {
                let id = self.legacy_id("compaction", seq);
                append(data, "compactionId", self.compaction.insert(id), out)
            }
        }
    }

    fn compaction_rest<'t>(&mut self, kind: Kind, data: Node<'t>, out: &mut Vec<u8>) -> Data<'t> {
        let payload = match &self.compaction {
            Some(id) if data.get("compactionId").is_none() => append(data, "compactionId", id, out),
            _ => Data::Stored(data),
        };
        if kind == Kind::CompactionEnd {
            self.compaction = None;
        }
        payload
    }

    fn assistant_message<'t>(
        &self,
        data: Node<'t>,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<Data<'t>, Refusal> {
        let (Some(content), Some(provenance), None) =
            (data.get("content"), data.get("provenance"), data.get("message"))
        else {
            return Ok(Data::Stored(data));
        };
        let origin = provenance.members().ok_or_else(|| invalid("provenance is no object"))?;
        let mut object = Object::new(out);
        object.copy_except(data, &["content", "provenance"]);
        let mut message = object.object("message");
        message.text("id", &self.legacy_id("message", seq));
        message.plain("role", "assistant");
        message.value("content", content);
        let mut source = message.object("source");
        let mut has_kind = false;
        for (name, value) in origin {
            if name.eq_str("kind") {
                has_kind = true;
                source.plain("kind", "model");
            } else {
                source.copy(name, value);
            }
        }
        if !has_kind {
            source.plain("kind", "model");
        }
        source.end();
        message.end();
        object.end();
        Ok(Data::Rewritten)
    }

    fn tool_result<'t>(
        &self,
        event: &Envelope<'t>,
        data: Node<'t>,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<Data<'t>, Refusal> {
        let call_id = data.get("callId").filter(|id| id.as_str().is_some());
        let is_error = data.get("isError").filter(|flag| flag.as_bool().is_some());
        let (Some(call_id), Some(is_error), Some(content), None) =
            (call_id, is_error, data.get("content"), data.get("message"))
        else {
            return Ok(Data::Stored(data));
        };
        let replaces = event.surface_op.filter(|op| is(*op, "op", "replace"));
        let id = match replaces {
            Some(op) => {
                let id =
                    op.get("start").and_then(count).and_then(|seq| self.messages.literal(seq, &self.session));
                id.ok_or_else(|| refuse(Code::V0ReplacementIdentity))?
            }
            None => literal(&self.legacy_id("message", seq)),
        };
        let mut object = Object::new(out);
        object.copy_except(data, &["callId", "isError", "content"]);
        let mut message = object.object("message");
        message.key("id");
        message.out.extend_from_slice(&id);
        message.plain("role", "user");
        let mut block = message.object_in_list("content");
        block.plain("type", "tool-result");
        block.value("toolCallId", call_id);
        block.value("content", content);
        block.value("isError", is_error);
        block.end();
        message.out.push(b']');
        let mut source = message.object("source");
        source.plain("kind", "tool");
        source.value("callId", call_id);
        source.end();
        message.end();
        object.end();
        Ok(Data::Rewritten)
    }
}

/// The id that an event of an old form gets: a function of the log alone, so every conversion gives the same.
fn legacy_id(what: &str, session: &Text, seq: u64) -> Text {
    let mut id = Text::from("legacy-");
    id.push_str(what);
    id.push_str(":");
    id.push_text(session);
    id.push_str(":");
    id.push_str(&seq.to_string());
    id
}

fn refuse(code: Code) -> Refusal {
    Refusal::new(Stage::V0ToV1, code)
}

fn invalid(rule: &'static str) -> Refusal {
    refuse(Code::PayloadInvalid).with(Detail::Rule(rule))
}

fn count(value: Node<'_>) -> Option<u64> {
    value.as_number().and_then(Number::as_count)
}

/// Whether member `name` is the string `text`.
fn is(value: Node<'_>, name: &str, text: &str) -> bool {
    value.get(name).and_then(Node::as_str).is_some_and(|s| s.eq_str(text))
}

/// Refuses an object that has other members than `names`.
fn only(object: Node<'_>, names: &[&str]) -> Result<(), Refusal> {
    let mut members = object.members().ok_or_else(|| invalid("a value is no object"))?;
    if members.all(|(member, _)| names.iter().any(|name| member.eq_str(name))) {
        Ok(())
    } else {
        Err(invalid("a member that its old form does not have"))
    }
}

/// Refuses an object that lacks a required member or has one that is not listed.
fn all(object: Node<'_>, required: &[&str], optional: &[&str]) -> Result<(), Refusal> {
    let names: Vec<&str> = required.iter().chain(optional).copied().collect();
    only(object, &names)?;
    if required.iter().all(|name| object.get(name).is_some()) {
        Ok(())
    } else {
        Err(invalid("a member of its old form is missing"))
    }
}

fn turn_start<'t>(data: Node<'t>, out: &mut Vec<u8>) -> Result<Data<'t>, Refusal> {
    let Some(trigger) = data.get("trigger") else { return Ok(Data::Stored(data)) };
    all(data, &["turn", "trigger"], &[])?;
    let turn = data.get("turn").and_then(count).ok_or_else(|| invalid("turn is no count"))?;
    if trigger.members().is_none() {
        return Err(invalid("trigger is no object"));
    }
    let kind = trigger.get("kind").and_then(Node::as_str);
    if turn < 1 || kind.is_none_or(Str::is_empty) {
        return Err(refuse(Code::V0LegacyTurn));
    }
    let mut object = Object::new(out);
    object.copy_except(data, &["trigger"]);
    object.end();
    Ok(Data::Rewritten)
}

fn turn_end<'t>(data: Node<'t>, out: &mut Vec<u8>) -> Result<Data<'t>, Refusal> {
    all(data, &["turn", "reason"], &[])?;
    let turn = data.get("turn").and_then(count).ok_or_else(|| invalid("turn is no count"))?;
    if turn < 1 {
        return Err(refuse(Code::V0LegacyTurn));
    }
    let reason = data.get("reason").filter(|reason| reason.members().is_some());
    let reason = reason.ok_or_else(|| invalid("reason is no object"))?;
    let Some(kind) = reason.get("kind").and_then(Node::as_str) else {
        return Err(refuse(Code::V0LegacyTurn));
    };
    let renewed = match &*kind.to_string_lossy() {
        "completed" | "blocked" | "max-tokens" | "interrupted" => {
            all(reason, &["kind"], &[])?;
            None
        }
        "aborted" if reason.get("reason").is_none() => {
            all(reason, &["kind"], &[])?;
            Some(br#"{"kind":"aborted","reason":{"kind":"legacy"}}"#.to_vec())
        }
        "disposed" => {
            all(reason, &["kind"], &[])?;
            Some(br#"{"kind":"aborted","reason":{"kind":"disposed"}}"#.to_vec())
        }
        "error" if reason.get("error").is_none() => Some(error_reason(reason)?),
        _ => None,
    };
    let Some(renewed) = renewed else { return Ok(Data::Stored(data)) };
    let mut object = Object::new(out);
    for (name, value) in data.members().into_iter().flatten() {
        if name.eq_str("reason") {
            object.name(name);
            object.out.extend_from_slice(&renewed);
        } else {
            object.copy(name, value);
        }
    }
    object.end();
    Ok(Data::Rewritten)
}

/// The reason of a turn that an error ended, in one of its two old forms.
fn error_reason(reason: Node<'_>) -> Result<Vec<u8>, Refusal> {
    let step_is_count =
        || reason.get("step").and_then(count).map(|_| ()).ok_or_else(|| invalid("step is no count"));
    let is_string = |value: Option<Node<'_>>| value.is_some_and(|value| value.as_str().is_some());
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.plain("kind", "error");
    if let Some(failure) = reason.get("failure") {
        all(reason, &["kind", "step", "failure"], &[])?;
        step_is_count()?;
        all(failure, &["message", "code"], &["status", "providerRetryAfterMs", "requestId"])?;
        if !is_string(failure.get("message")) || !is_string(failure.get("code")) {
            return Err(refuse(Code::V0LegacyTurn));
        }
        object.value("error", failure);
    } else {
        all(reason, &["kind", "step", "message"], &["code"])?;
        step_is_count()?;
        let (message, code) = (reason.get("message"), reason.get("code"));
        if !is_string(message) || !(code.is_none() || is_string(code)) {
            return Err(refuse(Code::V0LegacyTurn));
        }
        let mut error = object.object("error");
        if let Some(message) = message {
            error.value("message", message);
        }
        match code {
            Some(code) => error.value("code", code),
            None => error.plain("code", "UNKNOWN"),
        }
        error.end();
    }
    object.end();
    Ok(out)
}

fn request_header<'t>(data: Node<'t>, out: &mut Vec<u8>) -> Result<Data<'t>, Refusal> {
    if is(data, "reason", "fallback") {
        return Err(refuse(Code::V0RetiredReason));
    }
    let header = data.get("header").filter(|header| header.members().is_some());
    let header = header.ok_or_else(|| invalid("header is no object"))?;
    let Some(prefix) = header.get("messagePrefix") else { return Ok(Data::Stored(data)) };
    if prefix.items().is_none() {
        return Err(refuse(Code::V0MessagePrefix));
    }
    let mut object = Object::new(out);
    for (name, value) in data.members().into_iter().flatten() {
        if name.eq_str("header") {
            object.name(name);
            let mut inner = Object::new(object.out);
            inner.copy_except(value, &["messagePrefix"]);
            inner.end();
        } else {
            object.copy(name, value);
        }
    }
    object.end();
    Ok(Data::Rewritten)
}

/// Writes `data` with one more member.
fn append<'t>(data: Node<'t>, name: &str, value: &Text, out: &mut Vec<u8>) -> Data<'t> {
    let mut object = Object::new(out);
    object.copy_all(data);
    object.text(name, value);
    object.end();
    Data::Rewritten
}

/// `text` as a JSON string.
fn literal(text: &Text) -> Vec<u8> {
    let mut out = Vec::new();
    write_text(&mut out, text);
    out
}

/// The ids of messages by seq, for the old tool results that replace one of them.
///
/// An id that the step itself made is not stored: it follows from its seq.
#[derive(Debug, Default)]
struct MessageIds {
    /// The ids as they are spelled, one after another.
    spelled: Vec<u8>,
    /// Seq and id, by ascending seq.
    ids: Vec<(u64, Id)>,
}

#[derive(Clone, Copy, Debug)]
enum Id {
    /// `legacy-message` of this seq.
    Legacy(u64),
    Spelled {
        start: usize,
        end: usize,
    },
}

impl MessageIds {
    fn remember(&mut self, seq: u64, id: Str<'_>, session: &Text) {
        let digits = id.raw().strip_prefix("legacy-message:").and_then(|rest| rest.rsplit(':').next());
        let made = digits
            .and_then(|digits| digits.parse().ok())
            .filter(|seq| legacy_id("message", session, *seq) == id.to_text());
        let id = match made {
            Some(seq) => Id::Legacy(seq),
            None => {
                let start = self.spelled.len();
                self.spelled.extend_from_slice(id.raw().as_bytes());
                Id::Spelled { start, end: self.spelled.len() }
            }
        };
        self.ids.push((seq, id));
    }

    /// The id of the message that event `seq` carried, as a JSON string.
    fn literal(&self, seq: u64, session: &Text) -> Option<Vec<u8>> {
        let at = self.ids.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        match self.ids.get(at)?.1 {
            Id::Legacy(seq) => Some(literal(&legacy_id("message", session, seq))),
            Id::Spelled { start, end } => {
                let spelled = self.spelled.get(start..end)?;
                Some([b"\"", spelled, b"\""].concat())
            }
        }
    }
}
