use super::event::{MEMBERS, check_text, text_of};
use super::fault::{Member, RowFault};
use super::fields::Fields;
use super::lex::{self, Members};
use super::range;
use crate::json::{Str, write_i64, write_string, write_u64};
use crate::limits::Limits;
use crate::units::{Seq, UnixMs};

/// An event that a host makes, to be written as a row.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the format's envelope; callers make them")]
pub struct NewEvent<'a> {
    /// What the event is.
    pub event_type: &'a str,
    /// Its position in the log.
    pub seq: Seq,
    /// When it happened; magnitude at most 2^53 - 1.
    pub time: UnixMs,
    /// The payload: the text of one JSON value, without a line feed. Copied byte for byte, not checked.
    pub data: &'a str,
    /// Whether a reader that does not know the type may keep the event as it is.
    pub ignorable: bool,
    /// The seqs that the event cites, in order.
    pub source_event_seqs: Option<&'a [u64]>,
    /// The text of the surface operation, copied like the payload.
    pub surface_op: Option<&'a str>,
}

impl NewEvent<'_> {
    /// Appends the event as a row in the original's member order and with ranges in `sourceEventSeqs`, without a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_head(out, |out| write_string(out, self.event_type), self.seq, self.time, self.data);
        if self.ignorable {
            out.extend_from_slice(b",\"ignorable\":true");
        }
        if let Some(seqs) = self.source_event_seqs {
            out.extend_from_slice(b",\"sourceEventSeqs\":");
            range::encode(seqs, out);
        }
        if let Some(operation) = self.surface_op {
            out.extend_from_slice(b",\"surfaceOp\":");
            out.extend_from_slice(operation.as_bytes());
        }
        out.push(b'}');
    }
}

fn write_head(out: &mut Vec<u8>, event_type: impl FnOnce(&mut Vec<u8>), seq: Seq, time: UnixMs, data: &str) {
    out.extend_from_slice(b"{\"type\":");
    event_type(out);
    out.extend_from_slice(b",\"seq\":");
    write_u64(out, seq.get());
    out.extend_from_slice(b",\"time\":");
    write_i64(out, time.get());
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(data.as_bytes());
}

