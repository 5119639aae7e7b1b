//! Headers and widths of all fields (ovs-fields(7); OpenFlow 1.5 §7.2.3.7).

use flow::Field;

use crate::ONF;
use crate::Version::{self, V13, V15};

/// The class of experimenters' fields.
pub(super) const EXPERIMENTER: u16 = 0xffff;
/// Ericsson's experimenter number.
const ERICSSON: u32 = 0xd400_0001;
/// The size of ARP's operation on the wire, in bytes.
pub(super) const ARP_OP_BYTES: u32 = 2;

/// The choice among a field's headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// Nicira's header, if the field has one.
    Nxm,
    /// The header that Open vSwitch writes in this version.
    Version(Version),
}

/// The identity of a header: class, number, and the experimenter of the class 0xffff.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub class: u16,
    pub number: u8,
    pub experimenter: u32,
}

/// A field's headers.
pub(super) struct Row {
    pub field: Field,
    nxm: Option<Place>,
    oxm: Option<(Place, Version)>,
    /// The header in OpenFlow 1.3 and 1.4, as an extension.
    onf: Option<Place>,
    /// The size of a value in bytes.
    pub bytes: usize,
    /// Whether the sender chooses the number of bytes of a value.
    pub variable: bool,
    /// Whether a match can have a mask for the field.
    pub maskable: bool,
}

impl Row {
    /// The header to write.
    pub(super) fn place(&self, prefer: Prefer) -> Option<Place> {
        let oxm = self.oxm.map(|(place, _)| place);
        if let (Prefer::Version(Version::V13 | Version::V14), Some(place)) = (prefer, self.onf) {
            return Some(place);
        }
        match (prefer, self.oxm) {
            (Prefer::Version(version), Some((place, since))) if since <= version => Some(place),
            _ => self.nxm.or(oxm),
        }
    }
}

const fn at(class: u16, number: u8) -> Option<Place> {
    Some(Place { class, number, experimenter: 0 })
}

const fn since(class: u16, number: u8, version: Version) -> Option<(Place, Version)> {
    Some((Place { class, number, experimenter: 0 }, version))
}

/// Open vSwitch's `NXM_OF`.
const fn of(number: u8) -> Option<Place> {
    at(0, number)
}

/// Open vSwitch's `NXM_NX`.
const fn nx(number: u8) -> Option<Place> {
    at(1, number)
}

/// OpenFlow's own fields.
const fn oxm(number: u8) -> Option<(Place, Version)> {
    since(0x8000, number, V13)
}

/// OpenFlow's packet registers.
const fn register(number: u8) -> Option<(Place, Version)> {
    since(0x8001, number, V13)
}

const fn ericsson(number: u8) -> Option<Place> {
    Some(Place { class: EXPERIMENTER, number, experimenter: ERICSSON })
}

/// Fields that OpenFlow 1.5 has and that are an extension of 1.3 and 1.4.
const fn onf(field: Field) -> Option<Place> {
    let number = match field {
        Field::TcpFlags => 42,
        Field::ActionSetOutput => 43,
        _ => return None,
    };
    Some(Place { class: EXPERIMENTER, number, experimenter: ONF })
}

const WHOLE: bool = false;
const MASKED: bool = true;

macro_rules! rows {
    ($($field:ident $nxm:expr, $oxm:expr, $bytes:literal $maskable:expr;)*) => {
        static ROWS: &[Row] = &[$(Row {
            field: Field::$field, nxm: $nxm, oxm: $oxm, bytes: $bytes, maskable: $maskable,
            onf: onf(Field::$field),
            variable: matches!(
                Field::$field,
                Field::TunnelMetadata0 | Field::TunnelMetadata1 | Field::TunnelMetadata2 | Field::TunnelMetadata3
                    | Field::TunnelMetadata4 | Field::TunnelMetadata5 | Field::TunnelMetadata6
                    | Field::TunnelMetadata7
            ),
        }),*];
    };
}

