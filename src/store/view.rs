//! A log's events where they lie: in the file's own pages, if the log is plain.

use std::fmt;
use std::ops::Range;
use std::thread;

use super::events::Events;
use super::log_file::LogFile;
use super::restore::require_known;
use crate::container::disk::Map;
use crate::container::{Encoding, other_threads};
use crate::error::Result;
use crate::limits::Limits;
use crate::row::{Check, Event, PhysicalRow, RowFault};
use crate::units::{Generation, Seq, UnixMs};

/// All events of a log, found and not looked into.
///
/// Rows of a plain log lie in a map of its file, if that can be had: nothing is copied, and what nobody reads costs nothing
/// but the search for its newline. Rows of any other log lie where they were decompressed to.
///
/// Every envelope was read, and its seq is the one that was due. A payload is what stands where a payload should, UTF-8, and
/// not checked to be JSON; [`LogRow::event`] checks. A file that somebody cuts shorter while it is viewed reads as zeros from
/// there on: [`LogView::is_shrunk`] tells.
pub struct LogView {
    text: Text,
    /// By seq.
    marks: Vec<Mark>,
}

enum Text {
    Mapped(Map),
    Read(Events),
}

/// Where a row stands in the text, and what in it; lengths and places in bytes.
#[derive(Clone, Copy)]
struct Mark {
    start: usize,
    time: UnixMs,
    len: u32,
    event_type: (u32, u32),
    data: (u32, u32),
}

impl LogView {
    /// The rows of a plain log of the current generation, mapped. `None` if it is another log, has anything that is not as
    /// writers make it, or cannot be mapped.
    ///
    /// Whoever calls this knows that nobody was appending to the log when it was opened.
    ///
    /// # Errors
    /// An event that this build does not know, and what the system says of the map.
    pub(super) fn of_plain(log: &LogFile) -> Result<Option<Self>> {
        if log.encoding() != Encoding::Plain || log.generation()? != Generation::CURRENT {
            return Ok(None);
        }
        let Some(map) = log.map()? else { return Ok(None) };
        let Some(marks) = marks_of(log, map.bytes())? else { return Ok(None) };
        let is_whole = !map.is_shrunk();
        Ok(is_whole.then_some(Self { text: Text::Mapped(map), marks }))
    }

    /// The rows of a whole log, from memory.
    pub(super) fn of_events(events: Events) -> Self {
        let mut start = 0;
        let mut marks = Vec::with_capacity(events.len());
        for event in events.iter() {
            // Rows are bounded by limits far below 4 GiB.
            marks.extend(Mark::of(start, &event));
            start = start.saturating_add(event.line().len()).saturating_add(1);
        }
        Self { text: Text::Read(events), marks }
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether rows are borrowed from the file.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        matches!(self.text, Text::Mapped(_))
    }

    /// Whether bytes that were read through this view so far may be no part of the log, because its file became shorter. Never
    /// turns false again. Always false for rows that are not mapped.
    #[must_use]
    pub fn is_shrunk(&self) -> bool {
        match &self.text {
            Text::Mapped(map) => map.is_shrunk(),
            Text::Read(_) => false,
        }
    }

    /// The row of the event with this seq.
    #[must_use]
    pub fn row(&self, seq: u64) -> Option<LogRow<'_>> {
        let index = usize::try_from(seq).ok()?;
        let mark = *self.marks.get(index)?;
        row_at(self.bytes(), seq, mark)
    }

    /// All rows, in order. Time O(1) each.
    pub fn rows(&self) -> impl Iterator<Item = LogRow<'_>> + '_ {
        let text = self.bytes();
        (0..).zip(&self.marks).filter_map(move |(seq, mark)| row_at(text, seq, *mark))
    }

    fn bytes(&self) -> &[u8] {
        match &self.text {
            Text::Mapped(map) => map.bytes(),
            Text::Read(events) => events.as_bytes(),
        }
    }
}

impl fmt::Debug for LogView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogView")
            .field("len", &self.len())
            .field("is_mapped", &self.is_mapped())
            .finish_non_exhaustive()
    }
}

/// One event of a [`LogView`], borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRow<'v> {
    seq: Seq,
    time: UnixMs,
    line: &'v [u8],
    event_type: &'v [u8],
    data: &'v [u8],
}

impl<'v> LogRow<'v> {
    /// Its position in the log.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// When it happened, by its producer's clock.
    #[must_use]
    pub const fn time(&self) -> UnixMs {
        self.time
    }

    /// The event's type as the row spells it, between its quotes.
    #[must_use]
    pub const fn event_type(&self) -> &'v [u8] {
        self.event_type
    }

    /// The payload as stored. Not checked to be JSON.
    #[must_use]
    pub const fn data(&self) -> &'v [u8] {
        self.data
    }

    /// The whole row as stored, without its newline.
    #[must_use]
    pub const fn line(&self) -> &'v [u8] {
        self.line
    }

    /// The event, its row checked in full.
    ///
    /// # Errors
    /// As [`Event::read`]: what nobody has checked so far.
    pub fn event(&self, limits: &Limits) -> Result<Event<'v>, RowFault> {
        Event::read(self.line, Check::Full, limits)
    }
}

fn row_at(text: &[u8], seq: u64, mark: Mark) -> Option<LogRow<'_>> {
    let piece = |of: &'_ [u8], at: u32, len: u32| -> Option<(usize, usize)> {
        let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        let end = at.checked_add(len)?;
        (end <= of.len()).then_some((at, end))
    };
    let line = text.get(mark.start..)?.get(..usize::try_from(mark.len).ok()?)?;
    let (type_at, type_end) = piece(line, mark.event_type.0, mark.event_type.1)?;
    let (data_at, data_end) = piece(line, mark.data.0, mark.data.1)?;
    Some(LogRow {
        seq: Seq::new(seq)?,
        time: mark.time,
        line,
        event_type: line.get(type_at..type_end)?,
        data: line.get(data_at..data_end)?,
    })
}

