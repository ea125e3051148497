//! What a list of sessions shows besides headers: whether anything has happened in a session, and when a person last asked.

use super::super::snapshot::{Snapshot, State};
use super::super::store::FileStore;
use super::list::Listed;
use crate::json::Tape;
use crate::row::{Event, Header, Seeding};
use crate::session::{Log, Overview, is_prompt};
use crate::units::UnixMs;

/// What has happened in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// No turn has begun in it.
    pub is_blank: bool,
    /// Time of the last message that a person wrote.
    pub last_prompt: Option<UnixMs>,
}

/// What a cache outside the store knows of stored sessions, such as a checkpoint of a projection.
pub trait BlankHint {
    /// What is known of that session, by a record that matches its header; nothing if there is none.
    ///
    /// `inherited` is the number of events that it inherited, as far as a list tells: 0 of a session that is no fork. Of a fork
    /// it is `None`, and a record of whatever number may match, but none that was made for 0 because the number was not known.
    fn activity(&self, stored: &Snapshot, inherited: Option<u64>) -> Option<Activity>;
}

impl<F: Fn(&Snapshot, Option<u64>) -> Option<Activity>> BlankHint for F {
    fn activity(&self, stored: &Snapshot, inherited: Option<u64>) -> Option<Activity> {
        self(stored, inherited)
    }
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHint;

impl BlankHint for NoHint {
    fn activity(&self, _stored: &Snapshot, _inherited: Option<u64>) -> Option<Activity> {
        None
    }
}

/// A session in a list, with what has happened in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The session.
    pub session: Listed,
    /// What has happened in it. Where that is not known, it is not called blank.
    pub activity: Activity,
    /// How it is known.
    pub source: ActivitySource,
}

/// How the activity of a session is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivitySource {
    /// From the live session.
    Live,
    /// From the hint.
    Hint,
    /// From its log, which was read whole.
    Read,
    /// It is not known: the log is larger than what is read for this, or what the list says of it does not tell its size.
    Unread,
    /// It is not known: the log could not be read.
    Failed,
}

impl Summary {
    /// The time that a list is sorted by: that of the last message of a person, or of the creation if that is later.
    #[must_use]
    pub fn sort_time(&self) -> Option<UnixMs> {
        // A log without a header has neither.
        self.session.created_at().max(self.activity.last_prompt)
    }
}

/// How much is read of a stored session to find out whether it is blank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates {
    pub(super) events_max: u64,
    pub(super) bytes_max: u64,
}

/// What is to be done about a stored session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Known(Activity, ActivitySource),
    Probe,
}

/// Decides by what a list and a hint say, without another look at the session.
pub(super) fn plan(stored: &Snapshot, hint: &dyn BlankHint, gates: Gates) -> Plan {
    let hinted = stored.header.as_ref().and_then(|header| hint.activity(stored, inherited(header)));
    if hinted.is_some_and(|hinted| !hinted.is_blank) || !gates.admit(stored) {
        let unread = (Activity::default(), ActivitySource::Unread);
        let (activity, source) = hinted.map_or(unread, |hinted| (hinted, ActivitySource::Hint));
        return Plan::Known(activity, source);
    }
    Plan::Probe
}

/// The number of inherited events, as far as a header tells.
const fn inherited(header: &Header) -> Option<u64> {
    match header.seeding() {
        Seeding::Unseeded => Some(0),
        Seeding::Counted(_) | Seeding::Marked => None,
    }
}

impl Gates {
    /// Whether a session is small enough to be read. The number of events decides where it is known, whatever the size.
    fn admit(self, stored: &Snapshot) -> bool {
        let is_looked_at = stored.header.is_some() && matches!(stored.state, State::Ok | State::Torn);
        let within = |count: u64, max: u64| max > 0 && count <= max;
        is_looked_at
            && match (stored.event_count, stored.size_bytes) {
                (Some(events), _) => within(events, self.events_max),
                (None, Some(bytes)) => within(bytes, self.bytes_max),
                (None, None) => false,
            }
    }
}

impl From<&Overview> for Activity {
    fn from(overview: &Overview) -> Self {
        let last_prompt = overview.last_messages.prompt.as_ref().map(|said| said.time);
        Self { is_blank: overview.is_blank(), last_prompt }
    }
}

/// What the checkpoints of the store's projections say: see [`FileStore::recall_overview`]. They know how many events a session
/// inherited, since it was read for them.
impl BlankHint for FileStore {
    fn activity(&self, stored: &Snapshot, _inherited: Option<u64>) -> Option<Activity> {
        self.recall_overview(stored).as_ref().map(Activity::from)
    }
}

impl Activity {
    /// What has happened in a session with these events. Time O(events between the last message of a person and the end, and
    /// before the first turn).
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let mut tape = Tape::default();
        Self {
            is_blank: !log.iter().any(|event| event.is("turn/start")),
            last_prompt: log
                .iter()
                .rev()
                .find(|event| is_of_person(event, &mut tape))
                .map(|event| event.time()),
        }
    }
}

fn is_of_person(event: &Event<'_>, tape: &mut Tape) -> bool {
    event.is("user/message")
        && event.is_appended()
        && tape.parse(event.data().as_bytes(), u32::MAX).is_ok_and(|message| is_prompt(event, message))
}
