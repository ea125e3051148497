//! fjall: keyspaces of events by session and seq, of sessions, and of ids, written in one batch.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::record::{self, Head, key};
use super::{Each, Listed, Peer, Reader, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session};

#[derive(Debug)]
pub struct Fjall;

struct Opened {
    db: Database,
    events: Keyspace,
    sessions: Keyspace,
    ids: Keyspace,
}

fn open(folder: &Path) -> Result<Opened> {
    let db = Database::builder(folder.join("log")).open()?;
    let keyspace = |name| db.keyspace(name, KeyspaceCreateOptions::default);
    let (events, sessions, ids) = (keyspace("event")?, keyspace("session")?, keyspace("id")?);
    Ok(Opened { db, events, sessions, ids })
}

impl Opened {
    fn session(&self, id: &str) -> Result<(u64, u64)> {
        let n = self.ids.get(id)?.ok_or("no such session")?;
        let head = self.sessions.get(&n)?.ok_or("no such session")?;
        Ok((u64::from_be_bytes((&*n).try_into()?), Head::listed(&head)?.events))
    }

    fn visit(&self, from: u64, to: u64, each: Each<'_>) -> Result<()> {
        for entry in self.events.range(from.to_be_bytes()..to.to_be_bytes()) {
            let (at, value) = entry.into_inner()?;
            let at = u64::from_be_bytes((&*at).try_into()?);
            each(&record::read(at, &value).ok_or("a cut record")?);
        }
        Ok(())
    }
}

impl Peer for Fjall {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        Ok(Box::new(FjallWriter {
            opened: open(folder)?,
            sync,
            head: Head::default(),
            n: 0,
            value: Vec::new(),
        }))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let opened = open(folder)?;
        let listed = opened.sessions.iter().map(|entry| Head::listed(&entry.value()?));
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let opened = open(folder)?;
        let (n, _) = opened.session(id)?;
        opened.visit(key(n, 0), key(n + 1, 0), each)
    }

    /// Keeps the slices that fjall hands out.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let opened = open(folder)?;
        let (n, _) = opened.session(id)?;
        let mut rows = Vec::new();
        for entry in opened.events.range(key(n, 0).to_be_bytes()..key(n + 1, 0).to_be_bytes()) {
            rows.push(entry.into_inner()?);
        }
        for (at, value) in &rows {
            let at = u64::from_be_bytes((&**at).try_into()?);
            each(&record::read(at, value).ok_or("a cut record")?);
        }
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        let opened = open(folder)?;
        let (n, events) = opened.session(id)?;
        Ok(Box::new(FjallReader { opened, n, events }))
    }
}

struct FjallWriter {
    opened: Opened,
    sync: Sync,
    head: Head,
    n: u64,
    value: Vec<u8>,
}

impl FjallWriter {
    fn store(&mut self, events: &[Event<'_>]) -> Result<()> {
        let mode = (self.sync == Sync::Batch).then_some(PersistMode::SyncData);
        let mut batch = self.opened.db.batch().durability(mode);
        for event in events {
            record::write(event, &mut self.value);
            batch.insert(&self.opened.events, key(self.n, event.seq).to_be_bytes(), self.value.as_slice());
        }
        batch.insert(&self.opened.sessions, self.n.to_be_bytes(), self.head.to_bytes());
        if events.is_empty() {
            batch.insert(&self.opened.ids, self.head.id.as_str(), self.n.to_be_bytes());
        }
        Ok(batch.commit()?)
    }
}

impl Writer for FjallWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        self.n += 1;
        self.head = Head::of(session);
        self.store(&[])
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        self.head.add(events);
        self.store(events)
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.opened.db.persist(PersistMode::SyncAll)?)
    }
}

struct FjallReader {
    opened: Opened,
    n: u64,
    events: u64,
}

impl Reader for FjallReader {
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        self.range(self.events - count, count, each)
    }

    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        self.opened.visit(key(self.n, seq), key(self.n, seq + count), each)
    }
}
