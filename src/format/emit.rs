//! Target events: their seqs, their references, their text.
//!
//! Spec: `format-spec/06-migration.md`, "Emission", "References" and "Written form".

use super::attempt::{Attempt, StreamWriter};
use super::inventory::{Inventory, Kind, Reference, ReferenceForm};
use super::object::Object;
use super::physical::{Envelope, Member};
use super::refusal::{Code, Detail, Refusal, Stage};
use super::relations::{Inherited, PayloadRefs, View};
use super::seq_map::SeqMap;
use super::target::{RowSink, Target, may_cite};
use super::v1_to_v2::SourceEvent;
use crate::json::{Node, Number, Tape, write_i64, write_u64};
use crate::row::{Header, Seeding};
use crate::session::{SeqList, SurfaceOp};

/// What an assistant message settles.
#[derive(Debug)]
pub(super) enum Settled<'a> {
    /// The event is no message.
    No,
    /// A message without chunks.
    Empty,
    /// The stream of its attempt.
    Yes(&'a mut StreamWriter),
}

/// Numbers and writes target events.
#[derive(Debug)]
pub(super) struct Emitter {
    map: SeqMap,
    next: u64,
    /// The cut of a seeded source.
    cut: Option<u64>,
    target_cut: Option<u64>,
    has_parent: bool,
    target: Target,
    /// The row that is being written.
    row: Vec<u8>,
    tape: Tape,
    scratch: Vec<u8>,
    sources: SeqList,
    payload: PayloadRefs,
}

