//! A burst that is cut short.
use super::FromGuest;

impl FromGuest {
    /// The frames so far are enough: leaves the chains from `from` on in the ring, for the next burst. Returns the
    /// bytes of frames made all the same.
    #[cold]
    pub(super) fn leave_rest(&mut self, mut from: usize) -> u64 {
        let mut bytes = 0;
        // Chains that a predecessor had in flight cannot go back; there are no more than one burst of them.
        while let Some(burst) = self.batch.burst_mut()
            && from < burst.len()
            && self.queue.rewind(burst, from) == 0
        {
            let counters = &self.counters;
            let pushed = self.batch.push_chains(from, self.layout, |reason| counters.dropped(reason, 1));
            from = pushed.end;
            bytes += pushed.bytes;
        }
        bytes
    }
}
