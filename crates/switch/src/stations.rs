//! The stations that a running switch knows, for people and programs.
use serde::Serialize;

use crate::View;
use crate::control::Control;
use crate::PortId;

/// A station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StationReport {
    /// The port behind which it was seen.
    pub port: String,
    /// Its VLAN; 0 is frames without tag.
    pub vlan: u16,
    /// Its address.
    pub address: String,
    /// Seconds since it was seen.
    pub age_seconds: u32,
}

impl Control {
    /// The name of a port that is there or was.
    pub(crate) fn port_name(&self, port: PortId) -> &str {
        &self.entries[usize::from(port.0)].name
    }
}

impl View<'_> {
    /// The stations that the switch knows, those that are about to be forgotten too. Workers do not notice.
    pub fn stations(&self) -> impl Iterator<Item = StationReport> {
        self.control.attachments.common.table.stations().map(move |station| StationReport {
            port: self.control.port_name(station.port).to_owned(),
            vlan: station.vlan,
            address: station.address.to_string(),
            age_seconds: station.age_seconds,
        })
    }

    /// Forgets all stations: each is learned again from its next frame.
    pub fn forget_stations(&self) {
        self.control.attachments.common.table.flush_all();
    }
}
