//! Where a kept state stands in its log, and what proves that everything before that is still the same.

use crate::container::crc32;
use crate::error::Result;
use crate::store::log_file::LogFile;
use crate::store::snapshot::FileRevision;

/// The place in a log behind the last event of a state.
///
/// A log whose revision is the anchor's is the very log, if nothing had touched it for two seconds when it was read. Any other may have
/// grown from it: then it is the same file, and the bytes at its start and those before the place are the same. In an indexed
/// log these hold a trailer that is chained to all before it, so no other prefix leads there. In the other encodings a change
/// that keeps the length of everything, the inode and both of these pieces is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Anchor {
    /// Of the log when it was read.
    pub(super) revision: FileRevision,
    /// It had not been changed for so long that no change could hide.
    pub(super) is_settled: bool,
    /// File offset behind the last event.
    pub(super) end: u64,
    /// CRC-32 of the first bytes before the end.
    pub(super) head_crc: u32,
    /// CRC-32 of the last bytes before the end.
    pub(super) tail_crc: u32,
}

/// Bytes of each piece that is compared.
const PIECE: u64 = 4 << 10;

impl Anchor {
    /// The anchor at `end` of `log`.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub(super) fn of(log: &LogFile, end: u64, is_settled: bool) -> Result<Self> {
        let (head_crc, tail_crc) = pieces(log, end)?;
        Ok(Self { revision: FileRevision::of(log.stamp()), is_settled, end, head_crc, tail_crc })
    }

    /// Whether the state is that of a whole log of this revision.
    pub(super) fn is_exact(&self, revision: &FileRevision) -> bool {
        self.is_settled && self.revision == *revision
    }

    /// Whether `log` begins with what the state was folded of.
    pub(super) fn holds(&self, log: &LogFile) -> bool {
        let now = FileRevision::of(log.stamp());
        let is_same_file = (now.device, now.inode) == (self.revision.device, self.revision.inode);
        is_same_file
            && self.end <= now.size
            && pieces(log, self.end).is_ok_and(|now| now == (self.head_crc, self.tail_crc))
    }
}

fn pieces(log: &LogFile, end: u64) -> Result<(u32, u32)> {
    let head = log.read_bytes(0..end.min(PIECE))?;
    let head = crc32(0, &head);
    if end <= PIECE {
        return Ok((head, head));
    }
    Ok((head, crc32(0, &log.read_bytes(end.saturating_sub(PIECE)..end)?)))
}
