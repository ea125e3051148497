//! The one way of an event into a log: what is demanded of it, and what it does to the surface.
//!
//! Appending, seeding, restoring and folding all go through here, so they agree on every log.

use super::fingerprint::Fingerprints;
use super::kind::Kind;
use super::log::Log;
use super::message::{MessageFault, check_message, is_empty, tool_calls};
use super::profile::Profile;
use super::request::{RequestFault, check_request, is_retired};
use super::seqs::SeqList;
use super::surface::{NodeIndex, Surface, SurfaceFault, SurfaceOp, SurfacePlan};
use super::surface_rules::{check_sources, kept};
use crate::json::{Node, Tape};
use crate::row::{Event, RawMembers, RowFault};

/// Why an event cannot stand in a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventFault {
    /// Its row is none, or does not follow.
    #[error(transparent)]
    Row(#[from] RowFault),
    /// The payload holds a negative zero or a number beyond the doubles, which JavaScript does not write back.
    #[error("the payload holds a number that JSON does not keep: -0, or one that is too large")]
    Lossy,
    /// A form of request headers that is no longer understood.
    #[error("it is a request header of a retired form")]
    Retired,
    /// The type is not known here, and the event is not marked as ignorable.
    #[error("the type {event_type} is unknown, and the event is not marked as ignorable")]
    Unknown {
        /// The type, printable.
        event_type: String,
    },
    /// Its message breaks a rule.
    #[error(transparent)]
    Message(#[from] MessageFault),
    /// Its request header breaks a rule.
    #[error(transparent)]
    Request(#[from] RequestFault),
    /// It cannot take its place on the surface.
    #[error(transparent)]
    Surface(#[from] SurfaceFault),
}

/// What is asked of an event besides the rules of the surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    /// The payload is lossless JSON.
    pub(crate) lossless: bool,
    /// The type is known, or the event ignorable.
    pub(crate) known: bool,
    /// Messages and request headers have their shapes.
    pub(crate) shapes: bool,
    /// It has no retired form.
    pub(crate) unretired: bool,
}

impl Demands {
    /// The rules of the surface alone.
    pub(crate) const SURFACE: Self = Self { lossless: false, known: false, shapes: false, unretired: false };
    /// Of events that were stored: their payloads are what they are.
    pub(crate) const STORED: Self = Self { lossless: false, known: true, shapes: true, unretired: true };
}

/// An event that was found sound, and what it will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) kind: Option<Kind>,
    pub(crate) place: Option<(SurfacePlan, NodeMessage)>,
}

/// The message that a surface event stands for, as a range of its row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeMessage {
    /// An empty range for no message.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Balance of tool calls: one for each that an assistant's message asks for, minus one for a result.
    pub(crate) calls: i32,
}

/// The surface of a log, as far as it was followed.
#[derive(Debug)]
pub(crate) struct Intake {
    profile: &'static Profile,
    surface: Surface,
    /// By [`NodeIndex`].
    messages: Vec<NodeMessage>,
    sources: SeqList,
    tape: Tape,
}

