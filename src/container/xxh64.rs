//! The content checksum of Zstandard frames: XXH64 with seed 0.
//!
//! libzstd keeps its own to itself, and a frame of raw blocks is made here without it.
//!
//! Spec: `format-spec/02-frames.md`, "Content"; the algorithm's own specification is `doc/xxhash_spec.md` of xxHash.

/// Bytes that are taken in together: a word for each of four lanes.
pub(crate) const STRIPE: usize = 32;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// A checksum on its way over a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xxh64 {
    lanes: [u64; 4],
    /// Bytes taken in.
    len: u64,
}

impl Xxh64 {
    /// The checksum of nothing so far.
    pub(crate) const fn new() -> Self {
        Self { lanes: [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()], len: 0 }
    }

    /// Takes in the whole stripes of `bytes`, and gives back what is left: less than a stripe, which belongs in front of the
    /// next bytes or into [`Xxh64::finish`].
    pub(crate) fn stripes<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (stripes, rest) = bytes.as_chunks::<STRIPE>();
        let mut lanes = self.lanes;
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        self.lanes = lanes;
        self.len = self.len.wrapping_add(bytes.len().wrapping_sub(rest.len()) as u64);
        rest
    }

    /// The checksum of all bytes, `rest` being the last ones.
    pub(crate) fn finish(mut self, rest: &[u8]) -> u64 {
        let rest = self.stripes(rest);
        let mut hash = if self.len == 0 { P5 } else { self.merged() };
        hash = hash.wrapping_add(self.len).wrapping_add(rest.len() as u64);
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            hash ^= round(0, u64::from_le_bytes(*word));
            hash = hash.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
            hash = hash.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        }
        for byte in rest {
            hash ^= u64::from(*byte).wrapping_mul(P5);
            hash = hash.rotate_left(11).wrapping_mul(P1);
        }
        hash = (hash ^ hash >> 33).wrapping_mul(P2);
        hash = (hash ^ hash >> 29).wrapping_mul(P3);
        hash ^ hash >> 32
    }

    fn merged(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let sum = [(a, 1), (b, 7), (c, 12), (d, 18)]
            .into_iter()
            .fold(0_u64, |sum, (lane, by)| sum.wrapping_add(lane.rotate_left(by)));
        self.lanes.iter().fold(sum, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
    }
}

#[inline]
const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `xxhsum -H64` prints them.
    #[test]
    fn known_texts_have_their_published_checksums() {
        for (text, hash) in [
            (&b""[..], 0xef46_db37_51d8_e999),
            (b"a", 0xd24e_c4f1_a98c_6e5b),
            (b"abc", 0x44bc_2cf5_ad77_0999),
        ] {
            assert_eq!(Xxh64::new().finish(text), hash);
        }
    }

    #[test]
    fn it_is_the_checksum_that_libzstd_puts_behind_a_frame_whatever_the_length() {
        let text: Vec<u8> = (0..300_u32).map(|n| (n * 7 % 251) as u8).collect();
        for len in 0..=text.len() {
            let content = &text[..len];
            let mut context = zstd_safe::CCtx::create();
            context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
            let mut frame = Vec::with_capacity(1000);
            context.compress2(&mut frame, content).unwrap();
            let expected = u32::from_le_bytes(*frame.last_chunk().unwrap());
            assert_eq!(Xxh64::new().finish(content) as u32, expected, "{len} bytes");
        }
    }

    #[test]
    fn stripes_taken_in_apart_give_the_checksum_of_the_whole() {
        let text: Vec<u8> = (0..1000_u32).map(|n| (n % 256) as u8).collect();
        for cut in (0..1000).step_by(STRIPE) {
            let mut hash = Xxh64::new();
            assert!(hash.stripes(&text[..cut]).is_empty());
            assert_eq!(hash.finish(&text[cut..]), Xxh64::new().finish(&text));
        }
    }
}
