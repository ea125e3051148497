//! What can be wrong with stored bytes, in numbers and without paths.

use std::io;

/// One defect in the bytes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes end inside a frame, a trailer or a line.
    #[error("the bytes end here, inside an unfinished write")]
    Truncated,
    /// Four bytes that start no Zstandard frame stand where one must start.
    #[error("no Zstandard frame starts here: found {found:#010x}")]
    FrameMagic {
        /// The four bytes, read little-endian.
        found: u32,
    },
    /// A skippable frame stands where a data frame must start.
    #[error("a foreign skippable frame stands here ({len} bytes); its payload is not read")]
    SkippableFrame {
        /// Stored length in bytes, its own header included.
        len: u64,
    },
    /// A bit that RFC 8878 reserves is set in a frame header descriptor.
    #[error("reserved bits are set in the frame header descriptor {descriptor:#04x}")]
    FrameReserved {
        /// The descriptor byte.
        descriptor: u8,
    },
    /// The frame needs a dictionary; no encoding of ours uses one.
    #[error("the frame needs dictionary {id}, and none is defined")]
    Dictionary {
        /// The dictionary id in the frame header.
        id: u32,
    },
    /// A block of the reserved type 3.
    #[error("the frame holds a block of the reserved type")]
    BlockType,
    /// The frame asks for a larger window than [`Limits`](crate::limits::Limits) allows.
    #[error("the frame asks for a window of {window} bytes, the limit is {limit}")]
    WindowLimit {
        /// Bytes asked for.
        window: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The content of a frame is, or claims to be, larger than allowed.
    #[error("the frame holds {content} bytes or more, the limit is {limit}")]
    ContentLimit {
        /// Bytes stated or reached.
        content: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The frame header states one content size and the blocks give another.
    #[error("the frame states {stated} bytes of content and holds {got}")]
    ContentSize {
        /// Bytes stated.
        stated: u64,
        /// Bytes decompressed.
        got: u64,
    },
    /// A complete frame does not match its own checksum.
    #[error("the frame does not match its checksum")]
    FrameChecksum,
    /// A complete frame cannot be decompressed.
    #[error("the frame cannot be decompressed")]
    FrameData,
    /// The content of a frame does not end at the end of a line.
    #[error("the frame's content does not end at the end of a line")]
    LineEnd,
    /// The first frame, or the first line, is not exactly one header line.
    #[error("there is no complete header line")]
    HeaderLine,
    /// A line is longer than [`Limits`](crate::limits::Limits) allows.
    #[error("a line is longer than {limit} bytes")]
    LineLimit {
        /// Bytes allowed, newline included.
        limit: u64,
    },
    /// No trailer stands behind a body.
    #[error("no trailer stands behind the body")]
    TrailerMagic,
    /// A trailer does not match its CRC.
    #[error("trailer CRC is {stored:#010x} on disk but {computed:#010x} over its bytes")]
    TrailerCrc {
        /// The stored value.
        stored: u32,
        /// The value over the bytes.
        computed: u32,
    },
    /// A sound trailer of a layout that this build does not know.
    #[error("trailer version {found} is newer than 1, the only one this build reads")]
    TrailerVersion {
        /// The version byte.
        found: u8,
    },
    /// A sound trailer with a flag that must be understood.
    #[error("trailer flags {found:#04x} hold a reserved bit that this build does not know")]
    TrailerFlags {
        /// The flags byte.
        found: u8,
    },
    /// The first trailer's log id is zero, which is never written.
    #[error("the log id is zero")]
    LogId,
    /// A trailer does not continue the chain: the named member has another value than the chain demands.
    #[error("the trailer breaks the chain: {member} is {got}, expected {expected}")]
    Chain {
        /// The member's name in `format-spec/03-trailer.md`.
        member: &'static str,
        /// The value that the chain demands.
        expected: u64,
        /// The stored value.
        got: u64,
    },
    /// A body does not match the CRC in its trailer.
    #[error("body CRC is {stored:#010x} in the trailer but {computed:#010x} over the bytes")]
    BodyCrc {
        /// The stored value.
        stored: u32,
        /// The value over the bytes.
        computed: u32,
    },
    /// A body holds an extension frame of a kind that this build does not know.
    #[error("the body holds an extension frame that this build does not know")]
    Extension,
    /// No level of the compressor avoids an aligned sector of zeros, which a record must not hold.
    #[error("the rows compress to an aligned sector of zeros at every level")]
    ZeroSector,
    /// A body is longer than a segment may be.
    #[error("a body of {len} bytes is longer than {limit}")]
    BodyLimit {
        /// Stored bytes.
        len: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A trailer counts other events than its body holds.
    #[error("the trailer counts {stored} events, the body holds {got}")]
    EventCount {
        /// The trailer's number.
        stored: u64,
        /// The number in the rows.
        got: u64,
    },
    /// The file became shorter while it was read.
    #[error("the file became shorter while it was read")]
    Shrunk,
    /// Committed bytes are missing: an intact trailer says that data up to `durable` was on disk.
    #[error("bytes up to {durable} had been synced, and they are damaged from here on")]
    BelowDurable {
        /// The durable boundary in bytes from the start of the file.
        durable: u64,
    },
}

impl Fault {
    /// Whether the bytes may be sound and are only beyond this build: they ask for something that it does not know, or for
    /// more than one of its limits allows. Such bytes are never called damaged, and never cut off.
    #[must_use]
    pub const fn is_unsupported(self) -> bool {
        self.is_limit()
            || matches!(
                self,
                Self::TrailerVersion { .. }
                    | Self::TrailerFlags { .. }
                    | Self::Extension
                    | Self::Dictionary { .. }
            )
    }

    /// Whether a limit of this reader, and nothing else, keeps the bytes from being read.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::WindowLimit { .. }
                | Self::ContentLimit { .. }
                | Self::LineLimit { .. }
                | Self::BodyLimit { .. }
        )
    }

    /// Whether the defect is a checksum that does not match, rather than a structure that does not fit.
    #[must_use]
    pub const fn is_checksum(self) -> bool {
        matches!(self, Self::FrameChecksum | Self::FrameData | Self::TrailerCrc { .. } | Self::BodyCrc { .. })
    }
}

/// Why stored bytes could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error("reading failed")]
    Io(#[from] io::Error),
    /// The bytes are defective at `at`, a byte offset from the start of the file.
    #[error("at byte {at}: {fault}")]
    Bad {
        /// Byte offset from the start of the file.
        at: u64,
        /// The defect.
        fault: Fault,
    },
}

impl ReadError {
    /// A defect at byte `at`.
    pub(crate) const fn bad(at: u64, fault: Fault) -> Self {
        Self::Bad { at, fault }
    }
}
