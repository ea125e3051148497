//! One session as it was at one moment.

use std::fmt;
use std::sync::{Arc, Weak};

use super::cold::Cold;
use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::session::{CreateFault, Log, Messages, Session, Settings};

/// One session as it was at one moment: its header, its events, and the messages they make. It never changes.
///
/// Of a stored session whose last turn was interrupted, the events end with those that close it, which are in memory only.
///
/// Readers of the same unchanged session share one observation. As long as anybody holds it, it counts for no bound of the
/// query that it came from, and stays there for others to share: it is its own lease.
pub struct Observation {
    contents: Arc<Contents>,
    live: Option<Arc<Session>>,
    /// Its place in the cache, if it has one.
    _pin: Option<Pin>,
}

/// What a session holds, checked.
#[derive(Debug)]
pub(super) struct Contents {
    header: Header,
    inherited: u64,
    log: Log,
    /// Events of `log` that are stored, or in the log of the live session.
    stored: u64,
    messages: Messages,
}

/// Keeps an entry of the cache from being evicted.
pub(super) struct Pin {
    pub(super) cold: Weak<Cold>,
    pub(super) id: Text,
    pub(super) entry: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(cold) = self.cold.upgrade() {
            cold.unpin(&self.id, self.entry);
        }
    }
}

impl Observation {
    /// What is stored, pinned to its place in the cache or not.
    pub(super) const fn of_stored(contents: Arc<Contents>, pin: Option<Pin>) -> Self {
        Self { contents, live: None, _pin: pin }
    }

    /// What was read, in no cache.
    pub(super) fn of_read(contents: Contents) -> Arc<Self> {
        Arc::new(Self::of_stored(Arc::new(contents), None))
    }

    pub(super) const fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    pub(super) fn of_live(session: Arc<Session>) -> Self {
        let (log, messages) = session.view();
        let contents = Contents {
            header: session.header().clone(),
            inherited: session.inherited_event_count(),
            stored: log.end(),
            log,
            messages,
        };
        Self { contents: Arc::new(contents), live: Some(session), _pin: None }
    }

    /// The header, in the current generation.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.contents.header
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &Text {
        self.header().id()
    }

    /// How many events came from the session that this one was forked from.
    #[must_use]
    pub fn inherited_event_count(&self) -> u64 {
        self.contents.inherited
    }

    /// All events, closers included.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.contents.log
    }

    /// The events without closers.
    #[must_use]
    pub fn stored(&self) -> Log {
        self.log().prefix(self.contents.stored)
    }

    /// The events that close the turn which a crash left open, in memory only; none of a session that is live, or whose last
    /// turn has ended.
    #[must_use]
    pub fn closers(&self) -> Log {
        self.log().suffix(self.contents.stored)
    }

    /// The events that were not inherited, closers included.
    #[must_use]
    pub fn own_events(&self) -> Log {
        self.log().suffix(self.contents.inherited)
    }

    /// What a model would be shown.
    #[must_use]
    pub fn messages(&self) -> &Messages {
        &self.contents.messages
    }

    /// The live session, if it was live: it has gone on since.
    #[must_use]
    pub const fn live(&self) -> Option<&Arc<Session>> {
        self.live.as_ref()
    }

    /// A session of the caller's own that begins with these events, as [`Session::restore`] makes it. It is live nowhere, and
    /// nothing stores it. Time O(bytes).
    ///
    /// # Errors
    /// [`CreateFault`], if `settings` are for another generation or ask for more than those of the query.
    pub fn restore(&self, settings: &Settings) -> Result<Arc<Session>, CreateFault> {
        restore(self.header(), self.inherited_event_count(), self.log(), settings)
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("id", self.id())
            .field("events", &self.log().len())
            .field("closers", &self.closers().len())
            .field("is_live", &self.live.is_some())
            .finish_non_exhaustive()
    }
}

impl Contents {
    /// Contents of a stored session, once a session can be made of them.
    ///
    /// # Errors
    /// [`CreateFault`].
    pub(super) fn checked(
        header: Header,
        inherited: u64,
        mut log: Log,
        stored: u64,
        settings: &Settings,
    ) -> Result<Self, CreateFault> {
        log.shrink();
        // The session adds a mark behind its log, and would keep a copy of the last block for it.
        let messages = restore(&header, inherited, &log, settings)?.messages().out_of(&log);
        Ok(Self { header, inherited, log, stored, messages })
    }

    /// Bytes of memory that they take, the room that vectors hold in advance included.
    pub(super) fn memory_bytes(&self) -> usize {
        let Self { header, log, messages, .. } = self;
        let texts = [Some(header.id()), header.cwd(), header.parent_session(), header.agent_preset()];
        let texts = texts.into_iter().flatten().map(|text| text.as_bytes().len());
        let parts = [size_of::<Self>(), log.memory_bytes(), messages.memory_bytes()];
        texts.chain(parts).fold(0, usize::saturating_add)
    }
}

fn restore(
    header: &Header,
    inherited: u64,
    log: &Log,
    settings: &Settings,
) -> Result<Arc<Session>, CreateFault> {
    let cut = (header.seeding() != Seeding::Unseeded).then_some(inherited);
    Session::restore(header.clone(), log, cut, settings)
}
