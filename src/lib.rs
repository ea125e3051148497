//! `seslog`: an embedded storage engine for the event logs of AI-agent sessions.

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]

pub mod format;
pub mod fuzzing;
pub mod json;
pub mod limits;
pub mod row;
pub mod units;
