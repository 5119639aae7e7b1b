//! A frame with the fields of a match, for a trace.
use flow::{Field, Match, protocol};
use flow_tables::HeaderWindow;

/// Bytes of an Ethernet header, and of the addresses in it.
const ADDRESSES: usize = 12;
/// The shortest frame without its checksum.
const LEAST_BYTES: usize = 60;
const TTL: u8 = 64;

/// A transport header with zeros where a match sets fields.
fn transport(kind: u8, wanted: &Match) -> Vec<u8> {
    let bytes = match kind {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
        protocol::SCTP => 12,
        _ => 0,
    };
    let mut header = vec![0; bytes];
    if kind == protocol::TCP {
        let [high, low] = (wanted.value().get(Field::TcpFlags) as u16).to_be_bytes();
        (header[12], header[13]) = (5 << 4 | high & 0xf, low); // the header's length in words
    }
    header
}

/// The bytes behind the Ethernet header.
fn payload(kind: u16, wanted: &Match) -> Vec<u8> {
    let transport_kind = wanted.value().get(Field::NwProto) as u8;
    let behind = || match wanted.value().get(Field::IcmpType) as u8 {
        // The target of a neighbor message, and one option for an address.
        kind if transport_kind == protocol::ICMPV6 && protocol::is_neighbor(kind) => {
            let option = if kind == protocol::SOLICITATION { 1 } else { 2 };
            [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16], &[option, 1, 0, 0, 0, 0, 0, 0]].concat()
        }
        _ => transport(transport_kind, wanted),
    };
    match kind {
        protocol::IPV4 => {
            let behind = behind();
            let length = (20 + behind.len() as u16).to_be_bytes(); // 40 at most
            let head = [0x45, 0, length[0], length[1], 0, 0, 0, 0, TTL, transport_kind];
            [&head[..], &[0; 10], &behind].concat()
        }
        protocol::IPV6 => {
            let behind = behind();
            let head = [0x60, 0, 0, 0, 0, behind.len() as u8, transport_kind, TTL];
            [&head[..], &[0; 32], &behind].concat()
        }
        protocol::ARP | protocol::RARP => {
            let [high, low] = protocol::IPV4.to_be_bytes();
            [&[0, 1, high, low, 6, 4, 0, 1][..], &[0; 20]].concat()
        }
        _ => Vec::new(),
    }
}

/// The window of a frame that has the wanted values, and zeros elsewhere. Its checksums are not right.
pub fn frame(wanted: &Match, max_tags: u8) -> HeaderWindow {
    let kind = wanted.value().get(Field::EthType) as u16;
    let mut bytes = [&[0; ADDRESSES][..], &kind.to_be_bytes(), &payload(kind, wanted)].concat();
    bytes.resize(bytes.len().max(LEAST_BYTES), 0);
    let mut window = HeaderWindow::new(&bytes, bytes.len(), max_tags);
    let mut key = *window.held();
    for field in Field::ALL {
        let mask = wanted.mask().get(*field);
        key.set_masked(*field, wanted.value().get(*field), mask);
    }
    if key.get(Field::VlanTci) != 0 && key.get(Field::VlanTpid) == 0 {
        key.set(Field::VlanTpid, protocol::VLAN.into());
    }
    window.write(&key);
    window
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composed_frame_has_the_fields_of_its_match() {
        for text in [
            "in_port=1",
            "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x88b5",
            "dl_vlan=5,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80,tcp_flags=+syn-ack",
            "udp,tp_src=53,nw_tos=32,nw_ttl=3",
            "sctp,tp_dst=5",
            "icmp,icmp_type=8,icmp_code=1",
            "arp,arp_op=2,arp_spa=10.0.0.1,arp_tpa=10.0.0.9,arp_sha=02:00:00:00:00:07",
            "tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_dst=443",
            "icmp6,icmp_type=135,nd_target=fd00::9,nd_sll=02:00:00:00:00:03",
            "icmp6,icmp_type=128",
        ] {
            let wanted = Match::parse(text).unwrap();
            let mut window = frame(&wanted, 1);
            window.extract();
            let mut key = *window.held();
            key.set(Field::InPortOxm, wanted.value().get(Field::InPortOxm));
            assert!(wanted.matches(&key), "{text}: {key:?}");
        }
    }
}
