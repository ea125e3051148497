use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::text::Text;
use super::write::write_piece;

/// A JSON string literal, borrowed from its text with its escapes as written.
///
/// Its value is a sequence of UTF-16 code units that may hold unpaired surrogates. Equality is by code units; order
/// is by code points, an unpaired surrogate counting as one, which is the byte order of [`Text`] and not the order of
/// JavaScript's `<`.
#[derive(Clone, Copy)]
pub struct Str<'t> {
    raw: &'t str,
    escapes: bool,
}

impl<'t> Str<'t> {
    /// `raw` is the body of a valid literal, and `escapes` says whether it has a backslash.
    pub(crate) fn new(raw: &'t str, escapes: bool) -> Self {
        Self { raw, escapes }
    }

    /// `body` is the body of a valid literal. Time O(bytes).
    pub(crate) fn of_body(body: &'t str) -> Self {
        Self { raw: body, escapes: memchr::memchr(b'\\', body.as_bytes()).is_some() }
    }

    /// Appends the body of the literal in the escapes of `JSON.stringify`; the quotes are the caller's.
    pub(crate) fn write_body(self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            write_piece(out, piece);
        }
    }

    /// Its exact text between the quotes, escapes intact.
    #[must_use]
    pub fn raw(self) -> &'t str {
        self.raw
    }

    /// Whether the text has an escape, so that it differs from the value.
    #[must_use]
    pub fn has_escapes(self) -> bool {
        self.escapes
    }

    /// Whether the value is the empty string.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// The value, when it has no escapes and can be borrowed. `None` says nothing about the value itself.
    #[must_use]
    pub fn as_plain(self) -> Option<&'t str> {
        (!self.escapes).then_some(self.raw)
    }

    /// The value's UTF-16 code units, in order.
    pub fn units(self) -> impl Iterator<Item = u16> + 't {
        Units::new(self.pieces())
    }

    /// Whether the value is `other`. Time O(bytes), nothing allocated.
    #[must_use]
    #[inline]
    pub fn eq_str(self, other: &str) -> bool {
        match self.as_plain() {
            Some(plain) => same(plain.as_bytes(), other.as_bytes()),
            // An escape is longer than what it stands for, so the literal is too.
            None => self.raw.len() > other.len() && self.units().eq(other.encode_utf16()),
        }
    }

    /// The value as an owned string; unpaired surrogates survive.
    #[must_use]
    pub fn to_text(self) -> Text {
        match self.as_plain() {
            Some(plain) => Text::from(plain),
            None => {
                let mut text = Text::with_capacity(self.raw.len());
                self.append_to(&mut text);
                text
            }
        }
    }

    /// Appends the value to `text`, joining a surrogate pair that the border splits.
    pub fn append_to(self, text: &mut Text) {
        for piece in self.pieces() {
            match piece {
                Piece::Run(run) => text.push_str(run),
                Piece::Char(char) => text.push(char),
                Piece::Half(unit) => text.push_unit(unit),
            }
        }
    }

    /// The value with every unpaired surrogate replaced by U+FFFD; borrowed when it has no escapes.
    #[must_use]
    pub fn to_string_lossy(self) -> Cow<'t, str> {
        match self.as_plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => {
                let mut string = String::with_capacity(self.raw.len());
                for piece in self.pieces() {
                    match piece {
                        Piece::Run(run) => string.push_str(run),
                        Piece::Char(char) => string.push(char),
                        Piece::Half(_) => string.push(char::REPLACEMENT_CHARACTER),
                    }
                }
                Cow::Owned(string)
            }
        }
    }

    /// Appends the value as the literal that `JSON.stringify` writes, quotes included.
    pub fn write_canonical(self, out: &mut Vec<u8>) {
        out.push(b'"');
        match self.as_plain() {
            Some(plain) => out.extend_from_slice(plain.as_bytes()),
            None => self.pieces().for_each(|piece| write_piece(out, piece)),
        }
        out.push(b'"');
    }

    /// The value in parts, escapes resolved. A pair of escapes that spells one character is one part.
    pub(super) fn pieces(self) -> Pieces<'t> {
        Pieces { rest: self.raw }
    }

    /// The value's code points, an unpaired surrogate counting as one.
    fn points(self) -> impl Iterator<Item = u32> + 't {
        self.pieces().flat_map(|piece| {
            let (run, point) = match piece {
                Piece::Run(run) => (run, None),
                Piece::Char(char) => ("", Some(u32::from(char))),
                Piece::Half(unit) => ("", Some(u32::from(unit))),
            };
            run.chars().map(u32::from).chain(point)
        })
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.escapes || other.escapes {
            self.raw == other.raw || self.units().eq(other.units())
        } else {
            self.raw == other.raw
        }
    }
}

