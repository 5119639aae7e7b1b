//! The room in a queue, for senders that wait rather than lose frames.
use virtqueue::PopError;

use super::ToGuest;

/// The most chains that [`ToGuest::room`](frame::Sink::room) counts: no burst is longer.
const ROOM_LOOKED_FOR: usize = 64;

/// The longest frame of an ordinary Ethernet, without its check sequence.
const USUAL_FRAME_BYTES: usize = 1514;

impl ToGuest {
    /// How many frames of the usual length the queue has room for, at least.
    pub(super) fn room_left(&mut self) -> usize {
        // If no frame can be delivered, there is nothing to wait for.
        if !self.enabled || self.broken.is_some() {
            return usize::MAX;
        }
        let missing = ROOM_LOOKED_FOR.saturating_sub(self.burst.len());
        if missing > 0
            && let Err(PopError::Malformed(_)) = self.pop(missing)
        {
            // `accept` finds the error again, and reports it.
            return usize::MAX;
        }
        // The next call of `accept` continues with these chains.
        let usable = self.burst.chains().filter(|chain| self.usable(*chain));
        if !self.options.mergeable {
            return usable.count();
        }
        let bytes = usable.map(|chain| chain.writable_bytes() as usize);
        let (count, total) = bytes.fold((0, 0), |(count, total), bytes| (count + 1, total + bytes));
        count.min(total / (self.options.layout.bytes() + USUAL_FRAME_BYTES))
    }
}
