//! What a running host demands of a log's surface beyond the rules of the format.
//!
//! Spec: `format-spec/06-migration.md`, "Installed session".

use super::inventory::Kind;
use super::relations::View;
use crate::session::{
    Fingerprint, Fingerprints, MessageSources, SurfaceFault, SurfaceOp, check_sources, kept,
};

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
        let sources = event.sources.map_or(Ok(()), |sources| {
            check_sources(event.kind, event.seq, sources, MessageSources::Forbidden)
        });
        sources.map_err(SurfaceFault::rule)?;
        if event.kind == Kind::ToolResult {
            let kept = kept(&self.fingerprints, event.data);
            if let SurfaceOp::Replace { start, end } = event.surface_op {
                let replaced = self.results.binary_search_by_key(&start, |(seq, _)| *seq).ok();
                let replaced = replaced.filter(|_| start == end).and_then(|at| self.results.get(at));
                let (_, former) = replaced.ok_or(SurfaceFault::ResultTarget.rule())?;
                if kept.is_none() || kept != Some(*former) {
                    return Err(SurfaceFault::ResultChanged.rule());
                }
            }
            self.results.push((event.seq, kept.unwrap_or_default()));
        }
        Ok(())
    }
}
