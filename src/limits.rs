//! Bounds on everything that is read from a disk.

/// Bounds on untrusted input, each with its default and the reason for that number.
///
/// A length that is read from a file meets its bound before it is used to allocate. One value is shared by every reader
/// of a store; a host that knows its data may tighten it, and a host that keeps larger rows may widen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest header line in bytes, newline included. Headers hold an id, two paths and five short members; 1 MiB leaves
    /// room for absurd ids and keeps a listing of ten thousand hostile files cheap.
    pub header_bytes_max: u64,
    /// Longest row in bytes, newline included. One settlement carries a whole model attempt, images included; 256 MiB is
    /// what one indexed body may hold.
    pub row_bytes_max: u64,
    /// Most bytes that one frame may decompress to. DSH's migration writes a whole log as one frame, so this bounds a log's
    /// size in that encoding, not only a batch: 4 GiB.
    pub frame_content_bytes_max: u64,
    /// Most bytes that a frame of known length may decompress to before its claim has to be proved by output: a claim
    /// above 1 MiB and above this ratio to the stored bytes is decompressed in steps instead of allocated at once.
    pub frame_trusted_ratio: u64,
    /// Largest window in bytes that a frame may ask for: 128 MiB, the default of the decoder that DSH uses.
    pub window_bytes_max: u64,
    /// Deepest nesting of one JSON value. The decoder keeps one bit a level, so ten million levels cost 1.25 MiB.
    pub nesting_max: u32,
}

impl Limits {
    /// The documented defaults, usable in constants.
    pub const DEFAULT: Self = Self {
        header_bytes_max: 1 << 20,
        row_bytes_max: 256 << 20,
        frame_content_bytes_max: 4 << 30,
        frame_trusted_ratio: 64,
        window_bytes_max: 128 << 20,
        nesting_max: 10_000_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
