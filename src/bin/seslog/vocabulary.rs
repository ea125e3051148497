//! Which event types a reader of a generation has to understand, and does.

use seslog::format::inventory::{Inventory, Kind};
use seslog::json::Str;
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
    // Packed rows are of known types by definition.
    let PhysicalRow::Event(event) = row else { return None };
    if event.is_ignorable() {
        return None;
    }
    let name = event.event_type();
    if is_known(generation, name) {
        return None;
    }
    Some(Unknown { seq: event.seq().get(), event_type: printable(&name.to_text()), place })
}

/// Whether `name` is an event type of `generation`.
pub(crate) fn is_known(generation: Generation, name: Str<'_>) -> bool {
    let inventory = if generation.has_chunk_events() { Inventory::v1() } else { Inventory::v2() };
    let kind = match name.as_plain() {
        Some(name) => Kind::from_name(name),
        None => Kind::from_name(&name.to_string_lossy()),
    };
    kind.is_some_and(|kind| inventory.has(kind))
}
