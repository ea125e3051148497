//! What outlives the instances: stored logs, and who writes which session.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::hooks::{Hooks, Step};
use super::judge::{Judged, judge};
use super::log::{Log, View, session_path, storage_path};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;

/// Sessions in memory, for as long as a clone of this lives: what a root folder is to a [`FileStore`](crate::store::FileStore).
///
/// Clones are one storage. Two [`MemoryStore`](super::MemoryStore)s over one storage are to each other what two processes
/// over one root are: they share what is stored and who owns it, and nothing else. With the feature `fault` a test can put
/// logs in the place of others, tear them, make steps fail or step into them, and crash the whole.
#[derive(Clone)]
pub struct MemoryStorage(pub(super) Arc<Inner>);

/// What the clones share.
pub(super) struct Inner {
    /// Tells storages apart, in names and revisions.
    number: u64,
    pub(super) sessions: Mutex<BTreeMap<Text, Stored>>,
    changes: AtomicU64,
    tokens: AtomicU64,
    parses: AtomicU64,
    reads: AtomicU64,
    pub(super) hooks: Hooks,
}

/// One session of a storage.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Its logs, the newest generation last. None as long as only its lock is there.
    pub(super) logs: Vec<Log>,
    pub(super) holder: Option<Holder>,
}

/// Who writes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    instance: u64,
    token: u64,
}

/// The right to write one session, against all other instances. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Lock {
    storage: MemoryStorage,
    id: Text,
    holder: Holder,
}

/// Why a change of a log did not take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// The lock is another one's by now: the holder's instance crashed.
    Lost,
    /// The log is not as the holder left it.
    Foreign,
    /// There is a log already.
    Exists,
}

impl MemoryStorage {
    /// A storage without sessions.
    #[must_use]
    pub fn new() -> Self {
        static STORAGES: AtomicU64 = AtomicU64::new(1);
        Self::with(STORAGES.fetch_add(1, Ordering::Relaxed), 0, BTreeMap::new())
    }

    pub(super) fn with(number: u64, changes: u64, sessions: BTreeMap<Text, Stored>) -> Self {
        Self(Arc::new(Inner {
            number,
            sessions: Mutex::new(sessions),
            changes: AtomicU64::new(changes),
            tokens: AtomicU64::new(0),
            parses: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            hooks: Hooks::default(),
        }))
    }

    /// How many whole logs were read and judged so far, by all instances. What was judged is remembered until the log
    /// changes.
    #[must_use]
    pub fn full_log_reads(&self) -> u64 {
        self.0.parses.load(Ordering::Relaxed)
    }

    /// How often rows of a stored log, or its two ends, were looked at so far, by all instances.
    #[must_use]
    pub fn log_reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Takes a step that a hook may make fail, on the session `id` or on the storage.
    pub(super) fn step(&self, step: Step, id: Option<&Text>) -> Result<()> {
        let path = || id.map_or_else(|| storage_path(self.0.number), |id| session_path(self.0.number, id));
        self.0.hooks.meet(step).map_err(|error| Error::io(path(), step.action())(error))
    }

    /// What every call on an instance that crashed says.
    pub(super) fn is_gone(&self) -> Error {
        let error = io::Error::new(io::ErrorKind::NotConnected, "this instance has crashed");
        Error::io(storage_path(self.0.number), "reaching")(error)
    }

