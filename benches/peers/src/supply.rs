//! Rows without end: the events of a session over and over, with seqs that go on.

use crate::set::Event;

/// A row of its own.
#[derive(Clone, Debug)]
pub struct Made {
    row: String,
    kind: (usize, usize),
    seq: u64,
    time: i64,
    payload_at: usize,
}

impl Made {
    pub fn event(&self) -> Event<'_> {
        Event {
            seq: self.seq,
            time: self.time,
            kind: &self.row[self.kind.0..self.kind.1],
            payload: &self.row[self.payload_at..self.row.len() - 1],
            row: &self.row,
        }
    }
}

#[derive(Debug)]
pub struct Supply<'a> {
    events: &'a [Event<'a>],
    next: u64,
}

impl<'a> Supply<'a> {
    pub fn new(events: &'a [Event<'a>]) -> Self {
        Self { events, next: 0 }
    }

    /// The next `count` rows.
    pub fn take(&mut self, count: usize) -> Vec<Made> {
        (0..count).map(|_| self.one()).collect()
    }

    fn one(&mut self) -> Made {
        let seq = self.next;
        self.next += 1;
        let event = &self.events[usize::try_from(seq).expect("they are in memory") % self.events.len()];
        // A row may cite only what stands before it, and seqs are given anew: nothing is cited.
        let cited = event
            .payload
            .rfind(",\"sourceEventSeqs\":[")
            .and_then(|start| Some((start, start + event.payload[start..].find(']')? + 1)));
        let (head, tail) = match cited {
            Some((start, end)) => (&event.payload[..start], &event.payload[end..]),
            None => (event.payload, ""),
        };
        let start = format!("{{\"type\":\"{}\",\"seq\":{seq},\"time\":{},\"data\":", event.kind, event.time);
        let payload_at = start.len();
        Made {
            row: format!("{start}{head}{tail}}}"),
            kind: (9, 9 + event.kind.len()),
            seq,
            time: event.time,
            payload_at,
        }
    }
}
