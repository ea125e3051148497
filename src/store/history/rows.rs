//! Events on their way into a page.

use super::cursor::{Mark, fingerprint};
use super::meter::Meter;
use super::page::PageEnd;
use crate::store::events::Events;

/// One event as a reader meets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSeen<'a> {
    pub(super) seq: u64,
    /// Without its newline.
    pub(super) line: &'a [u8],
    /// Offset of its block or line; 0 where there is no file.
    pub(super) at: u64,
    pub(super) starts_turn: bool,
    /// Whether this build understands it or may pass over it.
    pub(super) is_known: bool,
}

impl RowSeen<'_> {
    pub(super) fn mark(&self) -> Mark {
        Mark { seq: self.seq, print: fingerprint(self.line), at: self.at }
    }

    /// Its bytes with the newline.
    pub(super) fn bytes(&self) -> u64 {
        (self.line.len() as u64).saturating_add(1)
    }
}

/// A run of events in one allocation.
#[derive(Debug, Default)]
pub(super) struct Rows {
    events: Events,
    notes: Vec<Note>,
    /// Seq of the first one.
    first: u64,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    at: u64,
    starts_turn: bool,
    is_known: bool,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Bytes of the rows, newlines included.
    pub(super) fn bytes(&self) -> usize {
        self.events.as_bytes().len()
    }

    /// Seq behind that of the last one.
    pub(super) fn next_seq(&self) -> u64 {
        self.first.saturating_add(self.len() as u64)
    }

    /// Adds the event behind the last one.
    pub(super) fn push(&mut self, row: &RowSeen<'_>) {
        if self.is_empty() {
            self.first = row.seq;
        }
        self.events.push_line(row.line);
        let &RowSeen { at, starts_turn, is_known, .. } = row;
        self.notes.push(Note { at, starts_turn, is_known });
    }

    /// Adds a run that follows this one.
    pub(super) fn extend(&mut self, later: &Self) {
        if self.is_empty() {
            self.first = later.first;
        }
        self.events.extend(&later.events);
        self.notes.extend_from_slice(&later.notes);
    }

    /// How many of the last events `meter` takes, going back, and what keeps the one before them out, if anything does.
    pub(super) fn fit(&self, meter: &mut Meter) -> (usize, Option<PageEnd>) {
        for (taken, index) in (0..self.len()).rev().enumerate() {
            let bytes = self.events.row(index).map_or(0, <[u8]>::len) as u64;
            let note = self.notes.get(index);
            if note.is_some_and(|note| !note.is_known) {
                return (taken, Some(PageEnd::Fault));
            }
            let starts_turn = note.is_some_and(|note| note.starts_turn);
            if let Err(end) = meter.take(bytes.saturating_add(1), starts_turn) {
                return (taken, Some(end));
            }
        }
        (self.len(), None)
    }

    /// Drops all but the last `count` events.
    pub(super) fn keep_last(&mut self, count: usize) {
        let drop = self.len().saturating_sub(count);
        if drop > 0 {
            self.events = self.events.slice(drop, self.len());
            self.notes.drain(..drop);
            self.first = self.first.saturating_add(drop as u64);
        }
    }

    /// The last row.
    pub(super) fn last_line(&self) -> Option<&[u8]> {
        self.events.row(self.len().checked_sub(1)?)
    }

    pub(super) fn first(&self) -> Option<Mark> {
        self.mark(0)
    }

    pub(super) fn last(&self) -> Option<Mark> {
        self.mark(self.len().checked_sub(1)?)
    }

    fn mark(&self, index: usize) -> Option<Mark> {
        let (row, note) = (self.events.row(index)?, self.notes.get(index)?);
        Some(Mark { seq: self.first.saturating_add(index as u64), print: fingerprint(row), at: note.at })
    }

    pub(super) fn into_events(self) -> Events {
        self.events
    }
}
