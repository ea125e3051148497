//! The frozen event inventory: which event types a generation has, what their payloads hold, which members name events.
//!
//! The inventory is data and a part of the specification: `v1.schema` (v0 and v1 share it) and `v2.schema` in
//! `format-spec/inventory/`. They are parsed and compiled once, at first use, into a table of checks.
//!
//! # How a generation stays frozen
//!
//! Once logs of a generation exist, its `.schema` file never changes: a log that was valid must stay valid, and a
//! migration must give the same bytes on every machine. A test pins the digest of each file, and another compares every
//! event, member, bound, rule and reference with the specification's own table. A later generation gets a new file, which
//! takes over what it keeps with `as v1`.
//!
//! Spec: `format-spec/06-migration.md`, "Frozen generations", and `format-spec/07-inventory.md`.

mod mismatch;
mod notation;
mod program;
#[cfg(test)]
mod reference;
mod rules;

use std::sync::LazyLock;

use self::notation::{Form, Schema};
use self::program::{CheckId, CompileError, Compiler, Program};
use crate::json::{Node, Str};
use crate::row::{self, PhysicalRow};
use crate::units::Generation;

pub use self::mismatch::Mismatch;
pub use self::program::Place;
pub use crate::session::Kind;

const V1_SCHEMA: &str = include_str!("../../../format-spec/inventory/v1.schema");
const V2_SCHEMA: &str = include_str!("../../../format-spec/inventory/v2.schema");

/// The event types of one generation.
#[derive(Debug)]
pub struct Inventory {
    program: Program,
    /// The shape of a chunk, in v1.
    chunk: Option<CheckId>,
    /// By [`Kind::index`].
    events: Vec<Option<Event>>,
}

#[derive(Debug)]
struct Event {
    payload: CheckId,
    references: Box<[Reference]>,
}

/// A member of an event that holds seqs of the same log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reference {
    /// `sourceEventSeqs` of the envelope.
    Sources,
    /// `start` and `end` of the envelope's `surfaceOp`.
    SurfaceOp,
    /// A member of the payload.
    Payload {
        /// The member's name.
        member: Box<str>,
        /// How it holds them.
        form: ReferenceForm,
    },
}

/// How a payload member holds seqs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReferenceForm {
    /// One number.
    One,
    /// An object of exactly `start` and `end`.
    Range,
    /// A list of numbers.
    List,
}

impl Inventory {
    /// The inventory of a generation; that of the newest that this build knows for later ones.
    #[must_use]
    pub fn of(generation: Generation) -> &'static Self {
        if generation.has_chunk_events() { Self::v1() } else { Self::v2() }
    }

    /// The inventory that v0 and v1 share; where they differ, [`Place::generation`] decides.
    #[must_use]
    pub fn v1() -> &'static Self {
        &V1
    }

    /// The inventory of v2.
    #[must_use]
    pub fn v2() -> &'static Self {
        &V2
    }

    /// Whether the generation has this event type.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.event(kind).is_some()
    }

    /// Whether the generation has an event type of this name.
    #[must_use]
    pub fn knows(&self, name: Str<'_>) -> bool {
        let kind = match name.as_plain() {
            Some(name) => Kind::from_name(name),
            None => Kind::from_name(&name.to_string_lossy()),
        };
        kind.is_some_and(|kind| self.has(kind))
    }

    /// The event of `row` that a reader has to understand and this build does not, if there is one: of a type that the
    /// generation lacks, and not marked as ignorable. Packed rows are of known types by definition.
    #[must_use]
    pub fn unknown_event<'r>(&self, row: &PhysicalRow<'r>) -> Option<row::Event<'r>> {
        let PhysicalRow::Event(event) = row else { return None };
        (!event.is_ignorable() && !self.knows(event.event_type())).then_some(*event)
    }

    /// Checks the payload of one event: exact members, forms, bounds and rules. Time linear in `data`.
    ///
    /// # Errors
    /// The first mismatch found, in no promised order. A type that the generation lacks always mismatches.
    pub fn check(&self, kind: Kind, data: Node<'_>, place: Place) -> Result<(), Mismatch> {
        match self.event(kind) {
            Some(event) => self.program.check(event.payload, data, place),
            None => Err(mismatch::Problem::Unfinished.into()),
        }
    }

    /// Whether `chunk` is what a chunk event of the generation holds as its chunk.
    pub(super) fn is_chunk(&self, chunk: Node<'_>, place: Place) -> bool {
        self.chunk.is_some_and(|shape| self.program.check(shape, chunk, place).is_ok())
    }

    /// The members of this type that hold seqs, in the order in which a migration rewrites them.
    #[must_use]
    pub fn references(&self, kind: Kind) -> &[Reference] {
        self.event(kind).map_or(&[], |event| &event.references)
    }

    fn event(&self, kind: Kind) -> Option<&Event> {
        self.events.get(kind.index())?.as_ref()
    }
}

