//! The one checksum of trailers and bodies: CRC-32 with the reflected polynomial 0xEDB88320 (IEEE 802.3, zlib, PNG).
//!
//! Spec: `format-spec/03-trailer.md`, "Checksums".

/// CRC-32 of `bytes`, continued from `start`; 0 starts afresh. `crc32(crc32(0, a), b)` is the CRC of `a` and `b` joined.
#[must_use]
pub(crate) fn crc32(start: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(start);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn published_check_value_holds() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn empty_input_keeps_the_start_value() {
        assert_eq!(crc32(0, b""), 0);
        assert_eq!(crc32(0xffee_0001, b""), 0xffee_0001);
    }

    #[test]
    fn joined_pieces_give_the_crc_of_the_whole() {
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), crc32(0, b"123456789"));
    }
}
