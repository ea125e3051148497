//! The 64 bytes behind every body: a skippable frame that counts events, chains segments and proves the body.
//!
//! Spec: `format-spec/03-trailer.md`.

use std::mem::{offset_of, size_of};

use bytemuck::{Pod, Zeroable};

use super::crc::crc32;
use super::fault::Fault;
use super::raw::pod::{I64Le, U32Le, U64Le};

/// Stored length of a trailer, skippable frame header included.
pub const TRAILER_LEN: usize = 64;
/// Longest body of a segment in bytes.
pub(crate) const BODY_LEN_MAX: u32 = 256 << 20;
/// A writer syncs before `unsynced` reaches this.
pub(crate) const UNSYNCED_MAX: u32 = 1 << 30;

/// A skippable frame of 56 bytes (RFC 8878, 3.1.2).
pub(crate) const SKIPPABLE_HEADER: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0];
const MAGIC: [u8; 2] = *b"SL";
const VERSION: u8 = 1;
const FLAG_COMMIT: u8 = 1;
const FLAGS_RESERVED: u8 = 0b1110;
/// Payload bytes that `trailer_crc` covers.
const CRC_COVERS: usize = 52;

/// The payload as stored. Nothing is checked; [`Trailer::parse`] does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTrailer {
    magic: [u8; 2],
    version: u8,
    flags: u8,
    segment: U32Le,
    events: U32Le,
    prev_crc: U32Le,
    next_seq: U64Le,
    last_time: I64Le,
    body_len: U32Le,
    unsynced: U32Le,
    skip: U64Le,
    body_crc: U32Le,
    trailer_crc: U32Le,
}

const _: () = {
    assert!(size_of::<RawTrailer>() == 56 && align_of::<RawTrailer>() == 1);
    assert!(offset_of!(RawTrailer, version) == 2 && offset_of!(RawTrailer, flags) == 3);
    assert!(offset_of!(RawTrailer, segment) == 4 && offset_of!(RawTrailer, events) == 8);
    assert!(offset_of!(RawTrailer, prev_crc) == 12 && offset_of!(RawTrailer, next_seq) == 16);
    assert!(offset_of!(RawTrailer, last_time) == 24 && offset_of!(RawTrailer, body_len) == 32);
    assert!(offset_of!(RawTrailer, unsynced) == 36 && offset_of!(RawTrailer, skip) == 40);
    assert!(offset_of!(RawTrailer, body_crc) == 48 && offset_of!(RawTrailer, trailer_crc) == CRC_COVERS);
};

/// Name, offset and size of each member, in order.
pub(super) const MEMBERS: [(&str, usize, usize); 13] = {
    macro_rules! members {
        ($($name:ident: $type:ty,)*) => {
            [$((stringify!($name), offset_of!(RawTrailer, $name), size_of::<$type>()),)*]
        };
    }
    members! {
        magic: [u8; 2],
        version: u8,
        flags: u8,
        segment: U32Le,
        events: U32Le,
        prev_crc: U32Le,
        next_seq: U64Le,
        last_time: I64Le,
        body_len: U32Le,
        unsynced: U32Le,
        skip: U64Le,
        body_crc: U32Le,
        trailer_crc: U32Le,
    }
};

/// A random, non-zero number that every trailer of one file is sealed with.
///
/// Bytes of another life of the file, or of another file, never pass for its own: their CRC started elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId(u64);

impl LogId {
    /// `None` for zero, which is never written.
    #[must_use]
    pub const fn new(id: u64) -> Option<Self> {
        if id == 0 { None } else { Some(Self(id)) }
    }

    /// The number as stored in the first trailer's `skip`.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    const fn crc_start(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// A trailer whose CRC, version and flags were checked. How it fits its neighbours is checked by [`Trailer::follows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Whether this is the last segment of an append.
    pub(crate) commit: bool,
    /// Number of the segment; 0 holds the header line.
    pub(crate) segment: u32,
    /// Logical events in the body.
    pub(crate) events: u32,
    /// `crc` of the trailer before, 0 in segments 0 and 1.
    pub(crate) prev_crc: u32,
    /// Events in the log up to and including this segment.
    pub(crate) next_seq: u64,
    /// Unix milliseconds of the last event so far.
    pub(crate) last_time: i64,
    /// Bytes between the trailer before and this one.
    pub(crate) body_len: u32,
    /// Bytes between the durable boundary and the body's start when this was written.
    pub(crate) unsynced: u32,
    /// Segment 0: the log id. Else: bytes between the end of trailer `jump(segment)` and the end of this one.
    pub(crate) skip: u64,
    /// CRC-32 of the body.
    pub(crate) body_crc: u32,
    /// This trailer's own CRC.
    pub(crate) crc: u32,
}

