//! Stored bytes as decoders see them: a fixed length and borrowed pieces.

use std::io;

use super::disk::DiskFile;
use super::fault::{Fault, ReadError};
use super::raw::map::Map;

/// Random access to the bytes of one log, at the length it had when reading began.
///
/// Decoders work on this and never on a file, so that tests and fuzzers hand them slices.
pub trait Source {
    /// Number of readable bytes.
    fn size(&self) -> u64;

    /// Returns exactly `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`Fault::Truncated`] where fewer bytes are there, [`Fault::Shrunk`] where a file lost bytes since reading began.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], ReadError>;

    /// Says that bytes handed out since the last call were real.
    ///
    /// A map of a file that shrank gives zeros in place of a deadly signal; this tells.
    ///
    /// # Errors
    /// [`Fault::Shrunk`] if they were not.
    fn confirm(&self) -> Result<(), ReadError> {
        Ok(())
    }
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], ReadError> {
        let bytes: &[u8] = self;
        usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get(start..start.checked_add(len)?))
            .ok_or(ReadError::bad(offset, Fault::Truncated))
    }
}

/// A log file: mapped below a boundary that no writer touches again, read into one reused buffer above it.
#[derive(Debug)]
pub struct FileSource<'f> {
    file: &'f dyn DiskFile,
    len: u64,
    map: Option<Map>,
    buffer: Vec<u8>,
    /// File offset of `buffer[0]`.
    buffer_start: u64,
    read_ahead: usize,
}

impl<'f> FileSource<'f> {
    /// Bytes read at once where a caller walks forward: large enough that system calls vanish behind decompression,
    /// small enough to stay in the second-level cache.
    pub const READ_AHEAD: usize = 256 << 10;

    /// Reads `file` up to `len` bytes, without a map.
    ///
    /// `read_ahead` is how many bytes one read asks for at least: [`Self::READ_AHEAD`] for a walk, 0 for single probes.
    #[must_use]
    pub fn new(file: &'f dyn DiskFile, len: u64, read_ahead: usize) -> Self {
        Self { file, len, map: None, buffer: Vec::new(), buffer_start: 0, read_ahead }
    }

    /// Maps the first `below` bytes. They must be committed and synced: nobody writes there again.
    ///
    /// Where the disk cannot map, or `below` is small, reading goes on without a map.
    ///
    /// # Errors
    /// Whatever the operating system says of the mapping.
    pub fn map_below(&mut self, below: u64) -> io::Result<()> {
        // A map costs about as much to set up as four page reads.
        const WORTH_MAPPING: u64 = 64 << 10;
        if below.min(self.len) >= WORTH_MAPPING {
            self.map = self.file.map(below.min(self.len))?;
        }
        Ok(())
    }
}

impl Source for FileSource<'_> {
    fn size(&self) -> u64 {
        self.len
    }

    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], ReadError> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.len);
        let Some(end) = end else { return Err(ReadError::bad(offset, Fault::Truncated)) };
        if let Some(map) = &self.map
            && end <= map.bytes().len() as u64
        {
            return usize::try_from(offset)
                .ok()
                .and_then(|start| map.bytes().get(start..start.checked_add(len)?))
                .ok_or(ReadError::bad(offset, Fault::Truncated));
        }
        let buffered = self.buffer_start.saturating_add(self.buffer.len() as u64);
        if offset < self.buffer_start || end > buffered {
            let want = (len.max(self.read_ahead) as u64).min(self.len.saturating_sub(offset));
            let want = usize::try_from(want).map_err(|_| ReadError::bad(offset, Fault::Truncated))?;
            self.buffer.resize(want, 0);
            self.buffer_start = offset;
            let mut filled = 0;
            while let Some(rest) = self.buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                let got = self.file.read_at(offset.saturating_add(filled as u64), rest)?;
                if got == 0 {
                    self.buffer.clear();
                    return Err(ReadError::bad(offset.saturating_add(filled as u64), Fault::Shrunk));
                }
                filled = filled.saturating_add(got);
            }
        }
        usize::try_from(offset.saturating_sub(self.buffer_start))
            .ok()
            .and_then(|start| self.buffer.get(start..start.checked_add(len)?))
            .ok_or(ReadError::bad(offset, Fault::Truncated))
    }

    fn confirm(&self) -> Result<(), ReadError> {
        match &self.map {
            Some(map) if map.is_shrunk() => Err(ReadError::bad(map.bytes().len() as u64, Fault::Shrunk)),
            _ => Ok(()),
        }
    }
}
