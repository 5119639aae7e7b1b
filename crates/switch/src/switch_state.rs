//! A switch on its way from one process to another.
use std::collections::BTreeMap;

use port::PortState;
use virtio::net::MacAddress;

/// A switch that stands still.
#[derive(Debug, Default)]
pub struct SwitchState {
    /// Ports by name. Those whose kind cannot go on elsewhere have ended and are not among them.
    pub ports: BTreeMap<String, PortState>,
    /// Who was behind which port, by VLAN.
    pub stations: Vec<(u16, MacAddress, String)>,
}
