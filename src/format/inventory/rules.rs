//! The rules that `.schema` files name: what one member demands of another.
//!
//! Spec: `format-spec/07-inventory.md`, "Rules".

use std::collections::HashSet;

use super::program::{Place, Program};
use crate::json::{Node, Number, Str, Text, write_string, write_text};
use crate::units::Generation;

macro_rules! rules {
    ($($name:ident = $text:literal,)*) => {
        /// A rule by its name in the `.schema` files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Rule {
            $($name,)*
        }

        impl Rule {
            #[cfg(test)]
            pub(super) const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            pub(super) fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

rules! {
    PluginSource = "plugin-source",
    SessionReferenceList = "session-reference-list",
    SessionReferenceCounts = "session-reference-counts",
    CapturedFormatVersion = "captured-format-version",
    LegacyGoalMessage = "legacy-goal-message",
    SourceKindModel = "source-kind-model",
    SourceKindTool = "source-kind-tool",
    SingleToolResult = "single-tool-result",
    AdapterDefaultsPresentInConfig = "adapter-defaults-present-in-config",
    BlockedReasonIffBlocked = "blocked-reason-iff-blocked",
    ShadowedEndpoints = "shadowed-endpoints",
    LlmStreamCallNeedsRawOutput = "llm-stream-call-needs-raw-output",
    RetryWithinMax = "retry-within-max",
    DeliveryGeneration = "delivery-generation",
    AllowOrDeny = "allow-or-deny",
    AgentProviderModelPaired = "agent-provider-model-paired",
    UniqueRoutes = "unique-routes",
    RunArityAndTimes = "run-arity-and-times",
}

impl Rule {
    /// Whether `value`, whose members already have their declared forms, keeps the rule.
    pub(super) fn holds(self, program: &Program, value: Node<'_>, place: Place) -> bool {
        match self {
            Self::PluginSource => plugin_source(value),
            Self::SessionReferenceList => session_reference_list(value),
            Self::SessionReferenceCounts => session_reference_counts(value),
            Self::CapturedFormatVersion => {
                place.generation > Generation::V0 || value.get("capturedFormatVersion").is_none()
            }
            Self::LegacyGoalMessage => legacy_goal_message(program, value, place),
            Self::SourceKindModel => has_source_kind(value, "model"),
            Self::SourceKindTool => has_source_kind(value, "tool"),
            Self::SingleToolResult => single_tool_result(value),
            Self::AdapterDefaultsPresentInConfig => adapter_defaults_present_in_config(value),
            Self::BlockedReasonIffBlocked => {
                value.get("blockedReason").is_some()
                    == text(value, "phase").is_some_and(|s| s.eq_str("blocked"))
            }
            Self::ShadowedEndpoints => shadowed_endpoints(value),
            Self::LlmStreamCallNeedsRawOutput => {
                value.get("llmStreamCall").is_none() || value.get("rawOutput").is_some()
            }
            Self::RetryWithinMax => count(value, "retry") <= count(value, "maxRetries"),
            Self::DeliveryGeneration => delivery_generation(value, place),
            Self::AllowOrDeny => value.get("allow").is_some() || value.get("deny").is_some(),
            Self::AgentProviderModelPaired => {
                value.get("agentProvider").is_some() == value.get("agentModel").is_some()
            }
            Self::UniqueRoutes => unique_routes(value),
            Self::RunArityAndTimes => run_arity_and_times(value),
        }
    }

    /// Whether `source` of a user message has the form that [`Rule::LegacyGoalMessage`] judges instead of the schema.
    pub(super) fn is_legacy_goal_source(source: Node<'_>, place: Place) -> bool {
        place.generation < Generation::V2
            && text(source, "kind").is_some_and(|s| s.eq_str("goal"))
            && source.get("change").is_some()
    }
}

fn text<'t>(value: Node<'t>, member: &str) -> Option<Str<'t>> {
    value.get(member)?.as_str()
}

fn non_empty(value: Node<'_>) -> bool {
    value.as_str().is_some_and(|s| !s.is_empty())
}

