//! The store in memory: what only it does, and whether it answers as the file store does. The contract's rules run over it in
//! `tests/contract.rs`.
//!
//! `PROPTEST_CASES` (default 100) is the number of runs per encoding.

mod common;

#[path = "memory/crash.rs"]
mod crash;
#[path = "memory/generations.rs"]
mod generations;
#[path = "memory/logs.rs"]
mod logs;
#[path = "memory/owners.rs"]
mod owners;
#[path = "memory/twins.rs"]
mod twins;

use seslog::Result;
use seslog::json::Text;
use seslog::store::{Durability, MemoryHandle, MemoryOptions, MemoryStorage, MemoryStore};

fn id(id: &str) -> Text {
    Text::from(id)
}

/// An instance whose appends wait for a flush to survive a crash.
fn lazy(storage: &MemoryStorage) -> MemoryStore {
    let mut options = MemoryOptions::default();
    options.durability = Durability::OnFlush;
    MemoryStore::with_options(storage, options)
}

fn append(handle: &MemoryHandle, rows: &[String]) -> Result<()> {
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows)
}

fn read(handle: &MemoryHandle, offset: u64, length: u64) -> Result<Vec<String>> {
    let events = handle.read(offset, length)?;
    Ok(events.rows().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect())
}

fn read_all(handle: &MemoryHandle) -> Result<Vec<String>> {
    read(handle, 0, u64::MAX)
}
