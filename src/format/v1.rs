//! Checks of v1 events that a conversion makes before it uses them.
//!
//! Spec: `format-spec/06-migration.md`, "v1 to v2".

use super::inventory::{Inventory, Kind, Place};
use super::physical::Envelope;
use super::refusal::{Code, Detail, Refusal, Stage};
use crate::json::{Node, Number};
use crate::units::Generation;

/// Checks the payload of an event of a known type, anything but a chunk, against the frozen v1 schema.
///
/// A descriptor of another version passes unexamined, as the release that wrote v1 let it.
pub(super) fn check_payload(kind: Kind, data: Node<'_>, seq: u64) -> Result<(), Refusal> {
    let other_version = |data: Node<'_>| {
        data.get("version").and_then(Node::as_number).and_then(Number::as_count).is_some_and(|v| v != 3)
    };
    if kind == Kind::SubagentDescriptor && other_version(data) {
        return Ok(());
    }
    let place = Place { generation: Generation::V1, seq };
    Inventory::v1()
        .check(kind, data, place)
        .map_err(|mismatch| Refusal::new(Stage::V1ToV2, Code::PayloadInvalid).with(Detail::Payload(mismatch)))
}

/// A chunk event: its envelope, and a chunk that a stream record can hold without losing anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkEvent<'t> {
    pub(super) turn: u64,
    pub(super) step: u64,
    pub(super) time: i64,
    pub(super) chunk: Node<'t>,
}

impl<'t> ChunkEvent<'t> {
    /// Reads the chunk of event `seq`.
    pub(super) fn read(event: &Envelope<'t>, seq: u64) -> Result<Self, Refusal> {
        let refuse = |code, detail| Err(Refusal::new(Stage::V1ToV2, code).with(detail));
        let flagged = event.ignorable.is_none_or(|flag| flag.as_bool() == Some(true));
        let (Some(stored_time), Some(data)) = (event.time, event.data) else {
            return refuse(Code::ChunkEnvelope, Detail::Rule("time or data is missing"));
        };
        if event.has_more || !flagged {
            return refuse(Code::ChunkEnvelope, Detail::Rule("a member that a chunk event does not have"));
        }
        let Some(time) = stored_time.as_number().and_then(Number::as_safe_integer) else {
            return refuse(Code::ChunkInvalid, Detail::Rule("the time is no safe integer"));
        };
        let place = Place { generation: Generation::V1, seq };
        if let Err(mismatch) = Inventory::v1().check(Kind::AssistantChunk, data, place) {
            // The published release looks at less: what it would have kept or lost is refused here all the same.
            let detail = if can_be_accumulated(data) {
                Detail::Stricter("a chunk with members or values that its schema does not have")
            } else {
                Detail::Payload(mismatch)
            };
            return refuse(Code::ChunkInvalid, detail);
        }
        let count = |name| data.get(name).and_then(Node::as_number).and_then(Number::as_count);
        match (count("turn"), count("step"), data.get("chunk")) {
            (Some(turn), Some(step), Some(chunk)) => Ok(Self { turn, step, time, chunk }),
            _ => refuse(Code::ChunkInvalid, Detail::Rule("turn, step or chunk is missing")),
        }
    }

    /// Whether the chunk ends its attempt.
    pub(super) fn is_finish(&self) -> bool {
        self.chunk.get("type").and_then(Node::as_str).is_some_and(|kind| kind.eq_str("finish"))
    }
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