fn count(value: Node<'_>, member: &str) -> Option<u64> {
    value.get(member)?.as_number().and_then(Number::as_count)
}

fn has_source_kind(message: Node<'_>, kind: &str) -> bool {
    message.get("source").and_then(|source| text(source, "kind")).is_some_and(|s| s.eq_str(kind))
}

/// Compaction members belong to plugin `compact` alone; `sections` and `summary` to one form each.
fn plugin_source(source: Node<'_>) -> bool {
    let compaction_id = source.get("compactionId");
    let command_id = source.get("sourceCommandId");
    let ids = if text(source, "plugin").is_some_and(|s| s.eq_str("compact")) {
        compaction_id.is_some_and(non_empty) && command_id.is_none_or(non_empty)
    } else {
        compaction_id.is_none() && command_id.is_none()
    };
    let Some(form) = text(source, "form") else { return ids };
    let (sections, summary) = (source.get("sections"), source.get("summary"));
    let sections_fit =
        if form.eq_str("snapshot") { sections.is_some_and(are_sections) } else { sections.is_none() };
    let summary_fits =
        if form.eq_str("notice") { summary.is_some_and(|s| s.as_str().is_some()) } else { summary.is_none() };
    ids && sections_fit && summary_fits
}

fn are_sections(sections: Node<'_>) -> bool {
    sections.items().is_some_and(|mut items| {
        items.all(|section| {
            section.members().is_some_and(|members| members.len() == 2)
                && section.get("name").is_some_and(non_empty)
                && text(section, "text").is_some()
        })
    })
}

fn session_reference_list(source: Node<'_>) -> bool {
    let Some(references) = source.get("references").and_then(Node::items) else { return false };
    let mut ids = HashSet::new();
    (0_u64..).zip(references).all(|(index, reference)| {
        count(reference, "inputIndex") == Some(index)
            && text(reference, "sessionId").is_some_and(|id| ids.insert(id.to_text()))
    })
}

fn session_reference_counts(reference: Node<'_>) -> bool {
    let (Some(original), Some(retained), Some(omitted), Some(omitted_bytes)) = (
        count(reference, "originalMessages"),
        count(reference, "retainedMessages"),
        count(reference, "omittedMessages"),
        count(reference, "omittedBytes"),
    ) else {
        return false;
    };
    original.checked_sub(retained) == Some(omitted)
        && reference.get("truncated").and_then(Node::as_bool) == Some(omitted > 0 || omitted_bytes > 0)
}

/// A user message whose source is the round-zero goal form: the source repeats its change, and the text states it.
fn legacy_goal_message(program: &Program, message: Node<'_>, place: Place) -> bool {
    let Some(source) = message.get("source") else { return false };
    if !Rule::is_legacy_goal_source(source, place) {
        return true;
    }
    let Some(change) = source.get("change") else { return false };
    let exact = source.members().is_some_and(|members| members.len() == 5)
        && source.get("goalId").is_some_and(non_empty)
        && count(source, "revision").is_some_and(|n| n >= 1)
        && count(source, "round") == Some(0);
    let is_change = program.shape("GoalChange").is_some_and(|id| program.check(id, change, place).is_ok());
    if !exact || !is_change {
        return false;
    }
    let Some(subject) = change.get("cleared").or_else(|| change.get("goal")) else { return false };
    let same = text(source, "goalId").map(Str::to_text) == text(subject, "id").map(Str::to_text)
        && count(source, "revision") == count(subject, "revision");
    same && has_single_text(message, &goal_state_text(change))
}

/// The literal that the one text block of a round-zero goal message holds: its change in compact JSON, tagged.
fn goal_state_text(change: Node<'_>) -> Vec<u8> {
    let members: &[&str] = if change.get("cleared").is_some() {
        &["cleared", "clearedAt"]
    } else {
        &["goal", "roundsStarted", "createdAt", "updatedAt"]
    };
    let mut json = vec![b'{'];
    for (index, name) in members.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_string(&mut json, name);
        json.push(b':');
        if let Some(value) = change.get(name) {
            value.write_canonical(&mut json);
        }
    }
    json.push(b'}');
    let mut text = Text::from("<goal_state>");
    text.push_str(std::str::from_utf8(&json).unwrap_or(""));
    text.push_str("</goal_state>");
    let mut literal = Vec::new();
    write_text(&mut literal, &text);
    literal
}

