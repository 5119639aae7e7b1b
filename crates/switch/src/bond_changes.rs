//! Bonds of a running switch: carriers, load, and announcements.
use frame::FrameBatch;
use linux::interface::Interface;
use pipeline::{PortVlans, Station};

use crate::announce;
use crate::bonds::{Bond, Bonds};
use crate::control::Control;

/// The most stations that are announced when another port of a bond becomes active, for each bond.
const MOST_ANNOUNCED: usize = 256;

impl Control {
    /// Announces the stations of the network on the port of a bond that has become active: the other switch has to
    /// send their frames there from now on. Stations behind the bond itself are not announced.
    pub(crate) fn announce_on_bonds(&self, before: &Bonds) {
        for bond in self.bonds.changed(before) {
            let is_meant = |station: &Station| {
                station.port != bond.home()
                    && self.entries[usize::from(station.port.0)].forwarding.options.network == bond.network()
            };
            let stations = self.attachments.common.tables.stations().into_iter().filter(is_meant);
            for station in stations.take(MOST_ANNOUNCED) {
                let vlans = &self.entries[usize::from(station.port.0)].forwarding.options.vlans;
                let frame = announce::from_port(&station, &PortVlans::new(vlans));
                // If there is no memory for a frame, the other switch learns from the station's next frame.
                let Some(Ok(frame)) = frame.map(|frame| FrameBatch::of_frame(&frame)) else { continue };
                // If the station is behind another bond, the frame comes from that bond's active port.
                let from = self.bonds.of(station.port).and_then(Bond::active).unwrap_or(station.port);
                let worker = self.attachments.plan.source(from, 0);
                self.attachments.pool.flood(worker, from, frame);
            }
        }
    }

    /// Looks, once a second, whether the interfaces of bonds have a carrier, and whether frames of ports arrive.
    fn look_at_carriers(&mut self, second: u32) {
        if std::mem::replace(&mut self.carriers_seen, second) == second {
            return;
        }
        let mut changed = false;
        for entry in &mut self.entries {
            let forwards = entry.port.as_ref().is_none_or(|port| port.forwards());
            changed |= std::mem::replace(&mut entry.forwarding.forwards, forwards) != forwards;
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.forwarding.options.bond.is_some()) {
            let Some(name) = entry.port.as_ref().and_then(|port| port.interface()) else { continue };
            let has_carrier = Interface::named(name).and_then(|of| of.is_running()).unwrap_or(false);
            changed |= std::mem::replace(&mut entry.has_carrier, has_carrier) != has_carrier;
        }
        if changed {
            self.update_programs();
        }
    }

    /// Looks at the carriers of bonds and the sessions of tunnels once a second, and moves load between the ports of bonds
    /// once in the interval of each.
    pub(crate) fn look_at_bonds(&mut self, second: u32) {
        self.look_at_carriers(second);
        if self.bonds.rebalance(second) {
            self.update_programs();
        }
    }
}
