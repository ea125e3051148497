//! Little-endian integers of alignment 1: the fields of everything that is read from a disk as a whole struct.
//!
//! `#[derive(Pod)]` proves at compile time that the types have no padding and no invalid bit pattern; no block of ours.

use std::fmt;

use bytemuck::{Pod, Zeroable};

macro_rules! little_endian {
    ($(#[$doc:meta] $name:ident($int:ty);)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
        #[repr(transparent)]
        pub(crate) struct $name([u8; size_of::<$int>()]);

        impl $name {
            /// The stored form of `value`.
            pub(crate) const fn new(value: $int) -> Self {
                Self(value.to_le_bytes())
            }

            /// The value.
            pub(crate) const fn get(self) -> $int {
                <$int>::from_le_bytes(self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.get(), f)
            }
        }

        const _: () = {
            assert!(align_of::<$name>() == 1 && size_of::<$name>() == size_of::<$int>());
            assert!($name::new(<$int>::MAX).get() == <$int>::MAX && $name::new(<$int>::MIN).get() == <$int>::MIN);
        };
    )*};
}

little_endian! {
    /// A `u16` in two bytes, lowest first.
    U16Le(u16);
    /// A `u32` in four bytes, lowest first.
    U32Le(u32);
    /// A `u64` in eight bytes, lowest first.
    U64Le(u64);
    /// An `i64` in eight bytes, lowest first, two's complement.
    I64Le(i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_lowest_first_whatever_the_machine() {
        assert_eq!(bytemuck::bytes_of(&U16Le::new(0x0102)), [2, 1]);
        assert_eq!(bytemuck::bytes_of(&U32Le::new(0x0102_0304)), [4, 3, 2, 1]);
        assert_eq!(bytemuck::bytes_of(&U64Le::new(0x0102_0304_0506_0708)), [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytemuck::bytes_of(&I64Le::new(-2)), [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn extremes_come_back_and_any_offset_is_aligned_enough() {
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        struct Mixed {
            small: u8,
            short: U16Le,
            long: I64Le,
            wide: U64Le,
            word: U32Le,
        }
        let mixed = Mixed {
            small: 1,
            short: U16Le::new(u16::MAX),
            long: I64Le::new(i64::MIN),
            wide: U64Le::new(u64::MAX),
            word: U32Le::new(u32::MAX),
        };
        let mut padded = vec![0_u8; 1];
        padded.extend_from_slice(bytemuck::bytes_of(&mixed));
        for start in [0, 1] {
            let bytes = &padded[1..].to_vec();
            let mut at = vec![0_u8; start];
            at.extend_from_slice(bytes);
            let read: Mixed = bytemuck::pod_read_unaligned(&at[start..]);
            assert_eq!(read.small, 1);
            assert_eq!(read.short.get(), u16::MAX);
            assert_eq!(read.long.get(), i64::MIN);
            assert_eq!(read.wide.get(), u64::MAX);
            assert_eq!(read.word.get(), u32::MAX);
        }
        assert_eq!(size_of::<Mixed>(), 23);
    }
}
