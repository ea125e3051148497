//! Changes to a generated log: aimed at one rule each, or blind.

use super::generate::Draft;
use super::value::{Json, Rng, list, n, obj, raw, t};

/// Changes `draft` in one way and names it.
pub(crate) fn mutate(draft: &mut Draft, rng: &mut Rng) -> &'static str {
    if rng.one_in(3) {
        return blind(draft, rng);
    }
    for _ in 0..8 {
        let (name, change) = rng.pick(AIMED);
        if change(draft, rng) {
            return name;
        }
    }
    blind(draft, rng)
}

type Change = fn(&mut Draft, &mut Rng) -> bool;

const AIMED: &[(&str, Change)] = &[
    ("header version", |d, rng| {
        d.header.set("version", rng.pick(&[raw("-1"), t("1"), raw("null"), raw("1.5"), n(9), n(3)]).clone());
        true
    }),
    ("header member", |d, rng| {
        match rng.below(5) {
            0 => d.header.set("sandboxMode", t("x")),
            1 => d.header.set("cwd", t("x/y")),
            2 => d.header.set("createdAt", raw("1.5")),
            3 => d.header.set("origin", t("user")),
            _ => _ = d.header.remove("delegationDepth"),
        }
        true
    }),
    ("cut beyond the end", |d, _| {
        d.header.set("seedLength", n(100_000));
        true
    }),
    ("cut anywhere", |d, rng| {
        let rows = d.rows.len();
        d.header.set("seedLength", n(u64::try_from(rng.below(rows + 1)).expect("small")));
        rows > 0
    }),
    ("a line that is not JSON", |d, rng| insert(d, rng, raw("not json"))),
    ("a row that is no object", |d, rng| insert(d, rng, rng_value(rng_clone(rng)))),
    ("a seq that does not follow", |d, rng| {
        with_row(
            d,
            rng,
            |row| row.get("seq").is_some(),
            |row, rng| {
                let seq = row.get("seq").and_then(Json::number).unwrap_or(0);
                row.set("seq", rng.pick(&[n(seq + 1), n(seq + 7), t("x"), raw("null")]).clone());
            },
        )
    }),
    ("a broken packed row", |d, rng| {
        with_row(d, rng, is_packed, |row, rng| match rng.below(5) {
            0 => row.set("extra", n(1)),
            1 => _ = row.get_mut("data").map(|data| data.set("dt", list(vec![raw("1.5")]))),
            2 => _ = row.get_mut("data").map(|data| data.set("turn", raw("-1"))),
            3 => _ = row.get_mut("data").and_then(|data| data.remove("step")),
            _ => row.set("time0", raw("1e300")),
        })
    }),
    ("sources without a stored form", |d, rng| {
        with_row(
            d,
            rng,
            |row| row.get("surfaceOp").is_some(),
            |row, rng| {
                let broken = [
                    list(vec![list(vec![n(1), n(0)])]),
                    raw("null"),
                    list(vec![t("1")]),
                    list(vec![raw("-1")]),
                    list(vec![list(vec![n(0), n(90)])]),
                ];
                row.set("sourceEventSeqs", rng.pick(&broken).clone());
            },
        )
    }),
    ("an unknown type", |d, rng| {
        with_row(
            d,
            rng,
            |_| true,
            |row, rng| {
                row.set(
                    "type",
                    rng.pick(&[t("vendor/extra"), t("assistant/attempt"), raw("5"), t("compact/start")])
                        .clone(),
                );
                row.set("ignorable", raw("true"));
            },
        )
    }),
    ("a retired type", |d, rng| {
        with_row(
            d,
            rng,
            |_| true,
            |row, rng| row.set("type", rng.pick(&[t("mode/set"), t("request/header-delta")]).clone()),
        )
    }),
    ("a retired reason", |d, rng| {
        in_data(d, rng, "request/header", |data, _| data.set("reason", t("fallback")))
    }),
    ("a prefix that is no list", |d, rng| {
        in_data(d, rng, "request/header", |data, _| {
            if let Some(header) = data.get_mut("header") {
                header.set("messagePrefix", raw("null"));
            }
        })
    }),
    ("an old turn boundary", |d, rng| {
        let which = *rng.pick(&["turn/start", "turn/end"]);
        in_data(d, rng, which, |data, rng| {
            match rng.below(6) {
            0 => data.set("turn", n(0)),
            1 => data.set("trigger", obj! { "kind": t("") }),
            2 => data.set("reason", obj! { "kind": n(1) }),
            3 => data.set("reason", obj! { "kind": t("error"), "step": n(1), "message": n(1) }),
            4 => data.set("reason", obj! { "kind": t("error"), "step": n(1), "failure": obj! { "message": t("m"), "code": n(1) } }),
            _ => data.set("reason", obj! { "kind": t("error"), "step": raw("-1"), "message": t("m") }),
        }
        })
    }),
    ("a turn zero with a trigger", |d, rng| {
        in_data(d, rng, "turn/start", |data, _| {
            *data = obj! { "turn": n(0), "trigger": obj! { "kind": t("x") } }
        })
    }),
    ("a descriptor of another version", |d, rng| {
        in_data(d, rng, "subagent/descriptor", |data, rng| {
            data.set("version", rng.pick(&[n(2), t("3"), raw("-0")]).clone())
        })
    }),
    ("an old result that replaces nothing", |d, rng| {
        with_row(
            d,
            rng,
            |row| is(row, "tool/result"),
            |row, _| {
                row.set("data", obj! { "turn": n(1), "step": n(1), "callId": t("c"), "content": list(vec![]), "isError": raw("false") });
                row.set("surfaceOp", obj! { "op": t("replace"), "start": n(0), "end": n(0) });
            },
        )
    }),
    ("a delivery marker of another session", |d, rng| {
        let marker = |version: u64, generation: Option<u64>| {
            let mut data = obj! { "sessionId": t("elsewhere"), "throughSeq": n(0) };
            if let (1, Some(generation)) = (version, generation) {
                data.set("sessionFormatVersion", n(generation));
            }
            data
        };
        let data = marker(d.version, *rng.pick(&[None, Some(1), Some(2)]));
        insert_event(d, rng, "session-log-deepseek/delivery-accepted", data)
    }),
    ("an extra payload member", |d, rng| {
        with_row(
            d,
            rng,
            |row| !is(row, "assistant/chunk") && row.get("seq").is_some(),
            |row, _| {
                if let Some(data) = row.get_mut("data") {
                    data.set("later", n(1));
                }
            },
        )
    }),
    ("a missing payload member", |d, rng| {
        with_row(
            d,
            rng,
            |row| !is(row, "assistant/chunk"),
            |row, rng| {
                if let Some(Json::Object(members)) = row.get_mut("data")
                    && !members.is_empty()
                {
                    let at = rng.below(members.len());
                    members.remove(at);
                }
            },
        )
    }),
    ("a chunk's envelope", |d, rng| {
        with_row(
            d,
            rng,
            |row| is(row, "assistant/chunk"),
            |row, rng| match rng.below(4) {
                0 => row.set("note", n(1)),
                1 => row.set("ignorable", raw("false")),
                2 => _ = row.remove("time"),
                _ => row.set("surfaceOp", t("append")),
            },
        )
    }),
    ("a chunk of no known kind", |d, rng| {
        in_data(d, rng, "assistant/chunk", |data, rng| {
            if let Some(chunk) = data.get_mut("chunk") {
                match rng.below(3) {
                    0 => chunk.set("type", t("vendor-chunk")),
                    1 => chunk.set("index", raw("-1")),
                    _ => *chunk = raw("null"),
                }
            }
        })
    }),
    ("a turn that starts inside another", |d, rng| {
        let turn = *rng.pick(&[1, 2, 3]);
        insert_event(d, rng, "turn/start", obj! { "turn": n(turn) })
    }),
    ("a message that cites none of its chunks", |d, rng| {
        with_row(d, rng, |row| is(row, "assistant/message"), |row, _| _ = row.remove("sourceEventSeqs"))
    }),
    ("a message that cites other chunks", |d, rng| {
        with_row(
            d,
            rng,
            |row| is(row, "assistant/message") && row.get("sourceEventSeqs").is_some(),
            |row, rng| {
                if let Some(Json::List(items)) = row.get_mut("sourceEventSeqs") {
                    if items.is_empty() || rng.one_in(3) {
                        items.push(n(0));
                    } else {
                        items.remove(rng.below(items.len()));
                    }
                }
            },
        )
    }),
    ("a citation of anything before", |d, rng| {
        with_row(
            d,
            rng,
            |row| row.get("surfaceOp").is_some() && !is(row, "assistant/message"),
            |row, rng| {
                let seq = usize::try_from(row.get("seq").and_then(Json::number).unwrap_or(1)).expect("small");
                let cited = u64::try_from(rng.below(seq + 1)).expect("small");
                match rng.below(3) {
                    0 => row.set("sourceEventSeqs", list(vec![n(cited)])),
                    1 => {
                        row.set("surfaceOp", obj! { "op": t("replace"), "start": n(cited), "end": n(cited) })
                    }
                    _ => row.set("sourceEventSeqs", list(vec![n(cited), n(cited)])),
                }
            },
        )
    }),
    ("a payload that cites anything before", |d, rng| {
        let which = *rng.pick(&["command/done", "session/title", "compaction/prune", "compaction/summary"]);
        with_row(
            d,
            rng,
            |row| is(row, which),
            |row, rng| {
                let seq = usize::try_from(row.get("seq").and_then(Json::number).unwrap_or(1)).expect("small");
                let cited = n(u64::try_from(rng.below(seq + 1)).expect("small"));
                if let Some(data) = row.get_mut("data") {
                    if data.get("commandId").is_some() {
                        data.set("sourceEventSeq", cited);
                    } else if data.get("title").is_some() {
                        data.set("messageSeqs", list(vec![cited]));
                    } else {
                        data.set("shadowedRange", obj! { "start": cited.clone(), "end": cited.clone() });
                        data.set("shadowedSeqs", list(vec![cited]));
                    }
                }
            },
        )
    }),
    ("a foreign envelope member", |d, rng| {
        with_row(
            d,
            rng,
            |row| row.get("seq").is_some() && !is(row, "assistant/chunk"),
            |row, rng| match rng.below(5) {
                0 => row.set("extra", n(1)),
                1 => row.set("ignorable", raw("false")),
                2 => row.set("time", raw("1.5")),
                3 => _ = row.remove("time"),
                _ => row.set("surfaceOp", t("append")),
            },
        )
    }),
    ("no surface operation", |d, rng| {
        with_row(
            d,
            rng,
            |row| row.get("surfaceOp").is_some(),
            |row, rng| match rng.below(3) {
                0 => _ = row.remove("surfaceOp"),
                1 => row.set("surfaceOp", rng.pick(&[raw("5"), t("prepend"), list(vec![])]).clone()),
                _ => {
                    if let Some(op) = row.get_mut("surfaceOp") {
                        op.set("more", n(1));
                    }
                }
            },
        )
    }),
    ("a call that is not the announced one", |d, rng| {
        in_data(d, rng, "tool/call", |data, rng| {
            let member = *rng.pick(&["callId", "name", "arguments"]);
            data.set(member, t("other"));
        })
    }),
    ("a result without a call", |d, rng| drop_row(d, rng, "tool/call")),
    ("a call without a result", |d, rng| drop_row(d, rng, "tool/result")),
    ("a repair of a call that did not start", |d, rng| {
        let Some(at) = find(d, rng, |row| is(row, "tool/call")) else { return false };
        let Some(Json::Text(call)) = d.rows[at].get("data").and_then(|data| data.get("callId")).cloned()
        else {
            return false;
        };
        let Some(answer) = (at..d.rows.len()).find(|row| is(&d.rows[*row], "tool/result")) else {
            return false;
        };
        let place = d.rows[answer].get("data").cloned().unwrap_or(obj! {});
        d.rows.remove(answer);
        let seq = d.rows[at].get("seq").and_then(Json::number).unwrap_or(0);
        let exact = if rng.one_in(2) { seq } else { seq / 2 };
        let text = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";
        let block = obj! {
            "type": t("tool-result"), "toolCallId": t(&call), "content": list(vec![obj! { "type": t("text"),
                "text": t(text) }]), "isError": raw("true")
        };
        let data = obj! {
            "turn": place.get("turn").cloned().unwrap_or(n(1)), "step": place.get("step").cloned().unwrap_or(n(1)),
            "message": obj! {
                "id": t(format!("interrupted-tool-result-{call}-{exact}")), "role": t("user"), "content": list(vec![block]),
                "source": obj! { "kind": t("tool"), "callId": t(&call) }
            },
            "error": obj! { "name": t("ToolNotStartedError"), "code": t("TOOL_NOT_STARTED") }
        };
        d.rows[at].set("type", t("tool/result"));
        d.rows[at].set("data", data);
        d.rows[at].set("surfaceOp", t("append"));
        renumber(d);
        true
    }),
    ("a dispatch that does not pair", |d, rng| {
        let which = *rng.pick(&["tool/code-dispatch", "tool/code-dispatch-start"]);
        in_data(d, rng, which, |data, rng| match rng.below(4) {
            0 => data.set("arguments", n(7)),
            1 => data.set("parentCallId", t("other")),
            2 => data.set("subCallId", t("other")),
            _ => data.set("name", t("other")),
        })
    }),
    ("a retry that breaks its chain", |d, rng| {
        let which = *rng.pick(&["llm/retry", "llm/retry-started"]);
        in_data(d, rng, which, |data, rng| match rng.below(4) {
            0 => data.set("retry", n(2)),
            1 => data.set("retryId", t("other")),
            2 => data.set("step", n(7)),
            _ => data.set("provider", t("other")),
        })
    }),
    ("a title that cites nobody", |d, rng| {
        let which = *rng.pick(&["session/title", "session/title-llm-request"]);
        in_data(d, rng, which, |data, rng| match rng.below(4) {
            0 => data.set("messageSeqs", list(vec![])),
            1 => data.set("messageSeqs", list(vec![n(0)])),
            2 => data.set("source", obj! { "kind": t("user") }),
            _ => data.set("messages", list(vec![])),
        })
    }),
    ("a command that does not pair", |d, rng| {
        let which = *rng.pick(&["command/run", "command/done"]);
        match rng.below(3) {
            0 => drop_row(d, rng, which),
            1 => in_data(d, rng, which, |data, _| data.set("commandId", t("other"))),
            _ => in_data(d, rng, which, |data, _| data.set("kind", t("error"))),
        }
    }),
    ("a compaction that does not pair", |d, rng| {
        let which = *rng.pick(&["compaction/start", "compaction/summary", "compaction/end"]);
        match rng.below(4) {
            0 => drop_row(d, rng, which),
            1 => in_data(d, rng, which, |data, _| data.set("compactionId", t("other"))),
            2 => in_data(d, rng, which, |data, _| data.set("turn", n(1))),
            _ => in_data(d, rng, which, |data, _| data.set("sourceCommandId", t("k"))),
        }
    }),
    ("a compaction across everything", |d, rng| {
        insert_event(
            d,
            rng,
            "compaction/start",
            obj! { "compactionId": t("wide"), "turn": rng_turn(rng_clone(rng)) },
        )
    }),
    ("a boundary anywhere", |d, rng| insert_event(d, rng, "session/end-seed", obj! {})),
    ("a missing boundary", |d, rng| {
        let which = *rng.pick(&["turn/start", "turn/end", "step/start", "step/end", "request/header"]);
        drop_row(d, rng, which)
    }),
    ("another turn or step number", |d, rng| {
        let which = *rng.pick(&[
            "turn/start",
            "turn/end",
            "step/start",
            "step/end",
            "assistant/message",
            "tool/result",
        ]);
        in_data(d, rng, which, |data, rng| {
            let member = *rng.pick(&["turn", "step"]);
            if data.get(member).is_some() {
                data.set(member, n(u64::try_from(rng.below(4)).expect("small")));
            }
        })
    }),
    ("chunks outside their step", |d, rng| {
        let chunk = obj! { "type": t("text-delta"), "index": n(0), "text": t("stray") };
        let place = obj! { "turn": n(1), "step": n(1), "chunk": chunk };
        insert_event(d, rng, "assistant/chunk", place)
    }),
    ("another goal text", |d, rng| {
        let is_goal = |row: &Json| {
            let source = row.get("data").and_then(|data| data.get("source"));
            source.is_some_and(|source| source.get("change").is_some())
        };
        with_row(d, rng, is_goal, |row, rng| {
            if let Some(data) = row.get_mut("data") {
                match rng.below(3) {
                    0 => data.set("content", list(vec![])),
                    1 => _ = data.get_mut("source").map(|source| source.set("revision", n(99))),
                    _ => {
                        _ = data
                            .get_mut("source")
                            .and_then(|source| source.get_mut("change"))
                            .map(|change| change.set("createdAt", n(77)))
                    }
                }
            }
        })
    }),
    ("nothing in the inbox", |d, rng| {
        in_data(d, rng, "agent/inbox/spliced", |data, _| data.set("inserted", list(vec![])))
    }),
    ("an event in the inbox's wake", |d, rng| {
        let Some(at) = find(d, rng, |row| is(row, "agent/inbox/spliced")) else { return false };
        let event =
            obj! { "type": t("feedback/record"), "seq": n(0), "time": n(1), "data": obj! { "text": t("x") } };
        d.rows.insert(at + 1, event);
        renumber(d);
        true
    }),
];

