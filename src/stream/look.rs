//! How 64 bytes are looked at: on any processor, or by instructions that some have.

use super::record::Member;
#[cfg(target_arch = "x86_64")]
use crate::container::raw::vector;
use crate::json::masks::{BLOCK, Block};

/// A way to classify the bytes of a block: bit `i` of a mask says something about byte `i`.
pub(super) trait Look: Copy {
    type Block: Copy;

    /// The bytes of `text` from `at` on; spaces stand for those after its end.
    fn load(self, text: &[u8], at: usize) -> Self::Block;
    /// 64 times `byte`.
    fn splat(self, byte: u8) -> Self::Block;
    /// Which bytes are `byte`.
    fn equal(self, block: Self::Block, byte: u8) -> u64;
    /// Which bytes are at most `byte`.
    fn at_most(self, block: Self::Block, byte: u8) -> u64;
    /// Which bytes are decimal digits.
    fn digits(self, block: Self::Block) -> u64;
    /// The smaller of the bytes at each place.
    fn min(self, one: Self::Block, other: Self::Block) -> Self::Block;

    /// Sets the ends of the first members to `from_start` and the places of the `closes`, those after as many to anything: all of
    /// `few`, and of `more` if there are more closes than that. A fixed number of rounds costs less than a mispredicted one.
    #[inline(always)]
    fn fill_ends(self, few: &mut [Member], more: &mut [Member], mut closes: u64, from_start: u32) {
        let count = closes.count_ones() as usize;
        let is_few = count <= few.len();
        for member in few {
            member.end = from_start.wrapping_add(closes.trailing_zeros()); // a text of 4 GiB never gets here
            closes &= closes.wrapping_sub(1);
        }
        if is_few {
            return;
        }
        for member in more {
            member.end = from_start.wrapping_add(closes.trailing_zeros());
            closes &= closes.wrapping_sub(1);
        }
    }

    /// Sets the gaps of the first members to the numbers at the places `ends`, in the manner of `fill_ends`.
    #[inline(always)]
    fn fill_gaps(self, few: &mut [Member], more: &mut [Member], numbers: &[u8; BLOCK + 1], mut ends: u64) {
        let count = ends.count_ones() as usize;
        let is_few = count <= few.len();
        for member in few {
            member.gap = number(numbers, ends);
            ends &= ends.wrapping_sub(1);
        }
        if is_few {
            return;
        }
        for member in more {
            member.gap = number(numbers, ends);
            ends &= ends.wrapping_sub(1);
        }
    }
}

/// The number at the first of the places `ends`.
#[inline(always)]
fn number(numbers: &[u8; BLOCK + 1], ends: u64) -> i32 {
    i32::from(numbers.get(ends.trailing_zeros() as usize).copied().unwrap_or_default())
}

/// Any processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Look for Portable {
    type Block = Block;

    #[inline(always)]
    fn load(self, text: &[u8], at: usize) -> Block {
        Block::load(text, at, b' ')
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> Block {
        Block::splat(byte)
    }

    #[inline(always)]
    fn equal(self, block: Block, byte: u8) -> u64 {
        block.eq(byte)
    }

    #[inline(always)]
    fn at_most(self, block: Block, byte: u8) -> u64 {
        block.at_most(byte)
    }

    #[inline(always)]
    fn digits(self, block: Block) -> u64 {
        block.digits()
    }

    #[inline(always)]
    fn min(self, one: Block, other: Block) -> Block {
        one.min(other)
    }
}

#[cfg(target_arch = "x86_64")]
impl Look for vector::Avx512 {
    type Block = vector::Bytes;

    #[inline(always)]
    fn load(self, text: &[u8], at: usize) -> vector::Bytes {
        let rest = text.get(at..).unwrap_or_default();
        match rest.first_chunk::<BLOCK>() {
            Some(bytes) => self.load(bytes),
            None => self.load(&padded(rest)),
        }
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> vector::Bytes {
        self.splat(byte)
    }

    #[inline(always)]
    fn equal(self, block: vector::Bytes, byte: u8) -> u64 {
        self.equal(block, byte)
    }

    #[inline(always)]
    fn at_most(self, block: vector::Bytes, byte: u8) -> u64 {
        self.at_most(block, byte)
    }

    #[inline(always)]
    fn digits(self, block: vector::Bytes) -> u64 {
        self.digits(block)
    }

    #[inline(always)]
    fn min(self, one: vector::Bytes, other: vector::Bytes) -> vector::Bytes {
        self.min(one, other)
    }

    #[inline(always)]
    fn fill_ends(self, few: &mut [Member], more: &mut [Member], closes: u64, from_start: u32) {
        let places = self.chosen(self.load(&PLACES), closes);
        let count = closes.count_ones() as usize;
        let (first, later) = places.split_at_checked(few.len()).unwrap_or((&places, &[]));
        for (member, place) in few.iter_mut().zip(first) {
            member.end = from_start.wrapping_add(u32::from(*place));
        }
        if count <= few.len() {
            return;
        }
        for (member, place) in more.iter_mut().zip(later) {
            member.end = from_start.wrapping_add(u32::from(*place));
        }
    }

    #[inline(always)]
    fn fill_gaps(self, few: &mut [Member], more: &mut [Member], numbers: &[u8; BLOCK + 1], ends: u64) {
        let numbers =
            numbers.first_chunk().map_or([0; BLOCK], |numbers| self.chosen(self.load(numbers), ends));
        let count = ends.count_ones() as usize;
        let (first, later) = numbers.split_at_checked(few.len()).unwrap_or((&numbers, &[]));
        for (member, number) in few.iter_mut().zip(first) {
            member.gap = i32::from(*number);
        }
        if count <= few.len() {
            return;
        }
        for (member, number) in more.iter_mut().zip(later) {
            member.gap = i32::from(*number);
        }
    }
}

/// Each place of a block.
#[cfg(target_arch = "x86_64")]
static PLACES: [u8; BLOCK] = {
    let mut places = [0; BLOCK];
    let mut rest: &mut [u8] = &mut places;
    let mut place = 0;
    while let Some((first, after)) = rest.split_first_mut() {
        *first = place;
        place += 1;
        rest = after;
    }
    places
};

/// A block of less than 64 bytes of text.
#[cfg(target_arch = "x86_64")]
#[cold]
fn padded(rest: &[u8]) -> [u8; BLOCK] {
    let mut bytes = [b' '; BLOCK];
    for (to, from) in bytes.iter_mut().zip(rest) {
        *to = *from;
    }
    bytes
}
