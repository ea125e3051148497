//! Folds by themselves.

use serde_json::Value;
use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::session::{OutOfOrder, Overview, Preview, Projected, Projections};

use crate::machine::json;
use crate::recount::recount;
use crate::rows::{Dice, rows};

fn push(projected: &mut Projected, rows: &[String]) {
    for row in rows {
        projected.push(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap()).unwrap();
    }
}

fn folded(rows: &[String]) -> Projected {
    let mut projected = Projected::new(&Projections::built_in());
    push(&mut projected, rows);
    projected
}

/// What `ls --json` shows, for a comparison with a recount.
pub(crate) fn shown(overview: &Overview) -> Value {
    let text = |preview: &Preview| preview.text.to_string_lossy().into_owned();
    let sums = |sums: &seslog::session::TokenSums| {
        serde_json::json!({
            "requests": sums.requests, "input": sums.input, "output": sums.output, "cacheRead": sums.cache_read,
            "cacheWrite": sums.cache_write, "reasoning": sums.reasoning,
        })
    };
    let mut shown = serde_json::json!({
        "turns": overview.counts.turns,
        "steps": overview.counts.steps,
        "prompts": overview.counts.prompts,
        "answers": overview.counts.answers,
        "toolCalls": overview.counts.tool_calls,
        "isTurnOpen": overview.counts.is_open,
        "activeMs": overview.times.active_ms(),
        "tokens": sums(&overview.tokens.own),
    });
    if overview.tokens.inherited.requests > 0 {
        shown["tokens"]["inherited"] = sums(&overview.tokens.inherited);
    }
    if let Some(title) = &overview.title {
        shown["title"] = text(&title.title).into();
        shown["titleSource"] = title.source.as_str().into();
    }
    if let Some(first) = overview.times.first {
        shown["firstTime"] = first.get().into();
    }
    if let Some(prompt) = &overview.last_messages.prompt {
        shown["lastPromptTime"] = prompt.time.get().into();
    }
    if let Some((said, is_prompt)) = overview.last_messages.last() {
        let role = if is_prompt { "user" } else { "assistant" };
        shown["lastMessage"] = serde_json::json!({
            "role": role, "text": text(&said.text), "isCut": said.text.is_cut, "time": said.time.get(), "seq": said.seq,
        });
    }
    let models = overview.models.models.iter().map(|used| {
        let mut shown = serde_json::json!({
            "provider": used.provider.to_string_lossy(), "model": used.model.to_string_lossy(), "answers": used.answers,
        });
        let tokens = overview.tokens.models.iter();
        let mut tokens = tokens.filter(|one| one.provider == used.provider && one.model == used.model);
        if let Some(tokens) = tokens.next() {
            shown["tokens"] = sums(&tokens.sums);
        }
        shown
    });
    shown["models"] = models.collect::<Vec<_>>().into();
    shown
}

#[test]
fn a_state_that_was_written_and_read_goes_on_as_if_it_had_not() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let count = 1 + dice.below(120) as u64;
        let rows = rows(&mut dice, 0, count);
        let whole = json(&folded(&rows));
        for _ in 0..4 {
            let cut = dice.below(rows.len() + 1);
            let text = json(&folded(&rows[..cut]));
            let mut again = Projected::read_json(&Projections::built_in(), text.as_bytes())
                .unwrap_or_else(|| panic!("seed {seed}, cut {cut}: {text}"));
            assert_eq!((again.folded(), json(&again)), (cut as u64, text));
            let mut twin = again.clone();
            push(&mut again, &rows[cut..]);
            push(&mut twin, &rows[cut..]);
            assert_eq!((json(&again), json(&twin)), (whole.clone(), whole.clone()), "seed {seed}, cut {cut}");
        }
    }
}

#[test]
fn the_built_in_states_are_what_a_recount_gives() {
    for seed in 0..120 {
        let mut dice = Dice::new(seed);
        // serde_json holds no half of a pair.
        let rows: Vec<String> = rows(&mut dice, 0, 150)
            .into_iter()
            .map(|row| row.replace("\\ud83d alone", "half alone"))
            .collect();
        let values: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        let overview = Overview::of(&folded(&rows)).unwrap();
        assert_eq!(shown(&overview), recount(&values), "seed {seed}");
        assert_eq!((overview.events, overview.is_blank()), (150, overview.counts.turns == 0));
    }
}

