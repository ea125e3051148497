//! Rows of v0 and v1 as their frozen decoders take them.
//!
//! A plain row needs to be an object, to have the next seq, and to have a stored form of `sourceEventSeqs` if it has that
//! member: nothing else of its envelope is looked at here, since a conversion blames the rest on itself and not on the
//! file. A packed row is checked in full.

use super::refusal::{Code, Detail, Refusal, Stage};
use crate::json::{Items, Kind as JsonKind, Node, Number, SAFE_INTEGER_MAX, Str};
use crate::row::Recovery;
use crate::session::{SeqList, SourceRules};
use crate::units::UnixMs;

/// The members of a row, none of them judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'t> {
    /// The whole row, an object.
    pub(super) row: Node<'t>,
    pub(super) name: Option<Node<'t>>,
    pub(super) seq: Option<Node<'t>>,
    pub(super) time: Option<Node<'t>>,
    pub(super) data: Option<Node<'t>>,
    pub(super) ignorable: Option<Node<'t>>,
    pub(super) sources: Option<Node<'t>>,
    pub(super) surface_op: Option<Node<'t>>,
    /// Whether there is any other member.
    pub(super) has_more: bool,
    /// The members of an event in their order; those that are not there come last and are `None`.
    pub(super) order: [Option<Member>; 7],
}

/// A member that every event may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Type,
    Seq,
    Time,
    Data,
    Ignorable,
    Sources,
    SurfaceOp,
}

impl Member {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "type" => Self::Type,
            "seq" => Self::Seq,
            "time" => Self::Time,
            "data" => Self::Data,
            "ignorable" => Self::Ignorable,
            "sourceEventSeqs" => Self::Sources,
            "surfaceOp" => Self::SurfaceOp,
            _ => return None,
        })
    }
}

impl<'t> Envelope<'t> {
    /// Takes `row` apart; `None` if it is not an object.
    pub(super) fn of(row: Node<'t>) -> Option<Self> {
        let mut envelope = Self {
            row,
            name: None,
            seq: None,
            time: None,
            data: None,
            ignorable: None,
            sources: None,
            surface_op: None,
            has_more: false,
            order: [None; 7],
        };
        let mut places = [const { None }; 7];
        let mut place = places.iter_mut();
        for (name, value) in row.members()? {
            let member = match name.as_plain() {
                Some(name) => Member::of(name),
                None => Member::of(&name.to_string_lossy()),
            };
            let Some(member) = member else {
                envelope.has_more = true;
                continue;
            };
            let slot = match member {
                Member::Type => &mut envelope.name,
                Member::Seq => &mut envelope.seq,
                Member::Time => &mut envelope.time,
                Member::Data => &mut envelope.data,
                Member::Ignorable => &mut envelope.ignorable,
                Member::Sources => &mut envelope.sources,
                Member::SurfaceOp => &mut envelope.surface_op,
            };
            *slot = Some(value);
            // A name occurs once, so seven places are enough.
            if let Some(place) = place.next() {
                *place = Some(member);
            }
        }
        envelope.order = places;
        Some(envelope)
    }

    /// The type's name, if it is a string.
    pub(super) fn type_name(&self) -> Option<Str<'t>> {
        self.name?.as_str()
    }

    fn names_turn_end(&self) -> bool {
        self.type_name().is_some_and(|name| name.eq_str("turn/end"))
    }

    /// The time, if it is a safe integer.
    pub(super) fn unix_ms(&self) -> Option<UnixMs> {
        self.time?.as_number()?.as_safe_integer().map(UnixMs::new)
    }
}

/// Which deltas a packed row holds; the name of its rows and of the records that they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    Text,
    Reasoning,
    ToolCall,
}

impl RunKind {
    pub(super) const fn row_name(self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall => "tool-call-chunks",
        }
    }

    fn of_row(name: Str<'_>) -> Option<Self> {
        [Self::Text, Self::Reasoning, Self::ToolCall].into_iter().find(|kind| name.eq_str(kind.row_name()))
    }
}

