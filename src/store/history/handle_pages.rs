//! Pages of any session, through nothing but its handle's `read`.

use std::ops::ControlFlow;

use super::cursor::LogIdentity;
use super::intake::{Backward, Forward};
use super::log_pages::{TURN_START, is_fault};
use super::meter::Meter;
use super::page::{Page, PageEnd};
use super::request::{Direction, PageLimits, PageRequest, PageStart};
use super::rows::{RowSeen, Rows};
use crate::error::{Error, Result, Stale};
use crate::store::cancel::Cancel;
use crate::store::events::Events;
use crate::store::layout::printable;
use crate::store::seam::SessionHandle;

/// Events of the first read.
const BATCH_MIN: u64 = 64;
/// Bytes of events that are read at once, if they are of ordinary size.
const BATCH_BYTES: usize = 1 << 20;

/// Reads one page by ranges of seqs: what [`SessionHandle::page`] does unless a backend knows better.
///
/// Where the log ends is searched with O(log events) reads of one event.
///
/// # Errors
/// [`Error::StaleCursor`], and those of [`SessionHandle::read`].
pub(in crate::store) fn page_of_handle<H: SessionHandle + ?Sized>(
    handle: &H,
    request: &PageRequest,
    cancel: &Cancel,
) -> Result<Page> {
    cancel.check()?;
    let pager = Pager { handle, identity: LogIdentity::new(handle.header(), None), cancel };
    if let PageStart::Cursor(cursor) = &request.from {
        pager.identity.check(cursor).map_err(|source| pager.stale(cursor.seq(), source))?;
    }
    match request.direction {
        Direction::Forward => pager.forward(request.from, request.limits),
        Direction::Backward => pager.backward(request.from, request.limits),
    }
}

struct Pager<'h, H: ?Sized> {
    handle: &'h H,
    identity: LogIdentity,
    cancel: &'h Cancel,
}

