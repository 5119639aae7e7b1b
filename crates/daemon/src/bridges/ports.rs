//! The ports of a bridge, as the switch has them and as OpenFlow shows them.
use std::collections::BTreeMap;
use std::time::Duration;

use bridge::{Bridge, BridgePort, PortCounts};
use controllers::News;
use switch::{NumberedPort, PortSnapshot, View};

/// The ports of a bridge.
pub struct Ports {
    /// `None` for all networks.
    network: Option<String>,
    datapath_id: u64,
    known: BTreeMap<u16, NumberedPort>,
}

impl Ports {
    /// No ports yet of this network.
    pub fn new(network: Option<String>, datapath_id: u64) -> Self {
        Ports { network, datapath_id, known: BTreeMap::new() }
    }

    /// The network; `None` for all networks.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Whether a port has an option for VLANs.
    pub fn any_vlans(&self) -> bool {
        self.known.values().any(|port| port.has_vlans)
    }

    /// The numbers of the ports, or of those alone whose frames arrive, in ascending order.
    pub fn numbers(&self, arrive: bool) -> Vec<u16> {
        self.known.values().filter(|port| port.forwards || !arrive).map(|port| port.number).collect()
    }

    /// The number of the port with this name.
    pub fn number_of(&self, name: &str) -> Option<u16> {
        self.known.iter().find(|(_, port)| port.name == name).map(|(number, _)| *number)
    }

    /// An address for a port without one: locally administered, and unique on a bridge.
    fn address(&self, number: u16) -> [u8; 6] {
        let [.., a, b, c] = self.datapath_id.to_be_bytes();
        let [high, low] = number.to_be_bytes();
        [0x02, a, b, c, high, low]
    }

    /// Adds, changes and removes the ports of the bridge until they are those of the switch.
    pub fn follow(&mut self, switch: &View<'_>, bridge: &mut Bridge, now: Duration, news: &mut News) {
        let own = |port: &NumberedPort| self.network.as_ref().is_none_or(|network| *network == port.network);
        let all = switch.numbered_ports().into_iter().filter(own);
        let present: BTreeMap<u16, NumberedPort> = all.map(|port| (port.number, port)).collect();
        for number in self.known.keys().filter(|number| !present.contains_key(number)) {
            bridge.remove_port(*number, news);
        }
        for (number, port) in &present {
            let before = self.known.get(number);
            if before == Some(port) {
                continue;
            }
            if before.is_some_and(|before| before.name != port.name) {
                bridge.remove_port(*number, news);
            }
            let made = BridgePort::new(&port.name, self.address(*number), now);
            let port = BridgePort { link: port.is_up, forwards: port.forwards, ..made };
            bridge.set_port(*number, port, news);
        }
        self.known = present;
    }

    /// Gives the bridge the present counts of its ports.
    pub fn count(&self, switch: &View<'_>, bridge: &mut Bridge) {
        let snapshot = switch.snapshot();
        for port in &snapshot.ports {
            if let Some(number) = self.number_of(&port.name) {
                bridge.set_counts(number, counts(port));
            }
        }
    }
}

/// The counts of a port. Frames from the guest are received frames of the port.
fn counts(port: &PortSnapshot) -> PortCounts {
    let (mut packets, mut bytes, mut dropped) = ((0, 0), (0, 0), (0, 0));
    for queue in &port.queues {
        let drops = queue.dropped();
        match queue.from_guest {
            true => {
                packets.0 += queue.frames;
                bytes.0 += queue.bytes;
                dropped.0 += drops;
            }
            false => {
                packets.1 += queue.frames;
                bytes.1 += queue.bytes;
                dropped.1 += drops;
            }
        }
    }
    PortCounts { packets: Some(packets), bytes: Some(bytes), dropped: Some(dropped) }
}
