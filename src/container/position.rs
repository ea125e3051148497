//! Starting to read in the middle of a log.
//!
//! Spec: `format-spec/01-container.md`, "Seeking".

use std::ops::Range;

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame;
use super::framed::FramedReader;
use super::indexed::{Hop, IndexedReader, Walk, last_trailer, trailer_at};
use super::plain::PlainReader;
use super::probe::Claim;
use super::read::BlockReader;
use super::source::Source;
use super::trailer::{TRAILER_LEN, Trailer};
use super::zstd::Decoder;
use crate::limits::Limits;

/// Tells the seq of a row, or `None` for a line that is none.
pub type SeqOf<'f> = &'f mut dyn FnMut(&[u8]) -> Option<u64>;

/// Returns a reader whose first block is the last one that begins at or before event `seq`, or `None` where reading from
/// the head is as good or the log's structure does not lead there.
///
/// `seq` must be above 0; `events` is how many there are, if that is known: a place to start a search from, and nothing that
/// is relied on. Cost: O(log segments) trailers in an indexed log; in a framed one, all frame headers and O(log frames)
/// frames, about two where they hold alike many events; in a plain one O(log bytes) looks at a page. What lies before the
/// block is not checked.
///
/// # Errors
/// What reading gives. Damage on the way is no error: the caller then reads from the head and meets it in its place.
pub fn reader_at(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
    seq: u64,
    events: Option<u64>,
    seq_of: SeqOf<'_>,
) -> Result<Option<Box<dyn BlockReader>>, ReadError> {
    let found = match encoding {
        Encoding::Indexed => {
            let found = indexed_at(source, limits, seq..u64::MAX, None)?;
            return Ok(found.map(|reader| Box::new(reader) as Box<dyn BlockReader>));
        }
        Encoding::Zstd => framed(source, limits, seq, events, seq_of),
        Encoding::Plain => plain(source, limits, seq, seq_of),
    };
    match found {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        other => other,
    }
}

/// Returns a reader whose first block is the one that starts at file offset `start`: where an earlier reader of this very file
/// met a block that is not the header's. `None` if no block can start there. Reads the header and, in an indexed log, one
/// trailer; whether the file is still the one that it was is for the caller to prove by what it reads.
///
/// # Errors
/// What reading gives, as for [`reader_at`].
pub(crate) fn reader_behind(
    source: &mut dyn Source,
    encoding: Encoding,
    limits: Limits,
    start: u64,
) -> Found {
    let found = match encoding {
        Encoding::Indexed => indexed_behind(source, limits, start),
        Encoding::Zstd => Ok(Some(Box::new(FramedReader::behind(start, limits)) as Box<dyn BlockReader>)),
        Encoding::Plain => Ok(Some(Box::new(PlainReader::behind(start, limits)) as Box<dyn BlockReader>)),
    };
    match found {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        other => other,
    }
}

fn indexed_behind(source: &mut dyn Source, limits: Limits, start: u64) -> Found {
    let (walk, _) = Walk::start(source)?;
    let Some(at) = start.checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
    let stored = trailer_at(source, at)?;
    let trailer = Trailer::parse(&stored, walk.id()).map_err(|fault| ReadError::bad(at, fault))?;
    Ok(Some(Box::new(IndexedReader::behind(walk.id(), Hop { trailer, end: start }, limits))))
}

type Found = Result<Option<Box<dyn BlockReader>>, ReadError>;

/// As [`reader_at`], for whoever reads the events `seqs`, of an indexed log whose end was looked at before, if `claim` says so.
///
/// # Errors
/// As [`reader_at`].
pub(crate) fn indexed_at(
    source: &mut dyn Source,
    limits: Limits,
    seqs: Range<u64>,
    claim: Option<Claim>,
) -> Result<Option<IndexedReader>, ReadError> {
    match indexed(source, limits, seqs, claim) {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        other => other,
    }
}

