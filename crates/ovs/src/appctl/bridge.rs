//! The list of bridges. The thread that monitors the database writes it, and the thread that answers clients reads it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A bridge in the database, with its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The name.
    pub name: String,
    /// Whether the bridge's own interface is a port of the switch.
    pub has_local: bool,
    /// The bridge's other ports.
    pub ports: Vec<ServedPort>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPort {
    /// The port's number in OpenFlow (`ofport`).
    pub number: u16,
    /// The name.
    pub name: String,
    /// The port's type in the database.
    pub kind: String,
}

/// What the thread that answers clients knows of the database.
#[derive(Debug, Default)]
pub struct Known {
    /// The bridges, by name.
    pub bridges: Mutex<Vec<Served>>,
    /// Whether the database has limits of zones.
    pub limits_zones: AtomicBool,
}

/// One value for both threads.
pub type SharedBridges = Arc<Known>;
