//! Rows on their way into a log.

/// Whole rows that one append writes: every row ends in a newline, which is its last byte.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The rows' bytes, one behind the other.
    pub content: &'a [u8],
    /// One mark a row, in order. The last mark's end is the length of `content`.
    pub rows: &'a [RowMark],
}

/// What a container must know of a row that it does not look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMark {
    /// Exclusive end of the row in the batch's content, newline included.
    pub end: usize,
    /// Logical events in the row: 1, or more for a packed row.
    pub events: u32,
    /// Unix milliseconds of the row's last event.
    pub last_time: i64,
}
