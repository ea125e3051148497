//! The list of seqs that an event cites, `sourceEventSeqs`, in its two stored forms: plain seqs, and pairs `[first,last]`
//! that stand for a run.
//!
//! A few bytes can claim 2^53 seqs, so nothing here expands before it has compared: [`check`] and [`ranges`] never expand,
//! and [`decode`] expands at most as many seqs as there are events before the row.
//!
//! Spec: `format-spec/04-rows.md`, "Seq ranges".

use std::ops::Range;

use super::fault::RangeFault;
use crate::json;
use crate::units::Seq;

/// What a list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeRule {
    /// Unique seqs before the row's own, and ascending where ranges occur: what every generation's writers produce.
    Strict,
    /// What the original's v0 and v1 decoders let pass besides: repeats, the row's own seq and later ones, as long as
    /// they are no more than the events before the row. Only for judging whether the original would have read a row.
    Loose,
}

/// Checks a stored list without expanding it and returns how many seqs it stands for.
///
/// `text` is the member's JSON text. Every seq must be below `bound`, the row's own seq or the position where it stands,
/// whichever is smaller; none may occur twice; and if there are ranges, all must ascend. Time O(bytes), and O(n log n)
/// with a copy of the list if it has no ranges and does not ascend.
///
/// # Errors
/// [`RangeFault`], the first that applies from left to right; order and repeats are judged last.
///
/// Spec: `format-spec/04-rows.md`, "Seq ranges".
pub fn check(text: &str, bound: Seq) -> Result<u64, RangeFault> {
    check_by(RangeRule::Strict, text, bound)
}

pub(crate) fn check_by(rule: RangeRule, text: &str, bound: Seq) -> Result<u64, RangeFault> {
    let strict = rule == RangeRule::Strict;
    let bound = bound.get();
    let mut list = Entries::of(text)?;
    let mut count = 0_u64;
    let mut previous: Option<u64> = None;
    let (mut ascending, mut ranged) = (true, false);
    while let Some(entry) = list.next()? {
        // Both ends are at most 2^53 - 1, and `count` never passes `bound`: no sum here can wrap.
        if entry.end < entry.start {
            return Err(RangeFault::Backwards { start: entry.start, end: entry.end });
        }
        let len = entry.end.wrapping_sub(entry.start).wrapping_add(1);
        if strict && entry.end >= bound {
            return Err(RangeFault::Later { seq: entry.start.max(bound), bound });
        }
        if len > bound.wrapping_sub(count) {
            return Err(RangeFault::TooMany { bound });
        }
        count = count.wrapping_add(len);
        ranged |= entry.pair;
        ascending &= previous.is_none_or(|previous| previous < entry.start);
        previous = Some(entry.end);
    }
    if ascending {
        return Ok(count);
    }
    if ranged {
        return Err(RangeFault::NotAscending);
    }
    if strict {
        unique(text)?;
    }
    Ok(count)
}

/// The only check that needs memory, and only for a list that neither ascends nor has ranges.
fn unique(text: &str) -> Result<(), RangeFault> {
    let mut seqs = Vec::new();
    let mut list = Entries::of(text)?;
    while let Some(entry) = list.next()? {
        seqs.push(entry.start);
    }
    seqs.sort_unstable();
    match seqs.iter().zip(seqs.iter().skip(1)).find(|(a, b)| a == b) {
        Some((&seq, _)) => Err(RangeFault::Repeated { seq }),
        None => Ok(()),
    }
}

/// Replaces `out` by the seqs that a stored list stands for.
///
/// `bound` is the row's own seq or the position where the row stands, whichever is smaller: a row's claim about itself
/// does not decide how much memory it gets. The list is [`check`]ed first; at most `bound` seqs are ever written.
///
/// # Errors
/// Those of [`check`]; `out` is empty then.
pub fn decode(text: &str, bound: Seq, out: &mut Vec<u64>) -> Result<(), RangeFault> {
    out.clear();
    let count = check(text, bound)?;
    out.reserve(usize::try_from(count).unwrap_or(usize::MAX));
    for range in ranges(text, bound)? {
        out.extend(range);
    }
    Ok(())
}

/// The runs of a stored list, unexpanded and in its order: half-open ranges of seqs, a plain seq being a range of one.
///
/// # Errors
/// Those of [`check`], which runs first.
pub fn ranges(text: &str, bound: Seq) -> Result<SeqRanges<'_>, RangeFault> {
    check(text, bound)?;
    Ok(SeqRanges { entries: Entries::of(text)? })
}

