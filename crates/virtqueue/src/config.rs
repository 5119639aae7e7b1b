//! From a peer's statements about a queue to a running queue.

use std::sync::Arc;

use memory::{Address, AddressSpace, BindError, Mapping, Translator};

use crate::device::{DeviceParts, DeviceQueue, UsedLog};
use crate::driver::{DriverQueue, IndirectTables};
use crate::indirect_flags::IndirectFlags;
use crate::inflight::{InFlightError, PackedInFlight, SplitInFlight};
use crate::packed::{MappedPacked, PackedDevice, PackedDriver, PackedRing, Standing, standing};
use crate::split::{MappedSplit, SplitDevice, SplitDriver, SplitRing};
use crate::{
    Atomics, FeatureSet, PackedPosition, Platform, Position, QueueSize, QueueSizeError, RingFeatures,
    RingLayout, Smp, With,
};

/// The settings of a queue that a peer has sent. Each field is untrusted until the queue is activated.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Layout and features, as negotiated.
    pub features: RingFeatures,
    /// Number of descriptors, unchecked.
    pub size: u32,
    /// Descriptor table (split) or descriptor ring (packed).
    pub descriptors: Address,
    /// Available ring (split) or driver event suppression (packed).
    pub driver_area: Address,
    /// Used ring (split) or device event suppression (packed).
    pub device_area: Address,
    /// The position at which the ring starts.
    pub position: Position,
}

