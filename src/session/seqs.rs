//! Lists of seqs, kept as runs.

use crate::json::{Node, Number, write_u64};
use crate::row::{RangeFault, range};
use crate::units::Seq;

/// A list of seqs in its written order, kept as runs of consecutive numbers.
///
/// `[4,5,6]` and `[[4,6]]` are the same list. Memory is one run for each stored entry at most, whatever a range spans.
#[derive(Clone, Debug)]
pub(crate) struct SeqList {
    runs: Vec<Run>,
    len: u64,
    increasing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    /// Inclusive.
    last: u64,
}

/// Which generation's rules a stored list of sources follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceRules {
    /// v0 and v1: as many elements as there are earlier events, whatever they are.
    Counted,
    /// v2: every element once and earlier than the event.
    Earlier,
}

impl Default for SeqList {
    fn default() -> Self {
        Self { runs: Vec::new(), len: 0, increasing: true }
    }
}

impl SeqList {
    /// Forgets the list and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.len = 0;
        self.increasing = true;
    }

    /// Reads the stored form of `sourceEventSeqs` of the event `own`: counts and `[first, last]` pairs.
    ///
    /// `None` if it has no stored form under `rules`; the list is then of no use.
    ///
    /// Spec: `format-spec/04-rows.md`, "Ranges".
    pub(crate) fn read_sources(&mut self, value: Node<'_>, own: u64, rules: SourceRules) -> Option<()> {
        self.clear();
        let mut has_range = false;
        for entry in value.items()? {
            let free = own.checked_sub(self.len);
            if let Some(number) = entry.as_number() {
                if rules == SourceRules::Counted && free.is_none_or(|free| free == 0) {
                    return None;
                }
                let n = number.as_count()?;
                self.push_run(n, n);
            } else {
                let mut ends = entry.items()?.map(|end| end.as_number().and_then(Number::as_count));
                let (Some(Some(first)), Some(Some(last)), None) = (ends.next(), ends.next(), ends.next())
                else {
                    return None;
                };
                let len = last.checked_sub(first)?.checked_add(1)?;
                if free.is_none_or(|free| len > free) || rules == SourceRules::Earlier && last >= own {
                    return None;
                }
                has_range = true;
                self.push_run(first, last);
            }
        }
        if has_range && !self.increasing {
            return None;
        }
        (rules == SourceRules::Counted || self.is_below(own) && self.is_unique()).then_some(())
    }

    /// Reads the member's text of an event whose row was read: unique seqs before `own`.
    pub(crate) fn read_stored(&mut self, text: &str, own: Seq) -> Result<(), RangeFault> {
        self.clear();
        for run in range::ranges(text, own)? {
            self.push_run(run.start, run.end.saturating_sub(1));
        }
        Ok(())
    }

    /// Reads a list of plain counts.
    pub(crate) fn read_counts(&mut self, value: Node<'_>) -> Option<()> {
        self.clear();
        for entry in value.items()? {
            let n = entry.as_number()?.as_count()?;
            self.push_run(n, n);
        }
        Some(())
    }

    /// Appends `first..=last`, which continues the last run if it follows it directly.
    pub(crate) fn push_run(&mut self, first: u64, last: u64) {
        self.len = self.len.saturating_add(last.saturating_sub(first)).saturating_add(1);
        match self.runs.last_mut() {
            Some(run) if run.last.checked_add(1) == Some(first) => run.last = last,
            previous => {
                self.increasing &= previous.is_none_or(|run| run.last < first);
                self.runs.push(Run { first, last });
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first element.
    pub(crate) fn first(&self) -> Option<u64> {
        self.runs.first().map(|run| run.first)
    }

    /// Every element, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| run.first..=run.last)
    }

    /// The runs of consecutive seqs, in order; both ends included.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| (run.first, run.last))
    }

    /// Whether both lists have the same elements in the same order. Time O(runs).
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.runs == other.runs
    }

    /// Whether no element occurs twice.
    pub(crate) fn is_unique(&self) -> bool {
        if self.increasing {
            return true;
        }
        let mut sorted = self.runs.clone();
        sorted.sort_unstable_by_key(|run| run.first);
        sorted.windows(2).all(|pair| match pair {
            [a, b] => a.last < b.first,
            _ => true,
        })
    }

    /// Whether every element is below `bound`.
    pub(crate) fn is_below(&self, bound: u64) -> bool {
        self.runs.iter().all(|run| run.last < bound)
    }

    /// Whether `seq` is in an ascending list. Time O(log runs).
    pub(crate) fn ascending_contains(&self, seq: u64) -> bool {
        contains(&self.runs, seq)
    }

    /// The same elements as ascending, disjoint runs, for [`SortedSeqs::contains`].
    pub(crate) fn sorted(&self) -> SortedSeqs {
        let mut runs = self.runs.clone();
        if !self.increasing {
            runs.sort_unstable_by_key(|run| run.first);
            // Overlaps only repeat elements: let every run end at the furthest end so far.
            let mut furthest = 0;
            for run in &mut runs {
                furthest = furthest.max(run.last);
                run.last = furthest;
            }
        }
        SortedSeqs(runs)
    }

    /// Appends the stored form of a list of sources: ranges where three or more seqs of an ascending list are consecutive.
    pub(crate) fn write_sources(&self, out: &mut Vec<u8>) {
        self.write(out, self.increasing);
    }

    /// Appends a list of plain numbers.
    pub(crate) fn write_counts(&self, out: &mut Vec<u8>) {
        self.write(out, false);
    }

    fn write(&self, out: &mut Vec<u8>, ranges: bool) {
        out.push(b'[');
        for (index, run) in self.runs.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if ranges && run.last.saturating_sub(run.first) >= 2 {
                out.push(b'[');
                write_u64(out, run.first);
                out.push(b',');
                write_u64(out, run.last);
                out.push(b']');
            } else {
                for seq in run.first..=run.last {
                    if seq > run.first {
                        out.push(b',');
                    }
                    write_u64(out, seq);
                }
            }
        }
        out.push(b']');
    }
}

