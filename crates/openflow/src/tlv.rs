//! The mapping of tunnel options to fields (Nicira's TLV table, ovs-fields(7)).

use crate::Failure;
use crate::bytes::{Reader, Writer};

/// An option of Geneve and its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlvMap {
    /// The option's class.
    pub class: u16,
    /// The option's type.
    pub kind: u8,
    /// The size of the option's value in bytes: a multiple of four up to 124.
    pub bytes: u8,
    /// The number of the field of tunnel metadata.
    pub index: u16,
}

/// The most bytes of an option's value.
const MAX_BYTES: u8 = 124;
/// Fields of tunnel metadata.
const FIELDS: u16 = 64;

impl TlvMap {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let map =
            Self { class: reader.u16()?, kind: reader.u8()?, bytes: reader.u8()?, index: reader.u16()? };
        reader.skip(2)?;
        if !map.bytes.is_multiple_of(4) || map.bytes > MAX_BYTES {
            return Err(Failure::TlvLength);
        }
        if map.index >= FIELDS { Err(Failure::TlvField) } else { Ok(map) }
    }

    fn write(self, writer: &mut Writer) {
        writer.u16(self.class).u8(self.kind).u8(self.bytes).u16(self.index).zeros(2);
    }
}

/// The kind of change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "Open vSwitch's names")]
pub enum TlvCommand {
    Add,
    Delete,
    Clear,
}

const COMMANDS: [TlvCommand; 3] = [TlvCommand::Add, TlvCommand::Delete, TlvCommand::Clear];

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlvMod {
    /// The kind of change.
    pub command: TlvCommand,
    /// The options that are changed.
    pub maps: Vec<TlvMap>,
}

impl TlvMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let command = *COMMANDS.get(usize::from(reader.u16()?)).ok_or(Failure::TlvCommand)?;
        reader.skip(6)?;
        Ok(Self { command, maps: reader.all(TlvMap::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let number = COMMANDS.iter().position(|command| *command == self.command).unwrap_or_default();
        writer.u16(number as u16).zeros(6); // below three
        self.maps.iter().for_each(|map| map.write(writer));
    }
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlvTable {
    /// The largest total size of all options, in bytes.
    pub max_bytes: u32,
    /// The largest number of fields.
    pub max_fields: u16,
    /// The options that are mapped.
    pub maps: Vec<TlvMap>,
}

impl TlvTable {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (max_bytes, max_fields) = (reader.u32()?, reader.u16()?);
        reader.skip(10)?;
        Ok(Self { max_bytes, max_fields, maps: reader.all(TlvMap::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.max_bytes).u16(self.max_fields).zeros(10);
        self.maps.iter().for_each(|map| map.write(writer));
    }
}
