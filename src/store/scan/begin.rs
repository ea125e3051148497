//! Where a scan begins.

use super::super::log_file::LogFile;
use super::keeping::Part;
use crate::container::{
    BlockReader, Encoding, FileSource, IndexedReader, ReadError, indexed_at, reader, reader_at,
};
use crate::error::{Error, Result};
use crate::row::{Check, Header, PhysicalRow};
use crate::units::Generation;

/// A reader of blocks, of which the indexed kind can be read ahead.
pub(super) enum Blocks {
    Indexed(Box<IndexedReader>),
    Other(Box<dyn BlockReader>),
}

impl Blocks {
    /// At the head of a log.
    pub(super) fn of(log: &LogFile) -> Self {
        match log.encoding() {
            Encoding::Indexed => Self::Indexed(Box::new(IndexedReader::new(*log.limits()))),
            encoding => Self::Other(reader(encoding, *log.limits())),
        }
    }

    pub(super) fn as_mut(&mut self) -> &mut dyn BlockReader {
        match self {
            Self::Indexed(blocks) => &mut **blocks,
            Self::Other(blocks) => &mut **blocks,
        }
    }
}

/// The header and its line; `None` for what is none, which a scan from the head names.
pub(super) fn head_of(log: &LogFile) -> Result<Option<(&[u8], &Header)>> {
    match log.first_line() {
        Ok(first) => Ok(first.header.as_ref().ok().map(|header| (first.line(), header))),
        Err(error @ ReadError::Io(_)) => Err(Error::read(log.path(), 0, error)),
        Err(ReadError::Bad { .. }) => Ok(None),
    }
}

/// A reader that stands before the first event of a part; `None` where reading from the head is the way.
pub(super) fn position(
    log: &LogFile,
    source: &mut FileSource<'_>,
    generation: Generation,
    part: &Part,
) -> Result<Option<Blocks>> {
    let &Part { from, to, total, claim, .. } = part;
    let found = if log.encoding() == Encoding::Indexed {
        indexed_at(source, *log.limits(), from..to.max(from), claim)
            .map(|found| found.map(|reader| Blocks::Indexed(Box::new(reader))))
    } else {
        let mut seq_of = |line: &[u8]| {
            let row = PhysicalRow::read(line, generation, Check::Envelope, log.limits());
            row.ok().map(|row| row.first_seq().get())
        };
        reader_at(source, log.encoding(), *log.limits(), from, total, &mut seq_of)
            .map(|found| found.map(Blocks::Other))
    };
    found.map_err(|error| Error::read(log.path(), 0, error))
}
