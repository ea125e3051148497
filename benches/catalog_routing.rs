//! What going through the catalog costs a current log: the same rows by the row decoder alone, and by `Restore`.
//!
//! `cargo bench --bench catalog_routing`. Three runs of 100 pairs to warm up and 600 that count; in every pair the two take
//! turns in going first. Medians and 95th percentiles are those of all runs together. Processor time of the thread, so
//! that other work on the machine does not count.

use std::hint::black_box;
use std::ops::ControlFlow;

use seslog::format::{Restore, TargetRow, Validation};
use seslog::limits::Limits;
use seslog::row::{Header, PhysicalRow, Recovery, RowDecoder, RowPlace};
use seslog::units::Generation;

const RUNS: usize = 3;
const WARM_UP: usize = 100;
const PAIRS: usize = 600;
const ROWS: u64 = 2000;

fn main() {
    let log = log();
    let (header, rows) = log.split_first().expect("a header");
    assert_eq!(direct(header, rows), through_the_catalog(header, rows), "the same events");

    let (mut alone, mut routed) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        for pair in 0..WARM_UP + PAIRS {
            let (mut a, mut b) = (0.0, 0.0);
            for second in [false, true] {
                if (pair % 2 == 0) == second {
                    b = timed(|| through_the_catalog(header, rows));
                } else {
                    a = timed(|| direct(header, rows));
                }
            }
            if pair >= WARM_UP {
                alone.push(a);
                routed.push(b);
            }
        }
    }
    let per_row = |seconds: f64| seconds * 1e9 / ROWS as f64;
    println!("{:10} {:>12} {:>12} {:>10}", "", "direct", "catalog", "change");
    for (name, share) in [("median", 0.5), ("p95", 0.95)] {
        let (a, b) = (percentile(&mut alone, share), percentile(&mut routed, share));
        println!(
            "{name:10} {:>6.1} ns/row {:>6.1} ns/row {:>+8.1} %",
            per_row(a),
            per_row(b),
            (b / a - 1.0) * 100.0
        );
    }
}

/// Events and a digest of what was served.
fn direct(header: &[u8], rows: &[Vec<u8>]) -> (u64, u64) {
    let header = Header::parse(header, &Limits::DEFAULT).expect("a header");
    let mut decoder = RowDecoder::new(Generation::CURRENT, Recovery::Recoverable);
    let mut digest = 0;
    for row in rows {
        let row = decoder.push(RowPlace::default(), row).expect("the row decodes");
        if let Some(PhysicalRow::Event(event)) = row {
            digest = note(digest, event.seq().get(), event.line().len());
        }
    }
    decoder.finish(&header).expect("no fork");
    (decoder.events(), black_box(digest))
}

fn through_the_catalog(header: &[u8], rows: &[Vec<u8>]) -> (u64, u64) {
    let mut restore = Restore::new(header, Recovery::Recoverable, Validation::Transformed, &Limits::DEFAULT)
        .expect("a header");
    let mut digest = 0;
    let mut sink = |row: &TargetRow<'_>| {
        digest = note(digest, row.seq().get(), row.len());
        ControlFlow::Continue(())
    };
    for row in rows {
        let _ = restore.push(row, &mut sink).expect("the row decodes");
    }
    let restored = restore.finish(&mut sink).expect("no fork");
    (restored.events, black_box(digest))
}

fn note(digest: u64, seq: u64, len: usize) -> u64 {
    digest.wrapping_mul(31).wrapping_add(seq).wrapping_add(len as u64)
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let clock = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let start = clock();
    black_box(work());
    clock() - start
}

fn percentile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() as f64 * share) as usize]
}

/// A v2 log: a header, and turns with a message of a person and an answer with its stream.
fn log() -> Vec<Vec<u8>> {
    let mut lines = vec![
        br#"{"type":"session","version":2,"id":"s","createdAt":5,"isSeeded":false,"delegationDepth":0}"#
            .to_vec(),
    ];
    for seq in 0..ROWS {
        let turn = seq / 6 + 1;
        let (kind, data, more) = match seq % 6 {
            0 => ("turn/start", format!(r#"{{"turn":{turn}}}"#), ""),
            1 => (
                "user/message",
                format!(
                    r#"{{"id":"u{turn}","role":"user","content":[{}],"source":{{"kind":"user"}}}}"#,
                    r#"{"type":"text","text":"Please fix the parser.\nIt fails on nested input."}"#
                ),
                r#","surfaceOp":"append""#,
            ),
            2 => ("step/start", format!(r#"{{"turn":{turn},"step":1}}"#), ""),
            3 => (
                "assistant/message",
                format!(
                    r#"{{"turn":{turn},"step":1,"message":{},"stream":[{}]}}"#,
                    concat!(
                        r#"{"id":"a","role":"assistant","content":[{"type":"text","text":"On it."}],"#,
                        r#""source":{"kind":"model","provider":"p","model":"m"}}"#
                    ),
                    r#"{"type":"text-chunks","time0":5,"index":0,"dt":[3,4,5],"texts":["On"," ","it","."]}"#
                ),
                r#","surfaceOp":"append""#,
            ),
            4 => ("step/end", format!(r#"{{"turn":{turn},"step":1}}"#), ""),
            _ => ("turn/end", format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), ""),
        };
        lines.push(
            format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}{more}}}"#).into_bytes(),
        );
    }
    lines
}
