//! Looking at sessions without owning them: live and stored ones in one view.
//!
//! A [`Query`] takes no lock, writes nothing, and works beside any writer in whatever process. Whether a session is live in
//! this process is asked again after each step that may wait for a disk, and then the live session answers.
//!
//! ```
//! use std::sync::Arc;
//!
//! use seslog::json::Text;
//! use seslog::row::Header;
//! use seslog::session::{Sessions, Settings};
//! use seslog::store::query::{NoHint, Query, QueryOptions};
//! use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionPersistence};
//! use seslog::units::{Generation, UnixMs};
//!
//! let store = MemoryStore::new(&MemoryStorage::new());
//! let header = Header::new(Generation::CURRENT, Text::from("s-1"), UnixMs::new(5))?;
//! let writer = store.create(header, None)?;
//! writer.append(&[br#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#])?;
//!
//! let store: Arc<dyn SessionPersistence> = Arc::new(store);
//! let sessions = Sessions::new(Settings::new(|| UnixMs::new(7)));
//! let query = Query::new(store, &sessions, QueryOptions::default());
//! let never = Cancel::never();
//!
//! let session = query.read(&Text::from("s-1"), &never)?;
//! assert_eq!((session.stored().len(), session.closers().len()), (1, 1), "its turn is open");
//! assert!(Arc::ptr_eq(&session, &query.read(&Text::from("s-1"), &never)?), "it has not changed");
//! assert!(!query.summaries(&NoHint, &never)?[0].activity.is_blank);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod blank;
mod cold;
mod fault;
mod flight;
mod list;
mod observation;

use std::cmp::Reverse;
use std::sync::Arc;

pub use self::batch::BATCH_READS;
pub use self::blank::{Activity, ActivitySource, BlankHint, NoHint, Summary};
use self::blank::{Gates, Plan, plan};
pub use self::cold::CacheUsage;
use self::cold::{Cold, Loaded};
pub use self::fault::{Corrupt, QueryFault};
pub use self::list::Listed;
use self::list::merge;
use self::observation::Contents;
pub use self::observation::Observation;
use super::cancel::Cancel;
use super::handle::SessionAccess;
use super::interrupted::ClosedLog;
use super::seam::{SessionHandle, SessionPersistence};
use super::snapshot::Revision;
use crate::error::Error;
use crate::json::Text;
use crate::session::{Session, Sessions};

/// A view of the live sessions of a process and the stored ones together.
///
/// Stored sessions that were read are kept, each at the revision that its log had: as long as that is the log's revision, nothing
/// is read again. A log that changed less than two seconds ago is read each time, and not kept: its file system may stamp the
/// next change with the same time. Readers who want the same session at the same time share one read.
///
/// Cheap to clone; clones are one query and share what it keeps.
#[derive(Clone, Debug)]
pub struct Query {
    store: Option<Arc<dyn SessionPersistence>>,
    sessions: Sessions,
    options: QueryOptions,
    cold: Arc<Cold>,
}

/// Bounds of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryOptions {
    /// How many stored sessions are kept that nobody holds an [`Observation`] of.
    pub kept_max: usize,
    /// Bytes of memory that those take.
    pub kept_bytes_max: usize,
    /// A stored session with at most so many events is read to find out whether it is blank. 0: none is.
    pub blank_events_max: u64,
    /// The same for a log of so many bytes, where the store does not count events.
    pub blank_bytes_max: u64,
}

impl Default for QueryOptions {
    /// Five sessions of together 64 MiB; 16 events, 1024 bytes.
    fn default() -> Self {
        Self { kept_max: 5, kept_bytes_max: 64 << 20, blank_events_max: 16, blank_bytes_max: 1024 }
    }
}

impl Query {
    /// A query over what `store` keeps and over the live `sessions`, whose settings are those that stored events are held to.
    #[must_use]
    pub fn new(store: Arc<dyn SessionPersistence>, sessions: &Sessions, options: QueryOptions) -> Self {
        Self::over(Some(store), sessions, options)
    }

