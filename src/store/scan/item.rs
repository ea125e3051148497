//! What a scan delivers.

use crate::container::{Fault, Skipped};
use crate::row::{Header, PhysicalRow, RowFault};

/// What a scan delivers, in file order.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The header line, without its newline. Always the first item.
    Header {
        /// Its bytes.
        line: &'a [u8],
        /// Its meaning, if it has one.
        header: Option<&'a Header>,
    },
    /// A row that belongs to the log.
    Row {
        /// The row.
        row: PhysicalRow<'a>,
        /// Where it stands.
        place: Place,
    },
    /// A line that does not, and why. Strict scans deliver the first one and then nothing more.
    Bad {
        /// The line, without its newline.
        line: &'a [u8],
        /// The row in it, if it is one that only its number keeps out.
        row: Option<PhysicalRow<'a>>,
        /// Where it stands.
        place: Place,
        /// What is wrong with it.
        fault: RowFault,
    },
    /// A row of a generation newer than this build, in a lenient scan: its bytes, which mean nothing here.
    Opaque {
        /// The line, without its newline.
        line: &'a [u8],
        /// Where it stands.
        place: Place,
    },
    /// Stored bytes that could not be read, and what a lenient scan skipped because of them.
    Hole {
        /// File offset of the damage.
        at: u64,
        /// What is wrong there.
        fault: Fault,
        /// What was passed over, if reading went on.
        skipped: Option<Skipped>,
    },
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Number of the line in the text, the header being 1.
    pub line: u64,
    /// Number of the frame that holds it, the header's being 0.
    pub block: u64,
    /// File offset of the line (plain) or of its frame.
    pub file_at: u64,
    /// Offset of the line in the decompressed text, the header included.
    pub text_at: u64,
    /// Everything before its block is committed. Always so where the encoding marks no ends of appends.
    pub after_commit: bool,
}
