//! What a stored fold of a log's events is valid for.
//!
//! A fold is bound to the generation of the events that it was made from, and to nothing that a unit decides: a migration
//! makes every fold stale without any unit changing its own version, and a unit's new version makes only its own stale.

use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::units::{Generation, UnixMs};

/// Whose events a stored fold was made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckpointKey {
    generation: Generation,
    created_at: UnixMs,
    cwd: Option<Text>,
    is_seeded: bool,
    inherited: u64,
}

impl CheckpointKey {
    /// The key of the log that `header` starts and that inherited `inherited` events.
    #[must_use]
    pub fn new(header: &Header, inherited: u64) -> Self {
        Self {
            generation: header.generation(),
            created_at: header.created_at(),
            cwd: header.cwd().cloned(),
            is_seeded: header.seeding() != Seeding::Unseeded,
            inherited,
        }
    }

    /// Whether a fold stored under this key may be continued for the log of `other`: everything is equal.
    #[must_use]
    pub fn admits_fold(&self, other: &Self) -> bool {
        self == other
    }

    /// Whether a value stored under this key may be shown beside a header alone, from which the cut is not known.
    #[must_use]
    pub fn admits_listing(&self, header: &Header) -> bool {
        *self == Self::new(header, self.inherited)
    }
}

/// How far a stored state of one unit had come, and by which version of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateMark {
    /// The unit's own version of its state, independent of the generation.
    pub state_version: u32,
    /// Events folded: the seq of the next one to fold.
    pub folded: u64,
}

impl StateMark {
    /// Whether a unit of `state_version` may go on from here in a log of `events` events. Else it folds from the start.
    #[must_use]
    pub const fn is_usable(self, state_version: u32, events: u64) -> bool {
        self.state_version == state_version && self.folded <= events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(generation: Generation, created_at: i64) -> Header {
        Header::new(generation, Text::from("s"), UnixMs::new(created_at)).unwrap()
    }

    #[test]
    fn another_generation_lifecycle_or_cut_is_another_key() {
        let key = CheckpointKey::new(&header(Generation::V2, 5), 3);
        assert!(key.admits_fold(&CheckpointKey::new(&header(Generation::V2, 5), 3)));
        assert!(!key.admits_fold(&CheckpointKey::new(&header(Generation::V1, 5), 3)), "generation");
        assert!(!key.admits_fold(&CheckpointKey::new(&header(Generation::V2, 6), 3)), "lifecycle");
        assert!(!key.admits_fold(&CheckpointKey::new(&header(Generation::V2, 5), 2)), "cut");
        assert!(key.admits_listing(&header(Generation::V2, 5)), "a listing does not know the cut");
        assert!(!key.admits_listing(&header(Generation::V1, 5)));
    }

    #[test]
    fn a_unit_refolds_on_its_own_version_alone_and_never_beyond_the_log() {
        let mark = StateMark { state_version: 2, folded: 10 };
        assert!(mark.is_usable(2, 10));
        assert!(!mark.is_usable(3, 10));
        assert!(!mark.is_usable(2, 9));
    }
}
