//! Counts frames for which a table has no flow.
use std::sync::{Arc, OnceLock};

use flow::Flow;

use crate::Entry;

/// By table, an entry that counts the frames without a flow. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Misses(Arc<[OnceLock<Arc<Entry>>]>);

impl Default for Misses {
    fn default() -> Self {
        Self((0..256).map(|_| OnceLock::new()).collect())
    }
}

impl Misses {
    /// The entry that counts the frames for which a table has no flow.
    pub(crate) fn of(&self, table: u8) -> &Arc<Entry> {
        let entry = || Arc::new(Entry::new(Flow { table, ..Flow::default() }, None, 0, None));
        self.0[usize::from(table)].get_or_init(entry)
    }

    /// The number of these frames so far.
    pub(crate) fn count(&self, table: u8) -> u64 {
        self.0[usize::from(table)].get().map_or(0, |entry| entry.counters().get().0)
    }
}
