//! What a scan found, and what may be built on that.

use super::super::log_file::LogFile;
use super::item::Place;
use crate::container::{Fault, Tail};
use crate::error::{Damage, Error, Result, Unsupported};
use crate::row::{Header, HeaderFault};
use crate::units::{Generation, Seq, UnixMs};

/// What a scan found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The header, if it could be read.
    pub header: Option<Header>,
    /// The verdict.
    pub verdict: Verdict,
    /// The judged end, where the scan reached it; adjusted to rows in a plain log.
    pub tail: Option<Tail>,
    /// Data frames read, the header's included; 0 in the plain encoding.
    pub frames: u64,
    /// Rows that belong to the log.
    pub rows: u64,
    /// Events in the log: the seq that the next one gets.
    pub events: u64,
    /// Bytes of text read, the header included.
    pub content_bytes: u64,
    /// Unix milliseconds of the last event.
    pub last_time: Option<UnixMs>,
    /// The number of inherited events.
    pub inherited: u64,
    /// Everything that is not sound, in file order; at most [`FINDINGS_MAX`] are kept.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub findings_total: u64,
    /// Events that are committed. Those from here on belong to an append that has no end, or none that was read.
    pub committed_events: u64,
    /// The scan was stopped by its visitor.
    pub stopped: bool,
    /// The last event read that ends inherited ones.
    pub(crate) marker: Option<Seq>,
}

/// More findings than this are counted and not kept: a file of a million bad lines must not fill the memory.
pub const FINDINGS_MAX: usize = 1000;

/// One finding of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub damage: Damage,
    /// File offset: of the line in a plain log, else of the frame or trailer.
    pub at: u64,
    /// The line, for damage in a line.
    pub place: Option<Place>,
    /// Number of the frame, the header's being 0; markers count. `None` in the plain encoding, which has none.
    pub frame: Option<u64>,
    /// The seq that was due there.
    pub expected_seq: u64,
    /// Sound rows before it.
    pub rows_before: u64,
}

/// The verdict on a whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Whole and committed.
    Sound,
    /// All rows are whole, but the append that wrote the last ones has no end.
    Unfinished,
    /// The last append was cut short by a crash.
    Torn,
    /// The end is damaged, and nothing proves that a crash did it.
    DamagedTail,
    /// Committed data is damaged.
    Corrupt,
    /// Intact, and beyond this build.
    Unsupported,
}

impl Report {
    /// Turns a verdict that nobody may build on into its error. A torn or unfinished end is none: it was not acknowledged.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::FormatUnsupported`].
    pub fn require(&self, log: &LogFile) -> Result<()> {
        let path = || log.path().to_path_buf();
        match self.verdict {
            Verdict::Sound | Verdict::Unfinished | Verdict::Torn | Verdict::DamagedTail => Ok(()),
            Verdict::Unsupported => Err(self.unsupported(log)),
            Verdict::Corrupt => {
                let finding = self.findings.first();
                Err(Error::Corruption {
                    path: path(),
                    offset: finding.map_or(0, |finding| finding.at),
                    intact: finding.map_or(0, |finding| finding.expected_seq),
                    source: finding.map_or(Damage::Bytes(Fault::Truncated), |finding| finding.damage),
                })
            }
        }
    }

    /// What to say of an end that may be read up to and not relied on; `None` where there is nothing to say.
    #[must_use]
    pub fn end_error(&self, log: &LogFile) -> Option<Error> {
        let path = log.path().to_path_buf();
        match self.verdict {
            Verdict::Torn | Verdict::Unfinished => {
                let tail = self.tail?;
                Some(Error::TornTail {
                    path,
                    offset: tail.good_end,
                    torn: tail.excess(),
                    intact: self.events,
                })
            }
            Verdict::DamagedTail => self.require_appendable(log).err(),
            Verdict::Sound | Verdict::Corrupt | Verdict::Unsupported => None,
        }
    }

    /// As [`Report::require`], and refuses a damaged end as well: for everyone who wants to write.
    ///
    /// # Errors
    /// [`Error::DamagedTail`], and those of [`Report::require`].
    pub fn require_appendable(&self, log: &LogFile) -> Result<()> {
        self.require(log)?;
        match (self.verdict, self.findings.first()) {
            (Verdict::DamagedTail, Some(finding)) => Err(Error::DamagedTail {
                path: log.path().to_path_buf(),
                offset: self.tail.map_or(finding.at, |tail| tail.good_end),
                intact: finding.expected_seq,
                source: finding.damage,
            }),
            _ => Ok(()),
        }
    }

    fn unsupported(&self, log: &LogFile) -> Error {
        let path = log.path().to_path_buf();
        let newest = Generation::CURRENT;
        let finding = self.findings.first();
        let reason = match finding.map(|finding| (finding.damage, finding.at)) {
            Some((Damage::Header(HeaderFault::Newer { version }), _)) => {
                Unsupported::Newer { stored: Generation::new(version), newest }
            }
            Some((Damage::Bytes(source), at)) => Unsupported::Container { at, source },
            Some((damage, at)) => Unsupported::Shape { at, source: damage },
            None => Unsupported::Newer { stored: newest, newest },
        };
        Error::FormatUnsupported { path, reason }
    }
}
