use crate::json::SyntaxError;
use crate::units::Seq;

/// Why one line is not a row of its log.
///
/// Offsets count bytes from the start of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// The line is longer than [`Limits::row_bytes_max`](crate::limits::Limits::row_bytes_max).
    #[error("the row has {bytes} bytes, more than the {max} allowed")]
    TooLong {
        /// Length of the line, its newline counted.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The bytes are ill-formed UTF-8.
    #[error("the row is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Bytes before the first ill-formed sequence.
        offset: usize,
    },
    /// The text is not one JSON value.
    #[error("the row is not JSON: {0}")]
    NotJson(SyntaxError),
    /// The line is not JSON, but a complete row starts inside it and runs to its end: what an append leaves behind that
    /// followed half a row without a newline.
    #[error("half a row and a complete row, which starts at byte {row_at}, share the line")]
    FusedRows {
        /// Where the complete row starts.
        row_at: usize,
    },
    /// A row that is to be written has a line feed between its tokens, so it would not be one line. Readers never meet it.
    #[error("the row has a line feed at byte {offset}")]
    LineFeed {
        /// Where it stands.
        offset: usize,
    },
    /// A JSON value that is not an object.
    #[error("the row is not a JSON object")]
    NotObject,
    /// A required member of the envelope is absent.
    #[error("the row lacks its member \"{0}\"")]
    MissingMember(Member),
    /// A member of the envelope has a value that its rule does not allow.
    #[error("the row's member \"{0}\" must be {rule}", rule = .0.rule())]
    Member(Member),
    /// The envelope has a member that this build does not know. Not damage: a later version may have written it.
    #[error("the row has a member that this build does not know, at byte {}", .name.start)]
    UnknownMember {
        /// The member's name as spelled, without its quotes.
        name: Span,
    },
    /// `sourceEventSeqs` breaks its rules.
    #[error("sourceEventSeqs {0}")]
    Provenance(RangeFault),
    /// A packed row breaks its rules.
    #[error("the packed row {0}")]
    Packed(PackedFault),
    /// A `session/end-seed` whose payload is not an object, which decides the fork cut of a v2 log.
    #[error("the payload of session/end-seed is not an object")]
    EndSeed,
    /// The row's seq is above the expected one: events are missing before it.
    #[error("seq {got} follows where {expected} was due: events are missing")]
    Gap {
        /// The seq that was due.
        expected: Seq,
        /// The seq that the row has.
        got: Seq,
    },
    /// The row's seq is below the expected one: the log already has an event of that number.
    #[error("seq {got} follows where {expected} was due: the number is taken")]
    Repeat {
        /// The seq that was due.
        expected: Seq,
        /// The seq that the row has.
        got: Seq,
    },
}

impl RowFault {
    /// The kind of damage that this fault is, in the words that the program prints.
    #[must_use]
    pub const fn kind(self) -> DamageKind {
        match self {
            Self::NotUtf8 { .. } => DamageKind::NotUtf8,
            Self::NotJson(_) => DamageKind::NotJson,
            Self::FusedRows { .. } => DamageKind::FusedRows,
            Self::Gap { .. } => DamageKind::Gap,
            Self::Repeat { .. } => DamageKind::Repeat,
            Self::UnknownMember { .. } | Self::Packed(PackedFault::UnknownMember { .. }) => {
                DamageKind::UnknownMember
            }
            Self::TooLong { .. } => DamageKind::TooLong,
            Self::LineFeed { .. }
            | Self::NotObject
            | Self::MissingMember(_)
            | Self::Member(_)
            | Self::Provenance(_)
            | Self::Packed(_)
            | Self::EndSeed => DamageKind::Structure,
        }
    }

    /// Whether the line could not be read as JSON at all, so that nothing is known of what stood there.
    #[must_use]
    pub const fn is_unreadable(self) -> bool {
        matches!(
            self,
            Self::NotUtf8 { .. } | Self::NotJson(_) | Self::FusedRows { .. } | Self::TooLong { .. }
        )
    }
}

