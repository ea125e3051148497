//! What the migration tests share: a whole log in memory, converted.

// Each test binary compiles this module for itself and uses only a part of it.
#![allow(dead_code, reason = "no single test binary uses every helper")]

pub(crate) mod generate;
mod mutate;
pub(crate) mod value;

use std::ops::ControlFlow;

use seslog::format::catalog::{Classified, classify};
use seslog::format::{Migration, PayloadCheck, Refusal, TargetRow, Verifier};
use seslog::limits::Limits;
use seslog::row::{Header, Recovery};

/// Converts a v0 or v1 log to the text of a v2 log.
pub(crate) fn migrate(log: &[u8], recovery: Recovery) -> Result<Vec<u8>, Refusal> {
    let limits = Limits::DEFAULT;
    let (header, rows) = split_line(log);
    let stored = match classify(header, &limits) {
        Classified::MigrationRequired { stored, .. } => stored,
        Classified::Refused { refusal, .. } => return Err(refusal),
        other => panic!("nothing to migrate: {other:?}"),
    };
    let mut migration = Migration::new(&stored, recovery, &limits).expect("an older generation");
    let mut out = Vec::new();
    migration.header().write(&mut out);
    out.push(b'\n');
    let mut next_seq = 0;
    let mut sink = |row: &TargetRow<'_>| {
        assert_eq!(row.seq().get(), next_seq, "rows come in order");
        next_seq += 1;
        row.write_to(&mut out);
        out.push(b'\n');
        ControlFlow::Continue(())
    };
    let mut rest = rows;
    while !rest.is_empty() {
        if !rest.contains(&b'\n') {
            migration.torn_tail()?;
            break;
        }
        let (line, next) = split_line(rest);
        let _ = migration.push(line, &mut sink)?;
        rest = next;
    }
    let outcome = migration.finish(&mut sink)?;
    assert_eq!(outcome.events, next_seq, "the outcome counts the rows");
    Ok(out)
}

/// The first line without its newline, and what follows it.
pub(crate) fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

/// Verifies a v2 log as a publication does, its payloads included.
pub(crate) fn verify(log: &[u8]) -> Result<(), Refusal> {
    let (header, mut rest) = split_line(log);
    let header = Header::parse(header, &Limits::DEFAULT).expect("a header");
    let mut verifier = Verifier::new(&header, PayloadCheck::All, &Limits::DEFAULT)?;
    let mut events = 0;
    while !rest.is_empty() {
        let (line, next) = split_line(rest);
        verifier.push(line)?;
        events += 1;
        rest = next;
    }
    verifier.finish(header.id(), events).map(|verified| assert_eq!(verified.events, events))
}
