//! `seslog`: an embedded storage engine for the event logs of AI-agent sessions.

pub mod format;
pub mod json;
pub mod limits;
pub mod units;
