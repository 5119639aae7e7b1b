//! Actions that write fields: set_field, load, move, push and pop.

use flow::{Action, Field, Subfield};

use super::wire::{PRESENT, nx, put, put_nicira, standard, v10};
use crate::bytes::{Reader, Writer};
use crate::oxm::{self, IN_ACTION, Prefer};
use crate::{Failure, Version};

/// Returns the bits if an action may write them.
pub(super) fn writable(bits: Subfield) -> Result<Subfield, Failure> {
    if bits.field.is_writable() { Ok(bits) } else { Err(Failure::SetArgument) }
}

fn set(field: Field, value: u128, mask: u128) -> Result<Action, Failure> {
    match field {
        Field::VlanVid if mask & !value & PRESENT != 0 => Err(Failure::SetArgument),
        Field::NwTos if value & 3 != 0 => Err(Failure::SetArgument),
        field if !field.is_writable() => Err(Failure::SetArgument),
        field => Ok(Action::SetField(field, value, mask)),
    }
}

/// A field with value and mask, and zeros behind them.
fn read_value(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (field, value, mask) = oxm::read_field(body, IN_ACTION, Failure::SetArgument)?;
    let rest = body.len();
    if rest >= 8 {
        return Err(Failure::ActionLength);
    }
    body.zeros(rest, Failure::SetArgument)?;
    set(field, value, mask)
}

/// `set_field` (OpenFlow 1.5 §7.2.6.7). A mask exists only in OpenFlow 1.5.
pub(super) fn read_set(body: &mut Reader<'_>, version: Version) -> Result<Action, Failure> {
    let action = read_value(body)?;
    match action {
        Action::SetField(field, _, mask) if version < Version::V15 && mask != field.all_bits() => {
            Err(Failure::SetMask)
        }
        action => Ok(action),
    }
}

/// `load` with a whole field, its value and mask.
pub(super) fn read_load_2(body: &mut Reader<'_>) -> Result<Action, Failure> {
    read_value(body)
}

/// `load`: bits of a field, and their value in 64 bits.
pub(super) fn read_load(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let packed = body.u16()?;
    let field = oxm::read_header(&mut body.part(4)?)?;
    let bits = oxm::unpack(field, packed)?;
    let value = u128::from(body.u64()?);
    if value & !bits.all_bits() != 0 {
        return Err(Failure::SetArgument);
    }
    if field == Field::InPortOxm {
        return Err(Failure::SetType); // a port of 32 bits is one of 16 here: bits alone say nothing
    }
    set(field, value << bits.start, bits.mask())
}

fn movement(bits: u16, starts: (u16, u16), from: Field, to: Field) -> Result<Action, Failure> {
    let from = oxm::subfield(from, starts.0.into(), bits.into())?;
    let to = writable(oxm::subfield(to, starts.1.into(), bits.into())?)?;
    if from.bits != to.bits {
        return Err(Failure::SetLength);
    }
    Ok(Action::Move(from, to))
}

/// `copy_field` (OpenFlow 1.5 §7.2.6.8).
pub(super) fn read_copy(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (bits, starts) = (body.u16()?, (body.u16()?, body.u16()?));
    body.skip(2)?;
    let (from, to) = (oxm::read_header(body)?, oxm::read_header(body)?);
    let rest = body.len();
    if rest >= 8 {
        return Err(Failure::ActionLength);
    }
    body.zeros(rest, Failure::ActionArgument)?;
    movement(bits, starts, from, to)
}

/// `move` in Nicira's form.
pub(super) fn read_move(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (bits, starts) = (body.u16()?, (body.u16()?, body.u16()?));
    let (from, to) = (oxm::read_header(body)?, oxm::read_header(body)?);
    let rest = body.len();
    body.zeros(rest, Failure::ActionNotZero)?;
    movement(bits, starts, from, to)
}

/// `push` or `pop`.
pub(super) fn read_stack(body: &mut Reader<'_>) -> Result<Subfield, Failure> {
    let start = body.u16()?;
    let field = oxm::read_header(body)?;
    let bits = body.u16()?;
    let rest = body.len();
    body.zeros(rest, Failure::ActionNotZero)?;
    oxm::subfield(field, start.into(), bits.into())
}

/// Writes `push` or `pop`.
pub(super) fn write_stack(writer: &mut Writer, kind: u16, bits: Subfield) {
    put_nicira(writer, kind, |writer| {
        writer.u16(bits.start as u16); // at most 127
        oxm::write_bare(writer, bits.field, Prefer::Nxm);
        writer.u16(wire_bits(bits)).zeros(6);
    });
}

