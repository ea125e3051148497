//! Do chat and trajectory show of a window what section by section they are to show, whatever way the window came about?

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::sessions::{header, row_of};
use proptest::prelude::*;
use seslog::json::{Node, Tape};
use seslog::limits::Limits;
use seslog::live::{
    ActiveAttempt, Answer, AnswerStatus, Baseline, Blocks, CallStatus, Change, Chat, ChatAnswer, ChatEntry,
    ChatKey, Decision, Delivery, Ending, Entry, LiveEvent, LiveHandle, LiveOptions, LiveRow, Pace,
    Publication, RequestStatus, StepKey, StepTiming, Trajectory, TrajectoryStep, View, WindowFold, replay,
};
use seslog::row::{Check, Event};
use seslog::session::Kind;
use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionHandle, SessionPersistence};
use seslog::stream::{Accumulator, ChunkKind, SettlementKind, StreamReader, Usage, expand};
use seslog::units::UnixMs;

const STEP: StepKey = StepKey { turn: 1, step: 1 };
const NOTHING: [Publication; 2] = [Publication::Later; 2];
const NOW: [Publication; 2] = [Publication::Now; 2];
const NEXT_PICTURE: [Publication; 2] = [Publication::NextPicture; 2];

/// Both folds, and the log and the live rows that they were told of.
#[derive(Default)]
struct Window {
    chat: Chat,
    trajectory: Trajectory,
    next_seq: u64,
    number: u64,
}

impl Window {
    fn new() -> Self {
        Self::default()
    }

    fn row(&mut self, row: &str) -> [Publication; 2] {
        let event = Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
        (self.next_seq, self.number) = (event.seq().get() + 1, 0);
        [self.chat.event(&event), self.trajectory.event(&event)]
    }

    fn event(&mut self, kind: &str, data: &str) -> [Publication; 2] {
        self.row(&row_of(kind, self.next_seq, data))
    }

    fn surface(&mut self, kind: &str, data: &str, op: &str) -> [Publication; 2] {
        let row = row_of(kind, self.next_seq, data);
        self.row(&format!("{},\"surfaceOp\":{op}}}", row.strip_suffix('}').unwrap()))
    }

    fn start(&mut self) -> [Publication; 2] {
        self.event("step/start", r#"{"turn":1,"step":1}"#)
    }

    fn end(&mut self) -> [Publication; 2] {
        self.event("step/end", r#"{"turn":1,"step":1}"#)
    }

    fn message(&mut self, content: &str, more: &str, stream: &str) -> [Publication; 2] {
        self.surface("assistant/message", &message(content, more, stream), "\"append\"")
    }

    fn attempt(&mut self, stream: &str) -> [Publication; 2] {
        self.event("assistant/attempt", &format!("{{\"turn\":1,\"step\":1,\"stream\":{stream}}}"))
    }

    fn retry(&mut self, number: u64, mode: &str) -> [Publication; 2] {
        let data = format!(
            r#"{{"turn":1,"step":1,"retryId":"r","provider":"p",{mode},"policyKey":"k","retry":{number},"delayMs":250.5,"failure":{{"message":"busy","code":"SERVER"}}}}"#
        );
        self.event("llm/retry", &data)
    }

    fn live(&mut self, time: i64, chunk: &str) -> [Publication; 2] {
        self.live_of("s:1", STEP, time, chunk)
    }

    fn live_of(&mut self, attempt: &str, step: StepKey, time: i64, chunk: &str) -> [Publication; 2] {
        self.number += 1;
        let row = LiveRow {
            attempt_id: Arc::from(attempt),
            turn: step.turn,
            step: step.step,
            next_seq: self.next_seq,
            number: self.number,
            time: UnixMs::new(time),
            json: Arc::from(chunk),
        };
        [self.chat.live(&row), self.trajectory.live(&row)]
    }

    fn retire(&mut self, attempt: &str) -> [Publication; 2] {
        [self.chat.retire(attempt), self.trajectory.retire(attempt)]
    }

    fn answer(&self) -> Option<ChatAnswer<'_>> {
        match self.chat.get(&ChatKey::Answer(STEP))? {
            ChatEntry::Answer(answer) => Some(answer),
            other => panic!("{other:?}"),
        }
    }

    fn step(&self) -> TrajectoryStep<'_> {
        self.trajectory.get(STEP).unwrap()
    }

    fn keys(&self) -> Vec<String> {
        self.chat.entries().map(|(key, _)| key.to_string()).collect()
    }

    fn shown(&self) -> [String; 2] {
        [json_of(|out| self.chat.write_json(out)), json_of(|out| self.trajectory.write_json(out))]
    }
}

