//! Steps over JSON text that is known to be valid, without indexing it.
//!
//! Settlements are large and most questions concern a few members, so these functions find the end of a value by its
//! brackets and quotes alone. On text that is not JSON they return something or nothing, and never panic.

use super::fragment::Fragment;
use crate::json::masks::{BLOCK, Block, Strings};

/// The members of the object that `json` is, as written: repeated names repeat, and the last of them counts.
pub(super) struct Members<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// `None` if `json` is no object.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        let at = white_space(json.as_bytes(), 0);
        (json.as_bytes().get(at) == Some(&b'{')).then(|| Self { json, at: at.saturating_add(1) })
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Fragment<'a>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.json.as_bytes();
        let mut at = white_space(text, self.at);
        if text.get(at) == Some(&b',') {
            at = white_space(text, at.saturating_add(1));
        }
        let end = string_end(text, at)?;
        let name = string(self.json.get(at..end)?)?;
        let colon = white_space(text, end);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        let start = white_space(text, colon.saturating_add(1));
        let end = value_end(text, start)?;
        self.at = end;
        Some((name, self.json.get(start..end)?))
    }
}

/// The value of the member `name`, if `json` is an object that has one.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    Members::of(json)?.filter(|(other, _)| other.eq_str(name)).last().map(|(_, value)| value)
}

/// The values of the members `names`.
pub(crate) fn members<'a, const N: usize>(json: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut values = [None; N];
    for (name, value) in Members::of(json).into_iter().flatten() {
        if let Some(at) = names.iter().position(|other| name.eq_str(other))
            && let Some(slot) = values.get_mut(at)
        {
            *slot = Some(value);
        }
    }
    values
}

/// The items of the array that `json` is.
pub(super) struct Items<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Items<'a> {
    /// `None` if `json` is no array.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        let at = white_space(json.as_bytes(), 0);
        (json.as_bytes().get(at) == Some(&b'[')).then(|| Self { json, at: at.saturating_add(1) })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.json.as_bytes();
        let mut at = white_space(text, self.at);
        if text.get(at) == Some(&b',') {
            at = white_space(text, at.saturating_add(1));
        }
        let end = value_end(text, at)?;
        self.at = end;
        self.json.get(at..end)
    }
}

/// The body of the string that `json` is.
pub(super) fn string(json: &str) -> Option<Fragment<'_>> {
    json.strip_prefix('"')?.strip_suffix('"').map(Fragment::new)
}

/// Where the first byte at or after `at` is that is no JSON white space.
#[inline]
pub(super) fn white_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| matches!(**byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    at.saturating_add(blank)
}

/// The end of the value that starts at `at`, exclusive.
pub(super) fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => container_end(text, at),
        b',' | b':' | b'}' | b']' => None,
        _ => {
            let rest = text.get(at..)?;
            let is_end = |byte: &u8| matches!(*byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            Some(rest.iter().position(is_end).map_or(text.len(), |len| at.saturating_add(len)))
        }
    }
}

/// The end of the string literal that starts at `at`, exclusive.
pub(super) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at.saturating_add(1);
    loop {
        let rest = text.get(at..)?;
        let stop = memchr::memchr2(b'"', b'\\', rest)?;
        let after = at.saturating_add(stop).saturating_add(1);
        if rest.get(stop) == Some(&b'"') {
            return Some(after);
        }
        at = after.saturating_add(1);
    }
}

/// The end of the object or array that starts at `at`, exclusive.
fn container_end(text: &[u8], at: usize) -> Option<usize> {
    let mut strings = Strings::default();
    let mut depth: u64 = 0;
    let mut base = at;
    while base < text.len() {
        let block = Block::load(text, base, b' ');
        let split = strings.next(block.eq(b'"'), block.eq(b'\\'));
        let opens = (block.eq(b'{') | block.eq(b'[')) & !split.inside;
        let closes = (block.eq(b'}') | block.eq(b']')) & !split.inside;
        let (open_count, close_count) = (u64::from(opens.count_ones()), u64::from(closes.count_ones()));
        if close_count < depth {
            depth = depth.wrapping_add(open_count).wrapping_sub(close_count); // stays above 0
        } else {
            let mut rest = opens | closes;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                if opens >> bit & 1 == 1 {
                    depth = depth.wrapping_add(1);
                    continue;
                }
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(base.saturating_add(bit as usize).saturating_add(1));
                }
            }
        }
        base = base.saturating_add(BLOCK);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;
    use proptest::prelude::*;

    #[test]
    fn members_are_found_whatever_the_spelling() {
        let json = r#" { "a" : 1 , "b":[{"c":"}\"]"}] ,"\u0061":"last", "":null } "#;
        assert_eq!(member(json, "a"), Some("\"last\""));
        assert_eq!(member(json, "b"), Some(r#"[{"c":"}\"]"}]"#));
        assert_eq!(member(json, ""), Some("null"));
        assert_eq!(member(json, "c"), None);
        assert_eq!(members(json, ["", "x", "b"]).map(|value| value.is_some()), [true, false, true]);
        assert_eq!(member("[1]", "a"), None);
        assert_eq!(member("{}", "a"), None);
    }

    #[test]
    fn items_are_found_whatever_the_spelling() {
        let items = |json| Items::of(json).map(Iterator::collect::<Vec<_>>);
        assert_eq!(items(" [ 1 , [2,3],\"a,b\" ] "), Some(vec!["1", "[2,3]", "\"a,b\""]));
        assert_eq!(items("[]"), Some(vec![]));
        assert_eq!(items("{}"), None);
    }

    #[test]
    fn what_is_not_json_ends_nowhere() {
        for text in ["", "\"", "\"\\", "\"\\\"", "[", "{\"a\":", "[[]", "]", ",", "{\"]}"] {
            assert_eq!(value_end(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(value_end(b"1", 5), None);
    }

    #[test]
    fn a_container_ends_at_its_bracket_at_every_distance() {
        for len in 0..200 {
            for inner in [",\"]\"", ",[0]", ",\"\\\\\"", ",\"\\\"]\""] {
                let json = format!("[0{}]", inner.repeat(len));
                assert_eq!(value_end(format!("{json}, ]]").as_bytes(), 0), Some(json.len()));
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_json_ends_where_a_parser_says(json in r#"[\[{]{0,3}(("([^"\\]|\\["\\n])*"|[0-9]|null)[,:]?){0,40}[\]}]{0,3}"#) {
            let mut tape = Tape::default();
            if let Ok(node) = tape.parse(json.as_bytes(), 100) {
                prop_assert_eq!(value_end(node.raw().as_bytes(), 0), Some(node.raw().len()));
                if let Some(expected) = node.members() {
                    for (name, value) in expected {
                        let name = name.to_string_lossy();
                        prop_assert_eq!(member(&json, &name), Some(value.raw()));
                    }
                }
            }
        }
    }
}
