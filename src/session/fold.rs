//! The surface of a whole log, or of a stretch of one, at once.

use super::intake::{Demands, EventFault, Intake};
use super::log::Log;
use super::messages::{Derivation, Messages};
use super::profile::Profile;

/// The surface after the last event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SurfaceFold {
    /// The seqs on the surface, in its order.
    pub nodes: Vec<u64>,
    /// What was replaced, in order of seq.
    pub replacements: Vec<Replacement>,
}

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replacement {
    /// The event that replaced.
    pub seq: u64,
    /// The first replaced seq, by the order of the surface.
    pub start: u64,
    /// The last.
    pub end: u64,
    /// All that were replaced, in the order of the surface.
    pub shadowed: Vec<u64>,
}

/// A fold that met an event which cannot stand where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq}: {fault}")]
#[non_exhaustive]
pub struct FoldFault {
    /// The event's seq.
    pub seq: u64,
    /// Why.
    pub fault: EventFault,
}

/// Folds `log` by the rules of the surface alone; payloads are not judged. Time O(bytes).
///
/// For a stretch of a log, the events before it do not exist: a replacement that reaches before its start is a fault.
///
/// # Errors
/// The first event that breaks a rule.
///
/// Spec: `format-spec/06-migration.md`, "Surface".
pub fn fold_surface(profile: &'static Profile, log: &Log) -> Result<SurfaceFold, FoldFault> {
    let mut replacements = Vec::new();
    let intake = follow(profile, log, |seq, shadowed| {
        if let (Some(&start), Some(&end)) = (shadowed.first(), shadowed.last()) {
            replacements.push(Replacement { seq, start, end, shadowed });
        }
    })?;
    Ok(SurfaceFold { nodes: intake.surface().iter().map(|(_, seq)| seq).collect(), replacements })
}

/// The messages that the surface of `log` stands for. Time O(bytes).
///
/// # Errors
/// As [`fold_surface`].
pub fn derive_messages(profile: &'static Profile, log: &Log) -> Result<Messages, FoldFault> {
    let intake = follow(profile, log, |_, _| {})?;
    Ok(Derivation::default().messages(&intake, log))
}

/// Follows `log` from its start; `replaced` is told of each replacement and what it shadows.
pub(crate) fn follow(
    profile: &'static Profile,
    log: &Log,
    mut replaced: impl FnMut(u64, Vec<u64>),
) -> Result<Intake, FoldFault> {
    let mut intake = Intake::new(profile);
    for event in log.iter() {
        let seq = event.seq().get();
        let admitted =
            intake.judge(&event, log, Demands::SURFACE).map_err(|fault| FoldFault { seq, fault })?;
        if let Some((plan, _)) = admitted.place {
            let shadowed: Vec<u64> = intake.surface().shadowed(plan).collect();
            if !shadowed.is_empty() {
                replaced(seq, shadowed);
            }
        }
        intake.commit(admitted);
    }
    Ok(intake)
}
