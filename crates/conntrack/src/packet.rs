//! Reads what connection tracking needs from the headers of a datagram.
//!
//! The bytes come from a peer and are hostile: a header counts if all of it lies within the given bytes and within the
//! datagram.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{u16_at, u32_at};
use crate::sctp::Chunks;
use crate::segment::Segment;
use crate::{Endpoint, Tuple, protocol};

/// The headers of one datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Addresses and ports.
    pub tuple: Tuple,
    /// The place of the transport header, in bytes from the network header.
    pub transport: usize,
    /// The bytes of the datagram in later fragments.
    pub later: usize,
    pub(crate) payload: Payload<'a>,
}

/// The data that tracking needs in addition to the tuple.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    Tcp(Segment),
    Sctp(Chunks<'a>),
    /// A query or its answer.
    Icmp,
    /// An ICMP error and the datagram that it quotes.
    Error(Quote),
    /// UDP, and each protocol that has no states of its own.
    Other,
}

/// The datagram in an ICMP error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    pub tuple: Tuple,
    /// The place of the quoted network header, in bytes from the outer network header.
    pub at: usize,
}

/// The reason why a datagram cannot be tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untracked {
    /// The bytes are no IPv4 or IPv6 datagram.
    NotIp,
    /// A header is cut off, or a length contradicts the datagram's.
    Malformed,
    /// The datagram is a fragment.
    Fragment,
    /// The kind of ICMP message begins no connection and is no error.
    NoQuery,
}

/// The network header: addresses, the protocol, and the place and length of what follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    /// The place of the transport header.
    pub transport: usize,
    /// The end of the datagram according to its header.
    pub end: usize,
    pub fragment: Option<Fragment>,
}

/// The place of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub id: u32,
    /// In bytes.
    pub offset: u16,
    pub more: bool,
    /// The place of its part of the datagram, in bytes from the network header: behind the fragment header of IPv6.
    pub payload: usize,
}

impl Network {
    /// Reads a network header. `None` if it is cut off or contradicts itself.
    pub fn read(bytes: &[u8]) -> Option<Network> {
        match bytes.first()? >> 4 {
            4 => Self::v4(bytes),
            6 => Self::v6(bytes),
            _ => None,
        }
    }

    /// RFC 791 §3.1.
    fn v4(bytes: &[u8]) -> Option<Network> {
        let header = bytes.first_chunk::<20>()?;
        let transport = usize::from(header[0] & 0xf) * 4;
        let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if transport < 20 || end < transport || bytes.len() < transport {
            return None;
        }
        let place = u16::from_be_bytes([header[6], header[7]]);
        let fragment = (place & 0x3fff != 0).then(|| Fragment {
            id: u16::from_be_bytes([header[4], header[5]]).into(),
            offset: (place & 0x1fff) << 3,
            more: place & 0x2000 != 0,
            payload: transport,
        });
        let address = |at: usize| u32_at(header, at).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
        Some(Network {
            source: address(12)?,
            destination: address(16)?,
            protocol: header[9],
            transport,
            end,
            fragment,
        })
    }

    /// RFC 8200 §3 and §4.
    fn v6(bytes: &[u8]) -> Option<Network> {
        let header = bytes.first_chunk::<40>()?;
        let address = |at: usize| {
            let bits = bytes.get(at..at + 16)?.first_chunk().copied().map(u128::from_be_bytes)?;
            Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
        };
        let (mut next, mut at, mut fragment) = (header[6], 40, None);
        loop {
            match next {
                // Hop-by-hop options, routing, destination options.
                0 | 43 | 60 => {
                    let length = usize::from(*bytes.get(at + 1)?);
                    next = bytes[at];
                    at += 8 * (length + 1);
                }
                protocol::IPV6_FRAGMENT => {
                    let header = bytes.get(at..at + 8)?.first_chunk::<8>()?;
                    let place = u16::from_be_bytes([header[2], header[3]]);
                    next = header[0];
                    at += 8;
                    if place & 0xfff9 != 0 {
                        let (offset, more) = (place & 0xfff8, place & 1 != 0);
                        fragment = Some(Fragment { id: u32_at(header, 4)?, offset, more, payload: at });
                        if offset != 0 {
                            break;
                        }
                    }
                }
                // An authentication header (RFC 4302 §2).
                51 => {
                    let length = usize::from(*bytes.get(at + 1)?);
                    next = bytes[at];
                    at += 4 * (length + 2);
                }
                _ => break,
            }
        }
        let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if at > end || at > bytes.len() {
            return None;
        }
        let (source, destination) = (address(8)?, address(24)?);
        Some(Network { source, destination, protocol: next, transport: at, end, fragment })
    }

    fn tuple(&self, source: u16, destination: u16) -> Tuple {
        Tuple {
            source: Endpoint { address: self.source, port: source },
            destination: Endpoint { address: self.destination, port: destination },
            protocol: self.protocol,
        }
    }

