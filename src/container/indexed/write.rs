//! Turning rows into segments.

use std::iter;

use super::Jumps;
use super::walk::Walk;
use crate::container::batch::Batch;
use crate::container::crc::crc32;
use crate::container::fault::Fault;
use crate::container::side::{encode_each, rouse};
use crate::container::trailer::{BODY_LEN_MAX, LogId, Trailer, UNSYNCED_MAX};
use crate::container::write::BlockWriter;
use crate::container::zstd::{Encoder, LEVEL_STORE};

/// Bytes of rows in one segment, unless a single row is longer.
///
/// A reader decompresses a whole segment for one row, and segments of one append are compressed side by side: 128 KiB, which is
/// one block of Zstandard, costs two to three percent in size against twice as much, and a reader of a few rows half the time.
pub(crate) const SEGMENT_CONTENT: usize = 128 << 10;

/// A header line of up to so many bytes is stored as it is. Compression takes a seventh off one, about 20 bytes of a log, and every
/// listing would build the tables of that one frame to decode it: 3 us a session, as long as opening the file takes.
const STORED_HEADER_MAX: usize = 512;

/// Segments of a large append that are compressed before their bytes are put behind one another: as much memory.
const WINDOW: usize = 32;

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
        let of_header = if header.len() <= STORED_HEADER_MAX { Encoder::new(LEVEL_STORE) } else { encoder };
        of_header.encode(header, out);
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

    /// Appends the segment of `piece` to `out`; `frame` has its content, if that is compressed already.
    fn segment(
        &self,
        chain: &mut Chain,
        piece: &Piece<'_>,
        frame: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let start = out.len();
        match (piece.content, frame) {
            ([], _) => {}
            (content, Some(frame)) => Encoder::place_at(chain.end, content, frame, out)?,
            (content, None) => self.encoder.encode_at(chain.end, content, out)?,
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
        let outcome = self.segments(&mut chain, batch, commits, out);
        match outcome {
            Ok(()) => self.staged = Some(chain),
            Err(_) => out.truncate(start),
        }
        outcome
    }

    fn segments(
        &self,
        chain: &mut Chain,
        batch: &Batch<'_>,
        commits: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut pieces = pieces(batch, self.segment_content).peekable();
        while let Some(mut first) = pieces.next() {
            // What is only copied is copied to where it is wanted.
            if pieces.peek().is_none() || self.encoder.is_store() {
                first.is_last &= commits;
                self.segment(chain, &first, None, out)?;
                continue;
            }
            let window: Vec<_> = iter::once(first).chain(pieces.by_ref().take(WINDOW)).collect();
            let contents: Vec<_> = window.iter().map(|piece| piece.content).collect();
            let frames = encode_each(self.encoder, &contents);
            for (mut piece, frame) in window.into_iter().zip(&frames) {
                piece.is_last &= commits;
                self.segment(chain, &piece, Some(frame), out)?;
            }
        }
        Ok(())
    }
}

impl BlockWriter for IndexedWriter {
    fn announce(&self, bytes: usize) {
        if bytes > self.segment_content && !self.encoder.is_store() {
            rouse();
        }
    }

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
        self.segment(&mut chain, &marker, None, out)?;
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

/// Splits a batch at row borders into pieces of about the same size, at most `content_max` bytes, a longer row alone. An empty
/// batch has no piece.
fn pieces<'a>(batch: &'a Batch<'_>, content_max: usize) -> impl Iterator<Item = Piece<'a>> {
    let count = batch.content.len().div_ceil(content_max.max(1));
    let enough = batch.content.len().div_ceil(count.max(1));
    let mut rows = batch.rows.iter().peekable();
    let mut start = 0;
    iter::from_fn(move || {
        let mut piece = Piece { content: &[], events: 0, last_time: None, is_last: false };
        let mut end = start;
        while let Some(row) = rows.next_if(|row| {
            let (len, with_row) = (usize::saturating_sub(end, start), row.end.saturating_sub(start));
            len == 0 || (len < enough && with_row <= content_max)
        }) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::RowMark;

    /// Lengths of the pieces of rows of these lengths.
    fn lengths(rows: &[usize], content_max: usize) -> Vec<usize> {
        let content = vec![b'a'; rows.iter().sum()];
        let mut end = 0;
        let marks = rows.iter().map(|len| {
            end += len;
            RowMark { end, events: 1, last_time: 5 }
        });
        let marks: Vec<_> = marks.collect();
        let batch = Batch { content: &content, rows: &marks };
        let found: Vec<_> = pieces(&batch, content_max).collect();
        assert_eq!(found.iter().map(|piece| u64::from(piece.events)).sum::<u64>(), rows.len() as u64);
        assert_eq!(found.iter().filter(|piece| piece.is_last).count(), usize::from(!rows.is_empty()));
        assert_eq!(found.last().is_some_and(|piece| piece.is_last), !rows.is_empty());
        found.iter().map(|piece| piece.content.len()).collect()
    }

    #[test]
    fn a_large_append_is_cut_into_pieces_of_about_the_same_size() {
        assert_eq!(lengths(&[], 100), [0; 0]);
        assert_eq!(lengths(&[10; 10], 100), [100]);
        assert_eq!(lengths(&[10; 11], 100), [60, 50]);
        assert_eq!(lengths(&[10; 19], 100), [100, 90]);
        assert_eq!(lengths(&[10; 32], 100), [80; 4]);
    }

    #[test]
    fn a_row_above_the_bound_stands_alone_and_no_other_piece_passes_it() {
        assert_eq!(lengths(&[500], 100), [500]);
        assert_eq!(lengths(&[10, 500, 10], 100), [10, 500, 10]);
        assert_eq!(lengths(&[60, 60, 60], 100), [60, 60, 60]);
        assert_eq!(lengths(&[1; 5], 0), [1; 5]);
    }
}
