//! How a log ends: complete, unfinished, torn, damaged or corrupt. One function decides for all encodings.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Judging the end".

use super::fault::{Fault, ReadError};
use super::source::Source;

/// Bytes that a disk writes whole or not at all.
pub(crate) const SECTOR: u64 = 512;
const SECTOR_LEN: usize = 512;
/// No sound record ends with this many zeros: an indexed one ends with two CRC-32, a framed one with a checksum.
const ENDS_NONZERO: usize = 8;

/// What became of the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TailState {
    /// The last byte ends the last append.
    Complete,
    /// All records are whole, but the append that they belong to has no end: it was cut at a border.
    Unfinished,
    /// The last append was cut short, proved by missing bytes or by sectors that never reached the disk.
    Torn,
    /// The end does not fit, and nothing proves that a crash did it: a flipped bit in the last append looks like this.
    Damaged,
    /// Bytes that had been synced are damaged.
    Corrupt,
    /// The bytes ask for something that this build does not know, or for more than its limits allow.
    Unsupported,
}

/// The judged end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tail {
    /// The verdict.
    pub state: TailState,
    /// P: file offset behind the last good record. Reading stops here.
    pub good_end: u64,
    /// D: bytes below had been synced when something later was written. Never above `good_end` unless corrupt.
    pub durable: u64,
    /// Length of the file.
    pub len: u64,
    /// Whether the last good record ended an append.
    pub committed: bool,
    /// What stands at `good_end` instead of a record; absent where the file ends there.
    pub fault: Option<Fault>,
}

impl Tail {
    /// Bytes behind the last good record.
    #[must_use]
    pub const fn excess(&self) -> u64 {
        self.len.saturating_sub(self.good_end)
    }

    /// Whether an append may go on here, after a repair if need be.
    #[must_use]
    pub const fn is_appendable(&self) -> bool {
        matches!(self.state, TailState::Complete | TailState::Unfinished | TailState::Torn)
    }

    /// Whether the next append must repair first.
    #[must_use]
    pub const fn needs_repair(&self) -> bool {
        self.excess() > 0 || !self.committed
    }
}

/// What a forward walk knows when it stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    /// P: end of the last good record.
    pub(crate) good_end: u64,
    /// D by the trailers up to there; without trailers the start of the last good frame, or `good_end` itself.
    pub(crate) durable: u64,
    /// Whether the last good record ended an append.
    pub(crate) committed: bool,
    /// Why the walk stopped; `None` at the end of the file.
    pub(crate) fault: Option<Fault>,
    /// What a search behind `good_end` found.
    pub(crate) later: Later,
}

/// Intact records behind the place where a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// None.
    Nothing,
    /// At least one, none of which vouches for bytes behind the stop.
    Intact,
    /// One that vouches that bytes up to this offset, behind the stop, had been synced.
    Durable(u64),
}

/// Which zeros behind the stop prove that a write never reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// Any aligned sector: no sound record of ours holds one.
    AnySector,
    /// Only zeros that reach the end of the file: a line may hold anything.
    ToTheEnd,
}