fn rng_clone(rng: &Rng) -> Rng {
    rng.clone()
}

fn rng_value(mut rng: Rng) -> Json {
    rng.pick(&[n(5), raw("null"), list(vec![]), t("x")]).clone()
}

fn rng_turn(mut rng: Rng) -> Json {
    rng.pick(&[raw("null"), raw("null"), n(1), n(2)]).clone()
}

fn blind(draft: &mut Draft, rng: &mut Rng) -> &'static str {
    if draft.rows.is_empty() {
        draft.header.set("delegationDepth", n(1));
        return "nothing to change";
    }
    let (a, b) = (rng.below(draft.rows.len()), rng.below(draft.rows.len()));
    match rng.below(8) {
        0 => {
            draft.rows.remove(a);
            if rng.one_in(4) { "a dropped row, numbers kept" } else { renumbered(draft, "a dropped row") }
        }
        1 => {
            let row = draft.rows[a].clone();
            draft.rows.insert(b, row);
            if rng.one_in(4) { "a repeated row, numbers kept" } else { renumbered(draft, "a repeated row") }
        }
        2 => {
            draft.rows.swap(a, b);
            renumbered(draft, "two rows swapped")
        }
        3 => {
            draft.rows.truncate(a);
            "a shorter log"
        }
        _ => {
            let row = &mut draft.rows[a];
            let mut index = rng.below(row.count());
            if let Some(value) = row.nth_mut(&mut index) {
                *value = changed(value, rng);
            }
            "a changed value"
        }
    }
}

