use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use super::number::Number;
use super::string::Str;
use super::tape::{COUNT, NAME_REPEATED, NAME_REPLACED, Slot, position};
use super::{canonical, equal};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number of any spelling.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One JSON value; borrows its [`Tape`](super::Tape) and its text. Copying it is free.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    slots: &'t [Slot],
    text: &'t str,
    at: u32,
    slot: Slot,
}

impl<'t> Node<'t> {
    /// `slots` is the complete index of `text`.
    pub(super) fn root(slots: &'t [Slot], text: &'t str) -> Self {
        Self::at(slots, text, 0).expect("a text that was read holds a value")
    }

    pub(super) fn at(slots: &'t [Slot], text: &'t str, at: u32) -> Option<Self> {
        slots.get(position(at)).map(|slot| Self { slots, text, at, slot: *slot })
    }

    /// What the value is.
    #[must_use]
    pub fn kind(self) -> Kind {
        kind_at(self.text, self.slot)
    }

    /// Its exact text, without white space around it.
    #[must_use]
    pub fn raw(self) -> &'t str {
        self.slot.raw(self.text)
    }

    /// Where [`raw`](Self::raw) stands in the text that was read, in bytes.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        position(self.slot.start)..position(self.slot.end)
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_number(self) -> Option<Number<'t>> {
        (self.kind() == Kind::Number).then(|| Number::new(self.raw()))
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(self) -> Option<Str<'t>> {
        (self.kind() == Kind::String).then(|| self.slot.literal(self.text))
    }

    /// The items, if it is an array.
    #[must_use]
    pub fn items(self) -> Option<Items<'t>> {
        (self.kind() == Kind::Array).then(|| Items {
            slots: self.slots,
            text: self.text,
            at: self.at.saturating_add(1),
            left: self.slot.meta & COUNT,
        })
    }

    /// The members, if it is an object: each name once, at the place of its first occurrence and with its last value.
    #[must_use]
    pub fn members(self) -> Option<Members<'t>> {
        (self.kind() == Kind::Object).then(|| Members {
            slots: self.slots,
            text: self.text,
            at: self.at.saturating_add(1),
            left: self.slot.meta & COUNT,
        })
    }

    /// The value of the member called `name`, if it is an object that has one. Time O(members).
    #[must_use]
    #[inline]
    pub fn get(self, name: &str) -> Option<Node<'t>> {
        let mut members = self.members()?;
        while let Some((_, slot)) = members.next_slots() {
            if slot.is_spelled(self.text, name) {
                return Self::at(self.slots, self.text, slot.link);
            }
        }
        None
    }

    /// Whether two values are equal to JavaScript: numbers as doubles (0 equals -0), strings by code unit, objects
    /// whatever the order of their members. Time O(bytes), O(n log n) for objects whose order differs; iterative.
    #[must_use]
    pub fn deep_eq(self, other: Node<'_>) -> bool {
        equal::deep_eq(self, other)
    }

    /// Whether `JSON.stringify` keeps the value: no negative zero and no infinity in it. A value that a repeated name
    /// replaces is not part of it. Time O(values).
    ///
    /// Spec: `format-spec/04-rows.md`.
    #[must_use]
    pub fn is_lossless(self) -> bool {
        let mut at = self.at;
        let end = self.after();
        while at < end {
            let Some(node) = Self::at(self.slots, self.text, at) else { break };
            if node.as_number().is_some_and(|number| !number.is_lossless()) {
                return false;
            }
            at = at.saturating_add(1);
            if node.is_replaced_name() {
                at = Self::at(self.slots, self.text, at).map_or(end, |value| value.slot.link);
            }
        }
        true
    }

    /// Whether [`write_canonical`](Self::write_canonical) would copy the text unchanged. May say `false` of a text
    /// that is canonical in an unusual way: an object with names that are array indexes.
    #[must_use]
    pub fn is_canonical(self) -> bool {
        canonical::is_canonical(self)
    }

    /// Appends `JSON.stringify(JSON.parse(text))`.
    ///
    /// No white space, names once each and array indexes among them first in ascending order, numbers and escapes in
    /// their one spelling. What is not lossless changes as in JavaScript: -0 becomes `0`, infinity `null`. A text that
    /// is canonical already is copied. Time O(bytes), and O(n log n) for array-index names.
    ///
    /// Spec: ECMA-262 "JSON.stringify"; `format-spec/04-rows.md`.
    pub fn write_canonical(self, out: &mut Vec<u8>) {
        canonical::write(self, out);
    }

    pub(super) fn parts(self) -> (&'t [Slot], &'t str, u32) {
        (self.slots, self.text, self.at)
    }

    /// The slot after this value and all in it.
    pub(super) fn after(self) -> u32 {
        self.slot.link
    }

    /// Whether this slot is a name whose value is replaced; the flag means something else in a container.
    fn is_replaced_name(self) -> bool {
        self.kind() == Kind::String && self.slot.has(NAME_REPLACED)
    }
}

