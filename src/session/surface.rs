//! The surface: the seqs that make up the model-visible history, in its order.
//!
//! Spec: `format-spec/06-migration.md`, "Surface".

use super::seqs::SeqList;
use crate::json::{Node, Number};

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

impl SurfaceOp {
    /// Reads the member `surfaceOp`; `keys` are the names of the two ends of a range.
    pub(crate) fn read(op: Node<'_>, keys: [&str; 2]) -> Self {
        if op.as_str().is_some_and(|op| op.eq_str("append")) {
            return Self::Append;
        }
        let exact = op.members().is_some_and(|members| members.len() == 3)
            && op.get("op").and_then(Node::as_str).is_some_and(|op| op.eq_str("replace"));
        let [start, end] = keys.map(|key| op.get(key).and_then(Node::as_number).and_then(Number::as_count));
        match (exact, start, end) {
            (true, Some(start), Some(end)) => Self::Replace { start, end },
            _ => Self::Malformed,
        }
    }
}

/// The surface as a list whose slices can be replaced. 16 bytes for each surface event of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surface {
    /// In order of seq, which is the order of insertion; the order of the surface is in the links.
    nodes: Vec<SurfaceNode>,
    ends: Option<Ends>,
    replacements: u64,
}

/// Position of a surface event among all that the log has had.
pub(crate) type NodeIndex = u32;

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: NodeIndex,
    last: NodeIndex,
}

#[derive(Clone, Copy, Debug)]
struct SurfaceNode {
    seq: u64,
    /// [`NONE`] for the first, [`GONE`] for a node that was replaced.
    prev: NodeIndex,
    next: NodeIndex,
}

const NONE: NodeIndex = NodeIndex::MAX;
const GONE: NodeIndex = NodeIndex::MAX - 1;

/// Why a surface operation is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SurfaceFault {
    /// The event has `surfaceOp` or `sourceEventSeqs`, and its type is not on the surface.
    NotSurface,
    /// A surface event without `surfaceOp`.
    NoOp,
    /// `surfaceOp` is neither an append nor a replacement.
    BadOp,
    /// `sourceEventSeqs` is empty.
    NoSources,
    /// `sourceEventSeqs` names an event twice, or one that is not earlier.
    BadSources,
    /// An `assistant/message` of a generation in which it must not cite.
    MessageSources,
    /// An end of the replaced range is not on the surface.
    OffSurface,
    /// The replaced range ends before it starts, by the order of the surface.
    Backwards,
    /// An event of the replaced range is not in `sourceEventSeqs`.
    Uncited,
    /// A `tool/result` replaces several events, or one of another type.
    ResultTarget,
    /// A `tool/result` replaces one and changes more than the content inside its block.
    ResultChanged,
    /// More surface events than can be counted here: about four billion.
    TooLong,
}

impl SurfaceFault {
    /// The rule that is broken, in words.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::NotSurface => "only surface events have surfaceOp and sourceEventSeqs",
            Self::NoOp => "surfaceOp is missing",
            Self::BadOp => "surfaceOp has no known form",
            Self::NoSources => "sourceEventSeqs is empty",
            Self::BadSources => "sourceEventSeqs repeats an event, or names one that is not earlier",
            Self::MessageSources => "an assistant message cites sources",
            Self::OffSurface => "the replaced range is not on the surface",
            Self::Backwards => "the replaced range is not on the surface in this order",
            Self::Uncited => "the event does not cite everything that it shadows",
            Self::ResultTarget => "a tool result replaces something else than one tool result",
            Self::ResultChanged => "a tool result replaces one that differs in more than its content",
            Self::TooLong => "the surface is too long",
        }
    }
}

impl std::fmt::Display for SurfaceFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.rule())
    }
}

impl std::error::Error for SurfaceFault {}

/// A surface operation that was found possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SurfacePlan {
    seq: u64,
    shadowed: Option<Ends>,
}

impl Surface {
    /// Applies what event `seq` does. `seq` must be above all before it.
    ///
    /// Time as for [`plan`](Self::plan).
    pub(crate) fn apply(
        &mut self,
        seq: u64,
        op: SurfaceOp,
        sources: Option<&SeqList>,
    ) -> Result<(), SurfaceFault> {
        let plan = self.plan(seq, op, sources)?;
        self.commit(plan);
        Ok(())
    }

