use std::fmt;

use super::input::{Buffers, Occurrence};
use super::set::{Projection, Projections, State, StateOf};
use crate::json::{Node, Tape, write_i64, write_string, write_u64};
use crate::row::Event;
use crate::session::StateMark;

/// The states of a set of projections, all after the same events of one log.
///
/// After a resumption some of them may be ahead of the others, until these have caught up.
pub struct Projected {
    set: Projections,
    states: Vec<Held>,
    /// The least of what they have folded.
    folded: u64,
    buffers: Buffers,
}

struct Held {
    folded: u64,
    state: Box<dyn State>,
}

/// An event that is not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {expected} is the next one to fold, not {got}")]
#[non_exhaustive]
pub struct OutOfOrder {
    /// The seq that is due.
    pub expected: u64,
    /// That of the event.
    pub got: u64,
}

impl Projected {
    /// The states of `set` before the first event.
    #[must_use]
    pub fn new(set: &Projections) -> Self {
        let states = set.units().iter().map(|unit| Held { folded: 0, state: unit.init() }).collect();
        Self { set: set.clone(), states, folded: 0, buffers: Buffers::default() }
    }

    /// The states of `set` as far as `kept` has them: the mark and the JSON text of the state that was kept under a key. One
    /// that is of another version, beyond the `events` of its log, or no state begins anew.
    pub(crate) fn resume<'k>(
        set: &Projections,
        events: u64,
        kept: impl Fn(&str) -> Option<(StateMark, &'k [u8])>,
    ) -> Self {
        let mut tape = Tape::default();
        let states: Vec<Held> = set
            .units()
            .iter()
            .map(|unit| {
                let found = kept(unit.key()).filter(|(mark, _)| mark.is_usable(unit.version(), events));
                let state = found.and_then(|(mark, json)| {
                    let node = tape.parse(json, STATE_DEPTH_MAX).ok()?;
                    Some(Held { folded: mark.folded, state: unit.decode(node)? })
                });
                state.unwrap_or_else(|| Held { folded: 0, state: unit.init() })
            })
            .collect();
        let mut projected = Self { set: set.clone(), states, folded: 0, buffers: Buffers::default() };
        projected.settle();
        projected
    }

    /// The projections.
    #[must_use]
    pub const fn set(&self) -> &Projections {
        &self.set
    }

    /// Events that all of them have folded: the seq of the next one to push.
    #[must_use]
    pub const fn folded(&self) -> u64 {
        self.folded
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`OutOfOrder`], and then nothing is changed.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), OutOfOrder> {
        let got = event.seq().get();
        if got != self.folded && !self.states.is_empty() {
            return Err(OutOfOrder { expected: self.folded, got });
        }
        let occurrence = Occurrence::new(event, &mut self.buffers);
        let next = got.saturating_add(1);
        let mut least = u64::MAX;
        for held in &mut self.states {
            if held.folded == got {
                held.state.apply(&occurrence);
                held.folded = next;
            }
            least = least.min(held.folded);
        }
        self.folded = if self.states.is_empty() { next } else { least };
        Ok(())
    }

    /// The state of `P`, if it is one of the set.
    #[must_use]
    pub fn get<P: Projection>(&self) -> Option<&P::State> {
        let at = self.set.keys().position(|key| key == P::KEY)?;
        let state = self.states.get(at)?.state.as_any().downcast_ref::<StateOf<P>>()?;
        Some(&state.0)
    }

    /// Appends the states as one JSON object: by key, `ver` of the state, `seq` of the last event in it (-1: none), and the
    /// state as `val`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (key, version, held)) in self.parts().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(out, key);
            out.extend_from_slice(b":{\"ver\":");
            write_u64(out, u64::from(version));
            out.extend_from_slice(b",\"seq\":");
            write_i64(out, i64::try_from(held.folded).unwrap_or(i64::MAX).saturating_sub(1));
            out.extend_from_slice(b",\"val\":");
            held.state.encode(out);
            out.push(b'}');
        }
        out.push(b'}');
    }

    /// The states of `set` that [`write_json`](Self::write_json) wrote. `None` unless all are there, are states, of their present
    /// versions and after the same events.
    #[must_use]
    pub fn read_json(set: &Projections, json: &[u8]) -> Option<Self> {
        let mut tape = Tape::default();
        let root = tape.parse(json, STATE_DEPTH_MAX).ok()?;
        let mut folded = None;
        let states = set.units().iter().map(|unit| {
            let row = root.get(unit.key())?;
            let version = row.get("ver").and_then(Node::as_number)?.as_count()?;
            let seq = row.get("seq").and_then(Node::as_number)?.as_safe_integer()?;
            let after = u64::try_from(seq.checked_add(1)?).ok()?;
            let is_like = *folded.get_or_insert(after) == after && version == u64::from(unit.version());
            is_like.then_some(Held { folded: after, state: unit.decode(row.get("val")?)? })
        });
        let states = states.collect::<Option<Vec<Held>>>()?;
        let folded = folded.unwrap_or(0);
        Some(Self { set: set.clone(), states, folded, buffers: Buffers::default() })
    }

    /// Each projection's key and mark, and the JSON text of its state.
    pub(crate) fn each(&self, mut take: impl FnMut(&'static str, StateMark, Vec<u8>)) {
        for (key, state_version, held) in self.parts() {
            let mut json = Vec::new();
            held.state.encode(&mut json);
            take(key, StateMark { state_version, folded: held.folded }, json);
        }
    }

    /// Each projection's mark.
    pub(crate) fn each_mark(&self, mut take: impl FnMut(StateMark)) {
        for (_, state_version, held) in self.parts() {
            take(StateMark { state_version, folded: held.folded });
        }
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, u32, &Held)> {
        self.set.versions().zip(&self.states).map(|((key, version), held)| (key, version, held))
    }

    fn settle(&mut self) {
        self.folded = self.states.iter().map(|held| held.folded).min().unwrap_or(0);
    }
}

/// How deep the JSON text of a kept state may nest.
const STATE_DEPTH_MAX: u32 = 64;

impl Clone for Projected {
    fn clone(&self) -> Self {
        let again = |held: &Held| Held { folded: held.folded, state: held.state.again() };
        let states = self.states.iter().map(again).collect();
        Self { set: self.set.clone(), states, folded: self.folded, buffers: Buffers::default() }
    }
}

impl fmt::Debug for Projected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = Vec::new();
        self.write_json(&mut json);
        f.debug_tuple("Projected").field(&String::from_utf8_lossy(&json)).finish()
    }
}
