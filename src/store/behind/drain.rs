//! What writes: drains, appends, flushes and the close of one session, each in its turn.

use std::sync::Arc;

use super::super::{Cancel, SessionAccess, SessionHandle};
use super::live::{Live, Phase, Turn};
use super::queue::Batch;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::{Check, Event};

/// Batches that one drain takes under producers that never pause. What then waits is due at once, in the next turn.
const BATCHES_MAX: u32 = 16;

/// When a drain is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// When nothing waits.
    Empty,
    /// When nothing waits, and never will again.
    Sealed,
}

impl Live {
    /// Stores what waits and what comes meanwhile, each batch durable before the next. A failure leaves all that is not
    /// stored in the queue, and pauses windows until the next drain. With `Until::Sealed` no event is taken any more from the
    /// moment that nothing waits.
    pub(super) fn drain(&self, turn: &Turn<'_>, until: Until) -> Result<()> {
        let accepted = {
            let mut state = turn.state();
            state.begin_drain();
            state.queue.end().unwrap_or(state.stored)
        };
        let drained = self.drain_batches(turn, until, accepted);
        if let Err(error) = &drained {
            let mut state = turn.state();
            state.paused = Some(error.again());
            state.draining = false;
            drop(state);
            self.changed.notify_all();
        }
        drained
    }

    fn drain_batches(&self, turn: &Turn<'_>, until: Until, accepted: u64) -> Result<()> {
        for round in 0_u32.. {
            let batch = {
                let mut state = turn.state();
                if round >= BATCHES_MAX && state.stored >= accepted && !state.queue.is_empty() {
                    match until {
                        Until::Sealed => state.phase = Phase::Sealed,
                        Until::Empty => {
                            state.draining = false;
                            self.hurry(&mut state);
                            return Ok(());
                        }
                    }
                }
                let Some(batch) = state.queue.take(self.bounds()) else {
                    state.draining = false;
                    // Under the same lock that found nothing: what comes later finds the session closed.
                    if until == Until::Sealed {
                        state.phase = Phase::Sealed;
                    }
                    return Ok(());
                };
                batch
            };
            self.store_batch(&batch)?;
            let mut state = turn.state();
            state.stored = batch.rows.end();
            state.queue.stored(batch);
            drop(state);
            // There is room.
            self.changed.notify_all();
        }
        Ok(())
    }

    fn store_batch(&self, batch: &Batch) -> Result<()> {
        let stored = match self.below() {
            Some(below) => self.write(&*below, batch),
            None => Err(self.poisoned()),
        };
        match stored {
            Err(Error::Poisoned { .. }) => {
                let below = self.reopen()?;
                self.check_kept(&*below, batch)?;
                self.write(&*below, batch)
            }
            stored => stored,
        }
    }

    /// Appends the batch, less what an earlier try has stored before something failed, and makes it durable.
    fn write(&self, below: &dyn SessionHandle, batch: &Batch) -> Result<()> {
        let kept = self.kept(below, batch);
        let rows: Vec<&[u8]> = batch.rows.iter().skip(kept).collect();
        if !rows.is_empty() {
            below.append(&rows, &Cancel::never())?;
        }
        below.flush(&Cancel::never())
    }

    /// Rows of the batch that an earlier try has stored.
    fn kept(&self, below: &dyn SessionHandle, batch: &Batch) -> usize {
        let first = batch.rows.first();
        let end = below.next_seq().unwrap_or(first).min(batch.tried);
        usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX)
    }

    /// Whether rows that count as stored are ours: between two handles anybody may have written.
    fn check_kept(&self, below: &dyn SessionHandle, batch: &Batch) -> Result<()> {
        let (first, kept) = (batch.rows.first(), self.kept(below, batch));
        if kept == 0 {
            return Ok(());
        }
        let found = below.read(first, u64::try_from(kept).unwrap_or(u64::MAX), &Cancel::never())?;
        if found.rows().eq(batch.rows.iter().take(kept)) {
            return Ok(());
        }
        Err(self.mismatch(below.next_seq().unwrap_or(first), 0, first))
    }

    /// Opens the session again, from what the disk holds: the handle below said that it cannot go on.
    fn reopen(&self) -> Result<Arc<dyn SessionHandle>> {
        let old = self.state.lock().below.take();
        if let Some(old) = old {
            // That it could not go on was told before.
            let _told = old.close();
        }
        let below = self.store.open(self.id(), SessionAccess::Write, &Cancel::never())?;
        self.state.lock().below = Some(Arc::clone(&below));
        Ok(below)
    }

    /// Stores rows, behind what was accepted before them.
    pub(super) fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        let turn = self.turn_for("append", cancel)?;
        let first = rows.first().and_then(|row| Event::read(row, Check::Envelope, &Limits::DEFAULT).ok());
        let first = first.map(|event| event.seq().get());
        let (waits, end) = {
            let state = turn.state();
            (state.queue.first(), state.queue.end())
        };
        match (waits, first) {
            // What waits begins behind a gap, and these fill it.
            (Some(waits), Some(first)) if first < waits => {
                let gap = usize::try_from(waits.saturating_sub(first)).unwrap_or(usize::MAX);
                if rows.len() > gap {
                    return Err(self.mismatch(end.unwrap_or(waits), gap, waits));
                }
            }
            (Some(_), Some(_)) => self.drain(&turn, Until::Empty)?,
            _ => {}
        }
        let below = self.below().ok_or_else(|| self.poisoned())?;
        below.append(rows, cancel)?;
        let mut state = turn.state();
        state.stored = below.next_seq().unwrap_or(state.stored);
        Ok(())
    }

    /// Stores what waits, and makes everything that was accepted durable.
    pub(super) fn flush(&self, cancel: &Cancel) -> Result<()> {
        let turn = self.turn_for("flush", cancel)?;
        self.drain(&turn, Until::Empty)?;
        let flushed = match self.below() {
            Some(below) => below.flush(&Cancel::never()),
            None => Err(self.poisoned()),
        };
        match flushed {
            Err(Error::Poisoned { .. }) => self.reopen()?.flush(&Cancel::never())?,
            flushed => flushed?,
        }
        // After a log was opened again, what had been acknowledged and not synced may be gone.
        let end = self.below().and_then(|below| below.next_seq());
        let stored = turn.state().stored;
        match end {
            Some(end) if end < stored => Err(self.not_stored(end, stored)),
            _ => Ok(()),
        }
    }

    /// Stores what waits, takes no more, and frees the session. All callers get the first one's outcome.
    pub(super) fn close(&self) -> Result<()> {
        {
            let mut state = self.state.lock();
            while state.phase != Phase::Open {
                if let Some(outcome) = &state.closed {
                    return outcome.as_ref().map_or(Ok(()), |error| Err(error.again()));
                }
                state = self.changed.wait(state);
            }
            state.phase = Phase::Closing;
        }
        let turn = self.turn();
        let mut errors = Vec::new();
        errors.extend(self.drain(&turn, Until::Sealed).err());
        let below = {
            let mut state = turn.state();
            // Also after a drain that failed: what it left is lost to the store, and the error says so.
            state.phase = Phase::Sealed;
            state.below.take()
        };
        // While the session is still owned, so that a later handle of the id is never taken for this one.
        if let Some(registry) = self.registry.upgrade() {
            registry.leave(self);
        }
        errors.extend(below.and_then(|below| below.close().err()));
        let outcome = Error::aggregate(errors);
        turn.state().closed = Some(outcome.as_ref().map(Error::again));
        drop(turn);
        outcome.map_or(Ok(()), Err)
    }
}
