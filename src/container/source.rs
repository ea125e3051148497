//! Stored bytes as decoders see them: a fixed length and borrowed pieces.

use std::io;
use std::ops::Range;

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

    /// Says that bytes from `offset` on will be asked for again: a walk hops over a record before it reads it.
    fn hold(&mut self, _offset: u64) {}

    /// Says that the bytes of `range` will be asked for in their order, and none behind them: a reader of a few rows knows where
    /// they end.
    fn expect(&mut self, _range: Range<u64>) {}

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
///
/// Reads follow the caller: near the last one they grow up to the read-ahead, anywhere else they start small again, so that
/// a walk costs few calls and a look here and there few bytes.
#[derive(Debug)]
pub struct FileSource<'f> {
    file: &'f dyn DiskFile,
    len: u64,
    map: Option<Map>,
    /// The first bytes of the file, where somebody has read them before.
    head: &'f [u8],
    /// Room; the first `filled` bytes of it were read from `start` on.
    buffer: Buffer<'f>,
    start: u64,
    filled: usize,
    /// From here on bytes will be asked for again.
    held: u64,
    /// What will be asked for, if somebody said so.
    expected: Range<u64>,
    /// What the next read asks for at least, and at most if it is not told otherwise.
    ahead: usize,
    ahead_max: usize,
}

/// Memory that is read into.
#[derive(Debug)]
enum Buffer<'f> {
    Own(Vec<u8>),
    /// The caller's, as long as it suffices.
    Lent(&'f mut [u8]),
}

impl Buffer<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => bytes,
        }
    }

    /// Bytes that may be read without other memory than the caller's.
    fn lent_len(&self) -> usize {
        match self {
            Self::Own(_) => usize::MAX,
            Self::Lent(bytes) => bytes.len(),
        }
    }

    /// Makes sure of `len` bytes in all. What is there stays.
    fn grow_to(&mut self, len: usize) {
        if self.bytes().len() < len {
            match self {
                Self::Own(bytes) => bytes.resize(len, 0),
                Self::Lent(bytes) => {
                    let mut own = Vec::with_capacity(len);
                    own.extend_from_slice(bytes);
                    own.resize(len, 0);
                    *self = Self::Own(own);
                }
            }
        }
    }
}

/// Bytes that a read somewhere asks for: a trailer and, mostly, the body before or behind it.
const AHEAD_MIN: usize = 4 << 10;

impl<'f> FileSource<'f> {
    /// Bytes read at once where a caller walks forward: large enough that system calls vanish behind decompression,
    /// small enough to stay in the second-level cache.
    pub const READ_AHEAD: usize = 256 << 10;

    /// Reads `file` up to `len` bytes, without a map.
    ///
    /// `read_ahead` is how many bytes one read asks for at most, unless a caller wants more at once:
    /// [`Self::READ_AHEAD`] for a walk, 0 for single probes.
    #[must_use]
    pub fn new(file: &'f dyn DiskFile, len: u64, read_ahead: usize) -> Self {
        Self {
            file,
            len,
            map: None,
            head: &[],
            buffer: Buffer::Own(Vec::new()),
            start: 0,
            filled: 0,
            held: u64::MAX,
            expected: 0..0,
            ahead: AHEAD_MIN.min(read_ahead),
            ahead_max: read_ahead,
        }
    }

    /// Serves the first bytes from `head`, which were read from this file before.
    #[must_use]
    pub fn with_head(self, head: &'f [u8]) -> Self {
        let fits = head.len() as u64 <= self.len;
        Self { head: if fits { head } else { &[] }, ..self }
    }

