//! The check of a converted log before it is published: read from scratch, apart from the code that converted it.
//!
//! Spec: `format-spec/06-migration.md`, "Verification".

use super::inventory::{Inventory, Kind, Place};
use super::refusal::{Code, Detail, Refusal, Stage};
use super::relations::Relations;
use super::session_rules::SessionRules;
use super::v2::CurrentRows;
use crate::json::{Node, Tape, Text};
use crate::limits::Limits;
use crate::row::{Check, Header, Recovery, RowDecoder, RowPlace};
use crate::stream::{Settlement, SettlementFault, SettlementKind};
use crate::units::Generation;

/// How many payloads are compared with the frozen v2 schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadCheck {
    /// Messages and request headers: what a running host looks into.
    Messages,
    /// Every event of the inventory. Stricter than a publication has to be: v1 lets a descriptor of another version pass.
    All,
}

/// Checks the rows of a v2 log: push every row in order, then finish.
///
/// In this order: rows, relationships and cut ([`Code::Reopen`]); id and number of events ([`Code::Identity`]); the
/// surface as a running host wants it ([`Code::SurfaceMetadata`]) and payloads ([`Code::TargetPayload`]); every embedded
/// stream, expanded and assembled and compared with its message. The first kind of fault in this order decides, and of
/// one kind the first event. Memory as for the relationships, 24 bytes for each tool result, and one row.
#[derive(Debug)]
pub struct Verifier {
    header: Header,
    nesting_max: u32,
    payloads: PayloadCheck,
    decoder: RowDecoder,
    tape: Tape,
    rows: CurrentRows,
    relations: Relations,
    session: SessionRules,
    line: u64,
    offset: u64,
    reopen: Option<Refusal>,
    payload: Option<Refusal>,
    stream: Option<Refusal>,
}

/// A log that was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Its events.
    pub events: u64,
    /// How many of them are inherited.
    pub inherited: u64,
}

impl Verifier {
    /// A verifier of the log that `header` starts.
    ///
    /// # Errors
    /// [`Code::Reopen`] if it is not the header of a v2 log.
    pub fn new(header: &Header, payloads: PayloadCheck, limits: &Limits) -> Result<Self, Refusal> {
        if header.generation() != Generation::V2 {
            return Err(refuse(Code::Reopen, "it is no log of the current generation").at_line(1));
        }
        Ok(Self {
            header: header.clone(),
            nesting_max: limits.nesting_max,
            payloads,
            // The grammar of payloads is checked by the tape that the other checks read from.
            decoder: RowDecoder::new(Generation::V2, Recovery::Strict)
                .with_check(Check::Envelope)
                .with_limits(*limits),
            tape: Tape::default(),
            rows: CurrentRows::new(header),
            relations: Relations::new(header.id().clone(), Generation::V2.get()),
            session: SessionRules::default(),
            line: 1,
            offset: 0,
            reopen: None,
            payload: None,
            stream: None,
        })
    }

    /// Takes the next line, without its newline. Time linear in the line.
    ///
    /// # Errors
    /// A row that does not read back: nothing later changes that verdict.
    pub fn push(&mut self, line: &[u8]) -> Result<(), Refusal> {
        self.line = self.line.saturating_add(1);
        if let Some(refusal) = &self.reopen {
            return Err(refusal.clone());
        }
        self.push_line(line).inspect_err(|refusal| self.reopen = Some(refusal.clone()))
    }

    fn push_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let (seq, at) = (self.decoder.events(), self.line);
        let reopen = |rule: &'static str| refuse(Code::Reopen, rule).at_seq(seq).at_line(at);
        let place = RowPlace { line: at, offset: self.offset };
        self.offset =
            self.offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)).saturating_add(1);
        self.decoder.push(place, line).map_err(|fault| {
            Refusal::new(Stage::Publication, Code::Reopen)
                .with(Detail::Row(fault.issue.fault))
                .at_seq(seq)
                .at_line(at)
        })?;
        let row = self.tape.parse(line, self.nesting_max).map_err(|_| reopen("the row is not JSON"))?;
        let row = self.rows.read(row, seq).map_err(reopen)?;
        let Some(view) = row.view else {
            let refusal = reopen("").with(Detail::EventType(row.name.to_string_lossy().into_owned()));
            return if row.is_ignorable { Ok(()) } else { Err(refusal) };
        };
        self.relations.push(&view);
        self.session.push(&view);
        let (kind, data) = (view.kind, view.data);
        if self.payload.is_none() {
            self.payload =
                check_payload(kind, data, seq, self.payloads).err().map(|refusal| refusal.at_line(at));
        }
        if self.stream.is_none() {
            self.stream = check_stream(kind, data).err().map(|refusal| refusal.at_seq(seq).at_line(at));
        }
        Ok(())
    }

    /// Judges the whole log, which should hold `events` events of session `id`.
    ///
    /// # Errors
    /// Why it may not be published.
    pub fn finish(&self, id: &Text, events: u64) -> Result<Verified, Refusal> {
        if let Some(refusal) = &self.reopen {
            return Err(refusal.clone());
        }
        let cut = self.decoder.finish(&self.header);
        let inherited =
            cut.map_err(|_| refuse(Code::Reopen, "header and marker of the fork cut disagree"))?;
        if let Some(fault) = self.relations.finish() {
            return Err(refuse(Code::Reopen, fault.rule).at_seq(fault.seq));
        }
        if self.header.id() != id || self.decoder.events() != events {
            return Err(refuse(Code::Identity, "it has another id or number of events"));
        }
        if let Some(fault) = self.session.fault() {
            return Err(refuse(Code::SurfaceMetadata, fault.rule).at_seq(fault.seq));
        }
        match self.payload.as_ref().or(self.stream.as_ref()) {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(Verified { events, inherited }),
        }
    }
}