    /// Tells storages apart.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// A number that names one instance or one lock.
    pub(super) fn next_token(&self) -> u64 {
        self.0.tokens.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn count_read(&self) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the next change.
    pub(super) fn next_change(&self) -> u64 {
        self.0.changes.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// The newest log of a session.
    pub(super) fn view(&self, id: &Text) -> Option<View> {
        let sessions = self.0.sessions.lock();
        let (log, older) = sessions.get(id)?.logs.split_last()?;
        let older = older.iter().map(|log| log.generation).collect();
        Some(View { storage: self.0.number, id: id.clone(), log: log.clone(), older })
    }

    pub(super) fn is_stored(&self, id: &Text) -> bool {
        self.0.sessions.lock().get(id).is_some_and(|stored| !stored.logs.is_empty())
    }

    /// The ids of all stored sessions.
    pub(super) fn stored_ids(&self) -> Vec<Text> {
        let sessions = self.0.sessions.lock();
        sessions.iter().filter(|(_, stored)| !stored.logs.is_empty()).map(|(id, _)| id.clone()).collect()
    }

    /// Reads the whole log of `view`, unless somebody did since it last changed.
    pub(super) fn judged(&self, view: &View, limits: &Limits) -> Result<Arc<Judged>> {
        if let Some(judged) = &view.log.judged {
            return Ok(Arc::clone(judged));
        }
        self.0.parses.fetch_add(1, Ordering::Relaxed);
        let judged = Arc::new(judge(view, limits)?);
        let mut sessions = self.0.sessions.lock();
        let log = sessions.get_mut(&view.id).and_then(|stored| stored.logs.last_mut());
        if let Some(log) = log.filter(|log| log.change == view.log.change) {
            log.judged = Some(Arc::clone(&judged));
        }
        Ok(judged)
    }

    /// Takes the lock of a session for an instance, or `None` if somebody has it.
    pub(super) fn lock(&self, id: &Text, instance: u64) -> Option<Lock> {
        let mut sessions = self.0.sessions.lock();
        let stored = sessions.entry(id.clone()).or_default();
        if stored.holder.is_some() {
            return None;
        }
        let holder = Holder { instance, token: self.next_token() };
        stored.holder = Some(holder);
        Some(Lock { storage: self.clone(), id: id.clone(), holder })
    }

    /// Frees what a crashed instance held, and takes away what it had accepted and not made durable, but for `kept` events of
    /// each log.
    pub(super) fn crash(&self, instance: u64, kept: u64) {
        let mut sessions = self.0.sessions.lock();
        for stored in sessions.values_mut() {
            if stored.holder.is_some_and(|holder| holder.instance == instance) {
                stored.holder = None;
            }
            for log in stored.logs.iter_mut().filter(|log| log.accepted_by == Some(instance)) {
                let lines = log.durable.saturating_add(usize::try_from(kept).unwrap_or(usize::MAX));
                if lines < log.lines {
                    log.cut(lines, log.committed, &[]);
                    self.changed(log);
                }
                log.durable = log.lines;
                log.accepted_by = None;
            }
        }
        sessions.retain(|_, stored| !stored.is_nothing());
    }

    /// Tells that `log` is another one now.
    pub(super) fn changed(&self, log: &mut Log) {
        log.change = self.next_change();
        log.judged = None;
    }
}

impl Stored {
    /// Whether nothing keeps the entry.
    pub(super) fn is_nothing(&self) -> bool {
        self.logs.is_empty() && self.holder.is_none()
    }
}

impl Lock {
    /// Makes a first log appear, and gives the number of that change.
    pub(super) fn publish(&self, log: Log) -> Result<u64, Unchanged> {
        self.with(
            |stored| if stored.logs.is_empty() { Ok(self.add(stored, log)) } else { Err(Unchanged::Exists) },
        )
    }

    /// Makes a newer generation appear beside the log that was last changed by `left`.
    pub(super) fn publish_successor(&self, left: u64, log: Log) -> Result<u64, Unchanged> {
        self.with(|stored| match stored.logs.last() {
            Some(source) if source.change == left => Ok(self.add(stored, log)),
            _ => Err(Unchanged::Foreign),
        })
    }

    /// Changes the log, if it still is what change `left` made of it, and gives the number of this change.
    pub(super) fn change(&self, left: u64, change: impl FnOnce(&mut Log)) -> Result<u64, Unchanged> {
        self.with(|stored| {
            let log = stored.logs.last_mut().filter(|log| log.change == left).ok_or(Unchanged::Foreign)?;
            change(log);
            self.storage.changed(log);
            Ok(log.change)
        })
    }

    /// As [`Lock::change`], for what changes nothing about the rows.
    pub(super) fn settle(&self, left: u64, settle: impl FnOnce(&mut Log)) -> Result<(), Unchanged> {
        self.with(|stored| {
            let log = stored.logs.last_mut().filter(|log| log.change == left).ok_or(Unchanged::Foreign)?;
            settle(log);
            Ok(())
        })
    }

    /// Checks that the log is what change `left` made of it.
    pub(super) fn check(&self, left: u64) -> Result<(), Unchanged> {
        self.settle(left, |_| {})
    }

    fn add(&self, stored: &mut Stored, mut log: Log) -> u64 {
        self.storage.changed(&mut log);
        let change = log.change;
        stored.logs.push(log);
        change
    }

    fn with<T>(&self, work: impl FnOnce(&mut Stored) -> Result<T, Unchanged>) -> Result<T, Unchanged> {
        let mut sessions = self.storage.0.sessions.lock();
        let stored = sessions.get_mut(&self.id).filter(|stored| stored.holder == Some(self.holder));
        work(stored.ok_or(Unchanged::Lost)?)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut sessions = self.storage.0.sessions.lock();
        if let Some(stored) = sessions.get_mut(&self.id)
            && stored.holder == Some(self.holder)
        {
            stored.holder = None;
            if stored.is_nothing() {
                sessions.remove(&self.id);
            }
        }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions = self.0.sessions.lock().len();
        f.debug_struct("MemoryStorage")
            .field("number", &self.0.number)
            .field("sessions", &sessions)
            .field("hooks", &self.0.hooks)
            .finish_non_exhaustive()
    }
}
