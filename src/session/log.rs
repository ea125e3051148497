//! The events of one log in memory, as their rows.

use std::sync::Arc;

use crate::limits::Limits;
use crate::row::{Check, Event, RowFault, one_line};
use crate::units::Seq;

/// A log, or a stretch of one, that grows at its end. A clone is a snapshot: it costs a few words, shares the rows, and
/// never changes when the original grows.
///
/// Every row has been read as an event, and its seq is its position. Rows are kept byte for byte in blocks of 64 KiB. To
/// append while a snapshot is held copies the last block once.
#[derive(Clone, Debug)]
pub struct Log {
    /// Full blocks, in order.
    full: Arc<Vec<Arc<Block>>>,
    last: Arc<Block>,
    base: u64,
    /// Behind the last event. Blocks may hold more: then this is a view of a longer log.
    end: u64,
}

/// What a block holds before the next one begins. One longer row is a block of its own.
const BLOCK_BYTES: usize = 64 << 10;

/// JSON indexes are at most this long.
const ROW_BYTES_MAX: usize = 0x7fff_ffff;

#[derive(Clone, Debug, Default)]
struct Block {
    first: u64,
    text: String,
    /// Exclusive end of each row in `text`.
    ends: Vec<u32>,
    /// Rows that are not spelled as writers spell them, by index: their envelopes take a real parser. Ascending.
    odd: Vec<u32>,
}

impl Default for Log {
    fn default() -> Self {
        Self::starting_at(Seq::ZERO)
    }
}

impl Log {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty stretch of a log whose first event will be `base`.
    #[must_use]
    pub fn starting_at(base: Seq) -> Self {
        let block = Block { first: base.get(), ..Block::default() };
        Self { full: Arc::default(), last: Arc::new(block), base: base.get(), end: base.get() }
    }

    /// The log of `rows`, each without its newline.
    ///
    /// # Errors
    /// The index of the first row that [`push`](Self::push) refuses, and why.
    pub fn of_rows<R: AsRef<[u8]>>(
        rows: impl IntoIterator<Item = R>,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, (u64, RowFault)> {
        let mut log = Self::new();
        for row in rows {
            log.push(row.as_ref(), check, limits).map_err(|fault| (log.end, fault))?;
        }
        Ok(log)
    }

    /// Adds the next row, without its newline. The bytes are copied.
    ///
    /// With [`Check::Envelope`] the payload is taken on trust: for rows that were checked when they were read from a store.
    /// A row that is longer than 2 GiB is [`RowFault::TooLong`] whatever the limits.
    ///
    /// # Errors
    /// [`RowFault::LineFeed`], what [`Event::read`] refuses, and [`RowFault::Gap`] or [`RowFault::Repeat`] for a seq that is
    /// not the next one.
    pub fn push(&mut self, row: &[u8], check: Check, limits: &Limits) -> Result<(), RowFault> {
        one_line(row)?;
        let event = Event::read(row, check, limits)?;
        let expected = Seq::new(self.end).unwrap_or(Seq::MAX);
        let got = event.seq();
        if got > expected {
            return Err(RowFault::Gap { expected, got });
        }
        if got < expected || self.end > Seq::MAX.get() {
            return Err(RowFault::Repeat { expected, got });
        }
        if row.len() > ROW_BYTES_MAX {
            let bytes = u64::try_from(row.len()).unwrap_or(u64::MAX);
            return Err(RowFault::TooLong { bytes, max: u64::from(u32::MAX >> 1) });
        }
        self.push_event(&event);
        Ok(())
    }

    /// Adds an event whose seq is the next one and whose row is at most [`ROW_BYTES_MAX`] long.
    pub(crate) fn push_event(&mut self, event: &Event<'_>) {
        if self.end != self.stored_end() {
            self.cut_off();
        }
        let row = event.line();
        if self.last.text.len().saturating_add(row.len()) > BLOCK_BYTES && !self.last.ends.is_empty() {
            // The first block grows with its log; a log that fills one will fill the next.
            let text = String::with_capacity(BLOCK_BYTES.max(row.len()));
            let ends = Vec::with_capacity(self.last.ends.len());
            let next = Block { first: self.end, text, ends, odd: Vec::new() };
            let done = std::mem::replace(&mut self.last, Arc::new(next));
            Arc::make_mut(&mut self.full).push(done);
        }
        let is_odd = Event::scan(row) != Some(*event);
        Arc::make_mut(&mut self.last).push(row, is_odd);
        self.end = self.end.saturating_add(1);
    }

    /// The seq of the first event.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The seq behind the last event: what the next one gets.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Number of events.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.base)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end == self.base
    }

