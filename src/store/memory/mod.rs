//! Sessions in memory, by the contract of the seam, without a file.
//!
//! This is a backend of its own, not the file store over a disk that pretends: it shares with it how a row is read, what
//! an append admits, and how an older generation is converted, and nothing of how logs are kept. So each checks the other.

mod claims;
mod convert;
#[cfg(feature = "fault")]
mod faults;
mod handle;
mod hooks;
mod judge;
mod log;
mod look;
mod read;
mod rows;
mod storage;
mod store;

#[cfg(feature = "fault")]
pub use faults::RawLog;
pub use handle::MemoryHandle;
#[cfg(feature = "fault")]
pub use hooks::Step;
pub use storage::MemoryStorage;
pub use store::{MemoryOptions, MemoryStore};
