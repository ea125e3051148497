//! Files of the zstd encoding.

use super::refused::swollen;
use super::{Case, HEADER, JUDGE, long, raw, row};
use crate::build::{Row, bare_frame, blocks, checksum, content, dsh_frame, frame, line, skippable};
use crate::outcome::Outcome;

const ZSTD: &str = "01-container.md#The zstd encoding";

/// Frames as they stand in the file; which of them hold rows.
struct Frames {
    frames: Vec<Vec<u8>>,
    rows: Vec<Vec<Row>>,
}

impl Frames {
    fn new(appends: &[Vec<Row>]) -> Self {
        let header = vec![raw(HEADER, Vec::new())];
        let rows: Vec<Vec<Row>> = [&[header], appends].concat();
        Self { frames: rows.iter().map(|rows| frame(&content(rows))).collect(), rows }
    }

    fn bytes(&self) -> Vec<u8> {
        self.frames.concat()
    }

    fn start(&self, frame: usize) -> usize {
        self.frames[..frame].iter().map(Vec::len).sum()
    }

    /// What a reader serves of the first `frames`, and the verdict.
    fn judged(&self, frames: usize, state: &str, fault: Option<&str>) -> Outcome {
        let rows: Vec<Row> = self.rows[..frames].concat();
        let end = self.start(frames) as u64;
        Outcome {
            detected: "zstd".to_owned(),
            state: Some(state.to_owned()),
            good_end: Some(end),
            fault: fault.map(str::to_owned),
            at: fault.map(|_| end),
            events: Some(rows.iter().flat_map(|row| row.events.clone()).collect()),
            ..Outcome::default()
        }
        .with_text(&content(&rows))
    }
}

