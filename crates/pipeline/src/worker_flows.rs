//! The state of one worker for flow tables.
use std::sync::Arc;

use ::flow::Key;
use flow_tables::{Cache, HeaderWindow, Outcome, Surroundings, Tables};

use crate::PortId;

/// Outcomes that are remembered for the frames of one port.
const PLACES: usize = 1024;

/// Flow tables, and what one worker writes for each frame: the outcomes of former frames, by port.
#[derive(Debug)]
pub struct WorkerFlows {
    pub(crate) tables: Arc<Tables>,
    /// The beginning of the frame at hand.
    pub(crate) window: HeaderWindow,
    caches: Vec<Option<Cache>>,
    outcome: Outcome,
}

impl WorkerFlows {
    /// For these tables.
    pub fn new(tables: Arc<Tables>) -> Self {
        let window = HeaderWindow::new(&[], 0, tables.max_tags());
        WorkerFlows { tables, window, caches: Vec::new(), outcome: Outcome::default() }
    }

    /// Other tables hold from now on. The former ones are returned, so that another thread frees their memory.
    pub fn set_tables(&mut self, tables: Arc<Tables>) -> Arc<Tables> {
        std::mem::replace(&mut self.tables, tables)
    }

    /// Ports have come or gone: outcomes that are remembered do not hold any more.
    pub fn forget(&mut self) {
        self.caches.iter_mut().flatten().for_each(Cache::forget);
    }

    /// Executes the flow tables on the frame in the window, which came from this port.
    pub(crate) fn execute(
        &mut self,
        port: PortId,
        metadata: &Key,
        around: &mut impl Surroundings,
    ) -> &Outcome {
        let at = usize::from(port.0);
        if at >= self.caches.len() {
            self.caches.resize_with(at + 1, || None);
        }
        let cache = self.caches[at].get_or_insert_with(|| Cache::new(PLACES));
        cache.execute(&self.tables, &mut self.window, metadata, around, &mut self.outcome);
        &self.outcome
    }
}
