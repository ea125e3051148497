//! Folds over the events of a log that go on where they were left: what a list shows of a session, and what a host asks of it
//! again and again.
//!
//! A [`Projection`] is pure: its state depends on the events and on nothing else, so a state that was kept is as good as one that is
//! folded anew. What a kept state is valid for is not for it to say: see [`CheckpointKey`](super::CheckpointKey) and
//! [`StateMark`](super::StateMark).
//!
//! Spec: `format-spec/09-caches.md`, "States".

mod counts;
mod input;
mod last_messages;
mod models;
mod overview;
mod preview;
mod projected;
mod set;
mod state;
mod title;
mod token_usage;
mod wall_times;

pub use counts::{Counts, TurnCounts};
pub use input::Occurrence;
pub use last_messages::{LastMessages, LastSaid, Said};
pub use models::{ModelUse, Models, ModelsUsed};
pub use overview::Overview;
pub use preview::Preview;
pub use projected::{OutOfOrder, Projected};
pub(crate) use set::KEY_BYTES_MAX;
pub use set::{Projection, Projections};
pub use title::{SessionTitle, Title, TitleSource};
pub use token_usage::{ModelTokens, TokenSums, TokenTotals, Tokens};
pub use wall_times::{WallClock, WallTimes};
