//! Stored sessions that were read, kept for whoever reads them next.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use super::super::cancel::Cancel;
use super::super::snapshot::Revision;
use super::super::sync::Mutex;
use super::fault::QueryFault;
use super::flight::{Boarding, Flights};
use super::observation::{Contents, Observation, Pin};
use crate::json::Text;

/// The sessions that were read, by id, each at one revision; and those that are being read.
///
/// An entry that anybody holds an observation of is pinned. The others are evicted, the longest unused first, down to the bounds.
pub(super) struct Cold {
    entries_max: usize,
    bytes_max: usize,
    cache: Mutex<Cache>,
    flights: Flights<(Text, Revision), Arc<Contents>>,
}

#[derive(Default)]
struct Cache {
    by_id: HashMap<Text, Entry>,
    /// Entries that nobody holds, by when they were let go.
    unpinned: BTreeMap<u64, Text>,
    unpinned_bytes: usize,
    /// The number of the next entry or moment.
    next: u64,
}

struct Entry {
    number: u64,
    revision: Revision,
    contents: Arc<Contents>,
    bytes: usize,
    /// What its holders share, as long as there are any.
    held: Weak<Observation>,
    /// Observations that have not let go: the one that is held, and perhaps others that are being dropped.
    pins: usize,
    /// When the last of them did.
    let_go: u64,
}

/// What an entry takes besides its contents and its id: a place in each map, and what its holders share.
const ENTRY_BYTES: usize =
    2 * size_of::<(Text, Entry)>() + 2 * size_of::<(u64, Text)>() + size_of::<(Observation, [usize; 2])>();
/// In both maps, and with what its holders share.
const IDS: usize = 3;

/// What a query keeps in memory of stored sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Sessions that nobody holds an observation of: those that the bounds are for.
    pub kept: usize,
    /// Bytes of memory that they take.
    pub kept_bytes: usize,
    /// Sessions that somebody holds an observation of.
    pub held: usize,
    /// Bytes of memory that they take.
    pub held_bytes: usize,
}

/// A stored session that was read.
pub(super) struct Loaded {
    pub(super) contents: Contents,
    /// The log had one and the same revision before and after.
    pub(super) is_certain: bool,
}

impl Cold {
    pub(super) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries_max, bytes_max, cache: Mutex::default(), flights: Flights::default() }
    }

    /// The session at `revision`, which its log has now and whose every later change shows: as it was kept, as another reader is
    /// reading it, or as `load` reads it. Kept, if `keep` says so and it did not change meanwhile.
    pub(super) fn get(
        self: &Arc<Self>,
        id: &Text,
        revision: Revision,
        keep: bool,
        cancel: &Cancel,
        load: impl FnOnce() -> Result<Loaded, QueryFault>,
    ) -> Result<Arc<Observation>, QueryFault> {
        if let Some(kept) = self.find(id, revision) {
            return Ok(kept);
        }
        // No log gets a revision back that it had. So what a reader of this revision fetched, who began before this one, was in
        // the log when this one looked at it, or came later.
        let key = (id.clone(), revision);
        let is_cancelled = || cancel.reason().is_some();
        let gives_up = cancel.can_cancel().then_some(&is_cancelled as &dyn Fn() -> bool);
        match self.flights.board(&key, gives_up) {
            Boarding::GaveUp => {
                cancel.check().map_err(|error| QueryFault::of_session(id, error))?;
                Ok(Observation::of_read(load()?.contents))
            }
            Boarding::Landed(contents) => Ok(self.find(id, revision).unwrap_or_else(|| alone(contents))),
            Boarding::Lead(lead) => {
                // Another leader may have landed between the first look and the boarding.
                if let Some(kept) = self.find(id, revision) {
                    lead.land(Arc::clone(kept.contents()));
                    return Ok(kept);
                }
                let Loaded { contents, is_certain } = load()?;
                let contents = Arc::new(contents);
                let observation = if keep && is_certain {
                    self.insert(id, revision, Arc::clone(&contents))
                } else {
                    alone(Arc::clone(&contents))
                };
                lead.land(contents);
                Ok(observation)
            }
        }
    }

    /// The session as it is kept, if that is what its log holds at `revision`. What is kept of another revision goes.
    fn find(self: &Arc<Self>, id: &Text, revision: Revision) -> Option<Arc<Observation>> {
        let stale = {
            let cache = &mut *self.cache.lock();
            match cache.by_id.get(id) {
                None => return None,
                Some(entry) if entry.revision == revision => return cache.pin(id, self),
                Some(_) => cache.take(id),
            }
        };
        // What it held is freed without the lock.
        drop(stale);
        None
    }

    fn insert(self: &Arc<Self>, id: &Text, revision: Revision, contents: Arc<Contents>) -> Arc<Observation> {
        let ids = id.as_bytes().len().saturating_mul(IDS);
        let bytes = contents.memory_bytes().saturating_add(ENTRY_BYTES).saturating_add(ids);
        let mut cache = self.cache.lock();
        let replaced = cache.take(id);
        let number = cache.tick();
        let (observation, held) = self.observation(id, number, &contents);
        let entry = Entry { number, revision, contents, bytes, held, pins: 1, let_go: 0 };
        cache.by_id.insert(id.clone(), entry);
        drop(cache);
        drop(replaced);
        observation
    }

    fn observation(
        self: &Arc<Self>,
        id: &Text,
        entry: u64,
        contents: &Arc<Contents>,
    ) -> (Arc<Observation>, Weak<Observation>) {
        let pin = Pin { cold: Arc::downgrade(self), id: id.clone(), entry };
        let observation = Arc::new(Observation::of_stored(Arc::clone(contents), Some(pin)));
        let held = Arc::downgrade(&observation);
        (observation, held)
    }

    /// An observation of that entry is gone.
    pub(super) fn unpin(&self, id: &Text, entry: u64) {
        let evicted = {
            let cache = &mut *self.cache.lock();
            cache.let_go(id, entry);
            cache.trim(self.entries_max, self.bytes_max)
        };
        drop(evicted);
    }

    /// Nothing is kept of a session that is gone, or that cannot be told from its next state.
    pub(super) fn forget(&self, id: &Text) {
        let taken = self.cache.lock().take(id);
        drop(taken);
    }

    pub(super) fn usage(&self) -> CacheUsage {
        let cache = self.cache.lock();
        let bytes = cache.by_id.values().map(|entry| entry.bytes).fold(0, usize::saturating_add);
        CacheUsage {
            kept: cache.unpinned.len(),
            kept_bytes: cache.unpinned_bytes,
            held: cache.by_id.len().saturating_sub(cache.unpinned.len()),
            held_bytes: bytes.saturating_sub(cache.unpinned_bytes),
        }
    }
}

