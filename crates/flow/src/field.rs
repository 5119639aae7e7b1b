//! Every field: its names, its place in a key, the notation of its values, and the protocols that a frame must have
//! for the field to exist.
//!
//! The names and widths are those of Open vSwitch (ovs-fields(7)).

/// The notation of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names its notation")]
pub enum Notation {
    Decimal,
    Hex,
    Ethernet,
    Ipv4,
    Ipv6,
    /// A port, by its number or by a reserved name such as `LOCAL`.
    Port,
    /// `no`, `yes`, `first`, `later` or `not_later`.
    Fragment,
    TcpFlags,
    CtState,
    TunnelFlags,
}

/// The protocols that a frame must have for a field to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names its protocol")]
pub enum Needs {
    Nothing,
    Vlan,
    Arp,
    Ipv4,
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// A stack of labels, unicast or multicast.
    Mpls,
    Tcp,
    Udp,
    Sctp,
    Icmpv4,
    Icmpv6,
    /// A neighbor solicitation or advertisement.
    Neighbor,
    Solicitation,
    Advertisement,
}

struct Row {
    field: Field,
    names: &'static [&'static str],
    headers: &'static [&'static str],
    bits: u32,
    place: (usize, u32),
    notation: Notation,
    needs: Needs,
}

macro_rules! fields {
    ($($field:ident $names:expr, $headers:expr, $bits:literal @ $word:literal : $shift:literal $notation:ident $needs:ident;)*) => {
        /// One field of a frame. Some fields have the same place: `tcp_src` and `udp_src`, or `xreg0` and `reg0`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names of ovs-fields(7)")]
        pub enum Field { $($field),* }

        // A constant, so that other crates compute with the places of fields when they are compiled.
        const ROWS: &[Row] = &[$(Row {
            field: Field::$field, names: &$names, headers: &$headers, bits: $bits, place: ($word, $shift),
            notation: Notation::$notation, needs: Needs::$needs,
        }),*];

        impl Field {
            /// All fields.
            pub const ALL: &'static [Field] = &[$(Field::$field),*];
        }
    };
}

