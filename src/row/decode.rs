use super::cut::{self, CutFault};
use super::event::{Check, Event, MEMBERS, check_text, text_of};
use super::fault::RowFault;
use super::fields::Fields;
use super::header::Header;
use super::lex::{self, Members};
use super::packed::PackedKind;
use super::physical::{PhysicalRow, find_fused};
use super::range::{self, RangeRule};
use crate::limits::Limits;
use crate::units::{Generation, Seq};

/// What a bad row does to the read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The first bad row fails it.
    #[default]
    Strict,
    /// The rows before the first bad one are the log, unless a later `turn/end` proves that what is damaged had been
    /// committed: then it fails after all.
    Recoverable,
}

/// Which later `turn/end` proves that an earlier bad row had been committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// One that the original's row decoder of the generation would have decoded. After a line that is not JSON, any object
    /// of that type.
    #[default]
    Decoded,
    /// Any object of that type, the bad row itself included: how the original reads files of its own generation.
    Parsed,
}

/// Where a row stands. Both numbers are the caller's; they come back in faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a place has a line and an offset, and callers make them")]
pub struct RowPlace {
    /// Number of the line in the logical log; the header is line 1.
    pub line: u64,
    /// Bytes before the line in the logical log.
    pub offset: u64,
}

/// A bad row and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {} at byte {}: {fault}", .place.line, .place.offset)]
#[non_exhaustive]
pub struct Issue {
    /// Where it stands.
    pub place: RowPlace,
    /// What is wrong with it.
    pub fault: RowFault,
}

/// A read that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{issue}{}", cause.suffix())]
#[non_exhaustive]
pub struct DecodeFault {
    /// The first bad row.
    pub issue: Issue,
    /// Why it fails the read.
    pub cause: DecodeCause,
    /// The `turn/end` that makes it [`DecodeCause::Committed`]; none for the other causes.
    pub proof: Option<RowPlace>,
}

/// Why a bad row fails a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeCause {
    /// The read is strict.
    Strict,
    /// The read is recoverable, and a later `turn/end` proves that the row had been committed: corrupt.
    Committed,
    /// The original takes the row for an event, though no writer makes such a row and none of its parts would survive:
    /// not damage, so it is neither dropped nor interpreted.
    Refused,
    /// The row was accepted, and what it says of the fork cut cannot be.
    Cut,
}

impl DecodeCause {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Committed => ", and a later turn/end shows that it had been committed",
            Self::Refused => ", though its original reader would let it pass",
            Self::Strict | Self::Cut => "",
        }
    }
}

/// Decides which rows of a log count, in file order.
///
/// Keeps the number of events accepted so far, the first bad row, and the last mark of a fork cut: a few words, whatever
/// the length of the log. Accepted rows always are a prefix of those pushed, numbered without a gap.
///
/// Spec: `format-spec/04-rows.md`, "Strict and recoverable reading".
#[derive(Clone, Debug)]
pub struct RowDecoder {
    generation: Generation,
    recovery: Recovery,
    evidence: Evidence,
    check: Check,
    limits: Limits,
    /// Events accepted so far, up to 2^53.
    events: u64,
    rows: u64,
    dropped: u64,
    issue: Option<Issue>,
    /// A line was met that could not be parsed.
    unreadable: bool,
    marker: Option<Seq>,
}

impl RowDecoder {
    /// A decoder at the start of a log, checking rows in full and by the default limits.
    #[must_use]
    pub fn new(generation: Generation, recovery: Recovery) -> Self {
        Self {
            generation,
            recovery,
            evidence: Evidence::default(),
            check: Check::default(),
            limits: Limits::DEFAULT,
            events: 0,
            rows: 0,
            dropped: 0,
            issue: None,
            unreadable: false,
            marker: None,
        }
    }

