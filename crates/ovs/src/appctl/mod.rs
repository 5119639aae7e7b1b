//! Answers `ovs-appctl` (ovs-appctl(8)) and the programs that ask as it does: JSON-RPC on a socket that a pidfile leads
//! to. Answers have the form that Open vSwitch gives them, which exporters parse.
//!
//! A client costs the thread a bounded time and memory: a request of 64 KiB, one request a turn, [`CLIENTS`] at once.

mod clients;
mod commands;
mod coverage;
mod datapath;
mod socket;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use control::{Client, Request};
use serde_json::Value;

pub use clients::answer;
pub use socket::{Socket, SocketError};

use coverage::Coverage;

/// Clients at once. A further one ends the connection of the one that has been silent for longest.
pub const CLIENTS: usize = 16;

/// The bridge that the switch is, as the thread that follows the database knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The bridge's name; `None` before the database has one.
    pub bridge: Option<String>,
    /// Its ports.
    pub ports: Vec<ServedPort>,
}

/// A port of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPort {
    /// Its number in OpenFlow (`ofport`).
    pub number: u16,
    /// Its name.
    pub name: String,
    /// The type that the database has.
    pub kind: String,
}

/// The same [`Served`] for both threads.
pub type SharedBridge = Arc<Mutex<Served>>;

/// What commands ask.
#[derive(Debug)]
pub struct Room {
    control: PathBuf,
    bridge: SharedBridge,
    /// Addresses that the table has room for.
    addresses: usize,
    coverage: Coverage,
    /// Whether the process is to end.
    ends: bool,
}

impl Room {
    /// A room whose switch has this control socket and a table of so many addresses.
    pub fn new(control: PathBuf, bridge: SharedBridge, addresses: usize) -> Self {
        Room { control, bridge, addresses, coverage: Coverage::default(), ends: false }
    }

    /// The bridge now.
    fn bridge(&self) -> Served {
        self.bridge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The counters of the switch.
    fn counters(&self) -> Result<Value, String> {
        let ask = || Client::connect(&self.control)?.ask(Request::Stats);
        ask().map_err(|error| error.to_string())
    }
}
