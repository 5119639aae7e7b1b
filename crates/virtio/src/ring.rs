//! Properties of a virtqueue that all ends agree on: layout, size, positions in a packed ring, and the layout of the
//! memory in which vhost-user devices track what is in flight.

/// The layout of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingLayout {
    /// Descriptor table, available ring and used ring are separate (VIRTIO 1.3 §2.7).
    Split,
    /// One ring that both sides write (VIRTIO 1.3 §2.8).
    Packed,
}

impl RingLayout {
    /// The name of a ring layout, for people.
    pub fn name(self) -> &'static str {
        match self {
            RingLayout::Split => "split",
            RingLayout::Packed => "packed",
        }
    }

    /// Bytes of one queue's part of an in-flight region: header and descriptor states (vhost-user, "Inflight I/O
    /// tracking"), rounded up to a cache line, as in libvhost-user and DPDK's vhost library. The fields of the packed
    /// header end at byte 29, and the states are aligned to 8 bytes.
    pub fn in_flight_bytes(self, size: QueueSize) -> u64 {
        let (header, state) = match self {
            RingLayout::Split => (16, 16),
            RingLayout::Packed => (32, 32),
        };
        (header + state * u64::from(size.get())).next_multiple_of(64)
    }
}

/// A number of descriptors that the specification allows: 1 to 32768 (VIRTIO 1.3 §2.7, §2.8.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueSize(u16);

/// A queue size that the specification does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {layout:?} queue of {size} descriptors; VIRTIO 1.3 {} allows {}", rule(*layout).0, rule(*layout).1)]
pub struct QueueSizeError {
    /// The layout for which the size was checked.
    pub layout: RingLayout,
    /// The number that was given.
    pub size: u32,
}

fn rule(layout: RingLayout) -> (&'static str, &'static str) {
    match layout {
        RingLayout::Split => ("§2.7", "powers of two from 1 to 32768"),
        RingLayout::Packed => ("§2.8.10.1", "1 to 32768"),
    }
}

impl QueueSize {
    /// The largest queue of either layout.
    pub const MAX: u16 = 1 << 15;

    /// Checks a number of descriptors for a layout.
    ///
    /// # Errors
    /// `size` is 0 or above 32768, or the layout is split and `size` is no power of two.
    pub fn new(layout: RingLayout, size: u32) -> Result<Self, QueueSizeError> {
        Self::of_any_layout(size).filter(|size| size.fits(layout)).ok_or(QueueSizeError { layout, size })
    }

    /// A size that at least one layout allows, for use before the layout is known.
    pub fn of_any_layout(size: u32) -> Option<Self> {
        u16::try_from(size).ok().filter(|size| (1..=Self::MAX).contains(size)).map(Self)
    }

    /// Whether the layout allows this size: split rings need a power of two (§2.7), packed rings do not (§2.8).
    pub fn fits(self, layout: RingLayout) -> bool {
        layout == RingLayout::Packed || self.0.is_power_of_two()
    }

    /// Number of descriptors.
    #[inline(always)]
    pub fn get(self) -> u16 {
        self.0
    }
}

/// A position in a packed ring: slot and wrap counter (VIRTIO 1.3 §2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedPosition {
    /// Slot, below the queue size.
    pub slot: u16,
    /// The wrap counter of the pass that the slot is in.
    pub wrap: bool,
}

impl PackedPosition {
    /// Where a fresh ring starts: slot 0, wrap counter 1.
    pub const START: PackedPosition = PackedPosition { slot: 0, wrap: true };

    /// Reads the format of the specifications: slot in 15 bits, wrap counter in the top bit (VIRTIO 1.3 §2.8.10,
    /// vhost-user "vring base").
    pub const fn from_bits(bits: u16) -> Self {
        PackedPosition { slot: bits & 0x7fff, wrap: bits & 0x8000 != 0 }
    }

    /// Writes the format of the specifications.
    #[inline(always)]
    pub const fn to_bits(self) -> u16 {
        self.slot | (self.wrap as u16) << 15
    }

    /// The position `slots` further in a ring of `size`; `slots` is at most `size`.
    #[inline(always)]
    pub const fn forward(self, slots: u16, size: u16) -> Self {
        let slot = self.slot as u32 + slots as u32;
        if slot >= size as u32 {
            PackedPosition { slot: (slot - size as u32) as u16, wrap: !self.wrap }
        } else {
            PackedPosition { slot: slot as u16, wrap: self.wrap }
        }
    }

    /// The position `slots` back.
    #[inline(always)]
    pub const fn back(self, slots: u16, size: u16) -> Self {
        if slots > self.slot {
            PackedPosition { slot: (self.slot as u32 + size as u32 - slots as u32) as u16, wrap: !self.wrap }
        } else {
            PackedPosition { slot: self.slot - slots, wrap: self.wrap }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_each_layout_allows() {
        for size in [0, 32769, 65536, u32::MAX] {
            assert!(
                QueueSize::new(RingLayout::Split, size).is_err()
                    && QueueSize::new(RingLayout::Packed, size).is_err()
            );
        }
        assert!(QueueSize::new(RingLayout::Split, 3).is_err());
        for size in [1, 2, 256, 32768] {
            assert_eq!(QueueSize::new(RingLayout::Split, size).unwrap().get(), size as u16);
        }
        assert!((1..=32768).all(|size| QueueSize::new(RingLayout::Packed, size).is_ok()));
    }

    #[test]
    fn positions_go_forward_and_back_across_the_wrap() {
        for size in [1u16, 2, 3, 7, 32768] {
            for slots in [0, 1, size / 2, size] {
                let mut position = PackedPosition::START;
                for _ in 0..5 {
                    let next = position.forward(slots, size);
                    assert!(next.slot < size);
                    assert_eq!(next.back(slots, size), position, "{slots} of {size}");
                    position = next;
                }
            }
            assert_eq!(PackedPosition::START.forward(size, size), PackedPosition { slot: 0, wrap: false });
        }
    }

    #[test]
    fn in_flight_sizes_are_those_of_the_c_structures() {
        let bytes = |layout: RingLayout, size| layout.in_flight_bytes(QueueSize::new(layout, size).unwrap());
        assert_eq!(bytes(RingLayout::Split, 256), 4160);
        assert_eq!(bytes(RingLayout::Packed, 256), 8256);
        assert_eq!(bytes(RingLayout::Split, 1), 64);
    }
}
