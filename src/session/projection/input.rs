use std::cell::{Cell, OnceCell};

use crate::json::{Node, Tape};
use crate::limits::Limits;
use crate::row::Event;
use crate::session::{Kind, is_prompt};
use crate::stream::members;

/// An event as projections see it: read once, and only as far as one of them asks.
pub struct Occurrence<'e> {
    event: &'e Event<'e>,
    kind: Option<Kind>,
    data: Lazy<'e>,
    settled: OnceCell<[Option<&'e str>; 3]>,
    message: Lazy<'e>,
}

/// Buffers that the payloads of one event after the other are read into.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    data: Tape,
    message: Tape,
}

impl<'e> Occurrence<'e> {
    pub(super) fn new(event: &'e Event<'e>, buffers: &'e mut Buffers) -> Self {
        let kind = Kind::from_name(&event.event_type().to_string_lossy());
        let Buffers { data, message } = buffers;
        let (data, message) = (Lazy::new(data), Lazy::new(message));
        Self { event, kind, data, settled: OnceCell::new(), message }
    }

    /// The event.
    #[must_use]
    pub const fn event(&self) -> &'e Event<'e> {
        self.event
    }

    /// Its type, if it is a released one.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Its payload; `None` if it is no JSON. Parsed once, whoever asks: time O(bytes) for the first.
    pub fn data(&self) -> Option<Node<'e>> {
        self.data.get(Some(self.event.data()))
    }

    /// Whether the event, a `user/message`, is what a person said.
    pub(super) fn is_prompt(&self) -> bool {
        self.data().is_some_and(|message| is_prompt(self.event, message))
    }

    /// The message of an `assistant/message`, without a look into the stream beside it.
    pub(super) fn answer(&self) -> Option<Node<'e>> {
        let [message, ..] = self.settled();
        self.message.get(message)
    }

    /// JSON text of the usage that a settlement states, and of its stream.
    pub(super) fn usage_and_stream(&self) -> (Option<&'e str>, Option<&'e str>) {
        let [_, usage, stream] = self.settled();
        (usage, stream)
    }

    fn settled(&self) -> [Option<&'e str>; 3] {
        *self.settled.get_or_init(|| members(self.event.data(), ["message", "usage", "stream"]))
    }
}

impl std::fmt::Debug for Occurrence<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Occurrence").field(self.event).finish()
    }
}

/// A value that is parsed when it is first asked for.
struct Lazy<'e> {
    tape: Cell<Option<&'e mut Tape>>,
    node: OnceCell<Option<Node<'e>>>,
}

impl<'e> Lazy<'e> {
    const fn new(tape: &'e mut Tape) -> Self {
        Self { tape: Cell::new(Some(tape)), node: OnceCell::new() }
    }

    fn get(&self, text: Option<&'e str>) -> Option<Node<'e>> {
        *self.node.get_or_init(|| {
            let tape = self.tape.take()?;
            tape.parse(text?.as_bytes(), Limits::DEFAULT.nesting_max).ok()
        })
    }
}
