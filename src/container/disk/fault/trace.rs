//! The calls that a [`super::FaultDisk`] saw, and those it shall fail.

use std::path::PathBuf;

/// One call, as it was made and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op {
    /// Number of the call: 0, 1, 2 and so on for one machine.
    pub call: u64,
    /// Which call.
    pub kind: OpKind,
    /// The path as given; for an open file, the path that it was opened or created by.
    pub path: PathBuf,
    /// The second path of a link or a rename.
    pub to: Option<PathBuf>,
    /// Where a read or a write begins, in bytes; 0 for calls without a place.
    pub offset: u64,
    /// How many bytes were asked for; the new length for a truncation; 0 for calls without a length.
    pub len: u64,
    /// How many bytes were read or written.
    pub done: u64,
    /// Whether it returned `Ok`.
    pub is_ok: bool,
}

/// The numbered calls of `Disk`, `DiskFile` and `DiskLock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum OpKind {
    Open,
    CreateNew,
    Stamp,
    ReadDir,
    CreateDir,
    Link,
    Rename,
    RemoveFile,
    RemoveDir,
    SyncDir,
    Lock,
    LockOwner,
    /// Release or drop of a lock.
    Unlock,
    FileStamp,
    ReadAt,
    Append,
    WriteAt,
    Truncate,
    BeginSync,
    SyncData,
    SyncAll,
}

impl OpKind {
    /// Whether the call changes bytes, names, or what of them is durable: a power loss before and after it may differ.
    #[must_use]
    pub const fn is_change(self) -> bool {
        match self {
            // What is on its way to the disk may have landed without that too.
            Self::BeginSync
            | Self::Open
            | Self::Stamp
            | Self::ReadDir
            | Self::LockOwner
            | Self::FileStamp
            | Self::ReadAt => false,
            Self::CreateNew
            | Self::CreateDir
            | Self::Link
            | Self::Rename
            | Self::RemoveFile
            | Self::RemoveDir
            | Self::SyncDir
            | Self::Lock
            | Self::Unlock
            | Self::Append
            | Self::WriteAt
            | Self::Truncate
            | Self::SyncData
            | Self::SyncAll => true,
        }
    }

    /// Whether the call makes something durable.
    #[must_use]
    pub const fn is_sync(self) -> bool {
        matches!(self, Self::SyncDir | Self::SyncData | Self::SyncAll)
    }
}

/// How one call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// It does nothing and returns this system error (`ENOSPC`, `EIO`, `EDQUOT`). A file sync that fails so also gives
    /// the unsynced bytes up: no later sync writes them, though they may have landed and are still read back.
    Error(i32),
    /// A read or an append stops after so many bytes and returns their count. Other calls succeed.
    Short(usize),
    /// An append or a write stops after so many bytes and returns this system error all the same. Other calls do
    /// nothing and return it.
    Partial(usize, i32),
}

/// Which call shall fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Call(u64),
    NextOf(OpKind),
}
