//! A check of JSON in blocks of 64 bytes: fast, and sure of what it accepts, but it leaves much to the check of single bytes.

use super::masks::{BLOCK, Block, CONTROL_MAX, Strings, escapes_are_sound};

/// Whether `text`, which is well-formed UTF-8, surely is an object or an array without white space, nested no deeper than
/// `depth_max` and 64.
///
/// `false` says nothing: the text may be of a kind that this does not look into. Time O(bytes), no memory.
///
/// The grammar of JSON without white space is one of neighbours, but for two things: brackets have to match, and a colon stands in an
/// object only, behind each name. So which byte may follow which is decided for a whole block by shifted masks, and only brackets
/// and colons are looked at one by one. Between two of them an object has one comma or none.
pub(super) fn is_surely_compact(text: &[u8], depth_max: u32) -> bool {
    let mut walk = Walk { text, depth_max: depth_max.min(u64::BITS), ..Walk::default() };
    walk.before.due = 1;
    for start in (0..text.len()).step_by(BLOCK) {
        if !walk.block(start) {
            return false;
        }
    }
    walk.is_closed
}

/// What the block before left.
#[derive(Default)]
struct Walk<'a> {
    text: &'a [u8],
    depth_max: u32,
    strings: Strings,
    /// The last byte of the block before is inside a string.
    goes_on: bool,
    before: Before,
    /// Odd scalars that begin before this place are checked.
    checked_end: usize,
    /// Open brackets, innermost in bit 0: 1 for an object.
    nest: u64,
    depth: u32,
    /// The last bracket or colon.
    last: Last,
    /// Where it stands.
    last_at: usize,
    /// Commas behind it.
    commas: u32,
    /// The outermost bracket is closed, by the last byte.
    is_closed: bool,
}

/// What the last byte of the block before was: 1 if so.
#[derive(Default)]
struct Before {
    /// A quote that ends a string.
    quote: u64,
    /// A closing bracket.
    close: u64,
    /// An opening bracket.
    open: u64,
    /// A comma or a colon, behind which a value is due.
    due: u64,
    /// A part of a scalar.
    scalar: u64,
    /// A zero that begins a scalar.
    zero: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Open,
    Colon,
    Close,
}

/// `mask` moved to the byte behind; `before` is what the byte before the block was.
#[inline]
const fn behind(mask: u64, before: &mut u64) -> u64 {
    let moved = mask << 1 | *before;
    *before = mask >> 63;
    moved
}

