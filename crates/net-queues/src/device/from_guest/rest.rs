//! A burst that ends early.
use super::FromGuest;

impl FromGuest {
    /// Notes that chains were popped that are not single pieces. `work` is the cost of all chains so far.
    #[inline(never)]
    pub(super) fn count_popped(&mut self, work: u32) {
        self.batch.count_popped(work.wrapping_sub(self.counted_work));
        self.counted_work = work;
    }

    /// Ends a burst whose batch is full. Chains from `from` on stay in the ring for the next burst. Returns the
    /// bytes of the frames that were made from chains that could not be put back.
    #[cold]
    pub(super) fn end_full(&mut self, mut from: usize) -> u64 {
        let mut bytes = 0;
        self.pop_limit = self.batch.enough(from);
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
