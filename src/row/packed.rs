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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::samples;

    const LIMITS: Limits = Limits::DEFAULT;

    fn read(line: &str) -> Result<Packed<'_>, PackedFault> {
        Packed::read(line.as_bytes(), &LIMITS).map_err(|fault| match fault {
            RowFault::Packed(fault) => fault,
            other => panic!("{other}"),
        })
    }

    fn expanded(packed: &Packed<'_>) -> Vec<String> {
        let write = |member| {
            let mut out = Vec::new();
            packed.write_member(&member, &mut out);
            String::from_utf8(out).unwrap()
        };
        packed.members().map(write).collect()
    }

    #[test]
    fn reasoning_example_of_the_format() {
        let line = concat!(
            r#"{"type":"reasoning-chunks","seq0":40,"time0":9000,"data":{"turn":3,"step":2,"index":0"#,
            r#","dt":[7,0],"texts":["so"," far",""]}}"#,
        );
        let packed = read(line).unwrap();
        let seqs: Vec<_> = packed.members().map(|m| (m.seq.get(), m.time.get(), m.fragment.raw())).collect();
        assert_eq!(seqs, [(40, 9000, "so"), (41, 9007, " far"), (42, 9007, "")]);
        assert_eq!(packed.members().len(), 3);
        assert_eq!((packed.event_count(), packed.last_time().get()), (3, 9007));
        assert_eq!(
            expanded(&packed).first().unwrap(),
            concat!(
                r#"{"type":"assistant/chunk","seq":40,"time":9000,"data":{"turn":3,"step":2"#,
                r#","chunk":{"type":"reasoning-delta","index":0,"text":"so"}}}"#,
            )
        );
    }

    #[test]
    fn tool_call_example_of_the_format() {
        let line = concat!(
            r#"{"type":"tool-call-chunks","seq0":43,"time0":9010,"data":{"turn":3,"step":2,"index":1"#,
            r#","dt":[1,-3],"id":"call_9","name":"shell","args":["{\"c","md\":","1}"]}}"#,
        );
        let packed = read(line).unwrap();
        assert_eq!(packed.last_time().get(), 9008);
        assert_eq!(
            expanded(&packed),
            [(43, 9010, r#""{\"c""#), (44, 9011, r#""md\":""#), (45, 9008, r#""1}""#)].map(|(seq, time, fragment)| {
                let chunk = format!(
                    r#"{{"type":"tool-call-delta","index":1,"id":"call_9","name":"shell","argumentsDelta":{fragment}}}"#
                );
                let data = format!(r#"{{"turn":3,"step":2,"chunk":{chunk}}}"#);
                format!(r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{data}}}"#)
            })
        );
    }

    #[test]
    fn strings_are_respelled_as_javascript_would_only_where_they_must() {
        let line = concat!(
            r#"{"type":"text-chunks","seq0":0,"time0":0,"data":{"turn":1.0,"step":1,"index":0e3,"dt":[]"#,
            r#","texts":["\u0041\/\ud83d\uDE00\uD800\n\u001F é\u2028"]}}"#,
        );
        let out = expanded(&read(line).unwrap());
        assert_eq!(
            out,
            [concat!(
                r#"{"type":"assistant/chunk","seq":0,"time":0,"data":{"turn":1,"step":1"#,
                r#","chunk":{"type":"text-delta","index":0,"text":"A/😀\ud800\n\u001f é"#,
                "\u{2028}\"}}}",
            )]
        );
    }

    #[test]
    fn members_may_come_in_any_order_and_the_last_duplicate_counts() {
        let line = concat!(
            r#"{ "data":{"texts":["a"],"turn":1,"turn":2,"dt":[1],"dt":[],"index":0,"step":0}"#,
            r#","time0":-5,"seq0":3,"type":"text-chunks" }"#,
        );
        let packed = read(line).unwrap();
        assert_eq!((packed.turn(), packed.step(), packed.event_count()), (2, 0, 1));
        assert_eq!(packed.first_time().get(), -5);
    }

    #[test]
    fn every_rule_of_a_packed_row_has_its_fault() {
        let text = |data: &str| format!(r#"{{"type":"text-chunks","seq0":5,"time0":1,"data":{data}}}"#);
        let call = |data: &str| format!(r#"{{"type":"tool-call-chunks","seq0":5,"time0":1,"data":{data}}}"#);
        let wrong = PackedFault::Member;
        let missing = PackedFault::MissingMember;
        for (line, fault) in [
            (text(r#"{"step":1,"index":0,"dt":[],"texts":["a"]}"#), missing(Member::Turn)),
            (text(r#"{"turn":1,"index":0,"dt":[],"texts":["a"]}"#), missing(Member::Step)),
            (text(r#"{"turn":1,"step":1,"dt":[],"texts":["a"]}"#), missing(Member::Index)),
            (text(r#"{"turn":1,"step":1,"index":0,"texts":["a"]}"#), missing(Member::Dt)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":[]}"#), missing(Member::Texts)),
            (call(r#"{"turn":1,"step":1,"index":0,"dt":[],"args":["a"]}"#), missing(Member::Id)),
            (call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":"c"}"#), missing(Member::Args)),
            (call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":"","args":["a"]}"#), wrong(Member::Id)),
            (call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":1,"args":["a"]}"#), wrong(Member::Id)),
            (
                call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":"c","name":null,"args":["a"]}"#),
                wrong(Member::Name),
            ),
            (call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":"c","args":[1]}"#), wrong(Member::Args)),
            (text(r#"{"turn":-1,"step":1,"index":0,"dt":[],"texts":["a"]}"#), wrong(Member::Turn)),
            (text(r#"{"turn":1,"step":1.5,"index":0,"dt":[],"texts":["a"]}"#), wrong(Member::Step)),
            (text(r#"{"turn":1,"step":1,"index":-0,"dt":[],"texts":["a"]}"#), wrong(Member::Index)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}"#), PackedFault::Empty),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":"a"}"#), wrong(Member::Texts)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[null]}"#), wrong(Member::Texts)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":{},"texts":["a"]}"#), wrong(Member::Dt)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":[-0],"texts":["a","b"]}"#), wrong(Member::Dt)),
            (text(r#"{"turn":1,"step":1,"index":0,"dt":["1"],"texts":["a","b"]}"#), wrong(Member::Dt)),
            (
                text(r#"{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a"]}"#),
                PackedFault::Lengths { gaps: 1, fragments: 1 },
            ),
            (
                text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a","b"]}"#),
                PackedFault::Lengths { gaps: 0, fragments: 2 },
            ),
            (
                text(r#"{"turn":1,"step":1,"index":0,"dt":[9007199254740990,1],"texts":["a","b","c"]}"#),
                PackedFault::Time { index: 2 },
            ),
            (text("[]"), wrong(Member::Data)),
            (r#"{"type":"text-chunks","time0":1,"data":{}}"#.to_owned(), missing(Member::Seq0)),
            (r#"{"type":"text-chunks","seq0":1,"data":{}}"#.to_owned(), missing(Member::Time0)),
            (r#"{"type":"text-chunks","seq0":1,"time0":1}"#.to_owned(), missing(Member::Data)),
            (r#"{"type":"text-chunks","seq0":-0,"time0":1,"data":{}}"#.to_owned(), wrong(Member::Seq0)),
            (r#"{"type":"text-chunks","seq0":1,"time0":-0,"data":{}}"#.to_owned(), wrong(Member::Time0)),
            (r#"{"type":"other","seq0":1,"time0":0,"data":{}}"#.to_owned(), wrong(Member::Type)),
            (
                text(r#"{"turn":1,"step":1,"index":0,"dt":[0],"texts":["a","b"]}"#)
                    .replace(":5,", ":9007199254740991,"),
                PackedFault::SeqOverflow,
            ),
        ] {
            assert_eq!(read(&line), Err(fault), "{line}");
        }
        for line in [
            text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"foreign":1}"#),
            text(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"id":"c"}"#),
            call(r#"{"turn":1,"step":1,"index":0,"dt":[],"id":"c","args":["a"],"texts":["a"]}"#),
            r#"{"type":"text-chunks","seq0":1,"time0":1,"data":{},"seq":1}"#.to_owned(),
        ] {
            let Err(PackedFault::UnknownMember { name }) = read(&line) else { panic!("{line}") };
            assert!(
                ["foreign", "id", "texts", "seq"]
                    .contains(&std::str::from_utf8(name.of(line.as_bytes())).unwrap())
            );
        }
    }

    proptest! {
        #[test]
        fn any_run_expands_packs_again_and_ends_where_numbers_do(
            runs in prop::collection::vec((samples::string(), -9_i64..9), 1..9),
            time0 in prop_oneof![-9_i64..9, Just(9_007_199_254_740_000), Just(-9_007_199_254_740_000)],
        ) {
            let texts: Vec<_> = runs.iter().map(|(text, _)| text.as_str()).collect();
            let gaps: Vec<_> = runs.iter().skip(1).map(|(_, gap)| gap.to_string()).collect();
            let data = format!(
                r#"{{"turn":1,"step":1,"index":0,"dt":[{}],"texts":[{}]}}"#, gaps.join(","), texts.join(",")
            );
            let line = format!(r#"{{"type":"reasoning-chunks","seq0":5,"time0":{time0},"data":{data}}}"#);
            prop_assert!(read(&line).is_ok());
            crate::fuzzing::row::fuzz_row(line.as_bytes());
        }
    }

    #[test]
    fn the_last_possible_seq_can_be_packed() {
        let line = concat!(
            r#"{"type":"text-chunks","seq0":9007199254740990,"time0":-9007199254740991"#,
            r#","data":{"turn":1,"step":1,"index":0,"dt":[9007199254740991],"texts":["a","b"]}}"#,
        );
        let packed = read(line).unwrap();
        assert_eq!(packed.members().last().unwrap().seq, Seq::MAX);
        assert_eq!(packed.last_time().get(), 0);
    }
}
