//! Target `trailer`: 64 bytes by themselves, chains of them, and the ways back along a chain.

use super::choices::Choices;
use super::seal::seal_trailer;
use crate::container::parts::{SKIPPABLE_HEADER, Trailer, Walk, WalkStop, crc32, last_trailer};
use crate::container::{Fault, LogId, TRAILER_LEN};

/// The first byte chooses: stored trailers of a log whose id stands before them, or the plan of a chain.
///
/// # Panics
/// If a trailer that passes is not the one that writing its members gives, or passes with a bit flipped or for another log; if
/// a sound chain is refused, one with a changed member is not, or a way back along it misses a segment.
pub fn fuzz_trailer(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    if choice & 1 == 0 { single(rest) } else { chain(&mut Choices::new(rest)) }
}

fn single(data: &[u8]) {
    let Some((id, rest)) = data.split_first_chunk::<8>() else { return };
    let id = u64::from_le_bytes(*id);
    let Some(log_id) = LogId::new(id) else { return };
    let mut previous: Option<Trailer> = None;
    for stored in rest.as_chunks::<TRAILER_LEN>().0 {
        if let Ok((first, first_id)) = Trailer::parse_first(stored) {
            assert_eq!((first.segment, first.events, first.next_seq), (0, 0, 0));
            assert_eq!((Trailer::parse(stored, first_id), first.skip), (Ok(first), first_id.get()));
        }
        let mut sealed = *stored;
        seal_trailer(&mut sealed, id.to_le_bytes().first_chunk().map_or(0, |low| u32::from_le_bytes(*low)));
        let trailer = match Trailer::parse(stored, log_id) {
            Ok(trailer) => trailer,
            Err(Fault::TrailerCrc { .. }) => {
                assert_ne!(&sealed, stored, "a right CRC was refused");
                continue;
            }
            Err(Fault::TrailerMagic | Fault::TrailerVersion { .. } | Fault::TrailerFlags { .. }) => continue,
            Err(fault) => unreachable!("no fault of a trailer by itself: {fault}"),
        };
        assert_eq!(&sealed, stored, "a wrong CRC passed");
        rewrites(trailer, stored, log_id);
        places_lie_before(&trailer);
        if let Some(previous) = previous {
            follows_by_the_rules(&trailer, &previous);
        }
        previous = Some(trailer);
    }
}

/// Writing the members gives the stored bytes, up to the four flags that readers ignore; no other bits do.
fn rewrites(trailer: Trailer, stored: &[u8; TRAILER_LEN], id: LogId) {
    let mut again = trailer;
    let written = again.seal(id);
    let flags = SKIPPABLE_HEADER.len().saturating_add(3);
    let unused = stored.get(flags).is_some_and(|flags| flags & 0xf0 != 0);
    assert!(&written == stored || unused, "written otherwise: {trailer:?}");
    assert_eq!(Trailer::parse(&written, id), Ok(again));
    for at in 0..TRAILER_LEN {
        let mut flipped = *stored;
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1_u8.checked_shl(u32::from(trailer.crc.to_le_bytes()[0]) & 7).unwrap_or(1);
        }
        assert!(Trailer::parse(&flipped, id).is_err(), "byte {at} flipped, and it passed");
    }
    let other = LogId::new(id.get() ^ 0x10).or(LogId::new(1)).expect("not 0");
    assert!(Trailer::parse(stored, other).is_err(), "it passed for another log");
}

/// Whatever the numbers are, the places that they lead to lie in the file.
fn places_lie_before(trailer: &Trailer) {
    for end in [0, 63, 64, 1000, u64::from(trailer.body_len).saturating_add(64), u64::MAX] {
        let start = trailer.body_start(end);
        assert!(start.is_none_or(|start| start.checked_add(64).is_some_and(|least| least <= end)));
        assert_eq!(
            trailer.durable_boundary(end),
            start.and_then(|start| start.checked_sub(trailer.unsynced.into()))
        );
        assert!(trailer.skip_to(end).is_none_or(|target| (64..=end).contains(&target)));
    }
}