/// Kinds of damage to a row. `Display` gives the word that `seslog verify` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// Ill-formed UTF-8.
    NotUtf8,
    /// Not one JSON value.
    NotJson,
    /// JSON, but not the shape of a row.
    Structure,
    /// Numbers are missing before the row.
    Gap,
    /// The row's number is taken.
    Repeat,
    /// Half a row and a complete one on one line.
    FusedRows,
    /// A member that this build does not know: not understood, which is not damage.
    UnknownMember,
    /// Beyond a limit of the reader, which is not damage either.
    TooLong,
}

impl DamageKind {
    /// The word for people and for JSON output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotUtf8 => "not UTF-8",
            Self::NotJson => "not JSON",
            Self::Structure => "structure",
            Self::Gap => "gap",
            Self::Repeat => "repeat",
            Self::FusedRows => "fused rows",
            Self::UnknownMember => "unknown member",
            Self::TooLong => "too long",
        }
    }

    /// Whether the bytes are at fault. A row that is only not understood, or beyond a limit, is no damage.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        !matches!(self, Self::UnknownMember | Self::TooLong)
    }
}

impl std::fmt::Display for DamageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A half-open range of bytes in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "two bounds, and never more")]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes of `line` that the span covers; empty when `line` is not the one it was made for.
    #[must_use]
    pub fn of(self, line: &[u8]) -> &[u8] {
        line.get(self.start..self.end).unwrap_or_default()
    }
}

/// Members of an event's envelope and of a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Member {
    /// `type`
    Type,
    /// `seq`
    Seq,
    /// `time`
    Time,
    /// `data`
    Data,
    /// `ignorable`
    Ignorable,
    /// `sourceEventSeqs`
    SourceEventSeqs,
    /// `surfaceOp`
    SurfaceOp,
    /// `seq0` of a packed row
    Seq0,
    /// `time0` of a packed row
    Time0,
    /// `turn` in a packed row's data
    Turn,
    /// `step` in a packed row's data
    Step,
    /// `index` in a packed row's data
    Index,
    /// `dt` in a packed row's data
    Dt,
    /// `texts` in a packed row's data
    Texts,
    /// `args` in a packed row's data
    Args,
    /// `id` in a packed row's data
    Id,
    /// `name` in a packed row's data
    Name,
}

impl Member {
    /// The name as it stands in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Seq => "seq",
            Self::Time => "time",
            Self::Data => "data",
            Self::Ignorable => "ignorable",
            Self::SourceEventSeqs => "sourceEventSeqs",
            Self::SurfaceOp => "surfaceOp",
            Self::Seq0 => "seq0",
            Self::Time0 => "time0",
            Self::Turn => "turn",
            Self::Step => "step",
            Self::Index => "index",
            Self::Dt => "dt",
            Self::Texts => "texts",
            Self::Args => "args",
            Self::Id => "id",
            Self::Name => "name",
        }
    }

    /// What its value must be.
    const fn rule(self) -> &'static str {
        match self {
            Self::Type | Self::Name => "a string",
            Self::Seq | Self::Seq0 => "an integer from 0 to 2^53 - 1, and not -0",
            Self::Time | Self::Time0 => "an integer from -(2^53 - 1) to 2^53 - 1, and not -0",
            Self::Data => "an object",
            Self::Ignorable => "true, or absent",
            Self::SourceEventSeqs => "an array of seqs and ranges of seqs",
            Self::SurfaceOp => "a surface operation",
            Self::Turn | Self::Step | Self::Index => "an integer from 0 to 2^53 - 1",
            Self::Dt => "an array of integers",
            Self::Texts | Self::Args => "an array of strings",
            Self::Id => "a string that is not empty",
        }
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a `sourceEventSeqs` value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeFault {
    /// The value is not an array.
    #[error("is not an array")]
    NotArray,
    /// An entry is neither a count nor a pair of counts.
    #[error("has an entry that is neither a seq nor a pair of seqs, at byte {at} of its value")]
    Entry {
        /// Bytes from the start of the value.
        at: usize,
    },
    /// A range ends before it starts.
    #[error("has the range {start} to {end}, which runs backwards")]
    Backwards {
        /// First seq of the range.
        start: u64,
        /// Last seq of the range.
        end: u64,
    },
    /// More seqs are listed than there are events before the row.
    #[error("lists more than the {bound} events before its row")]
    TooMany {
        /// Events before the row.
        bound: u64,
    },
    /// A seq is listed that is not before the row: its own, or a later one.
    #[error("lists seq {seq}, which is not before seq {bound}")]
    Later {
        /// The listed seq.
        seq: u64,
        /// The row's own seq, or the position where the row stands if that is smaller.
        bound: u64,
    },
    /// A list with ranges is not in strictly ascending order.
    #[error("has ranges but is not in ascending order")]
    NotAscending,
    /// A seq is listed twice.
    #[error("lists seq {seq} twice")]
    Repeated {
        /// The listed seq.
        seq: u64,
    },
    /// The row has the member but no seq that is a count.
    #[error("stands in a row without a usable seq")]
    NoSeq,
}