/// Decides what a stop means.
///
/// Reads the bytes behind `stop.good_end` once, looking for zeros.
///
/// # Errors
/// Whatever reading gives.
pub(crate) fn judge(source: &mut dyn Source, stop: Stop, zeros: Zeros) -> Result<Tail, ReadError> {
    let state = match (stop.fault, stop.later) {
        (None, _) if stop.committed => TailState::Complete,
        (None, _) => TailState::Unfinished,
        (Some(fault), _) if fault.is_unsupported() => TailState::Unsupported,
        (Some(_), Later::Durable(boundary)) if boundary > stop.good_end => TailState::Corrupt,
        (Some(Fault::Truncated), Later::Nothing) if zeros == Zeros::AnySector => TailState::Torn,
        (Some(fault), _) => match (zeros, zeros_behind(source, stop.good_end)?) {
            (Zeros::AnySector, found) if found.sector => TailState::Torn,
            (Zeros::ToTheEnd, found) if fault == Fault::Truncated && found.only_at_the_end => TailState::Torn,
            _ => TailState::Damaged,
        },
    };
    let durable = match stop.later {
        Later::Durable(boundary) => stop.durable.max(boundary),
        Later::Nothing | Later::Intact => stop.durable,
    };
    let Stop { good_end, committed, fault, .. } = stop;
    Ok(Tail { state, good_end, durable, len: source.size(), committed, fault })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZerosFound {
    /// An aligned sector behind the start is zero, or all bytes from the start to the next border are.
    sector: bool,
    /// Nothing is zero, or a run that ends with the file and nothing else.
    only_at_the_end: bool,
}

fn zeros_behind(source: &mut dyn Source, start: u64) -> Result<ZerosFound, ReadError> {
    let len = source.size();
    let mut at = start;
    let mut sector = false;
    let mut tail_is_zero = false;
    let mut zero_before_data = false;
    while at < len {
        let border = at
            .checked_next_multiple_of(SECTOR)
            .filter(|&border| border > at)
            .unwrap_or(at.saturating_add(SECTOR));
        let end = border.min(len);
        let piece = usize::try_from(end.saturating_sub(at)).unwrap_or(0);
        let bytes = source.get(at, piece)?;
        let all_zero = bytes.iter().all(|&byte| byte == 0);
        // The file's end may cut the last sector short. Records of ours end with a CRC or a checksum behind other bytes, so
        // eight zeros there were never written; fewer prove nothing, unless they are all there is.
        let is_proof = end == border || at == start || piece >= ENDS_NONZERO;
        sector |= all_zero && is_proof;
        for &byte in bytes {
            zero_before_data |= tail_is_zero && byte != 0;
            tail_is_zero = byte == 0;
        }
        at = end;
    }
    Ok(ZerosFound { sector, only_at_the_end: !zero_before_data })
}

/// Whether bytes that will stand at file offset `at` hold an aligned sector of zeros.
///
/// A writer refuses to write such a body, so that zeros always prove a write that did not land.
pub(crate) fn holds_zero_sector(at: u64, bytes: &[u8]) -> bool {
    let skip = at.checked_next_multiple_of(SECTOR).map_or(0, |border| border.saturating_sub(at));
    let Some(aligned) = usize::try_from(skip).ok().and_then(|skip| bytes.get(skip..)) else { return false };
    aligned.as_chunks::<SECTOR_LEN>().0.iter().any(|sector| sector.iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(good_end: u64, fault: Option<Fault>, later: Later) -> Stop {
        Stop { good_end, durable: 0, committed: true, fault, later }
    }

    fn state(bytes: &[u8], stop: Stop, zeros: Zeros) -> TailState {
        judge(&mut { bytes }, stop, zeros).unwrap().state
    }

    #[test]
    fn the_end_of_the_file_is_complete_or_unfinished() {
        let whole = stop(3, None, Later::Nothing);
        assert_eq!(state(b"abc", whole, Zeros::AnySector), TailState::Complete);
        assert_eq!(
            state(b"abc", Stop { committed: false, ..whole }, Zeros::AnySector),
            TailState::Unfinished
        );
    }

    #[test]
    fn a_cut_is_torn_only_if_nothing_intact_follows() {
        let cut = Some(Fault::Truncated);
        assert_eq!(state(&[1; 900], stop(3, cut, Later::Nothing), Zeros::AnySector), TailState::Torn);
        assert_eq!(state(&[1; 900], stop(3, cut, Later::Intact), Zeros::AnySector), TailState::Damaged);
        assert_eq!(state(&[1; 900], stop(3, cut, Later::Durable(3)), Zeros::AnySector), TailState::Damaged);
        assert_eq!(state(&[1; 900], stop(3, cut, Later::Durable(4)), Zeros::AnySector), TailState::Corrupt);
    }

    #[test]
    fn a_zero_sector_proves_a_tear_and_a_zero_byte_does_not() {
        let bad = Some(Fault::FrameMagic { found: 0 });
        let mut bytes = vec![1; 2048];
        assert_eq!(state(&bytes, stop(700, bad, Later::Intact), Zeros::AnySector), TailState::Damaged);
        bytes[1024..1535].fill(0);
        assert_eq!(state(&bytes, stop(700, bad, Later::Intact), Zeros::AnySector), TailState::Damaged);
        bytes[1535] = 0;
        assert_eq!(state(&bytes, stop(700, bad, Later::Intact), Zeros::AnySector), TailState::Torn);
        // From P to the border.
        let mut bytes = vec![1; 2048];
        bytes[700..1024].fill(0);
        assert_eq!(state(&bytes, stop(700, bad, Later::Nothing), Zeros::AnySector), TailState::Torn);
        assert_eq!(state(&bytes, stop(699, bad, Later::Nothing), Zeros::AnySector), TailState::Damaged);
        // A last sector that the file's end cuts short: eight zeros are proof, seven may be the end of a sound record.
        for (zeros, verdict) in [(1, TailState::Damaged), (7, TailState::Damaged), (8, TailState::Torn)] {
            let mut bytes = vec![1; 1024 + zeros];
            bytes[1024..].fill(0);
            assert_eq!(state(&bytes, stop(700, bad, Later::Nothing), Zeros::AnySector), verdict, "{zeros}");
        }
    }

    #[test]
    fn in_plain_text_only_zeros_that_reach_the_end_are_torn() {
        let cut = Some(Fault::Truncated);
        let text = |bytes: &[u8]| state(bytes, stop(2, cut, Later::Nothing), Zeros::ToTheEnd);
        assert_eq!(text(b"{}half"), TailState::Torn);
        assert_eq!(text(b"{}half\0\0\0"), TailState::Torn);
        assert_eq!(text(b"{}\0\0"), TailState::Torn);
        assert_eq!(text(b"{}half\0\0more"), TailState::Damaged);
    }

    #[test]
    fn what_is_not_known_is_not_called_corrupt() {
        for beyond in [
            Fault::TrailerVersion { found: 2 },
            Fault::WindowLimit { window: 2, limit: 1 },
            Fault::ContentLimit { content: 2, limit: 1 },
            Fault::LineLimit { limit: 1 },
            Fault::BodyLimit { len: 2, limit: 1 },
        ] {
            for later in [Later::Nothing, Later::Intact, Later::Durable(9)] {
                let stop = stop(3, Some(beyond), later);
                assert_eq!(
                    state(&[0; 2048], stop, Zeros::AnySector),
                    TailState::Unsupported,
                    "{beyond}, {later:?}"
                );
            }
        }
    }

    #[test]
    fn zero_sectors_count_where_they_will_stand() {
        let zeros = [0; 600];
        assert!(holds_zero_sector(0, &zeros));
        assert!(holds_zero_sector(424, &zeros));
        assert!(!holds_zero_sector(423, &zeros), "88 bytes to the border, then 511");
        assert!(!holds_zero_sector(0, &[1; 4096]));
    }
}
