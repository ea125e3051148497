//! The results folder: `README.md`, `summary.md`, `raw.csv`, `scale.csv` and the plots.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::args::Options;
use crate::journal;
use crate::machine::{Machine, versions};
use crate::plot;
use crate::race::Outcome;
use crate::sample::METRICS;
use crate::scale::{FIGURES, Point};
use crate::stats::spread;
use crate::study;
use crate::targets::{self, Bound, Target};
use crate::works::{Show, WORKS, Work};

/// What stands above the numbers.
#[derive(Debug)]
pub struct About<'a> {
    pub machine: &'a Machine,
    pub options: &'a Options,
    pub load_before: String,
    pub load_after: String,
    pub minutes: f64,
    pub skips: &'a [String],
}

/// What is measured beside the works.
#[derive(Clone, Copy, Debug)]
pub struct Studies<'a> {
    pub points: &'a [Point],
    pub sizes: &'a [study::Finding],
    pub journal: &'a [journal::Finding],
}

/// Writes everything, and returns the table of targets.
pub fn write(out: &Path, about: &About<'_>, outcome: &Outcome, studies: &Studies<'_>) -> Result<String> {
    let Studies { points, sizes, journal } = *studies;
    fs::create_dir_all(out)?;
    let targets = targets::all(outcome, points);
    let table = target_table(&targets);
    let mut figures = Vec::new();
    for figure in FIGURES {
        if plot::draw(figure, points, &out.join(format!("{}.svg", figure.name)))? {
            figures.push(figure);
        }
    }
    fs::write(out.join("raw.csv"), raw(outcome))?;
    if !points.is_empty() {
        fs::write(out.join("scale.csv"), scale(points))?;
    }
    let mut summary = summary(&table, outcome);
    size_table(sizes, &mut summary);
    journal_table(journal, &mut summary);
    fs::write(out.join("summary.md"), summary)?;
    let mut readme = readme(about, outcome);
    if !figures.is_empty() {
        readme.push_str("\n## How costs grow\n\nAll numbers are in [scale.csv](scale.csv).\n\n");
        for figure in figures {
            let _ = writeln!(readme, "![{}]({}.svg)", figure.title, figure.name);
        }
    }
    fs::write(out.join("README.md"), readme)?;
    Ok(table)
}

fn readme(about: &About<'_>, outcome: &Outcome) -> String {
    let Machine { cpu, cores, memory_mib, kernel, disk, rustc, commit, date } = about.machine;
    let mut out = String::new();
    let _ = write!(
        out,
        "# A run of `benches/peers` on {date}\n\n\
         The targets and all tables are in [summary.md](summary.md), every measurement in [raw.csv](raw.csv).\n\n\
         | | |\n|---|---|\n\
         | command | `cargo run --release --manifest-path benches/peers/Cargo.toml -- {}` |\n\
         | commit | {commit} |\n\
         | processor | {cpu}, {cores} logical |\n\
         | memory | {memory_mib} MiB |\n\
         | disk | {disk} |\n\
         | kernel | {kernel} |\n\
         | compiler | {rustc} |\n\
         | rounds | {} in {:.0} minutes, everything included |\n\
         | load average | {} before, {} after |\n",
        about.options.command, outcome.rounds, about.minutes, about.load_before, about.load_after,
    );
    let versions: Vec<String> =
        versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(out, "| versions | {} |", versions.join(", "));
    out.push_str(
        "\nEach number is a process of its own. Contenders take turns, in an order that moves on with the rounds; ratios are \
         taken\nwithin each round. Times are inside the process, from before anything is opened. What was read was compared \
         between all\ncontenders; before that, each gave back what it had stored, byte by byte. Warm reads run once unmeasured \
         first. For cold\nones the page cache is dropped, and the programs are read in again.\n",
    );
    if about.options.quick {
        out.push_str("\n**A quick run: small sets, few rounds, no numbers to keep.**\n");
    }
    if !about.skips.is_empty() {
        out.push_str("\n## Skipped\n\n");
        out.extend(about.skips.iter().map(|skip| format!("- {skip}\n")));
    }
    if !outcome.failures.is_empty() {
        out.push_str("\n## Failed\n\n");
        out.extend(outcome.failures.iter().map(|failure| format!("- {failure}\n")));
    }
    out
}

