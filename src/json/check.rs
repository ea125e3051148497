use super::compact::is_surely_compact;
use super::error::{SyntaxError, SyntaxErrorKind};
use super::masks::{BLOCK, Block, CONTROL_MAX, Escaped, LANE, Lane, below_first};

/// Succeeds when `text` is exactly one JSON value, with white space around it or not.
///
/// `depth_max` is the most open brackets at any place: 0 allows only a scalar. Iterative; one bit of memory a level,
/// on the stack up to 576 levels, beyond them on the heap. Time O(bytes). Numbers are checked for form, not size.
///
/// # Errors
/// The first [`SyntaxError`] in the text, except that ill-formed UTF-8 anywhere comes before any fault of grammar.
///
/// Spec: RFC 8259 section 2; ECMA-262 "JSON.parse".
pub fn check(text: &[u8], depth_max: u32) -> Result<(), SyntaxError> {
    check_str(utf8(text)?, depth_max)
}

/// [`check`] of a text that is known to be UTF-8, which is then not checked again.
///
/// # Errors
/// The first [`SyntaxError`] in the text.
pub fn check_str(text: &str, depth_max: u32) -> Result<(), SyntaxError> {
    if text.len() >= COMPACT_MIN && is_surely_compact(text.as_bytes(), depth_max) {
        return Ok(());
    }
    check_singly(text, depth_max)
}

/// Shorter texts are checked sooner byte by byte than in blocks.
const COMPACT_MIN: usize = 48;

/// [`check_str`] without a look at blocks.
pub(super) fn check_singly(text: &str, depth_max: u32) -> Result<(), SyntaxError> {
    scan(text.as_bytes(), depth_max, &mut Ignore)
}

/// Length of the number or the literal name that `text` begins with, if it does.
pub(super) fn scalar_len(text: &[u8]) -> Option<usize> {
    let mut cursor = Cursor { text, at: 0 };
    match *text.first()? {
        b'-' | b'0'..=b'9' => cursor.number(),
        b't' => cursor.word(b"true", &mut Ignore),
        b'f' => cursor.word(b"false", &mut Ignore),
        b'n' => cursor.word(b"null", &mut Ignore),
        _ => return None,
    }
    .ok()?;
    Some(cursor.at)
}

/// `text` as a string slice, or the place of its first ill-formed sequence.
pub(super) fn utf8(text: &[u8]) -> Result<&str, SyntaxError> {
    simdutf8::basic::from_utf8(text).or_else(|_| {
        // The fast check does not say where; the standard library's does.
        std::str::from_utf8(text).map_err(|fault| SyntaxErrorKind::NotUtf8.at(fault.valid_up_to()))
    })
}

/// Receives the tokens of a text in order. Offsets are bytes from the start of the text, ends exclusive.
///
/// Tokens of a text that turns out to be malformed have been received up to the fault.
pub(super) trait Sink {
    fn open(&mut self, start: usize);
    fn close(&mut self, end: usize, object: bool);
    /// A member name, quotes included.
    fn name(&mut self, start: usize, end: usize, escapes: Escapes);
    /// A string value, quotes included.
    fn string(&mut self, start: usize, end: usize, escapes: Escapes);
    /// A number, `true`, `false` or `null`.
    fn atom(&mut self, start: usize, end: usize);
}

/// Which escapes a string literal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Escapes {
    None,
    /// Only two-character escapes that `JSON.stringify` would write too.
    Short,
    /// At least one `\/` or `\u`, which it may or may not write so.
    Odd,
}

struct Ignore;

impl Sink for Ignore {
    fn open(&mut self, _: usize) {}
    fn close(&mut self, _: usize, _: bool) {}
    fn name(&mut self, _: usize, _: usize, _: Escapes) {}
    fn string(&mut self, _: usize, _: usize, _: Escapes) {}
    fn atom(&mut self, _: usize, _: usize) {}
}

