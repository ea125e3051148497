//! Watching a session while it runs: model attempts chunk by chunk, beside the events as they are stored.
//!
//! Nothing of this is stored, and nothing leaves the process: a host sends on what it likes. A [`LiveHandle`] stands before the
//! handle that writes a session. [`LiveHandle::begin_attempt`] opens an [`Attempt`], whose chunks go into the records of its
//! settlement and, as [`Frame`]s, to whoever follows. The settlement is stored and flushed before the end frame names it; an
//! attempt that is abandoned, or whose process dies, leaves nothing.
//!
//! Followers share one bounded ring. A slow one costs the writer nothing: it is told that it has a gap
//! ([`Delivery::Gap`]) and begins again with a [`Baseline`], as does one that comes late.
//!
//! [`View`] is the client's side: it folds baseline, frames and events into a window, the lines that a screen shows. [`Chat`] and
//! [`Trajectory`] follow the changes of a window, and make of it a conversation and the requests to the model. What they show in the
//! end is what the stored events alone give: folds of a cold log are the same folds.
//!
//! ```
//! use seslog::limits::Limits;
//! use seslog::live::{RequestStatus, Trajectory, WindowFold};
//! use seslog::row::{Check, Event};
//!
//! let mut trajectory = Trajectory::new();
//! for row in [
//!     r#"{"type":"step/start","seq":0,"time":5,"data":{"turn":1,"step":1}}"#,
//!     r#"{"type":"step/end","seq":1,"time":9,"data":{"turn":1,"step":1}}"#,
//! ] {
//!     trajectory.event(&Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT)?);
//! }
//! let step = trajectory.steps().next().expect("it started");
//! assert_eq!((step.key.to_string().as_str(), step.status), ("1:1", RequestStatus::Error));
//! # Ok::<(), seslog::row::RowFault>(())
//! ```
//!
//! Between processes all this travels as JSON: [`WireMessage`], with [`FollowFeed`] at one end and [`FollowClient`] at the other.
//! [`Relay`] is for a host that passes on what another process runs.
//!
//! Logs that other processes write are followed with [`Follower`](crate::store::Follower).

mod attempt;
mod baseline;
mod call;
mod chat;
mod fact;
mod fold;
mod follower;
mod frame;
mod handle;
mod hub;
mod place;
mod relay;
mod replay;
mod ring;
mod settle;
mod step;
mod sync;
mod trajectory;
mod transport;
mod view;
mod wire;

pub use attempt::{Attempt, AttemptFault};
pub use baseline::{ActiveAttempt, Baseline};
pub use call::{CallResult, CallStatus, ChatCall};
pub use chat::{AnswerStatus, Chat, ChatAnswer, ChatEntry, ChatKey, ChatMessage};
pub use fact::{Moment, Retry, StepKey};
pub use fold::{Publication, WindowFold};
pub use follower::{Delivery, LiveEvent, LiveFollower};
pub use frame::{Frame, Outcome, Step};
pub use handle::{LiveHandle, LiveOptions};
pub use place::Place;
pub use relay::Relay;
pub use replay::{Pace, ReplayError, replay};
pub use settle::{Answer, Ending, SettleError, Settled};
pub use step::{Blocks, StepTiming};
pub use trajectory::{RequestStatus, SettledAttempt, Trajectory, TrajectoryStep};
pub use transport::{FeedEnd, FollowClient, FollowFeed, TransportFault};
pub use view::{Change, Decision, Entry, LiveRow, View};
pub use wire::{FollowRequest, Snapshot, WireFault, WireMessage};