impl Walk<'_> {
    /// Goes over the block that begins at `start`. `false` to give up.
    #[inline]
    fn block(&mut self, start: usize) -> bool {
        let block = Block::load(self.text, start, b' ');
        if block.has_at_most(CONTROL_MAX) {
            return false;
        }
        let valid = match self.text.len().wrapping_sub(start) {
            len @ ..BLOCK => !(u64::MAX << (len % BLOCK)),
            _ => u64::MAX,
        };
        let (quotes, backslashes) = (block.eq(b'"'), block.eq(b'\\'));
        let split = self.strings.next(quotes, backslashes);
        let outside = !(split.inside | split.close) & valid;
        let escaped = split.escaped & valid;
        // Most escapes are these three.
        if escaped != 0
            && !escapes_are_sound(self.text, start, escaped & !(quotes | backslashes | block.eq(b'n')))
        {
            return false;
        }
        let went_on = std::mem::replace(&mut self.goes_on, split.inside >> 63 == 1);
        if went_on && outside | split.close == 0 {
            // It lies inside a string that began before it, and has no tokens.
            return true;
        }
        let tokens = Tokens { inside: split.inside, closing: split.close, outside, valid };
        self.tokens(block, tokens, start)
    }

    /// Checks what follows what outside of strings.
    #[inline]
    fn tokens(&mut self, block: Block, of: Tokens, start: usize) -> bool {
        let Tokens { inside, closing, outside, valid } = of;
        let commas = block.eq(b',') & outside;
        let (mut digits, mut colons, mut opens, mut closes) = (0, 0, 0, 0);
        // Streams are long arrays of strings, and long arrays of numbers.
        if outside & !commas != 0 {
            digits = block.digits() & outside;
            if outside & !(commas | digits) != 0 {
                colons = block.eq(b':') & outside;
                opens = block.eq_with_bit_5(b'{') & outside;
                closes = block.eq_with_bit_5(b'}') & outside;
            }
        }
        let scalars = outside & !(commas | colons | opens | closes);

        let before = &mut self.before;
        // Inside a string behind something that is not: its opening quote.
        let begins = inside | opens | scalars;
        let behind_quote = behind(closing, &mut before.quote);
        let behind_close = behind(closes, &mut before.close);
        let behind_due = behind(commas | colons, &mut before.due);
        let behind_open = behind(opens, &mut before.open);
        let behind_scalar = behind(scalars, &mut before.scalar);
        let zeros = if digits == 0 { 0 } else { block.eq(b'0') & scalars & !behind_scalar };
        let behind_zero = behind(zeros, &mut before.zero);
        let wrong = (behind_quote | behind_close) & !(commas | closes | colons)
            | colons & !behind_quote
            | behind_due & !begins
            | behind_open & !(begins | closes)
            | behind_scalar & !(scalars | commas | closes)
            | behind_zero & digits;
        if wrong & valid != 0 {
            return false;
        }
        let odd = scalars & !digits;
        if odd != 0 && !self.odd_scalars_are_sound(odd, start) {
            return false;
        }
        if opens | closes | colons == 0 {
            self.commas = self.commas.saturating_add(commas.count_ones());
            // Nothing but brackets may stand at the top.
            return self.depth > 0;
        }
        self.brackets(opens, closes, colons, commas, start)
    }

    /// Checks every scalar that is more than digits.
    fn odd_scalars_are_sound(&mut self, mut odd: u64, start: usize) -> bool {
        while odd != 0 {
            let at = start.wrapping_add(odd.trailing_zeros() as usize);
            odd &= odd.wrapping_sub(1);
            if at < self.checked_end {
                continue;
            }
            let before = self.text.get(..at).unwrap_or_default();
            let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            let first = at.wrapping_sub(digits);
            let Some(len) = self.text.get(first..).and_then(super::check::scalar_len) else { return false };
            let end = first.wrapping_add(len);
            if !matches!(self.text.get(end), Some(b',' | b']' | b'}')) {
                return false;
            }
            self.checked_end = end;
        }
        true
    }

    /// Goes over brackets and colons, with the commas between them.
    #[inline]
    fn brackets(&mut self, opens: u64, closes: u64, colons: u64, commas: u64, start: usize) -> bool {
        let mut marks = opens | closes | colons;
        let mut seen = 0;
        while marks != 0 {
            let bit = marks & marks.wrapping_neg();
            let at = start.wrapping_add(marks.trailing_zeros() as usize);
            marks ^= bit;
            // Bits below the mark, and not below the one before.
            let until = bit.wrapping_sub(1);
            let between = self.commas.saturating_add((commas & until & !seen).count_ones());
            seen = until;
            let in_object = self.nest & 1 == 1;
            let is_sound = if colons & bit != 0 {
                let due = if self.last == Last::Open { 0 } else { 1 };
                self.last = Last::Colon;
                in_object && between == due
            } else if opens & bit != 0 {
                let is_due = !in_object || (self.last == Last::Colon && between == 0);
                let is_object = self.text.get(at) == Some(&b'{');
                let is_first = self.depth == 0 && at == 0;
                self.last = Last::Open;
                let is_due = is_due && (is_first || self.depth > 0) && self.depth < self.depth_max;
                self.nest = self.nest << 1 | u64::from(is_object);
                self.depth = self.depth.wrapping_add(1);
                is_due
            } else {
                let is_object = self.text.get(at) == Some(&b'}');
                let is_due = match self.last {
                    _ if !in_object => true,
                    Last::Open => at == self.last_at.wrapping_add(1),
                    Last::Colon | Last::Close => between == 0,
                };
                self.last = Last::Close;
                let is_open = self.depth > 0;
                self.nest >>= 1;
                self.depth = self.depth.wrapping_sub(u32::from(is_open));
                self.is_closed = self.depth == 0;
                is_due
                    && is_open
                    && is_object == in_object
                    && (!self.is_closed || at.wrapping_add(1) == self.text.len())
            };
            if !is_sound {
                return false;
            }
            self.last_at = at;
            self.commas = 0;
        }
        self.commas = self.commas.saturating_add((commas & !seen).count_ones());
        self.depth > 0 || self.is_closed
    }
}

/// Which bytes of a block are what.
struct Tokens {
    /// Of strings, opening quotes included.
    inside: u64,
    /// Quotes that end strings.
    closing: u64,
    outside: u64,
    /// Of the text.
    valid: u64,
}

#[cfg(test)]
mod tests {
    use super::super::check::check_singly;
    use super::*;
    use proptest::prelude::*;

    /// The check, held against the one that looks at single bytes.
    fn is_accepted(text: &str, depth_max: u32) -> bool {
        let is_sure = is_surely_compact(text.as_bytes(), depth_max);
        assert!(!is_sure || check_singly(text, depth_max).is_ok(), "{text}");
        is_sure
    }

    /// `text` with so many bytes before it in the same array that it begins at every place of a block.
    fn at_every_place(text: &str) -> impl Iterator<Item = String> {
        (0..=2 * BLOCK).map(move |len| format!("[\"{}\",{text}]", "~".repeat(len)))
    }

