//! Live sessions in seslog and in SQLite, the same work in turns; see `benches/live/mod.rs`.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin live [ROUNDS]`, with `SESLOG_LIVE_SECONDS` for each
//! contender in each round.

#[path = "../../../live/mod.rs"]
mod live;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use live::ours::Ours;
use live::{Contender, Load, Outcome, WINDOW, run};
use rusqlite::{Connection, params};
use seslog::store::BehindOptions;

fn main() {
    let rounds = std::env::args().nth(1).map_or(3, |text| text.parse().expect("a number of rounds"));
    let load = Load::full();
    println!(
        "{} sessions, {} events a second each, for {:.1} s a round; beside them {} explicit appenders; SQLite {}",
        load.sessions,
        load.rate,
        load.time.as_secs_f64(),
        load.probes,
        rusqlite::version()
    );
    // On the disk of the build, not in memory.
    let target = std::env::current_exe().expect("it runs").parent().expect("a folder").to_path_buf();
    let folder = tempfile::tempdir_in(target).expect("the build folder can be written");
    let mut outcomes: [Vec<Outcome>; 2] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            let at = (round + turn) % 2;
            let folder = folder.path().join(format!("{round}-{at}"));
            let outcome = if at == 0 {
                run(&Ours::new(&folder, load, BehindOptions::default()), load)
            } else {
                run(&Sqlite::new(&folder, load), load)
            };
            println!("{outcome}");
            outcomes[at].push(outcome);
        }
    }
    println!("seslog against SQLite, by round; below 1 seslog takes less");
    for (what, pick) in [
        ("p50 of an explicit append", (|one| one.append_ms(500)) as fn(&Outcome) -> f64),
        ("p99 of an explicit append", |one| one.append_ms(990)),
        ("longest call of a producer", |one| one.route_max),
        ("cores", |one| one.cores),
    ] {
        let ratios = outcomes[0].iter().zip(&outcomes[1]).map(|(ours, theirs)| pick(ours) / pick(theirs));
        let ratios: Vec<String> = ratios.map(|ratio| format!("{ratio:.2}")).collect();
        println!("  {what:<28} {}", ratios.join("  "));
    }
}

/// All sessions in one database with a write-ahead log that is synced at each commit. What may wait is inserted by a thread, in
/// one transaction a window.
struct Sqlite {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    path: std::path::PathBuf,
}

struct Shared {
    database: Mutex<Connection>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    events: Vec<(usize, u64, Vec<u8>)>,
    done: bool,
}

const INSERT: &str = "INSERT INTO events (session, seq, row) VALUES (?1, ?2, ?3)";

impl Sqlite {
    fn new(folder: &Path, _load: Load) -> Self {
        std::fs::create_dir_all(folder).expect("the folder can be written");
        let path = folder.join("sessions.sqlite");
        let database = Connection::open(&path).expect("a new database");
        database
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                 CREATE TABLE events (session INTEGER, seq INTEGER, row BLOB, PRIMARY KEY (session, seq)) WITHOUT ROWID;",
            )
            .expect("it is new");
        let (database, queue) = (Mutex::new(database), Mutex::default());
        let shared = Arc::new(Shared { database, queue, changed: Condvar::new() });
        let writing = Arc::clone(&shared);
        let writer = thread::spawn(move || writing.write());
        Self { shared, writer: Mutex::new(Some(writer)), path }
    }
}

impl Shared {
    /// Inserts what waits, a window after the first of it came.
    fn write(&self) {
        loop {
            let mut queue = self.queue.lock().expect("nobody panicked");
            while queue.events.is_empty() && !queue.done {
                queue = self.changed.wait(queue).expect("nobody panicked");
            }
            if queue.events.is_empty() {
                return;
            }
            if !queue.done {
                let wait = self.changed.wait_timeout_while(queue, WINDOW, |queue| !queue.done);
                queue = wait.expect("nobody panicked").0;
            }
            let events = std::mem::take(&mut queue.events);
            drop(queue);
            self.insert(events.iter().map(|(session, seq, row)| (*session, *seq, row.as_slice())));
        }
    }

    fn insert<'a>(&self, events: impl Iterator<Item = (usize, u64, &'a [u8])>) {
        let mut database = self.database.lock().expect("nobody panicked");
        let transaction = database.transaction().expect("nobody else writes");
        {
            let mut insert = transaction.prepare_cached(INSERT).expect("it is SQL");
            for (session, seq, row) in events {
                insert.execute(params![session as i64, seq as i64, row]).expect("the disk takes it");
            }
        }
        transaction.commit().expect("the disk takes it");
    }
}

impl Contender for Sqlite {
    fn name(&self) -> String {
        "SQLite, write-ahead log, synchronous=FULL".to_owned()
    }

    fn route(&self, session: usize, seq: u64, row: &[u8]) {
        let mut queue = self.shared.queue.lock().expect("nobody panicked");
        queue.events.push((session, seq, row.to_vec()));
        if queue.events.len() == 1 {
            self.shared.changed.notify_one();
        }
    }

    fn append(&self, session: usize, seq: u64, row: &[u8]) {
        self.shared.insert(std::iter::once((session, seq, row)));
    }

    fn finish(&self) {
        self.shared.queue.lock().expect("nobody panicked").done = true;
        self.shared.changed.notify_one();
        let writer = self.writer.lock().expect("nobody panicked").take();
        writer.expect("finished once").join().expect("it did not panic");
    }

    fn read(&self, session: usize) -> Vec<Vec<u8>> {
        let database = Connection::open(&self.path).expect("it is there");
        let mut select = database
            .prepare("SELECT seq, row FROM events WHERE session = ?1 ORDER BY seq")
            .expect("it is SQL");
        let rows = select
            .query_map(params![session as i64], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))
            .expect("it can be read");
        let rows = rows.map(|row| row.expect("it can be read")).enumerate();
        rows.map(|(at, (seq, row))| {
            assert_eq!(seq, at as i64, "no gap");
            row
        })
        .collect()
    }
}
