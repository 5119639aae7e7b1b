//! The start of a connection: versions, features and configuration (OpenFlow 1.5 §7.5.1, §7.3.1, §7.3.2).

use crate::bytes::{Reader, Writer};
use crate::port::Port;
use crate::property::{self, Property};
use crate::{Failure, Version};

/// The property with the bitmap of versions.
const BITMAP: u16 = 1;

/// The versions that the sender supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hello {
    /// A bit for each version's number, in words of 32 bits, lowest first; `None` if the header's version is the
    /// highest and all lower ones are supported.
    pub bitmap: Option<Vec<u32>>,
}

impl Hello {
    /// A hello that names these versions.
    pub fn of(versions: &[Version]) -> Self {
        Self { bitmap: Some(vec![versions.iter().fold(0, |bits, version| bits | 1 << version.number())]) }
    }

    /// The newest version that both ends support. `number` is the version in the header of this hello.
    ///
    /// # Errors
    /// There is no such version.
    pub fn common(&self, number: u8, own: &[Version]) -> Result<Version, Failure> {
        let has = |version: &Version| match &self.bitmap {
            None => version.number() <= number,
            Some(words) => words.first().is_some_and(|word| word >> version.number() & 1 != 0),
        };
        own.iter().copied().filter(has).max().ok_or(Failure::HelloIncompatible)
    }

    /// Reads the bytes behind the header. Other properties are ignored, as the specification requires.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let mut bitmap = None;
        while let Ok(mut property) = Property::read(reader) {
            if property.kind == BITMAP && bitmap.is_none() {
                bitmap = property.value.all(|words| words.u32()).ok();
            }
        }
        Self { bitmap }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        if let Some(words) = &self.bitmap {
            property::write(writer, BITMAP, |writer| {
                words.iter().for_each(|word| {
                    writer.u32(*word);
                });
            });
        }
    }
}

/// The features of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// The number of the switch: an address and 16 bits that the maker chooses.
    pub datapath_id: u64,
    /// The number of packets that the switch can buffer for the controller.
    pub buffers: u32,
    /// Its tables.
    pub tables: u8,
    /// The number of this connection of the controller; 0 for the main one. OpenFlow 1.0 has no other connections.
    pub auxiliary: u8,
    /// The capability bits of OpenFlow 1.5 §7.3.1.
    pub capabilities: u32,
    /// OpenFlow 1.0: the bits of the supported actions.
    pub actions: u32,
    /// OpenFlow 1.0: the ports.
    pub ports: Vec<Port>,
}

impl Features {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let (datapath_id, buffers) = (reader.u64()?, reader.u32()?);
        let (tables, auxiliary) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let (capabilities, actions) = (reader.u32()?, reader.u32()?);
        let ports = match version {
            Version::V10 => reader.all(|reader| Port::read(reader, version))?,
            _ => Vec::new(),
        };
        Ok(Self { datapath_id, buffers, tables, auxiliary, capabilities, actions, ports })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        writer.u64(self.datapath_id).u32(self.buffers).u8(self.tables).u8(self.auxiliary).zeros(2);
        writer.u32(self.capabilities).u32(self.actions);
        if version == Version::V10 {
            self.ports.iter().for_each(|port| port.write(writer, version));
        }
    }
}

/// A switch's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Config {
    /// The treatment of fragments: the two low bits.
    pub flags: u16,
    /// The maximum number of bytes of an unmatched packet that the controller gets.
    pub miss_bytes: u16,
}

impl Config {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        Ok(Self { flags: reader.u16()?, miss_bytes: reader.u16()? })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u16(self.flags).u16(self.miss_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_both_counts() {
        let old = Hello::default();
        assert_eq!(old.common(6, &Version::ALL), Ok(Version::V15));
        assert_eq!(old.common(2, &Version::ALL), Ok(Version::V10));
        assert_eq!(old.common(1, &[Version::V15]), Err(Failure::HelloIncompatible));
        let some = Hello::of(&[Version::V10, Version::V13]);
        assert_eq!(some.common(6, &Version::ALL), Ok(Version::V13));
        assert_eq!(Hello { bitmap: Some(vec![]) }.common(6, &Version::ALL), Err(Failure::HelloIncompatible));
    }
}
