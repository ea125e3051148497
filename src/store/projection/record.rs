//! The file that keeps the states of one session.
//!
//! ```text
//! head                 `RawHead`
//! root                 what the root is: its identity, as the catalog has it
//! project, session     names of the folders
//! header               the log's header line, as its generation writes it, without a newline
//! row ...              `RawRow`, then its key, then the JSON text of its state
//! ```
//!
//! All numbers are little-endian. Every byte is compared or covered by the CRC.
//!
//! Spec: `format-spec/09-caches.md`, "Checkpoints".

use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt as _;

use bytemuck::{Pod, Zeroable};

use super::anchor::Anchor;
use crate::container::crc32;
use crate::container::raw::pod::{U16Le, U32Le, U64Le};
use crate::limits::Limits;
use crate::row::Header;
use crate::session::{CheckpointKey, KEY_BYTES_MAX, StateMark};
use crate::store::catalog::{RawRevision, RootIdentity};

const MAGIC: [u8; 8] = *b"seslogPJ";
/// Of this layout. A file of another version is as good as none.
const VERSION: u32 = 1;
/// Longest file. What does not fit is folded anew each time.
pub(super) const LEN_MAX: usize = 8 << 20;
/// Most states of one session.
const ROWS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    version: U32Le,
    /// CRC-32 of everything behind it.
    crc: U32Le,
    /// Bytes of the whole file.
    len: U32Le,
    /// Number of states.
    rows: U32Le,
    /// Events that the session inherited.
    inherited: U64Le,
    root_len: U32Le,
    header_len: U32Le,
    project_len: U16Le,
    session_len: U16Le,
    /// Written as 0, and ignored.
    unused: U32Le,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawRow {
    /// The log when it was read.
    revision: RawRevision,
    /// File offset behind the last event of the state.
    end: U64Le,
    /// Events in the state.
    folded: U64Le,
    state_version: U32Le,
    /// CRC-32 of the first 4096 bytes before `end`, or of all if there are fewer; and of the last.
    head_crc: U32Le,
    tail_crc: U32Le,
    json_len: U32Le,
    key_len: U16Le,
    /// Bit 0: the log had been quiet for two seconds.
    flags: U16Le,
}

const _: () = {
    assert!(size_of::<RawHead>() == 48 && align_of::<RawHead>() == 1);
    assert!(offset_of!(RawHead, crc) == 12 && offset_of!(RawHead, len) == 16);
    assert!(offset_of!(RawHead, inherited) == 24 && offset_of!(RawHead, root_len) == 32);
    assert!(offset_of!(RawHead, project_len) == 40 && offset_of!(RawHead, unused) == 44);
    assert!(size_of::<RawRow>() == 76 && align_of::<RawRow>() == 1);
    assert!(offset_of!(RawRow, end) == 40 && offset_of!(RawRow, folded) == 48);
    assert!(offset_of!(RawRow, state_version) == 56 && offset_of!(RawRow, json_len) == 68);
    assert!(offset_of!(RawRow, key_len) == 72 && offset_of!(RawRow, flags) == 74);
};

const FLAG_SETTLED: u16 = 1;

/// Offsets of the members, for the tables of the specification.
#[cfg(test)]
pub(super) const MEMBERS: [(&str, &[(usize, &str)]); 2] = [
    (
        "Head",
        &[
            (offset_of!(RawHead, magic), "magic"),
            (offset_of!(RawHead, version), "version"),
            (offset_of!(RawHead, crc), "crc"),
            (offset_of!(RawHead, len), "len"),
            (offset_of!(RawHead, rows), "rows"),
            (offset_of!(RawHead, inherited), "inherited"),
            (offset_of!(RawHead, root_len), "root_len"),
            (offset_of!(RawHead, header_len), "header_len"),
            (offset_of!(RawHead, project_len), "project_len"),
            (offset_of!(RawHead, session_len), "session_len"),
            (offset_of!(RawHead, unused), "unused"),
            (size_of::<RawHead>(), ""),
        ],
    ),
    (
        "Row",
        &[
            (offset_of!(RawRow, revision), "revision"),
            (offset_of!(RawRow, end), "end"),
            (offset_of!(RawRow, folded), "folded"),
            (offset_of!(RawRow, state_version), "state_version"),
            (offset_of!(RawRow, head_crc), "head_crc"),
            (offset_of!(RawRow, tail_crc), "tail_crc"),
            (offset_of!(RawRow, json_len), "json_len"),
            (offset_of!(RawRow, key_len), "key_len"),
            (offset_of!(RawRow, flags), "flags"),
            (size_of::<RawRow>(), ""),
        ],
    ),
];

/// States of one session, each with what it is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Record {
    /// The log that they were folded of starts with this.
    pub(super) header: Header,
    /// Events that it inherited.
    pub(super) inherited: u64,
    pub(super) rows: Vec<Row>,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) mark: StateMark,
    pub(super) anchor: Anchor,
    /// JSON text, not looked into.
    pub(super) json: Vec<u8>,
}

/// Whose states a file keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) root: &'a RootIdentity,
    /// Names of the project's folder and of the session's.
    pub(super) names: (&'a OsStr, &'a OsStr),
}

