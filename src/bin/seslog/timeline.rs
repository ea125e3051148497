//! `timeline`: a session's model attempts, and when their tokens came.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::ControlFlow;

use seslog::json::{Tape, Text};
use seslog::row::Event;
use seslog::store::LogFile;
use seslog::store::layout::printable;
use seslog::stream::{
    AssistantMessage, ChunkKind, Settlement, SettlementKind, StreamFault, StreamReader, Timing, Usage,
};
use seslog::units::UnixMs;

use crate::bar::{Bar, Blocks};
use crate::current;
use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::out::{Align, Out, Table, counted, human_duration, human_time, talk};
use crate::progress::Progress;
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Shows each model attempt: what came of it, its first token, duration, tokens and rate.
///
/// Older generations are shown converted; the log stays as it is. Times come from the stored stream. Tokens are those that
/// the provider counted, or the deltas that it sent if it did not say.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog timeline 4f1c --json")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// One JSON object an attempt
    #[arg(long)]
    json: bool,
}

/// Shows the attempts of the session that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let log = current::open(root, &target)?;
    let mut attempts = Vec::new();
    let mut reader = Reader::new(&log);
    let mut progress = Progress::new(1, log.stamp().size, false);
    let (report, _) = current::rows(&log, &mut progress, &mut |line| {
        attempts.extend(reader.event(&current::event(&log, line)?)?);
        Ok(ControlFlow::Continue(()))
    })?;
    progress.finish();
    let unread = reader.unread();

    let mut out = Out::new();
    if args.json {
        attempts.iter().try_for_each(|attempt| out.bytes(&attempt.json().into_line()))?;
    } else if !attempts.is_empty() {
        table(&attempts).write(&mut out)?;
    }
    out.flush()?;
    if attempts.is_empty() && !args.json {
        talk::note(&format!("{}: no model attempts", log.path().display()));
    }
    let is_torn = current::tell_end(&log, &report);
    if unread > 0 {
        let attempts = counted(unread, "attempt is", "attempts are");
        talk::warning(&format!("{attempts} shown without what its stream says"));
    }
    Ok(Outcome::marred_if(is_torn || unread > 0))
}

/// One attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Of the event that ends it.
    seq: u64,
    time: i64,
    turn: u64,
    step: u64,
    /// What came of it: `message`, `interrupted`, `attempt`, or how it failed.
    outcome: Text,
    /// What the last finish says, and the code of its failure.
    finish: Option<Text>,
    failure: Option<Text>,
    /// When its step started.
    step_time: Option<i64>,
    timing: Timing,
    usage: Option<Usage>,
    bar: Bar,
}

/// Finds the attempts among the events of a log.
#[derive(Debug)]
pub(crate) struct Reader<'l> {
    log: &'l LogFile,
    /// When the steps started, by turn and step.
    steps: HashMap<(u64, u64), i64>,
    /// Attempts whose stream is none.
    unread: u64,
}

impl<'l> Reader<'l> {
    /// A reader at the start of `log`.
    pub(crate) fn new(log: &'l LogFile) -> Self {
        Self { log, steps: HashMap::new(), unread: 0 }
    }

    /// How many attempts had no stream that can be read.
    pub(crate) const fn unread(&self) -> u64 {
        self.unread
    }

    /// The attempt that the next event ends, if it ends one.
    ///
    /// # Errors
    /// [`Failure`] for a settlement that is none.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> Result<Option<Attempt>, Failure> {
        let kind = event.event_type().as_plain().and_then(SettlementKind::of_event);
        if let Some(kind) = kind {
            return self.settlement(event, kind).map(Some);
        }
        if event.is("step/start") {
            let mut tape = Tape::default();
            let data = tape.parse(event.data().as_bytes(), LIMITS.nesting_max).ok();
            let count = |name| data?.get(name)?.as_number()?.as_count();
            if let Some(place) = count("turn").zip(count("step")) {
                self.steps.insert(place, event.time().get());
            }
        }
        Ok(None)
    }

    fn settlement(&mut self, event: &Event<'_>, kind: SettlementKind) -> Result<Attempt, Failure> {
        let seq = event.seq().get();
        let path = self.log.path().display();
        let settled = Settlement::read(kind, event.data()).map_err(|fault| {
            let next = "`seslog verify` checks the log; `seslog cat --current` shows the event";
            Failure::new(format!("{path}: event {seq} does not end an attempt: {fault}"), next)
        })?;
        let mut attempt = Attempt {
            seq,
            time: event.time().get(),
            turn: settled.turn,
            step: settled.step,
            outcome: Text::new(),
            finish: None,
            failure: None,
            step_time: self.steps.get(&(settled.turn, settled.step)).copied(),
            timing: Timing::default(),
            usage: None,
            bar: Bar::default(),
        };
        if let Err(fault) = attempt.read_stream(settled.reader()) {
            talk::warning(&format!("{path}: event {seq}: its stream cannot be read: {fault}"));
            self.unread = self.unread.saturating_add(1);
        }
        let stated = settled.message.and_then(|message| message.usage).and_then(Usage::of_json);
        attempt.usage = attempt.timing.usage.or(stated);
        attempt.outcome = outcome(settled.message.as_ref(), attempt.finish.as_ref());
        Ok(attempt)
    }
}