/// A row to be appended, whose seq and time may still be open. Checked otherwise as an event's is.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    event_type: Str<'a>,
    seq: Option<Seq>,
    time: Option<UnixMs>,
    data: &'a str,
    /// The members after the payload, in the order in which they came.
    rest: [Option<(Member, &'a str)>; 3],
}

impl<'a> Draft<'a> {
    /// Reads `line`, a row without its newline and perhaps without `seq` and `time`, in any member order.
    ///
    /// Time O(bytes); allocates nothing.
    ///
    /// # Errors
    /// As [`Event::parse`](super::Event::parse), but for those two members being absent; the entries of
    /// `sourceEventSeqs` are judged by [`write`](Self::write).
    pub fn parse(line: &'a [u8], limits: &Limits) -> Result<Self, RowFault> {
        let text = text_of(line, limits)?;
        check_text(text, limits)?;
        let fields = Fields::collect(Members::of(text).ok_or(RowFault::NotObject)?, MEMBERS);
        if let Some(name) = fields.unknown() {
            return Err(RowFault::UnknownMember { name });
        }
        let wrong = |member: Member| match fields.get(member.as_str()) {
            Some(_) => RowFault::Member(member),
            None => RowFault::MissingMember(member),
        };
        let event_type = fields.string("type").ok_or(wrong(Member::Type))?;
        let seq = fields.count("seq").and_then(Seq::new);
        let time = fields.get("time").and_then(lex::safe_integer).map(UnixMs::new);
        if seq.is_none() && fields.get("seq").is_some() {
            return Err(wrong(Member::Seq));
        }
        if time.is_none() && fields.get("time").is_some() {
            return Err(wrong(Member::Time));
        }
        let data = fields.get("data").ok_or(wrong(Member::Data))?;
        if fields.get("ignorable").is_some_and(|value| value != "true") {
            return Err(wrong(Member::Ignorable));
        }
        let mut rest = [Member::Ignorable, Member::SourceEventSeqs, Member::SurfaceOp]
            .map(|member| fields.get(member.as_str()).map(|value| (member, value)));
        rest.sort_by_key(|member| {
            member.and_then(|(member, _)| fields.span(member.as_str())).map(|span| span.start)
        });
        Ok(Self { event_type, seq, time, data, rest })
    }

    /// What the event is.
    #[must_use]
    pub const fn event_type(&self) -> Str<'a> {
        self.event_type
    }

    /// The seq, if the row has one.
    #[must_use]
    pub const fn seq(&self) -> Option<Seq> {
        self.seq
    }

    /// The time, if the row has one.
    #[must_use]
    pub const fn time(&self) -> Option<UnixMs> {
        self.time
    }

    /// Whether a reader that does not know the type may keep the event as it is.
    #[must_use]
    pub fn is_ignorable(&self) -> bool {
        self.rest.iter().flatten().any(|(member, _)| *member == Member::Ignorable)
    }

    /// The payload's text.
    #[must_use]
    pub const fn data(&self) -> &'a str {
        self.data
    }

    /// Appends the event as the row at position `seq`, without a newline; `now` is its time if it has none of its own.
    ///
    /// `type`, `seq`, `time` and `data` come first, then the other members as they came. The payload and `surfaceOp` are
    /// copied byte for byte, `sourceEventSeqs` is written with ranges.
    ///
    /// # Errors
    /// [`RowFault::Gap`] or [`RowFault::Repeat`] if the row has a seq and it is not `seq`, [`RowFault::Provenance`] if it
    /// cites what is not before it. Nothing is appended then.
    pub fn write(&self, seq: Seq, now: UnixMs, out: &mut Vec<u8>) -> Result<(), RowFault> {
        match self.seq {
            Some(got) if got > seq => return Err(RowFault::Gap { expected: seq, got }),
            Some(got) if got < seq => return Err(RowFault::Repeat { expected: seq, got }),
            _ => {}
        }
        for (_, list) in self.rest.iter().flatten().filter(|(member, _)| *member == Member::SourceEventSeqs) {
            range::check(list, seq).map_err(RowFault::Provenance)?;
        }
        let time = self.time.unwrap_or(now);
        write_head(out, |out| self.event_type.write_canonical(out), seq, time, self.data);
        for (member, value) in self.rest.iter().flatten() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(member.as_str().as_bytes());
            out.extend_from_slice(b"\":");
            match member {
                Member::SourceEventSeqs => range::recode(value, seq, out).map_err(RowFault::Provenance)?,
                _ => out.extend_from_slice(value.as_bytes()),
            }
        }
        out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::fault::RangeFault;
    use crate::row::{Check, Event};

    fn seq(n: u64) -> Seq {
        Seq::new(n).unwrap()
    }

    #[test]
    fn a_new_event_is_written_in_the_originals_order() {
        let event = NewEvent {
            event_type: "user/message",
            seq: seq(9),
            time: UnixMs::new(-4),
            data: "{\"b\":1, \"a\":-0}",
            ignorable: false,
            source_event_seqs: Some(&[1, 2, 3, 8]),
            surface_op: Some("\"append\""),
        };
        let mut out = Vec::new();
        event.write(&mut out);
        let line = r#"{"type":"user/message","seq":9,"time":-4,"data":{"b":1, "a":-0},"sourceEventSeqs":[[1,3],8],"surfaceOp":"append"}"#;
        assert_eq!(std::str::from_utf8(&out), Ok(line));
        assert_eq!(Event::scan(line), Event::read(&out, Check::Full, &Limits::DEFAULT).ok());
        assert!(Event::scan(line).is_some());
        let event = NewEvent { ignorable: true, source_event_seqs: None, surface_op: None, ..event };
        out.clear();
        event.write(&mut out);
        assert!(out.ends_with(b",\"data\":{\"b\":1, \"a\":-0},\"ignorable\":true}"));
    }

    fn drafted(line: &str, at: u64) -> Result<String, RowFault> {
        let mut out = b"kept".to_vec();
        let draft = Draft::parse(line.as_bytes(), &Limits::DEFAULT)?;
        match draft.write(seq(at), UnixMs::new(77), &mut out) {
            Ok(()) => Ok(String::from_utf8(out).unwrap().strip_prefix("kept").unwrap().to_owned()),
            Err(fault) => {
                assert_eq!(out, b"kept");
                Err(fault)
            }
        }
    }

    #[test]
    fn seq_and_time_are_filled_in_where_they_lack() {
        let row = |tail: &str| format!(r#"{{"type":"a","seq":3,"time":77,"data":{{"x":"\/"}}{tail}}}"#);
        for line in [
            r#"{"type":"a","data":{"x":"\/"}}"#,
            r#"{"data":{"x":"\/"},"type":"a"}"#,
            r#"{"type":"a","seq":3,"data":{"x":"\/"}}"#,
            r#"{"type":"a","time":77.0,"data": {"x":"\/"} }"#,
            r#"{"type":"\u0061","seq":3,"time":77,"data":{"x":"\/"}}"#,
        ] {
            assert_eq!(drafted(line, 3), Ok(row("")), "{line}");
        }
        let line = r#"{"type":"a","surfaceOp":{"op" : 1},"data":{"x":"\/"},"sourceEventSeqs":[0,1,2],"ignorable":true}"#;
        assert_eq!(
            drafted(line, 3),
            Ok(row(r#","surfaceOp":{"op" : 1},"sourceEventSeqs":[[0,2]],"ignorable":true"#))
        );
        let line = r#"{"ignorable":true,"type":"a","data":{"x":"\/"}}"#;
        assert_eq!(drafted(line, 3), Ok(row(r#","ignorable":true"#)));
    }

    #[test]
    fn what_a_row_must_not_be_a_draft_must_not_be() {
        assert_eq!(
            drafted(r#"{"type":"a","seq":3,"data":{}}"#, 2),
            Err(RowFault::Gap { expected: seq(2), got: seq(3) })
        );
        assert_eq!(
            drafted(r#"{"type":"a","seq":3,"data":{}}"#, 4),
            Err(RowFault::Repeat { expected: seq(4), got: seq(3) })
        );
        let later = RowFault::Provenance(RangeFault::Later { seq: 3, bound: 3 });
        assert_eq!(drafted(r#"{"type":"a","data":{},"sourceEventSeqs":[3]}"#, 3), Err(later));
        for (line, fault) in [
            (r#"{"data":{}}"#, RowFault::MissingMember(Member::Type)),
            (r#"{"type":"a"}"#, RowFault::MissingMember(Member::Data)),
            (r#"{"type":1,"data":{}}"#, RowFault::Member(Member::Type)),
            (r#"{"type":"a","data":{},"seq":-0}"#, RowFault::Member(Member::Seq)),
            (r#"{"type":"a","data":{},"time":null}"#, RowFault::Member(Member::Time)),
            (r#"{"type":"a","data":{},"ignorable":false}"#, RowFault::Member(Member::Ignorable)),
            ("[]", RowFault::NotObject),
        ] {
            assert_eq!(drafted(line, 0), Err(fault), "{line}");
        }
        assert!(matches!(drafted(r#"{"type":"a","data":{},"x":1}"#, 0), Err(RowFault::UnknownMember { .. })));
        assert!(matches!(drafted(r#"{"type":"a","data":{}"#, 0), Err(RowFault::NotJson(_))));
    }
}
