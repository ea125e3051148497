//! Turning rows into segments.

use super::Jumps;
use super::walk::Walk;
use crate::container::batch::Batch;
use crate::container::crc::crc32;
use crate::container::fault::Fault;
use crate::container::trailer::{BODY_LEN_MAX, LogId, Trailer, UNSYNCED_MAX};
use crate::container::write::BlockWriter;
use crate::container::zstd::Encoder;

/// Bytes of rows in one segment, unless a single row is longer.
///
/// A reader decompresses a whole segment for one row, and a compressor gains little beyond it: 256 KiB keeps a read of the
/// last rows below a millisecond and costs two percent in size against megabytes.
pub(crate) const SEGMENT_CONTENT: usize = 256 << 10;

/// The end of a chain, and the next bytes of it.
#[derive(Debug)]
pub(crate) struct IndexedWriter {
    id: LogId,
    encoder: Encoder,
    written: Chain,
    staged: Option<Chain>,
    segment_content: usize,
}

#[derive(Clone, Debug)]
struct Chain {
    last: Trailer,
    end: u64,
    jumps: Jumps,
    durable: u64,
}

impl IndexedWriter {
    /// A new log; `header` is the header line with its newline. Appends segment 0 to `out`.
    ///
    /// # Errors
    /// [`Fault::BodyLimit`] for a header that does not fit a segment.
    pub(crate) fn create(
        id: LogId,
        header: &[u8],
        created_at: i64,
        level: i32,
        out: &mut Vec<u8>,
    ) -> Result<Self, Fault> {
        let encoder = Encoder::new(level);
        let start = out.len();
        encoder.encode(header, out);
        let body = out.get(start..).unwrap_or_default();
        let mut last = Trailer {
            commit: true,
            segment: 0,
            events: 0,
            prev_crc: 0,
            next_seq: 0,
            last_time: created_at,
            body_len: body_len(body)?,
            unsynced: 0,
            skip: id.get(),
            body_crc: crc32(0, body),
            crc: 0,
        };
        let stored = last.seal(id);
        out.extend_from_slice(&stored);
        let end = out.len().saturating_sub(start) as u64;
        let mut jumps = Jumps::default();
        jumps.push(0, end);
        let written = Chain { last, end, jumps, durable: 0 };
        Ok(Self { id, encoder, written, staged: None, segment_content: SEGMENT_CONTENT })
    }

    /// Goes on behind the last segment of a walk from the head. Bytes below `durable` are known to be synced.
    pub(crate) fn behind(walk: &Walk, durable: u64, level: i32) -> Self {
        let jumps = walk.jumps().cloned().unwrap_or_default();
        let written = Chain { last: *walk.previous(), end: walk.end(), jumps, durable };
        Self {
            id: walk.id(),
            encoder: Encoder::new(level),
            written,
            staged: None,
            segment_content: SEGMENT_CONTENT,
        }
    }

    fn segment(&mut self, chain: &mut Chain, piece: &Piece<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        if !piece.content.is_empty() {
            self.encoder.encode_at(chain.end, piece.content, out)?;
        }
        let body = out.get(start..).unwrap_or_default();
        let segment = chain.last.segment.checked_add(1).ok_or(Fault::Chain {
            member: "segment",
            expected: u64::from(u32::MAX),
            got: u64::from(u32::MAX).saturating_add(1),
        })?;
        let body_len = body_len(body)?;
        let end = chain
            .end
            .saturating_add(u64::from(body_len))
            .saturating_add(super::super::trailer::TRAILER_LEN as u64);
        let unsynced = chain.end.saturating_sub(chain.durable);
        let unsynced = u32::try_from(unsynced)
            .ok()
            .filter(|&bytes| bytes < UNSYNCED_MAX)
            .ok_or(Fault::BodyLimit { len: unsynced, limit: u64::from(UNSYNCED_MAX) })?;
        let mut trailer = Trailer {
            commit: piece.is_last,
            segment,
            events: piece.events,
            prev_crc: if chain.last.segment == 0 { 0 } else { chain.last.crc },
            next_seq: chain.last.next_seq.saturating_add(u64::from(piece.events)),
            last_time: piece.last_time.unwrap_or(chain.last.last_time),
            body_len,
            unsynced,
            skip: chain.jumps.push(segment, end),
            body_crc: crc32(0, body),
            crc: 0,
        };
        let stored = trailer.seal(self.id);
        out.extend_from_slice(&stored);
        chain.last = trailer;
        chain.end = end;
        Ok(())
    }

    fn stage_segments(&mut self, batch: &Batch<'_>, commits: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        let mut chain = self.staged.clone().unwrap_or_else(|| self.written.clone());
        let outcome = pieces(batch, self.segment_content).try_for_each(|mut piece| {
            piece.is_last &= commits;
            self.segment(&mut chain, &piece, out)
        });
        match outcome {
            Ok(()) => self.staged = Some(chain),
            Err(_) => out.truncate(start),
        }
        outcome
    }
}

impl BlockWriter for IndexedWriter {
    fn stage(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.stage_segments(batch, true, out)
    }

    fn stage_part(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.stage_segments(batch, false, out)
    }

    fn set_segment_content(&mut self, bytes: usize) {
        self.segment_content = bytes;
    }

    fn staged_is_durable(&mut self) {
        if let Some(staged) = &mut self.staged {
            staged.durable = staged.end;
        } else {
            self.written.durable = self.written.end;
        }
    }

    fn unsynced_max(&self) -> u64 {
        // Half of what a trailer can say: the other half is for the rows of one more write.
        u64::from(UNSYNCED_MAX / 2)
    }

    fn stage_marker(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut chain = self.staged.take().unwrap_or_else(|| self.written.clone());
        let marker = Piece { content: &[], events: 0, last_time: None, is_last: true };
        self.segment(&mut chain, &marker, out)?;
        self.staged = Some(chain);
        Ok(())
    }

    fn accept(&mut self, synced: bool) {
        if let Some(staged) = self.staged.take() {
            self.written = staged;
        }
        if synced {
            self.written.durable = self.written.end;
        }
    }

    fn discard(&mut self) {
        self.staged = None;
    }

    fn end(&self) -> u64 {
        self.written.end
    }

    fn is_committed(&self) -> bool {
        self.written.last.commit
    }
}

/// Rows of one segment.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    content: &'a [u8],
    events: u32,
    last_time: Option<i64>,
    is_last: bool,
}

/// Splits a batch at row borders into pieces of at most `content_max` bytes, a longer row alone. An empty batch has no piece.
fn pieces<'a>(batch: &'a Batch<'_>, content_max: usize) -> impl Iterator<Item = Piece<'a>> {
    let mut rows = batch.rows.iter().peekable();
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut piece = Piece { content: &[], events: 0, last_time: None, is_last: false };
        let mut end = start;
        while let Some(row) = rows.next_if(|row| end == start || row.end.saturating_sub(start) <= content_max)
        {
            end = row.end;
            piece.events = piece.events.saturating_add(row.events);
            piece.last_time = Some(row.last_time);
        }
        piece.content = batch.content.get(start..end)?;
        piece.is_last = rows.peek().is_none();
        start = end;
        (!piece.content.is_empty()).then_some(piece)
    })
}

fn body_len(body: &[u8]) -> Result<u32, Fault> {
    u32::try_from(body.len())
        .ok()
        .filter(|&len| len <= BODY_LEN_MAX)
        .ok_or(Fault::BodyLimit { len: body.len() as u64, limit: u64::from(BODY_LEN_MAX) })
}
