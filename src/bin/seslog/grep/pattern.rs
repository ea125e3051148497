//! What is searched for, and a quick test whether a row can hold it.

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::failure::Failure;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    filter: Option<Filter>,
}

/// What tells without reading a row that nothing in it matches.
#[derive(Debug)]
enum Filter {
    Needles(Needles),
    Loose(Loose),
}

/// The expression without its conditions on where a match begins and ends: it matches somewhere in the JSON text of every row
/// with a match, where that spells the match as it is.
#[derive(Debug)]
struct Loose {
    regex: Regex,
    /// What a match may be spelled with, and then cannot be seen.
    escape: Finder<'static>,
}

/// Pieces of text one of which stands in the JSON text of every row with a match.
#[derive(Debug)]
struct Needles {
    /// Bytes of the shortest.
    shortest: usize,
    literals: AhoCorasick,
    /// A character may be spelled as an escape, and then a literal cannot be seen.
    escape: Finder<'static>,
}

/// More pieces than these are not worth looking for.
const NEEDLES_MAX: usize = 64;

/// Shorter ones, such as the digits that a number begins with, stand in any row.
const NEEDLE_LEN_MIN: usize = 3;

impl Pattern {
    /// Compiles `pattern`: a regular expression, in which `^` and `$` are the ends of a line, or with `is_fixed` plain text.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it is none, or too large.
    pub(super) fn new(pattern: &str, is_fixed: bool, ignore_case: bool) -> Result<Self, Failure> {
        let pattern = if is_fixed { regex::escape(pattern) } else { pattern.to_owned() };
        let regex = RegexBuilder::new(&pattern).multi_line(true).case_insensitive(ignore_case).build();
        let regex = regex.map_err(|error| {
            // The lines before the last one draw an arrow below the place, which one line of talk cannot.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            Failure::Usage(format!(
                "the pattern: {}; -F takes it as plain text",
                reason.trim_start_matches("error: ")
            ))
        })?;
        let hir = ParserBuilder::new().multi_line(true).case_insensitive(ignore_case).build().parse(&pattern);
        Ok(Self { regex, filter: hir.ok().as_ref().and_then(Filter::of) })
    }

    /// Whether a row with this JSON text may hold a match. Costs a fraction of reading the row.
    pub(super) fn may_match(&self, line: &str) -> bool {
        match &self.filter {
            None => true,
            Some(Filter::Needles(Needles { literals, escape, .. })) => {
                literals.is_match(line) || escape.find(line.as_bytes()).is_some()
            }
            Some(Filter::Loose(Loose { regex, escape })) => {
                regex.is_match(line) || escape.find(line.as_bytes()).is_some()
            }
        }
    }

    /// The expression.
    pub(super) const fn regex(&self) -> &Regex {
        &self.regex
    }
}

impl Filter {
    fn of(hir: &Hir) -> Option<Self> {
        let (needles, loose) = (Needles::of(hir), Loose::of(hir));
        match (needles, loose) {
            (Some(needles), loose) if needles.shortest >= NEEDLE_LEN_MIN || loose.is_none() => {
                Some(Self::Needles(needles))
            }
            (_, loose) => loose.map(Self::Loose),
        }
    }
}

impl Needles {
    fn of(hir: &Hir) -> Option<Self> {
        let begins = literals(hir, ExtractKind::Prefix);
        let ends = literals(hir, ExtractKind::Suffix);
        // The longer its shortest literal is, the less often it stands in a row by chance.
        let shortest = |literals: &Option<Vec<Vec<u8>>>| {
            literals.as_ref().and_then(|literals| literals.iter().map(Vec::len).min()).unwrap_or(0)
        };
        let literals = if shortest(&ends) > shortest(&begins) { ends } else { begins }?;
        let shortest = literals.iter().map(Vec::len).min()?;
        Some(Self { shortest, literals: AhoCorasick::new(literals).ok()?, escape: Finder::new(b"\\u") })
    }
}

impl Loose {
    fn of(hir: &Hir) -> Option<Self> {
        let loose = without_looks(hir);
        // What matches nothing at all matches everywhere.
        if loose.properties().minimum_len().is_none_or(|len| len == 0) {
            return None;
        }
        // Only where a match can hold one, an escape of one character is of interest.
        let escape = if may_be_escaped(hir) { "\\" } else { "\\u" };
        Some(Self { regex: Regex::new(&loose.to_string()).ok()?, escape: Finder::new(escape).into_owned() })
    }
}

/// The expression that asks nothing of what stands around a match.
fn without_looks(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(without_looks(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Capture(capture) => without_looks(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_looks).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(without_looks).collect()),
    }
}

/// Whether a match can hold a character that JSON text may or must spell with an escape of its own.
fn may_be_escaped(hir: &Hir) -> bool {
    let in_class = |start: u32, end: u32| {
        start < u32::from(b' ')
            || [b'"', b'/', b'\\'].iter().any(|&byte| (start..=end).contains(&u32::from(byte)))
    };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.iter().any(is_escaped),
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().any(|range| in_class(range.start().into(), range.end().into()))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().any(|range| in_class(range.start().into(), range.end().into()))
        }
        HirKind::Repetition(repetition) => may_be_escaped(&repetition.sub),
        HirKind::Capture(capture) => may_be_escaped(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(may_be_escaped),
    }
}