impl Trailer {
    /// Checks the stored bytes of the first trailer, which carries the log id itself.
    ///
    /// # Errors
    /// As [`Trailer::parse`], and [`Fault::LogId`].
    pub(crate) fn parse_first(stored: &[u8; TRAILER_LEN]) -> Result<(Self, LogId), Fault> {
        let raw = split(stored)?;
        let id = LogId::new(raw.skip.get()).ok_or(Fault::LogId)?;
        let trailer = Self::parse(stored, id)?;
        expect("segment", 0, u64::from(trailer.segment))?;
        expect("events", 0, u64::from(trailer.events))?;
        expect("prev_crc", 0, u64::from(trailer.prev_crc))?;
        expect("next_seq", 0, trailer.next_seq)?;
        expect("unsynced", 0, u64::from(trailer.unsynced))?;
        expect("flags", 1, u64::from(trailer.commit))?;
        Ok((trailer, id))
    }

    /// Checks the stored bytes of a trailer, skippable header included, of the log `id`.
    ///
    /// # Errors
    /// In this order: [`Fault::TrailerMagic`], [`Fault::TrailerCrc`], [`Fault::TrailerVersion`], [`Fault::TrailerFlags`].
    pub(crate) fn parse(stored: &[u8; TRAILER_LEN], id: LogId) -> Result<Self, Fault> {
        let raw = split(stored)?;
        let computed = raw.crc(id);
        let stored = raw.trailer_crc.get();
        if computed != stored {
            return Err(Fault::TrailerCrc { stored, computed });
        }
        if raw.version != VERSION {
            return Err(Fault::TrailerVersion { found: raw.version });
        }
        if raw.flags & FLAGS_RESERVED != 0 {
            return Err(Fault::TrailerFlags { found: raw.flags });
        }
        Ok(Self {
            commit: raw.flags & FLAG_COMMIT != 0,
            segment: raw.segment.get(),
            events: raw.events.get(),
            prev_crc: raw.prev_crc.get(),
            next_seq: raw.next_seq.get(),
            last_time: raw.last_time.get(),
            body_len: raw.body_len.get(),
            unsynced: raw.unsynced.get(),
            skip: raw.skip.get(),
            body_crc: raw.body_crc.get(),
            crc: stored,
        })
    }

    /// Seals the trailer for the log `id` and returns its stored bytes; `self.crc` is set to the seal.
    pub(crate) fn seal(&mut self, id: LogId) -> [u8; TRAILER_LEN] {
        let mut raw = RawTrailer {
            magic: MAGIC,
            version: VERSION,
            flags: if self.commit { FLAG_COMMIT } else { 0 },
            segment: U32Le::new(self.segment),
            events: U32Le::new(self.events),
            prev_crc: U32Le::new(self.prev_crc),
            next_seq: U64Le::new(self.next_seq),
            last_time: I64Le::new(self.last_time),
            body_len: U32Le::new(self.body_len),
            unsynced: U32Le::new(self.unsynced),
            skip: U64Le::new(self.skip),
            body_crc: U32Le::new(self.body_crc),
            trailer_crc: U32Le::new(0),
        };
        self.crc = raw.crc(id);
        raw.trailer_crc = U32Le::new(self.crc);
        let mut stored = [0; TRAILER_LEN];
        let (header, payload) = stored.split_at_mut(SKIPPABLE_HEADER.len());
        header.copy_from_slice(&SKIPPABLE_HEADER);
        payload.copy_from_slice(bytemuck::bytes_of(&raw));
        stored
    }

    /// Checks that this trailer, which ends at `end`, continues the chain behind `previous`, which ends at `previous_end`.
    ///
    /// Not checked here: the body, and the skip distance, which needs the end of an older trailer ([`Trailer::skip_to`]).
    ///
    /// # Errors
    /// [`Fault::Chain`] with the first member that does not fit.
    pub(crate) fn follows(&self, previous: &Self, previous_end: u64, end: u64) -> Result<(), Fault> {
        expect("segment", u64::from(previous.segment).saturating_add(1), u64::from(self.segment))?;
        let prev_crc = if previous.segment == 0 { 0 } else { previous.crc };
        expect("prev_crc", u64::from(prev_crc), u64::from(self.prev_crc))?;
        expect("next_seq", previous.next_seq.saturating_add(u64::from(self.events)), self.next_seq)?;
        let body_len = end.saturating_sub(previous_end).saturating_sub(TRAILER_LEN as u64);
        expect("body_len", body_len, u64::from(self.body_len))?;
        if self.body_len == 0 || self.events == 0 {
            expect("last_time", previous.last_time.cast_unsigned(), self.last_time.cast_unsigned())?;
        }
        if self.body_len == 0 {
            expect("events", 0, u64::from(self.events))?;
            expect("flags", 1, u64::from(self.commit))?;
        }
        Ok(())
    }

