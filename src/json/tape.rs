use std::cmp::Ordering;
use std::ops::Range;

use super::check::{Escapes, Sink, scan, utf8};
use super::error::{SyntaxError, SyntaxErrorKind};
use super::node::Node;
use super::string::{Str, same};

/// Index of one JSON text at a time: where its values start and end, and how to step over them.
///
/// A tape keeps its memory between texts, so a loop over rows uses one. It takes 16 bytes for each value and each
/// member name, which is eight times the length of a text at worst; beyond 16 MiB the next text gives them back.
#[derive(Debug, Default)]
pub struct Tape {
    slots: Vec<Slot>,
    names: Vec<Name>,
}

impl Tape {
    /// Reads `text` and returns its root value; accepts what [`check`](super::check) accepts.
    ///
    /// One pass that finds ends and resolves duplicate names; numbers and escapes are decoded when asked for. Time
    /// O(bytes), and O(names * log names) for an object whose names need a closer look.
    ///
    /// # Errors
    /// As `check`, and [`SyntaxErrorKind::TooLong`] for more than 2^31 - 1 bytes.
    pub fn parse<'t>(&'t mut self, text: &'t [u8], depth_max: u32) -> Result<Node<'t>, SyntaxError> {
        let text = self.index(text, depth_max)?;
        Ok(Node::root(&self.slots, text))
    }

    /// [`parse`](Self::parse) for one who looks at the value later, by [`root`](Self::root): the text as a string slice.
    ///
    /// # Errors
    /// As `parse`.
    pub(crate) fn index<'t>(&mut self, text: &'t [u8], depth_max: u32) -> Result<&'t str, SyntaxError> {
        self.slots.clear();
        self.slots.shrink_to(SLOTS_KEPT);
        self.names.clear();
        self.names.shrink_to(SLOTS_KEPT);
        if i32::try_from(text.len()).is_err() {
            return Err(SyntaxErrorKind::TooLong.at(TEXT_LEN_MAX));
        }
        let text = utf8(text)?;
        let slots = &mut self.slots;
        let mut builder =
            Builder { text, slots, names: &mut self.names, open: ROOT, state: State::default() };
        scan(text.as_bytes(), depth_max, &mut builder)?;
        Ok(text)
    }

    /// The root of the value that was read last, whose text `text` is; `None` if that is none of this tape's.
    pub(crate) fn root<'t>(&'t self, text: &'t str) -> Option<Node<'t>> {
        Node::at(&self.slots, text, 0)
    }
}

/// Values of several texts, copied from the tapes that they were read on.
#[derive(Debug, Default)]
pub(crate) struct Values {
    slots: Vec<Slot>,
}

impl Values {
    /// Keeps what `tape` read last: where that is.
    pub(crate) fn push(&mut self, tape: &Tape) -> Range<usize> {
        let start = self.slots.len();
        self.slots.extend_from_slice(&tape.slots);
        start..self.slots.len()
    }

    /// The root of the value at `place`, whose text `text` is.
    pub(crate) fn root<'t>(&'t self, place: Range<usize>, text: &'t str) -> Option<Node<'t>> {
        Node::at(self.slots.get(place)?, text, 0)
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }
}

const TEXT_LEN_MAX: usize = 0x7fff_ffff;

/// Room that a tape keeps for the next text: rows of ordinary size never grow past it, and one hostile row does not
/// hold a multiple of its size for the life of a reader.
const SLOTS_KEPT: usize = 1 << 20;

/// One value or member name. Which of them, and the kind of value, shows in the text at `start`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Range of its text, brackets and quotes included.
    pub(super) start: u32,
    pub(super) end: u32,
    /// For a value the slot after it and all it contains. For a name the slot of its value: the next one, unless the
    /// name occurs again later.
    pub(super) link: u32,
    /// For a container its number of items or members and the `OBJECT_` flags; for a name the `NAME` flags; for both
    /// names and strings the `STRING_` flags.
    pub(super) meta: u32,
}