/// Iterator of [`ranges`].
#[derive(Clone, Debug)]
pub struct SeqRanges<'a> {
    entries: Entries<'a>,
}

impl Iterator for SeqRanges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        // Checked before: neither a fault nor an end at 2^64 is left.
        self.entries.next().ok().flatten().map(|entry| entry.start..entry.end.saturating_add(1))
    }
}

/// Writes `seqs` in their stored form: runs of three and more as `[first,last]`, but only if the whole list ascends.
pub fn encode(seqs: &[u64], out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    if seqs.iter().zip(seqs.iter().skip(1)).all(|(a, b)| a < b) {
        let mut run: Option<(u64, u64)> = None;
        for &seq in seqs {
            run = match run {
                Some((first, last)) if last.checked_add(1) == Some(seq) => Some((first, seq)),
                done => {
                    writer.run(done);
                    Some((seq, seq))
                }
            };
        }
        writer.run(run);
    } else {
        seqs.iter().for_each(|&seq| writer.plain(seq));
    }
    writer.finish();
}

/// Writes a stored list again as [`encode`] would write its seqs, without expanding it.
///
/// # Errors
/// Those of [`check`]; nothing is written then.
pub fn recode(text: &str, bound: Seq, out: &mut Vec<u8>) -> Result<(), RangeFault> {
    let list = ranges(text, bound)?;
    let ascending = list.clone().zip(list.clone().skip(1)).all(|(a, b)| a.end <= b.start);
    let mut writer = Writer::new(out);
    if ascending {
        let mut run: Option<(u64, u64)> = None;
        for next in list {
            let last_of_next = next.end.saturating_sub(1);
            run = match run {
                Some((first, last)) if last.saturating_add(1) == next.start => Some((first, last_of_next)),
                done => {
                    writer.run(done);
                    Some((next.start, last_of_next))
                }
            };
        }
        writer.run(run);
    } else {
        // Not ascending, so there are no pairs to expand.
        list.for_each(|range| writer.plain(range.start));
    }
    writer.finish();
    Ok(())
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, first: true }
    }

    fn plain(&mut self, seq: u64) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        json::write_u64(self.out, seq);
    }

    /// One maximal run, both ends included: as a pair if it has three seqs or more.
    fn run(&mut self, run: Option<(u64, u64)>) {
        let Some((first, last)) = run else { return };
        match last.saturating_sub(first) {
            0 => self.plain(first),
            1 => {
                self.plain(first);
                self.plain(last);
            }
            _ => {
                if !std::mem::take(&mut self.first) {
                    self.out.push(b',');
                }
                self.out.push(b'[');
                json::write_u64(self.out, first);
                self.out.push(b',');
                json::write_u64(self.out, last);
                self.out.push(b']');
            }
        }
    }

    fn finish(self) {
        self.out.push(b']');
    }
}

/// One element of a stored list; `end` is included.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    pair: bool,
}

/// A reader of the two-level list grammar that needs no checked JSON under it.
#[derive(Clone, Debug)]
struct Entries<'a> {
    text: &'a str,
    at: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// After the opening bracket.
    First,
    /// After an entry.
    Later,
    Done,
}

impl<'a> Entries<'a> {
    fn of(text: &'a str) -> Result<Self, RangeFault> {
        let mut entries = Self { text, at: 0, state: State::First };
        if entries.take(b'[') { Ok(entries) } else { Err(RangeFault::NotArray) }
    }

    fn next(&mut self) -> Result<Option<Entry>, RangeFault> {
        let more = match self.state {
            State::Done => return Ok(None),
            State::First => !self.take(b']'),
            State::Later => {
                let closed = self.take(b']');
                if !closed && !self.take(b',') {
                    return Err(self.fault());
                }
                !closed
            }
        };
        if !more {
            self.state = State::Done;
            return if self.peek().is_none() { Ok(None) } else { Err(self.fault()) };
        }
        self.state = State::Later;
        if self.take(b'[') {
            let start = self.count()?;
            self.expect(b',')?;
            let end = self.count()?;
            self.expect(b']')?;
            return Ok(Some(Entry { start, end, pair: true }));
        }
        let seq = self.count()?;
        Ok(Some(Entry { start: seq, end: seq, pair: false }))
    }

