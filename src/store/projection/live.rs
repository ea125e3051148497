//! States of sessions that are live in this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::cold::{is_level, started};
use crate::json::Text;
use crate::session::{CheckpointKey, Projected, Projections, Session};
use crate::store::catalog::names_of;
use crate::store::log_file::{LogFile, ReadMode};
use crate::store::store::FileStore;

/// The states of a set of projections for the live sessions of a host.
///
/// An append pays nothing for them: whoever asks has those events folded that were appended since somebody asked last, each
/// once. States are kept when the host says that a session was flushed, in the folder of the store's catalog; a session that
/// is resumed goes on from there.
///
/// Cheap to clone; clones are one instance.
#[derive(Clone)]
pub struct LiveProjections {
    shared: Arc<Shared>,
}

struct Shared {
    set: Projections,
    store: FileStore,
    live: Mutex<HashMap<Text, Arc<Mutex<Live>>>>,
}

/// The states of one session.
struct Live {
    session: Weak<Session>,
    projected: Projected,
    /// Events in the states that were kept last.
    kept: u64,
    /// Events when the last turn ended.
    turn_end: u64,
}

/// So many events are kept without the end of a turn.
const KEEP_EVERY: u64 = 256;

impl LiveProjections {
    /// The states of `set`, kept beside the catalog of `store`: the one in which the sessions are stored. Without a catalog they
    /// are not kept.
    #[must_use]
    pub fn new(set: Projections, store: FileStore) -> Self {
        Self { shared: Arc::new(Shared { set, store, live: Mutex::default() }) }
    }

    /// The states after the last event of `session`.
    #[must_use]
    pub fn now(&self, session: &Arc<Session>) -> Projected {
        let live = self.live(session);
        let mut live = live.lock();
        live.catch_up(session);
        live.projected.clone()
    }

    /// Keeps the states of a session that was just flushed, if there is reason to: a turn has ended since they were kept last, or
    /// many events have come. Whether they were kept.
    ///
    /// Those of a session that has gone on since it was flushed are not: what is kept never leads the log.
    pub fn flushed(&self, session: &Arc<Session>) -> bool {
        self.keep_if(session, |live| {
            live.turn_end > live.kept || live.projected.folded().saturating_sub(live.kept) >= KEEP_EVERY
        })
    }

    /// As [`LiveProjections::flushed`], whatever has come since: when a session begins and when it ends.
    pub fn keep(&self, session: &Arc<Session>) -> bool {
        self.keep_if(session, |live| live.projected.folded() > live.kept)
    }

    fn keep_if(&self, session: &Arc<Session>, is_due: impl FnOnce(&Live) -> bool) -> bool {
        let live = self.live(session);
        let mut live = live.lock();
        live.catch_up(session);
        let (header, inherited) = (session.header(), session.inherited_event_count());
        let is_kept = is_due(&live) && self.shared.store.keep_projected(header, inherited, &live.projected);
        if is_kept {
            live.kept = live.projected.folded();
        }
        is_kept
    }

    fn live(&self, session: &Arc<Session>) -> Arc<Mutex<Live>> {
        let is_its = |live: &Live| std::ptr::eq(live.session.as_ptr(), Arc::as_ptr(session));
        let known = self.shared.live.lock().get(session.id()).cloned();
        if let Some(known) = known
            && is_its(&known.lock())
        {
            return known;
        }
        let begun = Arc::new(Mutex::new(self.begin(session)));
        let mut live = self.shared.live.lock();
        live.retain(|_, live| live.try_lock().is_none_or(|live| live.session.strong_count() > 0));
        live.insert(session.id().clone(), Arc::clone(&begun));
        begun
    }

    /// What is kept of a session that was resumed, or the states before the first event.
    fn begin(&self, session: &Arc<Session>) -> Live {
        let projected = self.resumed(session).unwrap_or_else(|| Projected::new(&self.shared.set));
        let kept = if is_level(&projected) { projected.folded() } else { 0 };
        Live { session: Arc::downgrade(session), projected, kept, turn_end: 0 }
    }

    fn resumed(&self, session: &Session) -> Option<Projected> {
        let Shared { set, store, .. } = &*self.shared;
        let (shelf, disk) = (store.shelf()?, store.shared().disk());
        let folder = store.folder_of(session.id()).ok()?;
        let record = shelf.load(disk, names_of(&folder.path)?)?;
        let key = CheckpointKey::new(session.header(), session.inherited_event_count());
        if record.header.id() != session.id() || !record.checkpoint_key().admits_fold(&key) {
            return None;
        }
        let path = folder.path.join(&folder.current().ok()??.name);
        let log = LogFile::open(disk, &path, store.shared().options().limits, ReadMode::Read).ok()?;
        let (projected, ..) = started(&record, set, &log)?;
        let (mut is_within, end) = (true, session.next_seq());
        projected.each_mark(|mark| is_within &= mark.folded <= end);
        is_within.then_some(projected)
    }
}

impl Live {
    /// Folds what `session` has and the states have not.
    fn catch_up(&mut self, session: &Session) {
        for event in session.log().suffix(self.projected.folded()).iter() {
            if event.is("turn/end") {
                self.turn_end = event.seq().get().saturating_add(1);
            }
            let pushed = self.projected.push(&event);
            debug_assert!(pushed.is_ok(), "a log gives its events in order");
        }
    }
}

impl fmt::Debug for LiveProjections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveProjections").field("set", &self.shared.set).finish_non_exhaustive()
    }
}
