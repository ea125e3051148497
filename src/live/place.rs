//! Where a line of a window stands.

/// A position in a window: between seqs there is room for what is not stored.
///
/// Places compare as their sort keys do, but never run out of room: the keys of rows far behind one event are equal at last, as
/// doubles have no more digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The seq of the event, or that of the next one.
    seq: u64,
    number: u64,
}

impl Place {
    /// Of the event with that seq.
    #[must_use]
    pub const fn of_event(seq: u64) -> Self {
        Self { seq, number: u64::MAX }
    }

    /// Of the live row with that number, from 1, since the event before `next_seq`.
    #[must_use]
    pub const fn of_live(next_seq: u64, number: u64) -> Self {
        Self { seq: next_seq, number }
    }

    /// Of what was interrupted by the event with that seq: right behind the event before it, and before live rows.
    pub(super) const fn interrupted_by(seq: u64) -> Self {
        Self { seq, number: 0 }
    }

    /// As a number between seqs, as clients of DSH sort: the seq of an event, one less `1 / (number + 1)` for a live row, and 0.9
    /// before the boundary for what it interrupted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a sort key for screens")]
    pub fn sort_key(self) -> f64 {
        let before = match self.number {
            u64::MAX => 0.0,
            0 => 0.9,
            number => 1.0 / (number as f64 + 1.0),
        };
        self.seq as f64 - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_keys_have_one_order() {
        let places = [
            Place::of_event(41),
            Place::interrupted_by(42),
            Place::of_live(42, 1),
            Place::of_live(42, 2),
            Place::of_live(42, 3),
            Place::of_event(42),
            Place::of_live(43, 1),
        ];
        assert!(places.is_sorted() && places.windows(2).all(|two| two[0] < two[1]));
        let keys = places.map(Place::sort_key);
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!((keys[0], keys[1], keys[2], keys[4]), (41.0, 41.1, 41.5, 41.75));
        let far = |number| Place::of_live(1 << 40, number);
        assert_eq!(far(1 << 40).sort_key(), far((1 << 40) + 1).sort_key());
        assert!(far(1 << 40) < far((1 << 40) + 1), "where keys run out of room");
    }
}
