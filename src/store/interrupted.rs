//! A stored log in memory, with what closes the turn that a crash left open in it.

use super::cancel::Cancel;
use super::seam::SessionHandle;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::Check;
use crate::session::{Log, OpenTurn};

/// All events of a log, and closers behind them that nothing has stored.
#[derive(Debug)]
pub(super) struct ClosedLog {
    pub(super) log: Log,
    /// How many of them are stored.
    pub(super) stored: u64,
}

impl ClosedLog {
    /// Reads all that `handle` has. Time and memory O(bytes).
    ///
    /// # Errors
    /// As [`SessionHandle::read`]; [`Error::InvalidRow`] for an event that no log in memory holds.
    pub(super) fn read(handle: &dyn SessionHandle, limits: &Limits, cancel: &Cancel) -> Result<Self> {
        let events = handle.read(0, u64::MAX, cancel)?;
        let invalid = |(index, source): (u64, _)| Error::InvalidRow {
            index: usize::try_from(index).unwrap_or(usize::MAX),
            source,
        };
        let mut log = Log::of_rows(events.rows(), Check::Envelope, limits).map_err(invalid)?;
        let stored = log.end();
        for row in OpenTurn::of(&log).closers() {
            let index = log.end();
            log.push(&row, Check::Envelope, limits).map_err(|source| invalid((index, source)))?;
        }
        Ok(Self { log, stored })
    }
}
