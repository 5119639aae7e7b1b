//! The notifications that a controller gets (OpenFlow 1.5 §7.3.10; topics/design of Open vSwitch).

use openflow::{Async, Failure, Role, Version};

/// Kinds of notification. The value is half the number of the kind's masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PacketIn,
    PortStatus,
    FlowRemoved,
}

const KINDS: usize = 6;
/// Reasons that a version knows, for each kind: packets, ports, flows, roles, tables, forwarded requests.
const KNOWN_14: [u32; KINDS] = [0x3f, 0x7, 0x3f, 0x7, 0x18, 0x3];
const KNOWN_13: [u32; KINDS] = [0x7, 0x7, 0xf, 0, 0, 0];
const KNOWN_10: [u32; KINDS] = [0x7, 0x7, 0x7, 0, 0, 0];
/// Packets whose time to live ended are sent only to a controller that requests them.
const INVALID_TTL: u32 = 1 << 2;

/// Masks of the reasons for notifications, by role: one set for primary and equal, one for secondary.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    primary: [u32; KINDS],
    secondary: [u32; KINDS],
}

fn known(version: Version) -> [u32; KINDS] {
    match version {
        Version::V10 => KNOWN_10,
        Version::V13 => KNOWN_13,
        Version::V14 | Version::V15 => KNOWN_14,
    }
}

impl Telling {
    /// The masks of a controller that has not set any.
    pub fn new(version: Version) -> Self {
        let mut primary = [0; KINDS];
        // Older versions have fewer reasons for packets; each newer reason is sent as one of these.
        primary[0] = KNOWN_14[0] & !INVALID_TTL;
        primary[1..3].copy_from_slice(&known(version)[1..3]);
        let mut secondary = [0; KINDS];
        secondary[1] = primary[1];
        Self { primary, secondary }
    }

    /// Sets the given masks. Other masks stay unchanged.
    pub fn set(&mut self, masks: &Async, version: Version) -> Result<(), Failure> {
        let known = known(version);
        let mut next = self.clone();
        for (number, mask) in &masks.masks {
            let kind = usize::from(number / 2);
            let place = match number % 2 {
                0 => next.secondary.get_mut(kind),
                _ => next.primary.get_mut(kind),
            };
            let (Some(place), Some(known)) = (place, known.get(kind)) else {
                return Err(Failure::AsyncInvalid);
            };
            if mask & !known != 0 {
                return Err(Failure::AsyncUnsupported);
            }
            *place = *mask;
        }
        *self = next;
        Ok(())
    }

    /// The masks as a message, with the reasons of the version.
    pub fn masks(&self, version: Version) -> Async {
        let mut masks = Vec::new();
        for (kind, known) in (0..).zip(known(version)) {
            let place = usize::from(kind);
            masks.push((2 * kind, self.secondary[place] & known));
            masks.push((2 * kind + 1, self.primary[place] & known));
        }
        Async { masks }
    }

    /// Requests or refuses packets whose time to live ended (`OFPC_INVALID_TTL_TO_CONTROLLER` of OpenFlow 1.0 to 1.2).
    pub fn set_invalid_ttl(&mut self, is_asked: bool) {
        match is_asked {
            true => self.primary[Kind::PacketIn as usize] |= INVALID_TTL,
            false => self.primary[Kind::PacketIn as usize] &= !INVALID_TTL,
        }
    }

    /// Whether the controller has requested packets whose time to live ended.
    pub fn has_invalid_ttl(&self) -> bool {
        self.primary[Kind::PacketIn as usize] & INVALID_TTL != 0
    }

    /// Whether a controller with this role gets notifications with this reason.
    pub fn has(&self, kind: Kind, reason: u8, role: Role) -> bool {
        let masks = if role == Role::Secondary { &self.secondary } else { &self.primary };
        masks[kind as usize].checked_shr(reason.into()).is_some_and(|mask| mask & 1 != 0)
    }
}
