//! A clock that goes backwards: no order, no check and no name depends on it.

use std::fs::{File, FileTimes};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::store::{FileStore, SessionAccess};

use crate::common::sessions::{append, header, options, read_all, rows_by};
use crate::program::{Root, seslog};

#[test]
fn the_clock_of_the_disk_goes_backwards_between_any_two_appends() {
    for encoding in Encoding::ALL {
        let disk = FaultDisk::new();
        let store = FileStore::on_disk(Arc::new(disk.clone()), "/store", options(encoding));
        let reader_of = || store.open(&"s".into(), SessionAccess::Read).unwrap();
        let handle = store.create(header("s"), None).unwrap();
        let mut revisions = Vec::new();
        for seq in 0..20_u64 {
            // Back by a minute each time, before the epoch in the end.
            disk.set_clock_ns(600_000_000_000 - i128::from(seq) * 60_000_000_000);
            append(&handle, &rows_by("clock", seq..seq + 1)).unwrap();
            let stat = store.stat(&"s".into()).unwrap().unwrap();
            assert_eq!(stat.event_count, Some(seq + 1), "{encoding}");
            assert!(!revisions.contains(&stat.revision), "{encoding}: a change that no revision tells");
            revisions.push(stat.revision);
            assert_eq!(read_all(&reader_of()).unwrap().len() as u64, seq + 1, "{encoding}");
        }
        handle.close().unwrap();
        let handle = store.open(&"s".into(), SessionAccess::Write).unwrap();
        append(&handle, &rows_by("clock", 20..21)).unwrap();
        handle.close().unwrap();
        assert_eq!(read_all(&reader_of()).unwrap(), rows_by("clock", 0..21), "{encoding}");
    }
}

#[test]
fn a_log_from_the_future_is_appended_to_and_listed() {
    for encoding in ["indexed", "zstd", "plain"] {
        let root = Root::new();
        let path = root.session("s", encoding, 0);
        let far = "{\"type\":\"plan/mode\",\"time\":4102444800000,\"data\":{\"active\":true}}\n";
        root.run_with(&["append", "s"], far.as_bytes()).expect(0);
        let future = SystemTime::now() + Duration::from_secs(3_000_000);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(future))
            .unwrap();
        // Without a time it gets the present one, which is before the last.
        root.run_with(&["append", "s"], b"{\"type\":\"plan/mode\",\"data\":{\"active\":true}}\n").expect(0);
        let times: Vec<i64> = root
            .events("s")
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].as_i64().unwrap())
            .collect();
        assert!(times[0] == 4_102_444_800_000 && times[1] < times[0], "{encoding}: {times:?}");
        seslog(&["verify", path.to_str().unwrap()], b"").expect(0);
        assert_eq!(root.run(&["ls", "--json"]).expect(0).object()["eventCount"], 2, "{encoding}");
    }
}
