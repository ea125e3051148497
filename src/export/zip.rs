use std::collections::HashSet;
use std::io::{self, Write};

use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::fault::ExportError;
use super::lineage::descendants;
use super::text::each_line;
use crate::container::Encoding;
use crate::json::Text;
use crate::row::Header;
use crate::store::layout::log_name;
use crate::store::{Cancel, SessionAccess, SessionPersistence, State};
use crate::units::Generation;

/// The compressor gets its input in pieces of this size, whoever writes in whatever pieces: its output depends on nothing else.
const PIECE: usize = 64 << 10;
/// Deflate's level.
const LEVEL: i64 = 6;

/// Name of the ZIP of a session: `dsh-session-<id>.zip`, the id in safe characters.
#[must_use]
pub fn archive_name(id: &Text) -> String {
    format!("dsh-session-{}.zip", safe_id(id))
}

/// Writes session `id` and its sub-sessions into a ZIP as [`LogZip`] describes. Returns the number of sessions.
///
/// # Errors
/// [`ExportError::Log`]: a session is not there or not in order, a sub-session included: an archive is never short.
/// [`ExportError::Write`]. What was written until then is not an archive.
pub fn write_zip<W: Write>(
    store: &dyn SessionPersistence,
    id: &Text,
    out: W,
    cancel: &Cancel,
) -> Result<u64, ExportError> {
    let sessions = store.list(cancel)?;
    let below = descendants(&sessions, id);
    let own = sessions.iter().filter(|one| one.header.as_ref().is_some_and(|header| header.id() == id));
    // A read handle serves what stands before a damaged end; an export of that would be short.
    let damaged = own.chain(below.iter().copied()).filter(|one| one.state == State::Corrupt);
    if let Some(error) = damaged.filter_map(|one| one.error.as_ref()).next() {
        return Err(error.again().into());
    }
    let mut zip = LogZip::new(out);
    let mut count = 0_u64;
    let mut add = |id: &Text, is_root: bool| -> Result<(), ExportError> {
        let handle = store.open(id, SessionAccess::Read, cancel)?;
        if is_root {
            zip.begin_session("", handle.header())?;
        } else {
            zip.begin_subagent("", handle.header())?;
        }
        let written = each_line(&*handle, cancel, &mut |line| zip.line(line));
        count = count.saturating_add(1);
        let closed = handle.close();
        written.and_then(|()| Ok(closed?))
    };
    add(id, true)?;
    below.iter().filter_map(|one| one.header.as_ref()).try_for_each(|header| add(header.id(), false))?;
    zip.finish()?;
    Ok(count)
}

/// A ZIP of logs that is written from front to back, in bounded memory.
///
/// The log of a session is `session[.vN].jsonl`, that of a sub-session `subagents/<id>/session[.vN].jsonl`, where characters
/// outside of `[A-Za-z0-9_-]` are `_`; of two ids that become one, the second gets a number. Entries are deflated, and have no
/// time of their own: the same logs in the same order give the same bytes.
///
/// Spec: `format-spec/08-exports.md`, "ZIP of a session".
pub struct LogZip<W: Write> {
    zip: ZipWriter<StreamWriter<W>>,
    piece: Vec<u8>,
    names: HashSet<String>,
}

impl<W: Write> LogZip<W> {
    /// An empty archive.
    pub fn new(out: W) -> Self {
        Self { zip: ZipWriter::new_stream(out), piece: Vec::with_capacity(PIECE), names: HashSet::new() }
    }

    /// Begins the log of a session in `folder`, which is empty or ends in a slash.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn begin_session(&mut self, folder: &str, header: &Header) -> Result<(), ExportError> {
        self.begin_log(folder, header.generation())
    }

    /// Begins the log of a sub-session in `folder`, which is that of its session.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn begin_subagent(&mut self, folder: &str, header: &Header) -> Result<(), ExportError> {
        let folder = self.folder(&format!("{folder}subagents/"), header.id());
        self.begin_log(&folder, header.generation())
    }

    /// A folder in `within` for the session `id`, with a slash: no other session's.
    pub fn folder(&mut self, within: &str, id: &Text) -> String {
        let safe = format!("{within}{}", safe_id(id));
        let mut name = safe.clone();
        let mut number = 1_u64;
        while !self.names.insert(name.clone()) {
            number = number.saturating_add(1);
            name = format!("{safe}_{number}");
        }
        name.push('/');
        name
    }

    /// Begins an entry for a log of a generation.
    ///
    /// # Errors
    /// [`ExportError::Write`], also for a second log of a name.
    pub fn begin_log(&mut self, folder: &str, generation: Generation) -> Result<(), ExportError> {
        self.begin(&format!("{folder}{}", log_name(generation, Encoding::Plain)), true)
    }

    /// Begins an entry of any name, deflated or stored as it is.
    ///
    /// # Errors
    /// [`ExportError::Write`], also for a name that exists.
    pub fn begin(&mut self, name: &str, deflate: bool) -> Result<(), ExportError> {
        self.write_piece()?;
        let method = if deflate { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .compression_level(deflate.then_some(LEVEL))
            .last_modified_time(DateTime::DEFAULT)
            .system(System::Unix)
            // Logs hold secrets.
            .unix_permissions(0o600)
            // Its length is not known before.
            .large_file(true);
        self.zip.start_file(name, options).map_err(refused)
    }

    /// Adds a line to the entry that was begun last, and its newline.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn line(&mut self, line: &[u8]) -> Result<(), ExportError> {
        self.bytes(line)?;
        self.bytes(b"\n")
    }

    /// Adds bytes to the entry that was begun last.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), ExportError> {
        while !bytes.is_empty() {
            let room = PIECE.saturating_sub(self.piece.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() >= PIECE {
                self.write_piece()?;
            }
        }
        Ok(())
    }

    /// Ends the archive, and gives back what it was written to.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.write_piece()?;
        let mut out = self.zip.finish().map_err(refused)?.into_inner();
        out.flush().map_err(ExportError::Write)?;
        Ok(out)
    }

    fn write_piece(&mut self) -> Result<(), ExportError> {
        if !self.piece.is_empty() {
            self.zip.write_all(&self.piece).map_err(ExportError::Write)?;
            self.piece.clear();
        }
        Ok(())
    }
}

impl<W: Write> std::fmt::Debug for LogZip<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogZip").field("names", &self.names).finish_non_exhaustive()
    }
}

fn safe_id(id: &Text) -> String {
    let is_safe = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    let units = char::decode_utf16(id.units());
    units.map(|char| char.ok().filter(is_safe).unwrap_or('_')).collect()
}

fn refused(error: ZipError) -> ExportError {
    ExportError::Write(match error {
        ZipError::Io(error) => error,
        error => io::Error::other(error),
    })
}
