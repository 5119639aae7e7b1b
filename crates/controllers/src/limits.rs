//! The settings of a connection, and the limits on the memory that controllers can make a switch use.

use std::time::Duration;

use openflow::Version;

/// The settings of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The versions that are offered.
    pub versions: Vec<Version>,
    /// The time of silence after which the switch sends an echo request. After the same time again the connection ends.
    pub probe_interval: Option<Duration>,
    /// Whether this is a connection of the management socket. It gets no packets and no notifications before it has set
    /// the length of unmatched packets (SET_CONFIG).
    pub service: bool,
    /// The number of packets a second for this controller, and the burst size. Further packets are dropped.
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

/// Limits on the memory that controllers can make a switch use. Flows, groups and meters have limits of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The highest number of connections.
    pub connections: usize,
    /// The number of unsent bytes of one connection from which on no more bytes are read from it.
    pub paused_bytes: usize,
    /// The highest number of unsent bytes. A connection whose next message has no room ends: its controller does not read.
    pub unsent_bytes: usize,
    /// The highest number of open bundles of one connection.
    pub bundles: usize,
    /// The most bytes of messages in all open bundles of all connections.
    pub bundle_bytes: usize,
    /// The time without a message after which a bundle is discarded.
    pub bundle_idle: Duration,
    /// The highest number of multipart requests of one connection whose last part has not arrived.
    pub requests: usize,
    /// The most bytes of these requests.
    pub request_bytes: usize,
    /// The time without a next part after which such a request is refused.
    pub request_idle: Duration,
    /// The highest number of flow monitors of one connection.
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
