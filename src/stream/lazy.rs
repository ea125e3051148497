//! Records as readers see them that want one answer and no check of the rest.

use super::chunk::RawChunk;
use super::fault::{RecordFault, StreamFault};
use super::fragment::Fragment;
use super::general;
use super::record::{Head, Slot, Table};
use super::scan;
use super::value::{member, string_end, value_end, white_space};
use crate::json::{Number, Tape, check};
use crate::limits::Limits;

/// A record of which only the beginning was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peeked<'a> {
    Run(PeekedRun<'a>),
    Raw { time: i64, chunk: RawChunk<'a> },
}

/// A run whose arrays are still text.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeekedRun<'a> {
    pub(super) head: Head<'a>,
    /// The inside of `dt`.
    pub(super) gaps: &'a str,
    /// The inside of `texts` or `args`, and whatever follows.
    pub(super) fragments: &'a str,
}

impl<'a> PeekedRun<'a> {
    /// Its members, decoded as far as they are asked for.
    pub(super) fn members(self) -> PeekedMembers<'a> {
        PeekedMembers { time: self.head.time0, gaps: None, run: self, at: 0 }
    }
}

/// Iterator over the times and fragments of a run that is trusted.
pub(super) struct PeekedMembers<'a> {
    run: PeekedRun<'a>,
    time: i64,
    /// What is left of the gaps; `None` before the first member.
    gaps: Option<&'a [u8]>,
    /// Where the next fragment is to be looked for.
    at: usize,
}

impl<'a> Iterator for PeekedMembers<'a> {
    type Item = (i64, Fragment<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.run.fragments.as_bytes();
        let mut start = self.at;
        while let Some(b',' | b' ' | b'\t' | b'\n' | b'\r') = bytes.get(start) {
            start = start.saturating_add(1);
        }
        let end = string_end(bytes, start)?;
        let text = self.run.fragments.get(start.saturating_add(1)..end.saturating_sub(1))?;
        self.at = end;
        self.gaps = Some(match self.gaps {
            None => self.run.gaps.as_bytes(),
            Some(gaps) => {
                let (gap, rest) = next_gap(gaps)?;
                self.time = self.time.saturating_add(gap);
                rest
            }
        });
        Some((self.time, Fragment::new(text)))
    }
}

/// The first number of a list, and what follows its comma.
fn next_gap(list: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((gap, len)) = scan::integer(list) {
        match list.get(len..)? {
            [] => return Some((gap, &[])),
            [b',', rest @ ..] => return Some((gap, rest)),
            _ => {}
        }
    }
    let len = memchr::memchr(b',', list).unwrap_or(list.len());
    let (number, rest) = list.split_at_checked(len)?;
    let number = Number::of_value(std::str::from_utf8(number).ok()?.trim_ascii())?;
    let gap = number.as_safe_integer().or_else(|| number.is_negative_zero().then_some(0))?;
    Some((gap, rest.get(1..).unwrap_or_default()))
}

/// Steps from record to record.
#[derive(Debug)]
pub(super) struct PeekedRecords<'a> {
    text: &'a str,
    /// Where the next record, or what separates it from the one before, is.
    at: usize,
    /// Whether `at` is the bracket before the fragments of a run that was handed out.
    in_run: bool,
    record: usize,
    tape: Tape,
    table: Table,
}

impl<'a> PeekedRecords<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, at: 0, in_run: false, record: 0, tape: Tape::default(), table: Table::default() }
    }

    /// The next record; `None` at the end of the array.
    pub(super) fn next(&mut self) -> Result<Option<Peeked<'a>>, StreamFault> {
        let bytes = self.text.as_bytes();
        if self.in_run {
            let end = value_end(bytes, self.at).ok_or_else(|| self.fault())?;
            let end = white_space(bytes, end);
            match bytes.get(end) {
                Some(b'}') => self.at = end.saturating_add(1),
                // A member that stands twice, and the one that was handed out does not count.
                Some(b',') => {
                    let record = self.record.saturating_sub(1);
                    return Err(StreamFault::Record { record, fault: RecordFault::MemberSet });
                }
                _ => return Err(self.fault()),
            }
            self.in_run = false;
        }
        let at = white_space(bytes, self.at);
        self.at = match (bytes.get(at), self.record) {
            (Some(b']'), 1..) => return Ok(None),
            (Some(b','), 1..) | (Some(b'['), 0) => white_space(bytes, at.saturating_add(1)),
            _ => return Err(self.fault()),
        };
        if self.record == 0 && bytes.get(self.at) == Some(&b']') {
            self.record = 1;
            return Ok(None);
        }
        let (peeked, next) = match scan::peek(self.text, self.at) {
            Some((peeked, next)) => {
                self.in_run = matches!(peeked, Peeked::Run(_));
                (peeked, next)
            }
            None => self.general()?,
        };
        self.at = next;
        self.record = self.record.saturating_add(1);
        Ok(Some(peeked))
    }

    /// The record at `at`, of any spelling, and its end.
    #[cold]
    fn general(&mut self) -> Result<(Peeked<'a>, usize), StreamFault> {
        let found = value_end(self.text.as_bytes(), self.at)
            .and_then(|end| self.text.get(self.at..end).map(|json| (json, end)));
        let Some((json, end)) = found else { return Err(self.fault()) };
        let Ok(node) = self.tape.parse(json.as_bytes(), Limits::DEFAULT.nesting_max) else {
            return Err(self.fault());
        };
        self.table.members.clear();
        self.table.wide.clear();
        let record = self.record;
        let slot = general::record(json, node, &mut self.table)
            .map_err(|fault| StreamFault::Record { record, fault })?;
        let peeked = match slot {
            Slot::Raw { time, chunk } => Peeked::Raw { time, chunk },
            Slot::Run(run) => {
                let gaps = member(json, "dt").and_then(|dt| dt.strip_prefix('[')?.strip_suffix(']'));
                let gaps = gaps.unwrap_or_default().trim_ascii();
                Peeked::Run(PeekedRun { head: run.head, gaps, fragments: run.fragments })
            }
        };
        Ok((peeked, end))
    }

    /// What is wrong with a text that does not go on as an array of records does.
    fn fault(&self) -> StreamFault {
        match check(self.text.as_bytes(), Limits::DEFAULT.nesting_max) {
            Err(fault) => StreamFault::Syntax(fault),
            Ok(()) => StreamFault::NotAnArray,
        }
    }
}
