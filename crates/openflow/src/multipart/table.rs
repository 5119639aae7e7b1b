//! Statistics, features and descriptions of tables (OpenFlow 1.5 §7.3.5.5, §7.3.5.15, §7.3.5.18).

use crate::bytes::{Reader, Writer};
use crate::property::RawProperty;
use crate::{Failure, Version};

/// The counts of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableStatistics {
    /// The table.
    pub table: u8,
    /// Its flows.
    pub active: u32,
    /// The number of packets that were looked up.
    pub lookups: u64,
    /// The number of packets that a flow matched.
    pub matched: u64,
    /// OpenFlow 1.0: the table's name, the fields that may be wildcards, and the largest number of flows.
    pub old: Option<OldTable>,
}

/// The data that OpenFlow 1.0 sends for a table in addition to its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OldTable {
    /// The table's name, padded with zeros.
    pub name: [u8; 32],
    /// The fields that may be wildcards.
    pub wildcards: u32,
    /// The largest number of flows.
    pub max_flows: u32,
}

impl TableStatistics {
    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let mut old = None;
        if version == Version::V10 {
            old =
                Some(OldTable { name: reader.array()?, wildcards: reader.u32()?, max_flows: reader.u32()? });
        }
        Ok(Self { table, active: reader.u32()?, lookups: reader.u64()?, matched: reader.u64()?, old })
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        writer.u8(self.table).zeros(3);
        if version == Version::V10 {
            let old = self.old.clone().unwrap_or_default();
            writer.put(&old.name).u32(old.wildcards).u32(old.max_flows);
        }
        writer.u32(self.active).u64(self.lookups).u64(self.matched);
    }
}

/// The features of a table. Their properties are lists of numbers and headers, which are kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// OpenFlow 1.5: the kind of change of the table.
    pub command: u8,
    /// OpenFlow 1.5: bits of §7.3.5.18.1.
    pub features: u32,
    /// The table's name, padded with zeros.
    pub name: [u8; 32],
    /// The bits of metadata that the table can match.
    pub metadata_match: u64,
    /// The bits of metadata that the table can write.
    pub metadata_write: u64,
    /// The settings that the table supports.
    pub capabilities: u32,
    /// The largest number of flows.
    pub max_flows: u32,
    /// The features that flows in the table may have.
    pub properties: Vec<RawProperty>,
}

impl TableFeatures {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut body = reader.entry(64)?;
        Ok(Self {
            table: body.u8()?,
            command: body.u8()?,
            features: body.u32()?,
            name: body.array()?,
            metadata_match: body.u64()?,
            metadata_write: body.u64()?,
            capabilities: body.u32()?,
            max_flows: body.u32()?,
            properties: body.all(RawProperty::read)?,
        })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let start = writer.len();
        writer.u16(0).u8(self.table).u8(self.command).u32(self.features).put(&self.name);
        writer.u64(self.metadata_match).u64(self.metadata_write);
        writer.u32(self.capabilities).u32(self.max_flows);
        self.properties.iter().for_each(|property| property.write(writer));
        writer.length(start, 0);
    }
}

/// The configuration of a table, in OpenFlow 1.4 and later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableDescription {
    /// The table.
    pub table: u8,
    /// The bits of the configuration.
    pub config: u32,
    /// The properties: when flows are evicted, and when the controller is informed of it.
    pub properties: Vec<RawProperty>,
}

impl TableDescription {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut body = reader.entry(8)?;
        let table = body.u8()?;
        body.skip(1)?;
        Ok(Self { table, config: body.u32()?, properties: body.all(RawProperty::read)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let start = writer.len();
        writer.u16(0).u8(self.table).zeros(1).u32(self.config);
        self.properties.iter().for_each(|property| property.write(writer));
        writer.length(start, 0);
    }
}

/// The description of a switch (OpenFlow 1.5 §7.3.5.1). Texts are padded with zeros on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Description {
    /// The manufacturer of the switch.
    pub manufacturer: Vec<u8>,
    /// The hardware.
    pub hardware: Vec<u8>,
    /// The software.
    pub software: Vec<u8>,
    /// The serial number of the switch.
    pub serial: Vec<u8>,
    /// The switch in words.
    pub datapath: Vec<u8>,
}

const TEXT_BYTES: usize = 256;
const SERIAL_BYTES: usize = 32;

fn read_text(reader: &mut Reader<'_>, bytes: usize) -> Result<Vec<u8>, Failure> {
    let text = reader.bytes(bytes)?;
    Ok(text[..text.iter().position(|byte| *byte == 0).unwrap_or(bytes - 1)].to_vec())
}

fn write_text(writer: &mut Writer, text: &[u8], bytes: usize) {
    let text = &text[..text.len().min(bytes - 1)]; // one zero ends it
    writer.put(text).zeros(bytes - text.len());
}

impl Description {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        Ok(Self {
            manufacturer: read_text(reader, TEXT_BYTES)?,
            hardware: read_text(reader, TEXT_BYTES)?,
            software: read_text(reader, TEXT_BYTES)?,
            serial: read_text(reader, SERIAL_BYTES)?,
            datapath: read_text(reader, TEXT_BYTES)?,
        })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        for (text, bytes) in [
            (&self.manufacturer, TEXT_BYTES),
            (&self.hardware, TEXT_BYTES),
            (&self.software, TEXT_BYTES),
            (&self.serial, SERIAL_BYTES),
            (&self.datapath, TEXT_BYTES),
        ] {
            write_text(writer, text, bytes);
        }
    }
}
