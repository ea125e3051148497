//! What the tests of queries run on: stores that count calls and let a test into them, over every backend.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use seslog::Error;
use seslog::container::Encoding;
use seslog::contract::{Backend, FaultFiles, InMemory, Storage};
use seslog::json::Text;
use seslog::row::Header;
use seslog::session::{Intent, Session, Sessions, Settings};
use seslog::store::query::{Observation, Query, QueryFault, QueryOptions};
use seslog::store::{
    Cancel, CancelReason, Events, SessionAccess, SessionHandle, SessionPersistence, Snapshot,
};
use seslog::units::UnixMs;

use crate::common::sessions::{CREATED_AT, header, row_of};

/// Steps of a query that may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    List,
    Stat,
    Open,
    Read,
    Close,
}

pub(crate) const ALL: [Call; 4] = [Call::Stat, Call::Open, Call::Read, Call::Close];

type Hook = Box<dyn FnOnce() -> seslog::Result<()> + Send>;

/// The calls that a store had, and what waits for the next ones.
#[derive(Default)]
pub(crate) struct Calls {
    counts: [AtomicU64; 5],
    reading: AtomicU64,
    most: AtomicU64,
    hooks: Mutex<VecDeque<(Call, Hook)>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.fmt(f)
    }
}

impl Calls {
    pub(crate) fn of(&self, call: Call) -> u64 {
        self.counts[call as usize].load(Ordering::SeqCst)
    }

    /// The most handles that were open at one time.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    /// Runs `hook` inside the next such call, before its effect. The call fails if it does.
    pub(crate) fn on(&self, call: Call, hook: impl FnOnce() -> seslog::Result<()> + Send + 'static) {
        self.hooks.lock().push_back((call, Box::new(hook)));
    }

    /// Nothing waits for any call any more.
    pub(crate) fn forget_hooks(&self) {
        self.hooks.lock().clear();
    }

    fn meet(&self, call: Call) -> seslog::Result<()> {
        self.counts[call as usize].fetch_add(1, Ordering::SeqCst);
        let hook = {
            let mut hooks = self.hooks.lock();
            let due = hooks.iter().position(|(next, _)| *next == call);
            due.and_then(|due| hooks.remove(due))
        };
        hook.map_or(Ok(()), |(_, hook)| hook())
    }
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn SessionPersistence>,
    calls: Arc<Calls>,
}

#[derive(Debug)]
struct WatchedHandle {
    inner: Arc<dyn SessionHandle>,
    calls: Arc<Calls>,
}

impl SessionPersistence for Watched {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> seslog::Result<Arc<dyn SessionHandle>> {
        self.inner.create(header, inherited, cancel)
    }

    fn open(
        &self,
        id: &Text,
        access: SessionAccess,
        cancel: &Cancel,
    ) -> seslog::Result<Arc<dyn SessionHandle>> {
        self.calls.meet(Call::Open)?;
        let inner = self.inner.open(id, access, cancel)?;
        let now = self.calls.reading.fetch_add(1, Ordering::SeqCst) + 1;
        self.calls.most.fetch_max(now, Ordering::SeqCst);
        Ok(Arc::new(WatchedHandle { inner, calls: Arc::clone(&self.calls) }))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> seslog::Result<Option<Snapshot>> {
        self.calls.meet(Call::Stat)?;
        self.inner.stat(id, cancel)
    }

    fn list(&self, cancel: &Cancel) -> seslog::Result<Vec<Snapshot>> {
        self.calls.meet(Call::List)?;
        self.inner.list(cancel)
    }

    fn flush(&self) -> seslog::Result<()> {
        self.inner.flush()
    }

    fn close(&self) -> seslog::Result<()> {
        self.inner.close()
    }
}

impl SessionHandle for WatchedHandle {
    fn header(&self) -> &Header {
        self.inner.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.inner.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        self.inner.access()
    }