/// Of these each has an escape of its own.
const fn is_escaped(byte: &u8) -> bool {
    *byte < b' ' || matches!(*byte, b'"' | b'\\' | b'/')
}

/// Literals one of which every match begins or ends with, as they stand in JSON text. `None` if there is no such set.
fn literals(hir: &Hir, kind: ExtractKind) -> Option<Vec<Vec<u8>>> {
    let is_prefix = matches!(kind, ExtractKind::Prefix);
    let mut seq: Seq = Extractor::new().kind(kind).extract(hir);
    if is_prefix {
        seq.optimize_for_prefix_by_preference();
    } else {
        seq.optimize_for_suffix_by_preference();
    }
    let literals = seq.literals()?;
    let plain = literals.iter().map(|literal| plain_part(literal.as_bytes(), is_prefix));
    let plain: Vec<Vec<u8>> = plain.map(<[u8]>::to_vec).collect();
    let is_useful =
        !plain.is_empty() && plain.len() <= NEEDLES_MAX && plain.iter().all(|text| !text.is_empty());
    is_useful.then_some(plain)
}

/// The beginning (or the end) of `literal` that stands in JSON text as it is, unless it is spelled with `\u`.
fn plain_part(literal: &[u8], is_prefix: bool) -> &[u8] {
    if is_prefix {
        let end = literal.iter().position(is_escaped).unwrap_or(literal.len());
        literal.get(..end).unwrap_or_default()
    } else {
        let start = literal.iter().rposition(is_escaped).map_or(0, |at| at.saturating_add(1));
        literal.get(start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needles(pattern: &str, ignore_case: bool) -> Option<Vec<String>> {
        let hir = ParserBuilder::new()
            .multi_line(true)
            .case_insensitive(ignore_case)
            .build()
            .parse(pattern)
            .unwrap();
        let prefix = literals(&hir, ExtractKind::Prefix);
        prefix.map(|all| all.into_iter().map(|one| String::from_utf8(one).unwrap()).collect())
    }

    #[test]
    fn literals_are_cut_where_json_spells_them_otherwise() {
        assert_eq!(needles("error", false).unwrap(), ["error"]);
        assert_eq!(needles("foo|bar", false).unwrap(), ["foo", "bar"]);
        assert_eq!(needles("say \"hi", false).unwrap(), ["say "]);
        assert_eq!(needles("src/main", false).unwrap(), ["src"]);
        assert_eq!(needles("\"x", false), None, "nothing is left of it");
        assert_eq!(needles(r"\d+", false), None);
        assert_eq!(needles("ab", true).unwrap().len(), 4);
    }

    #[test]
    fn a_row_that_may_hold_a_match_is_never_passed_over() {
        let texts = ["a/b \"quoted\" tab\t line\nnext", "Ünïcode ſ K", "plain error text", "\u{1}\u{7f}"];
        let patterns = [
            ("a/b", false),
            ("\"quoted\"", false),
            (r"quoted.\stab", false),
            (r"tab\t", false),
            ("^next$", false),
            ("ünïcode", true),
            ("s k", true),
            (r"\w+ text", false),
            ("(?:PLAIN|other) error", true),
            (r"\x01", false),
            (r"[a-z]+\s\w{4}$", false),
            (r"^[nN][a-z]{3}\b", false),
            (r"\b[a-z]{5}\b", false),
            (r"[^a-z]{2}[a-z]{2}", false),
            (r"\S+\s+\S+", false),
            (r"[\x00-\x1f]", false),
            (r"(?:[0-9]|\W){2}q", false),
            (r"[aeiou]\s", true),
            ("", false),
        ];
        for (pattern, ignore_case) in patterns {
            let compiled = Pattern::new(pattern, false, ignore_case).unwrap();
            for text in texts.into_iter().filter(|text| compiled.regex().is_match(text)) {
                let mut spelled = Vec::new();
                seslog::json::write_string(&mut spelled, text);
                let canonical = String::from_utf8(spelled).unwrap();
                let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                for json in [canonical.clone(), canonical.replace('/', "\\/"), escaped] {
                    assert!(compiled.may_match(&json), "{pattern} in {json}");
                }
            }
        }
        assert!(!Pattern::new("error", false, false).unwrap().may_match("{\"text\":\"none\"}"));
        assert!(
            !Pattern::new(r"\b[0-9]{4}-[0-9]{2}\b", false, false)
                .unwrap()
                .may_match("{\"text\":\"1\\n234-5\"}")
        );
        assert!(!Pattern::new(r"[0-9]+\s", false, false).unwrap().may_match("{\"text\":\"1234-5\"}"));
        assert!(!Pattern::new(r"\w+Error\b", false, false).unwrap().may_match("{\"text\":\"error\"}"));
    }
}
