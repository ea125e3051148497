//! Does every changed byte give an error, a reported tear, or the same rows, and never a panic?

use seslog::container::{
    Batch, Encoding, Fault, LEVEL_DEFAULT, LogId, ReadError, RowMark, TRAILER_LEN, Tail, TailState, create,
    reader,
};
use seslog::limits::Limits;

/// A log in memory, with the border behind each of its appends.
struct Sample {
    bytes: Vec<u8>,
    /// (end of the stored bytes, rows up to there), the header's first.
    borders: Vec<(usize, usize)>,
    rows: Vec<String>,
}

const HEADER: &str = "{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}\n";

fn sample(encoding: Encoding, appends: &[usize]) -> Sample {
    let mut bytes = Vec::new();
    let id = LogId::new(0x5eed_10c0_ffee_0001).unwrap();
    let mut writer = create(encoding, id, HEADER.as_bytes(), 5, LEVEL_DEFAULT, &mut bytes).unwrap();
    let mut borders = vec![(bytes.len(), 0)];
    let mut rows = Vec::new();
    for &count in appends {
        let mut content = Vec::new();
        let mut marks = Vec::new();
        for _ in 0..count {
            let seq = rows.len();
            let text = format!("{:x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seq as u64 + 1));
            let row = format!(
                "{{\"type\":\"a/b\",\"seq\":{seq},\"time\":{},\"data\":{{\"t\":\"{text}\"}}}}\n",
                100 + seq
            );
            content.extend_from_slice(row.as_bytes());
            marks.push(RowMark { end: content.len(), events: 1, last_time: 100 + seq as i64 });
            rows.push(row);
        }
        writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).unwrap();
        writer.accept(true);
        assert_eq!(writer.end(), bytes.len() as u64);
        borders.push((bytes.len(), rows.len()));
    }
    Sample { bytes, borders, rows }
}

fn read(encoding: Encoding, bytes: &[u8]) -> (Vec<u8>, Result<Tail, ReadError>) {
    let (text, tail, error) = read_within(encoding, bytes, Limits::DEFAULT);
    (text, error.map_or_else(|| Ok(tail.expect("the end is judged")), Err))
}