    /// Judges what event `seq` does, and changes nothing. `seq` must be above all before it.
    ///
    /// Time O(1) to append; a replacement takes O(log surface) and as much for each seq that it shadows.
    pub(crate) fn plan(
        &self,
        seq: u64,
        op: SurfaceOp,
        sources: Option<&SeqList>,
    ) -> Result<SurfacePlan, SurfaceFault> {
        let has_room = NodeIndex::try_from(self.nodes.len()).is_ok_and(|len| len < GONE);
        let shadowed = match op {
            SurfaceOp::Absent => return Err(SurfaceFault::NoOp),
            SurfaceOp::Malformed => return Err(SurfaceFault::BadOp),
            SurfaceOp::Append => None,
            SurfaceOp::Replace { start, end } => {
                let span = self.span(start, end)?;
                let cited = sources.map(SeqList::sorted);
                let mut shadowed = self.between(span);
                if !shadowed.all(|seq| cited.as_ref().is_some_and(|cited| cited.contains(seq))) {
                    return Err(SurfaceFault::Uncited);
                }
                Some(span)
            }
        };
        if has_room { Ok(SurfacePlan { seq, shadowed }) } else { Err(SurfaceFault::TooLong) }
    }

    /// Does what was planned, if nothing else was committed since.
    pub(crate) fn commit(&mut self, plan: SurfacePlan) {
        let (prev, next) = match plan.shadowed {
            None => (self.ends.map(|ends| ends.last), None),
            Some(span) => {
                self.replacements = self.replacements.saturating_add(1);
                self.cut(span)
            }
        };
        self.insert(plan.seq, prev, next);
    }