/// The rules of `format-spec/03-trailer.md`, written down once more.
fn follows_by_the_rules(trailer: &Trailer, previous: &Trailer) {
    let previous_end = 1_u64 << 33;
    for body_len in [u64::from(trailer.body_len), u64::from(trailer.body_len ^ 1)] {
        let end = previous_end.saturating_add(body_len).saturating_add(TRAILER_LEN as u64);
        let is_marker = trailer.body_len == 0;
        let time_stays = trailer.last_time == previous.last_time;
        let fits = previous.segment.checked_add(1) == Some(trailer.segment)
            && trailer.prev_crc == if previous.segment == 0 { 0 } else { previous.crc }
            && previous.next_seq.checked_add(trailer.events.into()) == Some(trailer.next_seq)
            && u64::from(trailer.body_len) == body_len
            && (trailer.events > 0 && !is_marker || time_stays)
            && (!is_marker || trailer.events == 0 && trailer.commit);
        // Sums that do not fit 64 bits saturate in the code; no log is that long.
        if previous.next_seq < u64::MAX >> 1 && previous.segment < u32::MAX {
            assert_eq!(
                trailer.follows(previous, previous_end, end).is_ok(),
                fits,
                "{trailer:?} after {previous:?}"
            );
        }
    }
}

/// Segments with tiny bodies, as this module writes them from the specification alone.
struct MadeChain {
    id: LogId,
    bytes: Vec<u8>,
    trailers: Vec<Trailer>,
    /// Where each trailer ends.
    ends: Vec<u64>,
}

const SEGMENTS_MAX: usize = 70;

impl MadeChain {
    fn new(choices: &mut Choices<'_>) -> Self {
        let id = LogId::new(choices.long() | 1).expect("odd");
        let mut chain = Self { id, bytes: Vec::new(), trailers: Vec::new(), ends: Vec::new() };
        chain.push(b"{}\n", |trailer| trailer.skip = id.get());
        let mut synced = 0;
        while !choices.is_empty() && chain.trailers.len() < SEGMENTS_MAX {
            let choice = choices.byte();
            let start = chain.bytes.len() as u64;
            if choice & 3 > 0 {
                synced = start;
            }
            let unsynced = u32::try_from(start.saturating_sub(synced)).unwrap_or(u32::MAX);
            let is_marker = choice & 0xf0 == 0xf0;
            let body: &[u8] = if is_marker { b"" } else { b"{\"a\":\"0123456789abcdef\"}\n" };
            let body = body
                .get(body.len().saturating_sub(usize::from(choice >> 4).saturating_add(3))..)
                .unwrap_or(body);
            chain.push(body, |trailer| {
                trailer.events = if is_marker { 0 } else { u32::from(choice >> 2 & 3) };
                trailer.unsynced = unsynced;
                trailer.commit = is_marker || choice & 3 != 1;
            });
        }
        chain
    }

    /// One more segment, its chain members as the table says; `set` fills the others in.
    fn push(&mut self, content: &[u8], set: impl FnOnce(&mut Trailer)) {
        let start = self.bytes.len();
        if !content.is_empty() {
            // A single-segment frame of one raw block, without a checksum.
            let len = u8::try_from(content.len()).unwrap_or(0);
            self.bytes.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, len, len << 3 | 1, len >> 5, 0]);
            self.bytes.extend_from_slice(content);
        }
        let body = self.bytes.get(start..).unwrap_or_default();
        let segment = self.trailers.len();
        let previous = self.trailers.last();
        let end = self.bytes.len().saturating_add(TRAILER_LEN) as u64;
        let target = back(segment);
        let mut trailer = Trailer {
            commit: true,
            segment: u32::try_from(segment).unwrap_or(u32::MAX),
            events: 0,
            prev_crc: previous.filter(|_| segment > 1).map_or(0, |previous| previous.crc),
            next_seq: 0,
            last_time: 5,
            body_len: u32::try_from(body.len()).unwrap_or(u32::MAX),
            unsynced: 0,
            skip: self.ends.get(target).map_or(0, |target| end.saturating_sub(*target)),
            body_crc: crc32(0, body),
            crc: 0,
        };
        set(&mut trailer);
        let before = previous.map_or(0, |previous| previous.next_seq);
        trailer.next_seq = before.saturating_add(trailer.events.into());
        self.bytes.extend_from_slice(&trailer.seal(self.id));
        self.trailers.push(trailer);
        self.ends.push(end);
    }
}

/// The segment that `segment` points back to, term by term: the greedy split into 2^k - 1, less its last term.
fn back(segment: usize) -> usize {
    let (mut rest, mut last) = (segment, 0);
    for exponent in (1..=u32::BITS).rev() {
        let term = 1_usize.checked_shl(exponent).map_or(usize::MAX, |power| power.saturating_sub(1));
        while rest >= term {
            rest = rest.saturating_sub(term);
            last = term;
        }
    }
    segment.saturating_sub(last)
}