impl Mark {
    /// `None` for a row of 4 GiB or more.
    fn of(start: usize, event: &Event<'_>) -> Option<Self> {
        let line = event.line();
        // A part's place by its address: parts are slices of the line.
        let part = |part: &str| -> Option<(u32, u32)> {
            let at = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
            Some((u32::try_from(at).ok()?, u32::try_from(part.len()).ok()?))
        };
        Some(Self {
            start,
            time: event.time(),
            len: u32::try_from(line.len()).ok()?,
            event_type: part(event.event_type().raw())?,
            data: part(event.data())?,
        })
    }
}

/// The rows of a whole plain text, its header line left out; `None` if anything in it needs a closer look.
fn marks_of(log: &LogFile, text: &[u8]) -> Result<Option<Vec<Mark>>> {
    /// Less is looked through before another thread has found its place.
    const PART: usize = 4 << 20;
    if text.last() != Some(&b'\n') {
        return Ok(None);
    }
    // The file may have been replaced by one with another header since that was read.
    let header_len = memchr::memchr(b'\n', text).unwrap_or(0);
    if !log.first_line().is_ok_and(|first| Some(first.line()) == text.get(..header_len)) {
        return Ok(None);
    }
    let begin = header_len.saturating_add(1);
    let left = text.len().saturating_sub(begin);
    let others = other_threads().min(left.checked_div(PART).unwrap_or(0));
    let parts = parts_of(text, begin, others.saturating_add(1));
    let Some((first, rest)) = parts.split_first() else { return Ok(Some(Vec::new())) };
    let parts = thread::scope(|scope| {
        let look = |part: &Range<usize>| Part::of(log, text, part.clone());
        let others: Vec<_> = rest
            .iter()
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, move || look(part))))
            .collect();
        let mut parts = vec![look(first)];
        parts.extend(others.into_iter().map(
            |(part, other)| match other.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(found)) => found,
                // There was no thread to be had, or it failed, and this one will see why.
                _ => look(part),
            },
        ));
        parts
    });
    let mut marks: Vec<Mark> = Vec::new();
    for part in parts {
        match part? {
            Some(part) if marks.is_empty() && part.first_seq == 0 => marks = part.marks,
            Some(part) if part.first_seq == marks.len() as u64 => marks.extend(part.marks),
            _ => return Ok(None),
        }
    }
    Ok(Some(marks))
}

/// Cuts `text` from `begin` on into at most `count` pieces of whole lines, none of them empty.
fn parts_of(text: &[u8], begin: usize, count: usize) -> Vec<Range<usize>> {
    let left = text.len().saturating_sub(begin);
    let size = left.checked_div(count).unwrap_or(left).max(1);
    let mut parts: Vec<Range<usize>> = Vec::with_capacity(count);
    let mut start = begin;
    while start < text.len() {
        let is_last = parts.len().saturating_add(1) >= count;
        let near = if is_last { text.len() } else { start.saturating_add(size).min(text.len()) };
        let newline = text.get(near..).and_then(|rest| memchr::memchr(b'\n', rest));
        let end = newline.map_or(text.len(), |at| near.saturating_add(at).saturating_add(1));
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Rows that follow each other.
struct Part {
    first_seq: u64,
    marks: Vec<Mark>,
}

impl Part {
    /// The rows that the lines in `part` of `text` are; `None` if anything in them needs a closer look.
    fn of(log: &LogFile, text: &[u8], part: Range<usize>) -> Result<Option<Self>> {
        /// As many rows as there is room for at first.
        const ROWS: usize = 4096;
        let twin = memchr::memmem::Finder::new(b"\",\"seq\":");
        let (mut start, mut rows) = (part.start, Self { first_seq: 0, marks: Vec::with_capacity(ROWS) });
        for end in memchr::memchr_iter(b'\n', text.get(part.clone()).unwrap_or_default()) {
            let end = part.start.saturating_add(end);
            let line = text.get(start..end).unwrap_or_default();
            let begin = std::mem::replace(&mut start, end.saturating_add(1));
            let Ok(event) = Event::read(line, Check::Envelope, log.limits()) else { return Ok(None) };
            let seq = event.seq().get();
            if rows.marks.is_empty() {
                rows.first_seq = seq;
            }
            let is_due = seq.checked_sub(rows.first_seq) == Some(rows.marks.len() as u64);
            let Some(mark) = Mark::of(begin, &event).filter(|_| is_due) else { return Ok(None) };
            // Without a checksum, half a row and a whole one on one line may look like an event. The whole one shows its seq.
            let is_alone = twin.find(event.data().as_bytes()).is_none();
            if !is_alone && Event::read(line, Check::Full, log.limits()) != Ok(event) {
                return Ok(None);
            }
            require_known(log, &PhysicalRow::Event(event))?;
            rows.marks.push(mark);
        }
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_lines_one_behind_the_other() {
        let text = b"header\na\nbb\n\ncccccccccccccccccccccccccc\nd\n";
        for begin in [7, text.len()] {
            for count in 1..9 {
                let parts = parts_of(text, begin, count);
                assert!(parts.len() <= count);
                let mut at = begin;
                for part in &parts {
                    assert_eq!(part.start, at);
                    assert_eq!(text[part.end - 1], b'\n');
                    at = part.end;
                }
                assert_eq!(at, text.len(), "{begin} {count}");
            }
        }
    }
}
