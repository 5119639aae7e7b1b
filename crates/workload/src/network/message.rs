//! The bytes of a message: its number, then a pattern that follows from the number.

/// The bytes of the magic value and the number.
pub(super) const HEADER_BYTES: usize = 16;
/// So that a stranger's datagram is not taken for one of ours.
const MAGIC: u64 = u64::from_be_bytes(*b"tautline");

/// Writes message `number` over all of `bytes`.
pub(super) fn write(bytes: &mut [u8], number: u64) {
    write_header(bytes, number);
    for (index, byte) in bytes[HEADER_BYTES..].iter_mut().enumerate() {
        *byte = pattern(number, index);
    }
}

/// Writes only the number; the other bytes stay unchanged.
pub(super) fn write_header(bytes: &mut [u8], number: u64) {
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..HEADER_BYTES].copy_from_slice(&number.to_be_bytes());
}

/// The number of a message that has `expected` bytes and carries this project's magic value.
pub(super) fn read(bytes: &[u8], expected: usize) -> Option<u64> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let number = rest.first_chunk::<8>()?;
    (bytes.len() == expected && *magic == MAGIC.to_be_bytes()).then(|| u64::from_be_bytes(*number))
}

/// Whether the bytes after the number are the bytes that were written.
pub(super) fn is_intact(bytes: &[u8], number: u64) -> bool {
    bytes[HEADER_BYTES..].iter().enumerate().all(|(index, &byte)| byte == pattern(number, index))
}

fn pattern(number: u64, index: usize) -> u8 {
    (number as usize).wrapping_mul(31).wrapping_add(index.wrapping_mul(7)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_seen() {
        let mut bytes = vec![0; 64];
        write(&mut bytes, 77);
        assert_eq!(read(&bytes, 64), Some(77));
        assert!(is_intact(&bytes, 77));
        assert_eq!(read(&bytes, 65), None);
        for index in HEADER_BYTES..64 {
            bytes[index] ^= 1;
            assert!(!is_intact(&bytes, 77));
            bytes[index] ^= 1;
        }
        bytes[0] ^= 1;
        assert_eq!(read(&bytes, 64), None);
        assert_eq!(read(&bytes[..5], 5), None);
    }
}
