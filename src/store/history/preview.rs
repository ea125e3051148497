//! The beginning of a text, safe to show.

/// The first `chars_max` characters of a text that comes in pieces of UTF-16 code units, on one line: runs of blanks, line ends and
/// control characters are one blank, and what would turn the direction of what follows is left out. Longer texts end in `…`, which
/// counts. Half a pair is U+FFFD. Time O(what is shown and left out).
pub(super) fn preview(pieces: impl Iterator<Item = impl Iterator<Item = u16>>, chars_max: usize) -> String {
    let mut shown = String::new();
    let mut count = 0_usize;
    // Before the last character that fits: where the ellipsis goes if more comes.
    let mut cut = 0;
    for piece in pieces {
        let mut blank_due = count > 0;
        for char in char::decode_utf16(piece) {
            let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
            if char.is_whitespace() || char.is_control() {
                blank_due = count > 0;
                continue;
            }
            if is_unseen(char) {
                continue;
            }
            let blank = blank_due.then_some(' ');
            for char in blank.into_iter().chain([char]) {
                if count >= chars_max {
                    shown.truncate(cut);
                    if chars_max > 0 {
                        shown.push('…');
                    }
                    return shown;
                }
                cut = shown.len();
                shown.push(char);
                count = count.saturating_add(1);
            }
            blank_due = false;
        }
    }
    shown
}

/// Whether a character is not seen and changes what is: marks of direction, of interlinear notes, the byte order mark, and
/// the tags that carry text nobody reads.
fn is_unseen(char: char) -> bool {
    matches!(
        char,
        '\u{61c}'
            | '\u{200b}' | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&str], chars_max: usize) -> String {
        preview(pieces.iter().map(|piece| piece.encode_utf16()), chars_max)
    }

    #[test]
    fn a_preview_is_one_line_of_what_can_be_seen() {
        assert_eq!(of(&["  fix\r\n\tthe \u{1b}[31mbug\u{7}  "], 80), "fix the [31mbug");
        assert_eq!(of(&["one", "two", "", "three"], 80), "one two three");
        assert_eq!(of(&["a\u{202e}b\u{2066}c\u{feff}d\u{2028}e"], 80), "abcd e");
        assert_eq!(of(&[], 80), "");
        assert_eq!(preview([[0xd83d_u16].into_iter()].into_iter(), 80), "\u{fffd}");
    }

    #[test]
    fn a_preview_has_as_many_characters_as_it_may_and_says_that_there_is_more() {
        assert_eq!(of(&["abcdef"], 6), "abcdef");
        assert_eq!(of(&["abcdef\n\n"], 6), "abcdef");
        assert_eq!(of(&["abcdefg"], 6), "abcde…");
        assert_eq!(of(&["abcdef", "g"], 6), "abcde…");
        assert_eq!(of(&["😀😀😀"], 2), "😀…");
        assert_eq!(of(&["abc"], 1), "…");
        assert_eq!(of(&["abc"], 0), "");
        for max in 0..20 {
            assert!(of(&["word and words ", "more"], max).chars().count() <= max);
        }
    }
}