static V1: LazyLock<Inventory> = LazyLock::new(|| {
    let v1 = notation::parse(V1_SCHEMA).expect("v1.schema is frozen and keeps the notation: tests parse it");
    compile(&v1, None).expect("v1.schema is frozen and declares what it names: tests compile it")
});

static V2: LazyLock<Inventory> = LazyLock::new(|| {
    let v1 = notation::parse(V1_SCHEMA).expect("v1.schema is frozen and keeps the notation: tests parse it");
    let v2 = notation::parse(V2_SCHEMA).expect("v2.schema is frozen and keeps the notation: tests parse it");
    compile(&v2, Some(&v1)).expect("v2.schema is frozen and declares what it names: tests compile it")
});

/// Compiles `schema`; `base` is where `as v1` looks.
fn compile(schema: &Schema, base: Option<&Schema>) -> Result<Inventory, CompileError> {
    let schemas: Vec<&Schema> = base.into_iter().chain([schema]).collect();
    let mut compiler = Compiler::new(&schemas);
    let mut events: Vec<Option<Event>> = Vec::new();
    events.resize_with(Kind::ALL.len(), || None);
    for declared in &schema.events {
        let undeclared = || CompileError::Undeclared(declared.name.clone());
        let source = match declared.form {
            Some(_) => declared,
            None => {
                let mut inherited = base.into_iter().flat_map(|base| &base.events);
                inherited.find(|event| event.name == declared.name).ok_or_else(undeclared)?
            }
        };
        let kind = Kind::from_name(&declared.name).ok_or_else(undeclared)?;
        if source.surface != kind.is_surface() {
            return Err(undeclared());
        }
        let form = source.form.as_ref().ok_or_else(undeclared)?;
        let mut references = Vec::new();
        for path in &source.refs {
            references.push(reference(path, form, &schemas).ok_or_else(undeclared)?);
        }
        let payload = compiler.compile(form)?;
        if let Some(slot) = events.get_mut(kind.index()) {
            *slot = Some(Event { payload, references: references.into() });
        }
    }
    let program = compiler.finish();
    Ok(Inventory { chunk: program.shape("StreamChunk"), program, events })
}

/// The reference that `path` of a `refs` line names in an event of payload `form`.
fn reference(path: &str, form: &Form, schemas: &[&Schema]) -> Option<Reference> {
    let member = match path {
        "sourceEventSeqs" => return Some(Reference::Sources),
        "surfaceOp" => return Some(Reference::SurfaceOp),
        _ => path.strip_prefix("data.")?,
    };
    let form = match member_form(member, form, schemas)? {
        Form::Seq => ReferenceForm::One,
        Form::Record(_) => ReferenceForm::Range,
        Form::List { .. } => ReferenceForm::List,
        _ => return None,
    };
    Some(Reference::Payload { member: member.into(), form })
}

