use super::assemble::Assembler;
use super::block::Block;
use super::chunk::count;
use super::expand::expand;
use super::fault::{SettlementFault, StreamFault};
use super::read::StreamReader;
use super::usage::Usage;
use super::value::{Items, Members, members, string};
use crate::json::{Node, Tape};

/// The data of the event that ends a model attempt, borrowed from its JSON text.
///
/// An attempt is one durable unit: nothing of it is stored before this event, which carries its whole stream.
/// `assistant/message` is an answer, and part of the history that the model sees; `assistant/attempt` is an attempt that
/// failed, was retried, or was cancelled before anything of it could be kept.
///
/// Spec: `format-spec/04-rows.md`, "Settlements".
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settlement<'a> {
    /// The turn, from 1.
    pub turn: u64,
    /// The step of the turn, from 1.
    pub step: u64,
    /// The JSON text of the attempt's records, an array. Restoring a log does not look into it.
    pub stream: &'a str,
    /// What an `assistant/message` has besides; `None` for an `assistant/attempt`.
    pub message: Option<AssistantMessage<'a>>,
}

/// The members of an `assistant/message` that an `assistant/attempt` does not have.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AssistantMessage<'a> {
    /// The JSON text of the whole message.
    pub json: &'a str,
    /// The JSON text of its content, an array of blocks.
    pub content: &'a str,
    /// The JSON text of the state that its adapter needs to continue it.
    pub replay_state: Option<&'a str>,
    /// The JSON text of the usage.
    pub usage: Option<&'a str>,
    /// Whether the answer was cancelled, so that the content is only its visible prefix.
    pub interrupted: bool,
}

/// The event types that end an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettlementKind {
    /// `assistant/message`.
    Message,
    /// `assistant/attempt`.
    Attempt,
}

impl SettlementKind {
    /// The kind that an event of this type is, if it is a settlement.
    #[must_use]
    pub fn of_event(event_type: &str) -> Option<Self> {
        match event_type {
            "assistant/message" => Some(Self::Message),
            "assistant/attempt" => Some(Self::Attempt),
            _ => None,
        }
    }

    /// The type of its event.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Message => "assistant/message",
            Self::Attempt => "assistant/attempt",
        }
    }

    /// Checks which members the event has around its data: `assistant/message` has a surface operation and no source
    /// events, `assistant/attempt` neither.
    ///
    /// # Errors
    /// [`SettlementFault::SourceEventSeqs`] and [`SettlementFault::SurfaceOp`].
    pub fn check_envelope(
        self,
        has_source_event_seqs: bool,
        has_surface_op: bool,
    ) -> Result<(), SettlementFault> {
        if has_source_event_seqs {
            return Err(SettlementFault::SourceEventSeqs);
        }
        if has_surface_op == (self == Self::Message) { Ok(()) } else { Err(SettlementFault::SurfaceOp) }
    }
}

impl<'a> Settlement<'a> {
    /// Reads a settlement's data, and checks what restoring a log needs of it: its own members, and the message as far
    /// as it says who said it. The stream and the blocks of the content are not looked into.
    ///
    /// `data` is one valid JSON value, as a row holds it. Time O(bytes), allocates nothing.
    ///
    /// # Errors
    /// The first fault of [`SettlementFault`] up to [`SettlementFault::Stream`].
    pub fn read(kind: SettlementKind, data: &'a str) -> Result<Self, SettlementFault> {
        let names = ["turn", "step", "message", "usage", "interrupted", "stream"];
        let known = |name: super::fragment::Fragment<'_>| names.iter().any(|known| name.eq_str(known));
        if !Members::of(data).ok_or(SettlementFault::NotAnObject)?.all(|(name, _)| known(name)) {
            return Err(SettlementFault::MemberSet);
        }
        let [turn, step, message, usage, interrupted, stream] = members(data, names);
        let extra = [message, usage, interrupted].map(|member| member.is_some());
        let fits = match kind {
            SettlementKind::Message => extra.first() == Some(&true),
            SettlementKind::Attempt => extra == [false; 3],
        };
        let (Some(_), Some(_), Some(stream), true) = (turn, step, stream, fits) else {
            return Err(SettlementFault::MemberSet);
        };
        let positive = |json| count(json).filter(|n| *n > 0);
        let turn = positive(turn).ok_or(SettlementFault::Turn)?;
        let step = positive(step).ok_or(SettlementFault::Step)?;
        let message = match message {
            None => None,
            Some(json) => {
                let (content, replay_state) = check_message(json).ok_or(SettlementFault::Message)?;
                if usage.is_some_and(|usage| Usage::of_json(usage).is_none()) {
                    return Err(SettlementFault::Usage);
                }
                if interrupted.is_some_and(|interrupted| interrupted != "true") {
                    return Err(SettlementFault::Interrupted);
                }
                let interrupted = interrupted.is_some();
                Some(AssistantMessage { json, content, replay_state, usage, interrupted })
            }
        };
        if Items::of(stream).is_none() {
            return Err(SettlementFault::Stream);
        }
        Ok(Self { turn, step, stream, message })
    }

