//! Events from anywhere in a log, without reading what lies before them.

use std::ops::ControlFlow;

use super::events::Events;
use super::log_file::LogFile;
use super::restore::require_known;
use super::scan::{Item, Keeping, Part, Report, ScanOptions, Verdict, scan_from_of, scan_keeping};
use super::snapshot::last_row;
use crate::container::{Claim, Encoding, Last, claim, probe, sealed_count};
use crate::error::Result;
use crate::row::{Check, Header, PhysicalRow};

/// How many events a log has, as far as a read of some of them can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many.
    Proven(u64),
    /// So many, unless the last append was torn: its end says so, and nobody has looked at what stands before it.
    Claimed(u64),
}

/// Reads events of a log; they and the number of events in the log. `range_of` says which are wanted, told how many there are
/// where the log's end tells.
///
/// Begins with the block that holds the first of them, found by the encoding's own means (O(log n) trailers in an indexed
/// log), and goes on to the end of the log, or to the last of them where the two ends tell how many events there are.
///
/// # Errors
/// [`crate::Error::Corruption`] and [`crate::Error::FormatUnsupported`]; damage before the range is not looked for.
/// [`crate::Error::DamagedTail`] if the range goes on where the end is damaged: its events up to there can be read.
pub(crate) fn read_range(
    log: &LogFile,
    range_of: &dyn Fn(Option<u64>) -> (u64, u64),
) -> Result<(Events, Count)> {
    if let Some(found) = read_as_claimed(log, range_of) {
        return Ok(found);
    }
    let total = count_events(log);
    let (from, to) = range_of(total);
    let (events, report) = read(log, total, None, from, to)?;
    report.require(log)?;
    if to > report.events {
        // Less than was asked for, and nobody knows whether it was all: that must not pass for the end of the log.
        report.require_appendable(log)?;
    }
    Ok((events, Count::Proven(total.unwrap_or(report.events))))
}

/// Reads what the last trailer of an indexed log says is there, if reading itself then proves it: below the durable boundary no
/// crash has damaged anything, and what lies above it is walked through where the range goes to the end.
///
/// `None` where the log is not as its end claims, or is of another encoding: then it takes a closer look, which also finds the
/// words for what is wrong.
fn read_as_claimed(log: &LogFile, range_of: &dyn Fn(Option<u64>) -> (u64, u64)) -> Option<(Events, Count)> {
    if log.encoding() != Encoding::Indexed {
        return None;
    }
    let claim = claim(&mut log.probe_source()).ok().flatten()?;
    let Claim { events: total, durable_events, .. } = claim;
    let (from, to) = range_of(Some(total));
    if to < total && to > durable_events {
        return None;
    }
    let (events, report) = read(log, Some(total), Some(claim), from, to).ok()?;
    // A bad row stops a scan too.
    match (report.verdict, report.stopped) {
        (Verdict::Sound, true) => Some((events, Count::Claimed(total))),
        (Verdict::Sound, false) if report.events == total => Some((events, Count::Proven(total))),
        _ => None,
    }
}

/// Reads events `[from, to)`, and what the scan for them found. `total`: how many there are, if that is known.
fn read(
    log: &LogFile,
    total: Option<u64>,
    claim: Option<Claim>,
    from: u64,
    to: u64,
) -> Result<(Events, Report)> {
    // Where no checksum vouches for the payloads, half a row and a whole one on one line may look like an event.
    let check = if log.encoding() == Encoding::Plain { Check::Full } else { Check::Envelope };
    let options = ScanOptions { check, ..ScanOptions::STRICT };
    let begin = from.min(total.unwrap_or(u64::MAX));
    let is_last = |row: &PhysicalRow<'_>| {
        if total.is_some() && row.next_seq() >= to {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let mut room = room_for(log, total, from, to);
    while log.encoding() != Encoding::Plain {
        let (mut start, mut ends) = (None, Vec::new());
        let part = Part { from: begin, to, total, claim, room };
        let kept = scan_keeping(log, options, part, &mut |item| {
            if let Item::Row { row, place } = item {
                require_known(log, &row)?;
                let at = usize::try_from(place.text_at).unwrap_or(usize::MAX);
                if (from..to).contains(&row.first_seq().get()) {
                    start.get_or_insert(at);
                    ends.push(at.saturating_add(row.line().len()).saturating_add(1));
                }
                return Ok(is_last(&row));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        match kept {
            Keeping::Text(text, report) => {
                return Ok((Events::in_place(text, start.unwrap_or(0), ends), *report));
            }
            Keeping::OutOfRoom => room = room.saturating_mul(8),
            Keeping::FromTheHead => break,
        }
    }
    let mut events = Events::with_room(if log.encoding() == Encoding::Plain { room } else { 0 });
    let report = scan_from_of(log, options, begin, total, &mut |item| {
        if let Item::Row { row, .. } = item {
            require_known(log, &row)?;
            events.push_row(&row, from, to);
            return Ok(is_last(&row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((events, report))
}

/// How much room the text of events `[from, to)` may take. Too much costs address space, too little a second read.
fn room_for(log: &LogFile, total: Option<u64>, from: u64, to: u64) -> usize {
    /// Events that share their segments with the first and the last.
    const AROUND: u64 = 64;
    /// Text of up to so many bytes shares a huge page with what is read.
    const SHORT: u128 = 3 << 19;
    let total = total.unwrap_or(u64::MAX).max(1);
    let wanted = to.min(total).saturating_sub(from.min(total)).saturating_add(AROUND).min(total);
    let stored = u128::from(log.stamp().size)
        .saturating_mul(u128::from(wanted))
        .checked_div(u128::from(total))
        .unwrap_or(0);
    let room = match log.encoding() {
        Encoding::Plain => stored,
        // Rows in large segments are stored in a fourth of their length, small ones in a twelfth.
        _ if stored.saturating_mul(4) <= SHORT && stored.saturating_mul(12) > SHORT => SHORT,
        _ => stored.saturating_mul(12),
    };
    usize::try_from(room).unwrap_or(0)
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
