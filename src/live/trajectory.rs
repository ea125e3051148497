//! The attempts of a window, step by step.

use std::collections::BTreeSet;

use super::fact::{Fact, Moment, Retry, StepKey};
use super::fold::{Publication, WindowFold};
use super::step::{Blocks, Settled, Step, StepTiming, Steps, write_head};
use super::view::LiveRow;
use crate::json::{Tape, write_i64, write_number, write_text, write_u64};
use crate::row::Event;
use crate::stream::{Settlement, SettlementKind, Usage};
use crate::units::UnixMs;

/// Folds a window into the requests to the model: for each step of a turn what came of it and when, with its attempts, retries and
/// usage.
///
/// Of a stored stream nothing is read but the time of its first token. Keys stay as long as their step is there, and
/// [`changes`](Self::changes) names those that a screen has to look at again.
///
/// Memory: the content of what is shown. Time: O(bytes) for an event, O(chunk) for a live row.
#[derive(Debug, Default)]
pub struct Trajectory {
    tape: Tape,
    steps: Steps<Request>,
    changed: BTreeSet<StepKey>,
}

#[derive(Clone, Debug, Default)]
struct Request {
    step: Step,
    /// By seq.
    attempts: Vec<SettledAttempt>,
    retry: Option<Retry>,
}

/// An attempt that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettledAttempt {
    /// The event.
    pub at: Moment,
    /// Which of the two it is: an answer, or an attempt that came to nothing.
    pub kind: SettlementKind,
    /// The first token of its stream; `None` if it had none, or the stream cannot be read.
    pub first_token: Option<UnixMs>,
}

/// A step of a [`Trajectory`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TrajectoryStep<'t> {
    /// Its name.
    pub key: StepKey,
    /// How it stands with the request.
    pub status: RequestStatus,
    /// Whether what came broke off.
    pub interrupted: bool,
    /// What came; `None` while nothing has.
    pub blocks: Option<Blocks<'t>>,
    /// Tokens that were counted: as stored with the answer, or all counts that came together.
    pub usage: Option<Usage>,
    /// When it came: the first token is that of the first attempt that had one.
    pub timing: StepTiming,
    /// The last retry.
    pub retry: Option<&'t Retry>,
    /// Its attempts that are stored, in order.
    pub attempts: &'t [SettledAttempt],
}

/// How it stands with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestStatus {
    /// It is under way.
    Running,
    /// It has its answer.
    Complete,
    /// It failed and is tried again, or is over without a whole answer.
    Error,
}

impl Trajectory {
    /// Without any step.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = TrajectoryStep<'_>> {
        self.steps.steps.keys().filter_map(|key| self.get(*key))
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.steps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.steps.is_empty()
    }

    /// The step of that key. Time O(log steps).
    #[must_use]
    pub fn get(&self, key: StepKey) -> Option<TrajectoryStep<'_>> {
        let request = self.steps.steps.get(&key)?;
        let step = &request.step;
        let end = self.steps.end_of(key, step);
        let live = step.live.as_ref();
        let interrupted = step.interrupted(end);
        let settled = step.settled.as_ref();
        let is_complete = settled.is_some_and(|settled| !settled.interrupted);
        let of_attempts = request.attempts.iter().find_map(|attempt| attempt.first_token);
        let ended = settled.map(|settled| settled.at).or(interrupted.map(|(end, _)| end));
        Some(TrajectoryStep {
            key,
            status: match is_complete {
                true => RequestStatus::Complete,
                false if request.retry.is_some() || end.is_some() => RequestStatus::Error,
                false => RequestStatus::Running,
            },
            interrupted: interrupted.is_some() || settled.is_some_and(|settled| settled.interrupted),
            blocks: match (settled, live) {
                (Some(settled), _) => Some(Blocks::Settled(&settled.content)),
                (None, Some(live)) if !live.blocks.is_empty() => Some(Blocks::Live(&live.blocks)),
                _ => None,
            },
            usage: match settled {
                Some(settled) => settled.usage,
                None => live.and_then(|live| live.sum_of_usages),
            },
            timing: StepTiming {
                started: step.started.map(|at| at.time),
                first_token: of_attempts.or(live.and_then(|live| live.first_token)),
                ended: ended.map(|at| at.time),
            },
            retry: request.retry.as_ref(),
            attempts: &request.attempts,
        })
    }

    /// The keys of steps that came, went or changed since this was last asked.
    pub fn changes(&mut self) -> BTreeSet<StepKey> {
        std::mem::take(&mut self.changed)
    }

    /// Appends the steps as a JSON array; see [`TrajectoryStep::write_json`].
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, step) in self.steps().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            step.write_json(out);
        }
        out.push(b']');
    }

    fn settled(&mut self, at: Moment, key: StepKey, settlement: &Settlement<'_>) -> Publication {
        let request = self.steps.entry(key);
        // A stream that is none has no first token: whoever verifies the log says what is wrong with it.
        let first_token = settlement.reader().first_token_time().ok().flatten();
        let place = request.attempts.partition_point(|known| known.at <= at);
        request.attempts.insert(place, SettledAttempt { at, kind: settlement.kind(), first_token });
        match &settlement.message {
            None => Publication::Later,
            Some(message) => {
                request.step.settle(Settled::of(at, message));
                Publication::Now
            }
        }
    }
}

