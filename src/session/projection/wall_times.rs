use super::input::Occurrence;
use super::set::Projection;
use super::state::{ObjectWriter, add, read_count, read_time};
use crate::json::Node;
use crate::session::Kind;
use crate::units::UnixMs;

/// When the session's events happened, by their producers' clocks, and how long its turns took. Inherited ones count.
#[derive(Debug)]
pub struct WallTimes;

/// State of [`WallTimes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WallClock {
    /// Time of the first event.
    pub first: Option<UnixMs>,
    /// Time of the last event.
    pub last: Option<UnixMs>,
    /// Milliseconds of the turns that are over; one in which the clock stepped back counts nothing.
    closed_ms: u64,
    /// When the open turn was started.
    open_since: Option<UnixMs>,
}

impl WallClock {
    /// Milliseconds during which a turn was open, up to the last event.
    #[must_use]
    pub fn active_ms(&self) -> u64 {
        add(self.closed_ms, self.open_ms())
    }

    fn open_ms(&self) -> u64 {
        let span = |since: UnixMs| Some(self.last?.get().saturating_sub(since.get()));
        self.open_since.and_then(span).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0)
    }

    fn close(&mut self) {
        self.closed_ms = self.active_ms();
        self.open_since = None;
    }
}

impl Projection for WallTimes {
    const KEY: &'static str = "wall-times";
    const STATE_VERSION: u32 = 1;
    type State = WallClock;

    fn init() -> WallClock {
        WallClock::default()
    }

    fn apply(state: &mut WallClock, event: &Occurrence<'_>) {
        let time = event.event().time();
        if event.kind() == Some(Kind::TurnStart) {
            // One that a crash left open ended with its last event.
            state.close();
            state.open_since = Some(time);
        }
        state.first = state.first.or(Some(time));
        state.last = Some(time);
        if event.kind() == Some(Kind::TurnEnd) {
            state.close();
        }
    }

    fn encode(state: &WallClock, out: &mut Vec<u8>) {
        let WallClock { first, last, closed_ms, open_since } = *state;
        let mut object = ObjectWriter::new(out);
        object.time("first", first);
        object.time("last", last);
        object.count("closedMs", closed_ms);
        object.time("openSince", open_since);
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<WallClock> {
        Some(WallClock {
            first: read_time(json, "first")?,
            last: read_time(json, "last")?,
            closed_ms: read_count(json, "closedMs")?,
            open_since: read_time(json, "openSince")?,
        })
    }
}
