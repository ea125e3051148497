//! Segments as blocks.

use super::hop::Hop;
use super::walk::{Segment, Walk, WalkStop};
use super::write::IndexedWriter;
use crate::container::fault::{Fault, ReadError};
use crate::container::read::{Block, BlockReader, Counted, Kept, Skipped, check_lines};
use crate::container::source::Source;
use crate::container::tail::{Tail, TailState};
use crate::container::trailer::LogId;
use crate::container::write::BlockWriter;
use crate::container::zstd::Decoder;
use crate::limits::Limits;

/// Reads an indexed log forward.
#[derive(Debug)]
pub(crate) struct IndexedReader {
    decoder: Decoder,
    limits: Limits,
    walk: Option<Walk>,
    tail: Option<Tail>,
    /// Text offset of the next block's content.
    content_start: u64,
    next_index: u64,
    /// Number of the segment that was looked at last.
    index: u64,
    /// Where the last error stands, until it is skipped.
    damage: Option<u64>,
    /// A body's CRC will do for its content.
    trusts_bodies: bool,
}

impl IndexedReader {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            decoder: Decoder::new(limits),
            limits,
            walk: None,
            tail: None,
            content_start: 0,
            next_index: 0,
            index: 0,
            damage: None,
            trusts_bodies: false,
        }
    }

    /// A reader whose first block is the one behind `hop`. Content offsets then count from there.
    pub(crate) fn behind(id: LogId, hop: Hop, limits: Limits) -> Self {
        let walk = Walk::behind(id, hop.trailer, hop.end);
        Self {
            walk: Some(walk),
            next_index: u64::from(hop.trailer.segment).saturating_add(1),
            ..Self::new(limits)
        }
    }

    /// A reader whose first block is the one behind `walk`, which knows where skip distances lead: a writer may go on behind
    /// its last block. Content offsets count from there.
    pub(crate) fn resumed(walk: Walk, limits: Limits) -> Self {
        let next_index = u64::from(walk.previous().segment).saturating_add(1);
        Self { walk: Some(walk), next_index, ..Self::new(limits) }
    }

    fn advance(&mut self, source: &mut dyn Source) -> Result<Option<Segment>, ReadError> {
        let Some(walk) = &mut self.walk else {
            let (walk, segment) = Walk::start(source)?;
            self.walk = Some(walk);
            return Ok(Some(segment));
        };
        let fault = match walk.step(source) {
            Ok(segment) => return Ok(Some(segment)),
            Err(WalkStop::Read(error)) => return Err(error),
            Err(WalkStop::End) => None,
            Err(WalkStop::Fault(fault)) => Some(fault),
        };
        let tail = walk.judge(source, fault)?;
        self.tail = Some(tail);
        match (tail.state, fault) {
            (TailState::Corrupt | TailState::Unsupported, Some(fault)) => {
                self.damage = Some(tail.good_end);
                Err(ReadError::bad(tail.good_end, fault))
            }
            _ => Ok(None),
        }
    }
}

impl BlockReader for IndexedReader {
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let (segment, frame, begins_append) = loop {
            self.index = self.next_index;
            let begins_append = self.walk.as_ref().is_none_or(|walk| walk.previous().commit);
            let Some(segment) = self.advance(source)? else { return Ok(None) };
            // A marker has no body; it only commits what stands before it.
            if let Some(frame) = segment.frame {
                break (segment, frame, begins_append);
            }
            self.next_index = self.next_index.saturating_add(1);
        };
        let index = self.index;
        let content_start = self.content_start;
        self.next_index = index.saturating_add(1);
        let stored_len =
            usize::try_from(frame.stored_len()).map_err(|_| ReadError::bad(frame.start, Fault::FrameData))?;
        let limit =
            if index == 0 { self.limits.header_bytes_max } else { self.limits.frame_content_bytes_max };
        let is_proved = self.trusts_bodies && segment.in_one_piece;
        let content = match source.held_mut(frame.start, stored_len).filter(|_| is_proved) {
            Some(stored) => self.decoder.decode_proved(&frame, stored, limit),
            None => self.decoder.decode_up_to(&frame, source.get(frame.start, stored_len)?, limit),
        };
        let content = content.map_err(|fault| ReadError::bad(frame.start, fault))?;
        source.confirm()?;
        check_lines(index == 0, content, self.limits).map_err(|fault| ReadError::bad(frame.start, fault))?;
        self.content_start = content_start.saturating_add(content.len() as u64);
        let trailer = segment.trailer;
        let counted = Counted {
            first_seq: trailer.next_seq.saturating_sub(u64::from(trailer.events)),
            events: trailer.events,
            last_time: trailer.last_time,
        };
        Ok(Some(Block {
            index,
            start: segment.body.0,
            end: segment.end(),
            content,
            content_start,
            counted: Some(counted),
            begins_append,
        }))
    }

    fn skip(&mut self, source: &mut dyn Source) -> Result<Option<Skipped>, ReadError> {
        let Some(walk) = &self.walk else {
            let Some(walk) = Walk::start_without_header(source)? else { return Ok(None) };
            let end = walk.end();
            self.walk = Some(walk);
            self.next_index = 1;
            return Ok(Some(Skipped { start: 0, end }));
        };
        let start = match (self.damage.take(), self.tail) {
            (Some(start), _) => start,
            (None, Some(tail)) if tail.excess() > 0 => tail.good_end,
            // A body that its CRC covers but that could not be served: the walk is behind it already.
            _ => return Ok(Some(Skipped { start: walk.end(), end: walk.end() })),
        };
        let Some((trailer, end)) = walk.next_sealed(source, start)? else { return Ok(None) };
        // If only the body is damaged, reading goes on behind its trailer. If a trailer is, the next sealed one tells
        // where its own body starts, and that body may be whole.
        let body_start = trailer.body_start(end).unwrap_or(end);
        let resumed = if body_start > start {
            (trailer.segment.wrapping_sub(1), body_start)
        } else {
            (trailer.segment, end)
        };
        let previous = if resumed.1 == end {
            trailer
        } else {
            // The chain members of the damaged predecessor, as this trailer demands them.
            crate::container::trailer::Trailer {
                segment: resumed.0,
                crc: trailer.prev_crc,
                next_seq: trailer.next_seq.saturating_sub(u64::from(trailer.events)),
                ..trailer
            }
        };
        self.walk = Some(Walk::behind(walk.id(), previous, resumed.1));
        self.next_index = u64::from(previous.segment).saturating_add(1);
        self.tail = None;
        Ok(Some(Skipped { start, end: resumed.1 }))
    }

    fn trust_bodies(&mut self) {
        self.trusts_bodies = true;
    }

    fn keep_in(&mut self, arena: Kept) {
        self.decoder.keep_in(arena.0, false);
    }

    fn take_kept(&mut self) -> Option<Kept> {
        self.decoder.take_kept().map(Kept)
    }

    fn index(&self) -> u64 {
        self.index
    }

    fn tail(&self) -> Option<Tail> {
        self.tail
    }

    fn writer(&self, durable: u64, level: i32) -> Box<dyn BlockWriter> {
        let walk = self.walk.as_ref().expect("a writer goes on behind a log that was read");
        Box::new(IndexedWriter::behind(walk, durable, level))
    }
}
