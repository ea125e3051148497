use super::node::{Kind, Node, kind_at};
use super::number::Number;
use super::string::{Piece, Str};
use super::tape::{COUNT, OBJECT_INDEXED, OBJECT_REPEATS, STRING_ODD, Slot, position};
use super::write::{short_escape, write_number};

/// Whether `node` is spelled as `JSON.stringify` spells it, judging objects with array-index names pessimistically.
pub(super) fn is_canonical(node: Node<'_>) -> bool {
    let (slots, text, at) = node.parts();
    let own = slots.get(position(at)..position(node.after())).unwrap_or_default();
    // The tokens and the punctuation between them fill the text exactly, unless there is white space.
    let mut len: usize = 0;
    for slot in own {
        let bytes = match kind_at(text, *slot) {
            kind @ (Kind::Array | Kind::Object) => {
                if kind == Kind::Object && slot.has(OBJECT_INDEXED | OBJECT_REPEATS) {
                    return false;
                }
                let count = position(slot.meta & COUNT);
                let colons = if kind == Kind::Object { count } else { 0 };
                count.saturating_sub(1).saturating_add(colons).saturating_add(2)
            }
            Kind::String => {
                if slot.has(STRING_ODD) && !is_canonical_literal(slot.literal(text)) {
                    return false;
                }
                position(slot.end.saturating_sub(slot.start))
            }
            kind => {
                if kind == Kind::Number && !Number::new(slot.raw(text)).is_canonical() {
                    return false;
                }
                position(slot.end.saturating_sub(slot.start))
            }
        };
        len = len.saturating_add(bytes);
    }
    len == node.raw().len()
}

/// Whether every escape of a literal is the one that `JSON.stringify` writes.
fn is_canonical_literal(literal: Str<'_>) -> bool {
    let raw = literal.raw();
    let mut len: usize = 0;
    for piece in literal.pieces() {
        let bytes = match piece {
            Piece::Run(run) => run.len(),
            Piece::Char(char) => match u8::try_from(char) {
                Ok(byte) if short_escape(byte).is_some() => 2,
                Ok(byte) if byte < 0x20 => 6,
                _ => return false,
            },
            Piece::Half(_) => 6,
        };
        // A spelling is never shorter than the canonical one. Where one is longer `len` falls behind for good.
        let end = len.saturating_add(bytes);
        let lower = |spelling: &str| !spelling.bytes().any(|byte| byte.is_ascii_uppercase());
        if bytes == 6 && !matches!(piece, Piece::Run(_)) && !raw.get(len..end).is_some_and(lower) {
            return false;
        }
        len = end;
    }
    len == raw.len()
}

pub(super) fn write(node: Node<'_>, out: &mut Vec<u8>) {
    if is_canonical(node) {
        out.extend_from_slice(node.raw().as_bytes());
    } else {
        Writer { node, out, open: Vec::new(), order: Vec::new() }.write();
    }
}

struct Writer<'t, 'o> {
    node: Node<'t>,
    out: &'o mut Vec<u8>,
    open: Vec<Open>,
    /// Slots of the names of the open objects that are written in another order than they stand, outermost first.
    order: Vec<u32>,
}

/// A container that is being written.
#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    /// Whether `next` and `base` are places in `Writer::order` instead of slots.
    ordered: bool,
    next: u32,
    left: u32,
    base: u32,
}

impl Writer<'_, '_> {
    fn write(&mut self) {
        let (.., root) = self.node.parts();
        self.value(root);
        while let Some(open) = self.open.last().copied() {
            match open.left.checked_sub(1) {
                Some(left) => self.element(open, left),
                None => {
                    self.out.push(if open.kind == Kind::Array { b']' } else { b'}' });
                    self.open.pop();
                    if open.ordered {
                        self.order.truncate(position(open.base));
                    }
                }
            }
        }
    }

