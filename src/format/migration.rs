//! One log on its way from v0 or v1 to v2, in a single pass.

use std::ops::ControlFlow;

use super::inventory::{Inventory, Kind, Place};
use super::physical::{Acceptance, Envelope, PhysicalRow};
use super::refusal::{Code, Detail, Refusal, Stage};
use super::relations::Relations;
use super::target::{RowSink, Target};
use super::v0::{Data, ToV1};
use super::v1::ChunkEvent;
use super::v1_to_v2::{SourceEvent, ToV2, inherited_below};
use super::written::{Deltas, WrittenChunk};
use crate::json::{SyntaxErrorKind, Tape};
use crate::limits::Limits;
use crate::row::{Header, HeaderFault, Recovery, Seeding};
use crate::session::SeqList;
use crate::units::Generation;

/// A conversion under way: push every row once, in file order, then finish once.
///
/// Rows of the result go to the sink as soon as they are final. They form a valid log only if [`finish`](Self::finish)
/// says so: a refusal may come as late as that, and then everything that was delivered has to be thrown away.
///
/// Memory: the stream of the open attempt and the text of the events held behind it, together at most
/// [`Limits::row_bytes_max`], 24 bytes for each stretch of events
/// that kept their distance (about one for each attempt), and what the checks of relationships remember: 32 bytes a
/// message, ids of commands, retries and nested dispatches. v0 adds the ids of messages. Nothing else grows with the log.
///
/// ```
/// use std::ops::ControlFlow;
/// use seslog::format::Migration;
/// use seslog::limits::Limits;
/// use seslog::row::{Header, Recovery};
///
/// let header = br#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#;
/// let header = Header::parse(header, &Limits::DEFAULT).expect("a v1 header");
/// let mut migration = Migration::new(&header, Recovery::Recoverable, &Limits::DEFAULT).expect("an older generation");
/// let mut out = Vec::new();
/// migration.header().write(&mut out);
/// out.push(b'\n');
/// let mut sink = |row: &seslog::format::TargetRow<'_>| {
///     row.write_to(&mut out);
///     out.push(b'\n');
///     ControlFlow::Continue(())
/// };
/// let row = br#"{"type":"feedback/record","seq":0,"time":7,"data":{"text":"good"}}"#;
/// migration.push(row, &mut sink).expect("the row converts");
/// let outcome = migration.finish(&mut sink).expect("the log converts");
/// assert_eq!((outcome.events, outcome.inherited), (1, 0));
/// assert!(out.ends_with(b"\"data\":{\"text\":\"good\"}}\n"));
/// ```
///
/// Spec: `format-spec/06-migration.md`.
#[derive(Debug)]
pub struct Migration {
    stored: Generation,
    target_header: Header,
    cut: u64,
    limits: Limits,
    line: u64,
    acceptance: Acceptance,
    tape: Tape,
    sources: SeqList,
    to_v1: Option<RenewedRows>,
    to_v2: ToV2,
    refusal: Option<Refusal>,
}

/// The step from v0, and the room for what it rewrites.
#[derive(Debug)]
struct RenewedRows {
    step: ToV1,
    text: Vec<u8>,
    tape: Tape,
}

/// A log that was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Events of the result.
    pub events: u64,
    /// How many of them are inherited from a parent session.
    pub inherited: u64,
    /// Events of the source.
    pub source_events: u64,
    /// Whether rows behind the accepted ones were dropped.
    pub is_prefix: bool,
}

impl Migration {
    /// A conversion of the log that `header` starts to v2.
    ///
    /// # Errors
    /// The header as it is translated, if this build has no way from its generation: a current or newer one.
    pub fn new(header: &Header, recovery: Recovery, limits: &Limits) -> Result<Self, HeaderFault> {
        let generation = header.generation();
        if !generation.has_chunk_events() {
            return Err(HeaderFault::Newer { version: generation.get() });
        }
        let target_header = translate(header)?;
        let cut = match header.seeding() {
            Seeding::Counted(cut) => cut,
            _ => 0,
        };
        let to_v1 = (generation == Generation::V0).then(|| RenewedRows {
            step: ToV1::new(header.id().clone(), inherited_below(header)),
            text: Vec::new(),
            tape: Tape::default(),
        });
        let target = Target::new(Relations::new(header.id().clone(), Generation::V2.get()));
        Ok(Self {
            stored: generation,
            target_header,
            cut,
            limits: *limits,
            line: 1,
            acceptance: Acceptance::new(recovery),
            tape: Tape::default(),
            sources: SeqList::default(),
            to_v2: ToV2::new(header, to_v1.is_some(), target, limits),
            to_v1,
            refusal: None,
        })
    }

