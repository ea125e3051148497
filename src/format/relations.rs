//! The relationships between the events of a v2 log, checked one event at a time.
//!
//! The checker sees every event once, in order. Two of its rules look ahead: a turn may cross an open compaction whose
//! start is *stale* (a `session/end-seed` comes before any `compaction/end` and any other start), and a delivery marker
//! may name another session inside the inherited prefix, whose end only the last marker tells. Such an event is noted as
//! a doubt; what comes later settles it, and until then checking goes on as if it were right. The verdict is the earliest
//! fault that stands, as if the whole log had been looked at for each event in turn.
//!
//! Memory: the surface, one run for each stretch of human messages and of command events, ids of commands, retries and
//! nested dispatches, and the tool calls of the open step.
//!
//! Spec: `format-spec/06-migration.md`, "Relationships".

use std::collections::{HashMap, HashSet};

use super::inventory::Kind;
use super::refusal::Code;
use super::tools::{Dispatches, StepCalls};
use crate::json::{Node, Number, Str, Text};
use crate::session::{SeqList, Surface, SurfaceOp};

/// One event of a v2 log as the checker sees it: all references in the coordinates of that log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) data: Node<'a>,
    pub(crate) surface_op: SurfaceOp,
    pub(crate) sources: Option<&'a SeqList>,
    pub(crate) payload: &'a PayloadRefs,
    /// Whether the event is inherited from a parent, as far as it is known when the event is seen.
    pub(crate) inherited: Inherited,
}

/// The references that a payload holds.
#[derive(Debug, Default)]
pub(crate) struct PayloadRefs {
    pub(crate) one: Option<u64>,
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) list: Option<SeqList>,
}

impl PayloadRefs {
    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Whether an event came from the parent session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inherited {
    Yes,
    No,
    /// The next marker of the cut decides; without one it is not.
    UntilMarked,
}

/// A broken relationship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelationFault {
    pub(crate) seq: u64,
    pub(crate) code: Code,
    pub(crate) rule: &'static str,
}

/// The checker.
#[derive(Debug)]
pub(crate) struct Relations {
    session: Text,
    generation: u64,
    turn: Option<u64>,
    step: Option<u64>,
    next_turn: u64,
    next_step: u64,
    provider: Option<Text>,
    surface: Surface,
    calls: StepCalls,
    dispatches: Dispatches,
    retries: Retries,
    commands: HashSet<Text>,
    command_events: SeqList,
    human_messages: SeqList,
    compaction: Option<Compaction>,
    /// The first turn boundary inside a compaction that is not yet known to be stale.
    crossing: Option<RelationFault>,
    /// The first delivery marker since the last cut that names another session.
    delivery: Option<RelationFault>,
    fault: Option<RelationFault>,
}

#[derive(Debug)]
struct Compaction {
    id: Option<Text>,
    command: Option<Text>,
    turn: Option<u64>,
    has_summary: bool,
}

impl Relations {
    /// A checker for the log of session `session`, whose own delivery markers name generation `generation`.
    pub(crate) fn new(session: Text, generation: u64) -> Self {
        Self {
            session,
            generation,
            turn: None,
            step: None,
            next_turn: 1,
            next_step: 1,
            provider: None,
            surface: Surface::default(),
            calls: StepCalls::default(),
            dispatches: Dispatches::default(),
            retries: Retries::default(),
            commands: HashSet::new(),
            command_events: SeqList::default(),
            human_messages: SeqList::default(),
            compaction: None,
            crossing: None,
            delivery: None,
            fault: None,
        }
    }

    /// Takes the next event. Types outside the inventory are not shown to the checker.
    pub(crate) fn push(&mut self, event: &View<'_>) {
        self.settle_doubts(event);
        if self.fault.is_none()
            && let Err((code, rule)) = self.check(event)
        {
            self.fault = Some(RelationFault { seq: event.seq, code, rule });
        }
    }

    /// The earliest fault of the log, if it has one.
    pub(crate) fn finish(&self) -> Option<RelationFault> {
        // Of one event the crossing is judged first.
        [self.crossing, self.delivery, self.fault].into_iter().flatten().min_by_key(|fault| fault.seq)
    }

