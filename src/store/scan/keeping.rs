//! Scans that keep the text that they read.

use super::super::log_file::LogFile;
use super::begin::{Blocks, head_of, position};
use super::judge::Scan;
use super::report::Report;
use super::{ScanOptions, Visit};
use crate::container::{
    Arena, BlockReader as _, Claim, Encoding, FileSource, IndexedReader, Kept, Outlook, read_ahead,
};
use crate::error::Result;

/// A part of a compressed log that is to be scanned, its text kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The scan begins with the block that holds this event.
    pub(crate) from: u64,
    /// It ends behind the block that holds the event before this one; the visitor says where in it.
    pub(crate) to: u64,
    /// Events of the log, if they are known.
    pub(crate) total: Option<u64>,
    /// What its end was found to claim, if it was looked at.
    pub(crate) claim: Option<Claim>,
    /// Room for the text, in bytes.
    pub(crate) room: usize,
}

/// What became of a scan that keeps the text.
#[derive(Debug)]
pub(crate) enum Keeping {
    /// The text that was read: a row's [`Place::text_at`] is its place there.
    Text(Arena, Box<Report>),
    /// The room did not suffice. What was visited is void.
    OutOfRoom,
    /// The scan would begin before the block that holds [`Part::from`]. Nothing was visited.
    FromTheHead,
}

/// Scans a part of a compressed log, and hands out the text that it read. The header is delivered only if that is part of it.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_keeping(
    log: &LogFile,
    options: ScanOptions,
    part: Part,
    visit: Visit<'_>,
) -> Result<Keeping> {
    let mut arena = Arena::with_room(part.room);
    if log.encoding() == Encoding::Indexed && !arena.spare().is_empty() {
        return scan_into(arena, log, options, part, visit);
    }
    let mut source = log.source()?;
    let Some((mut blocks, mut scan)) = begin(log, options, part, &mut source)? else {
        return Ok(Keeping::FromTheHead);
    };
    let blocks = blocks.as_mut();
    blocks.keep_in(Kept(arena));
    scan.run(&mut source, blocks, visit)?;
    let kept = blocks.take_kept().unwrap_or_default();
    Ok(Keeping::Text(kept.0, Box::new(scan.finish(blocks.tail()))))
}

/// [`scan_keeping`] of an indexed log, with room that is there: what is read has its place in it too, and long parts are
/// decompressed by several threads.
fn scan_into(
    mut arena: Arena,
    log: &LogFile,
    options: ScanOptions,
    part: Part,
    visit: Visit<'_>,
) -> Result<Keeping> {
    let spare = arena.spare();
    let Some((text, input)) = spare.split_at_mut_checked(place_of_input(part.room, spare.len())) else {
        return Ok(Keeping::OutOfRoom);
    };
    let mut source = log.source()?;
    if let Some(input) = input.get_mut(..FileSource::READ_AHEAD) {
        source = source.with_buffer(input);
    }
    let Some((Blocks::Indexed(mut reader), mut scan)) = begin(log, options, part, &mut source)? else {
        return Ok(Keeping::FromTheHead);
    };
    let threads = threads_for(log, &reader, part.to, part.total);
    let outlook = Outlook { threads, until: part.to, room: Some(text) };
    let outcome = read_ahead(&mut reader, outlook, |blocks| scan.run(&mut source, blocks, visit));
    if outcome.is_out_of_room {
        return Ok(Keeping::OutOfRoom);
    }
    outcome.result?;
    drop(source);
    arena.grown(outcome.used);
    Ok(Keeping::Text(arena, Box::new(scan.finish(reader.tail()))))
}

/// A reader that stands before the block with which a part begins, and the scan of it. `None` where that is not known.
fn begin<'l>(
    log: &'l LogFile,
    options: ScanOptions,
    part: Part,
    source: &mut FileSource<'_>,
) -> Result<Option<(Blocks, Scan<'l>)>> {
    if part.from == 0 {
        return Ok(Some((Blocks::of(log), Scan::new(log, options))));
    }
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let blocks = position(log, source, header.generation(), &part)?;
    Ok(blocks.map(|blocks| (blocks, Scan::in_the_middle(log, options, header.clone()))))
}

/// Where in `spare` bytes of room the input lies behind the text, which may take `text` bytes of it.
fn place_of_input(text: usize, spare: usize) -> usize {
    let behind = spare.saturating_sub(FileSource::READ_AHEAD);
    let first_page = Arena::HUGE_PAGE.saturating_sub(FileSource::READ_AHEAD);
    if text <= first_page { behind.min(first_page) } else { behind }
}

/// How many other threads decompress segments up to event `to`, ahead of this one.
fn threads_for(log: &LogFile, reader: &IndexedReader, to: u64, total: Option<u64>) -> usize {
    /// Stored bytes that are worth a thread: milliseconds of work. Where the processors are busy, waiting for one that has to
    /// wait for its turn costs as much.
    const A_THREAD: u128 = 512 << 10;
    let (first, start) = reader.place();
    let left = log.stamp().size.saturating_sub(start);
    let events = total.map_or(1, |total| total.saturating_sub(first)).max(1);
    let wanted = to.saturating_sub(first).min(events);
    let bytes = u128::from(left).saturating_mul(u128::from(wanted)).checked_div(u128::from(events));
    // This thread takes its share.
    let threads = bytes.unwrap_or(0).checked_div(A_THREAD).unwrap_or(0).saturating_sub(1);
    usize::try_from(threads).unwrap_or(usize::MAX)
}
