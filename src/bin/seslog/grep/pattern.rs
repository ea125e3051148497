//! What is searched for, and a quick test whether a row can hold it.

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};

use crate::failure::Failure;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    needles: Option<Needles>,
}

/// Pieces of text one of which stands in the JSON text of every row with a match.
#[derive(Debug)]
struct Needles {
    literals: AhoCorasick,
    /// A character may be spelled as an escape, and then a literal cannot be seen.
    escape: Finder<'static>,
}

/// More pieces than these are not worth looking for.
const NEEDLES_MAX: usize = 64;

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
        Ok(Self { regex, needles: hir.ok().as_ref().and_then(Needles::of) })
    }

    /// Whether a row with this JSON text may hold a match. Costs a fraction of reading the row.
    pub(super) fn may_match(&self, line: &str) -> bool {
        self.needles.as_ref().is_none_or(|needles| {
            needles.literals.is_match(line) || needles.escape.find(line.as_bytes()).is_some()
        })
    }

    /// The expression.
    pub(super) const fn regex(&self) -> &Regex {
        &self.regex
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
        Some(Self { literals: AhoCorasick::new(literals).ok()?, escape: Finder::new(b"\\u") })
    }
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
    // Of these each has an escape of its own.
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\' | b'/');
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
        assert!(!Pattern::new(r"\w+Error\b", false, false).unwrap().may_match("{\"text\":\"error\"}"));
    }
}