    /// As [`Query::new`], perhaps without a store.
    pub(super) fn over(
        store: Option<Arc<dyn SessionPersistence>>,
        sessions: &Sessions,
        options: QueryOptions,
    ) -> Self {
        let cold = Arc::new(Cold::new(options.kept_max, options.kept_bytes_max));
        Self { store, sessions: sessions.clone(), options, cold }
    }

    /// The bounds.
    #[must_use]
    pub const fn options(&self) -> &QueryOptions {
        &self.options
    }

    /// What is kept of stored sessions now.
    #[must_use]
    pub fn usage(&self) -> CacheUsage {
        self.cold.usage()
    }

    /// All sessions, the newest first, then by id; those whose header cannot be read are behind all others, by path.
    ///
    /// A session that is live and stored is listed once. Cost as [`SessionPersistence::list`]: no event is read.
    ///
    /// # Errors
    /// [`QueryFault::SourceConflict`] if a live session and the stored one of its id differ in what never changes;
    /// [`QueryFault::PersistenceFailed`] and [`QueryFault::Aborted`].
    pub fn list(&self, cancel: &Cancel) -> Result<Vec<Listed>, QueryFault> {
        let stored = match &self.store {
            Some(store) => store.list(cancel),
            None => cancel.check().map(|()| Vec::new()),
        };
        // Asked behind the store: who has come to life meanwhile is live.
        merge(stored.map_err(QueryFault::of_listing)?, self.sessions.list())
    }

    /// The session of that id: as it is live, else as it is stored, with what closes its open turn.
    ///
    /// Time O(bytes of the log), or of one look at its end if it was read before and has not changed. What is answered is what
    /// the log held at some moment between the call and the answer.
    ///
    /// # Errors
    /// [`QueryFault`], but no [`QueryFault::SourceConflict`].
    pub fn read(&self, id: &Text, cancel: &Cancel) -> Result<Arc<Observation>, QueryFault> {
        self.observe(id, true, cancel)
    }

    /// All sessions with what has happened in them, the last used first, then by id.
    ///
    /// Of a stored session that is what `hint` knows, if it says that the session is not blank. Else the log is read if it is
    /// small: a session in which no turn began is. Otherwise it is what `hint` knows, or nothing: then the session is taken not to
    /// be blank. Nothing that was read for this is kept.
    ///
    /// # Errors
    /// As [`Query::list`]. A log that cannot be read is [`ActivitySource::Failed`].
    pub fn summaries(&self, hint: &dyn BlankHint, cancel: &Cancel) -> Result<Vec<Summary>, QueryFault> {
        let summaries: Result<Vec<Summary>, QueryFault> =
            self.list(cancel)?.into_iter().map(|listed| self.summarise(listed, hint, cancel)).collect();
        let mut summaries = summaries?;
        summaries.sort_by(|a, b| {
            (Reverse(a.sort_time()), a.session.order()).cmp(&(Reverse(b.sort_time()), b.session.order()))
        });
        Ok(summaries)
    }

    /// The session as [`Query::summaries`] shows it.
    ///
    /// # Errors
    /// [`QueryFault::Aborted`].
    pub fn summarise(
        &self,
        listed: Listed,
        hint: &dyn BlankHint,
        cancel: &Cancel,
    ) -> Result<Summary, QueryFault> {
        if let Some(live) = self.live_of(&listed) {
            return Ok(alive(listed, live));
        }
        let gates =
            Gates { events_max: self.options.blank_events_max, bytes_max: self.options.blank_bytes_max };
        let planned = listed.stored.as_ref().map(|stored| plan(stored, hint, gates));
        let (activity, source) = match (planned, listed.id()) {
            (Some(Plan::Probe), Some(id)) => match self.observe(id, false, cancel) {
                Ok(observation) => match observation.live() {
                    Some(live) => return Ok(alive(listed, Arc::clone(live))),
                    None => (Activity::of(observation.log()), ActivitySource::Read),
                },
                Err(fault) if fault.is_aborted() => return Err(fault),
                Err(_) => (Activity::default(), ActivitySource::Failed),
            },
            (Some(Plan::Known(activity, source)), _) => (activity, source),
            (Some(Plan::Probe) | None, _) => (Activity::default(), ActivitySource::Unread),
        };
        // It may have come to life while others were asked.
        if let Some(live) = self.live_of(&listed) {
            return Ok(alive(listed, live));
        }
        Ok(Summary { session: listed, activity, source })
    }

