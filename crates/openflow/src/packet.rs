//! Packets to and from a controller (OpenFlow 1.5 §7.4.1, §7.3.6; Nicira's PACKET_IN2 and RESUME).

use flow::{Action, Field, Match, Reason, port};

use crate::bytes::{Reader, Writer, padding};
use crate::oxm::{self, Cookie, MatchForm};
use crate::property::{self, Property, RawProperty};
use crate::{Failure, Version, action, number};

/// A buffer's number that means none.
const NO_BUFFER: u32 = u32::MAX;

/// A packet for a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PacketIn {
    /// The buffer in which the switch keeps the packet.
    pub buffer: Option<u32>,
    /// Its length.
    pub bytes: u16,
    /// The reason why the controller gets the packet.
    pub reason: Reason,
    /// The table of the flow. OpenFlow 1.0 does not send it.
    pub table: u8,
    /// The flow's cookie. OpenFlow 1.0 does not send it.
    pub cookie: u64,
    /// The packet's input port and the other fields that are not in its bytes.
    pub metadata: Match,
    /// The packet's first bytes.
    pub data: Vec<u8>,
    /// Whether the message has the form of Nicira's packet_in.
    pub nicira: bool,
}

fn read_reason(reader: &mut Reader<'_>) -> Result<Reason, Failure> {
    action::reason(reader.u8()?).ok_or(Failure::BadReason)
}

/// The input port as the only field.
fn input(port: u16) -> Match {
    let mut metadata = Match::ANY;
    metadata.set(Field::InPortOxm, port.into());
    metadata
}

fn input_of(metadata: &Match) -> u16 {
    metadata.exactly(Field::InPortOxm).map_or(port::ANY, |port| port as u16) // the model has 16 bits
}

impl PacketIn {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let buffer = Some(reader.u32()?).filter(|buffer| *buffer != NO_BUFFER);
        let bytes = reader.u16()?;
        if version == Version::V10 {
            let metadata = input(reader.u16()?);
            let reason = read_reason(reader)?;
            reader.skip(1)?;
            let data = reader.rest().to_vec();
            return Ok(Self { buffer, bytes, reason, table: 0, cookie: 0, metadata, data, nicira: false });
        }
        let (reason, table, cookie) = (read_reason(reader)?, reader.u8()?, reader.u64()?);
        let metadata = oxm::read_match(reader, MatchForm::Match)?;
        reader.skip(2)?;
        let data = reader.rest().to_vec();
        Ok(Self { buffer, bytes, reason, table, cookie, metadata, data, nicira: false })
    }

    pub(crate) fn read_nicira(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let buffer = Some(reader.u32()?).filter(|buffer| *buffer != NO_BUFFER);
        let (bytes, reason, table, cookie) =
            (reader.u16()?, read_reason(reader)?, reader.u8()?, reader.u64()?);
        let length = usize::from(reader.u16()?);
        reader.skip(6)?;
        let mut fields = reader.with(Failure::MatchLength).part(length)?;
        reader.skip(length + padding(length) + 2)?;
        let (metadata, _) = oxm::read_fields(&mut fields, MatchForm::Match)?;
        let data = reader.rest().to_vec();
        Ok(Self { buffer, bytes, reason, table, cookie, metadata, data, nicira: true })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let reason = action::reason_number(self.reason);
        writer.u32(self.buffer.unwrap_or(NO_BUFFER)).u16(self.bytes);
        if self.nicira {
            writer.u8(reason).u8(self.table).u64(self.cookie);
            let at = writer.len();
            writer.zeros(8);
            let start = writer.len();
            oxm::write_fields(writer, &self.metadata, Cookie::default(), Version::V10);
            let length = (writer.len() - start) as u16; // checked for the whole message
            writer.set_u16(at, length).pad(start).zeros(2);
        } else if version == Version::V10 {
            writer.u16(input_of(&self.metadata)).u8(reason).zeros(1);
        } else {
            writer.u8(reason).u8(self.table).u64(self.cookie);
            oxm::write_match(writer, &self.metadata, version);
            writer.zeros(2);
        }
        writer.put(&self.data);
    }
}

/// Properties of PACKET_IN2 and RESUME.
mod kind {
    pub const PACKET: u16 = 0;
    pub const FULL_LENGTH: u16 = 1;
    pub const BUFFER: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const COOKIE: u16 = 4;
    pub const REASON: u16 = 5;
    pub const METADATA: u16 = 6;
    pub const USERDATA: u16 = 7;
    pub const CONTINUATION: u16 = 8;
}

/// A continuation begins behind these bytes, which align it. Controllers keep only what is behind them.
const CONTINUATION_AT: usize = 4;

/// A packet for a controller as properties; the controller sends the same properties back to let the packet continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketIn2 {
    /// The packet's first bytes.
    pub data: Vec<u8>,
    /// The packet's length, if it is larger.
    pub full_bytes: Option<u32>,
    /// The buffer in which the switch keeps the packet.
    pub buffer: Option<u32>,
    /// The table of the flow.
    pub table: Option<u8>,
    /// The flow's cookie.
    pub cookie: Option<u64>,
    /// The reason why the controller gets the packet.
    pub reason: Option<u8>,
    /// The packet's input port and the other fields that are not in its bytes.
    pub metadata: Option<Match>,
    /// The bytes that the action has for the controller.
    pub userdata: Option<Vec<u8>>,
    /// The place where the packet continues, in a form that only the switch understands.
    pub continuation: Option<Vec<u8>>,
    /// Other properties.
    pub other: Vec<RawProperty>,
}

