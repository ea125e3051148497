//! What one measured process says.

use std::collections::BTreeMap;
use std::fmt;

use crate::Result;
use crate::digest::Digest;

/// One measurement.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Nanoseconds of the work, inside the process and from before anything is opened.
    pub ns: f64,
    /// What was read or written.
    pub digest: Digest,
    /// Other numbers by name; see `METRICS`.
    pub more: BTreeMap<String, f64>,
}

/// Other numbers that a sample may have, in the order of the columns of `raw.csv`.
pub const METRICS: &[&str] = &[
    "process_ns", // Nanoseconds from the start of the process to its end.
    "sync_ns",    // Nanoseconds of the work and the final sync.
    "p50_ns",     // Of one append.
    "p99_ns",     // Of one append.
    "again_ns",   // Median of repeats on what is open.
    "bytes",      // Bytes of rows.
    "rss_kib",    // Peak resident memory, mapped files included.
    "anon_kib",   // Resident memory that is no file's, at the end.
];

impl Sample {
    pub fn new(ns: f64, digest: Digest) -> Self {
        Self { ns, digest, more: BTreeMap::new() }
    }

    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        if name == "ns" { Some(self.ns) } else { self.more.get(name).copied() }
    }

    /// The line that a child prints: `ns=… digest=… name=…`.
    pub fn parse(line: &str) -> Result<Self> {
        let mut sample = Self::default();
        for part in line.split_whitespace() {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("no sample: {line}"))?;
            match name {
                "ns" => sample.ns = value.parse()?,
                "digest" => {
                    sample.digest = Digest::parse(value).ok_or_else(|| format!("no digest: {value}"))?
                }
                name => {
                    sample.more.insert(name.to_owned(), value.parse()?);
                }
            }
        }
        Ok(sample)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ns={:.0} digest={}", self.ns, self.digest)?;
        self.more.iter().try_for_each(|(name, value)| write!(f, " {name}={value:.0}"))
    }
}
