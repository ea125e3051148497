use super::header::{Header, Seeding};
use crate::units::Seq;

/// Why the fork cut of a log is impossible, although each of its lines is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutFault {
    /// A v0 or v1 header claims more inherited events than the log has.
    #[error("the header says that {cut} events are inherited, but the log has {events}")]
    BeyondEvents {
        /// The claim.
        cut: u64,
        /// Events in the log.
        events: u64,
    },
    /// A v2 log is seeded, and no event marks where the inherited ones end.
    #[error("the header says that events are inherited, but no session/end-seed marks where they end")]
    NoMarker,
    /// A v2 log is not seeded, and an event marks the end of inherited ones.
    #[error("the header says that no events are inherited, but the session/end-seed at seq {seq} says so")]
    Unseeded {
        /// The last marker.
        seq: Seq,
    },
}

/// The number of inherited events of a log of `events` events whose last marked `session/end-seed` is `marker`.
///
/// Spec: `format-spec/04-rows.md`, "Fork cut".
pub(super) fn inherited(header: &Header, events: u64, marker: Option<Seq>) -> Result<u64, CutFault> {
    match (header.seeding(), marker) {
        (Seeding::Counted(cut), _) if cut > events => Err(CutFault::BeyondEvents { cut, events }),
        (Seeding::Counted(cut), _) => Ok(cut),
        (Seeding::Marked, Some(seq)) => Ok(seq.get()),
        (Seeding::Marked, None) => Err(CutFault::NoMarker),
        (Seeding::Unseeded, Some(seq)) => Err(CutFault::Unseeded { seq }),
        (Seeding::Unseeded, None) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Text;
    use crate::units::{Generation, UnixMs};

    fn cut(
        generation: Generation,
        seeding: Seeding,
        events: u64,
        marker: Option<u64>,
    ) -> Result<u64, CutFault> {
        let header = Header::new(generation, Text::from("s"), UnixMs::new(1)).unwrap();
        let header = header.with_seeding(generation, seeding).unwrap();
        inherited(&header, events, marker.map(|seq| Seq::new(seq).unwrap()))
    }

    #[test]
    fn v0_and_v1_count_in_the_header() {
        for generation in [Generation::V0, Generation::V1] {
            assert_eq!(cut(generation, Seeding::Unseeded, 5, None), Ok(0));
            assert_eq!(cut(generation, Seeding::Counted(0), 0, None), Ok(0));
            assert_eq!(cut(generation, Seeding::Counted(5), 5, None), Ok(5));
            let beyond = CutFault::BeyondEvents { cut: 6, events: 5 };
            assert_eq!(cut(generation, Seeding::Counted(6), 5, None), Err(beyond));
        }
    }

    #[test]
    fn v2_marks_the_end_of_what_is_inherited() {
        assert_eq!(cut(Generation::V2, Seeding::Unseeded, 5, None), Ok(0));
        assert_eq!(cut(Generation::V2, Seeding::Marked, 5, Some(2)), Ok(2));
        assert_eq!(cut(Generation::V2, Seeding::Marked, 5, None), Err(CutFault::NoMarker));
        let seq = Seq::new(2).unwrap();
        assert_eq!(cut(Generation::V2, Seeding::Unseeded, 5, Some(2)), Err(CutFault::Unseeded { seq }));
    }
}
