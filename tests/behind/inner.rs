//! A store below that counts, fails and waits on request.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Event, Header};
use seslog::store::{
    BehindOptions, Cancel, Events, FileStore, ManualClock, Routed, SessionAccess, SessionHandle,
    SessionPersistence, Snapshot, WriteBehind,
};
use seslog::{Error, Result};

use crate::common::sessions::{header, rows_by};

/// What was asked of the store below, in order. Rows are told by their seqs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Append(String, Vec<u64>),
    Flush(String),
    Close(String),
}

/// A file store whose handles do as they are told.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    store: FileStore,
    orders: Arc<Orders>,
}

#[derive(Debug, Default)]
struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    /// Sessions whose appends fail, and how often yet.
    failing: BTreeMap<String, u32>,
    failing_flushes: BTreeMap<String, u32>,
    failing_closes: BTreeMap<String, u32>,
    /// Appends wait while this is set.
    gate: bool,
    /// Appends that wait.
    waiting: usize,
}

#[derive(Debug)]
struct InnerHandle {
    handle: Arc<dyn SessionHandle>,
    orders: Arc<Orders>,
    id: String,
}

impl Inner {
    pub(crate) fn new(store: FileStore) -> Self {
        Self { store, orders: Arc::default() }
    }

    /// Everything that was asked so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.orders.state.lock().unwrap().calls.clone()
    }

    /// The batches that session `id` was given, whether they were stored or not.
    pub(crate) fn batches(&self, id: &str) -> Vec<Vec<u64>> {
        let batch = |call| match call {
            Call::Append(of, seqs) if of == id => Some(seqs),
            _ => None,
        };
        self.calls().into_iter().filter_map(batch).collect()
    }

    /// The next `times` appends to session `id` fail and store nothing.
    pub(crate) fn fail_appends(&self, id: &str, times: u32) {
        self.orders.state.lock().unwrap().failing.insert(id.to_owned(), times);
    }

    pub(crate) fn fail_flushes(&self, id: &str, times: u32) {
        self.orders.state.lock().unwrap().failing_flushes.insert(id.to_owned(), times);
    }

    pub(crate) fn fail_closes(&self, id: &str, times: u32) {
        self.orders.state.lock().unwrap().failing_closes.insert(id.to_owned(), times);
    }

    /// Appends wait from now on.
    pub(crate) fn shut(&self) {
        self.orders.state.lock().unwrap().gate = true;
    }

    /// Appends go on.
    pub(crate) fn open_gate(&self) {
        self.orders.state.lock().unwrap().gate = false;
        self.orders.changed.notify_all();
    }

    /// Returns once `count` appends wait.
    pub(crate) fn await_waiting(&self, count: usize) {
        let mut state = self.orders.state.lock().unwrap();
        while state.waiting < count {
            state = self.orders.changed.wait(state).unwrap();
        }
    }

    /// The events that a new reader finds.
    pub(crate) fn stored(&self, id: &str) -> Vec<String> {
        let handle = match self.store.open(&Text::from(id), SessionAccess::Read) {
            Ok(handle) => handle,
            Err(Error::NotFound { .. }) => return Vec::new(),
            Err(error) => panic!("{error}"),
        };
        let events = handle.read(0, u64::MAX).unwrap();
        events.rows().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect()
    }
}

impl Orders {
    fn fails(&self, pick: fn(&mut State) -> &mut BTreeMap<String, u32>, id: &str) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        match pick(&mut state).get_mut(id) {
            Some(times) if *times > 0 => {
                *times -= 1;
                let source = std::io::Error::from_raw_os_error(28);
                Err(Error::Io { path: id.into(), action: "as told", source })
            }
            _ => Ok(()),
        }
    }

    fn note(&self, call: Call) {
        self.state.lock().unwrap().calls.push(call);
    }
}

impl InnerHandle {
    fn wrap(handle: Arc<dyn SessionHandle>, orders: &Arc<Orders>) -> Arc<dyn SessionHandle> {
        let id = handle.header().id().to_string_lossy().into_owned();
        Arc::new(Self { handle, orders: Arc::clone(orders), id })
    }
}

