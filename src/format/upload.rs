//! The part of a log that a model request carries along: what the provider has not accepted yet.
//!
//! A request may have a top-level member `dsh_session_log`. It holds the events after the last one that the provider
//! took, and after the provider answered with a 2xx status the host appends a marker that says how far that was. The
//! markers are in the log itself, so two passes make the extension: one to find how far the log was accepted
//! ([`Accepted`]), one over the events behind it ([`Extension`]).
//!
//! ```
//! use seslog::format::upload::{Accepted, Extension, marker};
//! use seslog::limits::Limits;
//! use seslog::row::{Check, Event, Header};
//!
//! let header = br#"{"type":"session","version":2,"id":"s","createdAt":5,"isSeeded":false,"delegationDepth":0}"#;
//! let header = Header::parse(header, &Limits::DEFAULT).expect("a header");
//! let rows = [
//!     r#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#,
//!     concat!(
//!         r#"{"type":"session-log-deepseek/delivery-accepted","seq":1,"time":7,"#,
//!         r#""data":{"sessionId":"s","sessionFormatVersion":2,"throughSeq":0}}"#
//!     ),
//! ];
//! let read = |row: &'static str| Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).expect("a row");
//! let mut accepted = Accepted::new(&header);
//! for row in rows {
//!     accepted.observe(&read(row)).expect("the markers are sound");
//! }
//! let mut extension = Extension::new(&header, 0, accepted.through(), 1 << 20);
//! for row in rows {
//!     extension.push(&read(row)).expect("it fits");
//! }
//! let json = String::from_utf8(extension.finish().expect("the marker is new")).expect("UTF-8");
//! assert!(json.contains(r#""afterSeq":0,"throughSeq":1,"events":[{"type":"session-log-deepseek/"#));
//! ```
//!
//! Spec: `format-spec/06-migration.md`, "Log upload".

use super::inventory::Kind;
use super::object::Object;
use crate::json::{Node, Number, Str, Tape, Text, write_i64, write_text, write_u64};
use crate::row::{Event, Header, RangeFault, Seeding, range};
use crate::units::{Generation, Seq};

/// Version of the extension's own schema; it does not follow the generation of the log.
pub const SCHEMA_VERSION: u64 = 1;

/// Why there is no extension. The request is sent without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadFault {
    /// A marker of this log's generation has members of the wrong type, or accepts itself or what comes after it.
    #[error("the delivery marker at seq {seq} is malformed")]
    Marker {
        /// The marker.
        seq: Seq,
    },
    /// The sources of an event are not a list of earlier events.
    #[error("the sources of event {seq} cannot be written out: {fault}")]
    Sources {
        /// The event.
        seq: Seq,
        /// What is wrong with them.
        fault: RangeFault,
    },
    /// The extension is longer than it may be.
    #[error("the extension is longer than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
}

/// How far a log was accepted: the highest `throughSeq` of the markers that name this session and its generation.
///
/// A marker without a generation speaks of v0. Markers of other generations count seqs of another log and are not looked
/// into; those that name another session came with the events of a parent.
#[derive(Clone, Debug)]
pub struct Accepted {
    session: Text,
    generation: Generation,
    through: Option<Seq>,
}

impl Accepted {
    /// Nothing is accepted yet of the log that `header` starts.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        Self { session: header.id().clone(), generation: header.generation(), through: None }
    }

    /// Takes the next event of the log. Time O(1) unless it is a marker.
    ///
    /// # Errors
    /// [`UploadFault::Marker`].
    pub fn observe(&mut self, event: &Event<'_>) -> Result<(), UploadFault> {
        if !event.is(Kind::DeliveryAccepted.name()) {
            return Ok(());
        }
        let malformed = UploadFault::Marker { seq: event.seq() };
        let mut tape = Tape::default();
        let data = tape.parse(event.data().as_bytes(), u32::MAX).map_err(|_| malformed)?;
        let generation = match data.get("sessionFormatVersion") {
            Some(stated) => stated.as_number().and_then(Number::as_count).ok_or(malformed)?,
            None => 0,
        };
        if generation != self.generation.get() {
            return Ok(());
        }
        let session =
            data.get("sessionId").and_then(Node::as_str).filter(|id| !id.is_empty()).map(Str::to_text);
        let through =
            data.get("throughSeq").and_then(Node::as_number).and_then(Number::as_count).and_then(Seq::new);
        let (Some(session), Some(through)) = (session, through.filter(|through| *through < event.seq()))
        else {
            return Err(malformed);
        };
        if session == self.session {
            self.through = self.through.max(Some(through));
        }
        Ok(())
    }

    /// The last event that the provider has, if it has any.
    #[must_use]
    pub fn through(&self) -> Option<Seq> {
        self.through
    }
}

/// The extension's JSON text while it is being written.
#[derive(Debug)]
pub struct Extension {
    out: Vec<u8>,
    bytes_max: usize,
    after: Option<Seq>,
    through: Option<Seq>,
    /// Where the two seqs are put when they are known.
    seqs_at: usize,
}

