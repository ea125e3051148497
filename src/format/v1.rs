//! Checks of v1 events that a conversion makes before it uses them.
//!
//! Spec: `format-spec/06-migration.md`, "v1 to v2".

use super::inventory::{Inventory, Kind, Place};
use super::physical::{Envelope, RunKind};
use super::refusal::{Code, Detail, Refusal, Stage};
use crate::json::{Node, Number, Str};
use crate::units::Generation;

/// Checks the payload of an event of a known type, anything but a chunk, against the frozen v1 schema.
///
/// A descriptor of another version passes unexamined, as the release that wrote v1 let it.
pub(super) fn check_payload(kind: Kind, data: Node<'_>, seq: u64) -> Result<(), Refusal> {
    let other_version = |data: Node<'_>| {
        data.get("version").and_then(Node::as_number).and_then(Number::as_count).is_some_and(|v| v != 3)
    };
    if kind == Kind::SubagentDescriptor && other_version(data) {
        let lossy = Detail::Stricter("it holds -0 or a number too large, which JSON cannot write back");
        return if data.is_lossless() { Ok(()) } else { Err(refuse(Code::PayloadInvalid, lossy)) };
    }
    let place = Place { generation: Generation::V1, seq };
    Inventory::v1()
        .check(kind, data, place)
        .map_err(|mismatch| Refusal::new(Stage::V1ToV2, Code::PayloadInvalid).with(Detail::Payload(mismatch)))
}

/// A chunk event whose envelope and place in the conversation are known, but not yet its chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkEnvelope<'t> {
    pub(super) turn: u64,
    pub(super) step: u64,
    time: Node<'t>,
    data: Node<'t>,
}

impl<'t> ChunkEnvelope<'t> {
    /// Reads the envelope; the members of a chunk event that may be there besides the four required ones are dropped.
    pub(super) fn read(event: &Envelope<'t>) -> Result<Self, Refusal> {
        let flagged = event.ignorable.is_none_or(|flag| flag.as_bool() == Some(true));
        let (Some(time), Some(data)) = (event.time, event.data) else {
            return Err(refuse(Code::ChunkEnvelope, Detail::Rule("time or data is missing")));
        };
        if event.has_more || !flagged {
            return Err(refuse(
                Code::ChunkEnvelope,
                Detail::Rule("a member that a chunk event does not have"),
            ));
        }
        let count = |name| data.get(name).and_then(Node::as_number).and_then(Number::as_count);
        match (count("turn"), count("step")) {
            (Some(turn), Some(step)) => Ok(Self { turn, step, time, data }),
            _ => Err(refuse(Code::ChunkInvalid, Detail::Stricter("turn or step is no count"))),
        }
    }

    /// Reads the chunk of event `seq`.
    pub(super) fn chunk(&self, seq: u64) -> Result<ChunkEvent<'t>, Refusal> {
        let Some(time) = self.time.as_number().and_then(Number::as_safe_integer) else {
            return Err(refuse(Code::ChunkInvalid, Detail::Rule("the time is no safe integer")));
        };
        let place = Place { generation: Generation::V1, seq };
        if let Err(mismatch) = Inventory::v1().check(Kind::AssistantChunk, self.data, place) {
            // The published release looks at less: what it would have kept or lost is refused here all the same.
            let detail = if can_be_accumulated(self.data) {
                Detail::Stricter("a chunk with members or values that its schema does not have")
            } else {
                Detail::Payload(mismatch)
            };
            return Err(refuse(Code::ChunkInvalid, detail));
        }
        let chunk = self.data.get("chunk");
        let chunk = chunk.ok_or_else(|| refuse(Code::ChunkInvalid, Detail::Rule("the chunk is missing")))?;
        Ok(ChunkEvent::new(time, chunk))
    }
}

/// A chunk that a stream record can hold without losing anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkEvent<'t> {
    pub(super) time: i64,
    pub(super) chunk: Node<'t>,
    pub(super) kind: ChunkKind,
    /// Whether the chunk is known to be canonical text; otherwise nobody has looked.
    pub(super) is_canonical: bool,
}

/// What a chunk is, as far as streams treat it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Delta(RunKind),
    /// The last chunk of an attempt.
    Finish,
    /// Any other.
    Whole,
}

impl<'t> ChunkEvent<'t> {
    /// A chunk that fits its schema.
    pub(super) fn new(time: i64, chunk: Node<'t>) -> Self {
        Self { time, chunk, kind: ChunkKind::of(chunk), is_canonical: false }
    }
}

impl ChunkKind {
    /// The kind of a chunk that fits its schema.
    pub(super) fn of(chunk: Node<'_>) -> Self {
        let is = |kind: Str<'_>, name| kind.eq_str(name);
        match chunk.get("type").and_then(Node::as_str) {
            Some(kind) if is(kind, "text-delta") => Self::Delta(RunKind::Text),
            Some(kind) if is(kind, "reasoning-delta") => Self::Delta(RunKind::Reasoning),
            Some(kind) if is(kind, "tool-call-delta") => Self::Delta(RunKind::ToolCall),
            Some(kind) if is(kind, "finish") => Self::Finish,
            _ => Self::Whole,
        }
    }
}

fn refuse(code: Code, detail: Detail) -> Refusal {
    Refusal::new(Stage::V1ToV2, code).with(detail)
}

/// Whether the accumulator of the published release takes the chunk: a known type, and deltas of the right types.
fn can_be_accumulated(data: Node<'_>) -> bool {
    let Some(chunk) = data.get("chunk") else { return false };
    let Some(kind) = chunk.get("type").and_then(Node::as_str) else { return false };
    let has_index = chunk.get("index").and_then(Node::as_number).and_then(Number::as_count).is_some();
    let is_string = |name| chunk.get(name).and_then(Node::as_str).is_some();
    match &*kind.to_string_lossy() {
        "text-delta" | "reasoning-delta" => has_index && is_string("text"),
        "tool-call-delta" => {
            let name_fits = chunk.get("name").is_none() || is_string("name");
            has_index && is_string("id") && is_string("argumentsDelta") && name_fits
        }
        "block-start" | "block-end" | "usage" | "finish" => chunk.is_lossless(),
        _ => false,
    }
}
