//! Instructions that not every processor of an architecture has, for code that asks at run time.
//!
//! An [`Avx512`] is made by nobody but [`Avx512::detect`], after the processor said that it has the instructions, and a
//! processor does not lose them. So whoever holds one may use them, and that is all that the blocks below rest on: none of
//! these functions takes a pointer or trusts a length.

use std::arch::x86_64::{
    __m512i, _mm512_cmpeq_epi8_mask, _mm512_cmple_epu8_mask, _mm512_loadu_si512, _mm512_maskz_compress_epi8,
    _mm512_min_epu8, _mm512_set1_epi8, _mm512_storeu_si512, _mm512_sub_epi8,
};

/// Proof that this processor has AVX-512 for bytes, and the instructions for single bits that came before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Something to do with these instructions. No closure, because only a function can be told to be inlined.
pub(crate) trait Work {
    type Output;

    /// Does it. To be marked `#[inline(always)]`: otherwise it is compiled for any processor.
    fn work(self, avx512: Avx512) -> Self::Output;
}

/// 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(__m512i);

impl Avx512 {
    /// The proof, on a processor that gives it.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    /// Does `work` by code that is compiled for this processor: its own, and what is inlined into it.
    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { compiled_for_it(self, work) }
    }

    #[inline(always)]
    pub(crate) fn load(self, bytes: &[u8; 64]) -> Bytes {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { load(bytes) }
    }

    /// 64 times `byte`.
    #[inline(always)]
    pub(crate) fn splat(self, byte: u8) -> Bytes {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { splat(byte) }
    }

    /// Which bytes are `byte`: bit `i` for byte `i`.
    #[inline(always)]
    pub(crate) fn equal(self, Bytes(block): Bytes, byte: u8) -> u64 {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { equal(block, byte) }
    }

    /// Which bytes are at most `byte`.
    #[inline(always)]
    pub(crate) fn at_most(self, Bytes(block): Bytes, byte: u8) -> u64 {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { at_most(block, byte) }
    }

    /// Which bytes are decimal digits.
    #[inline(always)]
    pub(crate) fn digits(self, Bytes(block): Bytes) -> u64 {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { digits(block) }
    }

    /// The smaller of the bytes at each place.
    #[inline(always)]
    pub(crate) fn min(self, Bytes(one): Bytes, Bytes(other): Bytes) -> Bytes {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { min(one, other) }
    }

    /// The bytes that `bits` choose, in order, and zeros after them.
    #[inline(always)]
    pub(crate) fn chosen(self, Bytes(block): Bytes, bits: u64) -> [u8; 64] {
        // SAFETY: `self` proves the features that the function is compiled for.
        unsafe { chosen(block, bits) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt")]
fn compiled_for_it<W: Work>(avx512: Avx512, work: W) -> W::Output {
    work.work(avx512)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(bytes: &[u8; 64]) -> Bytes {
    // SAFETY: 64 bytes that may be read stand there, and they may stand anywhere.
    Bytes(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn splat(byte: u8) -> Bytes {
    Bytes(_mm512_set1_epi8(byte.cast_signed()))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn equal(block: __m512i, byte: u8) -> u64 {
    _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(byte.cast_signed()))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn at_most(block: __m512i, byte: u8) -> u64 {
    _mm512_cmple_epu8_mask(block, _mm512_set1_epi8(byte.cast_signed()))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn digits(block: __m512i) -> u64 {
    at_most(_mm512_sub_epi8(block, _mm512_set1_epi8(b'0'.cast_signed())), 9)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn min(one: __m512i, other: __m512i) -> Bytes {
    Bytes(_mm512_min_epu8(one, other))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
#[inline]
fn chosen(block: __m512i, bits: u64) -> [u8; 64] {
    let mut bytes = [0_u8; 64];
    let packed = _mm512_maskz_compress_epi8(bits, block);
    // SAFETY: there is room for 64 bytes, and they may stand anywhere.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), packed) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_says_something_about_its_byte() {
        let Some(avx512) = Avx512::detect() else {
            use std::io::Write as _;
            writeln!(std::io::stderr(), "SKIPPED: this processor has no AVX-512").unwrap();
            return;
        };
        let mask = |bytes: &[u8; 64], test: &dyn Fn(u8) -> bool| {
            bytes.iter().enumerate().fold(0, |mask, (at, byte)| mask | u64::from(test(*byte)) << at)
        };
        struct Masks([u8; 64], u8);
        impl Work for Masks {
            type Output = ([u64; 5], [u8; 64]);

            #[inline(always)]
            fn work(self, avx512: Avx512) -> ([u64; 5], [u8; 64]) {
                let Self(bytes, byte) = self;
                let block = avx512.load(&bytes);
                let least = avx512.min(block, avx512.splat(0x80));
                let masks = [
                    avx512.equal(block, byte),
                    avx512.at_most(block, 0x1f),
                    avx512.digits(block),
                    avx512.at_most(least, 0x7f),
                    avx512.equal(least, 0x80),
                ];
                (masks, avx512.chosen(block, avx512.at_most(block, 0x7f)))
            }
        }
        for start in 0..=255_u8 {
            let bytes: [u8; 64] = std::array::from_fn(|at| start.wrapping_add((at as u8).wrapping_mul(37)));
            let expected = [
                mask(&bytes, &|byte| byte == start),
                mask(&bytes, &|byte| byte <= 0x1f),
                mask(&bytes, &|byte| byte.is_ascii_digit()),
                mask(&bytes, &|byte| byte <= 0x7f),
                mask(&bytes, &|byte| byte >= 0x80),
            ];
            let mut chosen: Vec<u8> = bytes.iter().copied().filter(|byte| *byte <= 0x7f).collect();
            chosen.resize(64, 0);
            let (masks, packed) = avx512.run(Masks(bytes, start));
            assert_eq!((masks, packed.as_slice()), (expected, chosen.as_slice()), "{start}");
        }
    }
}
