//! The checkpoints of one root: a file for each session, in a folder beside the root's catalog.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::record::{LEN_MAX, Owner, Record};
use crate::container::disk::{Disk, FileKind};
use crate::limits::Limits;
use crate::store::catalog::{RootIdentity, hash_of, make_private, open_private};
use crate::store::publish::random_hex12;

/// The checkpoints of one root.
///
/// A cache: whatever fails costs only time. Files are written under another name and renamed, without a sync, private to the
/// user. Of two processes that write one at the same time one wins; each is whole.
#[derive(Debug)]
pub(in crate::store) struct Shelf {
    folder: PathBuf,
    root: RootIdentity,
    limits: Limits,
    /// Hashes of the names that there are files of, as they were at the first look.
    present: OnceLock<HashSet<u64>>,
}

/// Names of a project's folder and of a session's folder in it.
pub(in crate::store) type Names<'a> = (&'a OsStr, &'a OsStr);

const SUFFIX: &str = ".states";

impl Shelf {
    /// The checkpoints of `root` in `folder`, which need not be there.
    pub(in crate::store) const fn new(folder: PathBuf, root: RootIdentity, limits: Limits) -> Self {
        Self { folder, root, limits, present: OnceLock::new() }
    }

    /// Whether there was a file for a session of that name at the first look.
    pub(super) fn may_hold(&self, disk: &dyn Disk, names: Names<'_>) -> bool {
        let present = self.present.get_or_init(|| {
            let entries = disk.read_dir(&self.folder).unwrap_or_default();
            entries.iter().filter_map(|entry| hash_in(&entry.name)).collect()
        });
        present.contains(&hash_of(names))
    }

    /// What is kept of a session, if it may be used.
    pub(super) fn load(&self, disk: &Arc<dyn Disk>, names: Names<'_>) -> Option<Record> {
        if !self.is_private(&**disk) {
            return None;
        }
        let (file, len) = open_private(disk, &self.path(hash_of(names)))?;
        let mut bytes = vec![0; usize::try_from(len).ok().filter(|&len| len <= LEN_MAX)?];
        file.read_exact_at(0, &mut bytes).ok()?;
        Record::read(&bytes, Owner { root: &self.root, names }, &self.limits)
    }

    /// Keeps `record` of a session. Whether it did.
    pub(super) fn save(&self, disk: &dyn Disk, names: Names<'_>, record: &Record) -> bool {
        let Some(bytes) = record.write(Owner { root: &self.root, names }) else { return false };
        make_private(disk, &self.folder).is_ok()
            && self.is_private(disk)
            && self.replace(disk, &self.path(hash_of(names)), &bytes).is_ok()
    }

    fn replace(&self, disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = path.with_extension(format!("states.{}.tmp", random_hex12()?));
        let file = disk.create_new(&temporary)?;
        let written = file.append_all(bytes).and_then(|()| disk.rename(&temporary, path));
        if written.is_err() {
            let _ = disk.remove_file(&temporary);
        }
        written
    }

    /// Drops what is kept of the sessions whose names have that hash.
    pub(in crate::store) fn forget(&self, disk: &dyn Disk, hash: u64) {
        if self.is_private(disk) {
            let _ = disk.remove_file(&self.path(hash));
        }
    }

    /// Drops what is kept of sessions that are not among `found`, and what writers left that died: nothing that is younger than an
    /// hour, which may be of a session that came up meanwhile.
    pub(in crate::store) fn sweep(&self, disk: &dyn Disk, found: &HashSet<u64>) {
        const HOUR_NS: i128 = 3_600_000_000_000;
        if !self.is_private(disk) {
            return;
        }
        for entry in disk.read_dir(&self.folder).unwrap_or_default() {
            let is_kept = hash_in(&entry.name).is_some_and(|hash| found.contains(&hash));
            if is_kept || entry.kind != FileKind::File || !is_ours(&entry.name) {
                continue;
            }
            let path = self.folder.join(&entry.name);
            if let Ok(Some(stamp)) = disk.stamp(&path)
                && stamp.modified_ns.saturating_add(HOUR_NS) < disk.now_ns()
            {
                let _ = disk.remove_file(&path);
            }
        }
    }

    /// Whether nobody else can put anything there.
    fn is_private(&self, disk: &dyn Disk) -> bool {
        let is_ours = |path: &Path| {
            let stamp = disk.stamp(path).ok().flatten();
            stamp.is_some_and(|stamp| stamp.kind == FileKind::Dir && stamp.mode & 0o022 == 0)
        };
        is_ours(&self.folder) && self.folder.parent().is_some_and(is_ours)
    }

    fn path(&self, hash: u64) -> PathBuf {
        self.folder.join(format!("{hash:016x}{SUFFIX}"))
    }
}

/// The hash that a file's name states.
fn hash_in(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_suffix(SUFFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

fn is_ours(name: &OsStr) -> bool {
    hash_in(name).is_some()
        || name.to_str().is_some_and(|name| name.contains(".states.") && name.ends_with(".tmp"))
}
