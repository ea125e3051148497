//! How costs grow: with the number of sessions, with the length of a log, and with sessions that are live together.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Result;
use crate::args::Options;
use crate::lab::Lab;
use crate::sample::Sample;
use crate::stats::median;
use crate::walk;

/// One point of one curve.
#[derive(Clone, Debug)]
pub struct Point {
    /// The plot that it belongs to.
    pub figure: &'static str,
    pub series: String,
    /// Sessions, or megabytes of rows.
    pub x: f64,
    pub y: f64,
}

/// A plot: its file, its title, and what its axes say.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
}

pub const FIGURES: &[Figure] = &[
    Figure { name: "list-time", title: "List with counts, new process, warm", x: "sessions", y: "ms" },
    Figure { name: "list-cold", title: "List with counts, page cache dropped", x: "sessions", y: "ms" },
    Figure { name: "list-memory", title: "Peak memory of a list", x: "sessions", y: "MiB" },
    Figure { name: "log-last", title: "Open, and read the last 50 events", x: "MB of rows", y: "ms" },
    Figure { name: "log-middle", title: "Open, and read 50 events in the middle", x: "MB of rows", y: "ms" },
    Figure { name: "log-stat", title: "One stat", x: "MB of rows", y: "ms" },
    Figure { name: "log-open", title: "Open for writing, and append one event", x: "MB of rows", y: "ms" },
    Figure { name: "log-scan", title: "Scan", x: "MB of rows", y: "ms" },
    Figure {
        name: "live-p50",
        title: "An explicit append beside live sessions, p50",
        x: "live sessions",
        y: "ms",
    },
    Figure {
        name: "live-p99",
        title: "An explicit append beside live sessions, p99",
        x: "live sessions",
        y: "ms",
    },
    Figure {
        name: "live-cores",
        title: "Cores taken by live sessions, 50 events a second each",
        x: "live sessions",
        y: "cores",
    },
    Figure { name: "log-scan-memory", title: "Peak memory of a scan", x: "MB of rows", y: "MiB" },
];

/// Peers of the session curves, and how many sessions each goes up to.
const LISTS: &[(&str, u64)] =
    &[("seslog", 100_000), ("jsonl", 100_000), ("sqlite-full", 100_000), ("redb", 100_000), ("mcap", 10_000)];

/// Peers of the log curves, and how many megabytes each goes up to: at most 4 GB lie on the disk at once.
const LOGS: &[(&str, u64)] =
    &[("seslog", 4_096), ("jsonl", 1_024), ("sqlite-full", 1_024), ("redb", 256), ("mcap", 1_024)];

/// Live sessions side by side.
const LIVE: &[usize] = &[1, 5, 20, 50, 100, 200];

/// Measured runs of a read.
const REPEATS: usize = 3;

pub fn run(lab: &Lab, options: &Options, failures: &mut Vec<String>) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &(peer, most) in LISTS {
        let most = if options.quick { 1_000 } else { most };
        if let Err(error) = lists(lab, peer, most, &mut points) {
            failures.push(format!("scale {peer}: {error}"));
        }
    }
    for &(peer, most) in LOGS {
        let most = if options.quick { 16 } else { most };
        if let Err(error) = logs(lab, peer, most, &mut points) {
            failures.push(format!("scale {peer}: {error}"));
        }
    }
    for peer in ["seslog", "sqlite-full"] {
        if let Err(error) = live(lab, peer, options.quick, &mut points) {
            failures.push(format!("scale {peer}: {error}"));
        }
    }
    Ok(points)
}

/// Live sessions that are written behind; see `benches/live`. Every event is read back and compared.
fn live(lab: &Lab, peer: &str, is_quick: bool, points: &mut Vec<Point>) -> Result<()> {
    let (counts, seconds) = if is_quick { (&LIVE[..3], "0.5") } else { (LIVE, "4") };
    for &count in counts {
        let folder = lab.fresh("scale")?;
        let args = [count.to_string(), seconds.to_owned()];
        let sample = lab.run("live", peer, &folder, &lab.sets.path("large"), &args)?;
        let get = |name: &str| sample.get(name).ok_or_else(|| format!("no {name}"));
        let mut point =
            |figure, y| points.push(Point { figure, series: peer.to_owned(), x: count as f64, y });
        point("live-p50", sample.ns / 1e6);
        point("live-p99", get("p99_ns")? / 1e6);
        // The axis is logarithmic: nothing at all has no place on it.
        point("live-cores", (get("thousandths_of_cores")? / 1e3).max(0.001));
        eprintln!("scale  {count} live sessions in {peer}: p50 {:.2} ms", sample.ns / 1e6);
    }
    fs::remove_dir_all(lab.path("scale"))?;
    Ok(())
}