fn changed(value: &Json, rng: &mut Rng) -> Json {
    match (value, rng.below(4)) {
        (Json::Raw(text), 0..=2) => match text.parse::<i64>() {
            Ok(number) => raw((number + [-1, 1, 2, 100][rng.below(4)]).to_string()),
            Err(_) => raw(rng.pick(&["true", "false", "null", "0", "1.5", "1e400", "-0"])),
        },
        (Json::Text(text), 0) => t(format!("{text}x")),
        (Json::Text(_), 1) => t(rng.pick(&["", "user", "plugin", "text", "append", "goal", "error"])),
        (Json::List(items), 0 | 1) => {
            let mut items = items.clone();
            if items.is_empty() || rng.one_in(2) {
                items.push(n(0));
            } else {
                items.remove(rng.below(items.len()));
            }
            list(items)
        }
        (Json::Object(members), 0 | 1) if !members.is_empty() => {
            let mut members = members.clone();
            let at = rng.below(members.len());
            if rng.one_in(2) {
                members.remove(at);
            } else {
                // A repeated name: its last value counts, at the place of the first.
                let again = (members[at].0.clone(), rng.pick(&[n(1), t("x"), members[at].1.clone()]).clone());
                members.push(again);
            }
            Json::Object(members)
        }
        _ => rng
            .pick(&[raw("null"), n(0), n(1), t(""), t("x"), list(vec![]), obj! {}, raw("true"), raw("-0")])
            .clone(),
    }
}

