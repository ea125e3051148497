//! The smallest safe repair of a log's end. Every step may be repeated after a crash in the middle.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Repair".

use std::path::{Path, PathBuf};

use super::layout::LOCK_NAME;
use crate::container::disk::{Access, Disk, DiskFile, Stamp};
use crate::container::{Encoding, Tail};
use crate::error::{Error, Result};

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Where the bytes behind the last good record were copied to; absent if there were none, or only zeros.
    pub set_aside: Option<PathBuf>,
    /// Bytes that were cut off.
    pub cut: u64,
    /// Bytes of complete records of an unfinished append that were written again in place.
    pub rewritten: u64,
}

/// Sets the bytes behind `tail.good_end` aside, cuts them off, and rewrites what may not be durable in place.
///
/// The caller holds the write lock and judged `tail` from the file that `judged` stamps; if the file is another by now,
/// or has another length, nothing is touched. What commits the last record (the marker) is the next append's to write.
///
/// # Errors
/// [`Error::Foreign`] if the file changed; [`Error::Io`]. After an error the same call, or a new judgement, goes on.
pub(crate) fn repair(
    disk: &dyn Disk,
    path: &Path,
    encoding: Encoding,
    tail: &Tail,
    judged: &Stamp,
) -> Result<Repaired> {
    let file = disk.open(path, Access::Repair).map_err(Error::io(path, "opening"))?;
    check_unchanged(disk, path, &*file, judged)?;
    let mut done = Repaired::default();
    if tail.excess() > 0 {
        done.set_aside = set_aside(disk, path, &*file, tail)?;
        check_unchanged(disk, path, &*file, judged)?;
        file.truncate(tail.good_end).map_err(Error::io(path, "cutting the torn end off"))?;
        file.sync_all().map_err(Error::io(path, "syncing"))?;
        done.cut = tail.excess();
    }
    // Only trailers tell how far the disk had come; elsewhere the last record was proved by its own checksum or line end.
    if encoding == Encoding::Indexed && tail.durable < tail.good_end {
        done.rewritten = rewrite(path, &*file, tail.durable, tail.good_end)?;
    }
    Ok(done)
}

/// Copies `[good_end, len)` to a file of its own, durably, unless it is all zeros.
fn set_aside(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, tail: &Tail) -> Result<Option<PathBuf>> {
    let mut crc = crc32fast::Hasher::new();
    let mut all_zero = true;
    for_pieces(path, file, tail.good_end, tail.len, &mut |_, bytes| {
        crc.update(bytes);
        all_zero &= bytes.iter().all(|&byte| byte == 0);
        Ok(())
    })?;
    if all_zero {
        return Ok(None);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let name = format!("{}.torn-{}-{}-{:08x}", name.display(), tail.good_end, tail.excess(), crc.finalize());
    debug_assert!(name != LOCK_NAME, "a set-aside file is named after a log");
    let aside = dir.join(&name);
    match disk.stamp(&aside).map_err(Error::io(&aside, "looking at"))? {
        // The same bytes were set aside before: offset, length and CRC are the name.
        Some(stamp) if stamp.size == tail.excess() => {}
        existing => {
            if existing.is_some() {
                // A crash cut the copy short; nothing else carries this name.
                disk.remove_file(&aside).map_err(Error::io(&aside, "removing"))?;
            }
            let copy = disk.create_new(&aside).map_err(Error::io(&aside, "creating"))?;
            for_pieces(path, file, tail.good_end, tail.len, &mut |_, bytes| {
                copy.append_all(bytes).map_err(Error::io(&aside, "writing"))
            })?;
            copy.sync_all().map_err(Error::io(&aside, "syncing"))?;
        }
    }
    disk.sync_dir(dir).map_err(Error::io(dir, "syncing"))?;
    Ok(Some(aside))
}

/// Writes `[from, to)` over itself and syncs.
///
/// A sync that failed once may succeed the second time although the bytes never reached the disk: the kernel forgot that
/// they were dirty. Writing them again makes them dirty, so that this sync vouches for them. They never move.
fn rewrite(path: &Path, file: &dyn DiskFile, from: u64, to: u64) -> Result<u64> {
    for_pieces(path, file, from, to, &mut |at, bytes| {
        file.write_at(at, bytes).map_err(Error::io(path, "rewriting recovered records"))
    })?;
    file.sync_all().map_err(Error::io(path, "syncing"))?;
    Ok(to.saturating_sub(from))
}

fn check_unchanged(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, judged: &Stamp) -> Result<()> {
    let named = disk.stamp(path).map_err(Error::io(path, "looking at"))?;
    let open = file.stamp().map_err(Error::io(path, "looking at"))?;
    let same = named.is_some_and(|named| named.is_same_file(judged) && named.size == judged.size);
    if same && open.is_same_file(judged) && open.size == judged.size {
        return Ok(());
    }
    Err(Error::Foreign {
        path: path.to_path_buf(),
        what: format!("it had {} bytes when its end was judged, and has {} now", judged.size, open.size),
    })
}

fn for_pieces(
    path: &Path,
    file: &dyn DiskFile,
    from: u64,
    to: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    const PIECE: u64 = 256 << 10;
    let mut buffer = vec![0; usize::try_from(to.saturating_sub(from).min(PIECE)).unwrap_or(0)];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to.saturating_sub(at).min(PIECE)).unwrap_or(0);
        let Some(piece) = buffer.get_mut(..len) else { break };
        file.read_exact_at(at, piece).map_err(Error::io(path, "reading"))?;
        each(at, piece)?;
        at = at.saturating_add(len as u64);
    }
    Ok(())
}
