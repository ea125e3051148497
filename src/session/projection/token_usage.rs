use super::input::Occurrence;
use super::models::{is_short, route};
use super::set::Projection;
use super::state::{ObjectWriter, add, read_count, read_list, read_text};
use crate::json::{Node, Text};
use crate::session::Kind;
use crate::stream::{ChunkKind, StreamReader, Usage};

/// Tokens as the providers counted them: of every answer, of attempts that came to nothing, and of compactions.
///
/// What a fork inherited was spent by its parent, and is summed apart: sums over sessions count each token once.
#[derive(Debug)]
pub struct Tokens;

/// State of [`Tokens`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenTotals {
    /// Spent by this session.
    pub own: TokenSums,
    /// Spent by those that it was forked from, as far as it inherited their events.
    pub inherited: TokenSums,
    /// Of [`own`](Self::own), what each model used, in the order of first use; at most [`TokenTotals::MODELS_MAX`]. Attempts that
    /// do not say which model they asked are of the one that the request was made for; the rest is in the total alone.
    pub models: Vec<ModelTokens>,
    /// What the requests are made for.
    route: Option<(Text, Text)>,
}

/// Tokens of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelTokens {
    /// Who serves it.
    pub provider: Text,
    /// Its name there.
    pub model: Text,
    /// Its tokens.
    pub sums: TokenSums,
}

/// Sums of what providers counted. The three kinds of input are disjoint; reasoning is a part of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenSums {
    /// Requests with a count.
    pub requests: u64,
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// The part of the output that is reasoning.
    pub reasoning: u64,
}

impl TokenSums {
    fn add(&mut self, usage: &Usage) {
        let more = |sum: &mut u64, count: u64| *sum = add(*sum, count);
        more(&mut self.requests, 1);
        more(&mut self.input, usage.input_tokens);
        more(&mut self.output, usage.output_tokens);
        more(&mut self.cache_read, usage.cache_read_tokens.unwrap_or(0));
        more(&mut self.cache_write, usage.cache_write_tokens.unwrap_or(0));
        more(&mut self.reasoning, usage.reasoning_tokens.unwrap_or(0));
    }

    fn add_sums(&mut self, other: &Self) {
        let parts = [
            (&mut self.requests, other.requests),
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
        ];
        for (sum, more) in parts {
            *sum = add(*sum, more);
        }
    }

    fn write(&self, object: &mut ObjectWriter<'_>) {
        object.count("requests", self.requests);
        object.count("input", self.input);
        object.count("output", self.output);
        object.count("cacheRead", self.cache_read);
        object.count("cacheWrite", self.cache_write);
        object.count("reasoning", self.reasoning);
    }

    fn read(node: Node<'_>) -> Option<Self> {
        Some(Self {
            requests: read_count(node, "requests")?,
            input: read_count(node, "input")?,
            output: read_count(node, "output")?,
            cache_read: read_count(node, "cacheRead")?,
            cache_write: read_count(node, "cacheWrite")?,
            reasoning: read_count(node, "reasoning")?,
        })
    }
}

impl TokenTotals {
    /// Tokens of more models than this are in the totals alone.
    pub const MODELS_MAX: usize = 16;

    fn add(&mut self, usage: &Usage, named: Option<(Text, Text)>) {
        self.own.add(usage);
        let Some((provider, model)) = named.or_else(|| self.route.clone()) else { return };
        let known = |one: &&mut ModelTokens| one.provider == provider && one.model == model;
        let has_room = self.models.len() < Self::MODELS_MAX && is_short(&provider, &model);
        match self.models.iter_mut().find(known) {
            Some(known) => known.sums.add(usage),
            None if has_room => {
                let mut sums = TokenSums::default();
                sums.add(usage);
                self.models.push(ModelTokens { provider, model, sums });
            }
            None => {}
        }
    }
}

impl Projection for Tokens {
    const KEY: &'static str = "tokens";
    const STATE_VERSION: u32 = 1;
    type State = TokenTotals;

    fn init() -> TokenTotals {
        TokenTotals::default()
    }

    fn apply(state: &mut TokenTotals, event: &Occurrence<'_>) {
        match event.kind() {
            Some(Kind::RequestContext) => {
                let named = event.data().and_then(route);
                state.route = named.filter(|(provider, model)| is_short(provider, model));
            }
            Some(Kind::AssistantMessage) => {
                // What it states is what its stream says last.
                if let Some(usage) = event.usage_and_stream().0.and_then(Usage::of_json) {
                    let source = event.answer().and_then(|message| message.get("source"));
                    state.add(&usage, source.and_then(route));
                }
            }
            Some(Kind::AssistantAttempt) => {
                if let Some(usage) = event.usage_and_stream().1.and_then(last_usage) {
                    state.add(&usage, None);
                }
            }
            Some(Kind::CompactionSummary) => {
                let Some(data) = event.data() else { return };
                if let Some(usage) = data.get("usage").and_then(|usage| Usage::of_json(usage.raw())) {
                    state.add(&usage, route(data));
                }
            }
            Some(Kind::SessionEndSeed) => {
                let inherited = event.data().and_then(|data| data.get("inherited")).and_then(Node::as_bool);
                if inherited == Some(true) {
                    state.inherited.add_sums(&state.own);
                    (state.own, state.models) = (TokenSums::default(), Vec::new());
                }
            }
            _ => {}
        }
    }

    fn encode(state: &TokenTotals, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        for (name, sums) in [("own", &state.own), ("inherited", &state.inherited)] {
            let mut part = ObjectWriter::new(object.name(name));
            sums.write(&mut part);
            part.end();
        }
        object.list("models", &state.models, |model, out| {
            let mut object = ObjectWriter::new(out);
            object.text("provider", &model.provider);
            object.text("model", &model.model);
            model.sums.write(&mut object);
            object.end();
        });
        if let Some((provider, model)) = &state.route {
            object.text("provider", provider);
            object.text("model", model);
        }
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<TokenTotals> {
        let short = |(provider, model): &(Text, Text)| is_short(provider, model);
        let model = |node: Node<'_>| {
            let (provider, model) = route(node).filter(short)?;
            Some(ModelTokens { provider, model, sums: TokenSums::read(node)? })
        };
        let named = match json.get("provider") {
            None => None,
            Some(_) => {
                Some((read_text(json, "provider")?, read_text(json, "model")?)).filter(short).map(Some)?
            }
        };
        Some(TokenTotals {
            own: TokenSums::read(json.get("own")?)?,
            inherited: TokenSums::read(json.get("inherited")?)?,
            models: read_list(json, "models", TokenTotals::MODELS_MAX, model)?,
            route: named,
        })
    }
}

/// The usage that a stream names last.
fn last_usage(stream: &str) -> Option<Usage> {
    let chunk = StreamReader::new(stream).last_raw_chunk(ChunkKind::Usage).ok()??;
    Usage::of_json(chunk.member("usage")?)
}
