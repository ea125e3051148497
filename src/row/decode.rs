use super::cut::{self, CutFault};
use super::event::{Check, Event, MEMBERS, check_text, text_of};
use super::fault::RowFault;
use super::fields::Fields;
use super::header::Header;
use super::lex::{self, Members};
use super::physical::PhysicalRow;
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
#[error("{issue}{}", if proof.is_some() { ", and a later turn/end shows that it had been committed" } else { "" })]
#[non_exhaustive]
pub struct DecodeFault {
    /// The first bad row.
    pub issue: Issue,
    /// The `turn/end` that made it fatal, in a recoverable read.
    pub proof: Option<RowPlace>,
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

    /// Makes `seq` the next one that is accepted: to read from the middle of a log, or on after a gap that is reported.
    pub fn expect(&mut self, seq: Seq) {
        self.events = seq.get();
    }

    /// Takes the next row, without its newline.
    ///
    /// The row, if it is accepted; `None` if it is dropped, which only a recoverable read does: [`issue`](Self::issue)
    /// then says why. Costs what reading the row costs and allocates nothing of its own. After an error in a strict read
    /// the decoder may be used on; the row that failed has changed nothing.
    ///
    /// # Errors
    /// [`DecodeFault`]: strict, the first bad row; recoverable, the first bad row once a `turn/end` proves that it had been
    /// committed. A marked end of inherited events with an impossible payload fails both.
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
        let fault = match self.judge(line) {
            Ok((row, marker)) => {
                self.marker = marker.or(self.marker);
                self.events = row.next_seq();
                self.rows = self.rows.saturating_add(1);
                return Ok(Some(row));
            }
            Err(fault) => fault,
        };
        let issue = Issue { place, fault };
        if self.recovery == Recovery::Strict || fault == RowFault::EndSeed {
            return Err(DecodeFault { issue, proof: None });
        }
        self.issue = Some(issue);
        self.drop(place, line, issue)
    }

    /// The next row, and its seq if it marks the end of the inherited events.
    fn judge<'a>(&self, line: &'a [u8]) -> Result<(PhysicalRow<'a>, Option<Seq>), RowFault> {
        let row = PhysicalRow::read(line, self.generation, self.check, &self.limits)?;
        let got = row.first_seq();
        if got.get() != self.events {
            let expected = Seq::new(self.events).unwrap_or(Seq::MAX);
            return Err(match got > expected {
                true => RowFault::Gap { expected, got },
                false => RowFault::Repeat { expected, got },
            });
        }
        let marker = match row {
            PhysicalRow::Event(event) if !self.generation.has_chunk_events() => self.marked(&event)?,
            _ => None,
        };
        Ok((row, marker))
    }

    fn marked(&self, event: &Event<'_>) -> Result<Option<Seq>, RowFault> {
        if !event.is("session/end-seed") {
            return Ok(None);
        }
        check_text(event.data(), &self.limits)?;
        let members = Members::of(event.data()).ok_or(RowFault::EndSeed)?;
        let inherited = Fields::collect(members, ["inherited"]).get("inherited") == Some("true");
        Ok(inherited.then_some(event.seq()))
    }

    /// Drops a row, which is `issue` or follows it.
    fn drop<'a>(
        &mut self,
        place: RowPlace,
        line: &[u8],
        issue: Issue,
    ) -> Result<Option<PhysicalRow<'a>>, DecodeFault> {
        self.dropped = self.dropped.saturating_add(1);
        let closes_turn = match self.parsed(line) {
            Some(row) => {
                row.string("type").is_some_and(|kind| kind.eq_str("turn/end")) && self.is_evidence(&row)
            }
            None => {
                self.unreadable = true;
                // Half a row and then a complete one: the latter stands in the log.
                match issue.fault {
                    RowFault::FusedRows { row_at } if issue.place == place => {
                        let row = line.get(row_at..).and_then(|row| self.parsed(row));
                        row.and_then(|row| row.string("type")).is_some_and(|kind| kind.eq_str("turn/end"))
                    }
                    _ => false,
                }
            }
        };
        if closes_turn { Err(DecodeFault { issue, proof: Some(place) }) } else { Ok(None) }
    }

    /// The members of a line, or `None` if it is not JSON. A value that is not an object has none.
    fn parsed<'a>(&self, line: &'a [u8]) -> Option<Fields<'a, { MEMBERS.len() }>> {
        let text = text_of(line, &self.limits).ok()?;
        check_text(text, &self.limits).ok()?;
        let members = Members::of(text).or_else(|| Members::of("{}"))?;
        Some(Fields::collect(members, MEMBERS))
    }

    /// Whether a `turn/end` counts as proof: always after a line that is not JSON, else if the original decodes it.
    ///
    /// Its v0 and v1 decoders look at nothing but `sourceEventSeqs`; its v2 decoder wants the envelope, but compares the
    /// seq, which may be any value, only later.
    fn is_evidence(&self, row: &Fields<'_, { MEMBERS.len() }>) -> bool {
        if self.unreadable || self.evidence == Evidence::Parsed {
            return true;
        }
        let loose = self.generation.has_chunk_events();
        let rule = if loose { RangeRule::Loose } else { RangeRule::Strict };
        let provenance = row.get("sourceEventSeqs").is_none_or(|list| {
            let own = row.count("seq").and_then(Seq::new);
            own.is_some_and(|own| range::check_by(rule, list, own).is_ok())
        });
        provenance
            && (loose
                || (row.unknown().is_none()
                    && row.get("seq").is_some()
                    && row.get("time").and_then(lex::safe_integer).is_some()
                    && row.get("data").is_some()
                    && row.get("ignorable").is_none_or(|value| value == "true")))
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
