//! Statistics, descriptions and features of groups and meters (OpenFlow 1.5 §7.3.5.9 to §7.3.5.14).

use flow::{Group, Meter};

use crate::bytes::{Reader, Writer};
use crate::{Failure, Version, group, meter};

/// The counts of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupStatistics {
    /// The group.
    pub group: u32,
    /// The number of flows and groups that use the group.
    pub references: u32,
    /// Packets and bytes.
    pub counts: (u64, u64),
    /// The age of the group in seconds and nanoseconds.
    pub duration: (u32, u32),
    /// Packets and bytes of the group's buckets.
    pub buckets: Vec<(u64, u64)>,
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(u64, u64), Failure> {
    Ok((reader.u64()?, reader.u64()?))
}

fn write_pairs(writer: &mut Writer, pairs: &[(u64, u64)]) {
    pairs.iter().for_each(|pair| {
        writer.u64(pair.0).u64(pair.1);
    });
}

impl GroupStatistics {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut body = reader.entry(40)?;
        body.skip(2)?;
        let (group, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        let counts = read_pair(&mut body)?;
        let duration = (body.u32()?, body.u32()?);
        Ok(Self { group, references, counts, duration, buckets: body.all(read_pair)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let start = writer.len();
        writer.zeros(4).u32(self.group).u32(self.references).zeros(4);
        write_pairs(writer, &[self.counts]);
        writer.u32(self.duration.0).u32(self.duration.1);
        write_pairs(writer, &self.buckets);
        writer.length(start, 0);
    }
}

/// Reads a group.
pub(super) fn read_description(reader: &mut Reader<'_>, version: Version) -> Result<Group, Failure> {
    let mut body = reader.entry(8)?;
    let mut group = Group { kind: group::kind(body.u8()?)?, ..Group::default() };
    body.skip(1)?;
    group.id = body.u32()?;
    if group::has_old_form(version) {
        group.buckets = group::read_buckets(&mut body, version)?;
        return Ok(group);
    }
    let length = usize::from(body.u16()?);
    body.skip(6)?;
    group.buckets = group::read_buckets(&mut body.part(length)?, version)?;
    group.selection = group::read_selection(&mut body)?;
    Ok(group)
}

/// Writes a group.
pub(super) fn write_description(writer: &mut Writer, group: &Group, version: Version) {
    let start = writer.len();
    writer.u16(0).u8(group::kind_number(group.kind)).zeros(1).u32(group.id);
    if group::has_old_form(version) {
        group::write_buckets(writer, &group.buckets, version);
    } else {
        let at = writer.len();
        writer.zeros(8);
        let buckets = writer.len();
        group::write_buckets(writer, &group.buckets, version);
        let length = (writer.len() - buckets) as u16; // checked for the whole message
        writer.set_u16(at, length);
        group::write_selection(writer, &group.selection, version);
    }
    writer.length(start, 0);
}

/// The groups that a switch supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupFeatures {
    /// A bit for each kind of group.
    pub kinds: u32,
    /// The capability bits of OpenFlow 1.5 §7.3.5.11.
    pub capabilities: u32,
    /// The largest number of groups of each kind.
    pub max_groups: [u32; 4],
    /// The bits of the actions that buckets of each kind may have.
    pub actions: [u32; 4],
}

fn read_four(reader: &mut Reader<'_>) -> Result<[u32; 4], Failure> {
    Ok([reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?])
}

impl GroupFeatures {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (kinds, capabilities) = (reader.u32()?, reader.u32()?);
        Ok(Self { kinds, capabilities, max_groups: read_four(reader)?, actions: read_four(reader)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u32(self.kinds).u32(self.capabilities);
        self.max_groups.iter().chain(&self.actions).for_each(|word| {
            writer.u32(*word);
        });
    }
}

/// The counts of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeterStatistics {
    /// The meter.
    pub meter: u32,
    /// The number of flows that use the meter.
    pub flows: u32,
    /// Packets and bytes.
    pub counts: (u64, u64),
    /// The age of the meter in seconds and nanoseconds.
    pub duration: (u32, u32),
    /// Packets and bytes of the meter's bands.
    pub bands: Vec<(u64, u64)>,
}

/// Bytes of a meter's counts before those of its bands.
const METER_BYTES: usize = 40;

impl MeterStatistics {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut ahead = *reader;
        let meter = ahead.u32()?;
        let length = usize::from(ahead.u16()?);
        if length < METER_BYTES {
            return Err(Failure::BadLength);
        }
        let mut body = reader.part(length)?;
        body.skip(12)?;
        let flows = body.u32()?;
        let counts = read_pair(&mut body)?;
        let duration = (body.u32()?, body.u32()?);
        Ok(Self { meter, flows, counts, duration, bands: body.all(read_pair)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let start = writer.len();
        writer.u32(self.meter).zeros(8).u32(self.flows);
        write_pairs(writer, &[self.counts]);
        writer.u32(self.duration.0).u32(self.duration.1);
        write_pairs(writer, &self.bands);
        writer.length(start, 4);
    }
}

/// Reads a meter.
pub(super) fn read_meter(reader: &mut Reader<'_>) -> Result<Meter, Failure> {
    meter::read(&mut reader.entry(8)?)
}

/// Writes a meter.
pub(super) fn write_meter(writer: &mut Writer, meter: &Meter) {
    let start = writer.len();
    writer.u16(0);
    meter::write(writer, meter);
    writer.length(start, 0);
}

/// The meters that a switch supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeterFeatures {
    /// The largest number of meters.
    pub max_meters: u32,
    /// A bit for each kind of band.
    pub bands: u32,
    /// The supported flags of meters, as bits.
    pub capabilities: u32,
    /// The largest number of bands in a meter.
    pub max_bands: u8,
    /// The largest number of colours.
    pub max_colors: u8,
    /// Further bits of OpenFlow 1.5, which Open vSwitch does not send.
    pub features: Option<u32>,
}

impl MeterFeatures {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (max_meters, bands, capabilities) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (max_bands, max_colors) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let mut features = None;
        if !reader.is_empty() {
            features = Some(reader.u32()?);
            reader.skip(4)?;
        }
        Ok(Self { max_meters, bands, capabilities, max_bands, max_colors, features })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u32(self.max_meters).u32(self.bands).u32(self.capabilities);
        writer.u8(self.max_bands).u8(self.max_colors).zeros(2);
        if let Some(features) = self.features {
            writer.u32(features).zeros(4);
        }
    }
}
