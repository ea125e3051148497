//! What is known of a step: what was stored of it, and above that what comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fact::{Moment, StepKey};
use super::fold::Publication;
use super::place::Place;
use super::view::LiveRow;
use crate::json::{write_i64, write_string};
use crate::stream::{AssistantMessage, Chunk, ChunkKind, LiveBlocks, Usage};
use crate::units::UnixMs;

/// When a step's answer came. Times are as recorded: they may repeat, and run backwards where the clock did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepTiming {
    /// When the step started; `None` if that event is not in the window.
    pub started: Option<UnixMs>,
    /// The first token.
    pub first_token: Option<UnixMs>,
    /// When the answer was stored, or what interrupted it.
    pub ended: Option<UnixMs>,
}

impl StepTiming {
    pub(super) fn write_members(self, out: &mut Vec<u8>) {
        let times = [
            (&b",\"started\":"[..], self.started),
            (b",\"firstToken\":", self.first_token),
            (b",\"ended\":", self.ended),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                out.extend_from_slice(name);
                write_i64(out, time.get());
            }
        }
    }
}

/// The blocks of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocks<'f> {
    /// As they are stored: a JSON array.
    Settled(&'f str),
    /// As far as they came.
    Live(&'f LiveBlocks),
}

impl Blocks<'_> {
    /// Appends the blocks as a JSON array.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Settled(json) => out.extend_from_slice(json.as_bytes()),
            Self::Live(blocks) => blocks.write_json(out),
        }
    }
}

/// A step in a fold.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    pub(super) started: Option<Moment>,
    pub(super) end: Option<Moment>,
    pub(super) settled: Option<Settled>,
    pub(super) live: Option<Overlay>,
}

/// A message that is stored.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) at: Moment,
    pub(super) content: Arc<str>,
    pub(super) usage: Option<Usage>,
    pub(super) interrupted: bool,
}

impl Settled {
    pub(super) fn of(at: Moment, message: &AssistantMessage<'_>) -> Self {
        let usage = message.usage.and_then(Usage::of_json);
        Self { at, content: message.content.into(), usage, interrupted: message.interrupted }
    }
}

/// What the live rows of an attempt say.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    pub(super) attempt_id: Arc<str>,
    pub(super) blocks: LiveBlocks,
    /// The last usage since the last retry.
    pub(super) last_usage: Option<Usage>,
    /// All usages together.
    pub(super) sum_of_usages: Option<Usage>,
    pub(super) first_token: Option<UnixMs>,
    /// The row that first showed something.
    pub(super) shown_at: Option<Place>,
    /// Whether the blocks show something.
    pub(super) is_visible: bool,
    /// Events that were there when its last row came.
    next_seq: u64,
}

impl Overlay {
    fn new(row: &LiveRow) -> Self {
        Self {
            attempt_id: Arc::clone(&row.attempt_id),
            blocks: LiveBlocks::new(),
            last_usage: None,
            sum_of_usages: None,
            first_token: None,
            shown_at: None,
            is_visible: false,
            next_seq: row.next_seq,
        }
    }

    fn take(&mut self, row: &LiveRow) -> Publication {
        self.next_seq = row.next_seq;
        let Some(chunk) = Chunk::of_shown(&row.json) else { return Publication::Later };
        if chunk.is_token() {
            self.first_token.get_or_insert(row.time);
        }
        if chunk.kind() == Some(ChunkKind::Usage)
            && let Chunk::Raw(raw) = chunk
            && let Some(usage) = raw.member("usage").and_then(Usage::of_json)
        {
            self.last_usage = Some(usage);
            self.sum_of_usages = Some(self.sum_of_usages.map_or(usage, |sum| sum.plus(usage)));
        }
        if !self.blocks.push(chunk) {
            return Publication::Later;
        }
        // A chunk that shows something shows its block; any other one can at most take something away.
        self.is_visible = chunk.is_visible() || self.is_visible && self.blocks.has_visible();
        if self.is_visible {
            self.shown_at.get_or_insert(row.place());
        }
        Publication::NextPicture
    }

    /// What it said before `at` is tried anew. The first token stays.
    pub(super) fn retry(&mut self, at: Moment) {
        if self.next_seq <= at.seq {
            self.blocks.clear();
            self.last_usage = None;
            self.is_visible = false;
        }
    }
}

