//! The in-flight buffer's shape (vhost-user text, "Inflight I/O tracking"): how large it is and where
//! each queue's part lies. What is written there is the device's affair.
use crate::vring::{Layout, QueueSize};

/// Parts begin on cache lines, as in libvhost-user and DPDK's vhost library.
pub const ALIGNMENT_BYTES: u64 = 64;

/// Bytes before the first descriptor state of a queue's part. The packed header's fields end at byte
/// 29, the states are aligned to 8.
pub const fn header_bytes(layout: Layout) -> u64 {
    match layout {
        Layout::Split => 16,
        Layout::Packed => 32,
    }
}

/// Bytes of one descriptor's state.
pub const fn state_bytes(layout: Layout) -> u64 {
    match layout {
        Layout::Split => 16,
        Layout::Packed => 32,
    }
}

/// Bytes from one queue's part to the next.
pub fn queue_stride_bytes(layout: Layout, size: QueueSize) -> u64 {
    (header_bytes(layout) + state_bytes(layout) * u64::from(size.get())).next_multiple_of(ALIGNMENT_BYTES)
}

/// Bytes of the whole buffer; at most 64 GiB, for both counts have sixteen bits.
pub fn area_bytes(layout: Layout, queue_count: u16, size: QueueSize) -> u64 {
    u64::from(queue_count) * queue_stride_bytes(layout, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_c_structures() {
        let size = QueueSize::new(256).unwrap();
        assert_eq!(queue_stride_bytes(Layout::Split, size), 4160);
        assert_eq!(queue_stride_bytes(Layout::Packed, size), 8256);
        assert_eq!(area_bytes(Layout::Split, 2, size), 8320);
        assert_eq!(queue_stride_bytes(Layout::Split, QueueSize::new(1).unwrap()), 64);
    }
}
