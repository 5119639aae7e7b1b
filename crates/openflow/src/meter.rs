//! Changes of meters (OpenFlow 1.5 §7.3.4.5).

use flow::{Band, BandKind, Meter, MeterUnit};

use crate::Failure;
use crate::bytes::{Reader, Writer};

/// The kind of change of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum MeterCommand {
    Add,
    Modify,
    Delete,
}

const COMMANDS: [MeterCommand; 3] = [MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete];

/// The meter number that means all meters.
pub const ALL_METERS: u32 = u32::MAX;

mod flag {
    pub const KILOBITS: u16 = 1;
    pub const PACKETS: u16 = 2;
    pub const BURST: u16 = 4;
    pub const STATS: u16 = 8;
}

const DROP: u16 = 1;
const DSCP_REMARK: u16 = 2;
const BAND_BYTES: usize = 16;

/// Reads flags, and no unit as kilobits.
fn read_flags(meter: &mut Meter, flags: u16) -> Result<(), Failure> {
    meter.unit = match flags & (flag::KILOBITS | flag::PACKETS) {
        flag::PACKETS => MeterUnit::Packets,
        flag::KILOBITS | 0 => MeterUnit::Kilobits,
        _ => return Err(Failure::MeterFlags),
    };
    if flags > 15 {
        return Err(Failure::MeterFlags);
    }
    (meter.burst, meter.stats) = (flags & flag::BURST != 0, flags & flag::STATS != 0);
    Ok(())
}

fn flags(meter: &Meter) -> u16 {
    let unit = if meter.unit == MeterUnit::Packets { flag::PACKETS } else { flag::KILOBITS };
    unit | (u16::from(meter.burst) * flag::BURST) | (u16::from(meter.stats) * flag::STATS)
}

fn read_band(reader: &mut Reader<'_>) -> Result<Band, Failure> {
    let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
    if length != BAND_BYTES {
        return Err(Failure::BadLength);
    }
    let (rate, burst, level) = (reader.u32()?, reader.u32()?, reader.u8()?);
    reader.skip(3)?;
    let kind = match kind {
        DROP => BandKind::Drop,
        DSCP_REMARK => BandKind::DscpRemark(level),
        _ => return Err(Failure::MeterBand),
    };
    Ok(Band { kind, rate, burst })
}

fn write_band(writer: &mut Writer, band: &Band) {
    let (kind, level) = match band.kind {
        BandKind::Drop => (DROP, 0),
        BandKind::DscpRemark(level) => (DSCP_REMARK, level),
    };
    writer.u16(kind).u16(BAND_BYTES as u16).u32(band.rate).u32(band.burst).u8(level).zeros(3);
}

/// Reads the bytes behind a meter's command or length: flags, number and bands up to the end.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Meter, Failure> {
    let mut meter = Meter::default();
    read_flags(&mut meter, reader.u16()?)?;
    meter.id = reader.u32()?;
    meter.bands = reader.all(read_band)?;
    Ok(meter)
}

/// Writes what [`read`] reads.
pub(crate) fn write(writer: &mut Writer, meter: &Meter) {
    writer.u16(flags(meter)).u32(meter.id);
    meter.bands.iter().for_each(|band| write_band(writer, band));
}

/// A change of meters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeterMod {
    /// The kind of change.
    pub command: MeterCommand,
    /// The meter. Its number is [`ALL_METERS`] to delete all meters.
    pub meter: Meter,
}

impl MeterMod {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let command = *COMMANDS.get(usize::from(reader.u16()?)).ok_or(Failure::MeterCommand)?;
        let meter = read(reader)?;
        let number = Meter { id: meter.id, ..Meter::default() };
        Ok(Self { command, meter: if command == MeterCommand::Delete { number } else { meter } })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let number = COMMANDS.iter().position(|command| *command == self.command).unwrap_or_default();
        writer.u16(number as u16); // below three
        if self.command == MeterCommand::Delete {
            // Nothing of the meter but its number counts, and Open vSwitch sends no flags.
            writer.u16(0).u32(self.meter.id);
        } else {
            write(writer, &self.meter);
        }
    }
}
