//! A backend seen from behind: its appends fail, wait or are counted on request, whatever hooks its storage offers.

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::stage::{Handle, Instance};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::row::Header;
use crate::store::history::{Page, PageRequest};
use crate::store::{Cancel, Events, SessionAccess, SessionHandle, SessionPersistence, Snapshot};

/// An instance of the backend under test, with its appends in hand.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    below: Instance,
    watch: Arc<Watch>,
}

#[derive(Default)]
struct Watch {
    state: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    /// Ids whose appends fail.
    failing: Vec<Text>,
    is_shut: bool,
    /// Appends that wait at the gate.
    waiting: usize,
    /// Each append that went through or failed: how many rows it had.
    batches: Vec<usize>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.lock().fmt(f)
    }
}

impl Watched {
    pub(super) fn new(below: Instance) -> Self {
        Self { below, watch: Arc::default() }
    }

    /// Lets the appends of a session fail from now on, or not any more.
    pub(super) fn set_failing(&self, id: &str, fails: bool) {
        let id = Text::from(id);
        let mut state = self.watch.state.lock();
        state.failing.retain(|failing| *failing != id);
        if fails {
            state.failing.push(id);
        }
    }

    /// Lets every append wait from now on, before it does anything.
    pub(super) fn shut(&self) {
        self.watch.state.lock().is_shut = true;
    }

    /// Lets appends go on.
    pub(super) fn open_gate(&self) {
        self.watch.state.lock().is_shut = false;
        self.watch.changed.notify_all();
    }

    /// Returns once an append waits.
    pub(super) fn await_waiting(&self) {
        let mut state = self.watch.state.lock();
        while state.waiting == 0 {
            self.watch.changed.wait(&mut state);
        }
    }

    /// How many rows each append so far had.
    pub(super) fn batches(&self) -> Vec<usize> {
        self.watch.state.lock().batches.clone()
    }

    fn watched(&self, below: Handle) -> Handle {
        Arc::new(WatchedHandle { below, watch: Arc::clone(&self.watch) })
    }
}

impl SessionPersistence for Watched {
    fn create(&self, header: Header, inherited: Option<u64>, cancel: &Cancel) -> Result<Handle> {
        Ok(self.watched(self.below.create(header, inherited, cancel)?))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Handle> {
        Ok(self.watched(self.below.open(id, access, cancel)?))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        self.below.stat(id, cancel)
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        self.below.list(cancel)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn close(&self) -> Result<()> {
        self.below.close()
    }
}

#[derive(Debug)]
struct WatchedHandle {
    below: Handle,
    watch: Arc<Watch>,
}

impl SessionHandle for WatchedHandle {
    fn header(&self) -> &Header {
        self.below.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.below.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        self.below.access()
    }

    fn next_seq(&self) -> Option<u64> {
        self.below.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.below.read(offset, length, cancel)
    }

    fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.below.page(request, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        let is_failing = {
            let mut state = self.watch.state.lock();
            state.waiting = state.waiting.saturating_add(1);
            self.watch.changed.notify_all();
            while state.is_shut {
                self.watch.changed.wait(&mut state);
            }
            state.waiting = state.waiting.saturating_sub(1);
            state.batches.push(rows.len());
            state.failing.contains(self.header().id())
        };
        if is_failing {
            return Err(Error::io("", "writing")(io::Error::other("a test made it fail")));
        }
        self.below.append(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.below.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.below.close()
    }
}
