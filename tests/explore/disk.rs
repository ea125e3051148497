//! A store in memory whose every call may be interrupted, and which knows what is durable and who owns what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Event, Header};
use seslog::store::{Cancel, Events, SessionAccess, SessionHandle, SessionPersistence, Snapshot};
use seslog::{Error, Result};
use shuttle::thread;

use crate::sync::Mutex;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An append; nothing of it is stored.
    Append,
    /// A flush; what was appended stays, and is not durable.
    Sync,
    /// A flush, and from then on every call of the handle.
    Poison,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Logs>>);

#[derive(Debug, Default)]
struct Logs {
    by_id: BTreeMap<String, Stored>,
    fault: Option<(Fault, u32)>,
}

#[derive(Debug, Default)]
struct Stored {
    header: Option<Header>,
    rows: Vec<Vec<u8>>,
    durable: usize,
    /// Number of the handle that owns it.
    owner: Option<u64>,
    handles: u64,
    is_stored: bool,
}

struct Handle {
    disk: Disk,
    id: String,
    header: Header,
    number: u64,
    poisoned: Mutex<bool>,
}

impl Disk {
    /// The next `times` calls of that kind fail.
    pub(crate) fn fail(&self, fault: Fault, times: u32) {
        self.0.lock().fault = Some((fault, times));
    }

    /// Session `id` holds events `0..end` and nothing else, all durable.
    #[track_caller]
    pub(crate) fn assert_durable(&self, id: &str, end: u64) {
        let logs = self.0.lock();
        let (rows, durable) = logs.by_id.get(id).map_or((&[][..], 0), |log| (&log.rows[..], log.durable));
        let seqs: Vec<u64> = rows.iter().map(|row| seq_of(row)).collect();
        assert_eq!((seqs, durable), ((0..end).collect(), rows.len()), "session {id}");
    }

    pub(crate) fn is_owned(&self, id: &str) -> bool {
        self.0.lock().by_id.get(id).is_some_and(|log| log.owner.is_some())
    }

    fn take(&self, id: &str, header: Option<Header>) -> Result<Arc<dyn SessionHandle>> {
        thread::yield_now();
        let mut logs = self.0.lock();
        let log = logs.by_id.entry(id.to_owned()).or_default();
        if log.owner.is_some() {
            return Err(Error::AlreadyOwned { id: id.to_owned(), owner: None });
        }
        log.header = log.header.take().or(header);
        let Some(header) = log.header.clone() else { return Err(Error::NotFound { id: id.to_owned() }) };
        log.handles += 1;
        log.owner = Some(log.handles);
        let (disk, id, number) = (self.clone(), id.to_owned(), log.handles);
        Ok(Arc::new(Handle { disk, id, header, number, poisoned: Mutex::new(false) }))
    }
}

impl Handle {
    /// Runs `with` on the log, which this handle must own: nothing is written after ownership was released.
    fn owned<T>(&self, with: impl FnOnce(&mut Stored) -> T) -> T {
        let mut logs = self.disk.0.lock();
        let log = logs.by_id.get_mut(&self.id).expect("it was created");
        assert_eq!(log.owner, Some(self.number), "written without owning {}", self.id);
        with(log)
    }

    fn fails(&self, fault: Fault) -> bool {
        match &mut self.disk.0.lock().fault {
            Some((due, times)) if *due == fault && *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    fn check(&self) -> Result<()> {
        // A poisoned handle closes and says so; anything else may run between two calls.
        thread::yield_now();
        if *self.poisoned.lock() { Err(Error::Poisoned { id: self.id.clone() }) } else { Ok(()) }
    }

    fn io(&self) -> Error {
        let source = std::io::Error::from_raw_os_error(5);
        Error::Io { path: self.id.clone().into(), action: "as told", source }
    }
}

impl SessionPersistence for Disk {
    fn create(&self, header: Header, _: Option<u64>, _: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        let id = header.id().to_string_lossy().into_owned();
        self.take(&id, Some(header))
    }

    fn open(&self, id: &Text, access: SessionAccess, _: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        assert_eq!(access, SessionAccess::Write, "nobody reads here");
        self.take(&id.to_string_lossy(), None)
    }

    fn stat(&self, _: &Text, _: &Cancel) -> Result<Option<Snapshot>> {
        Ok(None)
    }

    fn list(&self, _: &Cancel) -> Result<Vec<Snapshot>> {
        Ok(Vec::new())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl SessionHandle for Handle {
    fn header(&self) -> &Header {
        &self.header
    }

    fn inherited_event_count(&self) -> u64 {
        0
    }

    fn access(&self) -> SessionAccess {
        SessionAccess::Write
    }

    fn next_seq(&self) -> Option<u64> {
        Some(self.owned(|log| log.rows.len() as u64))
    }

    fn read(&self, offset: u64, length: u64, _: &Cancel) -> Result<Events> {
        // Only asked for after a handle was lost; the rows are compared with these.
        let rows = self.owned(|log| log.rows.clone());
        let end = rows.len().min(usize::try_from(offset + length).unwrap_or(usize::MAX));
        let rows = rows.get(usize::try_from(offset).expect("few")..end).unwrap_or_default();
        Ok(Events::of_rows(rows, &Limits::DEFAULT).expect("they are events"))
    }

    fn append(&self, rows: &[&[u8]], _: &Cancel) -> Result<()> {
        self.check()?;
        if self.fails(Fault::Append) {
            return Err(self.io());
        }
        thread::yield_now();
        self.owned(|log| {
            for row in rows {
                let (expected, actual) = (log.rows.len() as u64, seq_of(row));
                if expected != actual {
                    return Err(Error::SeqMismatch { id: self.id.clone(), expected, index: 0, actual });
                }
                log.rows.push(row.to_vec());
            }
            log.is_stored = true;
            Ok(())
        })
    }

    fn flush(&self, _: &Cancel) -> Result<()> {
        self.check()?;
        if self.fails(Fault::Sync) {
            return Err(self.io());
        }
        if self.fails(Fault::Poison) {
            *self.poisoned.lock() = true;
            // What had never been written cannot be in doubt.
            self.owned(|log| log.is_stored = true);
            return Err(self.io());
        }
        let synced = self.owned(|log| log.rows.len());
        thread::yield_now();
        self.owned(|log| {
            log.durable = log.durable.max(synced);
            log.is_stored = true;
        });
        Ok(())
    }

    fn close(&self) -> Result<()> {
        thread::yield_now();
        let is_sound = !*self.poisoned.lock();
        self.owned(|log| {
            if is_sound {
                log.durable = log.rows.len();
            }
            log.owner = None;
            // Never stored: it never was.
            if !log.is_stored {
                log.header = None;
            }
        });
        Ok(())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("number", &self.number).finish()
    }
}

fn seq_of(row: &[u8]) -> u64 {
    Event::read(row, Check::Envelope, &Limits::DEFAULT).expect("only events are appended").seq().get()
}
