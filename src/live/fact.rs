//! What the folds of a window read of an event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::json::{Node, Number, Tape, Text};
use crate::limits::Limits;
use crate::row::Event;
use crate::stream::{Settlement, SettlementKind};
use crate::units::UnixMs;

/// A step of a turn, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// The turn.
    pub turn: u64,
    /// The step of the turn.
    pub step: u64,
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.turn, self.step)
    }
}

/// A moment of the log: an event and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The event's seq.
    pub seq: u64,
    /// When it happened.
    pub time: UnixMs,
}

impl Moment {
    pub(super) const fn of(event: &Event<'_>) -> Self {
        Self { seq: event.seq().get(), time: event.time() }
    }
}

/// That an attempt failed and another one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// The event that says so.
    pub at: Moment,
    /// Number of the retry, from 1.
    pub number: u64,
    /// How many there are at most; `None` where the policy knows no limit.
    pub limit: Option<u64>,
    /// How long it waits.
    pub delay: Duration,
    /// What failed, in the provider's words.
    pub failure: Text,
    /// The failure's code.
    pub code: Text,
}

/// What a message, a call or a result says.
pub(super) enum Fact<'e> {
    StepStart(StepKey),
    StepEnd(StepKey),
    TurnEnd(u64),
    Settled { key: StepKey, settlement: Settlement<'e>, appends: bool },
    Retry(StepKey, Retry),
    Said { role: Text, source: Text, content: Arc<str>, replaces: Option<(u64, u64)> },
    Called { key: StepKey, id: Text, name: Text, arguments: Text },
    Returned { key: StepKey, id: Text, is_error: bool, content: Arc<str> },
}

impl<'e> Fact<'e> {
    /// What `event` says to the folds. `None` for other events, and for those whose payload is not as it should be.
    pub(super) fn read(event: &Event<'e>, tape: &mut Tape) -> Option<Self> {
        let name = event.event_type().as_plain()?;
        if let Some(kind) = SettlementKind::of_event(name) {
            let settlement = Settlement::read(kind, event.data()).ok()?;
            let key = StepKey { turn: settlement.turn, step: settlement.step };
            return Some(Self::Settled { key, settlement, appends: event.is_appended() });
        }
        let read: fn(&Event<'_>, Node<'_>) -> Option<Self> = match name {
            "step/start" => |_, data| Some(Self::StepStart(key(data)?)),
            "step/end" => |_, data| Some(Self::StepEnd(key(data)?)),
            "turn/end" => |_, data| Some(Self::TurnEnd(count(data, "turn")?)),
            "llm/retry" => |event, data| Some(Self::Retry(key(data)?, retry(event, data)?)),
            "user/message" => said,
            "tool/call" => called,
            "tool/result" => returned,
            _ => return None,
        };
        read(event, tape.parse(event.data().as_bytes(), Limits::DEFAULT.nesting_max).ok()?)
    }
}

fn retry(event: &Event<'_>, data: Node<'_>) -> Option<Retry> {
    let failure = data.get("failure")?;
    let is_limited = data.get("mode")?.as_str()?.eq_str("normal");
    let delay_ms = data.get("delayMs")?.as_number()?.value();
    Some(Retry {
        at: Moment::of(event),
        number: count(data, "retry")?,
        limit: if is_limited { Some(count(data, "maxRetries")?) } else { None },
        delay: Duration::try_from_secs_f64(delay_ms / 1000.0).ok()?,
        failure: text(failure, "message")?,
        code: text(failure, "code")?,
    })
}

fn said<'e>(event: &Event<'_>, data: Node<'_>) -> Option<Fact<'e>> {
    let mut tape = Tape::default();
    let replaces = match event.surface_op() {
        Some(_) if event.is_appended() => None,
        op => {
            let op = tape.parse(op?.as_bytes(), Limits::DEFAULT.nesting_max).ok()?;
            Some((count(op, "start")?, count(op, "end")?))
        }
    };
    let content = data.get("content").filter(|content| content.items().is_some())?;
    Some(Fact::Said {
        role: text(data, "role")?,
        source: text(data.get("source")?, "kind")?,
        content: content.raw().into(),
        replaces,
    })
}

fn called<'e>(_: &Event<'_>, data: Node<'_>) -> Option<Fact<'e>> {
    let (id, name) = (text(data, "callId")?, text(data, "name")?);
    Some(Fact::Called { key: key(data)?, id, name, arguments: text(data, "arguments")? })
}

fn returned<'e>(event: &Event<'_>, data: Node<'_>) -> Option<Fact<'e>> {
    // What replaces a result is for the model: it is shortened.
    if !event.is_appended() {
        return None;
    }
    let block = data.get("message")?.get("content")?.items()?.next()?;
    let content = block.get("content").filter(|content| content.items().is_some())?;
    Some(Fact::Returned {
        key: key(data)?,
        id: text(block, "toolCallId")?,
        is_error: block.get("isError").and_then(Node::as_bool) == Some(true),
        content: content.raw().into(),
    })
}

fn key(data: Node<'_>) -> Option<StepKey> {
    Some(StepKey { turn: count(data, "turn")?, step: count(data, "step")? })
}

fn count(node: Node<'_>, name: &str) -> Option<u64> {
    node.get(name).and_then(Node::as_number).and_then(Number::as_count)
}

pub(super) fn text(node: Node<'_>, name: &str) -> Option<Text> {
    Some(node.get(name)?.as_str()?.to_text())
}
