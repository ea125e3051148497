use super::fault::{Member, RowFault};
use super::fields::Fields;
use super::lex::{self, Members, Opening};
use super::range;
use crate::json::{self, Node, Str, Tape};
use crate::limits::Limits;
use crate::units::{Seq, UnixMs};

/// How much of a row is checked when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Grammar and UTF-8 of the whole line, and every rule of the envelope.
    #[default]
    Full,
    /// UTF-8 and every rule of the envelope, but no grammar inside `data`: see [`Event::scan`]. A row that is not as its
    /// writer makes it is read in full all the same. For lines that a checksum vouches for; in others, half a row and a
    /// whole one on one line can pass for one event, and only the next seq tells.
    Envelope,
}

/// An event row: its envelope, borrowed from the line. The payload is raw JSON text that nobody has looked into.
///
/// Spec: `format-spec/04-rows.md`, "Envelope".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    line: &'a str,
    event_type: Str<'a>,
    seq: Seq,
    time: UnixMs,
    data: &'a str,
    ignorable: bool,
    source_event_seqs: Option<&'a str>,
    surface_op: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// Reads `line`, a row without its newline, as an event.
    ///
    /// The seq is not compared with anything but `sourceEventSeqs`, whose entries must lie before it; whether it is the
    /// next of its log is for [`RowDecoder`](super::RowDecoder) to say. `surfaceOp` may be any JSON value here, and a type
    /// any string. Time O(bytes) with [`Check::Full`]; with [`Check::Envelope`] the payload costs its UTF-8 check only.
    /// Allocates nothing, except to find repeats in a `sourceEventSeqs` that does not ascend.
    ///
    /// # Errors
    /// The first [`RowFault`] in this order: length, UTF-8, grammar, an unknown member, then the members in the order of
    /// the format's table.
    pub fn read(line: &'a [u8], check: Check, limits: &Limits) -> Result<Self, RowFault> {
        Self::read_text(text_of(line, limits)?, check, limits)
    }

    /// [`read`](Self::read) of a line that is known to be UTF-8 and within the limit of its length.
    pub(crate) fn read_text(line: &'a str, check: Check, limits: &Limits) -> Result<Self, RowFault> {
        match Self::scan_sound(line, check, limits) {
            Some(event) => Ok(event),
            None => Self::parse_text(line, limits),
        }
    }

    /// [`scan`](Self::scan), if what it finds holds up to `check` and cites only what is before it.
    #[inline]
    pub(super) fn scan_sound(line: &'a str, check: Check, limits: &Limits) -> Option<Self> {
        let event = Self::scan(line)?;
        let sound = match check {
            Check::Envelope => true,
            // `scan` allows itself three levels of brackets, the line's own included.
            Check::Full => {
                limits.nesting_max >= 3
                    && json::check_str(event.data, limits.nesting_max.saturating_sub(1)).is_ok()
            }
        };
        if sound { event.provenance_checked().ok() } else { None }
    }

    /// Reads `line` by the grammar alone, whatever its spelling. [`read`](Self::read) with [`Check::Full`] gives the same
    /// answer sooner.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(line: &'a [u8], limits: &Limits) -> Result<Self, RowFault> {
        Self::parse_text(text_of(line, limits)?, limits)
    }

    fn parse_text(line: &'a str, limits: &Limits) -> Result<Self, RowFault> {
        check_text(line, limits)?;
        Self::from_members(line, Members::of(line).ok_or(RowFault::NotObject)?)
    }

    /// The event that the members of `line` make, which has been checked to be JSON.
    pub(super) fn from_members(line: &'a str, members: Members<'a>) -> Result<Self, RowFault> {
        let fields = Fields::collect(members, MEMBERS);
        if let Some(name) = fields.unknown() {
            return Err(RowFault::UnknownMember { name });
        }
        let wrong = |member: Member| match fields.get(member.as_str()) {
            Some(_) => RowFault::Member(member),
            None => RowFault::MissingMember(member),
        };
        let event_type = fields.string("type").ok_or(wrong(Member::Type))?;
        let seq = fields.count("seq").and_then(Seq::new).ok_or(wrong(Member::Seq))?;
        let time = fields.get("time").and_then(lex::safe_integer).ok_or(wrong(Member::Time))?;
        let data = fields.get("data").ok_or(wrong(Member::Data))?;
        if fields.get("ignorable").is_some_and(|value| value != "true") {
            return Err(RowFault::Member(Member::Ignorable));
        }
        let event = Self {
            line,
            event_type,
            seq,
            time: UnixMs::new(time),
            data,
            ignorable: fields.get("ignorable").is_some(),
            source_event_seqs: fields.get("sourceEventSeqs"),
            surface_op: fields.get("surfaceOp"),
        };
        event.provenance_checked()
    }

    #[inline]
    fn provenance_checked(self) -> Result<Self, RowFault> {
        if let Some(list) = self.source_event_seqs {
            range::check(list, self.seq).map_err(RowFault::Provenance)?;
        }
        Ok(self)
    }

    /// Reads the envelope of a row that is spelled as writers spell it, without walking its payload: `None` for any other.
    ///
    /// The line must begin with exactly `{"type":"…","seq":N,"time":N,"data":{`, with no escape in the type and canonical
    /// numbers, and end in `}` after any of `,"surfaceOp":…`, `,"sourceEventSeqs":…` and `,"ignorable":true`, each at most
    /// once and spelled without white space. Those two parts are checked to the byte. What stands between them is taken
    /// for the payload on the strength of its first and last byte.
    ///
    /// Not checked: that `data` is one JSON value. Nothing else escapes: since what stands around it is valid, **if `data`
    /// is one JSON value, the line is valid JSON and [`parse`](Self::parse) reads exactly this event from it** (or refuses
    /// what `sourceEventSeqs` lists, which is not judged here). So whoever parses the payload either gets the event that
    /// the line holds, or a syntax error; text inside a string can never pose as a member. The one way in which a valid
    /// line can give a `data` that is not one value is an object after the payload that no writer puts there (a second `data`,
    /// an unknown member, an escaped name, an operation of another form) and that makes its member longer than 60 bytes;
    /// shorter ones are noticed and give `None`.
    ///
    /// Time O(bytes outside the payload).
    ///
    /// Spec: `format-spec/04-rows.md`, "Reading an envelope without its payload".
    #[must_use]
    #[inline]
    pub fn scan(line: &'a str) -> Option<Self> {
        let bytes = line.as_bytes();
        let rest = bytes.strip_prefix(b"{\"type\":\"")?;
        let type_len = json::plain_len(rest);
        let (seq, rest) = digits(rest.get(type_len..)?.strip_prefix(b"\",\"seq\":")?)?;
        let rest = rest.strip_prefix(b",\"time\":")?;
        let (time, rest) = match rest.strip_prefix(b"-") {
            None => digits(rest).and_then(|(ms, rest)| Some((i64::try_from(ms).ok()?, rest)))?,
            Some(rest) => {
                let (ms, rest) = digits(rest)?;
                (i64::try_from(ms).ok().filter(|&ms| ms > 0)?.checked_neg()?, rest)
            }
        };
        let rest = rest.strip_prefix(b",\"data\":")?;
        if rest.first() != Some(&b'{') {
            return None;
        }
        let data_at = bytes.len().checked_sub(rest.len())?;

        let mut suffix = Suffix { body: line.get(data_at..)?.strip_suffix('}')?, ..Suffix::default() };
        while suffix.take_member()? {}
        let data = suffix.body;
        let data_end = data_at.checked_add(data.len())?;
        let tail = bytes.get(..data_end)?.last_chunk::<TAIL_WINDOW>();
        if tail.is_none_or(may_hold_a_member) {
            match lex::opening(data.as_bytes(), BRACKET_WINDOW) {
                Opening::At(0) | Opening::Beyond => {}
                Opening::At(_) | Opening::Nowhere => return None,
            }
        }
        Some(Self {
            line,
            event_type: Str::new(line.get(9..type_len.checked_add(9)?)?, false),
            seq: Seq::new(seq)?,
            time: UnixMs::new(time),
            data,
            ignorable: suffix.ignorable,
            source_event_seqs: suffix.source_event_seqs,
            surface_op: suffix.surface_op,
        })
    }

    /// The whole row as stored, without its newline.
    #[must_use]
    pub const fn line(&self) -> &'a str {
        self.line
    }

    /// What the event is; it names the shape of the payload.
    #[must_use]
    pub const fn event_type(&self) -> Str<'a> {
        self.event_type
    }

    /// Whether the event is of type `name`.
    #[must_use]
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.event_type.eq_str(name)
    }

    /// Its position in the log, by its own claim.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// When it happened, by its producer's clock.
    #[must_use]
    pub const fn time(&self) -> UnixMs {
        self.time
    }

    /// The payload's JSON text as stored. Not checked to be JSON if the row was read with [`Check::Envelope`].
    #[must_use]
    pub const fn data(&self) -> &'a str {
        self.data
    }

    /// Whether a reader that does not know the type may keep the event as it is.
    #[must_use]
    pub const fn is_ignorable(&self) -> bool {
        self.ignorable
    }

    /// The JSON text of `sourceEventSeqs`, if present; [`range`](super::range) reads it.
    #[must_use]
    pub const fn source_event_seqs(&self) -> Option<&'a str> {
        self.source_event_seqs
    }

    /// The JSON text of `surfaceOp`, if present. Any JSON value: its form is judged where surfaces are derived.
    #[must_use]
    pub const fn surface_op(&self) -> Option<&'a str> {
        self.surface_op
    }

    /// Whether the event adds to the surface what was not there before: what people said and were told. Other events of the surface
    /// replace what the model is shown of it.
    #[must_use]
    pub fn is_appended(&self) -> bool {
        self.surface_op.is_some_and(|operation| {
            let is_spelled_so = || {
                let mut tape = Tape::default();
                let node = tape.parse(operation.as_bytes(), 1).ok();
                node.and_then(Node::as_str).is_some_and(|operation| operation.eq_str("append"))
            };
            operation == APPEND || (operation.contains('\\') && is_spelled_so())
        })
    }
}

