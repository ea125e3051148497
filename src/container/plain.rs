//! The lines themselves: what DSH writes with compression off.
//!
//! Spec: `format-spec/01-container.md`, "The plain encoding".

use super::batch::Batch;
use super::fault::{Fault, ReadError};
use super::read::{Block, BlockReader, Skipped};
use super::source::Source;
use super::tail::{Later, Stop, Tail, Zeros, judge};
use super::write::BlockWriter;
use crate::limits::Limits;

/// Bytes of lines that one block holds, unless a single line is longer.
const STRETCH: usize = 64 << 10;

/// Reads lines forward, many at a time.
#[derive(Debug)]
pub(crate) struct PlainReader {
    limits: Limits,
    at: u64,
    index: u64,
    tail: Option<Tail>,
}

impl PlainReader {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, at: 0, index: 0, tail: None }
    }

    /// A reader whose first block starts at the line at `start`; not the header line.
    pub(crate) fn behind(start: u64, limits: Limits) -> Self {
        Self { limits, at: start, index: 1, tail: None }
    }

    /// Length of the stretch of whole lines at `self.at`, or `None` if no line ends before the file does.
    fn stretch(&self, source: &mut dyn Source) -> Result<Option<usize>, ReadError> {
        let is_header = self.index == 0;
        let limit = if is_header { self.limits.header_bytes_max } else { self.limits.row_bytes_max };
        let left = source.size().saturating_sub(self.at);
        let mut want = if is_header { 4 << 10 } else { STRETCH };
        loop {
            let take = usize::try_from(left).map_or(want, |left| left.min(want));
            let bytes = source.get(self.at, take)?;
            let end = if is_header { memchr::memchr(b'\n', bytes) } else { memchr::memrchr(b'\n', bytes) };
            if let Some(newline) = end {
                return Ok(Some(newline.saturating_add(1)));
            }
            if take as u64 == left {
                return Ok(None);
            }
            if take as u64 >= limit {
                return Err(ReadError::bad(self.at, Fault::LineLimit { limit }));
            }
            want = want.saturating_mul(2);
        }
    }

    fn stop(&self, fault: Option<Fault>) -> Stop {
        Stop { good_end: self.at, durable: self.at, committed: true, fault, later: Later::Nothing }
    }
}

impl BlockReader for PlainReader {
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError> {
        if self.tail.is_some() {
            return Ok(None);
        }
        let start = self.at;
        let stretch = match self.stretch(source) {
            Err(ReadError::Bad { at, fault }) if fault.is_limit() && self.index > 0 => {
                let stop = self.stop(Some(fault));
                self.tail = Some(judge(source, stop, Zeros::ToTheEnd)?);
                return Err(ReadError::bad(at, fault));
            }
            stretch => stretch?,
        };
        let Some(len) = stretch else {
            if self.index == 0 {
                return Err(ReadError::bad(start, Fault::HeaderLine));
            }
            let fault = (start < source.size()).then_some(Fault::Truncated);
            let stop = self.stop(fault);
            self.tail = Some(judge(source, stop, Zeros::ToTheEnd)?);
            return Ok(None);
        };
        let index = self.index;
        self.at = start.saturating_add(len as u64);
        self.index = index.saturating_add(1);
        // The bytes are looked at after this; a map that shrank before is told apart here, one that shrinks later by the
        // caller's own `confirm`.
        source.confirm()?;
        let content = source.get(start, len)?;
        Ok(Some(Block {
            index,
            start,
            end: self.at,
            content,
            content_start: start,
            counted: None,
            begins_append: true,
        }))
    }

    fn skip(&mut self, _source: &mut dyn Source) -> Result<Option<Skipped>, ReadError> {
        // Lines stand for themselves: damage in one never hides the next.
        Ok(None)
    }

    fn index(&self) -> u64 {
        if self.tail.is_some() { self.index } else { self.index.saturating_sub(1) }
    }

    fn tail(&self) -> Option<Tail> {
        self.tail
    }

    fn writer(&self, _durable: u64, _level: i32) -> Box<dyn BlockWriter> {
        Box::new(PlainWriter { end: self.tail.map_or(self.at, |tail| tail.good_end), staged: 0 })
    }
}

/// Writes rows as they are.
#[derive(Debug)]
pub(crate) struct PlainWriter {
    end: u64,
    staged: u64,
}

impl PlainWriter {
    pub(crate) fn create(header: &[u8], out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(header);
        Self { end: header.len() as u64, staged: 0 }
    }
}

impl BlockWriter for PlainWriter {
    fn stage(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(batch.content);
        self.staged = self.staged.saturating_add(batch.content.len() as u64);
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
