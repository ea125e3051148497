//! Backward from the end of the file: hints for counting, listing and seeking, each proved by what it points at.

use std::ops::Range;

use super::Jumps;
use super::walk::{Walk, trailer_at};
use crate::container::fault::{Fault, ReadError};
use crate::container::seek::{Descent, jump};
use crate::container::source::Source;
use crate::container::trailer::{LogId, TRAILER_LEN, Trailer};

/// A trailer and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) trailer: Trailer,
    pub(crate) end: u64,
}

/// The trailer that the file's last 64 bytes are, if they are one of the log `id`.
///
/// A hint: only the forward walk proves that the chain reaches it.
pub(crate) fn last_trailer(source: &mut dyn Source, id: LogId) -> Result<Option<Hop>, ReadError> {
    let end = source.size();
    let Some(at) = end.checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
    let trailer = Trailer::parse(&trailer_at(source, at)?, id).ok();
    Ok(trailer.filter(|trailer| trailer.body_start(end).is_some()).map(|trailer| Hop { trailer, end }))
}

/// Bytes from the start of an indexed file that its last trailer says were synced before it was written; 0 where there is
/// no such trailer. Nobody writes below again, so that much may be mapped.
pub(crate) fn durable_hint(source: &mut dyn Source) -> u64 {
    let Ok((walk, _)) = Walk::start(source) else { return 0 };
    let last = last_trailer(source, walk.id()).ok().flatten();
    last.and_then(|hop| hop.trailer.durable_boundary(hop.end)).unwrap_or(0)
}

impl Hop {
    /// The trailer of the segment before.
    ///
    /// # Errors
    /// [`Fault::Chain`] if another segment stands there, and what [`Trailer::parse`] finds.
    pub(crate) fn previous(self, source: &mut dyn Source, id: LogId) -> Result<Self, ReadError> {
        let segment = self.trailer.segment.checked_sub(1);
        self.to(source, id, self.trailer.body_start(self.end), segment)
    }

    /// The trailer that the skip distance leads to.
    ///
    /// # Errors
    /// As [`Hop::previous`].
    pub(crate) fn skip(self, source: &mut dyn Source, id: LogId) -> Result<Self, ReadError> {
        let segment = (self.trailer.segment > 0).then(|| jump(self.trailer.segment));
        self.to(source, id, self.trailer.skip_to(self.end), segment)
    }

    /// The segment that ends where this trailer says that all before had been synced. A crash may have damaged what follows,
    /// even if this trailer landed. `None` if nothing had been.
    ///
    /// # Errors
    /// What [`Trailer::parse`] finds there.
    pub(crate) fn durable(self, source: &mut dyn Source, id: LogId) -> Result<Option<Self>, ReadError> {
        let boundary = self.trailer.durable_boundary(self.end).unwrap_or(0);
        let Some(at) = boundary.checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
        let stored = trailer_at(source, at)?;
        let trailer = Trailer::parse(&stored, id).map_err(|fault| ReadError::bad(at, fault))?;
        Ok(Some(Self { trailer, end: boundary }))
    }

    /// The last segment that ends at or before event `seq`, hopping back O(log segments) trailers.
    ///
    /// A forward walk from behind it meets `seq` in its first segment with events, or the log has no such event.
    ///
    /// # Errors
    /// As [`Hop::previous`].
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn before(self, source: &mut dyn Source, id: LogId, seq: u64) -> Result<Self, ReadError> {
        self.around(source, id, seq..u64::MAX).map(|(before, _)| before)
    }

    /// As [`Hop::before`] of the first of the events `seqs`; and the first segment on the way there that ends behind all of them,
    /// if there was one.
    ///
    /// # Errors
    /// As [`Hop::previous`].
    pub(crate) fn around(
        self,
        source: &mut dyn Source,
        id: LogId,
        seqs: Range<u64>,
    ) -> Result<(Self, Option<Self>), ReadError> {
        let seq = seqs.start;
        let mut behind = Some(self).filter(|hop| hop.trailer.next_seq >= seqs.end);
        if self.trailer.next_seq <= seq || self.trailer.segment == 0 {
            return Ok((self, behind));
        }
        let (mut above, mut found) = (self, self);
        let mut descent = Descent::from(self.trailer.segment);
        while let Some(segment) = descent.next() {
            let is_neighbour = above.trailer.segment.checked_sub(1) == Some(segment);
            let hop = if is_neighbour { above.previous(source, id)? } else { above.skip(source, id)? };
            let holds = hop.trailer.next_seq <= seq;
            descent.enter(segment, holds);
            if hop.trailer.next_seq >= seqs.end {
                behind = Some(hop);
            }
            if holds {
                found = hop;
            } else {
                above = hop;
            }
        }
        Ok((found, behind))
    }

    /// Where the skip distances behind this trailer lead: it, the one its own distance leads to, and so on down to `first`,
    /// the header's. Reads O(log segments) trailers.
    ///
    /// # Errors
    /// As [`Hop::previous`], and [`Fault::Chain`] if the way does not end at `first`.
    pub(crate) fn jumps(self, source: &mut dyn Source, first: Self, id: LogId) -> Result<Jumps, ReadError> {
        let mut ends = vec![(self.trailer.segment, self.end)];
        let mut hop = self;
        while hop.trailer.segment > 0 {
            hop = hop.skip(source, id)?;
            ends.push((hop.trailer.segment, hop.end));
        }
        if hop != first {
            let at = hop.end.saturating_sub(TRAILER_LEN as u64);
            return Err(ReadError::bad(
                at,
                Fault::Chain { member: "skip", expected: first.end, got: hop.end },
            ));
        }
        ends.reverse();
        Ok(Jumps { ends })
    }

    fn to(
        self,
        source: &mut dyn Source,
        id: LogId,
        end: Option<u64>,
        segment: Option<u32>,
    ) -> Result<Self, ReadError> {
        let bad = |got: u64| {
            ReadError::bad(
                self.end.saturating_sub(TRAILER_LEN as u64),
                Fault::Chain { member: "skip", expected: u64::from(segment.unwrap_or(0)), got },
            )
        };
        let (Some(end), Some(segment)) = (end, segment) else { return Err(bad(self.trailer.skip)) };
        let at = end.checked_sub(TRAILER_LEN as u64).ok_or_else(|| bad(end))?;
        let stored = trailer_at(source, at)?;
        let trailer = Trailer::parse(&stored, id).map_err(|fault| ReadError::bad(at, fault))?;
        if trailer.segment == segment {
            Ok(Self { trailer, end })
        } else {
            Err(bad(u64::from(trailer.segment)))
        }
    }
}