impl Eq for Str<'_> {}

impl PartialEq<&str> for Str<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.eq_str(other)
    }
}

impl Ord for Str<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.escapes || other.escapes {
            self.points().cmp(other.points())
        } else {
            self.raw.cmp(other.raw) // UTF-8 sorts by code point
        }
    }
}

impl PartialOrd for Str<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.raw)
    }
}

/// Whether two texts are the same. Names are short: two loads that overlap see up to 16 bytes, where a call would take longer.
#[inline]
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        17.. => one == other,
        8.. => one.first_chunk::<8>() == other.first_chunk() && one.last_chunk::<8>() == other.last_chunk(),
        4.. => one.first_chunk::<4>() == other.first_chunk() && one.last_chunk::<4>() == other.last_chunk(),
        _ => one.iter().eq(other),
    }
}

/// A part of a string's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Text that stands for itself; not empty.
    Run(&'t str),
    /// What an escape, or a pair of them, stands for.
    Char(char),
    /// An unpaired surrogate.
    Half(u16),
}

/// Iterator over the parts of a literal's value.
#[derive(Clone, Debug)]
pub(super) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'t>> {
        let Some(escape) = self.rest.strip_prefix('\\') else {
            let len = memchr::memchr(b'\\', self.rest.as_bytes()).unwrap_or(self.rest.len());
            let (run, rest) = self.rest.split_at_checked(len)?;
            self.rest = rest;
            return (!run.is_empty()).then_some(Piece::Run(run));
        };
        let mut chars = escape.chars();
        let named = chars.next()?;
        self.rest = chars.as_str();
        let char = match named {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (unit, rest) = hex_unit(self.rest)?;
                self.rest = rest;
                return Some(self.unit(unit));
            }
            itself => itself,
        };
        Some(Piece::Char(char))
    }
}

impl<'t> Pieces<'t> {
    /// The part that starts with the escaped `unit`, taking the other half of a pair from what follows.
    fn unit(&mut self, unit: u16) -> Piece<'t> {
        if let Some(char) = char::from_u32(u32::from(unit)) {
            return Piece::Char(char);
        }
        let next = self.rest.strip_prefix("\\u").and_then(hex_unit);
        match next.map(|(low, rest)| (char::decode_utf16([unit, low]).next(), rest)) {
            Some((Some(Ok(char)), rest)) => {
                self.rest = rest;
                Piece::Char(char)
            }
            _ => Piece::Half(unit),
        }
    }
}

/// The unit that the first four bytes spell, and what follows them.
fn hex_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    u16::from_str_radix(digits, 16).ok().map(|unit| (unit, rest))
}

/// UTF-16 code units of parts.
pub(super) struct Units<'t, P> {
    pieces: P,
    run: std::str::EncodeUtf16<'t>,
    low: Option<u16>,
}

impl<'t, P: Iterator<Item = Piece<'t>>> Units<'t, P> {
    pub(super) fn new(pieces: P) -> Self {
        Self { pieces, run: "".encode_utf16(), low: None }
    }
}

