//! Why a query fails.

use super::super::cancel::CancelReason;
use super::super::layout::printable;
use crate::error::Error;
use crate::json::Text;
use crate::session::CreateFault;

/// Why a query has no answer. Nothing was changed by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFault {
    /// No session of that id is live or stored.
    #[error("no session {id} is live or stored here")]
    NotFound {
        /// The id, printable.
        id: String,
    },
    /// A session is live and stored, and the two have not the same header: they are not one session.
    #[error("session {id} is live with one {} and stored with another", .fields.join(", "))]
    SourceConflict {
        /// The id, printable.
        id: String,
        /// The members that differ, by their names in a header.
        fields: Vec<&'static str>,
    },
    /// The stored log is damaged, or no session can be made of its events.
    #[error("session {id} is corrupt")]
    CorruptSession {
        /// The id, printable.
        id: String,
        /// What is wrong with it.
        source: Corrupt,
    },
    /// The caller's own cancellation.
    #[error("cancelled: {reason}")]
    Aborted {
        /// What the caller gave, unchanged.
        reason: CancelReason,
    },
    /// The store refused: it could not be read, or it holds what this build does not interpret.
    #[error("the store gave no answer{}", .id.as_ref().map_or_else(String::new, |id| format!(" about session {id}")))]
    PersistenceFailed {
        /// The id, printable; none where all sessions were asked for.
        id: Option<String>,
        /// What it said.
        source: Error,
    },
}

/// What makes a stored session unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// Its log is damaged.
    #[error(transparent)]
    Log(Error),
    /// Its log is in order, and its events make no session.
    #[error(transparent)]
    Events(CreateFault),
}

impl QueryFault {
    /// The fault's name in the protocol of hosts.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SESSION_QUERY_SESSION_NOT_FOUND",
            Self::SourceConflict { .. } => "SESSION_QUERY_SOURCE_CONFLICT",
            Self::CorruptSession { .. } => "SESSION_QUERY_CORRUPT_SESSION",
            Self::Aborted { .. } => "SESSION_QUERY_ABORTED",
            Self::PersistenceFailed { .. } => "SESSION_QUERY_PERSISTENCE_FAILED",
        }
    }

    pub(super) fn not_found(id: &Text) -> Self {
        Self::NotFound { id: printable(id) }
    }

    /// What the store said when it was asked for session `id`.
    pub(super) fn of_session(id: &Text, error: Error) -> Self {
        match error {
            Error::Cancelled { reason } => Self::Aborted { reason },
            // The caller's reason is what it waits for; what else failed then failed because of it.
            Error::Aggregate(errors) if errors.iter().any(is_cancelled) => errors
                .into_iter()
                .find(is_cancelled)
                .map_or_else(|| Self::not_found(id), |error| Self::of_session(id, error)),
            Error::NotFound { .. } => Self::not_found(id),
            error if is_damage(&error) => {
                Self::CorruptSession { id: printable(id), source: Corrupt::Log(error) }
            }
            source => Self::PersistenceFailed { id: Some(printable(id)), source },
        }
    }

    pub(super) fn of_events(id: &Text, fault: CreateFault) -> Self {
        Self::CorruptSession { id: printable(id), source: Corrupt::Events(fault) }
    }

    /// What the store said when it was asked for all sessions.
    pub(super) fn of_listing(error: Error) -> Self {
        match error {
            Error::Cancelled { reason } => Self::Aborted { reason },
            source => Self::PersistenceFailed { id: None, source },
        }
    }

    pub(super) const fn is_aborted(&self) -> bool {
        matches!(self, Self::Aborted { .. })
    }
}

const fn is_cancelled(error: &Error) -> bool {
    matches!(error, Error::Cancelled { .. })
}

/// Whether the log itself is what is wrong.
const fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Corruption { .. }
            | Error::DamagedTail { .. }
            | Error::TornTail { .. }
            | Error::InvalidRow { .. }
            | Error::Shrank { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::container::Fault;
    use crate::error::{Damage, Unsupported};
    use crate::units::Generation;

    #[test]
    fn every_answer_of_a_store_has_its_one_code() {
        let path = PathBuf::from("/log");
        let id = Text::from("a\u{1b}b");
        let cancelled =
            || Error::Cancelled { reason: Arc::new(std::io::Error::other("enough")) as CancelReason };
        let io = || Error::io("/log", "reading")(std::io::ErrorKind::PermissionDenied.into());
        let newer = Unsupported::Newer { stored: Generation::new(9), newest: Generation::CURRENT };
        let damage = Damage::Bytes(Fault::Truncated);
        let table = [
            (Error::NotFound { id: "a".into() }, "SESSION_QUERY_SESSION_NOT_FOUND"),
            (
                Error::Corruption { path: path.clone(), offset: 1, intact: 0, source: damage },
                "SESSION_QUERY_CORRUPT_SESSION",
            ),
            (Error::Shrank { path: path.clone(), seen: 2, found: 1 }, "SESSION_QUERY_CORRUPT_SESSION"),
            (cancelled(), "SESSION_QUERY_ABORTED"),
            (Error::Aggregate(vec![io(), cancelled()]), "SESSION_QUERY_ABORTED"),
            (Error::Aggregate(vec![io(), io()]), "SESSION_QUERY_PERSISTENCE_FAILED"),
            (io(), "SESSION_QUERY_PERSISTENCE_FAILED"),
            (Error::FormatUnsupported { path, reason: newer }, "SESSION_QUERY_PERSISTENCE_FAILED"),
        ];
        for (error, code) in table {
            let shown = format!("{error:?}");
            assert_eq!(QueryFault::of_session(&id, error).code(), code, "{shown}");
        }
        assert_eq!(QueryFault::not_found(&id).to_string(), "no session a\\u{1b}b is live or stored here");
        assert!(QueryFault::of_listing(cancelled()).is_aborted());
    }
}
