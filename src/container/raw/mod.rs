//! The only module with `unsafe`: read-only maps, the guard that keeps them from killing the host, and two calls of the
//! system that no safe crate offers: a file lock, and the beginning of a write to the disk.
//!
//! What makes it sound, as a whole:
//!
//! - A map is read-only and private to its [`map::Map`], which hands out slices that it outlives.
//! - Nobody here writes into mapped bytes. Log files grow at the end; the one rewriting of old bytes, the repair of a
//!   tail, writes what already stands there, and readers map only what lies below the durable boundary.
//! - Other programs are not bound by that. One that makes the file shorter is answered by [`guard`]. One that rewrites
//!   a log in place breaks the premise of every map there is; a host that shares its folders with such programs reads
//!   through `OsDisk::without_maps`.
//! - Checksums are compared over bytes that were read, and nothing that decides memory safety (UTF-8 without a check,
//!   a length used without a bound) may rest on an earlier look at mapped bytes.

pub(crate) mod guard;
pub(crate) mod map;
pub(crate) mod ofd;
pub(crate) mod pages;
pub(crate) mod pod;
pub(crate) mod write_back;
