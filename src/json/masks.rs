//! 64 bytes of text at a time as bit masks: bit `i` says something about byte `i`.
//!
//! A fragment of a stream is some five bytes long. Code that looks at one fragment after the other spends its time on
//! mispredicted branches; masks find all quotes of a block at once.

use wide::u8x16;

/// Bytes that one mask describes.
pub(crate) const BLOCK: usize = 64;

/// Bytes of a lane, of which a block has four.
pub(crate) const LANE: usize = 16;

/// 16 bytes of a text.
#[derive(Clone, Copy)]
pub(crate) struct Lane(u8x16);

impl Lane {
    #[inline]
    pub(crate) fn new(bytes: &[u8; LANE]) -> Self {
        Self(u8x16::new(*bytes))
    }

    /// Which bytes end a plain run of a string: quotes, backslashes and control characters.
    #[inline]
    pub(crate) fn stops(self) -> u32 {
        self.are_stops().to_bitmask()
    }

    #[inline]
    fn are_stops(self) -> u8x16 {
        let (quote, backslash, control) =
            (u8x16::splat(b'"'), u8x16::splat(b'\\'), u8x16::splat(CONTROL_MAX));
        let Self(lane) = self;
        lane.simd_eq(quote) | lane.simd_eq(backslash) | lane.min(control).simd_eq(lane)
    }
}

/// 64 bytes of a text, classified on demand.
#[derive(Clone, Copy)]
pub(crate) struct Block([u8x16; 4]);

impl Block {
    /// The bytes of `text` from `at` on; `pad` stands for those after its end.
    #[inline]
    pub(crate) fn load(text: &[u8], at: usize, pad: u8) -> Self {
        let rest = text.get(at..).unwrap_or_default();
        match rest.first_chunk::<BLOCK>() {
            Some(bytes) => Self::new(bytes),
            None => Self::partial(rest, pad),
        }
    }

    /// 64 times `byte`.
    #[inline]
    pub(crate) fn splat(byte: u8) -> Self {
        Self([u8x16::splat(byte); 4])
    }

    #[cold]
    fn partial(rest: &[u8], pad: u8) -> Self {
        let mut bytes = [pad; BLOCK];
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        Self::new(&bytes)
    }

    #[inline]
    pub(crate) fn new(bytes: &[u8; BLOCK]) -> Self {
        let lane = |from: usize| {
            u8x16::new(
                *bytes.get(from..).and_then(<[u8]>::first_chunk).expect("four lanes of 16 in 64 bytes"),
            )
        };
        Self([lane(0), lane(16), lane(32), lane(48)])
    }

    /// Which bytes are `byte`.
    #[inline]
    pub(crate) fn eq(self, byte: u8) -> u64 {
        let byte = u8x16::splat(byte);
        self.mask(|lane| lane.simd_eq(byte))
    }

    /// Which bytes are `byte` when bit 5 of them is set.
    #[inline]
    pub(crate) fn eq_with_bit_5(self, byte: u8) -> u64 {
        let (byte, bit) = (u8x16::splat(byte), u8x16::splat(0x20));
        self.mask(|lane| (lane | bit).simd_eq(byte))
    }

    /// Which bytes are at most `byte`.
    #[inline]
    pub(crate) fn at_most(self, byte: u8) -> u64 {
        let byte = u8x16::splat(byte);
        self.mask(|lane| lane.min(byte).simd_eq(lane))
    }

    /// Which bytes end a plain run of a string, as [`Lane::stops`].
    #[inline]
    pub(crate) fn stops(self) -> u64 {
        let [a, b, c, d] = self.0.map(|lane| Lane(lane).are_stops());
        match (a | b | c | d).to_bitmask() {
            0 => 0,
            _ => Self([a, b, c, d]).mask(|lane| lane),
        }
    }

    /// Whether one of the bytes is at most `byte`.
    #[inline]
    pub(crate) fn has_at_most(self, byte: u8) -> bool {
        let [a, b, c, d] = self.0;
        let least = a.min(b).min(c.min(d));
        least.min(u8x16::splat(byte)).simd_eq(least).to_bitmask() != 0
    }

