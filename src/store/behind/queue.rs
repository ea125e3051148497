//! Events that wait to be stored, in order.

use std::sync::Arc;

use crate::session::Log;

/// What waits: rows, then what did not fit and is taken from the session's own log.
///
/// Seqs have no gap. What is being written stays counted, and kept, until it is known to be stored.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Being written, or was when the last write failed.
    flight: Option<Arc<Rows>>,
    rows: Rows,
    overflow: Option<Overflow>,
    /// Behind the last event that a write was asked to store.
    tried: u64,
    /// Memory of a batch that is done, for the next.
    spare: Rows,
}

/// A run of rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    text: Vec<u8>,
    /// Exclusive end of each row in `text`.
    ends: Vec<usize>,
    first: u64,
}

/// What is to be written now.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rows: Arc<Rows>,
    /// Behind the last event that an earlier write was asked to store. Only these may be found stored already.
    pub(super) tried: u64,
}

#[derive(Debug)]
struct Overflow {
    log: Log,
    /// The first event that was not taken yet.
    next: u64,
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) events: usize,
}

/// Why an event was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    /// The event that is next has another seq.
    Seq {
        expected: u64,
    },
}

/// Memory of a batch that is kept for the next one: what a busy session says in a window. A batch that a slow disk let grow
/// is given back.
const SPARE_BYTES: usize = 16 << 10;

impl Queue {
    /// Takes the row of event `seq`. `stored` is where the log ends.
    ///
    /// What waits never has a gap inside, but may begin behind the end of the log: then somebody has to append what is
    /// between before this can be stored.
    pub(super) fn push(&mut self, row: &[u8], seq: u64, stored: u64, bounds: Bounds) -> Result<(), Refused> {
        self.check_seq(seq, stored)?;
        if self.overflow.is_some() || !self.has_room(row.len(), bounds) {
            return Err(Refused::Full);
        }
        self.rows.push(row, seq);
        Ok(())
    }

    /// Takes event `seq`, the last one of `log`, into its row or, where that does not fit, as part of the log.
    pub(super) fn push_last(
        &mut self,
        row: &[u8],
        seq: u64,
        stored: u64,
        bounds: Bounds,
        log: impl FnOnce() -> Log,
    ) -> Result<(), Refused> {
        match self.push(row, seq, stored, bounds) {
            Err(Refused::Full) => {
                let next = self.overflow.as_ref().map_or(seq, |overflow| overflow.next);
                self.overflow = Some(Overflow { log: log(), next });
                Ok(())
            }
            taken => taken,
        }
    }

    fn check_seq(&self, seq: u64, stored: u64) -> Result<(), Refused> {
        match self.end() {
            Some(expected) if seq != expected => Err(Refused::Seq { expected }),
            None if seq < stored => Err(Refused::Seq { expected: stored }),
            _ => Ok(()),
        }
    }

    fn has_room(&self, bytes: usize, bounds: Bounds) -> bool {
        let (waiting, events) = self.load();
        waiting == 0 || (waiting.saturating_add(bytes) <= bounds.bytes && events < bounds.events)
    }

    /// Bytes and events in memory.
    fn load(&self) -> (usize, usize) {
        let flight = self.flight.as_ref().map_or((0, 0), |rows| (rows.text.len(), rows.ends.len()));
        (flight.0.saturating_add(self.rows.text.len()), flight.1.saturating_add(self.rows.ends.len()))
    }

    /// Whether half of the room is taken.
    pub(super) fn is_half_full(&self, bounds: Bounds) -> bool {
        let (bytes, events) = self.load();
        self.overflow.is_some() || bytes >= bounds.bytes / 2 || events >= bounds.events / 2
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flight.is_none() && self.rows.ends.is_empty() && self.overflow.is_none()
    }

    /// The seq of the first event that waits.
    pub(super) fn first(&self) -> Option<u64> {
        let flight = self.flight.as_ref().map(|rows| rows.first);
        let rows = (!self.rows.ends.is_empty()).then_some(self.rows.first);
        flight.or(rows).or(self.overflow.as_ref().map(|overflow| overflow.next))
    }

    /// The seq behind the last event that waits.
    pub(super) fn end(&self) -> Option<u64> {
        let overflow = self.overflow.as_ref().map(|overflow| overflow.log.end());
        let rows = (!self.rows.ends.is_empty()).then(|| self.rows.end());
        overflow.or(rows).or(self.flight.as_ref().map(|rows| rows.end()))
    }

    /// Everything that waits, as far as it is in memory, to be written. It stays here until [`Queue::stored`].
    pub(super) fn take(&mut self, bounds: Bounds) -> Option<Batch> {
        if self.rows.ends.is_empty() && self.flight.is_none() {
            self.refill(bounds);
        }
        let batch = match self.flight.take().map(Arc::try_unwrap) {
            None if self.rows.ends.is_empty() => return None,
            None => std::mem::replace(&mut self.rows, std::mem::take(&mut self.spare)),
            Some(failed) => {
                let mut failed = failed.unwrap_or_else(|shared| shared.copy());
                let newer = std::mem::replace(&mut self.rows, std::mem::take(&mut self.spare));
                failed.extend(&newer);
                self.recycle(newer);
                failed
            }
        };
        let tried = std::mem::replace(&mut self.tried, batch.end());
        let rows = Arc::new(batch);
        self.flight = Some(Arc::clone(&rows));
        Some(Batch { rows, tried })
    }

    /// What [`Queue::take`] gave is stored.
    pub(super) fn stored(&mut self, batch: Batch) {
        self.flight = None;
        if let Ok(rows) = Arc::try_unwrap(batch.rows) {
            self.recycle(rows);
        }
    }

