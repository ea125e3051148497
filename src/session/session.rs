//! A session in memory.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, ReentrantMutex};

use super::intake::{Demands, EventFault, Intake};
use super::kind::Kind;
use super::log::Log;
use super::messages::{Derivation, Messages};
use super::observers::{CallFailure, HostError, Listeners, Subscription, contained};
use super::pairing::{Pairing, PairingFault};
use super::registry::Entry;
use super::request::RequestHeader;
use super::seed::{CreateFault, Origin, Start};
use super::settings::{Admission, Settings};
use crate::json::{Tape, Text};
use crate::row::{Check, Event, Header, NewEvent, RowFault};
use crate::units::Seq;

/// A session in memory: its log, which only grows, and what follows from it.
///
/// Shared between threads: appends wait for each other, and readers get snapshots that never change. No file is touched
/// here; whoever stores the session observes it.
pub struct Session {
    header: Header,
    inherited: u64,
    first_live: u64,
    settings: Settings,
    /// Held from the first check of an append until its last observer was told. The cell is what an append from inside an
    /// observer finds borrowed.
    writer: ReentrantMutex<RefCell<Writer>>,
    state: Mutex<State>,
    observers: Listeners<Observe>,
    /// Where the session is live.
    entry: Mutex<Weak<Entry>>,
}

pub(crate) type Observe = dyn Fn(&Session, &Event<'_>) -> Result<(), HostError> + Send + Sync;

/// Scratch memory of appends.
#[derive(Debug, Default)]
struct Writer {
    tape: Tape,
    compact: Vec<u8>,
    row: Vec<u8>,
}

#[derive(Debug)]
struct State {
    log: Log,
    intake: Intake,
    derivation: Derivation,
    request: Option<RequestHeader>,
    context: Option<u64>,
}

/// How a new event joins the log, besides its type and payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intent<'a> {
    surface: Option<Place>,
    sources: Option<&'a [u64]>,
    ignorable: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Append,
    Replace { start: u64, end: u64 },
}

impl<'a> Intent<'a> {
    /// Not on the surface.
    #[must_use]
    pub const fn log_only() -> Self {
        Self { surface: None, sources: None, ignorable: false }
    }

    /// At the end of the surface.
    #[must_use]
    pub const fn append() -> Self {
        Self { surface: Some(Place::Append), sources: None, ignorable: false }
    }

    /// In place of what stands on the surface from seq `start` to seq `end`, both included. `sources` holds everything that
    /// is shadowed, and perhaps more.
    #[must_use]
    pub const fn replace(start: u64, end: u64, sources: &'a [u64]) -> Self {
        Self { surface: Some(Place::Replace { start, end }), sources: Some(sources), ignorable: false }
    }

    /// With the earlier events that it came from.
    #[must_use]
    pub const fn citing(self, sources: &'a [u64]) -> Self {
        Self { sources: Some(sources), ..self }
    }

    /// Marked so that a reader who does not know the type may keep the event as it is.
    #[must_use]
    pub const fn ignorable(self) -> Self {
        Self { ignorable: true, ..self }
    }
}

