//! Events in memory: one block of text, and where each event stands in it.

use std::fmt;

use crate::container::{Arena, Batch, RowMark};
use crate::limits::Limits;
use crate::row::{Check, Event, PhysicalRow, RowFault, one_line};
use crate::units::{Seq, UnixMs};

/// A run of events, all alive together: their rows in one block of memory.
///
/// Rows of a compressed log stay where they were decompressed to. That block may be larger than what they take, by the rest
/// of the first and last segment, and by up to 2 MiB where the system gives huge pages: a host that keeps small reads for
/// long calls [`Events::shrink_to_fit`].
#[derive(Default)]
pub struct Events {
    text: Arena,
    /// Where the first row begins in `text`; rows follow each other.
    start: usize,
    /// Exclusive end of each event's row in `text`, newline included.
    ends: Vec<usize>,
}

impl Clone for Events {
    fn clone(&self) -> Self {
        self.slice(0, self.len())
    }
}

impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Events {}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows().map(String::from_utf8_lossy)).finish()
    }
}

impl Events {
    /// The events of `rows`, each without its newline: what a store of somebody else's answers a read with.
    ///
    /// # Errors
    /// The index of the first row that is no event, and why. Payloads are taken on trust.
    pub fn of_rows<R: AsRef<[u8]>>(
        rows: impl IntoIterator<Item = R>,
        limits: &Limits,
    ) -> Result<Self, (usize, RowFault)> {
        let mut events = Self::default();
        for row in rows {
            let row = row.as_ref();
            one_line(row)
                .and_then(|()| Event::read(row, Check::Envelope, limits).map(drop))
                .map_err(|fault| (events.len(), fault))?;
            events.push_line(row);
        }
        Ok(events)
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rows, each with its newline.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.bytes().get(self.start..self.end()).unwrap_or_default()
    }

    /// The row of the event at `index`, without its newline.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(Some(self.start), |before| self.ends.get(before).copied())?;
        self.text.bytes().get(start..end.checked_sub(1)?)
    }

    /// The rows without their newlines, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let (text, mut start) = (self.text.bytes(), self.start);
        self.ends.iter().map(move |&end| {
            let row = text.get(start..end.saturating_sub(1)).unwrap_or_default();
            start = end;
            row
        })
    }

    /// The events, in order.
    ///
    /// # Panics
    /// Never: only rows that were read as events get in.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event<'_>> + '_ {
        self.rows()
            .map(|row| Event::read(row, Check::Envelope, &Limits::DEFAULT).expect("it was read as an event"))
    }

    /// Moves the rows to memory of their own, which is as large as they are. Copies them if they are not there already.
    pub fn shrink_to_fit(&mut self) {
        *self = self.slice(0, self.len());
    }

    /// No events, and room for rows of about `bytes` bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { text: Arena::with_room(bytes), ..Self::default() }
    }

    /// The events whose rows stand in `text` as they are stored, the first from `start` on, and end at `ends`.
    pub(crate) fn in_place(text: Arena, start: usize, ends: Vec<usize>) -> Self {
        Self { text, start, ends }
    }

    /// Adds the events of a stored row that lie in `[from, to)`; packed rows are expanded.
    pub(crate) fn push_row(&mut self, row: &PhysicalRow<'_>, from: u64, to: u64) {
        match row {
            PhysicalRow::Event(event) => {
                if (from..to).contains(&event.seq().get()) {
                    self.push_line(event.line().as_bytes());
                }
            }
            PhysicalRow::Packed(packed) => {
                for member in packed.members() {
                    if (from..to).contains(&member.seq.get()) {
                        let mut line = Vec::new();
                        packed.write_member(&member, &mut line);
                        self.push_line(&line);
                    }
                }
            }
        }
    }

    /// Adds a row that was read as an event.
    pub(crate) fn push_line(&mut self, line: &[u8]) {
        self.text.push_line(line);
        self.ends.push(self.text.len());
    }

    /// Adds the events of another run behind these.
    pub(crate) fn extend(&mut self, other: &Self) {
        let start = self.text.len();
        self.text.push(other.text.bytes().get(other.start..).unwrap_or_default());
        self.ends.extend(other.ends.iter().map(|end| end.saturating_sub(other.start).saturating_add(start)));
    }

    /// Keeps the first `len` events.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.ends.truncate(len);
            self.text.truncate(self.end());
        }
    }

    /// The events in `[from, to)`, counted from the first one here, in memory of their own.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        let start = from.checked_sub(1).map_or(Some(self.start), |before| self.ends.get(before).copied());
        let (start, ends) = match (start, self.ends.get(from..to.min(self.len()))) {
            (Some(start), Some(ends)) => (start, ends),
            _ => return Self::default(),
        };
        let end = ends.last().copied().unwrap_or(start);
        let text = Arena::of(self.text.bytes().get(start..end).unwrap_or_default());
        Self { text, start: 0, ends: ends.iter().map(|end| end.saturating_sub(start)).collect() }
    }

    /// End of the last row.
    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(self.start)
    }
}

/// Rows on their way into a log, checked: text and marks as a container takes them.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) content: Vec<u8>,
    pub(crate) marks: Vec<RowMark>,
    pub(crate) next_seq: u64,
}

/// Why a row of a batch does not continue the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CheckedFault {
    Seq { actual: Seq },
}

impl Checked {
    /// An empty batch that must begin with seq `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self { next_seq: next, ..Self::default() }
    }

    /// Makes room for `rows` more rows of `bytes` bytes in all, newlines included.
    pub(crate) fn reserve(&mut self, bytes: usize, rows: usize) {
        self.content.reserve(bytes);
        self.marks.reserve(rows);
    }

    /// Adds a row that was read.
    pub(crate) fn push(&mut self, row: &PhysicalRow<'_>) -> Result<(), CheckedFault> {
        self.push_parts(&[row.line().as_bytes()], row.first_seq(), row.next_seq(), row.last_time())
    }

    /// Adds a row that stands in parts, whose events have the seqs `first..next`.
    pub(crate) fn push_parts(
        &mut self,
        parts: &[&[u8]],
        first: Seq,
        next: u64,
        last_time: UnixMs,
    ) -> Result<(), CheckedFault> {
        if first.get() != self.next_seq {
            return Err(CheckedFault::Seq { actual: first });
        }
        parts.iter().for_each(|part| self.content.extend_from_slice(part));
        self.content.push(b'\n');
        self.next_seq = next;
        self.marks.push(RowMark {
            end: self.content.len(),
            events: u32::try_from(next.saturating_sub(first.get())).unwrap_or(u32::MAX),
            last_time: last_time.get(),
        });
        Ok(())
    }

    /// The batch as a container takes it.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { content: &self.content, rows: &self.marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &[u8] = br#"{"type":"turn/start","seq":7,"time":1,"data":{"turn":1}}"#;

    #[test]
    fn rows_become_events_or_the_first_that_is_none_is_named() {
        let events = Events::of_rows([ROW, ROW], &Limits::DEFAULT).unwrap();
        assert_eq!((events.len(), events.row(1)), (2, Some(ROW)));
        assert_eq!(events.iter().map(|event| event.seq().get()).collect::<Vec<_>>(), [7, 7]);
        assert_eq!(Events::of_rows([[0_u8; 0]; 0], &Limits::DEFAULT), Ok(Events::default()));
        let two_lines = [ROW, b"\n", ROW].concat();
        for bad in [&b"[]"[..], &two_lines, b""] {
            assert!(matches!(Events::of_rows([ROW, bad, ROW], &Limits::DEFAULT), Err((1, _))), "{bad:?}");
        }
    }
}
