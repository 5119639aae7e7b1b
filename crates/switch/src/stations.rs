//! The reports of a running switch about its ports and learned stations, for people and programs.
use serde::Serialize;

use crate::PortId;
use crate::View;
use crate::control::Control;
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
        self.control.attachments.common.tables.stations().into_iter().map(move |station| StationReport {
            port: self.control.port_name(station.port).to_owned(),
            network: self.control.entries[usize::from(station.port.0)].forwarding.options.network.clone(),
            vlan: station.vlan,
            address: station.address.to_string(),
            age_seconds: station.age_seconds,
        })
    }

    /// Forgets the stations of a network, or of all: each is learned again from its next frame.
    pub fn forget_stations(&self, network: Option<&str>) {
        self.control.attachments.common.tables.flush_all(network);
    }
}
