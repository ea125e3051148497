//! One log on its way from v0 or v1 to v2, in a single pass.

use std::ops::ControlFlow;

use super::ahead;
use super::inventory::Kind;
use super::physical::{Acceptance, Envelope, PhysicalRow};
use super::reading::{self, LineReader, Payload, Reading};
use super::refusal::{Code, Detail, Refusal, Stage};
use super::relations::Relations;
use super::target::{RowSink, Target};
use super::v0::{Data, ToV1};
use super::v1::ChunkEvent;
use super::v1_to_v2::{SourceEvent, ToV2, inherited_below};
use crate::json::{Node, Tape};
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
    line: u64,
    acceptance: Acceptance,
    reader: LineReader,
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
            line: 1,
            acceptance: Acceptance::new(recovery),
            reader: LineReader::new(generation, limits),
            tape: Tape::default(),
            sources: SeqList::default(),
            to_v2: ToV2::new(header, target, limits),
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

    /// Takes the next lines of the log, each with its newline: what [`push`](Self::push) does with one after the other, sooner,
    /// for other cores read lines ahead, in threads that end before this returns. Worth it from some hundred kilobytes
    /// on. Memory beyond that of the conversion: a few MiB.
    ///
    /// `Break` if the sink broke off; the lines behind the one that made it so were not taken.
    ///
    /// # Errors
    /// The refusal of the log, as `push` gives it.
    pub fn push_lines(&mut self, lines: &[u8], sink: &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal> {
        self.push_lines_with(lines, ahead::helpers_for(lines.len()), sink)
    }

    fn push_lines_with(
        &mut self,
        lines: &[u8],
        helpers: usize,
        sink: &mut RowSink<'_>,
    ) -> Result<ControlFlow<()>, Refusal> {
        self.unless_refused(|_| Ok(()))?;
        let mut result = Ok(self.flow());
        if helpers == 0 {
            for line in ahead::lines(lines) {
                result = self.push(line, sink);
                if !matches!(result, Ok(ControlFlow::Continue(()))) {
                    break;
                }
            }
            return result;
        }
        ahead::each(self.reader, lines, helpers, &mut |line, reading, value| {
            self.line = self.line.saturating_add(1);
            let taken = self.unless_refused(|this| this.take(line, reading, value, sink));
            result = taken.map(|()| self.flow());
            if matches!(result, Ok(ControlFlow::Continue(()))) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        result
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
        let mut tape = std::mem::take(&mut self.tape);
        let reading = self.reader.read(line, &mut tape);
        let value = reading.text().and_then(|text| tape.root(text));
        let taken = self.take(line, &reading, value, sink);
        self.tape = tape;
        taken
    }

    /// Takes a line that was read, and the value that was found in it.
    fn take(
        &mut self,
        line: &[u8],
        reading: &Reading<'_>,
        value: Option<Node<'_>>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        let number = self.line;
        let at_line = |refusal: Refusal| refusal.at_line(number);
        match (reading, value) {
            (Reading::Deltas(deltas), _) => {
                if self.acceptance.take(deltas.seq0, deltas.last_seq) {
                    return self.to_v2.deltas(deltas, sink).map_err(at_line);
                }
            }
            (Reading::Chunk { written, kind, is_canonical, .. }, Some(chunk)) => {
                if self.acceptance.take(written.seq, written.seq) {
                    let (time, kind, is_canonical) = (written.time, *kind, *is_canonical);
                    let event = ChunkEvent { time, chunk, kind, is_canonical };
                    return self.to_v2.written_chunk(written, &event, sink).map_err(at_line);
                }
            }
            (Reading::Row { payload, .. }, Some(row)) => return self.row(row, *payload, sink),
            (Reading::Unreadable(why), _) => return self.acceptance.unreadable(number, why),
            (Reading::Chunk { .. } | Reading::Row { .. }, None) => {}
        }
        // It is not the row that is due, or something is wrong before it: what that means is said in one place.
        let mut tape = Tape::default();
        let reading = self.reader.read_generally(line, &mut tape);
        match (reading, reading.text().and_then(|text| tape.root(text))) {
            (Reading::Row { payload, .. }, Some(row)) => self.row(row, payload, sink),
            (Reading::Unreadable(why), _) => self.acceptance.unreadable(number, why),
            _ => Ok(()),
        }
    }

    /// Takes the value of a line.
    fn row(&mut self, row: Node<'_>, payload: Payload, sink: &mut RowSink<'_>) -> Result<(), Refusal> {
        let number = self.line;
        let seq = self.acceptance.events();
        let envelope = Envelope::of(row);
        let accepted = self.acceptance.row(envelope.as_ref(), number, &mut self.sources)?;
        let taken = match (accepted, &envelope) {
            (Some(PhysicalRow::Run(run)), _) => self.to_v2.run(&run, sink),
            (Some(PhysicalRow::Event), Some(envelope)) => {
                let stored = SourceEvent {
                    envelope,
                    kind: None,
                    seq,
                    data: envelope.data,
                    sources: &self.sources,
                    is_sound: payload.is_sound,
                    is_canonical: payload.is_canonical,
                };
                event(&mut self.to_v1, &mut self.to_v2, stored, number, sink)
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

/// Runs one event through the chain; `stored` is the event as it is, its kind not yet known.
fn event(
    to_v1: &mut Option<RenewedRows>,
    to_v2: &mut ToV2,
    stored: SourceEvent<'_>,
    line: u64,
    sink: &mut RowSink<'_>,
) -> Result<(), Refusal> {
    let (envelope, seq) = (stored.envelope, stored.seq);
    let placed = |refusal: Refusal| refusal.at_seq(seq);
    let Some(RenewedRows { step, text, tape }) = to_v1 else {
        let kind = reading::kind_of(envelope);
        return to_v2.event(&SourceEvent { kind, ..stored }, line, sink);
    };
    text.clear();
    let renewed = step.renew(envelope, seq, text).map_err(placed)?;
    if renewed.kind == Some(Kind::AssistantChunk) {
        return to_v2.event(&SourceEvent { kind: renewed.kind, ..stored }, line, sink);
    }
    let (data, is_canonical) = match renewed.data {
        Data::Stored(data) => (data, stored.is_canonical),
        // Written from values that were parsed within the limits, one level deeper at most.
        Data::Rewritten => {
            let data = tape.parse(text, u32::MAX).map_err(|_| {
                let why = Detail::Rule("its old form cannot be rewritten");
                placed(Refusal::new(Stage::V0ToV1, Code::PayloadInvalid).with(why))
            })?;
            (data, false)
        }
    };
    let kind = step.check(renewed.kind, envelope.type_name(), data, seq).map_err(placed)?;
    let event = SourceEvent { kind: Some(kind), data: Some(data), is_sound: true, is_canonical, ..stored };
    to_v2.event(&event, line, sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::catalog::{Classified, classify};

    /// The rows that `log` converts to, and how that ends.
    fn convert(
        log: &[u8],
        recovery: Recovery,
        push: impl Fn(&mut Migration, &[u8], &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal>,
    ) -> Option<(Vec<u8>, Result<Outcome, String>)> {
        let (header, rows) = log.split_at(log.iter().position(|byte| *byte == b'\n')?);
        let Classified::MigrationRequired { stored, .. } = classify(header, &Limits::DEFAULT) else {
            return None;
        };
        let mut migration = Migration::new(&stored, recovery, &Limits::DEFAULT).ok()?;
        let mut out = Vec::new();
        let mut sink = |row: &crate::format::TargetRow<'_>| {
            row.write_to(&mut out);
            out.push(b'\n');
            ControlFlow::Continue(())
        };
        let pushed = push(&mut migration, &rows[1..], &mut sink).map(|_| ());
        let finished = migration.finish(&mut sink);
        assert!(pushed.is_ok() || finished.is_err(), "a refusal is final");
        Some((out, finished.map_err(|refusal| format!("{refusal:?}"))))
    }

    #[test]
    fn a_log_converts_alike_whoever_reads_its_lines() {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors/migration");
        let mut converted = 0;
        for entry in std::fs::read_dir(vectors).expect("vectors") {
            let path = entry.expect("an entry").path().join("source.jsonl");
            let Ok(log) = std::fs::read(path) else { continue };
            // The whole log, and what is left of it when a line is missing.
            let missing = |at: usize| {
                let lines = log.split_inclusive(|byte| *byte == b'\n').enumerate();
                lines.filter(|(line, _)| *line != at).flat_map(|(_, line)| line.to_vec()).collect::<Vec<u8>>()
            };
            for log in std::iter::once(log.clone()).chain((1..12).map(missing)) {
                for recovery in [Recovery::Strict, Recovery::Recoverable] {
                    let one_by_one = convert(&log, recovery, |migration, lines, sink| {
                        ahead::lines(lines).try_for_each(|line| migration.push(line, sink).map(|_| ()))?;
                        Ok(ControlFlow::Continue(()))
                    });
                    for helpers in [0, 2] {
                        let at_once = convert(&log, recovery, |migration, lines, sink| {
                            migration.push_lines_with(lines, helpers, sink)
                        });
                        assert_eq!(at_once, one_by_one);
                    }
                    converted += usize::from(one_by_one.is_some());
                }
            }
        }
        assert!(converted > 1000, "{converted}");
    }

    #[test]
    fn lines_behind_a_sink_that_broke_off_are_not_taken() {
        let header = br#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#;
        let header = Header::parse(header, &Limits::DEFAULT).expect("a v1 header");
        let row = |seq| format!(r#"{{"type":"feedback/record","seq":{seq},"time":7,"data":{{"text":"x"}}}}"#);
        let lines = (0..50).map(|seq| row(seq) + "\n").collect::<String>();
        for helpers in [0, 2] {
            let mut migration =
                Migration::new(&header, Recovery::Strict, &Limits::DEFAULT).expect("an older generation");
            let mut rows = 0;
            let mut sink = |_: &crate::format::TargetRow<'_>| {
                rows += 1;
                if rows == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let flow = migration.push_lines_with(lines.as_bytes(), helpers, &mut sink).expect("sound rows");
            assert!(flow.is_break());
            assert_eq!((migration.acceptance.events(), rows), (20, 20));
        }
    }
}
