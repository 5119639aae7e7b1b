//! The reports of a running switch about its ports and learned stations, for people and programs.
use serde::Serialize;
use virtio::net::MacAddress;

use crate::PortId;
use crate::View;
use crate::control::Control;
use crate::error::ChangeError;
use crate::port_entry::PortEntry;

/// A station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StationReport {
    /// The port behind which the station was last seen.
    pub port: String,
    /// The network of that port.
    pub network: String,
    /// The station's VLAN; 0 for frames without a tag.
    pub vlan: u16,
    /// Its address.
    pub address: String,
    /// The seconds since the station was last seen.
    pub age_seconds: u32,
    /// Whether the station is held behind its port by request.
    pub is_static: bool,
}

impl Control {
    /// Each port's description of itself, by the port's number.
    pub(crate) fn descriptions(&self) -> Vec<String> {
        self.entries.iter().map(PortEntry::describe).collect()
    }

    /// The name of a port that is there or was.
    pub(crate) fn port_name(&self, port: PortId) -> &str {
        &self.entries[usize::from(port.0)].name
    }
}

impl View<'_> {
    /// The stations that the switch knows, those that are about to be forgotten too. Workers do not notice.
    pub fn stations(&self) -> impl Iterator<Item = StationReport> {
        let tables = &self.control.attachments.common.tables;
        tables.stations().into_iter().map(move |station| {
            let network = &self.control.entries[usize::from(station.port.0)].forwarding.options.network;
            StationReport {
                port: self.control.port_name(station.port).to_owned(),
                network: network.clone(),
                vlan: station.vlan,
                address: station.address.to_string(),
                age_seconds: station.age_seconds,
                is_static: tables.is_held(network, (station.vlan, station.address)),
            }
        })
    }

    /// Holds a station behind a port, whatever other frames say: it does not age, and frames from other ports that claim
    /// its address are dropped. VLAN 0 stands for frames without tag.
    ///
    /// # Errors
    /// No port has this name, the port learns no addresses, or too many stations are held in its network.
    pub fn hold_station(&mut self, port: &str, vlan: u16, address: MacAddress) -> Result<(), ChangeError> {
        self.control.hold_station(port, (vlan, address))
    }

    /// Releases a held station and forgets its port: the switch learns the station again from its next frame.
    pub fn release_station(&mut self, network: &str, vlan: u16, address: MacAddress) {
        self.control.release_station(network, (vlan, address));
    }

    /// Forgets the stations of a network, or of all: each is learned again from its next frame.
    pub fn forget_stations(&self, network: Option<&str>) {
        self.control.attachments.common.tables.flush_all(network);
    }
}
