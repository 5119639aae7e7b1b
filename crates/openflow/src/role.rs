//! The roles of controllers, and the messages that a controller gets without a request (OpenFlow 1.5 §7.3.7, §7.3.8).

use crate::bytes::{Reader, Writer};
use crate::property::{self, Property};
use crate::{Failure, Version};

/// The role of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// No change; used to request the present role.
    NoChange,
    /// The controller may change everything, and so may others.
    Equal,
    /// The controller may change everything, and is the only one.
    Primary,
    /// The controller may only read.
    Secondary,
}

const ROLES: [Role; 4] = [Role::NoChange, Role::Equal, Role::Primary, Role::Secondary];

/// A role, in a request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// The number of the election; a request with an older number is refused. OpenFlow 1.0 has no such number.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let role = usize::try_from(reader.u32()?).ok().and_then(|number| ROLES.get(number).copied());
        reader.skip(4)?;
        Ok(Self { role: role.ok_or(Failure::BadRole)?, generation: reader.u64()? })
    }

    /// Nicira's message has no number for requesting the present role.
    pub(crate) fn read_nicira(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let number = usize::try_from(reader.u32()?).ok().and_then(|number| number.checked_add(1));
        let role = number.and_then(|number| ROLES.get(number).copied()).ok_or(Failure::BadRole)?;
        Ok(Self { role, generation: u64::MAX })
    }

    fn number(self) -> u32 {
        ROLES.iter().position(|role| *role == self.role).unwrap_or_default() as u32 // below four
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u32(self.number()).zeros(4).u64(self.generation);
    }

    pub(crate) fn write_nicira(self, writer: &mut Writer) {
        writer.u32(self.number().saturating_sub(1));
    }
}

/// The message that the role has changed (OpenFlow 1.5 §7.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoleStatus {
    /// The role.
    pub role: Role,
    /// The reason: 0 for another controller's request, 1 for the configuration.
    pub reason: u8,
    /// The election.
    pub generation: u64,
}

impl RoleStatus {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let role = usize::try_from(reader.u32()?).ok().and_then(|number| ROLES.get(number).copied());
        let reason = reader.u8()?;
        reader.skip(3)?;
        Ok(Self { role: role.ok_or(Failure::BadRole)?, reason, generation: reader.u64()? })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        let number = RoleMessage { role: self.role, generation: 0 }.number();
        writer.u32(number).u8(self.reason).zeros(3).u64(self.generation);
    }
}

/// The numbers of the masks for a secondary controller; the number for a primary one is one higher.
pub mod asynchronous {
    /// Packets for controllers.
    pub const PACKET_IN: u16 = 0;
    /// Ports that were added, removed or changed.
    pub const PORT_STATUS: u16 = 2;
    /// Flows that have ended.
    pub const FLOW_REMOVED: u16 = 4;
    /// The highest number of a mask, which is for forwarded requests.
    pub(super) const LAST: u16 = 11;
}

/// Masks of the reasons for which a controller gets messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Async {
    /// The number of a mask, and its bits: one for each reason.
    pub masks: Vec<(u16, u32)>,
}

/// Masks in the order of OpenFlow 1.3: for the primary and the secondary of each.
const ORDER_13: [u16; 6] = [
    asynchronous::PACKET_IN + 1,
    asynchronous::PACKET_IN,
    asynchronous::PORT_STATUS + 1,
    asynchronous::PORT_STATUS,
    asynchronous::FLOW_REMOVED + 1,
    asynchronous::FLOW_REMOVED,
];

impl Async {
    /// The bits of a mask.
    pub fn mask(&self, number: u16) -> Option<u32> {
        self.masks.iter().find(|(other, _)| *other == number).map(|(_, mask)| *mask)
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        if version < Version::V14 {
            let masks = ORDER_13.into_iter().map(|number| Ok((number, reader.u32()?)));
            return masks.collect::<Result<_, _>>().map(|masks| Self { masks });
        }
        let mut masks = Vec::new();
        for mut property in Property::all(reader)? {
            if property.kind > asynchronous::LAST {
                return Err(Failure::PropertyType);
            }
            masks.push((property.kind, property.u32()?));
        }
        Ok(Self { masks })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        if version < Version::V14 {
            return ORDER_13.into_iter().for_each(|number| {
                writer.u32(self.mask(number).unwrap_or_default());
            });
        }
        self.masks.iter().for_each(|(number, mask)| property::write_u32(writer, *number, *mask));
    }
}