fields! {
    Metadata ["metadata"], ["OXM_OF_METADATA"], 64 @ 0:0 Hex Nothing;
    TunnelId ["tun_id", "tunnel_id"], ["NXM_NX_TUN_ID", "OXM_OF_TUNNEL_ID"], 64 @ 1:0 Hex Nothing;
    Reg0 ["reg0"], ["NXM_NX_REG0"], 32 @ 2:32 Hex Nothing;
    Reg1 ["reg1"], ["NXM_NX_REG1"], 32 @ 2:0 Hex Nothing;
    Reg2 ["reg2"], ["NXM_NX_REG2"], 32 @ 3:32 Hex Nothing;
    Reg3 ["reg3"], ["NXM_NX_REG3"], 32 @ 3:0 Hex Nothing;
    Reg4 ["reg4"], ["NXM_NX_REG4"], 32 @ 4:32 Hex Nothing;
    Reg5 ["reg5"], ["NXM_NX_REG5"], 32 @ 4:0 Hex Nothing;
    Reg6 ["reg6"], ["NXM_NX_REG6"], 32 @ 5:32 Hex Nothing;
    Reg7 ["reg7"], ["NXM_NX_REG7"], 32 @ 5:0 Hex Nothing;
    Reg8 ["reg8"], ["NXM_NX_REG8"], 32 @ 6:32 Hex Nothing;
    Reg9 ["reg9"], ["NXM_NX_REG9"], 32 @ 6:0 Hex Nothing;
    Reg10 ["reg10"], ["NXM_NX_REG10"], 32 @ 7:32 Hex Nothing;
    Reg11 ["reg11"], ["NXM_NX_REG11"], 32 @ 7:0 Hex Nothing;
    Reg12 ["reg12"], ["NXM_NX_REG12"], 32 @ 8:32 Hex Nothing;
    Reg13 ["reg13"], ["NXM_NX_REG13"], 32 @ 8:0 Hex Nothing;
    Reg14 ["reg14"], ["NXM_NX_REG14"], 32 @ 9:32 Hex Nothing;
    Reg15 ["reg15"], ["NXM_NX_REG15"], 32 @ 9:0 Hex Nothing;
    Xreg0 ["xreg0"], ["OXM_OF_PKT_REG0"], 64 @ 2:0 Hex Nothing;
    Xreg1 ["xreg1"], ["OXM_OF_PKT_REG1"], 64 @ 3:0 Hex Nothing;
    Xreg2 ["xreg2"], ["OXM_OF_PKT_REG2"], 64 @ 4:0 Hex Nothing;
    Xreg3 ["xreg3"], ["OXM_OF_PKT_REG3"], 64 @ 5:0 Hex Nothing;
    Xreg4 ["xreg4"], ["OXM_OF_PKT_REG4"], 64 @ 6:0 Hex Nothing;
    Xreg5 ["xreg5"], ["OXM_OF_PKT_REG5"], 64 @ 7:0 Hex Nothing;
    Xreg6 ["xreg6"], ["OXM_OF_PKT_REG6"], 64 @ 8:0 Hex Nothing;
    Xreg7 ["xreg7"], ["OXM_OF_PKT_REG7"], 64 @ 9:0 Hex Nothing;
    Xxreg0 ["xxreg0"], ["NXM_NX_XXREG0"], 128 @ 2:0 Hex Nothing;
    Xxreg1 ["xxreg1"], ["NXM_NX_XXREG1"], 128 @ 4:0 Hex Nothing;
    Xxreg2 ["xxreg2"], ["NXM_NX_XXREG2"], 128 @ 6:0 Hex Nothing;
    Xxreg3 ["xxreg3"], ["NXM_NX_XXREG3"], 128 @ 8:0 Hex Nothing;
    InPort ["in_port"], ["NXM_OF_IN_PORT"], 16 @ 10:32 Port Nothing;
    InPortOxm ["in_port_oxm"], ["OXM_OF_IN_PORT"], 32 @ 10:32 Port Nothing;
    PacketMark ["pkt_mark"], ["NXM_NX_PKT_MARK"], 32 @ 10:0 Hex Nothing;
    CtState ["ct_state"], ["NXM_NX_CT_STATE"], 32 @ 11:32 CtState Nothing;
    CtMark ["ct_mark"], ["NXM_NX_CT_MARK"], 32 @ 11:0 Hex Nothing;
    CtLabel ["ct_label"], ["NXM_NX_CT_LABEL"], 128 @ 12:0 Hex Nothing;
    CtZone ["ct_zone"], ["NXM_NX_CT_ZONE"], 16 @ 14:48 Decimal Nothing;
    CtTpSrc ["ct_tp_src"], ["NXM_NX_CT_TP_SRC"], 16 @ 14:32 Decimal Nothing;
    CtTpDst ["ct_tp_dst"], ["NXM_NX_CT_TP_DST"], 16 @ 14:16 Decimal Nothing;
    CtNwProto ["ct_nw_proto"], ["NXM_NX_CT_NW_PROTO"], 8 @ 14:0 Decimal Nothing;
    CtNwSrc ["ct_nw_src"], ["NXM_NX_CT_NW_SRC"], 32 @ 15:32 Ipv4 Nothing;
    CtNwDst ["ct_nw_dst"], ["NXM_NX_CT_NW_DST"], 32 @ 15:0 Ipv4 Nothing;
    CtIpv6Src ["ct_ipv6_src"], ["NXM_NX_CT_IPV6_SRC"], 128 @ 16:0 Ipv6 Nothing;
    CtIpv6Dst ["ct_ipv6_dst"], ["NXM_NX_CT_IPV6_DST"], 128 @ 18:0 Ipv6 Nothing;
    TunnelSrc ["tun_src"], ["NXM_NX_TUN_IPV4_SRC"], 32 @ 20:32 Ipv4 Nothing;
    TunnelDst ["tun_dst"], ["NXM_NX_TUN_IPV4_DST"], 32 @ 20:0 Ipv4 Nothing;
    TunnelIpv6Src ["tun_ipv6_src"], ["NXM_NX_TUN_IPV6_SRC"], 128 @ 21:0 Ipv6 Nothing;
    TunnelIpv6Dst ["tun_ipv6_dst"], ["NXM_NX_TUN_IPV6_DST"], 128 @ 23:0 Ipv6 Nothing;
    TunnelFlags ["tun_flags"], ["NXM_NX_TUN_FLAGS"], 16 @ 25:48 TunnelFlags Nothing;
    TunnelGbpId ["tun_gbp_id"], ["NXM_NX_TUN_GBP_ID"], 16 @ 25:32 Decimal Nothing;
    TunnelTos ["tun_tos"], [], 8 @ 25:24 Decimal Nothing;
    TunnelTtl ["tun_ttl"], [], 8 @ 25:16 Decimal Nothing;
    TunnelGbpFlags ["tun_gbp_flags"], ["NXM_NX_TUN_GBP_FLAGS"], 8 @ 25:8 Hex Nothing;
    TunnelMetadata0 ["tun_metadata0"], ["NXM_NX_TUN_METADATA0"], 64 @ 26:0 Hex Nothing;
    TunnelMetadata1 ["tun_metadata1"], ["NXM_NX_TUN_METADATA1"], 64 @ 27:0 Hex Nothing;
    TunnelMetadata2 ["tun_metadata2"], ["NXM_NX_TUN_METADATA2"], 64 @ 28:0 Hex Nothing;
    TunnelMetadata3 ["tun_metadata3"], ["NXM_NX_TUN_METADATA3"], 64 @ 29:0 Hex Nothing;
    TunnelMetadata4 ["tun_metadata4"], ["NXM_NX_TUN_METADATA4"], 64 @ 30:0 Hex Nothing;
    TunnelMetadata5 ["tun_metadata5"], ["NXM_NX_TUN_METADATA5"], 64 @ 31:0 Hex Nothing;
    TunnelMetadata6 ["tun_metadata6"], ["NXM_NX_TUN_METADATA6"], 64 @ 32:0 Hex Nothing;
    TunnelMetadata7 ["tun_metadata7"], ["NXM_NX_TUN_METADATA7"], 64 @ 33:0 Hex Nothing;
    EthDst ["eth_dst", "dl_dst"], ["NXM_OF_ETH_DST", "OXM_OF_ETH_DST"], 48 @ 34:16 Ethernet Nothing;
    EthType ["eth_type", "dl_type"], ["NXM_OF_ETH_TYPE", "OXM_OF_ETH_TYPE"], 16 @ 34:0 Hex Nothing;
    EthSrc ["eth_src", "dl_src"], ["NXM_OF_ETH_SRC", "OXM_OF_ETH_SRC"], 48 @ 35:16 Ethernet Nothing;
    VlanTpid [], [], 16 @ 36:48 Hex Nothing;
    VlanTci ["vlan_tci"], ["NXM_OF_VLAN_TCI"], 16 @ 36:32 Hex Nothing;
    VlanVid ["vlan_vid"], ["OXM_OF_VLAN_VID"], 13 @ 36:32 Decimal Vlan;
    VlanPcp ["vlan_pcp"], ["OXM_OF_VLAN_PCP"], 3 @ 36:45 Decimal Vlan;
    InnerTpid [], [], 16 @ 36:16 Hex Nothing;
    InnerTci [], [], 16 @ 36:0 Hex Nothing;
    MplsLabel ["mpls_label"], ["OXM_OF_MPLS_LABEL"], 20 @ 37:44 Decimal Mpls;
    MplsTc ["mpls_tc"], ["OXM_OF_MPLS_TC"], 3 @ 37:41 Decimal Mpls;
    MplsBos ["mpls_bos"], ["OXM_OF_MPLS_BOS"], 1 @ 37:40 Decimal Mpls;
    MplsTtl ["mpls_ttl"], ["NXM_NX_MPLS_TTL"], 8 @ 37:32 Decimal Mpls;
    IpSrc ["ip_src", "nw_src"], ["NXM_OF_IP_SRC", "OXM_OF_IPV4_SRC"], 32 @ 37:32 Ipv4 Ipv4;
    IpDst ["ip_dst", "nw_dst"], ["NXM_OF_IP_DST", "OXM_OF_IPV4_DST"], 32 @ 37:0 Ipv4 Ipv4;
    ArpSpa ["arp_spa"], ["NXM_OF_ARP_SPA", "OXM_OF_ARP_SPA"], 32 @ 37:32 Ipv4 Arp;
    ArpTpa ["arp_tpa"], ["NXM_OF_ARP_TPA", "OXM_OF_ARP_TPA"], 32 @ 37:0 Ipv4 Arp;
    Ipv6Src ["ipv6_src"], ["NXM_NX_IPV6_SRC", "OXM_OF_IPV6_SRC"], 128 @ 38:0 Ipv6 Ipv6;
    Ipv6Dst ["ipv6_dst"], ["NXM_NX_IPV6_DST", "OXM_OF_IPV6_DST"], 128 @ 40:0 Ipv6 Ipv6;
    NdTarget ["nd_target"], ["NXM_NX_ND_TARGET", "OXM_OF_IPV6_ND_TARGET"], 128 @ 42:0 Ipv6 Neighbor;
    Ipv6Label ["ipv6_label"], ["NXM_NX_IPV6_LABEL", "OXM_OF_IPV6_FLABEL"], 20 @ 44:32 Hex Ipv6;
    NwProto ["nw_proto", "ip_proto"], ["NXM_OF_IP_PROTO", "OXM_OF_IP_PROTO"], 8 @ 44:24 Decimal Ip;
    ArpOp ["arp_op"], ["NXM_OF_ARP_OP", "OXM_OF_ARP_OP"], 8 @ 44:24 Decimal Arp;
    NwTos ["nw_tos"], ["NXM_OF_IP_TOS"], 8 @ 44:16 Decimal Ip;
    IpDscp ["ip_dscp"], ["OXM_OF_IP_DSCP"], 6 @ 44:18 Decimal Ip;
    NwEcn ["nw_ecn", "ip_ecn"], ["NXM_NX_IP_ECN", "OXM_OF_IP_ECN"], 2 @ 44:16 Decimal Ip;
    NwTtl ["nw_ttl"], ["NXM_NX_IP_TTL"], 8 @ 44:8 Decimal Ip;
    IpFrag ["ip_frag", "nw_frag"], ["NXM_NX_IP_FRAG"], 2 @ 44:0 Fragment Ip;
    TcpSrc ["tcp_src", "tp_src"], ["NXM_OF_TCP_SRC", "OXM_OF_TCP_SRC"], 16 @ 45:48 Decimal Tcp;
    TcpDst ["tcp_dst", "tp_dst"], ["NXM_OF_TCP_DST", "OXM_OF_TCP_DST"], 16 @ 45:32 Decimal Tcp;
    UdpSrc ["udp_src"], ["NXM_OF_UDP_SRC", "OXM_OF_UDP_SRC"], 16 @ 45:48 Decimal Udp;
    UdpDst ["udp_dst"], ["NXM_OF_UDP_DST", "OXM_OF_UDP_DST"], 16 @ 45:32 Decimal Udp;
    SctpSrc ["sctp_src"], ["OXM_OF_SCTP_SRC"], 16 @ 45:48 Decimal Sctp;
    SctpDst ["sctp_dst"], ["OXM_OF_SCTP_DST"], 16 @ 45:32 Decimal Sctp;
    TcpFlags ["tcp_flags"], ["NXM_NX_TCP_FLAGS", "OXM_OF_TCP_FLAGS"], 12 @ 45:16 TcpFlags Tcp;
    IcmpType ["icmp_type"], ["NXM_OF_ICMP_TYPE", "OXM_OF_ICMPV4_TYPE"], 8 @ 45:48 Decimal Icmpv4;
    IcmpCode ["icmp_code"], ["NXM_OF_ICMP_CODE", "OXM_OF_ICMPV4_CODE"], 8 @ 45:32 Decimal Icmpv4;
    Icmpv6Type ["icmpv6_type"], ["NXM_NX_ICMPV6_TYPE", "OXM_OF_ICMPV6_TYPE"], 8 @ 45:48 Decimal Icmpv6;
    Icmpv6Code ["icmpv6_code"], ["NXM_NX_ICMPV6_CODE", "OXM_OF_ICMPV6_CODE"], 8 @ 45:32 Decimal Icmpv6;
    ArpSha ["arp_sha"], ["NXM_NX_ARP_SHA", "OXM_OF_ARP_SHA"], 48 @ 46:16 Ethernet Arp;
    NdSll ["nd_sll"], ["NXM_NX_ND_SLL", "OXM_OF_IPV6_ND_SLL"], 48 @ 46:16 Ethernet Solicitation;
    ArpTha ["arp_tha"], ["NXM_NX_ARP_THA", "OXM_OF_ARP_THA"], 48 @ 47:16 Ethernet Arp;
    NdTll ["nd_tll"], ["NXM_NX_ND_TLL", "OXM_OF_IPV6_ND_TLL"], 48 @ 47:16 Ethernet Advertisement;
    NdReserved ["nd_reserved"], ["ERICOXM_OF_ICMPV6_ND_RESERVED"], 32 @ 48:32 Decimal Neighbor;
    NdOptionsType ["nd_options_type"], ["ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE"], 8 @ 48:0 Decimal Neighbor;
    ConjId ["conj_id"], ["NXM_NX_CONJ_ID"], 32 @ 49:32 Decimal Nothing;
    DpHash ["dp_hash"], ["NXM_NX_DP_HASH"], 32 @ 49:0 Hex Nothing;
    RecircId ["recirc_id"], ["NXM_NX_RECIRC_ID"], 32 @ 50:32 Hex Nothing;
    ActionSetOutput ["actset_output"], ["OXM_OF_ACTSET_OUTPUT"], 32 @ 50:0 Port Nothing;
}

