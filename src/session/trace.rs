//! A checker of how turns, steps and tool calls follow each other in a live session.
//!
//! A checker only: a log that breaks the trace is stored and read like any other.

use std::collections::HashSet;

use super::kind::Kind;
use super::message::is_text;
use super::profile::Profile;
use crate::json::{Node, Number, Tape, Text};
use crate::row::Event;

/// Follows the events of a session, all of them and in order. Memory: the calls of the open step.
#[derive(Debug)]
pub struct Trace {
    profile: &'static Profile,
    tape: Tape,
    last: Option<u64>,
    turn: Option<u64>,
    step: Option<u64>,
    next_turn: u64,
    next_step: u64,
    /// Calls that were recorded in the open step and have no result yet.
    calls: HashSet<Text>,
}

/// How an event breaks the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// Its seq is not above that of the event before.
    #[error("the seq does not increase")]
    Seq,
    /// A turn is open already.
    #[error("a turn is open already")]
    NestedTurn,
    /// It does not open the turn that is due: the first is 1, and each is one more than the last.
    #[error("it is not the turn that is due")]
    TurnNumber,
    /// No turn is open, or another one.
    #[error("it does not belong to the open turn")]
    NotInTurn,
    /// A step is open already, or still.
    #[error("a step is open")]
    OpenStep,
    /// It does not open the step that is due: the first of a turn is 1.
    #[error("it is not the step that is due")]
    StepNumber,
    /// No step is open, or another one.
    #[error("it does not belong to the open step")]
    NotInStep,
    /// A result of a call that was not recorded in its step, or has a result already.
    #[error("no call of this step waits for it")]
    NoCall,
}

impl Trace {
    /// A checker at the start of a log.
    #[must_use]
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            tape: Tape::default(),
            last: None,
            turn: None,
            step: None,
            next_turn: 1,
            next_step: 1,
            calls: HashSet::new(),
        }
    }

    /// Takes the next event. A type that the generation does not have is not constrained, and neither is one of a plugin.
    ///
    /// # Errors
    /// The rule that the event breaks; the checker then goes on as if it had not been.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), TraceFault> {
        let seq = event.seq().get();
        ensure(self.last.is_none_or(|last| last < seq), TraceFault::Seq)?;
        self.last = Some(seq);
        let Some(kind) = self.profile.kind(&event.event_type().to_string_lossy()) else { return Ok(()) };
        let mut tape = std::mem::take(&mut self.tape);
        let checked = match tape.parse(event.data().as_bytes(), u32::MAX) {
            Ok(data) => self.check(kind, event, data),
            // Whoever validates the log says that it is no JSON.
            Err(_) => Ok(()),
        };
        self.tape = tape;
        checked
    }

    fn check(&mut self, kind: Kind, event: &Event<'_>, data: Node<'_>) -> Result<(), TraceFault> {
        let (turn, step) = (count(data, "turn"), count(data, "step"));
        let in_turn = self.turn.is_some() && turn == self.turn;
        let in_step = in_turn && self.step.is_some() && step == self.step;
        match kind {
            Kind::TurnStart => {
                ensure(self.turn.is_none(), TraceFault::NestedTurn)?;
                ensure(turn == Some(self.next_turn), TraceFault::TurnNumber)?;
                self.turn = turn;
                self.next_step = 1;
            }
            Kind::TurnEnd => {
                ensure(in_turn, TraceFault::NotInTurn)?;
                ensure(self.step.is_none(), TraceFault::OpenStep)?;
                self.turn = None;
                self.next_turn = self.next_turn.saturating_add(1);
            }
            Kind::StepStart => {
                ensure(in_turn, TraceFault::NotInTurn)?;
                ensure(self.step.is_none(), TraceFault::OpenStep)?;
                ensure(step == Some(self.next_step), TraceFault::StepNumber)?;
                self.step = step;
            }
            Kind::StepEnd => {
                ensure(in_step, TraceFault::NotInStep)?;
                self.step = None;
                self.next_step = self.next_step.saturating_add(1);
                self.calls.clear();
            }
            Kind::AssistantMessage | Kind::AssistantAttempt => ensure(in_step, TraceFault::NotInStep)?,
            Kind::ToolCall => {
                ensure(in_step, TraceFault::NotInStep)?;
                if let Some(id) = text(Some(data), "callId") {
                    self.calls.insert(id);
                }
            }
            Kind::ToolResult if !event.is_appended() => {
                ensure(self.turn.is_some(), TraceFault::NotInTurn)?;
            }
            Kind::ToolResult => {
                ensure(in_step, TraceFault::NotInStep)?;
                let id = text(data.get("message").and_then(|message| message.get("source")), "callId");
                let called = id.is_some_and(|id| self.calls.remove(&id));
                ensure(called || is_not_started(data), TraceFault::NoCall)?;
            }
            Kind::RequestHeader | Kind::RequestContext => ensure(self.turn.is_some(), TraceFault::NotInTurn)?,
            _ => {}
        }
        Ok(())
    }
}