impl Record {
    /// Whether the states are those of the log that begins with `header`, as far as its header tells.
    pub(super) fn is_of(&self, header: &Header) -> bool {
        self.header.id() == header.id() && self.checkpoint_key().admits_listing(header)
    }

    pub(super) fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey::new(&self.header, self.inherited)
    }

    /// The state under that key.
    pub(super) fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key.as_bytes())
    }

    /// The record in `bytes`, if it is one of `owner`, and undamaged.
    pub(super) fn read(bytes: &[u8], owner: Owner<'_>, limits: &Limits) -> Option<Self> {
        let (head, mut rest) = bytes.split_at_checked(size_of::<RawHead>())?;
        let head: RawHead = bytemuck::pod_read_unaligned(head);
        if head.magic != MAGIC
            || head.version.get() != VERSION
            || usize::try_from(head.len.get()) != Ok(bytes.len())
            || head.crc.get() != crc32(0, bytes.get(offset_of!(RawHead, len)..)?)
        {
            return None;
        }
        let mut take = |len: usize| {
            let (part, behind) = rest.split_at_checked(len)?;
            rest = behind;
            Some(part)
        };
        let (project, session) = owner.names;
        let is_owners = take(usize::try_from(head.root_len.get()).ok()?)? == owner.root.as_bytes()
            && take(usize::from(head.project_len.get()))? == project.as_bytes()
            && take(usize::from(head.session_len.get()))? == session.as_bytes();
        if !is_owners {
            return None;
        }
        let header = Header::parse(take(usize::try_from(head.header_len.get()).ok()?)?, limits).ok()?;
        let count = usize::try_from(head.rows.get()).ok().filter(|&count| count <= ROWS_MAX)?;
        let mut rows: Vec<Row> = Vec::with_capacity(count);
        for _ in 0..count {
            let raw: RawRow = bytemuck::pod_read_unaligned(take(size_of::<RawRow>())?);
            let key = take(usize::from(raw.key_len.get()))?.to_vec();
            let json = take(usize::try_from(raw.json_len.get()).ok()?)?.to_vec();
            if key.len() > KEY_BYTES_MAX || rows.iter().any(|row| row.key == key) {
                return None;
            }
            let anchor = Anchor {
                revision: raw.revision.get(),
                is_settled: raw.flags.get() & FLAG_SETTLED != 0,
                end: raw.end.get(),
                head_crc: raw.head_crc.get(),
                tail_crc: raw.tail_crc.get(),
            };
            let mark = StateMark { state_version: raw.state_version.get(), folded: raw.folded.get() };
            rows.push(Row { key, mark, anchor, json });
        }
        rest.is_empty().then_some(Self { header, inherited: head.inherited.get(), rows })
    }

    /// The file of the record. `None` if it would be too long.
    pub(super) fn write(&self, owner: Owner<'_>) -> Option<Vec<u8>> {
        let (project, session) = owner.names;
        let mut header = Vec::new();
        self.header.write(&mut header);
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).ok().map(U32Le::new);
        let short = |bytes: &[u8]| u16::try_from(bytes.len()).ok().map(U16Le::new);
        let mut head = RawHead {
            magic: MAGIC,
            version: U32Le::new(VERSION),
            crc: U32Le::new(0),
            len: U32Le::new(0),
            rows: U32Le::new(u32::try_from(self.rows.len()).ok().filter(|_| self.rows.len() <= ROWS_MAX)?),
            inherited: U64Le::new(self.inherited),
            root_len: len(owner.root.as_bytes())?,
            header_len: len(&header)?,
            project_len: short(project.as_bytes())?,
            session_len: short(session.as_bytes())?,
            unused: U32Le::new(0),
        };
        let mut out = bytemuck::bytes_of(&head).to_vec();
        for part in [owner.root.as_bytes(), project.as_bytes(), session.as_bytes(), &header] {
            out.extend_from_slice(part);
        }
        for Row { key, mark, anchor, json } in &self.rows {
            let raw = RawRow {
                revision: RawRevision::new(&anchor.revision),
                end: U64Le::new(anchor.end),
                folded: U64Le::new(mark.folded),
                state_version: U32Le::new(mark.state_version),
                head_crc: U32Le::new(anchor.head_crc),
                tail_crc: U32Le::new(anchor.tail_crc),
                json_len: len(json)?,
                key_len: short(key)?,
                flags: U16Le::new(if anchor.is_settled { FLAG_SETTLED } else { 0 }),
            };
            for part in [bytemuck::bytes_of(&raw), key, json] {
                out.extend_from_slice(part);
            }
        }
        head.len = U32Le::new(u32::try_from(out.len()).ok().filter(|_| out.len() <= LEN_MAX)?);
        out.get_mut(..size_of::<RawHead>())?.copy_from_slice(bytemuck::bytes_of(&head));
        head.crc = U32Le::new(crc32(0, out.get(offset_of!(RawHead, len)..)?));
        out.get_mut(..size_of::<RawHead>())?.copy_from_slice(bytemuck::bytes_of(&head));
        Some(out)
    }
}
