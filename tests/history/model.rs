//! Logs as a list of rows, their pages by definition, and the handles that are compared with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::ProptestConfig;
use seslog::container::Encoding;
use seslog::container::disk::fault::FaultDisk;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::history::{Direction, Page, PageEnd, PageLimits, PageRequest, PageStart};
use seslog::store::{
    Cancel, Events, FileHandle, FileStore, MemoryStorage, MemoryStore, SessionAccess, SessionHandle,
    SessionPersistence,
};
use seslog::{Error, Result};

use crate::common::sessions::{header, options, options_on_flush, row_by, row_of};

/// Of the property tests.
pub(crate) fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) const ROOT: &str = "/store";

/// Event `seq`: the first of a turn, or one with so many bytes of noise.
pub(crate) fn row(seq: u64, starts_turn: bool, noise: usize) -> String {
    if starts_turn { row_of("turn/start", seq, "{\"turn\":1}") } else { row_by("a", seq, noise) }
}

/// The page of `rows` that `request` asks for, by definition: from, to, and what ended it.
pub(crate) fn expected(
    rows: &[String],
    cut: usize,
    direction: Direction,
    limits: PageLimits,
) -> (usize, usize, PageEnd) {
    let starts = |at: usize| rows[at].starts_with("{\"type\":\"turn/start\"");
    let cut = cut.min(rows.len());
    let (mut from, mut to) = (cut, cut);
    loop {
        let next = match direction {
            Direction::Forward if to < rows.len() => to,
            Direction::Backward if from > 0 => from - 1,
            _ => return (from, to, PageEnd::Log),
        };
        if from < to {
            if limits.events.is_some_and(|max| (to - from) as u64 >= max) {
                return (from, to, PageEnd::Events);
            }
            let bytes: usize = rows[from..to].iter().map(|row| row.len() + 1).sum();
            if limits.bytes.is_some_and(|max| bytes as u64 >= max) {
                return (from, to, PageEnd::Bytes);
            }
            // Turns that are begun, the part of one at the cut and what stands before the first one included.
            let whole = match direction {
                Direction::Forward if starts(next) => 1 + (from + 1..to).filter(|&at| starts(at)).count(),
                Direction::Backward if starts(from) => (from..to).filter(|&at| starts(at)).count(),
                _ => 0,
            };
            if limits.turns.is_some_and(|max| whole > 0 && whole as u64 >= max) {
                return (from, to, PageEnd::Turns);
            }
            if limits.bytes.is_some_and(|max| (bytes + rows[next].len() + 1) as u64 > max) {
                return (from, to, PageEnd::Bytes);
            }
        }
        match direction {
            Direction::Forward => to += 1,
            Direction::Backward => from -= 1,
            _ => unreachable!("there are two directions"),
        }
    }
}

/// A kind of handle whose pages are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of a store of files.
    File(Encoding),
    /// The same, which syncs nothing until it is told to.
    Unsynced(Encoding),
    /// Of a store in memory.
    Memory,
    /// One that can read and nothing else.
    ReadsOnly,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::File(Encoding::Indexed),
        Self::File(Encoding::Zstd),
        Self::File(Encoding::Plain),
        Self::Unsynced(Encoding::Indexed),
        Self::Unsynced(Encoding::Zstd),
        Self::Unsynced(Encoding::Plain),
        Self::Memory,
        Self::ReadsOnly,
    ];
}

/// One session that grows, and a handle that reads it.
pub(crate) struct World {
    pub(crate) disk: FaultDisk,
    pub(crate) rows: Vec<String>,
    pub(crate) writer: Arc<dyn SessionHandle>,
    pub(crate) reader: Arc<dyn SessionHandle>,
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        let disk = FaultDisk::new();
        let never = Cancel::never();
        let store: Arc<dyn SessionPersistence> = match kind {
            Kind::File(encoding) => {
                Arc::new(FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(encoding)))
            }
            Kind::Unsynced(encoding) => {
                Arc::new(FileStore::on_disk(Arc::new(disk.clone()), ROOT, options_on_flush(encoding)))
            }
            Kind::Memory | Kind::ReadsOnly => Arc::new(MemoryStore::new(&MemoryStorage::new())),
        };
        let writer = store.create(header("s"), None, &never).unwrap();
        let mut reader = store.open(&Text::from("s"), SessionAccess::Read, &never).unwrap();
        if kind == Kind::ReadsOnly {
            reader = Arc::new(ReadsOnly(reader));
        }
        Self { disk, rows: Vec::new(), writer, reader }
    }

    pub(crate) fn append(&mut self, batch: &[(bool, u16)]) {
        let from = self.rows.len();
        for &(starts_turn, noise) in batch {
            let seq = self.rows.len() as u64;
            self.rows.push(row(seq, starts_turn, usize::from(noise)));
        }
        let rows: Vec<&[u8]> = self.rows[from..].iter().map(String::as_bytes).collect();
        self.writer.append(&rows, &Cancel::never()).unwrap();
    }

    pub(crate) fn page(&self, request: &PageRequest) -> Result<Page> {
        self.reader.page(request, &Cancel::never())
    }

    /// Reads a page and compares it with the one by definition.
    pub(crate) fn check(&self, from: PageStart, direction: Direction, limits: PageLimits) -> Page {
        let mut request = PageRequest::forward(from, limits);
        request.direction = direction;
        let page = self.page(&request).unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        let cut = match from {
            PageStart::Seq(seq) => usize::try_from(seq).unwrap_or(usize::MAX),
            PageStart::Cursor(cursor) => usize::try_from(cursor.seq()).unwrap(),
            _ => self.rows.len(),
        };
        let (first, next, end) = expected(&self.rows, cut, direction, limits);
        let found: Vec<&str> = texts(&page.events);
        assert_eq!(found, self.rows[first..next], "{request:?}");
        assert_eq!((page.first_seq, page.next_seq()), (first as u64, next as u64), "{request:?}");
        assert_eq!(page.end, end, "{request:?}");
        assert_eq!(page.before.map(|cursor| cursor.seq()), (first > 0).then_some(first as u64));
        for cursor in page.before.into_iter().chain([page.after]) {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        page
    }
}

pub(crate) fn texts(events: &Events) -> Vec<&str> {
    events.rows().map(|row| std::str::from_utf8(row).unwrap()).collect()
}

/// What a store of somebody else's offers at least: its pages come through `read`.
#[derive(Debug)]
struct ReadsOnly(Arc<dyn SessionHandle>);

impl SessionHandle for ReadsOnly {
    fn header(&self) -> &Header {
        self.0.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.0.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        SessionAccess::Read
    }

    fn next_seq(&self) -> Option<u64> {
        None
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.0.read(offset, length, cancel)
    }

    fn append(&self, _: &[&[u8]], _: &Cancel) -> Result<()> {
        Err(Error::ReadOnly { id: "s".to_owned(), operation: "append" })
    }

    fn flush(&self, _: &Cancel) -> Result<()> {
        Err(Error::ReadOnly { id: "s".to_owned(), operation: "flush" })
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// Where a store of files on `disk` keeps session `s`.
pub(crate) fn log_path(encoding: Encoding) -> PathBuf {
    Path::new(ROOT).join("_no-cwd/s").join(format!("session.v2{}", encoding.suffix()))
}

pub(crate) fn file_store(disk: &FaultDisk, encoding: Encoding) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(encoding))
}

pub(crate) fn open(disk: &FaultDisk, encoding: Encoding, access: SessionAccess) -> Arc<FileHandle> {
    file_store(disk, encoding).open(&Text::from("s"), access).unwrap()
}
