//! The addresses and ports that identify one direction of a connection.
use std::net::IpAddr;

/// Numbers of protocols (IANA).
pub mod protocol {
    #![allow(missing_docs, reason = "IANA's names")]
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    /// The extension header of a fragment.
    pub const IPV6_FRAGMENT: u8 = 44;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The direction of the frame that began the connection.
    #[default]
    Original = 0,
    /// The direction of the answers.
    Reply = 1,
}

impl Direction {
    /// The opposite direction.
    pub fn other(self) -> Self {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port; zero for a protocol without ports.
    pub port: u16,
}

/// One direction of a connection.
///
/// The ports of an ICMP query are its identifier (source) and its type and code (destination), so that a reply is the
/// reverse of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The sender.
    pub source: Endpoint,
    /// The receiver.
    pub destination: Endpoint,
    /// The protocol's number.
    pub protocol: u8,
}

/// The type of the answer to an ICMP query (RFC 792, RFC 950, RFC 4443, RFC 4620), or of the query of an answer.
fn opposite(protocol: u8, kind: u8) -> Option<u8> {
    const V4: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
    const V6: [(u8, u8); 2] = [(128, 129), (139, 140)];
    let pairs: &[(u8, u8)] = if protocol == protocol::ICMP { &V4 } else { &V6 };
    pairs.iter().find_map(|(query, answer)| match kind {
        kind if kind == *query => Some(*answer),
        kind if kind == *answer => Some(*query),
        _ => None,
    })
}

impl Tuple {
    /// Whether the protocol is ICMP or ICMPv6.
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, protocol::ICMP | protocol::ICMPV6)
    }

    /// The type of an ICMP message.
    pub(crate) fn icmp_type(&self) -> u8 {
        (self.destination.port >> 8) as u8
    }

    /// Whether this is an ICMP message that asks for an answer.
    pub(crate) fn is_query(&self) -> bool {
        matches!(
            (self.protocol, self.icmp_type()),
            (protocol::ICMP, 8 | 13 | 15 | 17) | (protocol::ICMPV6, 128 | 139)
        )
    }

    /// The tuple of the answers. `None` if there are none, as for most kinds of ICMP messages.
    pub fn reversed(&self) -> Option<Tuple> {
        let (mut source, mut destination) = (self.destination, self.source);
        if self.is_icmp() {
            let answer = opposite(self.protocol, self.icmp_type())?;
            source.port = self.source.port;
            destination.port = u16::from(answer) << 8 | self.destination.port & 0xff;
        }
        Some(Tuple { source, destination, protocol: self.protocol })
    }
}

/// The secret of a table's hash: without it, a sender cannot choose tuples whose hashes are equal.
#[derive(Clone, Copy, Debug)]
pub struct Seed(pub [u64; 2]);

fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Seed {
    fn end(&self, endpoint: Endpoint, port: u16) -> u64 {
        let address = match endpoint.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let high = (address >> 64) as u64 ^ u64::from(port) << 48 ^ self.0[0];
        mix(mix(high, 0x9e37_79b9_7f4a_7c15) ^ address as u64 ^ self.0[1], 0xd6e8_feb8_6659_fd93)
    }

    /// The hash of a zone.
    pub(crate) fn of_zone(&self, zone: u16) -> u64 {
        mix(u64::from(zone) ^ self.0[0], self.0[1] | 1)
    }

    /// The hash of a tuple in a zone. Both directions of a connection without translation have the same hash.
    pub fn hash(&self, zone: u16, tuple: &Tuple) -> u64 {
        // The identifier of an ICMP query is the same in both directions.
        let ports = match tuple.is_icmp() {
            true => (tuple.source.port, tuple.source.port),
            false => (tuple.source.port, tuple.destination.port),
        };
        let (one, other) = (self.end(tuple.source, ports.0), self.end(tuple.destination, ports.1));
        let rest = u64::from(zone) << 8 | u64::from(tuple.protocol);
        mix(
            one.wrapping_add(other) ^ self.0[0],
            (one ^ other) ^ self.0[1] ^ mix(rest ^ self.0[1], 0xa076_1d64_78bd_642f),
        )
    }
}