    #[test]
    fn compact_values_are_accepted_wherever_they_stand() {
        for text in [
            "{}",
            "[]",
            "[[],{}]",
            "{\"\":0}",
            "{\"a\":{\"b\":[]}}",
            "{\"a\":[],\"b\":{},\"c\":1}",
            "[1,-2,0,0.5,-0,1e9,true,false,null]",
            "[\"a\\\"b\",\"\\\\\",\"\\\\\\\"\",\"\\u00e9\\n\\/\"]",
            "{\"a\":\"b\",\"c\":\"d\",\"e\":[{\"f\":1},{\"g\":2}]}",
            "\"é\u{2028}{}[],:\"",
            "12345678901234567890",
            "[{\"a\":1},{\"a\":1}]",
            "\"a\"",
            "-1.5e-10",
            "null",
        ] {
            for text in at_every_place(text) {
                assert!(is_accepted(&text, 9), "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_json_is_never_accepted_wherever_it_stands() {
        for text in [
            "",
            ",",
            ":",
            "1,",
            ",1",
            "01",
            "1 2",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "nul",
            "truex",
            "tru",
            "True",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u00g0\"",
            "\"\\u00\"",
            "\"\t\"",
            "\"a\"b",
            "\"a\"\"b\"",
            "\"a\":1",
            "[",
            "]",
            "[1",
            "[1,]",
            "[,1]",
            "[1}",
            "{]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1",
            "{\"a\":1]",
            "{\"a\",1}",
            "{a:1}",
            "{1:1}",
            "{1}",
            "{,}",
            "{:1}",
            "{[]:1}",
            "{[]}",
            "{{}}",
            "{\"a\":1,2}",
            "{\"a\":1,\"b\"}",
            "{\"a\":1,\"b\",\"c\":2}",
            "{\"a\":\"b\":\"c\"}",
            "{\"a\":1,[2]}",
            "{\"a\":[1],[2]}",
            "{\"a\":[1],2}",
            "{\"a\":[1]\"b\":2}",
            "{\"a\":[1]:2}",
            "{\"a\":1 }",
            "[\\]",
            "[1\\,2]",
            "[00]",
            "[0\"\"]",
            "[1[]]",
            "[[]1]",
            "[[][]]",
            "[{}{}]",
            "{\"a\"\"b\":1}",
            "[1:2]",
            "{\"a\":1:2}",
            "\u{a0}",
            "--1",
            "1-1",
            "0x1",
        ] {
            for text in at_every_place(text) {
                assert!(!is_accepted(&text, 9), "{text}");
            }
        }
    }

    #[test]
    fn texts_end_with_their_last_bracket_and_begin_with_their_first() {
        for text in [
            "", "1", "\"a\"", "null", "{}{}", "{}1", "{},", "[]]", "1{}", "\"a\"[]", ",[]", ":[]", "[] ",
            " []", "{}\n",
        ] {
            assert!(!is_accepted(text, 9), "{text}");
        }
        assert!(is_accepted("{}", 1) && !is_accepted("[[]]", 1) && is_accepted("[[]]", 2));
        for depth in [63, 64, 65, 66] {
            let text = "[{\"a\":".repeat(depth / 2)
                + &"[]".repeat(depth % 2)
                + if depth % 2 == 0 { "1" } else { "" }
                + &"}]".repeat(depth / 2);
            assert_eq!(is_accepted(&text, 1000), depth <= 64, "{depth}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_accepted_that_single_bytes_refuse(
            text in r#"[\[{]([\[\]{}:,"\\/ 0-9eE+.\-nu]|"[^"\\]{0,4}"|,"[a-z]{1,9}":|"[a-z ]{30,70}"|true|null|\\n|\\u[dD][89aAc]00){0,40}[\]}]"#
        ) {
            is_accepted(&text, 100);
        }

        #[test]
        fn compact_text_is_accepted_and_with_any_byte_changed_judged_as_single_bytes_judge_it(
            value in value(), at: prop::sample::Index, byte: u8, cut: bool,
        ) {
            let text = value.to_string();
            assert!(is_accepted(&text, 64), "{text}");
            let mut bytes = text.into_bytes();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Ok(text) = str::from_utf8(&bytes) {
                is_accepted(text, 64);
            }
        }
    }

    /// Arrays and objects of all kinds of values.
    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (0_u8..20).prop_map(Into::into),
            (-1e9..1e9).prop_map(|number: f64| number.into()),
            ".{0,90}".prop_map(Into::into),
            "[a-z\\\\\"\n]{0,9}".prop_map(Into::into),
        ];
        let nested = leaf.prop_recursive(6, 200, 9, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..9).prop_map(serde_json::Value::from),
                prop::collection::btree_map(".{0,9}", inner, 0..9).prop_map(|map| map.into_iter().collect()),
            ]
        });
        prop::collection::vec(nested, 0..9).prop_map(serde_json::Value::from)
    }
}
