//! A client's view of a session: the events, and behind them the chunks of the attempt that is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::baseline::Baseline;
use super::follower::LiveEvent;
use super::frame::{Frame, Outcome, Step};
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
    /// Where clients of DSH sort it in between seqs. Rows far behind one event share a key at last; the pair of `next_seq` and
    /// `number` never does.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a sort key for screens")]
    pub fn sort_key(&self) -> f64 {
        self.next_seq as f64 - 1.0 / (self.number as f64 + 1.0)
    }
}

/// What a call did to the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// All of it is new.
    Replace,
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
    revision: Option<u64>,
}

#[derive(Clone, Debug)]
struct ActiveView {
    attempt_id: Arc<str>,
    started_at: u64,
    turn: u64,
    step: u64,
    next_index: u64,
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

    /// Begins anew with `events`, which are all that are to be shown, up to the one before the baseline's `next_seq` at least, and
    /// with what `baseline` says; later events are left to come. Without a baseline, an attempt that is under way is not shown
    /// until it is settled.
    ///
    /// # Errors
    /// The baseline's stream is none; the view is empty then.
    pub fn replace(
        &mut self,
        mut events: Vec<LiveEvent>,
        baseline: Option<&Baseline>,
    ) -> Result<Change, StreamFault> {
        *self = Self::new();
        let active = baseline.and_then(|baseline| baseline.active.as_ref());
        let expansion = active.map(|active| expand(active.stream.as_bytes())).transpose()?;
        self.revision = baseline.map(|baseline| baseline.revision);
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
            });
            for timed in expansion.chunks() {
                let mut json = Vec::new();
                timed.chunk.write_json(&mut json);
                self.show_chunk(timed.time, Arc::from(String::from_utf8_lossy(&json)));
            }
        }
        Ok(Change::Replace)
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
        Decision::Show(Change::Append)
    }

    /// Takes a frame in.
    pub fn frame(&mut self, frame: &Frame) -> Decision {
        let is_next = self.revision.is_none_or(|revision| revision.checked_add(1) == Some(frame.revision));
        if !is_next {
            return Decision::Rebaseline;
        }
        self.revision = Some(frame.revision);
        let is_shown = self.active.as_ref().is_some_and(|active| active.attempt_id == frame.attempt_id);
        match &frame.step {
            Step::Start { .. } if self.active.is_some() || !self.staged.is_empty() => Decision::Rebaseline,
            &Step::Start { turn, step, next_seq } => {
                let attempt_id = Arc::clone(&frame.attempt_id);
                self.active =
                    Some(ActiveView { attempt_id, started_at: next_seq, turn, step, next_index: 0 });
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
        Decision::Show(Change::Append)
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
                    self.settle(&active.attempt_id, event);
                    return Decision::Show(Change::Settle { attempt_id: active.attempt_id, seq: Some(seq) });
                }
                _ => return Decision::Rebaseline,
            },
        };
        self.retire(&active.attempt_id);
        Decision::Show(Change::Settle { attempt_id: active.attempt_id, seq })
    }

    fn settle(&mut self, attempt_id: &Arc<str>, event: LiveEvent) {
        self.retire(attempt_id);
        self.published.insert(event.seq);
        let later = |entry: &Entry| match entry {
            Entry::Event(other) => other.seq > event.seq,
            Entry::Live(row) => row.next_seq > event.seq,
        };
        let at = self.entries.iter().position(later).unwrap_or(self.entries.len());
        self.entries.insert(at, Entry::Event(event));
    }

    fn retire(&mut self, attempt_id: &Arc<str>) {
        self.entries.retain(|entry| !matches!(entry, Entry::Live(row) if row.attempt_id == *attempt_id));
    }

    fn show_chunk(&mut self, time: UnixMs, json: Arc<str>) {
        let Some(active) = &self.active else { return };
        self.number = self.number.saturating_add(1);
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
        let appends = row.surface_op() == Some("\"append\"");
        if kind == SettlementKind::Message && !appends {
            return None;
        }
        let settlement = Settlement::read(kind, row.data()).ok()?;
        (settlement.turn == active.turn && settlement.step == active.step).then_some(kind)
    }
}