    /// The bytes at the same places of both blocks, the smaller ones.
    #[inline]
    pub(crate) fn min(self, other: Self) -> Self {
        let [a, b, c, d] = self.0;
        let [e, f, g, h] = other.0;
        Self([a.min(e), b.min(f), c.min(g), d.min(h)])
    }

    /// Which bytes are decimal digits.
    #[inline]
    pub(crate) fn digits(self) -> u64 {
        self.values().at_most(9)
    }

    /// Every byte minus `b'0'`, wrapping: what a digit stands for.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "lanes wrap")]
    fn values(self) -> Self {
        let zero = u8x16::splat(b'0');
        Self(self.0.map(|lane| lane - zero))
    }

    /// Byte `i` is the number that a digit at `i` ends, `tens` holding the bytes one earlier in the text. Right for
    /// numbers of one or two digits that follow something other than a digit. One byte more stands for no number.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "lanes wrap")]
    pub(crate) fn two_digit_numbers(self, tens: Self) -> [u8; BLOCK + 1] {
        let nine = u8x16::splat(9);
        let mut numbers = [0; BLOCK + 1];
        let lanes = self.values().0.into_iter().zip(tens.values().0);
        for (to, (ones, tens)) in numbers.chunks_exact_mut(16).zip(lanes) {
            let tens = tens & tens.min(nine).simd_eq(tens); // 0 where there is no digit
            let twice = tens + tens;
            let four = twice + twice;
            to.copy_from_slice(&(ones + four + four + twice).to_array());
        }
        numbers
    }

    #[inline]
    fn mask(self, test: impl Fn(u8x16) -> u8x16) -> u64 {
        let [a, b, c, d] = self.0.map(|lane| u64::from(test(lane).to_bitmask()));
        a | b << 16 | c << 32 | d << 48
    }
}

/// The last control character, none of which may stand in a string.
pub(crate) const CONTROL_MAX: u8 = 0x1f;

/// Whether what stands at the places `escaped` of the block at `base` may stand behind a backslash.
#[inline]
pub(crate) fn escapes_are_sound(text: &[u8], base: usize, mut escaped: u64) -> bool {
    while escaped != 0 {
        let at = base.saturating_add(escaped.trailing_zeros() as usize);
        escaped &= escaped.wrapping_sub(1);
        let is_sound = match text.get(at..) {
            Some([b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..]) => true,
            Some([b'u', digits @ ..]) => {
                digits.first_chunk::<4>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            }
            _ => false,
        };
        if !is_sound {
            return false;
        }
    }
    true
}

/// Bit `i` is the parity of the bits up to and including `i`.
#[inline]
pub(crate) fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// All bits below the lowest set bit of `bits`; all of them when none is set.
#[inline]
pub(crate) fn below_first(bits: u64) -> u64 {
    !bits & bits.wrapping_sub(1)
}

/// Tells the quotes that delimit strings from those inside, block after block of one text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Strings {
    escapes: Escaped,
    /// All ones when the next block begins inside a string.
    inside: u64,
}

/// What [`Strings`] finds in a block.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    /// Bytes of strings, opening quotes included, closing quotes not.
    pub(crate) inside: u64,
    /// Closing quotes.
    pub(crate) close: u64,
    /// Bytes that a backslash escapes.
    pub(crate) escaped: u64,
}

impl Strings {
    #[inline]
    pub(crate) fn next(&mut self, quote: u64, backslash: u64) -> Split {
        let escaped = self.escapes.next(backslash);
        let quote = quote & !escaped;
        let inside = prefix_xor(quote) ^ self.inside;
        self.inside = if inside >> 63 == 1 { u64::MAX } else { 0 };
        Split { inside, close: quote & !inside, escaped }
    }
}

/// Finds the bytes that a backslash escapes, block after block of one text that begins with no such byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Escaped {
    /// 1 when the next block's first byte is escaped.
    first: u64,
}