impl<'t, P: Iterator<Item = Piece<'t>>> Iterator for Units<'t, P> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        loop {
            if let Some(unit) = self.run.next() {
                return Some(unit);
            }
            if let Some(low) = self.low.take() {
                return Some(low);
            }
            match self.pieces.next()? {
                Piece::Run(run) => self.run = run.encode_utf16(),
                Piece::Half(unit) => return Some(unit),
                Piece::Char(char) => {
                    let mut pair = [0; 2];
                    let mut units = char.encode_utf16(&mut pair).iter().copied();
                    let first = units.next();
                    self.low = units.next();
                    return first;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn str(raw: &str) -> Str<'_> {
        Str::new(raw, raw.contains('\\'))
    }

    #[test]
    fn plain_literals_are_borrowed() {
        let plain = str("né 😀");
        assert!(!plain.has_escapes());
        assert_eq!(plain.as_plain(), Some("né 😀"));
        assert_eq!(plain.raw(), "né 😀");
        assert!(matches!(plain.to_string_lossy(), Cow::Borrowed("né 😀")));
        assert_eq!(plain.units().collect::<Vec<_>>(), "né 😀".encode_utf16().collect::<Vec<_>>());
        assert!(plain.eq_str("né 😀") && !plain.eq_str("né") && !plain.eq_str(""));
        assert!(str("").is_empty() && str("").eq_str("") && str("").units().next().is_none());
    }

    #[test]
    fn escapes_stand_for_their_characters() {
        let all = str(r#"\"\\\/\b\f\n\r\t\u0041\u00E9\u20ac x"#);
        let value = "\"\\/\u{8}\u{c}\n\r\tAé€ x";
        assert!(all.has_escapes() && all.as_plain().is_none());
        assert!(all.eq_str(value));
        assert_eq!(all.to_string_lossy(), value);
        assert_eq!(all.to_text(), *value);
        assert_eq!(all, str(r#"\u0022\u005C/\u0008\u000c\u000a\u000D\u0009A\u00e9€\u0020x"#));
    }

    #[test]
    fn only_a_high_half_before_a_low_one_is_a_pair() {
        assert!(str(r"\ud83d\ude00").eq_str("😀"));
        for (raw, units, lossy) in [
            (r"\ud83d", vec![0xd83d], "\u{fffd}"),
            (r"\uDE00\uD83D", vec![0xde00, 0xd83d], "\u{fffd}\u{fffd}"),
            (r"\ud83d\ud83d\ude00", vec![0xd83d, 0xd83d, 0xde00], "\u{fffd}😀"),
            (r"\ud83dx\ude00", vec![0xd83d, 0x78, 0xde00], "\u{fffd}x\u{fffd}"),
            (r"\ud83d\n", vec![0xd83d, 0x0a], "\u{fffd}\n"),
            (r"\ud83d\u0041", vec![0xd83d, 0x41], "\u{fffd}A"),
            (r"\ud83d\\ude00", vec![0xd83d, 0x5c, 0x75, 0x64, 0x65, 0x30, 0x30], "\u{fffd}\\ude00"),
        ] {
            assert_eq!(str(raw).units().collect::<Vec<u16>>(), units, "{raw}");
            assert_eq!(str(raw).to_string_lossy(), lossy, "{raw}");
            assert_eq!(str(raw).to_text(), units.iter().copied().collect::<Text>(), "{raw}");
            assert!(!str(raw).eq_str(lossy), "{raw}");
        }
    }

    #[test]
    fn appending_joins_a_pair_over_the_border() {
        let mut text = str(r"a\ud83d").to_text();
        str(r"\ude00b").append_to(&mut text);
        assert_eq!(text.as_str(), Some("a😀b"));
    }

    #[test]
    fn order_does_not_depend_on_spelling() {
        let ascending = [
            "",
            "\\u0000",
            "a",
            "\\u0061a",
            "b",
            "é",
            "\\ud800",
            "\\udfff",
            "\u{ffff}",
            "\\ud83d\\ude00",
            "😁",
        ];
        for (left_at, left) in ascending.iter().enumerate() {
            for (right_at, right) in ascending.iter().enumerate() {
                assert_eq!(str(left).cmp(&str(right)), left_at.cmp(&right_at), "{left} {right}");
                assert_eq!(str(left) == str(right), left_at == right_at, "{left} {right}");
                assert_eq!(
                    str(left).to_text().cmp(&str(right).to_text()),
                    left_at.cmp(&right_at),
                    "{left} {right}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn serde_json_reads_the_same_value(raw in r#"([a-zé€😀 ]|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\ud83d\\ude0[0-9]){0,12}"#) {
            let value: String = serde_json::from_str(&format!("\"{raw}\"")).unwrap();
            prop_assert_eq!(str(&raw).to_string_lossy(), value.as_str());
            prop_assert!(str(&raw).eq_str(&value));
            let longer = value.clone() + "x";
            prop_assert!(!str(&raw).eq_str(&longer));
            prop_assert_eq!(str(&raw).to_text(), Text::from(value.as_str()));
            let mut out = Vec::new();
            super::super::write_string(&mut out, &value);
            let literal = std::str::from_utf8(&out).unwrap();
            prop_assert_eq!(str(&literal[1..literal.len() - 1]), str(&raw));
            let mut same = Vec::new();
            str(&raw).write_canonical(&mut same);
            prop_assert_eq!(same, out);
        }
    }
}
