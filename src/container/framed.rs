//! Zstandard frames and nothing else: what DSH writes and opens.
//!
//! Spec: `format-spec/01-container.md`, "The zstd encoding".

use super::batch::Batch;
use super::fault::{Fault, ReadError};
use super::frame::{self, Frame};
use super::read::{Block, BlockReader, Kept, Skipped, check_lines};
use super::source::Source;
use super::tail::{Later, Stop, Tail, TailState, Zeros, judge};
use super::write::BlockWriter;
use super::zstd::{Decoder, Encoder};
use crate::limits::Limits;

/// Reads a chain of frames forward.
#[derive(Debug)]
pub(crate) struct FramedReader {
    decoder: Decoder,
    limits: Limits,
    at: u64,
    /// Start of the last good frame: whoever wrote it had synced what stands before it.
    durable: u64,
    index: u64,
    content_start: u64,
    tail: Option<Tail>,
    /// The frame that could not be served, until it is skipped.
    damage: Option<Damage>,
    /// The next frame, if the decoder holds its content already.
    ready: Option<Frame>,
}

#[derive(Clone, Copy, Debug)]
struct Damage {
    start: u64,
    /// Where the next frame starts, if the structure tells.
    end: Option<u64>,
}

impl FramedReader {
    pub(crate) fn new(limits: Limits) -> Self {
        let decoder = Decoder::new(limits);
        Self {
            decoder,
            limits,
            at: 0,
            durable: 0,
            index: 0,
            content_start: 0,
            tail: None,
            damage: None,
            ready: None,
        }
    }

    /// A reader whose first block is `frame`, not the header's. Content offsets then count from there. `decoder` may have
    /// decoded that very frame last.
    pub(crate) fn at(frame: Frame, decoder: Decoder, is_decoded: bool, limits: Limits) -> Self {
        let is_ready = is_decoded && check_lines(false, decoder.content(), limits).is_ok();
        let ready = is_ready.then_some(frame);
        Self { decoder, at: frame.start, durable: frame.start, index: 1, ready, ..Self::new(limits) }
    }

    /// A reader whose first block is the first one that starts at or behind `start`, where a frame ends; not the header's.
    pub(crate) fn behind(start: u64, limits: Limits) -> Self {
        Self { at: start, durable: start, index: 1, ..Self::new(limits) }
    }

    /// Judges a stop at `self.at`: a fault there, and whether intact frames follow.
    fn stop(&mut self, source: &mut dyn Source, fault: Fault, end: Option<u64>) -> Result<(), ReadError> {
        let start = self.at;
        self.damage = Some(Damage { start, end });
        if self.index == 0 {
            return Err(ReadError::bad(
                start,
                if fault == Fault::Truncated { Fault::HeaderLine } else { fault },
            ));
        }
        let later = match next_intact(source, &mut self.decoder, start, end)? {
            // A later frame was written after a sync of everything before it.
            Some(next) => Later::Durable(next),
            None => Later::Nothing,
        };
        let durable = self.durable;
        let stop = Stop { good_end: start, durable, committed: true, fault: Some(fault), later };
        let tail = judge(source, stop, Zeros::AnySector)?;
        self.tail = Some(tail);
        match tail.state {
            TailState::Corrupt | TailState::Unsupported => Err(ReadError::bad(start, fault)),
            _ => Ok(()),
        }
    }
}

impl BlockReader for FramedReader {
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let frame = loop {
            if let Some(frame) = self.ready.take() {
                break frame;
            }
            if self.at >= source.size() && self.index > 0 {
                let stop = Stop {
                    good_end: self.at,
                    durable: self.durable,
                    committed: true,
                    fault: None,
                    later: Later::Nothing,
                };
                self.tail = Some(judge(source, stop, Zeros::AnySector)?);
                return Ok(None);
            }
            source.hold(self.at);
            let frame = match frame::walk(source, self.at) {
                Ok(frame) => frame,
                Err(ReadError::Bad { fault: Fault::Shrunk, at }) => {
                    return Err(ReadError::bad(at, Fault::Shrunk));
                }
                Err(ReadError::Io(error)) => return Err(error.into()),
                Err(ReadError::Bad { fault, .. }) => {
                    let end = match fault {
                        Fault::SkippableFrame { len } => self.at.checked_add(len),
                        _ => None,
                    };
                    self.stop(source, fault, end)?;
                    return Ok(None);
                }
            };
            if let Err(fault) = decode(&mut self.decoder, source, &frame, self.index == 0, self.limits)? {
                self.stop(source, fault, Some(frame.end))?;
                return Ok(None);
            }
            if self.index == 0 || !self.decoder.content().is_empty() {
                break frame;
            }
            (self.durable, self.at) = (frame.start, frame.end);
            self.index = self.index.saturating_add(1);
        };
        let (index, content_start) = (self.index, self.content_start);
        let content = self.decoder.content();
        (self.durable, self.at) = (frame.start, frame.end);
        self.index = index.saturating_add(1);
        self.content_start = content_start.saturating_add(content.len() as u64);
        Ok(Some(Block {
            index,
            start: frame.start,
            end: frame.end,
            content,
            content_start,
            counted: None,
            begins_append: true,
        }))
    }

    fn skip(&mut self, source: &mut dyn Source) -> Result<Option<Skipped>, ReadError> {
        let Some(damage) = self.damage.take() else { return Ok(None) };
        let Some(end) = next_intact(source, &mut self.decoder, damage.start, damage.end)? else {
            return Ok(None);
        };
        self.at = end;
        self.index = self.index.saturating_add(1);
        self.tail = None;
        Ok(Some(Skipped { start: damage.start, end }))
    }

    fn keep_in(&mut self, arena: Kept) {
        self.decoder.keep_in(arena.0, self.ready.is_some());
    }

    fn take_kept(&mut self) -> Option<Kept> {
        self.decoder.take_kept().map(Kept)
    }

    fn index(&self) -> u64 {
        if self.damage.is_some() || self.tail.is_some() { self.index } else { self.index.saturating_sub(1) }
    }

    fn tail(&self) -> Option<Tail> {
        self.tail
    }

    fn writer(&self, _durable: u64, level: i32) -> Box<dyn BlockWriter> {
        Box::new(FramedWriter::behind(self.tail.map_or(self.at, |tail| tail.good_end), level))
    }
}