fn zstd(name: &str, about: &str, spec: &[&'static str], bytes: Vec<u8>, outcome: Outcome) -> Case {
    Case {
        name: name.to_owned(),
        about: about.to_owned(),
        spec: spec.to_vec(),
        encoding: "zstd",
        file_name: "session.v2.jsonl.zstd",
        bytes,
        outcome,
    }
}

pub(super) fn cases() -> Vec<Case> {
    [whole(), torn(), refused()].into_iter().flatten().collect()
}

fn sample() -> Frames {
    Frames::new(&[vec![row(0, 10), row(1, 11)], vec![row(2, 12)]])
}

fn whole() -> Vec<Case> {
    let log = sample();
    let complete = |log: &Frames| log.judged(log.frames.len(), "complete", None);
    let mut cases =
        vec![zstd("zstd-two-appends", "a header and two appends", &[ZSTD], log.bytes(), complete(&log))];

    let header = Frames::new(&[]);
    let mut outcome = complete(&header);
    outcome.detected = "compressed".to_owned();
    cases.push(zstd(
        "zstd-header-only",
        "a header and no rows",
        &[ZSTD, "01-container.md#Detection"],
        header.bytes(),
        outcome,
    ));

    let mut log = sample();
    log.frames = log.rows.iter().map(|rows| dsh_frame(&content(rows))).collect();
    let about = "frames as DSH writes them: a window, no content size";
    cases.push(zstd(
        "zstd-dsh-frames",
        about,
        &["02-frames.md#The frame header"],
        log.bytes(),
        complete(&log),
    ));

    let mut log = sample();
    log.frames = log.rows.iter().map(|rows| bare_frame(&content(rows))).collect();
    cases.push(zstd(
        "zstd-without-checksums",
        "frames without checksums",
        &[ZSTD],
        log.bytes(),
        complete(&log),
    ));

    let mut log = sample();
    log.frames.insert(2, frame(b""));
    log.rows.insert(2, Vec::new());
    log.frames.push(frame(b""));
    log.rows.push(Vec::new());
    let about = "empty frames between the others and at the end, as DSH's migration leaves them";
    cases.push(zstd("zstd-empty-frames", about, &[ZSTD], log.bytes(), complete(&log)));
    cases
}

fn torn() -> Vec<Case> {
    let log = sample();
    let last = log.start(2);
    let whole = log.bytes();
    let torn = log.judged(2, "torn", Some("Truncated"));
    let spec = &["02-frames.md#The structural walk", JUDGE];
    let mut cases: Vec<Case> = [
        ("zstd-torn-in-magic", "two bytes of the last frame's magic", last + 2),
        ("zstd-torn-in-block", "the last frame ends inside its block", last + 30),
        ("zstd-torn-in-checksum", "the last frame lacks the last byte of its checksum", whole.len() - 1),
    ]
    .into_iter()
    .map(|(name, about, len)| zstd(name, about, spec, whole[..len].to_vec(), torn.clone()))
    .collect();

    let bytes = [&whole[..], &[1, 2, 3]].concat();
    let about = "three bytes behind the last frame are too few to say what they begin";
    cases.push(zstd("zstd-torn-three-bytes", about, spec, bytes, log.judged(3, "torn", Some("Truncated"))));

    let mut bytes = whole.clone();
    bytes.resize(whole.len() + 900, 0);
    let about = "zeros behind the last frame";
    cases.push(zstd("zstd-torn-zeros", about, &[JUDGE], bytes, log.judged(3, "torn", Some("FrameMagic"))));

    let log = Frames::new(&[vec![row(0, 10)], vec![long(1, 11, 1500)]]);
    let mut bytes = log.bytes();
    bytes[512..1024].fill(0);
    let about = "a sector of the last frame did not land";
    cases.push(zstd(
        "zstd-torn-sector",
        about,
        &[JUDGE],
        bytes,
        log.judged(2, "torn", Some("FrameChecksum")),
    ));

    let (log, bytes) = without_the_end(8);
    let about = "the last sector, of which the file has 8 bytes, did not land";
    cases.push(zstd(
        "zstd-torn-part-of-a-sector",
        about,
        &[JUDGE],
        bytes,
        log.judged(2, "torn", Some("FrameChecksum")),
    ));
    cases
}

/// A log whose last frame is the only one in the last sector; of its `part` bytes there, only zeros.
fn without_the_end(part: usize) -> (Frames, Vec<u8>) {
    let with = |len: usize| Frames::new(&[vec![row(0, 10)], vec![long(1, 11, len)]]);
    let log =
        (700..1300).map(with).find(|log| log.bytes().len() % 512 == part).expect("each length adds a byte");
    let mut bytes = log.bytes();
    let kept = bytes.len() - part;
    bytes[kept..].fill(0);
    (log, bytes)
}

fn refused() -> Vec<Case> {
    let log = sample();
    let whole = log.bytes();
    let flipped = |at: usize, bits: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= bits;
        bytes
    };
    let (middle, last) = (log.start(1), log.start(2));
    let intact = &["05-append-and-repair.md#Intact frames", JUDGE];
    let foreign = |inside: &[u8]| [&whole[..last], &skippable(0x53, inside), &whole[last..]].concat();
    let mut cases = vec![
        zstd(
            "zstd-checksum-last",
            "a flipped bit in the last frame",
            &[JUDGE],
            flipped(last + 40, 1),
            log.judged(2, "damaged", Some("FrameChecksum")),
        ),
        zstd(
            "zstd-checksum-middle",
            "a flipped bit in a frame before an intact one",
            intact,
            flipped(middle + 40, 1),
            log.judged(1, "corrupt", Some("FrameChecksum")),
        ),
        zstd(
            "zstd-block-header-middle",
            "a block that runs past the frames behind it; they are found by their magic",
            intact,
            flipped(middle + 8, 0x40),
            log.judged(1, "corrupt", Some("Truncated")),
        ),
        zstd(
            "zstd-block-type-last",
            "a block of type 3 in the last frame",
            &["02-frames.md#The structural walk"],
            flipped(last + 6, 0x06),
            log.judged(2, "damaged", Some("BlockType")),
        ),
        zstd(
            "zstd-skippable",
            "a skippable frame between frames",
            &["02-frames.md#The structural walk"],
            foreign(b"foreign"),
            log.judged(2, "corrupt", Some("SkippableFrame")),
        ),
        zstd(
            "zstd-skippable-with-frame",
            "a skippable frame whose payload is a whole frame",
            &["02-frames.md#The structural walk"],
            foreign(&frame(&row(9, 9).line)),
            log.judged(2, "corrupt", Some("SkippableFrame")),
        ),
    ];
    let bytes = [&whole[..], &skippable(0x53, b"foreign")].concat();
    cases.push(zstd(
        "zstd-skippable-last",
        "a skippable frame behind the last frame",
        &["02-frames.md#The structural walk"],
        bytes,
        log.judged(3, "damaged", Some("SkippableFrame")),
    ));

    let text = row(3, 13).line;
    let bytes = [&whole[..], &frame(&text[..text.len() - 1])].concat();
    cases.push(zstd(
        "zstd-line-end",
        "the last frame does not end in a line feed",
        &["02-frames.md#Content"],
        bytes,
        log.judged(3, "damaged", Some("LineEnd")),
    ));

    let size = u8::try_from(text.len()).expect("short");
    let asks = [&[0x28, 0xb5, 0x2f, 0xfd, 0x25, 9, size], &blocks(&text)[..], &checksum(&text)].concat();
    let bytes = [&whole[..], &asks].concat();
    cases.push(zstd(
        "zstd-dictionary",
        "the last frame asks for a dictionary",
        &["02-frames.md#Content"],
        bytes,
        log.judged(3, "unsupported", Some("Dictionary")),
    ));
    let wide = [&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0xf8], &blocks(&text)[..], &checksum(&text)].concat();
    let beyond = |name: &str, about: &str, last: &[u8], fault: &str| {
        let bytes = [&whole[..], last].concat();
        zstd(name, about, &["02-frames.md#Content", JUDGE], bytes, log.judged(3, "unsupported", Some(fault)))
    };
    cases.push(beyond("zstd-window", "the last frame asks for a window of 2 TiB", &wide, "WindowLimit"));
    let claim = [0x28, 0xb5, 0x2f, 0xfd, 0xc4, 0x58, 0, 0, 0, 0x40, 1, 0, 0, 0];
    let claim = [&claim, &blocks(&text)[..], &checksum(&text)].concat();
    cases.push(beyond(
        "zstd-content-claim",
        "the last frame claims 5 GiB of content",
        &claim,
        "ContentLimit",
    ));

    let damaged = Frames::new(&[vec![row(0, 10)], vec![long(1, 11, 1500)]]);
    let mut bytes = damaged.bytes();
    bytes[512..1024].fill(0);
    let about = "a sector of a frame is zero, and what the frame behind it holds is beyond this reader: it counts as intact, and nothing may be cut";
    cases.push(zstd(
        "zstd-beyond-limits-behind-damage",
        about,
        intact,
        [&bytes[..], &wide].concat(),
        damaged.judged(2, "corrupt", Some("FrameChecksum")),
    ));

    let (log, bytes) = without_the_end(7);
    let about = "the last sector, of which the file has 7 bytes, is zero: too few for a proof";
    cases.push(zstd(
        "zstd-damaged-part-of-a-sector",
        about,
        &[JUDGE],
        bytes,
        log.judged(2, "damaged", Some("FrameChecksum")),
    ));

    let headless = |detected: &str, fault: &str| {
        let outcome = Outcome {
            detected: detected.to_owned(),
            fault: Some(fault.to_owned()),
            at: Some(0),
            ..Outcome::default()
        };
        outcome.with_text(b"")
    };
    let first = "01-container.md#Reading forward";
    cases.push(zstd(
        "zstd-header-cut",
        "the file ends inside the first frame",
        &[first],
        whole[..50].to_vec(),
        headless("compressed", "HeaderLine"),
    ));
    cases.push(zstd(
        "zstd-header-checksum",
        "a flipped bit in the header line",
        &[first],
        flipped(40, 1),
        headless("zstd", "FrameChecksum"),
    ));
    let joined = [line(HEADER), row(0, 10).line].concat();
    let bytes = [frame(&joined), frame(&row(1, 11).line)].concat();
    cases.push(zstd(
        "zstd-header-two-lines",
        "the first frame holds a row as well",
        &["02-frames.md#Content"],
        bytes,
        headless("zstd", "HeaderLine"),
    ));
    cases.push(zstd(
        "zstd-header-content-limit",
        "the first frame decompresses to more than a header line may have",
        &["02-frames.md#Content"],
        [swollen(9), frame(&row(0, 10).line)].concat(),
        headless("zstd", "ContentLimit"),
    ));
    cases
}
