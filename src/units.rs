//! Quantities that are easy to mix up, each a type of its own.

use std::fmt;

/// Position of an event in its logical log: 0, 1, 2, and so on without gaps. Never above [`Seq::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(u64);

impl Seq {
    /// The first event of a log.
    pub const ZERO: Self = Self(0);
    /// 2^53 - 1: the largest integer that JavaScript, which writes these logs, represents exactly.
    pub const MAX: Self = Self(9_007_199_254_740_991);

    /// Returns `n` as a seq, or `None` above [`Seq::MAX`].
    #[must_use]
    pub const fn new(n: u64) -> Option<Self> {
        if n <= Self::MAX.0 { Some(Self(n)) } else { None }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The seq `events` later, or `None` beyond [`Seq::MAX`].
    #[must_use]
    pub const fn checked_add(self, events: u64) -> Option<Self> {
        match self.0.checked_add(events) {
            Some(n) => Self::new(n),
            None => None,
        }
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the rows of a log mean: DSH's session-format version, the number in the header and in the file name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(u64);

impl Generation {
    /// Rows of DSH up to 0.1.2.
    pub const V0: Self = Self(0);
    /// The bridge between v0 and v2; no release is known to write it.
    pub const V1: Self = Self(1);
    /// One event a row, assistant streams inside their settlements.
    pub const V2: Self = Self(2);
    /// What this build writes and what migrations lead to.
    pub const CURRENT: Self = Self::V2;

    /// Wraps a version number as stored; any count is representable, few are supported.
    #[must_use]
    pub const fn new(version: u64) -> Self {
        Self(version)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this build decodes rows of this generation.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        self.0 <= Self::CURRENT.0
    }

    /// Whether rows may be packed and chunks stand at top level (v0 and v1).
    #[must_use]
    pub const fn has_chunk_events(self) -> bool {
        self.0 < Self::V2.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// Milliseconds since the Unix epoch. Event times may be negative and may run backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnixMs(i64);

impl UnixMs {
    /// Wraps a number of milliseconds.
    #[must_use]
    pub const fn new(ms: i64) -> Self {
        Self(ms)
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for UnixMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
