//! The seam: sessions in a root folder, created, opened, read and appended to.

mod append;
mod folder;
pub mod layout;
mod log_file;
mod publish;
mod repair;
mod scan;

pub use append::Durability;
pub use folder::{Folder, LogName};
pub use log_file::{LogFile, ReadMode};
pub use repair::Repaired;
pub use scan::{FINDINGS_MAX, Finding, Item, Place, Report, ScanOptions, Verdict, scan};
