//! Why a log is not converted, or why a converted log is not published.

use std::fmt;

use super::inventory::Mismatch;
use crate::row::{HeaderFault, RowFault};
use crate::stream::SettlementFault;

/// What a refusal says about the stored file. In every class the file stays as it is and no successor appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// The header line is not that of any known generation.
    Malformed,
    /// The rows break the physical rules of their own generation.
    Corrupt,
    /// Physically intact, but this build does not interpret or convert it.
    Unsupported,
    /// The converted log failed the check that precedes its publication.
    Verification,
}

impl Class {
    /// The class in one word, as reports and test vectors spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Verification => "verification",
        }
    }
}

/// Where on the way from file to published successor a log was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// The header line.
    Header,
    /// The rows of the stored generation.
    Decode,
    /// The step from v0 to v1.
    V0ToV1,
    /// The step from v1 to v2.
    V1ToV2,
    /// The check of the whole result.
    Target,
    /// The check of what was written.
    Publication,
}

impl Stage {
    /// The stage in one word, as reports and test vectors spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Decode => "decode",
            Self::V0ToV1 => "v0-v1",
            Self::V1ToV2 => "v1-v2",
            Self::Target => "target",
            Self::Publication => "publication",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// The rule that was broken. The names are stable: reports, tests and hosts may match on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code's stable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The code of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }
        }
    };
}

codes! {
    /// The header is not an object, or its `version` is not a count.
    HeaderVersion = "header-version",
    /// The header's `version` is above the newest that this build knows.
    NewerVersion = "newer-version",
    /// The header breaks the rules of its own version.
    HeaderInvalid = "header-invalid",

    /// A line is not JSON, or not UTF-8.
    JsonInvalid = "json-invalid",
    /// A row is JSON, but no object.
    RowNotObject = "row-not-object",
    /// A packed row breaks its rules.
    PackedRow = "packed-row",
    /// `sourceEventSeqs` does not have a stored form.
    ProvenanceForm = "provenance-form",
    /// A row's seq is not the one that follows.
    SeqGap = "seq-gap",
    /// The header's `seedLength` exceeds the number of events.
    CutBeyondEnd = "cut-beyond-end",

    /// A row of a current log does not read, or its fork cut is impossible.
    CurrentRow = "current-row",

    /// A v0 event type that no release wrote.
    V0UnknownEvent = "v0-unknown-event",
    /// A v0 event type that was retired without a successor.
    V0RetiredEvent = "v0-retired-event",
    /// A request header whose reason was retired.
    V0RetiredReason = "v0-retired-reason",
    /// `messagePrefix` of a request header is no list.
    V0MessagePrefix = "v0-message-prefix",
    /// A turn boundary in none of the old forms.
    V0LegacyTurn = "v0-legacy-turn",
    /// A subagent descriptor of another version.
    V0DescriptorVersion = "v0-descriptor-version",
    /// An old tool result replaces a message that has no id.
    V0ReplacementIdentity = "v0-replacement-identity",
    /// A delivery marker of the log's own generation names another session.
    DeliverySession = "delivery-session",
    /// A payload does not fit the frozen schema of its type.
    PayloadInvalid = "payload-invalid",

    /// A v1 event type outside the inventory.
    V1UnknownEvent = "v1-unknown-event",
    /// The envelope of a chunk event has another shape.
    ChunkEnvelope = "chunk-envelope",
    /// A chunk that no stream record can hold.
    ChunkInvalid = "chunk-invalid",
    /// A turn starts while another is open, and not in the way that a restart did.
    TurnNotClosed = "turn-not-closed",
    /// A message of the open attempt's step cites none of its chunks.
    MessageUncited = "message-uncited",
    /// A message cites chunks other than all of its attempt's, in order.
    MessageProvenance = "message-provenance",
    /// The fork cut falls inside an attempt.
    CutSplitsAttempt = "cut-splits-attempt",
    /// An attempt, with what waits behind it, is larger than a row may be.
    AttemptTooLarge = "attempt-too-large",
    /// A reference names an event that does not survive, or not an earlier one.
    ReferenceUnmapped = "reference-unmapped",

    /// An event of a current log whose type this build does not know, and which is not marked as ignorable.
    UnknownRequiredEvent = "unknown-required-event",
    /// The envelope of a converted event is not that of its type.
    TargetEnvelope = "target-envelope",
    /// The last marker of the fork cut is missing, extra or elsewhere.
    TargetCut = "target-cut",
    /// Turns do not follow each other.
    RelationTurn = "relation-turn",
    /// Steps do not follow each other, or an event stands outside its step.
    RelationStep = "relation-step",
    /// The surface does not fold.
    RelationSurface = "relation-surface",
    /// Tool calls and results do not pair.
    RelationTool = "relation-tool",
    /// Nested tool dispatches do not pair.
    RelationPtc = "relation-ptc",
    /// Retries do not form chains.
    RelationRetry = "relation-retry",
    /// A title cites something other than a person's messages.
    RelationTitle = "relation-title",
    /// Commands and their results do not pair.
    RelationCommand = "relation-command",
    /// Compactions overlap, or do not name what they shadow.
    RelationCompaction = "relation-compaction",

    /// The written log does not read back as a v2 log.
    Reopen = "reopen",
    /// The written log has another id or number of events.
    Identity = "identity",
    /// The surface breaks a rule that a running host has beyond the format's.
    SurfaceMetadata = "surface-metadata",
    /// A payload does not fit the v2 schema of its type.
    TargetPayload = "target-payload",
    /// An embedded stream does not expand or assemble.
    StreamInvalid = "stream-invalid",
    /// An embedded stream assembles to other content than its message has.
    StreamContent = "stream-content",
    /// An embedded stream ends with another usage than its message has.
    StreamUsage = "stream-usage",
    /// An embedded stream assembles to another replay state than its message has.
    StreamReplay = "stream-replay",
}

