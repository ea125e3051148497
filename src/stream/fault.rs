use crate::json::SyntaxError;

/// Why a stream of records cannot be expanded or read. Nothing of it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFault {
    /// The text is not one JSON value. Comes before every fault of a record, wherever in the text it is.
    #[error("the stream is not JSON")]
    Syntax(#[from] SyntaxError),
    /// The value is JSON, but no array.
    #[error("the stream is not an array of records")]
    NotAnArray,
    /// The first record that breaks a rule.
    #[error("record {record} of the stream: {fault}")]
    Record {
        /// Its position, from 0.
        record: usize,
        /// The first rule that it breaks.
        fault: RecordFault,
    },
    /// The records are in order, but what they stand for cannot be assembled.
    #[error("the stream cannot be assembled")]
    Assemble(#[from] AssembleFault),
}

/// The rule that a record breaks: the first one in the order in which they are listed here and checked.
///
/// Spec: `format-spec/04-rows.md`, "Stream records".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The record is null, an array or a scalar.
    #[error("not an object")]
    NotAnObject,
    /// `type` is missing, no string, or none of the four names.
    #[error("unknown type")]
    UnknownType,
    /// A member of the type is missing, or there is one that the type does not have.
    #[error("wrong set of members")]
    MemberSet,
    /// `texts` or `args` is no array of strings, or is empty.
    #[error("fragments are not a non-empty array of strings")]
    Fragments,
    /// `id` is no string, or is empty.
    #[error("id is not a non-empty string")]
    Id,
    /// `name` is there and is no string, or is empty.
    #[error("name is not a non-empty string")]
    Name,
    /// `time0` or `time` is no safe integer.
    #[error("time is not a safe integer")]
    Time,
    /// `index` is no count; negative zero is none.
    #[error("index is not a count")]
    Index,
    /// `dt` is no array of safe integers, or does not have one entry less than there are fragments.
    #[error("gaps are not one safe integer less than there are fragments")]
    Gaps,
    /// The time of some member is no safe integer.
    #[error("a member's time leaves the range of safe integers")]
    TimeRange,
    /// `chunk` is no object, or holds negative zero or a number too large for a double.
    #[error("chunk is not a lossless object")]
    RawChunk,
}

/// Why an accumulator refuses a chunk: the first rule that it breaks, in the order in which they are checked. The
/// accumulator is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushFault {
    /// The time is no safe integer.
    #[error("time is not a safe integer")]
    Time,
    /// The chunk is not one JSON value.
    #[error("the chunk is not JSON")]
    Syntax(#[from] SyntaxError),
    /// The chunk holds negative zero, or a number too large for a double.
    #[error("the chunk is not lossless")]
    NotLossless,
    /// The chunk is null, an array or a scalar.
    #[error("the chunk is not an object")]
    NotAnObject,
    /// `type` is none of the seven.
    #[error("unknown type of chunk")]
    UnknownType,
    /// `index` of a delta is no count.
    #[error("index is not a count")]
    Index,
    /// `text` of a delta is no string.
    #[error("text is not a string")]
    Text,
    /// `id` of a delta is no string.
    #[error("id is not a string")]
    Id,
    /// `name` of a delta is there and is no string.
    #[error("name is not a string")]
    Name,
    /// `argumentsDelta` of a delta is no string.
    #[error("argumentsDelta is not a string")]
    Arguments,
}

/// Why chunks cannot be assembled into content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleFault {
    /// A chunk's `type` is none of the seven.
    #[error("unknown type of chunk")]
    UnknownType,
    /// A member that decides the result does not have the type that it must have.
    #[error("a member of the chunk has the wrong type")]
    Member,
    /// A block that never ended is neither text nor reasoning nor a tool call, so what it would have become is unknown.
    #[error("block {position} is open and of a kind that cannot be assembled")]
    OpenKind {
        /// Its place in order of first appearance, from 0.
        position: usize,
    },
}

/// Why a settlement, or the event that carries it, is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettlementFault {
    /// The data is no object.
    #[error("data is not an object")]
    NotAnObject,
    /// A member is missing, or there is one that the event type does not have.
    #[error("wrong set of members")]
    MemberSet,
    /// `turn` is no positive count.
    #[error("turn is not a positive count")]
    Turn,
    /// `step` is no positive count.
    #[error("step is not a positive count")]
    Step,
    /// `message` is no assistant message from a model.
    #[error("message is not an assistant message from a model")]
    Message,
    /// `usage` is there and does not count tokens.
    #[error("usage does not count tokens")]
    Usage,
    /// `interrupted` is there and is not `true`.
    #[error("interrupted is not true")]
    Interrupted,
    /// `stream` is no array.
    #[error("stream is not an array")]
    Stream,
    /// The event has `sourceEventSeqs`: its stream is its source.
    #[error("a settlement does not cite source events")]
    SourceEventSeqs,
    /// An `assistant/message` without `surfaceOp`, or an `assistant/attempt` with it.
    #[error("surfaceOp is missing, or stands on an event that is not part of the history")]
    SurfaceOp,
    /// The stream cannot be expanded or assembled (`stream-invalid`).
    #[error("the stream is invalid")]
    StreamInvalid(#[from] StreamFault),
    /// The stream gives other content than the message has (`stream-content`).
    #[error("the stream gives other content than the message")]
    StreamContent,
    /// The stream gives other usage than the event has (`stream-usage`).
    #[error("the stream gives other usage than the settlement")]
    StreamUsage,
    /// The stream gives another replay state than the message has (`stream-replay`).
    #[error("the stream gives another replay state than the message")]
    StreamReplay,
}

impl SettlementFault {
    /// The verifier's name of a disagreement between settlement and stream; `None` for faults that ordinary restoration
    /// finds.
    ///
    /// Spec: `format-spec/06-migration.md`, "Verification".
    #[must_use]
    pub const fn code(self) -> Option<&'static str> {
        match self {
            Self::StreamInvalid(_) => Some("stream-invalid"),
            Self::StreamContent => Some("stream-content"),
            Self::StreamUsage => Some("stream-usage"),
            Self::StreamReplay => Some("stream-replay"),
            _ => None,
        }
    }
}
