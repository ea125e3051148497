//! The conversation of a window.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::call::{ChatCall, asked};
use super::fact::{Fact, Moment, StepKey};
use super::fold::{Publication, WindowFold};
use super::place::Place;
use super::step::{Blocks, Settled, Step, StepTiming, Steps, write_head};
use super::view::LiveRow;
use crate::json::{Tape, Text, write_i64, write_number, write_text, write_u64};
use crate::row::Event;
use crate::stream::Usage;

/// Folds a window into a conversation: what was said, the answers of the model, those under way included, and its tool calls with
/// their results.
///
/// Entries have keys that stay as long as they are there, and [`changes`](Self::changes) names those that a screen has to look at
/// again. An answer is one entry for each step of a turn: its message once that is stored, before that what the live rows say. The
/// stream inside a message is never read, so a stored answer has no time of its first token ([`Trajectory`](super::Trajectory) has).
///
/// Memory: the content of what is shown. Time: O(bytes) for an event, O(chunk) for a live row.
#[derive(Debug, Default)]
pub struct Chat {
    tape: Tape,
    steps: Steps<ChatStep>,
    said: BTreeMap<u64, ChatMessage>,
    order: BTreeSet<(Anchor, ChatKey)>,
    anchors: HashMap<ChatKey, Anchor>,
    changed: BTreeSet<ChatKey>,
}

/// Where an entry stands; calls stand behind their message in the order in which it has them.
pub(super) type Anchor = (Place, u32);

#[derive(Clone, Debug, Default)]
struct ChatStep {
    step: Step,
    calls: BTreeMap<Text, ChatCall>,
}

/// Name of an entry of a [`Chat`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChatKey {
    /// The message that the event of that seq says.
    Message(u64),
    /// The answer of a step.
    Answer(StepKey),
    /// The call of a step with that id.
    Call(StepKey, Text),
}

impl fmt::Display for ChatKey {
    /// Unique in a chat: `#5`, `2:1`, `2:1/call-7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(seq) => write!(f, "#{seq}"),
            Self::Answer(key) => key.fmt(f),
            Self::Call(key, id) => write!(f, "{key}/{}", id.to_string_lossy()),
        }
    }
}

/// An entry of a [`Chat`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ChatEntry<'c> {
    /// What somebody else than the model said.
    Message(&'c ChatMessage),
    /// An answer of the model.
    Answer(ChatAnswer<'c>),
    /// A tool call that a stored answer asks for.
    Call(&'c ChatCall),
}

/// What somebody else than the model said: a `user/message`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The event.
    pub at: Moment,
    /// Its role.
    pub role: Text,
    /// The kind of its source: `user`, or who speaks for the user.
    pub source: Text,
    /// Its content, a JSON array of blocks.
    pub content: Arc<str>,
    /// The ends of the range of the model-visible history whose place it takes.
    pub replaces: Option<(u64, u64)>,
}

/// An answer of the model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ChatAnswer<'c> {
    /// Its step.
    pub key: StepKey,
    /// Where it stands: by the row that first showed something of it, or by its message; if it was interrupted without a message,
    /// right before what interrupted it.
    pub place: Place,
    /// How it stands with it.
    pub status: AnswerStatus,
    /// What it says. Tool calls and blank blocks are not for the reader of a conversation.
    pub blocks: Blocks<'c>,
    /// Tokens that were counted: as stored, or by the last count that came.
    pub usage: Option<Usage>,
    /// When it came. The first token is known while live rows are.
    pub timing: StepTiming,
}

/// How it stands with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerStatus {
    /// It is under way.
    Running,
    /// It is stored.
    Settled,
    /// It broke off, stored or not.
    Interrupted,
}

