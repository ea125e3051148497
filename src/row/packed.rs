use super::event::{check_text, text_of};
use super::fault::{Member, PackedFault, RowFault, Span};
use super::fields::Fields;
use super::lex::{self, Items, Members};
use crate::json::{Str, write_i64, write_u64};
use crate::limits::Limits;
use crate::units::{Seq, UnixMs};

/// A packed row of v0 or v1: a run of `assistant/chunk` events whose chunks are deltas of one kind, in one line.
///
/// Valid as a whole: every member event exists, with a seq and a time in their ranges. Borrowed from the line.
///
/// Spec: `format-spec/04-rows.md`, "Packed rows".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    line: &'a str,
    kind: PackedKind,
    seq0: Seq,
    time0: UnixMs,
    last_time: UnixMs,
    turn: u64,
    step: u64,
    index: u64,
    id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    /// The array of gaps.
    dt: &'a str,
    /// The array of fragments, not empty.
    fragments: &'a str,
    count: u64,
}

/// Which deltas a packed row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "v0 and v1 are frozen")]
pub enum PackedKind {
    /// `text-chunks`, of `text-delta` chunks.
    Text,
    /// `reasoning-chunks`, of `reasoning-delta` chunks.
    Reasoning,
    /// `tool-call-chunks`, of `tool-call-delta` chunks.
    ToolCall,
}

impl PackedKind {
    /// The kind that the `type` of a row names, if it is a packed one.
    #[must_use]
    pub fn of(row_type: Str<'_>) -> Option<Self> {
        [Self::Text, Self::Reasoning, Self::ToolCall]
            .into_iter()
            .find(|kind| row_type.eq_str(kind.row_type()))
    }

    /// The `type` of the packed row.
    #[must_use]
    pub const fn row_type(self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall => "tool-call-chunks",
        }
    }

    /// The `type` of each member event's chunk.
    #[must_use]
    pub const fn chunk_type(self) -> &'static str {
        match self {
            Self::Text => "text-delta",
            Self::Reasoning => "reasoning-delta",
            Self::ToolCall => "tool-call-delta",
        }
    }

    /// The member of `data` that holds the fragments.
    const fn fragments(self) -> Member {
        match self {
            Self::Text | Self::Reasoning => Member::Texts,
            Self::ToolCall => Member::Args,
        }
    }
}

impl<'a> Packed<'a> {
    /// Reads `line`, a row without its newline, as a packed row.
    ///
    /// Time O(bytes); allocates nothing.
    ///
    /// # Errors
    /// [`RowFault::Packed`] with the first rule that it breaks; else as [`Event::read`](super::Event::read).
    pub fn read(line: &'a [u8], limits: &Limits) -> Result<Self, RowFault> {
        let line = text_of(line, limits)?;
        check_text(line, limits)?;
        let members = Members::of(line).ok_or(RowFault::NotObject)?;
        Self::from_members(line, members).map_err(RowFault::Packed)
    }

    /// The packed row that the members of `line` make, which has been checked to be JSON.
    pub(super) fn from_members(line: &'a str, members: Members<'a>) -> Result<Self, PackedFault> {
        let envelope = Fields::collect(members, ["type", "seq0", "time0", "data"]);
        if let Some(name) = envelope.unknown() {
            return Err(PackedFault::UnknownMember { name });
        }
        let kind = envelope.string("type").and_then(PackedKind::of).ok_or(wrong(&envelope, Member::Type))?;
        let seq0 = envelope.count("seq0").and_then(Seq::new).ok_or(wrong(&envelope, Member::Seq0))?;
        let time0 =
            envelope.get("time0").and_then(lex::safe_integer).ok_or(wrong(&envelope, Member::Time0))?;
        let data = envelope.get("data").ok_or(wrong(&envelope, Member::Data))?;
        let data_at = data.as_ptr().addr().wrapping_sub(line.as_ptr().addr()); // `data` is a part of `line`
        let data = Members::of(data).ok_or(wrong(&envelope, Member::Data))?;

        let data = Fields::collect(data, ["turn", "step", "index", "dt", "texts", "id", "name", "args"]);
        let foreign: &[&str] = match kind {
            PackedKind::Text | PackedKind::Reasoning => &["id", "name", "args"],
            PackedKind::ToolCall => &["texts"],
        };
        if let Some(name) = data.unknown().or_else(|| foreign.iter().find_map(|name| data.span(name))) {
            let moved = |at: usize| at.saturating_add(data_at);
            return Err(PackedFault::UnknownMember {
                name: Span { start: moved(name.start), end: moved(name.end) },
            });
        }
        let count = |member: Member| data.count(member.as_str()).ok_or(wrong(&data, member));
        let raw = |member: Member| data.get(member.as_str()).ok_or(wrong(&data, member));
        let mut row = Self {
            line,
            kind,
            seq0,
            time0: UnixMs::new(time0),
            last_time: UnixMs::new(time0),
            turn: count(Member::Turn)?,
            step: count(Member::Step)?,
            index: count(Member::Index)?,
            dt: raw(Member::Dt)?,
            id: None,
            name: None,
            fragments: raw(kind.fragments())?,
            count: 0,
        };
        if kind == PackedKind::ToolCall {
            row.id = data.string("id").filter(|id| !id.is_empty());
            row.id.ok_or(wrong(&data, Member::Id))?;
            row.name = data.string("name");
            if row.name.is_none() && data.get("name").is_some() {
                return Err(PackedFault::Member(Member::Name));
            }
        }
        (row.count, row.last_time) = row.walked()?;
        Ok(row)
    }

