//! Events of the current generation out of a log of any.
//!
//! Spec: `format-spec/06-migration.md`, "Reading".

use std::ops::ControlFlow;

use super::events::Events;
use super::lines::{LineEnd, each_line};
use super::log_file::LogFile;
use crate::error::{Error, Result, Unsupported};
use crate::format::{Code, Refusal, Restore, Restored, TargetRow, Validation};
use crate::row::{Check, Event, PhysicalRow, Recovery};
use crate::session::Profile;

/// Converts the log in memory and adds its events `[from, to)` to `events`. Nothing is published.
///
/// A conversion has to see the whole log, whatever part of it is wanted.
///
/// # Errors
/// [`Error::Refused`] if the log cannot be converted; damage in its bytes as in any other read.
pub(crate) fn restore_range(log: &LogFile, from: u64, to: u64, events: &mut Events) -> Result<Restored> {
    let mut line = Vec::new();
    restore(log, &mut |row| {
        if (from..to).contains(&row.seq().get()) {
            line.clear();
            row.write_to(&mut line);
            events.push_line(&line);
        }
        ControlFlow::Continue(())
    })
}

/// Converts the log in memory and gives its events from `from` on, with their seqs, to `take`.
///
/// # Errors
/// As [`restore_range`]; what was taken is then no log.
pub(crate) fn restore_range_of(
    log: &LogFile,
    from: u64,
    take: &mut dyn FnMut(u64, &TargetRow<'_>),
) -> Result<Restored> {
    restore(log, &mut |row| {
        if row.seq().get() >= from {
            take(row.seq().get(), row);
        }
        ControlFlow::Continue(())
    })
}

/// Delivers the log's events in the current generation to `visit`, converting them if need be, and judges the whole.
///
/// What was delivered is a log only if this succeeds: a conversion may be refused as late as at the end.
///
/// # Errors
/// [`Error::Refused`] if the log cannot be converted; damage in its bytes as in any other read.
pub fn restore(log: &LogFile, visit: &mut dyn FnMut(&TargetRow<'_>) -> ControlFlow<()>) -> Result<Restored> {
    let refused = |source| Error::Refused { path: log.path().to_path_buf(), source };
    let header = log.header_line()?;
    let mut restore = Restore::new(&header, Recovery::Recoverable, Validation::Transformed, log.limits())
        .map_err(refused)?;
    let (mut line, mut unread) = (Vec::new(), None);
    let visit = &mut |row: &TargetRow<'_>| {
        line.clear();
        row.write_to(&mut line);
        // Two sources that become one event, or an attempt whose chunks are too much for one row: only a publication refuses
        // these, by reading them back.
        match Event::read(&line, Check::Envelope, log.limits()) {
            Ok(_) => visit(row),
            Err(_) => {
                let refusal =
                    Refusal::publication(Code::Reopen, "what it is converted to does not read back");
                unread = Some(refusal.at_seq(row.seq().get()));
                ControlFlow::Break(())
            }
        }
    };
    let mut refusal = None;
    let end = each_line(log, &mut |line| match restore.push(line, visit) {
        Ok(flow) => flow,
        Err(found) => {
            refusal = Some(found);
            ControlFlow::Break(())
        }
    })?;
    // Half a line belongs to an append that was cut short; what stands before it is the log.
    debug_assert!(matches!(end, LineEnd::Whole | LineEnd::HalfALine), "both end a log");
    let restored = match refusal {
        Some(refusal) => Err(refusal),
        None => restore.finish(visit),
    };
    match (restored, unread) {
        (Ok(_), Some(refusal)) | (Err(refusal), _) => Err(refused(refusal)),
        (Ok(restored), None) => Ok(restored),
    }
}

/// Refuses an event that a reader of the current generation has to understand and does not know.
///
/// # Errors
/// [`Error::FormatUnsupported`] with its type and seq.
pub(crate) fn require_known(log: &LogFile, row: &PhysicalRow<'_>) -> Result<()> {
    let Some(event) = Profile::current().unknown_event(row) else { return Ok(()) };
    let event_type = super::layout::printable(&event.event_type().to_text());
    Err(Error::FormatUnsupported {
        path: log.path().to_path_buf(),
        reason: Unsupported::EventType { seq: event.seq().get(), event_type },
    })
}
