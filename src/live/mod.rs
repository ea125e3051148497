//! Watching a session while it runs: model attempts chunk by chunk, beside the events as they are stored.
//!
//! Nothing of this is stored, and nothing leaves the process: a host sends on what it likes. A [`LiveHandle`] stands before the
//! handle that writes a session. [`LiveHandle::begin_attempt`] opens an [`Attempt`], whose chunks go into the records of its
//! settlement and, as [`Frame`]s, to whoever follows. The settlement is stored and flushed before the end frame names it; an
//! attempt that is abandoned, or whose process dies, leaves nothing.
//!
//! Followers share one bounded ring. A slow one costs the writer nothing: it is told that it has a gap
//! ([`Delivery::Gap`]) and begins again with a [`Baseline`], as does one that comes late. [`View`] is the client's side: it
//! folds baseline, frames and events into what a screen shows.
//!
//! Logs that other processes write are followed with [`Follower`](crate::store::Follower).

mod attempt;
mod baseline;
mod follower;
mod frame;
mod handle;
mod hub;
mod replay;
mod ring;
mod settle;
mod view;

pub use attempt::{Attempt, AttemptFault};
pub use baseline::{ActiveAttempt, Baseline};
pub use follower::{Delivery, LiveEvent, LiveFollower};
pub use frame::{Frame, Outcome, Step};
pub use handle::{LiveHandle, LiveOptions};
pub use replay::{Pace, ReplayError, replay};
pub use settle::{Answer, Ending, SettleError, Settled};
pub use view::{Change, Decision, Entry, LiveRow, View};
