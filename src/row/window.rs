//! The brackets in the last 64 bytes of a text, all found at once: one bit a byte.

/// Bytes that a window holds.
pub(super) const WINDOW_LEN: usize = 64;

/// Where the bracket opens that the last byte of `window` closes: its index, or `None` if it lies before the window.
///
/// `window` is the end of valid JSON text and ends in a closing bracket, outside any string. `Err` where a run of
/// backslashes that decides begins before the window.
#[inline]
pub(super) fn opening(window: &[u8; WINDOW_LEN]) -> Result<Option<usize>, Undecided> {
    let marks = marks(window);
    let quotes = if marks.may_escape { unescaped(marks.quotes, backslashes(window))? } else { marks.quotes };
    // Bit i: whether an odd number of quotes stands at or behind byte i, which then lies in a string.
    let mut inside = quotes;
    for shift in [1, 2, 4, 8, 16, 32] {
        inside ^= inside >> shift;
    }
    let mut brackets = marks.brackets & !inside;
    let mut depth = 0_u32;
    while brackets != 0 {
        let at = 63_u32.wrapping_sub(brackets.leading_zeros());
        brackets ^= 1_u64 << at;
        match window.get(at as usize) {
            Some(b'}' | b']') => depth = depth.wrapping_add(1), // at most 64
            Some(b'{' | b'[') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(Some(at as usize));
                }
            }
            // Looks alike in the marks.
            _ => {}
        }
    }
    Ok(None)
}

/// The window does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecided;

/// The quotes that no odd run of backslashes stands before.
#[cold]
fn unescaped(quotes: u64, backslashes: u64) -> Result<u64, Undecided> {
    let mut unescaped = quotes;
    let mut left = quotes & (backslashes << 1);
    while left != 0 {
        let at = left.trailing_zeros();
        let run = (backslashes << 64_u32.wrapping_sub(at)).leading_ones(); // `at` is 1 to 63
        if run >= at {
            return Err(Undecided);
        }
        if run & 1 == 1 {
            unescaped ^= 1 << at;
        }
        left &= left.wrapping_sub(1);
    }
    Ok(unescaped)
}

/// Which bytes of a window are what. Bit i stands for byte i.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    quotes: u64,
    /// All four brackets, and `Y`, `_`, `y` and 0x7f, which differ from them in bits that are left out.
    brackets: u64,
    /// There is a backslash; or there is not, and a byte above one was taken for it.
    may_escape: bool,
}

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes at a time.
#[inline]
fn marks(window: &[u8; WINDOW_LEN]) -> Marks {
    let mut marks = Marks::default();
    let mut escape = 0;
    for (eight, shift) in window.as_chunks::<8>().0.iter().zip([0, 8, 16, 24, 32, 40, 48, 56]) {
        let word = u64::from_le_bytes(*eight);
        marks.quotes |= zeros(word ^ each(b'"')) << shift;
        // `[`, `]`, `{` and `}` are 0x7f with these bits set.
        marks.brackets |= zeros((word | each(0x26)) ^ each(0x7f)) << shift;
        let differs = word ^ each(b'\\');
        escape |= differs.wrapping_sub(EACH) & !differs & HIGH;
    }
    marks.may_escape = escape != 0;
    marks
}

fn backslashes(window: &[u8; WINDOW_LEN]) -> u64 {
    let words = window.as_chunks::<8>().0.iter().zip([0, 8, 16, 24, 32, 40, 48, 56]);
    words.map(|(eight, shift)| zeros(u64::from_le_bytes(*eight) ^ each(b'\\')) << shift).fold(0, |a, b| a | b)
}

#[inline]
const fn each(byte: u8) -> u64 {
    EACH.wrapping_mul(byte as u64)
}

/// Which of the eight bytes are zero: bit k for byte k.
#[inline]
const fn zeros(word: u64) -> u64 {
    // The high bit of each byte that is zero, and no other bit: the additions carry nowhere.
    let zero = !((word & !HIGH).wrapping_add(!HIGH) | word | !HIGH);
    // Bit 8 k + 7 goes to bit 56 + k.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::lex::{self, Opening};

    #[test]
    fn each_byte_in_each_place_gets_its_mark() {
        for at in 0..WINDOW_LEN {
            for byte in 0..=u8::MAX {
                let mut window = [b'~'; WINDOW_LEN];
                window[at] = byte;
                let bit = |is: bool| u64::from(is) << at;
                let marks = marks(&window);
                assert_eq!(marks.quotes, bit(byte == b'"'), "{byte:#x} at {at}");
                assert_eq!(marks.brackets, bit(b"[]{}Y_y\x7f".contains(&byte)), "{byte:#x} at {at}");
                assert_eq!(backslashes(&window), bit(byte == b'\\'));
                assert!(marks.may_escape || byte != b'\\');
            }
        }
    }

    #[test]
    fn a_run_of_backslashes_from_before_the_window_is_not_guessed_at() {
        let mut window = [b' '; WINDOW_LEN];
        window[..4].copy_from_slice(b"\\\\\\\"");
        window[63] = b'}';
        assert_eq!(opening(&window), Err(Undecided));
        window[0] = b'{';
        assert_eq!(opening(&window), Ok(None), "the brace is in the string that the quote ends");
    }

    proptest! {
        /// The other way reads the text byte by byte, and to its start.
        #[test]
        fn windows_tell_what_the_whole_text_does(text in r#"([\[\]{}:,y_ ]|"([^\\"]|\\["\\n]){0,9}"){20,60}"#, close in "[}\\]]") {
            let text = format!("{text}{close}");
            prop_assume!(text.len() >= WINDOW_LEN);
            let window = text.as_bytes().last_chunk().unwrap();
            let expected = match lex::opening(text.as_bytes(), WINDOW_LEN) {
                Opening::At(at) => Some(at + WINDOW_LEN - text.len()),
                Opening::Beyond | Opening::Nowhere => None,
            };
            if let Ok(found) = opening(window) {
                prop_assert_eq!(found, expected);
            }
        }
    }
}
