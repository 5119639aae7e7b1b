//! Statistics of ports and queues (OpenFlow 1.5 §7.3.5.7, §7.3.5.8).

use crate::bytes::{Reader, Writer};
use crate::property::{self, Property, RawProperty};
use crate::{Failure, Version, number};

/// The property of an Ethernet port.
const ETHERNET: u16 = 0;

/// The counts of a port. A count that the port does not have has all bits set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortStatistics {
    /// The port.
    pub port: u16,
    /// The age of the port in seconds and nanoseconds. OpenFlow 1.0 does not send it.
    pub duration: Option<(u32, u32)>,
    /// Packets received and sent, bytes received and sent, packets received and dropped, packets not sent, errors of
    /// receiving and of sending.
    pub counts: [u64; 8],
    /// Unaligned frames, frames lost for lack of space, frames with a wrong checksum, and collisions.
    pub ethernet: Option<[u64; 4]>,
    /// Other properties, of OpenFlow 1.4 and later.
    pub properties: Vec<RawProperty>,
}

fn read_counts<const N: usize>(reader: &mut Reader<'_>) -> Result<[u64; N], Failure> {
    let mut counts = [0; N];
    for count in &mut counts {
        *count = reader.u64()?;
    }
    Ok(counts)
}

fn write_counts(writer: &mut Writer, counts: &[u64]) {
    counts.iter().for_each(|count| {
        writer.u64(*count);
    });
}

fn write_duration(writer: &mut Writer, duration: Option<(u32, u32)>) {
    let (seconds, nanoseconds) = duration.unwrap_or((u32::MAX, u32::MAX));
    writer.u32(seconds).u32(nanoseconds);
}

impl PortStatistics {
    fn read_14(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut body = reader.entry(80)?;
        body.skip(2)?;
        let port = number::read(&mut body, version, Failure::BadPort)?;
        let duration = Some((body.u32()?, body.u32()?));
        let counts = read_counts(&mut body)?;
        let (mut ethernet, mut properties) = (None, Vec::new());
        while !body.is_empty() {
            let mut ahead = body;
            let mut property = Property::read(&mut ahead)?;
            if property.kind == ETHERNET && ethernet.is_none() {
                property.value.skip(4)?;
                ethernet = Some(read_counts(&mut property.value)?);
                body = ahead;
            } else {
                properties.push(RawProperty::read(&mut body)?);
            }
        }
        Ok(Self { port, duration, counts, ethernet, properties })
    }

    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        if version >= Version::V14 {
            return Self::read_14(reader, version);
        }
        let old = version == Version::V10;
        let port = number::read(reader, version, Failure::BadPort)?;
        reader.skip(if old { 6 } else { 4 })?;
        let counts = read_counts(reader)?;
        let ethernet = Some(read_counts(reader)?);
        let duration = if old { None } else { Some((reader.u32()?, reader.u32()?)) };
        Ok(Self { port, duration, counts, ethernet, properties: Vec::new() })
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        let ethernet = self.ethernet.unwrap_or([u64::MAX; 4]);
        if version < Version::V14 {
            let old = version == Version::V10;
            number::write(writer, version, self.port);
            writer.zeros(if old { 6 } else { 4 });
            write_counts(writer, &self.counts);
            write_counts(writer, &ethernet);
            if !old {
                write_duration(writer, self.duration);
            }
            return;
        }
        let start = writer.len();
        writer.zeros(4);
        number::write(writer, version, self.port);
        write_duration(writer, self.duration);
        write_counts(writer, &self.counts);
        if self.ethernet.is_some() {
            property::write(writer, ETHERNET, |writer| {
                writer.zeros(4);
                write_counts(writer, &ethernet);
            });
        }
        self.properties.iter().for_each(|property| property.write(writer));
        writer.length(start, 0);
    }
}

/// The counts of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueStatistics {
    /// The queue's port.
    pub port: u16,
    /// The queue.
    pub queue: u32,
    /// Bytes and packets sent, packets not sent.
    pub counts: [u64; 3],
    /// The age of the queue in seconds and nanoseconds. OpenFlow 1.0 does not send it.
    pub duration: Option<(u32, u32)>,
}

/// Reads a queue and its port.
pub(super) fn read_queue(reader: &mut Reader<'_>, version: Version) -> Result<(u16, u32), Failure> {
    let port = number::read(reader, version, Failure::QueuePort)?;
    reader.skip(if version == Version::V10 { 2 } else { 0 })?;
    Ok((port, reader.u32()?))
}

/// Writes a queue and its port.
pub(super) fn write_queue(writer: &mut Writer, port: u16, queue: u32, version: Version) {
    number::write(writer, version, port);
    writer.zeros(if version == Version::V10 { 2 } else { 0 }).u32(queue);
}

impl QueueStatistics {
    pub(super) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let mut body = *reader;
        if version >= Version::V14 {
            body = reader.entry(48)?;
            body.skip(6)?;
        }
        let (port, queue) = read_queue(&mut body, version)?;
        let counts = read_counts(&mut body)?;
        let duration = if version == Version::V10 { None } else { Some((body.u32()?, body.u32()?)) };
        if version < Version::V14 {
            *reader = body;
        }
        Ok(Self { port, queue, counts, duration })
    }

    pub(super) fn write(&self, writer: &mut Writer, version: Version) {
        let start = writer.len();
        writer.zeros(if version >= Version::V14 { 8 } else { 0 });
        write_queue(writer, self.port, self.queue, version);
        write_counts(writer, &self.counts);
        if version != Version::V10 {
            write_duration(writer, self.duration);
        }
        if version >= Version::V14 {
            writer.length(start, 0);
        }
    }
}
