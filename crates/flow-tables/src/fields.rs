//! The fields of a frame during execution: which of them it has, and how actions read and write them.
use std::net::IpAddr;

use flow::{Field, Key, Needs, Subfield, protocol};

use crate::{Connection, Original};

/// Whether a frame with these fields has the protocol `needs`.
pub(crate) fn has(key: &Key, needs: Needs) -> bool {
    let kind = key.get(Field::EthType) as u16;
    let number = key.get(Field::NwProto) as u8;
    let is_ip = matches!(kind, protocol::IPV4 | protocol::IPV6);
    let carries = |wanted: u8| is_ip && number == wanted && key.get(Field::IpFrag) & 2 == 0;
    let neighbor = |wanted: u8| {
        kind == protocol::IPV6
            && carries(protocol::ICMPV6)
            && key.get(Field::IcmpType) == wanted.into()
            && key.get(Field::IcmpCode) == 0
    };
    match needs {
        Needs::Nothing => true,
        Needs::Vlan => key.get(Field::VlanTci) & 0x1000 != 0,
        Needs::Arp => matches!(kind, protocol::ARP | protocol::RARP),
        Needs::Ipv4 => kind == protocol::IPV4,
        Needs::Ipv6 => kind == protocol::IPV6,
        Needs::Ip => is_ip,
        Needs::Mpls => matches!(kind, protocol::MPLS | protocol::MPLS_MULTICAST),
        Needs::Tcp => carries(protocol::TCP),
        Needs::Udp => carries(protocol::UDP),
        Needs::Sctp => carries(protocol::SCTP),
        Needs::Icmpv4 => kind == protocol::IPV4 && carries(protocol::ICMP),
        Needs::Icmpv6 => kind == protocol::IPV6 && carries(protocol::ICMPV6),
        Needs::Neighbor => neighbor(protocol::SOLICITATION) || neighbor(protocol::ADVERTISEMENT),
        Needs::Solicitation => neighbor(protocol::SOLICITATION),
        Needs::Advertisement => neighbor(protocol::ADVERTISEMENT),
    }
}

/// The bits of a field, from bit 0 of the result.
pub(crate) fn read(key: &Key, bits: Subfield) -> u128 {
    key.get(bits.field) >> bits.start & bits.all_bits()
}

/// Sets bits of a field, if the frame has it.
pub(crate) fn write(key: &mut Key, field: Field, value: u128, mask: u128) {
    if !has(key, field.needs()) {
        return;
    }
    match field {
        // Two bits of the byte are the ECN's.
        Field::NwTos => key.set_masked(field, value, mask & 0xfc),
        Field::VlanTci => {
            key.set_masked(field, value, mask);
            let tag = key.get(field);
            if tag != 0 && key.get(Field::VlanTpid) == 0 {
                key.set(Field::VlanTpid, protocol::VLAN.into());
            }
        }
        field => key.set_masked(field, value, mask),
    }
}

/// Copies the fields of a frame, and keeps the metadata.
pub(crate) fn take_frame(key: &mut Key, frame: &Key) {
    key.copy_words(frame, Field::FRAME_WORDS);
}

/// The number of words that [`frame_words`] returns.
pub(crate) const FRAME_WORDS: usize = Field::FRAME_WORDS.end - Field::FRAME_WORDS.start;

/// The words of the frame's fields.
pub(crate) fn frame_words(key: &Key) -> &[u64; FRAME_WORDS] {
    key.words()[Field::FRAME_WORDS.start..].first_chunk().unwrap_or(&[0; FRAME_WORDS]) // 49 of 51 words
}

/// Whether the fields of the two frames are the same.
pub(crate) fn same_frame(one: &Key, other: &Key) -> bool {
    frame_words(one) == frame_words(other)
}

/// The flags FIN and RST.
pub(crate) const ENDS_TCP: u128 = 1 | 1 << 2;

/// The bit of `ct_state` that says that the frame was tracked.
pub(crate) const TRACKED: u128 = 1 << 5;

/// Clears the fields of the connection.
pub(crate) fn clear_connection(key: &mut Key) {
    key.clear_words(Field::CONNECTION_WORDS);
}

/// Sets the fields of the connection.
pub(crate) fn set_connection(key: &mut Key, connection: &Connection, zone: u16) {
    clear_connection(key);
    key.set(Field::CtState, connection.state.into());
    key.set(Field::CtZone, zone.into());
    key.set(Field::CtMark, connection.mark.into());
    key.set(Field::CtLabel, connection.label);
    let Some(Original { source, destination, protocol, ports }) = connection.original else { return };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            key.set(Field::CtNwSrc, source.to_bits().into());
            key.set(Field::CtNwDst, destination.to_bits().into());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            key.set(Field::CtIpv6Src, source.to_bits());
            key.set(Field::CtIpv6Dst, destination.to_bits());
        }
        _ => {}
    }
    key.set(Field::CtNwProto, protocol.into());
    key.set(Field::CtTpSrc, ports[0].into());
    key.set(Field::CtTpDst, ports[1].into());
}

/// Fields of the frame and of the connection's first direction.
fn original(key: &Key) -> [(Field, Field); 5] {
    let six = key.get(Field::EthType) as u16 == protocol::IPV6;
    let (source, destination) = match six {
        true => ((Field::Ipv6Src, Field::CtIpv6Src), (Field::Ipv6Dst, Field::CtIpv6Dst)),
        false => ((Field::IpSrc, Field::CtNwSrc), (Field::IpDst, Field::CtNwDst)),
    };
    [
        source,
        destination,
        (Field::NwProto, Field::CtNwProto),
        (Field::TcpSrc, Field::CtTpSrc),
        (Field::TcpDst, Field::CtTpDst),
    ]
}

/// Exchanges the frame's addresses and the addresses of its connection's first direction. Returns false if the frame
/// has no connection.
pub(crate) fn swap_original(key: &mut Key) -> bool {
    if key.get(Field::CtNwProto) == 0 {
        return false;
    }
    for (field, other) in original(key) {
        let (one, two) = (key.get(field), key.get(other));
        key.set(field, two);
        key.set(other, one);
    }
    true
}
