//! Memory in pages of its own, huge ones where the system has them.

use memmap2::{MmapMut, MmapOptions};
use parking_lot::Mutex;

/// Bytes that are touched at once where the system has huge pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Memory that begins at the border of a huge page. What is not touched takes address space only. What it holds at first means
/// nothing: zeros, or what an earlier use of it left.
pub(crate) struct Pages {
    /// Present until they are dropped.
    map: Option<MmapMut>,
    /// The border.
    start: usize,
}

/// One huge page and what its border costs: what a short read takes.
const SHORT_MAP: usize = 2 * HUGE_PAGE;

/// Maps of that length that nobody uses now, touched: to have a huge page zeroed and to give it back takes 50 to 100 us, a third as
/// long as decompressing what a short read puts there.
static SPARES: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// As many are kept, 2 MiB of memory each, twice that if a use went beyond the first page.
const SPARES_MAX: usize = 2;

impl Pages {
    /// Pages for at least `len` bytes; `None` where the system does not give as many.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(HUGE_PAGE)?.checked_add(HUGE_PAGE)?;
        let spare = if len == SHORT_MAP { SPARES.lock().pop() } else { None };
        let map = match spare {
            Some(map) => map,
            None => fresh(len)?,
        };
        let address = map.as_ptr().addr();
        let start = address.checked_next_multiple_of(HUGE_PAGE)?.checked_sub(address)?;
        Some(Self { map: Some(map), start })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.as_ref().and_then(|map| map.get(self.start..)).unwrap_or_default()
    }

    /// All of it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.map.as_mut().and_then(|map| map.get_mut(self.start..)).unwrap_or_default()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Some(map) = self.map.take().filter(|map| map.len() == SHORT_MAP) else { return };
        let mut spares = SPARES.lock();
        if spares.len() < SPARES_MAX {
            spares.push(map);
        }
    }
}

/// A map of `len` bytes.
fn fresh(len: usize) -> Option<MmapMut> {
    // An anonymous map: nobody else's memory, and nothing unsafe about it.
    let map = MmapOptions::new().len(len).no_reserve_swap().map_anon().ok()?;
    #[cfg(target_os = "linux")]
    {
        // A refusal costs speed only.
        let _refused = map.advise(memmap2::Advice::HugePage);
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_at_a_border_and_long_ones_are_fresh() {
        for len in [0, 1, HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE] {
            let mut pages = Pages::new(len).unwrap();
            assert!(pages.bytes().len() >= len);
            assert_eq!(pages.bytes().as_ptr().addr() % HUGE_PAGE, 0);
            if len > HUGE_PAGE {
                assert!(pages.bytes().iter().take(5000).all(|&byte| byte == 0));
            }
            pages.bytes_mut().iter_mut().take(len.min(9)).for_each(|byte| *byte = 7);
            assert!(pages.bytes().iter().take(len.min(9)).all(|&byte| byte == 7));
        }
        assert!(Pages::new(usize::MAX).is_none());
        assert!(Pages::new(usize::MAX / 2).is_none());
    }

    #[test]
    fn short_ones_are_used_again_each_by_one_at_a_time_and_few_are_kept() {
        let mut several: Vec<_> = (0..9).map(|_| Pages::new(HUGE_PAGE).unwrap()).collect();
        for (mark, pages) in (1_u8..).zip(&mut several) {
            pages.bytes_mut().first_chunk_mut::<100>().unwrap().fill(mark);
        }
        for (mark, pages) in (1_u8..).zip(&several) {
            assert_eq!(pages.bytes().first_chunk(), Some(&[mark; 100]));
        }
        drop(several);
        assert!(SPARES.lock().len() <= SPARES_MAX);
    }
}
