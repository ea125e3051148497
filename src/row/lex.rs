//! Steps over JSON text that has been checked. No grammar is checked here; on text that is not JSON the answers are
//! useless, but they come without a panic and in linear time.

use super::fault::Span;
use crate::json::{Number, Str};

/// The members of an object in the order of the text, duplicates included.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    text: &'a str,
    at: usize,
}

/// One member as spelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawMember<'a> {
    /// The name between its quotes, escapes intact.
    pub(crate) name: &'a str,
    /// Where the name stands in the text that the walk started with.
    pub(crate) span: Span,
    /// The text of the value, without white space around it.
    pub(crate) value: &'a str,
}

impl RawMember<'_> {
    /// Whether its name is `name`, however spelled.
    pub(crate) fn is(&self, name: &str) -> bool {
        literal(self.name).eq_str(name)
    }
}

impl<'a> Members<'a> {
    /// The members of `text`, or `None` when its first byte after white space is not a brace.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let at = skip_white(text.as_bytes(), 0);
        (text.as_bytes().get(at) == Some(&b'{')).then_some(Self { text, at: at.saturating_add(1) })
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = RawMember<'a>;

    fn next(&mut self) -> Option<RawMember<'a>> {
        let bytes = self.text.as_bytes();
        let mut at = skip_white(bytes, self.at);
        if bytes.get(at) == Some(&b',') {
            at = skip_white(bytes, at.saturating_add(1));
        }
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let start = at.saturating_add(1);
        let end = string_end(bytes, start)?;
        let colon = skip_white(bytes, end.saturating_add(1));
        let value_at = skip_white(bytes, colon.saturating_add(1));
        let value_end = value_end(bytes, value_at)?;
        self.at = value_end;
        Some(RawMember {
            name: self.text.get(start..end)?,
            span: Span { start, end },
            value: self.text.get(value_at..value_end)?,
        })
    }
}

/// The elements of an array in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Items<'a> {
    /// The elements of `text`, or `None` when its first byte after white space is not a bracket.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let at = skip_white(text.as_bytes(), 0);
        (text.as_bytes().get(at) == Some(&b'[')).then_some(Self { text, at: at.saturating_add(1) })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let mut at = skip_white(bytes, self.at);
        match bytes.get(at) {
            None | Some(b']') => return None,
            Some(b',') => at = skip_white(bytes, at.saturating_add(1)),
            Some(_) => {}
        }
        let end = value_end(bytes, at)?;
        self.at = end;
        self.text.get(at..end)
    }
}

/// The string that `value` is, or `None` when it is another kind of value.
#[inline]
pub(crate) fn string(value: &str) -> Option<Str<'_>> {
    value.strip_prefix('"')?.strip_suffix('"').map(literal)
}

/// The string whose text between the quotes is `raw`.
#[inline]
pub(crate) fn literal(raw: &str) -> Str<'_> {
    Str::new(raw, memchr::memchr(b'\\', raw.as_bytes()).is_some())
}

/// The number that `value` is, if it is an integer from 0 to 2^53 - 1.
#[inline]
pub(crate) fn count(value: &str) -> Option<u64> {
    number(value)?.as_count()
}

/// The number that `value` is, if it is an integer of magnitude at most 2^53 - 1 and not -0.
#[inline]
pub(crate) fn safe_integer(value: &str) -> Option<i64> {
    number(value)?.as_safe_integer()
}

/// The number that `value` is, or `None` when it is another kind of value.
#[inline]
pub(crate) fn number(value: &str) -> Option<Number<'_>> {
    matches!(value.as_bytes().first(), Some(b'-' | b'0'..=b'9')).then(|| Number::new(value))
}

/// Where the array or object starts whose closing bracket is the last byte of `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// At this byte.
    At(usize),
    /// Before the last `window` bytes.
    Beyond,
    /// Nowhere: `text` does not end in a closing bracket, or has no bracket to match it.
    Nowhere,
}

