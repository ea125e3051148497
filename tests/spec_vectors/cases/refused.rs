//! Indexed files that are refused, in whole or from some place on.

use super::indexed::ending;
use super::{CHAIN, Case, HEADER, JUDGE, ORDER, faulty, indexed, judged, long, row, served, two_events};
use crate::build::{ID, Log, Members, Segment, blocks, checksum, content, frame, line, skippable};
use crate::outcome::Outcome;

pub(super) fn cases() -> Vec<Case> {
    [first(), chain(), trailers(), bodies(), contents(), judgement()].into_iter().flatten().collect()
}

const FIRST: &str = "01-container.md#Reading forward";

/// A file whose first segment is refused.
fn headless(name: &str, about: &str, detected: &str, bytes: Vec<u8>, fault: &str, at: usize) -> Case {
    let outcome = Outcome {
        detected: detected.to_owned(),
        fault: Some(fault.to_owned()),
        at: Some(at as u64),
        ..Outcome::default()
    };
    indexed(name, about, &[FIRST, ORDER], bytes, outcome.with_text(b""))
}

fn first() -> Vec<Case> {
    let log = two_events();
    let body = frame(&line(HEADER));
    let (trailer, end) = (body.len(), log.segments[0].0);
    let cut = |len: usize| log.bytes[..len].to_vec();
    let flipped = |at: usize| {
        let mut bytes = log.bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    let of = |body: Vec<u8>| Log::with(ID, HEADER, body, 9, &|_| {}).bytes;
    let mut two_lines = line(HEADER);
    two_lines.extend(row(0, 10).line);
    let mut cases = vec![
        headless(
            "first-frame-cut",
            "the file ends inside the first frame",
            "compressed",
            cut(60),
            "Truncated",
            0,
        ),
        headless(
            "first-trailer-missing",
            "one frame and nothing else",
            "compressed",
            cut(trailer),
            "Truncated",
            trailer,
        ),
        headless(
            "first-trailer-cut",
            "the first trailer lacks its end",
            "indexed",
            cut(end - 1),
            "Truncated",
            trailer,
        ),
        headless(
            "first-trailer-crc",
            "a flipped bit in the first trailer",
            "indexed",
            flipped(end - 30),
            "TrailerCrc",
            trailer,
        ),
        headless(
            "first-trailer-magic",
            "the first trailer's magic is not SL",
            "indexed",
            flipped(trailer + 8),
            "TrailerMagic",
            trailer,
        ),
        headless("first-body-crc", "a flipped bit in the header line", "indexed", flipped(40), "BodyCrc", 0),
        headless(
            "first-frame-reserved",
            "a reserved bit in the first frame",
            "compressed",
            flipped_by(&log, 4, 0x08),
            "FrameReserved",
            0,
        ),
        headless(
            "log-id-zero",
            "a log id of zero",
            "indexed",
            Log::with(0, HEADER, body, 9, &|_| {}).bytes,
            "LogId",
            trailer,
        ),
        headless(
            "header-two-lines",
            "the first frame holds a row as well",
            "indexed",
            of(frame(&two_lines)),
            "HeaderLine",
            0,
        ),
        headless(
            "header-without-line-feed",
            "the header line has no line feed",
            "indexed",
            of(frame(HEADER.as_bytes())),
            "HeaderLine",
            0,
        ),
        headless("header-empty", "the first frame is empty", "indexed", of(frame(b"")), "HeaderLine", 0),
        headless(
            "header-content-limit",
            "the first frame decompresses to more than a header line may have",
            "indexed",
            of(swollen(9)),
            "ContentLimit",
            0,
        ),
        headless(
            "header-content-claim",
            "the first frame claims 2 MiB of content",
            "indexed",
            of([&[0x28, 0xb5, 0x2f, 0xfd, 0xa4, 0, 0, 0x20, 0], &blocks(&line(HEADER))[..], &[0; 4]]
                .concat()),
            "ContentLimit",
            0,
        ),
    ];
    let changes: [(&str, &'static str, u64); 7] = [
        ("segment", "segment", 1),
        ("events", "events", 1),
        ("prev-crc", "prev_crc", 1),
        ("next-seq", "next_seq", 1),
        ("unsynced", "unsynced", 1),
        ("flags", "flags", 0),
        ("body-len", "body_len", 1),
    ];
    for (name, member, value) in changes {
        let change = |members: &mut Members| {
            members.set(member, value);
        };
        let bytes = Log::with(ID, HEADER, frame(&line(HEADER)), 9, &change).bytes;
        let about = format!("the first trailer says {member} {value}");
        let case = headless(&format!("first-trailer-{name}"), &about, "indexed", bytes, "Chain", trailer);
        let outcome = Outcome { member: Some(member.to_owned()), ..case.outcome };
        cases.push(Case { spec: vec![CHAIN], outcome, ..case });
    }
    cases
}

/// A frame of `count` blocks that each stand for 128 KiB of spaces, without a content size.
pub(super) fn swollen(count: usize) -> Vec<u8> {
    let content = vec![b' '; count << 17];
    let block = |is_last: bool| [2 | u8::from(is_last), 0, 0x10, b' '];
    let blocks: Vec<u8> = (1..=count).flat_map(|number| block(number == count)).collect();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58], &blocks[..], &checksum(&content)].concat()
}

