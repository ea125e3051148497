use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::input::Occurrence;
use crate::json::Node;

/// A fold over the events of a session, one after the other, whose state can be kept and gone on from.
///
/// Pure: the same events give the same state, whenever and wherever they are folded. An event that is none of its concern
/// leaves the state as it is.
///
/// ```
/// use seslog::json::{Node, write_u64};
/// use seslog::session::{Occurrence, Projection};
///
/// /// How often the session's plan was looked at.
/// struct Plans;
///
/// impl Projection for Plans {
///     const KEY: &'static str = "example/plans";
///     const STATE_VERSION: u32 = 1;
///     type State = u64;
///
///     fn init() -> u64 {
///         0
///     }
///
///     fn apply(count: &mut u64, event: &Occurrence<'_>) {
///         *count += u64::from(event.event().is("plan/mode"));
///     }
///
///     fn encode(count: &u64, out: &mut Vec<u8>) {
///         write_u64(out, *count);
///     }
///
///     fn decode(json: Node<'_>) -> Option<u64> {
///         json.as_number()?.as_count()
///     }
/// }
/// ```
pub trait Projection: 'static {
    /// Its name, by which its state is kept: 1 to 255 bytes, and no other projection's.
    const KEY: &'static str;
    /// To be raised whenever other states would be folded of the same events, or they are written in another way. States of any
    /// other version are folded anew; none is ever converted.
    const STATE_VERSION: u32;
    /// What was gathered so far.
    type State: Clone + Send + Sync + 'static;

    /// The state before the first event.
    fn init() -> Self::State;

    /// Takes the next event into the state.
    fn apply(state: &mut Self::State, event: &Occurrence<'_>);

    /// Appends the state as JSON text: one value, the same text for the same state.
    fn encode(state: &Self::State, out: &mut Vec<u8>);

    /// The state that JSON text stands for; `None` for one that `encode` does not write. The text comes from a file that anybody
    /// may have changed.
    fn decode(json: Node<'_>) -> Option<Self::State>;
}

/// Projections that are folded side by side, each event being read once for all of them. Cheap to clone.
#[derive(Clone)]
pub struct Projections {
    units: Arc<[Arc<dyn Unit>]>,
}

impl Projections {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self { units: Arc::new([]) }
    }

    /// These and `P`. One of the same key is replaced.
    ///
    /// # Panics
    /// If the key is empty or longer than 255 bytes.
    #[must_use]
    pub fn with<P: Projection>(self) -> Self {
        assert!((1..=KEY_BYTES_MAX).contains(&P::KEY.len()), "a key has 1 to 255 bytes");
        let unit: Arc<dyn Unit> = Arc::new(UnitOf::<P>(std::marker::PhantomData));
        let others = self.units.iter().filter(|unit| unit.key() != P::KEY).cloned();
        Self { units: others.chain([unit]).collect() }
    }

    /// Their keys, in the order in which they were added.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'static str> + '_ {
        self.units.iter().map(|unit| unit.key())
    }

    pub(super) fn units(&self) -> &[Arc<dyn Unit>] {
        &self.units
    }

    /// The keys with the versions of their states.
    pub(crate) fn versions(&self) -> impl ExactSizeIterator<Item = (&'static str, u32)> + '_ {
        self.units.iter().map(|unit| (unit.key(), unit.version()))
    }
}

/// Longest key.
pub(crate) const KEY_BYTES_MAX: usize = 255;

impl Default for Projections {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Projections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.versions()).finish()
    }
}

/// A projection whose type is forgotten.
pub(super) trait Unit: Send + Sync {
    fn key(&self) -> &'static str;
    fn version(&self) -> u32;
    fn init(&self) -> Box<dyn State>;
    fn decode(&self, json: Node<'_>) -> Option<Box<dyn State>>;
}

/// The state of one.
pub(super) trait State: Send + Sync {
    fn apply(&mut self, event: &Occurrence<'_>);
    fn encode(&self, out: &mut Vec<u8>);
    fn again(&self) -> Box<dyn State>;
    fn as_any(&self) -> &dyn Any;
}

struct UnitOf<P>(std::marker::PhantomData<fn() -> P>);

/// The state of `P`.
pub(super) struct StateOf<P: Projection>(pub(super) P::State);

impl<P: Projection> Unit for UnitOf<P> {
    fn key(&self) -> &'static str {
        P::KEY
    }

    fn version(&self) -> u32 {
        P::STATE_VERSION
    }

    fn init(&self) -> Box<dyn State> {
        Box::new(StateOf::<P>(P::init()))
    }

    fn decode(&self, json: Node<'_>) -> Option<Box<dyn State>> {
        let state: Box<dyn State> = Box::new(StateOf::<P>(P::decode(json)?));
        // Whatever it does not look at, nobody else may have put there.
        let mut again = Vec::new();
        state.encode(&mut again);
        (again == json.raw().as_bytes()).then_some(state)
    }
}

impl<P: Projection> State for StateOf<P> {
    fn apply(&mut self, event: &Occurrence<'_>) {
        P::apply(&mut self.0, event);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        P::encode(&self.0, out);
    }

    fn again(&self) -> Box<dyn State> {
        Box::new(Self(self.0.clone()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
