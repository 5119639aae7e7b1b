//! Room for frames that need several chains, and chains that can hold no frame.
use frame::DropReason;

use super::{MAX_CHAINS, Tally, ToGuest};

impl ToGuest {
    /// Finds room for a frame that needs several chains.
    pub(super) fn merged_room_for(
        &mut self,
        bytes: usize,
        wanted: usize,
        tally: &mut Tally<'_>,
    ) -> Result<usize, DropReason> {
        let (mut chains, mut have) = (0, 0);
        while have < bytes {
            let at = self.next + chains;
            if at == self.burst.len() {
                if chains == self.burst.capacity() {
                    return Err(DropReason::NoBufferLargeEnough);
                }
                // All chains tend to be of the same size.
                let missing = (bytes - have) * chains / have.max(1);
                self.pop_more(missing + wanted, tally)?;
                if self.next + chains != at {
                    // The full burst was given back, so the chains that were gathered so far must be popped again.
                    (chains, have) = (0, 0);
                    continue;
                }
            }
            let chain = self.burst.chain(at);
            if !self.usable(chain) {
                // The chains of a frame are consecutive (VIRTIO 1.3 §5.1.6.4): the frame can neither continue behind
                // this chain nor begin before it.
                self.pass_over(chains + 1)?;
                (chains, have) = (0, 0);
                continue;
            }
            have += chain.writable_bytes() as usize;
            chains += 1;
        }
        Ok(chains)
    }

    /// Leaves chains unwritten. They are given back to the driver with the others.
    #[cold]
    pub(super) fn pass_over(&mut self, chains: usize) -> Result<(), DropReason> {
        self.next += chains;
        self.unusable += chains;
        if self.unusable > MAX_CHAINS {
            // A driver could post such chains as fast as they are given back.
            self.dry = Some(DropReason::NoBufferLargeEnough);
            return Err(DropReason::NoBufferLargeEnough);
        }
        Ok(())
    }
}