// In the order of the fields.
rows! {
    Metadata None, oxm(2), 8 MASKED;
    TunnelId nx(16), oxm(38), 8 MASKED;
    Reg0 nx(0), None, 4 MASKED;
    Reg1 nx(1), None, 4 MASKED;
    Reg2 nx(2), None, 4 MASKED;
    Reg3 nx(3), None, 4 MASKED;
    Reg4 nx(4), None, 4 MASKED;
    Reg5 nx(5), None, 4 MASKED;
    Reg6 nx(6), None, 4 MASKED;
    Reg7 nx(7), None, 4 MASKED;
    Reg8 nx(8), None, 4 MASKED;
    Reg9 nx(9), None, 4 MASKED;
    Reg10 nx(10), None, 4 MASKED;
    Reg11 nx(11), None, 4 MASKED;
    Reg12 nx(12), None, 4 MASKED;
    Reg13 nx(13), None, 4 MASKED;
    Reg14 nx(14), None, 4 MASKED;
    Reg15 nx(15), None, 4 MASKED;
    Xreg0 None, register(0), 8 MASKED;
    Xreg1 None, register(1), 8 MASKED;
    Xreg2 None, register(2), 8 MASKED;
    Xreg3 None, register(3), 8 MASKED;
    Xreg4 None, register(4), 8 MASKED;
    Xreg5 None, register(5), 8 MASKED;
    Xreg6 None, register(6), 8 MASKED;
    Xreg7 None, register(7), 8 MASKED;
    Xxreg0 nx(111), None, 16 MASKED;
    Xxreg1 nx(112), None, 16 MASKED;
    Xxreg2 nx(113), None, 16 MASKED;
    Xxreg3 nx(114), None, 16 MASKED;
    InPort of(0), None, 2 WHOLE;
    InPortOxm None, oxm(0), 4 WHOLE;
    PacketMark nx(33), None, 4 MASKED;
    CtState nx(105), None, 4 MASKED;
    CtMark nx(107), None, 4 MASKED;
    CtLabel nx(108), None, 16 MASKED;
    CtZone nx(106), None, 2 WHOLE;
    CtTpSrc nx(124), None, 2 MASKED;
    CtTpDst nx(125), None, 2 MASKED;
    CtNwProto nx(119), None, 1 WHOLE;
    CtNwSrc nx(120), None, 4 MASKED;
    CtNwDst nx(121), None, 4 MASKED;
    CtIpv6Src nx(122), None, 16 MASKED;
    CtIpv6Dst nx(123), None, 16 MASKED;
    TunnelSrc nx(31), None, 4 MASKED;
    TunnelDst nx(32), None, 4 MASKED;
    TunnelIpv6Src nx(109), None, 16 MASKED;
    TunnelIpv6Dst nx(110), None, 16 MASKED;
    TunnelFlags nx(104), None, 2 MASKED;
    TunnelGbpId nx(38), None, 2 MASKED;
    TunnelTos None, None, 1 WHOLE;
    TunnelTtl None, None, 1 WHOLE;
    TunnelGbpFlags nx(39), None, 1 MASKED;
    TunnelMetadata0 nx(40), None, 8 MASKED;
    TunnelMetadata1 nx(41), None, 8 MASKED;
    TunnelMetadata2 nx(42), None, 8 MASKED;
    TunnelMetadata3 nx(43), None, 8 MASKED;
    TunnelMetadata4 nx(44), None, 8 MASKED;
    TunnelMetadata5 nx(45), None, 8 MASKED;
    TunnelMetadata6 nx(46), None, 8 MASKED;
    TunnelMetadata7 nx(47), None, 8 MASKED;
    EthDst of(1), oxm(3), 6 MASKED;
    EthType of(3), oxm(5), 2 WHOLE;
    EthSrc of(2), oxm(4), 6 MASKED;
    VlanTpid None, None, 2 WHOLE;
    VlanTci of(4), None, 2 MASKED;
    VlanVid None, oxm(6), 2 MASKED;
    VlanPcp None, oxm(7), 1 WHOLE;
    InnerTpid None, None, 2 WHOLE;
    InnerTci None, None, 2 WHOLE;
    MplsLabel None, oxm(34), 4 WHOLE;
    MplsTc None, oxm(35), 1 WHOLE;
    MplsBos None, oxm(36), 1 WHOLE;
    MplsTtl nx(30), None, 1 WHOLE;
    IpSrc of(7), oxm(11), 4 MASKED;
    IpDst of(8), oxm(12), 4 MASKED;
    ArpSpa of(16), oxm(22), 4 MASKED;
    ArpTpa of(17), oxm(23), 4 MASKED;
    Ipv6Src nx(19), oxm(26), 16 MASKED;
    Ipv6Dst nx(20), oxm(27), 16 MASKED;
    NdTarget nx(23), oxm(31), 16 MASKED;
    Ipv6Label nx(27), oxm(28), 4 MASKED;
    NwProto of(6), oxm(10), 1 WHOLE;
    ArpOp of(15), oxm(21), 2 WHOLE;
    NwTos of(5), None, 1 WHOLE;
    IpDscp None, oxm(8), 1 WHOLE;
    NwEcn nx(28), oxm(9), 1 WHOLE;
    NwTtl nx(29), None, 1 WHOLE;
    IpFrag nx(26), None, 1 MASKED;
    TcpSrc of(9), oxm(13), 2 MASKED;
    TcpDst of(10), oxm(14), 2 MASKED;
    UdpSrc of(11), oxm(15), 2 MASKED;
    UdpDst of(12), oxm(16), 2 MASKED;
    SctpSrc None, oxm(17), 2 MASKED;
    SctpDst None, oxm(18), 2 MASKED;
    TcpFlags nx(34), since(0x8000, 42, V15), 2 MASKED;
    IcmpType of(13), oxm(19), 1 WHOLE;
    IcmpCode of(14), oxm(20), 1 WHOLE;
    Icmpv6Type nx(21), oxm(29), 1 WHOLE;
    Icmpv6Code nx(22), oxm(30), 1 WHOLE;
    ArpSha nx(17), oxm(24), 6 MASKED;
    NdSll nx(24), oxm(32), 6 MASKED;
    ArpTha nx(18), oxm(25), 6 MASKED;
    NdTll nx(25), oxm(33), 6 MASKED;
    NdReserved ericsson(1), None, 4 WHOLE;
    NdOptionsType ericsson(2), None, 1 WHOLE;
    ConjId nx(37), None, 4 WHOLE;
    DpHash nx(35), None, 4 MASKED;
    RecircId nx(36), None, 4 WHOLE;
    ActionSetOutput None, since(0x8000, 43, V15), 4 WHOLE;
}

/// The headers of a field.
pub(super) fn row(field: Field) -> &'static Row {
    &ROWS[field as usize]
}

/// The field with this header.
pub(super) fn by_place(place: Place) -> Option<&'static Row> {
    let is = |row: &&Row| [row.nxm, row.onf, row.oxm.map(|(oxm, _)| oxm)].contains(&Some(place));
    ROWS.iter().find(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_fields_and_wide_enough() {
        assert_eq!(ROWS.len(), Field::ALL.len());
        for (row, field) in ROWS.iter().zip(Field::ALL) {
            assert_eq!(row.field, *field);
            assert!(row.bytes * 8 >= field.bits() as usize, "{field:?}");
            for place in [row.nxm, row.onf, row.oxm.map(|(place, _)| place)].into_iter().flatten() {
                assert_eq!(by_place(place).unwrap().field, *field);
            }
            let has_header = row.nxm.is_some() || row.oxm.is_some();
            assert_eq!(has_header, field.header().is_some(), "{field:?}");
        }
    }
}