    /// The file offset at which trailer [`jump`](super::seek::jump)`(segment)` ends, by this trailer's skip distance.
    ///
    /// `None` if the distance leads out of the file.
    pub(crate) fn skip_to(&self, end: u64) -> Option<u64> {
        end.checked_sub(self.skip).filter(|&target| target >= TRAILER_LEN as u64 && self.segment > 0)
    }

    /// Where the body starts, given the end of this trailer; `None` if it would start before the file.
    pub(crate) fn body_start(&self, end: u64) -> Option<u64> {
        end.checked_sub(TRAILER_LEN as u64)?.checked_sub(u64::from(self.body_len))
    }

    /// The durable boundary that this trailer vouches for, given its end; `None` if it would lie before the file, as it does
    /// for the first append behind a header that was replaced by a shorter one: nothing is vouched for then.
    pub(crate) fn durable_boundary(&self, end: u64) -> Option<u64> {
        self.body_start(end)?.checked_sub(u64::from(self.unsynced))
    }
}

impl RawTrailer {
    fn crc(&self, id: LogId) -> u32 {
        let payload = bytemuck::bytes_of(self);
        crc32(id.crc_start(), payload.get(..CRC_COVERS).unwrap_or(payload))
    }
}

fn split(stored: &[u8; TRAILER_LEN]) -> Result<RawTrailer, Fault> {
    let (header, payload) = stored.split_at(SKIPPABLE_HEADER.len());
    let raw: RawTrailer = bytemuck::pod_read_unaligned(payload);
    if header == SKIPPABLE_HEADER && raw.magic == MAGIC { Ok(raw) } else { Err(Fault::TrailerMagic) }
}

fn expect(member: &'static str, expected: u64, got: u64) -> Result<(), Fault> {
    if expected == got { Ok(()) } else { Err(Fault::Chain { member, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LogId = LogId(0x5eed_10c0_ffee_0001);

    fn sample() -> Trailer {
        Trailer {
            commit: true,
            segment: 3,
            events: 2,
            prev_crc: 0x1a2b_3c4d,
            next_seq: 102,
            last_time: 1_767_225_600_000,
            body_len: 9,
            unsynced: 0,
            skip: 1024,
            body_crc: crc32(0, b"123456789"),
            crc: 0,
        }
    }

    #[test]
    fn sealed_bytes_are_those_of_the_specification() {
        let mut trailer = sample();
        let stored = trailer.seal(ID);
        assert_eq!(trailer.crc, 0x75ef_933f);
        assert_eq!(stored[..12], [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0, b'S', b'L', 1, 1]);
        assert_eq!(Trailer::parse(&stored, ID), Ok(trailer));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let stored = sample().seal(ID);
        for bit in 0..TRAILER_LEN * 8 {
            let mut bad = stored;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Trailer::parse(&bad, ID).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_log_id_never_fits() {
        let stored = sample().seal(ID);
        assert!(matches!(Trailer::parse(&stored, LogId(2)), Err(Fault::TrailerCrc { .. })));
    }

    #[test]
    fn version_is_judged_after_the_crc_and_before_the_flags() {
        let reseal = |at: usize, value: u8| {
            let mut stored = sample().seal(ID);
            stored[8 + at] = value;
            let crc = crc32(ID.crc_start(), &stored[8..60]);
            stored[60..].copy_from_slice(&crc.to_le_bytes());
            Trailer::parse(&stored, ID)
        };
        assert_eq!(reseal(2, 2), Err(Fault::TrailerVersion { found: 2 }));
        assert_eq!(reseal(3, 0b0011), Err(Fault::TrailerFlags { found: 3 }));
        assert!(reseal(3, 0b1111_0001).is_ok(), "unused flags are ignored");
    }

    #[test]
    fn chain_members_are_each_demanded() {
        let mut previous = Trailer { segment: 2, next_seq: 100, ..sample() };
        previous.seal(ID);
        let next = Trailer { prev_crc: previous.crc, ..sample() };
        let check = |next: Trailer| next.follows(&previous, 1000, 1000 + 9 + 64);
        assert_eq!(check(next), Ok(()));
        for (bad, member) in [
            (Trailer { segment: 4, ..next }, "segment"),
            (Trailer { prev_crc: 0, ..next }, "prev_crc"),
            (Trailer { next_seq: 103, ..next }, "next_seq"),
            (Trailer { body_len: 10, ..next }, "body_len"),
        ] {
            assert!(
                matches!(check(bad), Err(Fault::Chain { member: named, .. }) if named == member),
                "{member}"
            );
        }
    }

    #[test]
    fn log_id_zero_is_refused() {
        let mut first = Trailer { segment: 0, events: 0, next_seq: 0, prev_crc: 0, skip: 0, ..sample() };
        assert_eq!(Trailer::parse_first(&first.seal(ID)), Err(Fault::LogId));
        first.skip = ID.get();
        assert_eq!(Trailer::parse_first(&first.seal(ID)).map(|(_, id)| id), Ok(ID));
    }
}
