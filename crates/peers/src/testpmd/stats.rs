//! What testpmd's `show port stats` says.

/// Counters of one port since its start or the last `clear port stats`. Sent and received as testpmd's port
/// does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "DPDK's own names, rte_eth_stats")]
pub struct PortStats {
    pub rx_packets: u64,
    pub rx_missed: u64,
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub rx_nombuf: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_bytes: u64,
}

impl PortStats {
    /// None where a counter is not there.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |name: &str| {
            let rest = text.split(name).nth(1)?.strip_prefix(':')?;
            rest.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            rx_packets: number("RX-packets")?,
            rx_missed: number("RX-missed")?,
            rx_bytes: number("RX-bytes")?,
            rx_errors: number("RX-errors")?,
            rx_nombuf: number("RX-nombuf")?,
            tx_packets: number("TX-packets")?,
            tx_errors: number("TX-errors")?,
            tx_bytes: number("TX-bytes")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "  RX-packets: 8128       RX-missed: 1          RX-bytes:  520192\n  RX-errors: 2\n  \
                    RX-nombuf:  3         \n  TX-packets: 8129       TX-errors: 4          TX-bytes:  520193\n";
        let stats = PortStats::parse(text).unwrap();
        assert_eq!((stats.rx_packets, stats.rx_missed, stats.rx_bytes), (8128, 1, 520_192));
        assert_eq!((stats.rx_errors, stats.rx_nombuf), (2, 3));
        assert_eq!((stats.tx_packets, stats.tx_errors, stats.tx_bytes), (8129, 4, 520_193));
        assert_eq!(PortStats::parse("Invalid port 7"), None);
    }
}