fn is(row: &Json, kind: &str) -> bool {
    row.get("type") == Some(&t(kind))
}

fn is_packed(row: &Json) -> bool {
    row.get("seq0").is_some()
}

fn find(draft: &Draft, rng: &mut Rng, is: impl Fn(&Json) -> bool) -> Option<usize> {
    let found: Vec<usize> = (0..draft.rows.len()).filter(|at| is(&draft.rows[*at])).collect();
    if found.is_empty() { None } else { Some(*rng.pick(&found)) }
}

fn with_row(
    draft: &mut Draft,
    rng: &mut Rng,
    is: impl Fn(&Json) -> bool,
    change: impl Fn(&mut Json, &mut Rng),
) -> bool {
    let Some(at) = find(draft, rng, is) else { return false };
    change(&mut draft.rows[at], rng);
    true
}

fn in_data(draft: &mut Draft, rng: &mut Rng, kind: &str, change: impl Fn(&mut Json, &mut Rng)) -> bool {
    with_row(
        draft,
        rng,
        |row| is(row, kind),
        |row, rng| {
            if let Some(data) = row.get_mut("data") {
                change(data, rng);
            }
        },
    )
}

fn insert(draft: &mut Draft, rng: &mut Rng, row: Json) -> bool {
    let at = rng.below(draft.rows.len() + 1);
    draft.rows.insert(at, row);
    true
}

