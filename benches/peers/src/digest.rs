//! What was read, in numbers that have to agree between all peers.

use std::fmt;

use crate::peer::Row;

/// Sums over rows. Sums wrap; what a peer cannot tell is absent and agrees with anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Rows, or events counted by a listing.
    pub rows: Option<u64>,
    /// Sum of the seqs, or number of sessions of a listing.
    pub seqs: Option<u64>,
    /// Sum of the times, or of the last times of a listing.
    pub times: Option<u64>,
    /// Bytes of types and payloads, or ids, folders and creation times of a listing.
    pub bytes: Option<u64>,
}

impl Digest {
    /// Of nothing.
    pub const NONE: Self = Self { rows: Some(0), seqs: Some(0), times: Some(0), bytes: Some(0) };

    /// Adds one row.
    pub fn add(&mut self, row: &Row<'_>) {
        let add = |sum: &mut Option<u64>, more: u64| *sum = sum.map(|sum| sum.wrapping_add(more));
        add(&mut self.rows, 1);
        add(&mut self.seqs, row.seq);
        add(&mut self.times, row.time.cast_unsigned());
        add(&mut self.bytes, (row.kind.len() + row.payload.len()) as u64);
    }

    /// Whether the two say the same, as far as both say anything.
    pub fn agrees(&self, other: &Self) -> bool {
        let same = |one: Option<u64>, two: Option<u64>| one.zip(two).is_none_or(|(one, two)| one == two);
        same(self.rows, other.rows)
            && same(self.seqs, other.seqs)
            && same(self.times, other.times)
            && same(self.bytes, other.bytes)
    }

    /// The four numbers as a child prints them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').map(|part| match part {
            "-" => Some(None),
            part => part.parse().ok().map(Some),
        });
        let mut next = || parts.next().flatten();
        Some(Self { rows: next()?, seqs: next()?, times: next()?, bytes: next()? })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in [self.rows, self.seqs, self.times, self.bytes].into_iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            match part {
                Some(part) => write!(f, "{colon}{part}")?,
                None => write!(f, "{colon}-")?,
            }
        }
        Ok(())
    }
}
