//! What a reader's events make of a page: one way forward, one way back.

use std::ops::ControlFlow;

use super::cursor::{Anchor, Mark};
use super::meter::Meter;
use super::page::PageEnd;
use super::request::{Direction, PageLimits};
use super::rows::{RowSeen, Rows};
use crate::error::Stale;

/// Whether the event next to a cursor is the one that it was.
#[derive(Clone, Copy, Debug)]
enum Proof {
    /// It was not met yet.
    Due(Anchor),
    Held,
    Failed(Stale),
}

impl Proof {
    fn of(anchor: Option<Anchor>) -> Self {
        anchor.map_or(Self::Held, Self::Due)
    }

    /// Looks at the next event; breaks once it is clear that it is not the one.
    fn see(&mut self, row: &RowSeen<'_>) -> ControlFlow<()> {
        if let Self::Due(anchor) = *self
            && row.seq >= anchor.seq
        {
            let holds = row.seq == anchor.seq && row.mark().print == anchor.print;
            *self = if holds { Self::Held } else { Self::Failed(Stale::OtherEvent { seq: anchor.seq }) };
        }
        if matches!(self, Self::Failed(_)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn is_held(self) -> bool {
        matches!(self, Self::Held)
    }

    /// What is wrong, once all of the log was seen, of which `events` are before the place.
    fn stale(self, events: u64) -> Option<Stale> {
        match self {
            Self::Held => None,
            Self::Due(_) => Some(Stale::Shorter { events }),
            Self::Failed(stale) => Some(stale),
        }
    }
}

/// Takes events in order, from somewhere before a place on, and keeps those behind it that make a page.
#[derive(Debug)]
pub(super) struct Forward {
    cut: u64,
    proof: Proof,
    meter: Meter,
    rows: Rows,
    /// The last event before the place.
    before: Option<Mark>,
    end: Option<PageEnd>,
}

impl Forward {
    pub(super) fn new(cut: u64, anchor: Option<Anchor>, limits: PageLimits) -> Self {
        Self {
            cut,
            proof: Proof::of(anchor),
            meter: Meter::new(limits, Direction::Forward),
            rows: Rows::default(),
            before: None,
            end: None,
        }
    }

    /// Takes the next event; breaks when the page is done, or the place is not the one that it was.
    pub(super) fn row(&mut self, row: &RowSeen<'_>) -> ControlFlow<()> {
        if self.end.is_some() {
            return ControlFlow::Break(());
        }
        self.proof.see(row)?;
        if row.seq < self.cut {
            self.before = Some(row.mark());
            return ControlFlow::Continue(());
        }
        if let Err(end) = self.meter.take(row.bytes(), row.starts_turn) {
            self.end = Some(end);
            return ControlFlow::Break(());
        }
        self.rows.push(row);
        ControlFlow::Continue(())
    }

    /// Whether event `seq` is one for the page.
    pub(super) const fn is_due(&self, seq: u64) -> bool {
        seq >= self.cut && self.end.is_none()
    }

    pub(super) fn is_proved(&self) -> bool {
        self.proof.is_held()
    }

    /// Why the place is not the one that it was, after a log that was read to its end.
    pub(super) fn stale(&self) -> Option<Stale> {
        self.proof.stale(self.before.map_or(0, |mark| mark.seq.saturating_add(1)))
    }

    /// What ended the page, if it was not the log.
    pub(super) fn end(&self) -> Option<PageEnd> {
        self.end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Events that may still be taken.
    pub(super) fn events_left(&self) -> u64 {
        self.meter.events_left()
    }

    /// The events, and the one before them.
    pub(super) fn finish(self) -> (Rows, Option<Mark>) {
        (self.rows, self.before)
    }
}

/// Takes events in order up to a place, and keeps the last of them: as many as may fit into a page, and one more.
#[derive(Debug)]
pub(super) struct Backward {
    cut: u64,
    proof: Proof,
    meter: Meter,
    rows: Rows,
    /// The first event seen, and where.
    lowest: Option<(u64, u64)>,
    is_reached: bool,
    trim_bytes: usize,
}

/// Bytes of rows above which those that cannot fit are dropped.
const TRIM_BYTES: usize = 1 << 20;

impl Backward {
    /// `meter` says how much room there is.
    pub(super) fn new(cut: u64, anchor: Option<Anchor>, meter: Meter) -> Self {
        let (proof, rows) = (Proof::of(anchor), Rows::default());
        Self { cut, proof, meter, rows, lowest: None, is_reached: false, trim_bytes: TRIM_BYTES }
    }

    /// Takes the next event; breaks at the place, or where it is not the one that it was.
    pub(super) fn row(&mut self, row: &RowSeen<'_>) -> ControlFlow<()> {
        if self.is_reached {
            return ControlFlow::Break(());
        }
        self.proof.see(row)?;
        if row.seq < self.cut {
            self.lowest.get_or_insert((row.seq, row.at));
            self.rows.push(row);
            if self.rows.bytes() > self.trim_bytes {
                let (fitting, _) = self.rows.fit(&mut self.meter.clone());
                self.rows.keep_last(fitting.saturating_add(1));
                self.trim_bytes = self.rows.bytes().saturating_mul(2).saturating_add(TRIM_BYTES);
            }
        }
        self.is_reached = row.seq.saturating_add(1) >= self.cut && self.proof.is_held();
        if self.is_reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(super) fn is_proved(&self) -> bool {
        self.proof.is_held()
    }

    /// Whether the place was reached; if not, the log ended before.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Why the place is not the one that it was, after a log that was read to its end.
    pub(super) fn stale(&self) -> Option<Stale> {
        self.proof.stale(if self.rows.is_empty() { 0 } else { self.rows.next_seq() })
    }

    /// The events, and seq and place of the first one that was seen.
    pub(super) fn finish(self) -> (Rows, Option<(u64, u64)>) {
        (self.rows, self.lowest)
    }
}
