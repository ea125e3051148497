//! Lines of a log in memory: they are only ever added, so whoever counted them once can read them without a lock.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::store::events::{Checked, Events};

/// The lines of a log, in the batches that wrote them. Grows at its end and changes in no other way.
#[derive(Debug, Default)]
pub(super) struct Rows(RwLock<Vec<Arc<Batch>>>);

/// The lines of one append.
#[derive(Debug)]
struct Batch {
    /// Number of its first line in the log, from 0.
    first: usize,
    text: Vec<u8>,
    /// Exclusive end of each line in `text`, newline included.
    ends: Vec<usize>,
}

impl Rows {
    /// Rows of which nobody knows anything. They have no newlines.
    #[cfg(feature = "fault")]
    pub(super) fn of_lines(lines: &[&[u8]]) -> Self {
        let rows = Self::default();
        if !lines.is_empty() {
            let mut batch = Batch { first: 0, text: Vec::new(), ends: Vec::new() };
            lines.iter().for_each(|line| batch.push(line));
            rows.0.write().push(Arc::new(batch));
        }
        rows
    }

    /// The rows of a converted log.
    pub(super) fn of_events(events: &Events) -> Self {
        let rows = Self::default();
        if !events.is_empty() {
            let mut batch =
                Batch { first: 0, text: Vec::with_capacity(events.as_bytes().len()), ends: Vec::new() };
            events.rows().for_each(|line| batch.push(line));
            rows.0.write().push(Arc::new(batch));
        }
        rows
    }

    /// Adds a batch that was checked. Constant time: its text is taken as it is.
    pub(super) fn push(&self, batch: Checked) {
        if batch.marks.is_empty() {
            return;
        }
        let ends = batch.marks.iter().map(|mark| mark.end).collect();
        let mut batches = self.0.write();
        let first = batches.last().map_or(0, |last| last.next());
        batches.push(Arc::new(Batch { first, text: batch.content, ends }));
    }

    /// Rows of their own with the first `lines` of these. Batches are shared; one in which the cut falls is copied.
    pub(super) fn prefix(&self, lines: usize) -> Self {
        let mut kept: Vec<Arc<Batch>> = Vec::new();
        for batch in &*self.0.read() {
            if batch.next() <= lines {
                kept.push(Arc::clone(batch));
            } else if batch.first < lines {
                kept.push(Arc::new(batch.prefix(lines.saturating_sub(batch.first))));
            }
        }
        Self(RwLock::new(kept))
    }

    /// Bytes of all lines, newlines included.
    pub(super) fn bytes(&self) -> u64 {
        self.0.read().iter().map(|batch| batch.text.len() as u64).sum()
    }

    /// Number of the line with which the batch of line `line` begins.
    #[cfg(feature = "fault")]
    pub(super) fn batch_start(&self, line: usize) -> usize {
        self.overlapping(line, line.saturating_add(1)).first().map_or(line, |batch| batch.first)
    }

    /// Calls `visit` with each of the lines `from..to`, without its newline, until it breaks.
    pub(super) fn each(&self, from: usize, to: usize, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) {
        for batch in self.overlapping(from, to) {
            for index in
                from.saturating_sub(batch.first)..to.saturating_sub(batch.first).min(batch.ends.len())
            {
                if visit(batch.line(index)).is_break() {
                    return;
                }
            }
        }
    }

    /// The line `line`, without its newline.
    pub(super) fn line(&self, line: usize) -> Option<Vec<u8>> {
        let mut found = None;
        self.each(line, line.saturating_add(1), &mut |text| {
            found = Some(text.to_vec());
            ControlFlow::Break(())
        });
        found
    }

    /// The lines `from..to`, which were read as events.
    pub(super) fn events(&self, from: usize, to: usize) -> Events {
        let mut events = Events::default();
        self.each(from, to, &mut |line| {
            events.push_line(line);
            ControlFlow::Continue(())
        });
        events
    }

    /// The batches of the lines `from..to`: time O(log batches + those), and no line is copied.
    fn overlapping(&self, from: usize, to: usize) -> Vec<Arc<Batch>> {
        let batches = self.0.read();
        let start = batches.partition_point(|batch| batch.next() <= from);
        let end = batches.partition_point(|batch| batch.first < to);
        batches.get(start..end).unwrap_or_default().to_vec()
    }
}

impl Batch {
    fn next(&self) -> usize {
        self.first.saturating_add(self.ends.len())
    }

    fn push(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.ends.push(self.text.len());
    }

    fn line(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let end = self.ends.get(index).and_then(|end| end.checked_sub(1));
        start.zip(end).and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }

    fn prefix(&self, lines: usize) -> Self {
        let ends = self.ends.get(..lines).unwrap_or(&self.ends).to_vec();
        let text = self.text.get(..ends.last().copied().unwrap_or(0)).unwrap_or_default().to_vec();
        Self { first: self.first, text, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::session::Admission;
    use crate::store::admit::check_rows;

    fn row(seq: u64) -> String {
        format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":1,\"data\":{{}}}}")
    }

    /// Ten lines, in batches of 1, 2, 3 and 4.
    fn rows() -> Rows {
        let rows = Rows::default();
        for seqs in [0..1, 1..3, 3..6, 6..10_u64] {
            let first = seqs.start;
            let lines: Vec<String> = seqs.map(row).collect();
            let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
            rows.push(check_rows(&lines, first, Admission::Readable, &Limits::DEFAULT, "s").unwrap());
        }
        rows
    }

    #[test]
    fn every_range_gives_the_lines_in_it() {
        let rows = rows();
        let all: Vec<String> = (0..10).map(row).collect();
        for from in 0..12 {
            for to in 0..12 {
                let events = rows.events(from, to);
                let found: Vec<&[u8]> = events.rows().collect();
                let expected = all.get(from.min(10)..to.min(10)).unwrap_or_default();
                assert_eq!(found, expected.iter().map(String::as_bytes).collect::<Vec<_>>(), "{from}..{to}");
            }
        }
        assert_eq!(rows.line(9), Some(row(9).into_bytes()));
        assert_eq!(rows.line(10), None);
    }

    #[test]
    fn a_prefix_goes_its_own_way() {
        let rows = rows();
        for lines in 0..=10 {
            let prefix = rows.prefix(lines);
            assert_eq!(prefix.events(0, 20).as_bytes(), rows.events(0, lines).as_bytes());
            let next = lines as u64;
            let line = row(next);
            let batch = check_rows(&[line.as_bytes()], next, Admission::Readable, &Limits::DEFAULT, "s");
            prefix.push(batch.unwrap());
            assert_eq!(prefix.events(0, 20).len(), lines + 1);
        }
        assert_eq!(rows.events(0, 20).len(), 10);
    }
}
