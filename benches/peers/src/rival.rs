//! What the original's libraries do besides storing: conversion of older logs, and expansion of assistant streams.

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use serde::de::IgnoredAny;
use seslog::format::catalog::{Classified, classify};
use seslog::format::{Migration, TargetRow};
use seslog::limits::Limits;
use seslog::row::Recovery;
use seslog::stream::{Chunk, expand};

use crate::Result;
use crate::data::stream::{DELTAS, Workload};
use crate::digest::Digest;
use crate::sample::Sample;

/// Bytes of a log that are read, and of rows that are gathered, before they are handed on.
const AT_ONCE: usize = 1 << 20;

/// Converts the log at `path`, read as it is; the published packages, which read theirs too, are run by the parent.
///
/// Rows are gathered as a store gathers them, in a buffer that is used again, and none of them is kept: a fresh page for each
/// 4 KB of a result that nobody wants whole would cost as much as half the conversion.
pub fn migrate(path: &Path) -> Result<Sample> {
    let (mut out, mut rows, mut written) = (Vec::new(), 0_u64, 0_usize);
    let start = Instant::now();
    let mut log = File::open(path)?;
    let mut lines = vec![0; AT_ONCE];
    let mut held = log.read(&mut lines)?;
    let mut read = held;
    let header = memchr::memchr(b'\n', &lines[..held]).ok_or("no header")?;
    let Classified::MigrationRequired { stored, .. } = classify(&lines[..header], &Limits::DEFAULT) else {
        return Err("not an older log".into());
    };
    let mut migration = Migration::new(&stored, Recovery::Recoverable, &Limits::DEFAULT)?;
    migration.header().write(&mut out);
    out.push(b'\n');
    let mut sink = |row: &TargetRow<'_>| {
        row.write_to(&mut out);
        out.push(b'\n');
        rows += 1;
        if out.len() >= AT_ONCE {
            written += black_box(&out).len();
            out.clear();
        }
        ControlFlow::Continue(())
    };
    let mut from = header + 1;
    loop {
        // Whole lines, and at the end whatever is left.
        let whole = memchr::memrchr(b'\n', &lines[..held]).map_or(from, |at| at + 1);
        let _ = migration.push_lines(&lines[from..whole], &mut sink)?;
        lines.copy_within(whole..held, 0);
        (held, from) = (held - whole, 0);
        if held == lines.len() {
            lines.resize(2 * held, 0);
        }
        let more = log.read(&mut lines[held..])?;
        if more == 0 {
            let _ = migration.push_lines(&lines[..held], &mut sink)?;
            break;
        }
        (held, read) = (held + more, read + more);
    }
    migration.finish(&mut sink)?;
    let took = start.elapsed().as_nanos() as f64;
    written += out.len();
    let digest = Digest { rows: Some(rows), bytes: Some(written as u64), ..Digest::default() };
    Ok(Sample::new(took, digest).with("bytes", read as f64))
}

/// Expands a stream of 10,000 deltas: the median of many runs.
pub fn stream(peer: &str) -> Result<Sample> {
    let workload = Workload::make();
    let records = workload.records.as_str();
    let runs = |task: &mut dyn FnMut() -> Result<u64>| -> Result<(f64, u64)> {
        let (mut times, mut answer) = (Vec::new(), 0);
        for _ in 0..300 {
            let start = Instant::now();
            answer = black_box(task()?);
            times.push(start.elapsed().as_nanos() as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], answer))
    };
    let (took, count) = match peer {
        "seslog" => runs(&mut || {
            let stream = expand(black_box(records).as_bytes()).map_err(|fault| format!("{fault:?}"))?;
            let sum = stream.chunks().fold((0_u64, 0_usize, 0_i64), |sum, timed| match timed.chunk {
                Chunk::TextDelta { text, .. } => {
                    (sum.0 + 1, sum.1 + text.raw().len(), sum.2.wrapping_add(timed.time.get()))
                }
                _ => sum,
            });
            black_box(sum);
            Ok(sum.0)
        })?,
        "serde-ignored" => runs(&mut || {
            serde_json::from_slice::<IgnoredAny>(black_box(records).as_bytes())?;
            Ok(DELTAS as u64)
        })?,
        peer => return Err(format!("no stream of {peer}").into()),
    };
    let digest = Digest { rows: Some(count), ..Digest::default() };
    Ok(Sample::new(took, digest).with("bytes", records.len() as f64))
}
