//! Decisions that are taken from a fuzzer's bytes.

/// A queue of bytes. Once it is empty every decision is the first one, so that any bytes are a whole plan.
#[derive(Clone, Debug)]
pub struct Choices<'d> {
    data: &'d [u8],
}

impl<'d> Choices<'d> {
    /// Takes decisions from `data`, first byte first.
    #[must_use]
    pub const fn new(data: &'d [u8]) -> Self {
        Self { data }
    }

    /// Whether nothing is left to decide with.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.data.len()
    }

    /// The bytes that are left.
    #[must_use]
    pub const fn rest(&self) -> &'d [u8] {
        self.data
    }

    /// The next byte; 0 behind the last.
    pub fn byte(&mut self) -> u8 {
        match self.data.split_first() {
            Some((byte, rest)) => {
                self.data = rest;
                *byte
            }
            None => 0,
        }
    }

    /// A number of two bytes, little-endian.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number of eight bytes, little-endian.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `bound`, from two bytes; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.word()).checked_rem(bound).unwrap_or(0)
    }

    /// One of `items`, which must not be empty.
    ///
    /// # Panics
    /// If it is.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        let index = usize::from(self.byte()).checked_rem(items.len()).unwrap_or(0);
        items.get(index).expect("a remainder is below the length")
    }
}
