//! An open log: a file, what its name says, and what its bytes say.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::cancel::Cancel;
use super::history::{Page, PageRequest, page_of_log};
use super::layout::parse_log_name;
use super::snapshot::header_error;
use crate::container::disk::{Access, Disk, DiskDir, DiskFile, Map, Stamp};
use crate::container::{
    Detected, Encoding, FileSource, LogId, ReadError, Skim, detect, durable_hint, head, header_line, skim,
};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::{Header, HeaderFault};
use crate::units::Generation;

/// How a reader gets at the bytes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadMode {
    /// Reads everything into buffers. No slower than maps, and needs no signal handler.
    #[default]
    Read,
    /// Maps what is committed and synced, behind a guard against files that shrink; reads the rest.
    Map,
}

/// A log that is open for reading. Its identity and length are those of the moment it was opened.
#[derive(Debug)]
pub struct LogFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    stamp: Stamp,
    encoding: Encoding,
    named: Option<(Generation, Encoding)>,
    detected: Detected,
    limits: Limits,
    mode: ReadMode,
    /// The file's first bytes: most header frames, and what every look at a log begins with.
    head: Vec<u8>,
    /// The header, once somebody has asked for it.
    first: OnceLock<FirstLine>,
}

/// The header line of a log, and what it says.
#[derive(Debug)]
pub(crate) struct FirstLine {
    /// The line, its newline included.
    stored: Vec<u8>,
    pub(crate) header: Result<Header, HeaderFault>,
}

impl FirstLine {
    /// The line without its newline.
    pub(crate) fn line(&self) -> &[u8] {
        self.stored.strip_suffix(b"\n").unwrap_or(&self.stored)
    }
}

/// Bytes of a log's start that are read when it is opened, and of its end at least at each look there.
const NEAR: usize = 4 << 10;
/// A log that is no longer is read whole at once: that costs no more than the second look that it saves.
const WHOLE: u64 = 16 << 10;