/// How many bytes before the payload's end [`Event::scan`] searches for the start of another member.
const TAIL_WINDOW: usize = 64;

/// How far it then looks for the opening bracket of the object that ends there.
const BRACKET_WINDOW: usize = 256;

/// Whether an object ends in `tail` that a member could follow: a payload that is not the last member is such a one.
#[inline]
fn may_hold_a_member(tail: &[u8; TAIL_WINDOW]) -> bool {
    // Compiled to vector comparisons: no early end.
    tail.iter()
        .zip(tail.iter().skip(1))
        .fold(false, |found, (&byte, &next)| found | ((byte == b'}') & ((next == b',') | (next <= b' '))))
}

/// The members after the payload, taken off the line's end one by one.
#[derive(Default)]
struct Suffix<'a> {
    /// What is left, from the payload's first byte on.
    body: &'a str,
    ignorable: bool,
    source_event_seqs: Option<&'a str>,
    surface_op: Option<&'a str>,
}

impl<'a> Suffix<'a> {
    /// Takes the last member off. `false` when `body` ends as an object does and may be the payload alone; `None` when it
    /// ends in something that takes a real parser.
    ///
    /// Sound on valid JSON, where the end of `body` is outside any string: `,"` then starts a name, because a string that
    /// ends in a comma would have something else than a name's letters after its closing quote, and what follows up to the
    /// end is one value, checked here, whose end closes nothing but the member.
    #[inline]
    fn take_member(&mut self) -> Option<bool> {
        let body = self.body;
        match body.as_bytes().last()? {
            // A flat object closes nothing but itself.
            b'}' if matches!(body.as_bytes(), [.., b'}' | b']', b'}']) => return Some(false),
            b'}' => {
                let Some((rest, operation)) = replace_operation(body) else { return Some(false) };
                set(&mut self.surface_op, operation)?;
                self.body = rest;
            }
            b'"' => {
                let at = body.len().checked_sub(APPEND.len())?;
                let (rest, operation) =
                    body.split_at_checked(at).filter(|&(_, operation)| operation == APPEND)?;
                set(&mut self.surface_op, operation)?;
                self.body = rest.strip_suffix(SURFACE_OP)?;
            }
            b']' => {
                let list = body
                    .bytes()
                    .rev()
                    .take_while(|byte| matches!(byte, b'0'..=b'9' | b',' | b'[' | b']'))
                    .count();
                let (rest, list) = body.split_at_checked(body.len().checked_sub(list)?)?;
                json::check_str(list, 2).ok()?;
                set(&mut self.source_event_seqs, list)?;
                self.body = rest.strip_suffix(",\"sourceEventSeqs\":")?;
            }
            b'e' => {
                let rest = body.strip_suffix(",\"ignorable\":true")?;
                if std::mem::replace(&mut self.ignorable, true) {
                    return None;
                }
                self.body = rest;
            }
            _ => return None,
        }
        Some(true)
    }
}

