//! Rows of v2, taken strictly: the frozen envelope, and the references that the checks of relationships need.
//!
//! Spec: `format-spec/06-migration.md`, "Envelope and cut".

use super::inventory::{Inventory, Kind, Reference, ReferenceForm};
use super::physical::Envelope;
use super::relations::{Inherited, PayloadRefs, View};
use crate::json::{Node, Number, Str};
use crate::row::{Header, Seeding};
use crate::session::{SeqList, SourceRules, SurfaceOp};

/// Reads v2 rows into the form that the checks take; keeps its memory between them.
#[derive(Debug)]
pub(super) struct CurrentRows {
    inherited: Inherited,
    sources: SeqList,
    payload: PayloadRefs,
}

/// A sound v2 row.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentRow<'a> {
    /// `None` for a type outside the inventory, which no relationship speaks of.
    pub(super) view: Option<View<'a>>,
    pub(super) name: Str<'a>,
    pub(super) is_ignorable: bool,
}

impl CurrentRows {
    pub(super) fn new(header: &Header) -> Self {
        // Until the last marker is seen nobody knows where the parent's events end.
        let forked = header.parent_session().is_some() && header.seeding() != Seeding::Unseeded;
        let inherited = if forked { Inherited::UntilMarked } else { Inherited::No };
        Self { inherited, sources: SeqList::default(), payload: PayloadRefs::default() }
    }

    /// Reads `row`, which has to be event `seq`.
    ///
    /// # Errors
    /// The rule that the envelope breaks.
    pub(super) fn read<'a>(&'a mut self, row: Node<'a>, seq: u64) -> Result<CurrentRow<'a>, &'static str> {
        let envelope = Envelope::of(row).ok_or("the row is no object")?;
        let name = envelope.type_name().ok_or("type is no string")?;
        if envelope.seq.and_then(count) != Some(seq) {
            return Err("seq is not the position of the event");
        }
        envelope.unix_ms().ok_or("time is no safe integer")?;
        let data = envelope.data.ok_or("data is missing")?;
        let is_ignorable = envelope.ignorable.is_some();
        if envelope.has_more || envelope.ignorable.is_some_and(|flag| flag.as_bool() != Some(true)) {
            return Err("a member that no event has, or ignorable is not true");
        }
        if let Some(stored) = envelope.sources {
            let read = self.sources.read_sources(stored, seq, SourceRules::Earlier);
            read.ok_or(
                "sourceEventSeqs has no stored form, or names an event twice or one that is not earlier",
            )?;
        }
        let kind = Kind::from_name(&name.to_string_lossy()).filter(|kind| Inventory::v2().has(*kind));
        let Some(kind) = kind else { return Ok(CurrentRow { view: None, name, is_ignorable }) };
        let cites = envelope.sources.is_some() || envelope.surface_op.is_some();
        if cites && !kind.is_surface() {
            return Err("a member that only surface events have");
        }
        if data.members().is_none() {
            return Err("data is no object");
        }
        self.payload.read(kind, data);
        let view = View {
            kind,
            seq,
            data,
            surface_op: envelope.surface_op.map_or(SurfaceOp::Absent, |op| SurfaceOp::read(op, REPLACE_KEYS)),
            sources: envelope.sources.is_some().then_some(&self.sources),
            payload: &self.payload,
            inherited: self.inherited,
        };
        Ok(CurrentRow { view: Some(view), name, is_ignorable })
    }
}

/// The ends of a replaced range in v2.
const REPLACE_KEYS: [&str; 2] = ["start", "end"];

impl PayloadRefs {
    /// Reads the references of a v2 payload; one that does not have its form is left out.
    fn read(&mut self, kind: Kind, data: Node<'_>) {
        self.clear();
        for reference in Inventory::v2().references(kind) {
            let Reference::Payload { member, form } = reference else { continue };
            let Some(value) = data.get(member) else { continue };
            match form {
                ReferenceForm::One => self.one = Some(count(value).unwrap_or(u64::MAX)),
                ReferenceForm::Range => {
                    let end = |name| value.get(name).and_then(count);
                    self.range = end("start").zip(end("end"));
                }
                ReferenceForm::List => {
                    let mut list = SeqList::default();
                    self.list = list.read_counts(value).map(|()| list);
                }
            }
        }
    }
}

fn count(value: Node<'_>) -> Option<u64> {
    value.as_number().and_then(Number::as_count)
}
