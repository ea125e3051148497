use std::borrow::Cow;
use std::fmt;

use super::string::{Piece, Units};

/// An owned JavaScript string: UTF-16 code units, unpaired surrogates included.
///
/// Kept as WTF-8: UTF-8 in which an unpaired surrogate is encoded as a code point of its own, three bytes from
/// `ED A0 80` to `ED BF BF`. A high half followed by a low half never occurs, because every way to build a `Text`
/// joins the two; equal strings therefore have equal bytes. Order is the order of the bytes, which is that of code
/// points, not JavaScript's order of code units.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text {
    wtf8: Vec<u8>,
}

impl Text {
    /// An empty string; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { wtf8: Vec::new() }
    }

    /// An empty string with room for `bytes` bytes of WTF-8.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { wtf8: Vec::with_capacity(bytes) }
    }

    /// The WTF-8 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.wtf8
    }

    /// The string as UTF-8, or `None` when it holds an unpaired surrogate. Time O(bytes).
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        simdutf8::basic::from_utf8(&self.wtf8).ok()
    }

    /// The string with every unpaired surrogate replaced by U+FFFD.
    #[must_use]
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        match self.as_str() {
            Some(string) => Cow::Borrowed(string),
            None => {
                let mut string = String::with_capacity(self.wtf8.len());
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

    /// The UTF-16 code units, in order.
    pub fn units(&self) -> impl Iterator<Item = u16> + '_ {
        Units::new(self.pieces())
    }

    /// JavaScript's `length`: the number of UTF-16 code units. Time O(bytes).
    #[must_use]
    pub fn len_units(&self) -> usize {
        // One for each sequence, one more for each of four bytes.
        let units = |byte: &u8| usize::from(*byte & 0xc0 != 0x80).saturating_add(usize::from(*byte >= 0xf0));
        self.wtf8.iter().map(units).sum()
    }

    /// Whether there are no code units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wtf8.is_empty()
    }

    /// Forgets the string and keeps its memory.
    pub fn clear(&mut self) {
        self.wtf8.clear();
    }

    /// Appends a character.
    pub fn push(&mut self, char: char) {
        self.wtf8.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Appends a string.
    pub fn push_str(&mut self, string: &str) {
        self.wtf8.extend_from_slice(string.as_bytes());
    }

    /// Appends another string; a pair that the border splits becomes one character.
    pub fn push_text(&mut self, other: &Self) {
        match other.wtf8.split_first_chunk::<3>() {
            Some((first, rest)) if self.ends_in_high() && is_half(first) => {
                self.push_unit(half_unit(first));
                self.wtf8.extend_from_slice(rest);
            }
            _ => self.wtf8.extend_from_slice(&other.wtf8),
        }
    }

    /// Appends one code unit; a low half after a high one completes its character.
    pub fn push_unit(&mut self, unit: u16) {
        if let Some(char) = char::from_u32(u32::from(unit)) {
            return self.push(char);
        }
        if let Some((rest, last)) = self.wtf8.split_last_chunk::<3>()
            && is_half(last)
            && let Some(Ok(char)) = char::decode_utf16([half_unit(last), unit]).next()
        {
            self.wtf8.truncate(rest.len());
            return self.push(char);
        }
        let [low, high] = unit.to_le_bytes();
        self.wtf8.extend_from_slice(&[0xed, 0x80 | (high & 0x0f) << 2 | low >> 6, 0x80 | low & 0x3f]);
    }

    /// The string in parts, no [`Piece::Char`] among them.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> + '_ {
        TextPieces { rest: &self.wtf8 }
    }

    fn ends_in_high(&self) -> bool {
        matches!(self.wtf8.as_slice(), [.., 0xed, 0xa0..=0xaf, _])
    }
}

impl From<&str> for Text {
    fn from(string: &str) -> Self {
        Self::from(String::from(string))
    }
}

impl From<String> for Text {
    fn from(string: String) -> Self {
        Self { wtf8: string.into_bytes() }
    }
}

impl FromIterator<u16> for Text {
    fn from_iter<I: IntoIterator<Item = u16>>(units: I) -> Self {
        let mut text = Self::new();
        text.extend(units);
        text
    }
}

impl Extend<u16> for Text {
    fn extend<I: IntoIterator<Item = u16>>(&mut self, units: I) {
        for unit in units {
            self.push_unit(unit);
        }
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.wtf8 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for piece in self.pieces() {
            match piece {
                Piece::Run(run) => write!(f, "{}", run.escape_debug())?,
                Piece::Char(char) => write!(f, "{}", char.escape_debug())?,
                Piece::Half(unit) => write!(f, "\\u{{{unit:x}}}")?,
            }
        }
        f.write_str("\"")
    }
}

struct TextPieces<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TextPieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some((first, rest)) = self.rest.split_first_chunk::<3>()
            && is_half(first)
        {
            self.rest = rest;
            return Some(Piece::Half(half_unit(first)));
        }
        // Everything but surrogates is UTF-8, so a run ends before the next of them.
        let valid = match std::str::from_utf8(self.rest) {
            Ok(run) => run.len(),
            Err(fault) => fault.valid_up_to(),
        };
        let (run, rest) = self.rest.split_at_checked(valid)?;
        self.rest = rest;
        std::str::from_utf8(run).ok().filter(|run| !run.is_empty()).map(Piece::Run)
    }
}

fn is_half(bytes: &[u8; 3]) -> bool {
    matches!(bytes, [0xed, 0xa0..=0xbf, _])
}

/// The surrogate that three bytes encode.
fn half_unit(bytes: &[u8; 3]) -> u16 {
    let [_, middle, last] = *bytes;
    0xd000 | u16::from(middle & 0x3f) << 6 | u16::from(last & 0x3f)
}
