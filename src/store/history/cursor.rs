//! A place between two events of one log, that outlives the handle and the process.

use std::fmt;
use std::str::FromStr;

use crate::container::crc32;
use crate::container::disk::Stamp;
use crate::error::Stale;
use crate::row::Header;

/// A place between two events of a log: where a page began or ended.
///
/// It is bound to the session, to the stored file (device and inode) and to the event next to it (a fingerprint of its row), and
/// serves in any process:
/// - in a log that was only appended to, and in one that was repaired as long as that event still stands there;
/// - not in a file that took the log's place (by a replacement, compaction, migration or move), nor in another log, nor where an
///   append that never was acknowledged was undone and something else stored: [`Error::StaleCursor`](crate::Error::StaleCursor).
///
/// Stores without files have no file to bind it to: there the session and the event vouch for it.
///
/// Its text ([`Display`](fmt::Display), [`FromStr`]) is for keeping and handing around, in letters, digits, dots and hyphens; what
/// stands in it may change, but what this version wrote will be read. Whoever only wants the number goes on by [`Cursor::seq`],
/// without any promise that the events there are the ones that were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Fingerprint of the session's id and time of creation.
    session: u64,
    seq: u64,
    anchor: Option<Anchor>,
    file: Option<FileCut>,
}

/// The event next to a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Anchor {
    /// The cursor's own seq, or the one before.
    pub(super) seq: u64,
    /// Fingerprint of its row.
    pub(super) print: u64,
}

/// Where that event stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileCut {
    pub(super) file: FileId,
    /// Offset of its block (of its line, in the plain encoding). A hint: the fingerprint proves it.
    pub(super) at: u64,
}

/// Which file a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl From<&Stamp> for FileId {
    fn from(stamp: &Stamp) -> Self {
        Self { device: stamp.device, inode: stamp.inode }
    }
}

/// An event of a page, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) seq: u64,
    pub(super) print: u64,
    pub(super) at: u64,
}

/// What cursors of one log have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogIdentity {
    session: u64,
    file: Option<FileId>,
}

impl LogIdentity {
    /// That of the log with this header, in a file if it is in one.
    pub(super) fn new(header: &Header, file: Option<FileId>) -> Self {
        let mut bytes = header.id().as_bytes().to_vec();
        bytes.extend_from_slice(&header.created_at().get().to_le_bytes());
        Self { session: fingerprint(&bytes), file }
    }

    /// The place before event `seq`; `next_to` is that event or the one before, absent in an empty log.
    pub(super) fn cursor(&self, seq: u64, next_to: Option<Mark>) -> Cursor {
        let anchor = next_to.map(|mark| Anchor { seq: mark.seq, print: mark.print });
        let file = self.file.zip(next_to).map(|(file, mark)| FileCut { file, at: mark.at });
        Cursor { session: self.session, seq, anchor, file }
    }

    /// Checks that `cursor` may be of this log. That the event next to it is the same is for the reader to see.
    pub(super) fn check(&self, cursor: &Cursor) -> Result<(), Stale> {
        if cursor.session != self.session {
            return Err(Stale::OtherSession);
        }
        // Nothing was in the log, so nothing can be another than it was.
        if cursor.anchor.is_none() || cursor.file.map(|cut| cut.file) == self.file {
            Ok(())
        } else {
            Err(Stale::OtherFile)
        }
    }
}

impl Cursor {
    /// The event that it stands before: as many events come before it.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    pub(super) const fn anchor(&self) -> Option<Anchor> {
        self.anchor
    }

    /// Offset of the block of the event next to it.
    pub(super) fn at(&self) -> Option<u64> {
        self.file.map(|cut| cut.at)
    }
}

/// A number for a row: FNV-1a of 64 bits. The same in every process and version; it tells rows apart that differ by accident,
/// and nobody gains by rows made to collide but whoever wrote the log.
pub(super) fn fingerprint(row: &[u8]) -> u64 {
    row.iter().fold(0xcbf2_9ce4_8422_2325, |print, &byte| {
        (print ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Text that is no cursor, or not all of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor, or not the whole of one")]
pub struct CursorSyntaxError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        write!(f, "{text}-{:08x}", crc32(0, text.as_bytes()))
    }
}

impl Cursor {
    fn text(&self) -> String {
        let Self { session, seq, anchor, file } = self;
        let anchor = anchor.map_or_else(
            || "-".to_owned(),
            |Anchor { seq: at, print }| format!("{}{print:016x}", if at == *seq { 'n' } else { 'p' }),
        );
        let file = file.map_or_else(
            || "-".to_owned(),
            |FileCut { file: FileId { device, inode }, at }| format!("{device:x}.{inode:x}.{at:x}"),
        );
        format!("h1.{session:016x}.{seq:x}.{anchor}.{file}")
    }
}

impl FromStr for Cursor {
    type Err = CursorSyntaxError;

    fn from_str(text: &str) -> Result<Self, CursorSyntaxError> {
        parse(text).filter(|cursor| cursor.to_string() == text).ok_or(CursorSyntaxError)
    }
}

/// The cursor that `text` may be: whoever calls this compares its text.
fn parse(text: &str) -> Option<Cursor> {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (text, _) = text.rsplit_once('-')?;
    let mut parts = text.strip_prefix("h1.")?.splitn(4, '.');
    let (session, seq) = (hex(parts.next()?)?, hex(parts.next()?)?);
    let anchor = match parts.next()? {
        "-" => None,
        anchor => {
            let at = if anchor.starts_with('n') { seq } else { seq.checked_sub(1)? };
            Some(Anchor { seq: at, print: hex(anchor.strip_prefix(['n', 'p'])?)? })
        }
    };
    let file = match parts.next()? {
        "-" => None,
        file => {
            let mut parts = file.splitn(3, '.').map(hex);
            let file = FileId { device: parts.next()??, inode: parts.next()?? };
            Some(FileCut { file, at: parts.next()?? })
        }
    };
    Some(Cursor { session, seq, anchor, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursors() -> Vec<Cursor> {
        let cuts = [None, Some(FileCut { file: FileId { device: 0, inode: u64::MAX }, at: 77 })];
        let anchor = |seq| Some(Anchor { seq, print: 0xfeed });
        let mut cursors = Vec::new();
        for file in cuts {
            for (seq, anchor) in [(0, None), (0, anchor(0)), (5, anchor(5)), (5, anchor(4))] {
                cursors.push(Cursor { session: 1, seq, anchor, file });
            }
        }
        cursors
    }

    #[test]
    fn the_text_of_a_cursor_reads_back_as_the_same_one() {
        for cursor in cursors() {
            let text = cursor.to_string();
            assert_eq!(text.parse(), Ok(cursor), "{text}");
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)), "{text}");
        }
    }

    #[test]
    fn a_changed_or_shortened_text_is_no_cursor() {
        for cursor in cursors() {
            let text = cursor.to_string();
            for at in 0..text.len() {
                assert_eq!(text[..at].parse::<Cursor>(), Err(CursorSyntaxError), "{text} cut at {at}");
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(changed.parse::<Cursor>(), Err(CursorSyntaxError), "{changed}");
            }
        }
        for none in ["", "-", "h1.", "h1.1.1.n.1.1-00000000", "h2.0.0.-.-", "h1.+1.0.-.--00000000"] {
            assert_eq!(none.parse::<Cursor>(), Err(CursorSyntaxError), "{none}");
        }
    }

    #[test]
    fn the_fingerprint_is_that_of_the_published_function() {
        assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fingerprint(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
