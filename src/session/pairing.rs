//! Which places of a surface leave no tool call without its result.

use super::fold::{FoldFault, follow};
use super::intake::Intake;
use super::log::Log;
use super::profile::Profile;

/// For every place of a surface, how many tool calls before it have no result yet. A range that is compacted has to start
/// and end where the answer is none.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// Ascending by seq: the event, and the calls that are open before it.
    before: Vec<(u64, i64)>,
    after: i64,
}

/// Why the question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairingFault {
    /// The log has no surface.
    #[error(transparent)]
    Fold(#[from] FoldFault),
    /// A result stands on the surface, and no open call before it: the surface is corrupt.
    #[error("the tool result {seq} answers no open call on the surface")]
    Unasked {
        /// The result.
        seq: u64,
    },
    /// The seq is not on the surface.
    #[error("event {seq} is not on the surface")]
    OffSurface {
        /// The seq that was asked about.
        seq: u64,
    },
}

impl Pairing {
    /// The pairing of the surface of `log`. Time O(bytes).
    ///
    /// # Errors
    /// [`PairingFault::Fold`] and [`PairingFault::Unasked`].
    pub fn of(profile: &'static Profile, log: &Log) -> Result<Self, PairingFault> {
        Self::of_intake(&follow(profile, log, |_, _| {})?)
    }

    pub(crate) fn of_intake(intake: &Intake) -> Result<Self, PairingFault> {
        let mut open = 0_i64;
        let mut before = Vec::new();
        for (node, seq) in intake.surface().iter() {
            before.push((seq, open));
            open = open.saturating_add(i64::from(intake.message(node).calls));
            if open < 0 {
                return Err(PairingFault::Unasked { seq });
            }
        }
        before.sort_unstable();
        Ok(Self { before, after: open })
    }

    /// Whether every call before the surface event `seq` has its result. Always so before the first.
    ///
    /// # Errors
    /// [`PairingFault::OffSurface`] for another seq.
    pub fn is_balanced_before(&self, seq: u64) -> Result<bool, PairingFault> {
        let at = self.before.binary_search_by_key(&seq, |(seq, _)| *seq).ok();
        let open = at.and_then(|at| self.before.get(at)).ok_or(PairingFault::OffSurface { seq })?;
        Ok(open.1 == 0)
    }

    /// Whether every call on the surface has its result.
    #[must_use]
    pub const fn is_balanced_at_end(&self) -> bool {
        self.after == 0
    }
}
