//! A catalog file: entries in any order, the root that they are of, an index sorted by name, and a footer.
//!
//! ```text
//! entry ...            as `entry` has them, from offset 0
//! root path            as the caller names it, made absolute
//! index                one `RawSlot` an entry, sorted by hash
//! footer               `RawFooter`, the last 64 bytes
//! ```
//!
//! Written from the first byte to the last, then renamed over the one before. Nobody writes into a catalog that has its name.
//! Everything is checked before it is used: the footer and the path by one CRC, the index by another, each entry by its own, so
//! that damage costs no more than what it hits. All numbers are little-endian.

use std::ffi::OsStr;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt as _;

use bytemuck::{Pod, Zeroable};

use super::entry::{ENTRY_FIXED, ENTRY_LEN_MAX};
use crate::container::crc32;
use crate::container::disk::{DiskFile, Map};
use crate::container::raw::pod::{U32Le, U64Le};
use crate::limits::Limits;

const MAGIC: [u8; 8] = *b"seslogCT";
/// Of this layout and of `RawEntry`. A catalog of another version is written anew.
const VERSION: u32 = 1;
/// Longest catalog that is read: two million sessions of half a kilobyte.
const LEN_MAX: u64 = 1 << 30;
/// Entries whose names have one hash. Only a made-up index has more than two.
const COLLISIONS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawFooter {
    magic: [u8; 8],
    version: U32Le,
    /// CRC-32 of the bounds under which the sessions were judged.
    rules: U32Le,
    root_device: U64Le,
    root_inode: U64Le,
    /// Entries, and slots of the index.
    count: U64Le,
    /// Where the root's path begins: the end of the entries.
    root_at: U64Le,
    root_len: U32Le,
    /// CRC-32 of the index.
    index_crc: U32Le,
    /// Written as 0, and ignored.
    unused: U32Le,
    /// CRC-32 of the root's path and of the footer up to here.
    crc: U32Le,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    hash: u64,
    at: u64,
    len: u32,
}

/// A [`Slot`] as stored.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawSlot {
    hash: U64Le,
    at: U64Le,
    len: U32Le,
}

const _: () = {
    assert!(size_of::<RawFooter>() == FOOTER_LEN && align_of::<RawFooter>() == 1);
    assert!(offset_of!(RawFooter, version) == 8 && offset_of!(RawFooter, rules) == 12);
    assert!(offset_of!(RawFooter, root_device) == 16 && offset_of!(RawFooter, root_inode) == 24);
    assert!(offset_of!(RawFooter, count) == 32 && offset_of!(RawFooter, root_at) == 40);
    assert!(offset_of!(RawFooter, root_len) == 48 && offset_of!(RawFooter, index_crc) == 52);
    assert!(offset_of!(RawFooter, crc) == 60);
    assert!(size_of::<RawSlot>() == 20 && align_of::<RawSlot>() == 1 && offset_of!(RawSlot, len) == 16);
};

const FOOTER_LEN: usize = 64;

/// What a catalog is of. None of another identity is ever used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Absolute path of the root.
    pub(super) root: Vec<u8>,
    pub(super) device: u64,
    pub(super) inode: u64,
    rules: u32,
}

impl Identity {
    pub(super) fn new(root: &OsStr, device: u64, inode: u64, limits: &Limits) -> Self {
        let Limits {
            header_bytes_max,
            row_bytes_max,
            frame_content_bytes_max,
            frame_trusted_ratio,
            window_bytes_max,
            nesting_max,
        } = *limits;
        let rules = [
            header_bytes_max,
            row_bytes_max,
            frame_content_bytes_max,
            frame_trusted_ratio,
            window_bytes_max,
            u64::from(nesting_max),
        ];
        let rules = rules.iter().fold(0, |crc, number| crc32(crc, &number.to_le_bytes()));
        Self { root: root.as_bytes().to_vec(), device, inode, rules }
    }

    /// The same root, looked at behind the start of the machine that `boot` stands for.
    pub(super) fn since(self, boot: u64) -> Self {
        Self { rules: crc32(self.rules, &boot.to_le_bytes()), ..self }
    }

