//! Do tasks see the seam as threads do, and does none of their threads wait?

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use seslog::json::Text;
use seslog::row::Header;
use seslog::store::aio::{AsyncHandle, AsyncStore, Call, Dropped, Lost};
use seslog::store::{Cancel, Events, FileStore, SessionAccess, SessionHandle, SessionPersistence, Snapshot};
use seslog::units::{Generation, UnixMs};
use seslog::{Error, Result};
use tokio::runtime::{Builder, Runtime};

fn header(id: &str) -> Header {
    Header::new(Generation::V2, Text::from(id), UnixMs::new(1)).unwrap()
}

fn row(seq: u64) -> Vec<u8> {
    format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{seq},\"data\":{{}}}}").into_bytes()
}

/// Lets operations through one by one, so that a test decides what has begun.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    passes: u64,
    waiting: u64,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        while state.passes == 0 {
            state = self.changed.wait(state).unwrap();
        }
        state.passes -= 1;
        state.waiting -= 1;
    }

    fn open(&self, passes: u64) {
        self.state.lock().unwrap().passes += passes;
        self.changed.notify_all();
    }

    /// Waits until an operation stands at the gate.
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        while state.waiting == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// A store whose handles wait at a gate inside each append, and note which thread they were called on.
#[derive(Debug)]
struct Slow {
    inner: FileStore,
    gate: Arc<Gate>,
    threads: Arc<Mutex<Vec<thread::ThreadId>>>,
}

#[derive(Debug)]
struct SlowHandle {
    inner: Arc<dyn SessionHandle>,
    gate: Arc<Gate>,
    threads: Arc<Mutex<Vec<thread::ThreadId>>>,
}

impl Slow {
    fn note(&self) {
        self.threads.lock().unwrap().push(thread::current().id());
    }

    fn handle(&self, inner: Arc<dyn SessionHandle>) -> Arc<dyn SessionHandle> {
        Arc::new(SlowHandle { inner, gate: Arc::clone(&self.gate), threads: Arc::clone(&self.threads) })
    }
}

impl SessionPersistence for Slow {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        self.note();
        SessionPersistence::create(&self.inner, header, inherited, cancel).map(|inner| self.handle(inner))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        self.note();
        SessionPersistence::open(&self.inner, id, access, cancel).map(|inner| self.handle(inner))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        self.note();
        SessionPersistence::stat(&self.inner, id, cancel)
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        self.note();
        SessionPersistence::list(&self.inner, cancel)
    }

    fn flush(&self) -> Result<()> {
        self.note();
        self.inner.flush()
    }

    fn close(&self) -> Result<()> {
        self.note();
        self.inner.close()
    }
}

impl SlowHandle {
    fn note(&self) {
        self.threads.lock().unwrap().push(thread::current().id());
    }
}

impl SessionHandle for SlowHandle {
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
        self.note();
        self.inner.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.note();
        self.inner.read(offset, length, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.note();
        self.gate.pass();
        assert!(rows.first().is_none_or(|row| row != b"panic"), "as asked for");
        self.inner.append(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.note();
        self.inner.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.note();
        self.inner.close()
    }
}

impl Drop for SlowHandle {
    fn drop(&mut self) {
        self.note();
    }
}

/// A root, a store on it that waits at a gate, and what it is called on.
struct Bench {
    _root: tempfile::TempDir,
    files: FileStore,
    store: Arc<dyn SessionPersistence>,
    gate: Arc<Gate>,
    threads: Arc<Mutex<Vec<thread::ThreadId>>>,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let files = FileStore::new(root.path());
        let (gate, threads) = (Arc::<Gate>::default(), Arc::<Mutex<Vec<thread::ThreadId>>>::default());
        let slow = Slow { inner: files.clone(), gate: Arc::clone(&gate), threads: Arc::clone(&threads) };
        Self { _root: root, files, store: Arc::new(slow), gate, threads }
    }

    async fn created(&self) -> AsyncHandle {
        let store = AsyncStore::new(Arc::clone(&self.store));
        store.create(header("s"), None).await.unwrap()
    }

