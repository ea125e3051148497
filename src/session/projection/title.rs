use super::input::Occurrence;
use super::preview::Preview;
use super::set::Projection;
use super::state::{ObjectWriter, read_count};
use crate::json::{Node, write_string};
use crate::session::Kind;

/// The session's title: what the last `session/title` gave it.
#[derive(Debug)]
pub struct Title;

/// A title.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTitle {
    /// Its beginning: titles are short, and one that is not is cut.
    pub title: Preview,
    /// Who gave it.
    pub source: TitleSource,
    /// The event that gave it.
    pub seq: u64,
}

/// Who gave a session its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TitleSource {
    /// Somebody who makes titles, a model mostly.
    Provider,
    /// Nobody: it is made of the first message.
    Fallback,
    /// The user.
    User,
    /// Somebody that this build does not know.
    Other,
}

impl TitleSource {
    const ALL: [Self; 4] = [Self::Provider, Self::Fallback, Self::User, Self::Other];

    /// The word in rows and states.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Fallback => "fallback",
            Self::User => "user",
            Self::Other => "other",
        }
    }

    fn of(word: Node<'_>) -> Option<Self> {
        let word = word.as_str()?;
        Self::ALL.into_iter().find(|source| word.eq_str(source.as_str()))
    }
}

impl Projection for Title {
    const KEY: &'static str = "title";
    const STATE_VERSION: u32 = 1;
    type State = Option<SessionTitle>;

    fn init() -> Self::State {
        None
    }

    fn apply(state: &mut Self::State, event: &Occurrence<'_>) {
        if event.kind() != Some(Kind::SessionTitle) {
            return;
        }
        let Some(data) = event.data() else { return };
        let Some(title) = data.get("title").and_then(Node::as_str).map(|title| Preview::of([title])) else {
            return;
        };
        if title.is_empty() {
            return;
        }
        let source = data.get("source").and_then(|source| source.get("kind")).and_then(TitleSource::of);
        let source = source.unwrap_or(TitleSource::Other);
        *state = Some(SessionTitle { title, source, seq: event.event().seq().get() });
    }

    fn encode(state: &Self::State, out: &mut Vec<u8>) {
        let Some(SessionTitle { title, source, seq }) = state else {
            return out.extend_from_slice(b"null");
        };
        let mut object = ObjectWriter::new(out);
        title.write(&mut object);
        write_string(object.name("source"), source.as_str());
        object.count("seq", *seq);
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<Self::State> {
        if json.is_null() {
            return Some(None);
        }
        let title = Preview::read(json).filter(|title| !title.is_empty())?;
        let source = TitleSource::of(json.get("source")?)?;
        Some(Some(SessionTitle { title, source, seq: read_count(json, "seq")? }))
    }
}