    /// What a planned replacement shadows, in the order of the surface; nothing for an append.
    pub(crate) fn shadowed(&self, plan: SurfacePlan) -> impl Iterator<Item = u64> + '_ {
        plan.shadowed.into_iter().flat_map(|span| self.between(span))
    }

    /// How many replacements were committed.
    pub(crate) fn replacements(&self) -> u64 {
        self.replacements
    }

    /// The current surface, in its order: each event's position among all that the log has had, and its seq.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIndex, u64)> + '_ {
        self.walk(self.ends.map(|ends| ends.first))
    }

    /// What follows the node `after` on the surface; all of it for `None`.
    pub(crate) fn iter_after(&self, after: Option<NodeIndex>) -> impl Iterator<Item = (NodeIndex, u64)> + '_ {
        let first = match after {
            None => self.ends.map(|ends| ends.first),
            Some(after) => self.node(after).map(|node| node.next),
        };
        self.walk(first)
    }

    fn walk(&self, first: Option<NodeIndex>) -> impl Iterator<Item = (NodeIndex, u64)> + '_ {
        let mut at = first.unwrap_or(NONE);
        std::iter::from_fn(move || {
            let index = at;
            let node = self.node(index)?;
            at = node.next;
            Some((index, node.seq))
        })
    }

    /// Whether `seqs` are exactly the current surface from `start` to `end`, in its order. Time O(seqs).
    pub(crate) fn is_slice(&self, start: u64, end: u64, seqs: &SeqList) -> bool {
        self.span(start, end).is_ok_and(|span| self.between(span).eq(seqs.iter()))
    }

    fn between(&self, span: Ends) -> impl Iterator<Item = u64> + '_ {
        let mut at = Some(span.first);
        std::iter::from_fn(move || {
            let index = at?;
            let node = self.node(index)?;
            at = (index != span.last).then_some(node.next);
            Some(node.seq)
        })
    }

    /// The nodes of `start` and `end`, if both are current and `start` is not after `end`.
    fn span(&self, start: u64, end: u64) -> Result<Ends, SurfaceFault> {
        let (first, last) = (self.find(start)?, self.find(end)?);
        // Walk from both ends of the question at once, so that a short slice and a wrong order both end soon.
        let (mut forward, mut backward) = (first, first);
        loop {
            if forward == last {
                return Ok(Ends { first, last });
            }
            if backward == last {
                return Err(SurfaceFault::Backwards);
            }
            forward = self.node(forward).map_or(NONE, |node| node.next);
            if forward == NONE {
                return Err(SurfaceFault::Backwards);
            }
            backward = self.node(backward).map_or(NONE, |node| node.prev);
        }
    }

    /// The current node of `seq`. Time O(log surface).
    fn find(&self, seq: u64) -> Result<NodeIndex, SurfaceFault> {
        let at = self.nodes.binary_search_by_key(&seq, |node| node.seq).ok();
        let index = at.and_then(|at| NodeIndex::try_from(at).ok());
        index
            .filter(|index| self.node(*index).is_some_and(|node| node.prev != GONE))
            .ok_or(SurfaceFault::OffSurface)
    }

    fn node(&self, at: NodeIndex) -> Option<&SurfaceNode> {
        self.nodes.get(usize::try_from(at).ok()?)
    }

    fn node_mut(&mut self, at: NodeIndex) -> Option<&mut SurfaceNode> {
        self.nodes.get_mut(usize::try_from(at).ok()?)
    }

    /// Takes `span` out and returns what was before and behind.
    fn cut(&mut self, span: Ends) -> (Option<NodeIndex>, Option<NodeIndex>) {
        let real = |at: NodeIndex| (at != NONE).then_some(at);
        let prev = self.node(span.first).and_then(|node| real(node.prev));
        let next = self.node(span.last).and_then(|node| real(node.next));
        let mut at = Some(span.first);
        while let Some(index) = at {
            let Some(node) = self.node_mut(index) else { break };
            node.prev = GONE;
            at = (index != span.last).then_some(node.next);
        }
        (prev, next)
    }

    fn insert(&mut self, seq: u64, prev: Option<NodeIndex>, next: Option<NodeIndex>) {
        let index = NodeIndex::try_from(self.nodes.len()).expect("`plan` refuses a longer surface");
        self.nodes.push(SurfaceNode { seq, prev: prev.unwrap_or(NONE), next: next.unwrap_or(NONE) });
        let mut ends = self.ends.unwrap_or(Ends { first: index, last: index });
        match next.and_then(|next| self.node_mut(next)) {
            Some(next) => next.prev = index,
            None => ends.last = index,
        }
        match prev.and_then(|prev| self.node_mut(prev)) {
            Some(prev) => prev.next = index,
            None => ends.first = index,
        }
        self.ends = Some(ends);
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

    fn replace(surface: &mut Surface, seq: u64, start: u64, end: u64, cited: &[u64]) -> Option<SurfaceFault> {
        surface.apply(seq, SurfaceOp::Replace { start, end }, Some(&list(cited))).err()
    }

    fn seqs(surface: &Surface) -> Vec<u64> {
        surface.iter().map(|(_, seq)| seq).collect()
    }

    #[test]
    fn a_replacement_takes_the_place_of_its_slice() {
        let mut surface = Surface::default();
        for seq in [0, 2, 4, 6] {
            assert_eq!(surface.apply(seq, SurfaceOp::Append, None), Ok(()));
        }
        assert_eq!(replace(&mut surface, 7, 2, 4, &[2]), Some(SurfaceFault::Uncited));
        assert_eq!(replace(&mut surface, 7, 4, 2, &[2, 4]), Some(SurfaceFault::Backwards));
        assert_eq!(replace(&mut surface, 7, 6, 0, &[0, 2, 4, 6]), Some(SurfaceFault::Backwards));
        assert_eq!(replace(&mut surface, 7, 1, 2, &[1, 2]), Some(SurfaceFault::OffSurface));
        assert_eq!((seqs(&surface), surface.replacements()), (vec![0, 2, 4, 6], 0));
        assert_eq!(replace(&mut surface, 7, 2, 4, &[4, 2, 0]), None);
        assert_eq!(seqs(&surface), [0, 7, 6]);
        assert_eq!(replace(&mut surface, 8, 2, 2, &[2]), Some(SurfaceFault::OffSurface));
        assert_eq!(
            replace(&mut surface, 8, 7, 6, &[6, 7]),
            None,
            "the order is that of the surface, not of the numbers"
        );
        assert_eq!(surface.apply(9, SurfaceOp::Append, None), Ok(()));
        assert_eq!((seqs(&surface), surface.replacements()), (vec![0, 8, 9], 2));
        assert!(surface.is_slice(0, 8, &list(&[0, 8])) && surface.is_slice(9, 9, &list(&[9])));
        assert!(!surface.is_slice(0, 8, &list(&[0])) && !surface.is_slice(0, 8, &list(&[0, 8, 9])));
        assert!(!surface.is_slice(8, 0, &list(&[8, 0])) && !surface.is_slice(0, 0, &list(&[])));
    }

    #[test]
    fn the_first_and_the_last_and_all_can_be_replaced() {
        let mut surface = Surface::default();
        assert!(seqs(&surface).is_empty());
        for seq in [0, 1, 2] {
            assert_eq!(surface.apply(seq, SurfaceOp::Append, None), Ok(()));
        }
        assert_eq!(replace(&mut surface, 3, 0, 0, &[0]), None);
        assert_eq!(seqs(&surface), [3, 1, 2]);
        assert_eq!(replace(&mut surface, 4, 2, 2, &[2]), None);
        assert_eq!(seqs(&surface), [3, 1, 4]);
        assert_eq!(replace(&mut surface, 5, 3, 4, &[1, 3, 4]), None);
        assert_eq!(seqs(&surface), [5]);
        assert_eq!(surface.apply(6, SurfaceOp::Append, None), Ok(()));
        assert_eq!(seqs(&surface), [5, 6]);
        let after: Vec<u64> =
            surface.iter_after(surface.iter().next().map(|(node, _)| node)).map(|(_, seq)| seq).collect();
        assert_eq!(after, [6]);
        assert_eq!(surface.iter_after(None).count(), 2);
    }

    #[test]
    fn an_event_without_an_operation_is_refused() {
        let mut surface = Surface::default();
        assert_eq!(surface.apply(0, SurfaceOp::Absent, None), Err(SurfaceFault::NoOp));
        assert_eq!(surface.apply(0, SurfaceOp::Malformed, None), Err(SurfaceFault::BadOp));
        let nothing = SurfaceOp::Replace { start: 0, end: 0 };
        assert_eq!(surface.apply(0, nothing, None), Err(SurfaceFault::OffSurface));
    }
}
