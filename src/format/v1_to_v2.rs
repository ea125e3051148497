//! The step from v1 to v2: chunks move into the event that settles their attempt, and what is left is counted anew.
//!
//! Events come in as they were decided by the step before, and go out in source order at once, except behind an open
//! attempt: there they are held, as text, until a chunk continues the attempt or something closes it.
//!
//! Spec: `format-spec/06-migration.md`, "v1 to v2".

use super::attempt::Attempt;
use super::emit::{Emitter, Settled};
use super::held::Held;
use super::inventory::{Inventory, Kind};
use super::physical::{Envelope, PackedRun};
use super::refusal::{Code, Detail, Refusal, Stage};
use super::target::{RowSink, Target};
use super::v1::{self, ChunkEnvelope, ChunkEvent};
use super::written::{Deltas, WrittenChunk};
use crate::json::{Node, Number, Str, Text};
use crate::limits::Limits;
use crate::row::{Header, Seeding};
use crate::session::SeqList;

/// An event of the source, its old forms renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceEvent<'t> {
    pub(super) envelope: &'t Envelope<'t>,
    /// The type after renaming; `None` outside the inventories.
    pub(super) kind: Option<Kind>,
    pub(super) seq: u64,
    /// The payload after rewriting; `None` if the row has none.
    pub(super) data: Option<Node<'t>>,
    pub(super) sources: &'t SeqList,
    /// Whether the payload is known to fit its schema; otherwise nobody has looked.
    pub(super) is_sound: bool,
    /// Whether the payload is known to be canonical text; otherwise nobody has looked.
    pub(super) is_canonical: bool,
}

/// The step and all that it remembers.
#[derive(Debug)]
pub(super) struct ToV2 {
    /// The cut of a seeded log.
    cut: Option<u64>,
    /// Events below this seq came from a parent: their delivery markers may name it.
    inherited_below: u64,
    session: Text,
    attempt: Attempt,
    /// Most bytes that the open attempt and the events behind it may take: what a row may have.
    bytes_max: u64,
    is_open: bool,
    held: Held,
    turn: Option<u64>,
    step: Option<u64>,
    /// The event directly before put something into the next turn's inbox.
    after_next_turn_input: bool,
    /// Time of the last source event; a time that is no time refuses the log elsewhere.
    last_time: i64,
    emitter: Emitter,
}

impl ToV2 {
    /// The step for the log of `header`, which is v0 or v1.
    pub(super) fn new(header: &Header, target: Target, limits: &Limits) -> Self {
        let cut = match header.seeding() {
            Seeding::Counted(cut) => Some(cut),
            _ => None,
        };
        Self {
            cut,
            inherited_below: inherited_below(header),
            session: header.id().clone(),
            attempt: Attempt::default(),
            bytes_max: limits.row_bytes_max,
            is_open: false,
            held: Held::default(),
            turn: None,
            step: None,
            after_next_turn_input: false,
            last_time: header.created_at().get(),
            emitter: Emitter::new(header, target),
        }
    }

    /// Takes the next event.
    pub(super) fn event(
        &mut self,
        event: &SourceEvent<'_>,
        line: u64,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        let placed = |refusal: Refusal| refusal.at_seq(event.seq);
        self.event_placed(event, line, sink).map_err(placed)
    }

    fn event_placed(
        &mut self,
        event: &SourceEvent<'_>,
        line: u64,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        let known = event.kind.filter(|kind| Inventory::v1().has(*kind));
        if known == Some(Kind::AssistantChunk) {
            return self.chunk(event, sink);
        }
        let Some(kind) = known else { return Err(unknown_event(event.envelope)) };
        let data = event.data.ok_or_else(|| refuse(Code::PayloadInvalid, Detail::Rule("data is missing")))?;
        if !event.is_sound {
            v1::check_payload(kind, data, event.seq)?;
        }
        let restart = self.restart(kind, data)?;
        self.check_delivery(kind, data, event.seq)?;
        self.track(kind, data);
        if let Some(time) = event.envelope.unix_ms() {
            self.last_time = time.get();
        }
        if let Some(open) = restart {
            self.close(sink)?;
            self.emitter.interrupted_turn(open, event.seq, event.envelope, sink);
        }
        match kind {
            Kind::AssistantMessage => self.message(event, data, sink),
            Kind::TurnEnd | Kind::StepEnd | Kind::LlmRetry | Kind::LlmRetryStarted => {
                self.close(sink)?;
                self.emitter.source(event, kind, data, Settled::No, sink)
            }
            _ if self.is_open => {
                self.held.push(event, kind, line);
                self.check_size()
            }
            _ => self.emitter.source(event, kind, data, Settled::No, sink),
        }
    }