impl WindowFold for Trajectory {
    fn event(&mut self, event: &Event<'_>) -> Publication {
        let at = Moment::of(event);
        let Some(fact) = Fact::read(event, &mut self.tape) else { return Publication::Later };
        let (key, publication) = match fact {
            Fact::StepStart(key) => {
                self.steps.entry(key).step.start(at);
                (key, Publication::Later)
            }
            Fact::StepEnd(key) => {
                self.steps.entry(key).step.close(at);
                (key, Publication::Now)
            }
            Fact::TurnEnd(turn) => {
                let mut open = self.steps.end_turn(turn, at);
                // Those that ended before their turn are as they were.
                let is_open = |request: &Request| request.step.end.is_none_or(|end| end > at);
                open.retain(|key| self.steps.steps.get(key).is_some_and(is_open));
                let publication = if open.is_empty() { Publication::Later } else { Publication::Now };
                self.changed.extend(open);
                return publication;
            }
            Fact::Settled { key, settlement, .. } => (key, self.settled(at, key, &settlement)),
            Fact::Retry(key, retry) => {
                let request = self.steps.entry(key);
                if let Some(live) = &mut request.step.live {
                    live.retry(at);
                }
                if request.retry.as_ref().is_none_or(|known| known.at <= at) {
                    request.retry = Some(retry);
                }
                (key, Publication::Now)
            }
            Fact::Said { .. } | Fact::Called { .. } | Fact::Returned { .. } => return Publication::Later,
        };
        self.changed.insert(key);
        publication
    }

    fn live(&mut self, row: &LiveRow) -> Publication {
        let key = self.steps.has_rows(row);
        self.changed.insert(key);
        self.steps.entry(key).step.live(row)
    }

    fn retire(&mut self, attempt_id: &str) -> Publication {
        let retired = self.steps.retire(attempt_id, |request| &mut request.step);
        let Some(key) = retired else { return Publication::Later };
        // Nothing but live rows made it a step.
        let is_gone = self.steps.steps.get(&key).is_some_and(Request::is_nothing);
        if is_gone {
            self.steps.steps.remove(&key);
        }
        self.changed.insert(key);
        Publication::Now
    }

    fn clear(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.extend(self.steps.steps.keys());
        *self = Self { changed, ..Self::default() };
    }
}

impl Request {
    fn is_nothing(&self) -> bool {
        self.step.is_nothing() && self.attempts.is_empty() && self.retry.is_none()
    }
}

impl RequestStatus {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Error => "error",
        }
    }
}

impl TrajectoryStep<'_> {
    /// Appends the step as a JSON object: `kind` `step`, `key` (`turn:step`), `status` and what it holds; what is not known is left
    /// out. Times are in milliseconds since 1970.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        write_head(out, "step", &self.key.to_string());
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(self.status.name().as_bytes());
        out.push(b'"');
        if self.interrupted {
            out.extend_from_slice(b",\"interrupted\":true");
        }
        self.timing.write_members(out);
        if let Some(usage) = self.usage {
            out.extend_from_slice(b",\"usage\":");
            usage.write_json(out);
        }
        if let Some(retry) = self.retry {
            out.extend_from_slice(b",\"retry\":");
            retry.write_json(out);
        }
        out.extend_from_slice(b",\"attempts\":[");
        for (at, attempt) in self.attempts.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            attempt.write_json(out);
        }
        out.push(b']');
        if let Some(blocks) = self.blocks {
            out.extend_from_slice(b",\"content\":");
            blocks.write_json(out);
        }
        out.push(b'}');
    }
}

impl SettledAttempt {
    fn write_json(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"seq\":");
        write_u64(out, self.at.seq);
        out.extend_from_slice(b",\"time\":");
        write_i64(out, self.at.time.get());
        out.extend_from_slice(b",\"type\":\"");
        out.extend_from_slice(self.kind.event_type().as_bytes());
        out.push(b'"');
        if let Some(time) = self.first_token {
            out.extend_from_slice(b",\"firstToken\":");
            write_i64(out, time.get());
        }
        out.push(b'}');
    }
}

impl Retry {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"seq\":");
        write_u64(out, self.at.seq);
        out.extend_from_slice(b",\"retry\":");
        write_u64(out, self.number);
        if let Some(limit) = self.limit {
            out.extend_from_slice(b",\"maxRetries\":");
            write_u64(out, limit);
        }
        out.extend_from_slice(b",\"delayMs\":");
        write_number(out, self.delay.as_secs_f64() * 1000.0);
        out.extend_from_slice(b",\"code\":");
        write_text(out, &self.code);
        out.extend_from_slice(b",\"message\":");
        write_text(out, &self.failure);
        out.push(b'}');
    }
}
