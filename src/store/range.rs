//! Events from anywhere in a log, without reading what lies before them.

use std::ops::ControlFlow;

use super::events::Events;
use super::log_file::LogFile;
use super::restore::require_known;
use super::scan::{Item, ScanOptions, scan_from_of};
use super::snapshot::last_row;
use crate::container::{Encoding, Last, probe, sealed_count};
use crate::error::Result;
use crate::row::{Check, Header};

/// Reads events `[from, to)` into `events`; gives the number of events in the log.
///
/// `total` is what [`count_events`] gives. Begins with the block that holds `from`, found by the encoding's own means (O(log n)
/// trailers in an indexed log), and goes on to the end of the log, or to `to` where the two ends tell how many events there are.
///
/// # Errors
/// [`crate::Error::Corruption`] and [`crate::Error::FormatUnsupported`]; damage before `from` is not looked for.
/// [`crate::Error::DamagedTail`] if the range goes on where the end is damaged: its events up to there can be read.
pub(crate) fn read_range(
    log: &LogFile,
    total: Option<u64>,
    from: u64,
    to: u64,
    events: &mut Events,
) -> Result<u64> {
    // Where no checksum vouches for the payloads, half a row and a whole one on one line may look like an event.
    let check = if log.encoding() == Encoding::Plain { Check::Full } else { Check::Envelope };
    let options = ScanOptions { check, ..ScanOptions::STRICT };
    let report = scan_from_of(log, options, from.min(total.unwrap_or(u64::MAX)), total, &mut |item| {
        if let Item::Row { row, .. } = item {
            require_known(log, &row)?;
            events.push_row(&row, from, to);
            if total.is_some() && row.next_seq() >= to {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    report.require(log)?;
    if to > report.events {
        // Less than was asked for, and nobody knows whether it was all: that must not pass for the end of the log.
        report.require_appendable(log)?;
    }
    Ok(total.unwrap_or(report.events))
}

/// Events of the log as its end tells, where that is clear from behind.
///
/// Sure of it even if the last appends were not synced: a crash may have damaged what lies before the end, and then the
/// log is shorter.
pub(crate) fn count_events(log: &LogFile) -> Option<u64> {
    let mut source = log.probe_source();
    if log.encoding() == Encoding::Indexed {
        return sealed_count(&mut source).ok().flatten();
    }
    let ends = probe(&mut source, log.encoding(), *log.limits()).ok()?;
    let header = Header::parse(ends.header.strip_suffix(b"\n")?, log.limits()).ok()?;
    match ends.last {
        Last::HeaderOnly => Some(0),
        Last::Rows { line, counted } => {
            let (events, _) = last_row(&line, header.generation(), log.limits())?;
            (counted.is_none() || counted == Some(events)).then_some(events)
        }
        Last::Unclear => None,
    }
}