#[test]
fn what_a_fork_inherited_is_summed_apart_and_counted_with_the_rest() {
    let answer = |seq: u64, input: u64| {
        format!(
            r#"{{"type":"assistant/message","seq":{seq},"time":5,"data":{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":[{{"type":"text","text":"x"}}],"source":{{"kind":"model","provider":"p","model":"m"}}}},"usage":{{"inputTokens":{input},"outputTokens":1}},"stream":[]}},"surfaceOp":"append"}}"#
        )
    };
    let mark = |seq: u64| {
        format!(r#"{{"type":"session/end-seed","seq":{seq},"time":5,"data":{{"inherited":true}}}}"#)
    };
    let plain = r#"{"type":"session/end-seed","seq":5,"time":5,"data":{}}"#.to_owned();
    let rows = [answer(0, 1), mark(1), answer(2, 10), mark(3), answer(4, 100), plain, answer(6, 1000)];
    let overview = Overview::of(&folded(&rows)).unwrap();
    assert_eq!((overview.tokens.own.input, overview.tokens.own.requests), (1100, 2));
    assert_eq!((overview.tokens.inherited.input, overview.tokens.inherited.requests), (11, 2));
    assert_eq!(overview.tokens.models[0].sums, overview.tokens.own);
    assert_eq!((overview.counts.answers, overview.models.models[0].answers), (4, 4));
}

#[test]
fn a_log_of_very_many_models_with_very_long_names_has_a_small_state() {
    let mut rows = Vec::new();
    for seq in 0..300_u64 {
        let name = if seq % 3 == 0 { "x".repeat(5000 + seq as usize) } else { format!("\\u0001{seq}") };
        rows.push(format!(
            r#"{{"type":"assistant/message","seq":{seq},"time":5,"data":{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":[{{"type":"text","text":"{}"}}],"source":{{"kind":"model","provider":"p","model":"{name}"}}}},"usage":{{"inputTokens":1,"outputTokens":1}},"stream":[]}},"surfaceOp":"append"}}"#,
            "\\u0001y".repeat(4000)
        ));
    }
    let projected = folded(&rows);
    let overview = Overview::of(&projected).unwrap();
    assert_eq!((overview.models.models.len(), overview.models.others), (16, 284));
    assert_eq!(overview.tokens.own.input, 300);
    let text = json(&projected);
    assert!(text.len() < 64 << 10, "{}", text.len());
    assert!(Projected::read_json(&Projections::built_in(), text.as_bytes()).is_some());
}

#[test]
fn nothing_is_read_from_text_that_is_no_state() {
    let mut dice = Dice::new(7);
    let text = json(&folded(&rows(&mut dice, 0, 60)));
    let set = Projections::built_in();
    let read = |text: &str| Projected::read_json(&set, text.as_bytes());
    assert!(read(&text).is_some());
    for (what, changed) in [
        ("another version", text.replacen("\"ver\":1", "\"ver\":2", 1)),
        ("another place", text.replacen("\"seq\":59", "\"seq\":58", 1)),
        ("no place", text.replacen("\"seq\":59", "\"seq\":-2", 1)),
        ("a count that is none", text.replacen("\"turns\":", "\"turns\":-", 1)),
        ("white space", text.replacen("\"val\":{", "\"val\":{ ", 1)),
        ("a member more", text.replacen("\"val\":{", "\"val\":{\"more\":1,", 1)),
        ("a member less", text.replacen("\"steps\":", "\"stops\":", 1)),
        ("another key", text.replacen("\"counts\"", "\"mounts\"", 1)),
        ("no object", "[]".to_owned()),
        ("nothing", String::new()),
    ] {
        assert!(changed == text || read(&changed).is_none(), "{what}: {changed}");
        assert_ne!(changed, text, "{what}");
    }
    for cut in 0..text.len() {
        assert!(text.get(..cut).is_none_or(|text| read(text).is_none()));
    }
}

#[test]
fn events_are_taken_in_order_and_each_once() {
    let mut dice = Dice::new(1);
    let rows = rows(&mut dice, 0, 5);
    let mut projected = folded(&rows[..2]);
    let before = json(&projected);
    for (got, row) in [(0, &rows[0]), (1, &rows[1]), (3, &rows[3])] {
        let event = Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
        let refused = projected.push(&event).unwrap_err();
        assert!(matches!(refused, OutOfOrder { expected: 2, got: found, .. } if found == got));
    }
    assert_eq!(json(&projected), before);
    push(&mut projected, &rows[2..]);
    assert_eq!(json(&projected), json(&folded(&rows)));
}
