//! Live sessions in SQLite; see `benches/live/mod.rs`.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, params};

use crate::live::{Contender, WINDOW};

/// All sessions in one database with a write-ahead log that is synced at each commit. What may wait is inserted by a thread, in
/// one transaction a window.
pub(crate) struct Sqlite {
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
    pub(crate) fn new(folder: &Path) -> Self {
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
