//! Crash closers.

use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::session::{OpenTurn, Session};

use crate::sessions::generate::{self, Shape};
use crate::sessions::*;

fn closers<R: AsRef<str>>(rows: &[R]) -> Vec<String> {
    let mut open = OpenTurn::default();
    log(rows).iter().for_each(|event| open.push(&event));
    open.closers().into_iter().map(|row| String::from_utf8(row).unwrap()).collect()
}

fn kinds(rows: &[String]) -> Vec<&str> {
    rows.iter().map(|row| row.split('"').nth(3).unwrap()).collect()
}

/// An open step in which `c` and `d` were asked for and `c` was started.
fn interrupted() -> Vec<String> {
    vec![
        row("turn/start", 0, TURN, ""),
        row("step/start", 1, STEP, ""),
        row("assistant/message", 2, &assistant("a", &["c", "d"]), APPEND),
        row("tool/call", 3, &call("c"), ""),
    ]
}

#[test]
fn r037_a_log_without_an_open_turn_needs_no_closers() {
    assert!(closers::<String>(&[]).is_empty());
    assert!(closers(&[row("todo/write", 0, "{}", "")]).is_empty());
    assert!(closers(&[row("turn/start", 0, TURN, ""), row("turn/end", 1, DONE, "")]).is_empty());
}

#[test]
fn r038_an_open_turn_ends_interrupted_and_an_open_step_before_it() {
    let start = [row("turn/start", 0, TURN, ""), row("step/start", 1, STEP, "")];
    let end = r#"{"type":"turn/end","seq":1,"time":100,"data":{"turn":1,"reason":{"kind":"interrupted"}}}"#;
    assert_eq!(closers(&start[..1]), [end]);
    assert_eq!(kinds(&closers(&start)), ["step/end", "turn/end"]);
    let ended = [start[0].clone(), start[1].clone(), row("step/end", 2, STEP, "")];
    assert_eq!(kinds(&closers(&ended)), ["turn/end"]);
}

#[test]
fn r039_every_unanswered_call_of_the_open_step_gets_one_result_in_order() {
    let mut rows = interrupted();
    rows.push(row("assistant/message", 4, &assistant("b", &["e", "c"]), APPEND));
    let closing = closers(&rows);
    assert_eq!(kinds(&closing), ["tool/result", "tool/result", "tool/result", "step/end", "turn/end"]);
    let calls: Vec<&str> = closing[..3]
        .iter()
        .map(|row| row.split(r#""toolCallId":""#).nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(calls, ["c", "d", "e"]);
    assert!(closing[0].contains("TOOL_NOT_STARTED"), "asked for again, it counts as not started");
}

#[test]
fn r040_a_recorded_call_has_an_unknown_outcome_and_cites_its_record() {
    let mut rows = interrupted();
    rows.push(row("tool/call", 4, &call("c"), ""));
    let closing = closers(&rows);
    assert!(
        closing[0].contains(r#""error":{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}"#)
    );
    assert!(closing[0].ends_with(r#","surfaceOp":"append","sourceEventSeqs":[4]}"#), "the latest record");
    assert!(closing[1].contains(r#""error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}"#));
    assert!(closing[1].ends_with(r#","surfaceOp":"append"}"#));
}

#[test]
fn r041_answered_closed_and_orphan_calls_get_nothing() {
    let mut answered = interrupted();
    answered.push(row("tool/result", 4, &result("c", "x"), APPEND));
    answered.push(row("tool/result", 5, &result("d", "x"), &replace(4, 4, &[4])));
    assert_eq!(kinds(&closers(&answered)), ["step/end", "turn/end"], "whatever the operation");
    let mut closed = interrupted();
    closed.push(row("step/end", 4, STEP, ""));
    closed.push(row("tool/call", 5, &call("d"), ""));
    assert_eq!(kinds(&closers(&closed)), ["turn/end"]);
    closed.push(row("turn/start", 6, r#"{"turn":2}"#, ""));
    assert_eq!(kinds(&closers(&closed)), ["turn/end"]);
    let orphan = [row("turn/start", 0, TURN, ""), row("tool/call", 1, &call("c"), "")];
    assert_eq!(kinds(&closers(&orphan)), ["turn/end"]);
}

#[test]
fn r042_closers_continue_the_log_at_its_last_time_and_are_always_the_same() {
    let rows = interrupted();
    let closing = closers(&rows);
    for (row, seq) in closing.iter().zip(4..) {
        let event = Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
        assert_eq!((event.seq().get(), event.time().get()), (seq, 103));
    }
    assert_eq!(closers(&rows), closing);
}

#[test]
fn r043_ids_and_texts_of_closing_results_are_these() {
    let closing = closers(&interrupted());
    let unknown = "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it may have side effects, first verify external state or ask the user. Do not retry blindly.";
    let not_started = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";
    for (row, call, seq, text) in [(&closing[0], "c", 4, unknown), (&closing[1], "d", 5, not_started)] {
        let message = format!(
            r#""message":{{"id":"interrupted-tool-result-{call}-{seq}","role":"user","source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","isError":true,"content":[{{"type":"text","text":"{text}"}}]}}]}}"#
        );
        assert!(row.contains(&message), "{row}");
    }
}

#[test]
fn r044_a_log_with_its_closers_needs_none_and_can_be_restored() {
    for seed in 0..200 {
        let mut rows = generate::rows(
            5000 + seed,
            Shape { events: 50, chunks: false, markers: true, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let closing = closers(&rows);
        rows.extend(closing);
        assert!(closers(&rows).is_empty(), "log {seed}");
        Session::restore(header(), &log(&rows), None, &settings()).unwrap();
    }
}
