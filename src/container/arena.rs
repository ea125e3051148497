//! Memory for text that is decompressed piece by piece and stays: one block, in order.

use std::fmt;

use super::raw::pages::{HUGE_PAGE, Pages};

/// Text that grows at its end. Pieces are written in place, so that nothing is copied unless the room runs out.
///
/// A long one lies in pages of its own, huge ones where the system has them: touching fresh memory page by page costs as
/// much as half of what decompression does, and a huge page is had for the price of about 25 small ones.
pub(crate) struct Arena {
    memory: Memory,
    /// Bytes of text.
    len: usize,
}

enum Memory {
    /// The text is what the vector holds.
    Heap(Vec<u8>),
    /// The text begins where they do.
    Pages(Pages),
}

/// Where the next piece goes.
pub(crate) enum Room<'a> {
    /// Behind what the vector holds; it has capacity for it.
    Spare(&'a mut Vec<u8>),
    /// Here.
    Bytes(&'a mut [u8]),
}

/// Less lies on the heap: it is gone before a huge page pays.
const PAGES_FROM: usize = 256 << 10;

impl Default for Arena {
    fn default() -> Self {
        Self { memory: Memory::Heap(Vec::new()), len: 0 }
    }
}

impl Arena {
    /// Bytes that are touched at once where the system has huge pages; the text begins at the border of one.
    pub(crate) const HUGE_PAGE: usize = HUGE_PAGE;

    /// An empty arena with room for about `bytes`. More than will be used costs address space only.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let pages = if bytes < PAGES_FROM { None } else { Pages::new(bytes) };
        // Where so much cannot be reserved, it grows as it is used.
        pages.map_or_else(Self::default, |pages| Self { memory: Memory::Pages(pages), len: 0 })
    }

    /// A copy of `text`, in no more memory than it takes.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self { memory: Memory::Heap(text.to_vec()), len: 0 }
    }

    /// The text.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Pages(pages) => pages.bytes().get(..self.len).unwrap_or_default(),
        }
    }

    /// Bytes of text.
    pub(crate) fn len(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::Pages(_) => self.len,
        }
    }

    /// Room for `more` bytes behind the text, which become part of it by [`Arena::grown`]; `None` where there is no memory.
    pub(crate) fn room(&mut self, more: usize) -> Option<Room<'_>> {
        let wanted = self.len().checked_add(more)?;
        if wanted > self.capacity() {
            self.move_to(wanted)?;
        }
        let at = self.len;
        match &mut self.memory {
            Memory::Heap(bytes) => {
                bytes.try_reserve(more).ok()?;
                Some(Room::Spare(bytes))
            }
            Memory::Pages(pages) => pages.bytes_mut().get_mut(at..at.checked_add(more)?).map(Room::Bytes),
        }
    }

    /// All the room there is without moving the text; nothing if it lies on the heap. What is written there becomes part of the
    /// text by [`Arena::grown`].
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(_) => &mut [],
            Memory::Pages(pages) => pages.bytes_mut().get_mut(self.len..).unwrap_or_default(),
        }
    }

    /// Takes the first `bytes` of what was written into [`Room::Bytes`] into the text.
    pub(crate) fn grown(&mut self, bytes: usize) {
        if let Memory::Pages(pages) = &self.memory {
            self.len = self.len.saturating_add(bytes).min(pages.bytes().len());
        }
    }

    /// Adds `bytes` behind the text; `None` where there is no memory.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        match self.room(bytes.len())? {
            Room::Spare(heap) => heap.extend_from_slice(bytes),
            Room::Bytes(room) => {
                room.copy_from_slice(bytes);
                self.grown(bytes.len());
            }
        }
        Some(())
    }

    /// Adds a line and its newline. Aborts where there is no memory, as a vector does.
    pub(crate) fn push_line(&mut self, line: &[u8]) {
        self.push(line);
        self.push(b"\n");
    }

    /// Adds `bytes` behind the text. Aborts where there is no memory, as a vector does.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.extend(bytes).is_none() {
            std::alloc::handle_alloc_error(std::alloc::Layout::for_value(bytes));
        }
    }

    /// Keeps the first `len` bytes of the text.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes.truncate(len),
            Memory::Pages(_) => self.len = self.len.min(len),
        }
    }

    fn capacity(&self) -> usize {
        match &self.memory {
            // A vector grows by itself, up to where pages are worth it.
            Memory::Heap(bytes) => bytes.capacity().max(PAGES_FROM),
            Memory::Pages(pages) => pages.bytes().len(),
        }
    }

    /// Moves the text to where `wanted` bytes have room, and as many again.
    fn move_to(&mut self, wanted: usize) -> Option<()> {
        let Some(pages) = Pages::new(wanted.saturating_mul(2)).or_else(|| Pages::new(wanted)) else {
            // Pages cannot be had; the heap may still have what it takes.
            if let Memory::Heap(bytes) = &mut self.memory {
                return bytes.try_reserve(wanted.saturating_sub(bytes.len())).ok();
            }
            return None;
        };
        let mut moved = Self { memory: Memory::Pages(pages), len: 0 };
        moved.extend(self.bytes())?;
        *self = moved;
        Some(())
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_order_wherever_it_lies_and_however_it_moves() {
        for room in [0, 1000, PAGES_FROM, 3 << 20, usize::MAX, usize::MAX / 2] {
            let mut arena = Arena::with_room(room);
            let mut expected = Vec::new();
            for (piece, len) in (0_u8..).zip([0, 1, 5000, 200_000, 70_000, 3 << 20, 9, 6 << 20]) {
                let bytes = vec![piece; len];
                arena.extend(&bytes).unwrap();
                expected.extend_from_slice(&bytes);
                assert_eq!(arena.len(), expected.len());
                assert!(arena.bytes() == expected, "{room}: piece {piece}");
            }
            arena.truncate(5001);
            expected.truncate(5001);
            assert!(arena.bytes() == expected);
            arena.extend(b"more").unwrap();
            assert_eq!(&arena.bytes()[5001..], b"more");
        }
    }

    #[test]
    fn what_was_not_taken_in_is_no_text() {
        let mut arena = Arena::with_room(PAGES_FROM);
        let Some(Room::Bytes(room)) = arena.room(100) else { panic!("pages") };
        room.fill(7);
        arena.grown(40);
        assert_eq!(arena.bytes(), [7; 40]);
        assert!(arena.room(usize::MAX).is_none());
        assert_eq!(arena.len(), 40);
    }
}