/// Walks the grammar over `text`, which is well-formed UTF-8.
pub(super) fn scan<S: Sink>(text: &[u8], depth_max: u32, sink: &mut S) -> Result<(), SyntaxError> {
    let mut cursor = Cursor { text, at: 0 };
    let mut nest = Nest::new(depth_max);
    loop {
        // A value is due.
        let first = cursor.token()?;
        let start = cursor.at;
        match first {
            b'"' => {
                let escapes = cursor.string()?;
                sink.string(start, cursor.at, escapes);
            }
            b'{' => {
                nest.push(true, start)?;
                sink.open(start);
                cursor.skip(1);
                if cursor.token()? != b'}' {
                    cursor.name(sink)?;
                    continue;
                }
            }
            b'[' => {
                nest.push(false, start)?;
                sink.open(start);
                cursor.skip(1);
                if cursor.token()? != b']' {
                    continue;
                }
            }
            b'-' | b'0'..=b'9' => {
                cursor.number()?;
                sink.atom(start, cursor.at);
            }
            b't' => cursor.word(b"true", sink)?,
            b'f' => cursor.word(b"false", sink)?,
            b'n' => cursor.word(b"null", sink)?,
            _ => return Err(SyntaxErrorKind::Unexpected.at(start)),
        }
        // A value is complete, or a container has just opened and its closing bracket is next.
        loop {
            if nest.depth == 0 {
                return cursor.end();
            }
            let object = nest.is_object();
            if !object {
                cursor.plain_elements(sink);
            }
            match cursor.token()? {
                b',' => {
                    cursor.skip(1);
                    if object {
                        cursor.token()?;
                        cursor.name(sink)?;
                    }
                    break;
                }
                b'}' if object => {}
                b']' if !object => {}
                _ => return Err(SyntaxErrorKind::Unexpected.at(cursor.at)),
            }
            cursor.skip(1);
            nest.pop();
            sink.close(cursor.at, object);
        }
    }
}

