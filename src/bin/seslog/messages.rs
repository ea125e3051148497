//! `messages`: the conversation as a model sees it.

use std::ffi::OsString;

use anstyle::Style;
use seslog::json::{Node, Tape};
use seslog::session::{Profile, derive_messages};

use crate::current;
use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::out::{Out, clean, talk};
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Shows the conversation that a model sees: what was replaced or compacted stands as what took its place.
///
/// Older generations are shown converted; the log stays as it is. With --json each line has "seq", the event that the
/// message comes from, and "message", as it is stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog messages 4f1c --at 120 --json")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// One JSON object a message
    #[arg(long)]
    json: bool,
    /// As it was behind this event, by its seq in the current generation
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
}

/// Shows the messages of the session that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let source = current::open(root, &target)?;
    let (events, report) = current::load(&source)?;
    let path = source.path().display();
    let events = match args.at {
        None => events,
        Some(at) if at < events.end() => events.prefix(at.saturating_add(1)),
        Some(at) => {
            let what = format!("{path}: event {at} is not in a log of {} events", events.end());
            return Err(Failure::new(what, "events are counted from 0; without --at all of them count"));
        }
    };
    let messages = derive_messages(Profile::current(), &events).map_err(|fault| {
        let what = format!("{path}: event {} cannot stand where it stands: {}", fault.seq, fault.fault);
        let next = fault.seq.checked_sub(1).map_or_else(
            || "`seslog cat` shows the events".to_owned(),
            |before| format!("--at {before} shows the conversation before it"),
        );
        Failure::new(what, next)
    })?;
    let mut out = Out::new();
    for (index, message) in messages.iter().enumerate() {
        let seq = messages.seq(index).unwrap_or_default();
        if args.json {
            let mut object = Object::new();
            object.number("seq", seq).json("message", message);
            out.log_row(object.into_line().trim_ascii_end())?;
        } else {
            write_for_people(&mut out, seq, message)?;
        }
    }
    out.flush()?;
    if messages.is_empty() && !args.json {
        talk::note(&format!("{path}: no messages"));
    }
    // What was asked for ends before the end.
    Ok(Outcome::marred_if(args.at.is_none() && current::tell_end(&source, &report)))
}

fn write_for_people(out: &mut Out, seq: u64, message: &str) -> Result<(), Failure> {
    let mut tape = Tape::default();
    // It was read before; whatever it is, its text can be shown.
    let Ok(node) = tape.parse(message.as_bytes(), LIMITS.nesting_max) else {
        return out.line(&clean(message));
    };
    let source = node.get("source");
    let model = text(source, "model").map_or_else(String::new, |model| format!("  {}", clean(&model)));
    let role = text(Some(node), "role").unwrap_or_default();
    let head = out.styled(Style::new().bold(), &format!("{}  #{seq}{model}", clean(&role)));
    out.line(&head)?;
    for block in node.get("content").and_then(Node::items).into_iter().flatten() {
        write_block(out, block)?;
    }
    out.line("")
}

fn write_block(out: &mut Out, block: Node<'_>) -> Result<(), Failure> {
    let get = |name: &str| text(Some(block), name).unwrap_or_default();
    let kind = get("type");
    match &*kind {
        "text" => write_text(out, "", &get("text")),
        "reasoning" => write_text(out, "(thinks) ", &get("text")),
        "tool-call" => write_text(out, &format!("-> {} {}: ", get("name"), get("id")), &get("arguments")),
        "tool-result" => {
            let is_error = block.get("isError").and_then(Node::as_bool) == Some(true);
            let word = if is_error { "error of" } else { "result of" };
            let head = format!("<- {word} {}: ", get("toolCallId"));
            // Results hold blocks in turn, and those of the known kinds hold no more.
            let inner = block.get("content").and_then(Node::items).into_iter().flatten();
            let texts: Vec<String> = inner
                .map(|block| {
                    let kind = text(Some(block), "type").unwrap_or_default();
                    text(Some(block), "text").unwrap_or_else(|| format!("[{kind}]"))
                })
                .collect();
            write_text(out, &head, &texts.join("\n"))
        }
        kind => write_text(out, "", &format!("[{kind}]")),
    }
}

/// Writes text with what it is before its first line, indented, and such that nothing in it drives a terminal.
fn write_text(out: &mut Out, head: &str, text: &str) -> Result<(), Failure> {
    let text = format!("{head}{text}").replace('\t', "    ");
    text.lines().try_for_each(|line| out.line(format!("  {}", clean(line)).trim_end()))
}

fn text(node: Option<Node<'_>>, member: &str) -> Option<String> {
    Some(node?.get(member)?.as_str()?.to_string_lossy().into_owned())
}
