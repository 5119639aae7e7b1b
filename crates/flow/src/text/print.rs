//! Prints matches as Open vSwitch prints them: with its order of fields and its short names.
use std::fmt;

use super::value;
use crate::{Field, Match, Needs, protocol};

const BEFORE_PROTOCOL: &[(&str, Field)] = &[
    ("pkt_mark", Field::PacketMark),
    ("recirc_id", Field::RecircId),
    ("dp_hash", Field::DpHash),
    ("conj_id", Field::ConjId),
    ("actset_output", Field::ActionSetOutput),
    ("ct_state", Field::CtState),
    ("ct_zone", Field::CtZone),
    ("ct_mark", Field::CtMark),
    ("ct_label", Field::CtLabel),
    ("ct_nw_src", Field::CtNwSrc),
    ("ct_ipv6_src", Field::CtIpv6Src),
    ("ct_nw_dst", Field::CtNwDst),
    ("ct_ipv6_dst", Field::CtIpv6Dst),
    ("ct_nw_proto", Field::CtNwProto),
    ("ct_tp_src", Field::CtTpSrc),
    ("ct_tp_dst", Field::CtTpDst),
];

const REGISTERS: [Field; 16] = [
    Field::Reg0,
    Field::Reg1,
    Field::Reg2,
    Field::Reg3,
    Field::Reg4,
    Field::Reg5,
    Field::Reg6,
    Field::Reg7,
    Field::Reg8,
    Field::Reg9,
    Field::Reg10,
    Field::Reg11,
    Field::Reg12,
    Field::Reg13,
    Field::Reg14,
    Field::Reg15,
];

const TUNNEL: &[Field] = &[
    Field::TunnelId,
    Field::TunnelSrc,
    Field::TunnelDst,
    Field::TunnelIpv6Src,
    Field::TunnelIpv6Dst,
    Field::TunnelGbpId,
    Field::TunnelGbpFlags,
    Field::TunnelTos,
    Field::TunnelTtl,
    Field::TunnelFlags,
    Field::TunnelMetadata0,
    Field::TunnelMetadata1,
    Field::TunnelMetadata2,
    Field::TunnelMetadata3,
    Field::TunnelMetadata4,
    Field::TunnelMetadata5,
    Field::TunnelMetadata6,
    Field::TunnelMetadata7,
    Field::Metadata,
    Field::InPortOxm,
];

/// The short name of an Ethernet type and, for some names, of the IP protocol. If several names fit, the first is
/// printed.
pub(super) const SHORT_NAMES: [(&str, u16, Option<u8>); 17] = [
    ("icmp", protocol::IPV4, Some(protocol::ICMP)),
    ("tcp", protocol::IPV4, Some(protocol::TCP)),
    ("udp", protocol::IPV4, Some(protocol::UDP)),
    ("sctp", protocol::IPV4, Some(protocol::SCTP)),
    ("ip", protocol::IPV4, None),
    ("ipv4", protocol::IPV4, None),
    ("ip4", protocol::IPV4, None),
    ("icmp6", protocol::IPV6, Some(protocol::ICMPV6)),
    ("tcp6", protocol::IPV6, Some(protocol::TCP)),
    ("udp6", protocol::IPV6, Some(protocol::UDP)),
    ("sctp6", protocol::IPV6, Some(protocol::SCTP)),
    ("ipv6", protocol::IPV6, None),
    ("ip6", protocol::IPV6, None),
    ("arp", protocol::ARP, None),
    ("rarp", protocol::RARP, None),
    ("mpls", protocol::MPLS, None),
    ("mplsm", protocol::MPLS_MULTICAST, None),
];

struct Words<'a> {
    of: &'a Match,
    words: Vec<String>,
}