/// A place in a text. `at` never passes the end of `text`, so that adding to it cannot wrap.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Moves over `bytes` bytes that the caller has seen.
    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.at = self.at.wrapping_add(bytes);
    }

    /// The next byte that is not white space, not consumed.
    #[inline]
    fn token(&mut self) -> Result<u8, SyntaxError> {
        loop {
            match self.peek() {
                Some(byte) if byte > b' ' => return Ok(byte),
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.skip(1),
                Some(byte) => return Ok(byte),
                None => return Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
            }
        }
    }

    /// Nothing but white space may follow.
    fn end(&mut self) -> Result<(), SyntaxError> {
        match self.token() {
            Ok(_) => Err(SyntaxErrorKind::Trailing.at(self.at)),
            Err(_) => Ok(()),
        }
    }

    /// Elements of an array that are a short string or a short count right behind a comma, as many as there are: streams
    /// are arrays of thousands. Whatever is spelled otherwise, or wrong, is left for the way that all values go.
    #[inline]
    fn plain_elements<S: Sink>(&mut self, sink: &mut S) {
        while let Some((&[b',', first, ref word @ ..], _)) =
            self.text.get(self.at..).and_then(<[u8]>::split_first_chunk::<10>)
        {
            let start = self.at.wrapping_add(1);
            let word = u64::from_le_bytes(*word);
            if first == b'"' {
                let stops = stops(word);
                // The first byte that is not plain has to be the closing quote.
                let bits = stops.trailing_zeros() & !7;
                if stops == 0 || (word >> bits) & 0xff != u64::from(b'"') {
                    return;
                }
                self.at = start.wrapping_add((bits / 8) as usize).wrapping_add(2);
                sink.string(start, self.at, Escapes::None);
            } else {
                // A digit, then up to seven more, then what ends an element.
                let others = not_digits(word);
                let bits = others.trailing_zeros() & !7;
                let is_count = first.wrapping_sub(b'1') < 9 || (first == b'0' && bits == 0);
                if !is_count || others == 0 || !matches!((word >> bits) & 0xff, 0x2c | 0x5d) {
                    return;
                }
                self.at = start.wrapping_add((bits / 8) as usize).wrapping_add(1);
                sink.atom(start, self.at);
            }
        }
    }

    /// A member name and its colon; the next byte exists and is no white space.
    #[inline]
    fn name<S: Sink>(&mut self, sink: &mut S) -> Result<(), SyntaxError> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(SyntaxErrorKind::Unexpected.at(start));
        }
        let escapes = self.string()?;
        sink.name(start, self.at, escapes);
        if self.token()? != b':' {
            return Err(SyntaxErrorKind::Unexpected.at(self.at));
        }
        self.skip(1);
        Ok(())
    }

    /// A string literal; its opening quote is the next byte.
    #[inline]
    fn string(&mut self) -> Result<Escapes, SyntaxError> {
        self.skip(1);
        // Most strings are names and short words, which end in the first lane.
        if let Some(lane) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            match Lane::new(lane).stops() {
                0 => self.skip(LANE),
                stops => self.skip(stops.trailing_zeros() as usize),
            }
            if self.peek() == Some(b'"') {
                self.skip(1);
                return Ok(Escapes::None);
            }
        }
        self.string_rest()
    }

    /// The rest of a string literal, the next byte being no escaped one.
    ///
    /// Long texts with an escape in every line are what logs consist of: whole blocks are looked at by masks, so that an escape
    /// costs no branch. What a block has that is wrong or rare is left to the bytes after it.
    #[inline(never)]
    fn string_rest(&mut self) -> Result<Escapes, SyntaxError> {
        let mut escapes = Escapes::None;
        let mut escaped = Escaped::default();
        while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let block = Block::new(bytes);
            if !escaped.is_next() && block.stops() == 0 {
                self.skip(BLOCK);
                continue;
            }
            let (quote, backslash) = (block.eq(b'"'), block.eq(b'\\'));
            let before = escaped;
            let taken = escaped.next(backslash);
            let close = quote & !taken;
            let inside = below_first(close);
            let found = self.escapes_in(block, taken & inside, quote | backslash);
            let has_control = block.has_at_most(CONTROL_MAX) && block.at_most(CONTROL_MAX) & inside != 0;
            let (Some(found), false) = (found, has_control) else {
                escaped = before;
                break;
            };
            escapes = escapes.max(found);
            if close != 0 {
                self.skip((close.trailing_zeros() as usize).wrapping_add(1));
                return Ok(escapes);
            }
            self.skip(BLOCK);
        }
        if escaped.is_next() {
            self.at = self.at.wrapping_sub(1); // the backslash that the block before ends with
        }
        loop {
            self.skip(plain_len(self.text.get(self.at..).unwrap_or_default()));
            match self.peek() {
                Some(b'"') => {
                    self.skip(1);
                    return Ok(escapes);
                }
                Some(b'\\') => escapes = escapes.max(self.escape()?),
                Some(_) => return Err(SyntaxErrorKind::Control.at(self.at)),
                None => return Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
            }
        }
    }

    /// What the bytes `taken` of the block that comes next, each behind a backslash, make of the string; `None` if one of
    /// them may not stand there. `plain` are quotes and backslashes.
    #[inline]
    fn escapes_in(&self, block: Block, taken: u64, plain: u64) -> Option<Escapes> {
        if taken == 0 {
            return Some(Escapes::None);
        }
        let mut others = taken & !(plain | block.eq(b'n'));
        let mut escapes = Escapes::Short;
        while others != 0 {
            let at = self.at.wrapping_add(others.trailing_zeros() as usize);
            others &= others.wrapping_sub(1);
            match self.text.get(at..)? {
                [b'b' | b'f' | b'r' | b't', ..] => {}
                [b'/', ..] => escapes = Escapes::Odd,
                [b'u', digits @ ..] if digits.first_chunk::<4>()?.iter().all(u8::is_ascii_hexdigit) => {
                    escapes = Escapes::Odd;
                }
                _ => return None,
            }
        }
        Some(escapes)
    }

    /// An escape; its backslash is the next byte.
    #[inline]
    fn escape(&mut self) -> Result<Escapes, SyntaxError> {
        self.skip(1);
        match self.peek() {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.skip(1);
                Ok(Escapes::Short)
            }
            Some(b'/') => {
                self.skip(1);
                Ok(Escapes::Odd)
            }
            Some(b'u') => {
                self.skip(1);
                for _ in 0..4 {
                    match self.peek() {
                        Some(byte) if byte.is_ascii_hexdigit() => self.skip(1),
                        Some(_) => return Err(SyntaxErrorKind::Escape.at(self.at)),
                        None => return Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
                    }
                }
                Ok(Escapes::Odd)
            }
            Some(_) => Err(SyntaxErrorKind::Escape.at(self.at)),
            None => Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
        }
    }

    /// A number; its minus sign or first digit is the next byte.
    #[inline]
    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.skip(1);
        }
        if self.peek() == Some(b'0') {
            self.skip(1);
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.skip(1);
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.skip(1);
            if let Some(b'+' | b'-') = self.peek() {
                self.skip(1);
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    #[inline]
    fn digits(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'0'..=b'9') => self.skip(1),
            Some(_) => return Err(SyntaxErrorKind::Unexpected.at(self.at)),
            None => return Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.skip(1);
        }
        Ok(())
    }

    /// One of the three literal names, whose first byte is the next byte.
    #[inline]
    fn word<S: Sink>(&mut self, word: &[u8], sink: &mut S) -> Result<(), SyntaxError> {
        let start = self.at;
        for due in word {
            match self.peek() {
                Some(byte) if byte == *due => self.skip(1),
                Some(_) => return Err(SyntaxErrorKind::Unexpected.at(self.at)),
                None => return Err(SyntaxErrorKind::UnexpectedEnd.at(self.at)),
            }
        }
        sink.atom(start, self.at);
        Ok(())
    }
}