fn target_table(targets: &[Target]) -> String {
    let mut out = "| target | bound | measured | met |\n|---|---:|---:|---|\n".to_owned();
    for target in targets {
        let bound = match target.bound {
            Bound::AtLeast(bound) => format!("≥ {}", short(bound)),
            Bound::AtMost(bound) => format!("≤ {}", short(bound)),
        };
        let unit = match target.unit {
            "" | "x" => target.unit.to_owned(),
            unit => format!(" {unit}"),
        };
        let measured =
            target.measured.map_or_else(|| "–".to_owned(), |value| format!("{}{unit}", short(value)));
        let met = match target.is_met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let _ = writeln!(out, "| {} | {bound}{unit} | {measured} | {met} |", target.what);
    }
    out
}

fn summary(table: &str, outcome: &Outcome) -> String {
    let mut out = format!(
        "# Targets\n\nThose of the issue on speed, in its order. Ratios are medians over the rounds; x is a ratio.\n\n{table}\n\
         # Works\n\nMedians. The spread is the median distance from the median. Speed: that of the contender, seslog being 1.\n"
    );
    for work in WORKS {
        work_table(work, outcome, &mut out);
    }
    if !outcome.sizes.is_empty() {
        out.push_str(
            "\n## Stored\n\nWritten in durable batches: 8 rows in `small`, 32 in `large` and `tiny`.\n\n",
        );
        out.push_str(
            "| set | peer | files | MB | allocated MB | stored / logical |\n|---|---|---:|---:|---:|---:|\n",
        );
        for ((set, peer), size) in &outcome.sizes {
            let logical = outcome.logical.get(set).copied().unwrap_or_default() as f64;
            let _ = writeln!(
                out,
                "| {set} | {peer} | {} | {:.2} | {:.2} | {:.3} |",
                size.files,
                size.bytes as f64 / 1e6,
                size.allocated as f64 / 1e6,
                size.bytes as f64 / logical
            );
        }
    }
    if !outcome.system_calls.is_empty() {
        out.push_str("\n## System calls\n\nOf a list, a session, less those of a list of nothing.\n\n");
        out.push_str("| peer | calls |\n|---|---:|\n");
        for (peer, calls) in &outcome.system_calls {
            let _ = writeln!(out, "| {peer} | {calls:.2} |");
        }
    }
    out
}

/// What other ways to compress would give.
fn size_table(sizes: &[study::Finding], out: &mut String) {
    if sizes.is_empty() {
        return;
    }
    out.push_str(
        "\n## What would make logs smaller\n\nParts of the sets in frames of so many rows or bytes, each with 64 bytes of trailer; one \
         core, one pass. The dictionary\nhas 64 KiB and was trained on other sessions of `small`; frames with one need it to be decoded, \
         so `zstd -dc` alone cannot.\n\n| set | frames of | compressed | stored / logical | compress MB/s | decompress MB/s |\n\
         |---|---|---|---:|---:|---:|\n",
    );
    for study::Finding { set, frames, how, ratio, compress, decompress } in sizes {
        let _ = writeln!(out, "| {set} | {frames} | {how} | {ratio:.3} | {compress:.0} | {decompress:.0} |");
    }
}

/// A sync of each log, and a journal that all share.
fn journal_table(journal: &[journal::Finding], out: &mut String) {
    if journal.is_empty() {
        return;
    }
    out.push_str(
        "\n## A journal that all sessions share\n\nDurable appends of 2 KiB a second, a thread a session, medians. With the journal an \
         append is written to its log and to the\njournal, and one sync of that covers whatever has come meanwhile; the logs are synced when \
         it has 64 MiB.\n\n| sessions | a sync each | through a journal | ratio |\n|---:|---:|---:|---:|\n",
    );
    for journal::Finding { sessions, own, shared } in journal {
        let _ = writeln!(out, "| {sessions} | {own:.0} | {shared:.0} | {:.2} |", shared / own);
    }
}

