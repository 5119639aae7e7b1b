//! ARP (RFC 826) and neighbor discovery (RFC 4861): requests, and the content of answers.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::protocol;

use crate::{Mac, Sum, pseudo_header};

/// The length of both kinds of request, with padding.
const ARP_BYTES: usize = 60;
const SOLICITATION_BYTES: usize = 86;
const ADVERTISEMENT_BYTES: usize = 78;
/// Hop limit of neighbor discovery: no router has passed it on.
const HOPS: u8 = 255;

/// The owner of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The IP address.
    pub address: IpAddr,
    /// The Ethernet address of its owner.
    pub mac: Mac,
}

/// A request for the Ethernet address of `wanted`, from an address of the same family. `None` for different families.
pub fn request(mac: Mac, from: IpAddr, wanted: IpAddr) -> Option<Vec<u8>> {
    match (from, wanted) {
        (IpAddr::V4(from), IpAddr::V4(wanted)) => Some(arp(mac, from, wanted)),
        (IpAddr::V6(from), IpAddr::V6(wanted)) => Some(solicitation(mac, from, wanted)),
        _ => None,
    }
}

fn arp(mac: Mac, from: Ipv4Addr, wanted: Ipv4Addr) -> Vec<u8> {
    let kind = [&protocol::ARP.to_be_bytes()[..], &[0, 1, 8, 0, 6, 4, 0, 1]].concat();
    let parts: [&[u8]; 7] = [&[0xff; 6], &mac, &kind, &mac, &from.octets(), &[0; 6], &wanted.octets()];
    let mut frame = parts.concat();
    frame.resize(ARP_BYTES, 0);
    frame
}

fn solicitation(mac: Mac, from: Ipv6Addr, wanted: Ipv6Addr) -> Vec<u8> {
    // The multicast address of the wanted one (RFC 4291 §2.7.1).
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&wanted.octets()[13..]);
    let to_mac = [0x33, 0x33, group[12], group[13], group[14], group[15]];
    let mut message =
        [&[protocol::SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..], &wanted.octets(), &[1, 1], &mac].concat();
    let mut sum = Sum::default();
    sum.add_sum(pseudo_header(
        from.into(),
        Ipv6Addr::from(group).into(),
        protocol::ICMPV6,
        message.len() as u32,
    ));
    sum.add(&message);
    message[2..4].copy_from_slice(&(!sum.folded()).to_be_bytes());
    let head = [0x60, 0, 0, 0, 0, message.len() as u8, protocol::ICMPV6, HOPS];
    let kind = protocol::IPV6.to_be_bytes();
    let parts: [&[u8]; 7] = [&to_mac, &mac, &kind, &head, &from.octets(), &group, &message];
    let frame = parts.concat();
    debug_assert_eq!(frame.len(), SOLICITATION_BYTES);
    frame
}

/// What a frame says about the owner of an address, if it is an answer or an announcement of ARP, or an advertisement.
/// `head` has all bytes of such a frame.
pub fn heard(head: &[u8]) -> Option<Message> {
    let kind = u16::from_be_bytes(*head.get(12..)?.first_chunk()?);
    match kind {
        protocol::ARP => {
            let message: &[u8; 28] = head.get(14..)?.first_chunk()?;
            let is_known = message[..6] == [0, 1, 8, 0, 6, 4];
            let address = Ipv4Addr::from(*message[14..].first_chunk::<4>()?);
            // Answers, and requests for one's own address, which announce it (RFC 5227 §2.3).
            let is_answer =
                message[6..8] == [0, 2] || message[6..8] == [0, 1] && message[14..18] == message[24..28];
            let mac = *message[8..].first_chunk()?;
            (is_known && is_answer)
                .then_some(Message { address: address.into(), mac })
                .filter(Message::is_usable)
        }
        protocol::IPV6 => {
            let message: &[u8; ADVERTISEMENT_BYTES] = head.first_chunk()?;
            let (packet, body) = message[14..].split_first_chunk::<40>()?;
            let is_discovery = packet[6] == protocol::ICMPV6
                && packet[7] == HOPS
                && body[..2] == [protocol::ADVERTISEMENT, 0];
            let address = Ipv6Addr::from(*body[8..].first_chunk::<16>()?);
            // The target's link-layer address (RFC 4861 §4.6.1); without the option, the sender's.
            let option = head.get(ADVERTISEMENT_BYTES..).filter(|option| option.starts_with(&[2, 1]));
            let mac = option.and_then(|option| option.get(2..)?.first_chunk()).or(head[6..].first_chunk())?;
            is_discovery.then_some(Message { address: address.into(), mac: *mac }).filter(Message::is_usable)
        }
        _ => None,
    }
}

impl Message {
    /// Whether the Ethernet address can be a station's.
    fn is_usable(&self) -> bool {
        self.mac[0] & 1 == 0 && self.mac != [0; 6]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 1];

    #[test]
    fn an_answer_to_a_request_is_heard() {
        let (from, wanted): (Ipv4Addr, Ipv4Addr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut frame = request(MAC, from.into(), wanted.into()).unwrap();
        assert_eq!(heard(&frame), None, "a request");
        let mut announcement = frame.clone();
        announcement[38..42].copy_from_slice(&from.octets());
        assert_eq!(heard(&announcement), Some(Message { address: from.into(), mac: MAC }));
        frame[21] = 2;
        assert_eq!(heard(&frame), Some(Message { address: from.into(), mac: MAC }));
        frame[22] |= 1;
        assert_eq!(heard(&frame), None, "a group address");
        for bytes in 0..42 {
            assert_eq!(heard(&frame[..bytes]), None);
        }
        assert_eq!(request(MAC, from.into(), Ipv6Addr::LOCALHOST.into()), None);
    }

    #[test]
    fn an_advertisement_is_heard_and_a_solicitation_has_a_right_checksum() {
        let (from, wanted): (Ipv6Addr, Ipv6Addr) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let mut frame = request(MAC, from.into(), wanted.into()).unwrap();
        let mut sum = Sum::default();
        let to = Ipv6Addr::from(*frame[38..].first_chunk::<16>().unwrap());
        sum.add_sum(pseudo_header(from.into(), to.into(), protocol::ICMPV6, 32));
        sum.add(&frame[54..]);
        assert_eq!(sum.folded(), 0xffff);
        assert_eq!(heard(&frame), None, "no advertisement");
        frame[54] = protocol::ADVERTISEMENT;
        frame[78] = 2;
        assert_eq!(heard(&frame), Some(Message { address: wanted.into(), mac: MAC }));
        frame[21] = 64;
        assert_eq!(heard(&frame), None, "from another network");
    }
}
