//! Skip distances: from any trailer to an earlier one in O(log n) hops, without an index that is ever rewritten.
//!
//! Spec: `format-spec/03-trailer.md`, "Skip distances".

/// Number of the segment that segment `n` points back to: J(n).
///
/// `n` is split greedily into terms 2^k - 1, largest first; J(n) leaves out the last term, and J(0) is 0. Following J from
/// n, or stepping to n - 1 where J(n) overshoots, reaches any earlier segment through at most 2 log2(n) others
/// (skew-binary jump pointers). Time O(log n).
#[must_use]
pub(crate) const fn jump(n: u32) -> u32 {
    let mut rest = n;
    let mut last = 0;
    while rest > 0 {
        // 2^k - 1 <= rest, k as large as possible: k = floor(log2(rest + 1)).
        let exponent = match rest.checked_add(1) {
            Some(above) => above.ilog2(),
            None => u32::BITS,
        };
        last = match 1_u32.checked_shl(exponent) {
            Some(power) => power.wrapping_sub(1),
            None => u32::MAX,
        };
        rest = rest.saturating_sub(last);
    }
    n.saturating_sub(last)
}

/// Finds the last segment for which something holds that holds for all segments before it too, reading as few trailers as
/// skip distances allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent {
    /// The earliest segment known not to hold.
    above: u32,
    /// The latest segment known to hold.
    holds: Option<u32>,
}

impl Descent {
    /// Begins at a segment that does not hold; segment 0 always does.
    pub(crate) const fn from(above: u32) -> Self {
        Self { above, holds: None }
    }

    /// The segment to look at next, which the trailer of [`Descent::above`] leads to; `None` once the answer is known.
    pub(crate) fn next(&self) -> Option<u32> {
        let before = self.above.checked_sub(1)?;
        if self.holds == Some(before) {
            return None;
        }
        let target = jump(self.above);
        Some(if self.holds.is_none_or(|holds| target > holds) { target } else { before })
    }

    /// Enters what the segment that [`Descent::next`] named turned out to be.
    pub(crate) const fn enter(&mut self, segment: u32, holds: bool) {
        if holds {
            self.holds = Some(segment);
        } else {
            self.above = segment;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trailers that a seek from segment `from` to segment `to` reads, the first one included.
    fn touched(from: u32, to: u32) -> u32 {
        if from == to {
            return 1;
        }
        let (mut descent, mut count) = (Descent::from(from), 1);
        while let Some(segment) = descent.next() {
            descent.enter(segment, segment <= to);
            count += 1;
        }
        assert_eq!(descent.holds, Some(to), "from {from}");
        count
    }

    #[test]
    fn first_values_follow_the_greedy_split() {
        let values: Vec<u32> = (0..16).map(jump).collect();
        assert_eq!(values, [0, 0, 1, 0, 3, 4, 3, 0, 7, 8, 7, 10, 11, 10, 7, 0]);
    }

    #[test]
    fn largest_segment_number_has_a_target() {
        assert_eq!(jump(u32::MAX), 0);
        assert_eq!(jump(u32::MAX - 1), (u32::MAX - 1) / 2);
    }

    #[test]
    fn every_segment_is_found_with_a_logarithmic_number_of_trailers() {
        for n in 1..600 {
            for to in 0..=n {
                assert!(touched(n, to) <= 3 * (n + 1).ilog2() + 1, "{n} to {to}: {}", touched(n, to));
            }
        }
        let worst = (0..1_000_000).step_by(7).map(|to| touched(1_000_000, to)).max();
        assert_eq!(worst, Some(45));
    }
}
