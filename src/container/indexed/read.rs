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

    /// Events before the next segment, and where it begins; nothing at the head of a log.
    pub(crate) fn place(&self) -> (u64, u64) {
        self.walk.as_ref().map_or((0, 0), |walk| (walk.previous().next_seq, walk.end()))
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn decoder(&mut self) -> &mut Decoder {
        &mut self.decoder
    }

    /// Number of the segment that the next step leads to.
    pub(super) fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Makes `index` the number of the segment that was looked at last.
    pub(super) fn set_index(&mut self, index: u64) {
        self.index = index;
    }

    /// Whether everything before the next segment is committed.
    pub(super) fn begins_append(&self) -> bool {
        self.walk.as_ref().is_none_or(|walk| walk.previous().commit)
    }

    /// Moves behind the next segment.
    pub(super) fn step(&mut self, source: &mut dyn Source) -> Result<Segment, WalkStop> {
        let segment = match &mut self.walk {
            Some(walk) => walk.step(source)?,
            None => {
                // Without its first segment nothing of a log can be read, whatever is wrong with it.
                let (walk, segment) = Walk::start(source).map_err(WalkStop::Read)?;
                self.walk = Some(walk);
                segment
            }
        };
        self.next_index = self.next_index.saturating_add(1);
        Ok(segment)
    }

    /// Judges the end at which [`IndexedReader::step`] stopped.
    ///
    /// # Errors
    /// Damage before the end, and what reading gives.
    pub(super) fn conclude(&mut self, source: &mut dyn Source, stop: WalkStop) -> Result<(), ReadError> {
        self.index = self.next_index;
        let fault = match stop {
            WalkStop::Read(error) => return Err(error),
            WalkStop::End => None,
            WalkStop::Fault(fault) => Some(fault),
        };
        let Some(walk) = &self.walk else { return Ok(()) };
        let tail = walk.judge(source, fault)?;
        self.tail = Some(tail);
        match (tail.state, fault) {
            (TailState::Corrupt | TailState::Unsupported, Some(fault)) => {
                self.damage = Some(tail.good_end);
                Err(ReadError::bad(tail.good_end, fault))
            }
            _ => Ok(()),
        }
    }

    /// The content of a segment that has one.
    pub(super) fn decode(
        &mut self,
        source: &mut dyn Source,
        segment: &Segment,
        index: u64,
    ) -> Result<&[u8], ReadError> {
        let frame = segment.frame.ok_or(ReadError::bad(segment.body.0, Fault::FrameData))?;
        let stored_len =
            usize::try_from(frame.stored_len()).map_err(|_| ReadError::bad(frame.start, Fault::FrameData))?;
        let limit =
            if index == 0 { self.limits.header_bytes_max } else { self.limits.frame_content_bytes_max };
        let content = self.decoder.decode_up_to(&frame, source.get(frame.start, stored_len)?, limit);
        let content = content.map_err(|fault| ReadError::bad(frame.start, fault))?;
        source.confirm()?;
        check_lines(index == 0, content, self.limits).map_err(|fault| ReadError::bad(frame.start, fault))?;
        Ok(content)
    }

    /// Decompresses a segment of rows into `content`, if it is one that says how much that takes, and may.
    ///
    /// # Errors
    /// As [`IndexedReader::decode`].
    pub(super) fn decode_to<'m>(
        &mut self,
        source: &mut dyn Source,
        segment: &Segment,
        room: &mut Option<&'m mut [u8]>,
    ) -> Result<Option<&'m mut [u8]>, ReadError> {
        let Some(frame) = segment.frame else { return Ok(None) };
        let (Some(size), stored_len) = (frame.content_size, frame.stored_len()) else { return Ok(None) };
        let (Ok(len), Ok(stored_in_memory)) = (usize::try_from(size), usize::try_from(stored_len)) else {
            return Ok(None);
        };
        let fits = room.as_ref().is_some_and(|room| room.len() >= len);
        if !fits || !self.decoder.is_trusted(size, stored_len) {
            return Ok(None);
        }
        let Some((content, rest)) = room.take().and_then(|room| room.split_at_mut_checked(len)) else {
            return Ok(None);
        };
        *room = Some(rest);
        let stored = source.get(frame.start, stored_in_memory)?;
        let outcome = self.decoder.decode_to(&frame, stored, &mut *content);
        outcome.map_err(|fault| ReadError::bad(frame.start, fault))?;
        source.confirm()?;
        Ok(Some(content))
    }

    /// The place in the text of the next `len` bytes of content.
    pub(super) fn take_place(&mut self, len: usize) -> u64 {
        let place = self.content_start;
        self.content_start = place.saturating_add(len as u64);
        place
    }
}

/// The block that a segment and its content make.
pub(super) fn block_of<'a>(
    segment: &Segment,
    index: u64,
    begins_append: bool,
    content_start: u64,
    content: &'a [u8],
) -> Block<'a> {
    let trailer = segment.trailer;
    let counted = Counted {
        first_seq: trailer.next_seq.saturating_sub(u64::from(trailer.events)),
        events: trailer.events,
        last_time: trailer.last_time,
    };
    Block {
        index,
        start: segment.body.0,
        end: segment.end(),
        content,
        content_start,
        counted: Some(counted),
        begins_append,
    }
}

impl BlockReader for IndexedReader {
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let (segment, begins_append) = loop {
            self.index = self.next_index;
            let begins_append = self.begins_append();
            match self.step(source) {
                // A marker has no body; it only commits what stands before it.
                Ok(Segment { frame: None, .. }) => {}
                Ok(segment) => break (segment, begins_append),
                Err(stop) => return self.conclude(source, stop).map(|()| None),
            }
        };
        let index = self.index;
        let len = self.decode(source, &segment, index)?.len();
        let content_start = self.take_place(len);
        Ok(Some(block_of(&segment, index, begins_append, content_start, self.decoder.content())))
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
