//! One session for people: a page for any browser, or Markdown.
//!
//! The page carries the log as one JSON object a line: `{"k":"h"}` the header, `{"k":"m"}` a message, `{"k":"a"}` an attempt,
//! before its message if it has one, `{"k":"e"}` any other event. `page.js` parses a line when it shows it. No line holds a
//! `<`, so that nothing in a log ends the element that holds them.

mod markdown;

use seslog::json::{Node, Tape, Text};
use seslog::row::{Check, Event};
use seslog::store::LogFile;
use seslog::stream::{Settlement, SettlementKind};

pub(super) use self::markdown::Markdown;
use super::destination::Destination;
use super::source::Line;
use crate::failure::Failure;
use crate::json::Object;
use crate::root::LIMITS;
use crate::timeline::{Attempt, Reader};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Of the data of an event that is no message, so much is shown.
const EVENT_BYTES_MAX: usize = 4 << 10;

/// An HTML page that is being written.
#[derive(Debug)]
pub(super) struct Page<'d> {
    out: &'d mut Destination,
    attempts: Reader<'d>,
}

impl<'d> Page<'d> {
    /// Writes what stands before the data.
    pub(super) fn begin(out: &'d mut Destination, log: &'d LogFile) -> Result<Self, Failure> {
        let (head, _) = around("{{data}}");
        let (before, behind) = head.split_once("{{style}}").unwrap_or((head, ""));
        [before, STYLE, behind].iter().try_for_each(|part| out.put(part.as_bytes()))?;
        Ok(Self { out, attempts: Reader::new(log) })
    }

    /// Adds a line of the log.
    pub(super) fn line(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        match *line {
            Line::Raw(_) => Ok(()),
            Line::Header(text) => {
                let mut object = of_kind("h");
                object.json("header", &String::from_utf8_lossy(text));
                self.put(object)
            }
            Line::Event { shown, stored } => {
                let Some(shown) = read(shown) else { return Ok(()) };
                let kind = shown.event_type().as_plain().and_then(SettlementKind::of_event);
                if let Some(mut attempt) = self.attempts.event(stored)? {
                    // Times and counts are no secrets, whatever stood in the stream; words may be.
                    if shown.line() != stored.line() {
                        attempt.forget_words();
                    }
                    self.put(attempt_line(&attempt, kind, &shown))?;
                }
                if kind == Some(SettlementKind::Attempt) { Ok(()) } else { self.put(event_line(&shown)) }
            }
        }
    }

    /// Writes what stands behind the data. Returns how many attempts are shown without what their streams say.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        let (_, tail) = around("{{data}}");
        let (before, behind) = tail.split_once("{{script}}").unwrap_or((tail, ""));
        [before, SCRIPT, behind].iter().try_for_each(|part| self.out.put(part.as_bytes()))?;
        Ok(self.attempts.unread())
    }

    fn put(&mut self, object: Object) -> Result<(), Failure> {
        let line = object.into_line();
        // In JSON a `<` stands in strings only.
        for (at, part) in line.split(|byte| *byte == b'<').enumerate() {
            if at > 0 {
                self.out.put(b"\\u003c")?;
            }
            self.out.put(part)?;
        }
        Ok(())
    }
}

fn around(mark: &str) -> (&'static str, &'static str) {
    TEMPLATE.split_once(mark).unwrap_or((TEMPLATE, ""))
}

fn of_kind(kind: &str) -> Object {
    let mut object = Object::new();
    object.string("k", kind);
    object
}

/// An event as it is shown; it was read before, in other words perhaps.
fn read(line: &[u8]) -> Option<Event<'_>> {
    Event::read(line, Check::Envelope, &LIMITS).ok()
}

fn attempt_line(attempt: &Attempt, kind: Option<SettlementKind>, shown: &Event<'_>) -> Object {
    let mut object = of_kind("a");
    // No message came of it: what it said stands nowhere else.
    let lost = kind.filter(|kind| *kind == SettlementKind::Attempt);
    if let Some(kind) = lost {
        object.flag("lost", true);
        let said = Settlement::read(kind, shown.data()).ok().map(|settled| settled.reader().joined_text());
        if let Some(Ok(said)) = said
            && !said.is_empty()
        {
            object.text("said", &said);
        }
    }
    object.object("attempt", attempt.json());
    let bins: Vec<String> = attempt.bar().counts().iter().map(u64::to_string).collect();
    object.json("bins", &format!("[{}]", bins.join(",")));
    object
}

fn event_line(event: &Event<'_>) -> Object {
    let mut tape = Tape::default();
    let data = tape.parse(event.data().as_bytes(), LIMITS.nesting_max).ok();
    let message = data.and_then(|data| Message::of(event, data));
    let mut object = of_kind(if message.is_some() { "m" } else { "e" });
    object.number("seq", event.seq().get()).signed("time", event.time().get());
    object.text("type", &event.event_type().to_text());
    match message {
        Some(message) => message.write(&mut object),
        None => {
            let data = event.data();
            let cut = data.floor_char_boundary(EVENT_BYTES_MAX);
            let (shown, rest) = data.split_at_checked(cut).unwrap_or((data, ""));
            object.string("data", &format!("{shown}{}", if rest.is_empty() { "" } else { " …" }));
        }
    }
    object
}

/// A message of the conversation.
struct Message<'n> {
    node: Node<'n>,
    /// The events whose place it takes for the model.
    replaces: Option<(u64, u64)>,
    is_interrupted: bool,
}

impl<'n> Message<'n> {
    /// The message that an event says, if it says one.
    fn of(event: &Event<'_>, data: Node<'n>) -> Option<Self> {
        let op = event.surface_op()?;
        let node = if event.is("user/message") { data } else { data.get("message")? };
        node.get("content")?.items()?;
        let mut tape = Tape::default();
        let op = tape.parse(op.as_bytes(), LIMITS.nesting_max).ok()?;
        let seq = |name: &str| op.get(name)?.as_number()?.as_count();
        let replaces = seq("start").zip(seq("end"));
        let is_interrupted = data.get("interrupted").and_then(Node::as_bool) == Some(true);
        Some(Self { node, replaces, is_interrupted })
    }

    /// Who says it: `user`, `assistant` or `tool`; or where a user's message comes from, if not from the user.
    fn role(&self) -> Text {
        let text = |node: Option<Node<'_>>, name: &str| Some(node?.get(name)?.as_str()?.to_text());
        let role = text(Some(self.node), "role").unwrap_or_default();
        let source = text(self.node.get("source"), "kind").unwrap_or_default();
        if role.as_str() == Some("user") && !source.is_empty() { source } else { role }
    }

    fn model(&self) -> Option<Text> {
        Some(self.node.get("source")?.get("model")?.as_str()?.to_text())
    }

    fn blocks(&self) -> impl Iterator<Item = Node<'n>> {
        self.node.get("content").and_then(Node::items).into_iter().flatten()
    }

    fn write(&self, object: &mut Object) {
        object.text("role", &self.role());
        if let Some(model) = self.model() {
            object.text("model", &model);
        }
        if let Some((start, end)) = self.replaces {
            object.json("replaces", &format!("[{start},{end}]"));
        }
        if self.is_interrupted {
            object.flag("interrupted", true);
        }
        object.json("content", self.node.get("content").map_or("[]", Node::raw));
    }
}