    /// Name of the catalog's file, without its extension: the same for the same path and bounds.
    pub(super) fn file_stem(&self) -> String {
        let hash = fnv(fnv(FNV_START, &self.root), &self.rules.to_le_bytes());
        format!("{hash:016x}")
    }

    /// All of it as bytes: device, inode, bounds, path.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self { root, device, inode, rules } = self;
        [&device.to_le_bytes()[..], &inode.to_le_bytes(), &rules.to_le_bytes(), root].concat()
    }
}

/// The bytes of a catalog.
#[derive(Debug)]
enum Bytes {
    Read(Vec<u8>),
    Mapped(Map),
}

/// A catalog whose footer and index were checked.
#[derive(Debug)]
pub(super) struct Table {
    bytes: Bytes,
    /// End of the entries.
    entries_end: usize,
    index: Vec<Slot>,
}

impl Table {
    /// Reads the catalog in `file`, which is `len` bytes long. `None` if it is damaged, of another identity, or of another
    /// version.
    ///
    /// A small one is read at once; a larger one is mapped, where the disk maps.
    pub(super) fn read(file: &dyn DiskFile, len: u64, identity: &Identity) -> Option<Self> {
        /// Of two thousand sessions. Below, a map costs as much as the copy that it saves.
        const MAPPED_MIN: u64 = 1 << 20;
        if len > LEN_MAX {
            return None;
        }
        let map = if len >= MAPPED_MIN { file.map(len).ok().flatten() } else { None };
        let bytes = match map {
            Some(map) => Bytes::Mapped(map),
            None => {
                let mut bytes = vec![0; usize::try_from(len).ok()?];
                file.read_exact_at(0, &mut bytes).ok()?;
                Bytes::Read(bytes)
            }
        };
        Self::of(bytes, identity)
    }

    /// The catalog that stands in `bytes`.
    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8], identity: &Identity) -> Option<Self> {
        Self::of(Bytes::Read(bytes.to_vec()), identity)
    }

    fn of(bytes: Bytes, identity: &Identity) -> Option<Self> {
        let all = bytes.all();
        let (rest, footer) = all.split_at_checked(all.len().checked_sub(FOOTER_LEN)?)?;
        let footer_bytes = <[u8; FOOTER_LEN]>::try_from(footer).ok()?;
        let footer: RawFooter = bytemuck::pod_read_unaligned(&footer_bytes);
        if footer.magic != MAGIC || footer.version.get() != VERSION {
            return None;
        }
        let entries_end = usize::try_from(footer.root_at.get()).ok()?;
        let root_end = entries_end.checked_add(usize::try_from(footer.root_len.get()).ok()?)?;
        // A copy: nothing is decided by mapped bytes that could be others at the next look.
        let root = rest.get(entries_end..root_end)?.to_vec();
        let crc = crc32(crc32(0, &root), footer_bytes.get(..offset_of!(RawFooter, crc))?);
        let found = Identity {
            root,
            device: footer.root_device.get(),
            inode: footer.root_inode.get(),
            rules: footer.rules.get(),
        };
        if crc != footer.crc.get() || found != *identity {
            return None;
        }
        let index = rest.get(root_end..)?;
        let count = usize::try_from(footer.count.get()).ok()?;
        if index.len() != count.checked_mul(size_of::<RawSlot>())?
            || crc32(0, index) != footer.index_crc.get()
        {
            return None;
        }
        let raw: &[RawSlot] = bytemuck::try_cast_slice(index).ok()?;
        let index = raw.iter().map(Slot::of).collect();
        Some(Self { entries_end, index, bytes })
    }

    /// Numbers of the entries that a name of that hash may have, and their bytes, copied.
    pub(super) fn find(&self, hash: u64) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
        let first = self.index.partition_point(|slot| slot.hash < hash);
        let slots = self.index.iter().enumerate().skip(first);
        slots
            .take_while(move |(_, slot)| slot.hash == hash)
            .take(COLLISIONS_MAX)
            .filter_map(|(number, slot)| Some((number, self.entry(slot)?.to_vec())))
    }

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The entry of that number, and the hash of its name.
    pub(super) fn get(&self, number: usize) -> Option<(u64, &[u8])> {
        let slot = self.index.get(number)?;
        Some((slot.hash, self.entry(slot)?))
    }

    fn entry(&self, slot: &Slot) -> Option<&[u8]> {
        let len = usize::try_from(slot.len).ok().filter(|len| (ENTRY_FIXED..=ENTRY_LEN_MAX).contains(len))?;
        let start = usize::try_from(slot.at).ok()?;
        let end = start.checked_add(len).filter(|&end| end <= self.entries_end)?;
        self.bytes.all().get(start..end)
    }
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(map) => map.bytes(),
        }
    }
}

