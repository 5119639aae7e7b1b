//! The values that describe one ring, each checked where it is made.
use crate::bits::Features;

/// Which queue, below the number of queues that the session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VringIndex(u8);

impl VringIndex {
    /// `None` unless `index` is below `queue_count`; the protocol's own limit is 256 queues, for kick,
    /// call and err messages carry the index in eight bits.
    pub fn new(index: u32, queue_count: u16) -> Option<Self> {
        (index < u32::from(queue_count)).then(|| u8::try_from(index).ok()).flatten().map(Self)
    }

    /// The index as a number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The index as an index.
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

/// Number of descriptors in a queue: 1 to 32768 (VIRTIO 1.3 §2.7, §2.8.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueSize(u16);

impl QueueSize {
    /// The largest queue of either layout.
    pub const MAX: u16 = 1 << 15;

    /// `None` outside 1 to 32768.
    pub fn new(size: u32) -> Option<Self> {
        u16::try_from(size).ok().filter(|size| (1..=Self::MAX).contains(size)).map(Self)
    }

    /// The size as a number of descriptors.
    pub fn get(self) -> u16 {
        self.0
    }

    /// Split rings need a power of two (VIRTIO 1.3 §2.7), packed rings do not (§2.8).
    pub fn fits(self, layout: Layout) -> bool {
        layout == Layout::Packed || self.0.is_power_of_two()
    }
}

/// The memory layout of all rings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// VIRTIO 1.3 §2.7.
    Split,
    /// VIRTIO 1.3 §2.8.
    Packed,
}

impl Layout {
    /// The layout that these features agree on.
    pub fn of(features: Features) -> Self {
        if features.contains(Features::RING_PACKED) { Self::Packed } else { Self::Split }
    }
}

/// A place in a packed ring: a descriptor index and the wrap counter that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedPosition {
    /// Descriptor index, below 2¹⁵.
    pub index: u16,
    /// Wrap counter; starts at 1 (VIRTIO 1.3 §2.8.1).
    pub wrap: bool,
}

impl PackedPosition {
    fn from_bits(bits: u16) -> Self {
        Self { index: bits & 0x7fff, wrap: bits & 0x8000 != 0 }
    }

    fn to_bits(self) -> u16 {
        (self.index & 0x7fff) | u16::from(self.wrap) << 15
    }
}

/// Where a ring continues, as SET_VRING_BASE and GET_VRING_BASE carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VringBase {
    /// The free-running index of the next available entry.
    Split {
        /// Not reduced by the size of the ring.
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
    /// A ring that nobody has used yet.
    pub fn start(layout: Layout) -> Self {
        match layout {
            Layout::Split => Self::Split { next_available: 0 },
            Layout::Packed => {
                let start = PackedPosition { index: 0, wrap: true };
                Self::Packed { available: start, used: start }
            }
        }
    }

    /// Reads the `num` field of a base message; `None` where a split base has reserved bits set.
    ///
    /// A packed base whose upper half is zero carries the available position only: DPDK's virtio-user
    /// and vhost library write it so, and take the used position to be the same, for a stopped ring
    /// has nothing in flight.
    pub fn from_wire(layout: Layout, num: u32) -> Option<Self> {
        match layout {
            Layout::Split => Some(Self::Split { next_available: u16::try_from(num).ok()? }),
            Layout::Packed => {
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

    /// Whether this base is one of that layout and, if packed, lies within the ring.
    pub fn fits(self, layout: Layout, size: QueueSize) -> bool {
        match (self, layout) {
            (Self::Split { .. }, Layout::Split) => true,
            (Self::Packed { available, used }, Layout::Packed) => {
                available.index < size.get() && used.index < size.get()
            }
            _ => false,
        }
    }
}

/// Where the three parts of a ring lie: front-end addresses, or I/O virtual addresses with
/// VIRTIO_F_ACCESS_PLATFORM. Aligned, but not checked against the memory table: translating them is
/// the embedder's.
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
    pub fn misaligned(self, layout: Layout) -> Option<(&'static str, u64)> {
        let (driver, device) = match layout {
            Layout::Split => (2, 4),
            Layout::Packed => (4, 4),
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
    fn indices_and_sizes_have_bounds() {
        assert!(VringIndex::new(1, 2).is_some());
        assert!(VringIndex::new(2, 2).is_none());
        assert!(VringIndex::new(256, 1000).is_none());
        assert!(QueueSize::new(0).is_none());
        assert!(QueueSize::new(32769).is_none());
        assert!(QueueSize::new(65536 + 256).is_none());
        assert!(!QueueSize::new(3).unwrap().fits(Layout::Split));
        assert!(QueueSize::new(3).unwrap().fits(Layout::Packed));
    }

    #[test]
    fn packed_base_carries_both_wrap_counters() {
        let base = VringBase::Packed {
            available: PackedPosition { index: 5, wrap: true },
            used: PackedPosition { index: 3, wrap: false },
        };
        assert_eq!(base.to_wire(), 0x0003_8005);
        assert_eq!(VringBase::from_wire(Layout::Packed, 0x0003_8005), Some(base));
    }

    #[test]
    fn packed_base_without_a_used_half_takes_the_available_one() {
        let start = VringBase::start(Layout::Packed);
        assert_eq!(VringBase::from_wire(Layout::Packed, 0x8000), Some(start));
        assert_eq!(VringBase::from_wire(Layout::Packed, 0x8000_8000), Some(start));
    }

    #[test]
    fn split_base_has_no_upper_half() {
        assert_eq!(VringBase::from_wire(Layout::Split, 0x1_0000), None);
    }

    #[test]
    fn alignment_follows_the_layout() {
        let addresses = VringAddresses { descriptor: 16, driver: 2, device: 4 };
        assert_eq!(addresses.misaligned(Layout::Split), None);
        assert_eq!(addresses.misaligned(Layout::Packed), Some(("available address", 2)));
    }
}
