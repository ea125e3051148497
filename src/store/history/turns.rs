//! The turns of a log, and what each was about.

use super::cursor::Cursor;
use super::log_pages::TURN_START;
use super::page::PageEnd;
use super::preview::preview;
use super::request::{PageLimits, PageRequest, PageStart};
use crate::error::{Error, Result};
use crate::json::{Node, Str, Tape};
use crate::limits::Limits;
use crate::row::Event;
use crate::session::{is_prompt, texts};
use crate::store::cancel::Cancel;
use crate::store::seam::SessionHandle;
use crate::units::UnixMs;

/// One turn: a `turn/start` and all that follows it up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// Its number, as the log says; where it says none, one above that of the turn before.
    pub number: u64,
    /// Seq of its `turn/start`: a page forward from here begins with the turn.
    pub first_seq: u64,
    /// Seq of its last event so far. What comes between its `turn/end` and the next turn belongs to it.
    pub last_seq: u64,
    /// When it started.
    pub start_time: UnixMs,
    /// When it ended; `None` for one that is under way, and for one that a crash cut off and nobody closed.
    pub end_time: Option<UnixMs>,
    /// How it ended, as the log calls it: `completed`, `aborted`, `interrupted` and others.
    pub outcome: Option<String>,
    /// The beginning of what the human said, on one line and without what drives a terminal. `None` for a turn that no human
    /// began: those of sub-agents, of a goal that goes on.
    pub prompt: Option<String>,
    /// Steps that started in it.
    pub steps: u64,
    /// Answers of models that were settled in it, those that were given up included.
    pub attempts: u64,
}

/// The turns of a log from some event on, kept up to date by reading what is new.
///
/// Memory: a [`Turn`] each, with a prompt of bounded length; besides, a mebibyte of events at a time. For the turns on one page,
/// or of the end of a long log, feed it nothing but those events: [`TurnIndex::push`].
///
/// ```
/// # use seslog::{json::Text, row::Header, units::{Generation, UnixMs}};
/// # use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionHandle as _};
/// use seslog::store::history::TurnIndex;
/// # let store = MemoryStore::new(&MemoryStorage::new());
/// # let header = Header::new(Generation::CURRENT, Text::from("s"), UnixMs::new(5)).unwrap();
/// # let never = Cancel::never();
/// # let handle = store.create(header, None)?;
/// # handle.append(&[br#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#])?;
///
/// let mut index = TurnIndex::new(0);
/// index.extend(&*handle, &never)?;
/// assert_eq!((index.turns().len(), index.turns()[0].number), (1, 1));
/// // Later: only what was appended since is read, and only the rows of the list from there on are drawn anew.
/// let first_changed = index.extend(&*handle, &never)?;
/// assert_eq!(first_changed, index.turns().len());
/// # Ok::<(), seslog::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnIndex {
    from: u64,
    prompt_chars: usize,
    turns: Vec<Turn>,
    next_seq: u64,
    /// Where reading goes on; `None` before the first page, and behind events that were pushed.
    cursor: Option<Cursor>,
    /// What a human said between two turns: it is what the next one is about.
    waiting: Option<String>,
    is_open: bool,
}

/// Characters of a prompt that are kept: two lines of a list.
const PROMPT_CHARS: usize = 160;