/// The number of these bits on the wire: ARP's operation has 16 there.
pub(super) fn wire_bits(bits: Subfield) -> u16 {
    if bits == Subfield::whole(Field::ArpOp) { 16 } else { bits.bits as u16 } // at most 128
}

/// Writes `move`.
pub(super) fn write_move(writer: &mut Writer, from: Subfield, to: Subfield, version: Version) {
    let bits = wire_bits(from).min(wire_bits(to));
    let starts = (from.start as u16, to.start as u16); // at most 127
    if version < Version::V15 {
        return put_nicira(writer, nx::REG_MOVE, |writer| {
            writer.u16(bits).u16(starts.0).u16(starts.1);
            oxm::write_bare(writer, from.field, Prefer::Nxm);
            oxm::write_bare(writer, to.field, Prefer::Nxm);
        });
    }
    put(writer, standard::COPY_FIELD, |writer| {
        writer.u16(bits).u16(starts.0).u16(starts.1).zeros(2);
        oxm::write_bare(writer, from.field, Prefer::Version(version));
        oxm::write_bare(writer, to.field, Prefer::Version(version));
    });
}

/// The bits of a mask, if they are one run that `load` has room for.
fn run(field: Field, mask: u128) -> Option<Subfield> {
    let (start, bits) = (mask.trailing_zeros(), mask.count_ones());
    let run = Subfield { field, start, bits };
    ((1..=64).contains(&bits) && run.mask() == mask && !oxm::is_long(field) && field != Field::InPortOxm)
        .then_some(run)
}

/// Writes `set_field` in the form of this version: `load` if the version has no masks.
pub(super) fn write_set(writer: &mut Writer, field: Field, value: u128, mask: u128, version: Version) {
    let whole = oxm::is_whole(writer, field, mask);
    if !oxm::is_on_wire(field) {
        return writer.refuse("set_field of a field without a header");
    }
    if version >= Version::V15 || version > Version::V10 && whole {
        // OVN writes all bits of the DSCP with a mask: the byte has two more.
        let masked = !whole || field == Field::IpDscp && version >= Version::V15;
        return put(writer, standard::SET_FIELD, |writer| {
            oxm::write_masked(writer, field, value, mask, masked, Prefer::Version(version));
        });
    }
    if version == Version::V10 && whole && write_set_10(writer, field, value) {
        return;
    }
    match run(field, mask) {
        Some(run) => put_nicira(writer, nx::REG_LOAD, |writer| {
            writer.u16(oxm::pack(Subfield { bits: wire_bits(run).into(), ..run }));
            oxm::write_bare(writer, field, Prefer::Nxm);
            writer.u64((value >> run.start & run.all_bits()) as u64); // at most 64 bits
        }),
        None => put_nicira(writer, nx::REG_LOAD2, |writer| {
            oxm::write_masked(writer, field, value, mask, !whole, Prefer::Nxm);
        }),
    }
}

/// Writes what OpenFlow 1.0 has its own actions for. Whether it has one.
fn write_set_10(writer: &mut Writer, field: Field, value: u128) -> bool {
    if field == Field::TunnelId {
        match u32::try_from(value) {
            Ok(value) => put_nicira(writer, nx::SET_TUNNEL, |writer| {
                writer.zeros(2).u32(value);
            }),
            Err(_) => put_nicira(writer, nx::SET_TUNNEL64, |writer| {
                writer.zeros(6).value(value, 8);
            }),
        }
        return true;
    }
    if field == Field::VlanVid && value & PRESENT != 0 {
        // The action pushes a tag where there is none: `push_vlan` before it has no bytes.
        put(writer, v10::SET_VLAN_VID, |writer| {
            writer.value(value & 0xfff, 2).zeros(2);
        });
        return true;
    }
    let (kind, bytes) = match field {
        Field::EthSrc => (v10::SET_DL_SRC, 6),
        Field::EthDst => (v10::SET_DL_DST, 6),
        Field::IpSrc => (v10::SET_NW_SRC, 4),
        Field::IpDst => (v10::SET_NW_DST, 4),
        Field::IpDscp => (v10::SET_NW_TOS, 1),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => (v10::SET_TP_SRC, 2),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => (v10::SET_TP_DST, 2),
        _ => return false,
    };
    let value = if field == Field::IpDscp { value << 2 } else { value };
    put(writer, kind, |writer| {
        writer.value(value, bytes);
    });
    true
}
