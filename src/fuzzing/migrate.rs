//! Arbitrary logs through the migration: they are refused, or give a log that every reader of v2 takes.

use std::ops::ControlFlow;

use crate::format::catalog::{Classified, classify};
use crate::format::{Detail, Migration, PayloadCheck, Restore, TargetRow, Validation, Verifier};
use crate::json::Tape;
use crate::limits::Limits;
use crate::row::{Recovery, RowFault};

/// Converts `data` as a log. The first byte chooses the recovery, if it is no brace.
pub fn fuzz_migrate(data: &[u8]) {
    let (recovery, log) = match data.split_first() {
        Some((choice, rest)) if *choice != b'{' => {
            (if choice & 1 == 0 { Recovery::Strict } else { Recovery::Recoverable }, rest)
        }
        _ => (Recovery::Recoverable, data),
    };
    let limits = Limits { nesting_max: 1000, ..Limits::DEFAULT };
    let mut lines = log.split(|byte| *byte == b'\n');
    let Some(header) = lines.next() else { return };
    let Classified::MigrationRequired { stored, .. } = classify(header, &limits) else { return };
    let Ok(mut migration) = Migration::new(&stored, recovery, &limits) else { return };
    let mut out = Vec::new();
    let mut sink = |row: &TargetRow<'_>| {
        row.write_to(&mut out);
        out.push(b'\n');
        ControlFlow::Continue(())
    };
    let mut refusal = None;
    for line in lines {
        if let Err(refused) = migration.push(line, &mut sink) {
            refusal = Some(refused);
            break;
        }
    }
    let outcome = match (migration.finish(&mut sink), refusal) {
        (Ok(outcome), None) => outcome,
        (Err(end), Some(refusal)) => return assert_eq!(end, refusal, "a refusal is final"),
        (Err(_), None) => return,
        (Ok(_), Some(refusal)) => unreachable!("a refused log was finished: {refusal}"),
    };
    let header = migration.header().clone();
    let rows: Vec<&[u8]> = out.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()).collect();
    let events = u64::try_from(rows.len()).expect("a count");
    assert_eq!(events, outcome.events, "every event was delivered");

    // The rows are canonical, and a strict reader of the current generation takes them as they are.
    let mut header_line = Vec::new();
    header.write(&mut header_line);
    let mut restore =
        Restore::new(&header_line, Recovery::Strict, Validation::Transformed, &limits).expect("a v2 header");
    let mut verifier = Verifier::new(&header, PayloadCheck::Messages, &limits).expect("a v2 header");
    let mut tape = Tape::default();
    let mut read_back = 0_u64;
    let mut count = |_: &TargetRow<'_>| {
        read_back = read_back.saturating_add(1);
        ControlFlow::Continue(())
    };
    let mut cites_twice = false;
    for row in rows {
        let node = tape.parse(row, limits.nesting_max.saturating_add(8)).expect("a row is JSON");
        let mut canonical = Vec::new();
        node.write_canonical(&mut canonical);
        assert_eq!(canonical, row, "a row is canonical");
        // Lists that repeat a source convert, as the published release has it, and only the reader refuses them.
        let _ = restore.push(row, &mut count);
        if let Err(refusal) = verifier.push(row) {
            assert!(matches!(refusal.detail(), Detail::Row(RowFault::Provenance(_))), "{refusal}");
            cites_twice = true;
        }
    }
    if cites_twice {
        return;
    }
    let restored = restore.finish(&mut count).expect("a converted log is a log");
    assert_eq!((restored.events, restored.inherited), (outcome.events, outcome.inherited));
    assert_eq!(read_back, outcome.events);
    if let Err(refusal) = verifier.finish(header.id(), events) {
        let name = refusal.code().name();
        assert!(name.starts_with("stream-") || name == "surface-metadata", "{refusal}");
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_migrate;

    /// The sources of the migration vectors, and what a few thousand small changes make of them.
    #[test]
    fn vectors_and_their_mutations_keep_the_promise() {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors/migration");
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 11).expect("53 bits") % bound.max(1)
        };
        let mut sources = Vec::new();
        for entry in std::fs::read_dir(vectors).expect("vectors") {
            if let Ok(source) = std::fs::read(entry.expect("an entry").path().join("source.jsonl")) {
                sources.push(source);
            }
        }
        assert_eq!(sources.len(), 159);
        let tokens: [&[u8]; 12] =
            [b"0", b"1", b"-1", b"null", b"{}", b"[]", b"\"\"", b"true", b",", b"\n", b"\\u0061", b"1e400"];
        for source in &sources {
            fuzz_migrate(source);
            for _ in 0..30 {
                let mut changed = source.clone();
                for _ in 0..=next(2) {
                    let at = next(changed.len());
                    match next(4) {
                        0 => {
                            changed.remove(at);
                        }
                        1 => {
                            let token = tokens[next(tokens.len())];
                            changed.splice(at..at, token.iter().copied());
                        }
                        2 => {
                            // A digit for a digit keeps the log readable and moves its references.
                            if let Some(digit) = changed[at..].iter().position(u8::is_ascii_digit) {
                                changed[at + digit] = b'0' + u8::try_from(next(10)).expect("a digit");
                            }
                        }
                        _ => {
                            // A line from anywhere.
                            let other = &sources[next(sources.len())];
                            let lines: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
                            let line = lines[next(lines.len())];
                            let start = changed[..at]
                                .iter()
                                .rposition(|byte| *byte == b'\n')
                                .map_or(0, |end| end + 1);
                            changed.splice(start..start, line.iter().copied());
                        }
                    }
                }
                changed.insert(0, b'0' + u8::try_from(next(2)).expect("one digit"));
                fuzz_migrate(&changed);
            }
        }
    }
}
