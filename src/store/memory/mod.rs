//! Sessions in memory, by the contract of the seam, without a file.
//!
//! This is a backend of its own, not the file store over a disk that pretends: it shares with it how a row is read, what
//! an append admits, and how an older generation is converted, and nothing of how logs are kept. So each checks the other.
//!
//! ```
//! use seslog::json::Text;
//! use seslog::row::Header;
//! use seslog::store::{Durability, MemoryOptions, MemoryStorage, MemoryStore, SessionAccess};
//! use seslog::units::{Generation, UnixMs};
//!
//! let storage = MemoryStorage::new();
//! let mut options = MemoryOptions::default();
//! options.durability = Durability::OnFlush;
//! let crashing = MemoryStore::with_options(&storage, options);
//! let header = Header::new(Generation::CURRENT, Text::from("s-1"), UnixMs::new(5))?;
//! let session = crashing.create(header, None)?;
//! session.append(&[br#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#])?;
//! session.flush()?;
//! session.append(&[br#"{"type":"step/start","seq":1,"time":7,"data":{"turn":1,"step":1}}"#])?;
//! crashing.crash();
//!
//! let session = MemoryStore::new(&storage).open(&Text::from("s-1"), SessionAccess::Write)?;
//! assert_eq!(session.read(0, 10)?.len(), 1, "what was flushed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
