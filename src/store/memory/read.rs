//! Events from anywhere in a log.

use std::ops::ControlFlow;

use super::hooks::Step;
use super::judge::{last_row, stored_header, unknown_type};
use super::log::View;
use super::storage::MemoryStorage;
use crate::error::Result;
use crate::format::inventory::Inventory;
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Check, PhysicalRow};
use crate::store::events::Events;
use crate::store::layout::printable;
use crate::units::Generation;

impl MemoryStorage {
    /// The newest log of a session, for somebody who is going to read its rows; `None` if it is not stored.
    pub(super) fn view_to_read(&self, id: &Text) -> Result<Option<View>> {
        if !self.is_stored(id) {
            return Ok(None);
        }
        self.step(Step::Read, Some(id))?;
        self.count_read();
        Ok(self.view(id))
    }

    /// Events `[from, to)` in the current generation, and how many the log has.
    ///
    /// A part of a log whose end is clear costs as many rows as it has, and damage before it is not looked for. All of it, and
    /// all else, takes a judgement of the whole.
    pub(super) fn read(&self, view: &View, from: u64, to: u64, limits: &Limits) -> Result<(Events, u64)> {
        let generation = stored_header(view, limits)?.generation();
        let lines = view.log.lines as u64;
        let is_whole = from == 0 && to > lines;
        // Where all is known to be well, no row is looked at again.
        let is_known = view.log.judged.as_ref().is_some_and(|judged| judged.is_clean());
        let is_part =
            generation == Generation::CURRENT && !is_whole && !is_known && ends_clearly(view, limits);
        if is_part && let Some(events) = read_part(view, from, to.min(lines), limits)? {
            return Ok((events, lines));
        }
        let judged = self.judged(view, limits)?;
        judged.require(&view.path())?;
        if to > judged.events {
            // Less than was asked for, and nobody knows whether it was all: that must not pass for the end of the log.
            judged.require_appendable(&view.path())?;
        }
        let (from, to) = (as_index(from), as_index(to.min(judged.events)));
        let events = match &judged.converted {
            Some(events) => events.slice(from, to),
            None => view.log.rows.events(from, to),
        };
        Ok((events, judged.events))
    }
}

/// Whether the last line says that every line is one event, and nothing stands behind it.
fn ends_clearly(view: &View, limits: &Limits) -> bool {
    let lines = view.log.lines as u64;
    view.log.has_an_end()
        && (lines == 0
            || last_row(view, Generation::CURRENT, limits).is_some_and(|(events, _)| events == lines))
}

/// The events `[from, to)` of a current log, or `None` if one of the lines there is not what it should be.
///
/// # Errors
/// [`crate::Error::FormatUnsupported`] for one that has to be understood and is not.
fn read_part(view: &View, from: u64, to: u64, limits: &Limits) -> Result<Option<Events>> {
    let vocabulary = Inventory::of(Generation::CURRENT);
    let mut events = Events::default();
    let mut unknown = None;
    let mut seq = from;
    view.log.rows.each(as_index(from), as_index(to), &mut |line| {
        let Ok(row) = PhysicalRow::read(line, Generation::CURRENT, Check::Full, limits) else {
            return ControlFlow::Break(());
        };
        if row.first_seq().get() != seq {
            return ControlFlow::Break(());
        }
        if let Some(event) = vocabulary.unknown_event(&row) {
            unknown = Some((seq, printable(&event.event_type().to_text())));
            return ControlFlow::Break(());
        }
        events.push_line(line);
        seq = row.next_seq();
        ControlFlow::Continue(())
    });
    match unknown {
        Some((seq, event_type)) => Err(unknown_type(&view.path(), seq, event_type)),
        None => Ok((seq >= to).then_some(events)),
    }
}

fn as_index(seq: u64) -> usize {
    usize::try_from(seq).unwrap_or(usize::MAX)
}