impl PacketIn2 {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (mut packet, mut has_data) = (Self::default(), false);
        while !reader.is_empty() {
            let mut ahead = *reader;
            let mut property = Property::read(&mut ahead)?;
            match property.kind {
                kind::PACKET => {
                    packet.data = property.value.rest().to_vec();
                    has_data = true;
                }
                kind::FULL_LENGTH => packet.full_bytes = Some(property.u32()?),
                kind::BUFFER => packet.buffer = Some(property.u32()?),
                kind::TABLE => packet.table = Some(property.u8()?),
                kind::COOKIE => packet.cookie = Some(property.u64()?),
                kind::REASON => packet.reason = Some(property.u8()?),
                kind::METADATA => {
                    let mut fields = property.value.with(Failure::MatchLength);
                    packet.metadata = Some(oxm::read_fields(&mut fields, MatchForm::Match)?.0);
                }
                kind::USERDATA => packet.userdata = Some(property.value.rest().to_vec()),
                kind::CONTINUATION => {
                    property.value.skip(CONTINUATION_AT)?;
                    packet.continuation = Some(property.value.rest().to_vec());
                }
                // The lower half of the numbers means that a receiver that does not know the property must not
                // continue.
                9..0x8000 => return Err(Failure::PropertyType),
                _ => packet.other.push(RawProperty::read(reader)?),
            }
            *reader = ahead;
        }
        if has_data { Ok(packet) } else { Err(Failure::BadLength) }
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        property::write_bytes(writer, kind::PACKET, &self.data);
        for (kind, value) in [(kind::FULL_LENGTH, self.full_bytes), (kind::BUFFER, self.buffer)] {
            if let Some(value) = value {
                property::write_u32(writer, kind, value);
            }
        }
        if let Some(table) = self.table {
            property::write_u8(writer, kind::TABLE, table);
        }
        if let Some(cookie) = self.cookie {
            property::write_u64(writer, kind::COOKIE, cookie);
        }
        if let Some(reason) = self.reason {
            property::write_u8(writer, kind::REASON, reason);
        }
        if let Some(metadata) = &self.metadata {
            property::write(writer, kind::METADATA, |writer| {
                // OpenFlow 1.0 has the properties of later versions.
                oxm::write_fields(writer, metadata, Cookie::default(), version.max(Version::V13));
            });
        }
        // Open vSwitch's order.
        if let Some(continuation) = &self.continuation {
            property::write(writer, kind::CONTINUATION, |writer| {
                writer.zeros(CONTINUATION_AT).put(continuation);
            });
        }
        if let Some(userdata) = &self.userdata {
            property::write_bytes(writer, kind::USERDATA, userdata);
        }
        self.other.iter().for_each(|property| property.write(writer));
    }
}

/// A controller's packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PacketOut {
    /// The buffer in which the switch keeps the packet. If there is one, `data` is empty.
    pub buffer: Option<u32>,
    /// The packet's input port and, in OpenFlow 1.5, other fields that are not in its bytes.
    pub metadata: Match,
    /// The actions for the packet.
    pub actions: Vec<Action>,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl PacketOut {
    /// The packet's input port.
    pub fn input(&self) -> u16 {
        input_of(&self.metadata)
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let buffer = Some(reader.u32()?).filter(|buffer| *buffer != NO_BUFFER);
        let mut metadata = Match::ANY;
        if version < Version::V15 {
            metadata = input(number::read(reader, version, Failure::BadPort)?);
        }
        let length = usize::from(reader.u16()?);
        match version {
            Version::V10 => {}
            Version::V15 => {
                reader.skip(2)?;
                metadata = oxm::read_match(reader, MatchForm::Match)?;
                if metadata.exactly(Field::InPortOxm).is_none() {
                    return Err(Failure::BadPort);
                }
            }
            _ => reader.skip(6)?,
        }
        let mut list = reader.part(length)?;
        let actions = action::read_list(&mut list, version)?;
        let data = reader.rest().to_vec();
        if buffer.is_some() && !data.is_empty() {
            return Err(Failure::BadLength);
        }
        Ok(Self { buffer, metadata, actions, data })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        writer.u32(self.buffer.unwrap_or(NO_BUFFER));
        if version < Version::V15 {
            number::write(writer, version, self.input());
        }
        let at = writer.len();
        writer.u16(0);
        match version {
            Version::V10 => {}
            Version::V15 => {
                writer.zeros(2);
                oxm::write_match(writer, &self.metadata, version);
            }
            _ => {
                writer.zeros(6);
            }
        }
        let start = writer.len();
        action::write_list(writer, &self.actions, version);
        let length = (writer.len() - start) as u16; // checked for the whole message
        writer.set_u16(at, length).put(&self.data);
    }
}
