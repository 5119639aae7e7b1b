//! Matches: wanted values, with a mask of the bits that are compared.
use crate::{Field, Key, Needs};

/// Numbers of protocols.
pub mod protocol {
    #![allow(missing_docs, reason = "IANA's names")]
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const RARP: u16 = 0x8035;
    pub const IPV6: u16 = 0x86dd;
    pub const VLAN: u16 = 0x8100;
    pub const SERVICE_VLAN: u16 = 0x88a8;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_MULTICAST: u16 = 0x8848;
    pub const ICMP: u8 = 1;
    pub const IGMP: u8 = 2;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    /// The extension header of a fragment.
    pub const IPV6_FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;

    /// Whether this type of ICMPv6 is a neighbor solicitation or advertisement.
    pub fn is_neighbor(kind: u8) -> bool {
        matches!(kind, SOLICITATION | ADVERTISEMENT)
    }
}

/// The condition on a frame: the bits that are set in `mask` must have the values in `value`. A value has no bit
/// outside of its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    value: Key,
    mask: Key,
}

impl Match {
    /// Every frame.
    pub const ANY: Match = Match { value: Key::ZERO, mask: Key::ZERO };

    /// The wanted values.
    pub fn value(&self) -> &Key {
        &self.value
    }

    /// The bits that are compared.
    pub fn mask(&self) -> &Key {
        &self.mask
    }

    /// Whether a frame with these fields matches.
    pub fn matches(&self, key: &Key) -> bool {
        key.same_under(&self.value, &self.mask)
    }

    /// Whether a frame exists that matches both.
    pub fn overlaps(&self, other: &Match) -> bool {
        let both = self.mask.and(&other.mask);
        self.value.same_under(&other.value, &both)
    }

    /// Whether every frame that matches `other` matches this match too.
    pub fn covers(&self, other: &Match) -> bool {
        self.mask.and(&other.mask) == self.mask && self.value.same_under(&other.value, &self.mask)
    }

    /// Requires exactly this value of a field.
    pub fn set(&mut self, field: Field, value: u128) {
        self.set_masked(field, value, u128::MAX);
    }

    /// Requires this value in the bits of `mask`; other bits of the field are not compared.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        self.mask.set(field, mask);
        self.value.set(field, value & mask);
    }

    /// Requires this value in the bits of `mask`, and keeps the earlier requirement for the other bits.
    pub fn add_masked(&mut self, field: Field, value: u128, mask: u128) {
        self.mask.set_masked(field, u128::MAX, mask);
        self.value.set_masked(field, value, mask);
    }

    /// The value of a field, if all its bits are compared.
    pub fn exactly(&self, field: Field) -> Option<u128> {
        (self.mask.get(field) == field.all_bits()).then(|| self.value.get(field))
    }

    fn kind(&self) -> Option<u16> {
        self.exactly(Field::EthType).map(|kind| kind as u16)
    }

    fn is(&self, wanted: u8, kinds: &[u16]) -> bool {
        self.kind().is_some_and(|kind| kinds.contains(&kind))
            && self.exactly(Field::NwProto) == Some(wanted.into())
            && self.value.get(Field::IpFrag) & self.mask.get(Field::IpFrag) & 2 == 0
    }

    fn neighbor(&self, kind: u8) -> bool {
        self.is(protocol::ICMPV6, &[protocol::IPV6])
            && self.exactly(Field::IcmpType) == Some(kind.into())
            && self.exactly(Field::IcmpCode).is_none_or(|code| code == 0)
    }

    /// Whether every frame that matches has the protocol `needs`.
    pub fn meets(&self, needs: Needs) -> bool {
        const IP: [u16; 2] = [protocol::IPV4, protocol::IPV6];
        let kind = self.kind();
        match needs {
            Needs::Nothing => true,
            Needs::Vlan => self.value.get(Field::VlanTci) & self.mask.get(Field::VlanTci) & 0x1000 != 0,
            Needs::Arp => matches!(kind, Some(protocol::ARP | protocol::RARP)),
            Needs::Ipv4 => kind == Some(protocol::IPV4),
            Needs::Ipv6 => kind == Some(protocol::IPV6),
            Needs::Ip => kind.is_some_and(|kind| IP.contains(&kind)),
            Needs::Mpls => matches!(kind, Some(protocol::MPLS | protocol::MPLS_MULTICAST)),
            Needs::Tcp => self.is(protocol::TCP, &IP),
            Needs::Udp => self.is(protocol::UDP, &IP),
            Needs::Sctp => self.is(protocol::SCTP, &IP),
            Needs::Icmpv4 => self.is(protocol::ICMP, &[protocol::IPV4]),
            Needs::Icmpv6 => self.is(protocol::ICMPV6, &[protocol::IPV6]),
            Needs::Neighbor => {
                self.neighbor(protocol::SOLICITATION) || self.neighbor(protocol::ADVERTISEMENT)
            }
            Needs::Solicitation => self.neighbor(protocol::SOLICITATION),
            Needs::Advertisement => self.neighbor(protocol::ADVERTISEMENT),
        }
    }
}