const SURFACE_OP: &str = ",\"surfaceOp\":";
const APPEND: &str = "\"append\"";

/// Splits a flat object that is the value of a last member `surfaceOp` from what stands before that member.
#[inline]
fn replace_operation(body: &str) -> Option<(&str, &str)> {
    // A replacement with both seqs at 2^53 - 1 has 64 bytes, and 70 in v3.
    let low = body.len().saturating_sub(128);
    let brace = low.checked_add(memchr::memrchr(b'{', body.as_bytes().get(low..)?)?)?;
    let (rest, operation) = body.split_at_checked(brace)?;
    let rest = rest.strip_suffix(SURFACE_OP)?;
    json::check_str(operation, 1).is_ok().then_some((rest, operation))
}

fn set<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}

/// A count in its canonical spelling, and what follows it.
#[inline]
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut rest) = (0_u64, text);
    // Times have thirteen digits: eight of them at once.
    if let Some((word, after)) = text.split_first_chunk()
        && let Some(eight) = eight_digits(u64::from_le_bytes(*word))
    {
        (value, rest) = (eight, after);
    }
    while let Some((byte, after)) = rest.split_first() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // Wraps only beyond 16 digits, which are refused below.
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        rest = after;
    }
    let canonical = match text.len().wrapping_sub(rest.len()) {
        0 => false,
        1 => true,
        len => len <= 16 && text.first() != Some(&b'0'),
    };
    (canonical && value <= Seq::MAX.get()).then_some((value, rest))
}

