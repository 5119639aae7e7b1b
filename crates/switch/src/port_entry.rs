//! A port in the switch's list.
use port::Port;

use crate::mirror::Mirror;
use crate::setup::{Forwarding, NamedPort};
use crate::snapshot::Link;

pub(crate) struct PortEntry {
    pub name: String,
    /// The control side of the port; `None` after it panicked or was removed.
    pub port: Option<Box<dyn Port>>,
    /// The port was started and has not ended.
    pub runs: bool,
    /// The port was removed; another port may take its index.
    pub removed: bool,
    /// Another process has the port's state, or is about to have it. The port then ends without notifying its
    /// peer.
    pub elsewhere: bool,
    /// The state of the link at the last call of the control side.
    pub link: Link,
    /// Whether the system's interface has a carrier, as far as it was asked: only for ports of bonds.
    pub has_carrier: bool,
    pub forwarding: Forwarding,
}

impl From<NamedPort> for PortEntry {
    fn from(port: NamedPort) -> Self {
        let NamedPort { name, port, forwarding } = port;
        PortEntry {
            name,
            port: Some(port),
            runs: false,
            removed: false,
            elsewhere: false,
            link: Link::default(),
            has_carrier: true,
            forwarding,
        }
    }
}

impl PortEntry {
    pub fn describe(&self) -> String {
        self.port.as_ref().map_or_else(|| "panicked".to_owned(), |port| port.describe())
    }

    /// Whether the port is a mirror, which the user did not add.
    pub fn is_mirror(&self) -> bool {
        let port = self.port.as_deref().map(|port| port as &dyn std::any::Any);
        port.is_some_and(|port| port.is::<Mirror>())
    }
}
