//! A disk in memory that loses, tears and refuses on request, for tests of this crate and of its hosts.
//!
//! Every file has two contents, live and durable, and every directory two lists of names. Calls change what is live;
//! syncs make it durable. [`FaultDisk::crash_image`] makes a disk of what a power loss may leave of that.
//!
//! The media are those that the specification assumes: a sync that succeeded is honest; unsynced sectors of 512 bytes
//! land in any subset; writing a sector never damages another. Beyond that the model is as unkind as the interface
//! allows: syncing a file does not make its name durable, unsynced changes of names survive in any subset, a length lands
//! without its bytes and bytes without their length, and bytes that a failed sync gave up stay lost when the next succeeds.
//!
//! ```
//! use seslog::container::disk::{Access, Disk, fault::{FaultDisk, FileLoss}};
//!
//! let disk = FaultDisk::new();
//! let file = disk.create_new("/log".as_ref())?;
//! file.append_all(b"kept ")?;
//! file.sync_data()?;
//! disk.sync_dir("/".as_ref())?;
//! file.append_all(b"lost")?;
//!
//! let after = disk.crash_image(0, FileLoss::DropUnsynced);
//! assert_eq!(after.content("/log"), Some(b"kept ".to_vec()));
//! # Ok::<(), std::io::Error>(())
//! ```

mod crash;
mod file;
mod machine;
mod names;
mod trace;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

pub use crash::{CrashPolicy, FileLoss, NameLoss};
use file::FileImage;
use machine::{Body, Machine, Place, PowerLoss, ROOT, op};
use trace::Target;
pub use trace::{Failure, Op, OpKind};

use super::{Access, Disk, DiskFile, DiskLock, Entry, FileKind, LockAttempt, LockOwner, Map, Stamp};

/// A disk in memory. Clones share one machine: its files, its locks, its power.
///
/// Paths are taken from the root `/`, which exists; a relative path means the same as with `/` before it. Maps are not
/// offered. Nothing here sleeps, and the same calls in the same order give the same result.
#[derive(Clone)]
pub struct FaultDisk {
    machine: Arc<Mutex<Machine>>,
    hooks: Arc<Mutex<Hooks>>,
}

/// What runs before calls to come.
#[derive(Default)]
struct Hooks {
    by_number: BTreeMap<u64, Hook>,
    by_kind: Vec<(OpKind, Hook)>,
}

impl Hooks {
    /// What is due before the next call, if it has this number and kind.
    fn due(&mut self, call: u64, kind: OpKind) -> Option<Hook> {
        self.by_number.remove(&call).or_else(|| {
            let due = self.by_kind.iter().position(|(next, _)| *next == kind)?;
            Some(self.by_kind.remove(due).1)
        })
    }
}

type Hook = Box<dyn FnOnce(&FaultDisk) + Send>;

impl FaultDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Machine::new())
    }

    fn with(machine: Machine) -> Self {
        Self { machine: Arc::new(Mutex::new(machine)), hooks: Arc::default() }
    }
}

/// Looking and planting from outside: not calls, not numbered, never failing for lack of power.
impl FaultDisk {
    /// Puts a durable file at `path`, in place of what was there, and the directories above it. Makes everything else on
    /// the disk durable too.
    ///
    /// # Panics
    /// If the path leads through something that is no directory.
    pub fn plant(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.plant_body(path.as_ref(), Body::File(FileImage::durable_with(bytes.to_vec())), 0o600);
    }

    /// Puts a durable symbolic link at `path`, as [`FaultDisk::plant`] does.
    ///
    /// # Panics
    /// If the path leads through something that is no directory.
    pub fn plant_symlink(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.plant_body(path.as_ref(), Body::Symlink(target.as_ref().to_owned()), 0o777);
    }

    /// Makes a durable directory at `path`, and those above it; one that exists is kept.
    ///
    /// # Panics
    /// If the path leads through something that is no directory.
    pub fn plant_dir(&self, path: impl AsRef<Path>) {
        let mut machine = self.machine.lock();
        plant_dirs(&mut machine, path.as_ref());
        machine.sync_everything();
    }

    fn plant_body(&self, path: &Path, body: Body, mode: u32) {
        let mut machine = self.machine.lock();
        if let Some(parent) = path.parent() {
            plant_dirs(&mut machine, parent);
        }
        let mut place = machine.walk(path, false).expect("only directories on the way");
        if place.inode.is_some() {
            machine.remove_name(&place).expect("it has the name");
            place.inode = None;
        }
        let inode = machine.add_inode(body, mode);
        machine.add_name(&place, inode).expect("nothing has the name");
        machine.sync_everything();
    }

