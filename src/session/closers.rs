//! The events that close a turn which a crash left open.
//!
//! Spec: `format-spec/04-rows.md`, "Closing an interrupted turn".

use super::log::Log;
use crate::json::{Node, Tape, Text, write_i64, write_string, write_text, write_u64};
use crate::row::Event;

/// The model reads this when a call was recorded as started and its result was not; every release writes the same words.
const OUTCOME_UNKNOWN: &str = "The tool call was interrupted after it was recorded, but no result was durably recorded. Its \
    outcome is unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or \
    idempotent; if it may have side effects, first verify external state or ask the user. Do not retry blindly.";
/// The model reads this when a call was asked for and never started.
const NOT_STARTED: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still \
    needed.";

/// Follows a log and knows at any place what would close its open turn.
///
/// Deterministic: no clock and no randomness. Turn numbers are not compared with each other. Memory: the calls of the open
/// step that have no result yet.
#[derive(Debug, Default)]
pub struct OpenTurn {
    tape: Tape,
    /// The open turn's number, as JSON text.
    turn: Option<String>,
    step: Option<String>,
    /// Calls without a result, in the order of their first appearance.
    pending: Vec<PendingCall>,
    last: Option<(u64, i64)>,
}

#[derive(Clone, Debug)]
struct PendingCall {
    id: Text,
    /// The step's number, as JSON text; absent where the message names none, which no host accepts.
    step: Option<String>,
    /// The event that recorded it as started.
    started: Option<u64>,
}

impl OpenTurn {
    /// What is open at the end of `log`. Time O(bytes of what opens or closes something).
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let mut open = Self::default();
        log.iter().for_each(|event| open.push(&event));
        open
    }

    /// Takes the next event of the log.
    pub fn push(&mut self, event: &Event<'_>) {
        self.last = Some((event.seq().get(), event.time().get()));
        let Some(kind) = Boundary::of(event) else { return };
        // A payload that is no JSON opens and closes nothing; whoever validates the log says so.
        let Ok(data) = self.tape.parse(event.data().as_bytes(), u32::MAX) else { return };
        match kind {
            Boundary::TurnStart => {
                self.turn = number(data, "turn");
                self.step = None;
                self.pending.clear();
            }
            Boundary::TurnEnd => {
                self.turn = None;
                self.step = None;
                self.pending.clear();
            }
            Boundary::StepStart => self.step = number(data, "step"),
            Boundary::StepEnd => {
                self.step = None;
                self.pending.clear();
            }
            Boundary::Message => advertise(&mut self.pending, data),
            Boundary::Call => {
                if let Some(id) = text(data, "callId")
                    && let Some(call) = self.pending.iter_mut().find(|call| call.id == id)
                {
                    call.started = Some(event.seq().get());
                }
            }
            Boundary::Result => {
                let source = data.get("message").and_then(|message| message.get("source"));
                if let Some(id) = source.and_then(|source| text(source, "callId")) {
                    self.pending.retain(|call| call.id != id);
                }
            }
        }
    }

    /// Whether a turn is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.turn.is_some()
    }

    /// The rows that close the open turn, to be appended behind the last event; none if no turn is open.
    ///
    /// A result for each call without one, then the end of the step, then the end of the turn. Their seqs continue the log,
    /// and their time is the last event's.
    #[must_use]
    pub fn closers(&self) -> Vec<Vec<u8>> {
        let (Some(turn), Some((last_seq, time))) = (&self.turn, self.last) else { return Vec::new() };
        let mut rows = Vec::new();
        let mut next = last_seq;
        let mut row = |event_type: &str, body: &mut dyn FnMut(&mut Vec<u8>, u64)| {
            next = next.saturating_add(1);
            let mut out = Vec::new();
            out.extend_from_slice(b"{\"type\":");
            write_string(&mut out, event_type);
            out.extend_from_slice(b",\"seq\":");
            write_u64(&mut out, next);
            out.extend_from_slice(b",\"time\":");
            write_i64(&mut out, time);
            out.extend_from_slice(b",\"data\":");
            body(&mut out, next);
            out.push(b'}');
            rows.push(out);
        };
        for call in &self.pending {
            row("tool/result", &mut |out, seq| call.write_result(turn, seq, out));
        }
        if let Some(step) = &self.step {
            row("step/end", &mut |out, _| {
                out.extend_from_slice(format!("{{\"turn\":{turn},\"step\":{step}}}").as_bytes());
            });
        }
        row("turn/end", &mut |out, _| {
            out.extend_from_slice(
                format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"interrupted\"}}}}").as_bytes(),
            );
        });
        rows
    }
}

