//! Parses the answers to testpmd's `show port stats` and `show fwd stats`.

/// The counters of one port since its start or the last `clear port stats`. Sent and received are counted from the
/// side of testpmd's port.
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
    /// Received packets a second since the last reading.
    pub rx_pps: u64,
    /// Sent packets a second since the last reading.
    pub tx_pps: u64,
}

impl PortStats {
    /// Returns `None` if a counter is missing.
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
            rx_pps: number("Rx-pps")?,
            tx_pps: number("Tx-pps")?,
        })
    }
}

/// The counters of the forwarding thread over all ports, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets that were passed to ports, whether sent or not.
    pub tx_total: u64,
    /// The packets among these for which a port had no space.
    pub tx_dropped: u64,
    /// The cycles of polls that moved at least one packet (`--record-core-cycles`).
    pub busy_cycles: u64,
    /// The frequency of the clock that counts the cycles, in MHz; unknown before the first packet.
    pub mhz: Option<u64>,
}

impl ForwardStats {
    /// Returns `None` if a counter is missing.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = text.split("Accumulated forward statistics").nth(1)?;
        let number = |after: &str| -> Option<u64> {
            let rest = all.split(after).nth(1)?.trim_start();
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
        };
        let rx_packets = number("RX-packets:")?;
        // Older versions call them total, but count those of polls that moved something as well.
        let busy_cycles = match number("(busy cycles=").or_else(|| number("(total cycles=")) {
            // testpmd reports no cycles before the first packet.
            None if rx_packets == 0 => 0,
            busy => busy?,
        };
        Some(Self {
            rx_packets,
            tx_total: number("TX-total:")?,
            tx_dropped: number("TX-dropped:")?,
            busy_cycles,
            mhz: number(") at "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "  RX-packets: 8128       RX-missed: 1          RX-bytes:  520192\n  RX-errors: 2\n  \
                    RX-nombuf:  3         \n  TX-packets: 8129       TX-errors: 4          TX-bytes:  520193\n\n  \
                    Throughput (since last show)\n  Rx-pps:     12345          Rx-bps:   1\n  Tx-pps:  678   Tx-bps: 2\n";
        let stats = PortStats::parse(text).unwrap();
        assert_eq!((stats.rx_packets, stats.rx_missed, stats.rx_bytes), (8128, 1, 520_192));
        assert_eq!((stats.rx_errors, stats.rx_nombuf), (2, 3));
        assert_eq!((stats.tx_packets, stats.tx_errors, stats.tx_bytes), (8129, 4, 520_193));
        assert_eq!((stats.rx_pps, stats.tx_pps), (12345, 678));
        assert_eq!(PortStats::parse("Invalid port 7"), None);
    }

    #[test]
    fn what_all_ports_forwarded_is_read_from_older_and_newer_versions() {
        let text = "  ---- Forward statistics for port 0  ----\n  RX-packets: 7 RX-dropped: 0 RX-total: 7\n\
                    +++++ Accumulated forward statistics for all ports+++++\n  \
                    RX-packets: 1000           RX-dropped: 0             RX-total: 1000\n  \
                    TX-packets: 900            TX-dropped: 100           TX-total: 1000\n  ++++\n\n  \
                    CPU cycles/packet=20.00 (total cycles=20000 / total RX packets=1000) at 2000 MHz Clock\n";
        let wanted = ForwardStats {
            rx_packets: 1000,
            tx_total: 1000,
            tx_dropped: 100,
            busy_cycles: 20_000,
            mhz: Some(2000),
        };
        assert_eq!(ForwardStats::parse(text), Some(wanted));
        assert_eq!(ForwardStats::parse(&text.replace("(total cycles=", "(busy cycles=")), Some(wanted));
        // Packets that took no cycles are not believed.
        assert_eq!(ForwardStats::parse(&text.replace("cycles=", "turns=")), None);
        let none = "Accumulated forward statistics RX-packets: 0 TX-dropped: 0 TX-total: 0";
        assert_eq!(ForwardStats::parse(none), Some(ForwardStats::default()));
    }
}