impl Chat {
    /// An empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (&ChatKey, ChatEntry<'_>)> {
        self.order.iter().filter_map(|(_, key)| Some((key, self.get(key)?)))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The entry of that key. Time O(log entries).
    #[must_use]
    pub fn get(&self, key: &ChatKey) -> Option<ChatEntry<'_>> {
        match key {
            ChatKey::Message(seq) => self.said.get(seq).map(ChatEntry::Message),
            ChatKey::Answer(key) => self.answer(*key).map(ChatEntry::Answer),
            ChatKey::Call(key, id) => self.steps.steps.get(key)?.calls.get(id).map(ChatEntry::Call),
        }
    }

    /// The keys of entries that came, went, changed or moved since this was last asked.
    pub fn changes(&mut self) -> BTreeSet<ChatKey> {
        std::mem::take(&mut self.changed)
    }

    /// Appends the entries as a JSON array; see [`ChatEntry::write_json`].
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, (key, entry)) in self.entries().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            entry.write_json(key, out);
        }
        out.push(b']');
    }

    fn answer(&self, key: StepKey) -> Option<ChatAnswer<'_>> {
        let step = &self.steps.steps.get(&key)?.step;
        let live = step.live.as_ref();
        let timing = |ended: Option<Moment>| StepTiming {
            started: step.started.map(|at| at.time),
            first_token: live.and_then(|live| live.first_token),
            ended: ended.map(|at| at.time),
        };
        if let Some(settled) = &step.settled {
            let shown_at = live.and_then(|live| live.shown_at);
            let status = if settled.interrupted { AnswerStatus::Interrupted } else { AnswerStatus::Settled };
            return Some(ChatAnswer {
                key,
                place: shown_at.unwrap_or(Place::of_event(settled.at.seq)),
                status,
                blocks: Blocks::Settled(&settled.content),
                usage: settled.usage,
                timing: timing(Some(settled.at)),
            });
        }
        let interrupted = step.interrupted(self.steps.end_of(key, step));
        let (place, status, live, ended) = match interrupted {
            Some((end, live)) => (Place::interrupted_by(end.seq), AnswerStatus::Interrupted, live, Some(end)),
            None => {
                let live = live.filter(|live| live.is_visible)?;
                (live.shown_at?, AnswerStatus::Running, live, None)
            }
        };
        let (blocks, usage) = (Blocks::Live(&live.blocks), live.last_usage);
        Some(ChatAnswer { key, place, status, blocks, usage, timing: timing(ended) })
    }

    /// An entry may have come, gone, changed or moved.
    fn touch(&mut self, key: ChatKey) {
        let anchor = match &key {
            ChatKey::Message(seq) => self.said.contains_key(seq).then(|| (Place::of_event(*seq), 0)),
            ChatKey::Answer(step) => self.answer(*step).map(|answer| (answer.place, 0)),
            ChatKey::Call(step, id) => {
                self.steps.steps.get(step).and_then(|step| step.calls.get(id)).map(ChatCall::anchor)
            }
        };
        let before = match anchor {
            Some(anchor) => self.anchors.insert(key.clone(), anchor),
            None => self.anchors.remove(&key),
        };
        if before.is_none() && anchor.is_none() {
            return;
        }
        if before != anchor {
            if let Some(before) = before {
                self.order.remove(&(before, key.clone()));
            }
            if let Some(anchor) = anchor {
                self.order.insert((anchor, key.clone()));
            }
        }
        self.changed.insert(key);
    }

    fn call(&mut self, key: StepKey, id: &Text, change: impl FnOnce(&mut ChatCall)) -> Publication {
        let calls = &mut self.steps.entry(key).calls;
        change(calls.entry(id.clone()).or_insert_with(|| ChatCall::new(key, id.clone())));
        self.touch(ChatKey::Call(key, id.clone()));
        Publication::Now
    }
}