    /// Which of the two it is.
    #[must_use]
    pub const fn kind(&self) -> SettlementKind {
        if self.message.is_some() { SettlementKind::Message } else { SettlementKind::Attempt }
    }

    /// A reader of its stream.
    #[must_use]
    pub const fn reader(&self) -> StreamReader<'a> {
        StreamReader::new(self.stream)
    }

    /// Checks that stream and message agree: expands the stream, assembles it, and compares content, usage and replay
    /// state. Ordinary opening of a log does without it.
    ///
    /// The stream of an `assistant/attempt` is expanded and assembled, but there is nothing to compare it with; an empty
    /// stream agrees with any message, as messages of old generations have none. Time O(bytes).
    ///
    /// # Errors
    /// The first fault from [`SettlementFault::StreamInvalid`] on.
    ///
    /// Spec: `format-spec/06-migration.md`, "Verification".
    pub fn verify(&self) -> Result<(), SettlementFault> {
        let stream = expand(self.stream.as_bytes())?;
        let mut assembler = Assembler::new();
        for record in stream.records() {
            assembler.push_record(record).map_err(StreamFault::Assemble)?;
        }
        let Some(message) = self.message.filter(|_| !stream.is_empty()) else { return Ok(()) };
        // The replay state is that of all blocks, so an open block of an unknown kind fails even where the visible
        // prefix leaves it out.
        let replay_state = assembler.replay_state().map_err(StreamFault::Assemble)?;
        let blocks = if message.interrupted {
            assembler.interrupted_blocks()
        } else {
            assembler.blocks().map_err(StreamFault::Assemble)?
        };
        if !is_content(message.content, &blocks) {
            return Err(SettlementFault::StreamContent);
        }
        if !is_same(message.usage, assembler.usage()) {
            return Err(SettlementFault::StreamUsage);
        }
        if !is_same(message.replay_state, replay_state.as_deref()) {
            return Err(SettlementFault::StreamReplay);
        }
        Ok(())
    }
}

/// The content and the replay state of an assistant message from a model.
fn check_message(json: &str) -> Option<(&str, Option<&str>)> {
    Members::of(json)?;
    let [id, role, content, source] = members(json, ["id", "role", "content", "source"]);
    let content = content.filter(|content| Items::of(content).is_some())?;
    let source = source.filter(|source| Members::of(source).is_some())?;
    let [kind, provider, model, replay_state] = members(source, ["kind", "provider", "model", "replayState"]);
    let word = |json: Option<&str>| json.and_then(string).is_some_and(|word| !word.is_empty());
    let is = |json: Option<&str>, name| json.and_then(string).is_some_and(|word| word.eq_str(name));
    (word(id) && is(role, "assistant") && is(kind, "model") && word(provider) && word(model))
        .then_some((content, replay_state))
}

