//! The peers behind one interface: what a user of each would write to keep session logs in it.

pub mod disk;
pub mod fjall;
pub mod jsonl;
pub mod jsonl_zstd;
pub mod mcap;
pub mod record;
pub mod redb;
pub mod seslog;
pub mod sqlite;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::Result;
use crate::set::{Event, Session};

/// One row as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub seq: u64,
    pub time: i64,
    pub kind: &'a [u8],
    pub payload: &'a [u8],
}

/// One session as a listing shows it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub id: String,
    pub cwd: String,
    pub created_at: i64,
    pub last_time: i64,
    pub events: u64,
    /// Bytes that it takes, as far as the peer can say.
    pub stored: u64,
}

/// Receives rows; what it gets is valid for the call.
pub type Each<'e> = &'e mut dyn FnMut(&Row<'_>);

/// When a batch is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before `append` returns.
    Batch,
    /// After `sync`.
    End,
}

/// A store to compare with.
pub trait Peer {
    /// Opens an empty folder for writing.
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>>;

    /// All sessions, by a process that knows nothing of them yet.
    fn list(&self, folder: &Path) -> Result<Vec<Listed>>;

    /// Visits all rows of a session and keeps none.
    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()>;

    /// Reads all rows of a session, and visits them when all of them are in memory together.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()>;

    /// Opens a session to read parts of it.
    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>>;
}

/// An open store.
pub trait Writer {
    /// Begins a session; `append` goes there from now on.
    fn begin(&mut self, session: &Session<'_>) -> Result<()>;

    /// Stores events behind those of the session.
    fn append(&mut self, events: &[Event<'_>]) -> Result<()>;

    /// Ends the session.
    fn end(&mut self) -> Result<()>;

    /// Makes everything durable that is not.
    fn sync(&mut self) -> Result<()>;
}

/// An open session.
pub trait Reader {
    /// The last `count` rows.
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()>;

    /// `count` rows from `seq` on.
    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()>;
}

/// The peer of a name; one name may stand for settings of another.
pub fn by_name(name: &str) -> Option<Box<dyn Peer>> {
    Some(match name {
        "jsonl" => Box::new(jsonl::Jsonl),
        "jsonl-zstd" => Box::new(jsonl_zstd::JsonlZstd),
        "sqlite-full" => Box::new(sqlite::Sqlite { synchronous: "FULL" }),
        "sqlite-normal" => Box::new(sqlite::Sqlite { synchronous: "NORMAL" }),
        "redb" => Box::new(redb::Redb),
        "fjall" => Box::new(fjall::Fjall),
        "mcap" => Box::new(mcap::Mcap),
        _ => Box::new(seslog::Seslog::by_name(name)?),
    })
}
