//! Matches on the wire, in the order in which Open vSwitch writes them.

use flow::{Field, Match, Needs, protocol};

use super::table::Prefer;
use super::{IN_MATCH, is_maskable, read_field, write_field};
use crate::bytes::{Reader, Writer, padding};
use crate::{Failure, Version};

/// `NXM_NX_COOKIE`: Nicira's matches have the cookie as a field.
const COOKIE: u32 = 0x0001_3c08;
const COOKIE_MASKED: u32 = 0x0001_3d10;
/// The type of a match of fields (OpenFlow 1.5 §7.2.3.1).
const OXM_MATCH: u16 = 1;
/// The bit of presence of a tag, and the bits of its number.
const PRESENT: u128 = 0x1000;
const VID: u128 = 0x1fff;

/// The wanted cookie, and the mask of the bits that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cookie {
    pub value: u64,
    pub mask: u64,
}

/// The contents that a list of fields may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchForm {
    /// A match of OpenFlow, in which each field needs its protocol.
    Match,
    /// A match of OpenFlow that may also have Nicira's field for the cookie.
    WithCookie,
}

fn cookie(reader: &mut Reader<'_>) -> Result<Option<Cookie>, Failure> {
    let mut ahead = *reader;
    let masked = match ahead.u32()? {
        COOKIE => false,
        COOKIE_MASKED => true,
        _ => return Ok(None),
    };
    let value = ahead.u64()?;
    let mask = if masked { ahead.u64()? } else { u64::MAX };
    *reader = ahead;
    Ok(Some(Cookie { value, mask }))
}

/// Whether a match that has these fields can have this one. The tag's own bit says that there is one.
fn meets(wanted: &Match, field: Field) -> bool {
    field == Field::VlanVid || wanted.meets(field.needs())
}

/// The model's field for a field on the wire, with value and mask.
fn of_model(field: Field, value: u128, mask: u128) -> Result<(Field, u128, u128), Failure> {
    match field {
        Field::InPort if mask != 0 => Ok((Field::InPortOxm, value, Field::InPortOxm.all_bits())),
        Field::NwTos if value & 3 != 0 => Err(Failure::MatchValue),
        Field::NwTos => Ok((Field::IpDscp, value >> 2, mask >> 2)),
        _ => Ok((field, value, mask)),
    }
}

/// The header of `packet_type`: field 44 of the basic class, without a mask, of four bytes.
const PACKET_TYPE: u32 = 0x8000_5804;

/// Reads fields up to the end.
pub(crate) fn read_fields(reader: &mut Reader<'_>, form: MatchForm) -> Result<(Match, Cookie), Failure> {
    let (mut wanted, mut found) = (Match::ANY, Cookie::default());
    while !reader.is_empty() {
        if form == MatchForm::WithCookie
            && let Some(of_flow) = cookie(reader)?
        {
            if found.mask != 0 {
                return Err(Failure::DuplicateField);
            }
            found = of_flow;
            continue;
        }
        if skip_packet_type(reader)? {
            continue;
        }
        let (field, value, mask) = read_field(reader, IN_MATCH, Failure::MatchWildcards)?;
        if mask != 0 && mask != field.all_bits() && !is_maskable(field) {
            return Err(Failure::MatchMask);
        }
        let (field, value, mask) = of_model(field, value, mask)?;
        if wanted.mask().get(field) & mask != 0 {
            return Err(Failure::DuplicateField);
        }
        if !meets(&wanted, field) {
            return Err(Failure::MatchPrerequisite);
        }
        wanted.add_masked(field, value, mask);
    }
    Ok((wanted, found))
}

/// Skips `packet_type` (OpenFlow 1.5 §7.2.3.8), which `ovs-ofctl` writes for fields above Ethernet without their type. All
/// frames are Ethernet. Returns whether the field was there.
fn skip_packet_type(reader: &mut Reader<'_>) -> Result<bool, Failure> {
    let mut ahead = *reader;
    if ahead.u32() != Ok(PACKET_TYPE) {
        return Ok(false);
    }
    if ahead.u32()? != 0 {
        return Err(IN_MATCH.value);
    }
    *reader = ahead;
    Ok(true)
}

/// Reads a match with its own head and its padding (OpenFlow 1.5 §7.2.3.1).
pub(crate) fn read_match(reader: &mut Reader<'_>, form: MatchForm) -> Result<Match, Failure> {
    let mut ahead = reader.with(Failure::MatchLength);
    let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
    if kind != OXM_MATCH {
        return Err(Failure::MatchType);
    }
    let mut fields = ahead.part(length.checked_sub(4).ok_or(Failure::MatchLength)?)?;
    reader.skip(length + padding(length))?;
    read_fields(&mut fields, form).map(|(wanted, _)| wanted)
}

/// Writes a match with its head and its padding.
pub(crate) fn write_match(writer: &mut Writer, wanted: &Match, version: Version) {
    let start = writer.len();
    writer.u16(OXM_MATCH).u16(0);
    write_fields(writer, wanted, Cookie::default(), version);
    writer.length(start, 2).pad(start);
}

struct Fields<'a> {
    writer: &'a mut Writer,
    wanted: &'a Match,
    version: Version,
}