/// Whether a result is the one that stands for a call which never started.
fn is_not_started(data: Node<'_>) -> bool {
    let blocks = data.get("message").and_then(|message| message.get("content")).and_then(Node::items);
    let block = blocks.and_then(|mut blocks| blocks.next());
    let is_error = block.and_then(|block| block.get("isError")).and_then(Node::as_bool) == Some(true);
    is_error && data.get("error").is_some_and(|error| is_text(error, "code", "TOOL_NOT_STARTED"))
}

fn count(data: Node<'_>, member: &str) -> Option<u64> {
    data.get(member)?.as_number().and_then(Number::as_count)
}

fn text(data: Option<Node<'_>>, member: &str) -> Option<Text> {
    Some(data?.get(member)?.as_str()?.to_text())
}

fn ensure(holds: bool, fault: TraceFault) -> Result<(), TraceFault> {
    if holds { Ok(()) } else { Err(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::row::Check;
    use crate::units::Generation;

    fn trace(events: &[(&str, &str)]) -> Vec<Result<(), TraceFault>> {
        let mut trace = Trace::new(Profile::of(Generation::V2).unwrap());
        let rows = events.iter().zip(0..).map(|((name, rest), seq)| {
            let end = if rest.ends_with('}') { "" } else { "}}" };
            format!(r#"{{"type":"{name}","seq":{seq},"time":0,"data":{{{rest}{end}"#)
        });
        rows.map(|row| trace.push(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap()))
            .collect()
    }

    const TURN: &str = r#""turn":1"#;
    const STEP: &str = r#""turn":1,"step":1"#;
    const CALL: &str = r#""turn":1,"step":1,"callId":"c""#;
    const RESULT: &str = r#""turn":1,"step":1,"message":{"source":{"callId":"c"},"content":[{"isError":true}]}},"surfaceOp":"append"}"#;

    fn not_started() -> String {
        RESULT.replace(r#"]}},"#, r#"]},"error":{"code":"TOOL_NOT_STARTED"}},"#)
    }

    #[test]
    fn a_session_in_order_has_no_fault() {
        let not_started = not_started();
        let replaced = r#""turn":7},"surfaceOp":{"op":"replace","start":0,"end":0}}"#;
        let said = trace(&[
            ("user/message", r#""id":"u""#),
            ("turn/start", TURN),
            ("request/header", ""),
            ("step/start", STEP),
            ("assistant/attempt", STEP),
            ("assistant/message", STEP),
            ("tool/call", CALL),
            ("tool/result", RESULT),
            ("tool/result", &not_started),
            ("step/end", STEP),
            ("step/start", r#""turn":1,"step":2"#),
            ("step/end", r#""turn":1,"step":2"#),
            ("tool/result", replaced),
            ("turn/end", TURN),
            ("session/end-seed", ""),
            ("turn/start", r#""turn":2"#),
            ("step/start", r#""turn":2,"step":1"#),
            ("of/a-plugin", r#""turn":9"#),
        ]);
        assert!(said.iter().all(Result::is_ok), "{said:?}");
    }

    #[test]
    fn each_fault_is_found_and_changes_nothing() {
        use TraceFault as F;
        let said = trace(&[
            ("turn/start", r#""turn":2"#),
            ("request/context", ""),
            ("step/start", STEP),
            ("turn/start", TURN),
            ("turn/start", r#""turn":2"#),
            ("turn/end", r#""turn":2"#),
            ("tool/call", CALL),
            ("step/start", r#""turn":1,"step":2"#),
            ("step/start", STEP),
            ("step/start", r#""turn":1,"step":2"#),
            ("turn/end", TURN),
            ("assistant/message", r#""turn":1,"step":2"#),
            ("tool/result", RESULT),
            ("tool/call", CALL),
            ("tool/result", RESULT),
            ("tool/result", RESULT),
            ("step/end", STEP),
            ("turn/end", TURN),
            ("turn/start", TURN),
        ]);
        let faults: Vec<_> = said.into_iter().map(Result::err).collect();
        assert_eq!(
            faults,
            [
                Some(F::TurnNumber),
                Some(F::NotInTurn),
                Some(F::NotInTurn),
                None,
                Some(F::NestedTurn),
                Some(F::NotInTurn),
                Some(F::NotInStep),
                Some(F::StepNumber),
                None,
                Some(F::OpenStep),
                Some(F::OpenStep),
                Some(F::NotInStep),
                Some(F::NoCall),
                None,
                None,
                Some(F::NoCall),
                None,
                None,
                Some(F::TurnNumber),
            ]
        );
    }

    #[test]
    fn seqs_increase() {
        let mut trace = Trace::new(Profile::of(Generation::V2).unwrap());
        let mut push = |seq: u64| {
            let row = format!(r#"{{"type":"todo/write","seq":{seq},"time":0,"data":{{}}}}"#);
            trace.push(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap())
        };
        assert_eq!(
            [push(3), push(3), push(2), push(9)],
            [Ok(()), Err(TraceFault::Seq), Err(TraceFault::Seq), Ok(())]
        );
    }
}