    /// The event `seq`. Time O(log blocks) and what reading its envelope takes.
    #[must_use]
    pub fn event(&self, seq: u64) -> Option<Event<'_>> {
        let (block, index) = self.place(seq)?;
        block.event(index)
    }

    /// The row of event `seq`, without a newline.
    #[must_use]
    pub fn row(&self, seq: u64) -> Option<&str> {
        let (block, index) = self.place(seq)?;
        block.row(index)
    }

    /// The last event.
    #[must_use]
    pub fn last(&self) -> Option<Event<'_>> {
        self.event(self.end.checked_sub(1)?)
    }

    /// The events, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event<'_>> + DoubleEndedIterator + '_ {
        let len = usize::try_from(self.len()).unwrap_or(usize::MAX);
        (0..len).map(|index| {
            let seq = self.base.saturating_add(u64::try_from(index).unwrap_or(u64::MAX));
            self.event(seq).expect("every seq of a log has its event")
        })
    }

    /// The events before `end`, as a view: nothing is copied, not even when either of both grows.
    #[must_use]
    pub fn prefix(&self, end: u64) -> Self {
        Self { end: end.clamp(self.base, self.end), ..self.clone() }
    }

    /// The events from `seq` on, as a view.
    #[must_use]
    pub fn suffix(&self, seq: u64) -> Self {
        Self { base: seq.clamp(self.base, self.end), ..self.clone() }
    }

    /// Gives back the room that blocks hold in advance, for a log that will not grow. Blocks that a snapshot shares stay.
    pub(crate) fn shrink(&mut self) {
        let full = Arc::get_mut(&mut self.full).into_iter().flatten();
        full.chain([&mut self.last]).filter_map(Arc::get_mut).for_each(Block::shrink);
    }

    /// Bytes of memory that the rows take, whoever shares them, and what keeps them in order.
    pub(crate) fn memory_bytes(&self) -> usize {
        let blocks = self.full.iter().chain([&self.last]).map(|block| block.memory_bytes());
        let list = size_of::<(Vec<Arc<Block>>, [usize; 2])>();
        let table = self.full.capacity().saturating_mul(size_of::<Arc<Block>>());
        blocks.fold(table.saturating_add(list), usize::saturating_add)
    }

    fn stored_end(&self) -> u64 {
        self.last.first.saturating_add(self.last.len())
    }

    fn place(&self, seq: u64) -> Option<(&Block, u64)> {
        if seq < self.base || seq >= self.end {
            return None;
        }
        if let Some(index) = seq.checked_sub(self.last.first) {
            return Some((&self.last, index));
        }
        let at = self.full.partition_point(|block| block.first <= seq).checked_sub(1)?;
        let block = self.full.get(at)?;
        Some((block, seq.checked_sub(block.first)?))
    }

    /// Drops what is stored behind `end`, so that the log can grow there.
    #[cold]
    fn cut_off(&mut self) {
        if self.end < self.last.first {
            let keep = self.full.partition_point(|block| block.first <= self.end);
            let full = Arc::make_mut(&mut self.full);
            full.truncate(keep);
            if let Some(last) = full.pop() {
                self.last = last;
            }
        }
        let count = self.end.saturating_sub(self.last.first);
        // The part is copied, and what it leaves out is not.
        self.last = Arc::new(self.last.prefix(count));
    }
}

