//! Ends tracked connections (Nicira's CT_FLUSH).

use crate::Failure;
use crate::bytes::{Reader, Writer};
use crate::property::{self, Property};

mod kind {
    pub const ORIGINAL: u16 = 0;
    pub const REPLY: u16 = 1;
    pub const ZONE: u16 = 2;
    pub const MARK: u16 = 3;
    pub const MARK_MASK: u16 = 4;
    pub const LABEL: u16 = 5;
    pub const LABEL_MASK: u16 = 6;
}

/// Properties of a direction.
mod of_tuple {
    pub const SOURCE: u16 = 0;
    pub const DESTINATION: u16 = 1;
    pub const SOURCE_PORT: u16 = 2;
    pub const DESTINATION_PORT: u16 = 3;
    pub const ICMP_ID: u16 = 4;
    pub const ICMP_TYPE: u16 = 5;
    pub const ICMP_CODE: u16 = 6;
}

/// The properties of one direction of connections. A property that is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The source address; an IPv4 address is mapped into IPv6.
    pub source: Option<u128>,
    /// The destination address.
    pub destination: Option<u128>,
    /// The source port.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
    /// The identifier of an ICMP echo.
    pub icmp_id: Option<u16>,
    /// The type of ICMP.
    pub icmp_type: Option<u8>,
    /// The code of ICMP.
    pub icmp_code: Option<u8>,
}

fn u128_of(property: &mut Property<'_>) -> Result<u128, Failure> {
    let value = property.value.u128()?;
    property.value.end().map(|()| value)
}

impl Tuple {
    /// Whether all properties are zero or absent. Open vSwitch's programs write zeros for a direction of ICMP that they do
    /// not name, and it stands for any.
    pub fn is_empty(&self) -> bool {
        let words = [self.source_port, self.destination_port, self.icmp_id];
        let has_bits = self.source.unwrap_or(0) | self.destination.unwrap_or(0) != 0
            || words.into_iter().flatten().any(|word| word != 0)
            || [self.icmp_type, self.icmp_code].into_iter().flatten().any(|byte| byte != 0);
        !has_bits
    }

    fn read(property: &mut Property<'_>) -> Result<Self, Failure> {
        let mut tuple = Self::default();
        for mut property in property.nested()? {
            match property.kind {
                of_tuple::SOURCE => tuple.source = Some(u128_of(&mut property)?),
                of_tuple::DESTINATION => tuple.destination = Some(u128_of(&mut property)?),
                of_tuple::SOURCE_PORT => tuple.source_port = Some(property.u16()?),
                of_tuple::DESTINATION_PORT => tuple.destination_port = Some(property.u16()?),
                of_tuple::ICMP_ID => tuple.icmp_id = Some(property.u16()?),
                of_tuple::ICMP_TYPE => tuple.icmp_type = Some(property.u8()?),
                of_tuple::ICMP_CODE => tuple.icmp_code = Some(property.u8()?),
                _ => return Err(Failure::PropertyType),
            }
        }
        Ok(tuple)
    }

    fn write(&self, writer: &mut Writer, kind: u16) {
        property::write(writer, kind, |writer| {
            writer.zeros(4);
            let addresses = [(of_tuple::SOURCE, self.source), (of_tuple::DESTINATION, self.destination)];
            for (kind, value) in addresses.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
                property::write_bytes(writer, kind, &value.to_be_bytes());
            }
            let words = [
                (of_tuple::SOURCE_PORT, self.source_port),
                (of_tuple::DESTINATION_PORT, self.destination_port),
                (of_tuple::ICMP_ID, self.icmp_id),
            ];
            for (kind, value) in words.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
                property::write_u16(writer, kind, value);
            }
            let bytes = [(of_tuple::ICMP_TYPE, self.icmp_type), (of_tuple::ICMP_CODE, self.icmp_code)];
            for (kind, value) in bytes.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
                property::write_u8(writer, kind, value);
            }
        });
    }
}

/// Which connections end: those that have all that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CtFlush {
    /// The protocol; 0 for any.
    pub protocol: u8,
    /// The family of addresses; 0 for any.
    pub family: u8,
    /// The zone.
    pub zone: Option<u16>,
    /// The direction of the first packet.
    pub original: Option<Tuple>,
    /// The other direction.
    pub reply: Option<Tuple>,
    /// The mark.
    pub mark: Option<u32>,
    /// The bits of the mark that are compared; `None` for all.
    pub mark_mask: Option<u32>,
    /// The label.
    pub label: Option<u128>,
    /// The bits of the label that are compared; `None` for all.
    pub label_mask: Option<u128>,
}

impl CtFlush {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut flush = Self { protocol: reader.u8()?, family: reader.u8()?, ..Self::default() };
        reader.zeros(6, Failure::NotZero)?;
        for mut property in Property::all(reader)? {
            match property.kind {
                kind::ORIGINAL => flush.original = Some(Tuple::read(&mut property)?),
                kind::REPLY => flush.reply = Some(Tuple::read(&mut property)?),
                kind::ZONE => flush.zone = Some(property.u16()?),
                kind::MARK => flush.mark = Some(property.u32()?),
                kind::MARK_MASK => flush.mark_mask = Some(property.u32()?),
                kind::LABEL => flush.label = Some(u128_of(&mut property)?),
                kind::LABEL_MASK => flush.label_mask = Some(u128_of(&mut property)?),
                _ => return Err(Failure::PropertyType),
            }
        }
        Ok(flush)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.protocol).u8(self.family).zeros(6);
        for (kind, tuple) in [(kind::ORIGINAL, &self.original), (kind::REPLY, &self.reply)] {
            if let Some(tuple) = tuple {
                tuple.write(writer, kind);
            }
        }
        if let Some(zone) = self.zone {
            property::write_u16(writer, kind::ZONE, zone);
        }
        for (kind, value) in [(kind::MARK, self.mark), (kind::MARK_MASK, self.mark_mask)] {
            if let Some(value) = value {
                property::write_u32(writer, kind, value);
            }
        }
        for (kind, value) in [(kind::LABEL, self.label), (kind::LABEL_MASK, self.label_mask)] {
            if let Some(value) = value {
                property::write_bytes(writer, kind, &value.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_of_zeros_is_empty() {
        let zeros = Tuple { icmp_id: Some(0), icmp_type: Some(0), icmp_code: Some(0), ..Tuple::default() };
        assert!(Tuple::default().is_empty() && zeros.is_empty());
        for one in [
            Tuple { source: Some(1), ..zeros.clone() },
            Tuple { destination_port: Some(1), ..zeros.clone() },
            Tuple { icmp_code: Some(1), ..zeros.clone() },
        ] {
            assert!(!one.is_empty(), "{one:?}");
        }
    }
}
