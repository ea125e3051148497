//! Target `tail`: sound logs after a power loss, a flipped bit or foreign bytes, judged by every way to look at an end.

use super::choices::Choices;
use super::made::MadeLog;
use crate::container::parts::last_trailer;
use crate::container::{
    Batch, Encoding, Fault, Last, LogId, ReadError, RowMark, Tail, TailState, probe, reader, reader_at,
    sealed_count, skim, walk_frame,
};
use crate::limits::Limits;
use crate::row::Event;

const SECTOR: usize = 512;

/// Makes a log of `data` and what became of it.
///
/// # Panics
/// If a crash is judged corrupt or loses what was synced, if a flipped bit is judged a crash, if bytes are served that nobody
/// wrote, if a look from behind or a jump into the middle tells another story than the walk from the head, or if no append
/// goes on behind an end that is called appendable.
pub fn fuzz_tail(data: &[u8]) {
    let mut choices = Choices::new(data);
    let encoding = *choices.pick(&Encoding::ALL);
    let damage = choices.byte();
    let mut details = Choices::new(choices.rest().get(..12).unwrap_or_default());
    let mut plan = Choices::new(choices.rest().get(12..).unwrap_or_default());
    let log = MadeLog::new(encoding, &mut plan);
    match damage % 4 {
        0 => after_a_crash(&log, &mut details),
        1 => after_a_flip(&log, &mut details),
        2 => behind_foreign_bytes(&log, plan.rest()),
        _ => whole(&log),
    }
}

/// What the walk from the head gives: the text that it serves, and how it ends.
struct Walked {
    text: Vec<u8>,
    end: Result<Tail, ReadError>,
}

impl Walked {
    fn of(encoding: Encoding, bytes: &[u8]) -> Self {
        let mut source = bytes;
        let mut blocks = reader(encoding, Limits::DEFAULT);
        let mut text = Vec::new();
        let end = loop {
            match blocks.next(&mut source) {
                Ok(Some(block)) => text.extend_from_slice(block.content),
                Ok(None) => break Ok(blocks.tail().expect("an end is judged")),
                Err(error) => break Err(error),
            }
        };
        Self { text, end }
    }

    fn state(&self) -> Option<TailState> {
        self.end.as_ref().ok().map(|tail| tail.state)
    }
}

fn whole(log: &MadeLog) {
    let walked = Walked::of(log.encoding, &log.bytes);
    assert_eq!(walked.state(), Some(TailState::Complete), "{:?}", walked.end);
    assert_eq!(walked.text, log.text());
    ends_agree(log.encoding, &log.bytes, &walked);
    jumps_agree(log, &log.bytes, &walked);
    an_append_goes_on(log.encoding, &log.bytes, &walked);
    let counted = (log.encoding == Encoding::Indexed).then_some(Some(log.events()));
    let probed = probe(&mut log.bytes.as_slice(), log.encoding, Limits::DEFAULT).expect("it has a header");
    if let (Last::Rows { counted: found, .. }, Some(counted)) = (probed.last, counted) {
        assert_eq!(found, counted);
    }
}

/// Keeps what was synced before the last append; of the rest any length, and any sector as it was at any moment.
fn after_a_crash(log: &MadeLog, details: &mut Choices<'_>) {
    let durable = log.durable();
    let kept =
        durable.saturating_add(details.below(log.bytes.len().saturating_sub(durable).saturating_add(1)));
    let mut moments = details.long();
    let mut image = log.bytes.get(..kept).unwrap_or_default().to_vec();
    // Ends of the appends since then: what a sector may have been, besides nothing.
    let mut ends = vec![durable];
    ends.extend(log.appends.iter().map(|append| append.bytes.end).filter(|&end| end > durable));
    let mut changed = false;
    for start in (0..image.len()).step_by(SECTOR) {
        let end = start.saturating_add(SECTOR).min(image.len());
        if end <= durable {
            continue;
        }
        // Most sectors landed.
        let moment = usize::try_from(moments & 7).unwrap_or(0);
        moments = moments.rotate_right(3);
        let Some(&landed) = ends.get(moment) else { continue };
        let lost = image.get_mut(start.max(landed).min(end)..end).unwrap_or_default();
        changed |= lost.iter().any(|&byte| byte != 0);
        lost.fill(0);
    }
    let walked = Walked::of(log.encoding, &image);
    // A last sector of fewer than eight bytes: too few zeros to prove anything. In plain text zeros hide behind a line feed.
    let border = image.len().saturating_sub(image.len().checked_rem(SECTOR).unwrap_or(0));
    let is_stub = image.len().saturating_sub(border) < 8
        && image.get(border..).is_some_and(|stub| !stub.is_empty() && stub.iter().all(|&byte| byte == 0));
    let may_be_damaged = changed && (is_stub || log.encoding == Encoding::Plain);
    match walked.state() {
        Some(TailState::Complete | TailState::Unfinished | TailState::Torn) => {}
        Some(TailState::Damaged) if may_be_damaged => {}
        state => unreachable!(
            "a crash that kept {kept} of {} bytes, {durable} of them synced, is {state:?}: {:?}",
            log.bytes.len(),
            walked.end
        ),
    }
    let synced: Vec<u8> = log.lines.get(..log.lines_within(durable)).unwrap_or_default().concat();
    assert!(walked.text.starts_with(&synced), "synced rows are gone");
    if log.encoding != Encoding::Plain || !changed {
        assert!(log.text().starts_with(&walked.text), "rows that nobody wrote");
        jumps_agree(log, &image, &walked);
    }
    ends_agree(log.encoding, &image, &walked);
    an_append_goes_on(log.encoding, &image, &walked);
}

