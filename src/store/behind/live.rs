//! One session that is written behind: what waits, its window, and whose turn it is to write.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::history::{Page, PageRequest};
use super::super::layout::printable;
use super::super::sync::{Condvar, Mutex, MutexGuard};
use super::super::{Cancel, Events, SessionHandle, SessionPersistence};
use super::drain::Until;
use super::pool::{Pool, Window};
use super::queue::{Bounds, Queue, Refused};
use super::registry::Registry;
use crate::error::{Error, Result};
use crate::json::Text;
use crate::session::Log;

/// What became of a live event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an event that was not queued is not stored"]
#[non_exhaustive]
pub enum Routed {
    /// It waits, and will be stored.
    Queued,
    /// There is no room: see [`WriteBehind::route`](super::WriteBehind::route), which waits for some.
    Full,
    /// Nobody has the session open for writing here, so it is not stored.
    NoHandle,
}

/// A handle that writes, as everybody who needs it shares it.
pub(super) struct Live {
    id: Text,
    shown_id: String,
    /// For opening the session again when the handle below cannot go on.
    pub(super) store: Arc<dyn SessionPersistence>,
    pool: Arc<Pool>,
    pub(super) registry: Weak<Registry>,
    me: Weak<Self>,
    pub(super) state: Mutex<State>,
    /// Something changed that somebody may wait for: a turn, room, the end.
    pub(super) changed: Condvar,
}

pub(super) struct State {
    /// None when it is closed: for good, or because it could not be opened again.
    pub(super) below: Option<Arc<dyn SessionHandle>>,
    pub(super) queue: Queue,
    /// Where the log ends, as far as it was acknowledged.
    pub(super) stored: u64,
    /// Turns given out, and the one that is being served.
    tickets: u64,
    serving: u64,
    window: WindowState,
    windows: u64,
    /// Whoever has the turn will take what is queued now: no window is needed.
    pub(super) draining: bool,
    /// Why no window is opened until somebody drains.
    pub(super) paused: Option<Error>,
    pub(super) phase: Phase,
    /// How close ended.
    pub(super) closed: Option<Option<Error>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WindowState {
    Closed,
    Open(u64),
    /// Its end has come before its time.
    Hurried(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// No operation starts any more. Events are still taken.
    Closing,
    /// No event is taken any more.
    Sealed,
}

/// A caller whose turn it is to write. Dropping it lets the next one on.
pub(super) struct Turn<'a>(&'a Live);

/// How often a call that waits for room looks whether it was cancelled.
const CANCEL_LOOK: Duration = Duration::from_millis(20);

impl Live {
    pub(super) fn new(
        below: Arc<dyn SessionHandle>,
        store: Arc<dyn SessionPersistence>,
        pool: Arc<Pool>,
        registry: &Arc<Registry>,
    ) -> Arc<Self> {
        let id = below.header().id().clone();
        let state = State {
            stored: below.next_seq().unwrap_or(0),
            below: Some(below),
            queue: Queue::default(),
            tickets: 0,
            serving: 0,
            window: WindowState::Closed,
            windows: 0,
            draining: false,
            paused: None,
            phase: Phase::Open,
            closed: None,
        };
        Arc::new_cyclic(|me| Self {
            shown_id: printable(&id),
            id,
            store,
            pool,
            registry: Arc::downgrade(registry),
            me: Weak::clone(me),
            state: Mutex::new(state),
            changed: Condvar::default(),
        })
    }

    pub(super) const fn id(&self) -> &Text {
        &self.id
    }

    pub(super) fn bounds(&self) -> Bounds {
        let options = self.pool.options();
        Bounds { bytes: options.queue_bytes_max, events: options.queue_events_max }
    }

    /// The seq behind everything that was accepted; `None` once the handle is closed.
    pub(super) fn next_seq(&self) -> Option<u64> {
        let state = self.state.lock();
        state.closed.is_none().then(|| state.queue.end().unwrap_or(state.stored))
    }

    /// The seq behind everything that is stored.
    pub(super) fn stored(&self) -> u64 {
        self.state.lock().stored
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().phase != Phase::Open
    }

    /// Queues the row of event `seq`, if there is room.
    pub(super) fn try_route(&self, row: &[u8], seq: u64) -> Result<Routed> {
        let mut state = self.state.lock();
        self.push(&mut state, row, seq)
    }

    /// Queues the row of event `seq`, as soon as there is room.
    pub(super) fn route(&self, row: &[u8], seq: u64, cancel: &Cancel) -> Result<Routed> {
        let mut state = self.state.lock();
        loop {
            cancel.check()?;
            let routed = self.push(&mut state, row, seq)?;
            if routed != Routed::Full {
                return Ok(routed);
            }
            // Nothing makes room before somebody drains.
            if let Some(error) = &state.paused {
                return Err(error.again());
            }
            state = match cancel.can_cancel() {
                true => self.changed.wait_for(state, CANCEL_LOOK),
                false => self.changed.wait(state),
            };
        }
    }

    /// Queues the last event of `log`. What finds no room is taken from the log when there is some.
    pub(super) fn route_last(&self, row: &[u8], seq: u64, log: impl FnOnce() -> Log) -> Result<Routed> {
        let mut state = self.state.lock();
        if state.phase == Phase::Sealed {
            return Ok(Routed::NoHandle);
        }
        let stored = state.stored;
        let taken = state.queue.push_last(row, seq, stored, self.bounds(), log);
        self.took(&mut state, taken, seq)
    }