impl WindowFold for Chat {
    fn event(&mut self, event: &Event<'_>) -> Publication {
        let at = Moment::of(event);
        let Some(fact) = Fact::read(event, &mut self.tape) else { return Publication::Later };
        let (key, publication) = match fact {
            Fact::StepStart(key) => {
                self.steps.entry(key).step.start(at);
                (key, Publication::Later)
            }
            Fact::StepEnd(key) => {
                let step = &mut self.steps.entry(key).step;
                step.close(at);
                let is_seen = step.live.is_some();
                (key, if is_seen { Publication::Now } else { Publication::Later })
            }
            Fact::TurnEnd(turn) => {
                let mut live = self.steps.end_turn(turn, at);
                live.retain(|key| self.steps.steps.get(key).is_some_and(|step| step.step.live.is_some()));
                let publication = if live.is_empty() { Publication::Later } else { Publication::Now };
                live.into_iter().for_each(|key| self.touch(ChatKey::Answer(key)));
                return publication;
            }
            Fact::Settled { key, settlement, appends } => {
                let Some(message) = settlement.message.filter(|_| appends) else { return Publication::Later };
                self.steps.entry(key).step.settle(Settled::of(at, &message));
                for (number, call) in (1_u32..).zip(asked(message.content, &mut self.tape)) {
                    self.call(key, &call.id, |known| known.ask(at, number, call.name, call.arguments));
                }
                (key, Publication::Now)
            }
            Fact::Retry(key, retry) => {
                if let Some(live) = &mut self.steps.entry(key).step.live {
                    live.retry(retry.at);
                }
                (key, Publication::Now)
            }
            Fact::Said { role, source, content, replaces } => {
                self.said.insert(at.seq, ChatMessage { at, role, source, content, replaces });
                self.touch(ChatKey::Message(at.seq));
                return Publication::Now;
            }
            Fact::Called { key, id, name, arguments } => {
                return self.call(key, &id, |call| call.start(at, name, arguments));
            }
            Fact::Returned { key, id, is_error, content } => {
                return self.call(key, &id, |call| call.finish(at, is_error, content));
            }
        };
        self.touch(ChatKey::Answer(key));
        publication
    }

    fn live(&mut self, row: &LiveRow) -> Publication {
        let key = self.steps.has_rows(row);
        let publication = self.steps.entry(key).step.live(row);
        self.touch(ChatKey::Answer(key));
        publication
    }

    fn retire(&mut self, attempt_id: &str) -> Publication {
        let retired = self.steps.retire(attempt_id, |step| &mut step.step);
        let Some(key) = retired else { return Publication::Later };
        self.touch(ChatKey::Answer(key));
        if self.steps.steps.get(&key).is_some_and(|step| step.step.is_nothing() && step.calls.is_empty()) {
            self.steps.steps.remove(&key);
        }
        Publication::Now
    }

    fn clear(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.extend(std::mem::take(&mut self.anchors).into_keys());
        *self = Self { changed, ..Self::default() };
    }
}

impl AnswerStatus {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Settled => "settled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl ChatEntry<'_> {
    /// Appends the entry as a JSON object with `kind` (`message`, `answer` or `call`), `key` (that of a [`ChatKey`] as text) and what
    /// it holds; what is not known is left out. Times are in milliseconds since 1970.
    pub fn write_json(self, key: &ChatKey, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Message(_) => "message",
            Self::Answer(_) => "answer",
            Self::Call(_) => "call",
        };
        write_head(out, kind, &key.to_string());
        match self {
            Self::Message(message) => message.write_members(out),
            Self::Answer(answer) => answer.write_members(out),
            Self::Call(call) => call.write_members(out),
        }
        out.push(b'}');
    }
}

impl ChatMessage {
    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"seq\":");
        write_u64(out, self.at.seq);
        out.extend_from_slice(b",\"time\":");
        write_i64(out, self.at.time.get());
        out.extend_from_slice(b",\"role\":");
        write_text(out, &self.role);
        out.extend_from_slice(b",\"source\":");
        write_text(out, &self.source);
        if let Some((start, end)) = self.replaces {
            out.extend_from_slice(b",\"replaces\":[");
            write_u64(out, start);
            out.push(b',');
            write_u64(out, end);
            out.push(b']');
        }
        out.extend_from_slice(b",\"content\":");
        out.extend_from_slice(self.content.as_bytes());
    }
}

impl ChatAnswer<'_> {
    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"seq\":");
        write_number(out, self.place.sort_key());
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(self.status.name().as_bytes());
        out.push(b'"');
        self.timing.write_members(out);
        if let Some(usage) = self.usage {
            out.extend_from_slice(b",\"usage\":");
            usage.write_json(out);
        }
        out.extend_from_slice(b",\"content\":");
        self.blocks.write_json(out);
    }
}
