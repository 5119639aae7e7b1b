//! Writes the part of a translation that lies inside of an ICMP message (RFC 5508 §3 and §4).
use std::net::IpAddr;

use crate::bytes::u16_at;
use crate::packet::{Network, Packet, Payload};
use crate::{Endpoint, Translation, Tuple, protocol};

/// The longest part of a message that changes: quoted IPv6 addresses behind extension headers, and ports.
const CHANGED_BYTES: usize = 128;

/// A checksum after bytes at an even place have changed (RFC 1624).
fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum = u32::from(!checksum);
    sum += old.chunks(2).map(|pair| u32::from(!word(pair) as u16)).sum::<u32>(); // at most 64 words
    sum += new.chunks(2).map(word).sum::<u32>();
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Replaces bytes, and updates the checksums at these places. A checksum that is cut off is left out.
fn put(bytes: &mut [u8], at: usize, new: &[u8], checksums: &[Option<usize>]) {
    let Some(place) = bytes.get_mut(at..at + new.len()) else { return };
    let mut old = [0; 16];
    let old = &mut old[..new.len()];
    old.copy_from_slice(place);
    place.copy_from_slice(new);
    for checksum in checksums.iter().flatten() {
        if let (Some(before), Some(place)) =
            (u16_at(bytes, *checksum), bytes.get_mut(*checksum..checksum + 2))
        {
            place.copy_from_slice(&updated(before, old, new).to_be_bytes());
        }
    }
}

/// An address on the wire.
enum Octets {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl Octets {
    fn of(address: IpAddr) -> Octets {
        match address {
            IpAddr::V4(address) => Octets::V4(address.octets()),
            IpAddr::V6(address) => Octets::V6(address.octets()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Octets::V4(bytes) => bytes,
            Octets::V6(bytes) => bytes,
        }
    }
}

/// Writes a tuple into the headers of a quoted datagram.
fn write_quoted(quoted: &mut [u8], network: &Network, to: &Tuple) {
    let at = network.transport;
    let is_v4 = network.source.is_ipv4();
    // UDP's zero says that there is no checksum (RFC 768).
    let sum = match network.protocol {
        protocol::TCP => Some(at + 16),
        protocol::UDP => Some(at + 6).filter(|sum| u16_at(quoted, *sum).is_some_and(|sum| sum != 0)),
        protocol::ICMP | protocol::ICMPV6 => Some(at + 2),
        _ => None,
    };
    let pseudo = sum.filter(|_| network.protocol != protocol::ICMP);
    let header = is_v4.then_some(10);
    let places = if is_v4 { [12, 16] } else { [8, 24] };
    for (endpoint, place) in [to.source, to.destination].into_iter().zip(places) {
        put(quoted, place, Octets::of(endpoint.address).bytes(), &[header, pseudo]);
    }
    match network.protocol {
        protocol::TCP | protocol::UDP | protocol::SCTP => {
            for (Endpoint { port, .. }, place) in [(to.source, at), (to.destination, at + 2)] {
                put(quoted, place, &port.to_be_bytes(), &[sum]);
            }
        }
        protocol::ICMP | protocol::ICMPV6 => put(quoted, at + 4, &to.source.port.to_be_bytes(), &[sum]),
        _ => {}
    }
    if let (protocol::UDP, Some(sum)) = (network.protocol, sum)
        && u16_at(quoted, sum) == Some(0)
    {
        quoted[sum..sum + 2].fill(0xff);
    }
}

/// Writes what a translation changes inside of an ICMP message: the identifier of a query or an answer, and the datagram
/// that an error quotes. `datagram` begins with the network header. Addresses and ports of the datagram itself are the
/// caller's to write. The datagram may be a first fragment.
pub fn translate_icmp(datagram: &mut [u8], translation: &Translation) {
    let Ok(packet) = Packet::read_whole(datagram, 0) else { return };
    let (transport, payload) = (packet.transport, packet.payload);
    let checksum = transport + 2;
    let quote = match payload {
        Payload::Icmp => {
            let identifier = translation.to.source.port.to_be_bytes();
            return put(datagram, transport + 4, &identifier, &[Some(checksum)]);
        }
        Payload::Error(quote) => quote,
        _ => return,
    };
    let Some(to) = translation.to.reversed() else { return };
    let at = quote.at;
    let Some(network) = Network::read(&datagram[at..]) else { return };
    let length = (datagram.len() - at).min(CHANGED_BYTES);
    let mut old = [0; CHANGED_BYTES];
    old[..length].copy_from_slice(&datagram[at..at + length]);
    write_quoted(&mut datagram[at..at + length], &network, &to);
    let Some(before) = u16_at(datagram, checksum) else { return };
    let after = updated(before, &old[..length], &datagram[at..at + length]);
    datagram[checksum..checksum + 2].copy_from_slice(&after.to_be_bytes());
}
