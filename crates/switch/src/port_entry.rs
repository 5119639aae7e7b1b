//! A port in its place in the switch.
use port::Port;

use crate::mirror::Mirror;
use crate::setup::{Forwarding, NamedPort};
use crate::snapshot::Link;

pub(crate) struct PortEntry {
    pub name: String,
    /// `None` after it panicked or was removed.
    pub port: Option<Box<dyn Port>>,
    /// Started, and not ended.
    pub runs: bool,
    /// Another port may have its place.
    pub removed: bool,
    /// Another process has what it has, or is about to: it ends without a word to its peer.
    pub elsewhere: bool,
    /// As it was when its control side was called last.
    pub link: Link,
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
            forwarding,
        }
    }
}

impl PortEntry {
    pub fn describe(&self) -> String {
        self.port.as_ref().map_or_else(|| "panicked".to_owned(), |port| port.describe())
    }

    /// Whether it is no port of the user's.
    pub fn is_mirror(&self) -> bool {
        let port = self.port.as_deref().map(|port| port as &dyn std::any::Any);
        port.is_some_and(|port| port.is::<Mirror>())
    }
}