    fn next_seq(&self) -> Option<u64> {
        self.inner.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> seslog::Result<Events> {
        self.calls.meet(Call::Read)?;
        self.inner.read(offset, length, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> seslog::Result<()> {
        self.inner.append(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> seslog::Result<()> {
        self.inner.flush(cancel)
    }

    fn close(&self) -> seslog::Result<()> {
        let met = self.calls.meet(Call::Close);
        self.calls.reading.fetch_sub(1, Ordering::SeqCst);
        self.inner.close().and(met)
    }
}

/// The store, watched.
pub(crate) fn watch(inner: Arc<dyn SessionPersistence>) -> (Arc<dyn SessionPersistence>, Arc<Calls>) {
    let calls = Arc::<Calls>::default();
    (Arc::new(Watched { inner, calls: Arc::clone(&calls) }), calls)
}

/// A storage, an instance that a query looks through, and live sessions beside it.
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) store: Arc<dyn SessionPersistence>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) sessions: Sessions,
}

pub(crate) fn never() -> Cancel {
    Cancel::never()
}

pub(crate) fn id(id: &str) -> Text {
    Text::from(id)
}

pub(crate) fn settings() -> Settings {
    Settings::new(|| UnixMs::new(CREATED_AT + 9))
}

/// The reason of a caller that has waited for long enough.
pub(crate) fn enough() -> CancelReason {
    Arc::new(std::io::Error::other("enough"))
}

/// An event that opens turn `turn`, one that ends it, and one that says nothing.
pub(crate) fn turn_start(seq: u64) -> String {
    row_of("turn/start", seq, "{\"turn\":1}")
}

pub(crate) fn turn_end(seq: u64) -> String {
    row_of("turn/end", seq, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}")
}

pub(crate) fn mode(seq: u64) -> String {
    row_of("plan/mode", seq, "{\"active\":true}")
}

/// A message whose source is of that kind.
pub(crate) fn message(seq: u64, kind: &str) -> String {
    let data = format!(
        "{{\"id\":\"m-{seq}\",\"role\":\"user\",\"content\":[],\"source\":{{\"kind\":\"{kind}\"}}}},\"surfaceOp\":\"append\""
    );
    row_of("user/message", seq, &data)
}

impl Stage {
    fn on(backend: &dyn Backend) -> Self {
        let storage = backend.storage();
        let (store, calls) = watch(storage.instance());
        Self { name: backend.name(), storage, store, calls, sessions: Sessions::new(settings()) }
    }

    pub(crate) fn query(&self) -> Query {
        self.query_with(QueryOptions::default())
    }

    pub(crate) fn query_with(&self, options: QueryOptions) -> Query {
        Query::new(Arc::clone(&self.store), &self.sessions, options)
    }

    /// Stores a session, in an instance of its own.
    pub(crate) fn store(&self, header: Header, rows: &[String]) {
        let handle = self.storage.instance().create(header, None, &never()).unwrap();
        handle.flush(&never()).unwrap();
        handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &never()).unwrap();
        handle.close().unwrap();
    }

    pub(crate) fn store_quiet(&self, id: &str, rows: &[String]) {
        self.store(header(id), rows);
        self.settle(id);
    }

    /// Appends to a stored session, in an instance of its own.
    pub(crate) fn append(&self, id: &str, row: &str) {
        let handle = self.storage.instance().open(&Text::from(id), SessionAccess::Write, &never()).unwrap();
        handle.append(&[row.as_bytes()], &never()).unwrap();
        handle.close().unwrap();
    }

    /// Lets the disk's clock go on until whatever follows shows in the revision.
    pub(crate) fn settle(&self, id: &str) {
        let store = self.storage.instance();
        let is_quiet =
            || store.stat(&Text::from(id), &never()).unwrap().is_some_and(|snapshot| snapshot.is_quiet());
        assert!((0..10_000).any(|_| is_quiet()), "{}: {id} does not settle", self.name);
    }

    /// A live session, which nobody stores.
    pub(crate) fn live(&self, id: &str) -> Arc<Session> {
        come_alive(&self.sessions, header(id))
    }

    pub(crate) fn artifact(&self, id: &str) -> Option<Vec<u8>> {
        self.storage.artifact(&Text::from(id)).unwrap()
    }
}

/// Enters a session that has one event of its own, and stays.
pub(crate) fn come_alive(sessions: &Sessions, header: Header) -> Arc<Session> {
    let session = Session::create(header, sessions.settings()).unwrap();
    session.append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
    // It stays without the attachment, whose drop ends nothing.
    drop(sessions.publish(&session).unwrap());
    session
}

/// Runs a test over every backend.
pub(crate) fn everywhere(test: impl Fn(&Stage)) {
    let files = Encoding::ALL.iter().map(|&encoding| Stage::on(&FaultFiles::new(encoding)));
    for stage in files.chain([Stage::on(&InMemory)]) {
        test(&stage);
    }
}

/// Runs a test over one backend with files and the one without.
pub(crate) fn in_both(test: impl Fn(&Stage)) {
    for stage in [Stage::on(&FaultFiles::new(Encoding::Indexed)), Stage::on(&InMemory)] {
        test(&stage);
    }
}

/// The rows of all events, closers included.
pub(crate) fn rows(observation: &Observation) -> Vec<String> {
    observation.log().iter().map(|event| event.line().to_owned()).collect()
}

pub(crate) fn stored(observation: &Observation) -> Vec<String> {
    observation.stored().iter().map(|event| event.line().to_owned()).collect()
}

pub(crate) fn code<T: fmt::Debug>(outcome: Result<T, QueryFault>) -> &'static str {
    outcome.unwrap_err().code()
}

pub(crate) fn io_error() -> Error {
    Error::Io {
        path: "/log".into(),
        action: "reading",
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    }
}
