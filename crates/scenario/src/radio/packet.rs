//! The users' packets: one UDP packet for each tick. Every byte is determined by user and tick, so that the other end
//! can check it.

use etherparse::{IpNumber, Ipv4Header, UdpHeader};

/// IPv4 and UDP header.
pub const HEADERS: usize = 28;
/// The shortest packet: its headers and the tick.
pub const SHORTEST: usize = HEADERS + size_of::<u64>();
/// IPv4's own header.
const IP_HEADER: usize = Ipv4Header::MIN_LEN;
/// Users send to a server of the benchmark network (RFC 2544 appendix C).
const SERVER: [u8; 4] = [198, 19, 0, 1];
const SERVER_PORT: u16 = 7;
const USER_PORT: u16 = 1024;

/// Why a packet differs from the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet of user {user} for tick {tick} is another one than was sent")]
pub struct Altered {
    user: u32,
    tick: u64,
}

/// Writes a user's packet for a tick into `packet`. It is `bytes` long including headers. `bytes` must be at least
/// [`SHORTEST`].
pub fn write(user: u32, tick: u64, bytes: usize, packet: &mut Vec<u8>) {
    let payload_bytes = bytes.max(SHORTEST) - HEADERS;
    let mut payload = Vec::with_capacity(payload_bytes);
    payload.extend_from_slice(&tick.to_be_bytes());
    let mut word = (u64::from(user) << 32 ^ tick).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while payload.len() < payload_bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let bytes = word.to_be_bytes();
        payload.extend_from_slice(&bytes[..bytes.len().min(payload_bytes - payload.len())]);
    }
    let [_, high, middle, low] = user.to_be_bytes();
    let source = [10, high, middle, low];
    let udp_bytes = (UdpHeader::LEN + payload_bytes) as u16;
    let ip = Ipv4Header {
        total_len: IP_HEADER as u16 + udp_bytes,
        identification: tick as u16,
        time_to_live: 64,
        protocol: IpNumber::UDP,
        source,
        destination: SERVER,
        ..Ipv4Header::default()
    };
    let ip = Ipv4Header { header_checksum: ip.calc_header_checksum(), ..ip };
    let mut udp =
        UdpHeader { source_port: USER_PORT, destination_port: SERVER_PORT, length: udp_bytes, checksum: 0 };
    udp.checksum = udp.calc_checksum_ipv4(&ip, &payload).unwrap_or_default();
    packet.clear();
    packet.extend_from_slice(&ip.to_bytes());
    packet.extend_from_slice(&udp.to_bytes());
    packet.extend_from_slice(&payload);
}

/// Checks a packet of a user against what was sent. Returns its tick.
///
/// # Errors
/// A byte differs.
pub fn check(user: u32, packet: &[u8], scratch: &mut Vec<u8>) -> Result<u64, Altered> {
    let tick =
        packet.get(HEADERS..SHORTEST).and_then(|tick| tick.try_into().ok()).map_or(0, u64::from_be_bytes);
    write(user, tick, packet.len(), scratch);
    if scratch.as_slice() == packet { Ok(tick) } else { Err(Altered { user, tick }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_its_own_or_altered() {
        let (mut packet, mut scratch) = (Vec::new(), Vec::new());
        for bytes in [SHORTEST, 100, 1400] {
            write(300, 77, bytes, &mut packet);
            assert_eq!(packet.len(), bytes);
            assert_eq!(check(300, &packet, &mut scratch), Ok(77));
            assert!(check(301, &packet, &mut scratch).is_err());
            packet[bytes - 1] ^= 1;
            assert!(check(300, &packet, &mut scratch).is_err());
        }
        assert!(check(1, &[0; 3], &mut scratch).is_err());
    }

    #[test]
    fn its_checksums_are_right() {
        let mut packet = Vec::new();
        write(5, 9, 333, &mut packet);
        let sliced = etherparse::SlicedPacket::from_ip(&packet).unwrap();
        let Some(etherparse::NetSlice::Ipv4(ip)) = sliced.net else { panic!() };
        assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
        let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport else { panic!() };
        let header = udp.to_header();
        assert_eq!(
            header.checksum,
            header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap()
        );
    }
}
