//! The match of OpenFlow 1.0 (§5.2.3), which has twelve fields.

use flow::{Field, Match};

use crate::Failure;
use crate::bytes::{Reader, Writer};

/// The size of the match in bytes.
pub(crate) const BYTES: usize = 40;
/// The number of a frame without a tag.
const NO_TAG: u16 = 0xffff;
/// The bit of presence of a tag, and the bits of its number with it.
const PRESENT: u128 = 0x1000;
const VID: u128 = 0x1fff;
const PCP: u128 = 0xf000;

/// Bits that say that a field does not count.
mod any {
    pub const INPUT: u32 = 1;
    pub const VLAN: u32 = 1 << 1;
    pub const SOURCE: u32 = 1 << 2;
    pub const DESTINATION: u32 = 1 << 3;
    pub const TYPE: u32 = 1 << 4;
    pub const PROTOCOL: u32 = 1 << 5;
    pub const PORT_SOURCE: u32 = 1 << 6;
    pub const PORT_DESTINATION: u32 = 1 << 7;
    pub const PRIORITY: u32 = 1 << 20;
    pub const SERVICE: u32 = 1 << 21;
    /// The place of the number of address bits that are not compared.
    pub const SOURCE_BITS: u32 = 8;
    pub const DESTINATION_BITS: u32 = 14;
}

/// Reads a match.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Match, Failure> {
    let mut wanted = Match::ANY;
    let wild = reader.u32()?;
    let counts = |bit: u32| wild & bit == 0;
    let address = |reader: &mut Reader<'_>| {
        reader.array::<6>().map(|bytes| bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    };
    let input = reader.u16()?;
    if counts(any::INPUT) {
        wanted.set(Field::InPortOxm, input.into());
    }
    for (field, bit) in [(Field::EthSrc, any::SOURCE), (Field::EthDst, any::DESTINATION)] {
        let value = address(reader)?;
        if counts(bit) {
            wanted.set(field, value);
        }
    }
    let (vlan, priority) = (reader.u16()?, u128::from(reader.u8()? & 7));
    reader.skip(1)?;
    if counts(any::VLAN) && vlan == NO_TAG {
        wanted.add_masked(Field::VlanTci, 0, Field::VlanTci.all_bits());
    } else {
        if counts(any::VLAN) {
            wanted.add_masked(Field::VlanTci, u128::from(vlan & 0xfff) | PRESENT, VID);
        }
        if counts(any::PRIORITY) {
            wanted.add_masked(Field::VlanTci, priority << 13 | PRESENT, PCP);
        }
    }
    let (kind, service, proto) = (reader.u16()?, reader.u8()?, reader.u8()?);
    reader.skip(2)?;
    if counts(any::TYPE) {
        wanted.set(Field::EthType, kind.into());
    }
    read_network(reader, &mut wanted, wild, service, proto)?;
    Ok(wanted)
}

/// Reads the fields that count only for some Ethernet types and protocols.
fn read_network(
    reader: &mut Reader<'_>,
    wanted: &mut Match,
    wild: u32,
    service: u8,
    proto: u8,
) -> Result<(), Failure> {
    let counts = |bit: u32| wild & bit == 0;
    let set = |wanted: &mut Match, field: Field, value: u128| {
        if wanted.meets(field.needs()) {
            wanted.set(field, value);
        }
    };
    if counts(any::SERVICE) {
        set(wanted, Field::IpDscp, (service >> 2).into());
    }
    if counts(any::PROTOCOL) {
        set(wanted, Field::NwProto, proto.into());
        set(wanted, Field::ArpOp, proto.into());
    }
    for (v4, arp, at) in [
        (Field::IpSrc, Field::ArpSpa, any::SOURCE_BITS),
        (Field::IpDst, Field::ArpTpa, any::DESTINATION_BITS),
    ] {
        let value = reader.u32()?;
        let mask = u32::MAX.checked_shl(wild >> at & 0x3f).unwrap_or(0);
        for field in [v4, arp] {
            if wanted.meets(field.needs()) && mask != 0 {
                wanted.set_masked(field, value.into(), mask.into());
            }
        }
    }
    for (bit, fields) in [
        (any::PORT_SOURCE, [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::IcmpType]),
        (any::PORT_DESTINATION, [Field::TcpDst, Field::UdpDst, Field::SctpDst, Field::IcmpCode]),
    ] {
        let value = u128::from(reader.u16()?);
        for field in fields.into_iter().filter(|_| counts(bit)) {
            if value <= field.all_bits() {
                set(wanted, field, value);
            }
        }
    }
    Ok(())
}

/// Writes a match. Returns false if OpenFlow 1.0 cannot express the match.
pub(crate) fn write(writer: &mut Writer, wanted: &Match) -> bool {
    let bytes = encoded(wanted);
    writer.put(&bytes);
    read(&mut Reader::new(&bytes, Failure::BadLength)).as_ref() == Ok(wanted)
}

/// Whether OpenFlow 1.0 can express the match.
pub(crate) fn fits(wanted: &Match) -> bool {
    read(&mut Reader::new(&encoded(wanted), Failure::BadLength)).as_ref() == Ok(wanted)
}

fn encoded(wanted: &Match) -> Vec<u8> {
    let (value, mask) = (wanted.value(), wanted.mask());
    let mut wild = 0;
    let mut any = |is: bool, bit: u32| wild |= if is { bit } else { 0 };
    let free = |field: Field| mask.get(field) == 0;
    any(free(Field::InPortOxm), any::INPUT);
    any(free(Field::EthSrc), any::SOURCE);
    any(free(Field::EthDst), any::DESTINATION);
    any(free(Field::EthType), any::TYPE);
    any(free(Field::NwProto), any::PROTOCOL);
    any(free(Field::IpDscp), any::SERVICE);
    any(free(Field::TcpSrc), any::PORT_SOURCE);
    any(free(Field::TcpDst), any::PORT_DESTINATION);
    let tag = (value.get(Field::VlanTci), mask.get(Field::VlanTci));
    let untagged = tag.1 & PRESENT != 0 && tag.0 & PRESENT == 0;
    any(!untagged && tag.1 & 0xfff == 0, any::VLAN);
    any(!untagged && tag.1 >> 13 == 0, any::PRIORITY);
    let bits = |field: Field| (mask.get(field) as u32).trailing_zeros(); // 32 for none
    wild |= bits(Field::IpSrc) << any::SOURCE_BITS | bits(Field::IpDst) << any::DESTINATION_BITS;
    let mut writer = Writer::default();
    writer.u32(wild).value(value.get(Field::InPortOxm), 2);
    writer.value(value.get(Field::EthSrc), 6).value(value.get(Field::EthDst), 6);
    writer.u16(if untagged { NO_TAG } else { tag.0 as u16 & 0xfff });
    writer.u8((tag.0 >> 13) as u8 & 7).zeros(1).value(value.get(Field::EthType), 2);
    writer.u8((value.get(Field::IpDscp) << 2) as u8).value(value.get(Field::NwProto), 1).zeros(2);
    writer.value(value.get(Field::IpSrc), 4).value(value.get(Field::IpDst), 4);
    writer.value(value.get(Field::TcpSrc), 2).value(value.get(Field::TcpDst), 2);
    debug_assert_eq!(writer.len(), BYTES);
    writer.finish().unwrap_or_default()
}
