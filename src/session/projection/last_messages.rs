use super::input::Occurrence;
use super::preview::Preview;
use super::set::Projection;
use super::state::{ObjectWriter, read_count, read_time};
use crate::json::Node;
use crate::session::{Kind, texts};
use crate::units::UnixMs;

/// What a person and what the model said last.
///
/// A person's are the `user/message`s whose source is a user; those of plugins, tools and other agents are not. Of the model's, those
/// with text: one that only calls tools says nothing. What a compaction replaced was said all the same; what it put there was not.
#[derive(Debug)]
pub struct LastMessages;

/// State of [`LastMessages`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastSaid {
    /// By a person.
    pub prompt: Option<Said>,
    /// By the model.
    pub answer: Option<Said>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Said {
    /// The beginning of its text.
    pub text: Preview,
    /// When.
    pub time: UnixMs,
    /// The event.
    pub seq: u64,
}

impl LastSaid {
    /// The later one, and whether a person said it.
    #[must_use]
    pub fn last(&self) -> Option<(&Said, bool)> {
        match (&self.prompt, &self.answer) {
            (Some(prompt), Some(answer)) if answer.seq > prompt.seq => Some((answer, false)),
            (Some(prompt), _) => Some((prompt, true)),
            (None, answer) => answer.as_ref().map(|answer| (answer, false)),
        }
    }
}

impl Projection for LastMessages {
    const KEY: &'static str = "last-messages";
    const STATE_VERSION: u32 = 2;
    type State = LastSaid;

    fn init() -> LastSaid {
        LastSaid::default()
    }

    fn apply(state: &mut LastSaid, event: &Occurrence<'_>) {
        let said = |message: Node<'_>| {
            let text = Preview::of(texts(message));
            (!text.is_empty()).then(|| {
                let (time, seq) = (event.event().time(), event.event().seq().get());
                Said { text, time, seq }
            })
        };
        match event.kind() {
            Some(Kind::UserMessage) => {
                let Some(message) = event.data().filter(|_| event.is_prompt()) else { return };
                // One of pictures alone is a prompt too, of which nothing can be shown.
                let (time, seq) = (event.event().time(), event.event().seq().get());
                state.prompt = Some(said(message).unwrap_or(Said { text: Preview::default(), time, seq }));
            }
            Some(Kind::AssistantMessage) if event.event().is_appended() => {
                if let Some(said) = event.answer().and_then(said) {
                    state.answer = Some(said);
                }
            }
            _ => {}
        }
    }

    fn encode(state: &LastSaid, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        for (name, said) in [("prompt", &state.prompt), ("answer", &state.answer)] {
            let Some(Said { text, time, seq }) = said else { continue };
            let mut said = ObjectWriter::new(object.name(name));
            text.write(&mut said);
            said.time("time", Some(*time));
            said.count("seq", *seq);
            said.end();
        }
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<LastSaid> {
        json.members()?;
        let read = |name: &str| match json.get(name) {
            None => Some(None),
            Some(said) => {
                let (text, time) = (Preview::read(said)?, read_time(said, "time")??);
                Some(Some(Said { text, time, seq: read_count(said, "seq")? }))
            }
        };
        Some(LastSaid { prompt: read("prompt")?, answer: read("answer")? })
    }
}