/// Finds the opening bracket that belongs to the last byte of `text`, reading backwards.
///
/// Sound on the end of valid JSON text: a quote met outside a string closes one, and inside a string every quote follows
/// an odd number of backslashes, so the first that follows an even number opens it. Reads at most `window` bytes back,
/// and never further than the bracket.
pub(crate) fn opening(text: &[u8], window: usize) -> Opening {
    let low = text.len().saturating_sub(window);
    if !matches!(text.last(), Some(b'}' | b']')) {
        return Opening::Nowhere;
    }
    let beyond = if low == 0 { Opening::Nowhere } else { Opening::Beyond };
    let mut depth = 0_usize;
    let mut end = text.len();
    while let Some((&byte, before)) = text.get(low..end).and_then(<[u8]>::split_last) {
        end = low.saturating_add(before.len());
        match byte {
            b'}' | b']' => depth = depth.saturating_add(1),
            b'{' | b'[' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Opening::At(end);
                }
            }
            b'"' => match string_start(text, low, end) {
                Some(start) => end = start,
                None => return beyond,
            },
            _ => {}
        }
    }
    beyond
}

/// The opening quote of the string whose closing quote stands at `close`, not before `low`.
#[inline]
fn string_start(text: &[u8], low: usize, close: usize) -> Option<usize> {
    let mut end = close;
    loop {
        // Within a short window the byte loop finds a quote before a vector search has begun.
        let before = text.get(low..end)?;
        let quote = low.saturating_add(match before.len() {
            0..=64 => before.iter().rposition(|&byte| byte == b'"')?,
            _ => memchr::memrchr(b'"', before)?,
        });
        let backslashes = text.get(..quote)?.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes & 1 == 0 {
            return Some(quote);
        }
        end = quote;
    }
}

/// The place of the next byte at or after `at` that is not white space, or the text's end.
#[inline]
fn skip_white(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let white = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
    at.saturating_add(white)
}

/// The place of the quote that closes the string whose content starts at `start`.
#[inline]
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        let found = at.saturating_add(memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?);
        if bytes.get(found) == Some(&b'"') {
            return Some(found);
        }
        at = found.saturating_add(2);
    }
}

/// One past the last byte of the value that starts at `start`.
#[inline]
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => Some(string_end(bytes, start.saturating_add(1))?.saturating_add(1)),
        b'{' | b'[' => container_end(bytes, start),
        _ => {
            let rest = bytes.get(start..)?;
            let len = rest
                .iter()
                .take_while(|byte| !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n'));
            Some(start.saturating_add(len.count()))
        }
    }
}

fn container_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at.saturating_add(1))?,
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at.saturating_add(1));
                }
            }
            _ => {}
        }
        at = at.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_as_spelled_with_duplicates_and_white_space() {
        let text = " { \"a\\\"b\" : [1, {\"x\":\"}\"}] ,\"c\":\"]\\\\\", \"c\":-1e5\t}  ";
        let got: Vec<_> =
            Members::of(text).unwrap().map(|m| (m.name, m.value, m.span.of(text.as_bytes()))).collect();
        assert_eq!(
            got,
            [("a\\\"b", "[1, {\"x\":\"}\"}]", &b"a\\\"b"[..]), ("c", "\"]\\\\\"", b"c"), ("c", "-1e5", b"c")]
        );
        assert_eq!(Members::of("{}").unwrap().count(), 0);
        assert!(Members::of("[]").is_none());
    }

    #[test]
    fn items_come_as_spelled() {
        let got: Vec<_> = Items::of("[ 1,\"a,]\" , [2,[3]],{},null ]").unwrap().collect();
        assert_eq!(got, ["1", "\"a,]\"", "[2,[3]]", "{}", "null"]);
        assert_eq!(Items::of("[]").unwrap().count(), 0);
        assert!(Items::of("{}").is_none());
    }

    #[test]
    fn the_opening_bracket_is_found_past_strings_that_look_like_structure() {
        for (text, at) in [
            (r#"{"a":1}"#, 0),
            (r#"{"a":"}"}"#, 0),
            (r#"x{"a":"\"}{"}"#, 1),
            (r#"{"a":{"b":"\\"}}"#, 0),
            (r#"{"a":1},"zzz":{"b":[{}]}"#, 14),
            (r#"{"a":"\\\"{","b":[]}"#, 0),
        ] {
            assert_eq!(opening(text.as_bytes(), usize::MAX), Opening::At(at), "{text}");
        }
        assert_eq!(opening(b"{\"a\":[1]}", 5), Opening::Beyond);
        assert_eq!(opening(b"{\"a\":\"0123456789\"}", 5), Opening::Beyond);
        assert_eq!(opening(b"1}", usize::MAX), Opening::Nowhere);
        assert_eq!(opening(b"\"}", usize::MAX), Opening::Nowhere);
        assert_eq!(opening(b"12", usize::MAX), Opening::Nowhere);
        assert_eq!(opening(b"", usize::MAX), Opening::Nowhere);
    }
}