impl<H: SessionHandle + ?Sized> Pager<'_, H> {
    fn forward(&self, from: PageStart, limits: PageLimits) -> Result<Page> {
        let (anchor, cut) = match from {
            PageStart::Seq(seq) => (None, seq),
            PageStart::Cursor(cursor) => (cursor.anchor(), cursor.seq()),
            PageStart::End => (None, self.events()?),
        };
        // The event before it tells that the log reaches there.
        let mut next = anchor.map_or(cut.saturating_sub(1), |anchor| anchor.seq);
        let mut forward = Forward::new(cut, anchor, limits);
        let mut batch = BATCH_MIN;
        let end = loop {
            let due = forward.events_left().saturating_add(cut.saturating_sub(next)).saturating_add(1);
            let events = match self.read(next, batch.min(due), &mut batch) {
                Err(error) if is_fault(&error) && !forward.is_empty() => break PageEnd::Fault,
                events => events?,
            };
            if events.is_empty() {
                break PageEnd::Log;
            }
            next = next.saturating_add(events.len() as u64);
            let flow = each(&events, &mut |row| forward.row(row));
            if let Some(end) = forward.end() {
                break end;
            }
            if flow.is_break() {
                break PageEnd::Log;
            }
        };
        if let Some(source) = forward.stale() {
            let source = match source {
                Stale::Shorter { .. } => Stale::Shorter { events: self.events()? },
                source => source,
            };
            return Err(self.stale(cut, source));
        }
        let (rows, before) = forward.finish();
        if rows.is_empty() && before.is_none() && cut > 0 {
            // The log ends further before.
            return match self.events()? {
                0 => Ok(Page::new(&self.identity, rows, None, end)),
                events => self.forward(PageStart::Seq(events), limits),
            };
        }
        Ok(Page::new(&self.identity, rows, before, end))
    }

    fn backward(&self, from: PageStart, limits: PageLimits) -> Result<Page> {
        let (anchor, mut cut) = match from {
            PageStart::Seq(seq) => (None, seq),
            PageStart::Cursor(cursor) => (cursor.anchor(), cursor.seq()),
            PageStart::End => (None, self.events()?),
        };
        if let Some(anchor) = anchor {
            let mut proof = Forward::new(u64::MAX, Some(anchor), PageLimits::UNBOUNDED);
            let events = self.handle.read(anchor.seq, 1, self.cancel)?;
            let _at = each(&events, &mut |row| proof.row(row));
            if let Some(source) = proof.stale() {
                let source = match source {
                    Stale::Shorter { .. } => Stale::Shorter { events: self.events()? },
                    source => source,
                };
                return Err(self.stale(cut, source));
            }
        } else if cut > 0 && self.handle.read(cut.saturating_sub(1), 1, self.cancel)?.is_empty() {
            cut = self.events()?;
        }
        let mut meter = Meter::new(limits, Direction::Backward);
        let mut parts: Vec<Rows> = Vec::new();
        let (mut low, mut batch) = (cut, BATCH_MIN);
        let end = loop {
            if low == 0 {
                break PageEnd::Log;
            }
            if let Some(full) = meter.full() {
                break full;
            }
            let length = batch.min(low).min(meter.events_left().saturating_add(1));
            let first = low.saturating_sub(length);
            let events = match self.handle.read(first, length, self.cancel) {
                Err(error) if is_fault(&error) && length > 1 => {
                    batch = length / 2;
                    continue;
                }
                Err(error) if is_fault(&error) && !parts.is_empty() => break PageEnd::Fault,
                events => events?,
            };
            if (events.len() as u64) < length {
                return Err(
                    self.stale(cut, Stale::Shorter { events: first.saturating_add(events.len() as u64) })
                );
            }
            batch = next_batch(length, &events);
            let mut back = Backward::new(low, None, meter);
            let _at = each(&events, &mut |row| back.row(row));
            let (mut rows, _) = back.finish();
            let (fitting, end) = rows.fit(&mut meter);
            rows.keep_last(fitting);
            if !rows.is_empty() {
                parts.push(rows);
            }
            if let Some(end) = end {
                break end;
            }
            low = first;
        };
        let mut rows = parts.pop().unwrap_or_default();
        while let Some(later) = parts.pop() {
            rows.extend(&later);
        }
        Ok(Page::new(&self.identity, rows, None, end))
    }

    /// As many of `length` events from `first` on as are readable; none at the end of the log.
    fn read(&self, first: u64, length: u64, batch: &mut u64) -> Result<Events> {
        let mut length = length;
        loop {
            match self.handle.read(first, length, self.cancel) {
                Err(error) if is_fault(&error) && length > 1 => length /= 2,
                events => {
                    let events = events?;
                    *batch = next_batch(length, &events);
                    return Ok(events);
                }
            }
        }
    }

    /// How many events the log has, as far as they can be read.
    fn events(&self) -> Result<u64> {
        let has = |seq: u64| Ok(!self.handle.read(seq, 1, self.cancel)?.is_empty());
        // A handle that writes knows, but for what waits in front of it.
        let known = self.handle.next_seq().unwrap_or(0);
        let (mut low, mut high) = match known.checked_sub(1) {
            Some(last) if !has(last)? => (0, last),
            _ => {
                let (mut low, mut step) = (known, 1_u64);
                while has(low.saturating_add(step).saturating_sub(1))? {
                    low = low.saturating_add(step);
                    step = step.saturating_mul(2);
                }
                (low, low.saturating_add(step).saturating_sub(1))
            }
        };
        // Event `low - 1` is there, event `high` is not.
        while low < high {
            let middle = low.midpoint(high);
            if has(middle)? {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn stale(&self, seq: u64, source: Stale) -> Error {
        Error::StaleCursor { id: printable(self.handle.header().id()), seq, source }
    }
}

fn next_batch(length: u64, events: &Events) -> u64 {
    match events.as_bytes().len() {
        ..BATCH_BYTES => length.saturating_mul(2).max(BATCH_MIN),
        _ => (length / 2).max(1),
    }
}

fn each(events: &Events, take: &mut dyn FnMut(&RowSeen<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    for event in events.iter() {
        let (seq, line) = (event.seq().get(), event.line().as_bytes());
        let starts_turn = event.is(TURN_START);
        take(&RowSeen { seq, line, at: 0, starts_turn, is_known: true })?;
    }
    ControlFlow::Continue(())
}
