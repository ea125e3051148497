//! The three ways in which one logical log stands on disk, and how to tell them apart.
//!
//! Spec: `format-spec/01-container.md`, "Encodings".

use std::fmt;

use super::frame;
use super::source::Source;
use super::trailer::{SKIPPABLE_HEADER, TRAILER_LEN};

/// How the lines of a log are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Encoding {
    /// Zstandard frames, each followed by a trailer: `.jsonl.zst`.
    Indexed,
    /// Zstandard frames and nothing else, as DSH writes them: `.jsonl.zstd`.
    Zstd,
    /// The lines themselves, as DSH writes them with compression off: `.jsonl`.
    Plain,
}

impl Encoding {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 3] = [Self::Indexed, Self::Zstd, Self::Plain];

    /// The word for it in arguments and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Indexed => "indexed",
            Self::Zstd => "zstd",
            Self::Plain => "plain",
        }
    }

    /// What a file name of this encoding ends with.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Indexed => ".jsonl.zst",
            Self::Zstd => ".jsonl.zstd",
            Self::Plain => ".jsonl",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name).ok_or(UnknownEncoding)
    }
}

/// The word names no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an encoding is one of: indexed, zstd, plain")]
pub struct UnknownEncoding;

/// What the bytes of a file say of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detected {
    /// The file is empty, or holds nothing but zeros or line ends at its start.
    Nothing,
    /// A Zstandard frame that the file's end cuts off, or that nothing follows: [`Encoding::Indexed`] and
    /// [`Encoding::Zstd`] begin alike.
    Compressed,
    /// Decided.
    Encoding(Encoding),
    /// The bytes begin like no log.
    Unknown,
}

impl Detected {
    /// Whether a file whose name says `encoding` may begin like this.
    #[must_use]
    pub fn admits(self, encoding: Encoding) -> bool {
        match self {
            Self::Nothing => true,
            Self::Compressed => encoding != Encoding::Plain,
            Self::Encoding(found) => found == encoding,
            Self::Unknown => false,
        }
    }
}

/// Looks at the first frame, or the first byte, and never further.
pub fn detect(source: &mut dyn Source) -> Detected {
    let first = usize::try_from(source.size()).map_or(4, |len| len.min(4));
    let Ok(start) = source.get(0, first) else { return Detected::Unknown };
    match start {
        [] => Detected::Nothing,
        // A byte order mark is no part of JSON; the header line says so when it is parsed.
        [b'{', ..] | [0xef, 0xbb, 0xbf, ..] => Detected::Encoding(Encoding::Plain),
        [0x28, ..] if frame::MAGIC.starts_with(start) => behind_the_first_frame(source),
        [0 | b'\n' | b'\r' | b' ' | b'\t', ..] => Detected::Nothing,
        _ => Detected::Unknown,
    }
}

fn behind_the_first_frame(source: &mut dyn Source) -> Detected {
    let Ok(first) = frame::walk(source, 0) else { return Detected::Compressed };
    let left = source.size().saturating_sub(first.end);
    let Ok(left) = usize::try_from(left.min(TRAILER_LEN as u64)) else { return Detected::Unknown };
    match source.get(first.end, left) {
        Ok([]) | Err(_) => Detected::Compressed,
        Ok(next) if next.iter().zip(SKIPPABLE_HEADER).all(|(&a, b)| a == b) => {
            Detected::Encoding(Encoding::Indexed)
        }
        Ok(_) => Detected::Encoding(Encoding::Zstd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::zstd::{Encoder, LEVEL_DEFAULT};

    fn frame() -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(LEVEL_DEFAULT).encode(b"{\"type\":\"session\"}\n", &mut out);
        out
    }

    #[test]
    fn bytes_decide() {
        let frame = frame();
        let framed = [&frame[..], &frame].concat();
        let indexed = [&frame[..], &SKIPPABLE_HEADER, &[0; 56]].concat();
        for (bytes, detected) in [
            (&b""[..], Detected::Nothing),
            (b"\n\n", Detected::Nothing),
            (b"{\"type\":\"session\"}\n", Detected::Encoding(Encoding::Plain)),
            (b"\xef\xbb\xbf{}", Detected::Encoding(Encoding::Plain)),
            (b"hello", Detected::Unknown),
            (&frame[..3], Detected::Compressed),
            (&frame, Detected::Compressed),
            (&framed, Detected::Encoding(Encoding::Zstd)),
            (&indexed, Detected::Encoding(Encoding::Indexed)),
        ] {
            assert_eq!(detect(&mut { bytes }), detected, "{bytes:02x?}");
        }
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for encoding in Encoding::ALL {
            assert_eq!(encoding.name().parse(), Ok(encoding));
        }
        assert_eq!("zst".parse::<Encoding>(), Err(UnknownEncoding));
    }
}
