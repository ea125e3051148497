//! The one public error boundary: everything that a store, a handle or a verb can fail with.

use std::io;
use std::path::PathBuf;

use crate::container::disk::LockOwner;
use crate::container::{Fault, ReadError};
use crate::format::Refusal;
use crate::row::{CutFault, HeaderFault, RowFault};
use crate::units::Generation;

/// What every fallible call of a store returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store refused.
///
/// `Display` tells this layer only; [`std::error::Error::source`] holds the cause. Ids are shown with control characters
/// escaped, so that no id can drive a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A session of that id is stored, pending, or being created.
    #[error("session {id} exists already")]
    AlreadyExists {
        /// The id, printable.
        id: String,
    },
    /// Another handle, instance or process writes that session.
    #[error("session {id} is open for writing elsewhere{}", owner_words(.owner.as_ref()))]
    AlreadyOwned {
        /// The id, printable.
        id: String,
        /// Who says to hold the lock, where it is another process and says so.
        owner: Option<LockOwner>,
    },
    /// No log of that session is visible here.
    #[error("no session {id} is stored here")]
    NotFound {
        /// The id, printable.
        id: String,
    },
    /// A writing operation on a handle that reads.
    #[error("session {id} is open for reading; {operation} needs a handle that writes")]
    ReadOnly {
        /// The id, printable.
        id: String,
        /// The operation's name.
        operation: &'static str,
    },
    /// An operation on a handle that was closed, or that began to close.
    #[error("{operation} on a closed handle of session {id}")]
    HandleClosed {
        /// The id, printable.
        id: String,
        /// The operation's name.
        operation: &'static str,
    },
    /// A write or a sync failed and could not be undone, so what the disk holds is not known. Close and open again.
    #[error("an earlier write to session {id} failed; open it again to go on")]
    Poisoned {
        /// The id, printable.
        id: String,
    },
    /// Committed bytes or rows are damaged. Nothing was dropped.
    #[error("{}: corrupt at byte {offset}; the {intact} events before it are intact and can be salvaged", .path.display())]
    Corruption {
        /// The log.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Events before the damage.
        intact: u64,
        /// What is wrong there.
        source: Damage,
    },
    /// The end of the log is damaged and nothing proves that a crash did it. It can be read up to there.
    #[error(
        "{}: the end is damaged at byte {offset}, and it may have been acknowledged; the {intact} events before it are intact",
        .path.display()
    )]
    DamagedTail {
        /// The log.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Events before the damage.
        intact: u64,
        /// What is wrong there.
        source: Damage,
    },
    /// The last append was cut short. What it was writing was never acknowledged; the next append repairs the log.
    #[error(
        "{}: the last append was cut short: {torn} torn bytes from byte {offset} on, behind {intact} intact events",
        .path.display()
    )]
    TornTail {
        /// The log.
        path: PathBuf,
        /// Byte offset behind the last whole record.
        offset: u64,
        /// Bytes from there to the end of the file; 0 where only the end of the append is missing.
        torn: u64,
        /// Events before.
        intact: u64,
    },
    /// The log is intact, and this build cannot interpret it.
    #[error("{}: {reason}", .path.display())]
    FormatUnsupported {
        /// The log.
        path: PathBuf,
        /// What is not understood.
        reason: Unsupported,
    },
    /// The log is of an older generation and cannot be converted without losing or inventing something, or it breaks the
    /// rules of its own generation: [`Refusal::class`] tells. It stays as it is.
    #[error("{}: the log cannot be converted to {}", .path.display(), Generation::CURRENT)]
    Refused {
        /// The log.
        path: PathBuf,
        /// The first rule that it breaks.
        source: Refusal,
    },
    /// An argument that no session can have.
    #[error("{what}")]
    InvalidArgument {
        /// What is wrong with it.
        what: String,
    },
    /// A row of a batch is not what its log may hold. Nothing of the batch was stored.
    #[error("row {index} of the batch cannot be stored")]
    InvalidRow {
        /// Place in the batch, from 0.
        index: usize,
        /// What is wrong with it.
        source: RowFault,
    },
    /// A batch does not continue the log. Nothing of it was stored.
    #[error("session {id} continues with seq {expected}, but row {index} of the batch has seq {actual}")]
    SeqMismatch {
        /// The id, printable.
        id: String,
        /// The seq that the log continues with at that row.
        expected: u64,
        /// Place in the batch, from 0.
        index: usize,
        /// The row's seq.
        actual: u64,
    },
    /// An event of a batch is of a type that readers of the log do not know, and they may not pass over it. Nothing of the
    /// batch was stored: every later open would have been refused. See [`Admission`](crate::session::Admission).
    #[error(
        "event {seq} has the type {event_type}, which no reader knows, and it is not marked as ignorable"
    )]
    UnknownType {
        /// Place in the batch, from 0.
        index: usize,
        /// The event's seq.
        seq: u64,
        /// Its type, printable.
        event_type: String,
    },
    /// Events that were accepted are not in the stored log. Whoever has them appends them.
    #[error("session {id} has {accepted} events, and only {stored} of them are stored")]
    NotStored {
        /// The id, printable.
        id: String,
        /// Events that are stored.
        stored: u64,
        /// Events that should be.
        accepted: u64,
    },
    /// A log does not stand where its name, its header or its bytes say.
    #[error("{}: {what}", .path.display())]
    IdentityMismatch {
        /// The log.
        path: PathBuf,
        /// Both sides of the disagreement.
        what: String,
    },
    /// One id is stored in two places.
    #[error("session {id} is stored twice: {} and {}", .first.display(), .second.display())]
    DuplicateId {
        /// The id, printable.
        id: String,
        /// One place.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The folder's files do not make one log.
    #[error("{}: {what}", .path.display())]
    Layout {
        /// The folder or file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// The log became shorter than what this handle has seen.
    #[error("{}: the log shrank from {seen} to {found} events under an open handle", .path.display())]
    Shrank {
        /// The log.
        path: PathBuf,
        /// Events seen before.
        seen: u64,
        /// Events found now.
        found: u64,
    },
    /// A cursor into a log that is not the one that it was made in. Nothing was read: whoever has pages of that log begins anew.
    #[error("the cursor before event {seq} of session {id} is stale")]
    StaleCursor {
        /// The id, printable.
        id: String,
        /// The event that it stands before.
        seq: u64,
        /// What is not as it was.
        source: Stale,
    },
    /// Somebody else changed the file since this handle wrote it last. Nothing was written.
    #[error("{}: another program changed the log: {what}", .path.display())]
    Foreign {
        /// The log.
        path: PathBuf,
        /// What this handle left, and what it found.
        what: String,
    },
    /// The caller's own cancellation.
    #[error("cancelled: {reason}")]
    Cancelled {
        /// What the caller gave, unchanged.
        reason: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system refused.
    #[error("{}: {action} failed", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The refusal.
        source: io::Error,
    },
    /// Several things failed on their own.
    #[error("{} operations failed", .0.len())]
    Aggregate(Vec<Error>),
}

/// What is wrong with committed data, wherever it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// In the bytes of the container.
    #[error(transparent)]
    Bytes(#[from] Fault),
    /// In the header line.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// In a row.
    #[error(transparent)]
    Row(#[from] RowFault),
    /// In the fork cut.
    #[error(transparent)]
    Cut(#[from] CutFault),
}

/// Why an intact log cannot be interpreted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Written by a newer program.
    #[error("generation {stored} is newer than {newest}, the newest this build reads; upgrade seslog")]
    Newer {
        /// The stored generation.
        stored: Generation,
        /// The newest that this build reads.
        newest: Generation,
    },
    /// The container asks for something that this build does not know.
    #[error("the container asks for what this build does not know, at byte {at}")]
    Container {
        /// Byte offset in the file.
        at: u64,
        /// What it asks for.
        source: Fault,
    },
    /// A header or a row has a member that this build does not know, or exceeds a limit of this reader.
    #[error("what stands at byte {at} is not understood")]
    Shape {
        /// Byte offset in the file.
        at: u64,
        /// What is not understood.
        source: Damage,
    },
    /// An event that must be understood is not.
    #[error("event {seq} has the unknown type {event_type}, and it is not marked as ignorable")]
    EventType {
        /// The event's seq.
        seq: u64,
        /// Its type, printable.
        event_type: String,
    },
}

/// Why a cursor into a log is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stale {
    /// It is of another session, or of one that had the same id.
    #[error("it is of another session")]
    OtherSession,
    /// It is of another file, or of a store without files: the log was replaced, compacted, moved or migrated.
    #[error("the log is another file now")]
    OtherFile,
    /// The log ends before it.
    #[error("the log has {events} events now")]
    Shorter {
        /// How many.
        events: u64,
    },
    /// Another event stands there: what had not been acknowledged was undone, and something else was stored.
    #[error("event {seq} is another one now")]
    OtherEvent {
        /// Its seq.
        seq: u64,
    },
}

impl Error {
    /// An operating-system refusal while doing `action` to `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, action, source }
    }

    /// A failed read of the log at `path`, of which `intact` events were read before.
    pub(crate) fn read(path: impl Into<PathBuf>, intact: u64, error: ReadError) -> Self {
        let path = path.into();
        match error {
            ReadError::Io(source) => Self::Io { path, action: "reading", source },
            ReadError::Bad { at, fault } if fault.is_unsupported() => {
                Self::FormatUnsupported { path, reason: Unsupported::Container { at, source: fault } }
            }
            ReadError::Bad { at, fault } => {
                Self::Corruption { path, offset: at, intact, source: Damage::Bytes(fault) }
            }
        }
    }

    /// Whether a file became shorter while it was read: what is there now may be sound.
    pub(crate) const fn is_shrunk(&self) -> bool {
        matches!(self, Self::Corruption { source: Damage::Bytes(Fault::Shrunk), .. })
    }

    /// The same failure, for another caller who asks how it ended. A refusal of the system keeps its number, or its kind
    /// and words where it has none. For stores, whose `close` tells every caller the same.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::AlreadyExists { id } => Self::AlreadyExists { id: id.clone() },
            Self::AlreadyOwned { id, owner } => Self::AlreadyOwned { id: id.clone(), owner: owner.clone() },
            Self::NotFound { id } => Self::NotFound { id: id.clone() },
            &Self::ReadOnly { ref id, operation } => Self::ReadOnly { id: id.clone(), operation },
            &Self::HandleClosed { ref id, operation } => Self::HandleClosed { id: id.clone(), operation },
            Self::Poisoned { id } => Self::Poisoned { id: id.clone() },
            &Self::Corruption { ref path, offset, intact, source } => {
                Self::Corruption { path: path.clone(), offset, intact, source }
            }
            &Self::DamagedTail { ref path, offset, intact, source } => {
                Self::DamagedTail { path: path.clone(), offset, intact, source }
            }
            &Self::TornTail { ref path, offset, torn, intact } => {
                Self::TornTail { path: path.clone(), offset, torn, intact }
            }
            Self::FormatUnsupported { path, reason } => {
                Self::FormatUnsupported { path: path.clone(), reason: reason.clone() }
            }
            Self::Refused { path, source } => Self::Refused { path: path.clone(), source: source.clone() },
            Self::InvalidArgument { what } => Self::InvalidArgument { what: what.clone() },
            &Self::InvalidRow { index, source } => Self::InvalidRow { index, source },
            &Self::SeqMismatch { ref id, expected, index, actual } => {
                Self::SeqMismatch { id: id.clone(), expected, index, actual }
            }
            &Self::UnknownType { index, seq, ref event_type } => {
                Self::UnknownType { index, seq, event_type: event_type.clone() }
            }
            &Self::NotStored { ref id, stored, accepted } => {
                Self::NotStored { id: id.clone(), stored, accepted }
            }
            Self::IdentityMismatch { path, what } => {
                Self::IdentityMismatch { path: path.clone(), what: what.clone() }
            }
            Self::DuplicateId { id, first, second } => {
                Self::DuplicateId { id: id.clone(), first: first.clone(), second: second.clone() }
            }
            Self::Layout { path, what } => Self::Layout { path: path.clone(), what: what.clone() },
            &Self::Shrank { ref path, seen, found } => Self::Shrank { path: path.clone(), seen, found },
            &Self::StaleCursor { ref id, seq, source } => Self::StaleCursor { id: id.clone(), seq, source },
            Self::Foreign { path, what } => Self::Foreign { path: path.clone(), what: what.clone() },
            Self::Cancelled { reason } => Self::Cancelled { reason: std::sync::Arc::clone(reason) },
            Self::Io { path, action, source } => {
                let source = source.raw_os_error().map_or_else(
                    || io::Error::new(source.kind(), source.to_string()),
                    io::Error::from_raw_os_error,
                );
                Self::Io { path: path.clone(), action, source }
            }
            Self::Aggregate(errors) => Self::Aggregate(errors.iter().map(Self::again).collect()),
        }
    }

    /// `None` for no failures, the failure itself for one, [`Error::Aggregate`] for more.
    #[must_use]
    pub fn aggregate(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Aggregate(errors)),
        }
    }
}

fn owner_words(owner: Option<&LockOwner>) -> String {
    owner.map_or_else(String::new, |owner| {
        format!(" (process {} on {})", owner.pid, owner.host.escape_default())
    })
}
