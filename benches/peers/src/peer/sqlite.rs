//! SQLite in WAL mode: one table of sessions, one of events clustered by session and seq, read through its memory map.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::record::{Head, key, seq_of};
use super::{Each, Listed, Peer, Reader, Row, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session};

#[derive(Debug)]
pub struct Sqlite {
    /// `FULL`: each commit is synced. `NORMAL`: only checkpoints are.
    pub synchronous: &'static str,
}

const SCHEMA: &str = "
    CREATE TABLE session(
        n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, cwd TEXT NOT NULL, created_at INTEGER NOT NULL,
        header TEXT NOT NULL, events INTEGER NOT NULL, bytes INTEGER NOT NULL, last_time INTEGER NOT NULL);
    CREATE TABLE event(
        at INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL);";

/// The most that this SQLite maps.
const MAP: i64 = 2_147_418_112;

fn open(folder: &Path) -> Result<Connection> {
    let db = Connection::open_with_flags(folder.join("log.sqlite"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.pragma_update(None, "mmap_size", MAP)?;
    Ok(db)
}

fn number(db: &Connection, id: &str) -> Result<(u64, u64)> {
    let mut found = db.prepare("SELECT n, events FROM session WHERE id = ?")?;
    Ok(found.query_row([id], |row| Ok((row.get::<_, u64>(0)?, row.get(1)?)))?)
}

/// Visits the rows in `[from, to)` by key.
fn visit(db: &Connection, from: u64, to: u64, each: Each<'_>) -> Result<()> {
    let mut found =
        db.prepare_cached("SELECT at, time, kind, payload FROM event WHERE at >= ? AND at < ? ORDER BY at")?;
    let mut rows = found.query(params![from, to])?;
    while let Some(row) = rows.next()? {
        let (kind, payload) = (row.get_ref(2)?.as_bytes()?, row.get_ref(3)?.as_bytes()?);
        each(&Row { seq: seq_of(row.get(0)?), time: row.get(1)?, kind, payload });
    }
    Ok(())
}

impl Peer for Sqlite {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        let db = Connection::open(folder.join("log.sqlite"))?;
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("the journal mode is {mode}").into());
        }
        let synchronous = if sync == Sync::Batch { self.synchronous } else { "OFF" };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.execute_batch(SCHEMA)?;
        Ok(Box::new(SqliteWriter { db, head: Head::default(), n: 0 }))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let db = open(folder)?;
        let mut all = db.prepare("SELECT id, cwd, created_at, last_time, events, bytes FROM session")?;
        let listed = all.query_map([], |row| {
            Ok(Listed {
                id: row.get(0)?,
                cwd: row.get(1)?,
                created_at: row.get(2)?,
                last_time: row.get(3)?,
                events: row.get(4)?,
                stored: row.get(5)?,
            })
        })?;
        Ok(listed.collect::<rusqlite::Result<_>>()?)
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let db = open(folder)?;
        let (n, _) = number(&db, id)?;
        visit(&db, key(n, 0), key(n + 1, 0), each)
    }

    /// Rows are copied into one arena: SQLite's own memory holds one row at a time.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let db = open(folder)?;
        let (n, _) = number(&db, id)?;
        let (mut arena, mut rows) = (Vec::new(), Vec::new());
        visit(&db, key(n, 0), key(n + 1, 0), &mut |row| {
            let start = arena.len();
            arena.extend_from_slice(row.kind);
            arena.extend_from_slice(row.payload);
            rows.push((row.seq, row.time, start, start + row.kind.len(), arena.len()));
        })?;
        for (seq, time, start, middle, end) in rows {
            each(&Row { seq, time, kind: &arena[start..middle], payload: &arena[middle..end] });
        }
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        let db = open(folder)?;
        let (n, events) = number(&db, id)?;
        Ok(Box::new(SqliteReader { db, n, events }))
    }
}

struct SqliteWriter {
    db: Connection,
    head: Head,
    n: u64,
}

impl Writer for SqliteWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        self.n += 1;
        self.head = Head::of(session);
        let head = &self.head;
        let mut insert = self.db.prepare_cached("INSERT INTO session VALUES (?, ?, ?, ?, ?, 0, 0, 0)")?;
        insert.execute(params![self.n, head.id, head.cwd, head.created_at, session.line])?;
        Ok(())
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        self.head.add(events);
        let batch = self.db.transaction()?;
        {
            let mut insert = batch.prepare_cached("INSERT INTO event VALUES (?, ?, ?, ?)")?;
            for event in events {
                insert.execute(params![key(self.n, event.seq), event.time, event.kind, event.payload])?;
            }
            let mut update = batch
                .prepare_cached("UPDATE session SET events = ?, bytes = ?, last_time = ? WHERE n = ?")?;
            update.execute(params![self.head.events, self.head.bytes, self.head.last_time, self.n])?;
        }
        Ok(batch.commit()?)
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.db.pragma_update(None, "synchronous", "FULL")?;
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

struct SqliteReader {
    db: Connection,
    n: u64,
    events: u64,
}

impl Reader for SqliteReader {
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        self.range(self.events - count, count, each)
    }

    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        let from = key(self.n, seq);
        visit(&self.db, from, from + count, each)
    }
}
