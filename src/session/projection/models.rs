use super::input::Occurrence;
use super::set::Projection;
use super::state::{ObjectWriter, add, read_count, read_list, read_text};
use crate::json::{Node, Text};
use crate::session::Kind;

/// Which models answered: those that `assistant/message`s come from and that wrote the summary of a compaction.
#[derive(Debug)]
pub struct Models;

/// State of [`Models`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelsUsed {
    /// In the order in which each was first used; at most [`ModelsUsed::MODELS_MAX`].
    pub models: Vec<ModelUse>,
    /// Answers of models that are not listed, because there are too many or their names are too long.
    pub others: u64,
}

/// A model and what it was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelUse {
    /// Who serves it.
    pub provider: Text,
    /// Its name there.
    pub model: Text,
    /// How many answers and summaries it wrote.
    pub answers: u64,
    /// The last event that it wrote.
    pub last_seq: u64,
}

impl ModelsUsed {
    /// More models than this are counted, not listed.
    pub const MODELS_MAX: usize = 16;

    /// The model that was used last.
    #[must_use]
    pub fn last(&self) -> Option<&ModelUse> {
        self.models.iter().max_by_key(|model| model.last_seq)
    }
}

impl Projection for Models {
    const KEY: &'static str = "models";
    const STATE_VERSION: u32 = 1;
    type State = ModelsUsed;

    fn init() -> ModelsUsed {
        ModelsUsed::default()
    }

    fn apply(state: &mut ModelsUsed, event: &Occurrence<'_>) {
        let named = match event.kind() {
            Some(Kind::AssistantMessage) => event.answer().and_then(|message| message.get("source")),
            Some(Kind::CompactionSummary) => event.data(),
            _ => return,
        };
        let Some((provider, model)) = named.and_then(route) else { return };
        let last_seq = event.event().seq().get();
        let known = |one: &&mut ModelUse| one.provider == provider && one.model == model;
        let has_room = state.models.len() < ModelsUsed::MODELS_MAX && is_short(&provider, &model);
        match state.models.iter_mut().find(known) {
            Some(used) => (used.answers, used.last_seq) = (add(used.answers, 1), last_seq),
            None if has_room => {
                state.models.push(ModelUse { provider, model, answers: 1, last_seq });
            }
            None => state.others = add(state.others, 1),
        }
    }

    fn encode(state: &ModelsUsed, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.list("models", &state.models, |model, out| {
            let mut object = ObjectWriter::new(out);
            object.text("provider", &model.provider);
            object.text("model", &model.model);
            object.count("answers", model.answers);
            object.count("lastSeq", model.last_seq);
            object.end();
        });
        object.count("others", state.others);
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<ModelsUsed> {
        let model = |node: Node<'_>| {
            let (provider, model) = route(node).filter(|(provider, model)| is_short(provider, model))?;
            let (answers, last_seq) = (read_count(node, "answers")?, read_count(node, "lastSeq")?);
            Some(ModelUse { provider, model, answers, last_seq })
        };
        let models = read_list(json, "models", ModelsUsed::MODELS_MAX, model)?;
        Some(ModelsUsed { models, others: read_count(json, "others")? })
    }
}

/// The provider and the model that an object names.
pub(super) fn route(node: Node<'_>) -> Option<(Text, Text)> {
    Some((read_text(node, "provider")?, read_text(node, "model")?))
}

/// Whether a state may hold the names of a model: what a log holds must not make it grow without bounds.
pub(super) fn is_short(provider: &Text, model: &Text) -> bool {
    /// In bytes.
    const NAME_MAX: usize = 128;
    provider.as_bytes().len().max(model.as_bytes().len()) <= NAME_MAX
}
