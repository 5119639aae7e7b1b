//! Port numbers: 16 bits in OpenFlow 1.0 and in the model, 32 bits later (OpenFlow 1.5 §7.2.1).

use flow::port;

use crate::bytes::{Reader, Writer};
use crate::{Failure, Version};

/// The difference between a reserved port's 32-bit and 16-bit numbers.
const OFFSET: u32 = 0xffff_0000;
/// The first reserved port in 32 bits.
const FIRST_RESERVED: u32 = OFFSET | port::FIRST_RESERVED as u32;

/// Converts a port of 32 bits to 16 bits, if that is possible.
pub(crate) fn narrow(number: u32) -> Option<u16> {
    match number {
        FIRST_RESERVED.. => Some(number as u16), // the upper half is all ones
        _ => u16::try_from(number).ok().filter(|number| *number < port::FIRST_RESERVED),
    }
}

/// Converts a port of 16 bits to 32 bits.
pub(crate) fn wide(number: u16) -> u32 {
    if number < port::FIRST_RESERVED { number.into() } else { OFFSET | u32::from(number) }
}

/// Reads a port in the form of a version.
pub(crate) fn read(reader: &mut Reader<'_>, version: Version, failure: Failure) -> Result<u16, Failure> {
    match version {
        Version::V10 => reader.u16(),
        _ => narrow(reader.u32()?).ok_or(failure),
    }
}

/// Writes a port in the form of a version.
pub(crate) fn write(writer: &mut Writer, version: Version, number: u16) {
    match version {
        Version::V10 => writer.u16(number),
        _ => writer.u32(wide(number)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_keep_their_low_bits() {
        for number in [0, 1, 0xfeff, port::IN_PORT, port::CONTROLLER, port::ANY, port::FIRST_RESERVED] {
            assert_eq!(narrow(wide(number)), Some(number));
        }
        assert_eq!(wide(port::LOCAL), 0xffff_fffe);
        for number in [0xff00, 0xffff, 0x1_0000, 0xffff_feff] {
            assert_eq!(narrow(number), None, "{number:#x}");
        }
    }
}