/// More about a refusal than its code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// The code says it all.
    None,
    /// The rule, in words.
    Rule(&'static str),
    /// The rule, in words; the published release lets the log pass and loses something on the way.
    Stricter(&'static str),
    /// The event type in question.
    EventType(String),
    /// What is wrong with the header.
    Header(HeaderFault),
    /// What is wrong with the row.
    Row(RowFault),
    /// What is wrong with an embedded stream.
    Settlement(SettlementFault),
    /// How a payload departs from its schema.
    Payload(Mismatch),
    /// The seq that a reference holds.
    Reference(u64),
}

/// A log is refused: the first rule that it breaks, in the order in which a conversion checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    class: Class,
    stage: Stage,
    code: Code,
    line: Option<u64>,
    seq: Option<u64>,
    detail: Box<Detail>,
}

impl Refusal {
    pub(crate) fn new(stage: Stage, code: Code) -> Self {
        let class = match (stage, code) {
            (Stage::Header, Code::NewerVersion) => Class::Unsupported,
            (Stage::Header, _) => Class::Malformed,
            (Stage::Decode, _) => Class::Corrupt,
            (Stage::V0ToV1 | Stage::V1ToV2 | Stage::Target, _) => Class::Unsupported,
            (Stage::Publication, _) => Class::Verification,
        };
        Self { class, stage, code, line: None, seq: None, detail: Box::new(Detail::None) }
    }

    /// What was written is not what should be published.
    pub(crate) fn publication(code: Code, rule: &'static str) -> Self {
        Self::new(Stage::Publication, code).with(Detail::Rule(rule))
    }

    pub(crate) fn with(mut self, detail: Detail) -> Self {
        *self.detail = detail;
        self
    }

    pub(crate) fn with_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// At event `seq`; the innermost place wins.
    pub(crate) fn at_seq(mut self, seq: u64) -> Self {
        self.seq = self.seq.or(Some(seq));
        self
    }

    /// At line `line`; the innermost place wins.
    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.line = self.line.or(Some(line));
        self
    }

    /// What the refusal says about the file.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Where on the way the log was refused.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The broken rule.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The line that the conversion was reading, counted from 1 with the header; `None` at the end of the log.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// The event in question, counted in the stored log up to stage `v1-v2` and in the converted log from `target` on.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// More about it.
    #[must_use]
    pub fn detail(&self) -> &Detail {
        &self.detail
    }

    /// Whether the published release would have let this log pass, with a loss that this build does not accept.
    #[must_use]
    pub fn is_stricter(&self) -> bool {
        match &*self.detail {
            Detail::Stricter(_) => true,
            Detail::Payload(mismatch) => mismatch.is_lossy(),
            _ => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.code.name(), self.stage.name())?;
        if let Some(seq) = self.seq {
            write!(f, ", event {seq}")?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        f.write_str(")")?;
        match &*self.detail {
            Detail::None => Ok(()),
            Detail::Rule(text) | Detail::Stricter(text) => write!(f, ": {text}"),
            Detail::EventType(name) => write!(f, ": event type {name:?}"),
            Detail::Header(fault) => write!(f, ": {fault}"),
            Detail::Row(fault) => write!(f, ": {fault}"),
            Detail::Settlement(fault) => write!(f, ": {fault}"),
            Detail::Payload(mismatch) => write!(f, ": {mismatch}"),
            Detail::Reference(seq) => write!(f, ": it names event {seq}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_by_its_name() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.name()), Some(*code));
        }
    }

    #[test]
    fn the_stage_decides_the_class() {
        assert_eq!(Refusal::new(Stage::Header, Code::NewerVersion).class(), Class::Unsupported);
        assert_eq!(Refusal::new(Stage::Header, Code::HeaderInvalid).class(), Class::Malformed);
        assert_eq!(Refusal::new(Stage::Decode, Code::SeqGap).class(), Class::Corrupt);
        assert_eq!(Refusal::new(Stage::V1ToV2, Code::DeliverySession).class(), Class::Unsupported);
        assert_eq!(Refusal::new(Stage::Publication, Code::Reopen).class(), Class::Verification);
    }

    #[test]
    fn a_refusal_says_where_and_why() {
        let refusal = Refusal::new(Stage::V1ToV2, Code::ReferenceUnmapped).with(Detail::Reference(4));
        let refusal = refusal.at_seq(9).at_line(11).at_seq(1);
        assert_eq!(refusal.to_string(), "reference-unmapped (v1-v2, event 9, line 11): it names event 4");
    }
}
