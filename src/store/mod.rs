//! The seam: sessions in a root folder, created, opened, read and appended to.

mod admit;
#[cfg(feature = "tokio")]
pub mod aio;
mod append;
mod behind;
mod cancel;
mod catalog;
mod checkpoint;
mod compact;
mod events;
mod folder;
mod follow;
mod handle;
mod host;
pub mod layout;
mod lease;
mod lines;
mod list;
mod lock;
mod log_file;
mod log_writer;
pub mod memory;
mod migrate;
mod open;
mod publish;
mod range;
mod recover;
mod rehome;
mod remove;
mod repair;
mod reserve;
mod restore;
mod salvage;
mod scan;
mod seam;
mod snapshot;
#[expect(clippy::module_inception, reason = "the store is one noun of the seam among several")]
mod store;
mod sync;
mod view;

pub use crate::session::Admission;
pub use admit::{check_batch, check_new};
pub use append::Durability;
pub use behind::{
    BehindOptions, BehindReport, Clock, Following, ManualClock, Routed, SystemClock, WINDOW, WriteBehind,
};
pub use cancel::{Cancel, CancelReason};
pub use catalog::Catalog;
pub use checkpoint::{Checkpoints, DoNotBeginTurn, DoNotCallModel, DoNotRunTool, FailTurn};
pub use compact::{CompactOptions, Compacted, compact};
pub use events::Events;
pub use folder::{Folder, LogName};
pub use follow::{Beginning, Cause, Follower, Start, Update, Waker, Watch};
pub use handle::{FileHandle, SessionAccess};
pub use host::{Host, HostFault, OpenSession, Setup, no_setup};
pub use log_file::{LogFile, ReadMode};
pub use log_writer::{LogWriter, Written};
pub use memory::{MemoryHandle, MemoryOptions, MemoryStorage, MemoryStore};
pub use migrate::{MigrateOptions, Migrated, MigrationOutcome, migrate};
pub use open::{OpenOptions, Validate};
pub use recover::{Recovered, plan_recovery, recover};
pub use rehome::{Rehomed, rehome};
pub use remove::{Removed, remove, remove_unchanged};
pub use repair::Repaired;
pub use reserve::Reservation;
pub use restore::restore;
pub use salvage::{Salvage, salvage};
pub use scan::{FINDINGS_MAX, Finding, Item, Place, Report, ScanOptions, Verdict, Visit, scan, scan_from};
pub use seam::{SessionHandle, SessionPersistence};
pub use snapshot::{Revision, Snapshot, State};
pub use store::{FileStore, StoreOptions};
pub use view::{LogRow, LogView};
