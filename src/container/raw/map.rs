//! Read-only maps of the committed part of a file.

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapOptions};

use super::guard::{self, Watch};

/// The first bytes of a file, mapped read-only. Unmapped when dropped.
///
/// A file may become shorter under a map. The missing bytes then read as zeros, [`Map::is_shrunk`] turns true, and
/// the process lives. A reader therefore asks after it has used the bytes, and relies on checksums besides: a file that
/// was cut inside its last page shows zeros there without being noticed here.
///
/// Bytes handed to a system call (a `write` from the map) are not guarded; the call fails with `EFAULT`.
#[derive(Debug)]
pub struct Map {
    // Dropped in this order: nobody watches a range that is no longer ours.
    watch: Option<Watch>,
    bytes: Option<Mmap>,
}

impl Map {
    /// The mapped bytes: as many as were asked for, whatever the file's length was or is.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// Whether any of the bytes could not be read so far, because the file shrank or its disk failed: what was read
    /// as zeros may be no part of the file. Never turns false again.
    #[must_use]
    pub fn is_shrunk(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_shrunk)
    }

    /// Tells the system how the bytes will be read. Advice: where it is not taken, nothing else changes.
    pub fn advise(&self, advice: Advice) {
        if let Some(bytes) = &self.bytes {
            let advice = match advice {
                Advice::Sequential => memmap2::Advice::Sequential,
                Advice::Random => memmap2::Advice::Random,
            };
            // A refusal costs speed only.
            let _refused = bytes.advise(advice);
        }
    }
}

/// In what order a map will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// From the start to the end: read ahead eagerly.
    Sequential,
    /// Here and there: read ahead nothing.
    Random,
}

/// Maps the first `len` bytes of `file`, which is open for reading. `None` if the process's SIGBUS handler is no longer
/// the guard's, because the host has installed its own after it: the caller reads without maps then.
///
/// # Errors
/// `InvalidInput` if `len` is beyond the address space; otherwise whatever the system says.
pub(crate) fn map_file(file: &File, len: u64) -> io::Result<Option<Map>> {
    if len == 0 {
        // The system maps nothing of length 0.
        return Ok(Some(Map { watch: None, bytes: None }));
    }
    let Ok(len) = usize::try_from(len) else { return Err(io::ErrorKind::InvalidInput.into()) };
    if !guard::is_ready()? {
        return Ok(None);
    }
    // SAFETY: a map asks that nobody changes its bytes while slices of it live. We do not: the module's contract says who
    // writes what. That the file is not cut shorter cannot be promised by anybody; `guard` answers that, from the next
    // line on and before any slice exists (test: `a_file_that_shrinks_reads_as_zeros_and_says_so`).
    let bytes = unsafe { MmapOptions::new().len(len).map(file) }?;
    let watch = guard::watch(bytes.as_ptr().addr(), len)?;
    Ok(Some(Map { watch: Some(watch), bytes: Some(bytes) }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const PAGES: usize = 8;

    fn file_of_pages() -> (File, u64) {
        let page = rustix_page();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; page * PAGES]).unwrap();
        (file, page as u64)
    }

    fn rustix_page() -> usize {
        guard::page_size().unwrap()
    }

    #[test]
    fn a_map_shows_the_bytes_it_was_asked_for() {
        let (file, page) = file_of_pages();
        for len in [1, page - 1, page, page + 1, page * 8] {
            let map = map_file(&file, len).unwrap().unwrap();
            map.advise(Advice::Sequential);
            map.advise(Advice::Random);
            assert_eq!(map.bytes().len() as u64, len);
            assert!(map.bytes().iter().all(|&b| b == 7));
            assert!(!map.is_shrunk());
        }
    }

    #[test]
    fn an_empty_map_has_no_bytes() {
        let (file, _) = file_of_pages();
        let map = map_file(&file, 0).unwrap().unwrap();
        assert_eq!(map.bytes(), b"");
        map.advise(Advice::Random);
        assert!(!map.is_shrunk());
    }

    #[test]
    fn a_length_beyond_the_address_space_is_an_error() {
        let (file, _) = file_of_pages();
        assert!(map_file(&file, u64::MAX).is_err());
    }

    #[test]
    fn a_file_that_shrinks_reads_as_zeros_and_says_so() {
        let (file, page) = file_of_pages();
        let map = map_file(&file, page * 8).unwrap().unwrap();
        let other = map_file(&file, page).unwrap().unwrap();
        file.set_len(page * 3).unwrap();
        assert!(!map.is_shrunk(), "nobody has looked yet");
        let page = usize::try_from(page).unwrap();
        assert_eq!(map.bytes()[page * 5], 0);
        assert!(map.is_shrunk());
        assert!(map.bytes()[..page * 3].iter().all(|&b| b == 7), "what the file still has is still there");
        assert!(map.bytes()[page * 3..].iter().all(|&b| b == 0));
        assert!(!other.is_shrunk(), "another map of the same file lost nothing");
        assert!(other.bytes().iter().all(|&b| b == 7));
    }

    #[test]
    fn a_map_longer_than_its_file_reads_as_zeros_and_says_so() {
        let (file, page) = file_of_pages();
        let map = map_file(&file, page * 9).unwrap().unwrap();
        assert_eq!(map.bytes().last(), Some(&0));
        assert!(map.is_shrunk());
    }

    #[test]
    fn the_mark_of_one_map_is_not_inherited_by_the_next() {
        let (file, page) = file_of_pages();
        let map = map_file(&file, page * 9).unwrap().unwrap();
        assert_eq!(map.bytes().last(), Some(&0));
        drop(map);
        for _ in 0..4 {
            let map = map_file(&file, page * 8).unwrap().unwrap();
            assert_eq!(map.bytes().last(), Some(&7));
            assert!(!map.is_shrunk());
        }
    }

    #[test]
    fn many_threads_meet_the_missing_pages_of_many_maps() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let (file, page) = file_of_pages();
                        let map = map_file(&file, page * 8).unwrap().unwrap();
                        file.set_len(page).unwrap();
                        std::thread::scope(|inner| {
                            for _ in 0..2 {
                                inner.spawn(|| {
                                    let sum: u64 = map.bytes().iter().map(|&b| u64::from(b)).sum();
                                    assert_eq!(sum, page * 7);
                                    assert!(map.is_shrunk());
                                });
                            }
                        });
                    }
                });
            }
        });
    }
}
