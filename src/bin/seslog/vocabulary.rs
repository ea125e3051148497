//! Which event types a reader of a generation has to understand, and does.

use seslog::format::inventory::Inventory;
use seslog::row::PhysicalRow;
use seslog::store::Place;
use seslog::store::layout::printable;
use seslog::units::Generation;

/// An event that must be understood and is not.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    /// Its seq.
    pub(crate) seq: u64,
    /// Its type, printable.
    pub(crate) event_type: String,
    /// Where it stands.
    pub(crate) place: Place,
}

/// The event of `row` that this build does not understand although it must, if there is one.
pub(crate) fn unknown(generation: Generation, row: &PhysicalRow<'_>, place: Place) -> Option<Unknown> {
    let event = Inventory::of(generation).unknown_event(row)?;
    Some(Unknown { seq: event.seq().get(), event_type: printable(&event.event_type().to_text()), place })
}