/// The number that eight ASCII digits spell, the first in the lowest byte.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    // A byte is a digit if its high half is 3 and stays 3 when 6 is added to it.
    let high = (word & 0xf0f0_f0f0_f0f0_f0f0)
        | ((word.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0) >> 4);
    if high != 0x3333_3333_3333_3333 {
        return None;
    }
    // Neighbours are joined to pairs, pairs to fours, fours to eight; no lane outgrows its width.
    let ones = word.wrapping_sub(ZEROS);
    let pairs = ones.wrapping_mul(10).wrapping_add(ones >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// The members of an event's envelope, in the order of the format's table.
pub(super) const MEMBERS: [&str; 7] =
    ["type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"];

/// `line` as text, if it is UTF-8 and within its limit.
#[inline]
pub(super) fn text_of<'a>(line: &'a [u8], limits: &Limits) -> Result<&'a str, RowFault> {
    check_len(line.len(), limits)?;
    match simdutf8::basic::from_utf8(line) {
        Ok(text) => Ok(text),
        // The fast check does not say where.
        Err(_) => {
            std::str::from_utf8(line).map_err(|fault| RowFault::NotUtf8 { offset: fault.valid_up_to() })
        }
    }
}

/// Succeeds when `row`, which somebody made, is one line. A JSON text may have line feeds between its tokens.
///
/// # Errors
/// [`RowFault::LineFeed`].
pub fn one_line(row: &[u8]) -> Result<(), RowFault> {
    memchr::memchr(b'\n', row).map_or(Ok(()), |offset| Err(RowFault::LineFeed { offset }))
}

/// Succeeds when a line of `len` bytes is within its limit.
#[inline]
pub(super) fn check_len(len: usize, limits: &Limits) -> Result<(), RowFault> {
    // The newline is not part of the line and counts.
    let bytes = u64::try_from(len).unwrap_or(u64::MAX).saturating_add(1);
    if bytes > limits.row_bytes_max {
        return Err(RowFault::TooLong { bytes, max: limits.row_bytes_max });
    }
    Ok(())
}