/// Some name may be an array index, so the canonical order may differ from the written one.
pub(super) const OBJECT_INDEXED: u32 = 1 << 31;
/// Some name occurs twice.
pub(super) const OBJECT_REPEATS: u32 = 1 << 30;
/// Items or members: at most 2^30, as each takes two bytes of text or more.
pub(super) const COUNT: u32 = OBJECT_REPEATS - 1;

pub(super) const STRING_ESCAPES: u32 = 1;
/// Some escape may differ from the one that `JSON.stringify` writes.
pub(super) const STRING_ODD: u32 = 1 << 1;
pub(super) const NAME: u32 = 1 << 2;
/// The name stood earlier in the object; this occurrence is not a member.
pub(super) const NAME_REPEATED: u32 = 1 << 3;
/// The value that follows is replaced by a later one.
pub(super) const NAME_REPLACED: u32 = 1 << 4;

impl Slot {
    pub(super) fn has(self, flag: u32) -> bool {
        self.meta & flag != 0
    }

    pub(super) fn raw(self, text: &str) -> &str {
        text.get(position(self.start)..position(self.end))
            .expect("slots hold ranges of the text between ASCII bytes")
    }

    /// Whether the value of a name or string is `wanted`.
    #[inline]
    pub(super) fn is_spelled(self, text: &str, wanted: &str) -> bool {
        if self.has(STRING_ESCAPES) {
            return self.literal(text).eq_str(wanted);
        }
        let body = position(self.start).saturating_add(1)..position(self.end).saturating_sub(1);
        text.as_bytes().get(body).is_some_and(|body| same(body, wanted.as_bytes()))
    }

    /// The literal of a name or string.
    pub(super) fn literal(self, text: &str) -> Str<'_> {
        let start = position(self.start).saturating_add(1);
        let end = position(self.end).saturating_sub(1);
        let body = text.get(start..end).expect("a literal has two quotes");
        Str::new(body, self.has(STRING_ESCAPES))
    }
}

/// A slot number or text offset as an index.
pub(super) fn position(at: u32) -> usize {
    at as usize // lossless where usize has 32 bits or more
}

const ROOT: u32 = u32::MAX;

/// What is known of the innermost open container.
#[derive(Clone, Copy, Default)]
struct State {
    /// Items, or names and values together, and the flags; bounded by the text's length.
    meta: u32,
    /// One bit of each name seen, chosen by its spelling. A bit that is set already makes the object's names suspect.
    bloom: u32,
}

/// While a container is open, its slot keeps the state of the container around it: `link` the slot of that one,
/// `meta` and `end` its [`State`].
struct Builder<'a> {
    text: &'a str,
    slots: &'a mut Vec<Slot>,
    names: &'a mut Vec<Name>,
    open: u32,
    state: State,
}

impl Builder<'_> {
    /// The number of the next slot: at most the length of the text, which is below 2^31.
    #[inline]
    fn next(&self) -> u32 {
        narrow(self.slots.len())
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize, meta: u32) {
        let link = self.next().wrapping_add(1);
        self.slots.push(Slot { start: narrow(start), end: narrow(end), link, meta });
        self.state.meta = self.state.meta.wrapping_add(1);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "offsets and slots are below 2^31: Tape::parse refuses more"
)]
#[inline]
fn narrow(n: usize) -> u32 {
    n as u32
}

#[inline]
fn string_flags(escapes: Escapes) -> u32 {
    match escapes {
        Escapes::None => 0,
        Escapes::Short => STRING_ESCAPES,
        Escapes::Odd => STRING_ESCAPES | STRING_ODD,
    }
}

