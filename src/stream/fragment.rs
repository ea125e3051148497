use std::fmt;

use crate::json::{Str, Text, check};

/// A string of a stream as JSON spells it, borrowed from between its quotes.
///
/// It is handed out without a look at its bytes: whoever wants the value asks for it. A fragment may begin or end in
/// the middle of a surrogate pair, which JSON then spells as `\ud83d` and the like; [`append_to`](Self::append_to)
/// joins such halves again.
#[derive(Clone, Copy)]
pub struct Fragment<'a>(&'a str);

impl<'a> Fragment<'a> {
    /// The string that `json` is, if it is a JSON string literal and nothing else. Time O(bytes).
    #[must_use]
    pub fn of_literal(json: &'a str) -> Option<Self> {
        let body = json.strip_prefix('"')?.strip_suffix('"')?;
        check(json.as_bytes(), 0).is_ok().then_some(Self(body))
    }

    /// `body` is the body of a valid string literal.
    #[inline]
    pub(crate) const fn new(body: &'a str) -> Self {
        Self(body)
    }

    /// Its exact text between the quotes, escapes intact.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> &'a str {
        self.0
    }

    /// Whether the value is the empty string.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The same as a JSON string, which knows whether it has escapes. Time O(bytes), as that has to be found out.
    #[must_use]
    pub fn to_str(self) -> Str<'a> {
        Str::of_body(self.0)
    }

    /// Whether the value is `other`.
    #[must_use]
    pub fn eq_str(self, other: &str) -> bool {
        if self.has_escapes() { self.to_str().eq_str(other) } else { self.0 == other }
    }

    /// Whether every code unit is white space to JavaScript; the empty string is blank.
    #[must_use]
    pub fn is_blank(self) -> bool {
        if self.has_escapes() { self.to_str().units().all(is_white_space) } else { is_blank(self.0) }
    }

    /// The value as an owned string.
    #[must_use]
    pub fn to_text(self) -> Text {
        self.to_str().to_text()
    }

    /// Appends the value to `text`, joining a surrogate pair that the border splits.
    pub fn append_to(self, text: &mut Text) {
        if self.has_escapes() { self.to_str().append_to(text) } else { text.push_str(self.0) }
    }

    /// Appends the string as a literal in the escapes of `JSON.stringify`.
    #[inline]
    pub fn write_literal(self, out: &mut Vec<u8>) {
        out.push(b'"');
        if self.has_escapes() {
            self.to_str().write_body(out);
        } else {
            out.extend_from_slice(self.0.as_bytes());
        }
        out.push(b'"');
    }

    #[inline]
    pub(super) fn has_escapes(self) -> bool {
        // Fragments are a few bytes long: a plain loop beats a call.
        self.0.bytes().any(|byte| byte == b'\\')
    }
}

/// Whether all of `text` is white space to JavaScript.
pub(super) fn is_blank(text: &str) -> bool {
    text.encode_utf16().all(is_white_space)
}

/// ECMAScript's white space and line terminators, which differ from the standard library's: U+FEFF is one, U+0085 not.
pub(super) const fn is_white_space(unit: u16) -> bool {
    matches!(
        unit,
        0x09..=0x0d
            | 0x20
            | 0xa0
            | 0x1680
            | 0x2000..=0x200a
            | 0x2028
            | 0x2029
            | 0x202f
            | 0x205f
            | 0x3000
            | 0xfeff
    )
}

impl PartialEq for Fragment<'_> {
    /// By code units.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.has_escapes() || other.has_escapes()) && self.to_str() == other.to_str()
    }
}

impl Eq for Fragment<'_> {}

impl fmt::Debug for Fragment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_a_string_as_a_whole() {
        assert_eq!(Fragment::of_literal(r#""a\ud83d\"""#).map(Fragment::raw), Some(r#"a\ud83d\""#));
        assert!(Fragment::of_literal("\"\"").is_some_and(Fragment::is_empty));
        for json in ["", "\"", "\"\\\"", "\"a\"b\"", "\"a\",\"b\"", " \"a\"", "\"\n\"", "\"\\x\"", "5", "a"] {
            assert_eq!(Fragment::of_literal(json), None, "{json}");
        }
    }

    #[test]
    fn values_are_compared_by_code_units() {
        let escaped = Fragment::new(r#"\u0061\"\u00e9"#);
        assert_eq!(escaped, Fragment::new(r#"a\"é"#));
        assert_ne!(escaped, Fragment::new("a"));
        assert!(escaped.eq_str("a\"é") && !escaped.eq_str(r#"\u0061\"\u00e9"#));
        assert!(Fragment::new("").eq_str("") && Fragment::new("").is_empty());
        assert!(!Fragment::new(r"\n").eq_str(r"\n") && Fragment::new(r"\n").eq_str("\n"));
    }

    #[test]
    fn halves_join_and_stay_apart_as_written() {
        let mut text = Text::new();
        Fragment::new(r"a\ud83d").append_to(&mut text);
        Fragment::new(r"\ude00b\udc00").append_to(&mut text);
        assert_eq!(text.units().collect::<Vec<_>>(), [0x61, 0xd83d, 0xde00, 0x62, 0xdc00]);
        let mut out = Vec::new();
        Fragment::new(r"\uD83D\uDE00\u0041\/\n\uDC00").write_literal(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"\u{1f600}A/\\n\\udc00\"");
    }

    #[test]
    fn blank_is_what_javascript_trims() {
        let blank =
            "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert!(is_blank(blank) && is_blank(""));
        for other in [
            '\u{85}', '\u{1c}', '\u{1f}', '\u{180e}', '\u{200b}', '\u{2060}', '\u{ad}', 'a', '\u{8}', '\u{e}',
        ] {
            assert!(!is_blank(&format!(" {other} ")), "{other:?}");
        }
        assert!(Fragment::new(r"\n\u0020\uFEFF").is_blank());
        assert!(!Fragment::new(r"\n\ud800").is_blank());
    }
}