    fn live_of(&self, listed: &Listed) -> Option<Arc<Session>> {
        // One that was listed as live and has left is shown as it was.
        listed.id().and_then(|id| self.sessions.get(id)).or_else(|| listed.live.clone())
    }

    fn live(&self, id: &Text) -> Option<Arc<Observation>> {
        self.sessions.get(id).map(|session| Arc::new(Observation::of_live(session)))
    }

    fn observe(&self, id: &Text, keep: bool, cancel: &Cancel) -> Result<Arc<Observation>, QueryFault> {
        let check = || cancel.check().map_err(|error| QueryFault::of_session(id, error));
        check()?;
        if let Some(live) = self.live(id) {
            return Ok(live);
        }
        let Some(store) = &self.store else { return Err(QueryFault::not_found(id)) };
        let looked = store.stat(id, cancel);
        check()?;
        if let Some(live) = self.live(id) {
            return Ok(live);
        }
        let looked = looked.map_err(|error| QueryFault::of_session(id, error))?;
        let Some(snapshot) = looked else {
            self.cold.forget(id);
            return Err(QueryFault::not_found(id));
        };
        let is_quiet = snapshot.is_quiet();
        let observed = match snapshot.revision.filter(|_| is_quiet) {
            Some(revision) => {
                let load = || {
                    let contents = self.load(&**store, id, cancel)?;
                    Ok(Loaded { contents, is_certain: self.is_still(&**store, id, revision) })
                };
                self.cold.get(id, revision, keep, cancel, load)
            }
            // It may change once more without a sign of it.
            None => {
                self.cold.forget(id);
                self.load(&**store, id, cancel).map(Observation::of_read)
            }
        };
        check()?;
        self.live(id).map_or(observed, Ok)
    }

    /// Reads a stored session.
    fn load(
        &self,
        store: &dyn SessionPersistence,
        id: &Text,
        cancel: &Cancel,
    ) -> Result<Contents, QueryFault> {
        let refused = |error| QueryFault::of_session(id, error);
        let settings = self.sessions.settings();
        let handle = store.open(id, SessionAccess::Read, cancel).map_err(refused)?;
        let read = ClosedLog::read(&*handle, settings.limits(), cancel)
            .and_then(|read| cancel.check().map(|()| read));
        let ClosedLog { log, stored } = closed(&*handle, read).map_err(refused)?;
        Contents::checked(handle.header().clone(), handle.inherited_event_count(), log, stored, settings)
            .map_err(|fault| QueryFault::of_events(id, fault))
    }

    /// Whether the log still has the revision that it had before it was read.
    fn is_still(&self, store: &dyn SessionPersistence, id: &Text, revision: Revision) -> bool {
        let looked = store.stat(id, &Cancel::never());
        looked.is_ok_and(|looked| looked.is_some_and(|looked| looked.revision == Some(revision)))
    }
}

/// `outcome`, behind which the handle is closed.
fn closed<T>(handle: &dyn SessionHandle, outcome: Result<T, Error>) -> Result<T, Error> {
    match (outcome, handle.close()) {
        (Ok(value), Ok(())) => Ok(value),
        (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(second)) => Err(Error::Aggregate(vec![first, second])),
    }
}

/// A session that is live after all.
fn alive(listed: Listed, live: Arc<Session>) -> Summary {
    let activity = Activity::of(&live.log());
    let session = Listed { live: Some(live), ..listed };
    Summary { session, activity, source: ActivitySource::Live }
}