impl Sink for Builder<'_> {
    #[inline]
    fn open(&mut self, start: usize) {
        self.state.meta = self.state.meta.wrapping_add(1);
        let slot = self.next();
        let State { meta, bloom } = self.state;
        self.slots.push(Slot { start: narrow(start), end: bloom, link: self.open, meta });
        self.open = slot;
        self.state = State::default();
    }

    #[inline]
    fn close(&mut self, end: usize, object: bool) {
        let after = self.next();
        let closed = self.open;
        let mut meta = self.state.meta;
        let suspect = meta & OBJECT_REPEATS != 0;
        if object {
            // Names and values were counted alike, and whether a name repeats is decided now.
            meta = (meta & OBJECT_INDEXED) | ((meta & COUNT) >> 1);
        }
        if let Some(slot) = self.slots.get_mut(position(closed)) {
            self.open = slot.link;
            self.state = State { meta: slot.meta, bloom: slot.end };
            *slot = Slot { start: slot.start, end: narrow(end), link: after, meta };
        }
        if suspect {
            self.resolve(closed);
        }
    }

    #[inline]
    fn name(&mut self, start: usize, end: usize, escapes: Escapes) {
        let body = self.text.as_bytes().get(start.wrapping_add(1)..end.wrapping_sub(1)).unwrap_or_default();
        let (bit, digit) = spelling_bit(body);
        if escapes == Escapes::Odd {
            // Only such an escape spells a digit, or a name that has another spelling here.
            self.state.meta |= OBJECT_REPEATS | OBJECT_INDEXED;
        }
        if self.state.bloom & bit != 0 {
            self.state.meta |= OBJECT_REPEATS;
        }
        if digit {
            self.state.meta |= OBJECT_INDEXED;
        }
        self.state.bloom |= bit;
        self.push(start, end, NAME | string_flags(escapes));
    }

    #[inline]
    fn string(&mut self, start: usize, end: usize, escapes: Escapes) {
        self.push(start, end, string_flags(escapes));
    }

    #[inline]
    fn atom(&mut self, start: usize, end: usize) {
        self.push(start, end, 0);
    }
}

/// A bit for the name spelled `body`, and whether it starts with a digit.
#[inline]
fn spelling_bit(body: &[u8]) -> (u32, bool) {
    let len = body.len();
    let first = body.first().copied().unwrap_or_default();
    let middle = body.get(len / 2).copied().unwrap_or_default();
    let last = body.last().copied().unwrap_or_default();
    let [len, ..] = len.to_le_bytes();
    let mixed = u32::from_le_bytes([first, middle, last, len]).wrapping_mul(0x9e37_79b1);
    (1u32.wrapping_shl(mixed >> 27), first.is_ascii_digit())
}

/// A name of the object under [`Builder::resolve`].
#[derive(Clone, Copy, Debug)]
struct Name {
    hash: u32,
    slot: u32,
}

impl Name {
    fn cmp_value(&self, other: &Self, slots: &[Slot], text: &str) -> Ordering {
        let value = |name: &Self| slots.get(position(name.slot)).map(|slot| slot.literal(text));
        value(self).cmp(&value(other))
    }
}