/// What came of an attempt. One that failed is called after its failure; one that was given up, whatever the provider said
/// of its end, is an `attempt`.
fn outcome(message: Option<&AssistantMessage<'_>>, finish: Option<&Text>) -> Text {
    const SUCCESSES: [&str; 3] = ["stop", "tool-calls", "max-tokens"];
    match message {
        Some(message) if message.interrupted => Text::from("interrupted"),
        Some(_) => Text::from("message"),
        None => match finish {
            Some(kind) if kind.as_str().is_none_or(|kind| !SUCCESSES.contains(&kind)) => kind.clone(),
            _ => Text::from("attempt"),
        },
    }
}

impl Attempt {
    /// Takes from the records what they say, without expanding them.
    fn read_stream(&mut self, stream: StreamReader<'_>) -> Result<(), StreamFault> {
        self.timing = stream.timing()?;
        if let Some(finish) = stream.last_raw_chunk(ChunkKind::Finish)? {
            let mut tape = Tape::default();
            let reason = finish.member("reason");
            let reason = reason.and_then(|json| tape.parse(json.as_bytes(), LIMITS.nesting_max).ok());
            let text =
                |name: &str, of: Option<seslog::json::Node<'_>>| Some(of?.get(name)?.as_str()?.to_text());
            self.finish = text("kind", reason);
            self.failure = text("code", reason.and_then(|reason| reason.get("failure")));
        }
        if let (Some(first), Some(last)) = (self.timing.first, self.timing.last) {
            let mut bar = Bar::over(first.get(), last.get());
            for time in stream.token_times() {
                bar.add(time?.get());
            }
            self.bar = bar;
        }
        Ok(())
    }

    /// Milliseconds from the first chunk to the first token, and to the last chunk; negative where the clock stepped back.
    fn spans(&self) -> (Option<i64>, Option<i64>) {
        let since_first = |time: Option<UnixMs>| Some(time?.get().saturating_sub(self.timing.first?.get()));
        (since_first(self.timing.first_token), since_first(self.timing.last))
    }

    /// Milliseconds from the start of the step to the first token.
    fn since_step(&self) -> Option<i64> {
        Some(self.timing.first_token?.get().saturating_sub(self.step_time?))
    }

    /// Output tokens: as counted by the provider, or the deltas that are tokens.
    fn tokens(&self) -> u64 {
        self.usage.map_or(self.timing.tokens, |usage| usage.output_tokens)
    }

    /// Drops what a provider put into words: all but the ordinary names of outcomes.
    pub(crate) fn forget_words(&mut self) {
        const ORDINARY: [&str; 8] =
            ["message", "interrupted", "attempt", "error", "aborted", "stop", "tool-calls", "max-tokens"];
        let is_ordinary = |text: &Text| text.as_str().is_some_and(|text| ORDINARY.contains(&text));
        if !is_ordinary(&self.outcome) {
            self.outcome = Text::from("attempt");
        }
        self.finish = self.finish.take().filter(is_ordinary);
        self.failure = None;
    }

    /// When its tokens came: counts over equal pieces of the time from its first chunk to its last.
    pub(crate) const fn bar(&self) -> &Bar {
        &self.bar
    }

