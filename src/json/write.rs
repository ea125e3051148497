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
