//! The sessions that are live in this process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::fork::{ForkFault, child_header, fork_prefix};
use super::observers::{CallFailure, Calls, HostError, Listeners, Subscription, contained};
use super::seed::CreateFault;
use super::session::{Observe, Session};
use super::settings::Settings;
use crate::json::Text;
use crate::row::Event;
use crate::units::UnixMs;

/// The sessions that are live in this process, by id, and who wants to hear of them. Cheap to clone.
///
/// A session is made unpublished, entered under its id, and announced; from its entry until it is detached, what is appended
/// to it is routed to the listeners here. Nothing here stores anything: a store listens.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Shared {
    settings: Settings,
    live: Mutex<Live>,
    created: Listeners<Hear>,
    disposed: Listeners<Hear>,
    flush: Listeners<Hear>,
    validators: Listeners<Observe>,
    events: Listeners<Observe>,
}

type Hear = dyn Fn(&Arc<Session>) -> Result<(), HostError> + Send + Sync;

#[derive(Default)]
struct Live {
    by_id: HashMap<Text, u64>,
    /// In order of entry.
    entries: BTreeMap<u64, Arc<Entry>>,
    next: u64,
}

/// One stay of a session in the store.
pub(crate) struct Entry {
    number: u64,
    session: Arc<Session>,
    shared: Weak<Shared>,
    state: Mutex<EntryState>,
}

#[derive(Default)]
struct EntryState {
    announced: Announced,
    /// Appends that are being published.
    publishing: u32,
    leave: Leave,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Announced {
    #[default]
    No,
    Running,
    Yes,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Leave {
    #[default]
    No,
    /// Asked for while listeners were being called.
    Wanted,
    Done,
}

/// Why the store of live sessions refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveFault {
    /// A session of that id is live, or this one is, here or in another store.
    #[error("a session of that id is live already")]
    AlreadyExists,
    /// The session is not live here.
    #[error("the session is not live")]
    NotLive,
    /// Its creation was announced before, or is being announced.
    #[error("the session was announced already")]
    Announced,
    /// A listener refused the session. It was detached again.
    #[error("the session was refused")]
    Refused(#[source] CallFailure),
    /// A listener could not make the session durable. The others were called all the same.
    #[error("the session was not flushed")]
    Flush(#[source] CallFailure),
    /// The session cannot start so.
    #[error(transparent)]
    Create(#[from] CreateFault),
}

/// What is forked: a live session by its id, or the very session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ForkSource<'a> {
    /// Whatever session is live under that id.
    Id(&'a Text),
    /// That session, if it is the live one of its id.
    Session(&'a Arc<Session>),
}

impl Sessions {
    /// An empty store. `settings` are those of the sessions that are forked here.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared {
            settings,
            live: Mutex::default(),
            created: Listeners::default(),
            disposed: Listeners::default(),
            flush: Listeners::default(),
            validators: Listeners::default(),
            events: Listeners::default(),
        }))
    }

    /// The settings that sessions are forked with here.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Publishes `session` under its id without announcing it. Of two sessions of one id that race, one enters.
    ///
    /// # Errors
    /// [`LiveFault::AlreadyExists`].
    pub fn enter(&self, session: &Arc<Session>) -> Result<Attachment, LiveFault> {
        let mut live = self.0.live.lock();
        let mut attached = session.entry().lock();
        if live.by_id.contains_key(session.id()) || attached.strong_count() > 0 {
            return Err(LiveFault::AlreadyExists);
        }
        let number = live.next;
        live.next = number.saturating_add(1);
        let entry = Arc::new(Entry {
            number,
            session: Arc::clone(session),
            shared: Arc::downgrade(&self.0),
            state: Mutex::default(),
        });
        live.by_id.insert(session.id().clone(), number);
        live.entries.insert(number, Arc::clone(&entry));
        *attached = Arc::downgrade(&entry);
        Ok(Attachment(entry))
    }

    /// Enters and announces `session`.
    ///
    /// # Errors
    /// Those of [`enter`](Self::enter) and [`Attachment::announce`].
    pub fn publish(&self, session: &Arc<Session>) -> Result<Attachment, LiveFault> {
        let attachment = self.enter(session)?;
        attachment.announce()?;
        Ok(attachment)
    }

    /// The live session of that id.
    #[must_use]
    pub fn get(&self, id: &Text) -> Option<Arc<Session>> {
        let live = self.0.live.lock();
        let entry = live.entries.get(live.by_id.get(id)?)?;
        Some(Arc::clone(&entry.session))
    }

    /// All live sessions, in the order in which they entered.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Session>> {
        self.0.live.lock().entries.values().map(|entry| Arc::clone(&entry.session)).collect()
    }

