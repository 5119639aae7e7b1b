//! Fields on the wire: OXM and NXM (OpenFlow 1.5 §7.2.3.2; ovs-fields(7)).

mod matching;
mod table;

pub(crate) use matching::{Cookie, MatchForm, read_fields, read_match, write_fields, write_match};
pub(crate) use table::Prefer;

use flow::{Field, Subfield};
use table::{ARP_OP_BYTES, EXPERIMENTER, Place, Row};

use crate::bytes::{Reader, Writer};
use crate::{Failure, number};

/// The length in the header of a tunnel option where no value follows.
const VARIABLE: u8 = 124;

/// The failures for a wrong field.
#[derive(Clone, Copy)]
pub(crate) struct Failures {
    pub field: Failure,
    pub length: Failure,
    /// The failure for a header with another length than its field, which Open vSwitch does not know.
    pub other_length: Failure,
    pub value: Failure,
    pub mask: Failure,
}

/// The failures of fields in a match.
pub(crate) const IN_MATCH: Failures = Failures {
    field: Failure::MatchField,
    length: Failure::MatchLength,
    other_length: Failure::MatchField,
    value: Failure::MatchValue,
    mask: Failure::MatchMask,
};
/// The failures for a field in an action.
pub(crate) const IN_ACTION: Failures = Failures {
    field: Failure::SetLength, // Open vSwitch's error for a header that it does not know
    length: Failure::SetLength,
    other_length: Failure::SetLength,
    value: Failure::SetArgument,
    mask: Failure::SetMask,
};

/// A field's header.
struct Header {
    row: &'static Row,
    masked: bool,
    /// The size of value and mask in bytes.
    length: usize,
}

impl Header {
    fn read(reader: &mut Reader<'_>, failures: Failures) -> Result<Self, Failure> {
        let header = reader.u32()?;
        let (class, number) = ((header >> 16) as u16, (header >> 9 & 0x7f) as u8);
        let mut length = usize::from(header as u8);
        let mut experimenter = 0;
        if class == EXPERIMENTER {
            experimenter = reader.u32()?;
            length = length.checked_sub(4).ok_or(failures.length)?;
        }
        let row = table::by_place(Place { class, number, experimenter }).ok_or(failures.field)?;
        Ok(Self { row, masked: header >> 8 & 1 != 0, length })
    }
}

/// The least bytes that have all bits of a value.
fn significant(value: u128) -> usize {
    (128 - value.leading_zeros() as usize).div_ceil(8).max(1)
}

/// A number of any length whose upper bytes are zero.
fn value(bytes: &[u8]) -> Option<u128> {
    let (upper, lower) = bytes.split_at(bytes.len().saturating_sub(16));
    let number = lower.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
    upper.iter().all(|byte| *byte == 0).then_some(number)
}

/// Reads a field with its value and mask. Bits of a value that the mask does not have are refused with `wildcards`.
pub(crate) fn read_field(
    reader: &mut Reader<'_>,
    failures: Failures,
    wildcards: Failure,
) -> Result<(Field, u128, u128), Failure> {
    let header = Header::read(reader, failures)?;
    let (field, all) = (header.row.field, header.row.field.all_bits());
    let bytes = if header.masked { header.length / 2 } else { header.length };
    let fits = if header.row.variable {
        (1..=usize::from(VARIABLE)).contains(&bytes)
    } else {
        bytes == header.row.bytes
    };
    if !fits || header.masked && header.length % 2 != 0 {
        return Err(failures.other_length);
    }
    let mut wanted = value(reader.bytes(bytes)?).ok_or(failures.value)?;
    let mut mask = all;
    if header.masked {
        mask = value(reader.bytes(bytes)?).ok_or(failures.mask)?;
        if wanted & !mask != 0 {
            return Err(wildcards);
        }
        if !header.row.variable && mask == u128::MAX >> (128 - 8 * bytes) {
            mask = all; // some senders set the bits that fill up the last byte
        }
    }
    if field == Field::InPortOxm && mask == all {
        wanted = number::narrow(wanted as u32).ok_or(failures.value)?.into(); // the model has 16 bits
    }
    if wanted & !all != 0 {
        return Err(failures.value);
    }
    if mask & !all != 0 || field == Field::InPortOxm && mask != all && mask != 0 {
        return Err(failures.mask);
    }
    Ok((field, wanted, mask))
}

fn write_header(writer: &mut Writer, row: &Row, place: Place, masked: bool, length: usize) {
    let length = if place.class == EXPERIMENTER { length + 4 } else { length };
    debug_assert!(length < 256 && row.bytes <= 16);
    writer.u16(place.class).u8(place.number << 1 | u8::from(masked)).u8(length as u8); // at most 124 + 4
    if place.class == EXPERIMENTER {
        writer.u32(place.experimenter);
    }
}

