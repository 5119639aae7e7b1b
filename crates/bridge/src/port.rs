//! A port of a bridge, and its description for controllers.

use std::time::Duration;

use openflow::{Ethernet, Port, PortStatistics};

use crate::time::age;

const DOWN: u32 = 1;
/// Bits of a port's state: no link, and frames go out.
const LINK_DOWN: u32 = 1;
const LIVE: u32 = 4;

/// The counts of a port; `None` for a count that the port does not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// The numbers of frames received and sent.
    pub packets: Option<(u64, u64)>,
    /// The numbers of bytes received and sent.
    pub bytes: Option<(u64, u64)>,
    /// The number of frames that were received and dropped, and the number of frames that could not be sent.
    pub dropped: Option<(u64, u64)>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// The port's name. OpenFlow reports the first 15 bytes.
    pub name: String,
    /// The port's MAC address.
    pub address: [u8; 6],
    /// Whether the port has a link.
    pub link: bool,
    /// Whether frames arrive at the other end of the link, as far as the port knows.
    pub forwards: bool,
    /// The bits of the port's configuration, as in OpenFlow 1.5 §7.2.1.
    pub config: u32,
    /// The time at which the port was added.
    pub since: Duration,
    /// The port's counts.
    pub counts: PortCounts,
}

impl BridgePort {
    /// A port with a link and without counts, which was added at `since`.
    pub fn new(name: &str, address: [u8; 6], since: Duration) -> Self {
        let (name, counts) = (name.to_owned(), PortCounts::default());
        Self { name, address, link: true, forwards: true, config: 0, since, counts }
    }

    /// The description of the port in OpenFlow.
    pub(crate) fn described(&self, number: u16) -> Port {
        let mut name = [0; 16];
        let length = self.name.len().min(name.len() - 1); // a zero ends it
        name[..length].copy_from_slice(&self.name.as_bytes()[..length]);
        Port {
            number,
            address: self.address,
            name,
            config: self.config,
            state: match self.link && self.config & DOWN == 0 {
                true if self.forwards => LIVE,
                true => 0,
                false => LINK_DOWN,
            },
            ethernet: Some(Ethernet::default()),
            properties: Vec::new(),
        }
    }

    /// The port's counts in OpenFlow. A count that the port does not keep is all ones.
    pub(crate) fn statistics(&self, number: u16, now: Duration) -> PortStatistics {
        let unknown = (u64::MAX, u64::MAX);
        let [packets, bytes, dropped] =
            [self.counts.packets, self.counts.bytes, self.counts.dropped].map(|pair| pair.unwrap_or(unknown));
        PortStatistics {
            port: number,
            duration: Some(age(now, self.since)),
            counts: [packets.0, packets.1, bytes.0, bytes.1, dropped.0, dropped.1, u64::MAX, u64::MAX],
            ethernet: Some([u64::MAX; 4]),
            properties: Vec::new(),
        }
    }
}