impl Extension {
    /// The extension of the log that `header` starts, of which `inherited` events came from a parent and the provider has
    /// everything up to `accepted`. It may have `bytes_max` bytes.
    #[must_use]
    pub fn new(header: &Header, inherited: u64, accepted: Option<Seq>, bytes_max: usize) -> Self {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        object.count("version", SCHEMA_VERSION);
        object.count("sessionFormatVersion", header.generation().get());
        let mut session = object.object("session");
        session.count("version", header.generation().get());
        session.text("id", header.id());
        session.key("createdAt");
        write_i64(session.out, header.created_at().get());
        if let Some(cwd) = header.cwd() {
            session.text("cwd", cwd);
        }
        if let Some(parent) = header.parent_session() {
            session.text("parentSession", parent);
        }
        if header.seeding() != Seeding::Unseeded {
            session.count("seedLength", inherited);
        }
        if header.is_origin_subagent() {
            session.plain("origin", "subagent");
        }
        session.count("delegationDepth", header.delegation_depth());
        if let Some(preset) = header.agent_preset() {
            session.text("agentPreset", preset);
        }
        session.end();
        let seqs_at = out.len();
        Self { out, bytes_max, after: accepted, through: None, seqs_at }
    }

    /// Takes the next event of the log, from its first on; those that were accepted are passed over.
    ///
    /// # Errors
    /// [`UploadFault::Sources`], [`UploadFault::TooLong`]. The extension is then of no use.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), UploadFault> {
        if Some(event.seq()) <= self.after {
            return Ok(());
        }
        self.through = Some(event.seq());
        if self.out.len() > self.seqs_at {
            self.out.push(b',');
        }
        match event.source_event_seqs() {
            None => self.out.extend_from_slice(event.line().as_bytes()),
            Some(list) => self.write_citing(event, list)?,
        }
        if self.out.len() > self.bytes_max { Err(self.too_long()) } else { Ok(()) }
    }

    /// The complete extension, or `None` if there is no event that the provider does not have.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u8>> {
        let through = self.through?;
        let events = self.out.split_off(self.seqs_at);
        let out = &mut self.out;
        out.extend_from_slice(b",\"afterSeq\":");
        match self.after {
            Some(after) => write_u64(out, after.get()),
            None => out.extend_from_slice(b"-1"),
        }
        out.extend_from_slice(b",\"throughSeq\":");
        write_u64(out, through.get());
        out.extend_from_slice(b",\"events\":[");
        out.extend_from_slice(&events);
        out.extend_from_slice(b"]}");
        Some(self.out)
    }

    /// The last event that it holds: what a marker accepts after the request succeeded.
    #[must_use]
    pub fn through(&self) -> Option<Seq> {
        self.through
    }

    /// Writes an event whose sources are stored as ranges, one number for each.
    fn write_citing(&mut self, event: &Event<'_>, list: &str) -> Result<(), UploadFault> {
        let refuse = |fault| UploadFault::Sources { seq: event.seq(), fault };
        let cited = range::check(list, event.seq()).map_err(refuse)?;
        // Two bytes a number are a lower bound: know before the list is written out that it does not fit.
        let least = usize::try_from(cited).unwrap_or(usize::MAX).saturating_mul(2);
        if self.out.len().saturating_add(least) > self.bytes_max {
            return Err(self.too_long());
        }
        let mut seqs = Vec::new();
        range::decode(list, event.seq(), &mut seqs).map_err(refuse)?;
        let (before, after) = split_around(event.line(), list);
        self.out.extend_from_slice(before.as_bytes());
        self.out.push(b'[');
        for (index, seq) in seqs.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write_u64(&mut self.out, seq);
        }
        self.out.push(b']');
        self.out.extend_from_slice(after.as_bytes());
        Ok(())
    }

    fn too_long(&self) -> UploadFault {
        UploadFault::TooLong { max: self.bytes_max }
    }
}

/// The parts of `line` around `part`, which borrows from it.
fn split_around<'a>(line: &'a str, part: &str) -> (&'a str, &'a str) {
    let at = part.as_ptr().addr().saturating_sub(line.as_ptr().addr());
    let (before, rest) = line.split_at_checked(at).unwrap_or((line, ""));
    (before, rest.get(part.len()..).unwrap_or(""))
}