fn insert_event(draft: &mut Draft, rng: &mut Rng, kind: &str, data: Json) -> bool {
    let event = obj! { "type": t(kind), "seq": n(0), "time": n(1_790_000_000_500), "data": data };
    insert(draft, rng, event);
    renumber(draft);
    true
}

fn drop_row(draft: &mut Draft, rng: &mut Rng, kind: &str) -> bool {
    let Some(at) = find(draft, rng, |row| is(row, kind)) else { return false };
    draft.rows.remove(at);
    renumber(draft);
    true
}

fn renumbered(draft: &mut Draft, name: &'static str) -> &'static str {
    renumber(draft);
    name
}

/// Numbers the rows anew, and moves what they cite along.
fn renumber(draft: &mut Draft) {
    let mut map = std::collections::HashMap::new();
    let mut next = 0;
    for row in &mut draft.rows {
        if let Some(first) = row.get("seq0").and_then(Json::number) {
            row.set("seq0", n(next));
            let data = row.get("data");
            let fragments = data.and_then(|data| data.get("texts").or(data.get("args")));
            let len = match fragments {
                Some(Json::List(items)) => items.len(),
                _ => 1,
            };
            for offset in 0..u64::try_from(len).expect("small") {
                map.insert(first + offset, next);
                next += 1;
            }
        } else if let Some(old) = row.get("seq").and_then(Json::number) {
            map.entry(old).or_insert(next);
            row.set("seq", n(next));
            next += 1;
        }
    }
    for row in &mut draft.rows {
        for path in [
            &["sourceEventSeqs"][..],
            &["surfaceOp"],
            &["data", "sourceEventSeq"],
            &["data", "messageSeqs"],
            &["data", "shadowedRange"],
            &["data", "shadowedSeqs"],
        ] {
            let mut at = Some(&mut *row);
            for name in path {
                at = at.and_then(|value| value.get_mut(name));
            }
            if let Some(value) = at {
                move_numbers(value, &map);
            }
        }
    }
}

fn move_numbers(value: &mut Json, map: &std::collections::HashMap<u64, u64>) {
    match value {
        Json::Raw(text) => {
            if let Some(moved) = text.parse().ok().and_then(|seq: u64| map.get(&seq)) {
                *text = moved.to_string();
            }
        }
        Json::List(items) => items.iter_mut().for_each(|item| move_numbers(item, map)),
        Json::Object(members) => members.iter_mut().for_each(|(_, value)| move_numbers(value, map)),
        Json::Text(_) => {}
    }
}