/// A set of seqs that answers membership in O(log runs).
#[derive(Debug)]
pub(crate) struct SortedSeqs(Vec<Run>);

impl SortedSeqs {
    /// Whether `seq` is in the set. Runs may overlap only in that a later one starts inside an earlier one.
    pub(crate) fn contains(&self, seq: u64) -> bool {
        contains(&self.0, seq)
    }
}

fn contains(runs: &[Run], seq: u64) -> bool {
    let after = runs.partition_point(|run| run.first <= seq);
    after.checked_sub(1).and_then(|at| runs.get(at)).is_some_and(|run| seq <= run.last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn read(text: &str, own: u64, rules: SourceRules) -> Option<Vec<u64>> {
        let mut tape = Tape::default();
        let node = tape.parse(text.as_bytes(), 10).expect("test data is JSON");
        let mut list = SeqList::default();
        list.read_sources(node, own, rules)?;
        Some(list.iter().collect())
    }

    fn list(seqs: &[u64]) -> SeqList {
        let mut list = SeqList::default();
        seqs.iter().for_each(|seq| list.push_run(*seq, *seq));
        list
    }

    #[test]
    fn ranges_are_read_by_the_rules_of_their_generation() {
        use SourceRules::{Counted, Earlier};
        assert_eq!(read("[1,[3,5],7]", 10, Counted), Some(vec![1, 3, 4, 5, 7]));
        assert_eq!(read("[[3,3],4]", 10, Earlier), Some(vec![3, 4]));
        for lax in ["[1,1]", "[10]", "[11]", "[[10,12]]"] {
            assert!(read(lax, 10, Counted).is_some() && read(lax, 10, Earlier).is_none(), "{lax}");
        }
        for bad in ["[[2,1]]", "[[0,10]]", "[[1,2],0]", "[[1]]", "[[1,2,3]]", "[\"1\"]", "[-1]", "[-0]", "5"]
        {
            assert!(read(bad, 10, Counted).is_none() && read(bad, 10, Earlier).is_none(), "{bad}");
        }
        assert!(read("[0,1]", 1, Counted).is_none(), "two elements where one event is earlier");
        assert_eq!(read("[]", 0, Counted), Some(vec![]));
        assert_eq!(read("[2,1]", 3, Earlier), Some(vec![2, 1]));
    }

    #[test]
    fn three_consecutive_seqs_become_a_range_in_an_ascending_list_only() {
        let stored = |seqs: &[u64]| {
            let mut out = Vec::new();
            list(seqs).write_sources(&mut out);
            String::from_utf8(out).expect("ASCII")
        };
        assert_eq!(stored(&[]), "[]");
        assert_eq!(stored(&[1, 2]), "[1,2]");
        assert_eq!(stored(&[1, 2, 4, 5, 6, 9, 10]), "[1,2,[4,6],9,10]");
        assert_eq!(stored(&[1, 2, 3, 3]), "[1,2,3,3]");
        assert_eq!(stored(&[3, 2]), "[3,2]");
    }

    #[test]
    fn membership_survives_overlaps() {
        let mut list = list(&[9, 3]);
        list.push_run(1, 5);
        list.push_run(4, 4);
        let set = list.sorted();
        let members: Vec<u64> = (0..12).filter(|seq| set.contains(*seq)).collect();
        assert_eq!(members, [1, 2, 3, 4, 5, 9]);
        assert!(!list.is_unique());
    }
}
