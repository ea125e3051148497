//! What a running host demands of a log's surface beyond the rules of the format.
//!
//! Spec: `format-spec/06-migration.md`, "Installed session".

use super::inventory::Kind;
use super::relations::View;
use crate::json::Node;
use crate::session::{Fingerprint, Fingerprints, SurfaceOp};

/// The checker. It takes events whose relationships hold. 24 bytes of memory for each tool result.
#[derive(Debug, Default)]
pub(super) struct SessionRules {
    fingerprints: Fingerprints,
    /// What a replacement has to keep of every tool result, by ascending seq.
    results: Vec<(u64, Fingerprint)>,
    fault: Option<SessionFault>,
}

/// The first event that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionFault {
    pub(super) seq: u64,
    pub(super) rule: &'static str,
}

impl SessionRules {
    /// Takes the next event.
    pub(super) fn push(&mut self, event: &View<'_>) {
        if self.fault.is_none()
            && event.kind.is_surface()
            && let Err(rule) = self.check(event)
        {
            self.fault = Some(SessionFault { seq: event.seq, rule });
        }
    }

    /// The first fault.
    pub(super) fn fault(&self) -> Option<SessionFault> {
        self.fault
    }

    fn check(&mut self, event: &View<'_>) -> Result<(), &'static str> {
        if let Some(sources) = event.sources {
            if event.kind == Kind::AssistantMessage {
                return Err("an assistant message cites sources");
            }
            if sources.is_empty() {
                return Err("sourceEventSeqs is empty");
            }
            if !sources.is_below(event.seq) || !sources.is_unique() {
                return Err("sourceEventSeqs repeats an event, or names one that is not earlier");
            }
        }
        if event.kind == Kind::ToolResult {
            let kept = self.kept(event.data);
            if let SurfaceOp::Replace { start, end } = event.surface_op {
                let replaced = self.results.binary_search_by_key(&start, |(seq, _)| *seq).ok();
                let replaced = replaced.filter(|_| start == end).and_then(|at| self.results.get(at));
                let (_, former) =
                    replaced.ok_or("a tool result replaces something else than one tool result")?;
                if kept.is_none() || kept != Some(*former) {
                    return Err("a tool result replaces one that differs in more than its content");
                }
            }
            self.results.push((event.seq, kept.unwrap_or_default()));
        }
        Ok(())
    }

    /// The fingerprint of a tool result without the content of its one block; `None` if it has no such block.
    fn kept(&self, data: Node<'_>) -> Option<Fingerprint> {
        let message = data.get("message")?;
        let mut blocks = message.get("content")?.items()?;
        let (block, None) = (blocks.next()?, blocks.next()) else { return None };
        let of = |object, left_out| self.fingerprints.of_members(object, left_out);
        let parts = [of(data, "message"), of(message, "content"), of(block, "content")];
        Some(self.fingerprints.of_parts(&parts))
    }
}
