//! Ports (OpenFlow 1.5 §7.2.1, §7.3.4.4, §7.4.3).

use crate::bytes::{Reader, Writer};
use crate::property::{self, Property, RawProperty};
use crate::{Failure, Version, number};

/// The property of an Ethernet port.
const ETHERNET: u16 = 0;
/// Bits of a port's state in OpenFlow 1.0: no link, and the spanning tree's.
const STATE_10: u32 = 0x301;
/// Bytes of a description before its properties, in OpenFlow 1.4 and later.
const HEAD_BYTES: usize = 40;

/// The speeds and features of a port, as bits of OpenFlow 1.5 §7.2.1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// The features in use.
    pub current: u32,
    /// The features that the port advertises to its peer.
    pub advertised: u32,
    /// The features that the port supports.
    pub supported: u32,
    /// The features that the peer advertises.
    pub peer: u32,
    /// The port's present rate, in kbit/s. OpenFlow 1.0 does not have it.
    pub current_speed: u32,
    /// The port's highest rate, in kbit/s. OpenFlow 1.0 does not have it.
    pub max_speed: u32,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// Its address.
    pub address: [u8; 6],
    /// The port's name, padded with zeros.
    pub name: [u8; 16],
    /// Bits that a controller can set.
    pub config: u32,
    /// Bits that a controller cannot set.
    pub state: u32,
    /// The speeds and features of the port.
    pub ethernet: Option<Ethernet>,
    /// Other properties, of OpenFlow 1.4 and later.
    pub properties: Vec<RawProperty>,
}

/// Converts features of OpenFlow 1.0 to those of later versions: five of them move by four bits.
fn of_10(bits: u32) -> u32 {
    bits & 0x7f | (bits >> 7 & 0x1f) << 11
}

/// The reverse of [`of_10`]. Rates beyond 10 Gbit/s are left out.
fn to_10(bits: u32) -> u32 {
    bits & 0x7f | (bits >> 11 & 0x1f) << 7
}

impl Ethernet {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut ethernet = Self::read_features(reader)?;
        (ethernet.current_speed, ethernet.max_speed) = (reader.u32()?, reader.u32()?);
        Ok(ethernet)
    }

    fn read_features(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (current, advertised) = (reader.u32()?, reader.u32()?);
        let (supported, peer) = (reader.u32()?, reader.u32()?);
        Ok(Self { current, advertised, supported, peer, ..Self::default() })
    }

    fn features(&self) -> [u32; 4] {
        [self.current, self.advertised, self.supported, self.peer]
    }

    fn write(&self, writer: &mut Writer) {
        self.features().into_iter().chain([self.current_speed, self.max_speed]).for_each(|word| {
            writer.u32(word);
        });
    }
}

impl Port {
    /// The port's name up to the first zero, with a replacement character for bytes that are not text.
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }

    fn read_10(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (number, address, name) = (reader.u16()?, reader.array()?, reader.array()?);
        let (config, state) = (reader.u32()?, reader.u32()? & STATE_10);
        let old = Ethernet::read_features(reader)?;
        let [current, advertised, supported, peer] = old.features().map(of_10);
        let ethernet = Some(Ethernet { current, advertised, supported, peer, ..Ethernet::default() });
        Ok(Self { number, address, name, config, state, ethernet, properties: Vec::new() })
    }

    /// Reads a description.
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        if version == Version::V10 {
            return Self::read_10(reader);
        }
        let number = number::read(reader, version, Failure::BadPort)?;
        let length = usize::from(reader.u16()?);
        reader.skip(2)?;
        let address = reader.array()?;
        reader.skip(2)?;
        let (name, config, state) = (reader.array()?, reader.u32()?, reader.u32()?);
        let mut port = Self { number, address, name, config, state, ethernet: None, properties: Vec::new() };
        if version == Version::V13 {
            port.ethernet = Some(Ethernet::read(reader)?);
            return Ok(port);
        }
        let mut rest = reader.part(length.checked_sub(HEAD_BYTES).ok_or(Failure::BadLength)?)?;
        while !rest.is_empty() {
            let mut ahead = rest;
            let mut property = Property::read(&mut ahead)?;
            if property.kind == ETHERNET && port.ethernet.is_none() {
                property.value.skip(4)?;
                port.ethernet = Some(Ethernet::read(&mut property.value)?);
                rest = ahead;
            } else {
                port.properties.push(RawProperty::read(&mut rest)?);
            }
        }
        Ok(port)
    }

    /// Writes a description.
    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let ethernet = self.ethernet.unwrap_or_default();
        if version == Version::V10 {
            writer.u16(self.number).put(&self.address).put(&self.name).u32(self.config);
            writer.u32(self.state & STATE_10);
            return ethernet.features().into_iter().map(to_10).for_each(|word| {
                writer.u32(word);
            });
        }
        let start = writer.len();
        number::write(writer, version, self.number);
        writer.zeros(4).put(&self.address).zeros(2).put(&self.name).u32(self.config).u32(self.state);
        if version == Version::V13 {
            return ethernet.write(writer);
        }
        if let Some(ethernet) = self.ethernet {
            property::write(writer, ETHERNET, |writer| {
                writer.zeros(4);
                ethernet.write(writer);
            });
        }
        self.properties.iter().for_each(|property| property.write(writer));
        writer.length(start, 4);
    }
}

