//! Sends packets in one direction only, one after the other: pings to an address that no host has, so that no answer
//! comes.

use super::network::NetworkPath;

/// The direction of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the machine's network stack to the guest's driver.
    NetRx,
    /// From the guest's driver to the machine's network stack.
    NetTx,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::NetRx, Self::NetTx];

    /// The name of the direction in `tautline kvm path`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetRx => "net-rx",
            Self::NetTx => "net-tx",
        }
    }
}

/// Pings on the network of one path. A shell of the sender runs [`Pings::prepare`] once, then [`Pings::send`].
#[derive(Clone, Debug)]
pub struct Pings {
    address: String,
    mac: String,
}

impl NetworkPath {
    /// Pings that take this path.
    pub fn pings(self, direction: Direction) -> Pings {
        let mac = match direction {
            Direction::NetRx => self.mac(),
            // No host has this address: the machine's stack receives the frame and drops it.
            Direction::NetTx => NOBODY.into(),
        };
        Pings { address: nobody(&self.machine_address()), mac }
    }

    /// Pings that leave the sender in the same way, but that the path's far end does not accept. They measure the cost
    /// of the sender alone on [`NetworkPath::Direct`], whose sender has a separate card.
    pub fn pings_past_it(self) -> Pings {
        // An address of its own: both are prepared before either is sent.
        Pings { address: other(&self.machine_address(), 8), mac: NOBODY.into() }
    }
}

const NOBODY: &str = "52:54:00:00:0f:0f";

/// An address of a path's network that no host has.
fn nobody(address: &str) -> String {
    other(address, 9)
}

fn other(address: &str, host: u8) -> String {
    address.rsplit_once('.').map_or_else(String::new, |(network, _)| format!("{network}.{host}"))
}

impl Pings {
    /// Pings to an interface that drops all packets: they measure the cost of sending alone. The interface has this
    /// address itself.
    pub fn into_dummy(address: &str) -> Self {
        Self { address: nobody(address), mac: NOBODY.into() }
    }

    /// The destination address of the pings.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The shell's command that sets the Ethernet address of the pings, so that no ARP request is sent.
    pub fn prepare(&self) -> String {
        let Self { address, mac } = self;
        format!(
            "dev=$(ip -o route get {address} | sed 's/.* dev \\([^ ]*\\).*/\\1/'); ip neigh replace {address} lladdr {mac} dev $dev"
        )
    }

    /// The shell's command that sends `count` pings, one every 20 ms.
    pub fn send(&self, count: u32) -> String {
        format!("ping -c {count} -i 0.02 -W 1 {} >/dev/null; true", self.address)
    }
}