    /// The decoder with another depth of checking.
    #[must_use]
    pub fn with_check(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// The decoder with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The decoder with another rule of evidence.
    #[must_use]
    pub fn with_evidence(self, evidence: Evidence) -> Self {
        Self { evidence, ..self }
    }

    /// The generation whose rows it takes.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Makes `seq` the next one that is accepted: to read from the middle of a log, or on after a gap that is reported.
    pub fn expect(&mut self, seq: Seq) {
        self.events = seq.get();
    }

    /// Takes the next row, without its newline.
    ///
    /// The row, if it is accepted; `None` if it is dropped, which only a recoverable read does: [`issue`](Self::issue)
    /// then says why. Costs what reading the row costs and allocates nothing of its own. After an error the decoder may be
    /// used on: a strict one as if the row had not been, a recoverable one drops what follows.
    ///
    /// # Errors
    /// [`DecodeFault`]: strict, at the first bad row; recoverable, once a `turn/end` proves that the first bad row had been
    /// committed. In both, for a row at its place that only the original accepts, which is more of v0 and v1 than is
    /// accepted here: dropping it would lose an event; and for a `session/end-seed` of v2 without an object as its payload.
    ///
    /// Spec: `format-spec/04-rows.md`, "Strict and recoverable reading".
    pub fn push<'a>(
        &mut self,
        place: RowPlace,
        line: &'a [u8],
    ) -> Result<Option<PhysicalRow<'a>>, DecodeFault> {
        if let Some(issue) = self.issue {
            return self.drop(place, line, issue);
        }
        let row = PhysicalRow::read(line, self.generation, self.check, &self.limits);
        match row.and_then(|row| self.accept(row)) {
            Ok(row) => Ok(Some(row)),
            Err(fault) => self.fail(place, line, fault),
        }
    }

    /// [`push`](Self::push) for a line that is known to be UTF-8, which is then not checked again.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_str<'a>(
        &mut self,
        place: RowPlace,
        line: &'a str,
    ) -> Result<Option<PhysicalRow<'a>>, DecodeFault> {
        if self.issue.is_none()
            && let Ok(row) = PhysicalRow::read_str(line, self.generation, self.check, &self.limits)
            && let Ok(row) = self.accept(row)
        {
            return Ok(Some(row));
        }
        // What is wrong is found again there, and named.
        self.push(place, line.as_bytes())
    }

    #[cold]
    fn fail<'a>(
        &mut self,
        place: RowPlace,
        line: &[u8],
        fault: RowFault,
    ) -> Result<Option<PhysicalRow<'a>>, DecodeFault> {
        let issue = Issue { place, fault };
        let refused =
            || self.parsed(line).is_some_and(|row| self.original_decodes(&row) && self.is_in_place(&row));
        let cause = match fault {
            RowFault::EndSeed => Some(DecodeCause::Cut),
            _ if refused() => Some(DecodeCause::Refused),
            _ if self.recovery == Recovery::Strict => Some(DecodeCause::Strict),
            _ => None,
        };
        if self.recovery == Recovery::Recoverable {
            self.issue = Some(issue);
        }
        match cause {
            Some(cause) => Err(DecodeFault { issue, cause, proof: None }),
            None => self.drop(place, line, issue),
        }
    }

    /// Takes a row that was read, if it is the next one. Nothing changes if it is not.
    #[inline]
    fn accept<'a>(&mut self, row: PhysicalRow<'a>) -> Result<PhysicalRow<'a>, RowFault> {
        let got = row.first_seq();
        if got.get() != self.events {
            let expected = Seq::new(self.events).unwrap_or(Seq::MAX);
            return Err(match got > expected {
                true => RowFault::Gap { expected, got },
                false => RowFault::Repeat { expected, got },
            });
        }
        if let PhysicalRow::Event(event) = &row
            && event.is("session/end-seed")
            && !self.generation.has_chunk_events()
        {
            self.marker = self.marked(event)?.or(self.marker);
        }
        self.events = row.next_seq();
        self.rows = self.rows.saturating_add(1);
        Ok(row)
    }

    /// The seq of a `session/end-seed`, if it ends the inherited events.
    #[cold]
    fn marked(&self, event: &Event<'_>) -> Result<Option<Seq>, RowFault> {
        check_text(event.data(), &self.limits)?;
        let members = Members::of(event.data()).ok_or(RowFault::EndSeed)?;
        let inherited = Fields::collect(members, ["inherited"]).get("inherited") == Some("true");
        Ok(inherited.then_some(event.seq()))
    }

    /// Drops a row, which is `issue` or follows it.
    #[cold]
    fn drop<'a>(
        &mut self,
        place: RowPlace,
        line: &[u8],
        issue: Issue,
    ) -> Result<Option<PhysicalRow<'a>>, DecodeFault> {
        self.dropped = self.dropped.saturating_add(1);
        let proves = match self.parsed(line) {
            Some(row) => {
                let any = self.unreadable || self.evidence == Evidence::Parsed;
                closes_turn(&row) && (any || self.original_decodes(&row))
            }
            None => {
                self.unreadable = true;
                // Half a row and then a complete one: the latter stands in the log.
                let fused = find_fused(line, self.generation, &self.limits).and_then(|at| line.get(at..));
                fused.and_then(|row| self.parsed(row)).is_some_and(|row| closes_turn(&row))
            }
        };
        if proves {
            return Err(DecodeFault { issue, cause: DecodeCause::Committed, proof: Some(place) });
        }
        Ok(None)
    }

    /// The members of a line, or `None` if it is not JSON. A value that is not an object has none.
    fn parsed<'a>(&self, line: &'a [u8]) -> Option<Fields<'a, { MEMBERS.len() }>> {
        let text = text_of(line, &self.limits).ok()?;
        check_text(text, &self.limits).ok()?;
        let members = Members::of(text).or_else(|| Members::of("{}"))?;
        Some(Fields::collect(members, MEMBERS))
    }

    /// Whether the original's row decoder of the generation takes an object for an event, whatever its position.
    ///
    /// In v0 and v1 it looks at nothing but `sourceEventSeqs`, packed rows apart, which it judges as we do. In v2 it wants
    /// the envelope; the seq may be any value, since it is compared only later.
    fn original_decodes(&self, row: &Fields<'_, { MEMBERS.len() }>) -> bool {
        let own = || row.count("seq").and_then(Seq::new);
        let provenance = |rule| match (row.get("sourceEventSeqs"), own()) {
            (None, _) => true,
            (Some(list), own) => own.is_some_and(|own| range::check_by(rule, list, own).is_ok()),
        };
        if self.generation.has_chunk_events() {
            let packed = row.string("type").and_then(PackedKind::of).is_some();
            return !packed && provenance(RangeRule::Loose);
        }
        row.unknown().is_none()
            && row.string("type").is_some()
            && row.get("seq").is_some()
            && row.get("time").and_then(lex::safe_integer).is_some()
            && row.get("data").is_some()
            && row.get("ignorable").is_none_or(|value| value == "true")
            && provenance(RangeRule::Strict)
    }

    /// Whether the seq is the expected one as JavaScript compares numbers: -0 is 0 there.
    fn is_in_place(&self, row: &Fields<'_, { MEMBERS.len() }>) -> bool {
        row.get("seq").and_then(lex::number).is_some_and(|seq| {
            let seq = if seq.is_negative_zero() { Some(0) } else { seq.as_count() };
            seq == Some(self.events)
        })
    }

    /// The first bad row, in a recoverable read. Everything from there on has been dropped.
    #[must_use]
    pub const fn issue(&self) -> Option<Issue> {
        self.issue
    }

    /// Events accepted so far, counted from the log's start: the seq that is expected next.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Rows accepted so far.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows dropped so far, the first bad one included.
    #[must_use]
    pub const fn dropped_rows(&self) -> u64 {
        self.dropped
    }

    /// The last accepted event that ends inherited ones.
    pub(crate) const fn marker(&self) -> Option<Seq> {
        self.marker
    }

    /// The number of inherited events, once all rows of a log have been pushed from its first on.
    ///
    /// # Errors
    /// [`CutFault`] when header and events contradict each other. No recovery helps: it is judged on the accepted rows.
    ///
    /// Spec: `format-spec/04-rows.md`, "Fork cut".
    pub fn finish(&self, header: &Header) -> Result<u64, CutFault> {
        cut::inherited(header, self.events, self.marker)
    }
}

