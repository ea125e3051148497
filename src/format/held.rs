//! Events held behind an open attempt, as the text they came in.

use super::inventory::Kind;
use super::physical::{Envelope, read_row};
use super::refusal::{Code, Refusal, Stage};
use super::v1_to_v2::SourceEvent;
use crate::json::{Node, Tape};
use crate::session::SeqList;

/// Events in order. Memory is their text.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: Vec<u8>,
    events: Vec<HeldEvent>,
    row_tape: Tape,
    data_tape: Tape,
    sources: SeqList,
}

#[derive(Clone, Copy, Debug)]
struct HeldEvent {
    kind: Kind,
    seq: u64,
    line: u64,
    /// Where its row starts, where its rewritten payload, if it has one, and where both end.
    row_at: usize,
    data_at: usize,
    end: usize,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Bytes of text held.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Keeps an event that came from line `line`.
    pub(super) fn push(&mut self, event: &SourceEvent<'_>, kind: Kind, line: u64) {
        let row_at = self.text.len();
        self.text.extend_from_slice(event.envelope.row.raw().as_bytes());
        let data_at = self.text.len();
        let is_rewritten = match (event.data, event.envelope.data) {
            (Some(data), Some(stored)) => !std::ptr::eq(data.raw(), stored.raw()),
            _ => false,
        };
        if let (Some(data), true) = (event.data, is_rewritten) {
            self.text.extend_from_slice(data.raw().as_bytes());
        }
        let end = self.text.len();
        self.events.push(HeldEvent { kind, seq: event.seq, line, row_at, data_at, end });
    }

    /// Gives every event to `emit`, in order, and forgets them; stops at the first refusal.
    pub(super) fn drain(
        &mut self,
        mut emit: impl FnMut(&SourceEvent<'_>, Kind, Node<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut result = Ok(());
        for held in std::mem::take(&mut self.events) {
            result =
                self.release(&held, &mut emit).map_err(|refusal| refusal.at_seq(held.seq).at_line(held.line));
            if result.is_err() {
                break;
            }
        }
        self.text.clear();
        result
    }

    fn release(
        &mut self,
        held: &HeldEvent,
        emit: &mut impl FnMut(&SourceEvent<'_>, Kind, Node<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        // The text was parsed before, within the same limits.
        let unreadable = || Refusal::new(Stage::V1ToV2, Code::PayloadInvalid);
        let row = self.text.get(held.row_at..held.data_at).unwrap_or_default();
        let row = self.row_tape.parse(row, u32::MAX).map_err(|_| unreadable())?;
        let envelope = &Envelope::of(row).ok_or_else(unreadable)?;
        read_row(envelope, &mut self.sources).map_err(|_| unreadable())?;
        let data = if held.data_at < held.end {
            let text = self.text.get(held.data_at..held.end).unwrap_or_default();
            self.data_tape.parse(text, u32::MAX).map_err(|_| unreadable())?
        } else {
            envelope.data.ok_or_else(unreadable)?
        };
        let event = SourceEvent {
            envelope,
            kind: Some(held.kind),
            seq: held.seq,
            data: Some(data),
            sources: &self.sources,
            is_sound: true,
            is_canonical: false,
        };
        emit(&event, held.kind, data)
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.text.capacity()
    }
}