/// Why a packed row is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackedFault {
    /// A required member is absent.
    #[error("lacks its member \"{0}\"")]
    MissingMember(Member),
    /// A member has a value that its rule does not allow.
    #[error("has a member \"{0}\" that is not {rule}", rule = .0.rule())]
    Member(Member),
    /// A member that no packed row has.
    #[error("has a member that this build does not know, at byte {}", .name.start)]
    UnknownMember {
        /// The member's name as spelled, without its quotes.
        name: Span,
    },
    /// The array of fragments is empty.
    #[error("holds no event")]
    Empty,
    /// `dt` does not have one element fewer than there are fragments.
    #[error("has {gaps} time gaps for {fragments} fragments")]
    Lengths {
        /// Elements of `dt`.
        gaps: u64,
        /// Elements of `texts` or `args`.
        fragments: u64,
    },
    /// The last seq would be above 2^53 - 1.
    #[error("numbers events beyond 2^53 - 1")]
    SeqOverflow,
    /// A running time leaves the safe integers.
    #[error("reaches a time beyond 2^53 - 1 at event {index}")]
    Time {
        /// Which of its events.
        index: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_numbers_and_rules() {
        let gap = RowFault::Gap { expected: Seq::new(4).unwrap(), got: Seq::new(6).unwrap() };
        assert_eq!(gap.to_string(), "seq 6 follows where 4 was due: events are missing");
        assert_eq!(
            RowFault::Member(Member::Ignorable).to_string(),
            "the row's member \"ignorable\" must be true, or absent"
        );
        assert_eq!(
            RowFault::Packed(PackedFault::Lengths { gaps: 3, fragments: 3 }).to_string(),
            "the packed row has 3 time gaps for 3 fragments"
        );
        assert_eq!(
            RowFault::Provenance(RangeFault::Repeated { seq: 1 }).to_string(),
            "sourceEventSeqs lists seq 1 twice"
        );
    }

    #[test]
    fn what_is_not_understood_is_no_damage() {
        let name = Span { start: 5, end: 9 };
        assert!(!RowFault::UnknownMember { name }.kind().is_damage());
        assert!(!RowFault::Packed(PackedFault::UnknownMember { name }).kind().is_damage());
        assert!(RowFault::Packed(PackedFault::Empty).kind().is_damage());
        assert_eq!(RowFault::FusedRows { row_at: 1 }.kind().to_string(), "fused rows");
        assert_eq!(name.of(b"01234name9"), b"name");
        assert_eq!(name.of(b"short"), b"");
    }
}