fn json_of(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn blocks(blocks: Blocks<'_>) -> String {
    json_of(|out| blocks.write_json(out))
}

/// Data of an `assistant/message`.
fn message(content: &str, more: &str, stream: &str) -> String {
    let message = format!(
        r#"{{"id":"m","role":"assistant","content":{content},"source":{{"kind":"model","provider":"p","model":"m"}}}}"#
    );
    format!(r#"{{"turn":1,"step":1,"message":{message},{more}"stream":{stream}}}"#)
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text-delta","index":0,"text":"{text}"}}"#)
}

fn usage(input: u64) -> String {
    format!(r#"{{"type":"usage","usage":{{"inputTokens":{input},"outputTokens":1}}}}"#)
}

fn tokens(input: u64) -> Option<Usage> {
    Usage::of_json(&format!(r#"{{"inputTokens":{input},"outputTokens":1}}"#))
}

const SAID: &str = r#"[{"type":"text","text":"said"}]"#;
const NORMAL: &str = r#""mode":"normal","maxRetries":3"#;
/// Its first token comes at 77.
const STREAM: &str = r#"[{"type":"text-chunks","time0":70,"index":0,"dt":[7],"texts":["","x"]}]"#;

fn ms(time: i64) -> Option<UnixMs> {
    Some(UnixMs::new(time))
}

/// The time of event `seq`.
fn at(seq: u64) -> Option<UnixMs> {
    ms(common::sessions::CREATED_AT + seq as i64)
}

fn timing(started: Option<UnixMs>, first_token: Option<UnixMs>, ended: Option<UnixMs>) -> StepTiming {
    let mut timing = StepTiming::default();
    (timing.started, timing.first_token, timing.ended) = (started, first_token, ended);
    timing
}

#[test]
fn each_step_of_a_turn_is_one_context_for_all_its_attempts() {
    let mut window = Window::new();
    window.start();
    window.live(1, &text("a"));
    window.live_of("s:1", StepKey { turn: 1, step: 2 }, 2, &text("b"));
    window.live_of("s:2", StepKey { turn: 2, step: 1 }, 3, &text("c"));
    assert_eq!(window.keys(), ["1:1", "1:2", "2:1"]);
    let steps: Vec<String> = window.trajectory.steps().map(|step| step.key.to_string()).collect();
    assert_eq!(steps, ["1:1", "1:2", "2:1"]);
    window.retire("s:1");
    window.live_of("s:3", STEP, 4, &text("d"));
    let answer = window.answer().unwrap();
    assert_eq!(blocks(answer.blocks), r#"[{"type":"text","text":"d"}]"#);
    assert_eq!(answer.status, AnswerStatus::Running);
}

#[test]
fn starts_usage_and_finish_wait_chunks_come_with_the_next_picture_and_all_else_at_once() {
    let mut window = Window::new();
    assert_eq!(window.start(), NOTHING);
    assert_eq!(window.live(1, &usage(1)), NOTHING);
    assert_eq!(window.live(1, r#"{"type":"finish","reason":{"kind":"stop"}}"#), NOTHING);
    assert_eq!(window.live(1, &text("a")), NEXT_PICTURE);
    assert_eq!(window.live(1, r#"{"type":"block-start","index":3,"blockType":"tool-call"}"#), NEXT_PICTURE);
    assert_eq!(
        window.live(1, r#"{"type":"block-end","index":3,"block":{"type":"tool-call"}}"#),
        NEXT_PICTURE
    );
    assert_eq!(window.event("plan/mode", r#"{"active":true}"#), NOTHING, "neither reads it");
    assert_eq!(window.attempt(STREAM), NOTHING, "the live rows go with the end of the attempt");
    assert_eq!(window.retire("s:1"), NOW);
    assert_eq!(window.retire("s:1"), NOTHING, "they are gone");
    assert_eq!(window.retry(1, NORMAL), NOW);
    assert_eq!(window.message(SAID, "", "[]"), NOW);
    assert_eq!(
        window.end(),
        [Publication::Later, Publication::Now],
        "a chat does not show the end of a step"
    );
    assert!(Publication::Later < Publication::NextPicture && Publication::NextPicture < Publication::Now);
}

#[test]
fn a_chat_reads_appended_messages_only_and_a_trajectory_all() {
    let mut window = Window::new();
    window.surface("assistant/message", &message(SAID, "", "[]"), r#"{"op":"replace","start":0,"end":0}"#);
    assert!(window.answer().is_none());
    assert_eq!(window.step().blocks.map(blocks).unwrap(), SAID);
    window.message("[]", "", "[]");
    assert_eq!(blocks(window.answer().unwrap().blocks), "[]");
}

#[test]
fn the_blocks_of_a_settled_answer_are_the_content_of_its_message_as_it_stands() {
    let content = r#"[ {"text" : "x", "type":"text", "more":[1e1]} ]"#;
    let mut window = Window::new();
    window.live(1, &text("something else"));
    window.message(content, "", STREAM);
    assert_eq!(blocks(window.answer().unwrap().blocks), content, "the message wins over live rows");
    assert_eq!(window.step().blocks.map(blocks).unwrap(), content);
}

#[test]
fn of_a_stored_stream_a_chat_reads_nothing_and_a_trajectory_the_first_token() {
    for is_message in [true, false] {
        let mut window = Window::new();
        window.start();
        let published = if is_message { window.message(SAID, "", STREAM) } else { window.attempt(STREAM) };
        assert_eq!(published, if is_message { NOW } else { NOTHING });
        assert_eq!(window.answer().map(|answer| answer.timing.first_token), is_message.then_some(None));
        let step = window.step();
        assert_eq!(step.timing.first_token, ms(77));
        let kinds: Vec<_> = step.attempts.iter().map(|attempt| (attempt.kind, attempt.first_token)).collect();
        let kind = if is_message { SettlementKind::Message } else { SettlementKind::Attempt };
        assert_eq!(kinds, [(kind, ms(77))]);
        if !is_message {
            // An attempt that came to nothing contributes nothing else.
            assert!(step.blocks.is_none() && step.usage.is_none() && step.timing.ended.is_none());
            assert_eq!(step.status, RequestStatus::Running);
        }
        // What is no stream is none of their business.
        let mut broken = Window::new();
        if is_message {
            broken.message(SAID, "", "[5]")
        } else {
            broken.attempt("[5]")
        };
        assert_eq!(broken.step().timing.first_token, None);
        assert_eq!(broken.answer().is_some(), is_message);
    }
}

#[test]
fn usage_is_the_last_that_came_in_a_chat_and_the_sum_in_a_trajectory_and_then_what_is_stored() {
    let mut window = Window::new();
    window.live(1, &text("a"));
    window.live(2, &usage(10));
    window.live(3, r#"{"type":"usage","usage":{"inputTokens":"many"}}"#);
    window.live(4, &usage(5));
    assert_eq!(window.answer().unwrap().usage, tokens(5));
    let sum = window.step().usage.unwrap();
    assert_eq!((sum.input_tokens, sum.output_tokens), (15, 2));
    window.message(SAID, r#""usage":{"inputTokens":7,"outputTokens":1},"#, "[]");
    assert_eq!((window.answer().unwrap().usage, window.step().usage), (tokens(7), tokens(7)));
    let mut window = Window::new();
    window.message(SAID, "", &format!("[{{\"type\":\"chunk\",\"time\":1,\"chunk\":{}}}]", usage(9)));
    assert_eq!(
        (window.answer().unwrap().usage, window.step().usage),
        (None, None),
        "the stream's is not read"
    );
}

#[test]
fn the_first_token_is_that_of_the_first_live_token_and_the_first_of_a_step_stays() {
    let mut window = Window::new();
    window.start();
    window.live(4, r#"{"type":"block-start","index":0,"blockType":"text"}"#);
    window.live(5, &text(""));
    assert_eq!(window.step().timing.first_token, None, "no tokens");
    window.live(6, r#"{"type":"tool-call-delta","index":1,"id":"c","name":"","argumentsDelta":""}"#);
    window.live(3, &text("a"));
    assert_eq!(window.answer().unwrap().timing.first_token, ms(6), "the first in order, not the earliest");
    assert_eq!(window.step().timing.first_token, ms(6));
    // The attempt is stored: the live rows go.
    window.attempt(STREAM);
    window.retire("s:1");
    assert_eq!(window.step().timing.first_token, ms(77));
    window.retry(1, NORMAL);
    window.live_of("s:2", STEP, 200, &text("b"));
    assert_eq!(window.step().timing.first_token, ms(77), "the first one that was found stays");
    assert_eq!(window.answer().unwrap().timing.first_token, ms(200));
    window.message(SAID, "", &STREAM.replace("70", "300"));
    assert_eq!(window.step().timing.first_token, ms(77));
    assert_eq!(window.answer().unwrap().timing.first_token, ms(200), "as long as there are live rows");
    window.retire("s:2");
    assert_eq!(window.answer().unwrap().timing.first_token, None);
}

#[test]
fn a_settled_answer_has_the_times_of_its_step_its_first_token_and_its_event() {
    let mut window = Window::new();
    window.start();
    window.live(50, &text("a"));
    assert_eq!(window.answer().unwrap().timing, timing(at(0), ms(50), None));
    window.message(SAID, "", STREAM);
    window.end();
    assert_eq!(window.answer().unwrap().timing, timing(at(0), ms(50), at(1)));
    assert_eq!(window.step().timing, timing(at(0), ms(77), at(1)));
    let mut window = Window::new();
    window.message(SAID, "", STREAM);
    assert_eq!(window.answer().unwrap().timing, timing(None, None, at(0)), "its start is not in the window");
}

#[test]
fn a_retry_clears_blocks_and_the_usage_of_a_chat_and_is_what_a_trajectory_shows() {
    let mut window = Window::new();
    window.live(5, &text("a"));
    window.live(6, &usage(10));
    window.retry(1, NORMAL);
    assert!(window.answer().is_none(), "nothing is visible");
    let step = window.step();
    assert_eq!((step.blocks, step.usage, step.timing.first_token), (None, tokens(10), ms(5)));
    let retry = step.retry.unwrap();
    assert_eq!((retry.number, retry.limit, retry.delay), (1, Some(3), Duration::from_micros(250_500)));
    assert_eq!((&retry.failure, &retry.code), (&"busy".into(), &"SERVER".into()));
    window.live(9, &text("b"));
    let answer = window.answer().unwrap();
    assert_eq!((answer.usage, answer.timing.first_token), (None, ms(5)), "the first token stays");
    assert_eq!(blocks(answer.blocks), r#"[{"type":"text","text":"b"}]"#);
    window.retry(2, r#""mode":"always","maxRetries":9"#);
    let retry = window.step().retry.unwrap();
    assert_eq!((retry.number, retry.limit), (2, None), "only the normal mode has a limit");
}

#[test]
fn an_interrupted_message_marks_its_answer() {
    let mut window = Window::new();
    window.message(SAID, r#""interrupted":true,"#, "[]");
    assert_eq!(window.answer().unwrap().status, AnswerStatus::Interrupted);
    assert!(window.step().interrupted && window.step().status == RequestStatus::Running);
    window.end();
    assert_eq!(window.step().status, RequestStatus::Error);
}

#[test]
fn a_step_that_is_over_without_a_message_is_interrupted_in_what_there_is_evidence_of() {
    let call = r#"{"type":"tool-call-delta","index":1,"id":"c","argumentsDelta":"{"}"#;
    let start = |kind: &str| format!(r#"{{"type":"block-start","index":1,"blockType":"{kind}"}}"#);
    for (chunk, is_evidence) in [
        (text("a").as_str(), true),
        (text(" \\n").as_str(), false),
        (call, true),
        (&start("tool-call"), true),
        (&start("image"), true),
        (&start("reasoning"), false),
        (&usage(1), false),
    ] {
        for of_turn in [false, true] {
            let mut window = Window::new();
            window.start();
            window.live(5, chunk);
            if of_turn {
                window.event("turn/end", r#"{"turn":1,"reason":{"kind":"interrupted"}}"#);
            } else {
                window.end();
            }
            let answer = window.answer();
            assert_eq!(answer.is_some(), is_evidence, "{chunk}");
            assert_eq!(
                (window.step().interrupted, window.step().status),
                (is_evidence, RequestStatus::Error)
            );
            if let Some(answer) = answer {
                assert_eq!(answer.status, AnswerStatus::Interrupted);
                assert_eq!(answer.place.sort_key(), 1.0 - 0.9, "0.9 before what ended it");
                assert_eq!(answer.timing.ended, at(1));
            }
            // It was no interruption: the attempt was abandoned, or its message comes late.
            window.retire("s:1");
            assert!(window.answer().is_none() && !window.step().interrupted);
            window.message(SAID, "", "[]");
            assert_eq!(window.answer().unwrap().status, AnswerStatus::Settled);
            assert_eq!(window.step().status, RequestStatus::Complete);
        }
    }
}

#[test]
fn a_turn_ends_its_own_steps_only() {
    let mut window = Window::new();
    window.live(5, &text("a"));
    window.live_of("s:2", StepKey { turn: 2, step: 1 }, 5, &text("a"));
    window.event("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    let statuses: Vec<_> = window.trajectory.steps().map(|step| step.status).collect();
    assert_eq!(statuses, [RequestStatus::Error, RequestStatus::Running]);
}

#[test]
fn a_request_is_complete_by_a_whole_answer_in_error_by_a_retry_or_an_end_and_else_running() {
    let status = |steps: &[&dyn Fn(&mut Window)]| {
        let mut window = Window::new();
        window.start();
        steps.iter().for_each(|step| step(&mut window));
        window.step().status
    };
    let live = |window: &mut Window| {
        window.live(1, &text("a"));
    };
    let retry = |window: &mut Window| {
        window.retry(1, NORMAL);
    };
    let end = |window: &mut Window| {
        window.end();
    };
    let whole = |window: &mut Window| {
        window.message(SAID, "", "[]");
    };
    let broken = |window: &mut Window| {
        window.message(SAID, r#""interrupted":true,"#, "[]");
    };
    use RequestStatus::{Complete, Error, Running};
    assert_eq!(status(&[]), Running);
    assert_eq!(status(&[&live]), Running);
    assert_eq!(status(&[&live, &retry]), Error);
    assert_eq!(status(&[&live, &retry, &whole]), Complete);
    assert_eq!(status(&[&whole, &end]), Complete);
    assert_eq!(status(&[&end]), Error);
    assert_eq!(status(&[&broken]), Running);
    assert_eq!(status(&[&retry, &broken]), Error);
    assert_eq!(status(&[&broken, &end]), Error);
}

#[test]
fn an_answer_stands_where_it_was_first_seen_else_where_its_message_stands() {
    let mut window = Window::new();
    window.start();
    window.live(1, r#"{"type":"block-start","index":0,"blockType":"text"}"#);
    window.live(2, &text("\\n"));
    assert!(window.answer().is_none(), "blank");
    window.live(3, &text("a"));
    window.live(4, &text("b"));
    assert_eq!(window.answer().unwrap().place.sort_key(), 1.0 - 1.0 / 4.0);
    window.event("plan/mode", "{}");
    window.message(SAID, "", "[]");
    assert_eq!(window.answer().unwrap().place.sort_key(), 1.0 - 1.0 / 4.0);
    window.retire("s:1");
    assert_eq!(window.answer().unwrap().place.sort_key(), 2.0);
}

#[test]
fn messages_and_calls_stand_between_answers_and_a_call_has_all_that_came_of_it() {
    let mut window = Window::new();
    let user = r#"{"id":"u","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"go"}]}"#;
    window.surface("user/message", user, "\"append\"");
    window.start();
    let call = |id: &str| format!(r#"{{"type":"tool-call","id":"{id}","name":"sh","arguments":"{{}}"}}"#);
    window.message(&format!("[{},{}]", call("z"), call("a")), "", "[]");
    assert_eq!(window.keys(), ["#0", "1:1", "1:1/z", "1:1/a"], "calls in the order of their message");
    let status = |window: &Window, id: &str| match window.chat.get(&ChatKey::Call(STEP, id.into())) {
        Some(ChatEntry::Call(call)) => call.status(),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(&window, "z"), CallStatus::Asked);
    window.event("tool/call", r#"{"turn":1,"step":1,"callId":"z","name":"sh","arguments":"{}"}"#);
    assert_eq!(status(&window, "z"), CallStatus::Running);
    let result = |id: &str, more: &str, content: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"{id}"}},"content":[{{"type":"tool-result","toolCallId":"{id}","content":{content}{more}}}]}}}}"#
        )
    };
    window.surface("tool/result", &result("z", "", "[1]"), "\"append\"");
    window.surface("tool/result", &result("a", r#","isError":true"#, "[]"), "\"append\"");
    assert_eq!((status(&window, "z"), status(&window, "a")), (CallStatus::Done, CallStatus::Failed));
    // What shortens a result for the model leaves the chat as it is.
    window.surface("tool/result", &result("z", "", "[]"), r#"{"op":"replace","start":4,"end":4}"#);
    let Some(ChatEntry::Call(shown)) = window.chat.get(&ChatKey::Call(STEP, "z".into())) else { panic!() };
    assert_eq!((&*shown.result.as_ref().unwrap().content, shown.started.unwrap().seq), ("[1]", 3));
    // What takes the place of others for the model says so.
    window.surface(
        "user/message",
        &user.replace("\"user\"}", "\"plugin\"}"),
        r#"{"op":"replace","start":0,"end":5}"#,
    );
    assert_eq!(window.keys(), ["#0", "1:1", "1:1/z", "1:1/a", "#7"]);
    let Some(ChatEntry::Message(summary)) = window.chat.get(&ChatKey::Message(7)) else { panic!() };
    assert_eq!((summary.replaces, &summary.source), (Some((0, 5)), &"plugin".into()));
}

#[test]
fn changes_name_what_came_moved_and_went() {
    let mut window = Window::new();
    let names = |window: &mut Window| {
        let chat: Vec<String> = window.chat.changes().iter().map(ToString::to_string).collect();
        let steps: Vec<String> = window.trajectory.changes().iter().map(ToString::to_string).collect();
        (chat.join(" "), steps.join(" "))
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    window.live(1, &text("a"));
    assert_eq!(names(&mut window), both("1:1"));
    assert_eq!(names(&mut window), both(""));
    window.retire("s:1");
    assert_eq!(names(&mut window), both("1:1"), "gone");
    assert!(window.chat.is_empty() && window.trajectory.is_empty(), "nothing but live rows made it a step");
    window.start();
    assert_eq!(names(&mut window), (String::new(), "1:1".to_owned()), "a chat shows no steps");
    window.message(SAID, "", "[]");
    window.chat.clear();
    window.trajectory.clear();
    assert_eq!(names(&mut window), both("1:1"), "all that was shown is gone");
}

#[test]
fn an_older_page_fills_in_what_the_window_did_not_have() {
    let mut all = Window::new();
    let event = |seq: u64, kind: &str, data: &str| LiveEvent {
        seq,
        row: Arc::from(row_of(kind, seq, data).as_bytes()),
    };
    let row = row_of("assistant/message", 3, &message(SAID, "", STREAM));
    let settled = format!("{},\"surfaceOp\":\"append\"}}", row.strip_suffix('}').unwrap());
    let log = [
        event(0, "plan/mode", "{}"),
        event(1, "step/start", r#"{"turn":1,"step":1}"#),
        event(
            2,
            "assistant/attempt",
            &format!("{{\"turn\":1,\"step\":1,\"stream\":{}}}", STREAM.replace("70", "10")),
        ),
        LiveEvent { seq: 3, row: Arc::from(settled.as_bytes()) },
        event(4, "step/end", r#"{"turn":1,"step":1}"#),
    ];
    for event in &log {
        all.row(std::str::from_utf8(&event.row).unwrap());
    }
    let (mut view, mut window) = (View::new(), Window::new());
    let show = |window: &mut Window, view: &View| {
        window.chat.change(view.change().unwrap(), view.entries());
        window.trajectory.change(view.change().unwrap(), view.entries());
    };
    let _all_new = view.replace_page(log[3..].to_vec(), true, None).unwrap();
    assert!(view.has_more());
    show(&mut window, &view);
    assert_eq!(window.step().timing, timing(None, ms(77), at(3)));
    assert_eq!(view.prepend(log[..2].to_vec(), false), Decision::Rebaseline, "a gap behind the page");
    assert_eq!(view.prepend(log[2..4].to_vec(), true), Decision::Show(Change::Prepend { count: 1 }));
    show(&mut window, &view);
    assert_eq!(window.step().timing, timing(None, ms(17), at(3)), "the first attempt came");
    assert_eq!(view.prepend(log[..2].to_vec(), false), Decision::Show(Change::Prepend { count: 2 }));
    show(&mut window, &view);
    assert_eq!((view.has_more(), view.revision(), view.entries().len()), (false, 3, 5));
    assert_eq!(window.shown(), all.shown());
    assert!(matches!(view.entries().first(), Some(Entry::Event(event)) if event.seq == 0));
}

/// Data of events of all kinds that the folds read, of two turns with two steps each.
fn any_event() -> impl Strategy<Value = (String, String, Option<&'static str>)> {
    let place = (1_u64..3, 1_u64..3).prop_map(|(turn, step)| format!("\"turn\":{turn},\"step\":{step}"));
    (0_usize..9, place, 0_u64..9).prop_map(|(which, place, n)| {
        let message = |content: &str, more: &str| {
            let message = format!(
                r#"{{"id":"m","role":"assistant","content":{content},"source":{{"kind":"model","provider":"p","model":"m"}}}}"#
            );
            format!(r#"{{{place},"message":{message},{more}"stream":{}}}"#, STREAM.replace("70", &format!("1{n}")))
        };
        let call = format!(r#"[{{"type":"tool-call","id":"c{}","name":"sh","arguments":"{n}"}}]"#, n % 3);
        let append = Some("\"append\"");
        let (kind, data, op) = match which {
            0 => ("step/start", format!("{{{place}}}"), None),
            1 => ("step/end", format!("{{{place}}}"), None),
            2 => ("turn/end", format!(r#"{{"turn":{},"reason":{{"kind":"completed"}}}}"#, n % 2 + 1), None),
            3 => ("assistant/message", message(&call, ""), append),
            4 => ("assistant/message", message(SAID, r#""interrupted":true,"#), append),
            5 => ("assistant/attempt", format!(r#"{{{place},"stream":{STREAM}}}"#), None),
            6 => (
                "llm/retry",
                format!(
                    r#"{{{place},"retryId":"r","provider":"p","mode":"always","policyKey":"k","retry":{},"delayMs":1,"failure":{{"message":"","code":"x"}}}}"#,
                    n + 1
                ),
                None,
            ),
            7 => ("tool/call", format!(r#"{{{place},"callId":"c{}","name":"f{n}","arguments":"{n}"}}"#, n % 3), None),
            _ => (
                "tool/result",
                format!(
                    r#"{{{place},"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"c{0}"}},"content":[{{"type":"tool-result","toolCallId":"c{0}","content":[{n}]}}]}}}}"#,
                    n % 3
                ),
                append,
            ),
        };
        (kind.to_owned(), data, op)
    })
}

proptest! {
    #[test]
    fn the_order_in_which_stored_events_come_does_not_matter(
        events in proptest::collection::vec(any_event(), 1..30),
        keys in proptest::collection::vec(any::<u32>(), 30),
    ) {
        let rows: Vec<String> = events
            .iter()
            .enumerate()
            .map(|(seq, (kind, data, op))| {
                let row = row_of(kind, seq as u64, data);
                match op {
                    Some(op) => format!("{},\"surfaceOp\":{op}}}", row.strip_suffix('}').unwrap()),
                    None => row,
                }
            })
            .collect();
        let (mut in_order, mut shuffled) = (Window::new(), Window::new());
        for row in &rows {
            in_order.row(row);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| keys[*at]);
        for at in order {
            shuffled.row(&rows[at]);
        }
        prop_assert_eq!(in_order.shown(), shuffled.shown());
    }
}

/// Each recorded stream with what readers say of it.
fn vectors() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors/stream");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("ok-") || name.starts_with("rec-") {
            found.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    found
}

#[test]
fn recorded_streams_have_the_first_token_usage_and_visibility_that_their_readers_say() {
    let (mut files, mut visible) = (0, 0);
    for (name, vector) in vectors() {
        let mut tape = Tape::default();
        let root = tape.parse(vector.as_bytes(), 100_000).unwrap();
        let records = match root.get("recordsText") {
            Some(text) => text.as_str().unwrap().to_string_lossy().into_owned(),
            None => root.get("records").unwrap().raw().to_owned(),
        };
        let Some(readers) = root.get("readers") else { continue };
        let member = |name: &str| readers.get(name).map(Node::raw);
        let active = ActiveAttempt::new("s:1", 0, 1, 1, &records).unwrap();
        let mut view = View::new();
        let _all_new = view.replace(Vec::new(), Some(&Baseline::new(0, 1, Some(active)))).unwrap();
        let mut window = Window::new();
        let mut was_visible = false;
        for entry in view.entries() {
            window.chat.entry(entry);
            window.trajectory.entry(entry);
            was_visible |= window.answer().is_some();
        }
        let first_token = member("firstTokenTime").map(|time| UnixMs::new(time.parse().unwrap()));
        if !view.entries().is_empty() {
            assert_eq!(window.step().timing.first_token, first_token, "{name}");
        }
        // Blocks stand at indexes: what has none is not shown.
        assert!(
            was_visible || member("hasVisibleContent") == Some("false") || name.contains("index"),
            "{name}"
        );
        assert!(!was_visible || member("hasVisibleContent") == Some("true"), "{name}");
        if let Some(answer) = window.answer() {
            assert_eq!(answer.usage, member("lastUsage").and_then(Usage::of_json), "{name}");
        }
        // The same when it is stored.
        window.retire("s:1");
        assert!(window.trajectory.is_empty(), "{name}");
        window.attempt(&records);
        assert_eq!(window.step().timing.first_token, first_token, "{name}");
        files += 1;
        visible += usize::from(was_visible);
    }
    assert!(files > 60 && visible > 30, "{files} {visible}");
}

#[test]
fn a_replayed_attempt_shows_the_same_at_any_pace_and_then_what_the_log_shows() {
    let mut recorded = Accumulator::new();
    let chunks = [
        (100, r#"{"type":"block-start","index":0,"blockType":"reasoning"}"#.to_owned()),
        (130, r#"{"type":"reasoning-delta","index":0,"text":"why"}"#.to_owned()),
        (170, r#"{"type":"text-delta","index":1,"text":"so"}"#.to_owned()),
        (260, usage(3)),
        (261, r#"{"type":"finish","reason":{"kind":"stop"}}"#.to_owned()),
    ];
    for (time, chunk) in &chunks {
        recorded.push_json(UnixMs::new(*time), chunk.as_bytes()).unwrap();
    }
    let recorded = recorded.snapshot();
    let run = |pace| {
        let store = MemoryStore::new(&MemoryStorage::new());
        let below = SessionPersistence::create(&store, header("s"), None, &Cancel::never()).unwrap();
        let handle = LiveHandle::new(below, LiveOptions::default()).unwrap();
        let (mut follower, baseline) = handle.follow(true);
        let (mut view, mut window, mut pictures) = (View::new(), Window::new(), Vec::new());
        let _all_new = view.replace(Vec::new(), Some(&baseline)).unwrap();
        let mut attempt = handle.begin_attempt(1, 1).unwrap();
        let mut waited = Duration::ZERO;
        let mut wait = |gap: Duration| {
            waited += gap;
            ControlFlow::Continue(())
        };
        replay(recorded.as_bytes(), pace, &mut wait, &mut attempt).unwrap();
        let answer = Answer { id: "m", provider: "p", model: "m" };
        attempt.settle(UnixMs::new(300), Ending::Finished(answer), &Cancel::never()).unwrap();
        while let Some(delivery) = follower.try_recv() {
            let decision = match delivery {
                Delivery::Event(event) => view.event(event),
                Delivery::Frame(frame) => view.frame(&frame),
                other => panic!("{other:?}"),
            };
            if let Decision::Show(change) = decision {
                window.chat.change(&change, view.entries());
                window.trajectory.change(&change, view.entries());
                pictures.push(window.shown());
            }
        }
        let mut of_log = Window::new();
        for event in handle.read(0, 9, &Cancel::never()).unwrap().iter() {
            of_log.row(event.line());
        }
        assert_eq!(window.shown(), of_log.shown());
        (pictures, waited)
    };
    let (pictures, waited) = run(Pace::Recorded);
    assert_eq!((pictures.len(), waited), (chunks.len() + 1, Duration::from_millis(161)));
    assert!(
        pictures[2][0]
            .contains(r#""content":[{"type":"reasoning","text":"why"},{"type":"text","text":"so"}]"#)
    );
    assert_eq!(run(Pace::Zero), (pictures, Duration::ZERO));
}

#[test]
fn other_consumers_of_a_stored_stream_ask_one_reader_and_expand_nothing() {
    let end = r#"{"type":"block-end","index":1,"block":{"type":"image","attachment":"a"}}"#;
    let raw = |chunk: &str| format!("{{\"type\":\"chunk\",\"time\":9,\"chunk\":{chunk}}}");
    let run = STREAM.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap();
    let stream = format!("[{run},{},{},{}]", raw(end), raw(&usage(1)), raw(&usage(2)));
    assert!(expand(stream.as_bytes()).is_ok(), "{stream}");
    let reader = StreamReader::new(&stream);
    // Statistics of a step, the meter of tokens, the output of a sub-agent, attachments.
    assert_eq!(reader.first_token_time().unwrap(), ms(77));
    let last = reader.last_raw_chunk(ChunkKind::Usage).unwrap().unwrap();
    assert_eq!(last.member("usage").and_then(Usage::of_json), tokens(2));
    let content = reader.assemble().unwrap();
    assert_eq!(content.blocks().unwrap().len(), 2);
    assert_eq!(reader.joined_text().unwrap().as_str(), Some("x"));
    let ends: Vec<_> =
        reader.raw_chunks(ChunkKind::BlockEnd).map(|end| end.unwrap().member("block")).collect();
    assert_eq!(ends, [Some(r#"{"type":"image","attachment":"a"}"#)]);
}

#[test]
fn a_corpus_of_real_sessions_is_shown_whole() {
    let Some(shared) = common::shared() else { return };
    let (mut logs, mut answers, mut calls, mut results) = (0, 0, 0, 0);
    for folder in ["corpus/dsh-v2", "corpus/migrated/v2"] {
        for entry in fs::read_dir(shared.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            if !text.lines().skip(1).all(|row| row.contains("\"seq\":")) {
                continue; // a snapshot without seqs and times, which is no log
            }
            let mut window = Window::new();
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for row in text.lines().skip(1) {
                window.row(row);
                let event = Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
                if let Some(kind) = Kind::from_name(&event.event_type().to_string_lossy()) {
                    *counts.entry(kind.name()).or_default() += 1;
                }
            }
            let count = |name: &str| counts.get(name).copied().unwrap_or_default();
            let place = path.display();
            let (mut said, mut settled, mut interrupted) = (0, 0, 0);
            let mut last = None;
            for (_, entry) in window.chat.entries() {
                let at = match entry {
                    ChatEntry::Message(message) => {
                        said += 1;
                        message.at.seq
                    }
                    ChatEntry::Answer(answer) => {
                        assert_ne!(answer.status, AnswerStatus::Running, "{place}");
                        interrupted += usize::from(answer.status == AnswerStatus::Interrupted);
                        settled += 1;
                        answer.place.sort_key() as u64
                    }
                    ChatEntry::Call(call) => {
                        calls += 1;
                        results += usize::from(call.result.is_some());
                        assert!(!call.name.is_empty(), "{place}");
                        call.asked.or(call.started).unwrap().seq
                    }
                    other => panic!("{other:?}"),
                };
                assert!(last <= Some(at), "{place}: in the order of the log");
                last = Some(at);
            }
            assert_eq!((said, settled), (count("user/message"), count("assistant/message")), "{place}");
            assert_eq!(interrupted, text.matches(r#""interrupted":true"#).count(), "{place}");
            let attempts: usize = window.trajectory.steps().map(|step| step.attempts.len()).sum();
            assert_eq!(attempts, count("assistant/message") + count("assistant/attempt"), "{place}");
            let complete =
                window.trajectory.steps().filter(|step| step.status == RequestStatus::Complete).count();
            assert_eq!(complete, settled - interrupted, "{place}");
            // A window that was put together from pages shows the same.
            let rows: Vec<LiveEvent> = text
                .lines()
                .skip(1)
                .zip(0..)
                .map(|(row, seq)| LiveEvent { seq, row: Arc::from(row.as_bytes()) })
                .collect();
            let (mut view, mut paged) = (View::new(), Window::new());
            let middle = rows.len() / 2;
            for page in [&rows[middle..], &rows[middle / 2..middle], &rows[..middle / 2]] {
                let change = if view.change().is_none() {
                    view.replace_page(page.to_vec(), true, None).unwrap()
                } else {
                    match view.prepend(page.to_vec(), page.first().is_none_or(|first| first.seq > 0)) {
                        Decision::Show(change) => change,
                        other => panic!("{place}: {other:?}"),
                    }
                };
                paged.chat.change(&change, view.entries());
                paged.trajectory.change(&change, view.entries());
            }
            assert_eq!(paged.shown(), window.shown(), "{place}");
            (logs, answers) = (logs + 1, answers + settled);
        }
    }
    println!("{logs} logs, {answers} answers, {calls} calls, {results} results");
    assert!(
        logs >= 20 && answers >= 80 && calls >= 20 && results >= 20,
        "{logs} {answers} {calls} {results}"
    );
}
