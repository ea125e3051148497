//! A generator of sound logs: any bytes are the plan of one.

use std::ops::Range;

use super::choices::Choices;
use crate::container::{Batch, BlockWriter, Encoding, LogId, RowMark, create};

/// A sound log of generation 2, and what went into it.
#[derive(Clone, Debug)]
pub struct MadeLog {
    /// How it is stored.
    pub encoding: Encoding,
    /// What its trailers are sealed with, if it has some.
    pub id: LogId,
    /// The file.
    pub bytes: Vec<u8>,
    /// The header line and the rows, each with its newline.
    pub lines: Vec<Vec<u8>>,
    /// Stored bytes of the header.
    pub header_end: usize,
    /// The appends, in order.
    pub appends: Vec<MadeAppend>,
}

/// One append to a [`MadeLog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeAppend {
    /// Where its bytes stand in the file.
    pub bytes: Range<usize>,
    /// Lines of the log before it, the header's included, and behind it.
    pub lines: Range<usize>,
    /// Bytes of the file that had been synced when it was written.
    pub durable: usize,
}

/// Appends in one log at most. A plan of many bytes makes larger ones instead.
const APPENDS_MAX: usize = 12;
/// Creation time of every made log, in Unix milliseconds.
const CREATED_AT: i64 = 1_700_000_000_000;

impl MadeLog {
    /// Makes the log that `choices` describe, up to a zero byte or twelve appends.
    ///
    /// Its rows are events that every reader of generation 2 takes. In the indexed encoding an append may have several
    /// segments, end in a marker, and stay unsynced; in the others each append is one record and is synced.
    ///
    /// # Panics
    /// If a writer refuses a sound row.
    #[must_use]
    pub fn new(encoding: Encoding, choices: &mut Choices<'_>) -> Self {
        let id = LogId::new(choices.long() | 1).expect("an odd number is not 0");
        let cwd = match choices.byte() {
            0..=99 => String::new(),
            byte => format!(",\"cwd\":\"/{}\"", "d".repeat(usize::from(byte) % 40)),
        };
        let header = format!(
            "{{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":{CREATED_AT}{cwd},\"isSeeded\":false,\"delegationDepth\":0}}\n"
        );
        let mut bytes = Vec::new();
        let mut writer =
            create(encoding, id, header.as_bytes(), CREATED_AT, 1, &mut bytes).expect("a short header");
        writer.accept(true);
        let header_end = bytes.len();
        let mut log =
            Self { encoding, id, bytes, lines: vec![header.into_bytes()], header_end, appends: Vec::new() };
        let mut durable = header_end;
        while log.appends.len() < APPENDS_MAX {
            let plan = choices.byte();
            if plan == 0 {
                break;
            }
            log.append(&mut *writer, plan, durable, choices);
            if encoding != Encoding::Indexed || plan & 0x20 == 0 {
                durable = log.bytes.len();
            }
        }
        log
    }

