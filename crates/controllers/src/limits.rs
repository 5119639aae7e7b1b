//! What a connection is told at its beginning, and the most that controllers can make a switch hold.

use std::time::Duration;

use openflow::Version;

/// What counts for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The versions that are offered.
    pub versions: Vec<Version>,
    /// The switch asks for an echo after so much silence, and ends the connection after as much again.
    pub probe_interval: Option<Duration>,
    /// A connection of the management socket: it gets no packets and no news before it has set a length for packets that
    /// no flow matches (SET_CONFIG).
    pub service: bool,
    /// Packets for this controller each second, and how many may come at once. The rest is dropped.
    pub packets: Option<(u32, u32)>,
}

impl Settings {
    /// A connection of the management socket.
    pub fn service() -> Self {
        Self { versions: Version::ALL.to_vec(), probe_interval: None, service: true, packets: None }
    }

    /// A connection with a controller, with Open vSwitch's defaults.
    pub fn controller() -> Self {
        let probe_interval = Some(Duration::from_secs(5));
        Self { versions: Version::ALL.to_vec(), probe_interval, service: false, packets: None }
    }
}

/// The most that controllers can make a switch hold. A change of the switch itself has the switch's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections.
    pub connections: usize,
    /// Bytes to be sent of one connection from which on nothing more is read from it.
    pub paused_bytes: usize,
    /// Bytes to be sent of one connection at which it ends: its controller does not read.
    pub unsent_bytes: usize,
    /// Open bundles of one connection.
    pub bundles: usize,
    /// Bytes of messages in all open bundles of all connections.
    pub bundle_bytes: usize,
    /// A bundle without a message for so long is discarded.
    pub bundle_idle: Duration,
    /// Multipart requests of one connection whose last part has not come.
    pub requests: usize,
    /// Bytes of these requests.
    pub request_bytes: usize,
    /// A request whose next part has not come for so long is refused.
    pub request_idle: Duration,
    /// Flow monitors of one connection.
    pub monitors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            paused_bytes: 256 << 10,
            unsent_bytes: 16 << 20,
            bundles: 16,
            bundle_bytes: 256 << 20,
            bundle_idle: Duration::from_secs(10),
            requests: 4,
            request_bytes: 1 << 20,
            request_idle: Duration::from_secs(10),
            monitors: 64,
        }
    }
}