/// Whether the array `content` is these blocks.
fn is_content(content: &str, blocks: &[Block<'_>]) -> bool {
    let (mut of_content, mut of_block) = (Tape::default(), Tape::default());
    let items = of_content.parse(content.as_bytes(), u32::MAX).ok().and_then(Node::items);
    items.is_some_and(|mut items| {
        items.len() == blocks.len()
            && blocks.iter().all(|block| items.next().is_some_and(|item| block.is(item, &mut of_block)))
    })
}

/// Whether both values are absent or equal to JavaScript.
fn is_same(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let (mut of_a, mut of_b) = (Tape::default(), Tape::default());
            let (a, b) = (of_a.parse(a.as_bytes(), u32::MAX), of_b.parse(b.as_bytes(), u32::MAX));
            a.is_ok_and(|a| b.is_ok_and(|b| a.deep_eq(b)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        r#"[{"type":"text-chunks","time0":1,"index":0,"dt":[1],"texts":["re","al"]},"#,
        r#"{"type":"chunk","time":3,"chunk":{"type":"usage","usage":{"inputTokens":1,"outputTokens":2}}},"#,
        r#"{"type":"chunk","time":3,"chunk":{"type":"finish","reason":{"kind":"stop"},"replayState":{"response":{"n":1}}}}]"#
    );
    const SOURCE: &str =
        r#"{"kind":"model","provider":"p","model":"m","replayState":{"response":{"n":1.0}}}"#;
    const USAGE: &str = r#""usage":{"outputTokens":2,"inputTokens":1},"#;

    fn message(content: &str, source: &str, more: &str, stream: &str) -> String {
        let message = format!(r#"{{"id":"a","role":"assistant","content":{content},"source":{source}}}"#);
        format!(r#"{{"turn":1,"step":2,"message":{message},{more}"stream":{stream}}}"#)
    }

    fn verify(data: &str) -> Result<(), SettlementFault> {
        Settlement::read(SettlementKind::Message, data).unwrap().verify()
    }

    #[test]
    fn members_are_read_whatever_their_order() {
        let data = message(r#"[{"type":"text","text":"real"}]"#, SOURCE, USAGE, STREAM);
        let settlement = Settlement::read(SettlementKind::Message, &data).unwrap();
        assert_eq!((settlement.turn, settlement.step, settlement.kind()), (1, 2, SettlementKind::Message));
        assert_eq!(settlement.stream, STREAM);
        let read = settlement.message.unwrap();
        assert_eq!(read.content, r#"[{"type":"text","text":"real"}]"#);
        assert_eq!(read.replay_state, Some(r#"{"response":{"n":1.0}}"#));
        assert_eq!((read.usage.is_some(), read.interrupted), (true, false));
        assert_eq!(settlement.verify(), Ok(()));
        let attempt = r#" { "stream":[], "step":1e0, "turn":7 } "#;
        let settlement = Settlement::read(SettlementKind::Attempt, attempt).unwrap();
        assert_eq!((settlement.turn, settlement.step, settlement.kind()), (7, 1, SettlementKind::Attempt));
        assert_eq!(settlement.verify(), Ok(()));
    }

    #[test]
    fn each_fault_of_a_settlements_own_members_is_named() {
        use SettlementFault::*;
        let good = message("[]", SOURCE, USAGE, "[]");
        assert!(Settlement::read(SettlementKind::Message, &good).is_ok());
        for (from, to, fault) in [
            (r#""turn":1"#, r#""turn":0"#, Turn),
            (r#""turn":1"#, r#""turn":1.5"#, Turn),
            (r#""turn":1"#, r#""turn":"1""#, Turn),
            (r#""turn":1,"#, "", MemberSet),
            (r#""step":2"#, r#""step":-2"#, Step),
            (r#""step":2"#, r#""stop":2"#, MemberSet),
            (r#""role":"assistant""#, r#""role":"user""#, Message),
            (r#""id":"a""#, r#""id":"""#, Message),
            (r#""content":[]"#, r#""content":{}"#, Message),
            (r#""kind":"model""#, r#""kind":"plugin""#, Message),
            (r#""provider":"p""#, r#""provider":null"#, Message),
            (r#""model":"m""#, r#""model":"""#, Message),
            (r#""outputTokens":2"#, r#""outputTokens":-0"#, Usage),
            (r#""usage":{"outputTokens":2,"inputTokens":1}"#, r#""usage":null"#, Usage),
            (r#""usage":"#, r#""interrupted":false,"usage":"#, Interrupted),
            (r#""stream":[]"#, r#""stream":{}"#, Stream),
            (r#","stream":[]"#, "", MemberSet),
            (r#""stream":[]"#, r#""stream":[],"more":1"#, MemberSet),
        ] {
            let data = good.replacen(from, to, 1);
            assert_ne!(data, good);
            assert_eq!(Settlement::read(SettlementKind::Message, &data).err(), Some(fault), "{data}");
        }
        assert_eq!(Settlement::read(SettlementKind::Message, "[]").err(), Some(NotAnObject));
        assert_eq!(Settlement::read(SettlementKind::Attempt, &good).err(), Some(MemberSet));
        let attempt = r#"{"turn":1,"step":1,"stream":[]}"#;
        assert_eq!(Settlement::read(SettlementKind::Message, attempt).err(), Some(MemberSet));
        let with_usage = r#"{"turn":1,"step":1,"stream":[],"usage":{"inputTokens":1,"outputTokens":1}}"#;
        assert_eq!(Settlement::read(SettlementKind::Attempt, with_usage).err(), Some(MemberSet));
    }

    #[test]
    fn each_disagreement_with_the_stream_is_named() {
        let content = r#"[{"text":"re\u0061l","type":"text"}]"#;
        assert_eq!(verify(&message(content, SOURCE, USAGE, STREAM)), Ok(()));
        let bare = r#"{"kind":"model","provider":"p","model":"m"}"#;
        let run = |record: &str| format!("[{record}]");
        for (data, code) in [
            (message(r#"[{"type":"text","text":"fake"}]"#, SOURCE, USAGE, STREAM), "stream-content"),
            (message(r#"[{"type":"reasoning","text":"real"}]"#, SOURCE, USAGE, STREAM), "stream-content"),
            (message(r#"[{"type":"text","text":"real","x":1}]"#, SOURCE, USAGE, STREAM), "stream-content"),
            (message("[]", SOURCE, USAGE, STREAM), "stream-content"),
            (message(content, SOURCE, "", STREAM), "stream-usage"),
            (
                message(content, SOURCE, r#""usage":{"outputTokens":3,"inputTokens":1},"#, STREAM),
                "stream-usage",
            ),
            (message(content, bare, USAGE, STREAM), "stream-replay"),
            (message(content, &SOURCE.replace("1.0", "2"), USAGE, STREAM), "stream-replay"),
            (
                message(content, SOURCE, USAGE, &run(r#"{"type":"chunk","time":1,"chunk":{}}"#)),
                "stream-invalid",
            ),
            (message(content, SOURCE, USAGE, &run(r#"{"type":"chunk","time":1}"#)), "stream-invalid"),
        ] {
            assert_eq!(verify(&data).unwrap_err().code(), Some(code), "{data}");
        }
        assert_eq!(SettlementFault::Turn.code(), None);
    }

    #[test]
    fn an_interrupted_message_has_the_visible_prefix() {
        let bare = r#"{"kind":"model","provider":"p","model":"m"}"#;
        let stream = |kind: &str| {
            let text = r#"{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["seen"]}"#;
            let start = format!(r#"{{"type":"block-start","index":1,"blockType":"{kind}"}}"#);
            format!(r#"[{text},{{"type":"chunk","time":1,"chunk":{start}}}]"#)
        };
        let content = r#"[{"type":"text","text":"seen"}]"#;
        let interrupted = r#""interrupted":true,"#;
        assert_eq!(verify(&message(content, bare, interrupted, &stream("tool-call"))), Ok(()));
        let whole = verify(&message(content, bare, "", &stream("tool-call"))).unwrap_err();
        assert_eq!(whole.code(), Some("stream-content"));
        // All blocks are assembled for the replay state, which an open block of an unknown kind prevents.
        let unknown = verify(&message(content, bare, interrupted, &stream("diagram"))).unwrap_err();
        assert_eq!(unknown.code(), Some("stream-invalid"));
    }

    #[test]
    fn an_empty_stream_agrees_with_any_message_and_an_attempt_is_only_read() {
        assert_eq!(verify(&message(r#"[{"type":"x"}]"#, SOURCE, USAGE, "[]")), Ok(()));
        let attempt = |stream: &str| {
            let data = format!(r#"{{"turn":1,"step":1,"stream":{stream}}}"#);
            Settlement::read(SettlementKind::Attempt, &data).unwrap().verify().map_err(|fault| fault.code())
        };
        assert_eq!(attempt(STREAM), Ok(()));
        // An open block of an unknown kind matters only where content is asked for.
        let open =
            r#"[{"type":"chunk","time":1,"chunk":{"type":"block-start","index":1,"blockType":"diagram"}}]"#;
        assert_eq!(attempt(open), Ok(()));
        assert_eq!(
            attempt(r#"[{"type":"chunk","time":1,"chunk":{"type":"sparkle"}}]"#),
            Err(Some("stream-invalid"))
        );
    }

    #[test]
    fn a_settlement_cites_nothing_and_only_a_message_is_part_of_the_history() {
        use SettlementKind::{Attempt, Message};
        assert_eq!(SettlementKind::of_event("assistant/message"), Some(Message));
        assert_eq!(SettlementKind::of_event(Attempt.event_type()), Some(Attempt));
        assert_eq!(Message.event_type(), "assistant/message");
        assert_eq!(SettlementKind::of_event("assistant/chunk"), None);
        assert_eq!(Message.check_envelope(false, true), Ok(()));
        assert_eq!(Attempt.check_envelope(false, false), Ok(()));
        assert_eq!(Message.check_envelope(true, true), Err(SettlementFault::SourceEventSeqs));
        assert_eq!(Attempt.check_envelope(true, false), Err(SettlementFault::SourceEventSeqs));
        assert_eq!(Message.check_envelope(false, false), Err(SettlementFault::SurfaceOp));
        assert_eq!(Attempt.check_envelope(false, true), Err(SettlementFault::SurfaceOp));
    }
}
