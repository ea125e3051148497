//! Forks: a new session that begins with what another one began with.

use super::log::Log;
use super::profile::{CutForm, Profile};
use super::registry::LiveFault;
use super::seed::CreateFault;
use crate::json::Text;
use crate::row::{Header, HeaderFault, Seeding};
use crate::units::UnixMs;

/// Why a session cannot be forked there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkFault {
    /// No such session is live.
    #[error("no session of that id is live")]
    NotFound,
    /// Another session is live under that id.
    #[error("the session is not the live one of its id")]
    NotLive,
    /// The child's id is taken.
    #[error("a session of the child's id is live already")]
    AlreadyExists,
    /// The boundary is no event of the log.
    #[error("event {boundary} is not in a log of {events} events")]
    Boundary {
        /// The seq that was given.
        boundary: u64,
        /// Events in the log.
        events: u64,
    },
    /// A turn is open at the boundary.
    #[error("the turn that event {start} starts is open there")]
    OpenTurn {
        /// The `turn/start`.
        start: u64,
    },
    /// The child's header would not be one.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// The child cannot start with these events.
    #[error(transparent)]
    Create(#[from] CreateFault),
    /// The child was refused when it was announced.
    #[error(transparent)]
    Refused(LiveFault),
}

impl ForkFault {
    /// The original's code; `None` for what it has no code for.
    #[must_use]
    pub const fn code(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound => "SESSION_NOT_FOUND",
            Self::NotLive => "SESSION_NOT_LIVE",
            Self::AlreadyExists => "SESSION_ALREADY_EXISTS",
            Self::Boundary { .. } => "INVALID_BOUNDARY",
            Self::OpenTurn { .. } => "OPEN_TURN",
            Self::Header(_) | Self::Create(_) | Self::Refused(_) => return None,
        })
    }
}

/// The events of `log` up to `boundary`, which is included; all of them without one. They are shared, not copied.
///
/// # Errors
/// [`ForkFault::Boundary`], and [`ForkFault::OpenTurn`] if the last start or end of a turn there is a start.
pub fn fork_prefix(log: &Log, boundary: Option<u64>) -> Result<Log, ForkFault> {
    let end = match boundary {
        None => log.end(),
        Some(boundary) if (log.base()..log.end()).contains(&boundary) => boundary.saturating_add(1),
        Some(boundary) => return Err(ForkFault::Boundary { boundary, events: log.end() }),
    };
    let prefix = log.prefix(end);
    let edge = prefix.iter().rev().find(|event| event.is("turn/start") || event.is("turn/end"));
    match edge {
        Some(event) if event.is("turn/start") => Err(ForkFault::OpenTurn { start: event.seq().get() }),
        _ => Ok(prefix),
    }
}

/// The header of a child of `parent` that inherits `cut` events: where the parent works, and whose child it is.
///
/// # Errors
/// [`HeaderFault::Member`] for a time that no session can be created at.
pub fn child_header(
    parent: &Header,
    id: Text,
    created_at: UnixMs,
    cut: u64,
    profile: &Profile,
) -> Result<Header, HeaderFault> {
    let generation = profile.generation();
    let seeding = match profile.cut() {
        CutForm::Counted => Seeding::Counted(cut),
        CutForm::Marked => Seeding::Marked,
    };
    let child = Header::new(generation, id, created_at)?.with_seeding(generation, seeding)?;
    let child = child.with_parent_session(parent.id().clone());
    match parent.cwd() {
        Some(cwd) => child.with_cwd(cwd.clone()),
        None => Ok(child),
    }
}
