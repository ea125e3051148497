//! One session in a catalog: what its folder and its log were when they were read, and what a listing shows of them.

use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};

use crate::container::raw::pod::{I64Le, U16Le, U32Le, U64Le};
use crate::container::{Encoding, crc32};
use crate::error::Error;
use crate::limits::Limits;
use crate::row::Header;
use crate::session::Projections;
use crate::store::layout::{joined, parse_log_name};
use crate::store::snapshot::{FileRevision, Revision, Snapshot, State};
use crate::units::UnixMs;

/// Longest entry. A session that needs more is read each time: it has an absurd id, or very many older generations.
pub(super) const ENTRY_LEN_MAX: usize = 64 << 10;

/// [`FileRevision`] as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(in crate::store) struct RawRevision {
    device: U64Le,
    inode: U64Le,
    size: U64Le,
    modified_ns: I64Le,
    changed_ns: I64Le,
}

/// The fixed part. Behind it stand the names of project, session and log, the header line, and sections up to `len`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawEntry {
    /// CRC-32 of everything behind it.
    crc: U32Le,
    /// Bytes of the whole entry.
    len: U32Le,
    folder: RawRevision,
    log: RawRevision,
    events: U64Le,
    /// Unix milliseconds, if the flag says that there is one.
    last_time: I64Le,
    /// Where the torn end begins, and its bytes; 0 unless `state` is torn.
    torn_at: U64Le,
    torn_len: U64Le,
    state: u8,
    flags: u8,
    encoding: u8,
    /// Written as 0, and ignored.
    unused: u8,
    project_len: U16Le,
    session_len: U16Le,
    log_name_len: U16Le,
    header_len: U16Le,
}

/// Before each section. One whose tag a reader does not know is passed over: projections get tags of their own.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawSection {
    tag: U16Le,
    /// Of the section's own format; 0 for those defined here.
    version: U16Le,
    len: U32Le,
}

const _: () = {
    assert!(size_of::<RawRevision>() == 40 && align_of::<RawRevision>() == 1);
    assert!(size_of::<RawEntry>() == ENTRY_FIXED && align_of::<RawEntry>() == 1);
    assert!(offset_of!(RawEntry, len) == 4 && offset_of!(RawEntry, folder) == 8);
    assert!(offset_of!(RawEntry, log) == 48 && offset_of!(RawEntry, events) == 88);
    assert!(offset_of!(RawEntry, last_time) == 96 && offset_of!(RawEntry, torn_at) == 104);
    assert!(offset_of!(RawEntry, torn_len) == 112 && offset_of!(RawEntry, state) == 120);
    assert!(offset_of!(RawEntry, flags) == 121 && offset_of!(RawEntry, encoding) == 122);
    assert!(offset_of!(RawEntry, project_len) == 124 && offset_of!(RawEntry, session_len) == 126);
    assert!(offset_of!(RawEntry, log_name_len) == 128 && offset_of!(RawEntry, header_len) == 130);
    assert!(size_of::<RawSection>() == 8 && align_of::<RawSection>() == 1);
    assert!(offset_of!(RawSection, version) == 2 && offset_of!(RawSection, len) == 4);
};

/// Length of the fixed part.
pub(super) const ENTRY_FIXED: usize = 132;

const STATE_OK: u8 = 1;
const STATE_TORN: u8 = 2;
const FLAG_LAST_TIME: u8 = 1;
/// Names of older generations beside the log, each with its newline, oldest first.
const TAG_OLDER: u16 = 1;
/// States of the built-in projections: [`states_tag`], then what [`Projected::write_json`](crate::session::Projected) writes.
const TAG_STATES: u16 = 2;
/// Of what that section holds.
const STATES_VERSION: u16 = 1;

