//! Rows without the secrets in them.

mod literals;
mod rules;

use std::collections::BTreeMap;

use regex::RegexSet;

use self::literals::Literals;
pub use self::rules::{Rule, RuleFault};
use crate::json::{Str, Tape, Text, write_string};
use crate::limits::Limits;
use crate::row::Event;
use crate::stream::{Chunk, SettlementKind, expand};

/// Replaces what rules find in the text of headers and events by `[redacted:rule]`.
///
/// Rules see the values of strings, escapes resolved, names of members included. A header keeps its ids, and an event
/// everything outside of its data, so a redacted log is a log still. Lone surrogates in a string that is changed become
/// U+FFFD; all other bytes stay.
///
/// A model's answer stands twice in its event: as a message, and cut into the pieces of its stream. If a rule finds anything
/// in either, in the pieces or in what they are joined, the whole stream is left out: times and token deltas of that attempt
/// are lost, and nothing can be put together again from what remains. A stream that does not expand goes the same way if it
/// has any pieces.
#[derive(Debug)]
pub struct Redactor {
    rules: Vec<Rule>,
    any: RegexSet,
    found: BTreeMap<String, u64>,
    streams: u64,
}

/// A part of a text that a rule found.
struct Span {
    start: usize,
    end: usize,
    rule: usize,
}

impl Redactor {
    /// A redactor that applies `rules`; where finds overlap, the one that begins first gives the mark its name.
    ///
    /// # Errors
    /// [`RuleFault`] if the patterns are too large together.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        let any = RegexSet::new(rules.iter().map(Rule::pattern)).map_err(RuleFault::all)?;
        Ok(Self { rules, any, found: BTreeMap::new(), streams: 0 })
    }

    /// How often each rule found something, by its name. What stands in a stream too counts once.
    #[must_use]
    pub const fn found(&self) -> &BTreeMap<String, u64> {
        &self.found
    }

    /// How many streams were left out.
    #[must_use]
    pub const fn streams(&self) -> u64 {
        self.streams
    }

    /// Appends the header line `line` to `out`.
    pub fn header(&mut self, line: &str, out: &mut Vec<u8>) {
        self.json(line, &["type", "id", "parentSession", "origin"], out);
    }

    /// Appends the row of `event` to `out`. Time O(bytes).
    pub fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let (line, data) = (event.line(), event.data());
        let Some((before, data, after)) = around(line, data) else {
            return out.extend_from_slice(line.as_bytes());
        };
        out.extend_from_slice(before.as_bytes());
        let is_settlement = event.event_type().as_plain().and_then(SettlementKind::of_event).is_some();
        let mut tape = Tape::default();
        let parsed = is_settlement.then(|| tape.parse(data.as_bytes(), Limits::DEFAULT.nesting_max).ok());
        let stream = parsed.flatten().and_then(|data| data.get("stream"));
        match stream.and_then(|stream| around(data, stream.raw())) {
            Some((head, stream, tail)) => {
                let changed = self.json(head, &[], out);
                // What follows decides too, so it is made before it is known what stands between.
                let mut rest = Vec::new();
                let changed = self.json(tail, &[], &mut rest) || changed;
                if stream != "[]" && (changed || self.is_in_stream(stream)) {
                    self.streams = self.streams.saturating_add(1);
                    if !changed {
                        // It stands in the stream alone.
                        self.count_stream(stream);
                    }
                    out.extend_from_slice(b"[]");
                } else {
                    out.extend_from_slice(stream.as_bytes());
                }
                out.append(&mut rest);
            }
            None => {
                self.json(data, &[], out);
            }
        }
        out.extend_from_slice(after.as_bytes());
    }

    /// Any text, if a rule finds something in it.
    #[must_use]
    pub fn text(&mut self, text: &str) -> Option<String> {
        let spans = self.spans(text);
        let mut changed = String::new();
        let mut at = 0_usize;
        for span in &spans {
            let name = self.rules.get(span.rule).map_or("", Rule::name);
            changed.push_str(text.get(at..span.start)?);
            changed.push_str("[redacted:");
            changed.push_str(name);
            changed.push(']');
            let count = self.found.entry(name.to_owned()).or_default();
            *count = count.saturating_add(1);
            at = span.end;
        }
        changed.push_str(text.get(at..)?);
        (!spans.is_empty()).then_some(changed)
    }

    /// A piece of JSON text that begins and ends outside of strings; says whether it changed. The values of the members
    /// `kept` stay.
    fn json(&mut self, json: &str, kept: &[&str], out: &mut Vec<u8>) -> bool {
        let mut changed = false;
        let mut name: Option<Str<'_>> = None;
        for literal in Literals::of(json) {
            out.extend_from_slice(literal.before.as_bytes());
            let Some(value) = literal.value else { break };
            let is_kept =
                !literal.is_name && kept.iter().any(|kept| name.is_some_and(|name| name.eq_str(kept)));
            let text = value.to_string_lossy();
            let by_member = name
                .filter(|_| !literal.is_name && !is_kept)
                .and_then(|name| Rule::of_member(&self.rules, &name.to_string_lossy(), &text));
            let new = match by_member {
                Some(rule) => {
                    let new = format!("[redacted:{rule}]");
                    let count = self.found.entry(rule).or_default();
                    *count = count.saturating_add(1);
                    Some(new)
                }
                None if is_kept => None,
                None => self.text(&text),
            };
            match new {
                Some(new) => {
                    write_string(out, &new);
                    changed = true;
                }
                None => {
                    out.push(b'"');
                    out.extend_from_slice(value.raw().as_bytes());
                    out.push(b'"');
                }
            }
            name = literal.is_name.then_some(value);
        }
        changed
    }

    /// Whether a rule finds something in the strings of a stream or in what its pieces make. A stream of which that cannot be
    /// told counts as one in which it does.
    fn is_in_stream(&self, stream: &str) -> bool {
        let mut values = Literals::of(stream).filter_map(|literal| literal.value);
        if values.any(|value| self.any.is_match(&value.to_string_lossy())) {
            return true;
        }
        joined(stream).is_none_or(|texts| texts.iter().any(|text| self.any.is_match(text)))
    }

    fn count_stream(&mut self, stream: &str) {
        for text in joined(stream).unwrap_or_default() {
            // For its counts alone.
            let _ = self.text(&text);
        }
    }

    fn spans(&self, text: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        for at in self.any.matches(text) {
            if let Some(rule) = self.rules.get(at) {
                let found = rule.find(text).filter(|found| !found.is_empty());
                spans.extend(found.map(|found| Span { start: found.start, end: found.end, rule: at }));
            }
        }
        spans.sort_by_key(|span| (span.start, usize::MAX.saturating_sub(span.end)));
        let mut apart: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match apart.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => apart.push(span),
            }
        }
        apart
    }
}

