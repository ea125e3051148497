//! The surface: the seqs that make up the model-visible history, in its order.
//!
//! Spec: `format-spec/06-migration.md`, "Surface".

use super::seqs::SeqList;

/// What an event does to the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurfaceOp {
    /// The member is absent.
    Absent,
    /// `"append"`.
    Append,
    /// `{"op":"replace","start":S,"end":E}`.
    Replace { start: u64, end: u64 },
    /// Anything else.
    Malformed,
}

/// The surface as a list whose slices can be replaced. 32 bytes for each surface event of the log.
#[derive(Debug, Default)]
pub(crate) struct Surface {
    /// In order of seq, which is the order of insertion; the order of the surface is in the links.
    nodes: Vec<SurfaceNode>,
    last: Option<NodeIndex>,
}

type NodeIndex = u32;

#[derive(Clone, Copy, Debug)]
struct SurfaceNode {
    seq: u64,
    prev: Option<NodeIndex>,
    next: Option<NodeIndex>,
    is_current: bool,
}

/// Why a surface operation is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurfaceFault(pub(crate) &'static str);

impl Surface {
    /// Applies what event `seq` does. `seq` must be above all before it.
    ///
    /// Time O(log surface) to append; a replacement takes O(log surface) for each seq that it shadows.
    pub(crate) fn apply(
        &mut self,
        seq: u64,
        op: SurfaceOp,
        sources: Option<&SeqList>,
    ) -> Result<(), SurfaceFault> {
        match op {
            SurfaceOp::Absent => Err(SurfaceFault("surfaceOp is missing")),
            SurfaceOp::Malformed => Err(SurfaceFault("surfaceOp has no known form")),
            SurfaceOp::Append => self.insert(seq, self.last, None),
            SurfaceOp::Replace { start, end } => {
                let (first, last) = self.span(start, end).ok_or(NOT_ON_SURFACE)?;
                let cited = sources.map(SeqList::sorted);
                let mut at = Some(first);
                while let Some(node) = at.and_then(|at| self.node(at)) {
                    if !cited.as_ref().is_some_and(|cited| cited.contains(node.seq)) {
                        return Err(SurfaceFault("the event does not cite everything that it shadows"));
                    }
                    at = if at == Some(last) { None } else { node.next };
                }
                let (prev, next) = self.cut(first, last);
                self.insert(seq, prev, next)
            }
        }
    }

    /// Whether `seqs` are exactly the current surface from `start` to `end`, in its order. Time O(seqs).
    pub(crate) fn is_slice(&self, start: u64, end: u64, seqs: &SeqList) -> bool {
        let Some((first, last)) = self.span(start, end) else { return false };
        let mut at = Some(first);
        for seq in seqs.iter() {
            match at.and_then(|at| self.node(at)) {
                Some(node) if node.seq == seq => at = if at == Some(last) { None } else { node.next },
                _ => return false,
            }
        }
        at.is_none()
    }

    /// The current seqs from `start` to `end`, if both are there in this order.
    #[cfg(test)]
    fn slice(&self, start: u64, end: u64) -> Option<Vec<u64>> {
        let (first, last) = self.span(start, end)?;
        let mut seqs = Vec::new();
        let mut at = Some(first);
        while let Some(node) = at.and_then(|at| self.node(at)) {
            seqs.push(node.seq);
            at = if at == Some(last) { None } else { node.next };
        }
        Some(seqs)
    }

    /// The nodes of `start` and `end`, if both are current and `start` is not after `end`.
    fn span(&self, start: u64, end: u64) -> Option<(NodeIndex, NodeIndex)> {
        let (first, last) = (self.find(start)?, self.find(end)?);
        // Walk from both ends of the question at once, so that a short slice and a wrong order both end soon.
        let (mut forward, mut backward) = (first, first);
        loop {
            if forward == last {
                return Some((first, last));
            }
            if backward == last {
                return None;
            }
            let next = self.node(forward).and_then(|node| node.next);
            let prev = self.node(backward).and_then(|node| node.prev);
            match (next, prev) {
                (None, _) => return None,
                (Some(next), prev) => {
                    forward = next;
                    backward = prev.unwrap_or(backward);
                }
            }
        }
    }

