//! A client's view of a session: the events, and behind them the chunks of the attempt that is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::baseline::Baseline;
use super::follower::LiveEvent;
use super::frame::{Frame, Outcome, Step};
use super::place::Place;
use crate::json::{write_i64, write_number, write_string, write_u64};
use crate::limits::Limits;
use crate::row::{Check, Event};
use crate::stream::{Settlement, SettlementKind, StreamFault, expand};
use crate::units::UnixMs;

/// One line of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A stored event.
    Event(LiveEvent),
    /// A chunk that is not stored, of an attempt under way.
    Live(LiveRow),
}

/// A chunk of an attempt under way. It stands behind the event `next_seq - 1`, and behind the live rows before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRow {
    /// The attempt.
    pub attempt_id: Arc<str>,
    /// The turn, from 1.
    pub turn: u64,
    /// The step of the turn, from 1.
    pub step: u64,
    /// Events that were there when it was taken in.
    pub next_seq: u64,
    /// Its number since the last event, from 1.
    pub number: u64,
    /// When the chunk came.
    pub time: UnixMs,
    /// The chunk as JSON.
    pub json: Arc<str>,
}

impl LiveRow {
    /// Where it stands.
    #[must_use]
    pub const fn place(&self) -> Place {
        Place::of_live(self.next_seq, self.number)
    }

    /// [`Place::sort_key`].
    #[must_use]
    pub fn sort_key(&self) -> f64 {
        self.place().sort_key()
    }
}

impl Entry {
    /// Where it stands.
    #[must_use]
    pub const fn place(&self) -> Place {
        match self {
            Self::Event(event) => Place::of_event(event.seq),
            Self::Live(row) => row.place(),
        }
    }

    /// Appends the entry as the JSON object that clients of DSH read: an `event` with the row as it is stored, or a `transient` one
    /// of type `assistant/live-chunk`, whose `seq` is the sort key.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Event(event) => event.write_json(out),
            Self::Live(row) => {
                out.extend_from_slice(
                    b"{\"type\":\"transient\",\"event\":{\"type\":\"assistant/live-chunk\",\"seq\":",
                );
                write_number(out, row.sort_key());
                out.extend_from_slice(b",\"time\":");
                write_i64(out, row.time.get());
                out.extend_from_slice(b",\"data\":{\"attemptId\":");
                write_string(out, &row.attempt_id);
                out.extend_from_slice(b",\"turn\":");
                write_u64(out, row.turn);
                out.extend_from_slice(b",\"step\":");
                write_u64(out, row.step);
                out.extend_from_slice(b",\"chunk\":");
                out.extend_from_slice(row.json.as_bytes());
                out.extend_from_slice(b"}}}");
            }
        }
    }
}

/// What a call did to the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// All of it is new.
    Replace,
    /// An older page stands in front: the first `count` entries. None for a page that only says that nothing is older.
    Prepend {
        /// How many.
        count: usize,
    },
    /// One entry more at the end.
    Append,
    /// The live rows of an attempt are gone; if it was settled, its event is there.
    Settle {
        /// The attempt.
        attempt_id: Arc<str>,
        /// Seq of its settlement.
        seq: Option<u64>,
    },
}

/// What a client has to do after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a view that asks for a new baseline is wrong until it gets one"]
#[non_exhaustive]
pub enum Decision {
    /// Nothing: the window is as before.
    Nothing,
    /// Show the change.
    Show(Change),
    /// Follow anew: events or frames are missing.
    Rebaseline,
}

/// Folds a baseline, events and frames into a window of entries.
///
/// A settlement of the attempt that is shown is held back until the end frame names it: then the live rows go and the event comes, in
/// one change. When something does not fit, [`Decision::Rebaseline`] asks for a new start.
#[derive(Clone, Debug, Default)]
pub struct View {
    entries: Vec<Entry>,
    active: Option<ActiveView>,
    staged: BTreeMap<u64, (SettlementKind, LiveEvent)>,
    published: BTreeSet<u64>,
    /// Events taken in: one above the highest seq.
    next_seq: u64,
    /// Live rows since then.
    number: u64,
    /// Revision of the last frame, once it is known.
    frame_revision: Option<u64>,
    has_more: bool,
    revision: u64,
    change: Option<Change>,
}

#[derive(Clone, Debug)]
struct ActiveView {
    attempt_id: Arc<str>,
    started_at: u64,
    turn: u64,
    step: u64,
    next_index: u64,
    first_row: Option<Place>,
}

