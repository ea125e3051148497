//! The last deliveries, for all followers together.

use std::collections::VecDeque;

/// Numbered items of which the oldest go when there are too many, or too many bytes.
#[derive(Debug)]
pub(super) struct Ring<T> {
    kept: VecDeque<(usize, T)>,
    /// Number of the oldest one.
    first: u64,
    bytes: usize,
    items_max: usize,
    bytes_max: usize,
}

impl<T> Ring<T> {
    pub(super) fn new(items_max: usize, bytes_max: usize) -> Self {
        Self { kept: VecDeque::new(), first: 0, bytes: 0, items_max: items_max.max(1), bytes_max }
    }

    /// Number that the next item gets.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(self.kept.len() as u64)
    }

    /// Adds an item of so many bytes. It is kept however large it is.
    pub(super) fn push(&mut self, bytes: usize, item: T) {
        self.kept.push_back((bytes, item));
        self.bytes = self.bytes.saturating_add(bytes);
        while self.kept.len() > self.items_max || (self.bytes > self.bytes_max && self.kept.len() > 1) {
            self.drop_first();
        }
    }

    /// Forgets everything: whoever has not taken it has a gap, as if another item had been there.
    pub(super) fn break_off(&mut self) {
        while !self.kept.is_empty() {
            self.drop_first();
        }
        self.first = self.first.saturating_add(1);
        self.bytes = 0;
    }

    /// Forgets everything that nobody will ask for any more.
    pub(super) fn clear(&mut self) {
        self.first = self.end();
        self.kept = VecDeque::new();
        self.bytes = 0;
    }

    /// The item of that number, with its bytes; `None` if it is gone or has not come. The second is so from [`Ring::end`] on.
    pub(super) fn get(&self, number: u64) -> Option<(usize, &T)> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.kept.get(index).map(|(bytes, item)| (*bytes, item))
    }

    fn drop_first(&mut self) {
        if let Some((bytes, _)) = self.kept.pop_front() {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.first = self.first.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_by_number_and_by_bytes() {
        let mut ring = Ring::new(3, 10);
        for item in 0..5 {
            ring.push(1, item);
        }
        assert_eq!(
            (ring.end(), ring.get(1), ring.get(2), ring.get(4), ring.get(5)),
            (5, None, Some((1, &2)), Some((1, &4)), None)
        );
        ring.push(9, 5);
        assert_eq!((ring.get(3), ring.get(4), ring.get(5)), (None, Some((1, &4)), Some((9, &5))));
        ring.push(99, 6);
        assert_eq!((ring.get(5), ring.get(6)), (None, Some((99, &6))), "one that is too large is kept alone");
        ring.break_off();
        assert_eq!((ring.end(), ring.get(6), ring.get(7)), (8, None, None));
        ring.push(1, 8);
        ring.clear();
        assert_eq!((ring.end(), ring.get(8), ring.bytes), (9, None, 0));
    }
}
