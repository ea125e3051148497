use super::check::plain_len;
use super::string::Piece;
use super::text::Text;

/// Appends `s` as a JSON string literal, quotes included, in the escapes of `JSON.stringify`.
pub fn write_string(out: &mut Vec<u8>, s: &str) {
    out.push(b'"');
    write_run(out, s.as_bytes());
    out.push(b'"');
}

/// [`write_string`] for a string that may hold unpaired surrogates, which become `\udxxx` in lower case.
pub fn write_text(out: &mut Vec<u8>, t: &Text) {
    out.push(b'"');
    match t.as_str() {
        Some(string) => write_run(out, string.as_bytes()),
        None => t.pieces().for_each(|piece| write_piece(out, piece)),
    }
    out.push(b'"');
}

/// Appends ECMAScript's spelling of a double; `null` for infinities and NaN, `0` for -0, as `JSON.stringify` does.
pub fn write_number(out: &mut Vec<u8>, n: f64) {
    if n.is_finite() {
        out.extend_from_slice(ryu_js::Buffer::new().format_finite(n).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Appends an integer in decimal. JavaScript reads it back exactly up to a magnitude of 2^53 - 1.
pub fn write_i64(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    write_u64(out, n.unsigned_abs());
}

/// Appends an integer in decimal. JavaScript reads it back exactly up to 2^53 - 1.
pub fn write_u64(out: &mut Vec<u8>, n: u64) {
    let start = out.len();
    let mut rest = n;
    loop {
        // A remainder by ten is one byte.
        let [digit, ..] = (rest % 10).to_le_bytes();
        out.push(b'0' | digit);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.get_mut(start..).unwrap_or_default().reverse();
}

/// Appends a part of a string's value, escaped where it must be.
pub(super) fn write_piece(out: &mut Vec<u8>, piece: Piece<'_>) {
    match piece {
        Piece::Run(run) => write_run(out, run.as_bytes()),
        Piece::Char(char) => write_run(out, char.encode_utf8(&mut [0; 4]).as_bytes()),
        Piece::Half(unit) => write_unit_escape(out, unit),
    }
}

fn write_run(out: &mut Vec<u8>, mut run: &[u8]) {
    loop {
        let (plain, rest) = run.split_at_checked(plain_len(run)).unwrap_or_default();
        out.extend_from_slice(plain);
        let Some((special, rest)) = rest.split_first() else { return };
        match short_escape(*special) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => write_unit_escape(out, u16::from(*special)),
        }
        run = rest;
    }
}

/// The letter of the two-character escape of `byte`, if `JSON.stringify` has one for it.
pub(super) fn short_escape(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' => Some(byte),
        0x08 => Some(b'b'),
        0x09 => Some(b't'),
        0x0a => Some(b'n'),
        0x0c => Some(b'f'),
        0x0d => Some(b'r'),
        _ => None,
    }
}

fn write_unit_escape(out: &mut Vec<u8>, unit: u16) {
    let [low, high] = unit.to_le_bytes();
    let digit =
        |nibble: u8| if nibble < 10 { b'0' | nibble } else { b'a'.wrapping_add(nibble.wrapping_sub(10)) };
    let digits = [high >> 4, high & 15, low >> 4, low & 15].map(digit);
    out.extend_from_slice(b"\\u");
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap().strip_prefix("before ").unwrap().to_owned()
    }

    /// `(value, JSON.stringify(value))` as node 20 gives it.
    const STRINGS: &[(&str, &str)] = &[
        ("", r#""""#),
        ("plain text of some length", r#""plain text of some length""#),
        ("\"\\/", r#""\"\\/""#),
        ("\u{8}\t\n\u{c}\r", r#""\b\t\n\f\r""#),
        ("\0\u{1}\u{7}\u{b}\u{e}\u{1b}\u{1f} ", r#""\u0000\u0001\u0007\u000b\u000e\u001b\u001f ""#),
        ("\u{7f}\u{80}\u{2028}\u{2029}\u{feff}\u{ffff}", "\"\u{7f}\u{80}\u{2028}\u{2029}\u{feff}\u{ffff}\""),
        ("é\n😀", "\"é\\n😀\""),
    ];

    #[test]
    fn strings_have_the_escapes_of_json_stringify() {
        for (value, literal) in STRINGS {
            assert_eq!(written(|out| write_string(out, value)), *literal);
            assert_eq!(written(|out| write_text(out, &Text::from(*value))), *literal);
        }
    }

    #[test]
    fn unpaired_halves_are_escaped_in_lower_case() {
        let text: Text = [0x61, 0xdfff, 0xd800, 0x0a, 0xd83d, 0xde00, 0xdbff].into_iter().collect();
        assert_eq!(written(|out| write_text(out, &text)), "\"a\\udfff\\ud800\\n😀\\udbff\"");
    }

    #[test]
    fn numbers_are_spelled_as_javascript_spells_them() {
        for (value, spelling) in [
            (0.0, "0"),
            (-0.0, "0"),
            (f64::INFINITY, "null"),
            (f64::NEG_INFINITY, "null"),
            (f64::NAN, "null"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(written(|out| write_number(out, value)), spelling);
        }
    }

    #[test]
    fn integers_are_plain_decimal() {
        for n in [0, 9, 10, 99, 100, 9_007_199_254_740_991, u64::MAX] {
            assert_eq!(written(|out| write_u64(out, n)), n.to_string());
        }
        for n in [0, -1, 10, -10, i64::MAX, i64::MIN] {
            assert_eq!(written(|out| write_i64(out, n)), n.to_string());
        }
    }
}
