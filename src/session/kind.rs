//! The released event types, as values that code can match on.

use std::sync::LazyLock;

macro_rules! kinds {
    ($($name:ident = $text:literal,)*) => {
        /// An event type of the frozen generations. Which generation has it: its profile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Kind {
            /// Every released type, in order of name.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type's name as rows spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The type of that name, or `None` if no frozen generation released one. Time O(1).
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                let mut at = hash(name);
                // Half of the table is empty, so every search ends.
                while let Some(kind) = TABLE.get(at).copied().flatten() {
                    if kind.name() == name {
                        return Some(kind);
                    }
                    at = next(at);
                }
                None
            }
        }
    };
}

kinds! {
    AgentPresetSelected = "agent-preset/selected",
    AgentInboxSpliced = "agent/inbox/spliced",
    ApprovalAsked = "approval/asked",
    ApprovalDecided = "approval/decided",
    ApprovalPolicy = "approval/policy",
    AssistantAttempt = "assistant/attempt",
    AssistantChunk = "assistant/chunk",
    AssistantMessage = "assistant/message",
    CommandDone = "command/done",
    CommandRun = "command/run",
    CompactionEnd = "compaction/end",
    CompactionPrune = "compaction/prune",
    CompactionStart = "compaction/start",
    CompactionSummary = "compaction/summary",
    FeedbackRecord = "feedback/record",
    GoalChange = "goal/change",
    HookInvoked = "hook/invoked",
    HookResult = "hook/result",
    LlmRetry = "llm/retry",
    LlmRetryStarted = "llm/retry-started",
    ModelSelection = "model/selection",
    PermissionPreset = "permission/preset",
    PlanMode = "plan/mode",
    RequestContext = "request/context",
    RequestHeader = "request/header",
    SandboxMode = "sandbox/mode",
    ScheduleChange = "schedule/change",
    DeliveryAccepted = "session-log-deepseek/delivery-accepted",
    SessionEndSeed = "session/end-seed",
    SessionTitle = "session/title",
    SessionTitleLlmRequest = "session/title-llm-request",
    StepEnd = "step/end",
    StepStart = "step/start",
    SubagentDescriptor = "subagent/descriptor",
    SubagentModelSelectionPolicy = "subagent/model-selection-policy",
    TeamMember = "team/member",
    TeamMessageDelivered = "team/message/delivered",
    TeamMessageQueued = "team/message/queued",
    TeamTask = "team/task",
    TodoWrite = "todo/write",
    ToolWorkflowAgentEnd = "tool-workflow/agent-end",
    ToolWorkflowAgentStart = "tool-workflow/agent-start",
    ToolWorkflowRunEnd = "tool-workflow/run-end",
    ToolWorkflowRunStart = "tool-workflow/run-start",
    ToolCall = "tool/call",
    ToolCodeDispatch = "tool/code-dispatch",
    ToolCodeDispatchStart = "tool/code-dispatch-start",
    ToolResult = "tool/result",
    TurnEnd = "turn/end",
    TurnStart = "turn/start",
    UserMessage = "user/message",
    WebDeepseekSearchLlmRequest = "web/deepseek-search-llm-request",
}

impl Kind {
    /// The position in [`Kind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the type takes part in the model-visible surface: it then carries `surfaceOp`, and may cite sources.
    #[must_use]
    pub const fn is_surface(self) -> bool {
        matches!(self, Self::UserMessage | Self::AssistantMessage | Self::ToolResult)
    }
}

/// Types by the hash of their names; a place that is taken moves to the next.
static TABLE: LazyLock<[Option<Kind>; SLOTS]> = LazyLock::new(|| {
    let mut table = [None; SLOTS];
    for kind in Kind::ALL {
        let mut at = hash(kind.name());
        while table.get(at).is_some_and(Option::is_some) {
            at = next(at);
        }
        if let Some(slot) = table.get_mut(at) {
            *slot = Some(*kind);
        }
    }
    table
});

const SLOTS: usize = 256;

const _: () = assert!(Kind::ALL.len() * 2 < SLOTS);

fn next(at: usize) -> usize {
    at.wrapping_add(1) % SLOTS
}

/// Length, last byte and the one in the middle tell the names apart well enough.
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(0));
    let (last, middle) = (byte(bytes.len().saturating_sub(1)), byte(bytes.len() / 2));
    bytes.len().wrapping_mul(31).wrapping_add(last.wrapping_mul(7)).wrapping_add(middle) % SLOTS
}
