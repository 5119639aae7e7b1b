//! Counts frames for which a table has no flow.
use std::sync::{Arc, OnceLock};

use flow::Flow;

use crate::{Entry, Tables};

/// By table, an entry that counts the frames without a flow. Clones of tables share it.
#[derive(Clone, Debug)]
pub(crate) struct Misses(Arc<[OnceLock<Arc<Entry>>]>);

impl Default for Misses {
    fn default() -> Self {
        Self((0..256).map(|_| OnceLock::new()).collect())
    }
}

impl Tables {
    /// The entry that counts the frames for which a table has no flow.
    pub(crate) fn missed(&self, table: u8) -> &Arc<Entry> {
        let entry = || Arc::new(Entry::new(Flow { table, ..Flow::default() }, None, 0, None));
        self.missed.0[usize::from(table)].get_or_init(entry)
    }

    /// The frames that have visited a table so far, and those of them that have matched a flow which is there. Frames of
    /// removed flows do not count.
    pub fn visits(&self, table: u8) -> (u64, u64) {
        let matched = self.all(table).map(|entry| entry.counters().get().0).fold(0, u64::saturating_add);
        let missed = self.missed.0[usize::from(table)].get().map_or(0, |entry| entry.counters().get().0);
        (matched.saturating_add(missed), matched)
    }
}