impl Intake {
    pub(crate) fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            surface: Surface::default(),
            messages: Vec::new(),
            sources: SeqList::default(),
            tape: Tape::default(),
        }
    }

    pub(crate) fn surface(&self) -> &Surface {
        &self.surface
    }

    pub(crate) fn message(&self, node: NodeIndex) -> NodeMessage {
        usize::try_from(node).ok().and_then(|node| self.messages.get(node)).copied().unwrap_or_default()
    }

    /// Judges the event that follows `log`, and changes nothing but scratch memory. Time linear in its row.
    ///
    /// # Errors
    /// The first [`EventFault`] in the order of their declaration.
    pub(crate) fn judge(
        &mut self,
        event: &Event<'_>,
        log: &Log,
        demands: Demands,
    ) -> Result<Admitted, EventFault> {
        if demands.lossless {
            let data = self.tape.parse(event.data().as_bytes(), u32::MAX).map_err(RowFault::NotJson)?;
            if !data.is_lossless() {
                return Err(EventFault::Lossy);
            }
        }
        let name = event.event_type();
        let kind = self.profile.kind(&name.to_string_lossy());
        // Whatever such an event carries, it is the business of readers who know it.
        let is_opaque = kind.is_none() && event.is_ignorable();
        if demands.unretired && is_retired(self.profile, event, &mut self.tape) {
            return Err(EventFault::Retired);
        }
        if demands.known && kind.is_none() && !is_opaque {
            return Err(EventFault::Unknown {
                event_type: name.to_string_lossy().escape_debug().to_string(),
            });
        }
        let surface_kind = kind.filter(|kind| self.profile.is_surface(*kind));
        let message = match surface_kind {
            Some(kind) => self.read_message(kind, event, demands.shapes)?,
            None => NodeMessage::default(),
        };
        if demands.shapes && kind == Some(Kind::RequestHeader) {
            let data = self.tape.parse(event.data().as_bytes(), u32::MAX).map_err(RowFault::NotJson)?;
            check_request(data)?;
        }
        let place = match surface_kind {
            Some(kind) => Some((self.plan(kind, event, log)?, message)),
            None if is_opaque => None,
            None if event.surface_op().is_some() || event.source_event_seqs().is_some() => {
                return Err(EventFault::Surface(SurfaceFault::NotSurface));
            }
            None => None,
        };
        Ok(Admitted { kind, place })
    }

    /// Enters an event that was judged, if nothing else was entered since.
    pub(crate) fn commit(&mut self, admitted: Admitted) {
        if let Some((plan, message)) = admitted.place {
            self.surface.commit(plan);
            self.messages.push(message);
        }
    }

    fn plan(&mut self, kind: Kind, event: &Event<'_>, log: &Log) -> Result<SurfacePlan, EventFault> {
        let seq = event.seq().get();
        let op = match event.surface_op() {
            None => SurfaceOp::Absent,
            Some("\"append\"") => SurfaceOp::Append,
            Some(text) => {
                let op = self.tape.parse(text.as_bytes(), u32::MAX).map_err(RowFault::NotJson)?;
                SurfaceOp::read(op, self.profile.replace_keys())
            }
        };
        if op == SurfaceOp::Absent {
            return Err(SurfaceFault::NoOp.into());
        }
        let sources = match event.source_event_seqs() {
            None => None,
            Some(text) => {
                self.sources.read_stored(text, event.seq()).map_err(RowFault::Provenance)?;
                check_sources(kind, seq, &self.sources, self.profile.message_sources())?;
                Some(&self.sources)
            }
        };
        let plan = self.surface.plan(seq, op, sources)?;
        if kind == Kind::ToolResult && op != SurfaceOp::Append {
            let mut shadowed = self.surface.shadowed(plan);
            let (Some(target), None) = (shadowed.next(), shadowed.next()) else {
                return Err(SurfaceFault::ResultTarget.into());
            };
            let former = log.event(target).filter(|former| former.is(Kind::ToolResult.name()));
            let former = former.ok_or(SurfaceFault::ResultTarget)?;
            if !is_rewrite(&former, event) {
                return Err(SurfaceFault::ResultChanged.into());
            }
        }
        Ok(plan)
    }

    /// The message of a surface event. Of its payload only the message is parsed; the rest is stepped over.
    fn read_message(
        &mut self,
        kind: Kind,
        event: &Event<'_>,
        checked: bool,
    ) -> Result<NodeMessage, EventFault> {
        let text = match kind {
            Kind::UserMessage => Some(event.data()),
            _ => member(event.data(), "message"),
        };
        let message = match text {
            Some(text) => Some(self.tape.parse(text.as_bytes(), u32::MAX).map_err(RowFault::NotJson)?),
            None => None,
        };
        if checked {
            check_message(kind, message, self.profile.tool_results())?;
        }
        let (Some(text), Some(message)) = (text, message) else { return Ok(NodeMessage::default()) };
        let start = text.as_ptr().addr().checked_sub(event.line().as_ptr().addr());
        let start = start.and_then(|start| u32::try_from(start).ok()).ok_or(TOO_LONG)?;
        let len = u32::try_from(text.len()).map_err(|_| TOO_LONG)?;
        let calls = match kind {
            Kind::AssistantMessage => i32::try_from(tool_calls(message)).unwrap_or(i32::MAX),
            Kind::ToolResult => -1,
            _ => 0,
        };
        // What hosts only usage is no message to the model.
        let end = match kind {
            Kind::AssistantMessage if is_empty(message) => start,
            _ => start.saturating_add(len),
        };
        Ok(NodeMessage { start, end, calls })
    }
}

const TOO_LONG: RowFault = RowFault::TooLong { bytes: u64::MAX, max: 0x7fff_ffff };

/// The text of a payload's member; the last of its name. The payload has been checked to be JSON.
fn member<'a>(data: &'a str, name: &str) -> Option<&'a str> {
    let named = RawMembers::of(data)?.filter(|member| member.is(name));
    named.last().map(|member| member.value)
}

/// Whether `result` is `former` with other content inside its block.
fn is_rewrite(former: &Event<'_>, result: &Event<'_>) -> bool {
    let fingerprints = Fingerprints::default();
    let (mut before, mut after) = (Tape::default(), Tape::default());
    let parsed = before.parse(former.data().as_bytes(), u32::MAX).ok();
    let former = parsed.and_then(|data: Node<'_>| kept(&fingerprints, data));
    let parsed = after.parse(result.data().as_bytes(), u32::MAX).ok();
    former.is_some() && former == parsed.and_then(|data| kept(&fingerprints, data))
}