/// The length of a tunnel option, if it is known and the model has room for it.
fn option_bytes(writer: &Writer, field: Field) -> Option<usize> {
    let at = (field as usize).checked_sub(Field::TunnelMetadata0 as usize)?;
    writer.option_bytes.get(at).map(|bytes| usize::from(*bytes)).filter(|bytes| (1..=8).contains(bytes))
}

/// Whether a mask has all bits of a field, or of a tunnel option of the known length.
pub(crate) fn is_whole(writer: &Writer, field: Field, mask: u128) -> bool {
    let option = option_bytes(writer, field).map(|bytes| u128::MAX >> (128 - 8 * bytes));
    mask == field.all_bits() || Some(mask) == option
}

/// Writes a field of a match with its value, and with its mask unless all bits are compared. A field without a header
/// is left out.
pub(crate) fn write_field(writer: &mut Writer, field: Field, wanted: u128, mask: u128, prefer: Prefer) {
    let bytes = option_bytes(writer, field);
    write_value(writer, field, (wanted, mask), mask != field.all_bits(), prefer, bytes);
}

/// Writes a field of an action, with its mask if it is `masked`. Open vSwitch writes a tunnel option in an action
/// with the smallest number of bytes for its value, and in a match with the number in its table.
pub(crate) fn write_masked(
    writer: &mut Writer,
    field: Field,
    wanted: u128,
    mask: u128,
    masked: bool,
    prefer: Prefer,
) {
    write_value(writer, field, (wanted, mask), masked, prefer, None);
}

fn write_value(
    writer: &mut Writer,
    field: Field,
    (wanted, mask): (u128, u128),
    masked: bool,
    prefer: Prefer,
    option_bytes: Option<usize>,
) {
    let row = table::row(field);
    let Some(place) = row.place(prefer) else { return };
    let least = significant(if masked { mask } else { wanted });
    let bytes = if row.variable { option_bytes.unwrap_or(least).max(least) } else { row.bytes };
    write_header(writer, row, place, masked, if masked { 2 * bytes } else { bytes });
    let wanted = match field {
        Field::InPortOxm => number::wide(wanted as u16).into(), // the model has 16 bits
        _ => wanted,
    };
    writer.value(wanted, bytes);
    if masked {
        writer.value(mask, bytes);
    }
}

/// Reads a header without a value, such as in moves.
pub(crate) fn read_header(reader: &mut Reader<'_>) -> Result<Field, Failure> {
    // Open vSwitch has the errors of matches here.
    let header = Header::read(reader, IN_MATCH)?;
    if header.masked || !(header.row.variable || header.length == header.row.bytes) {
        return Err(Failure::MatchField);
    }
    Ok(header.row.field)
}

/// Writes a header without a value.
pub(crate) fn write_bare(writer: &mut Writer, field: Field, prefer: Prefer) {
    let row = table::row(field);
    let variable = option_bytes(writer, field).unwrap_or(VARIABLE.into());
    let length = if row.variable { variable } else { row.bytes };
    match row.place(prefer) {
        Some(place) => write_header(writer, row, place, false, length),
        None => {
            writer.u32(0);
        }
    }
}

/// The bits of a field, which the header alone names. A value of ARP's operation has 16 bits on the wire and 8 here:
/// its lower half is used.
pub(crate) fn subfield(field: Field, start: u32, bits: u32) -> Result<Subfield, Failure> {
    let bits = match field {
        Field::ArpOp if start == 0 && bits == 8 * ARP_OP_BYTES => 8,
        _ => bits,
    };
    let end = start.checked_add(bits).ok_or(Failure::SetLength)?;
    if bits == 0 || end > field.bits() {
        return Err(Failure::SetLength);
    }
    Ok(Subfield { field, start, bits })
}

/// Reads start and width from 16 bits, such as in `load`: six bits have the width minus one.
pub(crate) fn unpack(field: Field, packed: u16) -> Result<Subfield, Failure> {
    subfield(field, u32::from(packed >> 6), u32::from(packed & 0x3f) + 1)
}

/// Writes what [`unpack`] reads.
pub(crate) fn pack(bits: Subfield) -> u16 {
    (bits.start as u16) << 6 | (bits.bits.saturating_sub(1) & 0x3f) as u16 // a field has at most 128 bits
}

/// Whether a match can have a mask for the field.
pub(crate) fn is_maskable(field: Field) -> bool {
    table::row(field).maskable
}

/// Whether a header for the field exists.
pub(crate) fn is_on_wire(field: Field) -> bool {
    table::row(field).place(Prefer::Nxm).is_some()
}

/// Whether `load` has no space for the field, because its header is an experimenter's or its length varies.
pub(crate) fn is_long(field: Field) -> bool {
    let row = table::row(field);
    row.variable || row.place(Prefer::Nxm).is_some_and(|place| place.class == EXPERIMENTER)
}