    fn append(&mut self, writer: &mut dyn BlockWriter, plan: u8, durable: usize, choices: &mut Choices<'_>) {
        let (start, first_line) = (self.bytes.len(), self.lines.len());
        let is_indexed = self.encoding == Encoding::Indexed;
        let mut content = Vec::new();
        let mut marks = Vec::new();
        for _ in 0..=plan % 4 {
            let row = self.row(choices, plan & 0x10 != 0);
            content.extend_from_slice(&row);
            let last_time = CREATED_AT.saturating_add(i64::try_from(self.lines.len()).unwrap_or(0));
            marks.push(RowMark { end: content.len(), events: 1, last_time });
            self.lines.push(row);
        }
        let whole = Batch { content: &content, rows: &marks };
        let split = marks.split_at(marks.len().div_euclid(2));
        match split.0.last() {
            // Half of the rows in one segment, half in the next.
            Some(half) if is_indexed && plan & 0x40 != 0 => {
                let (first, second) = content.split_at(half.end);
                let first = Batch { content: first, rows: split.0 };
                let moved = |mark: &RowMark| RowMark { end: mark.end.saturating_sub(half.end), ..*mark };
                let rows: Vec<RowMark> = split.1.iter().map(moved).collect();
                let second = Batch { content: second, rows: &rows };
                writer.stage_part(&first, &mut self.bytes).expect("short rows");
                writer.stage(&second, &mut self.bytes).expect("short rows");
            }
            _ if is_indexed && plan & 0x80 != 0 => {
                writer.stage_part(&whole, &mut self.bytes).expect("short rows");
                writer.stage_marker(&mut self.bytes).expect("a marker");
            }
            _ => writer.stage(&whole, &mut self.bytes).expect("short rows"),
        }
        writer.accept(!is_indexed || plan & 0x20 == 0);
        self.appends.push(MadeAppend {
            bytes: start..self.bytes.len(),
            lines: first_line..self.lines.len(),
            durable,
        });
    }

    /// The next event, with its newline. A long one has text that does not compress and spans sectors.
    fn row(&self, choices: &mut Choices<'_>, is_long: bool) -> Vec<u8> {
        let seq = self.lines.len().saturating_sub(1);
        let shape = choices.byte();
        let mut note = match shape % 4 {
            0 => String::new(),
            1 => "\\u0000 \\ud83d\\ude00 é \\\"".to_owned(),
            _ => "lorem ".repeat(usize::from(shape >> 3)),
        };
        if is_long {
            let mut state = u64::from(choices.word()) | 1;
            for _ in 0..usize::from(shape) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                note.push_str(&format!("{state:016x}"));
            }
        }
        let time = CREATED_AT.saturating_add(i64::try_from(seq).unwrap_or(0)).saturating_add(1);
        format!(
            "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{time},\"data\":{{\"active\":true,\"note\":\"{note}\"}}}}\n"
        )
        .into_bytes()
    }

    /// The text of the log: its lines, one behind the other.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        self.lines.concat()
    }

    /// Events of the log.
    #[must_use]
    pub fn events(&self) -> u64 {
        (self.lines.len() as u64).saturating_sub(1)
    }

    /// Bytes that the last sync covered before the last append was written: what a crash of that moment cannot touch.
    #[must_use]
    pub fn durable(&self) -> usize {
        self.appends.last().map_or(self.header_end, |append| append.durable)
    }

    /// Lines whose records end at or before `end` in the file, the header's included.
    #[must_use]
    pub fn lines_within(&self, end: usize) -> usize {
        let appends = self.appends.iter().take_while(|append| append.bytes.end <= end);
        appends.last().map_or(1, |append| append.lines.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{TailState, reader};
    use crate::limits::Limits;

    #[test]
    fn every_plan_is_a_sound_log_whose_text_reads_back() {
        let mut plans: Vec<Vec<u8>> = vec![vec![]];
        for plan in 1..=255_u8 {
            plans.push([&[plan; 9][..], &[plan, plan ^ 0x70, 9, 9, 250, 17, plan, 33, 3, 200]].concat());
        }
        for plan in plans {
            for encoding in Encoding::ALL {
                let log = MadeLog::new(encoding, &mut Choices::new(&plan));
                let mut blocks = reader(encoding, Limits::DEFAULT);
                let (mut text, mut source) = (Vec::new(), log.bytes.as_slice());
                while let Some(block) = blocks.next(&mut source).expect("sound") {
                    text.extend_from_slice(block.content);
                }
                assert_eq!(text, log.text());
                let tail = blocks.tail().expect("judged");
                assert_eq!(tail.state, TailState::Complete, "{encoding}: {tail:?}");
                assert_eq!(log.lines_within(log.bytes.len()), log.lines.len());
                assert!(log.durable() <= log.bytes.len() && log.header_end <= log.durable());
            }
        }
    }
}