/// Bytes before the first quote, backslash or control character of `text`, or all of it.
#[inline]
pub(crate) fn plain_len(text: &[u8]) -> usize {
    // Most strings are names and short words, which end in the first lane.
    let Some(first) = text.first_chunk() else { return plain_len_short(text) };
    match Lane::new(first).stops() {
        0 => plain_len_long(text),
        stops => stops.trailing_zeros() as usize,
    }
}

/// `plain_len` of a text whose first lane is plain.
#[inline(never)]
fn plain_len_long(text: &[u8]) -> usize {
    let mut rest = text.get(LANE..).unwrap_or_default();
    let before = |rest: &[u8]| text.len().wrapping_sub(rest.len()); // `rest` is a part of `text`
    while let Some((block, after)) = rest.split_first_chunk() {
        match Block::new(block).stops() {
            0 => rest = after,
            stops => return before(rest).wrapping_add(stops.trailing_zeros() as usize),
        }
    }
    while let Some((lane, after)) = rest.split_first_chunk() {
        match Lane::new(lane).stops() {
            0 => rest = after,
            stops => return before(rest).wrapping_add(stops.trailing_zeros() as usize),
        }
    }
    before(rest).wrapping_add(plain_len_short(rest))
}

/// `plain_len` of less than a lane.
fn plain_len_short(text: &[u8]) -> usize {
    let mut rest = text;
    if let Some((word, after)) = rest.split_first_chunk() {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return (stops.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let tail = rest.iter().take_while(|byte| is_plain(**byte)).count();
    text.len().wrapping_sub(rest.len()).wrapping_add(tail)
}

#[inline]
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Non-zero if one of the eight bytes ends a plain run; its lowest set bit lies in the first such byte. Bits above
/// that byte mean nothing, because the subtractions borrow upwards.
#[inline]
fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ 0x2222_2222_2222_2222;
    let slash = word ^ 0x5c5c_5c5c_5c5c_5c5c;
    let control = word.wrapping_sub(0x2020_2020_2020_2020) & !word;
    let equal = (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash);
    (equal | control) & HIGH
}

/// Non-zero if one of the eight bytes is no digit; its lowest set bit lies in the first such byte.
#[inline]
const fn not_digits(word: u64) -> u64 {
    // Digits become 0 to 9, all other bytes more. An addition may carry into bytes above the first that is none.
    let digits = word ^ 0x3030_3030_3030_3030;
    (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080
}

/// The kind of every open bracket, one bit each: 1 for an object.
struct Nest {
    /// The innermost levels, innermost in bit 0: as many as `depth` has over the spilled multiple of 64.
    word: u64,
    depth: u32,
    depth_max: u32,
    /// Full words of outer levels, outermost first; the first eight here, the rest in `heap`.
    inline: [u64; 8],
    inline_len: usize,
    heap: Vec<u64>,
}

impl Nest {
    fn new(depth_max: u32) -> Self {
        Self { word: 0, depth: 0, depth_max, inline: [0; 8], inline_len: 0, heap: Vec::new() }
    }

    #[inline]
    fn is_object(&self) -> bool {
        self.word & 1 == 1
    }

    #[inline]
    fn push(&mut self, object: bool, offset: usize) -> Result<(), SyntaxError> {
        if self.depth >= self.depth_max {
            return Err(SyntaxErrorKind::TooDeep.at(offset));
        }
        if self.depth & 63 == 0 && self.depth != 0 {
            self.spill();
        }
        self.word = (self.word << 1) | u64::from(object);
        self.depth = self.depth.wrapping_add(1); // below `depth_max`, seen above
        Ok(())
    }

    /// Leaves the innermost level; at least one is open.
    #[inline]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.word >>= 1;
        if self.depth & 63 == 0 && self.depth != 0 {
            self.unspill();
        }
    }

    #[cold]
    fn spill(&mut self) {
        match self.inline.get_mut(self.inline_len) {
            Some(place) => {
                *place = self.word;
                self.inline_len = self.inline_len.wrapping_add(1); // at most 8
            }
            None => self.heap.push(self.word),
        }
    }

    #[cold]
    fn unspill(&mut self) {
        self.word = self.heap.pop().unwrap_or_else(|| {
            self.inline_len = self.inline_len.saturating_sub(1);
            self.inline.get(self.inline_len).copied().unwrap_or_default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SyntaxErrorKind::{Control, Escape, NotUtf8, TooDeep, Trailing, Unexpected, UnexpectedEnd};
    use proptest::prelude::*;

    fn fault(text: &[u8]) -> Option<(SyntaxErrorKind, usize)> {
        check(text, 64).err().map(|fault| (fault.kind, fault.offset))
    }

    #[test]
    fn accepts_what_json_parse_accepts() {
        for text in [
            "0",
            "-0",
            "-1.5e+10",
            "1E-7",
            "0e5",
            "1e400",
            "0.0",
            "null",
            "true",
            "false",
            "\"\"",
            "[]",
            "{}",
            "[[],{}]",
            "{\"\":0}",
            "\t\r\n [ 1 , 2 ] \n",
            "{ \"a\" : { \"b\" : [ ] } }",
            "\"\\u0000\\/\\\"\\\\\\b\\f\\n\\r\\t\"",
            "\"\\ud800\"",
            "\"\u{7f}\u{2028}\u{feff}\"",
            "{\"a\":1,\"a\":2}",
            "\"12345678\"",
            "\"1234567\"",
        ] {
            assert_eq!(fault(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_where_it_stops_fitting() {
        for (text, kind, offset) in [
            ("", UnexpectedEnd, 0),
            ("  ", UnexpectedEnd, 2),
            ("\u{feff}1", Unexpected, 0),
            ("\u{a0}1", Unexpected, 0),
            ("1\u{b}", Trailing, 1),
            ("1 2", Trailing, 2),
            ("01", Trailing, 1),
            ("[01]", Unexpected, 2),
            ("-", UnexpectedEnd, 1),
            ("-a", Unexpected, 1),
            ("+1", Unexpected, 0),
            (".5", Unexpected, 0),
            ("1.", UnexpectedEnd, 2),
            ("1.e5", Unexpected, 2),
            ("1e", UnexpectedEnd, 2),
            ("1e+", UnexpectedEnd, 3),
            ("1e+x", Unexpected, 3),
            ("NaN", Unexpected, 0),
            ("Infinity", Unexpected, 0),
            ("nul", UnexpectedEnd, 3),
            ("nulL", Unexpected, 3),
            ("truefalse", Trailing, 4),
            ("'a'", Unexpected, 0),
            ("\"", UnexpectedEnd, 1),
            ("\"abc", UnexpectedEnd, 4),
            ("\"abcdefghijk", UnexpectedEnd, 12),
            ("\"a\nb\"", Control, 2),
            ("\"abcdefgh\u{1f}\"", Control, 9),
            ("\"\\", UnexpectedEnd, 2),
            ("\"\\x\"", Escape, 2),
            ("\"\\u00g0\"", Escape, 5),
            ("\"\\u+123\"", Escape, 3),
            ("\"\\u00", UnexpectedEnd, 5),
            ("[", UnexpectedEnd, 1),
            ("[1", UnexpectedEnd, 2),
            ("[1,", UnexpectedEnd, 3),
            ("[1,]", Unexpected, 3),
            ("[,1]", Unexpected, 1),
            ("[1 2]", Unexpected, 3),
            ("[1}", Unexpected, 2),
            ("{]", Unexpected, 1),
            ("{\"a\"}", Unexpected, 4),
            ("{\"a\":}", Unexpected, 5),
            ("{\"a\":1,}", Unexpected, 7),
            ("{\"a\":1", UnexpectedEnd, 6),
            ("{\"a\":1]", Unexpected, 6),
            ("{\"a\",1}", Unexpected, 4),
            ("{a:1}", Unexpected, 1),
            ("{1:1}", Unexpected, 1),
            ("[]]", Trailing, 2),
            ("]", Unexpected, 0),
            ("/**/1", Unexpected, 0),
            ("1//", Trailing, 1),
        ] {
            assert_eq!(fault(text.as_bytes()), Some((kind, offset)), "{text:?}");
        }
    }

    #[test]
    fn ill_formed_utf8_comes_before_grammar() {
        assert_eq!(fault(b"\"a\xff\""), Some((NotUtf8, 2)));
        assert_eq!(fault(b"]]]] \xed\xa0\x80"), Some((NotUtf8, 5)));
        assert_eq!(fault(b"\"\xe2\x82"), Some((NotUtf8, 1)));
        let mut long = vec![b' '; 1000];
        long.extend(b"\xc0\x80");
        assert_eq!(fault(&long), Some((NotUtf8, 1000)));
    }

    #[test]
    fn depth_counts_open_brackets() {
        assert_eq!(check(b"1", 0), Ok(()));
        assert_eq!(check(b" []", 0), Err(TooDeep.at(1)));
        assert_eq!(check(b"[{}]", 2), Ok(()));
        assert_eq!(check(b"[{}]", 1), Err(TooDeep.at(1)));
        assert_eq!(check(b"[[],[],[]]", 2), Ok(()));
    }

    #[test]
    fn bracket_kinds_survive_every_border_of_the_bit_stack() {
        for depth in [1, 2, 63, 64, 65, 127, 128, 129, 511, 512, 513, 575, 576, 577, 578, 640, 641, 5000] {
            let object = |level: usize| level.is_multiple_of(3) || level.is_multiple_of(7);
            let mut text = String::new();
            for level in 0..depth {
                text.push_str(if object(level) { "{\"a\":" } else { "[" });
            }
            text.push('0');
            let opened = text.len();
            for level in (0..depth).rev() {
                text.push(if object(level) { '}' } else { ']' });
            }
            let depth = u32::try_from(depth).unwrap();
            assert_eq!(check(text.as_bytes(), depth), Ok(()), "{depth}");
            assert!(
                matches!(check(text.as_bytes(), depth - 1), Err(SyntaxError { kind: TooDeep, .. })),
                "{depth}"
            );
            // Any one closing bracket of the wrong kind is found.
            for at in (opened..text.len()).step_by(61) {
                let mut bad = text.clone().into_bytes();
                bad[at] = if bad[at] == b'}' { b']' } else { b'}' };
                assert_eq!(check(&bad, depth), Err(Unexpected.at(at)), "{depth} {at}");
            }
        }
    }

    #[test]
    fn ten_million_levels_are_a_matter_of_the_bound() {
        const LEVELS: usize = 10_000_000;
        let mut text = vec![b'['; LEVELS];
        text.resize(2 * LEVELS, b']');
        assert_eq!(check(&text, 10_000_000), Ok(()));
        assert_eq!(check(&text, 9_999_999), Err(TooDeep.at(9_999_999)));
        assert_eq!(check(&text, 1000), Err(TooDeep.at(1000)));
        text.pop();
        assert_eq!(check(&text, u32::MAX), Err(UnexpectedEnd.at(2 * LEVELS - 1)));
    }

    #[test]
    fn plain_len_stops_at_each_special_byte_in_each_place() {
        for len in (0..40).chain([63, 79, 80, 81, 96, 150]) {
            let plain = vec![b'~'; len];
            assert_eq!(plain_len(&plain), len);
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut text = plain.clone();
                    text[at] = byte;
                    assert_eq!(
                        plain_len(&text),
                        if is_plain(byte) { len } else { at },
                        "{byte:#x} at {at} of {len}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn plain_len_agrees_with_a_byte_loop(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(plain_len(&text), text.iter().take_while(|byte| is_plain(**byte)).count());
        }

        #[test]
        fn serde_json_agrees_on_acceptance(text in r#"([\[\]{}:,"\\/ \n\t0-9eE+.\-a-fnrtuls]|"[^\\"]{0,4}"|true|null|\\u[dD][89aAc]00){0,24}"#) {
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text);
            let ours = check(text.as_bytes(), 100);
            // Lone surrogates are JSON to us; a raw value of serde_json does not decode them either.
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }
    }
}
