//! The rows of a converted log on their way out: envelope, relationships, and the caller's sink.

use std::ops::ControlFlow;

use super::inventory::Kind;
use super::refusal::{Code, Detail, Refusal, Stage};
use super::relations::{Relations, View};
use crate::units::{Seq, UnixMs};

/// One row of a converted log, as text without its newline.
///
/// The text comes in three parts that belong together without anything between them, so that neither the stream of a large
/// attempt nor a payload that stays as it was is copied into the row that carries it.
#[derive(Clone, Copy, Debug)]
pub struct TargetRow<'a> {
    seq: Seq,
    time: UnixMs,
    parts: [&'a [u8]; 3],
}

impl<'a> TargetRow<'a> {
    pub(super) fn new(seq: Seq, time: UnixMs, parts: [&'a [u8]; 3]) -> Self {
        Self { seq, time, parts }
    }

    /// The event's seq.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The event's time.
    #[must_use]
    pub fn time(&self) -> UnixMs {
        self.time
    }

    /// The parts of the row's text.
    #[must_use]
    pub fn parts(&self) -> [&'a [u8]; 3] {
        self.parts
    }

    /// Length of the row in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a row is never empty")]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Appends the row.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        for part in self.parts {
            out.extend_from_slice(part);
        }
    }
}

/// Takes the rows of a converted log in order, each final when it comes. `Break` ends the delivery of further rows.
pub type RowSink<'s> = dyn FnMut(&TargetRow<'_>) -> ControlFlow<()> + 's;

/// Checks the result while it is made. Its first fault decides only if no earlier stage refuses the log until its end.
#[derive(Debug)]
pub(super) struct Target {
    relations: Relations,
    envelope: Option<Refusal>,
    stopped: bool,
}

impl Target {
    pub(super) fn new(relations: Relations) -> Self {
        Self { relations, envelope: None, stopped: false }
    }

    /// Notes that the envelope of event `seq` is not that of its type.
    pub(super) fn bad_envelope(&mut self, seq: u64, detail: Detail) {
        let refusal = || Refusal::new(Stage::Target, Code::TargetEnvelope).at_seq(seq).with(detail);
        self.envelope.get_or_insert_with(refusal);
    }

    /// Whether the result has no fault so far: rows of a refused log need not be written.
    pub(super) fn is_sound(&self) -> bool {
        self.envelope.is_none() && !self.relations.is_decided()
    }

    /// Takes an event of sound envelope.
    pub(super) fn relate(&mut self, view: &View<'_>) {
        if self.envelope.is_none() {
            self.relations.push(view);
        }
    }

    /// Delivers a row.
    pub(super) fn deliver(&mut self, seq: u64, time: i64, parts: [&[u8]; 3], sink: &mut RowSink<'_>) {
        if !self.is_sound() || self.stopped {
            return;
        }
        let seq = Seq::new(seq).unwrap_or(Seq::MAX);
        let row = TargetRow::new(seq, UnixMs::new(time), parts);
        self.stopped = sink(&row).is_break();
    }

    /// Whether the sink wants no more rows.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The verdict on the whole result: envelopes first, then relationships.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        if let Some(refusal) = &self.envelope {
            return Err(refusal.clone());
        }
        match self.relations.finish() {
            Some(fault) => {
                let refusal = Refusal::new(Stage::Target, fault.code).at_seq(fault.seq);
                Err(refusal.with(Detail::Rule(fault.rule)))
            }
            None => Ok(()),
        }
    }
}

/// Whether events of this type may carry `sourceEventSeqs` and `surfaceOp`.
pub(super) const fn may_cite(kind: Kind) -> bool {
    kind.is_surface()
}