impl Block {
    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.odd.shrink_to_fit();
    }

    fn memory_bytes(&self) -> usize {
        let Self { first: _, text, ends, odd } = self;
        let numbers = ends.capacity().saturating_add(odd.capacity()).saturating_mul(size_of::<u32>());
        // In an `Arc`, whose counts are two words.
        size_of::<(Self, [usize; 2])>().saturating_add(text.capacity()).saturating_add(numbers)
    }

    fn len(&self) -> u64 {
        u64::try_from(self.ends.len()).unwrap_or(u64::MAX)
    }

    fn push(&mut self, row: &str, is_odd: bool) {
        if is_odd {
            self.odd.push(u32::try_from(self.ends.len()).expect("a block has fewer rows than bytes"));
        }
        self.text.push_str(row);
        self.ends.push(u32::try_from(self.text.len()).expect("a block is 64 KiB, or one row below 2 GiB"));
    }

    fn row(&self, index: u64) -> Option<&str> {
        let index = usize::try_from(index).ok()?;
        let end = usize::try_from(*self.ends.get(index)?).ok()?;
        let start = match index.checked_sub(1) {
            Some(before) => usize::try_from(*self.ends.get(before)?).ok()?,
            None => 0,
        };
        self.text.get(start..end)
    }

    fn event(&self, index: u64) -> Option<Event<'_>> {
        let row = self.row(index)?;
        let is_odd = !self.odd.is_empty()
            && u32::try_from(index).is_ok_and(|index| self.odd.binary_search(&index).is_ok());
        if is_odd { Event::parse(row.as_bytes(), &TRUSTED).ok() } else { Event::scan(row) }
    }

    /// Its first `count` rows.
    fn prefix(&self, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.ends.len());
        let ends = self.ends.get(..count).unwrap_or_default();
        let len = ends.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or(0);
        let odd =
            self.odd.iter().copied().take_while(|&index| usize::try_from(index).is_ok_and(|i| i < count));
        Self {
            first: self.first,
            text: self.text.get(..len).unwrap_or_default().to_owned(),
            ends: ends.to_vec(),
            odd: odd.collect(),
        }
    }
}