/// Decompresses `frame` and checks its lines; the content stays in the decoder.
fn decode(
    decoder: &mut Decoder,
    source: &mut dyn Source,
    frame: &Frame,
    is_header: bool,
    limits: Limits,
) -> Result<Result<(), Fault>, ReadError> {
    let Ok(len) = usize::try_from(frame.stored_len()) else { return Ok(Err(Fault::FrameData)) };
    let stored = source.get(frame.start, len)?;
    let limit = if is_header { limits.header_bytes_max } else { limits.frame_content_bytes_max };
    let content = decoder
        .decode_up_to(frame, stored, limit)
        .and_then(|content| check_lines(is_header, content, limits));
    source.confirm()?;
    Ok(content)
}

/// Start of the next intact frame behind a damaged one that starts at `start` and, if the structure tells, ends at `end`.
///
/// Frames that border on each other are tried first; then every place where the magic stands, most of which are none. Each
/// may cost a decompression, so a hostile file could make this take for ever: where that would be, what follows is taken for
/// intact, which only ever refuses more.
fn next_intact(
    source: &mut dyn Source,
    decoder: &mut Decoder,
    start: u64,
    end: Option<u64>,
) -> Result<Option<u64>, ReadError> {
    let mut content = 0;
    let mut at = end;
    while let Some(start) = at.filter(|&at| at < source.size()) {
        if content > SEARCHED_CONTENT_MAX || is_intact(source, decoder, start, &mut content)? {
            return Ok(Some(start));
        }
        at = frame::walk(source, start).ok().map(|frame| frame.end);
    }
    search(source, decoder, end.unwrap_or(start).max(start.saturating_add(1)), content)
}

/// Whether an intact frame starts at `start`. Adds the bytes that it decompressed to `content`.
fn is_intact(
    source: &mut dyn Source,
    decoder: &mut Decoder,
    start: u64,
    content: &mut u64,
) -> Result<bool, ReadError> {
    match frame::walk(source, start) {
        Ok(frame) if frame.has_checksum => {
            let limits = decoder.limits();
            let decoded = decode(decoder, source, &frame, false, limits)?;
            *content = content.saturating_add(decoder.content().len() as u64);
            Ok(match decoded {
                Ok(()) => !decoder.content().is_empty(),
                // What it holds is not known, so it must not be cut off with what stands before it.
                Err(fault) => fault.is_unsupported(),
            })
        }
        Ok(_) | Err(ReadError::Bad { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Places at which a search looks for an intact frame.
const SEARCHED_MAX: u32 = 4096;
/// Bytes that a search decompresses before it looks no further.
const SEARCHED_CONTENT_MAX: u64 = 1 << 30;

fn search(
    source: &mut dyn Source,
    decoder: &mut Decoder,
    from: u64,
    mut content: u64,
) -> Result<Option<u64>, ReadError> {
    const PIECE: u64 = 256 << 10;
    let finder = memchr::memmem::Finder::new(&frame::MAGIC);
    let mut candidates = 0_u32;
    let mut at = from;
    while at < source.size() {
        let end = at.saturating_add(PIECE).saturating_add(3).min(source.size());
        let bytes = source.get(at, usize::try_from(end.saturating_sub(at)).unwrap_or(0))?;
        let hits: Vec<u64> = finder.find_iter(bytes).map(|hit| at.saturating_add(hit as u64)).collect();
        for hit in hits {
            candidates = candidates.saturating_add(1);
            let gives_up = candidates > SEARCHED_MAX || content > SEARCHED_CONTENT_MAX;
            if gives_up || is_intact(source, decoder, hit, &mut content)? {
                return Ok(Some(hit));
            }
        }
        at = at.saturating_add(PIECE);
    }
    Ok(None)
}

/// One frame an append.
#[derive(Debug)]
pub(crate) struct FramedWriter {
    encoder: Encoder,
    end: u64,
    staged: u64,
}

impl FramedWriter {
    pub(crate) fn create(header: &[u8], level: i32, out: &mut Vec<u8>) -> Self {
        let start = out.len();
        let encoder = Encoder::new(level);
        encoder.encode(header, out);
        Self { encoder, end: out.len().saturating_sub(start) as u64, staged: 0 }
    }

    pub(crate) fn behind(end: u64, level: i32) -> Self {
        Self { encoder: Encoder::new(level), end, staged: 0 }
    }
}

impl BlockWriter for FramedWriter {
    fn stage(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        if !batch.content.is_empty() {
            let at = self.end.saturating_add(self.staged);
            self.encoder.encode_at(at, batch.content, out)?;
        }
        self.staged = self.staged.saturating_add(out.len().saturating_sub(start) as u64);
        Ok(())
    }

    fn stage_marker(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn accept(&mut self, _synced: bool) {
        self.end = self.end.saturating_add(std::mem::take(&mut self.staged));
    }

    fn discard(&mut self) {
        self.staged = 0;
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn is_committed(&self) -> bool {
        true
    }
}
