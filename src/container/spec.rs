//! What `tests/spec_vectors.rs` holds against the tables of `format-spec/`. No interface for anybody else.

use super::{indexed, probe, seek, tail, trailer};

/// As in `format-spec/README.md`, "Constants".
pub const CONSTANTS: [(&str, u64); 6] = [
    ("TRAILER_LEN", trailer::TRAILER_LEN as u64),
    ("BODY_LEN_MAX", trailer::BODY_LEN_MAX as u64),
    ("UNSYNCED_MAX", trailer::UNSYNCED_MAX as u64),
    ("SECTOR", tail::SECTOR),
    ("SEGMENT_CONTENT", indexed::SEGMENT_CONTENT as u64),
    ("PROBE_REACH", probe::FAR),
];

/// Name, offset and size of each member of a trailer's payload, in order.
pub const TRAILER_MEMBERS: [(&str, usize, usize); 13] = trailer::MEMBERS;

/// The first eight bytes of every trailer.
pub const TRAILER_HEADER: [u8; 8] = trailer::SKIPPABLE_HEADER;

/// The segment that segment `n` points back to.
#[must_use]
pub const fn jump(n: u32) -> u32 {
    seek::jump(n)
}

/// Whether `bytes`, standing at file offset `at`, hold a whole sector of zeros.
#[must_use]
pub fn holds_zero_sector(at: u64, bytes: &[u8]) -> bool {
    tail::holds_zero_sector(at, bytes)
}
