//! The primitives of pcap-filter(7) as conditions on fields: the same fields, in the same order, as libpcap compares.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::field::{ETHERNET_BYTES, Field, TAG_BYTES};
use super::filter::Filter;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;
pub const IPV4: u16 = 0x0800;
pub const ARP: u16 = 0x0806;
pub const RARP: u16 = 0x8035;
pub const IPV6: u16 = 0x86dd;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Which of the two addresses or ports (source, destination) a condition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
    Either,
    Both,
}

impl End {
    /// The condition for this end, made of that for one end; `false` stands for the source.
    fn of(self, one: impl Fn(bool) -> Filter) -> Filter {
        match self {
            End::Source => one(false),
            End::Destination => one(true),
            End::Either => one(false).or(one(true)),
            End::Both => one(false).and(one(true)),
        }
    }
}

/// An Ethernet header with this number of tags, which gives the place of everything behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    pub tags: usize,
}

impl Link {
    fn payload(self, offset: usize, bytes: usize, mask: u32) -> Field {
        Field::At { offset: ETHERNET_BYTES + self.tags * TAG_BYTES + offset, bytes, mask }
    }

    pub fn ether_type(self, number: u16) -> Filter {
        let offset = ETHERNET_BYTES - 2 + self.tags * TAG_BYTES;
        is(Field::At { offset, bytes: 2, mask: 0xffff }, number.into())
    }

    /// A tag, with this identifier if there is one.
    pub fn vlan(self, id: Option<u16>) -> Filter {
        let tag = Filter::Any(TAGS.map(|number| self.ether_type(number)).into());
        match id {
            Some(id) => tag.and(is(self.payload(0, 2, 0x0fff), id.into())),
            None => tag,
        }
    }

    pub fn ipv4_protocol(self, number: u8) -> Filter {
        self.ether_type(IPV4).and(is(self.payload(9, 1, 0xff), number.into()))
    }

    /// The first next header, or the one behind a fragment header.
    pub fn ipv6_protocol(self, number: u8) -> Filter {
        let next = |number: u8| is(self.payload(6, 1, 0xff), number.into());
        let behind = next(flow::protocol::IPV6_FRAGMENT).and(is(self.payload(40, 1, 0xff), number.into()));
        self.ether_type(IPV6).and(next(number).or(behind))
    }

    pub fn ip_protocol(self, number: u8) -> Filter {
        self.ipv4_protocol(number).or(self.ipv6_protocol(number))
    }

    /// The ports of IPv4 packets that are not later fragments, and of IPv6 packets without extension headers.
    pub fn ports(self, protocols: &[u8], end: End, ports: RangeInclusive<u16>) -> Filter {
        let (least, most) = (u32::from(*ports.start()), u32::from(*ports.end()));
        let header = ETHERNET_BYTES + self.tags * TAG_BYTES;
        let is_one = |at: usize| {
            let all = protocols.iter().map(|number| is(self.payload(at, 1, 0xff), (*number).into()));
            Filter::Any(all.collect())
        };
        let is_first = is(self.payload(6, 2, 0x1fff), 0);
        let of_ipv4 = end.of(|is_destination| {
            let offset = if is_destination { 2 } else { 0 };
            Filter::Within(Field::BehindIpv4 { header, offset }, least, most)
        });
        let of_ipv6 = end.of(|is_destination| {
            Filter::Within(self.payload(if is_destination { 42 } else { 40 }, 2, 0xffff), least, most)
        });
        let ipv4 = Filter::All(vec![self.ether_type(IPV4), is_one(9), is_first, of_ipv4]);
        ipv4.or(Filter::All(vec![self.ether_type(IPV6), is_one(6), of_ipv6]))
    }

    /// An address of IPv4, or within ARP and RARP for IPv4.
    pub fn ipv4_net(self, ether_type: u16, end: End, address: Ipv4Addr, mask: u32) -> Filter {
        let [source, destination] = if ether_type == IPV4 { [12, 16] } else { [14, 24] };
        end.of(|is_destination| {
            let at = if is_destination { destination } else { source };
            with_words(self.ether_type(ether_type), [(self.payload(at, 4, mask), address.to_bits())])
        })
    }

    pub fn ipv6_net(self, end: End, address: Ipv6Addr, mask: u128) -> Filter {
        end.of(|is_destination| {
            let at = if is_destination { 24 } else { 8 };
            let words = [0, 1, 2, 3].map(|word| {
                let part = |number: u128| (number >> (96 - 32 * word)) as u32;
                (self.payload(at + 4 * word, 4, part(mask)), part(address.to_bits()))
            });
            with_words(self.ether_type(IPV6), words)
        })
    }

    pub fn ipv4_multicast(self) -> Filter {
        self.ether_type(IPV4).and(Filter::Within(self.payload(16, 1, 0xff), 224, 255))
    }

    pub fn ipv6_multicast(self) -> Filter {
        self.ether_type(IPV6).and(is(self.payload(24, 1, 0xff), 0xff))
    }
}

pub fn mac(end: End, address: [u8; 6]) -> Filter {
    end.of(|is_destination| {
        let at = if is_destination { 0 } else { 6 };
        let [a, b, c, d, e, f] = address;
        let low = Field::At { offset: at + 2, bytes: 4, mask: u32::MAX };
        let high = Field::At { offset: at, bytes: 2, mask: 0xffff };
        is(low, u32::from_be_bytes([c, d, e, f])).and(is(high, u16::from_be_bytes([a, b]).into()))
    })
}

pub fn multicast() -> Filter {
    is(Field::At { offset: 0, bytes: 1, mask: 1 }, 1)
}

fn is(field: Field, value: u32) -> Filter {
    Filter::Within(field, value, value)
}

/// This condition, and these words of an address. A word of which no bit is asked for is not read.
fn with_words(first: Filter, words: impl IntoIterator<Item = (Field, u32)>) -> Filter {
    words.into_iter().fold(first, |filter, (field, value)| match field {
        Field::At { mask: 0, .. } => filter,
        _ => filter.and(is(field, value)),
    })
}