/// A packed row, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedRun<'t> {
    pub(super) kind: RunKind,
    pub(super) seq0: u64,
    /// Seq of the last member.
    pub(super) last_seq: u64,
    pub(super) time0: i64,
    /// Time of the last member.
    pub(super) last_time: i64,
    pub(super) turn: u64,
    pub(super) step: u64,
    pub(super) index: u64,
    pub(super) gaps: Node<'t>,
    pub(super) fragments: Node<'t>,
    /// A string that is not empty, in tool-call rows.
    pub(super) id: Option<Node<'t>>,
    /// A string.
    pub(super) name: Option<Node<'t>>,
}

impl<'t> PackedRun<'t> {
    /// The gaps between members, in milliseconds.
    pub(super) fn gap_values(&self) -> impl Iterator<Item = i64> + 't {
        let gaps: Option<Items<'t>> = self.gaps.items();
        gaps.into_iter().flatten().filter_map(|gap| gap.as_number()?.as_safe_integer())
    }
}

/// What a physical row holds.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for one row")]
pub(super) enum PhysicalRow<'t> {
    /// The event that its members are.
    Event,
    /// Deltas.
    Run(PackedRun<'t>),
}

/// Reads a row of v0 or v1 that may be packed. `sources` is filled from `sourceEventSeqs`, or emptied.
///
/// # Errors
/// The code of the rule that the row breaks. Its place in the log is not judged.
pub(super) fn read_row<'t>(envelope: &Envelope<'t>, sources: &mut SeqList) -> Result<PhysicalRow<'t>, Code> {
    if let Some(kind) = envelope.type_name().and_then(RunKind::of_row) {
        return read_packed(kind, envelope.row).map(PhysicalRow::Run).ok_or(Code::PackedRow);
    }
    sources.clear();
    if let Some(stored) = envelope.sources {
        let own = envelope.seq.and_then(count).ok_or(Code::ProvenanceForm)?;
        sources.read_sources(stored, own, SourceRules::Counted).ok_or(Code::ProvenanceForm)?;
    }
    Ok(PhysicalRow::Event)
}

/// The count that a value is.
pub(super) fn count(value: Node<'_>) -> Option<u64> {
    value.as_number().and_then(Number::as_count)
}

fn int(value: Node<'_>) -> Option<i64> {
    value.as_number().and_then(Number::as_safe_integer)
}

/// Spec: `format-spec/04-rows.md`, "Packed rows".
fn read_packed(kind: RunKind, row: Node<'_>) -> Option<PackedRun<'_>> {
    let [_, seq0, time0, data] = exact(row, ["type", "seq0", "time0", "data"])?;
    let (head, id, name) = match kind {
        RunKind::Text | RunKind::Reasoning => {
            (exact(data, ["turn", "step", "index", "dt", "texts"])?, None, None)
        }
        RunKind::ToolCall if data.get("name").is_some() => {
            let [turn, step, index, gaps, id, name, fragments] =
                exact(data, ["turn", "step", "index", "dt", "id", "name", "args"])?;
            ([turn, step, index, gaps, fragments], Some(id), Some(name))
        }
        RunKind::ToolCall => {
            let [turn, step, index, gaps, id, fragments] =
                exact(data, ["turn", "step", "index", "dt", "id", "args"])?;
            ([turn, step, index, gaps, fragments], Some(id), None)
        }
    };
    if id.is_some_and(|id| id.as_str().is_none_or(Str::is_empty))
        || name.is_some_and(|name| name.as_str().is_none())
    {
        return None;
    }
    let [turn, step, index, gaps, fragments] = head;
    let items = fragments.items()?;
    let members = u64::try_from(items.len()).ok().filter(|n| *n > 0)?;
    if !items.into_iter().all(|item| item.kind() == JsonKind::String) {
        return None;
    }
    let gap_items = gaps.items()?;
    if u64::try_from(gap_items.len()).ok()?.checked_add(1)? != members {
        return None;
    }
    let (seq0, time0) = (count(seq0)?, int(time0)?);
    let last_seq =
        seq0.checked_add(members)?.checked_sub(1).filter(|seq| *seq <= SAFE_INTEGER_MAX.unsigned_abs())?;
    let mut last_time = time0;
    for gap in gap_items {
        last_time = last_time.checked_add(int(gap)?).filter(|time| is_safe(*time))?;
    }
    let (turn, step, index) = (count(turn)?, count(step)?, count(index)?);
    Some(PackedRun { kind, seq0, last_seq, time0, last_time, turn, step, index, gaps, fragments, id, name })
}

/// The values of `names`, if the object has exactly these members.
fn exact<'t, const N: usize>(object: Node<'t>, names: [&str; N]) -> Option<[Node<'t>; N]> {
    let members = object.members()?;
    if members.len() != N {
        return None;
    }
    let mut found = [None; N];
    for (at, (member, value)) in members.enumerate() {
        // Writers keep this order: look at the same position first.
        let at = if names.get(at).is_some_and(|name| member.eq_str(name)) {
            at
        } else {
            names.iter().position(|name| member.eq_str(name))?
        };
        *found.get_mut(at)? = Some(value);
    }
    let mut out = [object; N];
    for (slot, value) in out.iter_mut().zip(found) {
        *slot = value?;
    }
    Some(out)
}