    fn is_icmp(&self) -> bool {
        matches!(
            (self.protocol, self.source),
            (protocol::ICMP, IpAddr::V4(_)) | (protocol::ICMPV6, IpAddr::V6(_))
        )
    }

    /// The tuple of this datagram. `None` if its ports are cut off.
    fn tuple_of(&self, bytes: &[u8]) -> Option<Tuple> {
        let at = self.transport;
        Some(match self.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => {
                self.tuple(u16_at(bytes, at)?, u16_at(bytes, at + 2)?)
            }
            _ if self.is_icmp() => self.tuple(u16_at(bytes, at + 4)?, u16_at(bytes, at)?),
            _ => self.tuple(0, 0),
        })
    }
}

/// Whether an ICMP message is an error that quotes a datagram (RFC 792, RFC 4443 §2.1).
fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => kind < 128,
    }
}

impl<'a> Packet<'a> {
    /// The tuple of the connection, in one of its directions: for an ICMP error, that of the quoted datagram.
    pub(crate) fn connection_tuple(&self) -> &Tuple {
        match &self.payload {
            Payload::Error(quote) => &quote.tuple,
            _ => &self.tuple,
        }
    }

    /// Reads a datagram from its network header on. `bytes` may end before the datagram does; what lies behind `bytes`
    /// is treated as cut off.
    ///
    /// # Errors
    /// The datagram cannot be tracked: [`Untracked`] says why.
    pub fn read(bytes: &'a [u8]) -> Result<Packet<'a>, Untracked> {
        let network = Network::read(bytes).ok_or(Untracked::NotIp)?;
        if network.fragment.is_some() {
            return Err(Untracked::Fragment);
        }
        Self::of(&network, bytes)
    }

    /// Reads the first fragment of a datagram as the whole datagram, with this number of bytes behind the network header
    /// and the fragment header of IPv6 ([`crate::Whole::payload`]).
    ///
    /// # Errors
    /// The datagram cannot be tracked: [`Untracked`] says why. The transport header must lie in the first fragment
    /// (RFC 1858 §3.2.1).
    pub fn read_whole(bytes: &'a [u8], payload: usize) -> Result<Packet<'a>, Untracked> {
        let mut network = Network::read(bytes).ok_or(Untracked::NotIp)?;
        let bytes = &bytes[..bytes.len().min(network.end)];
        let own = network.end;
        if let Some(fragment) = network.fragment {
            if fragment.offset != 0 {
                return Err(Untracked::Fragment);
            }
            network.end = (fragment.payload + payload).max(own);
        }
        let packet = Self::of(&network, bytes)?;
        Ok(Packet { later: network.end - own, ..packet })
    }

    pub(crate) fn of(network: &Network, bytes: &'a [u8]) -> Result<Packet<'a>, Untracked> {
        let bytes = &bytes[..bytes.len().min(network.end)];
        let tuple = network.tuple_of(bytes).ok_or(Untracked::Malformed)?;
        let transport = network.transport;
        let payload = Self::payload(network, bytes, &tuple)?;
        Ok(Packet { tuple, transport, later: 0, payload })
    }

    fn payload(network: &Network, bytes: &'a [u8], tuple: &Tuple) -> Result<Payload<'a>, Untracked> {
        let (header, whole) = (&bytes[network.transport..], network.end - network.transport);
        Ok(match network.protocol {
            protocol::TCP => Payload::Tcp(Segment::read(header, whole).ok_or(Untracked::Malformed)?),
            protocol::UDP => {
                let length = usize::from(u16_at(header, 4).ok_or(Untracked::Malformed)?);
                if length < 8 || length > whole {
                    return Err(Untracked::Malformed);
                }
                Payload::Other
            }
            protocol::SCTP => Payload::Sctp(Chunks::read(header).ok_or(Untracked::Malformed)?),
            protocol if network.is_icmp() => {
                if header.len() < 8 {
                    return Err(Untracked::Malformed);
                }
                if is_error(protocol, header[0]) {
                    let at = network.transport + 8;
                    let quoted = Network::read(&bytes[at..]).ok_or(Untracked::Malformed)?;
                    let tuple = quoted.tuple_of(&bytes[at..]).ok_or(Untracked::Malformed)?;
                    let is_later = quoted.fragment.is_some_and(|fragment| fragment.offset != 0);
                    let other = quoted.source.is_ipv4() != network.source.is_ipv4();
                    if is_later || other {
                        return Err(Untracked::Malformed);
                    }
                    return Ok(Payload::Error(Quote { tuple, at }));
                }
                tuple.reversed().ok_or(Untracked::NoQuery)?;
                Payload::Icmp
            }
            _ => Payload::Other,
        })
    }
}