    /// The live bytes of the file at `path`, if there is one.
    #[must_use]
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.look(path.as_ref(), |file| file.live().to_vec())
    }

    /// The durable bytes of the file that has the name `path` now, durably or not.
    #[must_use]
    pub fn durable_content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.look(path.as_ref(), |file| file.durable().to_vec())
    }

    fn look(&self, path: &Path, look: impl FnOnce(&FileImage) -> Vec<u8>) -> Option<Vec<u8>> {
        let machine = self.machine.lock();
        match &machine.inodes.get(&machine.walk(path, true).ok()?.inode?)?.body {
            Body::File(file) => Some(look(file)),
            Body::Dir | Body::Symlink(_) => None,
        }
    }

    /// What no sync has covered yet: the most sectors that any one file has, and the most bytes by which one has grown.
    ///
    /// Bounds the [`FileLoss::Sectors`] and [`FileLoss::TornAt`] that are worth trying.
    #[must_use]
    pub fn unsynced(&self) -> (u64, u64) {
        let machine = self.machine.lock();
        let files = machine.inodes.values().filter_map(|inode| match &inode.body {
            Body::File(file) => Some(file.unsynced()),
            Body::Dir | Body::Symlink(_) => None,
        });
        files.fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)))
    }

    /// What the blocks hold that files get from now on: `bytes` of a file that is gone, each at its old offset. Only
    /// [`FileLoss::StaleSectors`] shows them.
    pub fn leave_behind(&self, bytes: &[u8]) {
        self.machine.lock().stale = bytes.to_vec();
    }

    /// The paths of everything that is on the live disk, directories included, each after what is above it.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let machine = self.machine.lock();
        let mut paths = Vec::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = open.pop() {
            if let Ok(names) = machine.names(inode) {
                open.extend(names.iter().rev().map(|(name, &inode)| (path.join(name), inode)));
            }
            if inode != ROOT {
                paths.push(path);
            }
        }
        paths
    }

    /// Sets the clock that stamps are taken from, in nanoseconds since the Unix epoch. It may go backwards.
    pub fn set_clock_ns(&self, now: i128) {
        self.machine.lock().clock_ns = now;
    }
}

/// Calls: counting, watching, failing.
impl FaultDisk {
    /// How many calls there were so far: the number of the next one.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.machine.lock().calls
    }

    /// The calls so far, since the last [`FaultDisk::forget_trace`].
    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        self.machine.lock().trace.clone()
    }

    /// Forgets the calls so far, but not their number.
    pub fn forget_trace(&self) {
        self.machine.lock().trace.clear();
    }

    /// Bytes read from the file opened as `path`, since the last [`FaultDisk::forget_trace`].
    #[must_use]
    pub fn bytes_read(&self, path: impl AsRef<Path>) -> u64 {
        let machine = self.machine.lock();
        let reads = machine.trace.iter().filter(|op| op.kind == OpKind::ReadAt && op.path == path.as_ref());
        reads.map(|op| op.done).fold(0, u64::saturating_add)
    }

    /// Cuts the power after `calls` calls, counted from the machine's first: call number `calls` and every later one fails
    /// without effect, with an error that [`is_power_loss`] knows. The disk stays as it is, for the images.
    pub fn crash_after(&self, calls: u64) {
        self.machine.lock().calls_max = Some(calls);
    }

    /// Whether the power is gone: the next call fails.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.machine.lock().is_off()
    }

    /// Makes the call with this number go wrong, if it is not past.
    pub fn fail_at(&self, call: u64, failure: Failure) {
        self.machine.lock().plan.push((Target::Call(call), failure));
    }

    /// Makes the next call of a kind go wrong, once. Planned twice, the next two fail.
    pub fn fail_next(&self, kind: OpKind, failure: Failure) {
        self.machine.lock().plan.push((Target::NextOf(kind), failure));
    }

    /// Runs `hook` right before the call with this number: another process that interferes. Calls that the hook makes
    /// are numbered as usual, so the call that it precedes gets a later number.
    pub fn before(&self, call: u64, hook: impl FnOnce(&Self) + Send + 'static) {
        self.hooks.lock().by_number.insert(call, Box::new(hook));
    }

    /// Runs `hook` right before the next call of a kind, as [`FaultDisk::before`] does. Two of them run before two calls.
    pub fn before_next(&self, kind: OpKind, hook: impl FnOnce(&Self) + Send + 'static) {
        self.hooks.lock().by_kind.push((kind, Box::new(hook)));
    }

    /// Makes one numbered call.
    fn call<T>(
        &self,
        op: Op,
        run: impl FnOnce(&mut Machine, Option<Failure>) -> io::Result<T>,
    ) -> io::Result<T> {
        let due = self.hooks.lock().due(self.ops(), op.kind);
        if let Some(hook) = due {
            hook(self);
        }
        let mut machine = self.machine.lock();
        let failure = machine.begin(op)?;
        let result = run(&mut machine, failure);
        machine.op().is_ok = result.is_ok();
        result
    }

    /// Makes one numbered call that a failure keeps from doing anything.
    fn whole_call<T>(&self, op: Op, run: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        self.call(op, |machine, failure| match failure {
            Some(Failure::Error(errno) | Failure::Partial(_, errno)) => {
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(Failure::Short(_)) | None => run(machine),
        })
    }
}

