//! Functions of a device half that run only at its start, after a crash, during a migration, or at a malformed ring.

use std::ops::Range;

use super::{Device, DeviceRing, Popped};
use crate::Burst;
use crate::error::{PopError, RingError};

impl<R: DeviceRing> Device<R> {
    /// A queue whose ring was found malformed before it began.
    pub(crate) fn stopped_by(mut self, error: Option<RingError>) -> Self {
        self.broken = error;
        self
    }

    #[cold]
    pub(super) fn stop(&mut self, popped: usize, error: PopError) -> Result<usize, PopError> {
        if let PopError::Malformed(malformed) = error {
            self.broken = Some(malformed);
        }
        // The chains before the bad one are good. The error comes with the next call.
        if popped > 0 { Ok(popped) } else { Err(error) }
    }

    /// Pops again the chains that a previous process had popped and not used, in their old order.
    #[cold]
    pub(super) fn pop_resubmitted(&mut self, burst: &mut Burst, max: usize) -> Popped {
        burst.work.begin();
        let mut popped = 0;
        while popped < max && !burst.work.is_enough() {
            let mut builder = self.translator.builder(&mut burst.arena);
            let first = builder.len();
            match self.ring.pop_resubmitted(&mut builder, &mut burst.work) {
                None => break,
                Some(Ok(chain)) => {
                    burst.work.chain(&chain);
                    burst.chains.push(chain);
                    popped += 1;
                }
                Some(Err(error)) => {
                    builder.truncate(first);
                    return (popped, Some(error));
                }
            }
        }
        (popped, None)
    }

    /// Buffers are marked before their used entries become visible. The entries are marked after the store that
    /// publishes them: if they were marked before it, a front-end could copy the page between mark and store and miss
    /// the entries.
    #[cold]
    #[inline(never)]
    pub(super) fn add_used_logged(&mut self, burst: &mut Burst, range: Range<usize>) {
        let Some(log) = &self.log else { return };
        for chain in &burst.chains[range.clone()] {
            let marked = log.mark_buffers(&self.translator, burst.writable(chain), chain.written);
            if let Err(error) = marked {
                self.broken.get_or_insert(error);
            }
        }
        let from = self.ring.next_used();
        self.publish_used(burst, range);
        let Some(log) = &self.log else { return };
        if let Err(error) = self.ring.mark_used(log, from) {
            self.broken.get_or_insert(error);
        }
    }

    #[cold]
    pub(super) fn log_events(&mut self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = self.ring.mark_events(log) {
            self.broken.get_or_insert(error);
        }
    }
}