/// Whether JavaScript holds `n` exactly.
pub(super) fn is_safe(n: i64) -> bool {
    n.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs()
}

/// Decides which rows of a log count.
#[derive(Debug)]
pub(super) struct Acceptance {
    recovery: Recovery,
    next_seq: u64,
    issue: Option<Refusal>,
}

impl Acceptance {
    pub(super) fn new(recovery: Recovery) -> Self {
        Self { recovery, next_seq: 0, issue: None }
    }

    /// Events accepted so far.
    pub(super) fn events(&self) -> u64 {
        self.next_seq
    }

    /// The first row that was dropped, and why.
    pub(super) fn issue(&self) -> Option<&Refusal> {
        self.issue.as_ref()
    }

    /// Takes events `first..=last` of a sound row, if they are the next ones and nothing was dropped before.
    pub(super) fn take(&mut self, first: u64, last: u64) -> bool {
        let next = self.issue.is_none() && first == self.next_seq;
        if next {
            self.next_seq = last.saturating_add(1);
        }
        next
    }

    /// A line that is not JSON.
    pub(super) fn unreadable(&mut self, line: u64, why: &'static str) -> Result<(), Refusal> {
        let refusal = Refusal::new(Stage::Decode, Code::JsonInvalid).at_line(line).with(Detail::Rule(why));
        self.bad(refusal, line)
    }