impl Words<'_> {
    fn push(&mut self, name: &str, field: Field) {
        let mask = self.of.mask().get(field);
        if mask != 0 {
            let text = match (field, mask == field.all_bits()) {
                (Field::Ipv6Label, true) => format!("0x{:05x}", self.of.value().get(field)),
                (Field::Ipv6Label, false) => format!("0x{:05x}/0x{mask:05x}", self.of.value().get(field)),
                _ => value::print(field, self.of.value().get(field), mask),
            };
            self.words.push(format!("{name}={text}"));
        }
    }

    fn push_all(&mut self, fields: &[(&str, Field)]) {
        fields.iter().for_each(|(name, field)| self.push(name, *field));
    }

    fn tag(&mut self, number: &str, field: Field) {
        let (value, mask) = (self.of.value().get(field), self.of.mask().get(field));
        let (id, priority) = (mask & 0xfff, mask & 0xe000);
        let whole = matches!(id, 0 | 0xfff) && matches!(priority, 0 | 0xe000) && id | priority != 0;
        if mask & value & 0x1000 != 0 && whole {
            if id != 0 {
                self.words.push(format!("dl_vlan{number}={}", value & 0xfff));
            }
            if priority != 0 {
                self.words.push(format!("dl_vlan_pcp{number}={}", value >> 13));
            }
        } else if mask == 0xffff {
            self.words.push(format!("vlan_tci{number}=0x{value:04x}"));
        } else if mask != 0 {
            self.words.push(format!("vlan_tci{number}=0x{value:04x}/0x{mask:04x}"));
        }
    }

    /// The short name of the type and protocol. Whether the protocol is in it.
    fn short_name(&mut self, kind: Option<u128>, protocol: Option<u128>) -> Option<bool> {
        let (name, _, with) = SHORT_NAMES.iter().find(|(_, of, with)| {
            kind == Some((*of).into()) && with.is_none_or(|with| protocol == Some(with.into()))
        })?;
        self.words.push((*name).to_owned());
        Some(with.is_some())
    }

    fn network(&mut self, kind: Option<u128>, with_protocol: bool) {
        let is = |wanted: u16| kind == Some(wanted.into());
        let arp = is(protocol::ARP) || is(protocol::RARP);
        if is(protocol::IPV6) {
            self.push_all(&[
                ("ipv6_src", Field::Ipv6Src),
                ("ipv6_dst", Field::Ipv6Dst),
                ("ipv6_label", Field::Ipv6Label),
            ]);
        } else if self.of.meets(Needs::Mpls) {
            return self.push_all(&[
                ("mpls_label", Field::MplsLabel),
                ("mpls_tc", Field::MplsTc),
                ("mpls_ttl", Field::MplsTtl),
                ("mpls_bos", Field::MplsBos),
            ]);
        } else if arp {
            self.push_all(&[("arp_spa", Field::ArpSpa), ("arp_tpa", Field::ArpTpa)]);
        } else {
            self.push_all(&[("nw_src", Field::IpSrc), ("nw_dst", Field::IpDst)]);
        }
        if !with_protocol {
            self.push(if arp { "arp_op" } else { "nw_proto" }, Field::NwProto);
        }
        if arp {
            self.push_all(&[("arp_sha", Field::ArpSha), ("arp_tha", Field::ArpTha)]);
        }
        if self.of.mask().get(Field::IpDscp) == 0x3f {
            self.words.push(format!("nw_tos={}", self.of.value().get(Field::IpDscp) << 2));
        }
        self.push_all(&[("nw_ecn", Field::NwEcn), ("nw_ttl", Field::NwTtl), ("nw_frag", Field::IpFrag)]);
    }

    fn transport(&mut self, kind: Option<u128>, proto: Option<u128>) {
        let is = |of: u16, number: u8| kind == Some(of.into()) && proto == Some(number.into());
        if is(protocol::IPV4, protocol::ICMP) || is(protocol::IPV6, protocol::ICMPV6) {
            self.push_all(&[("icmp_type", Field::IcmpType), ("icmp_code", Field::IcmpCode)]);
            if is(protocol::IPV6, protocol::ICMPV6) {
                self.push_all(&[
                    ("nd_target", Field::NdTarget),
                    ("nd_sll", Field::NdSll),
                    ("nd_tll", Field::NdTll),
                    ("nd_reserved", Field::NdReserved),
                    ("nd_options_type", Field::NdOptionsType),
                ]);
            }
        } else {
            self.push_all(&[("tp_src", Field::TcpSrc), ("tp_dst", Field::TcpDst)]);
        }
        if is(protocol::IPV4, protocol::TCP) || is(protocol::IPV6, protocol::TCP) {
            self.push("tcp_flags", Field::TcpFlags);
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Words { of: self, words: Vec::new() };
        let (kind, proto) = (self.exactly(Field::EthType), self.exactly(Field::NwProto));
        words.push_all(BEFORE_PROTOCOL);
        let short = words.short_name(kind, proto);
        REGISTERS.iter().chain(TUNNEL).for_each(|field| {
            words.push(if *field == Field::InPortOxm { "in_port" } else { field.name() }, *field);
        });
        words.tag("", Field::VlanTci);
        words.tag("1", Field::InnerTci);
        words.push_all(&[("dl_src", Field::EthSrc), ("dl_dst", Field::EthDst)]);
        if let (None, Some(kind)) = (short, kind) {
            words.words.push(format!("dl_type=0x{kind:04x}"));
        }
        words.network(kind, short == Some(true));
        words.transport(kind, proto);
        f.write_str(&words.words.join(","))
    }
}
