//! Which page is asked for.

use super::cursor::Cursor;

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageStart {
    /// Before this event. Beyond the end of the log it is the end.
    Seq(u64),
    /// Behind the last event.
    End,
    /// Where another page began or ended.
    Cursor(Cursor),
}

/// Which way a page goes from where it begins. Its events are in the order of the log either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// To later events.
    Forward,
    /// To earlier events.
    Backward,
}

/// How much one page holds at most. Absent bounds do not count; a page holds one event at least, whatever they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PageLimits {
    /// Bytes of rows, newlines included. A single event that is longer makes a page of its own: then the page is over this bound.
    pub bytes: Option<u64>,
    /// Events.
    pub events: Option<u64>,
    /// Turns. Where this bound ends a page, it does so before a `turn/start`; what stands before the first one counts as a turn,
    /// and so does the part of a turn in which the page begins. A turn may be of any size: the other bounds cut inside turns.
    pub turns: Option<u64>,
}

impl PageLimits {
    /// No bound at all: the rest of the log, in memory.
    pub const UNBOUNDED: Self = Self { bytes: None, events: None, turns: None };

    /// These limits with so many bytes of rows.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// These limits with so many events.
    #[must_use]
    pub const fn with_events(self, events: u64) -> Self {
        Self { events: Some(events), ..self }
    }

    /// These limits with so many turns.
    #[must_use]
    pub const fn with_turns(self, turns: u64) -> Self {
        Self { turns: Some(turns), ..self }
    }
}

impl Default for PageLimits {
    /// A mebibyte of rows: more than a screen shows, and read in milliseconds.
    fn default() -> Self {
        Self::UNBOUNDED.with_bytes(1 << 20)
    }
}

/// Asks for one page of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PageRequest {
    /// Where it begins.
    pub from: PageStart,
    /// Which way it goes.
    pub direction: Direction,
    /// How much it holds at most.
    pub limits: PageLimits,
}

impl PageRequest {
    /// The page behind `from`.
    #[must_use]
    pub const fn forward(from: PageStart, limits: PageLimits) -> Self {
        Self { from, direction: Direction::Forward, limits }
    }

    /// The page before `from`.
    #[must_use]
    pub const fn backward(from: PageStart, limits: PageLimits) -> Self {
        Self { from, direction: Direction::Backward, limits }
    }

    /// The first page of a log.
    #[must_use]
    pub const fn first(limits: PageLimits) -> Self {
        Self::forward(PageStart::Seq(0), limits)
    }

    /// The last page of a log.
    #[must_use]
    pub const fn last(limits: PageLimits) -> Self {
        Self::backward(PageStart::End, limits)
    }

    /// The page behind a cursor.
    #[must_use]
    pub const fn after(cursor: Cursor, limits: PageLimits) -> Self {
        Self::forward(PageStart::Cursor(cursor), limits)
    }

    /// The page before a cursor.
    #[must_use]
    pub const fn before(cursor: Cursor, limits: PageLimits) -> Self {
        Self::backward(PageStart::Cursor(cursor), limits)
    }
}
