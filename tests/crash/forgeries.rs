//! Payloads that hold frames and trailers, forged by somebody who read the log id: they never move the place where a log is cut.
//!
//! Every forgery is carried in two ways: in a stored block, where any compressor leaves what it cannot shrink, and in the bits
//! of a Huffman code over 64 letters, where any bytes whatever decode to harmless JSON. Each carrier is the last append of a log,
//! and lands in part: cut at every byte, and with sectors that are zeros.

use std::collections::BTreeSet;

use seslog::container::disk::fault::FaultDisk;
use seslog::container::{Encoding, ReadError, Tail, TailState, reader};
use seslog::limits::Limits;
use seslog::store::{SessionAccess, Verdict};

use crate::build::{
    ID as LOG_ID, Log, Members, Row, Segment, bare_frame, blocks, checksum, dsh_frame, frame,
};
use crate::common::sessions::{CREATED_AT, append, header, read_all, row_by};
use crate::counts::Counts;
use crate::image::{ID, judge, log_path, store_on};
use crate::policies::Depth;
use crate::scenarios::session_folder;

const SECTOR: usize = 512;

fn row(seq: u64, by: &str) -> Row {
    let line = format!("{}\n", row_by(by, seq, 24)).into_bytes();
    Row { line, events: vec![(seq, CREATED_AT + seq as i64, "plan/mode".to_owned())] }
}

/// A log of a header and two appends, all of it synced.
fn base() -> Log {
    let mut line = Vec::new();
    header(ID).write(&mut line);
    let mut log = Log::new(&String::from_utf8(line).unwrap(), CREATED_AT);
    log.synced();
    log.append(&[row(0, "base"), row(1, "base")]).append(&[row(2, "base")]);
    log
}

/// What somebody may put into a payload of the append behind `log`.
fn forgeries(log: &Log) -> Vec<(&'static str, Vec<u8>)> {
    let end = log.end();
    let behind = |change: &dyn Fn(&mut Log)| {
        let mut forged = log.clone();
        change(&mut forged);
        forged.bytes[end..].to_vec()
    };
    let with = |change: &dyn Fn(&mut Members)| {
        behind(&|log| {
            log.write_with(&[row(3, "forged")], change);
        })
    };
    let header_again = log.bytes[..log.segments[0].0].to_vec();
    vec![
        ("the next segment", with(&|_| {})),
        ("one that never ends its append", with(&|members| _ = members.set("flags", 0))),
        ("one that vouches for itself", with(&|members| _ = members.set("unsynced", 0))),
        ("one that vouches for nothing", with(&|members| _ = members.set("unsynced", 1 << 29))),
        ("one far behind", with(&|members| _ = members.set("segment", 1 << 20).set("skip", 64))),
        ("a marker", behind(&|log| _ = log.marker())),
        ("a segment and a marker", behind(&|log| _ = log.write(&[row(3, "forged")], true).marker())),
        ("two segments", behind(&|log| _ = log.append(&[row(3, "forged")]).append(&[row(4, "forged")]))),
        ("the header again", header_again),
        ("a trailer that is there already", log.bytes[log.trailer(2)..log.segments[2].0].to_vec()),
        ("a frame", frame(&row(3, "forged").line)),
        ("a frame as DSH writes it", dsh_frame(&row(3, "forged").line)),
        ("a frame without a checksum", bare_frame(&row(3, "forged").line)),
        (
            "a frame and a half",
            [frame(&row(3, "forged").line), frame(&row(4, "forged").line)[..40].to_vec()].concat(),
        ),
        ("zeros", vec![0; 1100]),
    ]
}

/// A body whose payload holds `forged`, and what it decodes to.
type Carrier = fn(&[u8], usize) -> (Vec<u8>, Vec<u8>);