/// The payload of the marker that a host appends, as [`Kind::DeliveryAccepted`], once the provider took the events up to
/// `through`.
#[must_use]
pub fn marker(header: &Header, through: Seq) -> String {
    let mut out = b"{\"sessionId\":".to_vec();
    write_text(&mut out, header.id());
    out.extend_from_slice(b",\"sessionFormatVersion\":");
    write_u64(&mut out, header.generation().get());
    out.extend_from_slice(b",\"throughSeq\":");
    write_u64(&mut out, through.get());
    out.push(b'}');
    String::from_utf8(out).expect("JSON text is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::row::Check;

    const HEADER: &str = concat!(
        r#"{"type":"session","version":2,"id":"s","createdAt":5,"cwd":"/w","parentSession":"p","isSeeded":true,"#,
        r#""origin":"subagent","delegationDepth":1,"agentPreset":"x"}"#
    );

    fn header() -> Header {
        Header::parse(HEADER.as_bytes(), &Limits::DEFAULT).expect("a header")
    }

    fn event(row: &str) -> Event<'_> {
        Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).expect("a row")
    }

    fn delivered(seq: u64, data: &str) -> String {
        format!(r#"{{"type":"session-log-deepseek/delivery-accepted","seq":{seq},"time":0,"data":{data}}}"#)
    }

    #[test]
    fn the_extension_holds_what_was_not_accepted() {
        let rows = [
            r#"{"type":"feedback/record","seq":0,"time":1,"data":{"text":"a"}}"#,
            r#"{"type":"feedback/record","seq":1,"time":2,"data":{"text":"b"}}"#,
            r#"{"type":"user/message","seq":2,"time":3,"data":{},"sourceEventSeqs":[[0,1]],"surfaceOp":"append"}"#,
        ];
        let mut extension = Extension::new(&header(), 1, Seq::new(0), 1000);
        for row in rows {
            assert_eq!(extension.push(&event(row)), Ok(()));
        }
        let json = String::from_utf8(extension.finish().expect("events")).expect("UTF-8");
        let expected = concat!(
            r#"{"version":1,"sessionFormatVersion":2,"session":{"version":2,"id":"s","createdAt":5,"cwd":"/w","parentSession":"p","#,
            r#""seedLength":1,"origin":"subagent","delegationDepth":1,"agentPreset":"x"},"afterSeq":0,"throughSeq":2,"events":["#,
            r#"{"type":"feedback/record","seq":1,"time":2,"data":{"text":"b"}},"#,
            r#"{"type":"user/message","seq":2,"time":3,"data":{},"sourceEventSeqs":[0,1],"surfaceOp":"append"}]}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn nothing_new_is_no_extension() {
        let row = r#"{"type":"feedback/record","seq":0,"time":1,"data":{"text":"a"}}"#;
        let mut extension = Extension::new(&header(), 0, Seq::new(0), 1000);
        assert_eq!(extension.push(&event(row)), Ok(()));
        assert_eq!(extension.finish(), None);
        let mut extension = Extension::new(&header(), 0, None, 1000);
        assert_eq!(extension.push(&event(row)), Ok(()));
        let json = String::from_utf8(extension.finish().expect("an event")).expect("UTF-8");
        assert!(json.contains(r#""afterSeq":-1,"throughSeq":0"#), "{json}");
    }

    #[test]
    fn only_markers_of_this_session_and_generation_count() {
        let mut accepted = Accepted::new(&header());
        for (seq, data) in [
            (5, r#"{"sessionId":"s","throughSeq":4}"#),
            (6, r#"{"sessionId":"s","throughSeq":"x","sessionFormatVersion":7}"#),
            (7, r#"{"sessionId":"p","throughSeq":6,"sessionFormatVersion":2}"#),
            (8, r#"{"sessionId":"s","throughSeq":3,"sessionFormatVersion":2}"#),
            (9, r#"{"sessionId":"s","throughSeq":1,"sessionFormatVersion":2.0}"#),
        ] {
            assert_eq!(accepted.observe(&event(&delivered(seq, data))), Ok(()), "{data}");
        }
        assert_eq!(accepted.through(), Seq::new(3));
        let own = marker(&header(), Seq::new(8).expect("a seq"));
        assert_eq!(accepted.observe(&event(&delivered(10, &own))), Ok(()));
        assert_eq!(accepted.through(), Seq::new(8));
    }

    #[test]
    fn a_malformed_marker_is_an_error() {
        for data in [
            r#"{"sessionId":"s","throughSeq":9,"sessionFormatVersion":2}"#,
            r#"{"sessionId":"s","throughSeq":-1,"sessionFormatVersion":2}"#,
            r#"{"sessionId":"","throughSeq":1,"sessionFormatVersion":2}"#,
            r#"{"sessionId":1,"throughSeq":1,"sessionFormatVersion":2}"#,
            r#"{"sessionId":"s","throughSeq":1,"sessionFormatVersion":"2"}"#,
            "[]",
        ] {
            let row = delivered(9, data);
            let result = Accepted::new(&header()).observe(&event(&row));
            let fault = UploadFault::Marker { seq: Seq::new(9).expect("a seq") };
            // An array has no members: it states no generation, and that is v0.
            let expected = if data == "[]" { Ok(()) } else { Err(fault) };
            assert_eq!(result, expected, "{data}");
        }
    }

    #[test]
    fn a_long_list_is_refused_before_it_is_written_out() {
        let row = concat!(
            r#"{"type":"user/message","seq":9000000,"time":3,"data":{},"#,
            r#""sourceEventSeqs":[[0,8999999]],"surfaceOp":"append"}"#
        );
        let mut extension = Extension::new(&header(), 0, None, 100_000);
        assert_eq!(extension.push(&event(row)), Err(UploadFault::TooLong { max: 100_000 }));
    }
}
