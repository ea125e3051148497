use super::event::{Check, Event, check_len, check_text, text_of};
use super::fault::RowFault;
use super::lex::{self, Members, Opening};
use super::packed::{Packed, PackedKind};
use crate::limits::Limits;
use crate::units::{Generation, Seq, UnixMs};

/// One row as stored: a line, which is one event or a packed run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a row of any generation is one of the two")]
pub enum PhysicalRow<'a> {
    /// One event.
    Event(Event<'a>),
    /// A run of chunk events, in v0 and v1.
    Packed(Packed<'a>),
}

impl<'a> PhysicalRow<'a> {
    /// Reads `line`, a row of `generation` without its newline.
    ///
    /// Nothing is compared with the rows around it: for that there is [`RowDecoder`](super::RowDecoder). Packed rows are
    /// always checked in full.
    ///
    /// # Errors
    /// [`RowFault::FusedRows`] for a line that is not JSON and has a complete row at its end; else as
    /// [`Event::read`] and [`Packed::read`].
    #[inline]
    pub fn read(
        line: &'a [u8],
        generation: Generation,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, RowFault> {
        match text_of(line, limits).and_then(|text| Self::read_text(text, generation, check, limits)) {
            Err(fault @ (RowFault::NotUtf8 { .. } | RowFault::NotJson(_))) => {
                Err(find_fused(line, generation, limits)
                    .map_or(fault, |row_at| RowFault::FusedRows { row_at }))
            }
            read => read,
        }
    }

    /// [`read`](Self::read) of a line that is known to be UTF-8. Does not look for a complete row behind half a one.
    ///
    /// # Errors
    /// As [`read`](Self::read), without [`RowFault::FusedRows`].
    #[inline]
    pub(crate) fn read_str(
        text: &'a str,
        generation: Generation,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, RowFault> {
        check_len(text.len(), limits)?;
        Self::read_text(text, generation, check, limits)
    }

    #[inline]
    fn read_text(
        text: &'a str,
        generation: Generation,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, RowFault> {
        match Event::scan_sound(text, check, limits) {
            Some(event) if !generation.has_chunk_events() || PackedKind::of(event.event_type()).is_none() => {
                Ok(Self::Event(event))
            }
            _ => Self::parse_text(text, generation, limits),
        }
    }

    #[cold]
    fn parse_text(text: &'a str, generation: Generation, limits: &Limits) -> Result<Self, RowFault> {
        check_text(text, limits)?;
        let members = Members::of(text).ok_or(RowFault::NotObject)?;
        let row_type = || members.clone().filter(|member| lex::literal(member.name).eq_str("type")).last();
        let is_packed =
            || row_type().and_then(|member| lex::string(member.value)).and_then(PackedKind::of).is_some();
        if generation.has_chunk_events() && is_packed() {
            return Packed::from_members(text, members).map(Self::Packed).map_err(RowFault::Packed);
        }
        Event::from_members(text, members).map(Self::Event)
    }

    /// The whole row as stored, without its newline.
    #[must_use]
    pub const fn line(&self) -> &'a str {
        match self {
            Self::Event(event) => event.line(),
            Self::Packed(packed) => packed.line(),
        }
    }

    /// The seq of its only or first event.
    #[must_use]
    pub const fn first_seq(&self) -> Seq {
        match self {
            Self::Event(event) => event.seq(),
            Self::Packed(packed) => packed.first_seq(),
        }
    }

    /// How many events it holds: one or more.
    #[must_use]
    pub const fn event_count(&self) -> u64 {
        match self {
            Self::Event(_) => 1,
            Self::Packed(packed) => packed.event_count(),
        }
    }

    /// The number of events in a log that ends with this row: the seq after its last. Up to 2^53, which is no seq.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.first_seq().get().saturating_add(self.event_count())
    }

    /// The time of its only or last event.
    #[must_use]
    pub const fn last_time(&self) -> UnixMs {
        match self {
            Self::Event(event) => event.time(),
            Self::Packed(packed) => packed.last_time(),
        }
    }
}

/// Where in `line`, which is not JSON, a complete row of `generation` starts that runs to the line's end.
///
/// Such a line is what an append leaves that followed half a row without a newline. At most one place can do: read
/// backwards from the end, brackets close in one way only. Time O(bytes).
///
/// Spec: `format-spec/04-rows.md`, "Damage".
#[must_use]
pub fn find_fused(line: &[u8], generation: Generation, limits: &Limits) -> Option<usize> {
    let Opening::At(at) = lex::opening(line, usize::MAX) else { return None };
    let row = line.get(at..).filter(|_| at > 0)?;
    PhysicalRow::read_text(text_of(row, limits).ok()?, generation, Check::Full, limits).ok().map(|_| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::fault::{Member, PackedFault};
    use crate::row::samples;

    const LIMITS: Limits = Limits::DEFAULT;

    fn read(line: &str, generation: Generation) -> Result<PhysicalRow<'_>, RowFault> {
        let full = PhysicalRow::read(line.as_bytes(), generation, Check::Full, &LIMITS);
        assert_eq!(PhysicalRow::read(line.as_bytes(), generation, Check::Envelope, &LIMITS), full);
        full
    }

    const PACKED: &str = concat!(
        r#"{"type":"text-chunks","seq0":8,"time0":9,"data":{"turn":2,"step":1,"index":0"#,
        r#","dt":[4,0,-1],"texts":["On"," it","."," "]}}"#,
    );

    #[test]
    fn packed_rows_are_rows_of_v0_and_v1_only() {
        for generation in [Generation::V0, Generation::V1] {
            let row = read(PACKED, generation).unwrap();
            assert!(matches!(row, PhysicalRow::Packed(_)));
            assert_eq!((row.first_seq().get(), row.event_count(), row.next_seq()), (8, 4, 12));
            assert_eq!((row.last_time().get(), row.line()), (12, PACKED));
        }
        assert!(matches!(read(PACKED, Generation::V2), Err(RowFault::UnknownMember { .. })));
        let spelled = PACKED.replace("text-chunks", "text\\u002dchunks");
        assert!(matches!(read(&spelled, Generation::V0), Ok(PhysicalRow::Packed(_))));
    }

    #[test]
    fn a_packed_type_with_an_events_envelope_is_a_bad_packed_row() {
        let line = r#"{"type":"text-chunks","seq":8,"time":9,"data":{}}"#;
        assert!(matches!(
            read(line, Generation::V0),
            Err(RowFault::Packed(PackedFault::UnknownMember { .. }))
        ));
        assert!(matches!(read(line, Generation::V2), Ok(PhysicalRow::Event(_))));
        let line = r#"{"type":"text-chunks"}"#;
        assert_eq!(
            read(line, Generation::V0),
            Err(RowFault::Packed(PackedFault::MissingMember(Member::Seq0)))
        );
    }

    #[test]
    fn an_event_is_one_event() {
        let row = read(r#"{"type":"a","seq":9007199254740991,"time":-3,"data":{}}"#, Generation::V2).unwrap();
        assert_eq!((row.event_count(), row.next_seq(), row.last_time().get()), (1, 1 << 53, -3));
    }

    const ROW: &str =
        r#"{"type":"step/end","seq":6,"time":1,"data":{"turn":1,"step":"}{\\\""},"surfaceOp":"append"}"#;

    #[test]
    fn a_row_that_was_torn_anywhere_does_not_hide_the_next_one() {
        let torn = r#"{"type":"tool/result","seq":5,"time":1,"data":{"t":"é\\\"{","u":[1,{}]}}"#;
        for cut in 1..torn.len() {
            let line = [&torn.as_bytes()[..cut], ROW.as_bytes()].concat();
            for generation in [Generation::V0, Generation::V2] {
                let fault = RowFault::FusedRows { row_at: cut };
                assert_eq!(
                    PhysicalRow::read(&line, generation, Check::Full, &LIMITS),
                    Err(fault),
                    "cut at {cut}"
                );
            }
        }
        let line = [&torn.as_bytes()[..20], PACKED.as_bytes()].concat();
        assert_eq!(find_fused(&line, Generation::V1, &LIMITS), Some(20));
        assert_eq!(find_fused(&line, Generation::V2, &LIMITS), None);
    }

    #[test]
    fn a_line_without_a_complete_row_at_its_end_is_not_fused() {
        for line in [
            ROW,
            &ROW[..ROW.len() - 1],
            &format!("{ROW}x"),
            &format!("x{ROW} "),
            r#"{"type":"a","seq":5,"time":1,"data":{"t{"turn":1}}"#,
            "{}{}",
            "",
            "}",
        ] {
            assert_eq!(find_fused(line.as_bytes(), Generation::V2, &LIMITS), None, "{line}");
        }
        // Two complete rows on one line lack only their newline.
        assert_eq!(find_fused(format!("{ROW}{ROW}").as_bytes(), Generation::V2, &LIMITS), Some(ROW.len()));
    }

    /// One megabyte of row starts would take a quadratic search an hour.
    #[test]
    fn hostile_lines_are_searched_in_linear_time() {
        let start = r#"{"type":"a","seq":1,"time":1,"data":"#;
        for line in [
            start.repeat(30_000),
            format!("{}{{}}{}", start.repeat(30_000), "}".repeat(30_000)),
            "\\\"".repeat(500_000) + "}",
        ] {
            for generation in [Generation::V0, Generation::V2] {
                assert!(
                    PhysicalRow::read(line.as_bytes(), generation, Check::Envelope, &LIMITS).is_ok()
                        == line.ends_with("}}")
                );
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_was_torn_the_row_after_it_is_found(
            torn in samples::canonical_row(5),
            row in samples::canonical_row(6),
            at: prop::sample::Index,
        ) {
            let cut = 1 + at.index(torn.len() - 1);
            let line = [&torn.as_bytes()[..cut], row.as_bytes()].concat();
            prop_assert_eq!(find_fused(&line, Generation::V2, &LIMITS), Some(cut));
        }
    }
}
