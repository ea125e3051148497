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
