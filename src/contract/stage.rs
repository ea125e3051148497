//! What a rule runs on, and what it stores there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::backend::{Backend, Crash, Offered, Settings, Storage};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::row::Header;
use crate::store::{Cancel, SessionAccess, SessionHandle, SessionPersistence, Snapshot};
use crate::units::{Generation, UnixMs};

/// How a rule ends that did not panic: it held, or a hook that it needs is not offered.
pub(super) type Outcome = Offered<()>;

pub(super) type Instance = Arc<dyn SessionPersistence>;
pub(super) type Handle = Arc<dyn SessionHandle>;

const CREATED_AT: i64 = 1_700_000_000_000;

/// One fresh storage, and the calls that rules make on it.
pub(super) struct Stage<'b> {
    backend: &'b dyn Backend,
    storage: Box<dyn Storage>,
    /// Handles outlive the expressions that opened them, so instances do too.
    instances: Mutex<Vec<Instance>>,
}

impl<'b> Stage<'b> {
    pub(super) fn new(backend: &'b dyn Backend) -> Self {
        Self::on(backend, backend.storage())
    }

    fn on(backend: &'b dyn Backend, storage: Box<dyn Storage>) -> Self {
        Self { backend, storage, instances: Mutex::default() }
    }

    /// Another one, empty.
    pub(super) fn fresh(&self) -> Self {
        Self::new(self.backend)
    }

    /// The hooks.
    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Another instance, as in another process.
    pub(super) fn instance(&self) -> Instance {
        self.keep(self.storage.instance())
    }

    pub(super) fn with(&self, settings: Settings) -> Offered<Instance> {
        self.storage.instance_with(settings).map(|instance| self.keep(instance))
    }

    fn keep(&self, instance: Instance) -> Instance {
        self.instances.lock().push(Arc::clone(&instance));
        instance
    }

    /// What is found after a crash now. This one is not used any more.
    pub(super) fn after(&self, crash: Crash) -> Offered<Self> {
        Ok(Self::on(self.backend, self.storage.after(crash)?))
    }

    /// What is found after a power loss that took all that it may take.
    pub(super) fn durable(&self) -> Offered<Self> {
        self.after(Crash::PowerLoss { seed: 0 })
    }

    /// Stores a session with one batch after the other, and closes it.
    pub(super) fn store(&self, id: &str, batches: &[Vec<String>]) {
        let handle = create(&self.instance(), id);
        flush(&handle).unwrap();
        for batch in batches {
            append(&handle, batch).unwrap();
        }
        handle.close().unwrap();
    }

    /// Stores session `s` with some small events, and closes it.
    pub(super) fn store_small(&self, events: u64) -> Vec<String> {
        let rows = rows_by("stored", 0..events);
        self.store("s", std::slice::from_ref(&rows));
        rows
    }

    /// Opens a session in an instance of its own.
    pub(super) fn open(&self, id: &str, access: SessionAccess) -> Result<Handle> {
        open(&self.instance(), id, access)
    }

    pub(super) fn writer(&self, id: &str) -> Handle {
        self.open(id, SessionAccess::Write).unwrap()
    }

    pub(super) fn reader(&self, id: &str) -> Handle {
        self.open(id, SessionAccess::Read).unwrap()
    }

    /// What a new reader in another instance gets of session `s`.
    pub(super) fn read(&self) -> Vec<String> {
        read_all(&self.reader("s")).unwrap()
    }

    /// What is stored of a session, to be compared with what is later.
    pub(super) fn stored(&self, id: &str) -> Stored {
        let reader = self.open(id, SessionAccess::Read);
        Stored {
            rows: reader.and_then(|reader| read_all(&reader)).map_err(|error| error.to_string()),
            bytes: self.storage.artifact(&Text::from(id)).ok(),
        }
    }

    /// As [`Storage::plant`], with the header of a session that is well.
    pub(super) fn plant(&self, id: &str, rows: &[String]) -> Offered<()> {
        self.plant_line(id, &header_line(id), rows)
    }

    pub(super) fn plant_line(&self, id: &str, header: &str, rows: &[String]) -> Offered<()> {
        let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
        self.storage.plant(&Text::from(id), header.as_bytes(), &rows)
    }
}