/// The kind of change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum PortReason {
    Add,
    Delete,
    Modify,
}

const REASONS: [PortReason; 3] = [PortReason::Add, PortReason::Delete, PortReason::Modify];

/// The message that a port was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let reason = *REASONS.get(usize::from(reader.u8()?)).ok_or(Failure::BadReason)?;
        reader.skip(7)?;
        Ok(Self { reason, port: Port::read(reader, version)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        writer
            .u8(REASONS.iter().position(|reason| *reason == self.reason).unwrap_or_default() as u8)
            .zeros(7);
        self.port.write(writer, version);
    }
}

/// A change of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortMod {
    /// Its number.
    pub number: u16,
    /// The port's address, which must be the port's own.
    pub address: [u8; 6],
    /// The bits.
    pub config: u32,
    /// The bits that are set or cleared.
    pub mask: u32,
    /// The features to advertise to the peer; 0 for no change.
    pub advertise: u32,
}

impl PortMod {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let number = number::read(reader, version, Failure::PortModPort)?;
        let old = version == Version::V10;
        reader.skip(if old { 0 } else { 4 })?;
        let address = reader.array()?;
        reader.skip(if old { 0 } else { 2 })?;
        let (config, mask) = (reader.u32()?, reader.u32()?);
        let mut port = Self { number, address, config, mask, advertise: 0 };
        if version >= Version::V14 {
            for mut property in Property::all(reader)? {
                match property.kind {
                    ETHERNET => port.advertise = property.u32()?,
                    _ => return Err(Failure::PropertyType),
                }
            }
            return Ok(port);
        }
        port.advertise = reader.u32()?;
        if old {
            port.advertise = of_10(port.advertise);
        }
        reader.skip(4)?;
        Ok(port)
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let old = version == Version::V10;
        number::write(writer, version, self.number);
        writer.zeros(if old { 0 } else { 4 }).put(&self.address).zeros(if old { 0 } else { 2 });
        writer.u32(self.config).u32(self.mask);
        match version {
            Version::V10 => {
                writer.u32(to_10(self.advertise)).zeros(4);
            }
            Version::V13 => {
                writer.u32(self.advertise).zeros(4);
            }
            _ if self.advertise != 0 => property::write_u32(writer, ETHERNET, self.advertise),
            _ => {}
        }
    }
}

/// A change of a table's configuration (OpenFlow 1.5 §7.3.4.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableMod {
    /// The table; [`crate::ANY_TABLE`] for all tables.
    pub table: u8,
    /// Bits of the configuration.
    pub config: u32,
    /// Properties of OpenFlow 1.4 and later.
    pub properties: Vec<RawProperty>,
}

impl TableMod {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let config = reader.u32()?;
        let properties = if version >= Version::V14 { reader.all(RawProperty::read)? } else { Vec::new() };
        Ok(Self { table, config, properties })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.table).zeros(3).u32(self.config);
        self.properties.iter().for_each(|property| property.write(writer));
    }
}
