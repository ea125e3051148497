//! The state behind a [`super::FaultDisk`]: files, directories, what of them is durable, and the calls so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::crash::{CrashPolicy, SplitMix64};
use super::file::FileImage;
use super::names::{Change, Name, Names};
use super::trace::{Failure, Op, OpKind, Target};
use crate::container::disk::{FileKind, Stamp};

/// The root directory, which always exists and is always durable.
pub(super) const ROOT: u64 = 1;

/// The logical clock at first: the start of the year 2026.
const CLOCK_START_NS: i128 = 1_767_225_600_000_000_000;

/// How far each call moves the clock.
const CLOCK_STEP_NS: i128 = 1_000_000;

/// Most links that one path may lead through, as on Linux.
const LINKS_MAX: u32 = 40;

#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: Names,
    pub(super) clock_ns: i128,
    /// How often the power was lost.
    pub(super) boot: u64,
    /// Calls so far.
    pub(super) calls: u64,
    /// How many calls there may be before the power goes.
    pub(super) calls_max: Option<u64>,
    pub(super) plan: Vec<(Target, Failure)>,
    pub(super) trace: Vec<Op>,
    pub(super) locked: BTreeSet<u64>,
    /// What free blocks hold, at the offset in whatever file gets them.
    pub(super) stale: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) body: Body,
    mode: u32,
    modified_ns: i128,
    changed_ns: i128,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    File(FileImage),
    Dir,
    Symlink(PathBuf),
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The last component and its directory.
    pub(super) at: Name,
    /// What has that name.
    pub(super) inode: Option<u64>,
    /// The directories on the way, the root first.
    dirs: Vec<u64>,
}

impl Machine {
    pub(super) fn new() -> Self {
        let mut machine = Self {
            inodes: BTreeMap::new(),
            next_inode: ROOT,
            names: Names::default(),
            clock_ns: CLOCK_START_NS,
            boot: 0,
            calls: 0,
            calls_max: None,
            plan: Vec::new(),
            trace: Vec::new(),
            locked: BTreeSet::new(),
            stale: Vec::new(),
        };
        let root = machine.add_inode(Body::Dir, 0o700);
        debug_assert_eq!(root, ROOT, "the first number");
        machine
    }

    /// Counts a call, or refuses it because the power is gone. Returns how it shall fail.
    pub(super) fn begin(&mut self, op: Op) -> io::Result<Option<Failure>> {
        if self.is_off() {
            return Err(io::Error::other(PowerLoss));
        }
        let (call, kind) = (self.calls, op.kind);
        self.trace.push(Op { call, ..op });
        self.calls = self.calls.saturating_add(1);
        self.clock_ns = self.clock_ns.saturating_add(CLOCK_STEP_NS);
        let due = self.plan.iter().position(|(target, _)| match *target {
            Target::Call(at) => at == call,
            Target::NextOf(next) => next == kind,
        });
        Ok(due.map(|due| self.plan.remove(due).1))
    }

    pub(super) fn is_off(&self) -> bool {
        self.calls_max.is_some_and(|max| self.calls >= max)
    }

    /// Number of the call that is running: the moment of the changes that it makes.
    pub(super) fn call(&self) -> u64 {
        self.calls.saturating_sub(1)
    }

    /// The record of the call that is running.
    pub(super) fn op(&mut self) -> &mut Op {
        self.trace.last_mut().expect("`begin` has pushed it")
    }

    pub(super) fn add_inode(&mut self, body: Body, mode: u32) -> u64 {
        let inode = self.next_inode;
        self.next_inode = self.next_inode.saturating_add(1);
        let now = self.clock_ns;
        if matches!(body, Body::Dir) {
            self.names.add_dir(inode);
        }
        self.inodes.insert(inode, Inode { body, mode, modified_ns: now, changed_ns: now });
        inode
    }

    pub(super) fn stamp(&self, inode: u64) -> Stamp {
        let Inode { body, mode, modified_ns, changed_ns } =
            self.inodes.get(&inode).expect("inodes are never removed");
        let (kind, size) = match body {
            Body::File(file) => (FileKind::File, file.live().len()),
            Body::Dir => (FileKind::Dir, self.names.of(inode).map_or(0, BTreeMap::len)),
            Body::Symlink(target) => (FileKind::Symlink, target.as_os_str().len()),
        };
        Stamp {
            device: 1,
            inode,
            size: size as u64,
            modified_ns: *modified_ns,
            changed_ns: *changed_ns,
            kind,
            mode: *mode,
        }
    }

    /// The bytes of a file that is known to be one.
    pub(super) fn file(&mut self, inode: u64) -> &mut FileImage {
        match self.inodes.get_mut(&inode).map(|inode| &mut inode.body) {
            Some(Body::File(file)) => file,
            _ => unreachable!("handles and checked places name files, and inodes are never removed"),
        }
    }

    /// The entries of a directory.
    pub(super) fn names(&self, dir: u64) -> io::Result<&BTreeMap<OsString, u64>> {
        Ok(self.names.of(dir).ok_or(Errno::NOTDIR)?)
    }

    /// Notes that a file's bytes have changed.
    pub(super) fn touch(&mut self, inode: u64) {
        let now = self.clock_ns;
        if let Some(inode) = self.inodes.get_mut(&inode) {
            inode.modified_ns = now;
            inode.changed_ns = now;
        }
    }