/// For rows that met the limits when they came.
const TRUSTED: Limits = Limits { row_bytes_max: u64::MAX, nesting_max: u32::MAX, ..Limits::DEFAULT };

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, text_len: usize) -> String {
        format!(r#"{{"type":"t","seq":{seq},"time":{seq},"data":{{"x":"{}"}}}}"#, "y".repeat(text_len))
    }

    fn log(lens: impl IntoIterator<Item = usize>) -> Log {
        let rows = lens.into_iter().enumerate().map(|(seq, len)| row(u64::try_from(seq).unwrap(), len));
        Log::of_rows(rows, Check::Full, &Limits::DEFAULT).unwrap()
    }

    fn push(log: &mut Log, len: usize) {
        let row = row(log.end(), len);
        log.push(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
    }

    fn is_whole(log: &Log) {
        let seqs: Vec<u64> = log.iter().map(|event| event.seq().get()).collect();
        assert_eq!(seqs, (log.base()..log.end()).collect::<Vec<_>>());
        let back: Vec<u64> = log.iter().rev().map(|event| event.seq().get()).collect();
        assert_eq!(back, (log.base()..log.end()).rev().collect::<Vec<_>>());
        assert!(log.event(log.end()).is_none());
        assert_eq!(log.last().map(|event| event.seq().get()), (log.base()..log.end()).next_back());
    }

    #[test]
    fn rows_are_found_across_blocks_whatever_their_length() {
        for lens in
            [vec![], vec![0], vec![10; 5000], vec![0, 200_000, 0, 70_000, 70_000, 1], vec![BLOCK_BYTES; 3]]
        {
            let log = log(lens.clone());
            is_whole(&log);
            for (seq, len) in lens.into_iter().enumerate() {
                let seq = u64::try_from(seq).unwrap();
                assert_eq!(log.row(seq), Some(row(seq, len).as_str()));
            }
        }
    }

    #[test]
    fn a_snapshot_does_not_change_when_the_log_grows() {
        let mut log = log([10; 3000]);
        let snapshot = log.clone();
        let before: Vec<String> = snapshot.iter().map(|event| event.line().to_owned()).collect();
        (0..3000).for_each(|_| push(&mut log, 40));
        assert_eq!(snapshot.len(), 3000);
        is_whole(&snapshot);
        is_whole(&log);
        assert!(snapshot.iter().map(|event| event.line().to_owned()).eq(before));
    }

    #[test]
    fn a_view_grows_apart_from_what_it_is_a_view_of() {
        let mut whole = log((0..4000).map(|at| at % 60));
        for end in [0, 1, 700, 1500, 2999, 3999, 4000, 9000] {
            let mut view = whole.prefix(end);
            is_whole(&view);
            push(&mut view, 3);
            push(&mut view, 100_000);
            is_whole(&view);
            assert_eq!(view.len(), end.min(4000) + 2);
        }
        let view = whole.prefix(3990);
        push(&mut whole, 5);
        assert_eq!(view.len(), 3990);
        assert_eq!(whole.len(), 4001);
        let own = whole.suffix(3995);
        assert_eq!((own.base(), own.len()), (3995, 6));
        is_whole(&own);
        is_whole(&whole.suffix(9000));
    }

    #[test]
    fn a_row_that_does_not_follow_is_refused() {
        let mut log = Log::starting_at(Seq::new(7).unwrap());
        let seq = |n| Seq::new(n).unwrap();
        let mut push = |n| log.push(row(n, 1).as_bytes(), Check::Full, &Limits::DEFAULT);
        assert_eq!(push(8), Err(RowFault::Gap { expected: seq(7), got: seq(8) }));
        assert_eq!(push(6), Err(RowFault::Repeat { expected: seq(7), got: seq(6) }));
        assert_eq!(push(7), Ok(()));
        let lines = row(8, 1).replacen(',', ",\n", 1);
        let two = log.push(lines.as_bytes(), Check::Full, &Limits::DEFAULT);
        assert_eq!(two, Err(RowFault::LineFeed { offset: 12 }));
        let mut push = |n| log.push(row(n, 1).as_bytes(), Check::Full, &Limits::DEFAULT);
        assert_eq!(push(7), Err(RowFault::Repeat { expected: seq(8), got: seq(7) }));
        assert_eq!((log.base(), log.end()), (7, 8));
        assert!(log.event(6).is_none());
    }

    #[test]
    fn rows_of_unusual_spelling_are_read_as_what_they_are() {
        let odd = concat!(
            r#"{"time":1,"data":{"a":{"b":1}} ,"ignorable":true,"seq":1,"type":"\u0074",""#,
            r#"sourceEventSeqs":[0]}"#,
        );
        // Two payloads: the second counts, and a reader that steps over neither would take both for one.
        let twice = format!(
            r#"{{"type":"t","seq":2,"time":2,"data":{{"n":1}},"data":{{"pad":"{}","n":2}}}}"#,
            "p".repeat(200)
        );
        let rows = [row(0, 1), odd.to_owned(), twice, row(3, 1)];
        let log = Log::of_rows(rows, Check::Full, &Limits::DEFAULT).unwrap();
        is_whole(&log);
        let event = log.event(1).unwrap();
        assert!(event.is("t") && event.is_ignorable() && event.source_event_seqs() == Some("[0]"));
        assert!(log.event(2).unwrap().data().ends_with(r#""n":2}"#));
        assert!(log.event(2).unwrap().data().starts_with(r#"{"pad""#));
        let mut cut = log.prefix(2);
        push(&mut cut, 1);
        assert!(cut.event(1).unwrap().is_ignorable());
    }
}