fn indexed(
    source: &mut dyn Source,
    limits: Limits,
    seqs: Range<u64>,
    claim: Option<Claim>,
) -> Result<Option<IndexedReader>, ReadError> {
    let (id, durable) = match claim {
        Some(claim) => claim.durable,
        None => {
            let (walk, _) = Walk::start(source)?;
            let Some(last) = last_trailer(source, walk.id())? else { return Ok(None) };
            (walk.id(), last.durable(source, walk.id())?)
        }
    };
    // Behind that only a walk tells where the log ends. It needs no decompression up to the event.
    let Some(durable) = durable else { return Ok(None) };
    let mut seq = seqs.start;
    loop {
        let (before, behind) = durable.around(source, id, seq..seqs.end)?;
        if let Some(behind) = behind {
            source.expect(before.end..behind.end);
        }
        let mut walk = Walk::behind(id, before.trailer, before.end);
        let mut found = before;
        while walk.step(source).is_ok() && walk.previous().next_seq <= seq {
            found = Hop { trailer: *walk.previous(), end: walk.end() };
        }
        if walk.previous().next_seq > seq {
            return Ok(Some(IndexedReader::behind(id, found, limits)));
        }
        // The log ends at or before `seq`: its last event tells how many there are.
        match walk.previous().next_seq.checked_sub(1) {
            Some(last) if last > 0 => seq = last,
            _ => return Ok(None),
        }
    }
}

fn framed(
    source: &mut dyn Source,
    limits: Limits,
    seq: u64,
    events: Option<u64>,
    seq_of: SeqOf<'_>,
) -> Found {
    let mut frames = Vec::new();
    let mut at = frame::walk(source, 0)?.end;
    while at < source.size() {
        // A torn end is met again, and judged, by the reader.
        let Ok(frame) = frame::walk(source, at) else { break };
        at = frame.end;
        frames.push(frame);
    }
    let mut decoder = Decoder::new(limits);
    let mut decoded = None;
    let mut span_of = |index: usize| -> Result<Option<Span>, ReadError> {
        let Some(frame) = frames.get(index) else { return Ok(None) };
        let len =
            usize::try_from(frame.stored_len()).map_err(|_| ReadError::bad(frame.start, Fault::FrameData))?;
        let stored = source.get(frame.start, len)?;
        decoded = None;
        let content = decoder.decode(frame, stored).map_err(|fault| ReadError::bad(frame.start, fault))?;
        decoded = Some(index);
        let text = content.strip_suffix(b"\n").unwrap_or(content);
        let first = text.split(|&byte| byte == b'\n').next().and_then(&mut *seq_of);
        let last_at = memchr::memrchr(b'\n', text).map_or(0, |newline| newline.saturating_add(1));
        let last = text.get(last_at..).and_then(&mut *seq_of);
        Ok(first.map(|first| Span { first, last: last.unwrap_or(first) }))
    };
    let found = last_at_or_before(frames.len(), seq, events, &mut span_of)?;
    let start = found.and_then(|index| Some((index, *frames.get(index)?)));
    Ok(start.map(|(index, frame)| {
        let reader = FramedReader::at(frame, decoder, decoded == Some(index), limits);
        Box::new(reader) as Box<dyn BlockReader>
    }))
}

fn plain(source: &mut dyn Source, limits: Limits, seq: u64, seq_of: SeqOf<'_>) -> Found {
    /// A shorter stretch is read as it is.
    const CLOSE: u64 = 64 << 10;
    let Some((mut low, _)) = line_at(source, limits, 0)? else { return Ok(None) };
    let mut high = source.size();
    let mut found = None;
    while high.saturating_sub(low) > CLOSE {
        let middle = low.midpoint(high);
        // The line that holds the middle ends before the one that is looked at.
        let Some((start, _)) = line_at(source, limits, middle)? else {
            high = middle;
            continue;
        };
        let Some((end, line)) = line_at(source, limits, start)?.filter(|&(end, _)| end <= high) else {
            high = middle;
            continue;
        };
        match seq_of(&line) {
            Some(first) if first <= seq => {
                found = Some(start);
                low = end;
            }
            Some(_) => high = middle,
            None => return Ok(None),
        }
    }
    Ok(found.map(|start| Box::new(PlainReader::behind(start, limits)) as Box<dyn BlockReader>))
}

/// The end of the first line that ends behind `at`, and the bytes from `at` to its newline. `None` if no line ends there.
fn line_at(source: &mut dyn Source, limits: Limits, at: u64) -> Result<Option<(u64, Vec<u8>)>, ReadError> {
    let mut want = 4 << 10;
    loop {
        let left = source.size().saturating_sub(at);
        let take = usize::try_from(left.min(want)).unwrap_or(0);
        let bytes = source.get(at, take)?;
        if let Some(newline) = memchr::memchr(b'\n', bytes) {
            let end = at.saturating_add(newline as u64).saturating_add(1);
            return Ok(Some((end, bytes.get(..newline).unwrap_or_default().to_vec())));
        }
        if want >= left || want >= limits.row_bytes_max {
            return Ok(None);
        }
        want = want.saturating_mul(4);
    }
}

/// The seqs of the first and last row of an item.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