/// An entry whose CRC and lengths were checked. What it says of a session is true only as long as both revisions are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    raw: RawEntry,
    project: &'a [u8],
    session: &'a [u8],
    log_name: &'a [u8],
    header: &'a [u8],
    sections: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry that `bytes` hold from the first to the last. `None` if they are damaged.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, mut rest) = bytes.split_at_checked(ENTRY_FIXED)?;
        let raw: RawEntry = bytemuck::pod_read_unaligned(fixed);
        if usize::try_from(raw.len.get()) != Ok(bytes.len()) || bytes.len() > ENTRY_LEN_MAX {
            return None;
        }
        if raw.crc.get() != crc32(0, bytes.get(size_of::<U32Le>()..)?) {
            return None;
        }
        let mut take = |len: U16Le| {
            let (part, behind) = rest.split_at_checked(usize::from(len.get()))?;
            rest = behind;
            Some(part)
        };
        let (project, session) = (take(raw.project_len)?, take(raw.session_len)?);
        let (log_name, header) = (take(raw.log_name_len)?, take(raw.header_len)?);
        Some(Self { raw, project, session, log_name, header, sections: rest })
    }

    /// Whether it is of the session folder `session` in the project folder `project`.
    pub(super) fn is_of(&self, (project, session): (&OsStr, &OsStr)) -> bool {
        self.project == project.as_bytes() && self.session == session.as_bytes()
    }

    /// The session's folder as it was.
    pub(super) const fn folder(&self) -> FileRevision {
        self.raw.folder.get()
    }

    /// The log as it was.
    pub(super) const fn log(&self) -> FileRevision {
        self.raw.log.get()
    }

    /// Path of the log in `folder`. `None` for a name that no log has.
    pub(super) fn log_path(&self, folder: &Path) -> Option<PathBuf> {
        let name = OsStr::from_bytes(self.log_name);
        parse_log_name(name).map(|_| joined(folder, name))
    }

    /// What a listing shows of the session in `folder`, but for its project. `None` if the entry is of another build, which
    /// knows more.
    pub(super) fn snapshot(&self, folder: &Path, limits: &Limits) -> Option<Snapshot> {
        let RawEntry { events, last_time, torn_at, torn_len, state, flags, encoding, .. } = self.raw;
        let path = self.log_path(folder)?;
        let header = Header::parse(self.header, limits).ok()?;
        let (state, error) = match state {
            STATE_OK => (State::Ok, None),
            STATE_TORN => {
                let (offset, torn, intact) = (torn_at.get(), torn_len.get(), events.get());
                let error = Error::TornTail { path: path.clone(), offset, torn, intact };
                (State::Torn, Some(Box::new(error)))
            }
            _ => return None,
        };
        let mut snapshot = Snapshot::at(&path);
        snapshot.generation = Some(header.generation());
        snapshot.header = Some(header);
        snapshot.encoding = Some(*Encoding::ALL.get(usize::from(encoding))?);
        snapshot.event_count = Some(events.get());
        snapshot.size_bytes = Some(self.log().size);
        snapshot.last_time = (flags & FLAG_LAST_TIME != 0).then(|| UnixMs::new(last_time.get()));
        snapshot.revision = Some(self.log().into());
        // It was when it was read, and nothing has changed since.
        snapshot.is_quiet = true;
        (snapshot.state, snapshot.error) = (state, error);
        snapshot.older = self.older(folder)?;
        Some(snapshot)
    }

    /// The states of the built-in projections, if they are there in their present versions. JSON text, not looked into.
    pub(super) fn states(&self) -> Option<&'a [u8]> {
        let (tag, json) = self.section(TAG_STATES, STATES_VERSION)?.split_first_chunk::<4>()?;
        (*tag == states_tag().to_le_bytes()).then_some(json)
    }

    fn older(&self, folder: &Path) -> Option<Vec<PathBuf>> {
        let names = self.section(TAG_OLDER, 0)?;
        let names = names.split_inclusive(|&byte| byte == b'\n');
        names
            .map(|name| {
                let name = OsStr::from_bytes(name.strip_suffix(b"\n")?);
                parse_log_name(name).map(|_| folder.join(name))
            })
            .collect()
    }

    /// The section of that tag and version; empty if there is none of that tag. `None` for another version, or if the
    /// sections do not follow each other.
    fn section(&self, tag: u16, version: u16) -> Option<&'a [u8]> {
        let mut rest = self.sections;
        while !rest.is_empty() {
            let (head, behind) = rest.split_at_checked(size_of::<RawSection>())?;
            let head: RawSection = bytemuck::pod_read_unaligned(head);
            let (content, behind) = behind.split_at_checked(usize::try_from(head.len.get()).ok()?)?;
            if head.tag.get() == tag {
                return (head.version.get() == version).then_some(content);
            }
            rest = behind;
        }
        Some(&[])
    }
}

/// Appends the entry of a session to `out`, if its state is one that a catalog keeps. `false` if not: `out` is as before.
///
/// Kept are sound logs, and torn ones, whose ends took a walk to judge. `folder` is what the session's folder was before it was
/// read.
pub(super) fn write(
    (project, session): (&OsStr, &OsStr),
    folder: &FileRevision,
    snapshot: &Snapshot,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    // States that do not fit stay in their own file.
    [snapshot.states(), None].into_iter().any(|states| {
        out.truncate(start);
        let is_written = try_write((project, session), folder, snapshot, states, out).is_some();
        if !is_written {
            out.truncate(start);
        }
        is_written
    })
}

