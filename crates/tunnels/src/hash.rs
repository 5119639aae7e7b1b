//! The source port of an outer UDP header, which tells the flows in a tunnel apart (RFC 8926 §3.3).
use flow::protocol;

/// The ephemeral ports (RFC 6335 §6).
const FIRST: u16 = 49152;
const MASK: u16 = 0x3fff;

/// Protocols whose header begins with two ports.
const WITH_PORTS: [u8; 3] = [protocol::TCP, protocol::UDP, protocol::SCTP];

/// The port for a frame that begins with `head`. All frames of a flow have one port; a fragment has the port of its
/// datagram's addresses.
pub fn source_port(head: &[u8]) -> u16 {
    let hash = ip(head).unwrap_or_else(|| mixed(0, head.get(..12).unwrap_or(head)));
    FIRST | (hash >> 40) as u16 & MASK
}

fn ip(head: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u16::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let mut at = 12;
    while matches!(word(at)?, protocol::VLAN | protocol::SERVICE_VLAN) && at < 20 {
        at += 4;
    }
    let packet = head.get(at + 2..)?;
    let (hash, number, transport) = match word(at)? {
        protocol::IPV4 => {
            let is_fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
            let number = packet.get(9).copied().filter(|_| !is_fragment);
            (mixed(0, packet.get(12..20)?), number, usize::from(packet[0] & 0xf) * 4)
        }
        protocol::IPV6 => (mixed(0, packet.get(8..40)?), packet.get(6).copied(), 40),
        _ => return None,
    };
    let has_ports = number.is_some_and(|number| WITH_PORTS.contains(&number));
    let ports = packet.get(transport..transport + 4).filter(|_| has_ports);
    Some(ports.map_or(hash, |ports| mixed(hash, ports)))
}

fn mixed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(4).fold(hash, |hash, chunk| {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let product = u128::from(hash.rotate_left(29) ^ word ^ 0x2d35_8dcc_aa6c_78a5) * 0x8bb8_4b93_962e_acc9;
        product as u64 ^ (product >> 64) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_tell_flows_apart_and_fragments_stay_together() {
        let frame = |fragment: u8, port: u8| {
            let mut frame = vec![2; 12];
            frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, fragment, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend([0, port, 0, 53]);
            frame
        };
        let of = |frame: &[u8]| source_port(frame);
        assert_ne!(of(&frame(0, 1)), of(&frame(0, 2)));
        assert_eq!(of(&frame(0x20, 1)), of(&frame(0x20, 2)));
        (0..40).for_each(|bytes| assert!(of(frame(0, 1).get(..bytes).unwrap_or_default()) >= FIRST));
    }
}