    /// Makes everything appended to `session` durable: calls every listener of [`on_flush`](Self::on_flush), also after one
    /// failed. Returns whether there is any.
    ///
    /// # Errors
    /// [`LiveFault::NotLive`], and [`LiveFault::Flush`] with the first failure.
    pub fn flush(&self, session: &Arc<Session>) -> Result<bool, LiveFault> {
        if !self.is_live(session) {
            return Err(LiveFault::NotLive);
        }
        let (mut any, mut failed) = (false, None);
        for flush in self.0.flush.now() {
            any = true;
            let flushed = contained(|| flush(session));
            failed = failed.or(flushed.err());
        }
        failed.map_or(Ok(any), |failure| Err(LiveFault::Flush(failure)))
    }

    /// A live child of a live session: it begins with the events up to `boundary` and everything before, or with all.
    ///
    /// `child` is its id. The events are shared, not copied. Time O(bytes of the events): they are checked like any seed.
    ///
    /// # Errors
    /// [`ForkFault`], and then there is no child.
    pub fn fork(
        &self,
        source: ForkSource<'_>,
        boundary: Option<u64>,
        child: Text,
        created_at: Option<UnixMs>,
    ) -> Result<Attachment, ForkFault> {
        let source = match source {
            ForkSource::Id(id) => self.get(id).ok_or(ForkFault::NotFound)?,
            ForkSource::Session(session) => match self.get(session.id()) {
                None => return Err(ForkFault::NotFound),
                Some(live) if Arc::ptr_eq(&live, session) => live,
                Some(_) => return Err(ForkFault::NotLive),
            },
        };
        if self.get(&child).is_some() {
            return Err(ForkFault::AlreadyExists);
        }
        let seed = fork_prefix(&source.log(), boundary)?;
        let settings = &self.0.settings;
        let created_at = created_at.unwrap_or_else(|| settings.now());
        let header = child_header(source.header(), child, created_at, seed.len(), settings.profile())?;
        let session = Session::seeded(header, &seed, Some(seed.len()), settings)?;
        self.publish(&session).map_err(|fault| match fault {
            LiveFault::AlreadyExists => ForkFault::AlreadyExists,
            fault => ForkFault::Refused(fault),
        })
    }