fn closes_turn(row: &Fields<'_, { MEMBERS.len() }>) -> bool {
    row.string("type").is_some_and(|kind| kind.eq_str("turn/end"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::fault::{DamageKind, Member, PackedFault, RangeFault};
    use crate::row::samples;

    const BAD: &str = "5";

    fn a(seq: u64) -> String {
        format!(r#"{{"type":"plan/mode","seq":{seq},"time":1,"data":{{"active":true}}}}"#)
    }

    fn turn_end(seq: &str) -> String {
        format!(
            r#"{{"type":"turn/end","seq":{seq},"time":1,"data":{{"turn":1,"reason":{{"kind":"completed"}}}}}}"#
        )
    }

    /// The number of events accepted, or why the read failed.
    fn decode(decoder: RowDecoder, rows: &[String]) -> Result<u64, DecodeFault> {
        let mut decoder = decoder;
        let mut accepted = 0;
        for (row, line) in rows.iter().zip(2..) {
            if let Some(row) = decoder.push(RowPlace { line, offset: line * 10 }, row.as_bytes())? {
                accepted += row.event_count();
            }
        }
        assert_eq!(accepted, decoder.events());
        Ok(accepted)
    }

    fn recoverable(generation: Generation, rows: &[String]) -> Result<u64, (DecodeCause, Option<RowPlace>)> {
        let full = decode(RowDecoder::new(generation, Recovery::Recoverable), rows);
        let envelope = RowDecoder::new(generation, Recovery::Recoverable).with_check(Check::Envelope);
        assert_eq!(decode(envelope, rows), full);
        full.map_err(|fault| (fault.cause, fault.proof))
    }

    fn committed(line: u64) -> Result<u64, (DecodeCause, Option<RowPlace>)> {
        Err((DecodeCause::Committed, Some(RowPlace { line, offset: line * 10 })))
    }

    const REFUSED: Result<u64, (DecodeCause, Option<RowPlace>)> = Err((DecodeCause::Refused, None));

    const GENERATIONS: [Generation; 3] = [Generation::V0, Generation::V1, Generation::V2];

    #[test]
    fn the_table_of_the_format() {
        let bad = BAD.to_owned();
        let packed = r#"{"type":"text-chunks","seq0":2,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}"#;
        let sources = r#"{"type":"turn/end","seq":1,"time":1,"data":{},"sourceEventSeqs":5}"#;
        for generation in GENERATIONS {
            let old = generation.has_chunk_events();
            for (rows, result) in [
                (vec![a(0), bad.clone()], Ok(1)),
                (vec![a(0), bad.clone(), a(1)], Ok(1)),
                (vec![a(0), bad.clone(), turn_end("1")], committed(4)),
                (
                    vec![a(0), bad.clone(), r#"{"type":"turn/end"}"#.to_owned()],
                    if old { committed(4) } else { Ok(1) },
                ),
                (vec![a(0), a(5), turn_end("1")], committed(4)),
                (vec![a(0), turn_end("5")], committed(3)),
                (vec![a(0), sources.to_owned()], Ok(1)),
                (vec![a(0), packed.to_owned()], Ok(1)),
            ] {
                assert_eq!(recoverable(generation, &rows), result, "{generation} {rows:?}");
            }
        }
    }

    /// Asked of the published packages: rows after a@0 and a bad row, and what they make the read in v0 and v1, and in v2.
    #[test]
    fn which_turn_ends_prove_a_commit_was_asked_of_the_original() {
        let row = |members: &str| format!(r#"{{"type":"turn/end",{members}}}"#);
        for (proof, old, new) in [
            (turn_end("\"x\""), true, true),
            (turn_end("-0"), true, true),
            (turn_end("-3"), true, true),
            (turn_end("1.5"), true, true),
            (turn_end("null"), true, true),
            (row(r#""seq":1,"time":0.5,"data":{}"#), true, false),
            (row(r#""seq":1,"time":1,"data":{},"zz":1"#), true, false),
            (row(r#""seq":1,"time":1,"data":{},"ignorable":false"#), true, false),
            (row(r#""seq":2,"time":1,"data":{},"sourceEventSeqs":[1,1]"#), true, false),
            (row(r#""seq":2,"time":1,"data":{},"sourceEventSeqs":[7]"#), true, false),
            (row(r#""seq":2,"time":1,"data":{},"sourceEventSeqs":[]"#), true, true),
            (row(r#""seq":2,"time":1,"data":{},"sourceEventSeqs":5"#), false, false),
            (row(r#""time":1,"data":{},"sourceEventSeqs":[]"#), false, false),
            (r#"{"type":["turn/end"],"seq":7,"time":1,"data":{}}"#.to_owned(), false, false),
            (r#"{"type":"turn\/end","seq":7,"time":1,"data":{}}"#.to_owned(), true, true),
        ] {
            for generation in GENERATIONS {
                let proves = if generation.has_chunk_events() { old } else { new };
                let result = if proves { committed(4) } else { Ok(1) };
                let rows = [a(0), BAD.to_owned(), proof.clone()];
                assert_eq!(recoverable(generation, &rows), result, "{generation} {proof}");
            }
        }
    }

    /// The original reads these v0 and v1 rows as events and refuses the log later: dropping them would lose an event.
    #[test]
    fn a_row_in_place_that_only_the_original_accepts_is_refused_and_never_dropped() {
        for members in [
            r#""seq":1,"time":1,"data":{},"extra":1"#,
            r#""seq":1,"time":0.5,"data":{}"#,
            r#""seq":1.0"#,
            r#""seq":1,"time":1,"data":{},"sourceEventSeqs":[1]"#,
        ] {
            for name in ["a", "turn/end"] {
                let row = format!(r#"{{"type":"{name}",{members}}}"#);
                for generation in [Generation::V0, Generation::V1] {
                    assert_eq!(recoverable(generation, &[a(0), row.clone()]), REFUSED, "{row}");
                    let strict = decode(RowDecoder::new(generation, Recovery::Strict), &[a(0), row.clone()]);
                    assert_eq!(strict.map_err(|fault| fault.cause), Err(DecodeCause::Refused));
                    let mut decoder = RowDecoder::new(generation, Recovery::Recoverable);
                    decoder.push(RowPlace::default(), a(0).as_bytes()).unwrap();
                    assert!(decoder.push(RowPlace::default(), row.as_bytes()).is_err());
                    assert!(decoder.issue().is_some());
                    assert_eq!(decoder.push(RowPlace::default(), a(1).as_bytes()), Ok(None));
                }
                assert_eq!(recoverable(Generation::V2, &[a(0), row]), Ok(1));
            }
        }
        let zero = r#"{"type":"a","seq":-0,"time":1,"data":{}}"#.to_owned();
        for generation in GENERATIONS {
            assert_eq!(recoverable(generation, std::slice::from_ref(&zero)), REFUSED);
            assert_eq!(recoverable(generation, &[a(0), zero.clone()]), Ok(1));
        }
    }

    #[test]
    fn after_a_line_that_is_not_json_any_turn_end_proves_a_commit() {
        for generation in GENERATIONS {
            for torn in ["", "{\"type\"", "\u{feff}{}"] {
                let rows = |proof: &str| [a(0), torn.to_owned(), proof.to_owned()];
                assert_eq!(recoverable(generation, &rows(r#"{"type":"turn/end","zz":1}"#)), committed(4));
                assert_eq!(recoverable(generation, &rows(r#"{"type":"turn/end","type":1}"#)), Ok(1));
                assert_eq!(recoverable(generation, &rows(r#"["turn/end"]"#)), Ok(1));
                assert_eq!(recoverable(generation, &rows(r#"{"type":"turn/end""#)), Ok(1));
            }
            // The line need not be the first issue.
            let rows = [a(0), BAD.to_owned(), "{".to_owned(), r#"{"type":"turn/end","zz":1}"#.to_owned()];
            assert_eq!(recoverable(generation, &rows), committed(5));
        }
    }

    #[test]
    fn parsed_evidence_counts_any_turn_end_and_the_bad_row_itself() {
        let decoder =
            || RowDecoder::new(Generation::V2, Recovery::Recoverable).with_evidence(Evidence::Parsed);
        let malformed = r#"{"type":"turn/end"}"#.to_owned();
        for rows in [vec![a(0), malformed.clone()], vec![a(0), BAD.to_owned(), malformed]] {
            let fault = decode(decoder(), &rows).unwrap_err();
            assert_eq!(Err((fault.cause, fault.proof)), committed(u64::try_from(rows.len()).unwrap() + 1));
        }
        assert_eq!(decode(decoder(), &[a(0), BAD.to_owned(), a(1)]), Ok(1));
    }

    #[test]
    fn a_turn_end_behind_half_a_row_proves_a_commit_too() {
        let fused = format!(r#"{{"type":"tool/result","seq":1,"ti{}"#, turn_end("2"));
        for generation in GENERATIONS {
            assert_eq!(recoverable(generation, &[a(0), fused.clone()]), committed(3));
            assert_eq!(recoverable(generation, &[a(0), "{".to_owned(), fused.clone()]), committed(4));
            assert_eq!(recoverable(generation, &[a(0), format!("{{\"type{}", a(2))]), Ok(1));
        }
    }

    #[test]
    fn strict_reads_fail_at_the_first_bad_row_with_its_place() {
        let fault = decode(RowDecoder::new(Generation::V2, Recovery::Strict), &[a(0), a(2)]).unwrap_err();
        assert_eq!(fault.cause, DecodeCause::Strict);
        assert_eq!(fault.issue.place, RowPlace { line: 3, offset: 30 });
        let gap = RowFault::Gap { expected: Seq::new(1).unwrap(), got: Seq::new(2).unwrap() };
        assert_eq!(fault.issue.fault, gap);
        assert_eq!(fault.to_string(), "line 3 at byte 30: seq 2 follows where 1 was due: events are missing");
        let fault = decode(RowDecoder::new(Generation::V2, Recovery::Strict), &[a(0), a(0)]).unwrap_err();
        assert_eq!(fault.issue.fault.kind(), DamageKind::Repeat);
    }

    #[test]
    fn each_kind_of_bad_row_is_named() {
        let place = RowPlace::default();
        for (line, kind) in [
            (&b"\xff"[..], DamageKind::NotUtf8),
            (b"{", DamageKind::NotJson),
            (b"7", DamageKind::Structure),
            (b"{\"type\":\"a\",\"seq\":0,\"time\":0,\"data\":{},\"b\":1}", DamageKind::UnknownMember),
            (b"{\"type\":\"a\",\"seq\":1,\"time\":0,\"data\":{}}", DamageKind::Gap),
            (b"{\"ty{\"type\":\"a\",\"seq\":1,\"time\":0,\"data\":{}}", DamageKind::FusedRows),
        ] {
            let mut decoder = RowDecoder::new(Generation::V2, Recovery::Recoverable);
            assert_eq!(decoder.push(place, line), Ok(None));
            assert_eq!(decoder.issue().unwrap().fault.kind(), kind);
            assert_eq!((decoder.dropped_rows(), decoder.rows(), decoder.events()), (1, 0, 0));
        }
        let mut decoder = RowDecoder::new(Generation::V0, Recovery::Recoverable);
        decoder.push(place, br#"{"type":"text-chunks","seq0":0}"#).unwrap();
        let missing = RowFault::Packed(PackedFault::MissingMember(Member::Time0));
        assert_eq!(decoder.issue().unwrap().fault, missing);
        let mut decoder = RowDecoder::new(Generation::V2, Recovery::Recoverable);
        decoder.push(place, br#"{"type":"a","seq":0,"time":0,"data":{},"sourceEventSeqs":[0]}"#).unwrap();
        let later = RowFault::Provenance(RangeFault::Later { seq: 0, bound: 0 });
        assert_eq!(decoder.issue().unwrap().fault, later);
    }

    #[test]
    fn packed_rows_advance_by_their_length_and_are_taken_whole() {
        let data = r#"{"turn":1,"step":1,"index":0,"dt":[0,0],"texts":["a","b","c"]}"#;
        let packed = |seq0: u64| format!(r#"{{"type":"text-chunks","seq0":{seq0},"time0":1,"data":{data}}}"#);
        assert_eq!(recoverable(Generation::V0, &[a(0), packed(1), a(4)]), Ok(5));
        assert_eq!(recoverable(Generation::V0, &[a(0), packed(1), a(3)]), Ok(4));
        assert_eq!(recoverable(Generation::V0, &[a(0), packed(0), a(1)]), Ok(1));
        assert_eq!(recoverable(Generation::V2, &[a(0), packed(1), turn_end("4")]), committed(4));
    }

    #[test]
    fn reading_can_begin_in_the_middle_and_go_on_after_a_gap() {
        let mut decoder = RowDecoder::new(Generation::V2, Recovery::Strict);
        decoder.expect(Seq::new(40).unwrap());
        let place = RowPlace::default();
        assert!(decoder.push(place, a(40).as_bytes()).unwrap().is_some());
        assert!(decoder.push(place, a(43).as_bytes()).is_err());
        decoder.expect(Seq::new(43).unwrap());
        assert!(decoder.push(place, a(43).as_bytes()).unwrap().is_some());
        assert_eq!((decoder.events(), decoder.rows()), (44, 2));
        decoder.expect(Seq::MAX);
        assert!(decoder.push(place, a(Seq::MAX.get()).as_bytes()).unwrap().is_some());
        assert_eq!(
            decoder.push(place, a(Seq::MAX.get()).as_bytes()).unwrap_err().issue.fault.kind(),
            DamageKind::Repeat
        );
    }

    fn end_seed(seq: u64, data: &str) -> String {
        format!(r#"{{"type":"session/end-seed","seq":{seq},"time":1,"data":{data}}}"#)
    }

    fn header(line: &str) -> Header {
        Header::parse(line.as_bytes(), &Limits::DEFAULT).unwrap()
    }

    #[test]
    fn the_last_marker_cuts_a_v2_log_and_none_cuts_an_older_one() {
        let rows = [
            a(0),
            end_seed(1, r#"{"inherited":true}"#),
            end_seed(2, "{}"),
            end_seed(3, r#"{"inherited":false,"inherite\u0064":true}"#),
            end_seed(4, r#"{"inherited":true,"inherited":1}"#),
        ];
        let mut decoder = RowDecoder::new(Generation::V2, Recovery::Strict).with_check(Check::Envelope);
        for row in &rows {
            decoder.push(RowPlace::default(), row.as_bytes()).unwrap();
        }
        let seeded = header(
            r#"{"type":"session","version":2,"id":"s","createdAt":1,"isSeeded":true,"delegationDepth":0}"#,
        );
        let unseeded = header(
            r#"{"type":"session","version":2,"id":"s","createdAt":1,"isSeeded":false,"delegationDepth":0}"#,
        );
        assert_eq!(decoder.finish(&seeded), Ok(3));
        assert_eq!(decoder.finish(&unseeded), Err(CutFault::Unseeded { seq: Seq::new(3).unwrap() }));
        let mut decoder = RowDecoder::new(Generation::V1, Recovery::Strict);
        for row in &rows {
            decoder.push(RowPlace::default(), row.as_bytes()).unwrap();
        }
        let counted = header(
            r#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":5,"delegationDepth":0}"#,
        );
        assert_eq!(decoder.finish(&counted), Ok(5));
    }

    #[test]
    fn a_v2_end_seed_without_an_object_fails_both_reads() {
        for recovery in [Recovery::Strict, Recovery::Recoverable] {
            for data in ["5", "[]", "null", "\"inherited\""] {
                let fault = decode(RowDecoder::new(Generation::V2, recovery), &[a(0), end_seed(1, data)])
                    .unwrap_err();
                assert_eq!((fault.cause, fault.issue.fault), (DecodeCause::Cut, RowFault::EndSeed));
            }
            assert_eq!(decode(RowDecoder::new(Generation::V1, recovery), &[a(0), end_seed(1, "5")]), Ok(2));
        }
        assert_eq!(recoverable(Generation::V2, &[a(0), end_seed(7, "5")]), Ok(1));
        assert_eq!(recoverable(Generation::V2, &[a(0), BAD.to_owned(), end_seed(1, "5")]), Ok(1));
    }

    /// A fork with two inherited events, a packed row and a list that cites it; then the same session in v2.
    const FORKS: [(&str, u64); 2] = [
        (
            r#"{"type":"session","version":0,"id":"f","createdAt":10,"parentSession":"p","seedLength":2,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":11,"data":{"turn":1}}
{"type":"turn/end","seq":1,"time":12,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"session/end-seed","seq":2,"time":13,"data":{}}
{"type":"turn/start","seq":3,"time":14,"data":{"turn":2}}
{"type":"step/start","seq":4,"time":15,"data":{"turn":2,"step":1}}
{"type":"text-chunks","seq0":5,"time0":16,"data":{"turn":2,"step":1,"index":0,"dt":[1,-2],"texts":["a","","\\n"]}}
{"type":"assistant/message","seq":8,"time":20,"data":{"turn":2,"step":1},"sourceEventSeqs":[[5,7]],"surfaceOp":"append"}
{"type":"step/end","seq":9,"time":21,"data":{"turn":2,"step":1}}"#,
            10,
        ),
        (
            r#"{"type":"session","version":2,"id":"f","createdAt":10,"parentSession":"p","isSeeded":true,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":11,"data":{"turn":1}}
{"type":"turn/end","seq":1,"time":12,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"session/end-seed","seq":2,"time":13,"data":{"inherited":true}}
{"type":"turn/start","seq":3,"time":14,"data":{"turn":2}}
{"type":"step/start","seq":4,"time":15,"data":{"turn":2,"step":1}}
{"type":"assistant/message","seq":5,"time":20,"data":{"turn":2,"step":1,"message":{"id":"m"},"stream":[]},"surfaceOp":"append"}
{"type":"step/end","seq":6,"time":21,"data":{"turn":2,"step":1}}"#,
            7,
        ),
    ];

    #[test]
    fn a_fork_decodes_to_its_events_and_its_cut() {
        for (log, events) in FORKS {
            let mut lines = log.lines();
            let header = header(lines.next().unwrap());
            let mut decoder = RowDecoder::new(header.generation(), Recovery::Strict);
            for line in lines {
                decoder.push(RowPlace::default(), line.as_bytes()).unwrap();
            }
            assert_eq!((decoder.events(), decoder.finish(&header)), (events, Ok(2)));
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_a_prefix_in_every_generation(
            rows in prop::collection::vec(prop_oneof![
                3 => (0_u64..6).prop_flat_map(samples::canonical_row),
                1 => samples::odd_row(),
                1 => (0_u64..6).prop_map(a),
                1 => (0_u64..6).prop_map(|seq| turn_end(&seq.to_string())),
            ], 0..8),
            at: prop::sample::Index,
            how: u8,
        ) {
            let log = rows.join("\n");
            crate::fuzzing::row::fuzz_row(log.as_bytes());
            crate::fuzzing::row::fuzz_row(&samples::damaged(&log, at, how));
        }
    }
}