/// After the worst.
impl FaultDisk {
    /// A new machine in one state that a power loss now may leave: everything durable, nobody running, no lock held, calls
    /// counted from 0. Files keep their inode numbers. The same seed and policy give the same state; this disk is
    /// unchanged, so that many images can be made of one moment.
    #[must_use]
    pub fn crash_image(&self, seed: u64, policy: impl Into<CrashPolicy>) -> Self {
        Self::with(self.machine.lock().after_loss(seed, policy.into()))
    }

    /// A new machine in the state that killing all processes now leaves: live bytes and names stay, and so does what of
    /// them is not durable yet; locks are free, calls are counted from 0, nothing is planned.
    #[must_use]
    pub fn kill_image(&self) -> Self {
        Self::with(self.machine.lock().without_processes())
    }
}

/// Whether an error came from a call after [`FaultDisk::crash_after`] had cut the power.
#[must_use]
pub fn is_power_loss(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<PowerLoss>())
}

impl Default for FaultDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.machine.lock();
        f.debug_struct("FaultDisk")
            .field("inodes", &machine.inodes.len())
            .field("calls", &machine.calls)
            .field("is_off", &machine.is_off())
            .finish()
    }
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.whole_call(op(OpKind::Open, path), |machine| open_regular(machine, path, access))?;
        Ok(Box::new(FaultFile { disk: self.clone(), inode, path: path.to_owned(), access }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.whole_call(op(OpKind::CreateNew, path), |machine| {
            let place = machine.walk(path, false)?;
            create_file(machine, &place)
        })?;
        Ok(Box::new(FaultFile { disk: self.clone(), inode, path: path.to_owned(), access: Access::Append }))
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        self.whole_call(op(OpKind::Stamp, path), |machine| match machine.walk(path, false) {
            Ok(place) => Ok(place.inode.map(|inode| machine.stamp(inode))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn now_ns(&self) -> i128 {
        self.machine.lock().clock_ns
    }

    fn boot(&self) -> u64 {
        self.machine.lock().boot
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.whole_call(op(OpKind::ReadDir, path), |machine| {
            let inode = machine.walk(path, true)?.inode.ok_or(Errno::NOENT)?;
            let names = machine.names(inode)?;
            let entry = |(name, &inode): (&std::ffi::OsString, &u64)| Entry {
                name: name.clone(),
                kind: machine.stamp(inode).kind,
            };
            Ok(names.iter().map(entry).collect())
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<bool> {
        self.whole_call(op(OpKind::CreateDir, path), |machine| {
            let place = machine.walk(path, false)?;
            if let Some(inode) = place.inode {
                return machine.names(inode).map(|_| false);
            }
            let inode = machine.add_inode(Body::Dir, 0o700);
            machine.add_name(&place, inode).map(|()| true)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole_call(Op { to: Some(to.to_owned()), ..op(OpKind::Link, from) }, |machine| {
            let inode = machine.walk(from, false)?.inode.ok_or(Errno::NOENT)?;
            if machine.names(inode).is_ok() {
                return Err(Errno::PERM.into());
            }
            let place = machine.walk(to, false)?;
            machine.add_name(&place, inode)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole_call(Op { to: Some(to.to_owned()), ..op(OpKind::Rename, from) }, |machine| {
            let from = machine.walk(from, false)?;
            let to = machine.walk(to, false)?;
            machine.move_name(&from, &to)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.whole_call(op(OpKind::RemoveFile, path), |machine| {
            let place = machine.walk(path, false)?;
            if place.inode.is_some_and(|inode| machine.names(inode).is_ok()) {
                return Err(Errno::ISDIR.into());
            }
            machine.remove_name(&place)
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.whole_call(op(OpKind::RemoveDir, path), |machine| {
            let place = machine.walk(path, false)?;
            match machine.names(place.inode.ok_or(Errno::NOENT)?)?.is_empty() {
                _ if place.inode == Some(ROOT) => Err(Errno::BUSY.into()),
                true => machine.remove_name(&place),
                false => Err(Errno::NOTEMPTY.into()),
            }
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.whole_call(op(OpKind::SyncDir, path), |machine| {
            let inode = machine.walk(path, true)?.inode.ok_or(Errno::NOENT)?;
            machine.names(inode)?;
            machine.sync_names(inode);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<LockAttempt> {
        let held = self.whole_call(op(OpKind::Lock, path), |machine| {
            let place = machine.walk(path, false)?;
            let inode = match place.inode {
                Some(_) => open_regular(machine, path, Access::Repair)?,
                None => create_file(machine, &place)?,
            };
            if !machine.locked.insert(inode) {
                return Ok(None);
            }
            let now_ms = machine.clock_ns.div_euclid(1_000_000);
            let since_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
            let owner = LockOwner { pid: std::process::id(), host: "fault".to_owned(), since_ms };
            set_note(machine, inode, &owner.to_note());
            Ok(Some(inode))
        })?;
        Ok(match held {
            Some(inode) => LockAttempt::Held(Box::new(FaultLock {
                disk: self.clone(),
                inode,
                path: path.to_owned(),
                is_held: true,
            })),
            None => LockAttempt::Contended,
        })
    }

    fn lock_owner(&self, path: &Path) -> io::Result<Option<LockOwner>> {
        self.whole_call(op(OpKind::LockOwner, path), |machine| {
            match open_regular(machine, path, Access::Read) {
                Ok(inode) => Ok(LockOwner::parse(machine.file(inode).live())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

/// Makes the directories of a path that are missing.
fn plant_dirs(machine: &mut Machine, path: &Path) {
    for dir in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
        let place = machine.walk(dir, true).expect("only directories on the way");
        if place.inode.is_none() {
            let inode = machine.add_inode(Body::Dir, 0o700);
            machine.add_name(&place, inode).expect("nothing has the name");
        }
    }
}

fn open_regular(machine: &Machine, path: &Path, access: Access) -> io::Result<u64> {
    let inode = machine.walk(path, false)?.inode.ok_or(Errno::NOENT)?;
    match machine.stamp(inode).kind {
        FileKind::File => Ok(inode),
        FileKind::Symlink => Err(Errno::LOOP.into()),
        FileKind::Dir if access != Access::Read => Err(Errno::ISDIR.into()),
        FileKind::Dir | FileKind::Other => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn create_file(machine: &mut Machine, place: &Place) -> io::Result<u64> {
    if place.inode.is_some() {
        return Err(Errno::EXIST.into());
    }
    let inode = machine.add_inode(Body::File(FileImage::default()), 0o600);
    machine.add_name(place, inode).map(|()| inode)
}

/// Replaces the bytes of a lock file.
fn set_note(machine: &mut Machine, inode: u64, note: &[u8]) {
    let call = machine.call();
    let file = machine.file(inode);
    file.truncate(call, 0);
    file.write(call, 0, note);
    machine.touch(inode);
}

/// An open file. Lives on when its name goes.
#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    inode: u64,
    path: PathBuf,
    access: Access,
}

impl FaultFile {
    /// A record of a call on this file.
    fn op(&self, kind: OpKind, offset: u64, len: u64) -> Op {
        Op { offset, len, ..op(kind, &self.path) }
    }

    /// Writes at `offset`, or at the end without one, as many bytes as the failure lets through.
    fn write(&self, kind: OpKind, offset: Option<u64>, bytes: &[u8]) -> io::Result<usize> {
        self.disk.call(self.op(kind, 0, bytes.len() as u64), |machine, failure| {
            let call = machine.call();
            let end = machine.file(self.inode).live().len();
            let offset = offset.map_or(Ok(end), usize::try_from).map_err(|_| Errno::FBIG)?;
            machine.op().offset = offset as u64;
            let (taken, error) = match failure {
                None => (bytes.len(), None),
                Some(Failure::Error(errno)) => (0, Some(errno)),
                Some(Failure::Short(taken)) if kind == OpKind::Append => (taken, None),
                Some(Failure::Short(_)) => (bytes.len(), None),
                Some(Failure::Partial(taken, errno)) => (taken, Some(errno)),
            };
            let bytes = bytes.get(..taken).unwrap_or(bytes);
            offset.checked_add(bytes.len()).ok_or(Errno::FBIG)?;
            if !bytes.is_empty() {
                machine.file(self.inode).write(call, offset, bytes);
                machine.touch(self.inode);
            }
            machine.op().done = bytes.len() as u64;
            error.map_or(Ok(bytes.len()), |errno| Err(io::Error::from_raw_os_error(errno)))
        })
    }

    fn sync(&self, kind: OpKind) -> io::Result<()> {
        self.disk.call(self.op(kind, 0, 0), |machine, failure| {
            let file = machine.file(self.inode);
            match failure {
                Some(Failure::Error(errno) | Failure::Partial(_, errno)) => {
                    file.fail_sync();
                    Err(io::Error::from_raw_os_error(errno))
                }
                Some(Failure::Short(_)) | None => {
                    file.sync(kind == OpKind::SyncData);
                    Ok(())
                }
            }
        })
    }
}

impl DiskFile for FaultFile {
    fn stamp(&self) -> io::Result<Stamp> {
        self.disk.whole_call(self.op(OpKind::FileStamp, 0, 0), |machine| Ok(machine.stamp(self.inode)))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.disk.call(self.op(OpKind::ReadAt, offset, buf.len() as u64), |machine, failure| {
            let asked = match failure {
                None => buf.len(),
                Some(Failure::Short(taken)) => taken.min(buf.len()),
                Some(Failure::Error(errno) | Failure::Partial(_, errno)) => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
            };
            let live = machine.file(self.inode).live();
            let rest = usize::try_from(offset).ok().and_then(|offset| live.get(offset..)).unwrap_or_default();
            let found = rest.get(..asked).unwrap_or(rest);
            let read = found.len();
            if let Some(copy) = buf.get_mut(..read) {
                copy.copy_from_slice(found);
            }
            machine.op().done = read as u64;
            Ok(read)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.access {
            Access::Append => self.write(OpKind::Append, None, bytes),
            Access::Read => Err(Errno::BADF.into()),
            Access::Repair => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.access {
            Access::Repair => self.write(OpKind::WriteAt, Some(offset), bytes).map(|_| ()),
            Access::Read | Access::Append => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if self.access == Access::Read {
            return Err(Errno::INVAL.into());
        }
        self.disk.whole_call(self.op(OpKind::Truncate, 0, len), |machine| {
            let len = usize::try_from(len).map_err(|_| Errno::FBIG)?;
            let call = machine.call();
            machine.file(self.inode).truncate(call, len);
            machine.touch(self.inode);
            Ok(())
        })
    }

    fn begin_sync(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.call(self.op(OpKind::BeginSync, offset, len), |machine, failure| match failure {
            Some(Failure::Error(errno) | Failure::Partial(_, errno)) => {
                machine.file(self.inode).fail_sync();
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(Failure::Short(_)) | None => Ok(()),
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(OpKind::SyncData)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(OpKind::SyncAll)
    }

    fn map(&self, _len: u64) -> io::Result<Option<Map>> {
        Ok(None)
    }
}

/// A lock that is held on this machine.
#[derive(Debug)]
struct FaultLock {
    disk: FaultDisk,
    inode: u64,
    path: PathBuf,
    is_held: bool,
}

impl FaultLock {
    fn free(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        self.disk.call(op(OpKind::Unlock, &self.path), |machine, failure| {
            // Free whatever else fails, as when the last descriptor is closed.
            machine.locked.remove(&self.inode);
            if let Some(Failure::Error(errno) | Failure::Partial(_, errno)) = failure {
                return Err(io::Error::from_raw_os_error(errno));
            }
            set_note(machine, self.inode, b"");
            Ok(())
        })
    }
}

impl DiskLock for FaultLock {
    fn release(mut self: Box<Self>) -> io::Result<()> {
        self.free()
    }
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let _hidden = self.free();
    }
}
