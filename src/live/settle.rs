//! The event that an attempt ends with.

use crate::error::Error;
use crate::json::{Tape, write_i64, write_string, write_u64};
use crate::limits::Limits;
use crate::stream::{AssembleFault, Assembler, Block, SettlementKind};
use crate::units::UnixMs;

/// Who answered, as the message says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Id of the message.
    pub id: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
}

/// How an attempt came to its end. It decides which settlement is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending<'a> {
    /// The stream ended: an `assistant/message`, or an `assistant/attempt` if the model's finish reason is `error` or `aborted`.
    Finished(Answer<'a>),
    /// It was cancelled: an `assistant/message` of the text that is there, marked as interrupted, or an `assistant/attempt` if
    /// there is none.
    Cancelled(Answer<'a>),
    /// The stream broke off: an `assistant/attempt`.
    Failed,
}

/// The settlement that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Its type.
    pub kind: SettlementKind,
    /// Its seq.
    pub seq: u64,
}

/// Why an attempt could not be settled. Followers were told that it was abandoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// What came cannot be put together to a message.
    #[error("the answer cannot be assembled")]
    Assemble(#[from] AssembleFault),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// The handle was closed, and the attempt with it.
    #[error("the attempt is over")]
    Over,
}

/// A settlement without its seq.
pub(super) struct Draft {
    pub(super) kind: SettlementKind,
    data: Vec<u8>,
}

impl Ending<'_> {
    /// What is written of an attempt that `assembler` and `stream` saw.
    pub(super) fn draft(
        self,
        turn: u64,
        step: u64,
        assembler: &Assembler,
        stream: &str,
    ) -> Result<Draft, AssembleFault> {
        let mut data = Vec::with_capacity(stream.len().saturating_add(256));
        data.extend_from_slice(b"{\"turn\":");
        write_u64(&mut data, turn);
        data.extend_from_slice(b",\"step\":");
        write_u64(&mut data, step);
        let message = match self {
            Self::Finished(answer) if !is_failure(assembler.finish()) => {
                Some((answer, assembler.blocks()?, false))
            }
            Self::Cancelled(answer) => Some((answer, assembler.interrupted_blocks(), true))
                .filter(|(_, blocks, _)| !blocks.is_empty()),
            Self::Finished(_) | Self::Failed => None,
        };
        let kind = if message.is_some() { SettlementKind::Message } else { SettlementKind::Attempt };
        if let Some((answer, blocks, interrupted)) = message {
            write_message(&mut data, answer, &blocks, assembler.replay_state()?.as_deref());
            if interrupted {
                data.extend_from_slice(b",\"interrupted\":true");
            }
            if let Some(usage) = assembler.usage() {
                data.extend_from_slice(b",\"usage\":");
                data.extend_from_slice(usage.as_bytes());
            }
        }
        data.extend_from_slice(b",\"stream\":");
        data.extend_from_slice(stream.as_bytes());
        data.push(b'}');
        Ok(Draft { kind, data })
    }
}

impl Draft {
    /// The row that is stored as event `seq`.
    pub(super) fn row(&self, seq: u64, time: UnixMs) -> Vec<u8> {
        let mut row = Vec::with_capacity(self.data.len().saturating_add(128));
        row.extend_from_slice(b"{\"type\":\"");
        row.extend_from_slice(self.kind.event_type().as_bytes());
        row.extend_from_slice(b"\",\"seq\":");
        write_u64(&mut row, seq);
        row.extend_from_slice(b",\"time\":");
        write_i64(&mut row, time.get());
        row.extend_from_slice(b",\"data\":");
        row.extend_from_slice(&self.data);
        if self.kind == SettlementKind::Message {
            row.extend_from_slice(b",\"surfaceOp\":\"append\"");
        }
        row.push(b'}');
        row
    }
}

fn write_message(out: &mut Vec<u8>, answer: Answer<'_>, blocks: &[Block<'_>], replay_state: Option<&str>) {
    out.extend_from_slice(b",\"message\":{\"id\":");
    write_string(out, answer.id);
    out.extend_from_slice(b",\"role\":\"assistant\",\"content\":[");
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        block.write_json(out);
    }
    out.extend_from_slice(b"],\"source\":{\"kind\":\"model\",\"provider\":");
    write_string(out, answer.provider);
    out.extend_from_slice(b",\"model\":");
    write_string(out, answer.model);
    if let Some(state) = replay_state {
        out.extend_from_slice(b",\"replayState\":");
        out.extend_from_slice(state.as_bytes());
    }
    out.extend_from_slice(b"}}");
}

/// Whether a finish reason says that there is no answer.
fn is_failure(finish: &str) -> bool {
    let mut tape = Tape::default();
    let kind =
        tape.parse(finish.as_bytes(), Limits::DEFAULT.nesting_max).ok().and_then(|node| node.get("kind"));
    kind.and_then(|kind| kind.as_str()).is_some_and(|kind| kind.eq_str("error") || kind.eq_str("aborted"))
}
