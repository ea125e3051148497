//! What issue 7 wants to be shown, and what this run shows.

use crate::race::Outcome;
use crate::scale::Point;
use crate::stats::median;

/// One target and its measurement.
#[derive(Clone, Debug)]
pub struct Target {
    pub what: String,
    /// What was measured; `None` if a contender is missing.
    pub measured: Option<f64>,
    pub bound: Bound,
    pub unit: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    pub fn is_met(&self) -> Option<bool> {
        self.measured.map(|measured| match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        })
    }
}

impl Outcome {
    /// A contender's numbers of a work, by round.
    pub fn rounds_of(&self, work: &str, contender: &str, metric: &str) -> Vec<(usize, f64)> {
        let mine = self.measured.iter().filter(|one| one.work == work && one.contender == contender);
        mine.filter_map(|one| Some((one.round, one.sample.get(metric)?))).collect()
    }

    pub fn median_of(&self, work: &str, contender: &str, metric: &str) -> Option<f64> {
        median(self.rounds_of(work, contender, metric).into_iter().map(|(_, value)| value).collect())
    }

    /// The median over rounds of what `of` took, `to` being 1; over medians where they share no round.
    pub fn ratio(&self, work: &str, of: &str, to: &str, metric: &str) -> Option<f64> {
        let (of_rounds, to_rounds) = (self.rounds_of(work, of, metric), self.rounds_of(work, to, metric));
        let paired = of_rounds.iter().filter_map(|(round, of)| {
            let (_, to) = to_rounds.iter().find(|(other, _)| other == round)?;
            Some(of / to)
        });
        let paired: Vec<f64> = paired.collect();
        // One that runs only once is compared with the median of the other.
        if paired.len() > 1 || (of_rounds.len() == 1 && to_rounds.len() == 1) {
            median(paired)
        } else {
            Some(self.median_of(work, of, metric)? / self.median_of(work, to, metric)?)
        }
    }
}

/// All targets of the list, in its order.
pub fn all(outcome: &Outcome, points: &[Point]) -> Vec<Target> {
    let mut targets = Vec::new();
    let metric = |work: &str| if work.starts_with("buffer") { "sync_ns" } else { "ns" };
    // How many times as fast as another.
    let mut speed = |work: &str, of: &str, to: &str, bound: f64| {
        let measured = outcome.ratio(work, to, of, metric(work));
        let what = format!("{work}: speed of {of} over {to}");
        targets.push(Target { what, measured, bound: Bound::AtLeast(bound), unit: "x" });
    };
    speed("append-1", "seslog", "limit-write", 0.95);
    speed("append-1", "seslog", "jsonl-zstd", 1.0);
    speed("append-1", "seslog", "dsh", 4.0);
    speed("append-1", "seslog", "sqlite-full", 1.0);
    speed("append-1", "seslog", "fjall", 1.0);
    for work in ["append-32", "buffer-large"] {
        for peer in ["jsonl-zstd", "mcap", "fjall"] {
            speed(work, "seslog", peer, 1.1);
        }
    }
    speed("append-32", "seslog", "dsh", 6.0);
    for work in ["append-32", "buffer-large"] {
        speed(work, "seslog-store", "jsonl", 0.9);
    }
    let mut time = |work: &str, of: &str, to: &str, bound: f64| {
        let measured = outcome.ratio(work, of, to, "ns");
        let what = format!("{work}: time of {of} over {to}");
        targets.push(Target { what, measured, bound: Bound::AtMost(bound), unit: "x" });
    };
    time("list-warm", "seslog", "jsonl", 0.5);
    time("list-warm", "seslog", "mcap", 1.0);
    time("list-warm", "seslog-catalog", "jsonl", 0.17);
    time("list-cold", "seslog", "jsonl", 0.35);
    time("list-cold", "seslog-catalog", "jsonl", 0.2);
    time("list-warm", "seslog", "dsh", 1.0 / 50.0);
    time("list-warm", "seslog", "dsh-counts", 1.0 / 700.0);
    time("load-large", "seslog", "mcap", 1.0 / 1.4);
    time("load-large", "seslog-plain", "sqlite-full", 1.0 / 5.0);
    time("scan-large", "seslog", "limit-zstd", 1.0 / 0.95);
    time("scan-large", "seslog", "mcap", 1.0);
    time("last-warm", "seslog", "jsonl", 1.0);
    time("last-cold", "seslog", "redb", 1.0);
    time("middle", "seslog", "sqlite-full", 0.7);
    let mut speed = |work: &str, to: &str, bound: f64| {
        let measured = outcome.ratio(work, to, "seslog", "ns");
        let what = format!("{work}: speed of seslog over {to}");
        targets.push(Target { what, measured, bound: Bound::AtLeast(bound), unit: "x" });
    };
    speed("migrate-packed", "dsh", 20.0);
    speed("migrate-bulky", "dsh", 20.0);
    speed("stream", "dsh", 20.0);
    speed("stream", "serde-ignored", 0.5);

    let mut most = |what: &str, measured: Option<f64>, bound: f64, unit: &'static str| {
        targets.push(Target { what: what.to_owned(), measured, bound: Bound::AtMost(bound), unit });
    };
    most("list-warm: system calls a session", outcome.system_calls.get("seslog").copied(), 10.0, "");
    most(
        "list-warm: system calls a session with the catalog",
        outcome.system_calls.get("seslog-catalog").copied(),
        4.0,
        "",
    );
    let ms = |work: &str, contender: &str| outcome.median_of(work, contender, "ns").map(|ns| ns / 1e6);
    most("open-write: with Validate::Tail", ms("open-write", "seslog-tail"), 2.0, "ms");
    let extra = |kib: f64| Some((kib - outcome.idle_rss_kib?) / 1024.0);
    most(
        "scan-large: peak memory above an idle process",
        outcome.median_of("scan-large", "seslog", "rss_kib").and_then(extra),
        16.0,
        "MiB",
    );
    let largest = points.iter().rfind(|point| point.figure == "list-memory" && point.series == "seslog");
    most(
        &format!("scale: peak memory of a list of {} sessions", largest.map_or(100_000.0, |point| point.x)),
        largest.map(|point| point.y),
        64.0,
        "MiB",
    );
    let stored = |set, peer| outcome.sizes.get(&(set, peer)).map(|size| size.bytes as f64);
    for set in ["large", "small", "tiny"] {
        let best =
            ["jsonl-zstd", "mcap", "dsh"].iter().filter_map(|peer| stored(set, *peer)).reduce(f64::min);
        let measured = stored(set, "seslog").zip(best).map(|(ours, best)| ours / best);
        most(&format!("size of {set}: seslog over the smallest peer"), measured, 1.0, "x");
    }
    targets
}
