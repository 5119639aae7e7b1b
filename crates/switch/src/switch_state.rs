//! The state of a switch that is handed over to another process.
use std::collections::BTreeMap;
use std::sync::Arc;

use flow_tables::Tables;
use port::{Port, PortState};
use virtio::net::MacAddress;

use crate::PortOptions;

/// A switch that has stopped for a hand-over.
#[derive(Debug, Default)]
pub struct SwitchState {
    /// Ports by name. Ports of a kind that cannot be handed over have ended and are not included.
    pub ports: BTreeMap<String, PortState>,
    /// The learned addresses: VLAN, address and port.
    pub stations: Vec<(u16, MacAddress, String)>,
    /// Tracked connections.
    pub connections: SavedConnections,
}

/// Tracked connections as bytes.
#[derive(Debug, Default)]
pub struct SavedConnections {
    /// The connections, in a form that only the crate `conntrack` reads.
    pub bytes: Vec<u8>,
    /// The names of the ports by their numbers in `bytes`.
    pub ports: BTreeMap<u16, String>,
}

/// The state of another switch, which stands still, and what this switch adds to its own ports to take it over.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The other switch's state.
    pub state: SwitchState,
    /// Ports of the other switch that this one was not started with.
    pub added: Vec<AddedPort>,
    /// The flow tables of networks.
    pub tables: BTreeMap<String, Arc<Tables>>,
}

/// A port that is added while another switch is taken over.
pub struct AddedPort {
    /// The port's name.
    pub name: String,
    /// The port, not started.
    pub port: Box<dyn Port>,
    /// The port's options.
    pub options: PortOptions,
}

impl std::fmt::Debug for AddedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddedPort").field("name", &self.name).finish_non_exhaustive()
    }
}