/// What is stored of a session, as far as the backend shows it.
#[derive(PartialEq, Eq)]
pub(super) struct Stored {
    rows: Result<Vec<String>, String>,
    bytes: Option<Option<Vec<u8>>>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.as_ref().map(|bytes| bytes.as_ref().map(Vec::len));
        f.debug_struct("Stored").field("rows", &self.rows).field("bytes", &bytes).finish()
    }
}

pub(super) fn never() -> Cancel {
    Cancel::never()
}

pub(super) fn header(id: &str) -> Header {
    Header::new(Generation::CURRENT, Text::from(id), UnixMs::new(CREATED_AT))
        .expect("a header of this generation")
}

pub(super) fn header_line(id: &str) -> String {
    let mut line = Vec::new();
    header(id).write(&mut line);
    String::from_utf8(line).expect("a header is text")
}

pub(super) fn create(store: &Instance, id: &str) -> Handle {
    store.create(header(id), None, &never()).unwrap()
}

pub(super) fn open(store: &Instance, id: &str, access: SessionAccess) -> Result<Handle> {
    store.open(&Text::from(id), access, &never())
}

pub(super) fn stat(store: &Instance, id: &str) -> Option<Snapshot> {
    store.stat(&Text::from(id), &never()).unwrap()
}

pub(super) fn list(store: &Instance) -> Vec<Snapshot> {
    store.list(&never()).unwrap()
}

/// The entries of a list that show a session of that id.
pub(super) fn entries(listed: &[Snapshot], id: &str) -> usize {
    let id = Text::from(id);
    let shows = |one: &&Snapshot| one.header.as_ref().is_some_and(|header| *header.id() == id);
    listed.iter().filter(shows).count()
}

pub(super) fn append(handle: &Handle, rows: &[String]) -> Result<()> {
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows, &never())
}

pub(super) fn flush(handle: &Handle) -> Result<()> {
    handle.flush(&never())
}

pub(super) fn read(handle: &Handle, offset: u64, length: u64) -> Result<Vec<String>> {
    let events = handle.read(offset, length, &never())?;
    let text = |row: &[u8]| String::from_utf8(row.to_vec()).expect("rows are stored as text");
    Ok(events.rows().map(text).collect())
}

/// All events that a handle reads.
pub(super) fn read_all(handle: &Handle) -> Result<Vec<String>> {
    read(handle, 0, u64::MAX)
}

/// Opens a session for reading and reads all of it: a log may be refused at either.
pub(super) fn open_and_read(store: &Instance, id: &str) -> Result<Vec<String>> {
    open(store, id, SessionAccess::Read).and_then(|reader| read_all(&reader))
}

/// Event `seq` of a type and with a payload.
pub(super) fn row_of(kind: &str, seq: u64, data: &str) -> String {
    let time = i128::from(CREATED_AT) + i128::from(seq);
    format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{time},\"data\":{data}}}")
}

/// Event `seq`, written by `by`, with about `noise` bytes that no compressor gets rid of.
pub(super) fn row_by(by: &str, seq: u64, noise: usize) -> String {
    let mut state = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ by.len() as u64;
    let mut text = String::new();
    while text.len() < noise {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text.truncate(noise);
    row_of("plan/mode", seq, &format!("{{\"active\":true,\"by\":\"{by}\",\"noise\":\"{text}\"}}"))
}

/// Small events, written by `by`.
pub(super) fn rows_by(by: &str, seqs: Range<u64>) -> Vec<String> {
    seqs.map(|seq| row_by(by, seq, 24)).collect()
}

/// Events of 10 KB each, which compress to next to nothing: a few dozen make more than one record of any kind.
pub(super) fn fat_rows_by(by: &str, seqs: Range<u64>) -> Vec<String> {
    let air = "lorem ipsum ".repeat(850);
    seqs.map(|seq| row_by(by, seq, 40).replace("\"active\"", &format!("\"air\":\"{air}\",\"active\"")))
        .collect()
}

/// Whether another handle or instance has the session.
pub(super) fn is_owned<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::AlreadyOwned { .. }))
}
