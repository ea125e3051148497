//! `timeline`: does it say of the compact records what their expansion says?

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::common;
use super::corpus::logs_in;
use super::program::{Root, command, run, seslog};

/// The chunks of a stream with their times, one a delta: the straightforward expansion.
fn expand(stream: &Value) -> Vec<(i64, Value)> {
    let mut chunks = Vec::new();
    for record in stream.as_array().unwrap() {
        let kind = record["type"].as_str().unwrap();
        let (delta, texts) = match kind {
            "text-chunks" => (json!({"type": "text-delta"}), &record["texts"]),
            "reasoning-chunks" => (json!({"type": "reasoning-delta"}), &record["texts"]),
            "tool-call-chunks" => (json!({"type": "tool-call-delta", "id": record["id"]}), &record["args"]),
            _ => {
                chunks.push((record["time"].as_i64().unwrap(), record["chunk"].clone()));
                continue;
            }
        };
        let mut time = record["time0"].as_i64().unwrap();
        for (place, text) in texts.as_array().unwrap().iter().enumerate() {
            if place > 0 {
                time += record["dt"][place - 1].as_i64().unwrap();
            }
            let mut chunk = delta.clone();
            let member = if kind == "tool-call-chunks" { "argumentsDelta" } else { "text" };
            chunk[member] = text.clone();
            if let Some(name) = record.get("name") {
                chunk["name"] = name.clone();
            }
            chunks.push((time, chunk));
        }
    }
    chunks
}

fn is_token(chunk: &Value) -> bool {
    let has = |member: &str| chunk[member].as_str().is_some_and(|text| !text.is_empty());
    match chunk["type"].as_str().unwrap() {
        "text-delta" | "reasoning-delta" => has("text"),
        "tool-call-delta" => has("argumentsDelta") || chunk.get("name").is_some(),
        _ => false,
    }
}

/// What the timeline should be, from the events of a current log.
fn expected(events: &[Value]) -> Vec<Value> {
    let mut attempts = Vec::new();
    let mut steps: Vec<(&Value, i64)> = Vec::new();
    for event in events {
        let data = &event["data"];
        if event["type"] == "step/start" {
            steps.push((data, event["time"].as_i64().unwrap()));
        }
        let is_message = event["type"] == "assistant/message";
        if !is_message && event["type"] != "assistant/attempt" {
            continue;
        }
        let chunks = expand(&data["stream"]);
        let last =
            |kind: &str| chunks.iter().rev().map(|(_, chunk)| chunk).find(|chunk| chunk["type"] == kind);
        let tokens: Vec<i64> =
            chunks.iter().filter(|(_, chunk)| is_token(chunk)).map(|(time, _)| *time).collect();
        let usage = last("usage").map(|chunk| &chunk["usage"]).or(data.get("usage"));
        let finish = last("finish").map(|chunk| &chunk["reason"]);
        let kind = finish.map(|finish| finish["kind"].as_str().unwrap());
        let outcome = match (is_message, data.get("interrupted"), kind) {
            (true, Some(_), _) => "interrupted",
            (true, None, _) => "message",
            (false, _, Some(failed @ ("error" | "aborted"))) => failed,
            (false, _, _) => "attempt",
        };
        let step =
            steps.iter().rev().find(|(step, _)| step["turn"] == data["turn"] && step["step"] == data["step"]);
        let step = step.map(|(_, time)| *time);
        let (first, end) = (chunks.first().map(|(time, _)| *time), chunks.last().map(|(time, _)| *time));
        let first_token = tokens.first().copied();
        let count = usage.map_or(tokens.len() as u64, |usage| usage["outputTokens"].as_u64().unwrap());
        let span = first_token.map_or(0, |first| tokens.last().unwrap() - first);
        let mut attempt = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            attempt.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("seq", Some(event["seq"].clone()));
        put("time", Some(event["time"].clone()));
        put("turn", Some(data["turn"].clone()));
        put("step", Some(data["step"].clone()));
        put("outcome", Some(outcome.into()));
        put("finish", kind.map(Value::from));
        put("failureCode", finish.and_then(|finish| finish["failure"].get("code")).cloned());
        put("stepTime", step.map(Value::from));
        put("startTime", first.map(Value::from));
        put("firstTokenTime", first_token.map(Value::from));
        put("endTime", end.map(Value::from));
        put("firstTokenMs", first_token.map(|token| (token - first.unwrap()).into()));
        put("firstTokenSinceStepMs", first_token.zip(step).map(|(token, step)| (token - step).into()));
        put("durationMs", end.map(|end| (end - first.unwrap()).into()));
        put("tokens", Some(count.into()));
        put("tokenDeltas", Some(tokens.len().into()));
        put("chunks", Some(chunks.len().into()));
        let rate = (span > 0).then(|| count as f64 * 1000.0 / span as f64);
        put("tokensPerSecond", rate.map(|rate| as_number((rate * 1000.0).round() / 1000.0)));
        for name in ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"]
        {
            put(name, usage.and_then(|usage| usage.get(name)).cloned());
        }
        attempts.push(Value::Object(attempt));
    }
    attempts
}

