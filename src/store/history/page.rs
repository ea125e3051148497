//! One page of a log.

use super::cursor::{Cursor, LogIdentity, Mark};
use super::rows::Rows;
use crate::store::events::Events;

/// Some events of a log in a row, and how to go on to both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The events, in the order of the log. None where the page began at the end of the log that it was to go on to.
    pub events: Events,
    /// Seq of the first one; of an empty page the one that would be.
    pub first_seq: u64,
    /// The place before the first event; `None` where nothing comes before it.
    pub before: Option<Cursor>,
    /// The place behind the last event. At the end of the log too: what is appended later comes there.
    pub after: Cursor,
    /// What ended the page, in its direction.
    pub end: PageEnd,
}

/// What ended a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageEnd {
    /// The log: in its direction there was nothing more. A torn end, which was never acknowledged, is not part of the log.
    Log,
    /// [`PageLimits::bytes`](super::PageLimits::bytes).
    Bytes,
    /// [`PageLimits::events`](super::PageLimits::events).
    Events,
    /// [`PageLimits::turns`](super::PageLimits::turns).
    Turns,
    /// What comes next is damaged or not understood. The page that begins there fails, and its error says why.
    Fault,
}

impl Page {
    /// Seq behind that of the last event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.after.seq()
    }

    /// Whether there was more in the page's direction, be it readable or not.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.end != PageEnd::Log
    }

    /// A page of `rows`; `before` is the event before the place where an empty one stands.
    pub(super) fn new(log: &LogIdentity, rows: Rows, before: Option<Mark>, end: PageEnd) -> Self {
        let (first, last) = (rows.first(), rows.last());
        let first_seq =
            first.map(|mark| mark.seq).or(before.map(|mark| mark.seq.saturating_add(1))).unwrap_or(0);
        let next_seq = last.map_or(first_seq, |mark| mark.seq.saturating_add(1));
        Self {
            events: rows.into_events(),
            first_seq,
            before: (first_seq > 0).then(|| log.cursor(first_seq, first.or(before))),
            after: log.cursor(next_seq, last.or(before)),
            end,
        }
    }

    /// An empty page before the first event.
    pub(super) fn at_start(log: &LogIdentity) -> Self {
        // Whatever the first event is: nothing was read of the log that another one would not go with.
        let (events, after) = (Events::default(), log.cursor(0, None));
        Self { events, first_seq: 0, before: None, after, end: PageEnd::Log }
    }
}