    /// Writes the next item or member of the innermost container; `left` more follow it.
    fn element(&mut self, mut open: Open, left: u32) {
        if !matches!(self.out.last(), Some(b'[' | b'{')) {
            self.out.push(b',');
        }
        open.left = left;
        let value = if open.kind == Kind::Array {
            let value = open.next;
            open.next = self.slot(value).link;
            value
        } else {
            let name = if open.ordered {
                let name = self.order.get(position(open.next)).copied().unwrap_or_default();
                open.next = open.next.saturating_add(1);
                name
            } else {
                let name = open.next;
                open.next = self.slot(name.saturating_add(1)).link;
                name
            };
            let slot = self.slot(name);
            self.literal(slot);
            self.out.push(b':');
            slot.link
        };
        if let Some(last) = self.open.last_mut() {
            *last = open;
        }
        self.value(value);
    }

    /// Writes a scalar, or the opening bracket of a container.
    fn value(&mut self, at: u32) {
        let (_, text, _) = self.node.parts();
        let slot = self.slot(at);
        match kind_at(text, slot) {
            Kind::Null | Kind::Bool => self.out.extend_from_slice(slot.raw(text).as_bytes()),
            Kind::Number => write_number(self.out, Number::new(slot.raw(text)).value()),
            Kind::String => self.literal(slot),
            kind @ (Kind::Array | Kind::Object) => {
                self.out.push(if kind == Kind::Array { b'[' } else { b'{' });
                let mut open = Open {
                    kind,
                    ordered: false,
                    next: at.saturating_add(1),
                    left: slot.meta & COUNT,
                    base: 0,
                };
                if kind == Kind::Object && slot.has(OBJECT_INDEXED | OBJECT_REPEATS) {
                    open.base = u32::try_from(self.order.len()).expect("one for each name at most");
                    open.next = open.base;
                    open.ordered = true;
                    self.put_in_order(at);
                }
                self.open.push(open);
            }
        }
    }

    /// Appends the names of an object to `order`: array indexes ascending, then the others as they stand.
    fn put_in_order(&mut self, object: u32) {
        let (slots, text, _) = self.node.parts();
        let Some(mut members) = Node::at(slots, text, object).and_then(Node::members) else { return };
        let mut indexes = Vec::new();
        let base = self.order.len();
        while let Some((at, name)) = members.next_slots() {
            match array_index(name.literal(text)) {
                Some(index) => indexes.push((index, at)),
                None => self.order.push(at),
            }
        }
        indexes.sort_unstable();
        self.order.splice(base..base, indexes.into_iter().map(|(_, at)| at));
    }

    fn literal(&mut self, slot: Slot) {
        let (_, text, _) = self.node.parts();
        if slot.has(STRING_ODD) {
            slot.literal(text).write_canonical(self.out);
        } else {
            self.out.extend_from_slice(slot.raw(text).as_bytes());
        }
    }

    fn slot(&self, at: u32) -> Slot {
        let (slots, ..) = self.node.parts();
        *slots.get(position(at)).expect("links lead to slots of the same value")
    }
}

