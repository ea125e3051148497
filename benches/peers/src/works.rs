//! The works: what is measured, on which set, and who takes part.

use crate::set::Sizes;

/// One kind of work, the same for all contenders.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub name: &'static str,
    /// For the report.
    pub what: &'static str,
    /// As the child knows it.
    pub task: &'static str,
    pub set: &'static str,
    pub on: On,
    /// Whether the page cache is dropped before each measurement.
    pub cold: bool,
    /// What the table shows beside the time.
    pub show: Show,
    /// The number that is compared.
    pub metric: &'static str,
    pub contenders: &'static [&'static str],
    pub args: fn(&Sizes) -> Vec<String>,
}

/// Where a work happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// In an empty folder, deleted afterwards.
    Fresh,
    /// On what was stored of the set before.
    Stored,
    /// On a file of an older generation.
    Older,
    /// On nothing that is stored.
    Memory,
}

/// How a time is shown as a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Milliseconds alone.
    Time,
    /// Megabytes of rows a second.
    Bytes,
    /// Appends a second and their latency.
    Appends,
}

const APPENDS: &[&str] = &[
    "seslog",
    "seslog-store",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "sqlite-normal",
    "redb",
    "fjall",
    "mcap",
    "dsh",
    "limit-write",
    "limit-overwrite",
];
const BUFFERED: &[&str] = &[
    "seslog",
    "seslog-store",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "limit-zstd",
    "limit-zstd-1",
];
const LIST: &[&str] = &[
    "seslog",
    "seslog-catalog",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "dsh",
    "dsh-counts",
    "limit-stat",
    "limit-two-reads",
    "limit-two-reads-8",
];
const LOAD: &[&str] = &[
    "seslog",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "dsh",
    "limit-zstd",
];
const SCAN: &[&str] = &[
    "seslog",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "limit-zstd",
    "limit-memcpy",
    "limit-newlines",
    "limit-json-check",
    "limit-serde-raw",
];
const PART: &[&str] = &[
    "seslog",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "dsh",
];
const PART_COLD: &[&str] =
    &["seslog", "seslog-zstd", "seslog-plain", "jsonl", "jsonl-zstd", "sqlite-full", "redb", "fjall", "mcap"];

/// Those that are too slow for every round: once is enough to know.
pub const ONCE: &[&str] = &["dsh-counts"];

const NONE: fn(&Sizes) -> Vec<String> = |_| Vec::new();
const PIECE_1: fn(&Sizes) -> Vec<String> = |sizes| vec![sizes.appends.0.to_string(), "1".into()];
const PIECE_32: fn(&Sizes) -> Vec<String> = |sizes| vec![sizes.appends.1.to_string(), "32".into()];
const BATCH_32: fn(&Sizes) -> Vec<String> = |_| vec!["32".into()];
const MIDDLE: fn(&Sizes) -> Vec<String> = |sizes| vec![(sizes.large_events / 2 - 7).to_string()];

/// A work with what most have in common.
const fn work(name: &'static str, what: &'static str, task: &'static str, set: &'static str) -> Work {
    Work {
        name,
        what,
        task,
        set,
        on: On::Stored,
        cold: false,
        show: Show::Time,
        metric: "ns",
        contenders: PART,
        args: NONE,
    }
}

const fn append(name: &'static str, what: &'static str, args: fn(&Sizes) -> Vec<String>) -> Work {
    Work {
        on: On::Fresh,
        show: Show::Appends,
        contenders: APPENDS,
        args,
        ..work(name, what, "append", "large")
    }
}

const fn buffer(name: &'static str, what: &'static str, set: &'static str) -> Work {
    Work {
        on: On::Fresh,
        show: Show::Bytes,
        metric: "sync_ns",
        contenders: BUFFERED,
        args: BATCH_32,
        ..work(name, what, "buffer", set)
    }
}

pub const WORKS: &[Work] = &[
    append("append-1", "Durable append, one event a batch", PIECE_1),
    append("append-32", "Durable append, 32 events a batch", PIECE_32),
    buffer("buffer-large", "Buffered append of `large` in batches of 32, with the final sync", "large"),
    buffer("buffer-tiny", "Buffered append of `tiny` in batches of 32, with the final sync", "tiny"),
    Work {
        contenders: LIST,
        ..work("list-warm", "List `small` with counts, new process, page cache warm", "list", "small")
    },
    Work {
        contenders: LIST,
        cold: true,
        ..work("list-cold", "List `small` with counts, page cache dropped", "list", "small")
    },
    Work {
        contenders: LOAD,
        show: Show::Bytes,
        ..work("load-large", "Load `large`, all events alive", "load", "large")
    },
    Work {
        contenders: LOAD,
        show: Show::Bytes,
        ..work("load-tiny", "Load `tiny`, all events alive", "load", "tiny")
    },
    Work {
        contenders: PART_COLD,
        show: Show::Bytes,
        cold: true,
        ..work("load-cold", "Load `large`, all events alive, page cache dropped", "load", "large")
    },
    Work {
        contenders: SCAN,
        show: Show::Bytes,
        ..work("scan-large", "Scan `large`, events visited and not kept", "scan", "large")
    },
    work("last-warm", "The last 50 events of `large`, open and read", "last", "large"),
    Work {
        contenders: PART_COLD,
        cold: true,
        ..work("last-cold", "The last 50 events of `large`, page cache dropped", "last", "large")
    },
    Work {
        args: MIDDLE,
        ..work("middle", "50 events in the middle of `large`, open and read", "middle", "large")
    },
    Work {
        contenders: &["seslog", "seslog-tail"],
        ..work("open-write", "Open `large` for writing and append one event durably", "open-write", "large")
    },
    Work {
        on: On::Older,
        show: Show::Bytes,
        contenders: &["seslog", "dsh"],
        ..work("migrate-packed", "Convert a v1 log with packed chunks to v2, in memory", "migrate", "packed")
    },
    Work {
        on: On::Older,
        show: Show::Bytes,
        contenders: &["seslog", "dsh"],
        ..work("migrate-bulky", "Convert a v1 log of few, large events to v2, in memory", "migrate", "bulky")
    },
    Work {
        on: On::Memory,
        show: Show::Bytes,
        contenders: &["seslog", "serde-ignored", "dsh"],
        ..work("stream", "Expand an assistant stream of 10,000 deltas", "stream", "large")
    },
];

/// Those whose stores are written before anything is read, each with its name in [`WORKS`].
pub const STORED: &[&str] = &[
    "seslog",
    "seslog-zstd",
    "seslog-plain",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "redb",
    "fjall",
    "mcap",
    "dsh",
];

/// The peer whose store a contender reads.
pub fn store_of(contender: &str) -> &str {
    match contender {
        "dsh-counts" => "dsh",
        "seslog-catalog" => "seslog",
        contender if contender.starts_with("limit-") => "seslog",
        contender => contender,
    }
}
