//! Growing a log at its end: one trait for three encodings.

use super::Encoding;
use super::batch::Batch;
use super::fault::Fault;
use super::framed::FramedWriter;
use super::indexed::IndexedWriter;
use super::plain::PlainWriter;
use super::trailer::LogId;

/// Makes the bytes of an append, and remembers what was written once the caller says that it was.
///
/// `stage` and `stage_marker` may be called several times; their bytes go to disk in one write. Then `accept` or `discard`.
pub trait BlockWriter: Send + Sync + std::fmt::Debug {
    /// About `bytes` bytes of rows are going to be staged in a moment, if nothing is wrong with them.
    fn announce(&self, _bytes: usize) {}

    /// Appends the bytes that store `batch` to `out`.
    ///
    /// # Errors
    /// [`Fault::BodyLimit`] for a row that no segment holds. `out` is then as before.
    fn stage(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// As [`BlockWriter::stage`], but the append goes on with the next rows that are staged.
    ///
    /// # Errors
    /// As [`BlockWriter::stage`].
    fn stage_part(&mut self, batch: &Batch<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.stage(batch, out)
    }

    /// Bytes of rows that one segment gets, unless a single row is longer. Nothing in encodings whose frames are the batches.
    fn set_segment_content(&mut self, _bytes: usize) {}

    /// What is staged so far is in the file, and the whole file is durable. It is not accepted by that.
    fn staged_is_durable(&mut self) {}

    /// Bytes that may stand in the file unsynced while more are written behind them. A writer of trailers says in each
    /// how many there are, up to a limit; where nothing says so, a lost write would look like damage before the end.
    fn unsynced_max(&self) -> u64 {
        0
    }

    /// Appends what commits records that stand without an end; nothing in encodings that have no such thing.
    ///
    /// # Errors
    /// As [`BlockWriter::stage`].
    fn stage_marker(&mut self, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// The staged bytes are in the file; `synced` says that the whole file is durable.
    fn accept(&mut self, synced: bool);

    /// The staged bytes are not in the file.
    fn discard(&mut self);

    /// Length of the file that the writer has accepted.
    fn end(&self) -> u64;

    /// Whether the last accepted record ended an append.
    fn is_committed(&self) -> bool;
}

/// Starts a log of `encoding` whose header line, newline included, is `header`; the first bytes are appended to `out`.
///
/// `created_at` in Unix milliseconds stands as the time of the last event while there is none. `id` seals an indexed log.
///
/// # Errors
/// [`Fault::BodyLimit`] for a header that no segment holds.
pub fn create(
    encoding: Encoding,
    id: LogId,
    header: &[u8],
    created_at: i64,
    level: i32,
    out: &mut Vec<u8>,
) -> Result<Box<dyn BlockWriter>, Fault> {
    Ok(match encoding {
        Encoding::Indexed => Box::new(IndexedWriter::create(id, header, created_at, level, out)?),
        Encoding::Zstd => Box::new(FramedWriter::create(header, level, out)),
        Encoding::Plain => Box::new(PlainWriter::create(header, out)),
    })
}
