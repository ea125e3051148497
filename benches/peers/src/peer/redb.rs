//! redb: a table of events by session and seq, one of sessions, and one of ids.

use std::path::Path;

use redb::{
    Database, Durability, ReadOnlyDatabase, ReadOnlyTable, ReadableDatabase as _, ReadableTable as _,
    TableDefinition,
};

use super::record::{self, Head, key};
use super::{Each, Listed, Peer, Reader, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session};

#[derive(Debug)]
pub struct Redb;

const EVENTS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("event");
const SESSIONS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("session");
const IDS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("id");

/// An open session: the table of all events, and which of them are its own.
struct Opened {
    events: ReadOnlyTable<u64, &'static [u8]>,
    n: u64,
    count: u64,
}

fn open(folder: &Path, id: &str) -> Result<Opened> {
    let db = ReadOnlyDatabase::open(folder.join("log.redb"))?;
    let read = db.begin_read()?;
    let n = read.open_table(IDS)?.get(id)?.ok_or("no such session")?.value();
    let head = read.open_table(SESSIONS)?.get(n)?.ok_or("no such session")?;
    let count = Head::listed(head.value())?.events;
    Ok(Opened { events: read.open_table(EVENTS)?, n, count })
}

impl Opened {
    fn visit(&self, from: u64, to: u64, each: Each<'_>) -> Result<()> {
        for entry in self.events.range(key(self.n, from)..key(self.n, to))? {
            let (at, value) = entry?;
            each(&record::read(at.value(), value.value()).ok_or("a cut record")?);
        }
        Ok(())
    }
}

impl Peer for Redb {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        let db = Database::create(folder.join("log.redb"))?;
        Ok(Box::new(RedbWriter { db, sync, head: Head::default(), n: 0, value: Vec::new() }))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let db = ReadOnlyDatabase::open(folder.join("log.redb"))?;
        let sessions = db.begin_read()?.open_table(SESSIONS)?;
        let listed = sessions.iter()?.map(|entry| Head::listed(entry?.1.value()));
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let opened = open(folder, id)?;
        opened.visit(0, opened.count, each)
    }

    /// Keeps what redb hands out: guards over pages of its cache.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let opened = open(folder, id)?;
        let mut rows = Vec::new();
        for entry in opened.events.range(key(opened.n, 0)..key(opened.n, opened.count))? {
            rows.push(entry?);
        }
        for (at, value) in &rows {
            each(&record::read(at.value(), value.value()).ok_or("a cut record")?);
        }
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        Ok(Box::new(open(folder, id)?))
    }
}

struct RedbWriter {
    db: Database,
    sync: Sync,
    head: Head,
    n: u64,
    value: Vec<u8>,
}

impl RedbWriter {
    fn store(&mut self, events: &[Event<'_>], durability: Durability) -> Result<()> {
        let mut batch = self.db.begin_write()?;
        batch.set_durability(durability)?;
        {
            let mut table = batch.open_table(EVENTS)?;
            for event in events {
                record::write(event, &mut self.value);
                table.insert(key(self.n, event.seq), self.value.as_slice())?;
            }
            batch.open_table(SESSIONS)?.insert(self.n, self.head.to_bytes().as_slice())?;
            if events.is_empty() {
                batch.open_table(IDS)?.insert(self.head.id.as_str(), self.n)?;
            }
        }
        Ok(batch.commit()?)
    }

    fn durability(&self) -> Durability {
        if self.sync == Sync::Batch { Durability::Immediate } else { Durability::None }
    }
}

impl Writer for RedbWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        self.n += 1;
        self.head = Head::of(session);
        self.store(&[], self.durability())
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        self.head.add(events);
        self.store(events, self.durability())
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.store(&[], Durability::Immediate)
    }
}

impl Reader for Opened {
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        self.visit(self.count - count, self.count, each)
    }

    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        self.visit(seq, seq + count, each)
    }
}
