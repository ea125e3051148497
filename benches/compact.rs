//! What segment sizes and levels give in a compacted log, and what they cost: a table, not a race.
//!
//! Sizes are exact and the same on every run; times are of one run each, to tell ten times from twice.

mod data;
mod limits;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::store::{CompactOptions, FileStore, SessionAccess, compact};

const SEGMENTS: [usize; 5] = [256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
const LEVELS: [i32; 6] = [3, 6, 9, 12, 15, 19];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let folder = limits::folder();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    for (name, session) in [("large", data::large()), ("tiny", data::tiny())] {
        let logical = session.rows.text.len() as f64;
        let root = folder.path().join(name);
        let log = data::write_session(&root, Encoding::Indexed, &session, 32);
        let stored = std::fs::metadata(&log).expect("it was written").len() as f64;
        println!(
            "\n{name}: {:.1} MB of rows, {:.3} stored in appends of 32",
            logical / 1e6,
            stored / logical
        );
        println!("  {:>8}  {:>5}  {:>7}  {:>7}  {:>9}", "segment", "level", "stored", "before", "MB/s");
        for segment_bytes in SEGMENTS {
            for level in LEVELS {
                let mut options = CompactOptions::default();
                (options.segment_bytes, options.level, options.dry_run) = (segment_bytes, level, true);
                let began = Instant::now();
                let done = compact(&disk, &log, &options, &mut |_| {}).expect("it is sound");
                let (after, rate) = (done.size_after as f64, logical / 1e6 / began.elapsed().as_secs_f64());
                let (of_rows, of_before) = (after / logical, after / stored);
                println!("  {segment_bytes:>8}  {level:>5}  {of_rows:>7.4}  {of_before:>7.4}  {rate:>9.0}");
            }
        }
        read_back(&disk, &root, &log, &session.header);
    }
}

/// What the last 50 events, and all of them, take before and after.
fn read_back(disk: &Arc<dyn Disk>, root: &Path, log: &Path, header: &seslog::row::Header) {
    let took = |what: &str| {
        let store = FileStore::new(root);
        let time = |read: &dyn Fn() -> usize| {
            let mut times: Vec<f64> = (0..7)
                .map(|_| {
                    let began = Instant::now();
                    assert!(read() > 0);
                    began.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            times.sort_by(f64::total_cmp);
            times[3]
        };
        let count = store.stat(header.id()).expect("it is there").expect("it is there").event_count;
        let count = count.expect("it is counted");
        let open = || store.open(header.id(), SessionAccess::Read).expect("it is sound");
        let last = time(&|| open().read(count - 50, 50).expect("it is sound").len());
        let all = time(&|| open().read(0, u64::MAX).expect("it is sound").len());
        println!("  {what}: last 50 events {last:.2} ms, all {all:.1} ms");
    };
    took("as appended");
    for segment_bytes in [256 << 10, 1 << 20, 4 << 20] {
        let mut options = CompactOptions::default();
        options.segment_bytes = segment_bytes;
        let done = compact(disk, log, &options, &mut |_| {}).expect("it is sound");
        if done.is_smaller {
            took(&format!("compacted into {segment_bytes}"));
        }
    }
}
