use seslog::json::{Node, Tape, Text};
use seslog::row::Header;
use seslog::store::layout::printable;

use super::super::destination::Destination;
use super::super::source::Line;
use super::{Message, read};
use crate::failure::Failure;
use crate::out::human_time;
use crate::root::LIMITS;

/// A conversation as Markdown that is being written.
///
/// What people and models say stands as it is, as it is Markdown most of the time, but cannot leave its section: open code
/// fences are closed, and what could be HTML is escaped. What tools say stands in fences.
#[derive(Debug)]
pub(in super::super) struct Markdown<'d> {
    out: &'d mut Destination,
}

impl<'d> Markdown<'d> {
    pub(in super::super) fn new(out: &'d mut Destination) -> Self {
        Self { out }
    }

    /// Adds a line of the log.
    pub(in super::super) fn line(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        match *line {
            Line::Raw(_) => Ok(()),
            Line::Header(text) => self.header(text),
            Line::Event { shown, .. } => {
                let Some(event) = read(shown) else { return Ok(()) };
                let mut tape = Tape::default();
                let Ok(data) = tape.parse(event.data().as_bytes(), LIMITS.nesting_max) else { return Ok(()) };
                match Message::of(&event, data) {
                    Some(message) => self.message(event.seq().get(), event.time().get(), &message),
                    None => Ok(()),
                }
            }
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Failure> {
        let Ok(header) = Header::parse(line, &LIMITS) else { return Ok(()) };
        let mut text = format!("# Session {}\n\n", inline(header.id()));
        text.push_str(&format!("- created {}\n", human_time(header.created_at().get())));
        for (name, value) in
            [("folder", header.cwd()), ("parent", header.parent_session()), ("preset", header.agent_preset())]
        {
            if let Some(value) = value {
                text.push_str(&format!("- {name} {}\n", inline(value)));
            }
        }
        self.put(&text)
    }

    fn message(&mut self, seq: u64, time: i64, message: &Message<'_>) -> Result<(), Failure> {
        let mut head = format!("\n## {} · #{seq} · {}", title(&message.role()), human_time(time));
        if let Some(model) = message.model() {
            head.push_str(&format!(" · {}", inline(&model)));
        }
        head.push('\n');
        if let Some((start, end)) = message.replaces {
            head.push_str(&format!("\n*For the model this takes the place of #{start} to #{end}.*\n"));
        }
        self.put(&head)?;
        for block in message.blocks() {
            let text = block_text(block);
            if !text.is_empty() {
                self.put(&format!("\n{text}"))?;
            }
        }
        if message.is_interrupted { self.put("\n*Interrupted here.*\n") } else { Ok(()) }
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.out.put(text.as_bytes())
    }
}

fn block_text(block: Node<'_>) -> String {
    let get = |name: &str| block.get(name).and_then(Node::as_str).map(|text| text.to_text());
    let lossy = |name: &str| get(name).unwrap_or_default().to_string_lossy().into_owned();
    match &*lossy("type") {
        "text" => contained(&lossy("text")),
        "reasoning" => {
            let text = contained(&lossy("text"));
            let quoted: Vec<String> =
                text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
            if quoted.is_empty() { String::new() } else { format!("> *Thinks*\n>\n{}\n", quoted.join("\n")) }
        }
        "tool-call" => {
            let (name, arguments) = (get("name").unwrap_or_default(), lossy("arguments"));
            format!("**Calls {}**\n\n{}", inline(&name), fenced(&arguments, "json"))
        }
        "tool-result" => {
            let is_error = block.get("isError").and_then(Node::as_bool) == Some(true);
            let word = if is_error { "**Error**" } else { "**Result**" };
            let inner = block.get("content").and_then(Node::items).into_iter().flatten();
            let texts: Vec<String> = inner
                .map(|block| match block.get("text").and_then(Node::as_str) {
                    Some(text) => text.to_string_lossy().into_owned(),
                    None => "[no text]".to_owned(),
                })
                .collect();
            format!("{word}\n\n{}", fenced(&texts.join("\n"), ""))
        }
        _ => format!("*[{}]*\n", inline(&get("type").unwrap_or_default())),
    }
}

/// A word for a role.
fn title(role: &Text) -> String {
    let text = role.to_string_lossy();
    let mut chars = text.chars().filter(|char| char.is_alphanumeric() || "-_ ".contains(*char));
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Text of a log inside a line, as code.
fn inline(text: &Text) -> String {
    let text = printable(text).replace('`', "'");
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Text in a fence that is longer than any in it.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// Markdown that cannot leave its place: fences are closed, and a `<` that could begin HTML is escaped.
fn contained(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(8));
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let fence = fence_of(line);
        match (open, fence) {
            (None, Some((char, len, _))) => open = Some((char, len)),
            (Some((char, len)), Some((other, other_len, true))) if char == other && other_len >= len => {
                open = None;
            }
            _ => {}
        }
        if open.is_some() || fence.is_some() {
            out.push_str(line);
        } else {
            escape_html(line, &mut out);
        }
        out.push('\n');
    }
    if let Some((char, len)) = open {
        out.extend(std::iter::repeat_n(char, len));
        out.push('\n');
    }
    out
}

/// The fence that a line is: its character and length, and whether nothing stands behind it.
fn fence_of(line: &str) -> Option<(char, usize, bool)> {
    let text = line.trim_start_matches(' ');
    if line.len().saturating_sub(text.len()) > 3 {
        return None;
    }
    let char = text.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = text.trim_start_matches(char);
    let len = text.len().saturating_sub(rest.len());
    // A line of code between backticks opens nothing.
    (len >= 3 && !(char == '`' && rest.contains('`'))).then(|| (char, len, rest.trim().is_empty()))
}

/// Escapes what could be a tag, outside of code spans.
fn escape_html(line: &str, out: &mut String) {
    let mut in_code = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '`' {
            in_code = !in_code;
        }
        let begins = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        // An open span reaches no further than its last backtick: what stands behind is text.
        let is_code = in_code && chars.clone().any(|later| later == '`');
        if char == '<' && !is_code && chars.peek().is_some_and(begins) {
            out.push('\\');
        }
        out.push(char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_section() {
        assert_eq!(contained("a\n```js\n<b>"), "a\n```js\n<b>\n```\n");
        assert_eq!(contained("~~~~\n~~~\n```"), "~~~~\n~~~\n```\n~~~~\n");
        assert_eq!(contained("```\nx\n```\ny <i>"), "```\nx\n```\ny \\<i>\n");
        assert_eq!(contained("`<b>` <!-- 1 < 2 `<c"), "`<b>` \\<!-- 1 < 2 `\\<c\n");
        assert_eq!(contained("```one``` <b>"), "```one``` \\<b>\n");
        assert_eq!(fenced("a ``` b", ""), "````\na ``` b\n````\n");
    }
}
