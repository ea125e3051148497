//! One attempt of a model, from its first chunk to its settlement.

use std::sync::Arc;

use super::frame::Step;
use super::handle::LiveHandle;
use super::hub::HubState;
use super::settle::{Ending, SettleError, Settled};
use crate::json::write_string;
use crate::store::Cancel;
use crate::stream::{Accumulator, AssembleFault, Assembler, Chunk, Fragment, PushFault, Timed};
use crate::units::UnixMs;

/// An attempt that is under way. Dropping it abandons it: followers are told, and nothing of it is stored.
#[derive(Debug)]
pub struct Attempt {
    handle: Arc<LiveHandle>,
    attempt_id: Arc<str>,
    turn: u64,
    step: u64,
    assembler: Assembler,
}

/// Why a chunk was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptFault {
    /// It is none that a stream can hold. Nothing has changed.
    #[error("the chunk cannot be stored")]
    Push(#[from] PushFault),
    /// It is in the stream and cannot be assembled: the attempt can end as one that failed, and not as a message.
    #[error("the chunk cannot be assembled")]
    Assemble(#[from] AssembleFault),
    /// The handle was closed, and the attempt with it.
    #[error("the attempt is over")]
    Over,
}

impl Attempt {
    pub(super) fn new(handle: Arc<LiveHandle>, attempt_id: Arc<str>, turn: u64, step: u64) -> Self {
        Self { handle, attempt_id, turn, step, assembler: Assembler::new() }
    }

    /// As [`Frame::attempt_id`](super::Frame::attempt_id).
    #[must_use]
    pub fn attempt_id(&self) -> &str {
        &self.attempt_id
    }

    /// What the chunks so far amount to.
    #[must_use]
    pub const fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// The records so far, a JSON array; `None` when the handle was closed.
    #[must_use]
    pub fn snapshot(&self) -> Option<String> {
        let state = self.handle.hub().lock();
        let active = state.active.as_ref().filter(|active| active.attempt_id == self.attempt_id);
        active.map(|active| active.stream.snapshot())
    }

    /// Takes a chunk in, and shows it to followers. O(bytes), whatever the number of followers, besides waking them.
    ///
    /// # Errors
    /// [`AttemptFault`].
    pub fn push(&mut self, time: UnixMs, chunk: Chunk<'_>) -> Result<(), AttemptFault> {
        self.take(|stream| stream.push(time, chunk))
    }

    /// Takes a chunk in that is JSON text.
    ///
    /// # Errors
    /// [`AttemptFault`].
    pub fn push_json(&mut self, time: UnixMs, chunk: &[u8]) -> Result<(), AttemptFault> {
        self.take(|stream| stream.push_json(time, chunk))
    }

    fn take<'c>(
        &mut self,
        push: impl FnOnce(&mut Accumulator) -> Result<Timed<'c>, PushFault>,
    ) -> Result<(), AttemptFault> {
        let hub = Arc::clone(self.handle.hub());
        let mut state = hub.lock();
        let active = state.active.as_mut().filter(|active| active.attempt_id == self.attempt_id);
        let active = active.ok_or(AttemptFault::Over)?;
        let index = active.stream.len() as u64;
        let timed = push(&mut active.stream)?;
        self.show(&mut state, index, timed);
        let is_watched = state.watchers > 0;
        drop(state);
        if is_watched {
            hub.wake();
        }
        Ok(self.assembler.push(timed.chunk)?)
    }

    /// Takes a delta of the answer's text in.
    ///
    /// # Errors
    /// [`AttemptFault`].
    pub fn push_text(&mut self, time: UnixMs, index: u64, text: &str) -> Result<(), AttemptFault> {
        let literal = literal(text);
        self.push(time, Chunk::TextDelta { index, text: fragment(&literal) })
    }

    /// Takes a delta of the model's reasoning in.
    ///
    /// # Errors
    /// [`AttemptFault`].
    pub fn push_reasoning(&mut self, time: UnixMs, index: u64, text: &str) -> Result<(), AttemptFault> {
        let literal = literal(text);
        self.push(time, Chunk::ReasoningDelta { index, text: fragment(&literal) })
    }

    /// Takes a delta of a tool call in.
    ///
    /// # Errors
    /// [`AttemptFault`].
    pub fn push_tool_call(
        &mut self,
        time: UnixMs,
        index: u64,
        id: &str,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), AttemptFault> {
        let (id, name, arguments) = (literal(id), name.map(literal), literal(arguments));
        let (id, name) = (fragment(&id), name.as_deref().map(fragment));
        self.push(time, Chunk::ToolCallDelta { index, id, name, arguments: fragment(&arguments) })
    }

    /// Ends the attempt: stores its settlement durably, and then tells followers its type and seq.
    ///
    /// Which settlement is written: see [`Ending`]. On an error nothing is stored, except if the final flush failed, and
    /// followers are told that the attempt was abandoned.
    ///
    /// # Errors
    /// [`SettleError`].
    pub fn settle(self, time: UnixMs, ending: Ending<'_>, cancel: &Cancel) -> Result<Settled, SettleError> {
        let stream = self.snapshot().ok_or(SettleError::Over)?;
        let draft = ending.draft(self.turn, self.step, &self.assembler, &stream)?;
        let seq = self.handle.settle(&self.attempt_id, draft.kind, cancel, |seq| draft.row(seq, time))?;
        Ok(Settled { kind: draft.kind, seq })
    }

    /// Ends the attempt without an event.
    pub fn abandon(self) {
        drop(self);
    }

    fn show(&self, state: &mut HubState, index: u64, timed: Timed<'_>) {
        let mut json = Vec::new();
        if state.watchers > 0 {
            timed.chunk.write_json(&mut json);
        }
        let bytes = json.len();
        state.frame(&self.attempt_id, bytes, || {
            let json = Arc::from(String::from_utf8(json).expect("all that is written is UTF-8"));
            Step::Chunk { index, time: timed.time, json }
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.handle.hub().abandon(&self.attempt_id);
    }
}

fn literal(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len().saturating_add(2));
    write_string(&mut out, text);
    String::from_utf8(out).expect("a literal is UTF-8")
}

fn fragment(literal: &str) -> Fragment<'_> {
    Fragment::of_literal(literal).expect("it was written as a literal")
}
