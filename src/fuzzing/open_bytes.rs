//! Target `open_bytes`: a file of any bytes, opened, judged, salvaged, repaired and appended to.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::container::Encoding;
use crate::container::disk::Disk;
use crate::container::disk::fault::FaultDisk;
use crate::json::Text;
use crate::limits::Limits;
use crate::store::history::{PageLimits, PageRequest, PageStart};
use crate::store::{
    FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, Snapshot, StoreOptions, Verdict, recover,
    salvage, scan,
};

/// The first byte chooses the name under which the others stand.
///
/// # Panics
/// If a log that may be appended to loses a row by it, a refusal changes a byte, or a verdict changes by looking.
pub fn fuzz_open_bytes(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let names = [
        "session.v2.jsonl.zst",
        "session.v2.jsonl.zstd",
        "session.v2.jsonl",
        "session.jsonl.zstd",
        "session.jsonl",
    ];
    let name = names.iter().copied().cycle().nth(usize::from(choice)).unwrap_or_default();
    let disk = FaultDisk::new();
    let folder = Path::new("/root/_no-cwd/s");
    disk.plant_dir(folder);
    let path = folder.join(name);
    disk.plant(&path, bytes);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let limits = Limits { frame_content_bytes_max: 8 << 20, window_bytes_max: 8 << 20, ..Limits::DEFAULT };
    let open = || LogFile::open(&disk, &path, limits, ReadMode::Read).expect("the file is there");

    let snapshot = Snapshot::of_log(&disk, &path, limits).expect("no input errors");
    assert!(snapshot.size_bytes == Some(bytes.len() as u64));
    let before = rows_of(&open());
    let lenient =
        scan(&open(), ScanOptions::LENIENT, &mut |_| Ok(ControlFlow::Continue(()))).expect("no input errors");
    let strict =
        scan(&open(), ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).expect("no input errors");
    assert_eq!(lenient.verdict == Verdict::Sound, strict.verdict == Verdict::Sound, "{lenient:?} {strict:?}");
    let saved = salvage(&open(), Path::new("/saved.jsonl")).expect("no input errors");
    assert!(saved.events >= strict.events, "a salvage saves at least as many events as a strict read serves");
    pages_tile(&open());
    append_keeps_every_row(&disk, limits, &before);
    let _ = recover(&disk, &path, limits);
}

fn rows_of(log: &LogFile) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    scan(log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, .. } = item {
            rows.push(row.line().as_bytes().to_vec());
        }
        Ok(ControlFlow::Continue(()))
    })
    .expect("no input errors");
    rows
}

/// Pages from both ends hold the same events, where the log is one, and so do pages from its start on.
fn pages_tile(log: &LogFile) {
    let whole = log.page(&PageRequest::first(PageLimits::UNBOUNDED));
    let Ok(whole) = whole.map(|page| (page.next_seq(), page)) else {
        let _ = log.page(&PageRequest::last(PageLimits::default()));
        return;
    };
    let (events, whole) = whole;
    let limits = PageLimits::UNBOUNDED.with_events((events / 8).max(1));
    let (mut from, mut rows) = (PageStart::Seq(0), Vec::new());
    let is_whole = loop {
        match log.page(&PageRequest::forward(from, limits)) {
            Ok(page) => {
                rows.extend_from_slice(page.events.as_bytes());
                if !page.has_more() {
                    break true;
                }
                from = PageStart::Cursor(page.after);
            }
            Err(error) => {
                assert!(whole.has_more(), "a log that is read to its end is paged up to there: {error:?}");
                break false;
            }
        }
    };
    assert!(
        !is_whole || whole.has_more() || rows == whole.events.as_bytes(),
        "pages from the start are the log"
    );
    let mut place = PageStart::End;
    let mut parts = Vec::new();
    loop {
        let page = match log.page(&PageRequest::backward(place, limits)) {
            Ok(page) => page,
            Err(error) => {
                assert!(whole.has_more(), "a log that is read to its end is paged from there: {error:?}");
                return;
            }
        };
        parts.push(page.events.as_bytes().to_vec());
        match page.before {
            Some(before) if page.has_more() => place = PageStart::Cursor(before),
            _ => break,
        }
    }
    if !whole.has_more() {
        parts.reverse();
        assert!(parts.concat() == whole.events.as_bytes(), "pages from the end are the log");
    }
}

fn append_keeps_every_row(disk: &Arc<dyn Disk>, limits: Limits, before: &[Vec<u8>]) {
    let options = StoreOptions { encoding: Encoding::Indexed, limits, ..StoreOptions::default() };
    let store = FileStore::on_disk(Arc::clone(disk), "/root", options);
    let Ok(handle) = store.open(&Text::from("s"), SessionAccess::Write) else { return };
    let next = handle.next_seq().expect("it writes");
    let row = format!("{{\"type\":\"turn/start\",\"seq\":{next},\"time\":1,\"data\":{{\"turn\":1}}}}");
    // A log of 2^53 events takes no more.
    if handle.append(&[row.as_bytes()]).is_err() {
        return;
    }
    handle.close().expect("no input errors");
    let log = store.folder_of(&Text::from("s")).expect("it is still there");
    let current = log.current().expect("one log").expect("one log");
    let log = LogFile::open(disk, &log.path.join(&current.name), limits, ReadMode::Read)
        .expect("it is still there");
    let after = rows_of(&log);
    let (last, kept) = after.split_last().expect("a row was appended");
    assert_eq!(kept, before, "an append keeps every row that was served");
    assert_eq!(last, row.as_bytes());
}
