//! Tasks that the peers have no like of.

use std::path::Path;
use std::time::Instant;

use seslog::json::Text;
use seslog::store::SessionAccess;

use crate::Result;
use crate::digest::Digest;
use crate::peer::Sync;
use crate::peer::seslog::Seslog;
use crate::sample::Sample;

fn peer(name: &str) -> Result<Seslog> {
    Seslog::by_name(name).ok_or_else(|| format!("{name} is not seslog").into())
}

/// Opens a session for writing and appends one event, durably.
pub fn open_write(name: &str, folder: &Path, id: &str) -> Result<Sample> {
    let store = peer(name)?.store(folder, Sync::Batch);
    let id = Text::from(id);
    let start = Instant::now();
    let handle = store.open(&id, SessionAccess::Write)?;
    let seq = handle.next_seq().ok_or("no next seq")?;
    let row =
        format!("{{\"type\":\"turn/start\",\"seq\":{seq},\"time\":1767225600001,\"data\":{{\"turn\":1}}}}");
    handle.append(&[row.as_bytes()])?;
    let took = start.elapsed().as_nanos() as f64;
    handle.close()?;
    Ok(Sample::new(took, Digest::default()))
}

/// One `stat` by id.
pub fn stat(name: &str, folder: &Path, id: &str) -> Result<Sample> {
    let store = peer(name)?.store(folder, Sync::Batch);
    let id = Text::from(id);
    let start = Instant::now();
    let found = store.stat(&id)?.ok_or("no such session")?;
    let took = start.elapsed().as_nanos() as f64;
    Ok(Sample::new(took, Digest { rows: found.event_count, ..Digest::default() }))
}