/// Index of the last of `count` items, ascending, that begins at or before `seq`. Items without a seq (frames without rows)
/// are passed over backwards.
///
/// Looks first where `seq` would stand if all items held alike many of the `events`, then as far from there as the item that
/// was found tells, and after a few looks in the middle every other time: never more than two looks for each halving.
fn last_at_or_before(
    count: usize,
    seq: u64,
    events: Option<u64>,
    span_of: &mut dyn FnMut(usize) -> Result<Option<Span>, ReadError>,
) -> Result<Option<usize>, ReadError> {
    const GUESSES: usize = 3;
    let (mut low, mut high) = (0, count);
    let mut guess = events.map(|events| in_proportion(count, seq, events));
    let mut found = None;
    let mut looks = 0_usize;
    while low < high {
        let middle = match guess.filter(|_| looks < GUESSES || looks.is_multiple_of(2)) {
            Some(guess) => guess.clamp(low, high.saturating_sub(1)),
            None => low.midpoint(high),
        };
        looks = looks.saturating_add(1);
        let mut at = middle;
        let span = loop {
            match span_of(at)? {
                None if at > low => at = at.saturating_sub(1),
                span => break span,
            }
        };
        guess = span.map(|span| span.guess(at, seq));
        match span {
            Some(Span { first, last }) if first <= seq => {
                found = Some(at);
                low = middle.saturating_add(1);
                if seq <= last {
                    break;
                }
            }
            Some(_) => high = at,
            None => low = middle.saturating_add(1),
        }
    }
    Ok(found)
}

impl Span {
    /// The item that holds `seq`, if this is item `at` and all others hold as many events.
    fn guess(self, at: usize, seq: u64) -> usize {
        let each = self.last.saturating_sub(self.first).saturating_add(1);
        let items =
            |events: u64| usize::try_from(events.checked_div(each).unwrap_or(0)).unwrap_or(usize::MAX);
        if self.first <= seq {
            at.saturating_add(items(seq.saturating_sub(self.first)))
        } else {
            let before = self.first.saturating_sub(seq).saturating_sub(1);
            at.saturating_sub(items(before)).saturating_sub(1)
        }
    }
}

/// The item of `count` that holds `seq`, if all hold alike many of `events`.
fn in_proportion(count: usize, seq: u64, events: u64) -> usize {
    let place = u128::from(seq).saturating_mul(count as u128).checked_div(u128::from(events)).unwrap_or(0);
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at items that hold `sizes` events each; an item of size 0 has no rows.
    fn search(sizes: &[u64], seq: u64, events: Option<u64>) -> (Option<usize>, usize) {
        let mut looks = 0;
        let mut span_of = |index: usize| {
            looks += 1;
            let first: u64 = sizes[..index].iter().sum();
            Ok((sizes[index] > 0).then(|| Span { first, last: first + sizes[index] - 1 }))
        };
        let found = last_at_or_before(sizes.len(), seq, events, &mut span_of).unwrap();
        (found, looks)
    }

    fn expected(sizes: &[u64], seq: u64) -> Option<usize> {
        let first = |index: usize| sizes[..index].iter().sum::<u64>();
        (0..sizes.len()).rfind(|&index| sizes[index] > 0 && first(index) <= seq)
    }

    #[test]
    fn the_item_is_found_whatever_the_sizes_and_the_guess() {
        let sets: [&[u64]; 6] = [
            &[1],
            &[5, 5, 5, 5],
            &[1, 1, 1, 1, 1000, 1, 1, 1],
            &[0, 3, 0, 0, 2, 0],
            &[1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            &[],
        ];
        for sizes in sets {
            let total: u64 = sizes.iter().sum();
            for seq in 0..total + 2 {
                for events in [None, Some(total), Some(0), Some(1), Some(u64::MAX)] {
                    let (found, _) = search(sizes, seq, events);
                    assert_eq!(found, expected(sizes, seq), "{sizes:?} {seq} {events:?}");
                }
            }
        }
    }

    #[test]
    fn items_alike_take_two_looks_and_no_items_take_more_than_two_for_each_halving() {
        let alike = vec![32; 5000];
        let looks = |sizes: &[u64], seq| search(sizes, seq, Some(sizes.iter().sum())).1;
        assert!((0..160_000).step_by(97).all(|seq| looks(&alike, seq) <= 2));
        let mut skewed = vec![1; 5000];
        skewed[4999] = 1 << 40;
        let worst = (0..5000).step_by(7).map(|seq| looks(&skewed, seq)).max();
        assert!(worst <= Some(2 * 13 + 1), "{worst:?}");
    }
}