fn refuse(code: Code, rule: &'static str) -> Refusal {
    Refusal::new(Stage::Publication, code).with(Detail::Rule(rule))
}

fn check_payload(kind: Kind, data: Node<'_>, seq: u64, which: PayloadCheck) -> Result<(), Refusal> {
    let is_looked_into = kind.is_surface() || kind == Kind::RequestHeader;
    // Streams are checked by the reader that expands them.
    if which == PayloadCheck::Messages && (!is_looked_into || kind == Kind::AssistantMessage) {
        return Ok(());
    }
    let place = Place { generation: Generation::V2, seq };
    Inventory::v2().check(kind, data, place).map_err(|mismatch| {
        Refusal::new(Stage::Publication, Code::TargetPayload).with(Detail::Payload(mismatch)).at_seq(seq)
    })
}

/// Expands and assembles the stream of a settlement, and compares it with its message.
fn check_stream(kind: Kind, data: Node<'_>) -> Result<(), Refusal> {
    let settlement = match kind {
        Kind::AssistantMessage => SettlementKind::Message,
        Kind::AssistantAttempt => SettlementKind::Attempt,
        _ => return Ok(()),
    };
    let verified = Settlement::read(settlement, data.raw()).and_then(|settlement| settlement.verify());
    verified.map_err(|fault| match fault {
        SettlementFault::StreamContent => {
            refuse(Code::StreamContent, "the stream assembles to other content")
        }
        SettlementFault::StreamUsage => refuse(Code::StreamUsage, "the stream ends with another usage"),
        SettlementFault::StreamReplay => {
            refuse(Code::StreamReplay, "the stream assembles to another replay state")
        }
        _ => Refusal::new(Stage::Publication, Code::StreamInvalid).with(Detail::Settlement(fault)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Class;

    const HEADER: &str =
        r#"{"type":"session","version":2,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#;

    fn verify(rows: &[&str], id: &str, events: u64) -> Result<Verified, (Class, Code, Option<u64>)> {
        let header = Header::parse(HEADER.as_bytes(), &Limits::DEFAULT).expect("a header");
        let mut verifier = Verifier::new(&header, PayloadCheck::All, &Limits::DEFAULT).expect("a v2 log");
        for row in rows {
            // A row that does not read back is reported again at the end.
            let _ = verifier.push(row.as_bytes());
        }
        verifier
            .finish(&Text::from(id), events)
            .map_err(|refusal| (refusal.class(), refusal.code(), refusal.seq()))
    }

    const NOTE: &str = r#"{"type":"feedback/record","seq":0,"time":1,"data":{"text":"a"}}"#;

    fn refused(code: Code, seq: Option<u64>) -> Result<Verified, (Class, Code, Option<u64>)> {
        Err((Class::Verification, code, seq))
    }

    #[test]
    fn a_log_is_what_was_written() {
        assert_eq!(verify(&[NOTE], "s", 1), Ok(Verified { events: 1, inherited: 0 }));
        assert_eq!(verify(&[NOTE], "t", 1), refused(Code::Identity, None));
        assert_eq!(verify(&[NOTE], "s", 2), refused(Code::Identity, None));
        assert_eq!(verify(&[NOTE, NOTE], "s", 2), refused(Code::Reopen, Some(1)), "a repeated seq");
        assert_eq!(verify(&["{"], "s", 1), refused(Code::Reopen, Some(0)));
        let cut = r#"{"type":"session/end-seed","seq":0,"time":1,"data":{"inherited":true}}"#;
        assert_eq!(verify(&[cut], "s", 1), refused(Code::Reopen, None), "a cut in a log that is no fork");
    }

    #[test]
    fn a_type_that_nobody_knows_has_to_be_ignorable() {
        let foreign = r#"{"type":"vendor/x","seq":0,"time":1,"data":null}"#;
        assert_eq!(verify(&[foreign], "s", 1), refused(Code::Reopen, Some(0)));
        let ignorable = foreign.replace("null", r#"null,"ignorable":true"#);
        assert!(verify(&[&ignorable], "s", 1).is_ok());
        let chunk = NOTE.replace("feedback/record", "assistant/chunk");
        assert_eq!(verify(&[&chunk], "s", 1), refused(Code::Reopen, Some(0)), "v2 has no chunks");
    }

    #[test]
    fn the_kind_of_a_fault_outranks_its_place() {
        let payload = NOTE.replace("text", "note");
        assert_eq!(verify(&[&payload], "s", 1), refused(Code::TargetPayload, Some(0)));
        assert_eq!(verify(&[&payload], "t", 1), refused(Code::Identity, None));
        let outside = r#"{"type":"step/start","seq":1,"time":1,"data":{"turn":1,"step":1}}"#;
        assert_eq!(verify(&[&payload, outside], "t", 9), refused(Code::Reopen, Some(1)));
    }
}
