//! The memory of a guest in a test: the positions of its rings and buffers, and its frames.
pub use vhost_device::testing::guest_memory::*;

/// Bytes of the net header.
pub const HEADER: usize = 12;

/// A frame that can be recognised: addresses, type, number, and bytes derived from the number.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend_from_slice(&number.to_be_bytes());
    while frame.len() < len {
        frame.push((frame.len() as u32).wrapping_mul(31).wrapping_add(number) as u8);
    }
    frame.truncate(len.max(14));
    frame
}