/// What the pieces of each block of a stream are joined, and the raw chunks' members likewise: a provider may cut those too.
fn joined(stream: &str) -> Option<Vec<String>> {
    let expansion = expand(stream.as_bytes()).ok()?;
    let mut blocks: BTreeMap<(u8, u64, String), Text> = BTreeMap::new();
    for timed in &expansion {
        match timed.chunk {
            Chunk::TextDelta { index, text } => {
                text.append_to(blocks.entry((0, index, String::new())).or_default());
            }
            Chunk::ReasoningDelta { index, text } => {
                text.append_to(blocks.entry((1, index, String::new())).or_default());
            }
            Chunk::ToolCallDelta { index, arguments, .. } => {
                arguments.append_to(blocks.entry((2, index, String::new())).or_default());
            }
            Chunk::Raw(raw) => {
                let mut name = String::new();
                for literal in Literals::of(raw.json()) {
                    let Some(value) = literal.value else { continue };
                    if literal.is_name {
                        name = value.to_string_lossy().into_owned();
                    } else {
                        value.append_to(blocks.entry((3, 0, name.clone())).or_default());
                    }
                }
            }
        }
    }
    Some(blocks.into_values().map(|text| text.to_string_lossy().into_owned()).collect())
}

/// `part`, which is borrowed from `whole`, and what stands around it.
fn around<'w>(whole: &'w str, part: &str) -> Option<(&'w str, &'w str, &'w str)> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let (before, rest) = whole.split_at_checked(start)?;
    let (part, after) = rest.split_at_checked(part.len())?;
    Some((before, part, after))
}

#[cfg(test)]
mod tests;
