//! The bridges, which the thread that follows the database notes for the one that answers.

use std::sync::{Arc, Mutex};

/// A bridge, as the thread that follows the database knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Vec<ServedPort>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPort {
    /// Its number in OpenFlow (`ofport`).
    pub number: u16,
    /// Its name.
    pub name: String,
    /// The type that the database has.
    pub kind: String,
}

/// One list of bridges for both threads, by name.
pub type SharedBridges = Arc<Mutex<Vec<Served>>>;
