//! What the table says of a station.
use virtio::net::MacAddress;

use crate::PortId;

/// A station that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Station {
    /// Its VLAN; 0 is frames without tag.
    pub vlan: u16,
    /// Its address.
    pub address: MacAddress,
    /// The port behind which it was seen.
    pub port: PortId,
    /// Seconds since it was seen.
    pub age_seconds: u32,
}
