//! The counts of a flow, as a list of fields (OpenFlow 1.5 §7.2.4).

use crate::Failure;
use crate::bytes::{Reader, Writer, padding};

/// The class of OpenFlow's own counts.
const CLASS: u16 = 0x8002;

mod number {
    pub const DURATION: u8 = 0;
    pub const IDLE: u8 = 1;
    pub const FLOWS: u8 = 3;
    pub const PACKETS: u8 = 4;
    pub const BYTES: u8 = 5;
}

/// Counts of a flow or of several flows. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// The age of the flow.
    pub duration: Option<(u32, u32)>,
    /// The time without a frame.
    pub idle: Option<(u32, u32)>,
    /// The number of flows, if there are several.
    pub flows: Option<u32>,
    /// Frames.
    pub packets: Option<u64>,
    /// Bytes of the frames.
    pub bytes: Option<u64>,
}

/// Reads counts with their head and their padding.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Counts, Failure> {
    let mut ahead = *reader;
    ahead.skip(2)?;
    let length = usize::from(ahead.u16()?);
    let mut fields = ahead.part(length.checked_sub(4).ok_or(Failure::BadLength)?)?;
    reader.skip(length + padding(length))?;
    let mut counts = Counts::default();
    while !fields.is_empty() {
        let (class, kind, bytes) = (fields.u16()?, fields.u8()? >> 1, usize::from(fields.u8()?));
        let mut value = fields.part(bytes)?;
        if class != CLASS {
            continue; // an experimenter's
        }
        match kind {
            number::DURATION => counts.duration = Some((value.u32()?, value.u32()?)),
            number::IDLE => counts.idle = Some((value.u32()?, value.u32()?)),
            number::FLOWS => counts.flows = Some(value.u32()?),
            number::PACKETS => counts.packets = Some(value.u64()?),
            number::BYTES => counts.bytes = Some(value.u64()?),
            _ => continue,
        }
        value.end()?;
    }
    Ok(counts)
}

/// Writes counts, padded.
pub(crate) fn write(writer: &mut Writer, counts: &Counts) {
    let start = writer.len();
    writer.zeros(4);
    let times = [(number::DURATION, counts.duration), (number::IDLE, counts.idle)];
    for (kind, time) in times.into_iter().filter_map(|(kind, time)| Some((kind, time?))) {
        writer.u16(CLASS).u8(kind << 1).u8(8).u32(time.0).u32(time.1);
    }
    let numbers = [(number::PACKETS, counts.packets), (number::BYTES, counts.bytes)];
    for (kind, value) in numbers.into_iter().filter_map(|(kind, value)| Some((kind, value?))) {
        writer.u16(CLASS).u8(kind << 1).u8(8).u64(value);
    }
    if let Some(flows) = counts.flows {
        writer.u16(CLASS).u8(number::FLOWS << 1).u8(4).u32(flows);
    }
    writer.length(start, 2).pad(start);
}
