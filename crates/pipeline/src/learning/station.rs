//! The table's data about a station.
use virtio::net::MacAddress;

use crate::PortId;

/// A station that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Station {
    /// The station's VLAN; 0 for frames without a tag.
    pub vlan: u16,
    /// Its address.
    pub address: MacAddress,
    /// The port behind which the station was last seen.
    pub port: PortId,
    /// The seconds since the station was last seen.
    pub age_seconds: u32,
}