    /// Judges the next row, `None` for JSON that is no object. Gives `None` if it is dropped.
    pub(super) fn row<'t>(
        &mut self,
        envelope: Option<&Envelope<'t>>,
        line: u64,
        sources: &mut SeqList,
    ) -> Result<Option<PhysicalRow<'t>>, Refusal> {
        let read = envelope.ok_or(Code::RowNotObject).and_then(|envelope| read_row(envelope, sources));
        let (envelope, read) = match (envelope, read) {
            (Some(envelope), Ok(read)) => (envelope, read),
            (_, read) => {
                // A line that was no JSON is forgiven until any later row says that it ends a turn.
                let unreadable = self.issue.as_ref().filter(|issue| issue.code() == Code::JsonInvalid);
                if let (Some(issue), true) = (unreadable, envelope.is_some_and(Envelope::names_turn_end)) {
                    return Err(issue.clone());
                }
                let code = read.err().unwrap_or(Code::RowNotObject);
                self.bad(Refusal::new(Stage::Decode, code), line)?;
                return Ok(None);
            }
        };
        let (first, len, ends_turn) = match &read {
            PhysicalRow::Event => (envelope.seq.and_then(count), 1, envelope.names_turn_end()),
            PhysicalRow::Run(run) => {
                (Some(run.seq0), run.last_seq.saturating_sub(run.seq0).saturating_add(1), false)
            }
        };
        if let Some(issue) = &self.issue {
            return if ends_turn { Err(issue.clone()) } else { Ok(None) };
        }
        if first != Some(self.next_seq) {
            let refusal = self.gap(envelope);
            if ends_turn {
                return Err(refusal.at_line(line));
            }
            self.bad(refusal, line)?;
            return Ok(None);
        }
        self.next_seq = self.next_seq.saturating_add(len);
        Ok(Some(read))
    }

    fn gap(&self, envelope: &Envelope<'_>) -> Refusal {
        let refusal = Refusal::new(Stage::Decode, Code::SeqGap).at_seq(self.next_seq);
        if envelope.seq.and_then(Node::as_number).is_some_and(Number::is_negative_zero) {
            refusal.with(Detail::Stricter("a seq is written as -0"))
        } else {
            refusal
        }
    }

    fn bad(&mut self, refusal: Refusal, line: u64) -> Result<(), Refusal> {
        let refusal = refusal.at_line(line).at_seq(self.next_seq);
        if self.recovery == Recovery::Strict {
            return Err(refusal);
        }
        self.issue.get_or_insert(refusal);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    /// Feeds rows to a recoverable reader: the seqs it accepts, and the code that refuses the log if one does.
    fn accept(rows: &[&str]) -> (u64, Option<Code>) {
        let mut acceptance = Acceptance::new(Recovery::Recoverable);
        let mut sources = SeqList::default();
        for (line, row) in (2..).zip(rows) {
            let mut tape = Tape::default();
            let result = match tape.parse(row.as_bytes(), 100) {
                Ok(node) => acceptance.row(Envelope::of(node).as_ref(), line, &mut sources).map(|_| ()),
                Err(_) => acceptance.unreadable(line, "not JSON"),
            };
            if let Err(refusal) = result {
                return (acceptance.events(), Some(refusal.code()));
            }
        }
        (acceptance.events(), None)
    }

    #[test]
    fn a_later_turn_end_makes_an_issue_fatal() {
        let a0 = r#"{"type":"a","seq":0}"#;
        let bad = "5";
        let turn_end = r#"{"type":"turn/end","seq":1}"#;
        assert_eq!(accept(&[a0, bad]), (1, None));
        assert_eq!(accept(&[a0, bad, r#"{"type":"a","seq":1}"#]), (1, None));
        assert_eq!(accept(&[a0, bad, turn_end]), (1, Some(Code::RowNotObject)));
        assert_eq!(accept(&[a0, bad, r#"{"type":"turn/end"}"#]), (1, Some(Code::RowNotObject)));
        assert_eq!(accept(&[a0, r#"{"type":"a","seq":5}"#, turn_end]), (1, Some(Code::SeqGap)));
        assert_eq!(accept(&[a0, r#"{"type":"turn/end","seq":5}"#]), (1, Some(Code::SeqGap)));
        assert_eq!(accept(&[a0, r#"{"type":"turn/end","seq":1,"sourceEventSeqs":5}"#]), (1, None));
        let packed = r#"{"type":"text-chunks","seq0":2,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}"#;
        assert_eq!(accept(&[a0, packed]), (1, None));
        assert_eq!(accept(&[a0, &packed.replace(":2", ":1")]), (2, None));
        assert_eq!(
            accept(&[a0, "{", r#"{"type":"turn/end","seq":1,"sourceEventSeqs":5}"#]),
            (1, Some(Code::JsonInvalid))
        );
    }

    #[test]
    fn packed_rows_are_exact() {
        let good = concat!(
            r#"{"type":"tool-call-chunks","seq0":0,"time0":-1,"data":{"turn":0,"step":1,"index":2,"#,
            r#""dt":[-5],"id":"c","name":"","args":["a",""]}}"#
        );
        assert_eq!(accept(&[good]), (2, None));
        assert_eq!(accept(&[&good.replace(r#""name":"","#, "")]), (2, None));
        for (from, to) in [
            (r#""name":"""#, r#""name":null"#),
            (r#""id":"c""#, r#""id":"""#),
            ("[-5]", "[-0]"),
            ("[-5]", "[]"),
            ("[-5]", "[-9007199254740991]"),
            (r#"["a",""]"#, "[]"),
            (r#"["a",""]"#, r#"["a",1]"#),
            (r#""turn":0"#, r#""turn":-1"#),
            (r#""seq0":0"#, r#""seq":0"#),
            (r#""dt""#, r#""more":1,"dt""#),
            (r#""time0":-1"#, r#""time0":-1,"ignorable":true"#),
        ] {
            assert_eq!(accept(&[&good.replace(from, to)]), (0, None), "{to}");
        }
    }
}
