//! A filter as the commands that make it, for another process that continues the device.
use super::{AddressList, MAX_FILTER_ADDRESSES, ReceiveFilter};
use crate::{Features, NetFeatures};

/// Classes of commands (VIRTIO 1.3 §5.1.6.5).
const RX: u8 = 0;
const MAC: u8 = 1;
const VLAN: u8 = 2;

impl ReceiveFilter {
    /// Commands, as the driver would send them, that bring a new filter to the state of this one.
    pub fn commands(&self, negotiated: Features) -> Vec<Vec<u8>> {
        let modes = [
            (NetFeatures::CTRL_RX, self.promiscuous),
            (NetFeatures::CTRL_RX, self.all_multicast),
            (NetFeatures::CTRL_RX_EXTRA, self.all_unicast),
            (NetFeatures::CTRL_RX_EXTRA, self.no_multicast),
            (NetFeatures::CTRL_RX_EXTRA, self.no_unicast),
            (NetFeatures::CTRL_RX_EXTRA, self.no_broadcast),
        ];
        let modes = (0..).zip(modes).filter(|(_, (needs, _))| negotiated.contains(*needs));
        let mut commands: Vec<Vec<u8>> = modes.map(|(mode, (_, on))| vec![RX, mode, on.into()]).collect();
        if negotiated.contains(NetFeatures::CTRL_RX) {
            commands.push([&[MAC, 0][..], &self.unicast.table(), &self.multicast.table()].concat());
        }
        if negotiated.contains(NetFeatures::CTRL_MAC_ADDR) {
            commands.push([&[MAC, 1][..], &self.own.0].concat());
        }
        if negotiated.contains(NetFeatures::CTRL_VLAN) {
            let passes = |id: &u16| self.vlans[usize::from(id / 64)] & 1 << (id % 64) != 0;
            commands.extend((0..4096).filter(passes).map(|id| [&[VLAN, 0][..], &id.to_le_bytes()].concat()));
        }
        commands
    }
}

impl AddressList {
    /// A list that was too long is one that is too long again.
    fn table(&self) -> Vec<u8> {
        let addresses = match self.overflown {
            true => vec![[2, 0, 0, 0, 0, 0]; MAX_FILTER_ADDRESSES + 1],
            false => self.addresses[..self.len].iter().map(|address| address.0).collect(),
        };
        [&(addresses.len() as u32).to_le_bytes()[..], &addresses.concat()].concat()
    }
}
