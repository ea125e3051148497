//! `seslog`: an embedded storage engine for the event logs of AI-agent sessions.

pub mod container;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
pub mod limits;
pub mod row;
pub mod units;
