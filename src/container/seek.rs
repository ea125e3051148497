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

#[cfg(test)]
mod tests {
    use super::jump;

    /// Trailers that a seek from segment `from` to segment `to` reads, by the rule of `format-spec/03-trailer.md`.
    fn touched(from: u32, to: u32) -> u32 {
        let (mut at, mut count) = (from, 1);
        while at > to {
            at = if jump(at) >= to { jump(at) } else { at - 1 };
            count += 1;
        }
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
    fn a_million_segments_need_at_most_39_trailers() {
        let from = 1_000_000;
        let worst = (0..from).step_by(7).map(|to| touched(from, to)).max();
        assert!(worst <= Some(39), "{worst:?}");
        for n in 1..2_000 {
            for to in 0..=n {
                assert!(touched(n, to) <= 2 * (n + 1).ilog2() + 2, "{n} to {to}");
            }
        }
    }
}
