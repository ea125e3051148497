//! Folds over a window: what they are told.

use super::view::{Change, Entry, LiveRow};
use crate::limits::Limits;
use crate::row::{Check, Event};

/// When a screen is to show what a fold has taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Publication {
    /// With the next change that is worth it.
    Later,
    /// With the next picture: once, however many tokens come until then.
    NextPicture,
    /// Now.
    Now,
}

/// A fold over the entries of a window: [`Chat`](super::Chat), [`Trajectory`](super::Trajectory), or a host's own.
///
/// What it holds is a function of the window: stored events may come in any order, so that older pages and late settlements need
/// nothing special; live rows come in theirs, and are forgotten with their attempt. A fold of the stored events alone is the same
/// thing without live rows.
pub trait WindowFold {
    /// Takes in a stored event. One that is there already is not to come again.
    fn event(&mut self, event: &Event<'_>) -> Publication;

    /// Takes in a live row.
    fn live(&mut self, row: &LiveRow) -> Publication;

    /// Forgets what the live rows of an attempt said.
    fn retire(&mut self, attempt_id: &str) -> Publication;

    /// Forgets everything.
    fn clear(&mut self);

    /// Takes in an entry. One whose row cannot be read changes nothing.
    fn entry(&mut self, entry: &Entry) -> Publication {
        match entry {
            Entry::Live(row) => self.live(row),
            Entry::Event(event) => Event::read(&event.row, Check::Envelope, &Limits::DEFAULT)
                .map_or(Publication::Later, |event| self.event(&event)),
        }
    }

    /// Follows a change of a window, whose entries behind it are `entries`. Time O(what is new).
    fn change(&mut self, change: &Change, entries: &[Entry]) -> Publication {
        let fresh = match change {
            Change::Replace => {
                self.clear();
                entries
            }
            Change::Prepend { count } => entries.get(..*count).unwrap_or_default(),
            Change::Append => entries.last().map(std::slice::from_ref).unwrap_or_default(),
            Change::Settle { attempt_id, seq } => {
                let retired = self.retire(attempt_id);
                let settled = seq.and_then(|seq| find(entries, seq));
                return settled.map_or(retired, |entry| self.entry(entry).max(retired));
            }
        };
        let first = if *change == Change::Replace { Publication::Now } else { Publication::Later };
        fresh.iter().map(|entry| self.entry(entry)).fold(first, Publication::max)
    }
}

/// The event with that seq: entries stand in order.
fn find(entries: &[Entry], seq: u64) -> Option<&Entry> {
    let place = super::Place::of_event(seq);
    let at = entries.partition_point(|entry| entry.place() < place);
    entries.get(at).filter(|entry| entry.place() == place)
}
