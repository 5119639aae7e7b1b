//! A burst that ends early.
use super::FromGuest;

impl FromGuest {
    /// Chains were popped that are no single pieces: `work` is what all have cost so far.
    #[inline(never)]
    pub(super) fn count_popped(&mut self, work: u32) {
        self.batch.count_popped(work.wrapping_sub(self.counted_work));
        self.counted_work = work;
    }

    /// The batch is full: leaves the chains from `from` on, if there are any, in the ring for the next burst. Returns
    /// the bytes of frames made all the same.
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
