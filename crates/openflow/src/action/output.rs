//! Actions that send frames to ports.

use flow::{Action, Controller, Subfield, port};

use super::wire::{nx, put, put_nicira, standard};
use crate::bytes::{Reader, Writer};
use crate::oxm::{self, Prefer};
use crate::{Failure, Version, number};

/// The shortest frame that is sent cut.
const MIN_CUT: u32 = 14;

/// Reads `output` to a port, or to the controllers.
pub(super) fn to(to: u16, max_bytes: u16) -> Result<Action, Failure> {
    match to {
        port::CONTROLLER => {
            Ok(Action::Controller(Box::new(Controller { max_bytes, ..Controller::default() })))
        }
        to if is_destination(to) && max_bytes == 0 => Ok(Action::Output(to)),
        to if is_destination(to) => Ok(Action::OutputSized(to, max_bytes)),
        _ => Err(Failure::ActionPort),
    }
}

/// Reads `output` of the first bytes of a frame.
pub(super) fn read_cut(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (to, bytes) = (body.u16()?, body.u32()?);
    if bytes < MIN_CUT {
        return Err(Failure::ActionArgument);
    }
    let whole = [port::NORMAL, port::FLOOD, port::ALL, port::TABLE, port::CONTROLLER];
    if !is_destination(to) || whole.contains(&to) {
        return Err(Failure::ActionPort);
    }
    Ok(Action::OutputCut(to, bytes))
}

/// Reads `output` to the port whose number is in bits of a field. The maximum length for a controller is not kept.
pub(super) fn read_field(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let packed = body.u16()?;
    let field = oxm::read_header(&mut body.part(4)?)?;
    body.skip(2)?;
    body.zeros(6, Failure::ActionNotZero)?;
    oxm::unpack(field, packed).map(Action::OutputField)
}

/// Reads the same action in the form with space for experimenters' fields.
pub(super) fn read_field_2(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let packed = body.u16()?;
    body.skip(2)?;
    let field = oxm::read_header(body)?;
    let length = body.len();
    body.zeros(length, Failure::ActionNotZero)?;
    oxm::unpack(field, packed).map(Action::OutputField)
}

/// Writes `output` to the port whose number is in bits of a field.
pub(super) fn write_field(writer: &mut Writer, bits: Subfield) {
    if oxm::is_long(bits.field) {
        return put_nicira(writer, nx::OUTPUT_REG2, |writer| {
            writer.u16(oxm::pack(bits)).u16(u16::MAX);
            oxm::write_bare(writer, bits.field, Prefer::Nxm);
        });
    }
    put_nicira(writer, nx::OUTPUT_REG, |writer| {
        writer.u16(oxm::pack(bits));
        oxm::write_bare(writer, bits.field, Prefer::Nxm);
        writer.u16(u16::MAX).zeros(6);
    });
}

/// Writes `output`.
pub(super) fn write(writer: &mut Writer, to: u16, bytes: u16, version: Version) {
    put(writer, standard::OUTPUT, |writer| {
        number::write(writer, version, to);
        writer.u16(bytes);
        if version != Version::V10 {
            writer.zeros(6);
        }
    });
}

/// Whether frames can go to a port.
fn is_destination(to: u16) -> bool {
    !matches!(to, port::FIRST_RESERVED..=port::UNSET | port::ANY)
}
