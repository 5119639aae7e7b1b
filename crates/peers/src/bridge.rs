//! The kernel's own bridge, with TAPs as ports.

use std::path::Path;

use crate::Error;
use crate::netns::{Netns, TapQueues};

const NAME: &str = "bridge0";
const NETFILTER: &str = "/proc/sys/net/bridge";

/// A bridge in a network namespace of its own: the bridge and all its TAPs are removed when this value is dropped or
/// the process ends.
///
/// Only the drivers of the TAPs send frames: the bridge has no spanning tree, no multicast snooping, and no IPv6
/// address that would be announced. Netfilter is turned off: if the kernel has it for bridges, it is on from the
/// start and fragments IP packets that are longer than the MTU, so that the frames that arrive differ from the sent
/// ones.
pub struct Bridge {
    namespace: Netns,
}

impl Bridge {
    /// A bridge without ports. Takes root.
    ///
    /// # Errors
    /// The test is not root, a program of [`Netns::new`] is missing, or the kernel has no bridges.
    pub fn new() -> Result<Self, Error> {
        let bridge = Self { namespace: Netns::new()? };
        bridge.namespace.ip(&format!("link add {NAME} type bridge stp_state 0 mcast_snooping 0"))?;
        let off = format!("for hook in {NETFILTER}/bridge-nf-call-*; do echo 0 > $hook || exit 1; done");
        // The folder exists only if the kernel's module br_netfilter is loaded.
        let output = bridge.namespace.run(&format!("[ ! -d {NETFILTER} ] || {{ {off}; }}"))?;
        if !output.success() {
            return Err(Error::refused("turning netfilter off on the bridge", output.stderr));
        }
        bridge.take_up(NAME)?;
        Ok(bridge)
    }

    /// Adds a port, which is a TAP with this name. The TAP carries frames while a process has it open.
    ///
    /// # Errors
    /// The kernel has no TAP devices, or the name is taken or invalid.
    pub fn tap(&self, name: &str, queues: TapQueues) -> Result<(), Error> {
        self.namespace.tap(name, queues)?;
        self.namespace.ip(&format!("link set dev {name} master {NAME}"))?;
        self.take_up(name)
    }

    /// Sets an address for a TAP that differs from the address of its driver. DPDK sets the driver's own address on
    /// the kernel's interface, and a bridge does not forward frames to the addresses of its own interfaces.
    ///
    /// # Errors
    /// The bridge has no such TAP, or `address` is not a unicast Ethernet address.
    pub fn set_address(&self, tap: &str, address: &str) -> Result<(), Error> {
        self.namespace.ip(&format!("link set dev {tap} address {address}"))
    }

    /// The network namespace of the bridge. Programs that open its TAPs must run there.
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
