//! The position of a ring: saved when it stops and restored when it starts.

use virtio::{PackedPosition, RingLayout};

/// The position of a queue: everything that the next process needs to continue from it.
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
        next_available: PackedPosition,
        /// Next slot that the device will write a used descriptor to.
        next_used: PackedPosition,
    },
}

impl Position {
    /// A fresh ring.
    pub const fn start(layout: RingLayout) -> Self {
        match layout {
            RingLayout::Split => Position::Split { next_available: 0, next_used: 0 },
            RingLayout::Packed => {
                Position::Packed { next_available: PackedPosition::START, next_used: PackedPosition::START }
            }
        }
    }

    /// Reads the 32 bits of `SET_VRING_BASE`. A split ring's base has only the available index. Used equals
    /// available, because the queue was idle or is recovered from its in-flight region.
    pub const fn from_vring_base(layout: RingLayout, base: u32) -> Self {
        match layout {
            RingLayout::Split => Position::Split { next_available: base as u16, next_used: base as u16 },
            RingLayout::Packed => Position::Packed {
                next_available: PackedPosition::from_bits(base as u16),
                next_used: PackedPosition::from_bits((base >> 16) as u16),
            },
        }
    }

    /// The value for the reply to `GET_VRING_BASE`.
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

    #[test]
    fn both_wrap_counters_survive_the_wire() {
        let position = Position::Packed {
            next_available: PackedPosition { slot: 5, wrap: false },
            next_used: PackedPosition { slot: 32767, wrap: true },
        };
        assert_eq!(position.to_vring_base(), 0xffff_0005);
        assert_eq!(Position::from_vring_base(RingLayout::Packed, 0xffff_0005), position);
        assert_eq!(Position::from_vring_base(RingLayout::Split, 0x1_fffe).to_vring_base(), 0xfffe);
    }

    #[test]
    fn an_event_is_due_once_per_pass() {
        assert!(event_passed(5, 6, 5) && event_passed(5, 8, 5) && event_passed(5, 8, 4));
        assert!(!event_passed(5, 5, 4) && !event_passed(5, 8, 6));
        assert!(event_passed(65535, 0, 65535) && !event_passed(7, 7, 7));
    }
}