    fn stored(&self) -> Vec<u64> {
        let handle = FileStore::new(self.files.root()).open(&Text::from("s"), SessionAccess::Read).unwrap();
        handle.read(0, u64::MAX).unwrap().iter().map(|event| event.seq().get()).collect()
    }
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn is_closed<T: std::fmt::Debug>(outcome: Result<T>, operation: &str) {
    match outcome {
        Err(Error::HandleClosed { operation: found, .. }) => assert_eq!(found, operation),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_one_thread_of_an_executor_goes_on_while_an_append_waits() {
    let bench = Bench::new();
    one_thread().block_on(async {
        let handle = bench.created().await;
        let append = handle.append(vec![row(0)]);
        let (ticks, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let others = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
            assert_eq!(done.load(Ordering::Relaxed), 0, "the gate is shut");
            bench.gate.open(1);
        };
        let append = async {
            append.await.unwrap();
            done.store(1, Ordering::Relaxed);
        };
        tokio::join!(append, others);
        assert_eq!(ticks.load(Ordering::Relaxed), 20);
    });
}

#[test]
fn no_call_runs_on_the_thread_of_the_executor() {
    let bench = Bench::new();
    bench.gate.open(1);
    let runtime = one_thread();
    runtime.block_on(async {
        let store = AsyncStore::new(Arc::clone(&bench.store));
        let id = Text::from("s");
        let handle = store.create(header("s"), None).await.unwrap();
        handle.append(vec![row(0)]).await.unwrap();
        handle.flush().await.unwrap();
        assert_eq!(handle.next_seq().await.unwrap(), Some(1));
        assert_eq!(handle.read(0, 9).await.unwrap().len(), 1);
        assert_eq!(store.stat(id.clone()).await.unwrap().unwrap().event_count, Some(1));
        assert_eq!(store.list().await.unwrap().len(), 1);
        store.flush().await.unwrap();
        handle.close().await.unwrap();
        drop(store.open(id, SessionAccess::Read).await.unwrap());
        store.close().await.unwrap();
    });
    drop(runtime);
    let here = thread::current().id();
    let threads = bench.threads.lock().unwrap();
    // Twelve calls, and two handles that were dropped.
    assert!(threads.len() >= 13 && !threads.contains(&here), "{threads:?}");
}

#[test]
fn operations_run_in_the_order_of_their_calls_whatever_is_polled_first() {
    let bench = Bench::new();
    bench.gate.open(100);
    Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(async {
        let handle = bench.created().await;
        let mut calls: Vec<Call<()>> = (0..50).map(|seq| handle.append(vec![row(seq)])).collect();
        let next = handle.next_seq();
        assert_eq!(next.await.unwrap(), Some(50), "it was called behind all of them");
        while let Some(last) = calls.pop() {
            last.await.unwrap();
        }
    });
    assert_eq!(bench.stored(), (0..50).collect::<Vec<_>>());
}

#[test]
fn an_operation_runs_although_nobody_polls() {
    let bench = Bench::new();
    bench.gate.open(1);
    one_thread().block_on(async {
        let handle = bench.created().await;
        let call = handle.append(vec![row(0)]);
        // Behind it, so it has run.
        handle.flush().await.unwrap();
        let mut call = pin!(call);
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(()))), "{polled:?}");
    });
    assert_eq!(bench.stored(), [0]);
}

#[test]
fn a_dropped_call_is_cancelled_if_it_has_not_begun_and_completes_if_it_has() {
    let bench = Bench::new();
    one_thread().block_on(async {
        let handle = bench.created().await;
        let begun = handle.append(vec![row(0)]);
        bench.gate.wait();
        let waiting = handle.append(vec![row(1)]);
        drop(waiting);
        let behind = handle.append(vec![row(1)]);
        bench.gate.open(2);
        begun.await.unwrap();
        behind.await.unwrap();
        assert_eq!(handle.next_seq().await.unwrap(), Some(2));

        let begun = handle.append(vec![row(2)]);
        bench.gate.wait();
        drop(begun);
        bench.gate.open(1);
        // At the gate it had not reached the disk, so this may be either; the handle tells, and goes on.
        let next = handle.next_seq().await.unwrap().unwrap();
        assert_eq!(bench.stored(), (0..next).collect::<Vec<_>>());
        bench.gate.open(1);
        handle.append(vec![row(next)]).await.unwrap();
    });
}