/// An observation that is in no cache.
fn alone(contents: Arc<Contents>) -> Arc<Observation> {
    Arc::new(Observation::of_stored(contents, None))
}

impl Cache {
    fn tick(&mut self) -> u64 {
        let now = self.next;
        self.next = now.saturating_add(1);
        now
    }

    /// The observation that the holders of an entry share; a new one if nobody holds it.
    fn pin(&mut self, id: &Text, cold: &Arc<Cold>) -> Option<Arc<Observation>> {
        let entry = self.by_id.get_mut(id)?;
        // Whoever dropped the last one may not have come to unpin it yet: the count tells, not this.
        if let Some(held) = entry.held.upgrade() {
            return Some(held);
        }
        let (observation, held) = cold.observation(id, entry.number, &entry.contents);
        entry.held = held;
        if entry.pins == 0 {
            self.unpinned.remove(&entry.let_go);
            self.unpinned_bytes = self.unpinned_bytes.saturating_sub(entry.bytes);
        }
        entry.pins = entry.pins.saturating_add(1);
        Some(observation)
    }

    fn let_go(&mut self, id: &Text, number: u64) {
        let now = self.tick();
        // Not of an entry that has replaced it.
        let Some(entry) = self.by_id.get_mut(id).filter(|entry| entry.number == number) else { return };
        entry.pins = entry.pins.saturating_sub(1);
        if entry.pins == 0 {
            entry.let_go = now;
            self.unpinned_bytes = self.unpinned_bytes.saturating_add(entry.bytes);
            self.unpinned.insert(now, id.clone());
        }
    }

    /// Takes an entry out. Those who hold an observation of it keep that.
    fn take(&mut self, id: &Text) -> Option<Entry> {
        let entry = self.by_id.remove(id)?;
        if entry.pins == 0 {
            self.unpinned.remove(&entry.let_go);
            self.unpinned_bytes = self.unpinned_bytes.saturating_sub(entry.bytes);
        }
        Some(entry)
    }

    /// Takes out what nobody holds, the longest unused first, until the bounds hold.
    fn trim(&mut self, entries_max: usize, bytes_max: usize) -> Vec<Entry> {
        let mut evicted = Vec::new();
        while self.unpinned.len() > entries_max || self.unpinned_bytes > bytes_max {
            let Some((_, id)) = self.unpinned.pop_first() else { break };
            evicted.extend(self.take(&id));
        }
        evicted
    }
}

impl fmt::Debug for Cold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold")
            .field("entries_max", &self.entries_max)
            .field("bytes_max", &self.bytes_max)
            .field("usage", &self.usage())
            .field("is_reading", &!self.flights.is_empty())
            .finish_non_exhaustive()
    }
}