impl Escaped {
    /// In a run of backslashes every second one is escaped, and so is what follows a run of odd length. Adding at the
    /// start of each run lets the carry find its end, as simdjson does it.
    #[inline]
    pub(super) fn next(&mut self, backslash: u64) -> u64 {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let starts = backslash & !self.first;
        let codes = ((starts << 1 | ODD).wrapping_sub(starts)) ^ ODD;
        let escaped = codes ^ (backslash | self.first);
        self.first = (codes & backslash) >> 63;
        escaped
    }

    /// Whether the next block's first byte is escaped.
    #[inline]
    pub(super) fn is_next(self) -> bool {
        self.first == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(text: &[u8], test: impl Fn(u8) -> bool) -> u64 {
        text.iter().enumerate().fold(0, |mask, (at, byte)| mask | u64::from(test(*byte)) << at)
    }

    /// The same as [`Strings`], one byte after the other: (inside, closing, escaped).
    fn walk(text: &[u8]) -> Vec<(bool, bool, bool)> {
        let (mut inside, mut escaped) = (false, false);
        let mut out = Vec::new();
        for byte in text {
            let here = escaped;
            escaped = *byte == b'\\' && !here;
            let quote = *byte == b'"' && !here;
            let close = quote && inside;
            inside ^= quote;
            out.push((inside, close, here));
        }
        out
    }

    proptest! {
        #[test]
        fn classes_are_those_of_single_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..90) {
            let mut padded: Vec<u8> = bytes.get(at..).unwrap_or_default().to_vec();
            padded.resize(padded.len().max(BLOCK), b'x');
            let block = Block::load(&bytes, at, b'x');
            prop_assert_eq!(block.eq(b'"'), bits(&padded[..BLOCK], |byte| byte == b'"'));
            prop_assert_eq!(block.eq_with_bit_5(b'{'), bits(&padded[..BLOCK], |byte| byte == b'{' || byte == b'['));
            prop_assert_eq!(block.digits(), bits(&padded[..BLOCK], |byte| byte.is_ascii_digit()));
            prop_assert_eq!(block.at_most(0x1f), bits(&padded[..BLOCK], |byte| byte < 0x20));
            prop_assert_eq!(block.has_at_most(9), padded[..BLOCK].iter().any(|byte| *byte <= 9));
        }

        #[test]
        fn strings_are_split_as_by_a_byte_walk(text in r#"[\\"a]{0,300}"#) {
            let text = text.as_bytes();
            let mut strings = Strings::default();
            let expected = walk(text);
            for (block, expected) in expected.chunks(BLOCK).enumerate() {
                let bytes = Block::load(text, block * BLOCK, b' ');
                let split = strings.next(bytes.eq(b'"'), bytes.eq(b'\\'));
                for (bit, (inside, close, escaped)) in expected.iter().enumerate() {
                    prop_assert_eq!(split.inside >> bit & 1 == 1, *inside);
                    prop_assert_eq!(split.close >> bit & 1 == 1, *close);
                    prop_assert_eq!(split.escaped >> bit & 1 == 1, *escaped);
                }
            }
        }
    }

    #[test]
    fn numbers_of_one_and_two_digits_are_read_at_their_last_digit() {
        let mut text = b"[0,7,10,42,99,5,00".to_vec();
        text.resize(BLOCK + 1, b',');
        let numbers = Block::load(&text, 1, b',').two_digit_numbers(Block::load(&text, 0, b','));
        for (end, number) in [(0, 0), (2, 7), (5, 10), (8, 42), (11, 99), (13, 5), (16, 0)] {
            assert_eq!(numbers[end], number, "at {end}");
        }
    }

    #[test]
    fn bit_tricks_at_their_edges() {
        assert_eq!(below_first(0), u64::MAX);
        assert_eq!(below_first(1), 0);
        assert_eq!(below_first(1 << 63), u64::MAX >> 1);
        assert_eq!(below_first(0b1010_0000), 0b1_1111);
        assert_eq!(prefix_xor(0), 0);
        assert_eq!(prefix_xor(1), u64::MAX);
        assert_eq!(prefix_xor(0b1001_0010), 0b1000_1110 | !0xff);
    }
}