/// The kind of the value that `slot` stands for; a name counts as a string.
#[inline]
pub(super) fn kind_at(text: &str, slot: Slot) -> Kind {
    match text.as_bytes().get(position(slot.start)) {
        Some(b'"') => Kind::String,
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Bool,
        _ => Kind::Number,
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

/// Iterator over the items of an array.
#[derive(Clone)]
pub struct Items<'t> {
    slots: &'t [Slot],
    text: &'t str,
    at: u32,
    left: u32,
}

impl<'t> Iterator for Items<'t> {
    type Item = Node<'t>;

    #[inline]
    fn next(&mut self) -> Option<Node<'t>> {
        self.left = self.left.checked_sub(1)?;
        let item = Node::at(self.slots, self.text, self.at)?;
        self.at = item.after();
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (position(self.left), Some(position(self.left)))
    }
}

impl ExactSizeIterator for Items<'_> {}
impl FusedIterator for Items<'_> {}

/// Iterator over the members of an object, each name once.
#[derive(Clone)]
pub struct Members<'t> {
    slots: &'t [Slot],
    text: &'t str,
    at: u32,
    left: u32,
}

impl<'t> Members<'t> {
    /// The next member's name and the slot of the name.
    #[inline]
    pub(super) fn next_slots(&mut self) -> Option<(u32, Slot)> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let at = self.at;
            let name = *self.slots.get(position(at))?;
            self.at = self.slots.get(position(at.saturating_add(1)))?.link;
            if !name.has(NAME_REPEATED) {
                return Some((at, name));
            }
        }
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = (Str<'t>, Node<'t>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (_, name) = self.next_slots()?;
        let value = Node::at(self.slots, self.text, name.link)?;
        Some((name.literal(self.text), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (position(self.left), Some(position(self.left)))
    }
}

impl ExactSizeIterator for Members<'_> {}
impl FusedIterator for Members<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn with<R>(text: &str, see: impl FnOnce(Node<'_>) -> R) -> R {
        see(Tape::default().parse(text.as_bytes(), 64).unwrap())
    }

    #[test]
    fn each_kind_is_only_what_it_is() {
        for (text, kind) in [
            ("null", Kind::Null),
            ("true", Kind::Bool),
            ("false", Kind::Bool),
            ("-1e5", Kind::Number),
            ("0", Kind::Number),
            ("\"null\"", Kind::String),
            ("[]", Kind::Array),
            ("{}", Kind::Object),
        ] {
            with(&format!("\n {text}\t"), |node| {
                assert_eq!(node.kind(), kind);
                assert_eq!(node.raw(), text);
                assert_eq!(node.range(), 2..2 + text.len());
                assert_eq!(node.is_null(), kind == Kind::Null);
                assert_eq!(node.as_bool(), (kind == Kind::Bool).then_some(text == "true"));
                assert_eq!(node.as_number().map(Number::raw), (kind == Kind::Number).then_some(text));
                assert_eq!(node.as_str().map(Str::raw), (kind == Kind::String).then_some("null"));
                assert_eq!(node.items().map(|items| items.len()), (kind == Kind::Array).then_some(0));
                assert_eq!(node.members().map(|members| members.len()), (kind == Kind::Object).then_some(0));
                assert!(node.get("a").is_none());
                assert_eq!(format!("{node:?}"), text);
            });
        }
    }

    #[test]
    fn items_step_over_what_they_contain() {
        with(r#"[ [1,[2]] , {"a":[3],"b":4} , "x" , -5 ]"#, |node| {
            let items = node.items().unwrap();
            assert_eq!(items.len(), 4);
            let raw: Vec<_> = items.map(Node::raw).collect();
            assert_eq!(raw, ["[1,[2]]", r#"{"a":[3],"b":4}"#, "\"x\"", "-5"]);
        });
    }

    #[test]
    fn get_finds_the_last_value_under_any_spelling() {
        with(r#"{"a":1,"b":{"a":2},"\u0061":3,"c":null}"#, |node| {
            assert_eq!(node.get("a").unwrap().raw(), "3");
            assert_eq!(node.get("b").unwrap().get("a").unwrap().raw(), "2");
            assert!(node.get("c").unwrap().is_null());
            assert!(node.get("d").is_none() && node.get("").is_none());
        });
    }

    #[test]
    fn losslessness_reaches_every_value_that_counts() {
        for text in [
            "0",
            "1e308",
            "[]",
            r#"{"-0":[0,1.5,"-0"]}"#,
            "[0.0,-1]",
            r#"{"a":-0,"a":1}"#,
            r#"{"a":[1e400],"a":1,"a":2}"#,
        ] {
            assert!(with(text, |node| node.is_lossless()), "{text}");
        }
        for text in [
            "-0",
            "1e400",
            "[[[-0.0]]]",
            r#"{"a":{"b":[1,-1e-400]}}"#,
            r#"{"a":1,"a":[-0]}"#,
            r#"{"a":0,"a":1,"b":-0}"#,
        ] {
            assert!(!with(text, |node| node.is_lossless()), "{text}");
        }
    }

    #[test]
    fn losslessness_is_that_of_the_node_alone() {
        with("[-0,[1],-0]", |node| {
            let lossless: Vec<_> = node.items().unwrap().map(Node::is_lossless).collect();
            assert_eq!(lossless, [false, true, false]);
        });
    }
}
