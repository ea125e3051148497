//! Indexed files that are served to their end.

use super::{CHAIN, Case, HEADER, JUDGE, faulty, indexed, judged, long, raw, row, two_events};
use crate::build::{Log, Segment, TRAILER_LEN, bare_frame, content, frame, line};
use crate::outcome::Outcome;

pub(super) fn cases() -> Vec<Case> {
    [whole(), unfinished(), torn_short(), torn_zeros()].into_iter().flatten().collect()
}

fn complete(name: &str, about: &str, spec: &[&'static str], log: &Log) -> Case {
    let outcome = judged(log, log.segments.len() - 1, "complete", true);
    indexed(name, about, spec, log.bytes.clone(), outcome)
}

fn whole() -> Vec<Case> {
    let mut cases = vec![
        complete(
            "header-only",
            "a header and no rows",
            &["01-container.md#The indexed encoding"],
            &Log::new(HEADER, 9),
        ),
        complete("one-append", "one append of two events", &["03-trailer.md#Members"], &two_events()),
        complete(
            "worked-small-file",
            "the file of 03, byte for byte",
            &["03-trailer.md#A whole file"],
            &worked(),
        ),
    ];

    let mut log = two_events();
    for seq in 2..6 {
        log.write(&[row(seq, 20)], seq == 5);
    }
    log.synced();
    cases.push(complete(
        "append-of-four-segments",
        "only the last segment of an append commits",
        &[CHAIN],
        &log,
    ));

    let mut log = Log::new(HEADER, 9);
    for seq in 0..17 {
        log.append(&[row(seq, 10)]);
    }
    cases.push(complete(
        "seventeen-appends",
        "skip distances of segments 0 to 17",
        &["03-trailer.md#Skip distances"],
        &log,
    ));

    let mut log = two_events();
    log.write(&[row(2, 12)], true).write(&[row(3, 13)], true).write(&[row(4, 14)], true);
    let about = "three appends without a sync between them: D stays where the first of them began";
    cases.push(complete("unsynced-appends", about, &["03-trailer.md#The durable boundary"], &log));

    let mut log = two_events();
    log.write_with(&[row(2, 12)], &|members| {
        members.set("flags", 0xf1);
    });
    cases.push(complete(
        "unused-flags",
        "flags 4 to 7 are set and ignored",
        &["03-trailer.md#Members"],
        &log,
    ));

    let mut log = Log::with(1 << 32, HEADER, frame(&line(HEADER)), 9, &|_| {});
    log.append(&[row(0, 10)]);
    let about = "a log id whose low half is zero: CRCs of trailers start from 0";
    cases.push(complete("log-id-low-half-zero", about, &["03-trailer.md#The log id"], &log));

    let mut log = two_events();
    log.append(&[row(2, -5)]);
    log.append(&[row(3, 4)]);
    cases.push(complete(
        "times-run-backwards",
        "last_time is that of the last event, though earlier",
        &["03-trailer.md#Members"],
        &log,
    ));

    let mut log = two_events();
    let rows = [row(2, 12)];
    log.segment(Segment { rows: &rows, body: bare_frame(&content(&rows)), commit: true, change: &|_| {} });
    let about = "a data frame without content size and checksum, which a reader accepts";
    cases.push(complete("bare-frame", about, &["01-container.md#The indexed encoding"], &log));

    let mut log = two_events();
    log.segment(Segment { rows: &[], body: frame(b""), commit: true, change: &|_| {} });
    log.append(&[row(2, 12)]);
    cases.push(complete(
        "empty-frame",
        "a body that holds no row; last_time is carried over",
        &[CHAIN],
        &log,
    ));

    cases.push(complete("replaced-header", REPLACED, &["03-trailer.md#Replacing the header"], &replaced()));
    let about = "segment 0 was replaced by a shorter one: the boundary of segment 1 lies before the file and vouches for nothing, segment 2 vouches as ever";
    let spec = &["03-trailer.md#Replacing the header", "03-trailer.md#The durable boundary"];
    cases.push(complete("replaced-header-shorter", about, spec, &shortened()));
    cases.push(v0());
    cases
}

const REPLACED: &str = "segment 0 was replaced by a longer one with the same log id; all bytes behind it are those of one-append";

fn replaced() -> Log {
    let old = two_events();
    let header = HEADER.replace("\"isSeeded\"", "\"cwd\":\"/a/b\",\"isSeeded\"");
    let mut log = Log::new(&header, 9);
    // The same segment, with the `unsynced` that it got behind the old header.
    log.write_with(&[row(0, 10), row(1, 11)], &move |members| {
        members.set("unsynced", old.segments[0].0 as u64);
    });
    assert_eq!(log.bytes[log.segments[0].0..], two_events().bytes[old_end()..]);
    log
}

fn old_end() -> usize {
    two_events().segments[0].0
}

/// Two appends behind a header that lost its `cwd`, each as it stood behind the longer one.
fn shortened() -> Log {
    let header = HEADER.replace("\"isSeeded\"", "\"cwd\":\"/a/b\",\"isSeeded\"");
    let mut old = Log::new(&header, 9);
    old.append(&[row(0, 10), row(1, 11)]).append(&[row(2, 12)]);
    let mut log = Log::new(HEADER, 9);
    let unsynced = old.segments[0].0 as u64;
    log.write_with(&[row(0, 10), row(1, 11)], &move |members| {
        members.set("unsynced", unsynced);
    });
    log.synced().append(&[row(2, 12)]);
    assert!(log.segments[0].0 < old.segments[0].0);
    assert_eq!(log.bytes[log.segments[0].0..], old.bytes[old.segments[0].0..]);
    assert_eq!((log.segments[1].2, log.segments[2].2), (0, log.segments[1].0 as u64));
    log
}

fn v0() -> Case {
    let header = r#"{"type":"session","version":0,"id":"v","createdAt":9,"delegationDepth":0}"#;
    let mut log = Log::new(header, 9);
    let packed = r#"{"type":"text-chunks","seq0":1,"time0":20,"data":{"turn":1,"step":1,"index":0,"dt":[4,-1],"texts":["a","","b"]}}"#;
    let chunk = |seq, time| (seq, time, "assistant/chunk".to_owned());
    let packed = raw(packed, vec![chunk(1, 20), chunk(2, 24), chunk(3, 23)]);
    log.append(&[row(0, 10), packed, row(4, 30)]);
    let about = "generation 0 in the indexed encoding: a packed row counts as three events";
    let case = complete("generation-0", about, &["04-rows.md#Packed rows"], &log);
    Case { file_name: "session.jsonl.zst", ..case }
}

/// The log of "A whole file" in 03.
fn worked() -> Log {
    let header =
        r#"{"type":"session","version":2,"id":"w","createdAt":9,"isSeeded":false,"delegationDepth":0}"#;
    let event = |seq, time, kind: &str, data: &str| {
        let text = format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}}}"#);
        raw(&text, vec![(seq, time, kind.to_owned())])
    };
    let mut log = Log::new(header, 9);
    log.append(&[
        event(0, 10, "turn/start", r#"{"turn":1}"#),
        event(1, 11, "plan/mode", r#"{"active":true}"#),
    ]);
    log.write(&[event(2, 12, "plan/mode", r#"{"active":false}"#)], false).synced().marker();
    log
}

fn unfinished() -> Vec<Case> {
    let mut log = two_events();
    log.write(&[row(2, 12)], false).write(&[row(3, 13)], false);
    let about = "the last two segments lack an end: their rows are served, and P is the end of the file";
    let outcome = judged(&log, 3, "unfinished", false);
    let mut cases = vec![indexed("unfinished-append", about, &[JUDGE], log.bytes.clone(), outcome)];

    let mut next = log.clone();
    next.synced().marker().write(&[row(4, 14)], true).synced();
    let about = "the same, committed by a marker at the front of the next append";
    cases.push(complete(
        "unfinished-committed-by-next-append",
        about,
        &["05-append-and-repair.md#Repair"],
        &next,
    ));

    let last = log.segments.len() - 1;
    log.write(&[row(4, 14)], true);
    log.bytes.truncate(log.trailer(4) + 10);
    let outcome = Outcome { fault: Some("Truncated".into()), ..judged(&log, last, "torn", false) };
    let outcome = Outcome { at: outcome.good_end, ..outcome };
    let about = "two whole segments without an end, and a third that is cut: torn behind them";
    cases.push(indexed("torn-behind-unfinished", about, &[JUDGE], log.bytes, outcome));
    cases
}

fn torn_short() -> Vec<Case> {
    let mut log = two_events();
    let start = log.end();
    log.append(&[row(2, 12), row(3, 13)]);
    let trailer = log.trailer(2);
    let outcome = faulty(&log, 1, "torn", "Truncated");
    let cuts = [
        ("torn-in-magic", "two bytes of the next frame", start + 2),
        ("torn-in-frame-header", "the next frame ends behind its descriptor", start + 5),
        ("torn-in-block", "the next frame ends inside its block", start + 50),
        ("torn-before-trailer", "the next frame is whole, and nothing of its trailer is there", trailer),
        ("torn-in-trailer-header", "seven bytes of the next trailer", trailer + 7),
        ("torn-in-trailer", "all of the next trailer but its last byte", trailer + TRAILER_LEN - 1),
    ];
    let cut = |(name, about, len): (&str, &str, usize)| {
        indexed(
            name,
            about,
            &[JUDGE, "01-container.md#Finding the end of a body"],
            log.bytes[..len].to_vec(),
            outcome.clone(),
        )
    };
    let mut cases: Vec<Case> = cuts.into_iter().map(cut).collect();

    let mut log = two_events();
    log.marker();
    let bytes = log.bytes[..log.end() - 1].to_vec();
    let outcome = faulty(&log, 1, "torn", "Truncated");
    cases.push(indexed("torn-in-marker", "a marker without its last byte", &[JUDGE], bytes, outcome));

    let log = two_events();
    let mut bytes = log.bytes.clone();
    bytes.extend([0x53, 0x2a, 0x4d, 0x18, 100, 0, 0, 0, 1, 2, 3]);
    let about = "an extension frame that the end of the file cuts off";
    let outcome = faulty(&log, 1, "torn", "Truncated");
    cases.push(indexed(
        "torn-in-extension",
        about,
        &["01-container.md#Finding the end of a body"],
        bytes,
        outcome,
    ));
    cases
}

/// A log whose last append, at P, covers several sectors; and P.
fn wide() -> (Log, usize) {
    let mut log = two_events();
    let start = log.end();
    log.append(&[long(2, 12, 1200), long(3, 13, 300)]);
    assert!(log.end() > 4 * 512 && start < 512, "{start} to {}", log.end());
    (log, start)
}

/// A log whose last append begins in an earlier sector than its last one, of which the file has `part` bytes.
pub(super) fn ending(part: usize) -> Log {
    let with = |len: usize| {
        let mut log = two_events();
        log.append(&[long(2, 12, len)]);
        log
    };
    (700..1300).map(with).find(|log| log.end() % 512 == part).expect("each length adds a byte")
}

fn torn_zeros() -> Vec<Case> {
    let zeroed = |range: std::ops::Range<usize>| {
        let (log, start) = wide();
        let mut bytes = log.bytes.clone();
        bytes[range].fill(0);
        (bytes, start)
    };
    let (log, start) = wide();
    let len = log.end();
    let torn = |fault| faulty(&log, 1, "torn", fault);
    let spec = &[JUDGE, "README.md#Media assumptions"];
    let mut cases = vec![
        indexed(
            "torn-all-zero",
            "the length landed and no byte of the append did",
            spec,
            zeroed(start..len).0,
            torn("FrameMagic"),
        ),
        indexed(
            "torn-first-sector",
            "the bytes from P to the next sector border did not land, the rest did",
            spec,
            zeroed(start..512).0,
            torn("FrameMagic"),
        ),
        indexed(
            "torn-middle-sector",
            "one sector inside the body did not land; the trailer did, and vouches for no more than P",
            spec,
            zeroed(1024..1536).0,
            torn("BodyCrc"),
        ),
        indexed(
            "torn-two-sectors-and-cut",
            "sectors are missing and the file ends inside the frame",
            spec,
            zeroed(512..1536).0[..1800].to_vec(),
            torn("Truncated"),
        ),
    ];

    let mut small = two_events();
    small.append(&[row(2, 12)]);
    let mut bytes = two_events().bytes;
    let len = bytes.len() + 20;
    assert!(len < 512);
    bytes.resize(len, 0);
    let about = "twenty zeros behind P and then the end of the file, all within one sector";
    cases.push(indexed("torn-short-zeros", about, spec, bytes, faulty(&small, 1, "torn", "FrameMagic")));
    let bytes = [&two_events().bytes[..], &[0]].concat();
    let about = "one zero behind P and then the end of the file: from P on, any number is proof";
    cases.push(indexed("torn-one-zero", about, spec, bytes, faulty(&small, 1, "torn", "FrameMagic")));

    let log = ending(8);
    let mut bytes = log.bytes.clone();
    bytes[log.end() - 8..].fill(0);
    let about =
        "the last sector, of which the file has 8 bytes, did not land: no good record ends in eight zeros";
    cases.push(indexed("torn-part-of-a-sector", about, spec, bytes, faulty(&log, 1, "torn", "TrailerCrc")));

    let mut log = two_events();
    log.write(&[long(2, 12, 1500)], true).write(&[row(3, 13)], true).write(&[row(4, 14)], true);
    let mut bytes = log.bytes.clone();
    bytes[512..1024].fill(0);
    let about = "none of three appends was synced; a sector of the first is missing, so that the two behind it fall with it";
    cases.push(indexed(
        "torn-before-unsynced-appends",
        about,
        spec,
        bytes,
        faulty(&log, 1, "torn", "BodyCrc"),
    ));

    let mut log = two_events();
    log.write(&[long(2, 12, 1500)], false).write(&[row(3, 13)], true);
    let mut bytes = log.bytes.clone();
    bytes[512..1024].fill(0);
    let about = "one append of two segments: a sector of the first is missing, the second is whole and is dropped with it";
    cases.push(indexed("torn-first-of-two-segments", about, spec, bytes, faulty(&log, 1, "torn", "BodyCrc")));
    cases
}
