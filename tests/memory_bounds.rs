//! What scanning a log and listing a root take of anonymous memory.
//!
//! `SESLOG_MEMORY_MB` sets the size of the scanned logs, `SESLOG_MEMORY_SESSIONS` the number of listed sessions: 100000 of them
//! have to fit 64 MB.

mod common;

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seslog::container::disk::{Disk, OsDisk};
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::layout::session_path;
use seslog::store::{Catalog, FileStore, LogFile, ReadMode, ScanOptions, Verdict, scan};
use seslog::units::{Generation, UnixMs};

/// Anonymous memory of this process, in bytes.
fn anonymous() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// What `work` takes at most, by looks at it from beside.
fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    give_back();
    let before = anonymous().expect("it was told before");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = before;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous().expect("it was told before"));
                std::thread::sleep(Duration::from_micros(200));
            }
            peak
        });
        let result = work();
        let after = anonymous().expect("it was told before");
        done.store(true, Ordering::Relaxed);
        (watcher.join().expect("it only looks").max(after).saturating_sub(before), result)
    })
}

/// Has the allocator return what is free: it would serve `work` unseen.
#[cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "the allocator is asked in C"))]
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it looks at the allocator's own lists, under its own locks.
    let _returned = unsafe { libc::malloc_trim(0) };
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn header(id: &str, cwd: &str) -> Header {
    let header = Header::new(Generation::V2, Text::from(id), UnixMs::new(1_767_225_600_000)).unwrap();
    header.with_cwd(Text::from(cwd)).unwrap()
}

fn row(seq: u64, len: usize) -> String {
    let text = "some words that are compressed well, ".repeat(len / 37 + 1);
    format!(
        "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":1767225600000,\"data\":{{\"text\":\"{text}\"}}}}\n"
    )
}

/// Writes a log of at least `bytes` of rows, appended by the quarter of a megabyte. The length of its longest row.
fn write_log(path: &Path, encoding: Encoding, bytes: usize) -> usize {
    let mut file = fs::File::create(path).unwrap();
    let (mut line, mut out) = (Vec::new(), Vec::new());
    header("s", "/p").write(&mut line);
    line.push(b'\n');
    let id = LogId::new(7).unwrap();
    let mut writer = create(encoding, id, &line, 1_767_225_600_000, 1, &mut out).unwrap();
    writer.accept(true);
    let (mut written, mut seq, mut longest) = (0, 0, 0);
    while written < bytes {
        let (mut content, mut marks) = (String::new(), Vec::new());
        while content.len() < 256 << 10 {
            // One in the middle is far longer than what a segment holds.
            let len = if seq == 1000 { 6 << 20 } else { 200 + (seq as usize * 7919) % 8000 };
            let row = row(seq, len);
            longest = longest.max(row.len());
            content.push_str(&row);
            marks.push(RowMark { end: content.len(), events: 1, last_time: 1_767_225_600_000 });
            seq += 1;
        }
        written += content.len();
        writer.stage(&Batch { content: content.as_bytes(), rows: &marks }, &mut out).unwrap();
        writer.accept(true);
        file.write_all(&out).unwrap();
        out.clear();
    }
    longest
}

fn scanning_takes_16_megabytes_and_the_largest_frame() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let megabytes = number("SESLOG_MEMORY_MB", 40);
    for encoding in Encoding::ALL {
        let path = folder.path().join(format!("session.v2{}", encoding.suffix()));
        // A frame is a row, or a batch of a quarter of a megabyte.
        let largest = write_log(&path, encoding, megabytes << 20) + (256 << 10);
        let log = LogFile::open(&disk, &path, Limits::DEFAULT, ReadMode::Read).unwrap();
        let (peak, report) =
            peak_of(|| scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))));
        assert_eq!(report.unwrap().verdict, Verdict::Sound);
        println!("{encoding}: {megabytes} MB of rows, largest frame {largest}, {peak} bytes of memory");
        assert!(peak <= largest + (16 << 20), "{encoding}: {peak} bytes, largest frame {largest}");
    }
}

fn listing_takes_64_megabytes_for_a_hundred_thousand_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let sessions = number("SESLOG_MEMORY_SESSIONS", 5000);
    for n in 0..sessions {
        // As long as they are in life.
        let header = header(
            &format!("session-{n:08x}-0000-4000-8000-{:012x}", n * 7919),
            &format!("/home/somebody/projects/product-{:02}", n % 24),
        );
        let path = session_path(&root, header.cwd(), header.id()).unwrap();
        fs::create_dir_all(&path).unwrap();
        let (mut line, mut out) = (Vec::new(), Vec::new());
        header.write(&mut line);
        line.push(b'\n');
        let id = LogId::new(n as u64 + 1).unwrap();
        let mut writer = create(Encoding::Indexed, id, &line, 1_767_225_600_000, 1, &mut out).unwrap();
        writer.accept(true);
        let content = row(0, 100);
        let mark = RowMark { end: content.len(), events: 1, last_time: 1_767_225_600_000 };
        writer.stage(&Batch { content: content.as_bytes(), rows: &[mark] }, &mut out).unwrap();
        fs::write(path.join("session.v2.jsonl.zst"), out).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2100));
    let listed = || FileStore::new(&root).with_catalog(Catalog::in_folder(folder.path().join("cache")));
    let stores =
        [("no catalog", FileStore::new(&root)), ("a new catalog", listed()), ("a catalog", listed())];
    for (what, store) in stores {
        let (peak, found) = peak_of(|| store.list().unwrap());
        assert_eq!(found.len(), sessions);
        println!("{sessions} sessions, {what}: {peak} bytes of memory");
        // Threads, their decoders and what they read take the same whatever the number of sessions.
        let allowed = (8 << 20) + sessions * ((56 << 20) / 100_000);
        assert!(peak <= allowed, "{what}: {peak} bytes for {sessions} sessions, {allowed} allowed");
    }
}

/// One after the other: memory is the process's.
#[test]
fn memory_stays_within_its_bounds() {
    if anonymous().is_none() {
        return common::skip("this system does not tell how much anonymous memory is used");
    }
    scanning_takes_16_megabytes_and_the_largest_frame();
    listing_takes_64_megabytes_for_a_hundred_thousand_sessions();
}