/// Succeeds when `line` is one JSON value.
pub(super) fn check_text(line: &str, limits: &Limits) -> Result<(), RowFault> {
    json::check_str(line, limits.nesting_max).map_err(RowFault::NotJson)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing::row::events_agree;
    use crate::row::fault::{RangeFault, Span};
    use crate::row::samples;

    const LIMITS: Limits = Limits::DEFAULT;

    fn parse(line: &str) -> Result<Event<'_>, RowFault> {
        events_agree(line.as_bytes());
        Event::parse(line.as_bytes(), &LIMITS)
    }

    #[test]
    fn the_parts_of_a_row_are_slices_of_its_line() {
        let line = concat!(
            r#"{"type":"user/message","seq":5,"time":-12,"data":{"id":"u1"},"ignorable":true"#,
            r#","surfaceOp":{"op":"replace","start":1,"end":3},"sourceEventSeqs":[[1,3]]}"#,
        );
        let event = Event::scan(line).unwrap();
        assert_eq!(parse(line), Ok(event));
        assert!(event.is("user/message"));
        assert_eq!((event.seq().get(), event.time().get()), (5, -12));
        assert_eq!(event.data(), r#"{"id":"u1"}"#);
        assert!(event.is_ignorable());
        assert_eq!(event.surface_op(), Some(r#"{"op":"replace","start":1,"end":3}"#));
        assert_eq!(event.source_event_seqs(), Some("[[1,3]]"));
        assert_eq!(event.line(), line);
    }

    #[test]
    fn only_an_appending_operation_appends_however_it_is_spelled() {
        let line = |operation: &str| {
            format!(r#"{{"type":"user/message","seq":5,"time":1,"data":{{}},"surfaceOp":{operation}}}"#)
        };
        for operation in [r#""append""#, r#""\u0061ppend""#] {
            assert!(parse(&line(operation)).unwrap().is_appended(), "{operation}");
        }
        for operation in [r#""append ""#, r#""\\append""#, r#"{"op":"append"}"#, r#"{"op":"\n"}"#] {
            assert!(!parse(&line(operation)).unwrap().is_appended(), "{operation}");
        }
        assert!(!parse(r#"{"type":"turn/start","seq":5,"time":1,"data":{}}"#).unwrap().is_appended());
    }

    /// Every order of every selection of the three members after the payload.
    #[test]
    fn members_after_the_payload_are_found_in_any_order() {
        let tails = [r#","surfaceOp":"append""#, r#","sourceEventSeqs":[0,2]"#, r#","ignorable":true"#];
        let mut seen = 0;
        for a in 0..4 {
            for b in 0..4 {
                for c in 0..4 {
                    let order: Vec<usize> = [a, b, c].into_iter().filter(|&i| i < 3).collect();
                    let unique = order.iter().collect::<std::collections::HashSet<_>>().len() == order.len();
                    let tail: String = order.iter().map(|&i| tails[i]).collect();
                    let line = format!(r#"{{"type":"a","seq":3,"time":0,"data":{{"x":[{{}}]}}{tail}}}"#);
                    let event = Event::scan(&line);
                    assert_eq!(event.is_some(), unique, "{line}");
                    if let Some(event) = event {
                        assert_eq!(parse(&line), Ok(event));
                        assert_eq!(event.data(), r#"{"x":[{}]}"#);
                        assert_eq!(event.surface_op().is_some(), order.contains(&0));
                        assert_eq!(event.source_event_seqs().is_some(), order.contains(&1));
                        assert_eq!(event.is_ignorable(), order.contains(&2));
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 16);
    }

    /// A payload whose last string or member imitates the members after it keeps them.
    #[test]
    fn text_inside_the_payload_never_poses_as_a_member() {
        for data in [
            r#"{"x":"},\"surfaceOp\":\"append\"}"}"#,
            r#"{"x":"\\\",\"surfaceOp\":\"append"}"#,
            r#"{"surfaceOp":"append"}"#,
            r#"{"a":1,"surfaceOp":"append"}"#,
            r#"{"a":{},"surfaceOp":{"op":"replace","start":1,"end":2}}"#,
            r#"{"a":{"surfaceOp":{"op":"replace","start":1,"end":2}}}"#,
            r#"{"a":1,"sourceEventSeqs":[1]}"#,
            r#"{"a":1,"ignorable":true}"#,
            r#"{"a":",\"sourceEventSeqs\":[1]"}"#,
            r#"{"data":{"type":"x"}}"#,
            r#"{"a":"{"}"#,
            r#"{"a":"}","b":"\\"}"#,
            r#"{"\"":{}}"#,
            "{}",
        ] {
            for tail in ["", r#","surfaceOp":"append""#, r#","surfaceOp":{"op":"replace","start":0,"end":0}"#]
            {
                let line = format!(r#"{{"type":"a","seq":3,"time":0,"data":{data}{tail}}}"#);
                let event = Event::scan(&line).expect("the row is canonical");
                assert_eq!(event.data(), data);
                assert_eq!(event.surface_op().is_some(), !tail.is_empty(), "{line}");
                assert_eq!(parse(&line), Ok(event));
            }
        }
    }

    /// Members that no writer puts after a payload: the scan gives up, and the grammar decides.
    #[test]
    fn short_members_that_no_writer_adds_are_left_to_the_parser() {
        let head = r#"{"type":"a","seq":3,"time":0,"data":{"k":1}"#;
        for tail in [
            r#","data":{"k":2}}"#,
            r#","seq":4}"#,
            r#","futureField":{"a":[1,2]}}"#,
            r#","surfaceO\u0070":{"op":"replace","start":1,"end":2}}"#,
            r#","surfaceOp":{"op":{"deep":[]}}}"#,
            r#","surfaceOp":"other"}"#,
            r#","surfaceOp": "append"}"#,
            r#", "surfaceOp":"append"}"#,
            r#","surfaceOp":"append","surfaceOp":"append"}"#,
            r#","ignorable":false}"#,
            r#","sourceEventSeqs":[1 ]}"#,
            r#","sourceEventSeqs":[1,]}"#,
            r#","sourceEventSeqs":[[1,2]}"#,
            r#","surfaceOp":{"op":"replace","start":1,"end":}}"#,
            " }",
            "} ",
            "",
            "]",
        ] {
            let line = format!("{head}{tail}");
            assert_eq!(Event::scan(&line), None, "{line}");
            events_agree(line.as_bytes());
        }
        assert_eq!(parse(&format!(r#"{head},"data":{{"k":2}}}}"#)).unwrap().data(), r#"{"k":2}"#);
        assert_eq!(parse(&format!(r#"{head},"seq":4}}"#)).unwrap().seq().get(), 4);
        let op = r#"{"op":{"deep":[]}}"#;
        assert_eq!(parse(&format!(r#"{head},"surfaceOp":{op}}}"#)).unwrap().surface_op(), Some(op));
    }

    /// The one looseness of a scan, as its documentation says: it shows as soon as the payload is parsed.
    #[test]
    fn a_long_member_that_no_writer_adds_leaves_a_payload_that_is_not_json() {
        let long = "x".repeat(100);
        let line = format!(r#"{{"type":"a","seq":3,"time":0,"data":{{"k":1}},"data":{{"long":"{long}"}}}}"#);
        let event = Event::read(line.as_bytes(), Check::Envelope, &LIMITS).unwrap();
        assert!(json::check(event.data().as_bytes(), 9).is_err());
        assert_eq!(parse(&line).unwrap().data(), format!(r#"{{"long":"{long}"}}"#));
    }

    #[test]
    fn members_of_up_to_63_bytes_are_noticed() {
        for len in 16..100 {
            let member = format!(r#","zz":{{"a":"{}"}}"#, "x".repeat(len - 14));
            assert_eq!(member.len(), len);
            for data in ["{}", r#"{"a":{},"b":[{"c":"0123456789012345678901234567890123456789"}]}"#] {
                let line = format!(r#"{{"type":"a","seq":3,"time":0,"data":{data}{member}}}"#);
                events_agree(line.as_bytes());
                match Event::scan(&line) {
                    None => assert!(len < 64),
                    Some(event) => {
                        assert!(len > 63);
                        assert!(json::check(event.data().as_bytes(), 9).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn any_spelling_that_javascript_reads_the_same_is_read() {
        let line =
            " {\t\"d\\u0061ta\" : null ,\"time\":1e3, \"type\":\"turn\\/start\", \"seq\":5, \"seq\":2.0}\r";
        let event = parse(line).unwrap();
        assert!(event.is("turn/start"));
        assert_eq!((event.seq().get(), event.time().get(), event.data()), (2, 1000, "null"));
        // Order of members, as some writers have it.
        let line = r#"{"type":"a","data":{"x":1},"surfaceOp":"append","seq":1,"time":2}"#;
        assert_eq!(parse(line).unwrap().seq().get(), 1);
    }

    #[test]
    fn every_rule_of_the_envelope_has_its_fault() {
        let wrong = |member| Err(RowFault::Member(member));
        let missing = |member| Err(RowFault::MissingMember(member));
        for (line, fault) in [
            (r#"{"seq":0,"time":0,"data":{}}"#, missing(Member::Type)),
            (r#"{"type":"a","time":0,"data":{}}"#, missing(Member::Seq)),
            (r#"{"type":"a","seq":0,"data":{}}"#, missing(Member::Time)),
            (r#"{"type":"a","seq":0,"time":0}"#, missing(Member::Data)),
            (r#"{"type":7,"seq":0,"time":0,"data":{}}"#, wrong(Member::Type)),
            (r#"{"type":"a","seq":-0,"time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":-1,"time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":1.5,"time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":"0","time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":9007199254740992,"time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":1e400,"time":0,"data":{}}"#, wrong(Member::Seq)),
            (r#"{"type":"a","seq":0,"time":-0,"data":{}}"#, wrong(Member::Time)),
            (r#"{"type":"a","seq":0,"time":0.5,"data":{}}"#, wrong(Member::Time)),
            (r#"{"type":"a","seq":0,"time":9007199254740992,"data":{}}"#, wrong(Member::Time)),
            (r#"{"type":"a","seq":0,"time":null,"data":{}}"#, wrong(Member::Time)),
            (r#"{"type":"a","seq":0,"time":0,"data":{},"ignorable":false}"#, wrong(Member::Ignorable)),
            (r#"{"type":"a","seq":0,"time":0,"data":{},"ignorable":"true"}"#, wrong(Member::Ignorable)),
            (
                r#"{"type":"a","seq":0,"time":0,"data":{},"sourceEventSeqs":7}"#,
                Err(RowFault::Provenance(RangeFault::NotArray)),
            ),
            (
                r#"{"type":"a","seq":2,"time":0,"data":{},"sourceEventSeqs":[2]}"#,
                Err(RowFault::Provenance(RangeFault::Later { seq: 2, bound: 2 })),
            ),
            (
                r#"{"type":"a","seq":2,"time":0,"data":{},"__proto__":{}}"#,
                Err(RowFault::UnknownMember { name: Span { start: 40, end: 49 } }),
            ),
            ("[]", Err(RowFault::NotObject)),
            ("7", Err(RowFault::NotObject)),
            ("null", Err(RowFault::NotObject)),
        ] {
            assert_eq!(parse(line), fault, "{line}");
        }
        for line in ["", "{", "{\"type\":}", "\u{feff}{}", "{}{}", "{'a':1}", "NaN"] {
            assert!(matches!(parse(line), Err(RowFault::NotJson(_))), "{line}");
        }
        assert_eq!(Event::parse(b"{\"a\":\"\xff\"}", &LIMITS), Err(RowFault::NotUtf8 { offset: 6 }));
    }

    #[test]
    fn the_largest_numbers_are_read() {
        let line = r#"{"type":"a","seq":9007199254740991,"time":-9007199254740991,"data":{}}"#;
        assert_eq!(Event::scan(line), parse(line).ok());
        assert_eq!(parse(line).unwrap().seq(), Seq::MAX);
        let time = |ms: &str| {
            parse(&format!(r#"{{"type":"a","seq":0,"time":{ms},"data":{{}}}}"#)).map(|e| e.time().get())
        };
        assert_eq!(time("9007199254740991"), Ok(9_007_199_254_740_991));
        assert_eq!(time("9007199254740991.0"), Ok(9_007_199_254_740_991));
        for ms in ["9007199254740992", "-9007199254740992", "99999999999999999999", "01", "-01"] {
            assert!(time(ms).is_err(), "{ms}");
        }
    }

    #[test]
    fn eight_digits_are_read_at_once_and_nothing_else_is() {
        for number in ["00000000", "12345678", "99999999", "10000000", "00000001"] {
            let word = u64::from_le_bytes(number.as_bytes().try_into().unwrap());
            assert_eq!(eight_digits(word), number.parse().ok());
        }
        for at in 0..8 {
            for byte in 0..=u8::MAX {
                let mut word = *b"12345678";
                word[at] = byte;
                let digits =
                    std::str::from_utf8(&word).ok().filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
                assert_eq!(
                    eight_digits(u64::from_le_bytes(word)),
                    digits.and_then(|word| word.parse().ok()),
                    "{word:?}"
                );
            }
        }
        for number in ["0", "7", "12345678", "123456789", "9007199254740991"] {
            assert_eq!(digits(format!("{number},").as_bytes()), Some((number.parse().unwrap(), &b","[..])));
        }
        for number in
            ["", "00", "012345678", "9007199254740992", "99999999999999999", "18446744073709551617", "-1"]
        {
            assert_eq!(digits(number.as_bytes()), None, "{number}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let line = r#"{"type":"a","seq":0,"time":0,"data":{"x":[[]]}}"#;
        let mut limits = Limits::DEFAULT;
        limits.row_bytes_max = 48;
        for check in [Check::Full, Check::Envelope] {
            assert!(Event::read(line.as_bytes(), check, &limits).is_ok());
        }
        limits.row_bytes_max = 47;
        assert_eq!(
            Event::read(line.as_bytes(), Check::Full, &limits),
            Err(RowFault::TooLong { bytes: 48, max: 47 })
        );
        let mut limits = Limits::DEFAULT;
        for (nesting_max, fits) in [(3, false), (4, true)] {
            limits.nesting_max = nesting_max;
            assert_eq!(Event::read(line.as_bytes(), Check::Full, &limits).is_ok(), fits);
            assert_eq!(Event::parse(line.as_bytes(), &limits).is_ok(), fits);
        }
        limits.nesting_max = 2;
        let line = r#"{"type":"a","seq":9,"time":0,"data":{},"sourceEventSeqs":[[1,3]]}"#;
        assert!(matches!(Event::read(line.as_bytes(), Check::Full, &limits), Err(RowFault::NotJson(_))));
    }

    #[test]
    fn five_thousand_levels_are_read_without_recursion() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        let line = format!(r#"{{"type":"a","seq":0,"time":0,"data":{{"x":{deep}}}}}"#);
        assert_eq!(parse(&line).unwrap().data().len(), deep.len() + 6);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn the_scan_reads_what_the_parser_reads(line in samples::canonical_row(7)) {
            let scanned = Event::scan(&line);
            prop_assert!(scanned.is_some(), "{line}");
            prop_assert_eq!(Event::parse(line.as_bytes(), &LIMITS).ok(), scanned);
            events_agree(line.as_bytes());
        }

        #[test]
        fn all_readers_agree_on_odd_rows(line in samples::odd_row()) {
            events_agree(line.as_bytes());
        }

        #[test]
        fn all_readers_agree_on_damaged_rows(
            line in prop_oneof![samples::canonical_row(3), samples::odd_row()],
            at: prop::sample::Index,
            how: u8,
        ) {
            events_agree(&samples::damaged(&line, at, how));
        }

        #[test]
        fn all_readers_agree_on_two_rows_in_one_line(
            a in samples::canonical_row(3),
            b in samples::canonical_row(4),
            at: prop::sample::Index,
        ) {
            let line = [&a.as_bytes()[..at.index(a.len())], b.as_bytes()].concat();
            events_agree(&line);
            crate::fuzzing::row::fuzz_row(&line);
        }
    }
}
