//! Generated logs, converted and read back: what a conversion gives is a log that every reader of v2 takes.

mod common;
mod migrations;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use migrations::generate;
use seslog::format::{Code, Migration, Refusal, Restore, Restored, TargetRow, Validation};
use seslog::limits::Limits;
use seslog::row::{Header, Recovery};
use seslog::units::Generation;

/// Restores a log of any generation to the text of a current one.
fn restore(log: &[u8], validation: Validation) -> Result<(Vec<u8>, Restored), Refusal> {
    let (header, mut rest) = migrations::split_line(log);
    let mut restore = Restore::new(header, Recovery::Strict, validation, &Limits::DEFAULT)?;
    let mut out = Vec::new();
    restore.header().write(&mut out);
    out.push(b'\n');
    let mut sink = |row: &TargetRow<'_>| {
        assert_eq!(row.len(), row.parts().concat().len());
        row.write_to(&mut out);
        out.push(b'\n');
        ControlFlow::Continue(())
    };
    while !rest.is_empty() {
        let (line, next) = migrations::split_line(rest);
        let _ = restore.push(line, &mut sink)?;
        rest = next;
    }
    let restored = restore.finish(&mut sink)?;
    Ok((out, restored))
}

#[test]
fn a_converted_log_reads_back_as_itself() {
    let (mut migrated, mut verified) = (0, 0);
    let mut refused = BTreeMap::new();
    for seed in 1..=400 {
        let log = generate::log(seed).text;
        let Ok(converted) = migrations::migrate(&log, Recovery::Strict) else { continue };
        migrated += 1;
        let (transformed, older) = restore(&log, Validation::Transformed).expect("it migrates");
        assert!(transformed == converted && older.stored < Generation::CURRENT, "seed {seed}");
        if let Err(refusal) = migrations::verify(&converted) {
            *refused.entry(refusal.code().name()).or_insert(0) += 1;
            continue;
        }
        verified += 1;
        let (current, again) =
            restore(&converted, Validation::Current).expect("a verified log is a current one");
        assert!(current == converted, "seed {seed}: a current log is served as it is");
        assert_eq!((again.events, again.inherited), (older.events, older.inherited), "seed {seed}");
        assert_eq!(again.stored, Generation::CURRENT);
        assert!(restore(&log, Validation::Current).is_ok(), "seed {seed}");
    }
    println!("{migrated} of 400 migrate, {verified} verify, refused by the verifier: {refused:?}");
    assert!(migrated > 160 && verified * 100 > migrated * 70);
}

#[test]
fn a_refusal_stands_and_a_sink_may_stop() {
    let mut stopped = 0;
    for seed in 1..=60 {
        let log = generate::log(seed).text;
        let whole = migrations::migrate(&log, Recovery::Strict);
        let (header, mut rest) = migrations::split_line(&log);
        let Ok(mut restore) =
            Restore::new(header, Recovery::Strict, Validation::Transformed, &Limits::DEFAULT)
        else {
            continue;
        };
        let mut delivered = 0;
        let mut sink = |_: &TargetRow<'_>| {
            delivered += 1;
            if delivered == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut refusal = None;
        while !rest.is_empty() && rest.contains(&b'\n') {
            let (line, next) = migrations::split_line(rest);
            match restore.push(line, &mut sink) {
                Ok(flow) => stopped += usize::from(flow.is_break()),
                Err(found) => {
                    assert!(refusal.is_none_or(|first| first == found), "the first refusal stands");
                    refusal = Some(found);
                }
            }
            rest = next;
        }
        let end = restore.finish(&mut sink);
        if rest.is_empty() {
            assert_eq!(end.is_ok(), whole.is_ok(), "seed {seed}: the verdict does not depend on the sink");
        }
        assert!(delivered <= 3, "nothing comes after a break");
    }
    assert!(stopped > 0);
}

#[test]
fn an_attempt_that_no_row_can_hold_is_refused() {
    let header = br#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#;
    let mut limits = Limits::DEFAULT;
    limits.row_bytes_max = 1000;
    let header = Header::parse(header, &limits).expect("a header");
    let chunk = |seq: u64| {
        format!(
            r#"{{"type":"assistant/chunk","seq":{seq},"time":1,"data":{{"turn":1,"step":1,"chunk":{}}}}}"#,
            r#"{"type":"text-delta","index":0,"text":"0123456789"}"#
        )
    };
    let note =
        |seq: u64| format!(r#"{{"type":"feedback/record","seq":{seq},"time":1,"data":{{"text":"x"}}}}"#);
    let rows: [&dyn Fn(u64) -> String; 2] = [&chunk, &note];
    for (kind, row) in rows.into_iter().enumerate() {
        let mut migration = Migration::new(&header, Recovery::Strict, &limits).expect("an older log");
        let mut sink = |_: &TargetRow<'_>| ControlFlow::Continue(());
        let _ = migration.push(chunk(0).as_bytes(), &mut sink).expect("it fits");
        let refusal = (1..100).find_map(|seq| migration.push(row(seq).as_bytes(), &mut sink).err());
        let refusal = refusal.expect("it does not fit for ever");
        assert_eq!(refusal.code(), Code::AttemptTooLarge, "case {kind}");
        assert!(migration.memory() < 10_000);
    }
    let long =
        format!(r#"{{"type":"feedback/record","seq":0,"time":1,"data":{{"text":"{}"}}}}"#, "x".repeat(1000));
    let mut migration = Migration::new(&header, Recovery::Strict, &limits).expect("an older log");
    let mut sink = |_: &TargetRow<'_>| ControlFlow::Continue(());
    let refusal = migration.push(long.as_bytes(), &mut sink).expect_err("it is too long");
    assert_eq!(refusal.code(), Code::JsonInvalid);
}