impl View {
    /// An empty window.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The window: events by seq, live rows where they came.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The attempt whose live rows are shown.
    #[must_use]
    pub fn attempt_id(&self) -> Option<&str> {
        self.active.as_ref().map(|active| &*active.attempt_id)
    }

    /// Whether the log has events before the window.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// How many changes the window has had.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The last of them: what turned the window of the revision before into this one.
    #[must_use]
    pub const fn change(&self) -> Option<&Change> {
        self.change.as_ref()
    }

    /// Begins anew with `events`, which are all that are to be shown, up to the one before the baseline's `next_seq` at least, and
    /// with what `baseline` says; later events are left to come. Without a baseline, an attempt that is under way is not shown
    /// until it is settled.
    ///
    /// # Errors
    /// The baseline's stream is none; the view is empty then.
    pub fn replace(
        &mut self,
        events: Vec<LiveEvent>,
        baseline: Option<&Baseline>,
    ) -> Result<Change, StreamFault> {
        self.replace_page(events, false, baseline)
    }

    /// [`replace`](Self::replace) by the last page of a log, which `has_more` before it: [`prepend`](Self::prepend) takes those.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_page(
        &mut self,
        mut events: Vec<LiveEvent>,
        has_more: bool,
        baseline: Option<&Baseline>,
    ) -> Result<Change, StreamFault> {
        let change = self.changed(Change::Replace);
        *self = Self { has_more, revision: self.revision, change: Some(change.clone()), ..Self::new() };
        let active = baseline.and_then(|baseline| baseline.active.as_ref());
        let expansion = active.map(|active| expand(active.stream.as_bytes())).transpose()?;
        self.frame_revision = baseline.map(|baseline| baseline.revision);
        if let Some(baseline) = baseline {
            events.retain(|event| event.seq < baseline.next_seq);
            self.next_seq = baseline.next_seq;
        }
        self.next_seq = events.last().map_or(self.next_seq, |event| event.seq.saturating_add(1));
        self.published = events.iter().map(|event| event.seq).collect();
        self.entries = events.into_iter().map(Entry::Event).collect();
        if let (Some(active), Some(expansion)) = (active, &expansion) {
            self.active = Some(ActiveView {
                attempt_id: Arc::clone(&active.attempt_id),
                started_at: active.started_at,
                turn: active.turn,
                step: active.step,
                next_index: active.next_index,
                first_row: None,
            });
            let shown = usize::try_from(active.next_index).unwrap_or(usize::MAX);
            for timed in expansion.chunks().take(shown) {
                let mut json = Vec::new();
                timed.chunk.write_json(&mut json);
                self.show_chunk(timed.time, Arc::from(String::from_utf8_lossy(&json)));
            }
        }
        Ok(change)
    }

    /// Puts an older page in front: `events` by seq, of which those that the window has are left out. Asks for a new start if there
    /// is a gap behind them.
    pub fn prepend(&mut self, mut events: Vec<LiveEvent>, has_more: bool) -> Decision {
        let first = self.entries.iter().find_map(|entry| match entry {
            Entry::Event(event) => Some(event.seq),
            Entry::Live(_) => None,
        });
        let first = first.unwrap_or(self.next_seq);
        events.retain(|event| event.seq < first);
        if events.last().is_some_and(|last| last.seq.checked_add(1) != Some(first)) {
            return Decision::Rebaseline;
        }
        let count = events.len();
        self.published.extend(events.iter().map(|event| event.seq));
        self.entries.splice(..0, events.into_iter().map(Entry::Event));
        self.has_more = has_more;
        self.show(Change::Prepend { count })
    }

    fn show(&mut self, change: Change) -> Decision {
        Decision::Show(self.changed(change))
    }

    fn changed(&mut self, change: Change) -> Change {
        self.revision = self.revision.saturating_add(1);
        self.change = Some(change.clone());
        change
    }

    /// Takes an event in. One that is there already changes nothing; one that leaves others out asks for a new start.
    pub fn event(&mut self, event: LiveEvent) -> Decision {
        if event.seq < self.next_seq {
            return Decision::Nothing;
        }
        if event.seq > self.next_seq {
            return Decision::Rebaseline;
        }
        self.next_seq = event.seq.saturating_add(1);
        self.number = 0;
        if let Some(kind) = self.settles(&event) {
            self.staged.insert(event.seq, (kind, event));
            return Decision::Nothing;
        }
        self.published.insert(event.seq);
        self.entries.push(Entry::Event(event));
        self.show(Change::Append)
    }

    /// Takes a frame in.
    pub fn frame(&mut self, frame: &Frame) -> Decision {
        let is_next =
            self.frame_revision.is_none_or(|revision| revision.checked_add(1) == Some(frame.revision));
        if !is_next {
            return Decision::Rebaseline;
        }
        self.frame_revision = Some(frame.revision);
        let is_shown = self.active.as_ref().is_some_and(|active| active.attempt_id == frame.attempt_id);
        match &frame.step {
            Step::Start { .. } if self.active.is_some() || !self.staged.is_empty() => Decision::Rebaseline,
            &Step::Start { turn, step, next_seq } => {
                let attempt_id = Arc::clone(&frame.attempt_id);
                self.active = Some(ActiveView {
                    attempt_id,
                    started_at: next_seq,
                    turn,
                    step,
                    next_index: 0,
                    first_row: None,
                });
                Decision::Nothing
            }
            // The window came without this attempt: its settlement will be an event like others.
            Step::Chunk { .. } | Step::End { .. } if !is_shown => Decision::Nothing,
            Step::Chunk { index, time, json } => self.chunk(*index, *time, json),
            Step::End { index, outcome } => self.end(*index, *outcome),
        }
    }

    fn chunk(&mut self, index: u64, time: UnixMs, json: &Arc<str>) -> Decision {
        let Some(active) = self.active.as_mut().filter(|active| active.next_index == index) else {
            return Decision::Rebaseline;
        };
        active.next_index = index.saturating_add(1);
        self.show_chunk(time, Arc::clone(json));
        self.show(Change::Append)
    }

    fn end(&mut self, index: u64, outcome: Outcome) -> Decision {
        let Some(active) = self.active.take() else { return Decision::Nothing };
        if active.next_index != index {
            return Decision::Rebaseline;
        }
        let seq = match outcome {
            Outcome::Abandoned if self.staged.is_empty() => None,
            Outcome::Abandoned => return Decision::Rebaseline,
            Outcome::Committed { seq, .. } if self.published.contains(&seq) => return Decision::Nothing,
            Outcome::Committed { kind, seq } => match self.staged.remove(&seq) {
                Some((staged, event)) if staged == kind => {
                    self.settle(&active, event);
                    return self.show(Change::Settle { attempt_id: active.attempt_id, seq: Some(seq) });
                }
                _ => return Decision::Rebaseline,
            },
        };
        self.retire(&active);
        self.show(Change::Settle { attempt_id: active.attempt_id, seq })
    }

    fn settle(&mut self, active: &ActiveView, event: LiveEvent) {
        self.retire(active);
        self.published.insert(event.seq);
        let at = self.entries.partition_point(|entry| entry.place() < Place::of_event(event.seq));
        self.entries.insert(at, Entry::Event(event));
    }

    /// Takes the live rows of an attempt away. Time O(entries since its first).
    fn retire(&mut self, active: &ActiveView) {
        let Some(first) = active.first_row else { return };
        let from = self.entries.partition_point(|entry| entry.place() < first);
        let is_of_it =
            |entry: &mut Entry| matches!(entry, Entry::Live(row) if row.attempt_id == active.attempt_id);
        self.entries.extract_if(from.., is_of_it).for_each(drop);
    }

    fn show_chunk(&mut self, time: UnixMs, json: Arc<str>) {
        let Some(active) = &mut self.active else { return };
        self.number = self.number.saturating_add(1);
        active.first_row.get_or_insert(Place::of_live(self.next_seq, self.number));
        self.entries.push(Entry::Live(LiveRow {
            attempt_id: Arc::clone(&active.attempt_id),
            turn: active.turn,
            step: active.step,
            next_seq: self.next_seq,
            number: self.number,
            time,
            json,
        }));
    }

    /// Whether the event settles the attempt that is shown.
    fn settles(&self, event: &LiveEvent) -> Option<SettlementKind> {
        let active = self.active.as_ref().filter(|active| event.seq >= active.started_at)?;
        let row = Event::read(&event.row, Check::Envelope, &Limits::DEFAULT).ok()?;
        let kind = SettlementKind::of_event(&row.event_type().to_string_lossy())?;
        if kind == SettlementKind::Message && !row.is_appended() {
            return None;
        }
        let settlement = Settlement::read(kind, row.data()).ok()?;
        (settlement.turn == active.turn && settlement.step == active.step).then_some(kind)
    }
}