/// Whether `content` is one text block whose text, as a canonical literal, is `literal`.
fn has_single_text(message: Node<'_>, literal: &[u8]) -> bool {
    let Some(mut blocks) = message.get("content").and_then(Node::items) else { return false };
    let (Some(block), None) = (blocks.next(), blocks.next()) else { return false };
    let is_text = text(block, "type").is_some_and(|s| s.eq_str("text"));
    let mut written = Vec::new();
    if let Some(value) = block.get("text") {
        value.write_canonical(&mut written);
    }
    is_text && written == literal
}

fn single_tool_result(message: Node<'_>) -> bool {
    let Some(mut blocks) = message.get("content").and_then(Node::items) else { return false };
    let (Some(block), None) = (blocks.next(), blocks.next()) else { return false };
    let Some(source) = message.get("source") else { return false };
    text(block, "type").is_some_and(|s| s.eq_str("tool-result"))
        && match (text(block, "toolCallId"), text(source, "callId")) {
            (Some(a), Some(b)) => a.to_text() == b.to_text(),
            _ => false,
        }
}

fn adapter_defaults_present_in_config(header: Node<'_>) -> bool {
    let Some(defaults) = header.get("adapterDefaults").and_then(Node::members) else { return true };
    let Some(config) = header.get("config") else { return false };
    // Only two names are admitted here, and both are plain.
    defaults.into_iter().all(|(name, _)| config.get(&name.to_string_lossy()).is_some())
}

fn shadowed_endpoints(data: Node<'_>) -> bool {
    let Some(range) = data.get("shadowedRange") else { return false };
    let Some(seqs) = data.get("shadowedSeqs").and_then(Node::items) else { return false };
    let as_count = |n: Node<'_>| n.as_number().and_then(Number::as_count);
    let (first, last) = (seqs.clone().next().and_then(as_count), seqs.last().and_then(as_count));
    first.is_some() && count(range, "start") == first && count(range, "end") == last
}

/// A marker of the log's own generation has an id and an earlier seq; of another generation it says what it likes.
fn delivery_generation(data: Node<'_>, place: Place) -> bool {
    let stated = data.get("sessionFormatVersion");
    if stated.is_some() && place.generation == Generation::V0 {
        return false;
    }
    if count(data, "sessionFormatVersion").unwrap_or(0) != place.generation.get() {
        return true;
    }
    data.get("sessionId").is_some_and(non_empty) && count(data, "throughSeq").is_some_and(|n| n < place.seq)
}

fn unique_routes(policy: Node<'_>) -> bool {
    let Some(routes) = policy.get("allowedModels").and_then(Node::items) else { return false };
    let mut seen = HashSet::new();
    routes.into_iter().all(|route| {
        let name = |member| text(route, member).map(Str::to_text);
        seen.insert((name("provider"), name("model")))
    })
}

fn run_arity_and_times(record: Node<'_>) -> bool {
    let fragments = record.get("texts").or_else(|| record.get("args")).and_then(Node::items);
    let (Some(gaps), Some(fragments)) = (record.get("dt").and_then(Node::items), fragments) else {
        return false;
    };
    let as_int = |n: Node<'_>| n.as_number().and_then(Number::as_safe_integer);
    let Some(mut time) = record.get("time0").and_then(as_int) else { return false };
    if gaps.len().checked_add(1) != Some(fragments.len()) {
        return false;
    }
    gaps.into_iter().all(|gap| {
        let next = as_int(gap).and_then(|gap| time.checked_add(gap)).filter(|t| t.unsigned_abs() < 1 << 53);
        next.map(|t| time = t).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_by_its_name() {
        for rule in Rule::ALL {
            assert_eq!(Rule::from_name(rule.name()), Some(*rule));
        }
        assert_eq!(Rule::from_name("no-such-rule"), None);
    }
}
