//! The messages that the surface stands for: what a model is shown.

use std::sync::Arc;

use super::intake::{Intake, NodeMessage};
use super::log::Log;
use super::surface::NodeIndex;

/// The messages of a surface, in its order, as they were at one moment. Later appends do not change it; a clone costs a
/// few words.
///
/// Each is the JSON text of a message as it stands in its row. A `user/message` is its own payload, every other surface
/// event holds one, and an `assistant/message` without content gives none.
#[derive(Clone, Debug)]
pub struct Messages {
    log: Log,
    places: Arc<Vec<Place>>,
}

/// Where a message stands: a range of the row of event `seq`.
#[derive(Clone, Copy, Debug)]
struct Place {
    seq: u64,
    start: u32,
    end: u32,
}

impl Messages {
    /// Number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The JSON text of the message at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        self.text(self.places.get(index)?)
    }

    /// The seq of the event that the message at `index` comes from.
    #[must_use]
    pub fn seq(&self, index: usize) -> Option<u64> {
        self.places.get(index).map(|place| place.seq)
    }

    /// The JSON texts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        self.places.iter().map(|place| self.text(place).expect("places are ranges of rows of this log"))
    }

    /// The same messages out of `log`, which has the same rows wherever a message stands.
    pub(crate) fn out_of(self, log: &Log) -> Self {
        Self { log: log.clone(), ..self }
    }

    /// Bytes of memory that they take besides the log.
    pub(crate) fn memory_bytes(&self) -> usize {
        // The list is in an `Arc`, whose counts are two words.
        let list = size_of::<(Vec<Place>, [usize; 2])>();
        self.places.capacity().saturating_mul(size_of::<Place>()).saturating_add(list)
    }

    fn text(&self, place: &Place) -> Option<&str> {
        let range = usize::try_from(place.start).ok()?..usize::try_from(place.end).ok()?;
        self.log.row(place.seq)?.get(range)
    }
}

/// The messages so far, kept between questions: only what was added to the end since is looked at, until a replacement
/// makes it begin anew.
#[derive(Debug, Default)]
pub(crate) struct Derivation {
    places: Arc<Vec<Place>>,
    /// The last surface node that was looked at.
    last: Option<NodeIndex>,
    replacements: u64,
}

impl Derivation {
    /// The messages of `intake`'s surface, which is that of `log`. Time O(new surface nodes), or O(surface) after a
    /// replacement; if an earlier answer is still held, new messages copy its list once.
    pub(crate) fn messages(&mut self, intake: &Intake, log: &Log) -> Messages {
        let surface = intake.surface();
        if self.replacements != surface.replacements() {
            *self = Self { replacements: surface.replacements(), ..Self::default() };
        }
        let mut fresh = surface.iter_after(self.last).peekable();
        if fresh.peek().is_some() {
            let places = Arc::make_mut(&mut self.places);
            for (node, seq) in fresh {
                let NodeMessage { start, end, .. } = intake.message(node);
                if start < end {
                    places.push(Place { seq, start, end });
                }
                self.last = Some(node);
            }
        }
        Messages { log: log.clone(), places: Arc::clone(&self.places) }
    }
}
