//! The smallest safe repair of a log's end. Every step may be repeated after a crash in the middle.
//!
//! Spec: `format-spec/05-append-and-repair.md`, "Repair".

use std::io;
use std::path::{Path, PathBuf};

use super::layout::{Beside, classify_beside};
use super::publish::{Draft, FOLDERS_SYNCED};
use crate::container::Tail;
use crate::container::disk::{Access, Disk, DiskFile, Stamp};
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

/// Sets the bytes behind `tail.good_end` aside, cuts them off, rewrites what may not be durable in place, and syncs.
///
/// The caller holds the write lock and judged `tail` from the file that `judged` stamps; if the file is another by now,
/// or has another length, nothing is touched. What commits the last record (the marker) is the next append's to write.
/// A log whose end is whole needs this too before its first append: another process may have written the end, and died,
/// before or after a sync of it failed.
///
/// # Errors
/// [`Error::Foreign`] if the file changed; [`Error::Io`]. After an error the same call, or a new judgement, goes on.
pub(crate) fn repair(disk: &dyn Disk, path: &Path, tail: &Tail, judged: &Stamp) -> Result<Repaired, Failed> {
    let file = disk.open(path, Access::Repair).map_err(Error::io(path, "opening"))?;
    check_unchanged(disk, path, &*file, judged)?;
    let mut done = Repaired::default();
    if tail.excess() > 0 {
        done.set_aside = set_aside(disk, path, &*file, tail)?;
        check_unchanged(disk, path, &*file, judged)?;
        file.truncate(tail.good_end).map_err(Error::io(path, "cutting the torn end off"))?;
        done.cut = tail.excess();
    }
    done.rewritten = settle(disk, path, &*file, tail, judged)?;
    Ok(done)
}

/// Makes the good records durable and nothing else: what a repair does, without the cut. No byte of the file changes.
///
/// # Errors
/// As [`repair`].
pub(crate) fn make_durable(disk: &dyn Disk, path: &Path, tail: &Tail, judged: &Stamp) -> Result<(), Failed> {
    let file = disk.open(path, Access::Repair).map_err(Error::io(path, "opening"))?;
    check_unchanged(disk, path, &*file, judged)?;
    settle(disk, path, &*file, tail, judged).map(|_| ())
}

/// Makes the name, the good records and the length durable; gives the number of bytes that were written again.
fn settle(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    tail: &Tail,
    judged: &Stamp,
) -> Result<u64, Failed> {
    finish_publication(disk, path, judged)?;
    let rewritten = rewrite(path, file, tail.durable, tail.good_end)?;
    // Even if nothing was cut or rewritten: a cut that an earlier process made and did not sync could come undone when new
    // bytes stand behind it already, and old and new sectors would mix.
    file.sync_all().map_err(|error| Failed { error: Error::io(path, "syncing")(error), by_sync: true })?;
    Ok(rewritten)
}

/// A repair that failed, and how.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// By the sync of the log: what it was to make durable is not known to be.
    pub(crate) by_sync: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, by_sync: false }
    }
}

/// Makes the log's name durable, where its publisher may not have come to it.
///
/// A publisher removes the draft's name when all folders are synced. As long as that name stands for the log, they may
/// not be.
fn finish_publication(disk: &dyn Disk, path: &Path, log: &Stamp) -> Result<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    let mut drafts = Vec::new();
    for entry in disk.read_dir(dir).map_err(Error::io(dir, "listing"))? {
        let name = dir.join(&entry.name);
        if classify_beside(&entry.name) == Beside::Temporary
            && let Some(stamp) = disk.stamp(&name).map_err(Error::io(&name, "looking at"))?
            && stamp.is_same_file(log)
        {
            drafts.push(name);
        }
    }
    if drafts.is_empty() {
        return Ok(());
    }
    for folder in path.ancestors().skip(1).take(FOLDERS_SYNCED) {
        match disk.sync_dir(folder).map_err(Error::io(folder, "syncing")) {
            // A log may lie outside any root, in folders that its owner cannot list.
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied && folder != dir => {}
            synced => synced?,
        }
    }
    for draft in drafts {
        // Best effort: as long as it stands, the next writer does all this again.
        let _ = disk.remove_file(&draft);
    }
    Ok(())
}

/// Copies `[good_end, len)` to a file of its own, durably, unless it is all zeros.
///
/// The copy gets its name when it is whole and on the disk: what has the name already is the same bytes, set aside before a
/// crash, or somebody else's.
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
    for number in 1_u32.. {
        // Other bytes can have all three in common: a trailer ends in its own CRC, so the CRC over a body and its trailer
        // does not depend on what else the trailer says.
        let name = if number == 1 { name.clone() } else { format!("{name}-{number}") };
        let aside = dir.join(&name);
        if disk.stamp(&aside).map_err(Error::io(&aside, "looking at"))?.is_none() {
            let copy = Draft::create(disk, dir, &name)?;
            for_pieces(path, file, tail.good_end, tail.len, &mut |_, bytes| copy.write(bytes))?;
            copy.publish(&[])?;
            return Ok(Some(aside));
        }
        if holds_the_same(disk, &aside, path, file, tail)? {
            disk.sync_dir(dir).map_err(Error::io(dir, "syncing"))?;
            return Ok(Some(aside));
        }
    }
    Ok(None)
}

/// Whether the file at `aside` holds exactly what stands behind the last good record.
fn holds_the_same(
    disk: &dyn Disk,
    aside: &Path,
    path: &Path,
    file: &dyn DiskFile,
    tail: &Tail,
) -> Result<bool> {
    let copy = disk.open(aside, Access::Read).map_err(Error::io(aside, "opening"))?;
    if copy.stamp().map_err(Error::io(aside, "looking at"))?.size != tail.excess() {
        return Ok(false);
    }
    let mut is_same = true;
    let mut kept = Vec::new();
    for_pieces(path, file, tail.good_end, tail.len, &mut |at, bytes| {
        kept.resize(bytes.len(), 0);
        let offset = at.saturating_sub(tail.good_end);
        copy.read_exact_at(offset, &mut kept).map_err(Error::io(aside, "reading"))?;
        is_same &= kept == bytes;
        Ok(())
    })?;
    Ok(is_same)
}

/// Writes `[from, to)` over itself, for a sync to follow.
///
/// A sync that failed once may succeed the second time although the bytes never reached the disk: the kernel forgot that
/// they were dirty. Writing them again makes them dirty, so that the sync vouches for them. They never move.
fn rewrite(path: &Path, file: &dyn DiskFile, from: u64, to: u64) -> Result<u64> {
    for_pieces(path, file, from, to, &mut |at, bytes| {
        file.write_at(at, bytes).map_err(Error::io(path, "rewriting recovered records"))
    })?;
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