/// Tells the present set of built-in projections and their versions from any other.
fn states_tag() -> u32 {
    static TAG: LazyLock<u32> = LazyLock::new(|| {
        Projections::built_in().versions().fold(0, |crc, (key, version)| {
            crc32(crc32(crc32(crc, key.as_bytes()), b"\0"), &version.to_le_bytes())
        })
    });
    *TAG
}

fn try_write(
    (project, session): (&OsStr, &OsStr),
    folder: &FileRevision,
    snapshot: &Snapshot,
    states: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    let (state, torn_at, torn_len) = match (snapshot.state, snapshot.error.as_deref()) {
        (State::Ok, None) => (STATE_OK, 0, 0),
        (State::Torn, Some(&Error::TornTail { offset, torn, intact, .. }))
            if Some(intact) == snapshot.event_count =>
        {
            (STATE_TORN, offset, torn)
        }
        _ => return None,
    };
    let log =
        snapshot.revision.and_then(Revision::as_file).filter(|log| Some(log.size) == snapshot.size_bytes)?;
    let encoding = snapshot.encoding?;
    let log_name = snapshot.path.file_name()?.as_bytes();
    let mut header = Vec::new();
    snapshot.header.as_ref()?.write(&mut header);
    let len = |bytes: &[u8]| u16::try_from(bytes.len()).ok().map(U16Le::new);
    let mut raw = RawEntry {
        crc: U32Le::new(0),
        len: U32Le::new(0),
        folder: RawRevision::new(folder),
        log: RawRevision::new(&log),
        events: U64Le::new(snapshot.event_count?),
        last_time: I64Le::new(snapshot.last_time.map_or(0, UnixMs::get)),
        torn_at: U64Le::new(torn_at),
        torn_len: U64Le::new(torn_len),
        state,
        flags: if snapshot.last_time.is_some() { FLAG_LAST_TIME } else { 0 },
        encoding: u8::try_from(Encoding::ALL.iter().position(|&one| one == encoding)?).ok()?,
        unused: 0,
        project_len: len(project.as_bytes())?,
        session_len: len(session.as_bytes())?,
        log_name_len: len(log_name)?,
        header_len: len(&header)?,
    };
    out.extend_from_slice(bytemuck::bytes_of(&raw));
    for part in [project.as_bytes(), session.as_bytes(), log_name, &header] {
        out.extend_from_slice(part);
    }
    let mut older = Vec::new();
    for path in &snapshot.older {
        older.extend_from_slice(path.file_name()?.as_bytes());
        older.push(b'\n');
    }
    if !older.is_empty() {
        write_section(TAG_OLDER, 0, &[&older], out)?;
    }
    if let Some(states) = states {
        write_section(TAG_STATES, STATES_VERSION, &[&states_tag().to_le_bytes(), states], out)?;
    }
    let entry_len = out.len().saturating_sub(start);
    raw.len = U32Le::new(u32::try_from(entry_len).ok().filter(|_| entry_len <= ENTRY_LEN_MAX)?);
    let entry = out.get_mut(start..)?;
    entry.get_mut(..ENTRY_FIXED)?.copy_from_slice(bytemuck::bytes_of(&raw));
    raw.crc = U32Le::new(crc32(0, entry.get(size_of::<U32Le>()..)?));
    entry.get_mut(..ENTRY_FIXED)?.copy_from_slice(bytemuck::bytes_of(&raw));
    Some(())
}

fn write_section(tag: u16, version: u16, parts: &[&[u8]], out: &mut Vec<u8>) -> Option<()> {
    let len = parts.iter().fold(0_usize, |len, part| len.saturating_add(part.len()));
    let len = U32Le::new(u32::try_from(len).ok()?);
    let head = RawSection { tag: U16Le::new(tag), version: U16Le::new(version), len };
    out.extend_from_slice(bytemuck::bytes_of(&head));
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Some(())
}

impl RawRevision {
    pub(in crate::store) const fn new(revision: &FileRevision) -> Self {
        Self {
            device: U64Le::new(revision.device),
            inode: U64Le::new(revision.inode),
            size: U64Le::new(revision.size),
            modified_ns: I64Le::new(revision.modified_ns),
            changed_ns: I64Le::new(revision.changed_ns),
        }
    }

    pub(in crate::store) const fn get(self) -> FileRevision {
        FileRevision {
            device: self.device.get(),
            inode: self.inode.get(),
            size: self.size.get(),
            modified_ns: self.modified_ns.get(),
            changed_ns: self.changed_ns.get(),
        }
    }
}