#[test]
fn the_store_hears_why_a_call_was_cancelled() {
    #[derive(Debug)]
    struct Listening(Arc<Mutex<Option<Error>>>, Arc<Gate>, Slow);
    impl SessionPersistence for Listening {
        fn create(&self, _: Header, _: Option<u64>, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
            self.1.pass();
            let cancelled = cancel.check().unwrap_err();
            *self.0.lock().unwrap() = Some(cancelled);
            cancel.check().map(|()| unreachable!("it was cancelled"))
        }
        fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
            self.2.open(id, access, cancel)
        }
        fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
            self.2.stat(id, cancel)
        }
        fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
            self.2.list(cancel)
        }
        fn flush(&self) -> Result<()> {
            self.2.flush()
        }
        fn close(&self) -> Result<()> {
            self.2.close()
        }
    }
    let root = tempfile::tempdir().unwrap();
    let (heard, gate) = (Arc::default(), Arc::<Gate>::default());
    let slow = Slow { inner: FileStore::new(root.path()), gate: Arc::clone(&gate), threads: Arc::default() };
    let runtime = one_thread();
    runtime.block_on(async {
        let store = AsyncStore::new(Arc::new(Listening(Arc::clone(&heard), Arc::clone(&gate), slow)));
        let create = store.create(header("s"), None);
        gate.wait();
        drop(create);
        gate.open(1);
    });
    // Waits for the blocking threads.
    drop(runtime);
    match heard.lock().unwrap().take() {
        Some(Error::Cancelled { reason }) => assert!(reason.downcast_ref::<Dropped>().is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn close_completes_what_runs_and_refuses_what_waits_and_every_caller_gets_its_outcome() {
    let bench = Bench::new();
    one_thread().block_on(async {
        let handle = bench.created().await;
        let running = handle.append(vec![row(0)]);
        let (waiting, read) = (handle.append(vec![row(1)]), handle.read(0, 1));
        let (first, second) = (handle.close(), handle.clone().close());
        is_closed(waiting.await, "append");
        is_closed(read.await, "read");
        is_closed(handle.flush().await, "flush");
        is_closed(handle.next_seq().await, "next_seq");
        bench.gate.open(1);
        running.await.unwrap();
        first.await.unwrap();
        second.await.unwrap();
        handle.close().await.unwrap();
    });
    assert_eq!(bench.stored(), [0]);
}

#[test]
fn a_close_whose_future_is_dropped_closes_all_the_same() {
    let bench = Bench::new();
    bench.gate.open(1);
    let runtime = one_thread();
    runtime.block_on(async {
        let handle = bench.created().await;
        handle.append(vec![row(0)]).await.unwrap();
        drop(handle.close());
        drop(handle);
    });
    drop(runtime);
    bench.files.open(&Text::from("s"), SessionAccess::Write).unwrap();
}

#[test]
fn a_runtime_that_shuts_down_leaves_no_caller_waiting() {
    let bench = Bench::new();
    bench.gate.open(1);
    let runtime = one_thread();
    let (store, handle) = runtime.block_on(async {
        let store = AsyncStore::new(Arc::clone(&bench.store));
        let handle = store.create(header("s"), None).await.unwrap();
        handle.append(vec![row(0)]).await.unwrap();
        (store, handle)
    });
    drop(runtime);
    let lost = |outcome: Result<()>| match outcome {
        Err(Error::Cancelled { reason }) => assert!(reason.downcast_ref::<Lost>().is_some()),
        other => panic!("{other:?}"),
    };
    one_thread().block_on(async {
        lost(handle.append(vec![row(1)]).await);
        lost(handle.flush().await);
        lost(store.flush().await);
        lost(handle.close().await);
    });
    drop(handle);
    assert_eq!(bench.stored(), [0]);
}

#[test]
fn a_store_that_panics_loses_the_calls_that_wait_and_no_later_ones() {
    let bench = Bench::new();
    one_thread().block_on(async {
        let handle = bench.created().await;
        let (panics, waits) = (handle.append(vec![b"panic".to_vec()]), handle.append(vec![row(0)]));
        bench.gate.open(1);
        for outcome in [panics.await, waits.await] {
            match outcome {
                Err(Error::Cancelled { reason }) => assert!(reason.downcast_ref::<Lost>().is_some()),
                other => panic!("{other:?}"),
            }
        }
        bench.gate.open(1);
        handle.append(vec![row(0)]).await.unwrap();
        handle.close().await.unwrap();
    });
}
