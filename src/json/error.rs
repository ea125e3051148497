/// Why and where bytes are not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct SyntaxError {
    /// Bytes from the start of the text to the first byte that cannot stand; the text's length where more is due.
    pub offset: usize,
    /// What is wrong there.
    pub kind: SyntaxErrorKind,
}

/// The kinds of [`SyntaxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// The bytes are ill-formed UTF-8. Decided before the grammar: a text with both faults reports this one.
    #[error("ill-formed UTF-8")]
    NotUtf8,
    /// A byte that no JSON value may have in this place; a byte order mark is one.
    #[error("unexpected byte")]
    Unexpected,
    /// The text ends inside a value, or holds none.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// A byte below 0x20 inside a string, where it must be escaped.
    #[error("control character in a string")]
    Control,
    /// A backslash that starts no JSON escape; the offset is the first byte that does not fit.
    #[error("malformed escape")]
    Escape,
    /// A bracket that opens more levels than the caller allows.
    #[error("nesting too deep")]
    TooDeep,
    /// The text is longer than a tape can address: 2^31 - 1 bytes. Only [`Tape::parse`](super::Tape::parse) gives it.
    #[error("text too long")]
    TooLong,
    /// The value is complete and something other than white space follows.
    #[error("trailing bytes after the value")]
    Trailing,
}

impl SyntaxErrorKind {
    pub(super) const fn at(self, offset: usize) -> SyntaxError {
        SyntaxError { offset, kind: self }
    }
}