/// A bit of a log that was synced from end to end.
fn after_a_flip(log: &MadeLog, details: &mut Choices<'_>) {
    let at = details.below(log.bytes.len());
    let bit = details.byte() & 7;
    let mut image = log.bytes.clone();
    if let Some(byte) = image.get_mut(at) {
        *byte ^= 1_u8.checked_shl(bit.into()).unwrap_or(1);
    }
    let walked = Walked::of(log.encoding, &image);
    ends_agree(log.encoding, &image, &walked);
    if log.encoding == Encoding::Plain {
        return;
    }
    assert!(log.text().starts_with(&walked.text), "bit {bit} of byte {at} gives rows that nobody wrote");
    // A frame may hold bits that mean nothing; then its content is what it was.
    let is_harmless = log.encoding == Encoding::Zstd && walked.text == log.text();
    let is_seen = walked.state() != Some(TailState::Complete);
    assert!(is_seen || is_harmless, "bit {bit} of byte {at} is not seen");
    if log.encoding == Encoding::Indexed {
        assert_eq!(skim(&mut image.as_slice(), log.encoding, &mut |_| {}).ok(), Some(None), "byte {at}");
        assert!(
            matches!(walked.state(), None | Some(TailState::Damaged | TailState::Corrupt)),
            "bit {bit} of byte {at} is judged {:?}",
            walked.end
        );
        // What the last trailer vouches for is never called the victim of a crash.
        if at >= log.header_end && at < log.durable() {
            let is_told = matches!(walked.end, Err(ReadError::Bad { .. }));
            assert!(is_told, "bit {bit} of synced byte {at}: {:?}", walked.end);
        }
    }
}

/// A log that something else was appended to.
fn behind_foreign_bytes(log: &MadeLog, foreign: &[u8]) {
    if log.encoding == Encoding::Plain || foreign.is_empty() {
        return;
    }
    let image = [&log.bytes[..], foreign].concat();
    // A sound frame is a sound append, whoever wrote it.
    let is_frame = walk_frame(&mut image.as_slice(), log.bytes.len() as u64).is_ok();
    let walked = Walked::of(log.encoding, &image);
    assert!(walked.text.starts_with(&log.text()), "foreign bytes hide rows");
    if log.encoding == Encoding::Zstd && is_frame {
        return;
    }
    assert_eq!(walked.text, log.text(), "foreign bytes are served");
    if let Ok(tail) = &walked.end {
        assert_eq!(tail.good_end, log.bytes.len() as u64);
        assert!(!matches!(tail.state, TailState::Complete | TailState::Unfinished), "{tail:?}");
    }
    ends_agree(log.encoding, &image, &walked);
    an_append_goes_on(log.encoding, &image, &walked);
}

/// Looks from behind and over the structure know no more than the walk, and nothing else.
fn ends_agree(encoding: Encoding, bytes: &[u8], walked: &Walked) {
    let limits = Limits::DEFAULT;
    let mut source = bytes;
    let lines: Vec<&[u8]> = walked.text.split_inclusive(|&byte| byte == b'\n').collect();
    let events = (lines.len() as u64).saturating_sub(1);
    let is_complete = walked.state() == Some(TailState::Complete);
    let skimmed = skim(&mut source, encoding, &mut |_| {}).expect("no input errors");
    match &skimmed {
        Some(skimmed) => {
            assert!(
                is_complete || encoding != Encoding::Indexed,
                "a look over it sees no damage: {:?}",
                walked.end
            );
            assert!(!is_complete || skimmed.events.is_none_or(|found| found == events));
        }
        None => assert!(!is_complete, "a look over a sound log sees damage"),
    }
    let Ok(probed) = probe(&mut source, encoding, limits) else {
        assert!(walked.text.is_empty(), "a log whose header cannot be read has rows");
        return;
    };
    assert_eq!(lines.first().copied().unwrap_or(&probed.header), probed.header, "two headers");
    if !is_complete {
        return;
    }
    match probed.last {
        Last::Unclear => {}
        Last::HeaderOnly => assert_eq!(events, 0),
        Last::Rows { line, counted } => {
            let last = lines.last().and_then(|line| line.strip_suffix(b"\n"));
            assert_eq!(Some(line.as_slice()).map(|line| line.strip_suffix(b"\n").unwrap_or(line)), last);
            assert!(counted.is_none_or(|counted| counted == events), "{counted:?} of {events}");
        }
    }
    if encoding == Encoding::Indexed {
        let sealed = sealed_count(&mut source).expect("it has a header");
        assert!(sealed.is_none_or(|sealed| sealed == events));
    }
}

