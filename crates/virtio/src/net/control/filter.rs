//! Which frames a driver wants.
mod commands;

use super::{FilterCommand, ReceiveMode, VlanId};
use crate::net::MacAddress;
use crate::{Features, NetFeatures};

/// The most addresses of each list. A longer list is not stored: all frames of its kind pass (§5.1.6.5.2 leaves it to
/// the device; QEMU does the same).
pub const MAX_FILTER_ADDRESSES: usize = 64;

/// The receive filter that commands of the control queue have set: it decides which frames go to the driver.
///
/// Never allocates; [`ReceiveFilter::accepts`] is for the packet path.
#[derive(Clone, Debug)]
pub struct ReceiveFilter {
    own: MacAddress,
    promiscuous: bool,
    all_multicast: bool,
    all_unicast: bool,
    no_multicast: bool,
    no_unicast: bool,
    no_broadcast: bool,
    unicast: AddressList,
    multicast: AddressList,
    /// One bit for each VLAN.
    vlans: [u64; 64],
}

/// The addresses that pass, or all of them if there were too many.
#[derive(Clone, Debug)]
struct AddressList {
    addresses: [MacAddress; MAX_FILTER_ADDRESSES],
    len: usize,
    overflown: bool,
}

impl AddressList {
    const EMPTY: AddressList =
        AddressList { addresses: [MacAddress([0; 6]); MAX_FILTER_ADDRESSES], len: 0, overflown: false };

    fn set(&mut self, addresses: &[[u8; 6]]) {
        self.overflown = addresses.len() > MAX_FILTER_ADDRESSES;
        self.len = if self.overflown { 0 } else { addresses.len() };
        for (entry, address) in self.addresses.iter_mut().zip(&addresses[..self.len]) {
            *entry = MacAddress(*address);
        }
    }

    #[inline]
    fn has(&self, address: MacAddress) -> bool {
        self.overflown || self.addresses[..self.len].contains(&address)
    }
}

impl ReceiveFilter {
    /// The filter after reset, for a device with this address. The driver gets all frames until it sets a filter:
    /// promiscuous mode is on, as in QEMU, so that a driver without the control queue loses nothing.
    pub fn new(own: MacAddress, negotiated: Features) -> Self {
        let all_vlans = !negotiated.contains(NetFeatures::CTRL_VLAN);
        ReceiveFilter {
            own,
            promiscuous: true,
            all_multicast: false,
            all_unicast: false,
            no_multicast: false,
            no_unicast: false,
            no_broadcast: false,
            unicast: AddressList::EMPTY,
            multicast: AddressList::EMPTY,
            vlans: [if all_vlans { u64::MAX } else { 0 }; 64],
        }
    }

    /// Carries out a command.
    pub fn apply(&mut self, command: &FilterCommand) {
        match *command {
            FilterCommand::Mode(mode, on) => *self.mode(mode) = on,
            FilterCommand::Addresses { unicast, multicast } => {
                self.unicast.set(unicast);
                self.multicast.set(multicast);
            }
            FilterCommand::Own(address) => self.own = address,
            FilterCommand::AddVlan(id) => self.vlans[word(id)] |= bit(id),
            FilterCommand::RemoveVlan(id) => self.vlans[word(id)] &= !bit(id),
        }
    }

    fn mode(&mut self, mode: ReceiveMode) -> &mut bool {
        match mode {
            ReceiveMode::Promiscuous => &mut self.promiscuous,
            ReceiveMode::AllMulticast => &mut self.all_multicast,
            ReceiveMode::AllUnicast => &mut self.all_unicast,
            ReceiveMode::NoMulticast => &mut self.no_multicast,
            ReceiveMode::NoUnicast => &mut self.no_unicast,
            ReceiveMode::NoBroadcast => &mut self.no_broadcast,
        }
    }

    /// The device's address as the driver last set it.
    pub fn own_address(&self) -> MacAddress {
        self.own
    }

    /// Whether a frame that begins with `head` goes to the driver. Sixteen bytes suffice. A frame without a
    /// destination goes only to a promiscuous driver.
    #[inline]
    pub fn accepts(&self, head: &[u8]) -> bool {
        // "SHOULD receive all incoming packets" (§5.1.6.5.1.1), other VLANs' included.
        self.promiscuous || self.accepts_filtered(head)
    }

    fn accepts_filtered(&self, head: &[u8]) -> bool {
        if let Some([0x81, 0x00, high, low]) = head.get(12..16) {
            let id = VlanId::of_tag(u16::from_be_bytes([*high, *low]));
            // Number 0 is a priority without a VLAN (IEEE 802.1Q §9.6).
            if id.get() != 0 && self.vlans[word(id)] & bit(id) == 0 {
                return false;
            }
        }
        let Some(destination) = head.first_chunk().copied().map(MacAddress) else { return false };
        if destination == MacAddress::BROADCAST {
            !self.no_broadcast
        } else if destination.is_group() {
            !self.no_multicast && (self.all_multicast || self.multicast.has(destination))
        } else {
            !self.no_unicast && (self.all_unicast || destination == self.own || self.unicast.has(destination))
        }
    }
}

fn word(id: VlanId) -> usize {
    usize::from(id.get() / 64)
}

fn bit(id: VlanId) -> u64 {
    1 << (id.get() % 64)
}

#[cfg(test)]
mod tests;
