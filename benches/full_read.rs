//! Reading whole logs: rows visited and dropped, and all events alive.

mod data;
mod limits;
mod race;

use std::fs;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use data::Session;
use limits::{Unzip, frames, newlines};
use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::row::Check;
use seslog::store::{FileStore, Item, LogFile, ReadMode, ScanOptions, SessionAccess, scan};

fn main() {
    let folder = limits::folder();
    let sets = [("large", data::large()), ("tiny", data::tiny())];
    let mut race = Race::new("full_read");
    for (set, session) in &sets {
        for encoding in Encoding::ALL {
            enter(&mut race, &folder.path().join(set).join(encoding.name()), encoding, set, session);
        }
        let text = &session.rows.text;
        race.add(format!("limit/{set}/newlines"), Unit::Bytes(text.len() as u64), || {
            assert_eq!(newlines(black_box(text)), session.rows.len());
        });
    }
    race.run();
}

fn enter<'a>(race: &mut Race<'a>, root: &Path, encoding: Encoding, set: &str, session: &'a Session) {
    let path = data::write_session(root, encoding, session, 32);
    let (rows, unit) = (session.rows.len() as u64, Unit::Bytes(session.rows.text.len() as u64));
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let id = |what: &str| format!("full_read/{encoding}/{set}_{rows}_events/{what}");

    for (mode, name) in [(ReadMode::Map, "scan_map"), (ReadMode::Read, "scan_pread")] {
        let (disk, path) = (Arc::clone(&disk), path.clone());
        let scan_with = move |visit: &mut dyn FnMut(&[u8])| {
            let log = LogFile::open(&disk, &path, Limits::DEFAULT, mode).expect("it opens");
            let mut options = ScanOptions::STRICT;
            options.check = Check::Envelope;
            let report = scan(&log, options, &mut |item| {
                if let Item::Row { row, .. } = item {
                    visit(row.line().as_bytes());
                }
                Ok(ControlFlow::Continue(()))
            });
            report.expect("it can be read").events
        };
        let mut text = Vec::new();
        scan_with(&mut |line| {
            text.extend_from_slice(line);
            text.push(b'\n');
        });
        assert!(text == session.rows.text, "{encoding}: the rows come back");
        race.add(id(name), unit, move || {
            let mut bytes = 0;
            assert_eq!(scan_with(&mut |line| bytes += line.len()), rows);
            black_box(bytes);
        });
    }

    let store = FileStore::new(root);
    let load = move || {
        let handle = store.open(session.id(), SessionAccess::Read).expect("it opens");
        handle.read(0, u64::MAX).expect("it can be read")
    };
    assert!(load().as_bytes() == session.rows.text, "{encoding}: the events come back");
    race.add(id("load"), unit, move || assert_eq!(load().len() as u64, rows));

    let limit = format!("limit/{encoding}/{set}");
    let stored = fs::read(&path).expect("it is there");
    if encoding == Encoding::Plain {
        let path = path.clone();
        let mut buffer = vec![0; 256 << 10];
        race.add(format!("{limit}/read_and_find_newlines"), unit, move || {
            let mut file = fs::File::open(&path).expect("it is there");
            let mut found = 0;
            loop {
                let got = std::io::Read::read(&mut file, &mut buffer).expect("it can be read");
                found += newlines(&buffer[..got]);
                if got == 0 {
                    break;
                }
            }
            assert_eq!(found as u64, rows + 1);
        });
        for what in ["scan_map", "scan_pread", "load"] {
            race.compare(id(what), format!("{limit}/read_and_find_newlines"));
        }
        return;
    }
    let frames = frames(&stored);
    println!(
        "{set} as {encoding}: {} events, {} bytes of rows, {} bytes stored ({:.3}), {} frames",
        rows,
        session.rows.text.len(),
        stored.len(),
        stored.len() as f64 / session.rows.text.len() as f64,
        frames.len()
    );
    let mut unzip = Unzip::new();
    race.add(format!("{limit}/zstd_decompress"), unit, move || {
        assert!(unzip.frames(&stored, &frames) > 0);
    });
    for what in ["scan_map", "scan_pread", "load"] {
        race.compare(id(what), format!("{limit}/zstd_decompress"));
    }
}
