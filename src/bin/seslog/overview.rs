//! What a session's events come to, as `ls` and `stat` show it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use seslog::json::Text;
use seslog::session::{ModelUse, Overview, Projections, Said, TokenSums};
use seslog::store::layout::printable;
use seslog::store::{FileStore, Snapshot, State};

use crate::failure::{chain, next_step};
use crate::json::Object;
use crate::out::{human_duration, human_time, talk};
use crate::progress::Progress;

/// Adds what is known of a session to its object.
pub(crate) fn add_members(object: &mut Object, overview: &Overview) {
    let Overview { title, last_messages, counts, times, models, tokens, .. } = overview;
    if let Some(title) = title {
        object.text("title", &title.title.text).string("titleSource", title.source.as_str());
    }
    if let Some((said, is_prompt)) = last_messages.last() {
        object.object("lastMessage", message(said, is_prompt));
    }
    if let Some(prompt) = &last_messages.prompt {
        object.signed("lastPromptTime", prompt.time.get());
    }
    object.number("turns", counts.turns).number("steps", counts.steps);
    object.number("prompts", counts.prompts).number("answers", counts.answers);
    object.number("toolCalls", counts.tool_calls).flag("isTurnOpen", counts.is_open);
    if let Some(first) = times.first {
        object.signed("firstTime", first.get());
    }
    object.number("activeMs", times.active_ms());
    let mut spent = sums(&tokens.own);
    if tokens.inherited.requests > 0 {
        spent.object("inherited", sums(&tokens.inherited));
    }
    object.object("tokens", spent);
    object.objects("models", models.models.iter().map(|used| model(used, overview)));
}

fn message(said: &Said, is_prompt: bool) -> Object {
    let mut object = Object::new();
    object.string("role", if is_prompt { "user" } else { "assistant" });
    object.text("text", &said.text.text).flag("isCut", said.text.is_cut);
    object.signed("time", said.time.get()).number("seq", said.seq);
    object
}

fn sums(sums: &TokenSums) -> Object {
    let mut object = Object::new();
    object.number("requests", sums.requests).number("input", sums.input).number("output", sums.output);
    object.number("cacheRead", sums.cache_read).number("cacheWrite", sums.cache_write);
    object.number("reasoning", sums.reasoning);
    object
}

fn model(used: &ModelUse, overview: &Overview) -> Object {
    let mut object = Object::new();
    object.text("provider", &used.provider).text("model", &used.model).number("answers", used.answers);
    let is_its = |provider: &Text, model: &Text| *provider == used.provider && *model == used.model;
    let tokens = overview.tokens.models.iter().find(|one| is_its(&one.provider, &one.model));
    if let Some(tokens) = tokens {
        object.object("tokens", sums(&tokens.sums));
    }
    object
}

/// What stands in the column of titles: the title, else what a person said last.
pub(crate) fn headline(overview: &Overview) -> Option<(String, bool)> {
    let title = overview.title.as_ref().map(|title| (shortened(&title.title.text), true));
    title.or_else(|| {
        let prompt = overview.last_messages.prompt.as_ref().filter(|prompt| !prompt.text.is_empty())?;
        Some((shortened(&prompt.text.text), false))
    })
}

/// The model that answered last.
pub(crate) fn last_model(overview: &Overview) -> String {
    overview.models.last().map_or_else(String::new, |used| printable(&used.model))
}

/// All input and all output.
pub(crate) fn token_count(overview: &Overview) -> u64 {
    let TokenSums { input, output, cache_read, cache_write, .. } = overview.tokens.own;
    [output, cache_read, cache_write].iter().fold(input, |sum, more| sum.saturating_add(*more))
}

/// The lines of a page about one session.
pub(crate) fn lines(overview: &Overview) -> Vec<(&'static str, String)> {
    let Overview { title, last_messages, counts, times, models, tokens, .. } = overview;
    let mut lines = Vec::new();
    if let Some(title) = title {
        lines.push(("title", printable(&title.title.text)));
    }
    for (name, said) in [("prompt", &last_messages.prompt), ("answer", &last_messages.answer)] {
        if let Some(said) = said.as_ref().filter(|said| !said.text.is_empty()) {
            let more = if said.text.is_cut { "…" } else { "" };
            lines.push((
                name,
                format!("{}{more} ({})", printable(&said.text.text), human_time(said.time.get())),
            ));
        }
    }
    let open = if counts.is_open { ", the last one open" } else { "" };
    lines.push((
        "turns",
        format!("{}{open}; {} steps, {} tool calls", counts.turns, counts.steps, counts.tool_calls),
    ));
    if let Some(first) = times.first {
        let active = i64::try_from(times.active_ms()).unwrap_or(i64::MAX);
        lines.push(("active", format!("{} since {}", human_duration(active), human_time(first.get()))));
    }
    let TokenSums { input, output, cache_read, cache_write, .. } = tokens.own;
    lines.push((
        "tokens",
        format!("{input} in, {cache_read} from cache, {cache_write} to cache, {output} out"),
    ));
    if !models.models.is_empty() {
        let names = models
            .models
            .iter()
            .map(|used| format!("{}/{}", printable(&used.provider), printable(&used.model)));
        lines.push(("models", names.collect::<Vec<_>>().join(", ")));
    }
    lines
}

fn shortened(text: &Text) -> String {
    /// Characters of a title in a table.
    const WIDTH: usize = 48;
    let text = printable(text);
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Overviews of those `sessions` that have none, each by reading its log; and whether one could not be read.
pub(crate) fn compute(store: &FileStore, sessions: &[Snapshot]) -> (HashMap<PathBuf, Overview>, bool) {
    let missing: Vec<&Snapshot> = sessions
        .iter()
        .filter(|one| matches!(one.state, State::Ok | State::Torn) && one.size_bytes.is_some())
        .filter(|one| one.overview().is_none())
        .collect();
    let bytes = missing.iter().filter_map(|one| one.size_bytes).sum();
    let progress = Mutex::new(Progress::new(missing.len() as u64, bytes, false));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let found = Mutex::new(HashMap::new());
    let work = || {
        while let Some(session) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let overview = project(store, session);
            progress.lock().file_done(session.size_bytes.unwrap_or(0));
            match overview {
                Ok(overview) => found.lock().extend(overview.map(|one| (session.path.clone(), one))),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    progress.lock().suspend(|| {
                        talk::warning(&chain(&error));
                        next_step(&error).into_iter().for_each(|step| talk::next(&step));
                    });
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    progress.lock().finish();
    (found.into_inner(), failed.into_inner())
}

/// The overview of one session, by reading what of its log was not read before.
///
/// # Errors
/// What is wrong with the log.
pub(crate) fn project(store: &FileStore, session: &Snapshot) -> seslog::Result<Option<Overview>> {
    Ok(Overview::of(&store.project_log(&session.path, &Projections::built_in())?))
}
