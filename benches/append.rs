//! Storing events: each append on disk before it returns, and appends that a later flush makes durable.

mod data;
mod limits;
mod race;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use data::Session;
use limits::{Growing, Zip};
use race::{Race, Unit, Work};
use seslog::container::{Encoding, LEVEL_DEFAULT, LEVEL_STORE};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{Durability, FileStore, StoreOptions};
use seslog::units::{Generation, UnixMs};

fn main() {
    let folder = limits::folder();
    let supply = Supply::new(&data::large());
    let mut race = Race::new("append");
    for (batch, durability, what) in [
        (1, Durability::Sync, "1_event/sync"),
        (32, Durability::Sync, "32_events/sync"),
        (32, Durability::OnFlush, "32_events/buffered"),
    ] {
        let root = folder.path().join(what.replace('/', "-"));
        fs::create_dir(&root).expect("the folder is new");
        enter(&mut race, &root, &supply, batch, durability, what);
    }
    race.run();
}

/// The rows of a session over and over, with seqs that go on: as many as a race asks for.
#[derive(Clone)]
struct Supply {
    bodies: Rc<[Vec<u8>]>,
    next: usize,
}

impl Supply {
    fn new(session: &Session) -> Self {
        // A row may cite only what stands before it, and seqs are given anew: nothing is cited.
        let bodies = session.rows.iter().map(data::body_without_citations);
        Self { bodies: bodies.collect(), next: 0 }
    }

    /// The next `count` rows, without newlines.
    fn take(&mut self, count: usize) -> Vec<Vec<u8>> {
        let rows = self.next..self.next + count;
        self.next = rows.end;
        let row = |seq: usize| {
            let body = &self.bodies[seq % self.bodies.len()];
            [format!("{{\"type\":\"hook/result\",\"seq\":{seq}").as_bytes(), body].concat()
        };
        rows.map(row).collect()
    }
}

/// Batches that are made before the clock starts, and what becomes of each.
struct Batches<F> {
    supply: Supply,
    batch: usize,
    ready: VecDeque<Vec<Vec<u8>>>,
    store: F,
}

impl<F: FnMut(&[&[u8]])> Batches<F> {
    fn new(supply: &Supply, batch: usize, store: F) -> Self {
        Self { supply: supply.clone(), batch, ready: VecDeque::new(), store }
    }
}

impl<F: FnMut(&[&[u8]])> Work for Batches<F> {
    fn prepare(&mut self, calls: u32) {
        self.ready.clear();
        self.ready.extend((0..calls).map(|_| self.supply.take(self.batch)));
    }

    fn run(&mut self) {
        let rows = self.ready.pop_front().expect("enough were made");
        (self.store)(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}

/// Rows as lines.
fn lines(rows: &[&[u8]], out: &mut Vec<u8>) {
    out.clear();
    for row in rows {
        out.extend_from_slice(row);
        out.push(b'\n');
    }
}

fn enter(
    race: &mut Race<'_>,
    root: &Path,
    supply: &Supply,
    batch: usize,
    durability: Durability,
    what: &str,
) {
    let is_sync = durability == Durability::Sync;
    let bytes: usize = supply.clone().take(supply.bodies.len()).iter().map(|row| row.len() + 1).sum();
    let unit = Unit::Bytes((bytes * batch / supply.bodies.len()) as u64);

    let kinds = Encoding::ALL.map(|encoding| (encoding.name(), encoding, LEVEL_DEFAULT));
    for (name, encoding, level) in kinds.into_iter().chain([("stored", Encoding::Indexed, LEVEL_STORE)]) {
        let mut options = StoreOptions::default();
        options.encoding = encoding;
        options.level = level;
        options.durability = durability;
        let store = FileStore::with_options(root.join(name), options);
        let id = format!("append/{name}/{what}");
        let header = Header::new(Generation::V2, Text::from("bench"), UnixMs::new(1_767_225_600_000))
            .expect("a header");
        let handle = store.create(header, None).expect("the id is new");
        handle.flush().expect("the disk takes it");
        let path = store.stat(&Text::from("bench")).expect("it is there").expect("it is there").path;
        let mut batches =
            Batches::new(supply, batch, move |rows: &[&[u8]]| handle.append(rows).expect("sound rows"));

        // What the store writes for each batch, once round the session: the limit writes the same.
        let mut ends = Vec::new();
        for _ in 0..supply.bodies.len() / batch {
            ends.push(fs::metadata(&path).expect("it is there").len() as usize);
            batches.prepare(1);
            batches.run();
        }
        let log = fs::read(&path).expect("it is there");
        let stored = batches.supply.next;
        let snapshot = store.stat(&Text::from("bench")).expect("it is there").expect("it is there");
        assert_eq!(snapshot.event_count, Some(stored as u64), "{name}: the rows are there");
        ends.push(log.len());
        let pieces: Vec<Vec<u8>> = ends.windows(2).map(|ends| log[ends[0]..ends[1]].to_vec()).collect();
        race.add(&id, unit, batches);

        let limit = format!("limit/{name}/{what}/write{}", if is_sync { "_and_fdatasync" } else { "" });
        let mut file = Growing::create(&root.join(format!("{name}-limit")));
        let mut at = 0;
        race.add(&limit, unit, move || {
            file.append(&pieces[at % pieces.len()], is_sync);
            at += 1;
        });
        race.compare(&id, limit);
    }

    let rival = format!("rival/{what}/jsonl");
    let (mut file, mut text) = (Growing::create(&root.join("jsonl")), Vec::new());
    let jsonl = move |rows: &[&[u8]]| {
        lines(rows, &mut text);
        file.append(&text, is_sync);
    };
    race.add(&rival, unit, Batches::new(supply, batch, jsonl));
    race.compare(format!("append/plain/{what}"), &rival);
    race.compare(format!("append/stored/{what}"), rival);

    let rival = format!("rival/{what}/jsonl_and_a_zstd_frame");
    let (mut file, mut text, mut zip) = (Growing::create(&root.join("jsonl-zstd")), Vec::new(), Zip::new());
    let jsonl_zstd = move |rows: &[&[u8]]| {
        lines(rows, &mut text);
        file.append(zip.frame(&text), is_sync);
    };
    race.add(&rival, unit, Batches::new(supply, batch, jsonl_zstd));
    race.compare(format!("append/indexed/{what}"), &rival);
    race.compare(format!("append/zstd/{what}"), &rival);

    let limit = format!("limit/{what}/zstd_compress");
    let (mut text, mut zip) = (Vec::new(), Zip::new());
    let compress = move |rows: &[&[u8]]| {
        lines(rows, &mut text);
        assert!(!zip.frame(&text).is_empty());
    };
    race.add(&limit, unit, Batches::new(supply, batch, compress));
    race.compare(format!("append/indexed/{what}"), limit);
}
