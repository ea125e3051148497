//! The current generation of an older log, to be stored beside it.

use std::ops::ControlFlow;

use super::judge::stored_header;
use super::log::{Log, View};
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::format::{Migration, PayloadCheck, Refusal, TargetRow, Verifier};
use crate::limits::Limits;
use crate::row::Recovery;
use crate::store::events::Events;
use crate::store::snapshot::header_error;
use crate::units::Generation;

/// Converts a log of an older generation and checks the result.
///
/// # Errors
/// [`Error::Refused`], and what is wrong with the header.
pub(super) fn successor(view: &View, limits: &Limits) -> Result<Log> {
    let source = stored_header(view, limits)?;
    let migration = Migration::new(&source, Recovery::Recoverable, limits)
        .map_err(|fault| header_error(&view.path(), fault))?;
    let target = migration.header().clone();
    let mut header = Vec::new();
    target.write(&mut header);
    let events =
        convert(view, migration, limits).map_err(|source| Error::Refused { path: view.path(), source })?;
    let (lines, bytes) = (events.len(), events.as_bytes().len() as u64);
    Ok(Log::whole(Generation::CURRENT, header, Rows::of_events(&events), lines, bytes))
}

fn convert(view: &View, mut migration: Migration, limits: &Limits) -> Result<Events, Refusal> {
    let mut events = Events::default();
    let mut text = Vec::new();
    let mut sink = |row: &TargetRow<'_>| {
        text.clear();
        row.write_to(&mut text);
        events.push_line(&text);
        ControlFlow::Continue(())
    };
    let mut refusal = None;
    view.log.rows.each(0, view.log.lines, &mut |line| match migration.push(line, &mut sink) {
        Ok(flow) => flow,
        Err(found) => {
            refusal = Some(found);
            ControlFlow::Break(())
        }
    });
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if !view.log.fragment.is_empty() {
        migration.torn_tail()?;
    }
    let outcome = migration.finish(&mut sink)?;
    let header = migration.header();
    let mut verifier = Verifier::new(header, PayloadCheck::Messages, limits)?;
    for row in events.rows() {
        verifier.push(row)?;
    }
    verifier.finish(header.id(), outcome.events)?;
    Ok(events)
}
