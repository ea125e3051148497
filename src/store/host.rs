//! Sessions of a host: created, resumed and forked in memory and in a store at once.

use std::sync::Arc;

use parking_lot::Mutex;

use super::cancel::Cancel;
use super::handle::SessionAccess;
use super::interrupted::ClosedLog;
use super::projection::LiveProjections;
use super::query::{Query, QueryOptions};
use super::seam::{SessionHandle, SessionPersistence};
use crate::error::Error;
use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::session::{
    Attachment, CreateFault, ForkFault, HostError, LiveFault, Session, Sessions, Settings, child_header,
    fork_prefix,
};

/// Makes the sessions of a host live: each one in memory, among the live [`Sessions`], and in the store.
///
/// A session is published only when all that it starts with is stored, so whoever hears of it may rely on that. If anything
/// fails before, the handle is closed: what was never stored leaves nothing behind, and its id is free.
///
/// Works over any [`SessionPersistence`], and does nothing that a host could not do through it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    store: Option<Arc<dyn SessionPersistence>>,
    sessions: Sessions,
    settings: Settings,
    projections: Option<LiveProjections>,
}

/// Why a session did not become live, or did not end as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostFault {
    /// The host has no store, so it has nothing to resume.
    #[error("there is no store to resume a session from")]
    NoPersistence,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// The session cannot start with these events.
    #[error(transparent)]
    Create(#[from] CreateFault),
    /// The parent cannot be forked there.
    #[error(transparent)]
    Fork(#[from] ForkFault),
    /// The live sessions refused it, or one of that id is live.
    #[error(transparent)]
    Live(#[from] LiveFault),
    /// The caller's setup failed.
    #[error("setting the session up failed")]
    Setup(#[source] HostError),
    /// Something failed, and then the handle could not be closed as it should. The session is free all the same.
    #[error("{first}; and then its handle did not close")]
    NotClosed {
        /// What failed first.
        first: Box<Self>,
        /// What the close gave.
        source: Error,
    },
}

impl HostFault {
    /// Whether the store holds no session of that id.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }
}

/// What a host appends to a session before anybody hears of it: its own first events, which a fork's child has behind the
/// mark of what it inherited.
pub type Setup<'a> = &'a mut dyn FnMut(&Session) -> Result<(), HostError>;

/// Appends nothing.
///
/// # Errors
/// None.
pub fn no_setup(_: &Session) -> Result<(), HostError> {
    Ok(())
}

impl Host {
    /// A host that keeps its sessions in `store`; `settings` are those of the sessions.
    #[must_use]
    pub fn new(store: Arc<dyn SessionPersistence>, settings: Settings) -> Self {
        let sessions = Sessions::new(settings.clone());
        Self { store: Some(store), sessions, settings, projections: None }
    }

    /// A host that keeps its sessions in memory only. It can resume none.
    #[must_use]
    pub fn in_memory(settings: Settings) -> Self {
        let sessions = Sessions::new(settings.clone());
        Self { store: None, sessions, settings, projections: None }
    }

    /// The same host, which has the states of `projections` kept for its sessions: when one is created, after a flush behind the
    /// end of a turn or some hundred events, and when one is closed. Whatever fails about that is not told.
    #[must_use]
    pub fn with_projections(self, projections: LiveProjections) -> Self {
        Self { projections: Some(projections), ..self }
    }

    /// The live sessions: for those who want to hear of them.
    #[must_use]
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// A view of the live sessions and the stored ones together, which owns none of them. What it reads it keeps for its next
    /// reader, so ask once and keep it.
    #[must_use]
    pub fn query(&self, options: QueryOptions) -> Query {
        Query::over(self.store.clone(), &self.sessions, options)
    }

    /// Creates a session that begins with nothing but what `setup` appends.
    ///
    /// # Errors
    /// [`HostFault`]; nothing of the session is left then, unless a listener refused it when it was stored already.
    pub fn create(
        &self,
        header: Header,
        setup: Setup<'_>,
        cancel: &Cancel,
    ) -> Result<OpenSession, HostFault> {
        let session = Session::create(header, &self.settings)?;
        self.begin(session, setup, cancel)
    }

    /// Creates a session that begins with what `parent` holds up to event `boundary`, included; with all of it without one.
    /// No turn may be open there.
    ///
    /// The parent need not be live. Time O(bytes of the events): they are checked like any seed, then stored.
    ///
    /// # Errors
    /// As [`Host::create`], and [`HostFault::Fork`].
    pub fn fork(
        &self,
        parent: &Session,
        boundary: Option<u64>,
        child: Text,
        setup: Setup<'_>,
        cancel: &Cancel,
    ) -> Result<OpenSession, HostFault> {
        let seed = fork_prefix(&parent.log(), boundary)?;
        let profile = self.settings.profile();
        let header = child_header(parent.header(), child, self.settings.now(), seed.len(), profile)
            .map_err(ForkFault::from)?;
        let session = Session::seeded(header, &seed, Some(seed.len()), &self.settings)?;
        self.begin(session, setup, cancel)
    }

    /// Resumes a stored session. Takes it for this host, reads all of it, and appends what closes a turn that a crash left
    /// open; a second resume of the same log then appends nothing but what `setup` does.
    ///
    /// # Errors
    /// [`HostFault::NoPersistence`]; [`HostFault::Store`], with [`Error::NotFound`] and [`Error::AlreadyOwned`] among others;
    /// [`HostFault::Create`] for a log whose events no session holds, which stays as it is. The session is free then.
    pub fn resume(&self, id: &Text, setup: Setup<'_>, cancel: &Cancel) -> Result<OpenSession, HostFault> {
        let store = self.store.as_ref().ok_or(HostFault::NoPersistence)?;
        // Before anything is read: from here on nobody else appends.
        let handle = store.open(id, SessionAccess::Write, cancel)?;
        let restored = self.restore(&*handle, cancel);
        let session = match restored {
            Ok(session) => session,
            Err(fault) => return Err(closed_after(fault, Some(&*handle))),
        };
        self.go_live(session, Some(handle), setup, cancel)
    }

    /// Resumes the session of the header's id, or creates it with that header if there is none. Anything else that keeps it
    /// from being resumed stays an error.
    ///
    /// # Errors
    /// As [`Host::resume`] and [`Host::create`].
    pub fn resume_or_create(
        &self,
        header: Header,
        setup: Setup<'_>,
        cancel: &Cancel,
    ) -> Result<OpenSession, HostFault> {
        match self.resume(header.id(), setup, cancel) {
            Err(fault) if fault.is_not_found() => self.create(header, setup, cancel),
            outcome => outcome,
        }
    }

    /// The stored session as it goes on: with what closes its open turn, which nothing has stored yet.
    fn restore(&self, handle: &dyn SessionHandle, cancel: &Cancel) -> Result<Arc<Session>, HostFault> {
        let ClosedLog { log, .. } = ClosedLog::read(handle, self.settings.limits(), cancel)?;
        let header = handle.header().clone();
        let cut = (header.seeding() != Seeding::Unseeded).then(|| handle.inherited_event_count());
        Ok(Session::restore(header, &log, cut, &self.settings)?)
    }

    fn begin(
        &self,
        session: Arc<Session>,
        setup: Setup<'_>,
        cancel: &Cancel,
    ) -> Result<OpenSession, HostFault> {
        let header = session.header();
        let cut = (header.seeding() != Seeding::Unseeded).then(|| session.inherited_event_count());
        let store = self.store.as_ref();
        let handle = store.map(|store| store.create(header.clone(), cut, cancel)).transpose()?;
        self.go_live(session, handle, setup, cancel)
    }

    /// Stores what the session starts with, and publishes it.
    fn go_live(
        &self,
        session: Arc<Session>,
        handle: Option<Arc<dyn SessionHandle>>,
        setup: Setup<'_>,
        cancel: &Cancel,
    ) -> Result<OpenSession, HostFault> {
        let mut run = || {
            if handle.as_ref().is_some_and(|handle| handle.next_seq() > Some(0)) {
                // What closes an open turn, and the mark of a new lifecycle.
                store_rest(&session, handle.as_deref(), cancel)?;
            }
            setup(&session).map_err(HostFault::Setup)?;
            store_rest(&session, handle.as_deref(), cancel)?;
            Ok(self.sessions.publish(&session)?)
        };
        match run() {
            Ok(attachment) => {
                let projections = self.projections.clone();
                let open = OpenSession { attachment, handle, projections, storing: Mutex::new(()) };
                open.keep_beginning(cancel);
                Ok(open)
            }
            Err(fault) => Err(closed_after(fault, handle.as_deref())),
        }
    }
}

/// Appends what `session` has and its handle does not. Gives the number of events.
fn store_rest(
    session: &Session,
    handle: Option<&dyn SessionHandle>,
    cancel: &Cancel,
) -> Result<u64, HostFault> {
    let Some(handle) = handle else { return Ok(0) };
    let rest = session.log().suffix(handle.next_seq().unwrap_or(u64::MAX));
    let rows: Vec<&[u8]> = rest.iter().map(|event| event.line().as_bytes()).collect();
    if !rows.is_empty() {
        handle.append(&rows, cancel)?;
    }
    Ok(rest.len())
}

/// `fault`, behind which the handle is closed.
fn closed_after(fault: HostFault, handle: Option<&dyn SessionHandle>) -> HostFault {
    match handle.map(SessionHandle::close) {
        Some(Err(source)) => HostFault::NotClosed { first: Box::new(fault), source },
        Some(Ok(())) | None => fault,
    }
}

/// A live session and the handle that stores it.
///
/// What is appended to the session is stored by [`OpenSession::store`] or [`OpenSession::flush`], or by whoever listens to
/// the live sessions and writes behind them: then [`OpenSession::flush`] alone is to be called.
///
/// Dropping it ends the session's stay among the live ones and frees it; events that were not stored are lost then. Call
/// [`OpenSession::close`].
#[derive(Debug)]
#[must_use = "dropping it frees the session; close it"]
pub struct OpenSession {
    attachment: Attachment,
    handle: Option<Arc<dyn SessionHandle>>,
    projections: Option<LiveProjections>,
    /// Held while the events of one stretch are stored.
    storing: Mutex<()>,
}

impl OpenSession {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        self.attachment.session()
    }

    /// The handle that stores it; none in a host without a store.
    #[must_use]
    pub const fn handle(&self) -> Option<&Arc<dyn SessionHandle>> {
        self.handle.as_ref()
    }

    /// Stores what was appended to the session and is not stored yet, as one batch. Gives the number of events.
    ///
    /// # Errors
    /// As [`SessionHandle::append`]; a later call tries the same events again.
    pub fn store(&self, cancel: &Cancel) -> Result<u64, HostFault> {
        let _storing = self.storing.lock();
        store_rest(self.session(), self.handle.as_deref(), cancel)
    }

    /// Stores what is not stored yet and makes all of it durable: what a checkpoint calls before a model is asked or a tool
    /// runs.
    ///
    /// # Errors
    /// As [`OpenSession::store`] and [`SessionHandle::flush`].
    pub fn flush(&self, cancel: &Cancel) -> Result<(), HostFault> {
        self.store(cancel)?;
        let Some(handle) = &self.handle else { return Ok(()) };
        handle.flush(cancel)?;
        if let Some(projections) = &self.projections {
            projections.flushed(self.session());
        }
        Ok(())
    }

    /// Keeps the states of what the session begins with.
    fn keep_beginning(&self, cancel: &Cancel) {
        let Some((projections, handle)) = self.projections.as_ref().zip(self.handle.as_ref()) else { return };
        // One without events is not to be stored yet.
        if handle.next_seq() > Some(0) && handle.flush(cancel).is_ok() {
            projections.keep(self.session());
        }
    }

    /// Stores what is not stored yet, closes the handle, and ends the session's stay among the live ones. Each is done
    /// although one before it failed.
    ///
    /// # Errors
    /// [`HostFault`]: the first failure, and the close's with it.
    pub fn close(self) -> Result<(), HostFault> {
        let stored = self.store(&Cancel::never());
        let handle = self.handle.as_deref();
        match stored {
            Ok(_) => {
                let Some(handle) = handle else { return Ok(()) };
                handle.close()?;
                if let Some(projections) = &self.projections {
                    projections.keep(self.session());
                }
                Ok(())
            }
            Err(fault) => Err(closed_after(fault, handle)),
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.attachment.detach();
    }
}
