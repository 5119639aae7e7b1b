//! The state of a ring, for reports.
use virtio::RingLayout;
use virtqueue::{DeviceQueue, Position};

/// The state of a ring at one moment, read while its worker cannot use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Descriptors.
    pub size: u16,
    /// Chains that the driver has made available and the device has not taken. The driver states the number, so it
    /// may be shown but not relied on.
    pub available: u16,
    /// Whether the driver has enabled the ring.
    pub enabled: bool,
    /// The device's position in the ring.
    pub position: Position,
}

impl RingState {
    /// The state of a device half's ring.
    pub fn of(queue: &dyn DeviceQueue, enabled: bool) -> Self {
        RingState {
            size: queue.size().get(),
            available: queue.available(),
            enabled,
            position: queue.position(),
        }
    }

    /// The state of an enabled split ring.
    pub fn split(size: u16, available: u16, next_available: u16, next_used: u16) -> Self {
        let position = Position::Split { next_available, next_used };
        RingState { size, available, enabled: true, position }
    }

    /// The layout, and the positions at which the device takes and gives back next: indices of a split ring, slots
    /// of a packed one.
    pub fn place(&self) -> (&'static str, u16, u16) {
        match self.position {
            Position::Split { next_available, next_used } => {
                (RingLayout::Split.name(), next_available, next_used)
            }
            Position::Packed { next_available, next_used } => {
                (RingLayout::Packed.name(), next_available.slot, next_used.slot)
            }
        }
    }
}