    /// Reads into `buffer`, as long as that suffices: for a caller who has memory that was touched before.
    #[must_use]
    pub(crate) fn with_buffer(self, buffer: &'f mut [u8]) -> Self {
        Self { buffer: Buffer::Lent(buffer), start: 0, filled: 0, ..self }
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

    fn read_end(&self) -> u64 {
        self.start.saturating_add(self.filled as u64)
    }

    /// Reads so that the buffer holds `[offset, end)`, which it does not yet.
    fn fill(&mut self, offset: u64, end: u64) -> Result<(), ReadError> {
        let too_large = |_| ReadError::bad(offset, Fault::Truncated);
        // What is held will be read anyway, so a hop over some of it is no jump; unless it would keep too much in memory.
        let held = Some(self.held).filter(|&held| {
            let whole = end.saturating_sub(held);
            (self.start..=offset).contains(&held) && whole <= (self.ahead_max as u64).saturating_mul(4)
        });
        let reach = if held.is_some() { self.ahead_max } else { self.ahead };
        let is_near = (self.start..=self.read_end().saturating_add(reach as u64)).contains(&offset);
        let from = held.filter(|_| is_near).unwrap_or(offset);
        self.ahead = if is_near { self.ahead.saturating_mul(4) } else { AHEAD_MIN }.min(self.ahead_max);
        let keep = if is_near { self.read_end().saturating_sub(from) } else { 0 };
        let keep = usize::try_from(keep).map_or(0, |keep| keep.min(self.filled));
        let filled = self.filled;
        self.buffer.bytes_mut().copy_within(filled.saturating_sub(keep)..filled, 0);
        self.start = from;
        self.filled = keep;
        let ahead = if self.expected.contains(&offset) {
            self.expected.end.saturating_sub(offset).min(self.ahead_max as u64)
        } else {
            self.ahead as u64
        };
        let needed = usize::try_from(end.saturating_sub(from)).map_err(too_large)?;
        let want = end.max(offset.saturating_add(ahead)).min(self.len).saturating_sub(from);
        let want = usize::try_from(want).map_err(too_large)?;
        // Memory that was touched before is worth more than a longer read.
        let want = if needed <= self.buffer.bytes().len() { want.min(self.buffer.lent_len()) } else { want };
        self.buffer.grow_to(want);
        loop {
            let at = self.start.saturating_add(self.filled as u64);
            let rest = self.buffer.bytes_mut().get_mut(self.filled..want);
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { break };
            let got = self.file.read_at(at, rest)?;
            if got == 0 {
                return Err(ReadError::bad(at, Fault::Shrunk));
            }
            self.filled = self.filled.saturating_add(got);
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
        let in_head = end <= self.head.len() as u64;
        let in_map = !in_head && self.map.as_ref().is_some_and(|map| end <= map.bytes().len() as u64);
        if !in_head && !in_map && (offset < self.start || end > self.read_end()) {
            self.fill(offset, end)?;
        }
        let (bytes, start) = match &self.map {
            _ if in_head => (self.head, 0),
            Some(map) if in_map => (map.bytes(), 0),
            _ => (self.buffer.bytes().get(..self.filled).unwrap_or_default(), self.start),
        };
        usize::try_from(offset.saturating_sub(start))
            .ok()
            .and_then(|from| bytes.get(from..from.checked_add(len)?))
            .ok_or(ReadError::bad(offset, Fault::Truncated))
    }

    fn hold(&mut self, offset: u64) {
        self.held = offset;
    }

    fn expect(&mut self, range: Range<u64>) {
        self.expected = range;
    }

    fn confirm(&self) -> Result<(), ReadError> {
        match &self.map {
            Some(map) if map.is_shrunk() => Err(ReadError::bad(map.bytes().len() as u64, Fault::Shrunk)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::container::disk::fault::FaultDisk;
    use crate::container::disk::{Access, Disk as _};

    /// A file of `len` bytes that differ from their neighbours, and what is read of it.
    fn file(len: usize) -> (FaultDisk, Vec<u8>, Box<dyn DiskFile>) {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        let disk = FaultDisk::new();
        disk.plant("/log", &bytes);
        let file = disk.open("/log".as_ref(), Access::Read).unwrap();
        disk.forget_trace();
        (disk, bytes, file)
    }

    fn reads(disk: &FaultDisk) -> (usize, u64) {
        (disk.trace().len(), disk.bytes_read("/log"))
    }

    #[test]
    fn a_walk_that_hops_over_records_and_then_reads_them_reads_every_byte_once() {
        let (disk, bytes, file) = file(4 << 20);
        let mut source = FileSource::new(&*file, bytes.len() as u64, FileSource::READ_AHEAD);
        // As long as a compressed segment, with a look behind its first block and one at its trailer.
        let record = 55_000;
        for start in (0..bytes.len() - record).step_by(record) {
            source.hold(start as u64);
            for (at, len) in [(0, 8), (30_000, 3), (record - 64, 64), (0, record)] {
                assert_eq!(
                    source.get((start + at) as u64, len).unwrap(),
                    &bytes[start + at..start + at + len]
                );
            }
        }
        let (calls, read) = reads(&disk);
        assert!(read <= bytes.len() as u64, "{read}");
        assert!(calls <= 16 + 6, "{calls}");
    }

    #[test]
    fn looks_here_and_there_read_a_page_each_and_their_neighbourhood_is_served_from_it() {
        let (disk, bytes, file) = file(4 << 20);
        let mut source = FileSource::new(&*file, bytes.len() as u64, FileSource::READ_AHEAD);
        for (looks, at) in [3_000_000, 1_000_000, 2_000_000, 500_000, 90_000].into_iter().enumerate() {
            assert_eq!(source.get(at, 64).unwrap()[0], bytes[usize::try_from(at).unwrap()]);
            assert!(source.get(at + 100, 200).is_ok());
            assert_eq!(reads(&disk), (looks + 1, 4096 * (looks as u64 + 1)));
        }
    }

    #[test]
    fn what_is_expected_is_read_at_once_and_nothing_behind_it() {
        let (disk, bytes, file) = file(4 << 20);
        let mut source = FileSource::new(&*file, bytes.len() as u64, FileSource::READ_AHEAD);
        source.get(999_936, 64).unwrap();
        source.expect(1_000_000..1_150_000);
        for at in (1_000_000..1_150_000).step_by(30_000) {
            source.hold(at);
            source.get(at, 10).unwrap();
            let start = usize::try_from(at).unwrap();
            assert_eq!(source.get(at, 30_000).unwrap(), &bytes[start..start + 30_000]);
        }
        assert_eq!(reads(&disk), (2, 150_064), "the look before it had begun with it");
        // Who goes on all the same is served.
        assert_eq!(source.get(1_150_000, 5).unwrap(), &bytes[1_150_000..1_150_005]);
    }

    #[test]
    fn a_buffer_that_was_lent_is_left_only_for_what_it_cannot_hold() {
        let (_disk, bytes, file) = file(4 << 20);
        let mut lent = vec![0; 100_000];
        let mut source = FileSource::new(&*file, bytes.len() as u64, 100_000).with_buffer(&mut lent);
        for at in (0..2 << 20).step_by(70_000) {
            source.hold(at as u64);
            source.get(at as u64, 3).unwrap();
            assert_eq!(source.get(at as u64, 70_000).unwrap(), &bytes[at..at + 70_000]);
            assert!(matches!(source.buffer, Buffer::Lent(_)));
        }
        assert_eq!(source.get(5, 100_001).unwrap(), &bytes[5..100_006]);
        assert!(matches!(source.buffer, Buffer::Own(_)));
    }

    #[test]
    fn a_record_too_long_to_keep_is_read_in_pieces_and_its_start_again() {
        let (disk, bytes, file) = file(4 << 20);
        let mut source = FileSource::new(&*file, bytes.len() as u64, 64 << 10);
        source.hold(0);
        for at in (0..4 << 20).step_by(60_000).take(60) {
            source.get(at, 3).unwrap();
        }
        assert!(source.buffer.bytes().len() <= 5 * (64 << 10), "{}", source.buffer.bytes().len());
        assert_eq!(source.get(0, 8).unwrap(), &bytes[..8]);
        assert!(reads(&disk).1 < 5 << 20);
    }

    #[test]
    fn the_head_is_served_from_what_was_read_before() {
        let (disk, bytes, file) = file(10_000);
        let mut source = FileSource::new(&*file, 10_000, 0).with_head(&bytes[..4096]);
        assert_eq!(source.get(0, 4096).unwrap(), &bytes[..4096]);
        assert_eq!(reads(&disk), (0, 0));
        assert_eq!(source.get(4000, 200).unwrap(), &bytes[4000..4200]);
        assert_eq!(reads(&disk), (1, 200));
        // A file that is shorter by now than its head was: the head is of another life.
        let mut source = FileSource::new(&*file, 100, 0).with_head(&bytes[..4096]);
        assert!(matches!(source.get(0, 101), Err(ReadError::Bad { fault: Fault::Truncated, .. })));
    }

    #[test]
    fn a_file_that_shrank_says_so_also_where_only_the_read_ahead_meets_its_end() {
        let (disk, _, file) = file(100_000);
        let mut source = FileSource::new(&*file, 100_000, 4096);
        source.get(0, 10).unwrap();
        disk.open("/log".as_ref(), Access::Append).unwrap().truncate(50_000).unwrap();
        assert!(matches!(source.get(49_990, 20), Err(ReadError::Bad { at: 50_000, fault: Fault::Shrunk })));
        assert!(matches!(source.get(49_000, 100), Err(ReadError::Bad { at: 50_000, fault: Fault::Shrunk })));
    }

    proptest! {
        #[test]
        fn any_order_of_reads_gives_the_bytes_of_the_file(
            ahead in prop_oneof![Just(0_usize), Just(100), Just(4096), Just(20_000)],
            lent in prop_oneof![Just(0_usize), Just(5000), Just(30_000)],
            steps in proptest::collection::vec((0_usize..60_000, 0_usize..9_000, any::<bool>()), 1..60),
        ) {
            let (_disk, bytes, file) = file(60_000);
            let mut lent = vec![0; lent];
            let mut source = FileSource::new(&*file, 60_000, ahead).with_buffer(&mut lent);
            for (offset, len, hold) in steps {
                if hold {
                    source.hold(offset as u64);
                }
                match source.get(offset as u64, len) {
                    Ok(got) => prop_assert_eq!(got, &bytes[offset..offset + len]),
                    Err(_) => prop_assert!(offset + len > bytes.len()),
                }
            }
        }
    }
}
