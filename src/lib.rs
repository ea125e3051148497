//! An embedded storage engine for the event logs of AI-agent sessions.
//!
//! A session's log is one JSON header line and then event rows, one a line. [`store::FileStore`] keeps such logs in a root
//! folder: every acknowledged append survives a crash, and any session opens in milliseconds. What stands on disk is
//! described by `format-spec/`, in three encodings that hold the same rows.
//!
//! | layer | knows | does not know |
//! |---|---|---|
//! | [`json`] | one JSON value, as JavaScript reads it | rows |
//! | [`container`] | bytes: frames, trailers, lines, files, torn tails | JSON, sessions |
//! | [`row`] | one line as a borrowed row | files |
//! | [`stream`] | assistant streams inside their settlements | rows, files |
//! | [`session`] | the logical log: surface, messages, forks, live sessions | inventories, files |
//! | [`format`](mod@format) | generations, their inventories, migrations | where files live |
//! | [`store`] | sessions: create, open, stat, list; publication, locks, repair | screens |
//! | [`live`] | attempts while they run, and their followers | screens |
//! | [`export`] | sessions as text and as a ZIP | where stores keep them |
//! | `contract` | the rules that every store keeps, as tests (feature `contract-tests`) | screens |
//!
//! Each layer uses only those above it in this table.

pub mod container;
#[cfg(feature = "contract-tests")]
pub mod contract;
mod error;
pub mod export;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
pub mod limits;
pub mod live;
pub mod row;
pub mod session;
pub mod store;
pub mod stream;
pub mod units;

pub use error::{Damage, Error, Result, Stale, Unsupported};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