impl Fields<'_> {
    fn put(&mut self, fields: &[Field]) {
        for field in fields {
            self.value(*field, self.wanted.value().get(*field), self.wanted.mask().get(*field));
        }
    }

    fn value(&mut self, field: Field, value: u128, mask: u128) {
        if mask != 0 {
            write_field(self.writer, field, value, mask, Prefer::Version(self.version));
        }
    }

    fn input(&mut self) {
        let (value, mask) =
            (self.wanted.value().get(Field::InPortOxm), self.wanted.mask().get(Field::InPortOxm));
        let field = if self.version == Version::V10 { Field::InPort } else { Field::InPortOxm };
        self.value(field, value, if mask == 0 { 0 } else { field.all_bits() });
    }

    fn tag(&mut self) {
        let (value, mask) = (self.wanted.value().get(Field::VlanTci), self.wanted.mask().get(Field::VlanTci));
        // OpenFlow has fields for the number and for the whole priority of a tag that is there.
        let plain = mask >> 13 == 0 || mask >> 13 == 7 && mask & value & PRESENT != 0;
        if self.version == Version::V10 || !plain {
            return self.value(Field::VlanTci, value, mask);
        }
        self.value(Field::VlanVid, value & VID, mask & VID);
        if mask >> 13 != 0 {
            self.value(Field::VlanPcp, value >> 13, Field::VlanPcp.all_bits());
        }
    }

    fn services(&mut self) {
        let (value, mask) = (self.wanted.value().get(Field::IpDscp), self.wanted.mask().get(Field::IpDscp));
        if self.version == Version::V10 {
            self.value(Field::NwTos, value << 2, if mask == 0 { 0 } else { Field::NwTos.all_bits() });
        } else {
            self.value(Field::IpDscp, value, mask);
        }
        self.put(&[Field::NwEcn, Field::NwTtl, Field::NwProto]);
    }

    fn transport(&mut self) {
        let proto = self.wanted.exactly(Field::NwProto).unwrap_or_default();
        let v4 = self.wanted.meets(Needs::Ipv4);
        match u8::try_from(proto).unwrap_or_default() {
            protocol::TCP => self.put(&[Field::TcpSrc, Field::TcpDst, Field::TcpFlags]),
            protocol::UDP => self.put(&[Field::UdpSrc, Field::UdpDst]),
            protocol::SCTP => self.put(&[Field::SctpSrc, Field::SctpDst]),
            protocol::ICMP if v4 => self.put(&[Field::IcmpType, Field::IcmpCode]),
            protocol::ICMPV6 if !v4 => {
                self.put(&[Field::Icmpv6Type, Field::Icmpv6Code]);
            }
            _ => {}
        }
    }

    fn neighbor(&mut self) {
        if self.wanted.meets(Needs::Neighbor) {
            self.put(&[Field::NdTarget, Field::NdReserved, Field::NdOptionsType]);
            let solicited = self.wanted.meets(Needs::Solicitation);
            self.put(&[if solicited { Field::NdSll } else { Field::NdTll }]);
        }
    }

    fn network(&mut self) {
        if self.wanted.meets(Needs::Mpls) {
            return self.put(&[Field::MplsTc, Field::MplsBos, Field::MplsTtl, Field::MplsLabel]);
        }
        if self.wanted.meets(Needs::Ip) {
            self.put(if self.wanted.meets(Needs::Ipv4) {
                &[Field::IpSrc, Field::IpDst, Field::IpFrag]
            } else {
                &[Field::Ipv6Src, Field::Ipv6Dst, Field::IpFrag]
            });
            self.services();
            self.transport();
            if self.wanted.meets(Needs::Ipv6) {
                self.put(&[Field::Ipv6Label]);
                self.neighbor();
            }
        } else if self.wanted.meets(Needs::Arp) {
            self.put(&[Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha]);
        }
    }

    fn registers(&mut self) {
        let registers = if self.version >= Version::V15 {
            Field::Xreg0..=Field::Xreg7
        } else {
            Field::Reg0..=Field::Reg15
        };
        for field in Field::ALL.iter().filter(|field| registers.contains(field)) {
            self.put(&[*field]);
        }
    }
}

/// Writes fields, and a cookie as a field if its mask has bits.
pub(crate) fn write_fields(writer: &mut Writer, wanted: &Match, cookie: Cookie, version: Version) {
    let mut fields = Fields { writer, wanted, version };
    fields.put(&[Field::DpHash, Field::RecircId, Field::ConjId]);
    fields.input();
    fields.put(&[Field::ActionSetOutput, Field::EthSrc, Field::EthDst, Field::EthType]);
    fields.tag();
    fields.network();
    fields.put(&[
        Field::TunnelId,
        Field::TunnelFlags,
        Field::TunnelSrc,
        Field::TunnelDst,
        Field::TunnelIpv6Src,
        Field::TunnelIpv6Dst,
        Field::TunnelGbpId,
        Field::TunnelGbpFlags,
    ]);
    fields.put(&Field::TUNNEL_METADATA);
    fields.registers();
    fields.put(&[
        Field::PacketMark,
        Field::CtState,
        Field::CtZone,
        Field::CtMark,
        Field::CtLabel,
        Field::CtNwSrc,
        Field::CtNwDst,
        Field::CtIpv6Src,
        Field::CtIpv6Dst,
        Field::CtNwProto,
        Field::CtTpSrc,
        Field::CtTpDst,
        Field::Metadata,
    ]);
    match cookie.mask {
        0 => {}
        u64::MAX => {
            writer.u32(COOKIE).u64(cookie.value);
        }
        mask => {
            writer.u32(COOKIE_MASKED).u64(cookie.value).u64(mask);
        }
    }
}