impl SessionPersistence for Inner {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        let handle = SessionPersistence::create(&self.store, header, inherited, cancel)?;
        Ok(InnerHandle::wrap(handle, &self.orders))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        Ok(InnerHandle::wrap(SessionPersistence::open(&self.store, id, access, cancel)?, &self.orders))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        SessionPersistence::stat(&self.store, id, cancel)
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        SessionPersistence::list(&self.store, cancel)
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}

impl SessionHandle for InnerHandle {
    fn header(&self) -> &Header {
        self.handle.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.handle.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        self.handle.access()
    }

    fn next_seq(&self) -> Option<u64> {
        self.handle.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.handle.read(offset, length, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        let seq = |row: &&[u8]| {
            Event::read(row, Check::Envelope, &Limits::DEFAULT).map_or(u64::MAX, |event| event.seq().get())
        };
        self.orders.note(Call::Append(self.id.clone(), rows.iter().map(seq).collect()));
        {
            let mut state = self.orders.state.lock().unwrap();
            state.waiting += 1;
            self.orders.changed.notify_all();
            while state.gate {
                state = self.orders.changed.wait(state).unwrap();
            }
            state.waiting -= 1;
        }
        self.orders.fails(|state| &mut state.failing, &self.id)?;
        self.handle.append(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.orders.note(Call::Flush(self.id.clone()));
        self.orders.fails(|state| &mut state.failing_flushes, &self.id)?;
        self.handle.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.orders.note(Call::Close(self.id.clone()));
        let failed = self.orders.fails(|state| &mut state.failing_closes, &self.id);
        self.handle.close().and(failed)
    }
}

/// Write-behind over an [`Inner`], with a clock that is stepped.
pub(crate) struct Bench {
    pub(crate) behind: WriteBehind,
    pub(crate) inner: Inner,
    pub(crate) clock: ManualClock,
    /// What was reported: id and words.
    pub(crate) reports: Arc<Mutex<Vec<String>>>,
    _root: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut BehindOptions)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let inner = Inner::new(FileStore::new(root.path()));
        let (behind, clock, reports) = behind(Arc::new(inner.clone()), change);
        Self { behind, inner, clock, reports, _root: root }
    }

    pub(crate) fn create(&self, id: &str) -> Arc<dyn SessionHandle> {
        self.behind.create(header(id), None, &Cancel::never()).unwrap()
    }

    /// Routes events `seqs` of session `id`; all must find room.
    pub(crate) fn route(&self, id: &str, seqs: std::ops::Range<u64>) {
        for row in rows_by(id, seqs) {
            let routed = self.behind.try_route(&Text::from(id), row.as_bytes()).unwrap();
            assert_eq!(routed, Routed::Queued);
        }
    }

    /// Steps the clock, and waits until what became due is done.
    pub(crate) fn step(&self, ms: u64) {
        self.clock.step(Duration::from_millis(ms));
        self.behind.settle();
    }

    pub(crate) fn flush(&self, id: &str) -> Result<bool> {
        self.behind.flush_session(&Text::from(id), &Cancel::never())
    }

    pub(crate) fn reports(&self) -> usize {
        self.reports.lock().unwrap().len()
    }

    /// What session `id` holds, read by a new reader.
    #[track_caller]
    pub(crate) fn assert_stored(&self, id: &str, seqs: std::ops::Range<u64>) {
        assert_eq!(self.inner.stored(id), rows_by(id, seqs));
    }
}

pub(crate) type Reports = Arc<Mutex<Vec<String>>>;

pub(crate) fn behind(
    below: Arc<dyn SessionPersistence>,
    change: impl FnOnce(&mut BehindOptions),
) -> (WriteBehind, ManualClock, Reports) {
    let (clock, reports) = (ManualClock::new(), Reports::default());
    let heard = Arc::clone(&reports);
    let mut options = BehindOptions {
        clock: Arc::new(clock.clone()),
        report: Some(Arc::new(move |id: &Text, error: &Error| {
            heard.lock().unwrap().push(format!("{}: {error}", id.to_string_lossy()));
        })),
        drains: 3,
        ..BehindOptions::default()
    };
    change(&mut options);
    (WriteBehind::with_options(below, options), clock, reports)
}

/// Waits for something that another thread is about to do.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::yield_now();
    }
}
