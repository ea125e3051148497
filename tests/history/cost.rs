//! What a page reads of a file, whatever the file's length.

use std::sync::Arc;

use seslog::container::disk::fault::{FaultDisk, OpKind};
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::store::history::{Page, PageEnd, PageLimits, PageRequest};
use seslog::store::{FileHandle, SessionAccess};

use crate::common::chance::noise;
use crate::common::sessions::{CREATED_AT, header};
use crate::model::{log_path, open};

/// A log of at least `stored_min` bytes, in appends of so many rows of a kilobyte that hardly compress; and its events.
fn log(encoding: Encoding, stored_min: usize, rows: usize) -> (Vec<u8>, u64) {
    let mut line = Vec::new();
    header("s").write(&mut line);
    line.push(b'\n');
    let mut out = Vec::new();
    let mut writer = create(encoding, LogId::new(7).unwrap(), &line, CREATED_AT, -5, &mut out).unwrap();
    writer.accept(true);
    let noise = noise();
    let mut seq = 0_u64;
    while out.len() < stored_min {
        let (mut content, mut marks) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let at = (seq as usize * 7919) % (noise.len() - 1000);
            let time = CREATED_AT + seq as i64;
            let kind = if seq.is_multiple_of(50) { "turn/start" } else { "plan/mode" };
            let head = format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{{"text":""#);
            content.extend_from_slice(head.as_bytes());
            content.extend_from_slice(&noise[at..at + 1000]);
            content.extend_from_slice(b"\"}}\n");
            marks.push(RowMark { end: content.len(), events: 1, last_time: time });
            seq += 1;
        }
        writer.stage(&Batch { content: &content, rows: &marks }, &mut out).unwrap();
        writer.accept(true);
    }
    (out, seq)
}

/// Bytes that some pages read, and in how many calls.
#[derive(Clone, Copy, Debug)]
struct Costs {
    last: u64,
    before: u64,
    again: u64,
    calls: usize,
}

fn reads(disk: &FaultDisk, encoding: Encoding, read: impl FnOnce() -> Page) -> (Page, u64, usize) {
    disk.forget_trace();
    let page = read();
    let calls = disk.trace().iter().filter(|op| op.kind == OpKind::ReadAt).count();
    (page, disk.bytes_read(log_path(encoding)), calls)
}

/// The last page, the one before it, and the last one again, forward from where the second one ended.
fn costs(
    encoding: Encoding,
    disk: &FaultDisk,
    handle: &FileHandle,
    events: u64,
    limits: PageLimits,
) -> Costs {
    let (page, last, first_calls) =
        reads(disk, encoding, || handle.page(&PageRequest::last(limits)).unwrap());
    assert_eq!((page.next_seq(), page.has_more()), (events, true), "{encoding}");
    let request = PageRequest::before(page.before.unwrap(), limits);
    let (earlier, before, calls) = reads(disk, encoding, || handle.page(&request).unwrap());
    assert_eq!((earlier.next_seq(), earlier.has_more()), (page.first_seq, true));
    let request = PageRequest::after(earlier.after, limits);
    let (same, again, _) = reads(disk, encoding, || handle.page(&request).unwrap());
    assert_eq!((same.first_seq, same.end), (page.first_seq, PageEnd::Log));
    assert_eq!(same.events, page.events);
    Costs { last, before, again, calls: first_calls + calls }
}

fn planted(encoding: Encoding, bytes: &[u8]) -> (FaultDisk, Arc<FileHandle>) {
    let disk = FaultDisk::new();
    disk.plant(log_path(encoding), bytes);
    let handle = open(&disk, encoding, SessionAccess::Read);
    (disk, handle)
}

/// The last page of a log whose last append was cut short.
fn torn_costs(encoding: Encoding, bytes: &[u8], limits: PageLimits) -> u64 {
    let (disk, handle) = planted(encoding, &bytes[..bytes.len() - 37]);
    let (page, read, _) = reads(&disk, encoding, || handle.page(&PageRequest::last(limits)).unwrap());
    assert!(page.has_more() && page.next_seq() > page.first_seq);
    let request = PageRequest::after(page.after, limits);
    let (none, _, _) = reads(&disk, encoding, || handle.page(&request).unwrap());
    assert!(none.events.is_empty() && !none.has_more(), "a torn end is no part of the log");
    read
}

#[test]
fn a_torn_end_costs_a_walk_without_decompression_and_in_plain_text_nothing() {
    let limits = PageLimits::UNBOUNDED.with_bytes(64 << 10);
    for encoding in Encoding::ALL {
        let [short, long] =
            [2 << 20, 32 << 20].map(|stored| torn_costs(encoding, &log(encoding, stored, 200).0, limits));
        eprintln!("{encoding:8} torn: {short} {long}");
        match encoding {
            Encoding::Plain => assert!(long <= short + (32 << 10) && long <= 256 << 10, "{short} and {long}"),
            // A page for each frame and for each block of 128 KB in it.
            Encoding::Zstd => assert!(long <= 5 << 20, "{long}"),
            // Each byte once, and what is torn again to judge it.
            _ => assert!(long <= 36 << 20, "{long}"),
        }
    }
}

#[test]
fn the_last_page_and_the_one_before_read_as_much_of_a_long_log_as_of_a_short_one() {
    let limits = PageLimits::UNBOUNDED.with_bytes(64 << 10);
    for encoding in Encoding::ALL {
        for rows in [1, 8, 200] {
            let [short, long] = [2 << 20, 64 << 20].map(|stored| {
                let (bytes, events) = log(encoding, stored, rows);
                let (disk, handle) = planted(encoding, &bytes);
                costs(encoding, &disk, &handle, events, limits)
            });
            eprintln!("{encoding:8} {rows:3} rows an append: {short:?} {long:?}");
            // 64 KB of rows; the frame or segment that they begin in, and the one that they end in, may be 200 KB each.
            let block = if encoding == Encoding::Plain { 64 << 10 } else { rows as u64 * 1100 };
            let page = (96 << 10) + 2 * block;
            for (short, long) in
                [(short.last, long.last), (short.before, long.before), (short.again, long.again)]
            {
                // One look more or less, as the borders happen to lie.
                assert!(long <= short + (32 << 10), "{encoding}, appends of {rows}: {short} and {long}");
                assert!(long <= 2 * page, "{encoding}, appends of {rows}: {long}");
            }
            assert!(long.calls <= 24, "{encoding}, appends of {rows}: {long:?}");
        }
    }
}
