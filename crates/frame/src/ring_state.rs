//! The state of a ring, for reports.
use virtio::RingLayout;
use virtqueue::{DeviceQueue, Position};

/// A ring at one moment, read while its worker is kept from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Descriptors.
    pub size: u16,
    /// Chains that its driver has made available and that are not taken: as its driver says, so a figure to show,
    /// not to rely on.
    pub available: u16,
    /// Whether its driver lets data pass.
    pub enabled: bool,
    /// Where it is served.
    pub position: Position,
}

impl RingState {
    /// How the ring of a device half stands.
    pub fn of(queue: &dyn DeviceQueue, enabled: bool) -> Self {
        RingState {
            size: queue.size().get(),
            available: queue.available(),
            enabled,
            position: queue.position(),
        }
    }

    /// A split ring, enabled.
    pub fn split(size: u16, available: u16, next_available: u16, next_used: u16) -> Self {
        let position = Position::Split { next_available, next_used };
        RingState { size, available, enabled: true, position }
    }

    /// Its layout, and where the device takes and gives back next: an index of a split ring, a slot of a packed one.
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
