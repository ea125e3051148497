//! How much of a page is filled.

use super::page::PageEnd;
use super::request::{Direction, PageLimits};

/// Counts what goes into a page, and says what keeps the next event out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    limits: PageLimits,
    direction: Direction,
    bytes: u64,
    events: u64,
    /// Forward: turns begun. Backward: turns whose start was taken.
    turns: u64,
}

impl Meter {
    pub(super) fn new(limits: PageLimits, direction: Direction) -> Self {
        Self { limits, direction, bytes: 0, events: 0, turns: 0 }
    }

    /// Takes the next event in the page's direction, of so many bytes with its newline.
    ///
    /// # Errors
    /// The bound that keeps it out.
    pub(super) fn take(&mut self, bytes: u64, starts_turn: bool) -> Result<(), PageEnd> {
        let is_first = self.events == 0;
        let turns = match self.direction {
            Direction::Forward => u64::from(is_first || starts_turn),
            Direction::Backward => u64::from(starts_turn),
        };
        if !is_first {
            if let Some(full) = self.full() {
                return Err(full);
            }
            if self.direction == Direction::Forward && starts_turn && self.has_turns() {
                return Err(PageEnd::Turns);
            }
            if self.limits.bytes.is_some_and(|max| self.bytes.saturating_add(bytes) > max) {
                return Err(PageEnd::Bytes);
            }
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.events = self.events.saturating_add(1);
        self.turns = self.turns.saturating_add(turns);
        Ok(())
    }

    /// What keeps every further event out, whatever it is.
    pub(super) fn full(&self) -> Option<PageEnd> {
        let reached = |max: Option<u64>, count: u64| max.is_some_and(|max| count >= max);
        match self.direction {
            _ if self.events == 0 => None,
            _ if reached(self.limits.events, self.events) => Some(PageEnd::Events),
            _ if reached(self.limits.bytes, self.bytes) => Some(PageEnd::Bytes),
            Direction::Backward if self.has_turns() && self.turns > 0 => Some(PageEnd::Turns),
            _ => None,
        }
    }

    fn has_turns(&self) -> bool {
        self.limits.turns.is_some_and(|max| self.turns >= max)
    }

    /// Stored bytes in which what is left will stand, if `stored` bytes held what was taken since this meter was like `since`.
    /// `u64::MAX` if nobody can say.
    pub(super) fn left_of(&self, stored: u64, since: &Self) -> u64 {
        let bounds = [
            (self.limits.bytes, self.bytes, since.bytes),
            (self.limits.events, self.events, since.events),
            (self.limits.turns, self.turns, since.turns),
        ];
        let left = bounds.into_iter().filter_map(|(max, count, before)| {
            let left = u128::from(max?.saturating_sub(count)).saturating_mul(u128::from(stored));
            u64::try_from(left.checked_div(u128::from(count.saturating_sub(before)))?).ok()
        });
        left.min().unwrap_or(u64::MAX)
    }

    /// How many events may follow.
    pub(super) fn events_left(&self) -> u64 {
        self.limits.events.map_or(u64::MAX, |max| max.max(1).saturating_sub(self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds events of 10 bytes, `S` starting a turn, and gives how many fit and what ended it.
    fn fit(limits: PageLimits, direction: Direction, log: &str) -> (usize, Option<PageEnd>) {
        let mut meter = Meter::new(limits, direction);
        for (index, event) in log.bytes().enumerate() {
            if let Err(end) = meter.take(10, event == b'S') {
                return (index, Some(end));
            }
        }
        (log.len(), None)
    }

    const NONE: PageLimits = PageLimits::UNBOUNDED;

    #[test]
    fn each_bound_keeps_out_what_goes_beyond_it_and_never_the_first_event() {
        for direction in [Direction::Forward, Direction::Backward] {
            for (max, fits) in [(0, 1), (1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (29, 2)] {
                let found = fit(NONE.with_bytes(max), direction, "aaaaa");
                assert_eq!(found, (fits, Some(PageEnd::Bytes)), "{max}");
            }
            for (max, fits) in [(0, 1), (1, 1), (4, 4)] {
                assert_eq!(fit(NONE.with_events(max), direction, "aaaaa"), (fits, Some(PageEnd::Events)));
            }
            assert_eq!(fit(NONE, direction, "aaSaa"), (5, None));
        }
    }

    #[test]
    fn turns_end_a_page_at_their_starts_only() {
        let forward = |turns, log| fit(NONE.with_turns(turns), Direction::Forward, log);
        let turns = Some(PageEnd::Turns);
        assert_eq!(forward(1, "aaSaaSaa"), (2, turns), "the preamble counts");
        assert_eq!(forward(1, "SaaSaa"), (3, turns));
        assert_eq!(forward(2, "aaSaaSaa"), (5, turns), "part of a turn counts");
        assert_eq!(forward(0, "SS"), (1, turns));
        assert_eq!(forward(3, "SaSaSa"), (6, None));
        // In the order in which they are read: from the last one back.
        let backward = |turns, log| fit(NONE.with_turns(turns), Direction::Backward, log);
        assert_eq!(backward(1, "aaSaaS"), (3, turns));
        assert_eq!(backward(0, "aaSaaS"), (3, turns));
        assert_eq!(backward(2, "aaSaaSaa"), (6, turns));
        assert_eq!(backward(2, "aaSaa"), (5, None), "the preamble is the rest");
    }
}
