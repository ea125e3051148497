use super::input::Occurrence;
use super::set::Projection;
use super::state::{ObjectWriter, add, read_count, read_flag};
use crate::json::Node;
use crate::session::Kind;

/// How many turns, steps, messages and tool calls there were, inherited ones included.
#[derive(Debug)]
pub struct Counts;

/// State of [`Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnCounts {
    /// Turns that were started.
    pub turns: u64,
    /// Steps that were started.
    pub steps: u64,
    /// Messages of a person.
    pub prompts: u64,
    /// Messages of the model.
    pub answers: u64,
    /// Tools that were called.
    pub tool_calls: u64,
    /// Whether the last turn has no end: it is running, or a crash left it.
    pub is_open: bool,
}

impl Projection for Counts {
    const KEY: &'static str = "counts";
    const STATE_VERSION: u32 = 2;
    type State = TurnCounts;

    fn init() -> TurnCounts {
        TurnCounts::default()
    }

    fn apply(state: &mut TurnCounts, event: &Occurrence<'_>) {
        let count = match event.kind() {
            Some(Kind::TurnStart) => {
                state.is_open = true;
                &mut state.turns
            }
            Some(Kind::TurnEnd) => {
                state.is_open = false;
                return;
            }
            Some(Kind::StepStart) => &mut state.steps,
            Some(Kind::UserMessage) if event.is_prompt() => &mut state.prompts,
            Some(Kind::AssistantMessage) if event.event().is_appended() => &mut state.answers,
            Some(Kind::ToolCall) => &mut state.tool_calls,
            _ => return,
        };
        *count = add(*count, 1);
    }

    fn encode(state: &TurnCounts, out: &mut Vec<u8>) {
        let TurnCounts { turns, steps, prompts, answers, tool_calls, is_open } = *state;
        let mut object = ObjectWriter::new(out);
        object.count("turns", turns);
        object.count("steps", steps);
        object.count("prompts", prompts);
        object.count("answers", answers);
        object.count("toolCalls", tool_calls);
        object.flag("open", is_open);
        object.end();
    }

    fn decode(json: Node<'_>) -> Option<TurnCounts> {
        Some(TurnCounts {
            turns: read_count(json, "turns")?,
            steps: read_count(json, "steps")?,
            prompts: read_count(json, "prompts")?,
            answers: read_count(json, "answers")?,
            tool_calls: read_count(json, "toolCalls")?,
            is_open: read_flag(json, "open")?,
        })
    }
}
