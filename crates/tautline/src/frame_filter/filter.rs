//! What is asked of a frame, and whether one is that.

use std::net::IpAddr;

use super::headers::Headers;

/// What is asked of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    /// An IP protocol's number, whatever the version.
    IpProtocol(u8),
    /// Of the innermost header.
    EtherType(u16),
    /// Tagged, with this identifier if there is one.
    Vlan(Option<u16>),
    Mac(End, [u8; 6]),
    /// To a group: every such address, or the one of all.
    Multicast,
    Broadcast,
    /// Of IP and of ARP, with so many bits of the address.
    Net(End, IpAddr, u8),
    Port(End, u16),
    /// Frames of at least so many bytes.
    AtLeast(usize),
    /// Frames of at most so many bytes.
    AtMost(usize),
}

/// Which address or port of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
    Either,
}

impl End {
    fn holds<T>(self, [source, destination]: [T; 2], is: impl Fn(T) -> bool) -> bool {
        match self {
            End::Source => is(source),
            End::Destination => is(destination),
            End::Either => is(source) || is(destination),
        }
    }
}

impl Filter {
    /// Whether a frame is what is asked for.
    pub fn matches(&self, headers: &Headers) -> bool {
        match self {
            Filter::And(all) => all.iter().all(|one| one.matches(headers)),
            Filter::Or(any) => any.iter().any(|one| one.matches(headers)),
            Filter::Not(one) => !one.matches(headers),
            Filter::IpProtocol(number) => headers.ip_protocol == Some(*number),
            Filter::EtherType(number) => headers.ether_type == Some(*number),
            Filter::Vlan(None) => !headers.vlans.is_empty(),
            Filter::Vlan(Some(id)) => headers.vlans.contains(id),
            Filter::Mac(end, mac) => headers.macs.is_some_and(|macs| end.holds(macs, |one| one == *mac)),
            Filter::Multicast => headers.macs.is_some_and(|[_, to]| to[0] & 1 == 1),
            Filter::Broadcast => headers.macs.is_some_and(|[_, to]| to == [0xff; 6]),
            Filter::Net(end, net, bits) => {
                headers.addresses.is_some_and(|both| end.holds(both, |one| is_within(one, *net, *bits)))
            }
            Filter::Port(end, port) => {
                headers.ports.is_some_and(|ports| end.holds(ports, |one| one == *port))
            }
            Filter::AtLeast(bytes) => headers.frame_bytes >= *bytes,
            Filter::AtMost(bytes) => headers.frame_bytes <= *bytes,
        }
    }
}

fn is_within(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let (address, net, width) = match (address, net) {
        (IpAddr::V4(address), IpAddr::V4(net)) => {
            (u128::from(u32::from(address)), u128::from(u32::from(net)), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(net)) => (u128::from(address), u128::from(net), 128),
        _ => return false,
    };
    // A net of no bits at all is every address of its kind.
    let free = u32::from(width - bits.min(width));
    (address ^ net).checked_shr(free).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::super::headers::HEADER_BYTES;
    use super::super::parse::parse;
    use super::*;
    use etherparse::PacketBuilder;

    fn udp() -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .single_vlan(7.try_into().unwrap())
            .ipv4([10, 0, 1, 2], [192, 168, 0, 9], 64)
            .udp(5000, 53)
            .write(&mut frame, &[0; 100])
            .unwrap();
        frame
    }

    fn keeps(filter: &str, frame: &[u8]) -> bool {
        parse(filter).unwrap().matches(&Headers::read(&frame[..frame.len().min(HEADER_BYTES)], frame.len()))
    }

    #[test]
    fn frames_are_kept_as_tcpdump_would() {
        for (filter, kept) in [
            ("udp", true),
            ("tcp", false),
            ("ip and not ip6", true),
            ("port 53", true),
            ("src port 53", false),
            ("dst port 53", true),
            ("tcp port 53", false),
            ("udp dst port 53 and host 10.0.1.2", true),
            ("src host 192.168.0.9", false),
            ("net 10.0.0.0/8", true),
            ("dst net 10.0.0.0/8", false),
            ("net 0.0.0.0/0 and !(net ::/0)", true),
            ("vlan", true),
            ("vlan 7 && port 5000", true),
            ("vlan 8", false),
            ("ether src 02:00:00:00:00:01", true),
            ("ether host 02:00:00:00:00:03", false),
            ("ether proto 0x0800 or arp", true),
            ("arp or udp and port 1", false),
            ("(arp or udp) and port 53", true),
            ("ether broadcast or ether multicast", false),
            ("greater 100", true),
            ("less 100", false),
            ("icmp or icmp6", false),
        ] {
            assert_eq!(keeps(filter, &udp()), kept, "{filter}");
        }
    }

    #[test]
    fn addresses_of_arp_and_of_the_other_version() {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        assert!(keeps("arp and dst host 10.0.0.2 and ether broadcast", &frame));
        assert!(!keeps("ip or host 10.0.0.3 or port 1 or udp", &frame));
        let mut six = Vec::new();
        let to = "fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6(to, to, 9)
            .tcp(80, 9, 1, 1)
            .write(&mut six, &[])
            .unwrap();
        assert!(keeps("ip6 and tcp src port 80 and net fd00::/16 and host fd00::2", &six));
        assert!(!keeps("net 0.0.0.0/0", &six));
    }

    #[test]
    fn what_is_cut_or_no_frame_at_all_is_no_error() {
        let whole = udp();
        for bytes in 0..whole.len() {
            let _ = keeps("not (port 53 or host ::1 or vlan)", &whole[..bytes]);
        }
        assert!(!keeps("ether src 02:00:00:00:00:01", &whole[..11]));
        assert!(keeps("not port 53", &whole[..30]));
    }
}
