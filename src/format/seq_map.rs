//! The map from source to target seqs.

use crate::session::SeqList;

/// Where source events went: source seq to target seq, for every event that was emitted.
///
/// Both sides ascend, so stretches in which they advance together are one entry of 24 bytes. A log has about one such
/// stretch for each model attempt; 24 bytes an event is the worst case.
#[derive(Debug, Default)]
pub(crate) struct SeqMap {
    stretches: Vec<Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    source: u64,
    target: u64,
    len: u64,
}

impl Stretch {
    fn target_of(&self, source: u64) -> Option<u64> {
        let offset = source.checked_sub(self.source).filter(|offset| *offset < self.len)?;
        self.target.checked_add(offset)
    }
}

impl SeqMap {
    /// Notes that `source` became `target`. Both must be above all that were noted before.
    pub(crate) fn push(&mut self, source: u64, target: u64) {
        match self.stretches.last_mut() {
            Some(last)
                if last.source.checked_add(last.len) == Some(source)
                    && last.target.checked_add(last.len) == Some(target) =>
            {
                last.len = last.len.saturating_add(1);
            }
            _ => self.stretches.push(Stretch { source, target, len: 1 }),
        }
    }

    /// The target of `source`, if it was emitted. Time O(log stretches).
    pub(crate) fn get(&self, source: u64) -> Option<u64> {
        self.find(source)?.1.target_of(source)
    }

    /// Maps every element of `list` into `out`.
    ///
    /// # Errors
    /// The first element that has no target.
    pub(crate) fn map(&self, list: &SeqList, out: &mut SeqList) -> Result<(), u64> {
        out.clear();
        for (run_first, run_last) in list.runs() {
            let (mut at, _) = self.find(run_first).ok_or(run_first)?;
            let mut next = run_first;
            loop {
                let stretch = self.stretches.get(at).ok_or(next)?;
                let first = stretch.target_of(next).ok_or(next)?;
                let left = stretch.target.saturating_add(stretch.len).saturating_sub(first);
                let take = run_last.saturating_sub(next).saturating_add(1).min(left);
                out.push_run(first, first.saturating_add(take).saturating_sub(1));
                next = next.saturating_add(take);
                if next > run_last {
                    break;
                }
                at = at.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.stretches.capacity().saturating_mul(size_of::<Stretch>())
    }

    /// The last stretch that starts at `source` or before.
    fn find(&self, source: u64) -> Option<(usize, &Stretch)> {
        let at = self.stretches.partition_point(|stretch| stretch.source <= source).checked_sub(1)?;
        self.stretches.get(at).map(|stretch| (at, stretch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(seqs: &[u64]) -> SeqList {
        let mut list = SeqList::default();
        seqs.iter().for_each(|seq| list.push_run(*seq, *seq));
        list
    }

    #[test]
    fn the_map_knows_what_was_emitted_and_nothing_else() {
        let mut map = SeqMap::default();
        for (source, target) in [(0, 0), (1, 1), (5, 2), (6, 3), (7, 5)] {
            map.push(source, target);
        }
        let targets: Vec<_> = (0..9).map(|seq| map.get(seq)).collect();
        assert_eq!(targets, [Some(0), Some(1), None, None, None, Some(2), Some(3), Some(5), None]);
        let mut out = SeqList::default();
        assert_eq!(map.map(&list(&[5, 6, 7, 1, 0]), &mut out), Ok(()));
        assert_eq!(out.iter().collect::<Vec<_>>(), [2, 3, 5, 1, 0]);
        assert_eq!(map.map(&list(&[0, 1, 2]), &mut out), Err(2));
        assert_eq!(map.map(&list(&[7, 8]), &mut out), Err(8));
    }
}