impl Step {
    pub(super) fn start(&mut self, at: Moment) {
        self.started = Some(self.started.map_or(at, |known| known.min(at)));
    }

    pub(super) fn close(&mut self, at: Moment) {
        self.end = Some(self.end.map_or(at, |known| known.min(at)));
    }

    /// Takes in the message; of several the last one counts.
    pub(super) fn settle(&mut self, settled: Settled) {
        if self.settled.as_ref().is_none_or(|known| known.at <= settled.at) {
            self.settled = Some(settled);
        }
    }

    /// Takes in a live row. A step shows the rows of one attempt, the last one that had any.
    pub(super) fn live(&mut self, row: &LiveRow) -> Publication {
        let is_same = self.live.as_ref().is_some_and(|live| live.attempt_id == row.attempt_id);
        let live = self.live.take().filter(|_| is_same);
        self.live.insert(live.unwrap_or_else(|| Overlay::new(row))).take(row)
    }

    /// Whether nothing is known of it.
    pub(super) const fn is_nothing(&self) -> bool {
        self.started.is_none() && self.end.is_none() && self.settled.is_none() && self.live.is_none()
    }

    /// The live rows, if something of them is left when the step is over without a message.
    pub(super) fn interrupted(&self, end: Option<Moment>) -> Option<(Moment, &Overlay)> {
        let live = self.live.as_ref().filter(|live| self.settled.is_none() && live.blocks.is_evidence());
        end.zip(live)
    }
}

/// The steps of a fold, and which of them are over.
#[derive(Clone, Debug)]
pub(super) struct Steps<S> {
    pub(super) steps: BTreeMap<StepKey, S>,
    turn_ends: BTreeMap<u64, Moment>,
    /// The steps that attempts have live rows in; one, as a rule.
    lives: Vec<(Arc<str>, StepKey)>,
}

impl<S> Default for Steps<S> {
    fn default() -> Self {
        Self { steps: BTreeMap::new(), turn_ends: BTreeMap::new(), lives: Vec::new() }
    }
}

impl<S: Default> Steps<S> {
    pub(super) fn entry(&mut self, key: StepKey) -> &mut S {
        self.steps.entry(key).or_default()
    }

    /// What ended the step: its own end, or that of its turn.
    pub(super) fn end_of(&self, key: StepKey, step: &Step) -> Option<Moment> {
        let of_turn = self.turn_ends.get(&key.turn).copied();
        step.end.into_iter().chain(of_turn).min()
    }

    /// Ends a turn, and gives the keys of its steps.
    pub(super) fn end_turn(&mut self, turn: u64, at: Moment) -> Vec<StepKey> {
        let end = self.turn_ends.entry(turn).or_insert(at);
        *end = at.min(*end);
        let steps = StepKey { turn, step: 0 }..=StepKey { turn, step: u64::MAX };
        self.steps.range(steps).map(|(key, _)| *key).collect()
    }

    pub(super) fn has_rows(&mut self, row: &LiveRow) -> StepKey {
        let key = StepKey { turn: row.turn, step: row.step };
        if !self.lives.iter().any(|(attempt_id, _)| *attempt_id == row.attempt_id) {
            self.lives.push((Arc::clone(&row.attempt_id), key));
        }
        key
    }

    /// Forgets the live rows of an attempt: `of` gives the step of a state. Gives the key if there were any.
    pub(super) fn retire(&mut self, attempt_id: &str, of: impl Fn(&mut S) -> &mut Step) -> Option<StepKey> {
        let at = self.lives.iter().position(|(known, _)| **known == *attempt_id)?;
        let (_, key) = self.lives.swap_remove(at);
        let step = of(self.steps.get_mut(&key)?);
        step.live.take_if(|live| *live.attempt_id == *attempt_id).map(|_| key)
    }
}

/// Appends the members that every step's JSON has first.
pub(super) fn write_head(out: &mut Vec<u8>, kind: &str, key: &str) {
    out.extend_from_slice(b"{\"kind\":");
    write_string(out, kind);
    out.extend_from_slice(b",\"key\":");
    write_string(out, key);
}
