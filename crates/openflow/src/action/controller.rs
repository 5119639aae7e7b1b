//! `controller` (ovs-actions(7)).

use flow::{Action, Controller, Reason, port};

use super::output;
use super::wire::{nx, put_nicira};
use crate::bytes::{Reader, Writer};
use crate::property::{self, Property};
use crate::{Failure, Version};

/// Properties of the newer form.
mod kind {
    pub const MAX_BYTES: u16 = 0;
    pub const ID: u16 = 1;
    pub const REASON: u16 = 2;
    pub const USERDATA: u16 = 3;
    pub const PAUSE: u16 = 4;
    pub const METER: u16 = 5;
}

/// Reasons in the order of their numbers (OpenFlow 1.5 §7.4.1).
const REASONS: [Reason; 6] = [
    Reason::NoMatch,
    Reason::Action,
    Reason::InvalidTtl,
    Reason::ActionSet,
    Reason::Group,
    Reason::PacketOut,
];

/// The reason with this number.
pub(crate) fn reason(number: u8) -> Option<Reason> {
    REASONS.get(usize::from(number)).copied()
}

/// The number of a reason for which a controller gets a packet (OpenFlow 1.5 §7.4.1).
pub fn reason_number(reason: Reason) -> u8 {
    REASONS.iter().position(|other| *other == reason).unwrap_or_default() as u8 // below six
}

/// Reads the older form.
pub(super) fn read(body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (max_bytes, id, number) = (body.u16()?, body.u16()?, body.u8()?);
    body.zeros(1, Failure::ActionNotZero)?;
    let reason = reason(number).ok_or(Failure::ActionArgument)?;
    Ok(Action::Controller(Box::new(Controller { max_bytes, id, reason, ..Controller::default() })))
}

/// Reads the newer form, a list of properties.
pub(super) fn read_2(body: &mut Reader<'_>) -> Result<Action, Failure> {
    body.zeros(6, Failure::ActionNotZero)?;
    let mut to = Controller::default();
    for mut property in Property::all(body)? {
        match property.kind {
            kind::MAX_BYTES => to.max_bytes = property.u16()?,
            kind::ID => to.id = property.u16()?,
            kind::REASON => to.reason = reason(property.u8()?).ok_or(Failure::ActionArgument)?,
            kind::USERDATA => to.userdata = property.value.rest().to_vec(),
            kind::PAUSE => to.pause = true,
            kind::METER => to.meter = property.u32()?,
            _ => return Err(Failure::PropertyType),
        }
    }
    Ok(Action::Controller(Box::new(to)))
}

fn write_2(writer: &mut Writer, to: &Controller) {
    put_nicira(writer, nx::CONTROLLER2, |writer| {
        writer.zeros(6);
        if to.max_bytes != u16::MAX {
            property::write_u16(writer, kind::MAX_BYTES, to.max_bytes);
        }
        if to.id != 0 {
            property::write_u16(writer, kind::ID, to.id);
        }
        if to.reason != Reason::Action {
            property::write_u8(writer, kind::REASON, reason_number(to.reason));
        }
        if !to.userdata.is_empty() {
            property::write_bytes(writer, kind::USERDATA, &to.userdata);
        }
        if to.pause {
            property::write_bytes(writer, kind::PAUSE, &[]);
        }
        if to.meter != 0 {
            property::write_u32(writer, kind::METER, to.meter);
        }
    });
}

/// Writes the oldest form that can express the action: `output`, then the older form, then the newer one.
pub(super) fn write(writer: &mut Writer, to: &Controller, version: Version) {
    let plain = to.id == 0 && to.reason == Reason::Action;
    if !to.userdata.is_empty() || to.pause || to.meter != 0 {
        write_2(writer, to);
    } else if plain {
        output::write(writer, port::CONTROLLER, to.max_bytes, version);
    } else {
        put_nicira(writer, nx::CONTROLLER, |writer| {
            writer.u16(to.max_bytes).u16(to.id).u8(reason_number(to.reason)).zeros(1);
        });
    }
}
