//! Live sessions as clients of DSH ask for them and read them: JSON, one object a message.
//!
//! How the messages travel is the host's business. [`FollowFeed`](super::FollowFeed) makes those of an answer in their order, and
//! [`FollowClient`](super::FollowClient) takes them in.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::baseline::{ActiveAttempt, Baseline};
use super::follower::LiveEvent;
use super::frame::{Frame, Outcome, Step};
use crate::json::{Node, Number, SyntaxError, Tape, write_i64, write_string, write_u64};
use crate::limits::Limits;
use crate::row::{Check, Event, RowFault};
use crate::stream::SettlementKind;
use crate::units::UnixMs;

/// Asks to follow a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowRequest {
    /// Which session: JSON of the host's own form.
    pub address: String,
    /// How many messages the first page has; [`MESSAGES_DEFAULT`](Self::MESSAGES_DEFAULT) if it is not said.
    pub max_messages: Option<NonZeroU64>,
    /// Whether attempts are to be shown while they run.
    pub assistant_stream: bool,
}

/// One message of the answer: first a snapshot, then events and frames as they come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireMessage {
    /// How the session stands.
    Snapshot(Snapshot),
    /// An event was stored.
    Event(LiveEvent),
    /// Something happened to an attempt.
    Frame(Arc<Frame>),
}

/// How a session stands: the last page of its events, and the attempt under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The header line of the log.
    pub header: String,
    /// Events of the log.
    pub next_seq: u64,
    /// The last page: events without a gap, up to the last one.
    pub records: Vec<LiveEvent>,
    /// Whether there are events before them.
    pub has_more: bool,
    /// What the host has folded of the log: JSON of its own form.
    pub projections: String,
    /// What frames continue, if they were asked for.
    pub assistant_stream: Option<Baseline>,
}

/// Why a text is no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireFault {
    /// It is not JSON.
    #[error("the message is not JSON")]
    NotJson(#[from] SyntaxError),
    /// Its `type` is none that is known here.
    #[error("the message is of no known type")]
    Type,
    /// A member is missing, or not what it has to be.
    #[error("the member {0:?} of the message is not as it has to be")]
    Member(&'static str),
    /// An event in it is none.
    #[error("an event of the message cannot be read")]
    Row(#[source] RowFault),
}

type Read<T> = Result<T, WireFault>;

impl FollowRequest {
    /// Messages of the first page, if the client does not say how many.
    pub const MESSAGES_DEFAULT: NonZeroU64 = NonZeroU64::new(50).expect("fifty is not zero");

    /// Appends the request as a JSON object.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"address\":");
        out.extend_from_slice(self.address.as_bytes());
        if let Some(messages) = self.max_messages {
            out.extend_from_slice(b",\"maxMessages\":");
            write_u64(out, messages.get());
        }
        if self.assistant_stream {
            out.extend_from_slice(b",\"assistantStream\":true");
        }
        out.push(b'}');
    }

    /// Reads a request; members that are not known are left out.
    ///
    /// # Errors
    /// [`WireFault`]. `maxMessages` has to be a positive safe integer, and `assistantStream` can only be true.
    pub fn read_json(json: &[u8]) -> Read<Self> {
        let mut tape = Tape::default();
        let node = tape.parse(json, Limits::DEFAULT.nesting_max)?;
        let max_messages = node.get("maxMessages").map(|count| {
            let count = count.as_number().and_then(Number::as_count);
            count.and_then(NonZeroU64::new).ok_or(WireFault::Member("maxMessages"))
        });
        Ok(Self {
            address: member(node, "address")?.raw().to_owned(),
            max_messages: max_messages.transpose()?,
            assistant_stream: match node.get("assistantStream") {
                None => false,
                Some(asked) if asked.as_bool() == Some(true) => true,
                Some(_) => return Err(WireFault::Member("assistantStream")),
            },
        })
    }
}

impl WireMessage {
    /// Appends the message as a JSON object.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Snapshot(snapshot) => snapshot.write_json(out),
            Self::Event(event) => event.write_json(out),
            Self::Frame(frame) => {
                out.extend_from_slice(b"{\"type\":\"assistant-stream\",\"frame\":");
                frame.write_json(out);
                out.push(b'}');
            }
        }
    }

    /// Reads a message; members that are not known are left out. Time O(bytes). How long a message may be is for the host to say:
    /// this one is in memory already.
    ///
    /// # Errors
    /// [`WireFault`].
    pub fn read_json(json: &[u8]) -> Read<Self> {
        let mut tape = Tape::default();
        let node = tape.parse(json, Limits::DEFAULT.nesting_max)?;
        let kind = node.get("type").and_then(Node::as_str).and_then(|kind| kind.as_plain());
        match kind.unwrap_or_default() {
            "snapshot" => Snapshot::read(node).map(Self::Snapshot),
            "event" => LiveEvent::read(node).map(Self::Event),
            "assistant-stream" => Ok(Self::Frame(Arc::new(Frame::read(member(node, "frame")?)?))),
            _ => Err(WireFault::Type),
        }
    }
}