/// The declared form of member `name` of a record, looked up through rules, names and spreads.
fn member_form<'s>(name: &str, form: &'s Form, schemas: &[&'s Schema]) -> Option<&'s Form> {
    let shape = |wanted: &str| {
        let mut shapes = schemas.iter().flat_map(|schema| &schema.shapes);
        shapes.find(|shape| shape.name == wanted).map(|shape| &shape.form)
    };
    let mut pending = vec![form];
    while let Some(form) = pending.pop() {
        match form {
            Form::Ruled { form, .. } => pending.push(form),
            Form::Named(named) => pending.extend(shape(named)),
            Form::Record(record) => {
                if let Some(member) = record.members.iter().find(|member| member.name == name) {
                    return Some(&member.form);
                }
                pending.extend(record.spreads.iter().filter_map(|spread| shape(spread)));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;
    use crate::limits::Limits;
    use crate::row::Check;
    use crate::session::Profile;
    use crate::units::Generation;

    fn check(inventory: &Inventory, generation: Generation, kind: Kind, data: &str) -> Result<(), Mismatch> {
        let mut tape = Tape::default();
        let node = tape.parse(data.as_bytes(), 1000).expect("test data is JSON");
        inventory.check(kind, node, Place { generation, seq: 7 })
    }

    #[test]
    fn profiles_of_session_logic_know_the_same_types() {
        for (inventory, generation) in [
            (Inventory::v1(), Generation::V0),
            (Inventory::v1(), Generation::V1),
            (Inventory::v2(), Generation::V2),
        ] {
            let profile = Profile::of(generation).expect("a supported generation");
            for kind in Kind::ALL {
                assert_eq!(profile.knows(*kind), inventory.has(*kind), "{generation} {}", kind.name());
            }
        }
    }

    #[test]
    fn the_frozen_files_are_the_released_ones() {
        // A released generation never changes: see the head of this module before touching these numbers.
        assert_eq!(
            sha256_hex(V1_SCHEMA.as_bytes()),
            "bead45e4dc8168d0ac874432429ccce0b249ee4386a2f60345c1172de00dd2a3"
        );
        assert_eq!(
            sha256_hex(V2_SCHEMA.as_bytes()),
            "e08ef01f2500b28e96f3e0e7a70df77260be0d54c1e55438a627b7a85afdebdb"
        );
    }

    #[test]
    fn every_kind_belongs_to_a_generation() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(*kind));
            assert_eq!(Inventory::v1().has(*kind), *kind != Kind::AssistantAttempt, "{}", kind.name());
            assert_eq!(Inventory::v2().has(*kind), *kind != Kind::AssistantChunk, "{}", kind.name());
        }
        assert!(Kind::ALL.is_sorted_by_key(|kind| kind.name()));
    }

    #[test]
    fn an_unknown_event_is_one_that_may_not_be_ignored() {
        let unknown = |generation, row: &str| {
            let row = PhysicalRow::read(row.as_bytes(), generation, Check::Full, &Limits::DEFAULT);
            let row = row.expect("a row");
            let event = Inventory::of(generation).unknown_event(&row);
            let profile = Profile::of(generation).expect("a supported generation");
            assert_eq!(profile.unknown_event(&row), event, "{generation}");
            event.map(|event| event.seq().get())
        };
        let row =
            |name: &str, more: &str| format!(r#"{{"type":"{name}","seq":4,"time":5,"data":{{}}{more}}}"#);
        assert_eq!(unknown(Generation::V2, &row("turn/start", "")), None);
        assert_eq!(unknown(Generation::V2, &row("turn\\/start", "")), None, "however it is spelled");
        assert_eq!(unknown(Generation::V2, &row("acme/x", "")), Some(4));
        assert_eq!(unknown(Generation::V2, &row("acme/x", r#","ignorable":true"#)), None);
        assert_eq!(unknown(Generation::V2, &row("assistant/chunk", "")), Some(4));
        assert_eq!(unknown(Generation::V1, &row("assistant/attempt", "")), Some(4));
    }

    #[test]
    fn members_are_exact() {
        let v1 = |data| check(Inventory::v1(), Generation::V1, Kind::StepStart, data);
        assert_eq!(v1(r#"{"step":1,"turn":2}"#), Ok(()));
        let text = |data| v1(data).expect_err("it does not fit").to_string();
        assert_eq!(text(r#"{"step":1}"#), "turn is missing");
        assert_eq!(text(r#"{"turn":1,"step":-0}"#), "step has a value that its schema does not admit");
        assert_eq!(text(r#"{"turn":1,"step":1,"no":1}"#), "data has the unexpected member \"no\"");
        assert_eq!(text("[]"), "data has a value that its schema does not admit");
    }

    #[test]
    fn generations_differ_where_the_rules_say_so() {
        let delivered = r#"{"sessionId":"s","throughSeq":3,"sessionFormatVersion":1}"#;
        let check_in = |generation, data| check(Inventory::v1(), generation, Kind::DeliveryAccepted, data);
        assert!(check_in(Generation::V0, delivered).is_err());
        assert_eq!(check_in(Generation::V1, delivered), Ok(()));
        let late = r#"{"sessionId":"s","throughSeq":7,"sessionFormatVersion":1}"#;
        assert!(check_in(Generation::V1, late).is_err(), "throughSeq is not earlier than seq 7");
        let foreign = r#"{"sessionId":5,"throughSeq":"x","sessionFormatVersion":4}"#;
        assert_eq!(check_in(Generation::V1, foreign), Ok(()));
    }

    #[test]
    fn nesting_costs_no_stack() {
        let depth = 200_000;
        let open = r#"{"type":"tool-result","toolCallId":"c","content":["#.repeat(depth);
        let content = format!("[{open}{}]", "]}".repeat(depth));
        let data = format!(r#"{{"id":"u","role":"user","content":{content},"source":{{"kind":"user"}}}}"#);
        let mut tape = Tape::default();
        let node = tape.parse(data.as_bytes(), 10_000_000).expect("deep, but JSON");
        let place = Place { generation: Generation::V1, seq: 0 };
        assert_eq!(Inventory::v1().check(Kind::UserMessage, node, place), Ok(()));
    }

    #[test]
    fn a_round_zero_goal_message_states_its_change() {
        let message = |text: &str, generation| {
            let change = concat!(
                r#"{"kind":"goal/change","version":1,"operation":"clear","#,
                r#""cleared":{"revision":2,"id":"g"},"clearedAt":5}"#
            );
            let data = format!(
                r#"{{"id":"u","role":"user","content":[{{"type":"text","text":{text}}}],"source":{}}}"#,
                format_args!(r#"{{"kind":"goal","goalId":"g","revision":2,"round":0,"change":{change}}}"#)
            );
            check(Inventory::v1(), generation, Kind::UserMessage, &data)
        };
        let stated =
            r#""<goal_state>{\"cleared\":{\"revision\":2,\"id\":\"g\"},\"clearedAt\":5}</goal_state>""#;
        assert_eq!(message(stated, Generation::V1), Ok(()));
        assert_eq!(message(stated, Generation::V0), Ok(()));
        assert!(message(stated, Generation::V2).is_err());
        assert!(message(&stated.replace("5}", "6}"), Generation::V1).is_err());
    }

    /// SHA-256 of FIPS 180-4, for the digests that `sha256sum` prints.
    fn sha256_hex(message: &[u8]) -> String {
        // The first 32 bits of the fractional parts of the roots of the first primes.
        let primes: Vec<u64> = (2..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
        let fraction = |prime: u64, root: u32| {
            let scale = 1_u128 << (32 * root);
            let (mut low, mut high) = (0_u128, 1_u128 << 40);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if middle.pow(root) <= u128::from(prime) * scale { low = middle } else { high = middle }
            }
            u32::try_from(low & 0xffff_ffff).expect("32 bits")
        };
        let k: Vec<u32> = primes.iter().take(64).map(|p| fraction(*p, 3)).collect();
        let mut state: Vec<u32> = primes.iter().take(8).map(|p| fraction(*p, 2)).collect();
        let mut padded = message.to_vec();
        padded.push(0x80);
        padded.resize(padded.len().next_multiple_of(64), 0);
        if padded.len() - message.len() < 9 {
            padded.resize(padded.len() + 64, 0);
        }
        let bits = u64::try_from(message.len()).expect("short") * 8;
        let end = padded.len();
        for (index, byte) in padded[end - 8..].iter_mut().enumerate() {
            *byte = u8::try_from(bits >> (56 - 8 * index) & 0xff).expect("one byte");
        }
        for block in padded.chunks(64) {
            let mut w: Vec<u32> =
                block.chunks(4).map(|b| b.iter().fold(0, |n, byte| n << 8 | u32::from(*byte))).collect();
            for t in 16..64 {
                let s0 = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ (w[t - 15] >> 3);
                let s1 = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ (w[t - 2] >> 10);
                w.push(w[t - 16].wrapping_add(s0).wrapping_add(w[t - 7]).wrapping_add(s1));
            }
            let mut v = state.clone();
            for t in 0..64 {
                let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
                let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
                let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[t]).wrapping_add(w[t]);
                let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
                let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
                v.rotate_right(1);
                v[4] = v[4].wrapping_add(t1);
                v[0] = t1.wrapping_add(s0).wrapping_add(majority);
            }
            for (sum, value) in state.iter_mut().zip(v) {
                *sum = sum.wrapping_add(value);
            }
        }
        state.iter().map(|word| format!("{word:08x}")).collect()
    }

    #[test]
    fn the_digest_is_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), abc);
    }
}