impl Slot {
    fn of(raw: &RawSlot) -> Self {
        Self { hash: raw.hash.get(), at: raw.at.get(), len: raw.len.get() }
    }
}

/// Writes a catalog piece by piece.
#[derive(Debug)]
pub(super) struct TableWriter<'f> {
    file: &'f dyn DiskFile,
    buffer: Vec<u8>,
    /// Bytes of entries so far.
    at: u64,
    index: Vec<Slot>,
}

impl<'f> TableWriter<'f> {
    /// Bytes that are collected before they are written.
    const BUFFER_LEN: usize = 256 << 10;

    /// Begins a catalog in an empty file, with room for `count` entries.
    pub(super) fn new(file: &'f dyn DiskFile, count: usize) -> Self {
        Self { file, buffer: Vec::with_capacity(Self::BUFFER_LEN), at: 0, index: Vec::with_capacity(count) }
    }

    /// Adds what `write` appends, if it says that it did: the entry of a name with that hash.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub(super) fn add(&mut self, hash: u64, write: impl FnOnce(&mut Vec<u8>) -> bool) -> io::Result<()> {
        let before = self.buffer.len();
        if write(&mut self.buffer) {
            let len = self.buffer.len().saturating_sub(before);
            let slot = Slot { hash, at: self.at, len: u32::try_from(len).unwrap_or(u32::MAX) };
            self.index.push(slot);
            self.at = self.at.saturating_add(len as u64);
        }
        if self.buffer.len() >= Self::BUFFER_LEN {
            self.file.append_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub(super) fn finish(mut self, identity: &Identity) -> io::Result<()> {
        self.buffer.extend_from_slice(&identity.root);
        self.index.sort_unstable();
        let mut index_crc = 0;
        for slot in &self.index {
            let raw =
                RawSlot { hash: U64Le::new(slot.hash), at: U64Le::new(slot.at), len: U32Le::new(slot.len) };
            index_crc = crc32(index_crc, bytemuck::bytes_of(&raw));
            self.buffer.extend_from_slice(bytemuck::bytes_of(&raw));
            if self.buffer.len() >= Self::BUFFER_LEN {
                self.file.append_all(&self.buffer)?;
                self.buffer.clear();
            }
        }
        let mut footer = RawFooter {
            magic: MAGIC,
            version: U32Le::new(VERSION),
            rules: U32Le::new(identity.rules),
            root_device: U64Le::new(identity.device),
            root_inode: U64Le::new(identity.inode),
            count: U64Le::new(self.index.len() as u64),
            root_at: U64Le::new(self.at),
            root_len: U32Le::new(u32::try_from(identity.root.len()).map_err(io::Error::other)?),
            index_crc: U32Le::new(index_crc),
            unused: U32Le::new(0),
            crc: U32Le::new(0),
        };
        let covered = bytemuck::bytes_of(&footer).get(..offset_of!(RawFooter, crc)).unwrap_or_default();
        footer.crc = U32Le::new(crc32(crc32(0, &identity.root), covered));
        self.buffer.extend_from_slice(bytemuck::bytes_of(&footer));
        self.file.append_all(&self.buffer)
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The 64-bit FNV-1a hash, continued.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Hash of the names of a project folder and of a session's folder in it.
pub(in crate::store) fn hash_of((project, session): (&OsStr, &OsStr)) -> u64 {
    // No name holds a slash, so no two pairs give the same bytes.
    fnv(fnv(fnv(FNV_START, project.as_bytes()), b"/"), session.as_bytes())
}