    /// Checks both arrays; returns the number of events and the last one's time.
    fn walked(&self) -> Result<(u64, UnixMs), PackedFault> {
        let mut count = 0_u64;
        for fragment in Items::of(self.fragments).ok_or(PackedFault::Member(self.kind.fragments()))? {
            lex::string(fragment).ok_or(PackedFault::Member(self.kind.fragments()))?;
            count = count.saturating_add(1);
        }
        let before_last = count.checked_sub(1).ok_or(PackedFault::Empty)?;
        let mut gaps = 0_u64;
        let mut time = self.time0.get();
        for gap in Items::of(self.dt).ok_or(PackedFault::Member(Member::Dt))? {
            let gap = lex::safe_integer(gap).ok_or(PackedFault::Member(Member::Dt))?;
            gaps = gaps.saturating_add(1);
            time = time.saturating_add(gap); // two safe integers
            if time.unsigned_abs() > Seq::MAX.get() {
                return Err(PackedFault::Time { index: gaps });
            }
        }
        if gaps != before_last {
            return Err(PackedFault::Lengths { gaps, fragments: count });
        }
        self.seq0.checked_add(before_last).ok_or(PackedFault::SeqOverflow)?;
        Ok((count, UnixMs::new(time)))
    }

    /// The whole row as stored, without its newline.
    #[must_use]
    pub const fn line(&self) -> &'a str {
        self.line
    }

    /// Which deltas it holds.
    #[must_use]
    pub const fn kind(&self) -> PackedKind {
        self.kind
    }

    /// The seq of its first event.
    #[must_use]
    pub const fn first_seq(&self) -> Seq {
        self.seq0
    }

    /// How many events it holds: one or more.
    #[must_use]
    pub const fn event_count(&self) -> u64 {
        self.count
    }

    /// The time of its first event.
    #[must_use]
    pub const fn first_time(&self) -> UnixMs {
        self.time0
    }

    /// The time of its last event, which need not be the latest.
    #[must_use]
    pub const fn last_time(&self) -> UnixMs {
        self.last_time
    }

    /// The turn of its events.
    #[must_use]
    pub const fn turn(&self) -> u64 {
        self.turn
    }

    /// The step of its events.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// The content block that its deltas extend.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The call's id, of a tool call only.
    #[must_use]
    pub const fn id(&self) -> Option<Str<'a>> {
        self.id
    }

    /// The tool's name, of a tool call that has one.
    #[must_use]
    pub const fn name(&self) -> Option<Str<'a>> {
        self.name
    }

    /// Its events in order.
    #[must_use]
    pub fn members(&self) -> PackedMembers<'a> {
        PackedMembers {
            gaps: Items::of(self.dt),
            fragments: Items::of(self.fragments),
            seq: self.seq0.get(),
            time: self.time0.get(),
            left: self.count,
        }
    }

    /// Appends `member`, one of [`members`](Self::members), as the event row that it stands for, without a newline.
    ///
    /// Strings are spelled as `JSON.stringify` does; those that already are, which is all that a writer makes, are copied.
    pub fn write_member(&self, member: &PackedMember<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"assistant/chunk\",\"seq\":");
        write_u64(out, member.seq.get());
        out.extend_from_slice(b",\"time\":");
        write_i64(out, member.time.get());
        out.extend_from_slice(b",\"data\":");
        self.write_data(member.fragment, out);
        out.push(b'}');
    }

    /// Appends the payload of the event whose fragment is `fragment`.
    fn write_data(&self, fragment: Str<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"turn\":");
        write_u64(out, self.turn);
        out.extend_from_slice(b",\"step\":");
        write_u64(out, self.step);
        out.extend_from_slice(b",\"chunk\":{\"type\":\"");
        out.extend_from_slice(self.kind.chunk_type().as_bytes());
        out.extend_from_slice(b"\",\"index\":");
        write_u64(out, self.index);
        for (label, string) in [(&b",\"id\":"[..], self.id), (b",\"name\":", self.name)] {
            if let Some(string) = string {
                out.extend_from_slice(label);
                string.write_canonical(out);
            }
        }
        out.extend_from_slice(match self.kind {
            PackedKind::Text | PackedKind::Reasoning => b",\"text\":",
            PackedKind::ToolCall => b",\"argumentsDelta\":",
        });
        fragment.write_canonical(out);
        out.extend_from_slice(b"}}");
    }
}

/// One event of a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedMember<'a> {
    /// Its seq.
    pub seq: Seq,
    /// Its time.
    pub time: UnixMs,
    /// Its `text` or `argumentsDelta`.
    pub fragment: Str<'a>,
}

/// Iterator of [`Packed::members`].
#[derive(Clone, Debug)]
pub struct PackedMembers<'a> {
    gaps: Option<Items<'a>>,
    fragments: Option<Items<'a>>,
    seq: u64,
    time: i64,
    left: u64,
}

impl<'a> Iterator for PackedMembers<'a> {
    type Item = PackedMember<'a>;

    #[inline]
    fn next(&mut self) -> Option<PackedMember<'a>> {
        let fragment = lex::string(self.fragments.as_mut()?.next()?)?;
        let member = PackedMember { seq: Seq::new(self.seq)?, time: UnixMs::new(self.time), fragment };
        self.left = self.left.saturating_sub(1);
        self.seq = self.seq.saturating_add(1);
        let gap = self.gaps.as_mut()?.next().and_then(lex::safe_integer);
        self.time = self.time.saturating_add(gap.unwrap_or(0)); // checked when the row was read; none after the last
        Some(member)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for PackedMembers<'_> {}

/// The fault of a required member that is absent or wrong.
fn wrong<const N: usize>(fields: &Fields<'_, N>, member: Member) -> PackedFault {
    match fields.get(member.as_str()) {
        Some(_) => PackedFault::Member(member),
        None => PackedFault::MissingMember(member),
    }
}