impl Field {
    /// The words of a key that a frame's headers fill. The other words are metadata.
    pub const FRAME_WORDS: std::ops::Range<usize> = 34..49;
    /// The words of a key that hold the frame's connection, and nothing else.
    pub const CONNECTION_WORDS: std::ops::Range<usize> = 11..20;

    /// The eight fields of tunnel metadata.
    pub const TUNNEL_METADATA: [Field; 8] = [
        Field::TunnelMetadata0,
        Field::TunnelMetadata1,
        Field::TunnelMetadata2,
        Field::TunnelMetadata3,
        Field::TunnelMetadata4,
        Field::TunnelMetadata5,
        Field::TunnelMetadata6,
        Field::TunnelMetadata7,
    ];

    #[inline]
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name with which a flow is printed, for example in `set_field`.
    pub fn name(self) -> &'static str {
        self.row().names.first().copied().unwrap_or("vlan_tpid")
    }

    /// The name of the field's header on the wire, which is used for example in `move`. Some fields have no header.
    pub fn header(self) -> Option<&'static str> {
        self.row().headers.first().copied()
    }

    /// The field with this name, in a match or in `set_field`.
    pub fn by_name(name: &str) -> Option<Field> {
        ROWS.iter().find(|row| row.names.contains(&name)).map(|row| row.field)
    }

    /// The field with this header name or field name, which is used for example in `move`.
    pub fn by_header(name: &str) -> Option<Field> {
        ROWS.iter()
            .find(|row| row.headers.contains(&name))
            .map(|row| row.field)
            .or_else(|| Field::by_name(name))
    }

    /// The field's width in bits.
    #[inline]
    pub fn bits(self) -> u32 {
        self.row().bits
    }

    /// A value with all bits of its width set.
    #[inline]
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The word of a key and the lowest bit of the field in it. A field of 128 bits takes this word, which holds its
    /// upper half, and the next word.
    #[inline]
    pub fn place(self) -> (usize, u32) {
        self.row().place
    }

    /// The notation of the field's values.
    pub fn notation(self) -> Notation {
        self.row().notation
    }

    /// Whether actions can write the field.
    pub fn is_writable(self) -> bool {
        const READ_ONLY: [Field; 21] = [
            Field::DpHash,
            Field::RecircId,
            Field::ConjId,
            Field::ActionSetOutput,
            Field::CtState,
            Field::CtZone,
            Field::CtNwProto,
            Field::CtNwSrc,
            Field::CtNwDst,
            Field::CtIpv6Src,
            Field::CtIpv6Dst,
            Field::CtTpSrc,
            Field::CtTpDst,
            Field::EthType,
            Field::VlanTpid,
            Field::InnerTpid,
            Field::InnerTci,
            Field::MplsBos,
            Field::NwProto,
            Field::IpFrag,
            Field::TcpFlags,
        ];
        !READ_ONLY.contains(&self)
    }

    /// The protocols that a frame must have for the field to exist.
    pub fn needs(self) -> Needs {
        self.row().needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_the_fields_look_for_them_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (row, field) in ROWS.iter().zip(Field::ALL) {
            assert_eq!(row.field, *field);
            assert_eq!(*field as usize, Field::ALL.iter().position(|other| other == field).unwrap());
            assert!(row.names.iter().chain(row.headers).all(|name| names.insert(*name)), "{field:?}");
            assert!(row.bits == 128 || row.place.1 + row.bits <= 64, "{field:?}");
            assert!(row.place.0 + usize::from(row.bits == 128) < crate::Key::WORDS, "{field:?}");
        }
    }
}
