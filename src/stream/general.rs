//! The thorough way to check a record: any spelling, and the first rule that is broken.

use super::chunk::RawChunk;
use super::fault::RecordFault;
use super::fragment::Fragment;
use super::record::{Head, Member, RunKind, RunSlot, Slot, Table};
use crate::json::{Kind, Node, SAFE_INTEGER_MAX};

/// The record that `node` is, a value whose text is `json`. On a fault the table may have grown.
pub(super) fn record<'a>(json: &'a str, node: Node<'_>, table: &mut Table) -> Result<Slot<'a>, RecordFault> {
    if node.kind() != Kind::Object {
        return Err(RecordFault::NotAnObject);
    }
    let found = Found::in_record(node);
    let kind = found.kind.and_then(Node::as_str).ok_or(RecordFault::UnknownType)?;
    let kind = if kind.eq_str("chunk") {
        None
    } else {
        let kinds = [RunKind::Text, RunKind::Reasoning, RunKind::ToolCall];
        Some(kinds.into_iter().find(|run| kind.eq_str(run.name())).ok_or(RecordFault::UnknownType)?)
    };
    match kind {
        None => raw(json, &found),
        Some(kind) => run(json, kind, &found, table),
    }
}

/// The members of a record.
#[derive(Default)]
struct Found<'t> {
    kind: Option<Node<'t>>,
    time: Option<Node<'t>>,
    chunk: Option<Node<'t>>,
    time0: Option<Node<'t>>,
    index: Option<Node<'t>>,
    dt: Option<Node<'t>>,
    texts: Option<Node<'t>>,
    id: Option<Node<'t>>,
    name: Option<Node<'t>>,
    args: Option<Node<'t>>,
    count: usize,
}

impl<'t> Found<'t> {
    fn in_record(record: Node<'t>) -> Self {
        let mut found = Self::default();
        for (name, value) in record.members().into_iter().flatten() {
            found.count = found.count.saturating_add(1);
            let place = [
                ("type", &mut found.kind),
                ("time", &mut found.time),
                ("chunk", &mut found.chunk),
                ("time0", &mut found.time0),
                ("index", &mut found.index),
                ("dt", &mut found.dt),
                ("texts", &mut found.texts),
                ("id", &mut found.id),
                ("name", &mut found.name),
                ("args", &mut found.args),
            ]
            .into_iter()
            .find(|(known, _)| name.eq_str(known));
            if let Some((_, place)) = place {
                *place = Some(value);
            }
        }
        found
    }
}

fn raw<'a>(json: &'a str, found: &Found<'_>) -> Result<Slot<'a>, RecordFault> {
    let (Some(time), Some(chunk), 3) = (found.time, found.chunk, found.count) else {
        return Err(RecordFault::MemberSet);
    };
    let time = safe_integer(time).ok_or(RecordFault::Time)?;
    if chunk.kind() != Kind::Object || !chunk.is_lossless() {
        return Err(RecordFault::RawChunk);
    }
    let chunk = json.get(chunk.range()).map(RawChunk::new).ok_or(RecordFault::RawChunk)?;
    Ok(Slot::Raw { time, chunk })
}

fn run<'a>(
    json: &'a str,
    kind: RunKind,
    found: &Found<'_>,
    table: &mut Table,
) -> Result<Slot<'a>, RecordFault> {
    let (fragments, count) = match kind {
        RunKind::ToolCall => (found.args, 6usize.saturating_add(usize::from(found.name.is_some()))),
        RunKind::Text | RunKind::Reasoning => (found.texts, 5),
    };
    let (Some(fragments), Some(time0), Some(index), Some(dt)) =
        (fragments, found.time0, found.index, found.dt)
    else {
        return Err(RecordFault::MemberSet);
    };
    if found.count != count || (kind == RunKind::ToolCall && found.id.is_none()) {
        return Err(RecordFault::MemberSet);
    }
    let first = table.members.len();
    let (inside, loose) = fragment_ends(json, fragments, table).ok_or(RecordFault::Fragments)?;
    let (mut id, mut name) = (Fragment::new(""), None);
    if kind == RunKind::ToolCall {
        id = found.id.and_then(|id| word(json, id)).ok_or(RecordFault::Id)?;
        name = found.name.map(|name| word(json, name).ok_or(RecordFault::Name)).transpose()?;
    }
    let time0 = safe_integer(time0).ok_or(RecordFault::Time)?;
    let index = index.as_number().and_then(|index| index.as_count()).ok_or(RecordFault::Index)?;
    let wide = gaps(dt, time0, first, table)?;
    let count = table.members.len().saturating_sub(first);
    let head = Head { kind, time0, index, id, name };
    Ok(Slot::Run(RunSlot { head, fragments: inside, loose, first, count, wide }))
}

/// Gives the table a member for each string of the array `fragments`. The array's inside, and whether its spelling is
/// loose; `None` if it is not an array of one string or more.
fn fragment_ends<'a>(json: &'a str, fragments: Node<'_>, table: &mut Table) -> Option<(&'a str, bool)> {
    let items = fragments.items()?;
    let start = fragments.range().start.saturating_add(1);
    let mut loose = false;
    let mut quote = start; // where a canonical spelling has the next opening quote
    table.members.reserve(items.len());
    for item in items {
        item.as_str()?;
        let range = item.range();
        let close = range.end.saturating_sub(1);
        loose |= range.start != quote;
        quote = range.end.saturating_add(1);
        let end = u32::try_from(close.saturating_sub(start)).ok()?;
        table.members.push(Member { gap: 0, end });
    }
    let inside = json.get(start..fragments.range().end)?;
    (quote > start).then_some((inside, loose))
}

/// Sets the gaps of the members from `first` on to the numbers of the array `dt`.
fn gaps(dt: Node<'_>, time0: i64, first: usize, table: &mut Table) -> Result<Option<usize>, RecordFault> {
    let all = || dt.items().into_iter().flatten().map(safe_integer);
    let members = table.members.get_mut(first..).unwrap_or_default();
    if dt.kind() != Kind::Array
        || all().any(|gap| gap.is_none())
        || all().count().saturating_add(1) != members.len()
    {
        return Err(RecordFault::Gaps);
    }
    let mut time = time0;
    let mut is_wide = false;
    for (gap, member) in all().flatten().zip(members.iter_mut().skip(1)) {
        time = time.wrapping_add(gap); // two safe integers
        if time.abs() > SAFE_INTEGER_MAX {
            return Err(RecordFault::TimeRange);
        }
        let narrow = i32::try_from(gap);
        is_wide |= narrow.is_err();
        member.gap = narrow.unwrap_or_default();
    }
    Ok(is_wide.then(|| {
        let wide = table.wide.len();
        table.wide.reserve(members.len());
        table.wide.push(0);
        table.wide.extend(all().flatten());
        wide
    }))
}

/// The string that is not empty, if `node` is one.
fn word<'a>(json: &'a str, node: Node<'_>) -> Option<Fragment<'a>> {
    node.as_str()?;
    let range = node.range();
    let body = json.get(range.start.saturating_add(1)..range.end.saturating_sub(1))?;
    (!body.is_empty()).then_some(Fragment::new(body))
}

/// The safe integer that `node` is; negative zero passes as zero.
pub(super) fn safe_integer(node: Node<'_>) -> Option<i64> {
    let number = node.as_number()?;
    number.as_safe_integer().or_else(|| number.is_negative_zero().then_some(0))
}