    /// Everything about it, times in milliseconds.
    pub(crate) fn json(&self) -> Object {
        let mut object = Object::new();
        object.number("seq", self.seq).number("turn", self.turn).number("step", self.step);
        object.text("outcome", &self.outcome);
        let texts = [("finish", &self.finish), ("failureCode", &self.failure)];
        for (name, text) in texts {
            if let Some(text) = text {
                object.text(name, text);
            }
        }
        let timing = &self.timing;
        let (first_token_ms, duration_ms) = self.spans();
        let numbers = [
            ("time", Some(self.time)),
            ("stepTime", self.step_time),
            ("startTime", timing.first.map(UnixMs::get)),
            ("firstTokenTime", timing.first_token.map(UnixMs::get)),
            ("endTime", timing.last.map(UnixMs::get)),
            ("firstTokenMs", first_token_ms),
            ("firstTokenSinceStepMs", self.since_step()),
            ("durationMs", duration_ms),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                object.signed(name, number);
            }
        }
        object.number("tokens", self.tokens()).number("tokenDeltas", timing.tokens);
        object.number("chunks", timing.chunks);
        if let Some(rate) = timing.tokens_per_second() {
            object.real("tokensPerSecond", (rate * 1000.0).round() / 1000.0);
        }
        if let Some(usage) = &self.usage {
            object.number("inputTokens", usage.input_tokens).number("outputTokens", usage.output_tokens);
            object.opt_number("cacheReadTokens", usage.cache_read_tokens);
            object.opt_number("cacheWriteTokens", usage.cache_write_tokens);
            object.opt_number("reasoningTokens", usage.reasoning_tokens);
        }
        object
    }
}

fn table(attempts: &[Attempt]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("SEQ", Right),
        ("TURN", Right),
        ("STEP", Right),
        ("OUTCOME", Left),
        ("START", Left),
        ("FIRST TOKEN", Right),
        ("SINCE STEP", Right),
        ("DURATION", Right),
        ("TOKENS", Right),
        ("TOKENS/S", Right),
        ("WHEN", Left),
    ]);
    let blocks = Blocks::of_locale();
    // Where the clock stepped back there is no duration; `--json` has the number all the same.
    let duration = |ms: Option<i64>| ms.filter(|ms| *ms >= 0).map_or_else(|| "-".to_owned(), human_duration);
    for attempt in attempts {
        let (first_token_ms, duration_ms) = attempt.spans();
        let start = attempt.timing.first.map(|time| human_time(time.get()));
        let rate = attempt.timing.tokens_per_second().map(|rate| format!("{rate:.1}"));
        let cells = [
            attempt.seq.to_string(),
            attempt.turn.to_string(),
            attempt.step.to_string(),
            attempt.outcome_words(),
            start.unwrap_or_else(|| "-".to_owned()),
            duration(first_token_ms),
            duration(attempt.since_step()),
            duration(duration_ms),
            attempt.tokens().to_string(),
            rate.unwrap_or_else(|| "-".to_owned()),
            attempt.bar.draw(blocks),
        ];
        table.push(cells.map(|cell| (cell, None)).to_vec());
    }
    table
}

impl Attempt {
    /// The outcome, and what else is worth a word: the code of a failure, or the end of an answer that is no ordinary one.
    fn outcome_words(&self) -> String {
        let outcome = printable(&self.outcome);
        let more = self.failure.as_ref().or(self.finish.as_ref().filter(|finish| {
            **finish != self.outcome
                && finish.as_str().is_none_or(|kind| !["stop", "tool-calls"].contains(&kind))
        }));
        more.map_or_else(|| outcome.clone(), |more| format!("{outcome} ({})", printable(more)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_that_of_the_event_and_a_failure_has_its_name() {
        let stream = "[]";
        let answer = r#"{"id":"m","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}}"#;
        let data = |rest: &str| format!("{{\"turn\":1,\"step\":1,{rest}\"stream\":{stream}}}");
        let of = |kind, rest: &str, finish: Option<&str>| {
            let data = data(rest);
            let settled = Settlement::read(kind, &data).unwrap();
            outcome(settled.message.as_ref(), finish.map(Text::from).as_ref()).to_string_lossy().into_owned()
        };
        let message = format!("\"message\":{answer},");
        assert_eq!(of(SettlementKind::Message, &message, Some("max-tokens")), "message");
        let interrupted = format!("{message}\"interrupted\":true,");
        assert_eq!(of(SettlementKind::Message, &interrupted, Some("aborted")), "interrupted");
        for (finish, said) in [
            (None, "attempt"),
            (Some("stop"), "attempt"),
            (Some("error"), "error"),
            (Some("aborted"), "aborted"),
            (Some("refused-by-policy"), "refused-by-policy"),
        ] {
            assert_eq!(of(SettlementKind::Attempt, "", finish), said);
        }
    }
}
