//! A log of any generation read as one of the current: as it is, or converted on the way.

use std::ops::ControlFlow;

use super::catalog::{Classified, classify};
use super::migration::Migration;
use super::refusal::{Class, Code, Detail, Refusal, Stage};
use super::relations::Relations;
use super::session_rules::SessionRules;
use super::target::{RowSink, TargetRow};
use super::v2::CurrentRows;
use crate::json::Tape;
use crate::limits::Limits;
use crate::row::{Header, PhysicalRow, Recovery, RowDecoder, RowPlace};
use crate::units::Generation;

/// How much of the result is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validation {
    /// A current log by its rows alone; a converted one also by the relationships between its events. Ordinary reading.
    Transformed,
    /// Either by rows, relationships, and what a running host demands of the surface. Verification and fixtures.
    Current,
}

/// The reading of one log: push every row once, in file order, then finish once.
///
/// Rows of the current generation come to the sink as the bytes that were pushed; older ones are converted by a
/// [`Migration`], with its memory and its late refusals.
#[derive(Debug)]
pub struct Restore(Inner);

#[derive(Debug)]
enum Inner {
    Current(Box<CurrentLog>),
    Older(Box<OlderLog>),
}

#[derive(Debug)]
struct CurrentLog {
    header: Header,
    recovery: Recovery,
    decoder: RowDecoder,
    checks: Option<CurrentChecks>,
    place: RowPlace,
    is_torn: bool,
    stopped: bool,
}

#[derive(Debug)]
struct OlderLog {
    migration: Migration,
    checks: Option<CurrentChecks>,
}

/// Relationships and surface, for a log that is current or was just converted.
#[derive(Debug)]
struct CurrentChecks {
    tape: Tape,
    nesting_max: u32,
    rows: CurrentRows,
    relations: Relations,
    session: SessionRules,
    fault: Option<Refusal>,
}

/// A log that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The generation as stored.
    pub stored: Generation,
    /// Events of the log in the current generation.
    pub events: u64,
    /// How many of them are inherited.
    pub inherited: u64,
    /// Whether rows behind the accepted ones were dropped.
    pub is_prefix: bool,
}

impl Restore {
    /// Starts with the header line, without its newline.
    ///
    /// # Errors
    /// The refusal of the header.
    pub fn new(
        header_line: &[u8],
        recovery: Recovery,
        validation: Validation,
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        let checks = |header: &Header| {
            (validation == Validation::Current).then(|| CurrentChecks::new(header, limits.nesting_max))
        };
        match classify(header_line, limits) {
            Classified::Current(header) => {
                let decoder = RowDecoder::new(Generation::CURRENT, recovery).with_limits(*limits);
                let checks = checks(&header);
                let place = RowPlace { line: 1, offset: 0 };
                let log =
                    CurrentLog { header, recovery, decoder, checks, place, is_torn: false, stopped: false };
                Ok(Self(Inner::Current(Box::new(log))))
            }
            Classified::MigrationRequired { stored, header } => {
                let migration = Migration::new(&stored, recovery, limits).map_err(|fault| {
                    Refusal::new(Stage::Header, Code::HeaderInvalid).with(Detail::Header(fault))
                })?;
                Ok(Self(Inner::Older(Box::new(OlderLog { migration, checks: checks(&header) }))))
            }
            Classified::Refused { refusal, .. } => Err(refusal),
        }
    }

    /// The header in the current generation.
    #[must_use]
    pub fn header(&self) -> &Header {
        match &self.0 {
            Inner::Current(log) => &log.header,
            Inner::Older(log) => log.migration.header(),
        }
    }