    /// Calls `listener` once for each session that is announced. An error or a panic of a listener refuses the session.
    pub fn on_created(
        &self,
        listener: impl Fn(&Arc<Session>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.0.created.add(Arc::new(listener))
    }

    /// Calls `listener` once for each announced session that leaves.
    pub fn on_disposed(
        &self,
        listener: impl Fn(&Arc<Session>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.0.disposed.add(Arc::new(listener))
    }

    /// Calls `listener` for every event that is appended to a live session, after it has entered the log.
    pub fn on_event(
        &self,
        listener: impl Fn(&Session, &Event<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.0.events.add(Arc::new(listener))
    }

    /// Calls `validator` for every event that is about to be appended to a live session. An error or a panic refuses it.
    pub fn before_event(
        &self,
        validator: impl Fn(&Session, &Event<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.0.validators.add(Arc::new(validator))
    }

    /// Calls `listener` when a session is to be made durable; it returns once that is done.
    pub fn on_flush(
        &self,
        listener: impl Fn(&Arc<Session>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.0.flush.add(Arc::new(listener))
    }

    fn is_live(&self, session: &Arc<Session>) -> bool {
        self.get(session.id()).is_some_and(|live| Arc::ptr_eq(&live, session))
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// The stay of one session in the store. It ends by [`detach`](Self::detach), not by dropping this.
#[must_use = "only this ends the session's stay in the store"]
pub struct Attachment(Arc<Entry>);

impl Attachment {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// Tells every listener that the session was created; at most once.
    ///
    /// # Errors
    /// [`LiveFault::Refused`] with the first failure: later listeners are not called, the session is detached, and all hear
    /// that it was disposed. [`LiveFault::Announced`] and [`LiveFault::NotLive`].
    pub fn announce(&self) -> Result<(), LiveFault> {
        let entry = &self.0;
        {
            let mut state = entry.state.lock();
            if state.leave == Leave::Done {
                return Err(LiveFault::NotLive);
            }
            if state.announced != Announced::No {
                return Err(LiveFault::Announced);
            }
            state.announced = Announced::Running;
        }
        let listeners = entry.shared.upgrade().map(|shared| shared.created.now());
        let refused =
            listeners.into_iter().flatten().find_map(|created| contained(|| created(&entry.session)).err());
        {
            let mut state = entry.state.lock();
            state.announced = Announced::Yes;
            if refused.is_some() && state.leave == Leave::No {
                state.leave = Leave::Wanted;
            }
        }
        entry.leave_if_wanted();
        refused.map_or(Ok(()), |failure| Err(LiveFault::Refused(failure)))
    }

    /// Ends the session's stay: what is appended from now on is told to nobody here, and its id is free. If it was announced,
    /// all hear that it was disposed.
    ///
    /// Does nothing the second time, and never touches a later session of the same id. While listeners are being called for
    /// this session, it returns at once and the stay ends when they have returned.
    pub fn detach(&self) {
        {
            let mut state = self.0.state.lock();
            if state.leave == Leave::No {
                state.leave = Leave::Wanted;
            }
        }
        self.0.leave_if_wanted();
    }

    /// Whether the session is still in the store.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0.state.lock().leave != Leave::Done
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attachment").field(&self.0.session).finish()
    }
}

impl Entry {
    /// Keeps the session in the store while an append is being published; `None` if it has left.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        let shared = self.shared.upgrade()?;
        let mut state = self.state.lock();
        if state.leave == Leave::Done {
            return None;
        }
        state.publishing = state.publishing.saturating_add(1);
        Some(Held { entry: self, validators: shared.validators.now(), events: shared.events.now() })
    }

    fn leave_if_wanted(&self) {
        let was_announced = {
            let mut state = self.state.lock();
            let busy = state.publishing > 0 || state.announced == Announced::Running;
            if state.leave != Leave::Wanted || busy {
                return;
            }
            state.leave = Leave::Done;
            state.announced == Announced::Yes
        };
        let shared = self.shared.upgrade();
        if let Some(shared) = &shared {
            let mut live = shared.live.lock();
            live.entries.remove(&self.number);
            if live.by_id.get(self.session.id()) == Some(&self.number) {
                live.by_id.remove(self.session.id());
            }
        }
        {
            let mut attached = self.session.entry().lock();
            if attached.upgrade().is_some_and(|entry| std::ptr::eq(Arc::as_ptr(&entry), self)) {
                *attached = Weak::new();
            }
        }
        if let Some(shared) = shared.filter(|_| was_announced) {
            for disposed in shared.disposed.now() {
                if let Err(failure) = contained(|| disposed(&self.session)) {
                    self.session.settings().report(&self.session, &failure);
                }
            }
        }
    }
}

/// An append that is being published, and who will hear of it.
pub(crate) struct Held<'a> {
    entry: &'a Entry,
    validators: Calls<Observe>,
    events: Calls<Observe>,
}

impl Held<'_> {
    /// Asks every validator.
    pub(crate) fn validate(&mut self, session: &Session, event: &Event<'_>) -> Result<(), CallFailure> {
        self.validators.try_for_each(|validate| contained(|| validate(session, event)))
    }

    /// Tells every listener.
    pub(crate) fn publish(&mut self, session: &Session, event: &Event<'_>) {
        for observe in &mut self.events {
            session.tell(&*observe, event);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.entry.state.lock();
            state.publishing = state.publishing.saturating_sub(1);
        }
        self.entry.leave_if_wanted();
    }
}