    /// The header of the result.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.target_header
    }

    /// The generation of the log as stored.
    #[must_use]
    pub fn stored_generation(&self) -> Generation {
        self.stored
    }

    /// Takes the next line of the log, without its newline. Time linear in the line, plus what it releases.
    ///
    /// `Break` if the sink broke off; later rows are then still checked, but not delivered.
    ///
    /// # Errors
    /// The refusal of the log. It is final: further calls return it again.
    pub fn push(&mut self, line: &[u8], sink: &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal> {
        self.line = self.line.saturating_add(1);
        self.unless_refused(|this| this.push_line(line, sink))?;
        Ok(self.flow())
    }

    /// Ends the log and judges the whole.
    ///
    /// # Errors
    /// The refusal of the log.
    pub fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Outcome, Refusal> {
        self.unless_refused(|this| {
            if this.cut > this.acceptance.events() {
                return Err(Refusal::new(Stage::Decode, Code::CutBeyondEnd));
            }
            this.to_v2.finish(sink)
        })?;
        Ok(Outcome {
            events: self.to_v2.emitter().events(),
            inherited: self.to_v2.emitter().target_cut().unwrap_or(0),
            source_events: self.acceptance.events(),
            is_prefix: self.acceptance.issue().is_some(),
        })
    }

    /// Bytes behind the last newline: half a row that an append left behind. Call it instead of a last
    /// [`push`](Self::push).
    ///
    /// # Errors
    /// Strict reading refuses them.
    pub fn torn_tail(&mut self) -> Result<(), Refusal> {
        self.line = self.line.saturating_add(1);
        self.unless_refused(|this| this.acceptance.unreadable(this.line, "the last line has no newline"))
    }

    /// The first row that was dropped, and why; only recoverable reading drops rows.
    #[must_use]
    pub fn issue(&self) -> Option<&Refusal> {
        self.acceptance.issue()
    }

    /// Bytes of memory that grow with the log, as far as they are large: the open attempt, held events, the seq map.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.to_v2.memory()
    }

    fn flow(&self) -> ControlFlow<()> {
        let stopped = self.to_v2.emitter().target().is_stopped();
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn unless_refused(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Refusal>) -> Result<(), Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let result = work(self);
        if let Err(refusal) = &result {
            self.refusal = Some(refusal.clone());
        }
        result
    }

    fn push_line(&mut self, line: &[u8], sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        let number = self.line;
        if u64::try_from(line.len()).is_ok_and(|bytes| bytes >= self.limits.row_bytes_max) {
            return self.acceptance.unreadable(number, "the line is longer than a row may be");
        }
        if let Some(deltas) = Deltas::read(line)
            && self.acceptance.take(deltas.seq0, deltas.last_seq)
        {
            return self.to_v2.deltas(&deltas, sink).map_err(|refusal| refusal.at_line(number));
        }
        if let Some(written) = WrittenChunk::read(line)
            && let Ok(chunk) = self.tape.parse(written.chunk, self.limits.nesting_max.saturating_sub(2))
            && Inventory::v1().is_chunk(chunk, Place { generation: Generation::V1, seq: written.seq })
            && self.acceptance.take(written.seq, written.seq)
        {
            let event = ChunkEvent::new(written.time, chunk);
            let taken = self.to_v2.written_chunk(&written, &event, sink);
            return taken.map_err(|refusal| refusal.at_line(number));
        }
        let row = match self.tape.parse(line, self.limits.nesting_max) {
            Ok(row) => row,
            Err(error) => {
                let why = match error.kind {
                    SyntaxErrorKind::NotUtf8 => "the line is not UTF-8",
                    _ => "the line is not JSON",
                };
                return self.acceptance.unreadable(number, why);
            }
        };
        let seq = self.acceptance.events();
        let envelope = Envelope::of(row);
        let accepted = self.acceptance.row(envelope.as_ref(), number, &mut self.sources)?;
        let taken = match (accepted, &envelope) {
            (Some(PhysicalRow::Run(run)), _) => self.to_v2.run(&run, sink),
            (Some(PhysicalRow::Event), Some(envelope)) => {
                event(&mut self.to_v1, &mut self.to_v2, envelope, seq, &self.sources, number, sink)
            }
            _ => Ok(()),
        };
        taken.map_err(|refusal| refusal.at_line(number))
    }
}

/// The header of the same session in v2.
pub(super) fn translate(header: &Header) -> Result<Header, HeaderFault> {
    let seeding = match header.seeding() {
        Seeding::Unseeded => Seeding::Unseeded,
        Seeding::Counted(_) | Seeding::Marked => Seeding::Marked,
    };
    header.clone().with_seeding(Generation::V2, seeding)
}

/// Runs one event through the chain.
fn event(
    to_v1: &mut Option<RenewedRows>,
    to_v2: &mut ToV2,
    envelope: &Envelope<'_>,
    seq: u64,
    sources: &SeqList,
    line: u64,
    sink: &mut RowSink<'_>,
) -> Result<(), Refusal> {
    let placed = |refusal: Refusal| refusal.at_seq(seq);
    let stored = |kind| SourceEvent { envelope, kind, seq, data: envelope.data, sources };
    let Some(RenewedRows { step, text, tape }) = to_v1 else {
        let name = envelope.type_name();
        let kind = name.and_then(|name| Kind::from_name(&name.to_string_lossy()));
        return to_v2.event(&stored(kind), line, sink);
    };
    text.clear();
    let renewed = step.renew(envelope, seq, text).map_err(placed)?;
    if renewed.kind == Some(Kind::AssistantChunk) {
        return to_v2.event(&stored(renewed.kind), line, sink);
    }
    let data = match renewed.data {
        Data::Stored(data) => data,
        // Written from values that were parsed within the limits, one level deeper at most.
        Data::Rewritten => tape.parse(text, u32::MAX).map_err(|_| {
            let why = Detail::Rule("its old form cannot be rewritten");
            placed(Refusal::new(Stage::V0ToV1, Code::PayloadInvalid).with(why))
        })?,
    };
    let kind = step.check(renewed.kind, envelope.type_name(), data, seq).map_err(placed)?;
    let event = SourceEvent { envelope, kind: Some(kind), seq, data: Some(data), sources };
    to_v2.event(&event, line, sink)
}