impl Snapshot {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"snapshot\",\"header\":");
        out.extend_from_slice(self.header.as_bytes());
        out.extend_from_slice(b",\"cursor\":");
        write_cursor(out, self.next_seq);
        out.extend_from_slice(b",\"records\":[");
        for (at, event) in self.records.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            event.write_json(out);
        }
        out.extend_from_slice(b"],\"hasMore\":");
        out.extend_from_slice(if self.has_more { b"true" } else { b"false" });
        out.extend_from_slice(b",\"projections\":");
        out.extend_from_slice(self.projections.as_bytes());
        if let Some(baseline) = &self.assistant_stream {
            out.extend_from_slice(b",\"assistantStream\":");
            baseline.write_json(out);
        }
        out.push(b'}');
    }

    fn read(node: Node<'_>) -> Read<Self> {
        let next_seq = cursor(node, "cursor")?;
        let records = member(node, "records")?.items().ok_or(WireFault::Member("records"))?;
        let baseline = node.get("assistantStream").map(|baseline| Baseline::read(baseline, next_seq));
        Ok(Self {
            header: member(node, "header")?.raw().to_owned(),
            next_seq,
            records: records.map(LiveEvent::read).collect::<Read<_>>()?,
            has_more: member(node, "hasMore")?.as_bool().ok_or(WireFault::Member("hasMore"))?,
            projections: member(node, "projections")?.raw().to_owned(),
            assistant_stream: baseline.transpose()?,
        })
    }
}

impl LiveEvent {
    /// Appends `{"type":"event","event":…}`, with the row as it is stored.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"event\",\"event\":");
        out.extend_from_slice(&self.row);
        out.push(b'}');
    }

    fn read(node: Node<'_>) -> Read<Self> {
        let row = member(node, "event")?.raw().as_bytes();
        let event = Event::read(row, Check::Envelope, &Limits::DEFAULT).map_err(WireFault::Row)?;
        Ok(Self { seq: event.seq().get(), row: Arc::from(row) })
    }
}

impl Baseline {
    /// Appends the baseline as the JSON object that clients of DSH read. Its `next_seq` is not part of it: a snapshot has it.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"revision\":");
        write_u64(out, self.revision);
        if let Some(active) = &self.active {
            out.extend_from_slice(b",\"activeAttempt\":{\"attemptId\":");
            write_string(out, &active.attempt_id);
            out.extend_from_slice(b",\"startedAfterSeq\":");
            write_cursor(out, active.started_at);
            for (name, count) in [
                (&b",\"turn\":"[..], active.turn),
                (b",\"step\":", active.step),
                (b",\"nextIndex\":", active.next_index),
            ] {
                out.extend_from_slice(name);
                write_u64(out, count);
            }
            out.extend_from_slice(b",\"stream\":");
            out.extend_from_slice(active.stream.as_bytes());
            out.push(b'}');
        }
        out.push(b'}');
    }

    fn read(node: Node<'_>, next_seq: u64) -> Read<Self> {
        let active = match node.get("activeAttempt") {
            None => None,
            Some(active) => Some(ActiveAttempt {
                attempt_id: text(active, "attemptId")?,
                started_at: cursor(active, "startedAfterSeq")?,
                turn: count(active, "turn")?,
                step: count(active, "step")?,
                next_index: count(active, "nextIndex")?,
                stream: member(active, "stream")?.raw().to_owned(),
            }),
        };
        Ok(Self { next_seq, revision: count(node, "revision")?, active })
    }
}

impl Frame {
    /// Reads a frame that [`write_json`](Self::write_json) wrote.
    ///
    /// # Errors
    /// [`WireFault`].
    pub fn read_json(json: &[u8]) -> Read<Self> {
        Self::read(Tape::default().parse(json, Limits::DEFAULT.nesting_max)?)
    }

    fn read(node: Node<'_>) -> Read<Self> {
        let kind = node.get("type").and_then(Node::as_str).and_then(|kind| kind.as_plain());
        let step = match kind.unwrap_or_default() {
            "start" => Step::Start {
                turn: count(node, "turn")?,
                step: count(node, "step")?,
                next_seq: cursor(node, "startedAfterSeq")?,
            },
            "chunk" => {
                let time = member(node, "time")?.as_number().and_then(Number::as_safe_integer);
                Step::Chunk {
                    index: count(node, "index")?,
                    time: UnixMs::new(time.ok_or(WireFault::Member("time"))?),
                    json: Arc::from(member(node, "chunk")?.raw()),
                }
            }
            "end" => Step::End { index: count(node, "index")?, outcome: outcome(member(node, "outcome")?)? },
            _ => return Err(WireFault::Type),
        };
        Ok(Self { attempt_id: text(node, "attemptId")?, revision: count(node, "revision")?, step })
    }
}

fn outcome(node: Node<'_>) -> Read<Outcome> {
    match &*text(node, "kind")? {
        "abandoned" => Ok(Outcome::Abandoned),
        "committed" => {
            let kind = SettlementKind::of_event(&text(node, "eventType")?);
            let kind = kind.ok_or(WireFault::Member("eventType"))?;
            Ok(Outcome::Committed { kind, seq: count(node, "seq")? })
        }
        _ => Err(WireFault::Member("outcome")),
    }
}

/// The last seq of so many events: -1 if there are none.
pub(super) fn write_cursor(out: &mut Vec<u8>, next_seq: u64) {
    write_i64(out, i64::try_from(next_seq).unwrap_or(i64::MAX).saturating_sub(1));
}

/// How many events there are up to a last seq.
fn cursor(node: Node<'_>, name: &'static str) -> Read<u64> {
    let seq = member(node, name)?.as_number().and_then(Number::as_safe_integer);
    let next = seq.and_then(|seq| u64::try_from(seq.checked_add(1)?).ok());
    next.ok_or(WireFault::Member(name))
}

fn member<'n>(node: Node<'n>, name: &'static str) -> Read<Node<'n>> {
    node.get(name).ok_or(WireFault::Member(name))
}

fn count(node: Node<'_>, name: &'static str) -> Read<u64> {
    member(node, name)?.as_number().and_then(Number::as_count).ok_or(WireFault::Member(name))
}

fn text(node: Node<'_>, name: &'static str) -> Read<Arc<str>> {
    let text = member(node, name)?.as_str().ok_or(WireFault::Member(name))?;
    Ok(Arc::from(text.to_string_lossy()))
}
