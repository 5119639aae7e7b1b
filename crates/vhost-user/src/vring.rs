//! The values that describe one ring. Each address is checked when the value is made.
pub use virtio::{PackedPosition, QueueSize, RingLayout};

use virtio::Features;

/// The index of a queue, below the session's number of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VringIndex(u8);

impl VringIndex {
    /// `None` unless `index` is below `queue_count`. The protocol allows 256 queues, because kick, call and err
    /// messages have the index in eight bits.
    pub fn new(index: u32, queue_count: u16) -> Option<Self> {
        (index < u32::from(queue_count)).then(|| u8::try_from(index).ok()).flatten().map(Self)
    }

    /// The index as a number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The index for use in arrays.
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

/// The layout of all rings, given the agreed features.
pub fn layout_of(features: Features) -> RingLayout {
    if features.contains(Features::RING_PACKED) { RingLayout::Packed } else { RingLayout::Split }
}

/// The position at which a ring continues, as in SET_VRING_BASE and GET_VRING_BASE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VringBase {
    /// The free-running index of the next available entry.
    Split {
        /// The index, not reduced by the size of the ring.
        next_available: u16,
    },
    /// Both positions with their wrap counters.
    Packed {
        /// The next descriptor to take.
        available: PackedPosition,
        /// The next descriptor to give back.
        used: PackedPosition,
    },
}

impl VringBase {
    /// The base of a ring that has not been used yet.
    pub fn start(layout: RingLayout) -> Self {
        match layout {
            RingLayout::Split => Self::Split { next_available: 0 },
            RingLayout::Packed => {
                let start = PackedPosition::START;
                Self::Packed { available: start, used: start }
            }
        }
    }

    /// Reads the `num` field of a base message. `None` if a split base has reserved bits set.
    ///
    /// A packed base whose upper half is zero has only the available position: DPDK's virtio-user and vhost library
    /// write it so. The used position is then the same, because a stopped ring has nothing in flight.
    pub fn from_wire(layout: RingLayout, num: u32) -> Option<Self> {
        match layout {
            RingLayout::Split => Some(Self::Split { next_available: u16::try_from(num).ok()? }),
            RingLayout::Packed => {
                let available = PackedPosition::from_bits(num as u16);
                let used = match (num >> 16) as u16 {
                    0 => available,
                    bits => PackedPosition::from_bits(bits),
                };
                Some(Self::Packed { available, used })
            }
        }
    }

    /// The `num` field of a base message.
    pub fn to_wire(self) -> u32 {
        match self {
            Self::Split { next_available } => u32::from(next_available),
            Self::Packed { available, used } => {
                u32::from(available.to_bits()) | u32::from(used.to_bits()) << 16
            }
        }
    }

    /// Whether this base belongs to that layout and, if packed, lies within the ring.
    pub fn fits(self, layout: RingLayout, size: QueueSize) -> bool {
        match (self, layout) {
            (Self::Split { .. }, RingLayout::Split) => true,
            (Self::Packed { available, used }, RingLayout::Packed) => {
                available.slot < size.get() && used.slot < size.get()
            }
            _ => false,
        }
    }
}

/// The addresses of a ring's three parts: front-end addresses, or I/O virtual addresses with
/// VIRTIO_F_ACCESS_PLATFORM. They are aligned, but not checked against the memory table: the embedder translates
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VringAddresses {
    /// Descriptor table (split) or descriptor ring (packed).
    pub descriptor: u64,
    /// Available ring (split) or driver event suppression (packed).
    pub driver: u64,
    /// Used ring (split) or device event suppression (packed).
    pub device: u64,
}

impl VringAddresses {
    /// The name and value of an address that breaks its alignment (VIRTIO 1.3 §2.7, §2.8.10.1).
    pub fn misaligned(self, layout: RingLayout) -> Option<(&'static str, u64)> {
        let (driver, device) = match layout {
            RingLayout::Split => (2, 4),
            RingLayout::Packed => (4, 4),
        };
        [
            ("descriptor address", self.descriptor, 16),
            ("available address", self.driver, driver),
            ("used address", self.device, device),
        ]
        .into_iter()
        .find_map(|(name, address, align)| (address % align != 0).then_some((name, address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_have_bounds() {
        assert!(VringIndex::new(1, 2).is_some());
        assert!(VringIndex::new(2, 2).is_none());
        assert!(VringIndex::new(256, 1000).is_none());
    }

    #[test]
    fn packed_base_carries_both_wrap_counters() {
        let base = VringBase::Packed {
            available: PackedPosition { slot: 5, wrap: true },
            used: PackedPosition { slot: 3, wrap: false },
        };
        assert_eq!(base.to_wire(), 0x0003_8005);
        assert_eq!(VringBase::from_wire(RingLayout::Packed, 0x0003_8005), Some(base));
    }

    #[test]
    fn packed_base_without_a_used_half_takes_the_available_one() {
        let start = VringBase::start(RingLayout::Packed);
        assert_eq!(VringBase::from_wire(RingLayout::Packed, 0x8000), Some(start));
        assert_eq!(VringBase::from_wire(RingLayout::Packed, 0x8000_8000), Some(start));
    }

    #[test]
    fn split_base_has_no_upper_half() {
        assert_eq!(VringBase::from_wire(RingLayout::Split, 0x1_0000), None);
    }

    #[test]
    fn alignment_follows_the_layout() {
        let addresses = VringAddresses { descriptor: 16, driver: 2, device: 4 };
        assert_eq!(addresses.misaligned(RingLayout::Split), None);
        assert_eq!(addresses.misaligned(RingLayout::Packed), Some(("available address", 2)));
    }
}
