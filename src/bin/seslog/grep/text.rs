//! The text in a row: what people, models and tools said.

use seslog::json::{Items, Kind, Members, Node, Str, Tape, Text};
use seslog::row::{Event, Packed, PhysicalRow};
use seslog::stream::{Block, Settlement, SettlementKind};

use crate::failure::Failure;
use crate::root::LIMITS;

/// Takes pieces of text, each whole: a match never goes beyond one.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&str) -> Result<(), Failure>;

/// Gives each string in the row's data to `sink`, in the order in which they stand there.
///
/// Names of members are no text. The stream inside of a settlement repeats the message beside it, token by token, and is left
/// out; where there is no message, as the attempt came to nothing, its blocks are the text. Fragments of a packed row are
/// joined.
///
/// # Errors
/// What the sink returns.
pub(super) fn each_text(row: &PhysicalRow<'_>, tape: &mut Tape, sink: Sink<'_>) -> Result<(), Failure> {
    match row {
        PhysicalRow::Event(event) => of_event(event, tape, sink),
        PhysicalRow::Packed(packed) => sink(&joined(packed).to_string_lossy()),
    }
}

/// Whether a text of the row may stand in it in several pieces, so that a match need not stand in its line.
pub(super) fn joins_pieces(row: &PhysicalRow<'_>) -> bool {
    match row {
        PhysicalRow::Event(event) => {
            SettlementKind::of_event(event.event_type().raw()) == Some(SettlementKind::Attempt)
        }
        PhysicalRow::Packed(_) => true,
    }
}

fn joined(packed: &Packed<'_>) -> Text {
    let mut text = Text::new();
    packed.members().for_each(|member| member.fragment.append_to(&mut text));
    text
}

fn of_event(event: &Event<'_>, tape: &mut Tape, sink: Sink<'_>) -> Result<(), Failure> {
    let kind = SettlementKind::of_event(event.event_type().raw());
    if kind == Some(SettlementKind::Attempt) && attempted(event.data(), sink)? {
        return Ok(());
    }
    let Ok(data) = tape.parse(event.data().as_bytes(), LIMITS.nesting_max) else { return Ok(()) };
    let skipped = kind.map(|_| "stream");
    match data.members() {
        Some(members) => {
            for (name, value) in members {
                if skipped.is_none_or(|skipped| !name.eq_str(skipped)) {
                    strings(value, sink)?;
                }
            }
            Ok(())
        }
        None => strings(data, sink),
    }
}

/// The blocks of an attempt that was not settled by a message. `false` if its stream makes no sense.
fn attempted(data: &str, sink: Sink<'_>) -> Result<bool, Failure> {
    let Ok(settlement) = Settlement::read(SettlementKind::Attempt, data) else { return Ok(false) };
    let Ok(assembler) = settlement.reader().assemble() else { return Ok(false) };
    for block in assembler.interrupted_blocks() {
        match block {
            Block::Closed(json) => {
                if let Ok(block) = Tape::default().parse(json.as_bytes(), LIMITS.nesting_max) {
                    strings(block, sink)?;
                }
            }
            Block::Text(text) | Block::Reasoning(text) => sink(&text.to_string_lossy())?,
            Block::ToolCall { name, arguments, .. } => {
                sink(&name.to_string_lossy())?;
                sink(&arguments.to_string_lossy())?;
            }
            _ => {}
        }
    }
    Ok(true)
}

/// What is left of an array or an object.
enum Rest<'t> {
    Items(Items<'t>),
    Members(Members<'t>),
}

/// Every string in `node`. The nesting is the input's choice, so it is kept in memory, not on the stack.
fn strings(node: Node<'_>, sink: Sink<'_>) -> Result<(), Failure> {
    let mut open: Vec<Rest<'_>> = Vec::new();
    let mut next = Some(node);
    loop {
        if let Some(node) = next {
            match node.kind() {
                Kind::String => {
                    node.as_str().map_or(Ok(()), |text: Str<'_>| sink(&text.to_string_lossy()))?
                }
                Kind::Array => open.extend(node.items().map(Rest::Items)),
                Kind::Object => open.extend(node.members().map(Rest::Members)),
                _ => {}
            }
        }
        let Some(rest) = open.last_mut() else { return Ok(()) };
        next = match rest {
            Rest::Items(items) => items.next(),
            Rest::Members(members) => members.next().map(|(_, value)| value),
        };
        if next.is_none() {
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seslog::row::Check;

    fn texts(line: &str) -> Vec<String> {
        let event = Event::read(line.as_bytes(), Check::Full, &LIMITS).unwrap();
        let mut found = Vec::new();
        each_text(&PhysicalRow::Event(event), &mut Tape::default(), &mut |text| {
            found.push(text.to_owned());
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn strings_come_in_order_without_names_and_unescaped() {
        let line = r#"{"type":"x","seq":0,"time":1,"data":{"a":["b\n\"c\"",{"d":"e"},7],"f":{"g":[]},"h":"\ud83d"}}"#;
        assert_eq!(texts(line), ["b\n\"c\"", "e", "\u{fffd}"]);
        assert_eq!(texts(r#"{"type":"x","seq":0,"time":1,"data":"only"}"#), ["only"]);
        let deep = format!("{}\"x\"{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(texts(&format!(r#"{{"type":"x","seq":0,"time":1,"data":{deep}}}"#)), ["x"]);
    }

    #[test]
    fn a_message_is_text_once_and_an_attempt_is_its_blocks() {
        let stream = r#"[{"type":"text-chunks","index":0,"time0":5,"dt":[1],"texts":["two","gether"]}]"#;
        let message = format!(
            r#"{{"type":"assistant/message","seq":0,"time":1,"data":{{"turn":1,"step":1,"message":{{"content":[{{"text":"twogether"}}]}},"stream":{stream}}},"surfaceOp":"append"}}"#
        );
        assert_eq!(texts(&message), ["twogether"]);
        let attempt = format!(
            r#"{{"type":"assistant/attempt","seq":0,"time":1,"data":{{"turn":1,"step":1,"stream":{stream}}}}}"#
        );
        assert_eq!(texts(&attempt), ["twogether"]);
    }
}