    fn recycle(&mut self, mut rows: Rows) {
        if rows.text.capacity() <= SPARE_BYTES && self.spare.text.capacity() == 0 {
            rows.text.clear();
            rows.ends.clear();
            self.spare = rows;
        }
    }

    /// Takes rows out of the log that holds what did not fit.
    fn refill(&mut self, bounds: Bounds) {
        while let Some(overflow) = &mut self.overflow {
            let Some(row) = overflow.log.row(overflow.next) else {
                self.overflow = None;
                break;
            };
            let taken = self.rows.text.len();
            let fits =
                taken.saturating_add(row.len()) <= bounds.bytes && self.rows.ends.len() < bounds.events;
            if taken > 0 && !fits {
                break;
            }
            self.rows.push(row.as_bytes(), overflow.next);
            overflow.next = overflow.next.saturating_add(1);
        }
    }
}

impl Rows {
    fn push(&mut self, row: &[u8], seq: u64) {
        if self.ends.is_empty() {
            self.first = seq;
        }
        self.text.extend_from_slice(row);
        self.ends.push(self.text.len());
    }

    fn extend(&mut self, newer: &Self) {
        newer.iter().enumerate().for_each(|(index, row)| {
            let seq = newer.first.saturating_add(u64::try_from(index).unwrap_or(u64::MAX));
            self.push(row, seq);
        });
    }

    fn copy(&self) -> Self {
        Self { text: self.text.clone(), ends: self.ends.clone(), first: self.first }
    }

    /// The seq of the first event.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// The seq behind the last event.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.ends.len()).unwrap_or(u64::MAX))
    }

    /// The rows, without newlines.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| self.text.get(start..end).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::row::Check;

    const BOUNDS: Bounds = Bounds { bytes: 200, events: 3 };

    fn row(seq: u64) -> Vec<u8> {
        format!("{{\"type\":\"a\",\"seq\":{seq},\"time\":0,\"data\":0}}").into_bytes()
    }

    fn log(end: u64) -> Log {
        Log::of_rows((0..end).map(row), Check::Full, &Limits::DEFAULT).unwrap()
    }

    fn seqs(rows: &Rows) -> Vec<u64> {
        let seqs: Vec<u64> = (rows.first()..rows.end()).collect();
        let texts: Vec<Vec<u8>> = rows.iter().map(<[u8]>::to_vec).collect();
        assert_eq!(texts, seqs.iter().map(|&seq| row(seq)).collect::<Vec<_>>());
        seqs
    }

    #[test]
    fn rows_come_out_in_order_and_a_failed_batch_comes_first_again() {
        let mut queue = Queue::default();
        assert_eq!((queue.first(), queue.end(), queue.is_empty()), (None, None, true));
        queue.push(&row(4), 4, 4, BOUNDS).unwrap();
        assert_eq!(queue.push(&row(6), 6, 4, BOUNDS), Err(Refused::Seq { expected: 5 }));
        let failed = queue.take(BOUNDS).unwrap();
        assert_eq!((seqs(&failed.rows), failed.tried), (vec![4], 0));
        drop(failed);
        queue.push(&row(5), 5, 4, BOUNDS).unwrap();
        assert_eq!((queue.first(), queue.end()), (Some(4), Some(6)));
        let batch = queue.take(BOUNDS).unwrap();
        assert_eq!((seqs(&batch.rows), batch.tried), (vec![4, 5], 5));
        queue.push(&row(6), 6, 4, BOUNDS).unwrap();
        queue.stored(batch);
        assert_eq!(seqs(&queue.take(BOUNDS).unwrap().rows), [6]);
    }

    #[test]
    fn what_is_stored_already_is_refused_and_what_is_far_ahead_waits() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(&row(3), 3, 4, BOUNDS), Err(Refused::Seq { expected: 4 }));
        queue.push(&row(9), 9, 4, BOUNDS).unwrap();
        assert_eq!(queue.first(), Some(9));
    }

    #[test]
    fn what_is_being_written_counts_until_it_is_stored() {
        let bounds = Bounds { bytes: 1000, events: 2 };
        let mut queue = Queue::default();
        queue.push(&row(0), 0, 0, bounds).unwrap();
        let batch = queue.take(bounds).unwrap();
        queue.push(&row(1), 1, 0, bounds).unwrap();
        assert_eq!(queue.push(&row(2), 2, 0, bounds), Err(Refused::Full));
        queue.stored(batch);
        queue.push(&row(2), 2, 1, bounds).unwrap();
        assert!(queue.is_half_full(bounds));
    }

    #[test]
    fn a_row_longer_than_all_room_is_taken_alone() {
        let bounds = Bounds { bytes: 8, events: 8 };
        let mut queue = Queue::default();
        queue.push(&row(0), 0, 0, bounds).unwrap();
        assert_eq!(queue.push(&row(1), 1, 0, bounds), Err(Refused::Full));
    }

    #[test]
    fn what_does_not_fit_is_taken_from_the_log_and_nothing_is_copied_twice() {
        let mut queue = Queue::default();
        for seq in 0..9 {
            queue.push_last(&row(seq), seq, 0, BOUNDS, || log(seq + 1)).unwrap();
            assert_eq!(queue.end(), Some(seq + 1));
        }
        assert_eq!(queue.push(&row(9), 9, 0, BOUNDS), Err(Refused::Full), "behind what waits in the log");
        let mut found = Vec::new();
        while let Some(batch) = queue.take(BOUNDS) {
            assert!(batch.rows.ends.len() <= BOUNDS.events);
            found.extend(seqs(&batch.rows));
            queue.stored(batch);
        }
        assert_eq!(found, (0..9).collect::<Vec<_>>());
        assert!(queue.is_empty());
        queue.push(&row(9), 9, 9, BOUNDS).unwrap();
    }
}
