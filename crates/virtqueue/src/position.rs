//! Where a ring stands: what is saved when it stops and restored when it starts.

/// A place in a packed ring: slot and wrap counter (VIRTIO 1.3 §2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Slot, below the queue size.
    pub slot: u16,
    /// The wrap counter of the pass that the slot is in.
    pub wrap: bool,
}

impl Cursor {
    /// Where a fresh ring starts: slot 0, wrap counter 1.
    pub const START: Cursor = Cursor { slot: 0, wrap: true };

    /// From the wire: 15 bits of slot, the wrap counter on top (VIRTIO 1.3 §2.8.10, vhost-user "vring
    /// base").
    pub const fn from_bits(bits: u16) -> Self {
        Cursor { slot: bits & 0x7fff, wrap: bits & 0x8000 != 0 }
    }

    /// For the wire.
    #[inline(always)]
    pub const fn to_bits(self) -> u16 {
        self.slot | (self.wrap as u16) << 15
    }

    /// The place `slots` further in a ring of `size`; `slots` is at most `size`.
    #[inline(always)]
    pub const fn forward(self, slots: u16, size: u16) -> Self {
        let slot = self.slot as u32 + slots as u32;
        if slot >= size as u32 {
            Cursor { slot: (slot - size as u32) as u16, wrap: !self.wrap }
        } else {
            Cursor { slot: slot as u16, wrap: self.wrap }
        }
    }

    /// The place `slots` back.
    #[inline(always)]
    pub const fn back(self, slots: u16, size: u16) -> Self {
        if slots > self.slot {
            Cursor { slot: (self.slot as u32 + size as u32 - slots as u32) as u16, wrap: !self.wrap }
        } else {
            Cursor { slot: self.slot - slots, wrap: self.wrap }
        }
    }
}

/// Where a queue stands: everything a successor needs to go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Free-running indexes of a split ring.
    Split {
        /// Next entry of the available ring that the device will take.
        next_available: u16,
        /// Next entry of the used ring that the device will write.
        next_used: u16,
    },
    /// Cursors of a packed ring.
    Packed {
        /// Next slot that the device will take from.
        next_available: Cursor,
        /// Next slot that the device will write a used descriptor to.
        next_used: Cursor,
    },
}

impl Position {
    /// A fresh ring.
    pub const fn start(layout: crate::Layout) -> Self {
        match layout {
            crate::Layout::Split => Position::Split { next_available: 0, next_used: 0 },
            crate::Layout::Packed => {
                Position::Packed { next_available: Cursor::START, next_used: Cursor::START }
            }
        }
    }

    /// From the 32 bits of `SET_VRING_BASE`. A split ring's base holds only the available index: the
    /// queue was idle, or is recovered from its in-flight region, so used equals available.
    pub const fn from_vring_base(layout: crate::Layout, base: u32) -> Self {
        match layout {
            crate::Layout::Split => Position::Split { next_available: base as u16, next_used: base as u16 },
            crate::Layout::Packed => Position::Packed {
                next_available: Cursor::from_bits(base as u16),
                next_used: Cursor::from_bits((base >> 16) as u16),
            },
        }
    }

    /// For the reply to `GET_VRING_BASE`.
    pub const fn to_vring_base(self) -> u32 {
        match self {
            Position::Split { next_available, .. } => next_available as u32,
            Position::Packed { next_available, next_used } => {
                next_available.to_bits() as u32 | (next_used.to_bits() as u32) << 16
            }
        }
    }
}

/// Whether a notification is due: `event` lies in the entries `old .. new`, all modulo 2^16 (VIRTIO 1.3
/// §2.7.7.2 and Appendix A, `vring_need_event`).
#[inline(always)]
pub(crate) const fn event_passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn cursors_go_forward_and_back_across_the_wrap() {
        for size in [1u16, 2, 3, 7, 32768] {
            for slots in [0, 1, size / 2, size] {
                let mut cursor = Cursor::START;
                for _ in 0..5 {
                    let next = cursor.forward(slots, size);
                    assert!(next.slot < size);
                    assert_eq!(next.back(slots, size), cursor, "{slots} of {size}");
                    cursor = next;
                }
            }
            assert_eq!(Cursor::START.forward(size, size), Cursor { slot: 0, wrap: false });
        }
    }

    #[test]
    fn both_wrap_counters_survive_the_wire() {
        let position = Position::Packed {
            next_available: Cursor { slot: 5, wrap: false },
            next_used: Cursor { slot: 32767, wrap: true },
        };
        assert_eq!(position.to_vring_base(), 0xffff_0005);
        assert_eq!(Position::from_vring_base(Layout::Packed, 0xffff_0005), position);
        assert_eq!(Position::from_vring_base(Layout::Split, 0x1_fffe).to_vring_base(), 0xfffe);
    }

    #[test]
    fn an_event_is_due_once_per_pass() {
        assert!(event_passed(5, 6, 5) && event_passed(5, 8, 5) && event_passed(5, 8, 4));
        assert!(!event_passed(5, 5, 4) && !event_passed(5, 8, 6));
        assert!(event_passed(65535, 0, 65535) && !event_passed(7, 7, 7));
    }
}