/// Why a queue cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActivateError {
    /// A size that the layout does not allow.
    #[error(transparent)]
    Size(#[from] QueueSizeError),
    /// A ring that is outside of shared memory, or not aligned.
    #[error("ring: {0}")]
    Ring(#[from] BindError),
    /// A position of the other layout, or one that no ring of this size can have.
    #[error("position {0:?} is not one of a ring of this layout and size")]
    Position(Position),
    /// The in-flight region cannot be used.
    #[error(transparent)]
    InFlight(#[from] InFlightError),
}

/// Further options of a device half.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// The log of writes for live migration.
    pub log: Option<UsedLog>,
    /// In-flight region: mapping and the queue's offset in it in bytes.
    pub in_flight: Option<(Arc<Mapping>, u64)>,
    /// How to treat indirect tables in a packed ring.
    pub indirect_flags: IndirectFlags,
}

/// Calls `$body` with `$F` as the type that stands for the run-time features.
macro_rules! with_features {
    ($features:expr, $F:ident => $body:expr) => {
        with_features!($features, $F => $body,
            (false, false, false) (false, false, true) (false, true, false) (false, true, true)
            (true, false, false) (true, false, true) (true, true, false) (true, true, true))
    };
    ($features:expr, $F:ident => $body:expr, $(($event_idx:literal, $indirect:literal, $in_order:literal))+) => {{
        let f = $features;
        match (f.event_idx, f.indirect, f.in_order) {
            $(($event_idx, $indirect, $in_order) => {
                type $F = With<$event_idx, $indirect, $in_order>;
                $body
            })+
        }
    }};
}

impl QueueConfig {
    /// The checked size.
    fn checked_size(&self) -> Result<QueueSize, ActivateError> {
        Ok(QueueSize::new(self.features.layout, self.size)?)
    }

    /// Checks that the position is one that such a ring can have, because wrong ones from the wire would
    /// otherwise show up as a peer's error later.
    fn checked_position(&self, size: QueueSize) -> Result<Position, ActivateError> {
        let fits = match (self.features.layout, self.position) {
            (RingLayout::Split, Position::Split { next_available, next_used }) => {
                next_available.wrapping_sub(next_used) <= size.get()
            }
            (RingLayout::Packed, Position::Packed { next_available, next_used }) => {
                next_available.slot < size.get() && next_used.slot < size.get()
            }
            _ => false,
        };
        if fits { Ok(self.position) } else { Err(ActivateError::Position(self.position)) }
    }

    /// The device half. The ring's memory is resolved here. The contents of the ring are checked when they are read.
    ///
    /// # Errors
    /// The size or the position is not one that this layout can have, or an area of the ring is not inside one
    /// region or not aligned (VIRTIO 1.3 §2.7, §2.8). The in-flight region is too small, or its content does not
    /// fit this queue.
    pub fn activate_device(
        &self,
        space: &Arc<AddressSpace>,
        options: DeviceOptions,
    ) -> Result<Box<dyn DeviceQueue>, ActivateError> {
        with_features!(self.features, F => match self.features.layout {
            RingLayout::Split => Ok(Box::new(self.split_device::<F>(space, options)?)),
            RingLayout::Packed => Ok(Box::new(self.packed_device::<F>(space, options)?)),
        })
    }

    /// The device half of a split ring, with features that are known at compile time.
    ///
    /// # Errors
    /// The size or the position is not one that this layout can have, or an area of the ring is not inside one
    /// region or not aligned (VIRTIO 1.3 §2.7, §2.8). The in-flight region is too small, or its content does not
    /// fit this queue.
    pub fn split_device<F: FeatureSet>(
        &self,
        space: &Arc<AddressSpace>,
        options: DeviceOptions,
    ) -> Result<SplitDevice<MappedSplit, F>, ActivateError> {
        let size = self.checked_size()?;
        let position = self.checked_position(size)?;
        let ring: MappedSplit<Smp> =
            MappedSplit::bind(space, size, self.descriptors, self.driver_area, self.device_area)?;
        let in_flight = options
            .in_flight
            .map(|(mapping, offset)| {
                let used_index = Smp::observe(&ring.used_header()[1]);
                SplitInFlight::open(&mapping, offset, size, used_index)
            })
            .transpose()?;
        let translator = Translator::new(Arc::clone(space));
        Ok(SplitDevice::new(DeviceParts { ring, size, position, translator, log: options.log, in_flight }))
    }

    /// The device half of a packed ring, with features that are known at compile time.
    ///
    /// # Errors
    /// The size or the position is not one that this layout can have, or an area of the ring is not inside one
    /// region or not aligned (VIRTIO 1.3 §2.7, §2.8). The in-flight region is too small, or its content does not
    /// fit this queue.
    ///
    /// Used descriptors that contradict the base are no error here: the first [`DeviceQueue::pop`] reports them.
    pub fn packed_device<F: FeatureSet>(
        &self,
        space: &Arc<AddressSpace>,
        options: DeviceOptions,
    ) -> Result<PackedDevice<MappedPacked, F>, ActivateError> {
        let size = self.checked_size()?;
        let position = self.checked_position(size)?;
        let ring: MappedPacked<Smp> =
            MappedPacked::bind(space, size, self.descriptors, self.driver_area, self.device_area)?;
        let base = match position {
            Position::Packed { next_used, .. } => next_used,
            Position::Split { .. } => PackedPosition::START,
        };
        let in_flight = options
            .in_flight
            .map(|(mapping, offset)| {
                PackedInFlight::open(&mapping, offset, size, base, |slot| {
                    Smp::observe(&ring.descriptors()[usize::from(slot)].flags)
                })
            })
            .transpose()?;
        let (mut position, mut broken) = (position, None);
        if let (Position::Packed { next_used, .. }, None) = (position, &in_flight) {
            match standing::<_, F>(&ring, next_used) {
                Standing::Fits => {}
                Standing::UsedUpTo(at) => position = Position::Packed { next_available: at, next_used: at },
                Standing::Unknown(error) => broken = Some(error),
            }
        }
        let translator = Translator::new(Arc::clone(space));
        let parts = DeviceParts { ring, size, position, translator, log: options.log, in_flight };
        Ok(PackedDevice::new(parts).with_indirect_flags(options.indirect_flags).stopped_by(broken))
    }

    /// The driver half, over rings that it owns and clears. `indirect` is the memory for indirect tables, and the
    /// number of descriptors of each table.
    ///
    /// # Errors
    /// The size is not one that this layout can have, or an area of the ring or the indirect tables are not inside
    /// one region or not aligned (VIRTIO 1.3 §2.7, §2.8).
    pub fn activate_driver(
        &self,
        space: &Arc<AddressSpace>,
        indirect: Option<(Address, u16)>,
    ) -> Result<Box<dyn DriverQueue>, ActivateError> {
        let size = self.checked_size()?;
        let tables = indirect
            .map(|(address, entries)| IndirectTables::new(space, address, entries, size))
            .transpose()?;
        let (descriptors, driver, device) = (self.descriptors, self.driver_area, self.device_area);
        macro_rules! bound {
            ($Ring:ident, $Queue:ident, $A:ty) => {{
                let ring: $Ring<$A> = $Ring::bind(space, size, descriptors, driver, device)?;
                with_features!(self.features, F => Ok(Box::new($Queue::<_, F>::new(ring, size, tables))))
            }};
        }
        match (self.features.layout, self.features.order_platform) {
            (RingLayout::Split, false) => bound!(MappedSplit, SplitDriver, Smp),
            (RingLayout::Split, true) => bound!(MappedSplit, SplitDriver, Platform),
            (RingLayout::Packed, false) => bound!(MappedPacked, PackedDriver, Smp),
            (RingLayout::Packed, true) => bound!(MappedPacked, PackedDriver, Platform),
        }
    }
}
