//! Computes the number of cores at a line rate from the cost of a packet: an extrapolation, and labelled as such in
//! every output.

/// The line rates that are shown, in Gb/s.
pub const LINE_RATES_GBPS: [f64; 4] = [1.0, 10.0, 25.0, 100.0];

/// The bytes that a datagram has in addition to its payload: UDP (8), IPv4 (20), Ethernet with its check sequence (18),
/// and on the wire preamble and gap (20).
const OVERHEAD_BYTES: f64 = 66.0;
/// Ethernet's shortest frame and its preamble and gap (IEEE 802.3).
const LEAST_BYTES: f64 = 84.0;

/// The number of datagrams with this payload that a line carries in a second. A payload of more than 1,472 bytes,
/// which is sent in fragments, counts as if it were one frame.
pub fn datagrams_per_second(gbps: f64, message_bytes: u64) -> f64 {
    gbps * 1e9 / 8.0 / (message_bytes as f64 + OVERHEAD_BYTES).max(LEAST_BYTES)
}

/// The number of cores that both ends and all programs between them keep busy at a line rate, if the cost of a packet
/// stays the same.
pub fn cores(gbps: f64, message_bytes: u64, ns_per_packet: f64) -> f64 {
    datagrams_per_second(gbps, message_bytes) * ns_per_packet / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_of_small_and_large_frames() {
        // 64-byte frames: 14.88 million a second; 1,518-byte frames: 812,744.
        assert!((datagrams_per_second(10.0, 18) / 14_880_952.0 - 1.0).abs() < 1e-6);
        assert_eq!(datagrams_per_second(10.0, 1), datagrams_per_second(10.0, 18));
        assert!((datagrams_per_second(10.0, 1472) / 812_743.8 - 1.0).abs() < 1e-6);
        assert!((cores(10.0, 1472, 1000.0) - 0.8127).abs() < 1e-3);
    }
}