/// Why an event was not appended. The log, the surface and the messages are as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendFault {
    /// The event cannot stand in the log.
    #[error(transparent)]
    Event(#[from] EventFault),
    /// Observers are being told of another append to this session, by this thread.
    #[error("an event was appended from inside an observer of the same session")]
    Reentrant,
    /// `session/end-seed` is written when a session starts, and never later.
    #[error("session/end-seed is written by the start of a session only")]
    Marker,
    /// A validator of the store where the session is live refused.
    #[error("the event was refused")]
    Refused(#[source] CallFailure),
    /// Events are numbered up to 2^53 - 1.
    #[error("the log is full")]
    Full,
}

impl Session {
    /// A session without a seed. Nothing is in its log.
    ///
    /// # Errors
    /// [`CreateFault::Generation`], and [`CreateFault::NoSeed`] for a header that says that events are inherited.
    pub fn create(header: Header, settings: &Settings) -> Result<Arc<Self>, CreateFault> {
        let start = Start::empty(&header, settings)?;
        Ok(Self::start(header, start, settings))
    }

    /// A new session with the events of `seed`, which may be none, and a `session/end-seed` behind them: marked as
    /// `inherited` if the header is seeded, and then always; otherwise only if the seed does not end in one.
    ///
    /// `cut` is the number of inherited events: all of the seed for a seeded header, else 0 or nothing. The rows are shared
    /// with `seed`, not copied. Time O(bytes of the seed): every event is checked.
    ///
    /// # Errors
    /// Every [`CreateFault`].
    pub fn seeded(
        header: Header,
        seed: &Log,
        cut: Option<u64>,
        settings: &Settings,
    ) -> Result<Arc<Self>, CreateFault> {
        let start = Start::of_seed(&header, seed, cut, Origin::New, settings)?;
        Ok(Self::start(header, start, settings))
    }

    /// A stored session with all its events, closers of an interrupted turn included if there are any: see
    /// [`OpenTurn`](super::OpenTurn). A `session/end-seed` follows unless the log ends in one.
    ///
    /// `cut` is the number of inherited events. Payloads are not asked to be lossless: they are what was stored.
    ///
    /// # Errors
    /// Every [`CreateFault`] but [`CreateFault::CutInside`].
    pub fn restore(
        header: Header,
        log: &Log,
        cut: Option<u64>,
        settings: &Settings,
    ) -> Result<Arc<Self>, CreateFault> {
        let start = Start::of_seed(&header, log, cut, Origin::Stored, settings)?;
        Ok(Self::start(header, start, settings))
    }

    fn start(header: Header, start: Start, settings: &Settings) -> Arc<Self> {
        let state = State {
            log: start.log,
            intake: start.intake,
            derivation: Derivation::default(),
            request: start.request,
            context: start.context,
        };
        Arc::new(Self {
            header,
            inherited: start.inherited,
            first_live: start.first_live,
            settings: settings.clone(),
            writer: ReentrantMutex::new(RefCell::default()),
            state: Mutex::new(state),
            observers: Listeners::default(),
            entry: Mutex::default(),
        })
    }

    /// Appends an event and tells its observers; returns its seq.
    ///
    /// `data` is the JSON text of the payload; it is copied, without white space around it, and respelled only if it has
    /// line feeds between its tokens. Appends from several threads wait for each other, until the last observer of each was
    /// told: an observer that waits for another thread's append to the same session waits for ever.
    ///
    /// In this order: the payload is checked, an append from inside an observer is refused, the event gets its seq and time
    /// and is judged, validators may refuse it, it enters the log, and observers are told in their order: the session's own,
    /// then those of the store where it is live. Their failures are reported and change nothing.
    ///
    /// # Errors
    /// [`AppendFault`]; nothing has changed then.
    pub fn append(&self, event_type: &str, data: &str, intent: Intent<'_>) -> Result<Seq, AppendFault> {
        let guard = self.writer.lock();
        let Ok(mut writer) = guard.try_borrow_mut() else {
            self.payload(data, &mut Tape::default(), &mut Vec::new())?;
            return Err(AppendFault::Reentrant);
        };
        let Writer { tape, compact, row } = &mut *writer;
        let data = self.payload(data, tape, compact)?;
        if event_type == Kind::SessionEndSeed.name() {
            return Err(AppendFault::Marker);
        }
        let seq = Seq::new(self.state.lock().log.end()).ok_or(AppendFault::Full)?;
        self.write_row(event_type, seq, data, intent, row);
        let event = Event::read(row, Check::Envelope, self.settings.limits()).map_err(EventFault::Row)?;
        let admitted = {
            let state = &mut *self.state.lock();
            state.intake.judge(&event, &state.log, self.demands())?
        };
        let observers = self.observers.now();
        let entry = self.entry.lock().upgrade();
        let mut live = entry.as_deref().and_then(Entry::hold);
        if let Some(live) = &mut live {
            live.validate(self, &event).map_err(AppendFault::Refused)?;
        }
        {
            let state = &mut *self.state.lock();
            state.intake.commit(admitted);
            state.log.push_event(&event);
            match admitted.kind {
                Some(Kind::RequestHeader) => {
                    state.request = RequestHeader::read(&event, tape).or(state.request.take());
                }
                Some(Kind::RequestContext) => state.context = Some(seq.get()),
                _ => {}
            }
        }
        for observe in observers {
            self.tell(&*observe, &event);
        }
        if let Some(live) = &mut live {
            live.publish(self, &event);
        }
        Ok(seq)
    }

    /// The payload as it will be stored.
    fn payload<'w>(
        &self,
        data: &'w str,
        tape: &'w mut Tape,
        compact: &'w mut Vec<u8>,
    ) -> Result<&'w str, EventFault> {
        let node =
            tape.parse(data.as_bytes(), self.settings.limits().nesting_max).map_err(RowFault::NotJson)?;
        if !node.is_lossless() {
            return Err(EventFault::Lossy);
        }
        if memchr::memchr2(b'\n', b'\r', node.raw().as_bytes()).is_none() {
            return Ok(node.raw());
        }
        compact.clear();
        node.write_canonical(compact);
        Ok(std::str::from_utf8(compact).expect("canonical JSON is UTF-8"))
    }

    fn write_row(&self, event_type: &str, seq: Seq, data: &str, intent: Intent<'_>, row: &mut Vec<u8>) {
        let replace;
        let surface_op = match intent.surface {
            None => None,
            Some(Place::Append) => Some("\"append\""),
            Some(Place::Replace { start, end }) => {
                let [first, last] = self.settings.profile().replace_keys();
                replace = format!("{{\"op\":\"replace\",\"{first}\":{start},\"{last}\":{end}}}");
                Some(replace.as_str())
            }
        };
        row.clear();
        let event = NewEvent {
            event_type,
            seq,
            time: self.settings.now(),
            data,
            ignorable: intent.ignorable,
            source_event_seqs: intent.sources,
            surface_op,
        };
        event.write(row);
    }

    fn demands(&self) -> Demands {
        let readable = self.settings.admission() == Admission::Readable;
        Demands {
            lossless: false,
            known: readable,
            shapes: readable,
            unretired: readable || self.settings.profile().refuses_retired(),
        }
    }

    /// Tells one observer.
    pub(crate) fn tell(&self, observe: &Observe, event: &Event<'_>) {
        if let Err(failure) = contained(|| observe(self, event)) {
            self.settings.report(self, &failure);
        }
    }

    /// Calls `observer` for every event that is appended from now on, after it has entered the log. Events of a seed and the
    /// marker behind it are never told.
    ///
    /// An error or a panic of an observer is reported to [`Settings::with_report`], and the others are told all the same.
    pub fn observe(
        &self,
        observer: impl Fn(&Self, &Event<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    ) -> Subscription {
        self.observers.add(Arc::new(observer))
    }

    /// The header. It never changes.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The session's id.
    #[must_use]
    pub const fn id(&self) -> &Text {
        self.header.id()
    }

    /// How many events of the log came from the parent session.
    #[must_use]
    pub const fn inherited_event_count(&self) -> u64 {
        self.inherited
    }

    /// The seq behind the seed; 0 without one. What is appended since this session was made in memory comes from there on.
    #[must_use]
    pub const fn first_live_seq(&self) -> u64 {
        self.first_live
    }

    /// The settings that it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The log as it is now: a snapshot, which costs a few words.
    #[must_use]
    pub fn log(&self) -> Log {
        self.state.lock().log.clone()
    }

    /// The seq of the next event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.state.lock().log.end()
    }

    /// The events that were not inherited, as they are now.
    #[must_use]
    pub fn own_events(&self) -> Log {
        self.log().suffix(self.inherited)
    }

    /// The messages that the surface stands for now. Time O(new surface events), O(surface) after a replacement.
    #[must_use]
    pub fn messages(&self) -> Messages {
        let State { log, intake, derivation, .. } = &mut *self.state.lock();
        derivation.messages(intake, log)
    }

    /// The log and the messages of one and the same moment.
    pub(crate) fn view(&self) -> (Log, Messages) {
        let State { log, intake, derivation, .. } = &mut *self.state.lock();
        (log.clone(), derivation.messages(intake, log))
    }

    /// The seqs on the surface now, in its order.
    #[must_use]
    pub fn surface(&self) -> Vec<u64> {
        self.state.lock().intake.surface().iter().map(|(_, seq)| seq).collect()
    }

    /// How many events of the log have replaced others on the surface.
    #[must_use]
    pub fn replace_generation(&self) -> u64 {
        self.state.lock().intake.surface().replacements()
    }

    /// Which places of the surface leave no tool call open now.
    ///
    /// # Errors
    /// [`PairingFault::Unasked`].
    pub fn pairing(&self) -> Result<Pairing, PairingFault> {
        Pairing::of_intake(&self.state.lock().intake)
    }

    /// The header of the last request, if there was one.
    #[must_use]
    pub fn request_header(&self) -> Option<RequestHeader> {
        self.state.lock().request.clone()
    }

    /// The payload of the last `request/context`, if there was one.
    #[must_use]
    pub fn request_context(&self) -> Option<String> {
        let state = self.state.lock();
        let event = state.log.event(state.context?)?;
        Some(event.data().to_owned())
    }

    pub(crate) fn entry(&self) -> &Mutex<Weak<Entry>> {
        &self.entry
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", self.id())
            .field("inherited", &self.inherited)
            .field("first_live", &self.first_live)
            .finish_non_exhaustive()
    }
}
