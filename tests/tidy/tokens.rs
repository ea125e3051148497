//! Rust source cut into words and signs, comments and literals dropped: enough to see imports without parsing.

/// One word or sign of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    /// An identifier, keyword or number as written, or one sign. `::` is one token. A literal is `"`.
    pub(crate) text: &'t str,
    /// Line in the file, from 1.
    pub(crate) line: usize,
}

/// Cuts `source` into tokens. Text inside comments, strings and characters yields nothing but one `"` a literal.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    pieces(source, |piece, line| match piece {
        Piece::Token(text) => out.push(Token { text, line }),
        Piece::Literal(_) => out.push(Token { text: "\"", line }),
        Piece::Comment => {}
    });
    out
}

/// The line and the columns there of every literal, or of each of its lines.
pub(crate) fn literals(source: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    pieces(source, |piece, line| {
        if let Piece::Literal(text) = piece {
            out.extend(text.split('\n').enumerate().map(|(at, part)| (line + at, part.chars().count())));
        }
    });
    out
}

enum Piece<'t> {
    Comment,
    Literal(&'t str),
    Token(&'t str),
}

/// Gives every piece of `source` that is no blank to `take`, with the line that it begins on.
fn pieces<'t>(source: &'t str, mut take: impl FnMut(Piece<'t>, usize)) {
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (len, piece): (usize, fn(&'t str) -> Piece<'t>) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), |_| Piece::Comment)
        } else if rest.starts_with("/*") {
            (block_comment(rest), |_| Piece::Comment)
        } else if let Some(len) = literal(rest) {
            (len, Piece::Literal)
        } else if is_word(first) {
            (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), Piece::Token)
        } else if rest.starts_with("::") {
            (2, Piece::Token)
        } else {
            (first.len_utf8(), Piece::Token)
        };
        let (taken, left) = rest.split_at(len);
        if !first.is_whitespace() {
            take(piece(taken), line);
        }
        line += taken.matches('\n').count();
        rest = left;
    }
}

/// Returns the index behind the bracket that closes the one at `open`, or the end if nothing does.
pub(crate) fn after_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Does the text of the tokens from `at` on begin with `wanted`?
pub(crate) fn starts_with(tokens: &[Token<'_>], at: usize, wanted: &[&str]) -> bool {
    tokens
        .get(at..at + wanted.len())
        .is_some_and(|found| found.iter().map(|t| t.text).eq(wanted.iter().copied()))
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string or character literal that `text` begins with, prefix included.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            let raw = prefix.ends_with('r');
            rest.starts_with('"')
                || (raw && rest.trim_start_matches('#').starts_with('"'))
                || (matches!(*prefix, "b" | "") && rest.starts_with('\''))
        })
    })?;
    let body = text.strip_prefix(prefix)?;
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let close = format!("\"{}", "#".repeat(hashes));
        let start = prefix.len() + hashes + 1;
        let end = text.get(start..)?.find(&close).map_or(text.len(), |at| start + at + close.len());
        return Some(end);
    }
    let quote = body.chars().next()?;
    if quote == '\'' && !is_character(body) {
        // A lifetime: the quote stands alone.
        return None;
    }
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return Some(prefix.len() + at + 1);
        }
    }
    Some(text.len())
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_character(body: &str) -> bool {
    let mut chars = body.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[test]
fn comments_and_literals_yield_no_words() {
    let source = r####"
        // crate::store
        /* a /* nested */ unsafe */
        let s = "crate::store \" unsafe"; let r = r#"dbg!("x")"#; let b = br"y\"; let c = b'\'';
        fn f<'a>(x: &'a str, q: char) -> bool { q == '"' || q == 'x' }
    "####;
    let words: Vec<&str> =
        tokens(source).iter().map(|t| t.text).filter(|t| t.len() > 1 || *t == "\"").collect();
    assert_eq!(words.join(" "), r#"let " let " let " let " fn str char bool " ""#);
}

#[test]
fn lines_are_counted_through_every_kind_of_token() {
    let source = "a\n/* \n */ b \"x\ny\" c\nd";
    let lines: Vec<(&str, usize)> = tokens(source).iter().map(|t| (t.text, t.line)).collect();
    assert_eq!(lines, [("a", 1), ("b", 3), ("\"", 3), ("c", 4), ("d", 5)]);
}