/// The median of some runs of a task, as a sample whose numbers are medians.
fn repeated(lab: &Lab, task: &str, peer: &str, folder: &Path, args: &[String]) -> Result<Sample> {
    let set = lab.sets.path("large");
    let mut samples = Vec::new();
    for _ in 0..=REPEATS {
        samples.push(lab.run(task, peer, folder, &set, args)?);
    }
    // The first one warms up.
    samples.remove(0);
    let mut middle = samples[0].clone();
    middle.ns = median(samples.iter().map(|sample| sample.ns).collect()).unwrap_or_default();
    Ok(middle)
}

fn lists(lab: &Lab, peer: &str, most: u64, points: &mut Vec<Point>) -> Result<()> {
    let mut count = 10;
    while count <= most {
        // A store of each size from the start: not every peer can go on with one.
        let folder = lab.fresh("scale")?;
        let start = Instant::now();
        lab.run("write-brief", peer, &folder, &lab.sets.path("large"), &[count.to_string()])?;
        let written = start.elapsed().as_secs_f64();
        let sample = repeated(lab, "list", peer, &folder, &[])?;
        if sample.digest.seqs != Some(count) {
            return Err(format!("{count} sessions were stored, {:?} listed", sample.digest.seqs).into());
        }
        let x = count as f64;
        if peer == "seslog" {
            // What changed within two seconds of being read is not trusted.
            std::thread::sleep(Duration::from_millis(2_500));
            let listed = repeated(lab, "list", "seslog-catalog", &folder, &[])?;
            let series = "seslog-catalog".to_owned();
            points.push(Point { figure: "list-time", series, x, y: listed.ns / 1e6 });
        }
        let mut point = |figure, y| points.push(Point { figure, series: peer.to_owned(), x, y });
        point("list-time", sample.ns / 1e6);
        point("list-memory", sample.get("rss_kib").unwrap_or_default() / 1024.0);
        if lab.can_drop {
            lab.drop_caches()?;
            let cold = lab.run("list", peer, &folder, &lab.sets.path("large"), &[])?;
            point("list-cold", cold.ns / 1e6);
        }
        eprintln!(
            "scale  {count} sessions in {peer}: stored in {written:.1} s, listed in {:.1} ms",
            sample.ns / 1e6
        );
        count *= 10;
    }
    fs::remove_dir_all(lab.path("scale"))?;
    Ok(())
}

fn logs(lab: &Lab, peer: &str, most: u64, points: &mut Vec<Point>) -> Result<()> {
    let set = lab.sets.path("large");
    let mut megabytes = 1;
    while megabytes <= most {
        let folder = lab.fresh("scale")?;
        let filled = lab.run("fill", peer, &folder, &set, &[(megabytes * 1_000_000).to_string()])?;
        let rows = filled.digest.rows.ok_or("no rows")?;
        let stored = walk::size(&folder)?.bytes;
        let x = filled.get("bytes").ok_or("no bytes")? / 1e6;
        let mut point = |figure, y| points.push(Point { figure, series: peer.to_owned(), x, y });
        point("log-last", repeated(lab, "last", peer, &folder, &[])?.ns / 1e6);
        let middle = (rows / 2).saturating_sub(7).to_string();
        point("log-middle", repeated(lab, "middle", peer, &folder, &[middle])?.ns / 1e6);
        if peer == "seslog" {
            let scan = lab.run("scan", peer, &folder, &set, &[])?;
            if scan.digest.rows != Some(rows) {
                return Err(format!("{rows} rows were stored, {:?} read", scan.digest.rows).into());
            }
            point("log-scan", scan.ns / 1e6);
            point("log-scan-memory", scan.get("rss_kib").unwrap_or_default() / 1024.0);
            point("log-stat", repeated(lab, "stat", peer, &folder, &[])?.ns / 1e6);
            point("log-open", repeated(lab, "open-write", peer, &folder, &[])?.ns / 1e6);
        }
        eprintln!("scale  {x:.0} MB in {peer}: {:.1} MB stored", stored as f64 / 1e6);
        megabytes *= 4;
    }
    fs::remove_dir_all(lab.path("scale"))?;
    Ok(())
}
