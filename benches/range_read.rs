//! A few events of a long log: 50 in the middle, and the last 50.

mod data;
mod limits;
mod race;

use std::fs;
use std::ops::Range;

use limits::{Unzip, frames};
use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::store::{FileStore, SessionAccess};

const EVENTS: u64 = 50;

fn main() {
    let folder = limits::folder();
    let session = data::large();
    let count = session.rows.len() as u64;
    let mut race = Race::new("range_read");
    for encoding in Encoding::ALL {
        let root = folder.path().join(encoding.name());
        let path = data::write_session(&root, encoding, &session, 32);
        let stored = fs::read(&path).expect("it is there");
        let store = FileStore::new(&root);
        let reader = store.open(session.id(), SessionAccess::Read).expect("it opens");
        for (name, from) in [("middle", count / 2 - 7), ("last", count - EVENTS)] {
            let expected: Vec<&[u8]> =
                (from..from + EVENTS).map(|seq| session.rows.get(seq as usize)).collect();
            let bytes: usize = expected.iter().map(|row| row.len() + 1).sum();
            let unit = Unit::Bytes(bytes as u64);
            let id = |what: &str| format!("range_read/{encoding}/{count}_events/{name}_50_{what}");

            let again = std::sync::Arc::clone(&reader);
            let found = again.read(from, EVENTS).expect("it can be read");
            assert!(found.rows().eq(expected.iter().copied()), "{encoding} {name}: the rows come back");
            race.add(id("again"), unit, move || {
                assert_eq!(again.read(from, EVENTS).expect("it can be read").len(), 50);
            });
            let (store, session) = (store.clone(), session.id().clone());
            race.add(id("open_and_read"), unit, move || {
                let reader = store.open(&session, SessionAccess::Read).expect("it opens");
                assert_eq!(reader.read(from, EVENTS).expect("it can be read").len(), 50);
            });

            let limit = format!("limit/{encoding}/{name}");
            if encoding == Encoding::Plain {
                let at = stored
                    .windows(expected[0].len())
                    .position(|piece| piece == expected[0])
                    .expect("it is there");
                let path = path.clone();
                race.add(&limit, unit, move || {
                    limits::open_and_two_reads(&path);
                    let file = fs::File::open(&path).expect("it is there");
                    let mut rows = vec![0; bytes];
                    std::os::unix::fs::FileExt::read_exact_at(&file, &mut rows, at as u64)
                        .expect("it can be read");
                    assert_eq!(limits::newlines(&rows), 50);
                });
            } else {
                let (needed, path) = (frames_with(&stored, expected[0], expected[49]), path.clone());
                let mut unzip = Unzip::new();
                let stored = stored.clone();
                race.add(&limit, unit, move || {
                    limits::open_and_two_reads(&path);
                    assert!(unzip.frames(&stored, &needed) >= bytes);
                });
            }
            race.compare(id("again"), &limit);
            race.compare(id("open_and_read"), &limit);
        }
    }
    race.run();
}

/// The frames from the one that holds row `first` to the one that holds row `last`.
fn frames_with(log: &[u8], first: &[u8], last: &[u8]) -> Vec<Range<usize>> {
    let all = frames(log);
    let mut unzip = Unzip::new();
    let mut holds = |row: &[u8]| {
        all.iter().position(|frame| {
            unzip.frames(log, std::slice::from_ref(frame));
            unzip.content().split(|&byte| byte == b'\n').any(|line| line == row)
        })
    };
    let (start, end) = (holds(first).expect("it is there"), holds(last).expect("it is there"));
    all[start..=end].to_vec()
}