/// A number as JSON spells it: a whole one has no fraction.
fn as_number(number: f64) -> Value {
    if number.fract() == 0.0 { (number as u64).into() } else { number.into() }
}

fn events_of(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.skip(1).map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn the_timeline_of_every_current_log_of_the_corpus_is_that_of_its_expansion() {
    let Some(shared) = common::shared() else { return };
    let mut logs = logs_in(&shared.join("corpus/dsh-v2"), "vfs-example__");
    logs.extend(logs_in(&shared.join("corpus/migrated/v2"), ""));
    assert_eq!(logs.len(), 62);
    let (mut attempts, mut deltas) = (0, 0);
    for log in logs {
        let expected = expected(&events_of(&fs::read(&log).unwrap()));
        let said = seslog(&["timeline", log.to_str().unwrap(), "--json"], b"").expect(0).json();
        assert_eq!(said, expected, "{}", log.display());
        // The log that it was migrated from, converted on the way, has the same.
        let source = shared.join("corpus/dsh-v0-restored").join(log.file_name().unwrap());
        if source.exists() {
            let said = seslog(&["timeline", source.to_str().unwrap(), "--json"], b"").expect(0).json();
            assert_eq!(said, expected, "{}", source.display());
        }
        let table = seslog(&["timeline", log.to_str().unwrap()], b"").expect(0).text();
        let lines = if expected.is_empty() { 0 } else { expected.len() + 1 };
        assert_eq!(table.lines().count(), lines, "{table}");
        attempts += said.len();
        deltas += said.iter().map(|attempt| attempt["tokenDeltas"].as_u64().unwrap()).sum::<u64>();
    }
    assert!(attempts > 150 && deltas > 1000, "{attempts} attempts of {deltas} deltas");
}

/// A session of one step with a failed attempt, and an answer whose clock steps back.
fn session() -> (Root, PathBuf) {
    let root = Root::new();
    let path = root.session("s", "plain", 0);
    let failed = r#"[{"type":"text-chunks","time0":1100,"index":0,"dt":[100,100],"texts":["","a","b"]},{"type":"chunk","time":1400,"chunk":{"type":"finish","reason":{"kind":"error","failure":{"message":"m","code":"OVERLOADED\u001b[2J"}}}}]"#;
    let answer = r#"[{"type":"text-chunks","time0":2000,"index":0,"dt":[-500,700,0],"texts":["a","b","c","d"]},{"type":"chunk","time":2400,"chunk":{"type":"usage","usage":{"inputTokens":9,"outputTokens":40}}},{"type":"chunk","time":2500,"chunk":{"type":"finish","reason":{"kind":"max-tokens"}}}]"#;
    let message = r#"{"id":"m","role":"assistant","content":[{"type":"text","text":"abcd"}],"source":{"kind":"model","provider":"p","model":"m"}}"#;
    let rows = [
        r#"{"type":"turn/start","time":1000,"data":{"turn":1}}"#.to_owned(),
        r#"{"type":"step/start","time":1000,"data":{"turn":1,"step":1}}"#.to_owned(),
        format!(
            r#"{{"type":"assistant/attempt","time":1500,"data":{{"turn":1,"step":1,"stream":{failed}}}}}"#
        ),
        format!(
            r#"{{"type":"assistant/message","time":2600,"data":{{"turn":1,"step":1,"message":{message},"usage":{{"inputTokens":9,"outputTokens":40}},"stream":{answer}}},"surfaceOp":"append"}}"#
        ),
    ];
    root.run_with(&["append", "s", "--batch", "9"], rows.join("\n").as_bytes()).expect(0);
    (root, path)
}

#[test]
fn failures_have_names_and_a_clock_that_steps_back_is_said_to_do_so() {
    let (root, path) = session();
    let said = root.run(&["timeline", "s", "--json"]).expect(0).json();
    assert_eq!(said, expected(&events_of(&fs::read(&path).unwrap())));
    assert_eq!(said[0]["outcome"], "error");
    assert_eq!(said[0]["failureCode"], "OVERLOADED\u{1b}[2J");
    assert_eq!(
        (&said[0]["firstTokenMs"], &said[0]["firstTokenSinceStepMs"], &said[0]["durationMs"]),
        (&100.into(), &200.into(), &300.into())
    );
    assert_eq!((&said[0]["tokens"], &said[0]["tokensPerSecond"]), (&2.into(), &20.into()));
    assert_eq!((&said[1]["finish"], &said[1]["tokens"]), (&"max-tokens".into(), &40.into()));
    assert_eq!(said[1]["tokensPerSecond"], 200);

    for (locale, bars) in [("C.UTF-8", ["     █    █", "█     █"]), ("C", ["     @    @", "@     @"])]
    {
        let mut command = command();
        command.env("LC_ALL", locale).arg("--root").arg(root.path()).args(["timeline", "s"]);
        let table = run(command, b"").expect(0).text();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("  WHEN"), "{table}");
        assert!(lines[1].contains("error (OVERLOADED\\u{1b}[2J)"), "{table}");
        assert!(lines[2].contains("message (max-tokens)"), "{table}");
        assert!(
            lines[1].contains("100 ms") && lines[1].contains("200 ms") && lines[1].contains("20.0"),
            "{table}"
        );
        for (line, bar) in lines[1..].iter().zip(bars) {
            assert!(line.ends_with(&format!("  {bar}")), "{bar}: {table}");
        }
    }
}

