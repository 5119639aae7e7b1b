//! Options of workers, and state that all of them share.
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pipeline::{Key, Upcalls};

use crate::flow_sets::FlowSets;
use crate::tables::Tables;

/// Options of workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// The most frames that are taken from a source at a time.
    pub burst: usize,
    /// How long a worker polls after the last frame before it sleeps. A worker without a CPU of its own polls only
    /// while frames come more often than this.
    pub spin: Duration,
    /// How often a sleeping worker polls sources that cannot wake it.
    pub poll_interval: Duration,
    /// Called by each worker on its own thread before it touches a queue. The function gives up the rights that a
    /// worker does not need.
    pub confine: fn() -> io::Result<()>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            burst: 32,
            spin: Duration::from_micros(60),
            poll_interval: Duration::from_millis(5),
            confine: || Ok(()),
        }
    }
}

/// State that all workers share.
pub(crate) struct Common {
    pub tables: Tables,
    pub key: Key,
    pub options: WorkerOptions,
    /// All flow tables: a worker takes them as it starts, and gets others by a message.
    pub flows: Mutex<FlowSets>,
    /// The upcalls of all flow tables.
    pub upcalls: Arc<Upcalls>,
}

impl Common {
    /// The state of workers with these flow tables for all networks.
    pub fn new(tables: Tables, options: WorkerOptions, flows: Option<Arc<flow_tables::Tables>>) -> Self {
        let flows = FlowSets::of_all(flows);
        let upcalls = Arc::clone(&flows.upcalls);
        Common { tables, key: Key::random(), options, flows: Mutex::new(flows), upcalls }
    }

    /// The flow tables that hold now.
    pub fn flows(&self) -> FlowSets {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the tables that a worker takes as it starts.
    pub fn set_flows(&self, flows: FlowSets) {
        *self.flows.lock().unwrap_or_else(PoisonError::into_inner) = flows;
    }
}
