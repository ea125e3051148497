//! `seslog`: an embedded storage engine for the event logs of AI-agent sessions.

pub mod container;
pub mod json;
pub mod limits;
pub mod stream;
pub mod units;
