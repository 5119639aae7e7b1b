//! The checksum of Internet protocols (RFC 1071).

/// The checksum after 16-bit words at an even place have changed.
pub fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
        bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    }
    let mut sum = u64::from(!checksum);
    sum += words(old).map(|word| u64::from(!word)).sum::<u64>();
    sum += words(new).map(u64::from).sum::<u64>();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
