//! The indexed container: a chain of segments, walked forward, hopped backward, and grown at the end.
//!
//! Spec: `format-spec/01-container.md` and `03-trailer.md`.

mod ahead;
mod hop;
mod read;
mod walk;
mod write;

pub(crate) use ahead::{Outlook, other_threads, read_ahead};
pub(crate) use hop::{Hop, durable_hint, last_trailer};
pub(crate) use read::IndexedReader;
pub(crate) use walk::{Walk, WalkStop, trailer_at};
pub(crate) use write::{IndexedWriter, SEGMENT_CONTENT};

use super::seek::jump;

/// Where the trailers end that the next skip distances lead to: one for each term of the greedy split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Jumps {
    /// (segment, end of its trailer), ascending; at most 33.
    ends: Vec<(u32, u64)>,
}

impl Jumps {
    /// The skip distance of `segment`, whose trailer ends at `end`: the one behind the last entered. 0 for segment 0.
    pub(crate) fn distance(&self, segment: u32, end: u64) -> u64 {
        let target = jump(segment);
        let found = self.ends.iter().rev().find(|&&(top, _)| top <= target);
        found.map_or(0, |&(_, target_end)| end.saturating_sub(target_end))
    }

    /// Enters the trailer of `segment`, the one behind the last entered, and returns its skip distance.
    pub(crate) fn push(&mut self, segment: u32, end: u64) -> u64 {
        let distance = self.distance(segment, end);
        let target = jump(segment);
        while self.ends.last().is_some_and(|&(top, _)| top > target) {
            self.ends.pop();
        }
        self.ends.push((segment, end));
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_lead_to_the_jump_targets() {
        let end_of = |segment: u32| 100 + 7 * u64::from(segment) * u64::from(segment);
        let mut jumps = Jumps::default();
        for segment in 0..5_000 {
            let distance = jumps.push(segment, end_of(segment));
            assert_eq!(end_of(segment) - distance, end_of(jump(segment)), "segment {segment}");
            assert!(jumps.ends.len() <= 33);
        }
    }
}