/// In a stored block, `padding` bytes behind its start. No row any more, but a frame like any other.
fn stored(forged: &[u8], padding: usize) -> (Vec<u8>, Vec<u8>) {
    let before = format!(
        "{{\"type\":\"note/long\",\"seq\":3,\"time\":{CREATED_AT},\"data\":\"{}",
        "x".repeat(padding)
    );
    let content = [before.as_bytes(), forged, b"\"}\n"].concat();
    (frame(&content), content)
}

/// In the bits of a Huffman code: the frame decodes to one good row.
fn huffman(forged: &[u8], padding: usize) -> (Vec<u8>, Vec<u8>) {
    /// Bytes of bits that fit in one block with short sizes.
    const PIECE: usize = 600;
    let before = format!(
        "{{\"type\":\"note/long\",\"seq\":3,\"time\":{CREATED_AT},\"data\":\"{}",
        "x".repeat(padding)
    );
    let mut content = before.clone().into_bytes();
    let stored_block = |text: &[u8], is_last: bool| {
        let mut block = blocks(text);
        block[0] = block[0] & !1 | u8::from(is_last);
        block
    };
    let mut body = stored_block(before.as_bytes(), false);
    for piece in forged.chunks(PIECE) {
        let (block, text) = huffman_block(piece);
        body.extend(block);
        content.extend(text);
    }
    body.extend(stored_block(b"\"}\n", true));
    content.extend(b"\"}\n");
    let len = u32::try_from(content.len()).unwrap().to_le_bytes();
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa4], &len[..], &body, &checksum(&content)].concat();
    let mut decoded = vec![0; content.len()];
    assert_eq!(zstd_safe::decompress(&mut decoded[..], &frame), Ok(content.len()), "a good frame");
    assert_eq!(decoded, content);
    (frame, content)
}

/// A compressed block whose one stream of literals is `bits`, and the text of 64 letters that it stands for.
fn huffman_block(bits: &[u8]) -> (Vec<u8>, Vec<u8>) {
    const LETTERS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    // Six bits a letter; the last byte's highest bit marks the end of the stream.
    let mut stream = bits.to_vec();
    stream.resize(bits.len().next_multiple_of(3), 0x55);
    let letters = stream.len() * 8 / 6;
    let bit = |at: usize| usize::from(stream[at / 8] >> (at % 8) & 1);
    let letter = |number: usize| {
        let top = stream.len() * 8 - number * 6;
        LETTERS[(1..=6).fold(0, |code, down| code << 1 | bit(top - down))]
    };
    let text: Vec<u8> = (0..letters).map(letter).collect();
    stream.push(1);
    // A weight for each byte value below the last letter, one for each letter, four bits each.
    let weight = |value: u8| u8::from(LETTERS.contains(&value));
    let mut tree = vec![127 + b'z'];
    tree.extend((0..b'z').step_by(2).map(|value| weight(value) << 4 | weight(value + 1)));
    let literals_len = tree.len() + stream.len();
    let sizes = 2 | u32::try_from(letters).unwrap() << 4 | u32::try_from(literals_len).unwrap() << 14;
    let inner = [&sizes.to_le_bytes()[..3], &tree, &stream, &[0]].concat();
    let block_header = 2 << 1 | u32::try_from(inner.len()).unwrap() << 3;
    ([&block_header.to_le_bytes()[..3], &inner].concat(), text)
}

/// Every image of a log of which `[..base]` is durable and the rest landed in part.
fn images(whole: &[u8], base: usize) -> Vec<Vec<u8>> {
    let mut images: BTreeSet<Vec<u8>> = (base..=whole.len()).map(|cut| whole[..cut].to_vec()).collect();
    let first = base / SECTOR;
    let sectors = whole.len().div_ceil(SECTOR) - first;
    let masks: Vec<u64> = match (Depth::get(), sectors) {
        (Depth::Whole, 0..=10) | (_, 0..=3) => (0..1 << sectors).collect(),
        _ => (0..sectors.min(63))
            .flat_map(|bit| [1 << bit, !(1 << bit), (1 << bit) - 1, !((1 << bit) - 1)])
            .collect(),
    };
    for mask in masks {
        let mut image = whole.to_vec();
        for sector in (0..sectors).filter(|sector| mask >> sector.min(&63) & 1 == 0) {
            let start = (first + sector) * SECTOR;
            image[start.max(base)..(start + SECTOR).min(whole.len())].fill(0);
        }
        images.insert(image);
    }
    images.into_iter().collect()
}