    /// Follows a path to its last component, and through that too if it is a link and `follow_last` says so.
    pub(super) fn walk(&self, path: &Path, follow_last: bool) -> io::Result<Place> {
        let mut rest: VecDeque<OsString> = parts(path).collect();
        let mut dirs = vec![ROOT];
        let mut links = 0_u32;
        while let Some(name) = rest.pop_front() {
            let dir = dirs.last().copied().unwrap_or(ROOT);
            if name == ".." {
                dirs.truncate(dirs.len().saturating_sub(1).max(1));
                continue;
            }
            let inode = self.names(dir)?.get(&name).copied();
            let body = inode.and_then(|inode| self.inodes.get(&inode)).map(|inode| &inode.body);
            match body {
                Some(Body::Symlink(target)) if follow_last || !rest.is_empty() => {
                    links = links.saturating_add(1);
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    if target.has_root() {
                        dirs.truncate(1);
                    }
                    for part in parts(target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(part);
                    }
                }
                _ if rest.is_empty() => return Ok(Place { at: Name { dir, name }, inode, dirs }),
                None => return Err(Errno::NOENT.into()),
                Some(_) => dirs.extend(inode),
            }
        }
        // The root, or a path that ends in "..".
        let dir = dirs.last().copied().unwrap_or(ROOT);
        Ok(Place { at: Name { dir, name: OsString::new() }, inode: Some(dir), dirs })
    }

    /// Gives an inode a name that nothing has.
    pub(super) fn add_name(&mut self, place: &Place, inode: u64) -> io::Result<()> {
        if place.inode.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.change(Change::Add { at: place.at.clone(), inode });
        Ok(())
    }

    pub(super) fn remove_name(&mut self, place: &Place) -> io::Result<()> {
        let inode = place.inode.ok_or(Errno::NOENT)?;
        self.change(Change::Remove { at: place.at.clone(), inode });
        Ok(())
    }

    pub(super) fn move_name(&mut self, from: &Place, to: &Place) -> io::Result<()> {
        let inode = from.inode.ok_or(Errno::NOENT)?;
        if to.dirs.contains(&inode) {
            // A directory into itself.
            return Err(Errno::INVAL.into());
        }
        let is_dir = self.names(inode).is_ok();
        match to.inode {
            Some(same) if same == inode => return Ok(()),
            Some(other) => match self.names(other) {
                Ok(names) if is_dir && names.is_empty() => {}
                Ok(_) if is_dir => return Err(Errno::NOTEMPTY.into()),
                Ok(_) => return Err(Errno::ISDIR.into()),
                Err(_) if is_dir => return Err(Errno::NOTDIR.into()),
                Err(_) => {}
            },
            None => {}
        }
        self.change(Change::Move { from: from.at.clone(), to: to.at.clone(), inode });
        Ok(())
    }

    /// Carries a change out in the live image and keeps it for the durable one.
    fn change(&mut self, change: Change) {
        for dir in change.dirs() {
            self.touch(dir);
        }
        let now = self.clock_ns;
        if let Some(inode) = self.inodes.get_mut(&change.inode()) {
            inode.changed_ns = now;
        }
        self.names.change(change);
    }

    /// Makes the entries of a directory durable.
    pub(super) fn sync_names(&mut self, dir: u64) {
        self.names.sync(dir);
    }

    /// Makes every name and byte durable.
    pub(super) fn sync_everything(&mut self) {
        for inode in self.inodes.values_mut() {
            if let Body::File(file) = &mut inode.body {
                *file = FileImage::durable_with(file.live().to_vec());
            }
        }
        self.names.sync_all();
    }

    /// The same machine with nobody in it: locks are free, calls count from 0, nothing is planned.
    pub(super) fn without_processes(&self) -> Self {
        Self {
            calls: 0,
            calls_max: None,
            plan: Vec::new(),
            trace: Vec::new(),
            locked: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// One state that may be found after a power loss now.
    pub(super) fn after_loss(&self, seed: u64, policy: CrashPolicy) -> Self {
        let mut random = SplitMix64::new(seed);
        let listing = self.names.after_loss(policy.names, &mut random);
        let mut inodes = BTreeMap::new();
        let mut reached = vec![ROOT];
        while let Some(number) = reached.pop() {
            let Some(inode) = self.inodes.get(&number).filter(|_| !inodes.contains_key(&number)) else {
                continue;
            };
            let body = match &inode.body {
                Body::Dir => {
                    reached.extend(listing.get(&number).into_iter().flat_map(BTreeMap::values));
                    Body::Dir
                }
                Body::File(file) => {
                    let landed = file.after_loss(policy.files, &mut random, &self.stale);
                    Body::File(FileImage::durable_with(landed))
                }
                Body::Symlink(target) => Body::Symlink(target.clone()),
            };
            inodes.insert(number, Inode { body, ..*inode });
        }
        let boot = self.boot.saturating_add(1);
        Self { inodes, names: Names::durable_with(listing), boot, ..self.without_processes() }
    }
}

/// The components that matter; a relative path begins at the root.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// The error of every call after the power is gone.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the power is gone")]
pub(super) struct PowerLoss;

/// A record of a call that has not been made yet.
pub(super) fn op(kind: OpKind, path: &Path) -> Op {
    Op { call: 0, kind, path: path.to_owned(), to: None, offset: 0, len: 0, done: 0, is_ok: false }
}
