//! A recorded attempt once more.

use std::ops::ControlFlow;
use std::time::Duration;

use super::attempt::{Attempt, AttemptFault};
use crate::stream::{StreamFault, expand};

/// How fast a recorded attempt is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pace {
    /// With the gaps that it had. A time that lies before the one before has none.
    Recorded,
    /// Without any.
    Zero,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The records are none.
    #[error("the recorded stream cannot be read")]
    Stream(#[from] StreamFault),
    /// The attempt refused a chunk.
    #[error("chunk {index} of the recorded stream was refused")]
    Chunk {
        /// Its number, from 0.
        index: u64,
        /// Why.
        source: AttemptFault,
    },
}

/// Pushes the chunks of a recorded `stream` (the member of a settlement, a JSON array) into `attempt`, each with the time that it
/// had, and gives how many. The same stream gives the same frames, whatever the pace.
///
/// `wait` is called with the gap before each chunk that has one; it may break the replay off.
///
/// # Errors
/// [`ReplayError`]. The whole stream is checked before its first chunk is pushed.
pub fn replay(
    stream: &[u8],
    pace: Pace,
    wait: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    attempt: &mut Attempt,
) -> Result<u64, ReplayError> {
    let expansion = expand(stream)?;
    let mut before = None;
    let mut index = 0;
    for timed in expansion.chunks() {
        let gap = before.map_or(0, |before: i64| timed.time.get().saturating_sub(before));
        before = Some(timed.time.get());
        let gap = u64::try_from(gap).ok().filter(|&gap| pace == Pace::Recorded && gap > 0);
        if gap.is_some_and(|gap| wait(Duration::from_millis(gap)).is_break()) {
            break;
        }
        attempt.push(timed.time, timed.chunk).map_err(|source| ReplayError::Chunk { index, source })?;
        index = index.saturating_add(1);
    }
    Ok(index)
}