/// A reader that starts in the middle serves the end of what one from the head serves, from the event asked for or before it.
fn jumps_agree(log: &MadeLog, bytes: &[u8], walked: &Walked) {
    let mut source = bytes;
    let events = log.events();
    let mut seq_of = |row: &[u8]| Event::parse(row, &Limits::DEFAULT).ok().map(|event| event.seq().get());
    for seq in 1..=events.saturating_add(1) {
        let hint = (seq % 2 == 0).then_some(events);
        let found = reader_at(&mut source, log.encoding, Limits::DEFAULT, seq, hint, &mut seq_of);
        let Some(mut blocks) = found.expect("no input errors") else { continue };
        let mut text = Vec::new();
        let end = loop {
            match blocks.next(&mut source) {
                Ok(Some(block)) => text.extend_from_slice(block.content),
                Ok(None) => break blocks.tail().map(|tail| tail.state),
                Err(_) => break None,
            }
        };
        assert_eq!(end, walked.state(), "from event {seq}");
        assert!(walked.text.ends_with(&text), "from event {seq} on there are other rows");
        let first = text.split(|&byte| byte == b'\n').next().and_then(&mut seq_of);
        let served = (walked.text.split_inclusive(|&byte| byte == b'\n').count() as u64).saturating_sub(1);
        if seq < served {
            assert!(first.is_some_and(|first| first <= seq), "asked for event {seq}, begins at {first:?}");
        }
    }
}

/// Behind the last good record of an appendable end a writer goes on, and everything before it stays.
fn an_append_goes_on(encoding: Encoding, bytes: &[u8], walked: &Walked) {
    let Ok(tail) = &walked.end else { return };
    if !tail.is_appendable() {
        return;
    }
    let good_end = usize::try_from(tail.good_end).expect("it lies in memory");
    let mut repaired = bytes.get(..good_end).expect("it lies in the file").to_vec();
    let mut source = repaired.as_slice();
    let mut blocks = reader(encoding, Limits::DEFAULT);
    while blocks.next(&mut source).expect("the good part").is_some() {}
    let mut writer = blocks.writer(tail.good_end, 1);
    let mut staged = Vec::new();
    if !writer.is_committed() {
        writer.stage_marker(&mut staged).expect("a marker");
    }
    let row = b"{\"type\":\"turn/end\"}\n";
    let mark = RowMark { end: row.len(), events: 1, last_time: 0 };
    writer.stage(&Batch { content: row, rows: &[mark] }, &mut staged).expect("a short row");
    writer.accept(true);
    repaired.extend_from_slice(&staged);
    assert_eq!(writer.end(), repaired.len() as u64);
    let again = Walked::of(encoding, &repaired);
    assert_eq!(again.state(), Some(TailState::Complete), "{:?}", again.end);
    assert_eq!(again.text, [&walked.text[..], row].concat());
    if encoding == Encoding::Indexed {
        let end = repaired.len().saturating_sub(8);
        let id = walk_id(&repaired);
        assert!(last_trailer(&mut repaired.as_slice(), id).is_ok_and(|last| last.is_some()));
        // Cut inside its trailer, the append is torn and the rest is as before.
        let cut = Walked::of(encoding, repaired.get(..end).unwrap_or_default());
        assert_eq!(
            cut.end.map(|tail| (tail.state, tail.fault)).ok(),
            Some((TailState::Torn, Some(Fault::Truncated)))
        );
        assert_eq!(cut.text, walked.text);
    }
}

fn walk_id(bytes: &[u8]) -> LogId {
    let (walk, _) = crate::container::parts::Walk::start(&mut { bytes }).expect("it has a header");
    walk.id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A run takes milliseconds; the fuzz target makes more of them.
        #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_log_and_any_damage_are_judged_alike(data in prop::collection::vec(any::<u8>(), 0..120)) {
            fuzz_tail(&data);
        }

        #[test]
        fn long_rows_are_torn_where_sectors_are(
            how in 0_u8..12,
            details in prop::collection::vec(any::<u8>(), 12),
            plan in prop::collection::vec(prop_oneof![Just(0x30_u8), Just(0x73), Just(0xb1), any::<u8>()], 0..80),
        ) {
            fuzz_tail(&[&[how, how / 3][..], &details, &plan].concat());
        }
    }
}
