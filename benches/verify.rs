//! Checking whole logs: every byte against its checksums, every row against the grammar and the rules of its log.

mod data;
mod limits;
mod race;

use std::fs;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use limits::{Unzip, frames};
use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::store::{LogFile, ReadMode, ScanOptions, Verdict, scan};

fn main() {
    let folder = limits::folder();
    let session = data::large();
    let unit = Unit::Bytes(session.rows.text.len() as u64);
    let rows = session.rows.len() as u64;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let mut race = Race::new("verify");
    for encoding in Encoding::ALL {
        let path = data::write_session(&folder.path().join(encoding.name()), encoding, &session, 32);
        let stored = fs::read(&path).expect("it is there");
        let id = format!("verify/{encoding}/{rows}_events/warm");
        let disk = Arc::clone(&disk);
        race.add(&id, unit, move || {
            let log = LogFile::open(&disk, &path, Limits::DEFAULT, ReadMode::default()).expect("it opens");
            let report = scan(&log, ScanOptions::LENIENT, &mut |_| Ok(ControlFlow::Continue(())))
                .expect("it can be read");
            assert_eq!((report.verdict, report.events), (Verdict::Sound, rows));
        });
        race.compare(&id, "limit/json_check");
        if encoding == Encoding::Plain {
            continue;
        }
        let limit = format!("limit/{encoding}/zstd_decompress_and_json_check");
        let frames = frames(&stored);
        let mut unzip = Unzip::new();
        race.add(&limit, unit, move || {
            for frame in &frames {
                unzip.frames(&stored, std::slice::from_ref(frame));
                check_lines(unzip.content());
            }
        });
        race.compare(&id, limit);
    }
    race.add("limit/json_check", unit, || check_lines(&session.rows.text));
    race.add("rival/serde_json_raw_value", unit, || {
        for row in session.rows.iter() {
            black_box(serde_json::from_slice::<&serde_json::value::RawValue>(row).expect("it is JSON"));
        }
    });
    race.add("limit/crc32", unit, || {
        black_box(crc32fast::hash(&session.rows.text));
    });
    race.compare("limit/json_check", "rival/serde_json_raw_value");
    race.run();
}

/// The grammar of each line and nothing else.
fn check_lines(text: &[u8]) {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        seslog::json::check(&text[start..end], Limits::DEFAULT.nesting_max).expect("it is JSON");
        start = end + 1;
    }
}
