//! Bytes on a disk: files, frames, trailers, lines, torn tails. Knows no JSON and no sessions.

pub mod disk;
#[expect(
    unsafe_code,
    reason = "maps, their guard and one file lock; the module states what makes them sound"
)]
pub(crate) mod raw;