impl Emitter {
    pub(super) fn new(header: &Header, target: Target) -> Self {
        let cut = match header.seeding() {
            Seeding::Counted(cut) => Some(cut),
            _ => None,
        };
        Self {
            map: SeqMap::default(),
            next: 0,
            cut,
            target_cut: None,
            has_parent: header.parent_session().is_some(),
            target,
            row: Vec::new(),
            tape: Tape::default(),
            scratch: Vec::new(),
            sources: SeqList::default(),
            payload: PayloadRefs::default(),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Target events so far.
    pub(super) fn events(&self) -> u64 {
        self.next
    }

    /// Inherited events of the target; `None` while unknown.
    pub(super) fn target_cut(&self) -> Option<u64> {
        if self.cut.is_some() { self.target_cut } else { Some(0) }
    }

    /// Bytes of memory that grow with the log.
    pub(super) fn memory(&self) -> usize {
        self.map.memory().saturating_add(self.row.capacity())
    }

    /// Emits a source event, an old goal message as the two events that it stands for.
    pub(super) fn source(
        &mut self,
        event: &SourceEvent<'_>,
        kind: Kind,
        data: Node<'_>,
        settled: Settled<'_>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), Refusal> {
        let time = event.envelope.unix_ms().map(|time| time.get());
        let change = legacy_goal_change(kind, data);
        if let Some(change) = change {
            self.generated(Kind::GoalChange, event.seq, time, sink, |out| change.write_canonical(out));
        }
        let is_cut = kind == Kind::SessionEndSeed && self.cut == Some(event.seq);
        self.settle_cut(event.seq, is_cut, time, sink);
        let surface_op = self.map_references(event, kind, data)?;
        let seq = self.next;
        self.map.push(event.seq, seq);
        self.next = self.next.saturating_add(1);

        if let Some(detail) = envelope_fault(event.envelope, kind, time.is_some()) {
            self.target.bad_envelope(seq, detail);
        }
        if !self.target.is_sound() {
            return Ok(());
        }
        let cites = event.envelope.sources.is_some() && kind != Kind::AssistantMessage;
        let inherited = self.inherited(event.seq);
        let marker = if is_cut { Some(self.tape.parse(CUT_MARKER, 8)) } else { None };
        let view = View {
            kind,
            seq,
            data: marker.and_then(Result::ok).unwrap_or(data),
            surface_op,
            sources: cites.then_some(&self.sources),
            payload: &self.payload,
            inherited,
        };
        self.target.relate(&view);
        let patch = match settled {
            _ if is_cut => Patch::CutMarker,
            _ if change.is_some() => Patch::PluginSource,
            Settled::No => Patch::References(Inventory::v1().references(kind)),
            Settled::Empty | Settled::Yes(_) => Patch::Stream,
        };
        self.row.clear();
        let mut split = None;
        self.write_row(event, kind, data, (seq, time.unwrap_or(0)), surface_op, cites, &patch, &mut split);
        let (at, middle) = match (split, settled) {
            (Some(Split::Stream(at)), Settled::Yes(stream)) => (at, stream.records()),
            (Some(Split::Stream(at)), _) => (at, &[][..]),
            (Some(Split::Data(at)), _) => (at, data.raw().as_bytes()),
            (None, _) => (self.row.len(), &[][..]),
        };
        let (head, tail) = self.row.split_at_checked(at).unwrap_or((&self.row, &[]));
        self.target.deliver(seq, time.unwrap_or(0), [head, middle, tail], sink);
        Ok(())
    }

    /// Emits the attempt that no message claimed.
    pub(super) fn attempt(&mut self, attempt: &mut Attempt, sink: &mut RowSink<'_>) {
        let (turn, step, time) = (attempt.turn, attempt.step, attempt.last_time);
        self.settle_cut(attempt.last_seq, false, Some(time), sink);
        let seq = self.next;
        self.next = self.next.saturating_add(1);
        if !self.target.is_sound() {
            return;
        }
        self.scratch.clear();
        let mut place = Object::new(&mut self.scratch);
        place.count("turn", turn);
        place.count("step", step);
        place.end();
        self.relate_generated(Kind::AssistantAttempt, seq);
        self.start_generated(Kind::AssistantAttempt, seq, time);
        self.scratch.pop();
        self.row.extend_from_slice(&self.scratch);
        self.row.extend_from_slice(br#","stream":["#);
        let parts = [self.row.as_slice(), attempt.stream.records(), b"]}}"];
        self.target.deliver(seq, time, parts, sink);
    }

    /// Emits the end of turn `open` that a restart left out, before the event that `envelope` is of.
    pub(super) fn interrupted_turn(
        &mut self,
        open: u64,
        origin: u64,
        envelope: &Envelope<'_>,
        sink: &mut RowSink<'_>,
    ) {
        let time = envelope.unix_ms().map(|time| time.get());
        self.generated(Kind::TurnEnd, origin, time, sink, |out| {
            let mut data = Object::new(out);
            data.count("turn", open);
            let mut reason = data.object("reason");
            reason.plain("kind", "interrupted");
            reason.end();
            data.end();
        });
    }

    /// The end of the log: a cut that nothing crossed lies there.
    pub(super) fn finish(&mut self, last_time: i64, sink: &mut RowSink<'_>) {
        if self.cut.is_some() && self.target_cut.is_none() {
            self.target_cut = Some(self.next);
            self.marker(Some(last_time), sink);
        }
    }

    /// Emits an event that the source does not have. Nothing can refer to it.
    fn generated(
        &mut self,
        kind: Kind,
        origin: u64,
        time: Option<i64>,
        sink: &mut RowSink<'_>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        self.settle_cut(origin, false, time, sink);
        self.append_generated(kind, time, sink, data);
    }

    fn marker(&mut self, time: Option<i64>, sink: &mut RowSink<'_>) {
        self.append_generated(Kind::SessionEndSeed, time, sink, |out| out.extend_from_slice(CUT_MARKER));
    }

    fn append_generated(
        &mut self,
        kind: Kind,
        time: Option<i64>,
        sink: &mut RowSink<'_>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        let seq = self.next;
        self.next = self.next.saturating_add(1);
        let Some(time) = time else {
            return self.target.bad_envelope(seq, BAD_TIME);
        };
        if !self.target.is_sound() {
            return;
        }
        self.scratch.clear();
        data(&mut self.scratch);
        self.relate_generated(kind, seq);
        self.start_generated(kind, seq, time);
        self.row.extend_from_slice(&self.scratch);
        self.row.push(b'}');
        self.target.deliver(seq, time, [&self.row, &[], &[]], sink);
    }

    /// Shows the event whose payload is in `scratch` to the checks.
    fn relate_generated(&mut self, kind: Kind, seq: u64) {
        self.payload.clear();
        // The payload was written here or parsed before.
        if let Ok(data) = self.tape.parse(&self.scratch, u32::MAX) {
            self.target.relate(&View {
                kind,
                seq,
                data,
                surface_op: SurfaceOp::Absent,
                sources: None,
                payload: &self.payload,
                inherited: Inherited::No,
            });
        }
    }

    /// Starts a row up to its payload.
    fn start_generated(&mut self, kind: Kind, seq: u64, time: i64) {
        let row = &mut self.row;
        row.clear();
        row.extend_from_slice(br#"{"type":""#);
        row.extend_from_slice(kind.name().as_bytes());
        row.extend_from_slice(br#"","seq":"#);
        write_u64(row, seq);
        row.extend_from_slice(br#","time":"#);
        write_i64(row, time);
        row.extend_from_slice(br#","data":"#);
    }

    /// Places the cut before the first event that stems from a source event behind it.
    fn settle_cut(&mut self, origin: u64, is_marker: bool, time: Option<i64>, sink: &mut RowSink<'_>) {
        if self.target_cut.is_none() && self.cut.is_some_and(|cut| origin >= cut) {
            self.target_cut = Some(self.next);
            if !is_marker {
                self.marker(time, sink);
            }
        }
    }

    fn inherited(&self, origin: u64) -> Inherited {
        if self.has_parent && self.cut.is_some_and(|cut| origin < cut) {
            Inherited::Yes
        } else {
            Inherited::No
        }
    }

    /// Maps every reference of the event, in the order of the inventory: sources, surface, payload.
    fn map_references(
        &mut self,
        event: &SourceEvent<'_>,
        kind: Kind,
        data: Node<'_>,
    ) -> Result<SurfaceOp, Refusal> {
        let unmapped = |seq: u64| {
            // The published release maps an event to itself, and its reader then refuses the result.
            let detail =
                if seq == event.seq { Detail::Stricter("it names itself") } else { Detail::Reference(seq) };
            Refusal::new(Stage::V1ToV2, Code::ReferenceUnmapped).with(detail)
        };
        let one = |map: &SeqMap, seq: u64| map.get(seq).ok_or_else(|| unmapped(seq));
        if event.envelope.sources.is_some() && kind != Kind::AssistantMessage {
            self.map.map(event.sources, &mut self.sources).map_err(unmapped)?;
        }
        let surface_op = match event.envelope.surface_op {
            None => SurfaceOp::Absent,
            Some(op) if op.as_str().is_some_and(|op| op.eq_str("append")) => SurfaceOp::Append,
            Some(op) => {
                let mut ends = [0; 2];
                for (end, name) in ends.iter_mut().zip(["start", "end"]) {
                    let seq = count(op.get(name));
                    let seq = seq.ok_or_else(|| {
                        Refusal::new(Stage::V1ToV2, Code::ReferenceUnmapped)
                            .with(Detail::Rule("surfaceOp names no event"))
                    })?;
                    *end = one(&self.map, seq)?;
                }
                let [start, end] = ends;
                SurfaceOp::Replace { start, end }
            }
        };
        self.payload.clear();
        for reference in Inventory::v1().references(kind) {
            let Reference::Payload { member, form } = reference else { continue };
            let Some(value) = data.get(member) else { continue };
            match form {
                ReferenceForm::One => {
                    let seq = count(Some(value)).unwrap_or(u64::MAX);
                    self.payload.one = Some(one(&self.map, seq)?);
                }
                ReferenceForm::Range => {
                    let end = |name| count(value.get(name)).unwrap_or(u64::MAX);
                    self.payload.range = Some((one(&self.map, end("start"))?, one(&self.map, end("end"))?));
                }
                ReferenceForm::List => {
                    let (mut stored, mut mapped) = (SeqList::default(), SeqList::default());
                    stored.read_counts(value);
                    self.map.map(&stored, &mut mapped).map_err(unmapped)?;
                    self.payload.list = Some(mapped);
                }
            }
        }
        Ok(surface_op)
    }

    #[expect(clippy::too_many_arguments, reason = "everything that decides the text of one row")]
    fn write_row(
        &mut self,
        event: &SourceEvent<'_>,
        kind: Kind,
        data: Node<'_>,
        (seq, time): (u64, i64),
        surface_op: SurfaceOp,
        cites: bool,
        patch: &Patch<'_>,
        split: &mut Option<Split>,
    ) {
        let mut row = Object::new(&mut self.row);
        let envelope = event.envelope;
        for member in envelope.order.into_iter().flatten() {
            match member {
                Member::Type => row.plain("type", kind.name()),
                Member::Seq => row.count("seq", seq),
                Member::Time => {
                    row.plain_key("time");
                    write_i64(row.out, time);
                }
                Member::Data => {
                    row.plain_key("data");
                    let is_canonical = event.is_canonical || data.is_canonical();
                    if is_canonical && patch.keeps_all() {
                        *split = Some(Split::Data(row.out.len()));
                    } else {
                        write_data(row.out, data, patch, &self.payload, split);
                    }
                }
                Member::Ignorable => {
                    row.plain_key("ignorable");
                    row.out.extend_from_slice(b"true");
                }
                Member::Sources | Member::SurfaceOp => {}
            }
        }
        if cites {
            row.plain_key("sourceEventSeqs");
            self.sources.write_sources(row.out);
        }
        match surface_op {
            SurfaceOp::Append => row.plain("surfaceOp", "append"),
            SurfaceOp::Replace { start, end } => {
                let mut op = row.object("surfaceOp");
                op.plain("op", "replace");
                op.count("start", start);
                op.count("end", end);
                op.end();
            }
            SurfaceOp::Absent | SurfaceOp::Malformed => {}
        }
        row.end();
    }
}

/// How the payload of a target event differs from that of its source.
enum Patch<'i> {
    /// The members that hold seqs.
    References(&'i [Reference]),
    /// A stream comes last; its records go where the row is split.
    Stream,
    /// The marker of the cut.
    CutMarker,
    /// The source of an old goal message becomes the plugin's.
    PluginSource,
}

impl Patch<'_> {
    /// Whether the payload stays as it is.
    fn keeps_all(&self) -> bool {
        match self {
            Self::References(references) => !references.iter().any(is_in_payload),
            Self::Stream | Self::CutMarker | Self::PluginSource => false,
        }
    }
}

/// Where a row that is written parts, and what goes there: text that stands somewhere already.
#[derive(Clone, Copy, Debug)]
enum Split {
    /// The records of a stream.
    Stream(usize),
    /// The payload as it came.
    Data(usize),
}

const CUT_MARKER: &[u8] = br#"{"inherited":true}"#;

const BAD_TIME: Detail = Detail::Rule("the time is no safe integer");

fn write_data(
    out: &mut Vec<u8>,
    data: Node<'_>,
    patch: &Patch<'_>,
    refs: &PayloadRefs,
    split: &mut Option<Split>,
) {
    match patch {
        Patch::CutMarker => out.extend_from_slice(CUT_MARKER),
        Patch::References(_) if patch.keeps_all() => data.write_canonical(out),
        Patch::References(references) => {
            let mut object = Object::new(out);
            for (name, value) in data.members().into_iter().flatten() {
                let form = references.iter().find_map(|reference| match reference {
                    Reference::Payload { member, form } if name.eq_str(member) => Some(form),
                    _ => None,
                });
                object.key(&name.to_string_lossy());
                match form {
                    Some(ReferenceForm::One) => write_u64(object.out, refs.one.unwrap_or(0)),
                    Some(ReferenceForm::Range) => {
                        let (start, end) = refs.range.unwrap_or_default();
                        let mut range = Object::new(object.out);
                        range.count("start", start);
                        range.count("end", end);
                        range.end();
                    }
                    Some(ReferenceForm::List) => {
                        if let Some(list) = &refs.list {
                            list.write_counts(object.out);
                        }
                    }
                    None => value.write_canonical(object.out),
                }
            }
            object.end();
        }
        Patch::Stream => {
            data.write_canonical(out);
            out.pop();
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            out.extend_from_slice(br#""stream":["#);
            *split = Some(Split::Stream(out.len()));
            out.extend_from_slice(b"]}");
        }
        Patch::PluginSource => {
            let mut object = Object::new(out);
            for (name, value) in data.members().into_iter().flatten() {
                object.key(&name.to_string_lossy());
                if name.eq_str("source") {
                    object.out.extend_from_slice(br#"{"kind":"plugin","plugin":"goal"}"#);
                } else {
                    value.write_canonical(object.out);
                }
            }
            object.end();
        }
    }
}

fn is_in_payload(reference: &Reference) -> bool {
    matches!(reference, Reference::Payload { .. })
}

/// The change that a user message of the old goal form states.
fn legacy_goal_change(kind: Kind, data: Node<'_>) -> Option<Node<'_>> {
    let source = (kind == Kind::UserMessage).then(|| data.get("source"))??;
    source.get("kind").and_then(Node::as_str).filter(|kind| kind.eq_str("goal"))?;
    source.get("change")
}

/// What is wrong with the envelope of an event once it stands in a v2 log.
fn envelope_fault(envelope: &Envelope<'_>, kind: Kind, has_time: bool) -> Option<Detail> {
    if !has_time {
        return Some(BAD_TIME);
    }
    if envelope.ignorable.is_some_and(|flag| flag.as_bool() != Some(true)) {
        return Some(Detail::Rule("ignorable is not true"));
    }
    let cites = envelope.sources.is_some() || envelope.surface_op.is_some();
    if envelope.has_more || cites && !may_cite(kind) {
        return Some(Detail::Rule("a member that its type does not have"));
    }
    let exact = envelope.surface_op.is_none_or(|op| {
        let is_replace = || op.get("op").and_then(Node::as_str).is_some_and(|op| op.eq_str("replace"));
        op.as_str().is_some() || op.members().is_some_and(|members| members.len() == 3) && is_replace()
    });
    if exact { None } else { Some(Detail::Stricter("surfaceOp has more members than its form")) }
}

fn count(value: Option<Node<'_>>) -> Option<u64> {
    value?.as_number().and_then(Number::as_count)
}