    fn fault(&self) -> RangeFault {
        RangeFault::Entry { at: self.at }
    }

    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at = self.at.saturating_add(1);
        }
        None
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at = self.at.saturating_add(usize::from(found));
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), RangeFault> {
        if self.take(byte) { Ok(()) } else { Err(self.fault()) }
    }

    #[inline]
    fn count(&mut self) -> Result<u64, RangeFault> {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len =
            rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let token = rest.get(..len.count()).unwrap_or_default();
        let seq = count(token).ok_or(RangeFault::Entry { at: self.at })?;
        self.at = self.at.saturating_add(token.len());
        Ok(seq)
    }
}

/// The value of a number token if it is a count, as [`json::Number::as_count`], but for tokens that nobody has checked.
#[inline]
fn count(token: &str) -> Option<u64> {
    let digits = token.as_bytes();
    if let [b'1'..=b'9', ..] | [b'0'] = digits
        && digits.len() <= 15
        && digits.iter().all(u8::is_ascii_digit)
    {
        // At most 15 digits: below 2^53 - 1.
        let value =
            |sum: u64, digit: &u8| sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')));
        return Some(digits.iter().fold(0, value));
    }
    json::check(digits, 0).ok()?;
    json::Number::new(token).as_count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seq(n: u64) -> Seq {
        Seq::new(n).unwrap()
    }

    fn encoded(seqs: &[u64]) -> String {
        let mut out = Vec::new();
        encode(seqs, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn decoded(text: &str, bound: u64) -> Result<Vec<u64>, RangeFault> {
        let mut out = vec![99];
        decode(text, seq(bound), &mut out).map(|()| out)
    }

    #[test]
    fn the_encoding_table_of_the_format() {
        for (logical, stored) in [
            (&[][..], "[]"),
            (&[5], "[5]"),
            (&[1, 2], "[1,2]"),
            (&[1, 2, 3], "[[1,3]]"),
            (&[1, 3, 4, 5, 7], "[1,[3,5],7]"),
            (&[1, 2, 4, 5, 6, 9, 10], "[1,2,[4,6],9,10]"),
            (&[3, 2], "[3,2]"),
            (&[1, 1], "[1,1]"),
            (&[1, 2, 3, 3], "[1,2,3,3]"),
        ] {
            assert_eq!(encoded(logical), stored);
        }
        assert_eq!(
            encoded(&[u64::MAX - 2, u64::MAX - 1, u64::MAX]),
            format!("[[{},{}]]", u64::MAX - 2, u64::MAX)
        );
    }

    #[test]
    fn both_forms_decode_with_any_spelling_of_their_numbers() {
        assert_eq!(decoded("[]", 0), Ok(vec![]));
        assert_eq!(decoded("[[3,3],[4,6],9]", 10), Ok(vec![3, 4, 5, 6, 9]));
        assert_eq!(decoded(" [ 3 , [ 4 ,\t5 ] ] ", 10), Ok(vec![3, 4, 5]));
        assert_eq!(decoded("[1.0,2E0,0.3e1,1.0000000000000000001e1]", 11), Ok(vec![1, 2, 3, 10]));
        assert_eq!(decoded("[3,2]", 10), Ok(vec![3, 2]));
    }

    #[test]
    fn entries_that_are_no_seqs_are_refused_with_their_place() {
        for (text, at) in [
            ("[-0]", 1),
            ("[-1]", 1),
            ("[1.5]", 1),
            ("[1e400]", 1),
            ("[9007199254740992]", 1),
            ("[01]", 1),
            ("[1,]", 3),
            ("[,1]", 1),
            ("[1 2]", 3),
            ("[null]", 1),
            ("[\"1\"]", 1),
            ("[{}]", 1),
            ("[[1]]", 3),
            ("[[1,2,3]]", 5),
            ("[[]]", 2),
            ("[[1,[2]]]", 4),
            ("[1", 2),
            ("[1]]", 3),
            ("[1] x", 4),
            ("[", 1),
        ] {
            assert_eq!(decoded(text, 1000), Err(RangeFault::Entry { at }), "{text}");
        }
        for text in ["", "5", "{}", "\"[1]\"", "null"] {
            assert_eq!(decoded(text, 1000), Err(RangeFault::NotArray), "{text}");
        }
    }

    #[test]
    fn own_later_and_repeated_seqs_are_refused() {
        assert_eq!(decoded("[10]", 10), Err(RangeFault::Later { seq: 10, bound: 10 }));
        assert_eq!(decoded("[11]", 10), Err(RangeFault::Later { seq: 11, bound: 10 }));
        assert_eq!(decoded("[[8,12]]", 10), Err(RangeFault::Later { seq: 10, bound: 10 }));
        assert_eq!(decoded("[1,1]", 10), Err(RangeFault::Repeated { seq: 1 }));
        assert_eq!(decoded("[7,3,5,3]", 10), Err(RangeFault::Repeated { seq: 3 }));
        assert_eq!(decoded("[[5,4]]", 10), Err(RangeFault::Backwards { start: 5, end: 4 }));
        assert_eq!(decoded("[[1,3],2]", 10), Err(RangeFault::NotAscending));
        assert_eq!(decoded("[4,[1,3]]", 10), Err(RangeFault::NotAscending));
        assert_eq!(decoded("[1,1,1]", 2), Err(RangeFault::TooMany { bound: 2 }));
    }

    #[test]
    fn a_claim_of_all_seqs_costs_nothing() {
        let all = "[[0,9007199254740990]]";
        assert_eq!(check(all, Seq::MAX), Ok(9_007_199_254_740_991));
        assert_eq!(decoded(all, 4), Err(RangeFault::Later { seq: 4, bound: 4 }));
        let mut out = Vec::new();
        recode(all, Seq::MAX, &mut out).unwrap();
        assert_eq!(out, all.as_bytes());
    }

    /// What the reference says that v0 and v1 let pass at seq 10.
    #[test]
    fn the_loose_rule_lets_pass_what_the_original_does() {
        for text in ["[1,1]", "[10]", "[11]", "[[10,12]]"] {
            assert!(check_by(RangeRule::Loose, text, seq(10)).is_ok(), "{text}");
            assert!(check(text, seq(10)).is_err(), "{text}");
        }
        assert_eq!(check_by(RangeRule::Loose, "[1,1]", seq(1)), Err(RangeFault::TooMany { bound: 1 }));
        assert_eq!(check_by(RangeRule::Loose, "[[1,3],2]", seq(10)), Err(RangeFault::NotAscending));
        assert_eq!(
            check_by(RangeRule::Loose, "[[3,1]]", seq(10)),
            Err(RangeFault::Backwards { start: 3, end: 1 })
        );
    }

    #[test]
    fn recoding_gives_the_writers_form() {
        for (text, stored) in [
            ("[[3,3]]", "[3]"),
            ("[[1,2],[3,3],4,9]", "[[1,4],9]"),
            ("[ 1.0 ,2,3]", "[[1,3]]"),
            ("[3,2,1]", "[3,2,1]"),
            ("[]", "[]"),
        ] {
            let mut out = Vec::new();
            recode(text, seq(10), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), stored);
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(mut seqs in proptest::collection::vec(0_u64..400, 0..80), sorted: bool) {
            if sorted {
                seqs.sort_unstable();
                seqs.dedup();
            }
            let text = encoded(&seqs);
            let unique = seqs.iter().collect::<std::collections::HashSet<_>>().len() == seqs.len();
            if unique {
                prop_assert_eq!(decoded(&text, 400).unwrap(), seqs.clone());
            } else {
                let repeated = matches!(decoded(&text, 400), Err(RangeFault::Repeated { .. }));
                prop_assert!(repeated);
            }
            let mut again = Vec::new();
            if recode(&text, seq(400), &mut again).is_ok() {
                prop_assert_eq!(again, text.into_bytes());
            }
        }

        #[test]
        fn decoding_never_passes_its_bound(text in "[\\[\\]0-9, ]{0,24}", bound in 0_u64..64) {
            crate::fuzzing::range::decode_is_bounded(&text, bound);
        }

        #[test]
        fn lists_near_the_bound_are_bounded_too(
            pairs in proptest::collection::vec((0_u64..40, 0_u64..6, any::<bool>()), 0..6),
            bound in 0_u64..48,
        ) {
            let items = pairs.iter().map(|&(start, len, pair)| {
                if pair { format!("[{start},{}]", start + len) } else { start.to_string() }
            });
            let text = format!("[{}]", items.collect::<Vec<_>>().join(","));
            crate::fuzzing::range::decode_is_bounded(&text, bound);
        }
    }
}
