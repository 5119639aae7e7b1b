//! The state of a switch that is handed over to another process.
use std::collections::BTreeMap;

use port::PortState;
use virtio::net::MacAddress;

/// A switch that has stopped for a hand-over.
#[derive(Debug, Default)]
pub struct SwitchState {
    /// Ports by name. Ports of a kind that cannot be handed over have ended and are not included.
    pub ports: BTreeMap<String, PortState>,
    /// The learned addresses: VLAN, address and port.
    pub stations: Vec<(u16, MacAddress, String)>,
}
