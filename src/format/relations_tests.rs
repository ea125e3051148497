//! Tests of [`super::relations`] and the surface rules on native v2 rows: one fact a line, one rule a test.

use super::inventory::Kind;
use super::refusal::Code;
use super::relations::Relations;
use super::session_rules::SessionRules;
use super::v2::CurrentRows;
use crate::json::{Tape, Text};
use crate::limits::Limits;
use crate::row::Header;

/// What the checkers say of rows given as `type data [more]`, seqs and times filled in.
fn judge(header: &str, events: &[(&str, &str, &str)]) -> (Option<(u64, Code)>, Option<u64>) {
    let header = Header::parse(header.as_bytes(), &Limits::DEFAULT).expect("a v2 header");
    let mut rows = CurrentRows::new(&header);
    let mut relations = Relations::new(Text::from("s"), 2);
    let mut session = SessionRules::default();
    for (seq, (kind, data, more)) in (0_u64..).zip(events) {
        let row = format!(r#"{{"type":"{kind}","seq":{seq},"time":0,"data":{data}{more}}}"#);
        let mut tape = Tape::default();
        let node = tape.parse(row.as_bytes(), 100).unwrap_or_else(|_| panic!("{row}"));
        let row = rows.read(node, seq).unwrap_or_else(|rule| panic!("{row}: {rule}"));
        if let Some(view) = row.view {
            relations.push(&view);
            session.push(&view);
        }
    }
    (relations.finish().map(|fault| (fault.seq, fault.code)), session.fault().map(|fault| fault.seq))
}

const PLAIN: &str =
    r#"{"type":"session","version":2,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#;
const FORKED: &str = concat!(
    r#"{"type":"session","version":2,"id":"s","createdAt":0,"parentSession":"p","isSeeded":true,"#,
    r#""delegationDepth":0}"#
);

fn fault(events: &[(&str, &str, &str)]) -> Option<(u64, Code)> {
    judge(PLAIN, events).0
}

const APPEND: &str = r#","surfaceOp":"append""#;
const TURN: (&str, &str, &str) = ("turn/start", r#"{"turn":1}"#, "");
const STEP: (&str, &str, &str) = ("step/start", r#"{"turn":1,"step":1}"#, "");
const STEP_END: (&str, &str, &str) = ("step/end", r#"{"turn":1,"step":1}"#, "");
const TURN_END: (&str, &str, &str) = ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#, "");
const HUMAN: (&str, &str, &str) = ("user/message", r#"{"source":{"kind":"user"}}"#, APPEND);
const COMPACT: (&str, &str, &str) = ("compaction/start", r#"{"compactionId":"k","turn":null}"#, "");
const COMPACTED: (&str, &str, &str) =
    ("compaction/end", r#"{"compactionId":"k","turn":null,"error":"e"}"#, "");
const SEED: (&str, &str, &str) = ("session/end-seed", "{}", "");

#[test]
fn turns_and_steps_follow_each_other() {
    assert_eq!(fault(&[TURN, STEP, STEP_END, TURN_END]), None);
    assert_eq!(fault(&[TURN, TURN]), Some((1, Code::RelationTurn)));
    assert_eq!(fault(&[("turn/start", r#"{"turn":2}"#, "")]), Some((0, Code::RelationTurn)));
    assert_eq!(fault(&[TURN, STEP, TURN_END]), Some((2, Code::RelationTurn)));
    assert_eq!(fault(&[TURN, STEP, STEP]), Some((2, Code::RelationStep)));
    assert_eq!(fault(&[STEP]), Some((0, Code::RelationStep)));
    assert_eq!(fault(&[TURN, STEP_END]), Some((1, Code::RelationStep)));
    assert_eq!(fault(&[("turn/start", "{}", "")]), Some((0, Code::RelationTurn)));
    let attempt = ("assistant/attempt", r#"{"turn":1,"step":1,"stream":[]}"#, "");
    assert_eq!(fault(&[TURN, attempt]), Some((1, Code::RelationStep)));
    assert_eq!(fault(&[TURN, STEP, attempt]), None);
}

#[test]
fn a_stale_compaction_may_be_crossed_and_another_may_not() {
    assert_eq!(fault(&[COMPACT, TURN, COMPACTED]), Some((1, Code::RelationCompaction)));
    assert_eq!(fault(&[COMPACT, TURN]), Some((1, Code::RelationCompaction)), "nothing closes it");
    assert_eq!(fault(&[COMPACT, TURN, SEED, TURN_END]), None);
    // What breaks a rule while it is not known whether the compaction is stale counts only if it is.
    assert_eq!(fault(&[COMPACT, TURN, TURN, SEED]), Some((2, Code::RelationTurn)));
    assert_eq!(fault(&[COMPACT, TURN, TURN, COMPACTED]), Some((1, Code::RelationCompaction)));
    let wrong = ("turn/start", r#"{"turn":7}"#, "");
    assert_eq!(fault(&[COMPACT, wrong]), Some((1, Code::RelationCompaction)), "the crossing comes first");
    // A boundary after the end of the compaction forgives nothing.
    assert_eq!(fault(&[COMPACT, TURN, COMPACTED, SEED]), Some((1, Code::RelationCompaction)));
    // Any end decides, also one that names another compaction.
    let other = ("compaction/end", r#"{"compactionId":"x","turn":null,"error":"e"}"#, "");
    assert_eq!(fault(&[COMPACT, TURN, other, SEED]), Some((1, Code::RelationCompaction)));
    assert_eq!(fault(&[COMPACT, COMPACT]), Some((1, Code::RelationCompaction)));
    // So does another start: generated log 78617 was refused here for the turn and there for the compaction.
    assert_eq!(fault(&[COMPACT, wrong, COMPACT, SEED]), Some((1, Code::RelationCompaction)));
    assert_eq!(fault(&[COMPACT, SEED, COMPACT, COMPACTED]), None);
}

#[test]
fn a_delivery_marker_may_name_a_parent_inside_the_inherited_prefix_only() {
    let kind = "session-log-deepseek/delivery-accepted";
    let foreign = (kind, r#"{"sessionId":"p","throughSeq":0,"sessionFormatVersion":2}"#, "");
    let cut = ("session/end-seed", r#"{"inherited":true}"#, "");
    assert_eq!(judge(FORKED, &[foreign, cut]).0, None);
    assert_eq!(judge(FORKED, &[foreign, cut, foreign]).0, Some((2, Code::DeliverySession)));
    assert_eq!(judge(FORKED, &[foreign, cut, foreign, cut]).0, None, "the last marker counts");
    assert_eq!(judge(FORKED, &[cut, foreign, TURN, TURN]).0, Some((1, Code::DeliverySession)));
    assert_eq!(judge(FORKED, &[foreign, TURN, TURN, cut]).0, Some((2, Code::RelationTurn)));
    assert_eq!(judge(PLAIN, &[foreign]).0, Some((0, Code::DeliverySession)));
    let older = (kind, r#"{"sessionId":"p","throughSeq":0,"sessionFormatVersion":1}"#, "");
    assert_eq!(judge(PLAIN, &[older]).0, None);
}

#[test]
fn tool_calls_are_announced_started_and_answered() {
    let message = (
        "assistant/message",
        concat!(
            r#"{"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":"c","name":"n","#,
            r#""arguments":"{}"}]},"stream":[]}"#
        ),
        APPEND,
    );
    let call = ("tool/call", r#"{"turn":1,"step":1,"callId":"c","name":"n","arguments":"{\u007d"}"#, "");
    let result = (
        "tool/result",
        r#"{"turn":1,"step":1,"message":{"id":"r","source":{"callId":"c"},"content":[{"content":[]}]}}"#,
        APPEND,
    );
    assert_eq!(fault(&[TURN, STEP, message, call, result, STEP_END]), None);
    assert_eq!(fault(&[TURN, STEP, message, message]), Some((3, Code::RelationTool)));
    assert_eq!(fault(&[TURN, STEP, message, call, call]), Some((4, Code::RelationTool)));
    assert_eq!(fault(&[TURN, STEP, message, result]), Some((3, Code::RelationTool)), "it did not start");
    assert_eq!(fault(&[TURN, STEP, message, call, result, result]), Some((5, Code::RelationTool)));
    assert_eq!(fault(&[TURN, STEP, message, call, STEP_END]), Some((4, Code::RelationTool)));
    let repair = |seq: u64| {
        format!(
            r#"{{"turn":1,"step":1,"error":{{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}},"message":{}}}"#,
            format_args!(
                r#"{{"id":"interrupted-tool-result-c-{seq}","source":{{"callId":"c"}},"content":[{}]}}"#,
                concat!(
                    r#"{"isError":true,"content":[{"type":"text","text":"The tool call was interrupted before the "#,
                    r#"Harness recorded it as started. Retry it if it is still needed."}]}"#
                )
            )
        )
    };
    let (own, other) = (repair(3), repair(2));
    assert_eq!(fault(&[TURN, STEP, message, ("tool/result", &own, APPEND), STEP_END]), None);
    let moved = ("tool/result", other.as_str(), APPEND);
    assert_eq!(fault(&[TURN, STEP, message, moved]), Some((3, Code::RelationTool)));
    let citing = ("tool/result", own.as_str(), r#","sourceEventSeqs":[2],"surfaceOp":"append""#);
    assert_eq!(fault(&[TURN, STEP, message, citing]), Some((3, Code::RelationTool)));
}

#[test]
fn titles_cite_people_and_commands_pair() {
    let title = |seqs: &str, kind: &str| format!(r#"{{"messageSeqs":{seqs},"source":{{"kind":"{kind}"}}}}"#);
    let (good, nobody, own) = (title("[0]", "fallback"), title("[1]", "fallback"), title("[]", "user"));
    assert_eq!(fault(&[HUMAN, ("session/title", &good, "")]), None);
    assert_eq!(fault(&[HUMAN, TURN, ("session/title", &nobody, "")]), Some((2, Code::RelationTitle)));
    assert_eq!(fault(&[HUMAN, ("session/title", &own, "")]), None);
    let empty = title("[]", "fallback");
    assert_eq!(fault(&[HUMAN, ("session/title", &empty, "")]), Some((1, Code::RelationTitle)));
    let run = ("command/run", r#"{"commandId":"k"}"#, "");
    let done = ("command/done", r#"{"commandId":"k","kind":"success","sourceEventSeq":0}"#, "");
    assert_eq!(fault(&[HUMAN, run, done]), None);
    assert_eq!(fault(&[run, done]), Some((1, Code::RelationCommand)), "it cites its own run");
    assert_eq!(fault(&[HUMAN, done]), Some((1, Code::RelationCommand)));
    assert_eq!(fault(&[HUMAN, run, run]), Some((2, Code::RelationCommand)));
    let failed = ("command/done", r#"{"commandId":"k","kind":"error","sourceEventSeq":0}"#, "");
    assert_eq!(fault(&[HUMAN, run, failed]), Some((2, Code::RelationCommand)));
}

#[test]
fn retries_form_chains() {
    let header = ("request/header", r#"{"header":{"config":{"provider":"a"}}}"#, "");
    let retry = |id: &str, n: u64, policy: &str| {
        format!(r#"{{"retryId":"{id}","turn":1,"step":1,"provider":"a","policyKey":"{policy}","retry":{n}}}"#)
    };
    let (first, second, fork) = (retry("r", 1, "p"), retry("r", 2, "p"), retry("r", 1, "q"));
    let start = |n: u64| format!(r#"{{"retryId":"r","turn":1,"step":1,"retry":{n}}}"#);
    let (started, early) = (start(1), start(2));
    let open = [TURN, STEP, header];
    let with = |more: &[(&str, &str)]| {
        let more: Vec<_> = more.iter().map(|(kind, data)| (*kind, *data, "")).collect();
        fault(&[&open, more.as_slice()].concat())
    };
    let (r, s) = ("llm/retry", "llm/retry-started");
    assert_eq!(with(&[(r, &first), (s, &started), (r, &second), (s, &early)]), None);
    assert_eq!(with(&[(r, &second)]), Some((3, Code::RelationRetry)));
    assert_eq!(with(&[(r, &first), (r, &first)]), Some((4, Code::RelationRetry)));
    assert_eq!(with(&[(r, &first), (r, &fork)]), Some((4, Code::RelationRetry)), "two chains, one id");
    assert_eq!(with(&[(r, &first), (s, &early)]), Some((4, Code::RelationRetry)));
    assert_eq!(with(&[(r, &first), (s, &started), (s, &started)]), Some((5, Code::RelationRetry)));
    assert_eq!(
        fault(&[TURN, STEP, (r, &first, "")]),
        Some((2, Code::RelationRetry)),
        "no request, no provider"
    );
    // A retry may come after its step.
    assert_eq!(fault(&[TURN, STEP, header, STEP_END, (r, &first, "")]), None);
}

#[test]
fn compactions_name_what_they_shadow() {
    let summary = |seqs: &str, id: &str| {
        format!(r#"{{"compactionId":"{id}","shadowedRange":{{"start":0,"end":1}},"shadowedSeqs":{seqs}}}"#)
    };
    let end = ("compaction/end", r#"{"compactionId":"k","turn":null}"#, "");
    let (exact, short, other) = (summary("[0,1]", "k"), summary("[0]", "k"), summary("[0,1]", "x"));
    let summary = "compaction/summary";
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, (summary, &exact, ""), end]), None);
    let broken = Some((3, Code::RelationCompaction));
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, (summary, &short, "")]), broken);
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, (summary, &other, "")]), broken);
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, end]), broken, "no summary and no error");
    let twice = [HUMAN, HUMAN, COMPACT, (summary, &exact, ""), (summary, &exact, "")];
    assert_eq!(fault(&twice), Some((4, Code::RelationCompaction)));
    let replacing =
        |id: &str| format!(r#"{{"source":{{"kind":"plugin","plugin":"compact","compactionId":"{id}"}}}}"#);
    let (own, foreign) = (replacing("k"), replacing("x"));
    let over = r#","sourceEventSeqs":[0,1],"surfaceOp":{"op":"replace","start":0,"end":1}"#;
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, ("user/message", &own, over), SEED]), None);
    assert_eq!(fault(&[HUMAN, HUMAN, COMPACT, ("user/message", &foreign, over)]), broken);
    let uncited = r#","sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":1}"#;
    assert_eq!(
        fault(&[HUMAN, HUMAN, COMPACT, ("user/message", &own, uncited)]),
        Some((3, Code::RelationSurface))
    );
}

#[test]
fn a_host_demands_more_of_a_replaced_result() {
    let result = |flag: bool, text: &str, meta: &str| {
        format!(
            r#"{{"turn":1,"step":1,"meta":{meta},"message":{{"id":"r","content":[{{"isError":{flag},"content":{text}}}]}}}}"#
        )
    };
    let replace = r#","sourceEventSeqs":[1],"surfaceOp":{"op":"replace","start":1,"end":1}"#;
    let session = |first: &str, second: &str, more: &str| {
        judge(PLAIN, &[HUMAN, ("tool/result", first, APPEND), ("tool/result", second, more)]).1
    };
    let first = result(false, r#"["long"]"#, r#"{"a":1,"b":2}"#);
    assert_eq!(session(&first, &result(false, "[]", r#"{"b":2.0,"a":1}"#), replace), None);
    assert_eq!(session(&first, &result(true, "[]", r#"{"a":1,"b":2}"#), replace), Some(2));
    assert_eq!(session(&first, &result(false, "[]", r#"{"a":1}"#), replace), Some(2));
    let human = r#","sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}"#;
    assert_eq!(session(&first, &first, human), Some(2), "it replaces a message of a person");
    let empty = r#","sourceEventSeqs":[],"surfaceOp":"append""#;
    assert_eq!(judge(PLAIN, &[("user/message", "{}", empty)]).1, Some(0));
    assert!(Kind::ToolResult.is_surface());
}