/// The text of a log up to where reading stops, and how it ends there.
fn read(encoding: Encoding, bytes: &[u8]) -> (Vec<u8>, Result<Tail, ReadError>) {
    let mut source = bytes;
    let mut reader = reader(encoding, Limits::DEFAULT);
    let mut text = Vec::new();
    loop {
        match reader.next(&mut source) {
            Ok(Some(block)) => text.extend_from_slice(block.content),
            Ok(None) => return (text, Ok(reader.tail().expect("the end is judged"))),
            Err(error) => return (text, reader.tail().ok_or(error)),
        }
    }
}

/// Checks one image: it is read up to the base, or whole if it is; and what a writer does with it cuts nothing before.
fn check(
    encoding: Encoding,
    image: &[u8],
    whole: &[u8],
    base: usize,
    texts: [&[u8]; 2],
    goes_on: bool,
    what: &str,
) -> TailState {
    let is_whole = image == whole;
    let (text, tail) = read(encoding, image);
    let (expected_end, expected) = if is_whole { (whole.len(), texts[1]) } else { (base, texts[0]) };
    assert!(text == expected, "{what}: reads {}", String::from_utf8_lossy(&text));
    let state = match tail {
        Ok(tail) => {
            assert_eq!(tail.good_end, expected_end as u64, "{what}: {tail:?}");
            tail.state
        }
        Err(ReadError::Bad { at, .. }) => {
            assert_eq!(at, expected_end as u64, "{what}");
            TailState::Corrupt
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let is_cut = image.len() > base && !is_whole;
    assert_eq!(!is_cut, state == TailState::Complete, "{what}: {state:?}");
    if goes_on {
        go_on(encoding, image, base, what);
    }
    state
}

/// Appends to an image, or is refused: neither changes a byte before the cut.
fn go_on(encoding: Encoding, image: &[u8], base: usize, what: &str) {
    let disk = FaultDisk::new();
    let path = session_folder().join(format!("session.v2{}", encoding.suffix()));
    disk.plant(&path, image);
    let store = store_on(&disk, encoding);
    let appended = store.open(&ID.into(), SessionAccess::Write).and_then(|handle| {
        let next = handle.next_seq().unwrap();
        append(&handle, &[row_by("after", next, 24)])?;
        handle.close()
    });
    let after = disk.content(log_path(&disk).unwrap()).unwrap();
    assert_eq!(after[..base], image[..base], "{what}");
    if appended.is_err() {
        assert!(after == image, "{what}: refused, and changed");
        return;
    }
    assert_eq!(judge(&disk, &path).verdict, Verdict::Sound, "{what}");
    let rows = read_all(&store.open(&ID.into(), SessionAccess::Read).unwrap()).unwrap();
    // Behind the base: the carrier or nothing, and what was appended.
    assert!(
        [4, 5].contains(&rows.len()) && rows.last().unwrap().contains("\"by\":\"after\""),
        "{what}: {rows:?}"
    );
    assert!(
        rows.len() == 4 || rows[3].contains("note/long") || encoding == Encoding::Plain,
        "{what}: {rows:?}"
    );
}

/// The file with a body behind the base, and the base's length.
type Whole<'a> = dyn Fn(&[u8]) -> (Vec<u8>, usize) + 'a;

/// Runs the corpus through an encoding. `whole` adds the carrier behind the base.
fn run(encoding: Encoding, base_text: &[u8], whole: &Whole<'_>) {
    let counts = Counts::new(&format!("forgeries in {encoding}"));
    let carriers: [(&str, Carrier); 2] = [("stored", stored), ("in a code", huffman)];
    for (forgery, forged) in forgeries(&base()) {
        for (how, carry) in carriers {
            // Zeros are for the codes: no compressor stores a whole sector of them.
            if forgery == "zeros" && how == "stored" {
                continue;
            }
            // Where the forgery begins: anywhere, and at the start of a sector.
            let (probe, content) = carry(&forged, 0);
            let (file, base_len) = whole(&[&probe, &b""[..]].concat());
            let at =
                memchr::memmem::find(&file[base_len..], &forged[..forged.len().min(600)]).unwrap() + base_len;
            assert!(!content.is_empty());
            let to_border = at.next_multiple_of(SECTOR) - at;
            for padding in [0, 1, to_border.saturating_sub(8), to_border, to_border + 300] {
                let (body, content) = carry(&forged, padding);
                let (file, base_len) = whole(&body);
                let texts = [base_text, &[base_text, &content].concat()];
                counts.point();
                for (number, image) in images(&file, base_len).iter().enumerate() {
                    let what = format!("{forgery} {how} in {encoding}, padding {padding}, image {number}");
                    let is_row = how == "in a code" || *image != file;
                    let goes_on = is_row && number % 7 == padding % 7;
                    counts.forgery(check(encoding, image, &file, base_len, texts, goes_on, &what));
                }
            }
        }
    }
}

#[test]
fn no_forgery_moves_a_cut_point_of_an_indexed_log() {
    let log = base();
    let text: Vec<u8> = log.rows.iter().flat_map(|row| row.line.clone()).collect();
    run(Encoding::Indexed, &text, &|body| {
        let mut whole = log.clone();
        whole.segment(Segment {
            rows: &[row(3, "carrier")],
            body: body.to_vec(),
            commit: true,
            change: &|_| {},
        });
        (whole.bytes, log.end())
    });
}

#[test]
fn no_forgery_moves_a_cut_point_of_a_zstd_log() {
    let log = base();
    let text: Vec<u8> = log.rows.iter().flat_map(|row| row.line.clone()).collect();
    let frames: Vec<u8> = log.rows.iter().flat_map(|row| dsh_frame(&row.line)).collect();
    run(Encoding::Zstd, &text, &|body| ([&frames, body].concat(), frames.len()));
}

/// A line of text holds no line feed, so all that a payload can forge is text that looks like rows.
#[test]
fn no_forgery_moves_a_cut_point_of_a_plain_log() {
    let log = base();
    let text: Vec<u8> = log.rows.iter().flat_map(|row| row.line.clone()).collect();
    let counts = Counts::new("forgeries in plain");
    let forged = String::from_utf8(row(3, "forged").line).unwrap();
    let escaped = serde_json::Value::from(forged.trim_end()).to_string();
    for payload in [
        escaped.clone(),
        serde_json::Value::from(escaped).to_string(),
        format!("[{0},{0}]", forged.trim_end()),
    ] {
        let carrier =
            format!("{{\"type\":\"plan/mode\",\"seq\":3,\"time\":{CREATED_AT},\"data\":{payload}}}\n");
        let whole = [&text, carrier.as_bytes()].concat();
        counts.point();
        for (number, image) in images(&whole, text.len()).iter().enumerate() {
            // Zeros before a line feed that landed make a line of no JSON: refused as damaged, one layer up.
            if image[text.len()..].contains(&0) && image.ends_with(b"\n") {
                go_on(Encoding::Plain, image, text.len(), "plain, zeros in the line");
                continue;
            }
            let what = format!("plain, image {number}");
            let texts = [&text[..], &whole];
            counts.forgery(check(Encoding::Plain, image, &whole, text.len(), texts, number % 3 == 0, &what));
        }
    }
    assert_eq!(LOG_ID, 0x5eed_10c0_ffee_0001, "the forger knows it");
}
