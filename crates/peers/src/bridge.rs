//! The kernel's own bridge, with TAPs plugged into it.

use std::path::Path;

use crate::Error;
use crate::netns::{Netns, TapQueues};

const NAME: &str = "bridge0";

/// A bridge in a network namespace of its own: it and all its TAPs go with this value, and with the process.
///
/// Nobody but the drivers of the TAPs says anything: no spanning tree, no multicast snooping, no IPv6
/// addresses that would be announced.
pub struct Bridge {
    namespace: Netns,
}

impl Bridge {
    /// A bridge without ports. Takes root.
    pub fn new() -> Result<Self, Error> {
        let bridge = Self { namespace: Netns::new()? };
        bridge.namespace.ip(&format!("link add {NAME} type bridge stp_state 0 mcast_snooping 0"))?;
        bridge.take_up(NAME)?;
        Ok(bridge)
    }

    /// One more port, a TAP of this name. It carries frames while somebody has it open.
    pub fn tap(&self, name: &str, queues: TapQueues) -> Result<(), Error> {
        self.namespace.tap(name, queues)?;
        self.namespace.ip(&format!("link set dev {name} master {NAME}"))?;
        self.take_up(name)
    }

    /// Gives a TAP an address that is not its driver's. DPDK writes the driver's own into the kernel's
    /// interface, and a bridge keeps frames to the addresses of its interfaces for itself.
    pub fn set_address(&self, tap: &str, address: &str) -> Result<(), Error> {
        self.namespace.ip(&format!("link set dev {tap} address {address}"))
    }

    /// Where whoever opens the TAPs must be.
    pub fn namespace(&self) -> &Netns {
        &self.namespace
    }

    fn take_up(&self, interface: &str) -> Result<(), Error> {
        // Without an address of its own an interface sends no neighbour discovery.
        if Path::new("/proc/sys/net/ipv6").exists() {
            self.namespace.ip(&format!("link set dev {interface} addrgenmode none"))?;
        }
        self.namespace.ip(&format!("link set dev {interface} up"))
    }
}