fn work_table(work: &Work, outcome: &Outcome, out: &mut String) {
    let mut rows: Vec<(f64, &str)> = Vec::new();
    for contender in work.contenders {
        rows.extend(outcome.median_of(work.name, contender, work.metric).map(|median| (median, *contender)));
    }
    if rows.is_empty() {
        return;
    }
    // Peers first, fastest first; limits behind them.
    rows.sort_by(|one, two| {
        let is_limit = |row: &(f64, &str)| row.1.starts_with("limit-");
        is_limit(one).cmp(&is_limit(two)).then(one.0.total_cmp(&two.0))
    });
    let rate = match work.show {
        Show::Time => "",
        Show::Bytes => " MB/s |",
        Show::Appends => " batches/s | p50 us | p99 us |",
    };
    let line = "---:|".repeat(rate.matches('|').count());
    let _ = write!(
        out,
        "\n## {}: `{}`\n\n| contender | ms | spread | speed |{rate} peak MiB | runs |\n|---|---:|---:|---:|{line}---:|---:|\n",
        work.what, work.name
    );
    for (middle, contender) in rows {
        let get = |metric: &str| outcome.median_of(work.name, contender, metric);
        let values: Vec<f64> = outcome
            .rounds_of(work.name, contender, work.metric)
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        let of_seslog =
            outcome.ratio(work.name, "seslog", contender, work.metric).map_or_else(String::new, short);
        let spread = spread(&values).unwrap_or_default() * 100.0;
        let _ = write!(out, "| {contender} | {} | {spread:.0}% | {of_seslog} |", short(middle / 1e6));
        let cell = |value: Option<f64>| value.map_or_else(String::new, short);
        match work.show {
            Show::Time => {}
            Show::Bytes => {
                let bytes = get("bytes").or(outcome.logical.get(work.set).map(|bytes| *bytes as f64));
                let _ = write!(out, " {} |", cell(bytes.map(|bytes| bytes * 1e3 / middle)));
            }
            Show::Appends => {
                let each = get("p50_ns").map(|ns| ns / 1e3);
                let worst = get("p99_ns").map(|ns| ns / 1e3);
                let batches = batches_of(work, outcome).map(|batches| batches * 1e9 / middle);
                let _ = write!(out, " {} | {} | {} |", cell(batches), cell(each), cell(worst));
            }
        }
        let rss = get("rss_kib").map(|kib| kib / 1024.0);
        let _ = writeln!(out, " {} | {} |", cell(rss), values.len());
    }
}

/// Batches of an append: rows over the rows of a batch.
fn batches_of(work: &Work, outcome: &Outcome) -> Option<f64> {
    let one =
        outcome.measured.iter().find(|one| one.work == work.name && one.sample.digest.rows.is_some())?;
    let size = if work.name == "append-1" { 1.0 } else { 32.0 };
    Some(one.sample.digest.rows? as f64 / size)
}

fn raw(outcome: &Outcome) -> String {
    let mut out = format!("work,contender,round,ns,{},digest\n", METRICS.join(","));
    for one in &outcome.measured {
        let _ = write!(out, "{},{},{},{:.0}", one.work, one.contender, one.round + 1, one.sample.ns);
        for metric in METRICS {
            out.push(',');
            out.extend(one.sample.get(metric).map(|value| format!("{value:.0}")));
        }
        let _ = writeln!(out, ",{}", one.sample.digest);
    }
    out
}

fn scale(points: &[Point]) -> String {
    let mut out = "figure,series,x,y\n".to_owned();
    for point in points {
        let _ = writeln!(out, "{},{},{},{:.4}", point.figure, point.series, point.x, point.y);
    }
    out
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}
