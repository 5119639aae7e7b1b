//! Packets in one direction only, one after the other: pings to an address that nobody has, so that nobody answers.

use super::network::NetworkPath;

/// Which way packets go.
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

    /// As `tautline kvm path` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetRx => "net-rx",
            Self::NetTx => "net-tx",
        }
    }
}

/// Pings on one path's network. A shell of whoever sends runs [`Pings::prepare`] once, then [`Pings::send`].
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
            // Of nobody: the machine's stack has it, and drops it.
            Direction::NetTx => NOBODY.into(),
        };
        Pings { address: nobody(&self.machine_address()), mac }
    }

    /// Pings that leave the sender in the same way, and that the path's far end does not take: what the sender
    /// itself costs on [`NetworkPath::Direct`], whose sender has a card of its own.
    pub fn pings_past_it(self) -> Pings {
        // An address of its own: both are prepared before either is sent.
        Pings { address: other(&self.machine_address(), 8), mac: NOBODY.into() }
    }
}

const NOBODY: &str = "52:54:00:00:0f:0f";

/// An address of a path's network that nobody has.
fn nobody(address: &str) -> String {
    other(address, 9)
}

fn other(address: &str, host: u8) -> String {
    address.rsplit_once('.').map_or_else(String::new, |(network, _)| format!("{network}.{host}"))
}

impl Pings {
    /// Pings into an interface that drops all: what sending costs by itself. The address is the interface's own.
    pub fn into_dummy(address: &str) -> Self {
        Self { address: nobody(address), mac: NOBODY.into() }
    }

    /// The address that they go to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes it known which Ethernet address they go to, so that nobody is asked.
    pub fn prepare(&self) -> String {
        let Self { address, mac } = self;
        format!(
            "dev=$(ip -o route get {address} | sed 's/.* dev \\([^ ]*\\).*/\\1/'); ip neigh replace {address} lladdr {mac} dev $dev"
        )
    }

    /// So many, one every 20 ms; by a ping that takes whole seconds only.
    pub fn send(&self, count: u32) -> String {
        format!("ping -c {count} -i 0.02 -W 1 {} >/dev/null; true", self.address)
    }
}
