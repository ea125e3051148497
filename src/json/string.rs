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
    pub fn eq_str(self, other: &str) -> bool {
        match self.as_plain() {
            Some(plain) => plain == other,
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

    /// Appends the literal as `JSON.stringify` spells its value, quotes included.
    pub fn write_canonical(self, out: &mut Vec<u8>) {
        out.push(b'"');
        match self.as_plain() {
            Some(plain) => out.extend_from_slice(plain.as_bytes()),
            None => self.pieces().for_each(|piece| write_piece(out, piece)),
        }
        out.push(b'"');
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