    /// Takes the next line, without its newline. `Break` if the sink broke off.
    ///
    /// # Errors
    /// The refusal of the log.
    #[inline]
    pub fn push(&mut self, line: &[u8], sink: &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal> {
        match &mut self.0 {
            Inner::Current(log) => log.push(line, sink),
            Inner::Older(log) => log.push(line, sink),
        }
    }

    /// Bytes behind the last newline: half a row that an append left behind. Call it instead of a last
    /// [`push`](Self::push).
    ///
    /// # Errors
    /// Strict reading refuses them.
    pub fn torn_tail(&mut self) -> Result<(), Refusal> {
        match &mut self.0 {
            Inner::Current(log) => log.torn_tail(),
            Inner::Older(log) => log.migration.torn_tail(),
        }
    }

    /// Ends the log and judges the whole.
    ///
    /// # Errors
    /// The refusal of the log.
    pub fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Restored, Refusal> {
        match &mut self.0 {
            Inner::Current(log) => log.finish(),
            Inner::Older(log) => log.finish(sink),
        }
    }
}

impl CurrentLog {
    #[inline]
    fn push(&mut self, line: &[u8], sink: &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal> {
        self.place.line = self.place.line.saturating_add(1);
        let len = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let place = self.place;
        self.place.offset = self.place.offset.saturating_add(len).saturating_add(1);
        let row = self.decoder.push(place, line).map_err(|fault| {
            let refusal = Refusal::new(Stage::Decode, Code::CurrentRow).with(Detail::Row(fault.issue.fault));
            refusal.at_line(fault.issue.place.line)
        })?;
        if let Some(PhysicalRow::Event(event)) = row {
            if let Some(checks) = &mut self.checks {
                checks.push(line, event.seq().get(), Origin::Stored);
            }
            if !self.stopped {
                let row = TargetRow::new(event.seq(), event.time(), [line, &[], &[]]);
                self.stopped = sink(&row).is_break();
            }
        }
        Ok(if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn torn_tail(&mut self) -> Result<(), Refusal> {
        self.is_torn = true;
        if self.recovery == Recovery::Recoverable {
            return Ok(());
        }
        let refusal =
            Refusal::new(Stage::Decode, Code::CurrentRow).at_line(self.place.line.saturating_add(1));
        Err(refusal.with(Detail::Rule("the last line has no newline")))
    }

    fn finish(&self) -> Result<Restored, Refusal> {
        let cut = self.decoder.finish(&self.header);
        let inherited =
            cut.map_err(|_| Refusal::new(Stage::Decode, Code::CurrentRow).with(Detail::Rule(CUT)))?;
        if let Some(checks) = &self.checks {
            checks.finish(Origin::Stored)?;
        }
        let is_prefix = self.is_torn || self.decoder.issue().is_some();
        Ok(Restored { stored: Generation::CURRENT, events: self.decoder.events(), inherited, is_prefix })
    }
}

const CUT: &str = "header and marker of the fork cut disagree";

impl OlderLog {
    fn push(&mut self, line: &[u8], sink: &mut RowSink<'_>) -> Result<ControlFlow<()>, Refusal> {
        let Self { migration, checks } = self;
        with_checks(checks, sink, |sink| migration.push(line, sink))
    }

    fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Restored, Refusal> {
        let Self { migration, checks } = self;
        let stored = migration.stored_generation();
        let outcome = with_checks(checks, sink, |sink| migration.finish(sink))?;
        if let Some(checks) = checks {
            checks.finish(Origin::Converted)?;
        }
        let (events, inherited) = (outcome.events, outcome.inherited);
        Ok(Restored { stored, events, inherited, is_prefix: outcome.is_prefix })
    }
}

/// Runs `work` with a sink that shows every row to the checks before it passes it on.
fn with_checks<T>(
    checks: &mut Option<CurrentChecks>,
    sink: &mut RowSink<'_>,
    work: impl FnOnce(&mut RowSink<'_>) -> T,
) -> T {
    let Some(checks) = checks else { return work(sink) };
    let mut text = Vec::new();
    work(&mut |row| {
        text.clear();
        row.write_to(&mut text);
        checks.push(&text, row.seq().get(), Origin::Converted);
        sink(row)
    })
}

/// Where the rows under check come from: that decides what a fault says about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The file holds them: a fault is damage, except for a type that this build does not know.
    Stored,
    /// A conversion made them: the file is not to blame.
    Converted,
}

impl CurrentChecks {
    fn new(header: &Header, nesting_max: u32) -> Self {
        Self {
            tape: Tape::default(),
            nesting_max,
            rows: CurrentRows::new(header),
            relations: Relations::new(header.id().clone(), Generation::V2.get()),
            session: SessionRules::default(),
            fault: None,
        }
    }

    /// Takes event `seq`, whose text is `line`.
    fn push(&mut self, line: &[u8], seq: u64, origin: Origin) {
        if self.fault.is_some() {
            return;
        }
        let envelope = |rule| origin.refuse(Code::TargetEnvelope).with(Detail::Rule(rule)).at_seq(seq);
        let Ok(row) = self.tape.parse(line, self.nesting_max) else {
            self.fault = Some(envelope("the row is not JSON"));
            return;
        };
        match self.rows.read(row, seq) {
            Err(rule) => self.fault = Some(envelope(rule)),
            Ok(row) => match row.view {
                Some(view) => {
                    self.relations.push(&view);
                    self.session.push(&view);
                }
                None if row.is_ignorable => {}
                None => {
                    let name = row.name.to_string_lossy().into_owned();
                    let refusal = Refusal::new(Stage::Target, Code::UnknownRequiredEvent).at_seq(seq);
                    self.fault = Some(refusal.with(Detail::EventType(name)));
                }
            },
        }
    }

    fn finish(&self, origin: Origin) -> Result<(), Refusal> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if let Some(fault) = self.relations.finish() {
            return Err(origin.refuse(fault.code).with(Detail::Rule(fault.rule)).at_seq(fault.seq));
        }
        match self.session.fault() {
            Some(fault) => {
                let refusal = origin.refuse(Code::SurfaceMetadata).with(Detail::Rule(fault.rule));
                Err(refusal.at_seq(fault.seq))
            }
            None => Ok(()),
        }
    }
}

impl Origin {
    fn refuse(self, code: Code) -> Refusal {
        let refusal = Refusal::new(Stage::Target, code);
        if self == Self::Stored { refusal.with_class(Class::Corrupt) } else { refusal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str =
        r#"{"type":"session","version":2,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#;
    const V1: &str = r#"{"type":"session","version":1,"id":"s","createdAt":0,"delegationDepth":0}"#;
    const NOTE: &str = r#"{"type":"feedback/record","seq":0,"time":1,"data":{"text":"a"}}"#;

    fn restore(
        header: &str,
        rows: &[&str],
        recovery: Recovery,
        validation: Validation,
    ) -> Result<(Restored, Vec<u8>), (Class, Code)> {
        let named = |refusal: Refusal| (refusal.class(), refusal.code());
        let mut restore =
            Restore::new(header.as_bytes(), recovery, validation, &Limits::DEFAULT).map_err(named)?;
        let mut out = Vec::new();
        let mut sink = |row: &TargetRow<'_>| {
            row.write_to(&mut out);
            ControlFlow::Continue(())
        };
        for row in rows {
            let _ = restore.push(row.as_bytes(), &mut sink).map_err(named)?;
        }
        let restored = restore.finish(&mut sink).map_err(named)?;
        Ok((restored, out))
    }

    #[test]
    fn a_current_log_is_passed_on_as_it_is() {
        let odd = NOTE.replace(":1,", " : 1.0,");
        for validation in [Validation::Transformed, Validation::Current] {
            let (restored, out) = restore(V2, &[&odd], Recovery::Strict, validation).expect("a log");
            assert_eq!(out, odd.as_bytes());
            let expected = Restored { stored: Generation::V2, events: 1, inherited: 0, is_prefix: false };
            assert_eq!(restored, expected);
        }
    }

    #[test]
    fn a_fault_says_whether_the_file_is_to_blame() {
        let strict = |header, rows: &[&str], validation| {
            restore(header, rows, Recovery::Strict, validation).map(|_| ())
        };
        let step =
            NOTE.replace("feedback/record", "step/start").replace(r#""text":"a""#, r#""turn":1,"step":1"#);
        assert_eq!(strict(V2, &[&step], Validation::Transformed), Ok(()), "rows alone");
        let broken = Err((Class::Corrupt, Code::RelationStep));
        assert_eq!(strict(V2, &[&step], Validation::Current), broken);
        let unsupported = Err((Class::Unsupported, Code::RelationStep));
        assert_eq!(strict(V1, &[&step], Validation::Transformed), unsupported);
        assert_eq!(strict(V1, &[&step], Validation::Current), unsupported);

        let foreign = NOTE.replace("feedback/record", "vendor/x");
        assert_eq!(strict(V2, &[&foreign], Validation::Transformed), Ok(()));
        let unknown = Err((Class::Unsupported, Code::UnknownRequiredEvent));
        assert_eq!(strict(V2, &[&foreign], Validation::Current), unknown);
        assert_eq!(
            strict(V2, &[NOTE, NOTE], Validation::Transformed),
            Err((Class::Corrupt, Code::CurrentRow))
        );

        // A converted log that the format admits and a running host does not: the file stays valid.
        let message = concat!(
            r#"{"type":"user/message","seq":0,"time":1,"data":{"id":"u","role":"user","content":[],"#,
            r#""source":{"kind":"user"}},"sourceEventSeqs":[],"surfaceOp":"append"}"#
        );
        assert_eq!(strict(V1, &[message], Validation::Transformed), Ok(()));
        let surface = Err((Class::Unsupported, Code::SurfaceMetadata));
        assert_eq!(strict(V1, &[message], Validation::Current), surface);
    }

    #[test]
    fn half_a_row_at_the_end_is_left_out_or_refused() {
        for header in [V1, V2] {
            for (recovery, kept) in [(Recovery::Recoverable, true), (Recovery::Strict, false)] {
                let validation = Validation::Transformed;
                let mut restore = Restore::new(header.as_bytes(), recovery, validation, &Limits::DEFAULT)
                    .expect("a header");
                let mut sink = |_: &TargetRow<'_>| ControlFlow::Continue(());
                let _ = restore.push(NOTE.as_bytes(), &mut sink).expect("a row");
                assert_eq!(restore.torn_tail().is_ok(), kept);
                if kept {
                    let restored = restore.finish(&mut sink).expect("a prefix");
                    assert_eq!((restored.events, restored.is_prefix), (1, true));
                }
            }
        }
    }

    #[test]
    fn a_damaged_end_is_left_out_of_either_generation() {
        for header in [V1, V2] {
            let (restored, out) =
                restore(header, &[NOTE, "{"], Recovery::Recoverable, Validation::Transformed)
                    .expect("a prefix");
            assert!(restored.is_prefix && restored.events == 1, "{header}");
            assert_eq!(out, NOTE.as_bytes());
        }
        assert_eq!(
            restore("{}", &[], Recovery::Strict, Validation::Current).map(|_| ()),
            Err((Class::Malformed, Code::HeaderVersion))
        );
    }
}
