//! Text that compresses as code, logs and prose do: about 3 to 4 times with Zstandard level 3.

use super::Rng;

const STEMS: &[&str] = &[
    "frame", "trailer", "session", "event", "reader", "writer", "offset", "length", "buffer", "index",
    "cache", "parse", "token", "stream", "chunk", "append", "commit", "verify", "segment", "header", "row",
    "column", "value", "number", "string", "error", "result", "limit", "count", "total", "first", "last",
    "next", "previous", "start", "end", "size", "name", "path", "folder", "file", "lock", "owner", "handle",
    "state", "config", "option", "default", "render", "layout", "widget", "button", "window", "scroll",
    "focus", "input", "output", "request", "response", "status", "client", "server", "socket", "packet",
    "retry", "timeout", "deadline", "queue", "worker", "thread", "task", "job", "batch", "merge", "split",
    "join", "filter", "map", "fold", "sort", "group", "match", "pattern", "range", "bound", "check",
    "assert", "expect", "unwrap", "clone", "borrow", "move", "drop", "alloc", "free", "page", "block",
    "sector",
];

const WORDS: &[&str] = &[
    "the", "a", "to", "of", "and", "in", "is", "that", "it", "for", "with", "this", "as", "be", "on", "not",
    "by", "are", "from", "or", "an", "when", "which", "at", "has", "but", "if", "then", "each", "only",
    "all", "one", "was", "so", "now", "here", "there", "after", "before", "again", "because", "through",
    "between", "another", "every", "must", "should", "could", "would", "will", "can", "reads", "writes",
    "calls", "returns", "fails", "passes", "holds", "keeps", "counts", "checks", "looks", "finds", "adds",
    "removes", "changes", "compares", "file", "test", "function", "value", "error", "message", "line",
    "type", "field", "method", "module", "session", "event", "reader", "writer", "offset", "buffer", "frame",
    "change", "branch", "commit", "build", "failing", "missing", "wrong", "right", "same", "other", "first",
    "last", "next", "small", "large", "empty", "whole", "valid", "broken", "slow", "fast", "directly",
    "already",
];

const TYPES: &[&str] =
    &["u64", "usize", "&str", "String", "Vec<u8>", "Option<u32>", "bool", "&[u8]", "PathBuf", "Duration"];

/// One word of prose with the blank before it, now and then the end of a sentence.
pub(super) fn prose_token(rng: &mut Rng, out: &mut String) {
    match rng.below(24) {
        0 => out.push('.'),
        1 => out.push(','),
        2 => out.push_str("\n\n"),
        3 | 4 => {
            out.push(' ');
            out.push_str(STEMS[rng.below(STEMS.len())]);
        }
        _ => {
            out.push(' ');
            out.push_str(WORDS[rng.skewed(0, WORDS.len())]);
        }
    }
}

/// The names of one project: its files and identifiers, used again and again.
#[derive(Clone, Debug)]
pub(super) struct Source {
    paths: Vec<String>,
    names: Vec<String>,
}

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut stem = || STEMS[rng.below(STEMS.len())];
        let paths = (0..60).map(|_| format!("crates/{}/src/{}_{}.rs", stem(), stem(), stem())).collect();
        let names = (0..700)
            .map(|n| match n % 4 {
                0 => stem().to_owned(),
                1 => format!("{}_{}_{}", stem(), stem(), stem()),
                _ => format!("{}_{}", stem(), stem()),
            })
            .collect();
        Self { paths, names }
    }

    pub(super) fn path(&self, rng: &mut Rng) -> String {
        self.paths[rng.skewed(0, self.paths.len())].clone()
    }

    fn name(&self, rng: &mut Rng) -> &str {
        &self.names[rng.skewed(0, self.names.len())]
    }

    /// A piece of code as a model streams it: a name, a sign, an indentation.
    pub(super) fn token(&self, rng: &mut Rng, out: &mut String) {
        match rng.below(12) {
            0 => out.push_str("();\n        "),
            1 => out.push('('),
            2 => out.push_str(")?"),
            3 => out.push_str(" = "),
            4 => out.push('.'),
            5 => out.push_str("    let "),
            6 => out.push_str(&rng.below(1000).to_string()),
            7 => out.push_str(TYPES[rng.below(TYPES.len())]),
            8 => {
                out.push('_');
                out.push_str(STEMS[rng.below(STEMS.len())]);
            }
            _ => {
                out.push(' ');
                out.push_str(STEMS[rng.below(STEMS.len())]);
            }
        }
    }

    /// About `bytes` of what a tool prints.
    pub(super) fn output(&self, rng: &mut Rng, bytes: usize, out: &mut String) {
        let kind = rng.below(10);
        let mut line = 1 + rng.below(800);
        while out.len() < bytes {
            match kind {
                0 | 1 => self.hit(rng, out),
                2 => self.test(rng, out),
                3 => self.entry(rng, out),
                _ => {
                    out.push_str(&format!("{line:>6}\t"));
                    self.code(rng, out);
                    line += 1;
                }
            }
            out.push('\n');
        }
    }

    fn hit(&self, rng: &mut Rng, out: &mut String) {
        let path = self.path(rng);
        out.push_str(&format!("{path}:{}:", 1 + rng.below(900)));
        self.code(rng, out);
    }

    fn test(&self, rng: &mut Rng, out: &mut String) {
        let name = self.name(rng);
        let part = STEMS[rng.below(STEMS.len())];
        let verdict = if rng.below(40) == 0 { "FAILED" } else { "ok" };
        out.push_str(&format!("test {part}::tests::{name}_is_{part} ... {verdict}"));
    }

    fn entry(&self, rng: &mut Rng, out: &mut String) {
        let path = self.path(rng);
        let size = rng.below(90_000);
        let (day, hour, minute) = (1 + rng.below(28), rng.below(24), rng.below(60));
        out.push_str(&format!("-rw-r--r-- 1 dev dev {size:>6} Nov {day:>2} {hour:02}:{minute:02} {path}"));
    }

    fn code(&self, rng: &mut Rng, out: &mut String) {
        let indent = 4 * (1 + rng.below(3));
        out.push_str(&" ".repeat(indent));
        match rng.below(11) {
            0 => {
                out.push_str("//");
                for _ in 0..4 + rng.below(10) {
                    out.push(' ');
                    out.push_str(WORDS[rng.skewed(0, WORDS.len())]);
                }
            }
            1 => {
                let kind = TYPES[rng.below(TYPES.len())];
                out.push_str(&format!(
                    "pub fn {}(&self, {}: {kind}) -> Result<{kind}> {{",
                    self.name(rng),
                    self.name(rng)
                ));
            }
            2 => out.push('}'),
            3 => {}
            4 => {
                out.push_str(&format!("if {}.{}() > {} {{", self.name(rng), self.name(rng), rng.below(4096)))
            }
            5 => out.push_str(&format!("return Err(Error::{}(\"{}\"));", self.name(rng), self.name(rng))),
            6 => out.push_str(&format!(
                "self.{} = {}.{}({})?;",
                self.name(rng),
                self.name(rng),
                self.name(rng),
                self.name(rng)
            )),
            7 => out.push_str(&format!(
                "assert_eq!({}({}), {});",
                self.name(rng),
                rng.below(100),
                rng.below(100)
            )),
            8 => out.push_str(&format!("for {} in {}.iter() {{", self.name(rng), self.name(rng))),
            _ => out.push_str(&format!("let {} = {}.{}();", self.name(rng), self.name(rng), self.name(rng))),
        }
    }
}