impl Builder<'_> {
    /// Finds names that occur twice in a closed object and links the first of each to the last value.
    ///
    /// Sorting by hash shows that there are none. If hashes repeat, sorting by the names themselves decides, so that
    /// names chosen to collide cost no more than others.
    #[cold]
    fn resolve(&mut self, object: u32) {
        let Self { text, slots, names, .. } = self;
        names.clear();
        let mut at = object.saturating_add(1);
        while let Some(name) = slots.get(position(at)) {
            let hash = hash(name.literal(text));
            names.push(Name { hash, slot: at });
            let value = at.saturating_add(1);
            at = slots.get(position(value)).map_or(u32::MAX, |value| value.link);
        }
        names.sort_unstable_by_key(|name| u64::from(name.hash) << 32 | u64::from(name.slot));
        if names.is_sorted_by(|left, right| left.hash < right.hash) {
            return;
        }
        names.sort_unstable_by(|left, right| {
            let by_hash = left.hash.cmp(&right.hash);
            by_hash.then_with(|| left.cmp_value(right, slots, text)).then(left.slot.cmp(&right.slot))
        });
        let mut repeated: u32 = 0;
        let mut rest = names.as_slice();
        while let Some((first, later)) = rest.split_first() {
            let same = |name: &&Name| {
                name.hash == first.hash && name.cmp_value(first, slots, text) == Ordering::Equal
            };
            let (repeats, others) = later.split_at(later.iter().take_while(same).count());
            rest = others;
            let Some(last) = repeats.last() else { continue };
            repeated = repeated.saturating_add(narrow(repeats.len()));
            for name in std::iter::once(first).chain(repeats) {
                let Some(slot) = slots.get_mut(position(name.slot)) else { continue };
                if name.slot == first.slot {
                    slot.link = last.slot.saturating_add(1);
                } else {
                    slot.meta |= NAME_REPEATED;
                }
                if name.slot != last.slot {
                    slot.meta |= NAME_REPLACED;
                }
            }
        }
        if let Some(slot) = slots.get_mut(position(object))
            && repeated > 0
        {
            slot.meta = slot.meta.saturating_sub(repeated) | OBJECT_REPEATS;
        }
    }
}