/// The array index that `name` is: a decimal integer in its canonical spelling, at most 2^32 - 2.
fn array_index(name: Str<'_>) -> Option<u32> {
    let name = name.to_string_lossy();
    let canonical =
        name.bytes().all(|byte| byte.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
    name.parse().ok().filter(|index| canonical && *index != u32::MAX)
}

#[cfg(test)]
mod tests {
    use crate::json::{Tape, check};
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        let mut tape = Tape::default();
        let node = tape.parse(text.as_bytes(), u32::MAX).unwrap();
        let mut out = b"before".to_vec();
        node.write_canonical(&mut out);
        let out = String::from_utf8(out).unwrap();
        let out = out.strip_prefix("before").unwrap();
        assert!(!node.is_canonical() || out == text.trim(), "{text}");
        out.to_owned()
    }

    /// `(text, JSON.stringify(JSON.parse(text)))` as node 20 gives it.
    const CASES: &[(&str, &str)] = &[
        (r#"[ 1 , 2.0 , { } ]"#, r#"[1,2,{}]"#),
        (r#" {"a" : 1 }"#, r#"{"a":1}"#),
        (r#"{"b":1,"a":2,"b":3}"#, r#"{"b":3,"a":2}"#),
        (r#"{"a":1,"\u0061":2,"b":0,"\u0062":[]}"#, r#"{"a":2,"b":[]}"#),
        (r#"{"b":1,"10":2,"9":3,"a":4,"0":5}"#, r#"{"0":5,"9":3,"10":2,"b":1,"a":4}"#),
        (r#"{"01":1,"1":2,"-1":3,"1.0":4,"+1":5," 1":6}"#, r#"{"1":2,"01":1,"-1":3,"1.0":4,"+1":5," 1":6}"#),
        (
            r#"{"4294967295":1,"4294967294":2,"a":3,"4294967293":4,"99999999999":5}"#,
            r#"{"4294967293":4,"4294967294":2,"4294967295":1,"a":3,"99999999999":5}"#,
        ),
        (r#"{"2":1,"\u0031":2,"2":3}"#, r#"{"1":2,"2":3}"#),
        (
            r#"{"__proto__":1,"constructor":2,"toJSON":3,"__proto__":4}"#,
            r#"{"__proto__":4,"constructor":2,"toJSON":3}"#,
        ),
        (r#"{"":1,"":2}"#, r#"{"":2}"#),
        (r#"-0"#, r#"0"#),
        (r#"[-0.0,1e400,-1e400,1e-400,-1e-400]"#, r#"[0,null,null,0,0]"#),
        (
            r#"[1E3,1e21,1e20,0.000001,0.0000001,123456789012345680001]"#,
            r#"[1000,1e+21,100000000000000000000,0.000001,1e-7,123456789012345680000]"#,
        ),
        (
            r#""\/\u0041\u00e9\u001F\u001f\u0008\u0022\u007f\u2028""#,
            "\"/Aé\\u001f\\u001f\\b\\\"\u{7f}\u{2028}\"",
        ),
        (r#""\ud83d\ude00\uD83D\uDE00""#, r#""😀😀""#),
        (r#""\uD83D x \ude00\uDE00\ud83d""#, r#""\ud83d x \ude00\ude00\ud83d""#),
        (r#""\\u0041\\\u0041""#, r#""\\u0041\\A""#),
        (r#"{"\n":"\n","\u000a":"\u000a"}"#, r#"{"\n":"\n"}"#),
        (
            r#"[[],[[]],{"a":{"2":{},"1":[{"1":1,"0":0}]}}]"#,
            r#"[[],[[]],{"a":{"1":[{"0":0,"1":1}],"2":{}}}]"#,
        ),
        (r#"{"a":{"x":1},"b":[1],"a":{"y":[-0]},"b":{"1":1,"0":0}}"#, r#"{"a":{"y":[0]},"b":{"0":0,"1":1}}"#),
        (r#""é😀""#, r#""é😀""#),
        (r#"{"1":-0,"0":{"1":[],"0":{}},"a":[]}"#, r#"{"0":{"0":{},"1":[]},"1":0,"a":[]}"#),
        (r#""\u001f\ud800\udfff""#, r#""\u001f𐏿""#),
        (r#""\u001F""#, r#""\u001f""#),
        (r#""\uD800""#, r#""\ud800""#),
        (r#"9007199254740993"#, r#"9007199254740992"#),
        (r#"0.1e1"#, r#"1"#),
    ];

    #[test]
    fn is_what_node_writes() {
        for (text, written) in CASES {
            assert_eq!(canonical(text), *written, "{text}");
            assert_eq!(canonical(written), *written, "{text}");
        }
    }

    #[test]
    fn a_canonical_text_is_known_as_one() {
        let known = |text: &str| Tape::default().parse(text.as_bytes(), 9).unwrap().is_canonical();
        for text in [
            "{}",
            "[]",
            "[1,2,[3,[]],{}]",
            r#"{"a":1,"b":[{"c":null},true,false]}"#,
            r#""\u001f\ud800\n\"\\ / é""#,
            "1e+21",
            "-1.5",
            r#"{"\n":"\\u0041"}"#,
            r#""\\\\""#,
        ] {
            assert!(known(text), "{text}");
        }
        for text in [
            "[1, 2]",
            "[ ]",
            r#"{"a" :1}"#,
            "1.0",
            "-0",
            "1e400",
            r#""\/""#,
            r#""\u001F""#,
            r#""\uD800""#,
            r#""\u000a""#,
            r#""\u005c""#,
            r#""\ud83d\ude00""#,
            r#"{"a":1,"a":1}"#,
            r#"{"\u0061":1}"#,
            r#"{"b":1,"0":1}"#,
        ] {
            assert!(!known(text), "{text}");
        }
        // Surrounding white space is not part of the value.
        assert!(known(" [1]\n"));
    }

    #[test]
    fn inner_values_are_written_alone() {
        let mut tape = Tape::default();
        let node = tape.parse(br#"[0,{"b":1, "0":[1.0]},{"a":"x"},"y"]"#, 9).unwrap();
        let written: Vec<_> = node
            .items()
            .unwrap()
            .map(|item| {
                let mut out = Vec::new();
                item.write_canonical(&mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(written, ["0", r#"{"0":[1],"b":1}"#, r#"{"a":"x"}"#, "\"y\""]);
    }

    #[test]
    fn depth_costs_no_stack() {
        const LEVELS: usize = 1_000_000;
        let text = "[{\"b\": [], \"0\":".repeat(LEVELS) + "1.0" + &"}]".repeat(LEVELS);
        let written = "[{\"0\":".repeat(LEVELS) + "1" + &",\"b\":[]}]".repeat(LEVELS);
        assert_eq!(canonical(&text), written);
    }

    #[test]
    fn a_million_index_names_are_sorted() {
        let object = |names: &mut dyn Iterator<Item = u32>| {
            let members: Vec<_> = names.map(|at| format!("\"{at}\":{at}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let written = object(&mut (0..1_000_000));
        assert_eq!(canonical(&object(&mut (0..1_000_000).rev())), written);
    }

    fn space() -> impl Strategy<Value = &'static str> {
        prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\r\n\t")]
    }

    fn literal() -> impl Strategy<Value = String> {
        r#""([a-c0-3é😀/]|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\u[dD][89abcdABCDef][0-9]{2}){0,4}""#
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            literal(),
            prop_oneof!["[abc]", "\\\\u006[1-3]", "[0-9]{1,2}", "42949672[0-9]{2}"]
                .prop_map(|body| format!("\"{body}\""))
        ]
    }

    /// Any JSON text, lone surrogates, repeated names and odd spellings included.
    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
            literal(),
        ];
        scalar.prop_recursive(5, 60, 6, |value| {
            prop_oneof![
                (proptest::collection::vec((space(), value.clone(), space()), 0..6), space()).prop_map(
                    |(items, pad)| {
                        let items: Vec<_> =
                            items.iter().map(|(left, item, right)| format!("{left}{item}{right}")).collect();
                        format!("[{}{pad}]", items.join(","))
                    }
                ),
                (proptest::collection::vec((space(), name(), space(), value), 0..6), space()).prop_map(
                    |(members, pad)| {
                        let members: Vec<_> = members
                            .iter()
                            .map(|(left, name, right, value)| {
                                format!("{left}{name}{right}:{left}{value}{right}")
                            })
                            .collect();
                        format!("{{{}{pad}}}", members.join(","))
                    }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_texts_are_fixed_points(text in json()) {
            prop_assert_eq!(check(text.as_bytes(), 6), Ok(()));
            let once = canonical(&text);
            prop_assert_eq!(canonical(&once), once.clone());
            let (mut one, mut other) = (Tape::default(), Tape::default());
            let (left, right) = (one.parse(text.as_bytes(), 6).unwrap(), other.parse(once.as_bytes(), 6).unwrap());
            // Only an infinity changes its value, to null.
            prop_assert!(left.deep_eq(right) || !left.is_lossless());
            prop_assert!(right.is_lossless());
        }

        #[test]
        fn serde_json_agrees_on_acceptance(text in json(), at in any::<prop::sample::Index>(), byte in "[\\[\\]{}\",:0-9eE+.a-]") {
            prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
            let (left, right) = text.split_at(text.floor_char_boundary(at.index(text.len())));
            let broken = left.to_owned() + &byte + right;
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&broken);
            prop_assert_eq!(check(broken.as_bytes(), 100).is_ok(), theirs.is_ok(), "{}", broken);
        }
    }
}