impl PendingCall {
    /// Writes the payload and what follows it: the surface operation, and the event that recorded the call.
    fn write_result(&self, turn: &str, seq: u64, out: &mut Vec<u8>) {
        let (name, code, words) = match self.started {
            Some(_) => ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN", OUTCOME_UNKNOWN),
            None => ("ToolNotStartedError", "TOOL_NOT_STARTED", NOT_STARTED),
        };
        let step = self.step.as_ref().map_or_else(String::new, |step| format!("\"step\":{step},"));
        let mut id = Text::from("interrupted-tool-result-");
        id.push_text(&self.id);
        id.push_str(&format!("-{seq}"));
        out.extend_from_slice(format!("{{\"turn\":{turn},{step}\"message\":{{\"id\":").as_bytes());
        write_text(out, &id);
        out.extend_from_slice(b",\"role\":\"user\",\"source\":{\"kind\":\"tool\",\"callId\":");
        write_text(out, &self.id);
        out.extend_from_slice(b"},\"content\":[{\"type\":\"tool-result\",\"toolCallId\":");
        write_text(out, &self.id);
        out.extend_from_slice(b",\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":");
        write_string(out, words);
        out.extend_from_slice(
            format!("}}]}}]}},\"error\":{{\"name\":\"{name}\",\"code\":\"{code}\"}}}}").as_bytes(),
        );
        out.extend_from_slice(b",\"surfaceOp\":\"append\"");
        if let Some(started) = self.started {
            out.extend_from_slice(format!(",\"sourceEventSeqs\":[{started}]").as_bytes());
        }
    }
}

/// Events that open or close something.
#[derive(Clone, Copy, Debug)]
enum Boundary {
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    Message,
    Call,
    Result,
}

impl Boundary {
    fn of(event: &Event<'_>) -> Option<Self> {
        let table = [
            ("turn/start", Self::TurnStart),
            ("turn/end", Self::TurnEnd),
            ("step/start", Self::StepStart),
            ("step/end", Self::StepEnd),
            ("assistant/message", Self::Message),
            ("tool/call", Self::Call),
            ("tool/result", Self::Result),
        ];
        table.into_iter().find_map(|(name, kind)| event.is(name).then_some(kind))
    }
}

/// Enters the tool calls of an assistant message. A call that is pending already keeps its place and counts as not started.
fn advertise(pending: &mut Vec<PendingCall>, data: Node<'_>) {
    let step = number(data, "step");
    let content = data.get("message").and_then(|message| message.get("content"));
    for block in content.and_then(Node::items).into_iter().flatten() {
        let is_call = block.get("type").and_then(Node::as_str).is_some_and(|kind| kind.eq_str("tool-call"));
        let Some(id) = text(block, "id").filter(|_| is_call) else { continue };
        match pending.iter_mut().find(|call| call.id == id) {
            Some(call) => {
                call.step.clone_from(&step);
                call.started = None;
            }
            None => pending.push(PendingCall { id, step: step.clone(), started: None }),
        }
    }
}

fn number(data: Node<'_>, member: &str) -> Option<String> {
    let mut out = Vec::new();
    data.get(member)?.write_canonical(&mut out);
    String::from_utf8(out).ok()
}

fn text(node: Node<'_>, member: &str) -> Option<Text> {
    Some(node.get(member)?.as_str()?.to_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::row::Check;

    fn closers(rows: &[&str]) -> Vec<String> {
        let mut open = OpenTurn::default();
        for row in rows {
            open.push(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap());
        }
        open.closers().into_iter().map(|row| String::from_utf8(row).unwrap()).collect()
    }

    const START: &str = r#"{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}"#;
    const STEP: &str = r#"{"type":"step/start","seq":1,"time":6,"data":{"turn":1,"step":1}}"#;
    const ASKED: &str = r#"{"type":"assistant/message","seq":2,"time":7,"data":{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c","name":"sh","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}},"stream":[]},"surfaceOp":"append"}"#;
    const CALLED: &str = r#"{"type":"tool/call","seq":3,"time":9,"data":{"turn":1,"step":1,"callId":"c","name":"sh","arguments":"{}"}}"#;

    fn types(rows: &[String]) -> Vec<&str> {
        rows.iter().map(|row| row.split('"').nth(3).unwrap()).collect()
    }

    #[test]
    fn the_table_of_tails_holds() {
        assert!(closers(&[]).is_empty());
        assert_eq!(types(&closers(&[START])), ["turn/end"]);
        assert_eq!(types(&closers(&[START, STEP])), ["step/end", "turn/end"]);
        assert_eq!(types(&closers(&[START, STEP, ASKED])), ["tool/result", "step/end", "turn/end"]);
        let ended = r#"{"type":"step/end","seq":3,"time":9,"data":{"turn":1,"step":1}}"#;
        assert_eq!(types(&closers(&[START, STEP, ASKED, ended])), ["turn/end"]);
        let closed =
            r#"{"type":"turn/end","seq":4,"time":9,"data":{"turn":1,"reason":{"kind":"completed"}}}"#;
        assert!(closers(&[START, STEP, ASKED, ended, closed]).is_empty());
    }

    #[test]
    fn a_started_call_cites_its_record_and_another_one_cites_nothing() {
        let unknown = closers(&[START, STEP, ASKED, CALLED]);
        assert!(unknown[0].starts_with(r#"{"type":"tool/result","seq":4,"time":9,"data":{"turn":1,"step":1,"message":{"id":"interrupted-tool-result-c-4","role":"user","#), "{}", unknown[0]);
        assert!(unknown[0].ends_with(r#""error":{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}},"surfaceOp":"append","sourceEventSeqs":[3]}"#));
        let not_started = closers(&[START, STEP, ASKED]);
        assert!(not_started[0].ends_with(r#""code":"TOOL_NOT_STARTED"}},"surfaceOp":"append"}"#));
    }

    #[test]
    fn a_message_without_a_step_still_gives_rows_that_are_json() {
        let asked = ASKED.replace("\"step\":1,", "");
        let closing = closers(&[START, &asked]);
        assert!(closing[0].contains(r#""data":{"turn":1,"message":{"#), "{}", closing[0]);
        closers(&[START, &asked, &closing[0]]);
    }

    #[test]
    fn a_log_with_its_closers_needs_none() {
        let rows = [START, STEP, ASKED, CALLED];
        let closing = closers(&rows);
        let all: Vec<&str> = rows.into_iter().chain(closing.iter().map(String::as_str)).collect();
        assert!(closers(&all).is_empty());
    }
}