    fn push(&self, state: &mut State, row: &[u8], seq: u64) -> Result<Routed> {
        if state.phase == Phase::Sealed {
            return Ok(Routed::NoHandle);
        }
        let stored = state.stored;
        let taken = state.queue.push(row, seq, stored, self.bounds());
        self.took(state, taken, seq)
    }

    fn took(&self, state: &mut State, taken: Result<(), Refused>, seq: u64) -> Result<Routed> {
        match taken {
            Ok(()) => {
                self.open_window(state);
                Ok(Routed::Queued)
            }
            Err(Refused::Full) => Ok(Routed::Full),
            Err(Refused::Seq { expected }) => Err(self.mismatch(expected, 0, seq)),
        }
    }

    /// Sees to it that what is queued will be drained: at the end of the window that is open, or of a new one.
    pub(super) fn open_window(&self, state: &mut State) {
        if state.draining || state.paused.is_some() || state.queue.is_empty() {
            return;
        }
        let crowded = state.queue.is_half_full(self.bounds());
        match state.window {
            WindowState::Closed if crowded => self.hurry(state),
            WindowState::Closed => {
                let number = state.next_window();
                state.window = WindowState::Open(number);
                self.pool.arm(Window { live: Weak::clone(&self.me), number });
            }
            // The deadline of the old number will find nothing to do.
            WindowState::Open(_) if crowded => self.hurry(state),
            WindowState::Open(_) | WindowState::Hurried(_) => {}
        }
    }

    pub(super) fn hurry(&self, state: &mut State) {
        let number = state.next_window();
        state.window = WindowState::Hurried(number);
        self.pool.hurry(Window { live: Weak::clone(&self.me), number });
    }

    /// Drains at the end of window `number`, unless it was closed before.
    pub(super) fn window_ended(&self, number: u64) {
        if !self.state.lock().is_due(number) {
            return;
        }
        let turn = self.turn();
        if !self.state.lock().is_due(number) {
            return;
        }
        let drained = self.drain(&turn, Until::Empty);
        drop(turn);
        if let Err(error) = drained {
            self.report(&error);
        }
    }

    /// Waits for the caller's turn: turns are given in the order in which they were asked for.
    pub(super) fn turn(&self) -> Turn<'_> {
        let mut state = self.state.lock();
        let ticket = state.tickets;
        state.tickets = ticket.wrapping_add(1);
        while state.serving != ticket {
            state = self.changed.wait(state);
        }
        Turn(self)
    }

    /// The turn of an operation, which does not start once close began.
    pub(super) fn turn_for(&self, operation: &'static str, cancel: &Cancel) -> Result<Turn<'_>> {
        self.check_open(operation)?;
        let turn = self.turn();
        self.check_open(operation)?;
        cancel.check()?;
        Ok(turn)
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        match self.state.lock().phase {
            Phase::Open => Ok(()),
            Phase::Closing | Phase::Sealed => Err(self.handle_closed(operation)),
        }
    }

    /// The handle below; none if it was closed because it could not go on, and could not be opened again.
    pub(super) fn below(&self) -> Option<Arc<dyn SessionHandle>> {
        self.state.lock().below.clone()
    }

    pub(super) fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.check_open("read")?;
        self.below().ok_or_else(|| self.poisoned())?.read(offset, length, cancel)
    }

    pub(super) fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.check_open("page")?;
        self.below().ok_or_else(|| self.poisoned())?.page(request, cancel)
    }

    pub(super) fn report(&self, error: &Error) {
        self.pool.options().tell(&self.id, error);
    }

    pub(super) fn mismatch(&self, expected: u64, index: usize, actual: u64) -> Error {
        Error::SeqMismatch { id: self.shown_id.clone(), expected, index, actual }
    }

    pub(super) fn not_stored(&self, stored: u64, accepted: u64) -> Error {
        Error::NotStored { id: self.shown_id.clone(), stored, accepted }
    }

    pub(super) fn handle_closed(&self, operation: &'static str) -> Error {
        Error::HandleClosed { id: self.shown_id.clone(), operation }
    }

    pub(super) fn poisoned(&self) -> Error {
        Error::Poisoned { id: self.shown_id.clone() }
    }
}

impl State {
    fn next_window(&mut self) -> u64 {
        self.windows = self.windows.saturating_add(1);
        self.windows
    }

    fn is_due(&self, number: u64) -> bool {
        matches!(self.window, WindowState::Open(open) | WindowState::Hurried(open) if open == number)
    }

    /// Whoever has the turn drains from here on.
    pub(super) fn begin_drain(&mut self) {
        self.window = WindowState::Closed;
        self.paused = None;
        self.draining = true;
    }
}

impl Turn<'_> {
    /// A lock on the state of the session whose turn it is.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if std::mem::take(&mut state.draining) {
            // The store below panicked. What was being written is still queued.
            state.paused = Some(self.0.poisoned());
        }
        state.serving = state.serving.wrapping_add(1);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Live")
            .field("id", &self.shown_id)
            .field("stored", &state.stored)
            .field("accepted", &state.queue.end().unwrap_or(state.stored))
            .field("paused", &state.paused.as_ref().map(ToString::to_string))
            .field("phase", &state.phase)
            .finish_non_exhaustive()
    }
}