    fn find(&self, seq: u64) -> Option<NodeIndex> {
        let at = self.nodes.binary_search_by_key(&seq, |node| node.seq).ok()?;
        let index = NodeIndex::try_from(at).ok()?;
        self.node(index).filter(|node| node.is_current).map(|_| index)
    }

    fn node(&self, at: NodeIndex) -> Option<&SurfaceNode> {
        self.nodes.get(usize::try_from(at).ok()?)
    }

    fn node_mut(&mut self, at: NodeIndex) -> Option<&mut SurfaceNode> {
        self.nodes.get_mut(usize::try_from(at).ok()?)
    }

    /// Takes `first..=last` out and returns what was before and behind.
    fn cut(&mut self, first: NodeIndex, last: NodeIndex) -> (Option<NodeIndex>, Option<NodeIndex>) {
        let prev = self.node(first).and_then(|node| node.prev);
        let next = self.node(last).and_then(|node| node.next);
        let mut at = Some(first);
        while let Some(node) = at.and_then(|at| self.node_mut(at)) {
            node.is_current = false;
            at = if at == Some(last) { None } else { node.next };
        }
        (prev, next)
    }

    fn insert(
        &mut self,
        seq: u64,
        prev: Option<NodeIndex>,
        next: Option<NodeIndex>,
    ) -> Result<(), SurfaceFault> {
        let index =
            NodeIndex::try_from(self.nodes.len()).map_err(|_| SurfaceFault("the surface is too long"))?;
        self.nodes.push(SurfaceNode { seq, prev, next, is_current: true });
        match next.and_then(|next| self.node_mut(next)) {
            Some(next) => next.prev = Some(index),
            None => self.last = Some(index),
        }
        if let Some(prev) = prev.and_then(|prev| self.node_mut(prev)) {
            prev.next = Some(index);
        }
        Ok(())
    }
}

const NOT_ON_SURFACE: SurfaceFault = SurfaceFault("the replaced range is not on the surface");

#[cfg(test)]
mod tests {
    use super::*;

    fn list(seqs: &[u64]) -> SeqList {
        let mut list = SeqList::default();
        seqs.iter().for_each(|seq| list.push_run(*seq, *seq));
        list
    }

    fn replace(surface: &mut Surface, seq: u64, start: u64, end: u64, cited: &[u64]) -> bool {
        surface.apply(seq, SurfaceOp::Replace { start, end }, Some(&list(cited))).is_ok()
    }

    #[test]
    fn a_replacement_takes_the_place_of_its_slice() {
        let mut surface = Surface::default();
        for seq in [0, 2, 4, 6] {
            assert_eq!(surface.apply(seq, SurfaceOp::Append, None), Ok(()));
        }
        assert!(!replace(&mut surface, 7, 2, 4, &[2]), "4 is not cited");
        assert!(!replace(&mut surface, 7, 4, 2, &[2, 4]), "4 comes after 2");
        assert!(!replace(&mut surface, 7, 1, 2, &[1, 2]), "1 is not on the surface");
        assert!(replace(&mut surface, 7, 2, 4, &[4, 2, 0]));
        assert_eq!(surface.slice(0, 6), Some(vec![0, 7, 6]));
        assert!(!replace(&mut surface, 8, 2, 2, &[2]), "2 is gone");
        assert!(
            replace(&mut surface, 8, 7, 6, &[6, 7]),
            "the order is that of the surface, not of the numbers"
        );
        assert_eq!(surface.apply(9, SurfaceOp::Append, None), Ok(()));
        assert_eq!(surface.slice(0, 9), Some(vec![0, 8, 9]));
        assert!(surface.is_slice(0, 8, &list(&[0, 8])) && surface.is_slice(9, 9, &list(&[9])));
        assert!(!surface.is_slice(0, 8, &list(&[0])) && !surface.is_slice(0, 8, &list(&[0, 8, 9])));
        assert!(!surface.is_slice(8, 0, &list(&[8, 0])) && !surface.is_slice(0, 0, &list(&[])));
    }

    #[test]
    fn an_event_without_an_operation_is_refused() {
        let mut surface = Surface::default();
        assert!(surface.apply(0, SurfaceOp::Absent, None).is_err());
        assert!(surface.apply(0, SurfaceOp::Malformed, None).is_err());
        assert!(surface.apply(0, SurfaceOp::Replace { start: 0, end: 0 }, None).is_err());
    }
}