#[test]
fn a_torn_end_is_said_and_an_unreadable_stream_hides_nothing_else() {
    let (root, path) = session();
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"type\":\"turn/e");
    fs::write(&path, &bytes).unwrap();
    let torn = root.run(&["timeline", "s", "--json"]).expect(3).says("cut short").says("next: ");
    assert_eq!(torn.json().len(), 2);

    let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
    let bad = text.replace("\"text-chunks\",\"time0\":1100", "\"text-chunkz\",\"time0\":1100");
    fs::write(&path, bad.strip_suffix("{\"type\":\"turn/e").unwrap()).unwrap();
    let said =
        root.run(&["timeline", "s", "--json"]).expect(3).says("event 2: its stream cannot be read").json();
    assert_eq!((&said[0]["outcome"], said[0].get("startTime")), (&"attempt".into(), None));
    assert_eq!(said[1]["outcome"], "message");
}

#[test]
fn an_event_that_must_be_understood_and_is_not_is_no_gap() {
    let (root, path) = session();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("turn/start", "acme/start")).unwrap();
    let refused = root.run(&["timeline", "s"]).expect(1).says("acme/start").says("upgrade");
    assert!(refused.stdout.is_empty());
}

#[test]
fn a_session_without_attempts_has_an_empty_timeline() {
    let root = Root::new();
    root.session("s", "indexed", 3);
    let empty = root.run(&["timeline", "s"]).expect(0).says("no model attempts");
    assert!(empty.stdout.is_empty());
    assert!(root.run(&["timeline", "s", "--json"]).expect(0).stdout.is_empty());
}