fn flipped_by(log: &Log, at: usize, bits: u8) -> Vec<u8> {
    let mut bytes = log.bytes.clone();
    bytes[at] ^= bits;
    bytes
}

fn chain() -> Vec<Case> {
    let changes: [(&'static str, &str, u64); 5] = [
        ("segment", "its number is one too high", 3),
        ("prev_crc", "it follows another trailer", 7),
        ("next_seq", "its count of events does not add up", 4),
        ("body_len", "it states another length", 200),
        ("skip", "it skips to a place where no trailer ends", 1),
    ];
    let mut cases = Vec::new();
    for (member, about, value) in changes {
        let mut log = two_events();
        log.write_with(&[row(2, 12)], &|members: &mut Members| {
            members.set(member, value);
        });
        cases.push(broken(&log, member, about));
    }
    // Only a segment without events, and a marker, can break these.
    let marker = |name: &'static str, value: u64| {
        let mut log = two_events();
        let change = |members: &mut Members| {
            members.set(name, value);
            if name == "events" {
                members.set("next_seq", 2 + value);
            }
        };
        log.segment(Segment { rows: &[], body: Vec::new(), commit: true, change: &change });
        log
    };
    cases.push(broken(&marker("last_time", 12), "last_time", "a marker with another time"));
    cases.push(broken(&marker("events", 1), "events", "a marker that counts an event"));
    cases.push(broken(&marker("flags", 0), "flags", "a marker that does not commit"));

    let mut log = two_events();
    log.append(&[row(2, 12)]);
    log.write_with(&[row(3, 13)], &|members: &mut Members| {
        members.set("prev_crc", 7);
    });
    log.synced().append(&[row(4, 14)]);
    let outcome = Outcome { durable: Some(log.segments[3].0 as u64), ..faulty(&log, 2, "corrupt", "Chain") };
    let outcome = Outcome { member: Some("prev_crc".into()), ..outcome };
    let about = "a broken chain before an append that vouches for it";
    cases.push(indexed("corrupt-chain", about, &[CHAIN, JUDGE], log.bytes, outcome));
    cases
}

fn broken(log: &Log, member: &str, about: &str) -> Case {
    let outcome = Outcome { member: Some(member.to_owned()), ..faulty(log, 1, "damaged", "Chain") };
    let name = format!("chain-{}", member.replace('_', "-"));
    let about = format!("the last trailer is sound and does not fit: {about}");
    indexed(&name, &about, &[CHAIN, JUDGE], log.bytes.clone(), outcome)
}

