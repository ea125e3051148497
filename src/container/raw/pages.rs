//! Memory in pages of its own, huge ones where the system has them.

use memmap2::{MmapMut, MmapOptions};

/// Bytes that are touched at once where the system has huge pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Fresh memory, all zero, that begins at the border of a huge page. What is not touched takes address space only.
pub(crate) struct Pages {
    map: MmapMut,
    /// The border.
    start: usize,
}

impl Pages {
    /// Pages for at least `len` bytes; `None` where the system does not give as many.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(HUGE_PAGE)?.checked_add(HUGE_PAGE)?;
        // An anonymous map: nobody else's memory, and nothing unsafe about it.
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon().ok()?;
        let address = map.as_ptr().addr();
        let start = address.checked_next_multiple_of(HUGE_PAGE)?.checked_sub(address)?;
        #[cfg(target_os = "linux")]
        {
            // A refusal costs speed only.
            let _refused = map.advise(memmap2::Advice::HugePage);
        }
        Some(Self { map, start })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.get(self.start..).unwrap_or_default()
    }

    /// All of it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.map.get_mut(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_begins_at_a_border() {
        for len in [0, 1, HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE] {
            let mut pages = Pages::new(len).unwrap();
            assert!(pages.bytes().len() >= len);
            assert_eq!(pages.bytes().as_ptr().addr() % HUGE_PAGE, 0);
            assert!(pages.bytes().iter().take(5000).all(|&byte| byte == 0));
            pages.bytes_mut().iter_mut().take(len.min(9)).for_each(|byte| *byte = 7);
            assert!(pages.bytes().iter().take(len.min(9)).all(|&byte| byte == 7));
        }
        assert!(Pages::new(usize::MAX).is_none());
        assert!(Pages::new(usize::MAX / 2).is_none());
    }
}