impl TurnIndex {
    /// The turns that start at or behind event `from`.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self {
            from,
            prompt_chars: PROMPT_CHARS,
            turns: Vec::new(),
            next_seq: from,
            cursor: None,
            waiting: None,
            is_open: false,
        }
    }

    /// The same, with so many characters of each prompt instead of 160.
    #[must_use]
    pub fn with_prompt_chars(self, prompt_chars: usize) -> Self {
        Self { prompt_chars, ..self }
    }

    /// The turns, in order.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Seq of the first event that was not looked at.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Reads what was appended since, and returns the index of the first turn that is new or changed: as many as there are, if none
    /// is. A log that is not the one it was ([`Error::StaleCursor`]) is read anew, and all turns are new.
    ///
    /// # Errors
    /// Those of [`SessionHandle::page`]. What was read before stands, and the next call goes on there.
    pub fn extend(&mut self, handle: &dyn SessionHandle, cancel: &Cancel) -> Result<usize> {
        let mut first_changed = self.turns.len();
        loop {
            let from = self.cursor.map_or(PageStart::Seq(self.next_seq), PageStart::Cursor);
            let page = match handle.page(&PageRequest::forward(from, PageLimits::default()), cancel) {
                Err(Error::StaleCursor { .. }) => {
                    *self = Self::new(self.from).with_prompt_chars(self.prompt_chars);
                    first_changed = 0;
                    continue;
                }
                page => page?,
            };
            if page.first_seq < self.next_seq {
                // It is shorter than what was pushed, or begins before `from`.
                return Ok(first_changed);
            }
            for event in page.events.iter() {
                first_changed = first_changed.min(self.push(&event));
            }
            self.cursor = Some(page.after);
            if page.end == PageEnd::Log {
                return Ok(first_changed);
            }
        }
    }

    /// Takes the next event, and returns the index of the turn that it begins or belongs to; as many as there are for one before
    /// the first turn. For those who get their events from a follower or a page; [`TurnIndex::extend`] then goes on behind it.
    pub fn push(&mut self, event: &Event<'_>) -> usize {
        self.cursor = None;
        let seq = event.seq().get();
        self.next_seq = seq.saturating_add(1);
        if event.is(TURN_START) {
            let number = self.number_of(event);
            self.turns.push(Turn {
                number,
                first_seq: seq,
                last_seq: seq,
                start_time: event.time(),
                end_time: None,
                outcome: None,
                prompt: self.waiting.take(),
                steps: 0,
                attempts: 0,
            });
            self.is_open = true;
            return self.turns.len().saturating_sub(1);
        }
        if event.is("user/message") {
            self.take_prompt(event);
        }
        let ends_turn = event.is("turn/end");
        if ends_turn {
            // It was said in that turn, whose start was not seen.
            self.waiting = None;
        }
        let Some(turn) = self.turns.last_mut() else { return 0 };
        turn.last_seq = seq;
        if event.is("step/start") {
            turn.steps = turn.steps.saturating_add(1);
        } else if event.is("assistant/message") || event.is("assistant/attempt") {
            turn.attempts = turn.attempts.saturating_add(1);
        } else if ends_turn && self.is_open {
            self.is_open = false;
            turn.end_time = Some(event.time());
            let mut tape = Tape::default();
            let kind = data_of(event, &mut tape).and_then(|data| data.get("reason")?.get("kind")?.as_str());
            turn.outcome = kind.map(|kind| preview([kind.units()].into_iter(), PROMPT_CHARS));
        }
        self.turns.len().saturating_sub(1)
    }

    fn number_of(&self, event: &Event<'_>) -> u64 {
        let mut tape = Tape::default();
        let number = data_of(event, &mut tape).and_then(|data| data.get("turn")?.as_number()?.as_count());
        number.unwrap_or_else(|| self.turns.last().map_or(1, |turn| turn.number.saturating_add(1)))
    }

    /// What the human says first in a turn is its prompt; what is said between turns, that of the next one.
    fn take_prompt(&mut self, event: &Event<'_>) {
        let open = self.turns.last_mut().filter(|_| self.is_open);
        if open.as_ref().is_some_and(|turn| turn.prompt.is_some()) {
            return;
        }
        let mut tape = Tape::default();
        let Some(message) = data_of(event, &mut tape) else { return };
        if !is_prompt(event, message) {
            return;
        }
        let texts = texts(message).map(Str::units);
        let prompt = Some(preview(texts, self.prompt_chars)).filter(|prompt| !prompt.is_empty());
        match open {
            Some(turn) => turn.prompt = prompt,
            None => self.waiting = prompt,
        }
    }
}

/// The payload of an event that was read.
fn data_of<'t>(event: &Event<'t>, tape: &'t mut Tape) -> Option<Node<'t>> {
    tape.parse(event.data().as_bytes(), Limits::DEFAULT.nesting_max).ok()
}