    /// Whether nothing that may still come can change the verdict.
    pub(crate) fn is_decided(&self) -> bool {
        self.fault.is_some() && self.crossing.is_none() && self.delivery.is_none()
    }

    fn settle_doubts(&mut self, event: &View<'_>) {
        match event.kind {
            Kind::SessionEndSeed => {
                self.crossing = None;
                if event.data.get("inherited").and_then(Node::as_bool) == Some(true) {
                    self.delivery = None;
                }
            }
            // Another start takes the place of the one before: a seed would no longer speak of that.
            Kind::CompactionStart | Kind::CompactionEnd => {
                let earlier = |crossing: RelationFault| match self.fault {
                    Some(fault) if fault.seq < crossing.seq => fault,
                    _ => crossing,
                };
                self.fault = self.crossing.take().map(earlier).or(self.fault);
            }
            _ => {}
        }
    }

    fn check(&mut self, event: &View<'_>) -> Result<(), Broken> {
        let data = event.data;
        if event.kind.is_surface() {
            let applied = self.surface.apply(event.seq, event.surface_op, event.sources);
            applied.map_err(|fault| (Code::RelationSurface, fault.rule()))?;
        }
        match event.kind {
            Kind::TurnStart => self.turn_start(event),
            Kind::TurnEnd => self.turn_end(event),
            Kind::StepStart => self.step_start(data),
            Kind::StepEnd => self.step_end(data),
            Kind::AssistantAttempt => self.in_step(data),
            Kind::AssistantMessage => {
                self.in_step(data)?;
                self.calls.advertise(data).map_err(|rule| (Code::RelationTool, rule))
            }
            Kind::ToolCall => {
                self.in_step(data)?;
                self.calls.start(data).map_err(|rule| (Code::RelationTool, rule))
            }
            Kind::ToolResult => self.tool_result(event),
            Kind::RequestHeader => {
                self.in_turn(Code::RelationTurn)?;
                let config = data.get("header").and_then(|header| header.get("config"));
                self.provider = config.and_then(|config| text(config, "provider")).map(Str::to_text);
                Ok(())
            }
            Kind::RequestContext => self.in_turn(Code::RelationTurn),
            Kind::ToolCodeDispatchStart => {
                self.in_turn(Code::RelationPtc)?;
                self.dispatches.start(data).map_err(|rule| (Code::RelationPtc, rule))
            }
            Kind::ToolCodeDispatch => {
                self.in_turn(Code::RelationPtc)?;
                self.dispatches.end(data).map_err(|rule| (Code::RelationPtc, rule))
            }
            Kind::LlmRetry => self.retry(data),
            Kind::LlmRetryStarted => self.retries.started(data),
            Kind::SessionTitle => self.title(event),
            Kind::SessionTitleLlmRequest => self.title_request(event),
            Kind::CommandRun => self.command_run(event),
            Kind::CommandDone => self.command_done(event),
            Kind::DeliveryAccepted => {
                self.delivery_accepted(event);
                Ok(())
            }
            Kind::CompactionStart => self.compaction_start(data),
            Kind::CompactionSummary => self.compaction_summary(event),
            Kind::CompactionEnd => self.compaction_end(data),
            Kind::CompactionPrune => self.exact_slice(event),
            Kind::UserMessage => self.user_message(event),
            Kind::SessionEndSeed => {
                self.compaction = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether the event names the open turn.
    fn names_turn(&self, data: Node<'_>) -> bool {
        self.turn.is_some() && count(data, "turn") == self.turn
    }

    fn in_turn(&self, code: Code) -> Result<(), Broken> {
        ensure(self.turn.is_some(), code, "no turn is open")
    }

    fn in_step(&self, data: Node<'_>) -> Result<(), Broken> {
        let named = self.names_turn(data) && self.step.is_some() && count(data, "step") == self.step;
        ensure(named, Code::RelationStep, "it does not name the open turn and step")
    }

    /// A turn boundary inside a compaction is right only if the compaction turns out to be stale.
    fn crosses_compaction(&mut self, event: &View<'_>) {
        if self.compaction.is_some() && self.crossing.is_none() {
            let rule = "a turn boundary stands inside a compaction";
            self.crossing = Some(RelationFault { seq: event.seq, code: Code::RelationCompaction, rule });
        }
    }

    fn turn_start(&mut self, event: &View<'_>) -> Result<(), Broken> {
        self.crosses_compaction(event);
        let follows = self.turn.is_none() && count(event.data, "turn") == Some(self.next_turn);
        ensure(follows, Code::RelationTurn, "it does not open the next turn")?;
        self.turn = Some(self.next_turn);
        self.step = None;
        self.next_step = 1;
        self.calls.clear();
        Ok(())
    }

    fn turn_end(&mut self, event: &View<'_>) -> Result<(), Broken> {
        self.crosses_compaction(event);
        ensure(self.names_turn(event.data), Code::RelationTurn, "it does not name the open turn")?;
        ensure(self.calls.is_settled(), Code::RelationTool, "a tool call has no result")?;
        ensure(self.step.is_none(), Code::RelationTurn, "a step is open")?;
        self.turn = None;
        self.next_turn = self.next_turn.saturating_add(1);
        Ok(())
    }

    fn step_start(&mut self, data: Node<'_>) -> Result<(), Broken> {
        let follows =
            self.names_turn(data) && self.step.is_none() && count(data, "step") == Some(self.next_step);
        ensure(follows, Code::RelationStep, "it does not open the next step of the open turn")?;
        self.step = Some(self.next_step);
        Ok(())
    }

    fn step_end(&mut self, data: Node<'_>) -> Result<(), Broken> {
        self.in_step(data)?;
        ensure(self.calls.is_settled(), Code::RelationTool, "a tool call has no result")?;
        self.step = None;
        self.next_step = self.next_step.saturating_add(1);
        self.calls.clear();
        Ok(())
    }

    fn tool_result(&mut self, event: &View<'_>) -> Result<(), Broken> {
        if event.surface_op != SurfaceOp::Append {
            return self.in_turn(Code::RelationTool);
        }
        self.in_step(event.data)?;
        let has_sources = event.sources.is_some();
        self.calls.resolve(event.data, event.seq, has_sources).map_err(|rule| (Code::RelationTool, rule))
    }

    fn retry(&mut self, data: Node<'_>) -> Result<(), Broken> {
        let step = self.step.or(self.next_step.checked_sub(1));
        let placed = self.names_turn(data) && count(data, "step") == step;
        ensure(placed, Code::RelationRetry, "it does not name the open turn and its current step")?;
        let provider = text(data, "provider").map(Str::to_text);
        let known = provider.is_some() && provider == self.provider;
        ensure(known, Code::RelationRetry, "its provider is not that of the last request")?;
        self.retries.scheduled(data)
    }

    fn title(&self, event: &View<'_>) -> Result<(), Broken> {
        let by_user = event.data.get("source").and_then(|source| text(source, "kind"));
        let by_user = by_user.is_some_and(|kind| kind.eq_str("user"));
        let Some(cited) = &event.payload.list else { return Err(NO_MESSAGES) };
        ensure(
            cited.is_empty() == by_user,
            Code::RelationTitle,
            "exactly a person's title cites no message",
        )?;
        self.cites_people(cited)
    }

    fn title_request(&self, event: &View<'_>) -> Result<(), Broken> {
        let Some(cited) = &event.payload.list else { return Err(NO_MESSAGES) };
        self.cites_people(cited)?;
        let rule = "it does not hold the one message that represents what it cites";
        let mut messages =
            event.data.get("messages").and_then(Node::items).ok_or((Code::RelationTitle, rule))?;
        let (Some(message), None) = (messages.next(), messages.next()) else {
            return Err((Code::RelationTitle, rule));
        };
        let mut blocks = message.get("content").and_then(Node::items).ok_or((Code::RelationTitle, rule))?;
        let (Some(block), None) = (blocks.next(), blocks.next()) else {
            return Err((Code::RelationTitle, rule));
        };
        let is = |value: Option<Node<'_>>, name: &str, wanted: &str| {
            value.and_then(|value| text(value, name)).is_some_and(|s| s.eq_str(wanted))
        };
        let source = message.get("source");
        let fits = is(Some(message), "role", "user")
            && is(source, "kind", "plugin")
            && is(source, "plugin", "dsh-session-title-llm")
            && is(Some(block), "type", "text");
        ensure(fits, Code::RelationTitle, rule)
    }

    fn cites_people(&self, cited: &SeqList) -> Result<(), Broken> {
        let people = cited.iter().all(|seq| self.human_messages.ascending_contains(seq));
        ensure(people, Code::RelationTitle, "it cites what is no person's message")
    }

    fn command_run(&mut self, event: &View<'_>) -> Result<(), Broken> {
        self.command_events.push_run(event.seq, event.seq);
        let id = text(event.data, "commandId").map(Str::to_text);
        let fresh = id.is_some_and(|id| self.commands.insert(id));
        ensure(fresh, Code::RelationCommand, "its id was used before")
    }

    fn command_done(&mut self, event: &View<'_>) -> Result<(), Broken> {
        let data = event.data;
        let id = text(data, "commandId").map(Str::to_text);
        let ran = id.is_some_and(|id| self.commands.contains(&id));
        ensure(ran, Code::RelationCommand, "no command of its id ran before")?;
        if let Some(cited) = event.payload.one {
            let success = text(data, "kind").is_some_and(|kind| kind.eq_str("success"));
            ensure(success, Code::RelationCommand, "only a success cites its source")?;
            let other = !self.command_events.ascending_contains(cited);
            ensure(other, Code::RelationCommand, "it cites a command event")?;
        }
        self.command_events.push_run(event.seq, event.seq);
        Ok(())
    }

    fn delivery_accepted(&mut self, event: &View<'_>) {
        let own = count(event.data, "sessionFormatVersion") == Some(self.generation);
        let here = text(event.data, "sessionId").is_some_and(|id| id.to_text() == self.session);
        if !own || here || event.inherited == Inherited::Yes {
            return;
        }
        let rule = "it names another session";
        let fault = RelationFault { seq: event.seq, code: Code::DeliverySession, rule };
        if event.inherited == Inherited::No {
            self.fault = Some(fault);
        } else if self.delivery.is_none() {
            self.delivery = Some(fault);
        }
    }

    fn compaction_start(&mut self, data: Node<'_>) -> Result<(), Broken> {
        ensure(self.compaction.is_none(), Code::RelationCompaction, "it overlaps an open compaction")?;
        let turn = optional_count(data, "turn");
        ensure(turn == Some(self.turn), Code::RelationCompaction, "it does not name the open turn")?;
        let member = |name| text(data, name).map(Str::to_text);
        self.compaction = Some(Compaction {
            id: member("compactionId"),
            command: member("sourceCommandId"),
            turn: self.turn,
            has_summary: false,
        });
        Ok(())
    }

    /// The open compaction, if `holder` names it.
    fn matching(&mut self, holder: Node<'_>) -> Result<&mut Compaction, Broken> {
        let member = |name| text(holder, name).map(Str::to_text);
        let (id, command) = (member("compactionId"), member("sourceCommandId"));
        let open = self.compaction.as_mut().filter(|open| open.id == id && open.command == command);
        open.ok_or((Code::RelationCompaction, "it does not match an open compaction"))
    }

    fn compaction_summary(&mut self, event: &View<'_>) -> Result<(), Broken> {
        let turn = self.turn;
        let open = self.matching(event.data)?;
        let first = open.turn == turn && !open.has_summary;
        ensure(first, Code::RelationCompaction, "it is not the first summary in the compaction's turn")?;
        open.has_summary = true;
        self.exact_slice(event)
    }

    fn compaction_end(&mut self, data: Node<'_>) -> Result<(), Broken> {
        let turn = self.turn;
        let open = self.matching(data)?;
        let same_turn = open.turn == turn && optional_count(data, "turn") == Some(turn);
        ensure(same_turn, Code::RelationCompaction, "it does not name the open turn")?;
        let complete = open.has_summary || data.get("error").is_some();
        ensure(complete, Code::RelationCompaction, "it succeeded without a summary")?;
        self.compaction = None;
        Ok(())
    }

    fn exact_slice(&self, event: &View<'_>) -> Result<(), Broken> {
        let exact = match (event.payload.range, &event.payload.list) {
            (Some((start, end)), Some(seqs)) => self.surface.is_slice(start, end, seqs),
            _ => false,
        };
        ensure(exact, Code::RelationCompaction, "shadowedSeqs is not the surface from start to end")
    }

    fn user_message(&mut self, event: &View<'_>) -> Result<(), Broken> {
        let source = event.data.get("source");
        let is = |name, wanted: &str| {
            source.and_then(|source| text(source, name)).is_some_and(|value| value.eq_str(wanted))
        };
        if is("kind", "user") {
            self.human_messages.push_run(event.seq, event.seq);
        }
        if event.surface_op != SurfaceOp::Append && is("kind", "plugin") && is("plugin", "compact") {
            let source = source.ok_or((Code::RelationCompaction, "it has no source"))?;
            self.matching(source)?;
        }
        Ok(())
    }
}

/// A code and the rule in words.
type Broken = (Code, &'static str);

const NO_MESSAGES: Broken = (Code::RelationTitle, "messageSeqs is no list of seqs");

fn ensure(holds: bool, code: Code, rule: &'static str) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((code, rule)) }
}

fn text<'t>(value: Node<'t>, name: &str) -> Option<Str<'t>> {
    value.get(name)?.as_str()
}

fn count(value: Node<'_>, name: &str) -> Option<u64> {
    value.get(name)?.as_number().and_then(Number::as_count)
}

/// A member that is null or a count: the outer `None` for neither.
fn optional_count(value: Node<'_>, name: &str) -> Option<Option<u64>> {
    let member = value.get(name)?;
    if member.is_null() { Some(None) } else { member.as_number().and_then(Number::as_count).map(Some) }
}

/// Chains of retries.
#[derive(Debug, Default)]
struct Retries {
    chains: HashMap<ChainKey, Chain>,
    /// The chain of each id.
    ids: HashMap<Text, ChainKey>,
    /// The retries that started, by id and number.
    started: HashSet<(Text, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ChainKey {
    turn: Option<u64>,
    step: Option<u64>,
    provider: Option<Text>,
    policy: Option<Text>,
}

#[derive(Debug)]
struct Chain {
    id: Text,
    last: u64,
}

impl Retries {
    fn scheduled(&mut self, data: Node<'_>) -> Result<(), Broken> {
        let key = ChainKey {
            turn: count(data, "turn"),
            step: count(data, "step"),
            provider: text(data, "provider").map(Str::to_text),
            policy: text(data, "policyKey").map(Str::to_text),
        };
        let (Some(id), Some(retry)) = (text(data, "retryId").map(Str::to_text), count(data, "retry")) else {
            return Err((Code::RelationRetry, "it has no id or number"));
        };
        match self.chains.get_mut(&key) {
            Some(chain) => {
                let follows = chain.id == id && chain.last.checked_add(1) == Some(retry);
                ensure(follows, Code::RelationRetry, "it does not continue its chain")?;
                chain.last = retry;
            }
            None => {
                ensure(retry == 1, Code::RelationRetry, "a chain starts with another number than 1")?;
                let fresh = self.ids.insert(id.clone(), key.clone()).is_none();
                ensure(fresh, Code::RelationRetry, "another chain has its id")?;
                self.chains.insert(key, Chain { id, last: retry });
            }
        }
        Ok(())
    }

    fn started(&mut self, data: Node<'_>) -> Result<(), Broken> {
        let (id, retry) = (text(data, "retryId").map(Str::to_text), count(data, "retry"));
        let chain = id.as_ref().and_then(|id| self.ids.get(id));
        let is_scheduled = chain.is_some_and(|key| {
            let last = self.chains.get(key).map_or(0, |chain| chain.last);
            key.turn == count(data, "turn")
                && key.step == count(data, "step")
                && retry.is_some_and(|retry| (1..=last).contains(&retry))
        });
        ensure(is_scheduled, Code::RelationRetry, "no retry of its id and number was scheduled in its step")?;
        let fresh = match (id, retry) {
            (Some(id), Some(retry)) => self.started.insert((id, retry)),
            _ => false,
        };
        ensure(fresh, Code::RelationRetry, "that retry started before")
    }
}