impl LogFile {
    /// Opens the file at `path`, links not followed, and looks at its first frame.
    ///
    /// The encoding is the one that the bytes show; where they leave it open (an empty file, a header frame and nothing
    /// more) it is the one that the name states. Whether the two agree is for [`LogFile::check_name`] to say.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, limits: Limits, mode: ReadMode) -> Result<Self> {
        Self::of_opened(disk, path, disk.open_stamped(path, Access::Read), limits, mode)
    }

    /// As [`LogFile::open`], of the file in `dir` that `path` leads to.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn open_in(
        dir: &dyn DiskDir,
        disk: &Arc<dyn Disk>,
        path: &Path,
        limits: Limits,
        mode: ReadMode,
    ) -> Result<Self> {
        Self::of_opened(disk, path, dir.open_stamped(path.file_name().unwrap_or_default()), limits, mode)
    }

    fn of_opened(
        disk: &Arc<dyn Disk>,
        path: &Path,
        opened: io::Result<(Box<dyn DiskFile>, Stamp)>,
        limits: Limits,
        mode: ReadMode,
    ) -> Result<Self> {
        let (file, stamp) = opened.map_err(Error::io(path, "opening"))?;
        let named = path.file_name().and_then(parse_log_name);
        let head = head_of(&*file, stamp.size);
        let detected = detect(&mut FileSource::new(&*file, stamp.size, NEAR).with_head(&head));
        let encoding = match (detected, named) {
            (Detected::Encoding(encoding), _) => encoding,
            (Detected::Compressed, Some((_, encoding))) if encoding != Encoding::Plain => encoding,
            (Detected::Compressed, _) => Encoding::Zstd,
            (_, Some((_, encoding))) => encoding,
            (_, None) => Encoding::Plain,
        };
        let path = path.to_path_buf();
        let (disk, first) = (Arc::clone(disk), OnceLock::new());
        Ok(Self { disk, path, file, stamp, encoding, named, detected, limits, mode, head, first })
    }

    /// Checks that the name, the bytes and the header's `generation` agree.
    ///
    /// # Errors
    /// [`Error::IdentityMismatch`] with both sides. A file without a canonical name agrees with anything.
    pub fn check_name(&self, generation: Generation) -> Result<()> {
        self.check_encoding()?;
        match self.named {
            Some((named, _)) if named != generation => Err(Error::IdentityMismatch {
                path: self.path.clone(),
                what: format!("the name says generation {named}, the header says {generation}"),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the name and the bytes agree on the encoding.
    ///
    /// # Errors
    /// [`Error::IdentityMismatch`] with both sides.
    pub fn check_encoding(&self) -> Result<()> {
        match (self.named, self.detected) {
            (Some((_, named)), Detected::Encoding(found)) if named != found => Err(Error::IdentityMismatch {
                path: self.path.clone(),
                what: format!("the name says encoding {named}, the bytes are {found}"),
            }),
            _ => Ok(()),
        }
    }

    /// Looks over the whole log without decompressing it: see [`skim`]. `None` if only a full scan can say how it is.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] if the file became shorter meanwhile.
    pub fn skim(&self, progress: &mut dyn FnMut(u64)) -> Result<Option<Skim>> {
        skim(&mut self.source()?, self.encoding, progress).map_err(|error| Error::read(&self.path, 0, error))
    }

    /// The generation that the header states.
    ///
    /// # Errors
    /// As [`LogFile::header_line`], and what is wrong with the header.
    pub fn generation(&self) -> Result<Generation> {
        match &self.first_line().map_err(|error| Error::read(&self.path, 0, error))?.header {
            Ok(header) => Ok(header.generation()),
            Err(fault) => Err(header_error(&self.path, *fault)),
        }
    }

    /// The header line without its newline, of at most the size that the limits allow.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] or [`Error::FormatUnsupported`] where there is none.
    pub fn header_line(&self) -> Result<Vec<u8>> {
        let first = self.first_line().map_err(|error| Error::read(&self.path, 0, error))?;
        Ok(first.line().to_vec())
    }

    /// The header, read once for as long as the log is open.
    ///
    /// # Errors
    /// The fault of the first frame or line.
    pub(crate) fn first_line(&self) -> Result<&FirstLine, ReadError> {
        if let Some(first) = self.first.get() {
            return Ok(first);
        }
        let stored = header_line(&mut self.probe_source(), self.encoding, self.limits)?;
        let line = stored.strip_suffix(b"\n").unwrap_or(&stored);
        let header = Header::parse(line, &self.limits);
        Ok(self.first.get_or_init(|| FirstLine { stored, header }))
    }

    /// One page of the log: see [`history`](super::history). For whoever has a file; a session's handle also sees to it that the
    /// file is the session's.
    ///
    /// # Errors
    /// [`Error::StaleCursor`]; what is wrong with the log where the page begins; [`Error::Io`].
    pub fn page(&self, request: &PageRequest) -> Result<Page> {
        page_of_log(self, request, &Cancel::never()).map(|paged| paged.page)
    }

    /// Where the header ends with all that belongs to it, and the id that seals the rest of an indexed log.
    ///
    /// # Errors
    /// As [`LogFile::header_line`].
    pub(crate) fn head(&self) -> Result<(u64, Option<LogId>)> {
        let found = head(&mut self.probe_source(), self.encoding, self.limits);
        found.map_err(|error| Error::read(&self.path, 0, error))
    }

    /// Bytes for a forward walk.
    ///
    /// Only an indexed log says how much of it was synced and will never be written again; only that much is mapped.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn source(&self) -> Result<FileSource<'_>> {
        let mut source =
            FileSource::new(&*self.file, self.stamp.size, FileSource::READ_AHEAD).with_head(&self.head);
        if self.mode == ReadMode::Map && self.encoding == Encoding::Indexed {
            let below = durable_hint(&mut self.probe_source());
            source.map_below(below).map_err(Error::io(&self.path, "mapping"))?;
        }
        Ok(source)
    }

    /// Bytes for single looks at both ends.
    pub(crate) fn probe_source(&self) -> FileSource<'_> {
        FileSource::new(&*self.file, self.stamp.size, NEAR).with_head(&self.head)
    }

    /// Bytes for looks near `end`, as if the log ended there.
    pub(crate) fn source_to(&self, end: u64) -> FileSource<'_> {
        FileSource::new(&*self.file, end.min(self.stamp.size), NEAR).with_head(&self.head)
    }

    /// The whole file, mapped as it was long when it was opened; `None` where maps cannot be had.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn map(&self) -> Result<Option<Map>> {
        self.file.map(self.stamp.size).map_err(Error::io(&self.path, "mapping"))
    }

    /// The stored bytes of `range`, in memory of their own.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let end = range.end.min(self.stamp.size);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(range.start)).unwrap_or(0)];
        self.file.read_exact_at(range.start, &mut bytes).map_err(Error::io(&self.path, "reading"))?;
        Ok(bytes)
    }

    /// Makes what was read of the log durable, whoever wrote it: see [`DiskFile::sync_data`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io(&self.path, "syncing"))
    }

    /// Path as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identity and length when it was opened.
    #[must_use]
    pub const fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// How the lines are stored.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What the first bytes show.
    #[must_use]
    pub const fn detected(&self) -> Detected {
        self.detected
    }

    /// What the name states, if it is canonical.
    #[must_use]
    pub const fn named(&self) -> Option<(Generation, Encoding)> {
        self.named
    }

    /// Bounds on what is read.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The file system it lies on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
}

/// The first bytes of a file. Nothing if they cannot be read: whoever needs them tries again, and says why.
fn head_of(file: &dyn DiskFile, len: u64) -> Vec<u8> {
    let near = usize::try_from(len).ok().filter(|_| len <= WHOLE).unwrap_or(NEAR);
    let mut head = vec![0; near];
    let read = file.read_exact_at(0, &mut head);
    if read.is_err() {
        head.clear();
    }
    head
}
