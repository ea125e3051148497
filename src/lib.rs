//! `seslog`: an embedded storage engine for the event logs of AI-agent sessions.

pub mod container;
mod error;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
pub mod limits;
pub mod row;
pub mod store;
pub mod stream;
pub mod units;

pub use error::{Damage, Error, Result, Unsupported};
