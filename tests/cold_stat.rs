//! What a session is, and how many events it has, is told by the two ends of its log: whatever the log's length.

#[path = "common/chance.rs"]
mod chance;

use std::path::Path;
use std::sync::Arc;

use chance::noise;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{FaultDisk, OpKind};
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::layout::session_path;
use seslog::store::{FileStore, Snapshot, State, StoreOptions};
use seslog::units::{Generation, UnixMs};

/// Zstandard's fast way: the test wants bytes, not a ratio.
const LEVEL: i32 = -5;

/// A log of at least `stored_min` bytes; its last append is `last` rows of a kilobyte. And the number of its events.
fn log(encoding: Encoding, stored_min: usize, last: u64) -> (Vec<u8>, u64) {
    let header = Header::new(Generation::V2, Text::from("s"), UnixMs::new(1_767_225_600_000)).unwrap();
    let mut line = Vec::new();
    header.write(&mut line);
    line.push(b'\n');
    let mut out = Vec::new();
    let id = LogId::new(7).unwrap();
    let mut writer = create(encoding, id, &line, header.created_at().get(), LEVEL, &mut out).unwrap();
    writer.accept(true);
    let noise = noise();
    let mut seq = 0;
    let mut append = |rows: u64, out: &mut Vec<u8>| {
        let (mut content, mut marks) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let at = (seq as usize * 7919) % (noise.len() - 1000);
            let time = 1_767_225_600_000 + seq as i64;
            content.extend_from_slice(
                format!(r#"{{"type":"plan/mode","seq":{seq},"time":{time},"data":{{"text":""#).as_bytes(),
            );
            content.extend_from_slice(&noise[at..at + 1000]);
            content.extend_from_slice(b"\"}}\n");
            marks.push(RowMark { end: content.len(), events: 1, last_time: time });
            seq += 1;
        }
        writer.stage(&Batch { content: &content, rows: &marks }, out).unwrap();
        writer.accept(true);
    };
    while out.len() < stored_min {
        append(200, &mut out);
    }
    append(last, &mut out);
    (out, seq)
}

/// Bytes that looking at the log reads of it, and in how many calls.
fn stat_costs(encoding: Encoding, bytes: &[u8], events: u64) -> (u64, usize) {
    let fault = FaultDisk::new();
    let path = Path::new("/session.v2").with_extension(&format!("v2{}", encoding.suffix())[..]);
    fault.plant(&path, bytes);
    let disk: Arc<dyn Disk> = Arc::new(fault.clone());
    let snapshot = Snapshot::of_log(&disk, &path, Limits::DEFAULT).unwrap();
    assert_eq!((snapshot.state, snapshot.event_count), (State::Ok, Some(events)), "{encoding}");
    assert_eq!(snapshot.encoding, Some(encoding));
    (fault.bytes_read(&path), fault.trace().iter().filter(|op| op.kind == OpKind::ReadAt).count())
}

#[test]
fn a_stat_of_a_hundred_megabytes_reads_no_more_than_one_of_a_small_log() {
    for encoding in Encoding::ALL {
        let (small, events) = log(encoding, 100 << 10, 8);
        let small_costs = stat_costs(encoding, &small, events);
        let (large, events) = log(encoding, 100 << 20, 8);
        let large_costs = stat_costs(encoding, &large, events);
        assert!(
            large_costs.0 <= small_costs.0 + (64 << 10),
            "{encoding}: {large_costs:?} and {small_costs:?}"
        );
        // The head, the end, and the last segment or row where that is longer than a page: in absolute numbers too.
        assert!(large_costs.0 <= 32 << 10, "{encoding}: {large_costs:?}");
        assert!(large_costs.1 <= 3, "{encoding}: {large_costs:?}");
    }
}

#[test]
fn a_zstd_log_whose_last_frame_is_out_of_reach_is_told_by_its_frame_headers() {
    // 200 KB, three times what a look from behind searches.
    let (bytes, events) = log(Encoding::Zstd, 20 << 20, 200);
    let (read, _) = stat_costs(Encoding::Zstd, &bytes, events);
    // A page for each header of a frame and of a block of 128 KB, and the last frame.
    assert!(read <= 3 << 20, "{read} of {}", bytes.len());
}

/// Issue R28: a log of five thousand frames, listed by readers that decompressed all of them.
#[test]
fn r28_listing_five_thousand_frames_reads_their_two_ends() {
    let bytes = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/cases/R28-five-thousand-frames/input/many-frames/session.jsonl.zstd"
    ))
    .unwrap();
    let disk = FaultDisk::new();
    let root = Path::new("/root");
    let id = Text::from("session-00000000-0000-4000-8000-000000000001");
    let path =
        session_path(root, Some(&Text::from("/home/dev/demo")), &id).unwrap().join("session.jsonl.zstd");
    disk.plant(&path, &bytes);
    let store = FileStore::on_disk(Arc::new(disk.clone()), root, StoreOptions::default());
    let found = store.list().unwrap();
    let [snapshot] = found.as_slice() else { panic!("one session, not {}", found.len()) };
    assert_eq!((snapshot.state, snapshot.event_count), (State::Ok, Some(5000)));
    let head: u64 = disk
        .trace()
        .iter()
        .filter(|op| op.kind == OpKind::ReadAt && op.path == path && op.offset < 64 << 10)
        .map(|op| op.done)
        .sum();
    assert!(head <= 64 << 10, "{head} bytes of the head");
    assert!(disk.bytes_read(&path) <= 16 << 10, "{} bytes in all", disk.bytes_read(&path));
}