/// Hash of a name's value; spellings do not matter.
fn hash(name: Str<'_>) -> u32 {
    let text;
    let bytes = match name.as_plain() {
        Some(plain) => plain.as_bytes(),
        None => {
            text = name.to_text();
            text.as_bytes()
        }
    };
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5);
    let chunks = bytes.chunks_exact(8);
    let tail = chunks.remainder().iter().fold(0xff, |word: u64, byte| word << 8 | u64::from(*byte));
    for chunk in chunks {
        mix(chunk.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    }
    mix(tail);
    let [_, _, _, _, high @ ..] = hash.to_le_bytes();
    u32::from_le_bytes(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Kind, check};
    use std::fmt::Write as _;

    /// The members of the object `text` as `name=value` in order.
    fn members(text: &str) -> String {
        let mut tape = Tape::default();
        let members = tape.parse(text.as_bytes(), 64).unwrap().members().unwrap();
        let len = members.len();
        let all: Vec<_> =
            members.map(|(name, value)| format!("{}={value:?}", name.to_string_lossy())).collect();
        assert_eq!(all.len(), len, "{text}");
        all.join(" ")
    }

    #[test]
    fn a_repeated_name_keeps_its_first_place_and_its_last_value() {
        for (text, all) in [
            ("{}", ""),
            (r#"{"a":1}"#, "a=1"),
            (r#"{"a":1,"a":2}"#, "a=2"),
            (r#"{"a":1,"b":2,"a":3}"#, "a=3 b=2"),
            (r#"{"a":1,"b":2,"a":[3,{"a":0}],"c":4}"#, r#"a=[3,{"a":0}] b=2 c=4"#),
            (r#"{"a":{"b":1,"b":2},"a":3,"a":{"b":4}}"#, r#"a={"b":4}"#),
            (r#"{"a":1,"\u0061":2,"b":3,"\u0062":4}"#, "a=2 b=4"),
            (r#"{"\u0061":1,"a":2,"\u0061":3}"#, "a=3"),
            (r#"{"":1,"":2,"\u0000":3}"#, "=2 \0=3"),
            (r#"{"😀":1,"\ud83d\ude00":2}"#, "😀=2"),
            (r#"{"__proto__":1,"toJSON":2,"__proto__":3}"#, "__proto__=3 toJSON=2"),
            (r#"{"ab":1,"ba":2,"axxb":3,"ayyb":4,"ab":5}"#, "ab=5 ba=2 axxb=3 ayyb=4"),
        ] {
            assert_eq!(members(text), all, "{text}");
        }
    }

    #[test]
    fn different_unpaired_halves_are_different_names() {
        let mut tape = Tape::default();
        let node = tape.parse(br#"{"\ud800":1,"\ud801":2,"\uD800":3}"#, 1).unwrap();
        let units: Vec<_> =
            node.members().unwrap().map(|(name, value)| (name.to_text(), value.raw())).collect();
        assert_eq!(units, [([0xd800].into_iter().collect(), "3"), ([0xd801].into_iter().collect(), "2")]);
    }

    #[test]
    fn a_tape_reads_one_text_after_the_other() {
        let mut tape = Tape::default();
        assert_eq!(tape.parse(b"[1,[2],{\"a\":3}]", 9).unwrap().items().unwrap().len(), 3);
        assert!(tape.parse(b"[1,{\"a\":", 9).is_err());
        assert_eq!(tape.parse(b" 7 ", 9).unwrap().raw(), "7");
        assert_eq!(tape.parse(b"", 9).unwrap_err(), SyntaxErrorKind::UnexpectedEnd.at(0));
        assert_eq!(tape.parse(b"[]", 0).unwrap_err(), SyntaxErrorKind::TooDeep.at(0));
        assert_eq!(tape.parse(b"{\"a\":1}", 1).unwrap().get("a").unwrap().raw(), "1");
    }

    #[test]
    fn many_equal_and_many_distinct_names_cost_alike() {
        // Quadratic resolution would take hours for either.
        const NAMES: usize = 1_000_000;
        let mut tape = Tape::default();
        for distinct in [false, true] {
            let mut text = String::from("{\"n\":0");
            for at in 1..NAMES {
                write!(text, ",\"n{}\":{at}", if distinct { at } else { 0 }).unwrap();
            }
            text.push('}');
            let node = tape.parse(text.as_bytes(), 1).unwrap();
            let members = node.members().unwrap();
            assert_eq!(members.len(), if distinct { NAMES } else { 2 });
            assert_eq!(members.last().unwrap().1.raw(), (NAMES - 1).to_string());
        }
    }

    #[test]
    fn ten_million_levels_are_read_without_recursion() {
        const LEVELS: usize = 10_000_000;
        let mut text = vec![b'['; LEVELS];
        text.resize(2 * LEVELS, b']');
        let mut tape = Tape::default();
        assert_eq!(tape.parse(&text, 9_999_999).unwrap_err(), SyntaxErrorKind::TooDeep.at(9_999_999));
        let mut node = tape.parse(&text, 10_000_000).unwrap();
        assert!(node.is_lossless());
        let mut levels = 1;
        while let Some(inner) = node.items().unwrap().next() {
            node = inner;
            levels += 1;
        }
        assert_eq!(levels, LEVELS);
    }

    #[test]
    fn a_text_that_offsets_cannot_address_is_refused_unread() {
        let text = vec![0; TEXT_LEN_MAX + 1];
        assert_eq!(Tape::default().parse(&text, 1).unwrap_err(), SyntaxErrorKind::TooLong.at(TEXT_LEN_MAX));
    }

    #[test]
    fn memory_of_a_huge_text_is_given_back() {
        let mut tape = Tape::default();
        let text = "[".to_owned() + &"0,".repeat(2 * SLOTS_KEPT) + "0]";
        assert_eq!(tape.parse(text.as_bytes(), 1).unwrap().items().unwrap().len(), 2 * SLOTS_KEPT + 1);
        tape.parse(b"1", 1).unwrap();
        assert!(tape.slots.capacity() <= SLOTS_KEPT);
    }

    #[test]
    fn parse_accepts_what_check_accepts() {
        let mut tape = Tape::default();
        let whole = br#" {"a":[1,-2.5e3,true,false,null,"x\n"],"b":{"c":{}}} "#;
        for cut in 0..=whole.len() {
            let text = &whole[..cut];
            assert_eq!(tape.parse(text, 4).map(|_| ()), check(text, 4), "cut at {cut}");
        }
        assert_eq!(tape.parse(whole, 4).unwrap().kind(), Kind::Object);
        assert_eq!(tape.parse(b"\xff", 4).unwrap_err(), SyntaxErrorKind::NotUtf8.at(0));
    }
}