    /// The end of the log.
    pub(super) fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        self.close(sink)?;
        self.emitter.finish(self.last_time, sink);
        self.emitter.target().finish()
    }

    /// What became of the rows.
    pub(super) fn emitter(&self) -> &Emitter {
        &self.emitter
    }

    /// Bytes of memory that grow with the log.
    pub(super) fn memory(&self) -> usize {
        let attempt = self.attempt.stream.memory();
        attempt.saturating_add(self.held.memory()).saturating_add(self.emitter.memory())
    }

    fn chunk(&mut self, event: &SourceEvent<'_>, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        let envelope = ChunkEnvelope::read(event.envelope)?;
        self.after_next_turn_input = false;
        if let Some(time) = event.envelope.unix_ms() {
            self.last_time = time.get();
        }
        self.join(envelope.turn, envelope.step, event.seq, sink)?;
        let chunk = envelope.chunk(event.seq)?;
        self.attempt.push_chunk(event.seq, &chunk);
        self.check_size()
    }

    /// Refuses an attempt that no reader would take as one row.
    fn check_size(&self) -> Result<(), Refusal> {
        let bytes = self.attempt.stream.len().saturating_add(self.held.len());
        if u64::try_from(bytes).is_ok_and(|bytes| bytes <= self.bytes_max) {
            return Ok(());
        }
        Err(refuse(Code::AttemptTooLarge, Detail::Stricter("no reader would take it as one row")))
    }

    /// Takes a packed row.
    pub(super) fn run(&mut self, run: &PackedRun<'_>, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        self.last_time = run.last_time;
        self.join_row((run.turn, run.step), (run.seq0, run.last_seq), true, sink)?;
        self.attempt.push_run(run);
        self.check_size()
    }

    /// Takes deltas as the original writes them.
    pub(super) fn deltas(&mut self, deltas: &Deltas<'_>, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        self.last_time = deltas.last_time;
        self.join_row((deltas.turn, deltas.step), (deltas.seq0, deltas.last_seq), deltas.is_packed, sink)?;
        self.attempt.push_deltas(deltas);
        self.check_size()
    }

    /// Takes a chunk event as the original writes it, its chunk checked.
    pub(super) fn written_chunk(
        &mut self,
        written: &WrittenChunk<'_>,
        event: &ChunkEvent<'_>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        self.last_time = written.time;
        self.join_row((written.turn, written.step), (written.seq, written.seq), false, sink)?;
        self.attempt.push_chunk(written.seq, event);
        self.check_size()
    }

    /// Makes room in the open attempt for chunks `first..=last`, which the cut may not part.
    fn join_row(
        &mut self,
        (turn, step): (u64, u64),
        (first, last): (u64, u64),
        is_packed: bool,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        self.after_next_turn_input = false;
        self.join(turn, step, first, sink).map_err(|refusal| {
            // The published release compares the ends of one row only, and lets inherited chunks become own ones.
            let between = Detail::Stricter("the cut lies between two rows of one attempt");
            let parted = is_packed && refusal.code() == Code::CutSplitsAttempt;
            if parted { refusal.with(between) } else { refusal }.at_seq(first)
        })?;
        match self.cut {
            Some(cut) if first < cut && cut <= last => {
                Err(refuse(Code::CutSplitsAttempt, Detail::None).at_seq(first))
            }
            _ => Ok(()),
        }
    }

    /// Opens the attempt that the chunk `seq` of a turn and step belongs to, or goes on with the open one.
    fn join(&mut self, turn: u64, step: u64, seq: u64, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        let continues = self.is_open
            && !self.attempt.is_terminal
            && (self.attempt.turn, self.attempt.step) == (turn, step);
        if !continues {
            self.close(sink)?;
            self.attempt.restart(turn, step);
            self.is_open = true;
            return Ok(());
        }
        self.release(sink)?;
        self.check_cut(seq)
    }

    /// Refuses a cut between the first chunk of the open attempt and `seq`.
    fn check_cut(&self, seq: u64) -> Result<(), Refusal> {
        match (self.cut, self.attempt.seqs.first()) {
            (Some(cut), Some(first)) if first < cut && cut <= seq => {
                Err(refuse(Code::CutSplitsAttempt, Detail::None))
            }
            _ => Ok(()),
        }
    }

    /// Emits what was held behind the open attempt, in order.
    fn release(&mut self, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        let emitter = &mut self.emitter;
        let released = held.drain(|event, kind, data| emitter.source(event, kind, data, Settled::No, sink));
        self.held = held;
        released
    }

    /// Settles the open attempt as one that no message claimed.
    fn close(&mut self, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        if self.is_open {
            self.is_open = false;
            self.emitter.attempt(&mut self.attempt, sink);
        }
        self.release(sink)
    }

    fn message(
        &mut self,
        event: &SourceEvent<'_>,
        data: Node<'_>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        let cited = event.envelope.sources.map(|_| event.sources);
        let own = self.is_open
            && count(data, "turn") == Some(self.attempt.turn)
            && count(data, "step") == Some(self.attempt.step);
        match cited {
            _ if self.is_open && !own => self.close(sink)?,
            None if own => return Err(refuse(Code::MessageUncited, Detail::None)),
            None => {}
            Some(cited) if cited.is_empty() => self.close(sink)?,
            Some(cited) if own && cited.is_same(&self.attempt.seqs) => {
                self.check_cut(event.seq)?;
                self.release(sink)?;
                self.is_open = false;
                let settled = Settled::Yes(&mut self.attempt.stream);
                return self.emitter.source(event, Kind::AssistantMessage, data, settled, sink);
            }
            Some(_) => return Err(refuse(Code::MessageProvenance, Detail::None)),
        }
        self.emitter.source(event, Kind::AssistantMessage, data, Settled::Empty, sink)
    }

    /// The open turn that a `turn/start` closes, the way a restart of the original left it.
    fn restart(&self, kind: Kind, data: Node<'_>) -> Result<Option<u64>, Refusal> {
        let (Kind::TurnStart, Some(open)) = (kind, self.turn) else { return Ok(None) };
        let follows = count(data, "turn") == open.checked_add(1);
        if follows && self.step.is_none() && self.after_next_turn_input {
            Ok(Some(open))
        } else {
            Err(refuse(Code::TurnNotClosed, Detail::None))
        }
    }

    fn check_delivery(&self, kind: Kind, data: Node<'_>, seq: u64) -> Result<(), Refusal> {
        let claims = kind == Kind::DeliveryAccepted
            && count(data, "sessionFormatVersion") == Some(1)
            && seq >= self.inherited_below;
        let is_here =
            || data.get("sessionId").and_then(Node::as_str).is_some_and(|id| id.to_text() == self.session);
        if claims && !is_here() { Err(refuse(Code::DeliverySession, Detail::None)) } else { Ok(()) }
    }

    fn track(&mut self, kind: Kind, data: Node<'_>) {
        self.after_next_turn_input = false;
        match kind {
            Kind::TurnStart => {
                self.turn = count(data, "turn");
                self.step = None;
            }
            Kind::TurnEnd => {
                self.turn = None;
                self.step = None;
            }
            Kind::StepStart => self.step = count(data, "step"),
            Kind::StepEnd => self.step = None,
            Kind::AgentInboxSpliced => {
                let next_turn =
                    data.get("target").and_then(Node::as_str).is_some_and(|t| t.eq_str("next-turn"));
                let inserted = data.get("inserted").and_then(Node::items);
                self.after_next_turn_input = next_turn && inserted.is_some_and(|items| items.len() > 0);
            }
            _ => {}
        }
    }
}

/// The seq below which events of this log are its parent's, for the rules about delivery markers.
pub(super) fn inherited_below(header: &Header) -> u64 {
    match (header.parent_session(), header.seeding()) {
        (Some(_), Seeding::Counted(cut)) => cut,
        _ => 0,
    }
}

fn unknown_event(envelope: &Envelope<'_>) -> Refusal {
    let name = envelope.type_name().map(Str::to_string_lossy).unwrap_or_default();
    refuse(Code::V1UnknownEvent, Detail::EventType(name.into_owned()))
}

fn refuse(code: Code, detail: Detail) -> Refusal {
    Refusal::new(Stage::V1ToV2, code).with(detail)
}

fn count(value: Node<'_>, name: &str) -> Option<u64> {
    value.get(name)?.as_number().and_then(Number::as_count)
}
