//! The overview of a session by another way: over whole values, with nothing of the crate but the rows.

use serde_json::{Value, json};

/// What `ls --json` shows of a session with these rows.
pub(crate) fn recount(rows: &[Value]) -> Value {
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == *kind).collect::<Vec<_>>();
    let said =
        |kind: &str| of(kind).into_iter().filter(|row| row["surfaceOp"] == "append").collect::<Vec<_>>();
    let mut shown = json!({
        "turns": of("turn/start").len(),
        "steps": of("step/start").len(),
        "answers": said("assistant/message").len(),
        "toolCalls": of("tool/call").len(),
    });
    let human: Vec<&Value> =
        said("user/message").into_iter().filter(|row| row["data"]["source"]["kind"] == "user").collect();
    shown["prompts"] = human.len().into();
    let edge = rows.iter().rev().find(|row| row["type"] == "turn/start" || row["type"] == "turn/end");
    shown["isTurnOpen"] = edge.is_some_and(|row| row["type"] == "turn/start").into();

    let title = |row: &&Value| one_line(&[&row["data"]["title"]]).filter(|(text, _)| !text.is_empty());
    if let Some(row) = of("session/title").into_iter().rev().find(|row| title(row).is_some()) {
        shown["title"] = title(&row).unwrap().0.into();
        let source = row["data"]["source"]["kind"].as_str().unwrap_or("");
        shown["titleSource"] =
            if ["provider", "fallback", "user"].contains(&source) { source } else { "other" }.into();
    }
    if let Some(last) = human.last() {
        shown["lastPromptTime"] = last["time"].clone();
    }
    let answer = said("assistant/message")
        .into_iter()
        .rev()
        .find(|row| !text_of(&row["data"]["message"]).0.is_empty());
    let later = [human.last().map(|row| (*row, "user")), answer.map(|row| (row, "assistant"))];
    if let Some((row, role)) = later.into_iter().flatten().max_by_key(|(row, _)| row["seq"].as_u64()) {
        let message = if role == "user" { &row["data"] } else { &row["data"]["message"] };
        let (text, is_cut) = text_of(message);
        shown["lastMessage"] =
            json!({"role": role, "text": text, "isCut": is_cut, "time": row["time"], "seq": row["seq"]});
    }

    if let Some(first) = rows.first() {
        shown["firstTime"] = first["time"].clone();
    }
    let (mut active, mut since, mut last) = (0, None, 0);
    for row in rows {
        let time = row["time"].as_i64().unwrap();
        match row["type"].as_str().unwrap() {
            "turn/start" => {
                active += since.map_or(0, |since: i64| (last - since).max(0));
                since = Some(time);
            }
            "turn/end" => active += since.take().map_or(0, |since| (time - since).max(0)),
            _ => {}
        }
        last = time;
    }
    shown["activeMs"] = (active + since.map_or(0, |since| (last - since).max(0))).into();

    let mut models: Vec<(Value, Value, u64)> = Vec::new();
    for row in rows {
        let source = match row["type"].as_str().unwrap() {
            "assistant/message" => &row["data"]["message"]["source"],
            "compaction/summary" => &row["data"],
            _ => continue,
        };
        let (provider, model) = (&source["provider"], &source["model"]);
        match models.iter_mut().find(|known| (&known.0, &known.1) == (provider, model)) {
            Some(known) => known.2 += 1,
            None => models.push((provider.clone(), model.clone(), 1)),
        }
    }
    let cut = rows
        .iter()
        .rposition(|row| row["type"] == "session/end-seed" && row["data"]["inherited"] == Value::Bool(true));
    let requests = requests(rows);
    let is_own = |at: &usize| cut.is_none_or(|cut| *at > cut);
    let sum = |wanted: &dyn Fn(&Request<'_>) -> bool| {
        let mut sums =
            json!({"requests": 0, "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0});
        for request in requests.iter().filter(|request| wanted(request)) {
            let mut add = |name: &str, count: u64| {
                sums[name] = (sums[name].as_u64().unwrap() + count).into();
            };
            add("requests", 1);
            for (name, member) in [
                ("input", "inputTokens"),
                ("output", "outputTokens"),
                ("cacheRead", "cacheReadTokens"),
                ("cacheWrite", "cacheWriteTokens"),
                ("reasoning", "reasoningTokens"),
            ] {
                add(name, request.usage[member].as_u64().unwrap_or(0));
            }
        }
        sums
    };
    shown["tokens"] = sum(&|request| is_own(&request.at));
    let inherited = sum(&|request| !is_own(&request.at));
    if inherited["requests"] != 0 {
        shown["tokens"]["inherited"] = inherited;
    }
    let models = models.into_iter().map(|(provider, model, answers)| {
        let mut shown = json!({"provider": provider, "model": model, "answers": answers});
        let sums = sum(&|one| is_own(&one.at) && (&one.provider, &one.model) == (&provider, &model));
        if sums["requests"] != 0 {
            shown["tokens"] = sums;
        }
        shown
    });
    shown["models"] = models.collect::<Vec<_>>().into();
    shown
}

struct Request<'r> {
    at: usize,
    provider: Value,
    model: Value,
    usage: &'r Value,
}

fn requests(rows: &[Value]) -> Vec<Request<'_>> {
    let mut found = Vec::new();
    let mut context = (Value::Null, Value::Null);
    for (at, row) in rows.iter().enumerate() {
        let data = &row["data"];
        let named = |of: &Value| (of["provider"].clone(), of["model"].clone());
        let ((provider, model), usage) = match row["type"].as_str().unwrap() {
            "request/context" => {
                context = named(data);
                continue;
            }
            "assistant/message" => (named(&data["message"]["source"]), &data["usage"]),
            "compaction/summary" => (named(data), &data["usage"]),
            "assistant/attempt" => {
                let mut chunks = data["stream"].as_array().unwrap().iter().map(|record| &record["chunk"]);
                let last = chunks.rfind(|chunk| chunk["type"] == "usage");
                (context.clone(), last.map_or(&Value::Null, |chunk| &chunk["usage"]))
            }
            _ => continue,
        };
        if usage.is_object() {
            found.push(Request { at, provider, model, usage });
        }
    }
    found
}

fn text_of(message: &Value) -> (String, bool) {
    let blocks = message["content"].as_array().unwrap();
    let texts: Vec<&Value> =
        blocks.iter().filter(|block| block["type"] == "text").map(|block| &block["text"]).collect();
    one_line(&texts).unwrap()
}

/// The words of the texts with one space between, and at most 160 UTF-16 code units of them; and whether that is less.
fn one_line(texts: &[&Value]) -> Option<(String, bool)> {
    let mut all = Vec::new();
    for text in texts {
        let text = text.as_str()?;
        all.extend(
            text.split(|char: char| char.is_whitespace() || char.is_control())
                .filter(|word| !word.is_empty()),
        );
    }
    let whole = all.join(" ");
    let units: Vec<u16> = whole.encode_utf16().collect();
    if units.len() <= 160 {
        return Some((whole, false));
    }
    let shorter = String::from_utf16_lossy(&units[..160]);
    // Neither half a character nor a space stands at the end.
    Some((shorter.trim_end_matches(['\u{fffd}', ' ']).to_owned(), true))
}