fn read_within(
    encoding: Encoding,
    bytes: &[u8],
    limits: Limits,
) -> (Vec<u8>, Option<Tail>, Option<ReadError>) {
    let mut source = bytes;
    let mut reader = reader(encoding, limits);
    let mut text = Vec::new();
    let error = loop {
        match reader.next(&mut source) {
            Ok(Some(block)) => {
                assert_eq!(block.content_start, text.len() as u64);
                text.extend_from_slice(block.content);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (text, reader.tail(), error)
}

impl Sample {
    fn text(&self, rows: usize) -> Vec<u8> {
        let mut text = HEADER.as_bytes().to_vec();
        self.rows[..rows].iter().for_each(|row| text.extend_from_slice(row.as_bytes()));
        text
    }

    fn complete_by(&self, cut: usize) -> (usize, usize) {
        *self.borders.iter().rev().find(|(end, _)| *end <= cut).expect("behind the header")
    }
}

#[test]
fn whole_logs_come_back_in_every_encoding() {
    for encoding in Encoding::ALL {
        let log = sample(encoding, &[1, 3, 7, 2]);
        let (text, tail) = read(encoding, &log.bytes);
        assert_eq!(text, log.text(13), "{encoding}");
        let tail = tail.unwrap();
        assert_eq!(
            (tail.state, tail.good_end, tail.excess()),
            (TailState::Complete, log.bytes.len() as u64, 0)
        );
        assert!(!tail.needs_repair());
    }
}

#[test]
fn cut_at_every_byte_serves_exactly_the_records_complete_before_it() {
    for encoding in Encoding::ALL {
        let log = sample(encoding, &[2, 1, 5]);
        for cut in 0..log.bytes.len() {
            let (text, tail) = read(encoding, &log.bytes[..cut]);
            if cut < log.borders[0].0 {
                assert!(tail.is_err() && text.len() <= HEADER.len(), "{encoding} cut in the header at {cut}");
                continue;
            }
            let tail = tail.unwrap_or_else(|error| panic!("{encoding} cut at {cut}: {error}"));
            if encoding == Encoding::Plain {
                let whole = memchr::memrchr(b'\n', &log.bytes[..cut]).map_or(0, |newline| newline + 1);
                assert_eq!(text, log.bytes[..whole]);
                let state = if whole == cut { TailState::Complete } else { TailState::Torn };
                assert_eq!((tail.state, tail.good_end), (state, whole as u64), "cut at {cut}");
                continue;
            }
            let (end, rows) = log.complete_by(cut);
            assert_eq!(text, log.text(rows), "{encoding} cut at {cut}");
            let state = if end == cut { TailState::Complete } else { TailState::Torn };
            assert_eq!((tail.state, tail.good_end), (state, end as u64), "{encoding} cut at {cut}");
        }
    }
}

#[test]
fn every_flipped_bit_of_an_indexed_log_is_found_and_never_called_torn() {
    let log = sample(Encoding::Indexed, &[2, 1, 5]);
    let last_append = log.borders[log.borders.len() - 2].0 as u64;
    for bit in 0..log.bytes.len() * 8 {
        let mut bad = log.bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        match read(Encoding::Indexed, &bad) {
            (_, Err(ReadError::Bad { .. })) => assert!((bit as u64) / 8 < last_append, "bit {bit}"),
            (text, Ok(tail)) => {
                assert!(tail.state == TailState::Damaged, "bit {bit}: {tail:?}");
                assert_eq!(tail.good_end, last_append);
                assert_eq!(text, log.text(3), "bit {bit}");
            }
            (_, Err(error)) => panic!("bit {bit}: {error}"),
        }
    }
}

#[test]
fn every_changed_byte_of_a_framed_log_is_an_error_a_tear_or_the_same_rows() {
    let log = sample(Encoding::Zstd, &[2, 1, 5]);
    for at in 0..log.bytes.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut bad = log.bytes.clone();
            bad[at] ^= change;
            let (text, tail) = read(Encoding::Zstd, &bad);
            match tail {
                Ok(tail) if tail.state == TailState::Complete => assert_eq!(text, log.text(8), "byte {at}"),
                Ok(tail) => {
                    let (_, rows) = log.complete_by(usize::try_from(tail.good_end).unwrap());
                    assert_eq!(text, log.text(rows), "byte {at}");
                    assert!(rows >= 3, "only the last frame may be cut off: byte {at}, {tail:?}");
                }
                Err(ReadError::Bad { .. }) => {}
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_plain_log_touches_its_line_alone() {
    let log = sample(Encoding::Plain, &[2, 1, 5]);
    let lines: Vec<&[u8]> = log.bytes.split_inclusive(|&byte| byte == b'\n').collect();
    for at in 0..log.bytes.len() {
        let mut bad = log.bytes.clone();
        bad[at] ^= 0xff;
        let (text, _) = read(Encoding::Plain, &bad);
        let mut start = 0;
        for line in &lines {
            if !(start..start + line.len() + usize::from(log.bytes[at] == b'\n')).contains(&at)
                && start > at + 200
            {
                assert!(memchr::memmem::find(&text, line).is_some(), "byte {at}");
            }
            start += line.len();
        }
    }
}

#[test]
fn damage_is_told_from_tears_by_what_follows_and_by_zeros() {
    let log = sample(Encoding::Indexed, &[2, 40, 3]);
    let (middle, last) = (log.borders[1].0, log.borders[2].0);
    // A lost sector in the last append proves a tear only there.
    let mut bad = log.bytes.clone();
    bad[middle + 20] ^= 1;
    let (text, tail) = read(Encoding::Indexed, &bad);
    assert_eq!(text, log.text(2));
    assert!(matches!(tail, Err(ReadError::Bad { at, .. }) if at == middle as u64), "{tail:?}");
    // The last append's body gone, its trailer there: zeros up to the next sector border prove the tear.
    let one = sample(Encoding::Indexed, &[2, 200]);
    let start = one.borders[1].0;
    let border = start.next_multiple_of(512);
    assert!(border + TRAILER_LEN < one.bytes.len());
    let mut torn = one.bytes.clone();
    torn[start..border].fill(0);
    assert_eq!(read(Encoding::Indexed, &torn).1.unwrap().state, TailState::Torn);
    let mut flipped = one.bytes.clone();
    flipped[start] = 0;
    assert_eq!(read(Encoding::Indexed, &flipped).1.unwrap().state, TailState::Damaged);
    assert_eq!(last, log.borders[2].0);
}

#[test]
fn what_is_beyond_a_limit_is_unsupported_and_never_torn() {
    const KIB: u64 = 1 << 10;
    let mut limits = Limits::DEFAULT;
    (limits.frame_content_bytes_max, limits.row_bytes_max) = (256 * KIB, 256 * KIB);
    let is_limit = |error: Option<ReadError>, start: usize| match error {
        Some(ReadError::Bad { at, fault }) => {
            assert!(fault.is_limit() && fault.is_unsupported() && at == start as u64, "{fault} at {at}");
        }
        other => panic!("{other:?}"),
    };
    // 400 KiB of rows are four segments, which fit, and one frame, which does not.
    let log = sample(Encoding::Indexed, &[2, 6_000]);
    assert!(read_within(Encoding::Indexed, &log.bytes, limits).2.is_none());
    limits.frame_content_bytes_max = 100 * KIB;
    let (text, _, error) = read_within(Encoding::Indexed, &log.bytes, limits);
    is_limit(error, log.borders[1].0);
    assert_eq!(text, log.text(2));

    let log = sample(Encoding::Zstd, &[2, 6_000]);
    let zeros = [0; 2_000];
    let start = log.borders[1].0;
    for bytes in [log.bytes.clone(), [&log.bytes[..], &zeros].concat()] {
        let (text, tail, error) = read_within(Encoding::Zstd, &bytes, limits);
        is_limit(error, start);
        let tail = tail.expect("judged");
        assert_eq!((tail.state, tail.good_end), (TailState::Unsupported, start as u64));
        assert!(!tail.is_appendable());
        assert_eq!(text, log.text(2));
    }
    // A damaged frame before one that this reader cannot hold: nobody knows what would be cut off.
    let mut log = sample(Encoding::Zstd, &[2, 400, 6_000]);
    assert!(log.borders[1].0 < 1024 && log.borders[2].0 > 1536);
    log.bytes[1024..1536].fill(0);
    let (_, tail, _) = read_within(Encoding::Zstd, &log.bytes, limits);
    assert_eq!(tail.expect("judged").state, TailState::Corrupt);

    let line = vec![b'x'; 600 << 10];
    let log = sample(Encoding::Plain, &[2]);
    let start = log.bytes.len();
    for end in [&b"\n"[..], b"\n{}\n", b"", &zeros] {
        let bytes = [&log.bytes[..], &line, end].concat();
        let (text, tail, error) = read_within(Encoding::Plain, &bytes, limits);
        is_limit(error, start);
        let tail = tail.expect("judged");
        assert_eq!((tail.state, tail.good_end), (TailState::Unsupported, start as u64));
        assert_eq!(text, log.text(2));
    }
}

#[test]
fn a_search_that_is_given_up_refuses_and_never_cuts() {
    let mut log = sample(Encoding::Zstd, &[2, 400]);
    let start = log.borders[1].0;
    assert!(start < 1024 && log.bytes.len() > 2048);
    log.bytes[1024..1536].fill(0);
    // Places at which a frame seems to start, and none does.
    for (places, state) in [
        (0, TailState::Torn),
        (4096, TailState::Torn),
        (4097, TailState::Corrupt),
        (9000, TailState::Corrupt),
    ] {
        let bytes = [&log.bytes[..], &[0x28, 0xb5, 0x2f, 0xfd, 0x08].repeat(places)].concat();
        let (text, tail, _) = read_within(Encoding::Zstd, &bytes, Limits::DEFAULT);
        let tail = tail.expect("judged");
        assert_eq!((tail.state, tail.good_end), (state, start as u64), "{places} places");
        assert_eq!(text, log.text(2));
    }
}

#[test]
fn segments_of_an_earlier_life_never_return() {
    let old = sample(Encoding::Indexed, &[2, 1, 5]);
    let new = {
        let mut bytes = Vec::new();
        let id = LogId::new(7).unwrap();
        create(Encoding::Indexed, id, HEADER.as_bytes(), 5, LEVEL_DEFAULT, &mut bytes).unwrap();
        bytes.extend_from_slice(&old.bytes[old.borders[0].0..]);
        bytes
    };
    let (text, tail) = read(Encoding::Indexed, &new);
    assert_eq!(text, HEADER.as_bytes());
    let tail = tail.unwrap();
    assert_eq!(tail.state, TailState::Damaged);
    assert!(matches!(tail.fault, Some(Fault::TrailerCrc { .. })));
}

#[test]
fn large_appends_are_split_and_only_the_last_segment_commits() {
    let log = sample(Encoding::Indexed, &[1, 9_000]);
    let (text, tail) = read(Encoding::Indexed, &log.bytes);
    assert_eq!(text, log.text(9_001));
    assert_eq!(tail.unwrap().state, TailState::Complete);
    // Cut at the border behind the first segment of the last append: its rows are whole and stay.
    let mut source = &log.bytes[..];
    let mut blocks = reader(Encoding::Indexed, Limits::DEFAULT);
    let mut ends = Vec::new();
    while let Some(block) = blocks.next(&mut source).unwrap() {
        ends.push((usize::try_from(block.end).unwrap(), block.counted.unwrap()));
    }
    assert!(ends.len() > 3, "{} blocks", ends.len());
    let (end, counted) = ends[2];
    let (text, tail) = read(Encoding::Indexed, &log.bytes[..end]);
    let tail = tail.unwrap();
    assert_eq!((tail.state, tail.committed), (TailState::Unfinished, false));
    assert_eq!(tail.durable, log.borders[1].0 as u64);
    assert_eq!(text, log.text(usize::try_from(counted.first_seq).unwrap() + counted.events as usize));
}

#[test]
fn a_lenient_reader_goes_on_behind_damage_and_says_what_it_skipped() {
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let log = sample(encoding, &[2, 1, 5, 4]);
        for at in log.borders[1].0..log.borders[2].0 {
            let mut bad = log.bytes.clone();
            bad[at] ^= 0x40;
            let mut source = &bad[..];
            let mut blocks = reader(encoding, Limits::DEFAULT);
            let mut text = Vec::new();
            let mut skipped = Vec::new();
            loop {
                match blocks.next(&mut source) {
                    Ok(Some(block)) => text.extend_from_slice(block.content),
                    Ok(None) => break,
                    Err(ReadError::Bad { .. }) => match blocks.skip(&mut source).unwrap() {
                        Some(gap) => skipped.push(gap),
                        None => break,
                    },
                    Err(error) => panic!("{error}"),
                }
            }
            let mut expected = log.text(2);
            log.rows[3..].iter().for_each(|row| expected.extend_from_slice(row.as_bytes()));
            // Some bits carry nothing that a row depends on: a window size, or a trailer behind a whole body.
            assert!(text == expected || text == log.text(12), "{encoding} byte {at}");
            assert!(text == log.text(12) || !skipped.is_empty(), "{encoding} byte {at}");
            for gap in skipped {
                assert!(
                    gap.start >= log.borders[1].0 as u64 && gap.end <= log.borders[2].0 as u64,
                    "{encoding} {at}"
                );
            }
        }
    }
}
