//! The in-flight buffer (vhost-user text, "Inflight I/O tracking"): one part for each queue, one after the other. Its
//! content belongs to the device.
use virtio::{QueueSize, RingLayout};

/// The bytes of the whole buffer; at most 64 GiB, because both counts have sixteen bits.
pub fn area_bytes(layout: RingLayout, queue_count: u16, size: QueueSize) -> u64 {
    u64::from(queue_count) * layout.in_flight_bytes(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_a_part() {
        let size = QueueSize::new(RingLayout::Split, 256).unwrap();
        assert_eq!(area_bytes(RingLayout::Split, 2, size), 8320);
    }
}
