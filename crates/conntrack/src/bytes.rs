//! Numbers in headers.

/// The 16-bit number at a place, if it lies within the bytes.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The 32-bit number at a place, if it lies within the bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// Bytes for the state of a protocol in a connection that is saved.
pub(crate) const STATE_BYTES: usize = 14;
