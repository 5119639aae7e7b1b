//! Ports of a switch, as policies know them.
use virtio::net::MacAddress;

/// A port of the switch.
#[derive(Clone, Debug)]
pub struct Port {
    /// The name.
    pub name: String,
    /// The OpenFlow number.
    pub number: u16,
    /// The only addresses that its frames may come from; any address if empty.
    pub addresses: Vec<MacAddress>,
}
