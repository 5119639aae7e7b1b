//! The bridge, which the thread that follows the database notes for the one that answers.

use std::sync::{Arc, Mutex};

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

/// One [`Served`] for both threads.
pub type SharedBridge = Arc<Mutex<Served>>;