fn trailers() -> Vec<Case> {
    let log = {
        let mut log = two_events();
        log.append(&[row(2, 12)]);
        log
    };
    let trailer = log.trailer(2);
    let damaged = |name: &str, about: &str, at: usize, bits: u8, fault: &str| {
        indexed(name, about, &[ORDER, JUDGE], flipped_by(&log, at, bits), faulty(&log, 1, "damaged", fault))
    };
    let mut cases = vec![
        damaged(
            "trailer-header",
            "a flipped bit in the skippable header of the last trailer",
            trailer,
            1,
            "TrailerMagic",
        ),
        damaged(
            "trailer-magic",
            "a flipped bit in the magic of the last trailer",
            trailer + 8,
            1,
            "TrailerMagic",
        ),
        damaged("trailer-crc", "a flipped bit in the last byte of the file", trailer + 63, 1, "TrailerCrc"),
        damaged(
            "trailer-version-flipped",
            "a flipped bit in the version fails the CRC first",
            trailer + 10,
            2,
            "TrailerCrc",
        ),
        damaged(
            "trailer-flags-flipped",
            "a flipped bit in the flags fails the CRC first",
            trailer + 11,
            2,
            "TrailerCrc",
        ),
        damaged(
            "trailer-unused-flag-flipped",
            "a flipped unused flag fails the CRC too",
            trailer + 11,
            0x80,
            "TrailerCrc",
        ),
    ];
    let sealed: [(&str, &str, &'static str, u64, &str); 5] = [
        ("trailer-version-2", "a sound trailer of version 2", "version", 2, "TrailerVersion"),
        ("trailer-version-0", "a sound trailer of version 0", "version", 0, "TrailerVersion"),
        ("trailer-flag-1", "reserved flag 1 is set", "flags", 0b0011, "TrailerFlags"),
        ("trailer-flag-2", "reserved flag 2 is set", "flags", 0b0101, "TrailerFlags"),
        ("trailer-flag-3", "reserved flag 3 is set", "flags", 0b1001, "TrailerFlags"),
    ];
    for (name, about, member, value, fault) in sealed {
        let mut log = two_events();
        log.write_with(&[row(2, 12)], &|members: &mut Members| {
            members.set(member, value);
        });
        let outcome = faulty(&log, 1, "unsupported", fault);
        cases.push(indexed(name, about, &["03-trailer.md#Members", JUDGE], log.bytes, outcome));
    }
    let mut log = two_events();
    log.write_with(&[row(2, 12)], &|members: &mut Members| {
        members.set("version", 2).set("flags", 3).set("segment", 9);
    });
    let outcome = faulty(&log, 1, "unsupported", "TrailerVersion");
    let about = "version, flags and number are all wrong: the version is named";
    cases.push(indexed("trailer-version-first", about, &[ORDER], log.bytes, outcome));

    let stranger = {
        let mut log = Log::with(7, HEADER, frame(&line(HEADER)), 9, &|_| {});
        log.append(&[row(0, 10), row(1, 11)]).append(&[row(2, 12)]);
        log.bytes[log.segments[1].0..].to_vec()
    };
    let log = two_events();
    let bytes = [&log.bytes[..], &stranger].concat();
    let about = "the last segment was sealed with another log id";
    cases.push(indexed(
        "other-log-id",
        about,
        &["03-trailer.md#The log id"],
        bytes,
        faulty(&log, 1, "damaged", "TrailerCrc"),
    ));
    cases
}

fn bodies() -> Vec<Case> {
    let log = {
        let mut log = two_events();
        log.append(&[row(2, 12)]);
        log
    };
    let start = log.segments[1].0;
    let damaged = |name: &str, about: &str, at: usize, bits: u8, fault: &str| {
        indexed(
            name,
            about,
            &[ORDER, JUDGE],
            flipped_by(&log, start + at, bits),
            faulty(&log, 1, "damaged", fault),
        )
    };
    let mut cases = vec![
        damaged("body-crc", "a flipped bit in a row of the last append", 30, 1, "BodyCrc"),
        damaged("frame-magic", "a flipped bit in the first byte of the last append", 0, 1, "FrameMagic"),
        damaged("frame-reserved-bit-3", "reserved bit 3 of a frame header", 4, 0x08, "FrameReserved"),
        damaged("frame-reserved-bit-4", "reserved bit 4 of a frame header", 4, 0x10, "FrameReserved"),
        damaged("block-type-3", "a block of type 3", 6, 0x06, "BlockType"),
        damaged(
            "block-past-the-end",
            "a block that claims to run past the end; the trailer is intact",
            8,
            0x40,
            "Truncated",
        ),
    ];
    let spec = &["01-container.md#Extension frames"];
    let extended = |kind: u8, extra: &[u8], change: &dyn Fn(&mut Members)| {
        let mut log = two_events();
        let rows = [row(2, 12)];
        let body = [skippable(kind, extra), frame(&content(&rows))].concat();
        log.segment(Segment { rows: &rows, body, commit: true, change });
        log
    };
    for kind in [0x51, 0x5f] {
        let log = extended(kind, b"index", &|_| {});
        let about =
            format!("a body that begins with an extension frame of kind {kind:#04x}, otherwise sound");
        let outcome = faulty(&log, 1, "unsupported", "Extension");
        cases.push(indexed(&format!("extension-{kind:02x}"), &about, spec, log.bytes, outcome));
    }
    let log = extended(0x51, b"index", &|members| {
        members.set("body_crc", 5);
    });
    let about = "an extension frame in a body that fails its CRC: not understood and damaged is damaged";
    cases.push(indexed(
        "extension-body-crc",
        about,
        spec,
        log.bytes.clone(),
        faulty(&log, 1, "damaged", "BodyCrc"),
    ));

    let mut log = two_events();
    log.segment(Segment { rows: &[], body: skippable(0x5a, &[1; 70]), commit: true, change: &|_| {} });
    let about = "a body that is an extension frame alone";
    let outcome = faulty(&log, 1, "unsupported", "Extension");
    cases.push(indexed("extension-alone", about, spec, log.bytes, outcome));

    let mut log = two_events();
    let rows = [row(2, 12), row(3, 13)];
    let body = [frame(&rows[0].line), frame(&rows[1].line)].concat();
    log.segment(Segment { rows: &rows, body, commit: true, change: &|_| {} });
    let about = "two data frames in one body";
    cases.push(indexed(
        "two-frames-in-a-body",
        about,
        &["01-container.md#The indexed encoding"],
        log.bytes.clone(),
        faulty(&log, 1, "damaged", "TrailerMagic"),
    ));
    cases
}

/// Segments that are sound, with frames that are not.
fn contents() -> Vec<Case> {
    let rows = [row(2, 12)];
    let text = content(&rows);
    let with = |body: Vec<u8>, name: &str, about: &str, fault: &str| {
        let mut log = two_events();
        let at = log.end() as u64;
        log.segment(Segment { rows: &rows, body, commit: true, change: &|_| {} });
        let outcome = Outcome { fault: Some(fault.to_owned()), at: Some(at), ..served(&log, 1) };
        indexed(name, about, &["02-frames.md#Content", ORDER], log.bytes, outcome)
    };
    let header = |bytes: &[u8]| [&[0x28, 0xb5, 0x2f, 0xfd], bytes].concat();
    let mut bad_checksum = frame(&text);
    *bad_checksum.last_mut().expect("not empty") ^= 1;
    let no_line_feed = frame(&text[..text.len() - 1]);
    // A compressed block of one byte is too short for its own headers.
    let bad_block = [&header(&[0x04, 0x58]), &[0x0d, 0, 0, 0xff][..], &checksum(b"")].concat();
    let dictionary =
        [&header(&[0x25, 9, u8::try_from(text.len()).expect("short")]), &blocks(&text)[..], &checksum(&text)]
            .concat();
    let window = [&header(&[0x04, 0xf8]), &blocks(&text)[..], &checksum(&text)].concat();
    let huge = 5_u64 << 30;
    let claim = [&header(&[0xc4, 0x58]), &huge.to_le_bytes()[..], &blocks(&text), &checksum(&text)].concat();
    vec![
        with(
            bad_checksum,
            "content-checksum",
            "the frame's checksum is wrong and the body's CRC is right",
            "FrameChecksum",
        ),
        with(no_line_feed, "content-line-end", "the content does not end in a line feed", "LineEnd"),
        with(bad_block, "content-data", "a compressed block that cannot be decoded", "FrameData"),
        with(dictionary, "content-dictionary", "the frame asks for dictionary 9", "Dictionary"),
        with(window, "content-window", "the frame asks for a window of 2 TiB", "WindowLimit"),
        with(claim, "content-size-claim", "the frame claims 5 GiB of content", "ContentLimit"),
    ]
}

fn judgement() -> Vec<Case> {
    let spec = &[JUDGE];
    let mut log = two_events();
    log.append(&[row(2, 12)]).append(&[row(3, 13)]);
    let bytes = flipped_by(&log, log.segments[1].0 + 30, 1);
    let outcome =
        Outcome { durable: Some(log.segments[2].0 as u64), ..faulty(&log, 1, "corrupt", "BodyCrc") };
    let about = "a flipped bit in an append that a later one vouches for";
    let mut cases = vec![indexed("corrupt-flipped-bit", about, spec, bytes, outcome)];

    let mut log = two_events();
    log.append(&[long(2, 12, 1500)]).append(&[row(3, 13)]);
    let mut bytes = log.bytes.clone();
    bytes[512..1024].fill(0);
    let outcome =
        Outcome { durable: Some(log.segments[2].0 as u64), ..faulty(&log, 1, "corrupt", "BodyCrc") };
    let about = "a zero sector below the durable boundary proves no tear";
    cases.push(indexed("corrupt-zero-sector", about, spec, bytes, outcome));

    let mut log = two_events();
    log.append(&[row(2, 12)]).append(&[row(3, 13)]);
    let bytes = [&log.bytes[..log.segments[1].0], &log.bytes[log.segments[2].0..]].concat();
    let shift = log.segments[2].0 - log.segments[1].0;
    let good = judged(&log, 1, "damaged", true);
    let outcome =
        Outcome { fault: Some("Chain".into()), at: good.good_end, member: Some("segment".into()), ..good };
    let about = format!(
        "a segment of {shift} bytes was cut out of the middle; what follows vouches for no more than P"
    );
    cases.push(indexed("segment-cut-out", &about, spec, bytes, outcome));

    let log = ending(7);
    let mut bytes = log.bytes.clone();
    bytes[log.end() - 7..].fill(0);
    let about = "the last sector, of which the file has 7 bytes, is zero: too few for a proof, since a good record may end so";
    cases.push(indexed(
        "damaged-part-of-a-sector",
        about,
        spec,
        bytes,
        faulty(&log, 1, "damaged", "TrailerCrc"),
    ));

    let mut log = two_events();
    log.append(&[row(2, 12)]);
    let bytes = [&log.bytes[..], b"\n"].concat();
    let about = "a line feed behind the last trailer";
    cases.push(indexed("stray-line-feed", about, spec, bytes, faulty(&log, 2, "damaged", "FrameMagic")));

    cases.push(forged());
    cases
}

/// A payload that holds a segment of the same log, forged by somebody who read the log id, in an append that was cut.
fn forged() -> Case {
    let log = two_events();
    let mut next = log.clone();
    next.write(&[row(2, 666)], true);
    let forged = &next.bytes[log.end()..];
    let before = b"{\"type\":\"note/long\",\"seq\":2,\"time\":12,\"data\":\"";
    let line = [&before[..], forged, b"\"}\n"].concat();
    let mut whole = log.clone();
    whole.segment(Segment { rows: &[], body: frame(&line), commit: true, change: &|_| {} });
    let cut = whole.trailer(2) - 6;
    let starts = whole.bytes.windows(forged.len()).position(|bytes| bytes == forged).expect("it is stored");
    let about = "the last append is cut behind a forged segment in its payload: it is not served, and keeps the end from being cut";
    let spec = &["05-append-and-repair.md#Why a search may look for later records and nothing else"];
    let outcome = Outcome { durable: Some(starts as u64), ..faulty(&log, 1, "corrupt", "Truncated") };
    indexed("corrupt-forged-segment", about, spec, whole.bytes[..cut].to_vec(), outcome)
}