fn chain(choices: &mut Choices<'_>) {
    let spoil = choices.word();
    let made = MadeChain::new(choices);
    let walked = walk(&made.bytes).expect("a sound chain is walked to its end");
    assert_eq!(walked, made.trailers);
    let id = made.id;
    let mut source = made.bytes.as_slice();
    let last = last_trailer(&mut source, id).expect("no input errors").expect("it ends in a trailer");
    assert_eq!(Some(&last.trailer), made.trailers.last());

    // Every event is found from behind, and so is the segment before every other.
    let events = last.trailer.next_seq;
    for seq in 0..=events {
        let hop = last.before(&mut source, id, seq).expect("a sound chain leads back");
        let expected = made.trailers.iter().rposition(|trailer| trailer.next_seq <= seq);
        assert_eq!(Some(hop.trailer.segment as usize), expected, "seq {seq} of {events}");
        assert_eq!(made.ends.get(hop.trailer.segment as usize), Some(&hop.end));
    }
    let mut hop = last;
    while hop.trailer.segment > 0 {
        let segment = hop.trailer.segment as usize;
        let skipped = hop.skip(&mut source, id).expect("it points back");
        assert_eq!(skipped.trailer.segment as usize, back(segment));
        let durable = hop.durable(&mut source, id).expect("a trailer ends there");
        let boundary = hop.trailer.durable_boundary(hop.end).unwrap_or(0);
        assert_eq!(durable.map_or(0, |durable| durable.end), boundary);
        hop = hop.previous(&mut source, id).expect("there is one before");
        assert_eq!(hop.trailer.segment as usize, segment.saturating_sub(1));
    }
    spoiled(&made, spoil);
}

/// Changes one member of one trailer and seals it: the walk must stop right there and name it.
fn spoiled(made: &MadeChain, spoil: u16) {
    let [which, member] = spoil.to_le_bytes();
    let at = usize::from(which).checked_rem(made.trailers.len()).unwrap_or(0);
    let Some((trailer, end)) = made.trailers.get(at).zip(made.ends.get(at)) else { return };
    let mut changed = *trailer;
    let number = u64::from(member >> 3).saturating_add(1);
    let narrow = u32::from(member >> 3).saturating_add(1);
    match member & 7 {
        0 => changed.segment = changed.segment.wrapping_add(narrow),
        1 => changed.prev_crc = changed.prev_crc.wrapping_add(narrow),
        2 => changed.next_seq = changed.next_seq.wrapping_add(number),
        3 => changed.body_len = changed.body_len.wrapping_add(narrow),
        // The id of the log stands there in the first trailer; any other seals another log.
        4 if at > 0 => changed.skip = changed.skip.wrapping_add(number),
        5 => changed.body_crc = changed.body_crc.wrapping_add(narrow),
        6 => changed.events = changed.events.wrapping_add(narrow),
        _ => return,
    }
    let mut bytes = made.bytes.clone();
    let end = usize::try_from(*end).unwrap_or(0);
    let place = bytes.get_mut(end.saturating_sub(TRAILER_LEN)..end).unwrap_or_default();
    place.copy_from_slice(&changed.seal(made.id));
    let walked = walk(&bytes).expect_err("a changed member passed");
    assert_eq!(walked, at, "it is found in another segment: {changed:?}, was {trailer:?}");
}

/// The trailers of a log, or the number of the segment at which the walk stops.
fn walk(bytes: &[u8]) -> Result<Vec<Trailer>, usize> {
    let mut source = bytes;
    let (mut walk, first) = Walk::start(&mut source).map_err(|_| 0_usize)?;
    let mut trailers = vec![first.trailer];
    loop {
        match walk.step(&mut source) {
            Ok(segment) => trailers.push(segment.trailer),
            Err(WalkStop::End) => return Ok(trailers),
            Err(WalkStop::Fault(_)) => return Err(trailers.len()),
            Err(WalkStop::Read(error)) => unreachable!("a slice has no input errors: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::parts::jump;
    use proptest::prelude::*;

    #[test]
    fn the_way_back_is_the_one_that_the_library_takes() {
        for segment in 0..5000 {
            assert_eq!(back(segment) as u32, jump(segment as u32), "{segment}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_hold(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_trailer(&data);
        }

        #[test]
        fn any_chain_holds(data in prop::collection::vec(any::<u8>(), 0..120)) {
            fuzz_trailer(&[&[1][..], &data].concat());
        }
    }
}
